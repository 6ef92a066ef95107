//! The figures of a comparison's HTML page.

use crate::error::Error;
use crate::interrupt::STOP;
use lab::Comparison;
use report::{Figures, Recorder};

/// The figures of each scheduler's first run, which is simulated again to draw them. `None` if the
/// command has to stop.
pub fn figures(comparison: &Comparison) -> Result<Option<Figures>, Error> {
    match drawn(comparison) {
        Err(Error::Stopped) => Ok(None),
        result => result.map(Some),
    }
}

fn drawn(comparison: &Comparison) -> Result<Figures, Error> {
    let mut first_runs = Vec::new();
    for (case, measured) in comparison.cases().iter().zip(&comparison.measured) {
        let duration_ns = measured.runs.first().map_or(0, |run| run.simulated_ns);
        let mut recorder = Recorder::new(case.machine, duration_ns);
        lab::trace_until(case, &comparison.runs, &mut recorder, &STOP)?;
        first_runs.push(recorder.finish());
    }
    Ok(Figures::new(comparison, &first_runs, made_by()))
}

/// The command as it was typed, and its version.
fn made_by() -> String {
    let words: Vec<String> = std::env::args().skip(1).map(quoted).collect();
    let version = env!("EQUIPOISE_VERSION");
    format!("equipoise {} (version {version})", words.join(" "))
}

/// `word`, quoted so that a shell takes it as one word.
fn quoted(word: String) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+=:,/@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
