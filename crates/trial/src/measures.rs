//! The measures of a trial, in the form of the measures of a comparison.

use crate::{Outcome, Recorded, Thread, Turn};
use lab::{Judged, Measure, Run, Samples, Threads, nearest_rank};
use machine::MAX_CPUS;
use std::collections::HashMap;
use workload::{Better, Goal, Metric, Role, Unit};

/// The largest number of threads with a measure of their own, which are the threads that ran longest.
const MOST_THREADS: usize = 8;

/// The value of a turn; `None` if the turn has no value.
type Column = Box<dyn Fn(&Turn) -> Option<f64>>;

/// A figure of a turn.
pub struct Figure {
    /// The figure's name, such as `wakeup_latency_p99`.
    pub name: &'static str,
    unit: Unit,
    better: Better,
    role: Role,
    /// The figure's value; `None` if the turn has no value.
    pub of: fn(&Turn) -> Option<f64>,
}

const LATENCY: Role = Role::Decides(Goal::Latency);
const EXPLAINS: Role = Role::Explains(Goal::Latency);

/// All figures. The first figure that is above 0 in every turn decides about the end of a sequential trial.
pub fn figures() -> &'static [Figure] {
    &FIGURES
}

const fn lower(name: &'static str, unit: Unit, role: Role, of: fn(&Turn) -> Option<f64>) -> Figure {
    Figure {
        name,
        unit,
        better: Better::Lower,
        role,
        of,
    }
}

static FIGURES: [Figure; 20] = [
    lower("frame_time_p99", Unit::Ms, LATENCY, |it| frame_ms(it, 99.0)),
    lower("time", Unit::S, Role::Decides(Goal::Throughput), |it| {
        it.is_timed.then_some(it.elapsed_ns as f64 / 1e9)
    }),
    lower("wakeup_latency_p99", Unit::Us, LATENCY, |it| {
        latency_us(it, 99.0)
    }),
    lower("missed_periods", Unit::Percent, LATENCY, missed_pct),
    lower(
        "energy",
        Unit::Other("J"),
        Role::Decides(Goal::Energy),
        |it| Some(it.energy_uj? as f64 / 1e6),
    ),
    lower("frame_time_mean", Unit::Ms, EXPLAINS, |it| {
        lab::mean_interval(&it.frames_ms).map(|(mean, _)| mean)
    }),
    Figure {
        name: "frames_1%_low",
        unit: Unit::Other("1/s"),
        better: Better::Higher,
        role: EXPLAINS,
        of: |it| crate::frames::one_percent_low(&it.frames_ms),
    },
    lower("jank", Unit::Percent, EXPLAINS, |it| {
        crate::frames::jank_pct(&it.frames_ms)
    }),
    lower(
        "cpu_time",
        Unit::S,
        Role::Explains(Goal::Throughput),
        |it| seconds(it.cpu_ns),
    ),
    lower(
        "cpu_pressure",
        Unit::S,
        Role::Explains(Goal::Throughput),
        |it| seconds(it.waited_ns),
    ),
    lower("context_switches", Unit::Count, Role::Detail, |it| {
        Some(it.switches? as f64)
    }),
    lower("wakeup_latency_mean", Unit::Us, Role::Detail, |it| {
        mean_latency_us(it)
    }),
    lower("wakeup_latency_p50", Unit::Us, Role::Detail, |it| {
        latency_us(it, 50.0)
    }),
    lower("wakeup_latency_p99.9", Unit::Us, Role::Detail, |it| {
        latency_us(it, 99.9)
    }),
    lower("run_time", Unit::S, Role::Detail, |it| {
        total(it, |it| it.ran_ns).map(|ns| ns / 1e9)
    }),
    lower("wait_time", Unit::S, Role::Detail, |it| {
        total(it, |it| it.latencies_ns.iter().sum()).map(|ns| ns / 1e9)
    }),
    lower("migrations", Unit::Count, Role::Detail, |it| {
        total(it, |it| it.migrations)
    }),
    lower(
        "power",
        Unit::Other("W"),
        Role::Explains(Goal::Energy),
        |it| Some(it.energy_uj? as f64 * 1e3 / it.elapsed_ns.max(1) as f64),
    ),
    Figure {
        name: "frequency",
        unit: Unit::Other("MHz"),
        better: Better::Neither,
        role: Role::Detail,
        of: |it| Some(it.khz? as f64 / 1e3),
    },
    Figure {
        name: "other_processes",
        unit: Unit::Percent,
        better: Better::Neither,
        role: Role::Detail,
        of: |it| it.others_pct,
    },
];

fn seconds(ns: Option<u64>) -> Option<f64> {
    Some(ns? as f64 / 1e9)
}

fn frame_ms(turn: &Turn, percent: f64) -> Option<f64> {
    nearest_rank(&mut turn.frames_ms.clone(), percent)
}

fn latencies_us(turn: &Turn) -> Option<Vec<f64>> {
    let threads = turn.recorded.as_ref()?.threads.iter();
    let latencies = threads.flat_map(|it| &it.latencies_ns);
    Some(latencies.map(|&ns| ns as f64 / 1e3).collect())
}

fn latency_us(turn: &Turn, percent: f64) -> Option<f64> {
    nearest_rank(&mut latencies_us(turn)?, percent)
}

fn mean_latency_us(turn: &Turn) -> Option<f64> {
    lab::mean_interval(&latencies_us(turn)?).map(|(mean, _)| mean)
}

/// The sum over all threads, estimated for the whole turn if only a part of it was recorded.
fn total(turn: &Turn, of: fn(&Thread) -> u64) -> Option<f64> {
    let recorded = turn.recorded.as_ref()?;
    let sum: u64 = recorded.threads.iter().map(of).sum();
    Some(sum as f64 * recorded.scale(turn))
}

fn missed_pct(turn: &Turn) -> Option<f64> {
    let threads = &turn.recorded.as_ref()?.threads;
    let all: u64 = threads.iter().map(|it| it.periods).sum();
    let missed: u64 = threads.iter().map(|it| it.missed).sum();
    (all > 0).then(|| 100.0 * missed as f64 / all as f64)
}

/// The runs of a trial, and their measures.
pub struct Measured {
    /// The measures; the deciding measures come first.
    pub measures: Vec<Measure>,
    /// The runs of each scheduler; runs with the same index are of one block.
    pub runs: Vec<lab::Measured>,
}

impl Measured {
    /// The runs of the complete blocks.
    pub fn new(outcome: &Outcome) -> Measured {
        let turns = || outcome.blocks.iter().flatten();
        let has = |of: &dyn Fn(&Turn) -> Option<f64>| turns().any(|turn| of(turn).is_some());
        let mut measures = Vec::new();
        let mut columns: Vec<Column> = Vec::new();
        let has_frames = has(&|turn| frame_ms(turn, 99.0));
        for figure in figures().iter().filter(|it| has(&it.of)) {
            // If there are frames, only frame times judge latency, because the player sees nothing else.
            let role = match (figure.role, figure.name) {
                (LATENCY, "wakeup_latency_p99" | "missed_periods") if has_frames => {
                    Role::Explains(Goal::Latency)
                }
                (role, _) => role,
            };
            let metric = Metric::new(figure.name, figure.unit, figure.better, role);
            measures.push(measure(metric, columns.len(), false));
            columns.push(Box::new(figure.of));
        }
        for kind in kinds(turns()) {
            measures.push(detail(
                format!("busy/{kind}"),
                Unit::S,
                Better::Neither,
                columns.len(),
            ));
            columns.push(Box::new(move |turn| {
                Some(*turn.busy_ns.get(&kind)? as f64 / 1e9)
            }));
        }
        for name in longest_running(turns()) {
            measures.push(detail(
                format!("{name}/wakeup_latency_p99"),
                Unit::Us,
                Better::Lower,
                columns.len(),
            ));
            columns.push(Box::new(move |turn| {
                let threads = &turn.recorded.as_ref()?.threads;
                let own = threads.iter().find(|it| it.name == name)?;
                let latencies = own.latencies_ns.iter().map(|&ns| ns as f64 / 1e3);
                nearest_rank(&mut latencies.collect::<Vec<f64>>(), 99.0)
            }));
        }
        let run = |turn: &Turn| run(turn, &columns);
        let of = |index: usize| lab::Measured {
            runs: outcome
                .blocks
                .iter()
                .map(|block| run(&block[index]))
                .collect(),
        };
        Measured {
            measures,
            runs: (0..outcome.schedulers.len()).map(of).collect(),
        }
    }
}

fn detail(name: String, unit: Unit, better: Better, column: usize) -> Measure {
    let metric = Metric {
        name: name.into(),
        ..Metric::new("", unit, better, Role::Explains(Goal::Latency))
    };
    measure(metric, column, true)
}

/// A run has one value of each measure, which may be a percentile itself.
fn measure(metric: Metric, column: usize, is_part: bool) -> Measure {
    let mut measure = Measure::new(metric, vec![column], is_part);
    measure.judged = Judged::Mean;
    measure
}

fn kinds<'a>(turns: impl Iterator<Item = &'a Turn>) -> Vec<String> {
    let mut kinds: Vec<String> = turns
        .flat_map(|turn| turn.busy_ns.keys().cloned())
        .collect();
    kinds.sort();
    kinds.dedup();
    match kinds.len() {
        1 => Vec::new(),
        _ => kinds,
    }
}

fn longest_running<'a>(turns: impl Iterator<Item = &'a Turn>) -> Vec<String> {
    let recorded = turns.filter_map(|turn| turn.recorded.as_ref());
    let mut ran: HashMap<&str, u64> = HashMap::new();
    for thread in recorded.flat_map(|it: &Recorded| &it.threads) {
        *ran.entry(&thread.name).or_default() += thread.ran_ns;
    }
    let mut names: Vec<(&str, u64)> = ran.into_iter().collect();
    names.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    names.truncate(MOST_THREADS);
    names.into_iter().map(|(name, _)| name.to_owned()).collect()
}

/// A turn as a run of a comparison.
fn run(turn: &Turn, columns: &[Column]) -> Run {
    let sample = |of: &Column| match of(turn) {
        Some(value) => Samples::new(&[value]),
        None => Samples::new(&[]),
    };
    let threads = turn.recorded.iter().flat_map(|it| &it.threads);
    let scale = turn.recorded.as_ref().map_or(1.0, |it| it.scale(turn));
    let total_of = |of| total(turn, of).unwrap_or(0.0) as u64;
    Run {
        samples: columns.iter().map(sample).collect(),
        counters: simulator::Counters {
            context_switches: turn
                .recorded
                .as_ref()
                .map_or(turn.switches.unwrap_or(0), |it| {
                    (it.switches as f64 * scale) as u64
                }),
            migrations: total_of(|it| it.migrations),
            wakeups: total_of(|it| it.latencies_ns.len() as u64),
            busy_ns: busy_of_cpus(turn),
            ..simulator::Counters::default()
        },
        simulated_ns: turn.elapsed_ns,
        threads: threads
            .map(|it| Threads {
                name: it.name.clone(),
                cpu_ns: (it.ran_ns as f64 * scale) as u64,
                longest_wait_ns: it.latencies_ns.iter().copied().max().unwrap_or(0),
            })
            .collect(),
        ..Run::default()
    }
}

/// The busy time of each CPU in ns, which is the same for all CPUs, because a turn has only sums. Empty if the number of
/// CPUs is not known.
fn busy_of_cpus(turn: &Turn) -> Vec<u64> {
    let all: u64 = turn.busy_ns.values().sum();
    let each = all.checked_div(turn.cpus.into()).unwrap_or(0);
    vec![each; MAX_CPUS.min(turn.cpus as usize)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::{Results, Statement};

    fn turn(seconds: f64, latency_us: u64) -> Turn {
        let thread = Thread {
            name: "worker".to_owned(),
            ran_ns: 1_000_000_000,
            latencies_ns: vec![1000 * latency_us; 200],
            periods: 100,
            missed: 1,
            ..Thread::default()
        };
        Turn {
            elapsed_ns: (seconds * 1e9) as u64,
            is_timed: true,
            recorded: Some(Recorded {
                threads: vec![thread],
                ..Recorded::default()
            }),
            ..Turn::default()
        }
    }

    fn outcome(blocks: &[[(f64, u64); 2]]) -> Outcome {
        let block = |pair: &[(f64, u64); 2]| pair.iter().map(|&(s, us)| turn(s, us)).collect();
        Outcome {
            schedulers: vec![0, 1],
            blocks: blocks.iter().map(block).collect(),
            ..Outcome::default()
        }
    }

    #[test]
    fn the_verdict_is_that_of_a_comparison() {
        let blocks = [
            [(2.0, 10), (1.8, 210)],
            [(2.1, 11), (1.9, 212)],
            [(2.2, 10), (1.97, 210)],
            [(2.0, 12), (1.79, 214)],
            [(2.1, 11), (1.88, 211)],
        ];
        let measured = Measured::new(&outcome(&blocks));
        let results = Results::new(vec!["eevdf", "x"], &measured.measures, &measured.runs);
        let time = results.verdict.of(Goal::Throughput).unwrap().statement();
        assert!(
            matches!(&time, Statement::Best(best, _) if *best == [1]),
            "{time:?}"
        );
        let latency = results.verdict.of(Goal::Latency).unwrap();
        assert!(latency.is_better(0, 1) && !latency.is_better(1, 0));
        let named = |name: &str| results.rows.iter().any(|it| it.measure.metric.name == name);
        assert!(named("worker/wakeup_latency_p99") && named("missed_periods") && !named("energy"));
    }

    #[test]
    fn a_percentile_is_shown_as_the_mean_over_turns() {
        let measured = Measured::new(&outcome(&[[(2.0, 10), (2.0, 10)], [(2.0, 30), (2.0, 10)]]));
        let results = Results::new(vec!["eevdf", "x"], &measured.measures, &measured.runs);
        let mut rows = results.rows.iter();
        let row = rows.find(|it| it.measure.metric.name == "wakeup_latency_p99");
        let entry = &row.unwrap().entries[0];
        assert_eq!(
            entry.measure.judged.value(entry.pooled.as_ref().unwrap()),
            20.0
        );
    }

    /// Wakeups do not count as work, because their number depends on the scheduler.
    #[test]
    fn a_scheduler_that_wakes_threads_less_often_has_not_done_less() {
        let mut trial = outcome(&[[(2.0, 10), (2.0, 10)]; 5]);
        for block in &mut trial.blocks {
            let recorded = block[1].recorded.as_mut().unwrap();
            recorded.threads[0].latencies_ns.truncate(100);
        }
        let measured = Measured::new(&trial);
        let results = Results::new(vec!["eevdf", "x"], &measured.measures, &measured.runs);
        assert!(!results.verdict.of(Goal::Latency).unwrap().tells_apart());
    }

    #[test]
    fn sums_are_of_all_of_a_turn_and_percentiles_of_what_was_recorded() {
        let mut half = turn(2.0, 10);
        half.recorded.as_mut().unwrap().window_ns = 1_000_000_000;
        let value = |name: &str| {
            let figure = figures().iter().find(|it| it.name == name).unwrap();
            (figure.of)(&half).unwrap()
        };
        assert_eq!(value("run_time"), 2.0);
        assert_eq!(value("wait_time"), 2.0 * 200.0 * 10e-6);
        assert_eq!(value("wakeup_latency_p99"), 10.0);
    }

    #[test]
    fn frames_decide_where_there_are_any() {
        let mut trial = outcome(&[[(2.0, 10), (2.0, 900)]; 5]);
        for block in &mut trial.blocks {
            block[0].frames_ms = vec![16.0; 100];
            block[1].frames_ms = vec![10.0; 100];
        }
        let measured = Measured::new(&trial);
        let results = Results::new(vec!["eevdf", "x"], &measured.measures, &measured.runs);
        let latency = results.verdict.of(Goal::Latency).unwrap();
        assert_eq!(latency.measures, ["frame_time_p99"]);
        assert!(latency.is_better(1, 0));
    }
}
