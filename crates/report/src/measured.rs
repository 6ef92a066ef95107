//! Measurements in a real kernel alongside simulations of the same load, with a judgement.

mod judge;

use crate::number::number;
use crate::{Cell, Page, Table, Tone};
use judge::{Judged, judge, latency_us, makespan_ms, threads};
use machine::counted;
use trace::import::{Other, Summary};

/// A load under a scheduler, in a real kernel and in the simulated kernel.
pub struct Pair {
    /// The scheduler.
    pub policy: String,
    /// The figures from a recorded trace.
    pub measured: Summary,
    /// The figures from a simulated trace.
    pub simulated: Summary,
}

/// The result of judging pairs.
pub struct Outcome {
    /// The tables, under a title that is the judgement.
    pub page: Page,
    /// Does every figure meet its bound?
    pub passes: bool,
}

/// The largest number of threads shown, longest running first.
const SHOWN: usize = 12;
/// The number of other threads whose names are shown, and the number of missed bounds in the first line.
const NAMED: usize = 3;
const NS_PER_MS: f64 = 1e6;

/// Judges `pairs`, of a load called `name` on a machine.
pub fn measured(name: &str, machine: &str, pairs: &[Pair]) -> Outcome {
    let judged: Vec<(&Pair, Vec<Judged>)> = pairs.iter().map(|pair| (pair, judge(pair))).collect();
    let all = || judged.iter().flat_map(|(_, figures)| figures);
    let bounds = all().filter(|figure| figure.passes().is_some()).count();
    let missed: Vec<(&Pair, &Judged)> = judged
        .iter()
        .flat_map(|(pair, figures)| figures.iter().map(|figure| (*pair, figure)))
        .filter(|(_, figure)| figure.passes() == Some(false))
        .collect();
    let passes = missed.is_empty();
    let title = match passes {
        true => format!("PASS: {name} on {machine}: all {bounds} bounds are met"),
        false => {
            let mut shown: Vec<String> = missed
                .iter()
                .take(NAMED)
                .map(|(pair, figure)| missed_bound(pair, figure, pairs.len() > 1))
                .collect();
            if missed.len() > NAMED {
                shown.push(format!("{} more", missed.len() - NAMED));
            }
            format!(
                "FAIL: {name} on {machine}: {} of {bounds} bounds {} missed: {}",
                missed.len(),
                if missed.len() == 1 { "is" } else { "are" },
                shown.join("; ")
            )
        }
    };
    let mut tables = Vec::new();
    let mut remarks = Vec::new();
    for (pair, figures) in &judged {
        tables.push(table(&pair.policy, "", figures));
        let ran: Vec<Judged> = threads(pair)
            .into_iter()
            .map(|(measured, simulated)| judge::ran(pair, measured, simulated))
            .collect();
        let shown = &ran[..ran.len().min(SHOWN)];
        let title = format!("{}: run time by thread, ms", pair.policy);
        tables.push(table(&title, "thread", shown));
        remarks.extend(alike(pair, &ran));
        remarks.extend(others(pair));
    }
    if pairs.len() > 1 {
        tables.push(orders(pairs));
    }
    let page = Page {
        title,
        notes: vec!["measured in a real kernel, and simulated from the first trace".to_owned()],
        tables,
        remarks,
        ..Page::default()
    };
    Outcome { page, passes }
}

/// A missed bound in words, for the first line.
fn missed_bound(pair: &Pair, figure: &Judged, names_policy: bool) -> String {
    let name = figure.name.split(',').next().unwrap_or_default();
    let value = match figure.off() {
        Some(off) => format!("{off:+.1} %"),
        None => match figure.simulated {
            None => format!("{:.1} %", figure.measured),
            Some(simulated) => format!("{}, not {}", number(simulated), number(figure.measured)),
        },
    };
    let policy = match names_policy {
        true => format!(" under {}", pair.policy),
        false => String::new(),
    };
    format!("{name} {value}{policy} (bound: {})", figure.bound())
}

fn table(title: &str, first: &str, figures: &[Judged]) -> Table {
    let row = |figure: &Judged| {
        let verdict = match figure.passes() {
            Some(true) => Cell::new("PASS", Tone::Better),
            Some(false) => Cell::new("FAIL", Tone::Worse),
            None => Cell::new(figure.verdict(), Tone::Dim),
        };
        let off = figure.off();
        vec![
            Cell::from(figure.name.clone()),
            Cell::from(number(figure.measured)),
            Cell::from(figure.simulated.map_or_else(|| "-".to_owned(), number)),
            Cell::from(off.map_or_else(|| "-".to_owned(), |off| format!("{off:+.1}"))),
            Cell::from(figure.bound()),
            verdict,
        ]
    };
    Table {
        title: title.to_owned(),
        header: [first, "measured", "simulated", "off %", "bound", "verdict"]
            .map(str::to_owned)
            .to_vec(),
        text_columns: 1,
        rows: figures.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Remarks on the number of threads whose running time meets its bound, and on the number of threads that the load
/// lacks.
fn alike(pair: &Pair, ran: &[Judged]) -> Vec<String> {
    let bound = ran.iter().filter(|judged| judged.passes().is_some());
    let alike = bound.clone().filter(|it| it.passes() == Some(true)).count();
    let mut lines = vec![format!(
        "{}: {alike} of the {} threads with 1 % or more of the load's run time ran as long as measured, within 2 %",
        pair.policy,
        bound.count()
    )];
    if ran.len() < pair.measured.threads.len() {
        let missing = counted(
            pair.measured.threads.len() - ran.len(),
            "of the measured threads is",
            "of the measured threads are",
        );
        lines.push(format!("{}: {missing} not in the load", pair.policy));
    }
    lines
}

/// A remark on the threads outside the recording.
fn others(pair: &Pair) -> Option<String> {
    let others = &pair.measured.others;
    let ran: u64 = others.iter().map(|other| other.ran_ns).sum();
    if ran == 0 {
        return None;
    }
    let name = |other: &Other| match other.threads {
        1 => format!(
            "{} {} ms",
            other.name,
            number(other.ran_ns as f64 / NS_PER_MS)
        ),
        count => format!(
            "{} ({count} threads) {} ms",
            other.name,
            number(other.ran_ns as f64 / NS_PER_MS)
        ),
    };
    let named: Vec<String> = others.iter().take(NAMED).map(name).collect();
    Some(format!(
        "{}: {} outside the recording, which a replay lacks, took {} ms, {:.1} % of all CPUs' time: {}{}",
        pair.policy,
        counted(
            others.iter().map(|other| other.threads).sum::<usize>(),
            "thread",
            "threads"
        ),
        number(ran as f64 / NS_PER_MS),
        pair.measured.others_pct(),
        named.join(", "),
        if others.len() > NAMED { ", ..." } else { "" }
    ))
}

/// The measured and the simulated order of the schedulers.
fn orders(pairs: &[Pair]) -> Table {
    let order = |of: &dyn Fn(&Pair) -> f64| {
        let mut order: Vec<&Pair> = pairs.iter().collect();
        order.sort_by(|a, b| of(a).total_cmp(&of(b)));
        let names: Vec<&str> = order.iter().map(|pair| &*pair.policy).collect();
        names.join(" < ")
    };
    let row = |name: &str, of: &dyn Fn(&Summary) -> f64| {
        let measured = order(&|pair| of(&pair.measured));
        let simulated = order(&|pair| of(&pair.simulated));
        [name.to_owned(), measured, simulated]
            .map(Cell::from)
            .to_vec()
    };
    Table {
        title: "Order".to_owned(),
        header: ["", "measured", "simulated"].map(str::to_owned).to_vec(),
        text_columns: 3,
        rows: vec![
            row("makespan, ms", &makespan_ms),
            row("wakeup latency p95, us", &|summary| latency_us(summary, 95)),
        ],
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::import::Did;

    fn summary(makespan_ms: u64, latency_us: u64, others_ms: u64) -> Summary {
        Summary {
            threads: vec![Did {
                name: "worker".to_owned(),
                path: vec![0],
                ran_ns: 50_000_000,
                latencies_ns: vec![1_000 * latency_us; 1000],
                turns: 1000,
                migrations: 0,
            }],
            makespan_ns: makespan_ms * 1_000_000,
            span_ns: makespan_ms * 1_000_000,
            cpus: 2,
            others: vec![Other {
                name: "foreign".to_owned(),
                threads: 3,
                ran_ns: others_ms * 1_000_000,
            }],
            ..Summary::default()
        }
    }

    fn judged(measured: Summary, simulated: Summary) -> Outcome {
        let policy = "eevdf".to_owned();
        let pair = Pair {
            policy,
            measured,
            simulated,
        };
        measured_of(&[pair])
    }

    fn measured_of(pairs: &[Pair]) -> Outcome {
        super::measured("load", "here", pairs)
    }

    #[test]
    fn a_replay_like_the_recording_passes() {
        let outcome = judged(summary(100, 10, 0), summary(105, 12, 0));
        assert!(outcome.passes);
        let title = &outcome.page.title;
        assert_eq!(title, "PASS: load on here: all 9 bounds are met");
    }

    /// If other threads used most of the machine, the first line has the makespan, and a remark has their names.
    #[test]
    fn a_replay_of_a_tenth_fails_in_the_first_line() {
        let outcome = judged(summary(1000, 5000, 900), summary(99, 1, 0));
        assert!(!outcome.passes);
        let title = &outcome.page.title;
        let start =
            "FAIL: load on here: 5 of 9 bounds are missed: makespan -90.1 % (bound: 10 %); ";
        assert!(title.starts_with(start), "{title}");
        let remarks = outcome.page.remarks.join("\n");
        let says = "3 threads outside the recording, which a replay lacks, took 900.0 ms, 45.0 % of \
                    all CPUs' time: foreign (3 threads) 900.0 ms";
        assert!(remarks.contains(says), "{remarks}");
    }

    /// Of 30 latencies, only one is beyond the 95th percentile, which is too few to judge it.
    #[test]
    fn a_percentile_of_few_is_not_judged() {
        let mut short = summary(100, 10, 0);
        short.threads[0].latencies_ns.truncate(30);
        let outcome = judged(short.clone(), short);
        let rows = &outcome.page.tables[0].rows;
        let verdict = |name: &str| {
            let row = rows.iter().find(|row| row[0].text.contains(name)).unwrap();
            row[5].text.clone()
        };
        assert_eq!(verdict("p50"), "PASS");
        assert_eq!(verdict("p95"), "too few wakeups");
    }
}
