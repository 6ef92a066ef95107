//! The selection of experiments, and of their rows.

use crate::Experiment;
use glob::Pattern;
use machine::input::BadInput;

/// The experiments `names` (if empty, all built-in ones), with only the rows whose name matches
/// `rows`, and with `scale` times less work where possible. It is an error if nothing matches or
/// nothing can be scaled.
pub fn select(
    names: &[String],
    rows: Option<&Pattern>,
    scale: Option<u32>,
) -> Result<Vec<Experiment>, Box<BadInput>> {
    let mut experiments: Vec<Experiment> = match names {
        [] => Experiment::names()
            .map(Experiment::find)
            .collect::<Result<_, _>>()?,
        names => names
            .iter()
            .map(|name| Experiment::find(name))
            .collect::<Result<_, _>>()?,
    };
    if let Some(glob) = rows {
        let mut names: Vec<String> = Vec::new();
        for experiment in &mut experiments {
            names.extend(experiment.rows().map(|(_, row)| row.name.clone()));
            experiment.retain_rows(|row| glob.matches(row));
        }
        experiments.retain(|experiment| experiment.rows().next().is_some());
        if experiments.is_empty() {
            names.sort_unstable();
            names.dedup();
            return Err(Box::new(BadInput::whole(
                format!("no row matches `{glob}`"),
                format!("expected a pattern for {}", names.join(", ")),
            )));
        }
    }
    if let Some(scale) = scale {
        let mut any = false;
        for experiment in &mut experiments {
            any |= experiment.scale(scale)?;
        }
        if !any {
            return Err(Box::new(BadInput::whole(
                "none of these rows can be scaled".to_owned(),
                "expected rows of streamcluster, bodytrack or blackscholes".to_owned(),
            )));
        }
    }
    Ok(experiments)
}
