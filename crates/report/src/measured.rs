//! Measurements in a real kernel beside simulations of the same load.

use crate::number::number;
use crate::{Cell, Page, Table};
use std::collections::HashMap;
use workload::import::{Did, Summary};

/// A load under a scheduler, in a real kernel and in the simulated one.
pub struct Pair {
    /// The scheduler.
    pub policy: String,
    /// From a recorded trace.
    pub measured: Summary,
    /// From a simulated one.
    pub simulated: Summary,
}

/// The number of threads shown, the longest running ones.
const SHOWN: usize = 12;
const NS_PER_MS: f64 = 1e6;
const NS_PER_US: f64 = 1e3;

/// The page of `pairs`, of a load called `name` on a machine.
pub fn measured(name: &str, machine: &str, pairs: &[Pair]) -> Page {
    let mut tables = Vec::new();
    let mut remarks = Vec::new();
    for pair in pairs {
        tables.push(whole(pair));
        tables.push(threads(pair));
        remarks.extend(alike(pair));
    }
    if pairs.len() > 1 {
        tables.push(orders(pairs));
    }
    Page {
        title: format!("{name} on {machine}"),
        notes: vec!["measured in a real kernel, and simulated from the first trace".to_owned()],
        tables,
        remarks,
        ..Page::default()
    }
}

/// A figure of a whole trace.
struct Figure {
    name: &'static str,
    of: fn(&Summary) -> f64,
}

const FIGURES: [Figure; 7] = [
    Figure {
        name: "makespan, ms",
        of: |summary| summary.makespan_ns as f64 / NS_PER_MS,
    },
    Figure {
        name: "run time, ms",
        of: |summary| {
            let ran = summary.threads.iter().map(|thread| thread.ran_ns);
            ran.sum::<u64>() as f64 / NS_PER_MS
        },
    },
    Figure {
        name: "wakeup latency p50, us",
        of: |summary| latency(summary, 50),
    },
    Figure {
        name: "wakeup latency p95, us",
        of: |summary| latency(summary, 95),
    },
    Figure {
        name: "wakeup latency p99, us",
        of: |summary| latency(summary, 99),
    },
    Figure {
        name: "switches to its threads",
        of: |summary| {
            let turns = summary.threads.iter().map(|thread| thread.turns);
            turns.sum::<u64>() as f64
        },
    },
    Figure {
        name: "migrations of its threads",
        of: |summary| {
            let migrations = summary.threads.iter().map(|thread| thread.migrations);
            migrations.sum::<u64>() as f64
        },
    },
];

/// The percentile of all threads' latencies, us; 0 without wakeups.
fn latency(summary: &Summary, percent: usize) -> f64 {
    let threads = summary.threads.iter();
    let mut all: Vec<u64> = threads
        .flat_map(|it| it.latencies_ns.iter().copied())
        .collect();
    if all.is_empty() {
        return 0.0;
    }
    let rank = (all.len() * percent).div_ceil(100).max(1) - 1;
    let (_, ns, _) = all.select_nth_unstable(rank);
    *ns as f64 / NS_PER_US
}

fn whole(pair: &Pair) -> Table {
    let row = |figure: &Figure| {
        let (measured, simulated) = ((figure.of)(&pair.measured), (figure.of)(&pair.simulated));
        let cells = [
            number(measured),
            number(simulated),
            off(measured, simulated),
        ];
        [figure.name.to_owned()]
            .into_iter()
            .chain(cells)
            .map(Cell::from)
            .collect()
    };
    let mut rows: Vec<Vec<Cell>> = FIGURES.iter().map(row).collect();
    let count = |summary: &Summary| Cell::from(summary.threads.len().to_string());
    rows.push(vec![
        Cell::from("threads"),
        count(&pair.measured),
        count(&pair.simulated),
        Cell::from(""),
    ]);
    let far = |(measured, simulated): &(&Did, &Did)| relative(measured, simulated).abs();
    let pairs = pairs_of(pair);
    let worst = pairs.iter().max_by(|a, b| far(a).total_cmp(&far(b)));
    if let Some(&(measured, simulated)) = worst {
        let [then, now] = [measured, simulated].map(|did| did.ran_ns as f64 / NS_PER_MS);
        let cells = [number(then), number(now), off(then, now)].map(Cell::from);
        let name = Cell::from("worst run time of a thread, ms");
        rows.push([name].into_iter().chain(cells).collect());
    }
    Table {
        title: pair.policy.clone(),
        header: ["", "measured", "simulated", "off %"]
            .map(str::to_owned)
            .to_vec(),
        text_columns: 1,
        rows,
        ..Table::default()
    }
}

/// The excess of `simulated` over `measured`, in per cent.
fn off(measured: f64, simulated: f64) -> String {
    match measured > 0.0 {
        true => format!("{:+.1}", 100.0 * (simulated / measured - 1.0)),
        false => "-".to_owned(),
    }
}

/// Each thread of both, the longest running ones first.
fn pairs_of(pair: &Pair) -> Vec<(&Did, &Did)> {
    let simulated: HashMap<&[u32], &Did> = pair
        .simulated
        .threads
        .iter()
        .map(|thread| (&thread.path[..], thread))
        .collect();
    let measured = pair.measured.threads.iter();
    let mut pairs: Vec<(&Did, &Did)> = measured
        .filter_map(|thread| Some((thread, *simulated.get(&thread.path[..])?)))
        .collect();
    pairs.sort_by_key(|(measured, _)| std::cmp::Reverse(measured.ran_ns));
    pairs
}

fn threads(pair: &Pair) -> Table {
    let row = |&(measured, simulated): &(&Did, &Did)| {
        let [then, now] = [measured, simulated].map(|did| did.ran_ns as f64 / NS_PER_MS);
        vec![
            Cell::from(measured.name.clone()),
            Cell::from(number(then)),
            Cell::from(number(now)),
            Cell::from(off(then, now)),
        ]
    };
    Table {
        title: format!("{}: run time by thread, ms", pair.policy),
        header: ["thread", "measured", "simulated", "off %"]
            .map(str::to_owned)
            .to_vec(),
        text_columns: 1,
        rows: pairs_of(pair).iter().take(SHOWN).map(row).collect(),
        ..Table::default()
    }
}

/// The relative error of a thread's running time.
fn relative(measured: &Did, simulated: &Did) -> f64 {
    simulated.ran_ns as f64 / measured.ran_ns.max(1) as f64 - 1.0
}

/// The number of threads whose running time is right to 2 %.
fn alike(pair: &Pair) -> Vec<String> {
    let pairs = pairs_of(pair);
    let off = |(measured, simulated): &(&Did, &Did)| relative(measured, simulated).abs();
    let alike = pairs.iter().filter(|pair| off(pair) <= 0.02).count();
    let worst = pairs.iter().map(off).fold(0.0, f64::max);
    let mut lines = vec![format!(
        "{}: {alike} of {} threads ran as long as measured, to 2 %; the worst is {:.1} % off",
        pair.policy,
        pairs.len(),
        100.0 * worst
    )];
    if pairs.len() < pair.measured.threads.len() {
        lines.push(format!(
            "{}: {} of the threads that were measured are not in the load",
            pair.policy,
            pair.measured.threads.len() - pairs.len()
        ));
    }
    lines
}

/// The measured and the simulated order of the schedulers.
fn orders(pairs: &[Pair]) -> Table {
    let order = |of: &dyn Fn(&Pair) -> f64| {
        let mut order: Vec<&Pair> = pairs.iter().collect();
        order.sort_by(|a, b| of(a).total_cmp(&of(b)));
        let names: Vec<&str> = order.iter().map(|pair| &*pair.policy).collect();
        names.join(" < ")
    };
    let row = |figure: &Figure| {
        let measured = order(&|pair| (figure.of)(&pair.measured));
        let simulated = order(&|pair| (figure.of)(&pair.simulated));
        [figure.name.to_owned(), measured, simulated]
            .map(Cell::from)
            .to_vec()
    };
    Table {
        title: "Order".to_owned(),
        header: ["", "measured", "simulated"].map(str::to_owned).to_vec(),
        text_columns: 3,
        rows: [&FIGURES[0], &FIGURES[3]].map(row).to_vec(),
        ..Table::default()
    }
}
