//! Predictions beside measurements: the recorded load of a trial, simulated under the same schedulers.

use crate::cli::{Build, Files};
use crate::error::Error;
use crate::foreign;
use crate::interrupt::STOP;
use crate::say;
use ::trial::linux::SchedulerCosts;
use ::trial::{Outcome, Plan};
use lab::{Comparison, Described, Recipe, Results, Runs, Scheduler, Watch};
use machine::Machine;
use native::Kernel;
use report::{Cell, Page, Table, Tone};
use std::collections::BTreeMap;
use workload::Workload;
use workload::recording::{Recording, Replay};

/// The figures of a trial, the metrics of a replay that predict them, and the factor by which the replay may miss a
/// figure under the kernel's own scheduler. A replay that differs by more counts as another load. For latencies,
/// `validate` allows the same factor.
const FIGURES: [(&str, &str, f64); 2] = [("time", "makespan", 1.15), (LATENCY, "latency", 1.5)];
const LATENCY: &str = "wakeup_latency_p99";
/// The least part of a turn in % that must be recorded for its latencies to be compared.
const LEAST_RECORDED_PCT: f64 = 50.0;
/// The error in % from which the thread that differs most is named.
const NAMED_PCT: f64 = 12.0;
/// The difference in % above which a prediction should have the right direction.
const LARGE_PCT: f64 = 10.0;

/// The simulated counterpart of this computer.
pub struct Predictor {
    /// This computer with its costs while events are recorded, as in the recording.
    traced: Machine,
    /// The machine file with the costs while nothing is recorded.
    text: String,
    /// The number of the host's CPUs that execute this computer's CPUs, if the host has fewer.
    pub host_cpus: Option<u32>,
    /// The cost in ns of a wakeup and the switch after it under the kernel's own scheduler.
    wakeup_ns: u64,
    /// The counterpart of each scheduler of the plan; `None` if it cannot be simulated.
    schedulers: Vec<Option<Scheduler>>,
}

/// A figure under a scheduler, relative to the baseline.
struct Pair {
    scheduler: String,
    figure: String,
    measured: f64,
    predicted: f64,
    /// The figure under the kernel's own scheduler, measured and replayed.
    own: [f64; 2],
    /// The factor by which the two values of `own` may differ.
    bound: f64,
}

impl Predictor {
    /// Measures the costs of this computer under the kernel's own scheduler, and finds the schedulers.
    pub fn new(plan: &Plan) -> Result<Predictor, Error> {
        let text = |traced| -> Result<String, Error> {
            Ok(crate::detect::measured(traced, true)?
                .machine_file(NAME)
                .text)
        };
        let traced = machine(&text(true)?)?;
        let text = text(false)?;
        let cannot = |error| Error::Write(format!("cannot calibrate: {error}"));
        Ok(Predictor {
            host_cpus: machine(&text)?.host_cpus,
            traced,
            text,
            wakeup_ns: ::trial::linux::wakeup_and_switch().map_err(cannot)?,
            schedulers: plan.schedulers.iter().map(simulated).collect(),
        })
    }

    pub fn machine_file(&self) -> &str {
        &self.text
    }

    /// The load of `trace`, without the cost of recording it.
    pub fn load(&self, trace: &[u8]) -> Result<Recording, Error> {
        let imported = trace::import::unprobed("the recording", trace, Some(&self.traced))?;
        Ok(imported.recording)
    }

    /// Simulates the load of `trace`, and adds the predictions to the page of `measured`. `costs` has the costs of each
    /// scheduler by name.
    pub fn add(
        &self,
        page: &mut Page,
        trace: Option<&[u8]>,
        measured: &Results<'_>,
        outcome: &Outcome,
        costs: &BTreeMap<String, SchedulerCosts>,
    ) -> Result<(), Error> {
        let Some(trace) = trace else {
            page.remarks
                .push("There is no prediction, because no turn was recorded.".to_owned());
            return Ok(());
        };
        let recording = self.load(trace)?;
        let mut all = [Vec::new(), Vec::new()];
        let Some(own) = &self.schedulers[0] else {
            return Ok(());
        };
        for (at, &index) in outcome.schedulers.iter().enumerate().skip(1) {
            let Some(scheduler) = &self.schedulers[index] else {
                continue;
            };
            let name = measured.schedulers[at];
            let text = match costs.get(name) {
                Some(costs) => self.with_costs(scheduler.name(), costs),
                None => {
                    page.remarks.push(format!(
                        "Decisions of {name} take no time in its prediction, because the costs of its callbacks could not be measured."
                    ));
                    self.text.clone()
                }
            };
            let both = vec![own.clone(), scheduler.clone()];
            let simulation = simulate(&text, &recording, both)?;
            if simulation.runs.count > 0 {
                for (all, own) in all.iter_mut().zip(pairs(measured, &simulation, at)) {
                    all.extend(own);
                }
            }
        }
        let [mut figures, threads] = all;
        if let Some(pct) = sampled_pct(outcome) {
            figures.retain(|pair| pair.figure != LATENCY);
            page.remarks.push(format!(
                "{LATENCY} is not predicted: only {pct:.0} % of a turn was recorded, and the measurement lacks waits longer than \
                 a recorded window. --record always records every turn completely."
            ));
        }
        show(page, &figures);
        page.remarks.extend(culprits(&figures, &threads));
        Ok(())
    }

    /// Simulates the load of `trace` under each of `schedulers`. Their decisions take no time.
    pub fn simulate(&self, trace: &[u8], schedulers: Vec<Scheduler>) -> Result<Comparison, Error> {
        simulate(&self.text, &self.load(trace)?, schedulers)
    }

    /// The machine file with the costs of the scheduler that the simulator calls `name`. The time of a wakeup outside
    /// of its callbacks is the cost of sched_ext, which replaces the cost of the fair class, so the file has the
    /// difference.
    fn with_costs(&self, name: &str, costs: &SchedulerCosts) -> String {
        let outside = costs.wakeup_ns.saturating_sub(costs.callbacks_ns);
        let [ext, fair] = [
            outside.saturating_sub(self.wakeup_ns),
            self.wakeup_ns.saturating_sub(outside),
        ];
        let classes = format!("ext_class_ns = {ext}\nfair_class_ns = {fair}\nwakeup_ns");
        let mut text = self.text.replace("wakeup_ns", &classes);
        let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
        text += &format!("\n[callbacks.\"{quoted}\"]\nsource = \"measured by the trial\"\n");
        for (callback, ns) in &costs.callbacks {
            text += &format!("{callback} = {ns}\n");
        }
        text
    }
}

const NAME: &str = "detected";

fn machine(text: &str) -> Result<Machine, Error> {
    Ok(Machine::parse(&format!("{NAME}.toml"), text)?)
}

/// Simulates `recording` under each of `schedulers`, on the machine of the file `text`.
fn simulate(
    text: &str,
    recording: &Recording,
    mut schedulers: Vec<Scheduler>,
) -> Result<Comparison, Error> {
    let replay = Replay::new("recorded", recording.clone());
    let described = |name: &str, file: String, text: String| Described::Text {
        name: name.to_owned(),
        file,
        text,
        params: None,
    };
    let load = crate::import::text(recording)?;
    let recipe = Recipe {
        machine: described(NAME, format!("{NAME}.toml"), text.to_owned()),
        workload: described("recorded", "recorded".to_owned(), load),
        nodes: None,
    };
    foreign::send_elsewhere(&mut schedulers, &recipe);
    let runs = Runs {
        count: 1,
        seed: 1,
        jobs: 0,
        // The recording already has the noise of its machine.
        noise: false,
    };
    let watch = Watch {
        done: &|| (),
        stop: &STOP,
    };
    let workload: Box<dyn Workload> = Box::new(replay);
    Ok(Comparison::run(
        machine(text)?,
        workload,
        schedulers,
        runs,
        watch,
    )?)
}

/// The simulated counterpart of a scheduler. If there is none, prints a note and returns `None`.
fn simulated(scheduler: &::trial::Scheduler) -> Option<Scheduler> {
    let name = scheduler.simulated();
    let files = name.starts_with("scx_").then(|| Files(vec![name.into()]));
    let build = Build {
        kernel: kernel(),
        ..Build::default()
    };
    let found = foreign::or_policy(files.as_ref(), name, &build);
    if let Err(error) = &found {
        let why = match error {
            Error::Input(bad) => format!(": {}", bad.message()),
            _ => String::new(),
        };
        say!(
            "note: {} cannot be simulated, so it has no prediction{why}",
            scheduler.name
        );
    }
    found.ok()
}

/// The simulated release for this computer's: Linux 6.12 if this computer's is older than 7.0, else the default.
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

/// The smallest recorded part of a turn in %, if it is below [`LEAST_RECORDED_PCT`].
fn sampled_pct(outcome: &Outcome) -> Option<f64> {
    let turns = outcome.blocks.iter().flatten();
    let parts = turns.filter_map(|turn| Some(100.0 / turn.recorded.as_ref()?.scale(turn)));
    let least = parts.min_by(f64::total_cmp)?;
    (least < LEAST_RECORDED_PCT).then_some(least)
}

/// For the scheduler with index `at` in the measurement, the ratio of each figure to the baseline's figure, and then
/// the ratio of each thread's latency. In the simulation this scheduler is the second one.
fn pairs(measured: &Results<'_>, simulation: &Comparison, at: usize) -> [Vec<Pair>; 2] {
    let simulated = simulation.findings();
    let value = |results: &Results<'_>, name: &str, index: usize| {
        let row = results
            .rows
            .iter()
            .find(|row| row.measure.metric.name == name)?;
        let judged = row.entries[index].judged()?;
        lab::mean_interval(&judged).map(|(mean, _)| mean)
    };
    // Both ratios are to the kernel's own scheduler.
    let pair = |own: &str, other: &str, bound: f64| {
        let [real, replayed] = [value(measured, own, 0)?, value(&simulated, other, 0)?];
        let pair = Pair {
            scheduler: measured.schedulers[at].to_owned(),
            figure: own.to_owned(),
            measured: value(measured, own, at)? / real,
            predicted: value(&simulated, other, 1)? / replayed,
            own: [real, replayed],
            bound,
        };
        (pair.measured.is_finite() && pair.predicted.is_finite()).then_some(pair)
    };
    let threads = measured.rows.iter().filter_map(|row| {
        let name = &row.measure.metric.name;
        let thread = name.strip_suffix("/wakeup_latency_p99")?;
        pair(name, &format!("{thread}/latency"), f64::MAX)
    });
    let threads = threads.collect();
    let figures = FIGURES
        .iter()
        .filter_map(|&(own, other, bound)| pair(own, other, bound));
    [figures.collect(), threads]
}

impl Pair {
    /// The excess in % of the predicted over the measured ratio.
    fn error_pct(&self) -> f64 {
        100.0 * (self.predicted / self.measured - 1.0)
    }

    /// Is the replay like the load under the kernel's own scheduler, so that it can predict the load under other
    /// schedulers?
    fn is_like_load(&self) -> bool {
        let [real, replayed] = self.own;
        replayed <= self.bound * real && real <= self.bound * replayed
    }
}

/// A sentence for each scheduler with a wrong prediction, which names the thread whose latency is predicted worst.
fn culprits(pairs: &[Pair], threads: &[Pair]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    let wrong = |it: &&Pair| it.is_like_load() && it.error_pct().abs() > NAMED_PCT;
    for pair in pairs.iter().filter(wrong) {
        if !names.contains(&&*pair.scheduler) {
            names.push(&pair.scheduler);
        }
    }
    let worst = |name: &str| {
        let own = threads.iter().filter(|it| it.scheduler == name);
        let far = |it: &Pair| it.error_pct().abs();
        let worst = own.max_by(|a, b| far(a).total_cmp(&far(b)))?;
        let figure = &*worst.figure;
        let thread = figure.rsplit_once('/').map_or(figure, |(thread, _)| thread);
        Some(format!(
            "Under {name} the prediction misses the latency of the thread {thread} most: measured {:.2} times that under the \
             kernel's own scheduler, predicted {:.2} times.",
            worst.measured, worst.predicted
        ))
    };
    names.into_iter().filter_map(worst).collect()
}

fn show(page: &mut Page, pairs: &[Pair]) {
    let row = |pair: &Pair| -> Vec<Cell> {
        let mut cells = vec![
            pair.figure.clone().into(),
            pair.scheduler.clone().into(),
            format!("{:.3}", pair.measured).into(),
        ];
        if !pair.is_like_load() {
            cells.extend(["-", "-"].map(|it| Cell::new(it, Tone::Dim)));
            return cells;
        }
        let change = 100.0 * (pair.measured - 1.0);
        let is_other_way = change.abs() > LARGE_PCT && change * (pair.predicted - 1.0) < 0.0;
        let tone = match is_other_way {
            true => Tone::Worse,
            false => Tone::Plain,
        };
        cells.push(Cell::new(format!("{:.3}", pair.predicted), tone));
        cells.push(format!("{:+.1} %", pair.error_pct()).into());
        cells
    };
    if pairs.is_empty() {
        page.remarks
            .push("There is no prediction for any scheduler.".to_owned());
        return;
    }
    for (figure, ..) in FIGURES {
        let mut of = pairs.iter().filter(|it| it.figure == figure);
        if let Some(pair) = of.find(|it| !it.is_like_load()) {
            let [real, replayed] = pair.own;
            page.remarks.push(format!(
                "{figure} is not predicted: under the kernel's own scheduler it is {replayed:.3} in the replay and {real:.3} in the \
                 trial. The recording does not show all that the load depends on, or the load differs from turn to turn."
            ));
        }
    }
    let like = || pairs.iter().filter(|it| it.is_like_load());
    let mean = like().map(|it| it.error_pct().abs()).sum::<f64>() / like().count() as f64;
    if mean.is_finite() {
        page.remarks.push(format!(
        "Predictions are ratios to the kernel's own scheduler. A turn that was recorded under that scheduler was simulated on \
         this machine, with costs measured before the first turn that counts; the mean error is {mean:.1} %."
        ));
    }
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
            own: [1.0, 1.0],
            bound: 1.15,
        }
    }

    #[test]
    fn a_wrong_prediction_names_the_thread_that_differs_most() {
        let threads = [
            pair("ui/wakeup_latency_p99", 1.0, 1.1),
            pair("kworker/0:1/wakeup_latency_p99", 2.0, 1.0),
        ];
        assert!(culprits(&[pair("time", 1.0, 1.1)], &threads).is_empty());
        let says = culprits(&[pair("time", 1.0, 1.2)], &threads);
        assert!(
            says[0].contains("thread kworker/0:1 most: measured 2.00 times"),
            "{says:?}"
        );
    }

    #[test]
    fn a_replay_unlike_the_load_predicts_nothing_and_says_why() {
        let mut page = Page::default();
        let other = Pair {
            own: [0.3, 0.5],
            ..pair("time", 1.0, 1.5)
        };
        show(&mut page, &[other, pair("wakeup_latency_p99", 1.0, 1.1)]);
        let rows = &page.tables[0].rows;
        assert_eq!([&*rows[0][3].text, &*rows[1][3].text], ["-", "1.100"]);
        assert!(page.remarks[0].contains("it is 0.500 in the replay and 0.300 in the trial"));
        assert!(page.remarks[1].contains("the mean error is 10.0 %"));
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
