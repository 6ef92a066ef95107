//! Predictions beside measurements: the recorded load of a trial, simulated under the same schedulers.

use crate::cli::Files;
use crate::error::Error;
use crate::foreign;
use crate::interrupt::STOP;
use crate::say;
use ::trial::{Outcome, Plan};
use lab::{Comparison, Described, Recipe, Results, Runs, Scheduler, Watch};
use machine::Machine;
use native::Kernel;
use report::{Cell, Page, Table, Tone};
use std::path::PathBuf;
use workload::Workload;
use workload::recording::Replay;

/// The figures of a trial, and the metrics of a replay that predict them.
const FIGURES: [(&str, &str); 2] = [("time", "makespan"), ("wakeup_latency_p99", "latency")];
/// From this error on, the thread that differs most is named, per cent.
const NAMED_PCT: f64 = 12.0;
/// A difference larger than this should be predicted in its direction, per cent.
const LARGE_PCT: f64 = 10.0;

/// The simulated counterpart of this computer.
pub struct Predictor {
    machine: Machine,
    text: String,
    /// For each scheduler of the plan; `None` if it cannot be simulated.
    schedulers: Vec<Option<Scheduler>>,
}

/// A figure under a scheduler, relative to the baseline.
struct Pair {
    scheduler: String,
    figure: String,
    measured: f64,
    predicted: f64,
}

impl Predictor {
    /// Measures the costs of this computer under the kernel's own scheduler, and finds the schedulers.
    pub fn new(plan: &Plan) -> Result<Predictor, Error> {
        let found = crate::detect::measured(true, true)?;
        let text = found.machine_file("detected").text;
        Ok(Predictor {
            machine: Machine::parse("detected.toml", &text)?,
            text,
            schedulers: plan.schedulers.iter().map(simulated).collect(),
        })
    }

    /// Simulates the load of `trace`, and adds the predictions to the page of `measured`.
    pub fn add(
        &self,
        page: &mut Page,
        trace: Option<&[u8]>,
        measured: &Results<'_>,
        outcome: &Outcome,
    ) -> Result<(), Error> {
        let Some(trace) = trace else {
            page.remarks
                .push("prediction: none, because no turn was recorded.".to_owned());
            return Ok(());
        };
        let (at, schedulers): (Vec<usize>, Vec<Scheduler>) = outcome
            .schedulers
            .iter()
            .enumerate()
            .filter_map(|(at, &index)| Some((at, self.schedulers[index].clone()?)))
            .unzip();
        let simulation = self.simulate(trace, schedulers)?;
        if simulation.runs.count > 0 {
            let [pairs, threads] = pairs(measured, &simulation, &at);
            show(page, &pairs);
            page.remarks.extend(culprits(&pairs, &threads));
        }
        Ok(())
    }

    /// Simulates the load of `trace` under each of `schedulers`.
    pub fn simulate(
        &self,
        trace: &[u8],
        mut schedulers: Vec<Scheduler>,
    ) -> Result<Comparison, Error> {
        let imported = trace::import::import("the recording", trace, Some(&self.machine))?;
        let replay = Replay::new("recorded", imported.recording.clone());
        let recipe = Recipe {
            machine: Described::Text {
                name: "detected".to_owned(),
                file: "detected.toml".to_owned(),
                text: self.text.clone(),
                params: None,
            },
            workload: Described::Text {
                name: "recorded".to_owned(),
                file: "recorded".to_owned(),
                text: crate::import::text(&imported.recording)?,
                params: None,
            },
            nodes: None,
        };
        foreign::send_elsewhere(&mut schedulers, &recipe);
        let runs = Runs {
            count: 1,
            seed: 1,
            jobs: 0,
            // The recording has the noise of its machine.
            noise: false,
        };
        let watch = Watch {
            done: &|| (),
            stop: &STOP,
        };
        let machine = Machine::parse("detected.toml", &self.text)?;
        let workload: Box<dyn Workload> = Box::new(replay);
        Ok(Comparison::run(machine, workload, schedulers, runs, watch)?)
    }
}

/// The simulated counterpart of a scheduler; if there is none, `None`, with a note.
fn simulated(scheduler: &::trial::Scheduler) -> Option<Scheduler> {
    let (name, kernel) = (scheduler.simulated(), kernel());
    let found = match name.starts_with("scx_") {
        true => foreign::check_cage(false)
            .and_then(|()| {
                let files = [Files(vec![PathBuf::from(name)])];
                foreign::load(&files, &[], &[], kernel)
            })
            .map(|mut loaded| loaded.remove(0)),
        false => Scheduler::policy_in(name, kernel).map_err(Error::from),
    };
    if found.is_err() {
        say!(
            "note: {} cannot be simulated, so it has no prediction",
            scheduler.name
        );
    }
    found.ok()
}

/// The simulated release that is closest to this computer's.
pub fn kernel() -> Kernel {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let major = release
        .split('.')
        .next()
        .and_then(|it| it.parse::<u32>().ok());
    match major.is_some_and(|it| it < 7) {
        true => "6.12".parse().unwrap_or_default(),
        false => Kernel::default(),
    }
}

/// The ratio of each figure to the baseline's, for the schedulers `at` these indices of the measurement; then
/// the ratios of each thread's latency.
fn pairs(measured: &Results<'_>, simulation: &Comparison, at: &[usize]) -> [Vec<Pair>; 2] {
    let simulated = simulation.findings();
    let ratio = |results: &Results<'_>, name: &str, index: usize| {
        let row = results
            .rows
            .iter()
            .find(|row| row.measure.metric.name == name)?;
        let value = |index: usize| {
            let judged = row.entries[index].judged()?;
            lab::mean_interval(&judged).map(|(mean, _)| mean)
        };
        Some(value(index)? / value(0)?).filter(|it| it.is_finite())
    };
    let pair = |(simulated_at, &measured_at): (usize, &usize), own: &str, other: &str| {
        Some(Pair {
            scheduler: measured.schedulers[measured_at].to_owned(),
            figure: own.to_owned(),
            measured: ratio(measured, own, measured_at)?,
            predicted: ratio(&simulated, other, simulated_at)?,
        })
    };
    // Both ratios are to the kernel's own scheduler.
    let of = |own: &str, other: &str| -> Vec<Pair> {
        let others = at.iter().enumerate().filter(|(_, place)| **place > 0);
        others.filter_map(|it| pair(it, own, other)).collect()
    };
    let threads = measured.rows.iter().filter_map(|row| {
        let name = &row.measure.metric.name;
        let thread = name.strip_suffix("/wakeup_latency_p99")?;
        Some(of(name, &format!("{thread}/latency")))
    });
    let threads = threads.flatten().collect();
    [
        FIGURES
            .iter()
            .flat_map(|(own, other)| of(own, other))
            .collect(),
        threads,
    ]
}

impl Pair {
    /// The excess of the predicted over the measured ratio, per cent.
    fn error_pct(&self) -> f64 {
        100.0 * (self.predicted / self.measured - 1.0)
    }
}

/// The thread whose latency is predicted worst, for each scheduler with a wrong prediction.
fn culprits(pairs: &[Pair], threads: &[Pair]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for pair in pairs.iter().filter(|it| it.error_pct().abs() > NAMED_PCT) {
        if !names.contains(&&*pair.scheduler) {
            names.push(&pair.scheduler);
        }
    }
    let worst = |name: &str| {
        let own = threads.iter().filter(|it| it.scheduler == name);
        let far = |it: &Pair| it.error_pct().abs();
        let worst = own.max_by(|a, b| far(a).total_cmp(&far(b)))?;
        let thread = worst.figure.split('/').next().unwrap_or_default();
        Some(format!(
            "prediction: under {name} the latency of the thread {thread} differs most: {:.2} times that under the kernel's own \
             scheduler, predicted {:.2}.",
            worst.measured, worst.predicted
        ))
    };
    names.into_iter().filter_map(worst).collect()
}

/// Adds a table of predictions, and their mean error.
fn show(page: &mut Page, pairs: &[Pair]) {
    let row = |pair: &Pair| -> Vec<Cell> {
        let change = 100.0 * (pair.measured - 1.0);
        let is_other_way = change.abs() > LARGE_PCT && change * (pair.predicted - 1.0) < 0.0;
        let tone = match is_other_way {
            true => Tone::Worse,
            false => Tone::Plain,
        };
        vec![
            pair.figure.clone().into(),
            pair.scheduler.clone().into(),
            format!("{:.3}", pair.measured).into(),
            Cell::new(format!("{:.3}", pair.predicted), tone),
            format!("{:+.1} %", pair.error_pct()).into(),
        ]
    };
    if pairs.is_empty() {
        page.remarks
            .push("prediction: no scheduler has one.".to_owned());
        return;
    }
    let mean = pairs.iter().map(|pair| pair.error_pct().abs()).sum::<f64>() / pairs.len() as f64;
    page.remarks.push(format!(
        "prediction: ratios to the kernel's own scheduler. A recorded turn under it was simulated on this machine, with \
         costs measured beforehand; the mean error is {mean:.1} %."
    ));
    page.tables.push(Table {
        title: "Prediction".to_owned(),
        header: ["measure", "policy", "measured", "predicted", "error"]
            .map(str::to_owned)
            .to_vec(),
        text_columns: 2,
        rows: pairs.iter().map(row).collect(),
        ..Table::default()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(figure: &str, measured: f64, predicted: f64) -> Pair {
        Pair {
            scheduler: "x".to_owned(),
            figure: figure.to_owned(),
            measured,
            predicted,
        }
    }

    #[test]
    fn a_wrong_prediction_names_the_thread_that_differs_most() {
        let threads = [
            pair("ui/wakeup_latency_p99", 1.0, 1.1),
            pair("io/wakeup_latency_p99", 2.0, 1.0),
        ];
        assert!(culprits(&[pair("time", 1.0, 1.1)], &threads).is_empty());
        let says = culprits(&[pair("time", 1.0, 1.2)], &threads);
        assert!(
            says[0].contains("thread io differs most: 2.00 times"),
            "{says:?}"
        );
    }

    #[test]
    fn a_table_has_the_errors_and_marks_the_wrong_direction() {
        let mut page = Page::default();
        show(
            &mut page,
            &[pair("time", 0.8, 1.04), pair("time", 1.0, 0.9)],
        );
        let rows = &page.tables[0].rows;
        assert_eq!(rows[0][3], Cell::new("1.040", Tone::Worse));
        assert_eq!(rows[1][4].text, "-10.0 %");
        assert!(
            page.remarks[0].contains("the mean error is 20.0 %"),
            "{:?}",
            page.remarks
        );
    }
}
