//! The selection of experiments, and of their rows.

use crate::{Experiment, Peer, Scheduler, Start};
use glob::Pattern;
use machine::input::BadInput;
use native::Kernel;

/// The experiments `names` (if empty, all built-in experiments), with only the rows whose name matches `rows`, and with
/// 1/`scale` of the work where possible. It is an error if nothing matches or nothing can be scaled. Published
/// schedulers run in processes that `start` starts; a column is left out if its scheduler cannot be run here.
pub fn select(
    names: &[String],
    rows: Option<&Pattern>,
    scale: Option<u32>,
    start: &Start,
) -> Result<Vec<Experiment>, Box<BadInput>> {
    let mut experiments: Vec<Experiment> = match names {
        [] => Experiment::names()
            .map(|name| Experiment::find(name, rows, &load))
            .collect::<Result<_, _>>()?,
        names => names
            .iter()
            .map(|name| Experiment::find(name, rows, &load))
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
    for experiment in &mut experiments {
        experiment.run_elsewhere(start);
    }
    Ok(experiments)
}

/// The published scheduler `peer`, or the reason why it cannot be run here.
fn load(peer: Peer) -> Result<Result<Scheduler, String>, Box<BadInput>> {
    match peer.obstacle() {
        Some(reason) => Ok(Err(reason)),
        None => peer.load(&[], Kernel::default()).map(Ok),
    }
}
