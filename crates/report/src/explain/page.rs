//! The reasons why threads waited, as text and tables.

use super::Explanation;
use super::cause::Cause;
use super::item::{Item, causes, items};
use super::slow;
use super::steps::chain;
use super::words::seconds;
use crate::number::number;
use crate::verdict::deadlocked;
use crate::{Cell, Page, Table};

/// The largest number of causes above the tables.
const MOST_CAUSES: usize = 3;
/// The largest number of decisions listed about a thread.
const MOST_COUNTED: usize = 8;

/// The remark about a scheduler that records nothing.
const UNSAID: &str = "A foreign scheduler in C reports no decisions. This page shows the trace, and the lines \
                      of the scheduler's bpf_printk() that contain the thread's name or pid.";

/// A page with a table for each missed period and each other loss, then tables of the time that the threads lost in
/// all, of their wakeup latencies, and of the decisions about them.
pub fn page(of: &Explanation<'_>) -> Page {
    let items = items(of);
    let causes = causes(of, &items).into_iter().take(MOST_CAUSES);
    let deadlock = of
        .deadlock
        .as_ref()
        .map(|it| format!("Deadlock: {}", deadlocked(it)));
    let mut tables: Vec<Table> = Vec::new();
    for one in &of.periods {
        let (table, due) = (one.table(of.machine), seconds(one.missed.period.due));
        tables.push(Table {
            title: format!("Missed at {due}: {}", table.title),
            ..table
        });
    }
    for item in &items {
        let table = match item {
            Item::Waited(waits) => chain(waits, of.decisions),
            Item::Slow(response, _) => slow::table(response, of.machine),
            Item::Late(response, waits) => match response.late.as_ref().map(|late| &late.root) {
                Some(root) if root.is_slow() => slow::table(root, of.machine),
                _ => chain(waits, of.decisions),
            },
        };
        // The thread at the root of a late wakeup may be among the waits.
        if !tables.iter().any(|other| other.title == table.title) {
            tables.push(table);
        }
    }
    tables.push(totals(of));
    tables.push(latencies(of));
    if !of.counted.is_empty() {
        tables.push(counted(of));
    }
    let missed = of.missed.map(|at| match at > of.end {
        true => format!(
            "The run ended at {}, before {}; the nearest wait is shown.",
            seconds(of.end),
            seconds(at)
        ),
        false => format!(
            "None of these threads waited at {}; the nearest wait is shown.",
            seconds(at)
        ),
    });
    let remarks = match of.waits.is_empty() && of.periods.is_empty() {
        true => vec!["None of these threads ever waited.".to_owned()],
        false => Vec::new(),
    };
    Page {
        title: format!(
            "Why threads wait: {} on {} under {}",
            of.workload, of.machine.name, of.policy
        ),
        notes: [format!("first run, seed {}", of.seed)]
            .into_iter()
            .chain(missed)
            .chain((!of.decisions).then(|| UNSAID.to_owned()))
            .collect(),
        verdict: deadlock.into_iter().chain(causes.map(said)).collect(),
        tables,
        remarks,
        ..Page::default()
    }
}

fn said(cause: Cause) -> String {
    [cause.sentence]
        .into_iter()
        .chain(cause.details)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Columns of times in ns, with their names. Each column has one unit, which its head gives, so that the column's
/// longest time is easy to see.
fn in_units<const N: usize>(
    names: [&str; N],
    rows: &[[Option<u64>; N]],
) -> ([String; N], Vec<[Cell; N]>) {
    let units =
        std::array::from_fn(
            |column| match rows.iter().filter_map(|row| row[column]).max() {
                Some(1_000_000_000..) => ("s", 1e9),
                Some(1_000_000..) | Some(0) | None => ("ms", 1e6),
                Some(1_000..) => ("us", 1e3),
                Some(_) => ("ns", 1.0),
            },
        );
    let units: [(&str, f64); N] = units;
    let head = std::array::from_fn(|column| format!("{}\n{}", names[column], units[column].0));
    let cell = |row: &[Option<u64>; N], column: usize| {
        row[column].map_or_else(Cell::default, |ns| {
            number(ns as f64 / units[column].1).into()
        })
    };
    let cells = rows
        .iter()
        .map(|row| std::array::from_fn(|column| cell(row, column)));
    (head, cells.collect())
}

/// A table of threads, each with a number of events, and columns of times given in ns.
fn of_threads<const N: usize>(
    title: &str,
    events: &str,
    times: [&str; N],
    threads: impl Iterator<Item = (String, usize, [Option<u64>; N])>,
) -> Table {
    let (named, times_of): (Vec<_>, Vec<_>) =
        threads.map(|(name, count, ns)| ((name, count), ns)).unzip();
    let (head, cells) = in_units(times, &times_of);
    let rows = named.into_iter().zip(cells).map(|((name, count), cells)| {
        let named = [name.into(), count.to_string().into()];
        named.into_iter().chain(cells).collect()
    });
    Table {
        title: title.to_owned(),
        rows: rows.collect(),
        header: ["thread", events]
            .map(str::to_owned)
            .into_iter()
            .chain(head)
            .collect(),
        text_columns: 1,
        together: 1,
        ..Table::default()
    }
}

/// A table of the time that the threads lost in the whole run, by reason.
fn totals(of: &Explanation<'_>) -> Table {
    let threads = of.totals.iter().map(|total| {
        let lost = [
            total.woken_ns,
            total.preempted_ns,
            total.slow.kind_ns,
            total.slow.frequency_ns,
            total.slow.shared_ns,
        ];
        (total.name.clone(), total.responses, lost.map(Some))
    });
    let reasons = [
        "waited to run",
        "preempted",
        "slow CPU",
        "low frequency",
        "shared core",
    ];
    of_threads(
        "Time lost in the whole run, by reason",
        "responses",
        reasons,
        threads,
    )
}

fn latencies(of: &Explanation<'_>) -> Table {
    let threads = of.latencies.iter().map(|latencies| {
        let times = [0.5, 0.99, 1.0]
            .map(|share| (!latencies.ns.is_empty()).then(|| latencies.quantile(share)));
        (latencies.name.clone(), latencies.ns.len(), times)
    });
    let times = ["half within", "99 % within", "longest"];
    of_threads("Time from wakeup to running", "wakeups", times, threads)
}

fn counted(of: &Explanation<'_>) -> Table {
    let mut rows = Vec::new();
    for latencies in &of.latencies {
        let of_thread = of
            .counted
            .iter()
            .filter(|counted| counted.thread == latencies.name);
        rows.extend(of_thread.take(MOST_COUNTED).map(|counted| {
            vec![
                counted.thread.clone().into(),
                counted.times.to_string().into(),
                counted.made.what.clone().into(),
                counted.made.why.clone().into(),
            ]
        }));
    }
    Table {
        title: "Decisions about these threads by reason, with the first decision for each reason"
            .to_owned(),
        header: ["thread", "times", "the first", "why"]
            .map(str::to_owned)
            .to_vec(),
        text_columns: 4,
        rows,
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_times_has_one_unit() {
        let rows = [[Some(1_500_000), Some(20)], [Some(2_000), None]];
        let (head, cells) = in_units(["first", "second"], &rows);
        assert_eq!(head, ["first\nms", "second\nns"]);
        let text: Vec<_> = cells
            .into_iter()
            .map(|row| row.map(|cell| cell.text))
            .collect();
        assert_eq!(text, [["1.500", "20.00"], ["0.002", ""]]);
    }
}
