//! The figures of a comparison's HTML page.

use crate::error::Error;
use crate::interrupt::STOP;
use cage::text::word;
use lab::{Case, Comparison, Runs};
use report::explain::{Asked, Both, MissedPeriod, Responses, missed_periods};
use report::{Figures, Recorder, ShownRun};

/// The number of missed periods that a page explains for each scheduler: [`MOST_MISSES`] if the page has at most
/// [`FEW_SCHEDULERS`] schedulers, else [`FEW_MISSES`].
const MOST_MISSES: usize = 5;
const FEW_MISSES: usize = 2;
const FEW_SCHEDULERS: usize = 4;

/// The figures of each scheduler's first run, which is simulated again for the figures. `None` if the command is to
/// stop. `load` is the command's options for the machine and the workload, and `named` those for each scheduler.
pub fn figures(
    comparison: &Comparison,
    load: &[String],
    named: &[Vec<String>],
) -> Result<Option<Figures>, Error> {
    let cases = comparison.cases();
    let durations = comparison.measured.iter().map(|measured| {
        let first = measured.runs.first();
        first.map_or(0, |run| run.simulated_ns)
    });
    let shown = shown(&cases, durations, &comparison.runs, load, named);
    or_stopped(shown.map(|shown| Figures::new(comparison, &shown, made_by())))
}

/// The figures of only the first run of `case`, as [`figures`] makes them.
pub fn of_run(
    case: &Case<'_>,
    runs: &Runs,
    load: &[String],
    named: Vec<String>,
) -> Result<Option<Figures>, Error> {
    let watch = lab::Watch {
        done: &|| (),
        stop: &STOP,
    };
    let Some(measured) = lab::measure_part(case, runs, 0..1, watch)? else {
        return Ok(None);
    };
    let duration = measured.runs.iter().map(|run| run.simulated_ns);
    let shown = shown(&[*case], duration, runs, load, &[named]);
    or_stopped(shown.map(|shown| Figures::of_runs(&[*case], &[0], &shown, made_by())))
}

fn or_stopped(figures: Result<Figures, Error>) -> Result<Option<Figures>, Error> {
    match figures {
        Err(Error::Stopped) => Ok(None),
        result => result.map(Some),
    }
}

/// The first run of each of `cases`, whose durations are `durations_ns`.
fn shown(
    cases: &[Case<'_>],
    durations_ns: impl Iterator<Item = u64>,
    runs: &Runs,
    load: &[String],
    named: &[Vec<String>],
) -> Result<Vec<ShownRun>, Error> {
    let count = cases.len();
    let most = match count <= FEW_SCHEDULERS {
        true => MOST_MISSES,
        false => FEW_MISSES,
    };
    let asked = Asked {
        threads: Vec::new(),
        at: None,
        worst: most,
    };
    let mut shown = Vec::new();
    for ((case, duration_ns), named) in cases.iter().zip(durations_ns).zip(named) {
        let mut recorder = Recorder::new(case.machine, duration_ns, count);
        let mut responses = Responses::new(case.machine, &asked);
        let mut both = Both(&mut recorder, &mut responses);
        lab::trace_until(case, runs, &mut both, &STOP)?;
        shown.push(ShownRun {
            run: recorder.finish(),
            misses: misses(case, runs, responses)?,
            explain: explain(load, named, runs),
        });
    }
    Ok(shown)
}

/// The missed periods that lost most time, explained by a run of their own.
fn misses(
    case: &Case<'_>,
    runs: &Runs,
    responses: Responses<'_>,
) -> Result<Vec<MissedPeriod>, Error> {
    let judged = lab::judged_threads(case.workload);
    let judged: Vec<&str> = judged.iter().map(String::as_str).collect();
    let missed = responses.choose(&judged).missed;
    match missed.is_empty() {
        true => Ok(Vec::new()),
        false => Ok(missed_periods(case, runs, missed, &STOP)?),
    }
}

/// The command that explains this run, with the options `load` and those that name the scheduler.
fn explain(load: &[String], named: &[String], runs: &Runs) -> String {
    let mut seed = match runs.seed {
        1 => Vec::new(),
        seed => vec!["--seed".to_owned(), seed.to_string()],
    };
    if !runs.noise {
        seed.push("--exact".to_owned());
    }
    let words = load.iter().chain(named).cloned();
    let words: Vec<String> = words.chain(seed).collect();
    format!("equipoise explain {}", joined(&words))
}

fn made_by() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let version = env!("EQUIPOISE_VERSION");
    format!("equipoise {} (version {version})", joined(&words))
}

fn joined(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|it| word(it)).collect();
    words.join(" ")
}
