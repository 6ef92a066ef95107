//! Why threads waited, as text and tables.

use super::Explanation;
use super::beside::{Beside, Share};
use super::cause::Cause;
use super::chain::{Chain, Idled, SLEPT, Step, What};
use super::item::{Item, causes, items};
use super::slow;
use super::wait::{After, Wait};
use crate::number::number;
use crate::{Cell, Page, Table, Tone};
use policy::{About, time};

/// The number of other threads on the CPU that are listed one by one.
const MOST_OTHERS: usize = 10;
/// The number of idle CPUs listed.
const MOST_IDLED: usize = 6;
/// The number of busy CPUs listed by name.
const MOST_CPUS: usize = 16;
/// The number of threads listed that ran on a CPU or waited.
const MOST_BESIDE: usize = 4;
/// The number of causes above the tables.
const MOST_CAUSES: usize = 3;
/// The number of decisions about a thread listed.
const MOST_COUNTED: usize = 8;

/// The remark about a scheduler that records nothing.
const UNSAID: &str = "A foreign scheduler in C reports no decisions. This page shows the trace, \
                      and the lines of its bpf_printk() that contain the thread's name or pid.";

/// A table for each wait, then the total waits of the threads, and the decisions about them.
pub fn page(of: &Explanation<'_>) -> Page {
    let items = items(of);
    let verdict = causes(of, &items).into_iter().take(MOST_CAUSES);
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
        // The root of a late wakeup may be among the waits.
        if !tables.iter().any(|other| other.title == table.title) {
            tables.push(table);
        }
    }
    tables.push(totals(of));
    tables.push(latencies(of));
    if !of.counted.is_empty() {
        tables.push(counted(of));
    }
    let missed = of.missed.map(|at| {
        format!(
            "None of these threads waited at {}; the nearest wait is shown.",
            seconds(at)
        )
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
        verdict: verdict.map(said).collect(),
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

pub(super) fn seconds(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000)
}

pub(super) fn shown(ns: u64) -> String {
    time(ns.min(i64::MAX as u64) as i64)
}

pub(super) fn row(at: String, cpu: usize, what: String, why: String) -> Vec<Cell> {
    vec![at.into(), cpu.to_string().into(), what.into(), why.into()]
}

/// The table of a wait, with the activity of other threads if the scheduler records no `decisions`.
pub(super) fn chain(chain: &Chain, decisions: bool) -> Table {
    let Wait {
        name, after, from, ..
    } = &chain.wait;
    let after = match after {
        After::Wakeup => "it woke up".to_owned(),
        After::Running { cpu } => format!("it lost CPU {cpu}"),
    };
    let others = chain
        .steps
        .iter()
        .filter(|step| matches!(step.what, What::Other { .. }))
        .count();
    let (mut rows, mut seen, mut left) = (Vec::new(), 0, Left::default());
    for step in &chain.steps {
        if let What::Other { task, ns } = &step.what {
            seen += 1;
            // The first and the last ones are shown; those in between are summed up.
            if others > MOST_OTHERS
                && (MOST_OTHERS / 2..others - MOST_OTHERS / 2).contains(&(seen - 1))
            {
                left.add(step, task.is_some(), *ns);
                continue;
            }
        } else if left.is_part(step) {
            continue;
        }
        rows.extend(left.take());
        rows.push(of_step(chain, step));
    }
    if chain.unsaid > 0 {
        let more = format!("{} more lines of bpf_printk()", chain.unsaid);
        rows.push(vec!["meanwhile".into(), "".into(), more.into(), "".into()]);
    }
    // The idle CPU for which it waits has already been listed.
    let idles = |step: &Step| matches!(step.what, What::Other { task: None, .. });
    let is_said = |cpu| {
        chain
            .steps
            .iter()
            .any(|step| step.cpu == cpu && idles(step))
    };
    let idle: Vec<&Idled> = chain
        .idled
        .iter()
        .filter(|idled| !is_said(idled.cpu))
        .collect();
    rows.extend(idle.iter().take(MOST_IDLED).map(|cpu| idled(cpu)));
    if idle.len() > MOST_IDLED {
        let more = format!("{} more CPUs idled for part of it", idle.len() - MOST_IDLED);
        rows.push(vec!["".into(), "".into(), more.into(), "".into()]);
    }
    if !decisions {
        rows.extend(beside(&chain.beside));
    }
    for cell in rows.iter_mut().filter_map(|row| row.first_mut()) {
        cell.tone = Tone::Dim;
    }
    Table {
        title: format!(
            "{name} waited {} from {} on, after {after}{}",
            shown(chain.wait.ns()),
            seconds(*from),
            match chain.wait.open {
                true => ", and did not run until the end of the run",
                false => "",
            }
        ),
        header: ["at", "CPU", "what", "why"].map(str::to_owned).to_vec(),
        text_columns: 4,
        rows,
        ..Table::default()
    }
}

/// Other threads' runs that are not shown one by one.
#[derive(Default)]
struct Left {
    first: Option<(u64, usize)>,
    runs: usize,
    ns: u64,
}

impl Left {
    fn add(&mut self, step: &Step, is_task: bool, ns: u64) {
        self.first.get_or_insert((step.at, step.cpu));
        self.runs += usize::from(is_task);
        self.ns += if is_task { ns } else { 0 };
    }

    /// Is `step`, which is about other threads, one of these runs?
    fn is_part(&self, step: &Step) -> bool {
        let about_others = |about| matches!(about, About::Keeps | About::Yields | About::Preempts);
        self.first.is_some()
            && matches!(&step.what, What::Decided(made) if about_others(made.decision.about))
    }

    fn take(&mut self) -> Option<Vec<Cell>> {
        let Left { first, runs, ns } = std::mem::take(self);
        let (at, cpu) = first?;
        let what = format!("{runs} more turns of others");
        Some(row(
            seconds(at),
            cpu,
            what,
            format!("for {} in all", shown(ns)),
        ))
    }
}

fn of_step(chain: &Chain, step: &Step) -> Vec<Cell> {
    let name = &chain.wait.name;
    let (what, why) = match &step.what {
        What::Woken { waited_for, by } => (
            format!("{name} wakes up"),
            woken(*waited_for, by.as_deref()),
        ),
        What::Decided(made) => (made.what.clone(), made.why.clone()),
        What::Moved { from, to } => (
            format!("{name} moves from CPU {from} to CPU {to}"),
            String::new(),
        ),
        What::Other {
            task: Some(task),
            ns,
        } => (format!("{task} runs"), format!("for {}", shown(*ns))),
        What::Other { task: None, ns } => (
            "CPU idles or wakes up".to_owned(),
            format!("for {}", shown(*ns)),
        ),
        What::Said(line) => ("the scheduler says".to_owned(), line.clone()),
        What::Runs => (
            format!("{name} runs"),
            format!("after {}", shown(chain.wait.ns())),
        ),
    };
    row(seconds(step.at), step.cpu, what, why)
}

fn woken(waited_for: Option<&str>, by: Option<&str>) -> String {
    match (waited_for, by) {
        (Some("a timer"), _) => "its timer expired".to_owned(),
        (Some("nothing"), Some(by)) => format!("{by} made it"),
        (Some(what), Some(by)) => format!("{by} woke it up; it slept for {what}"),
        (Some(what), None) => format!("an interrupt woke it up; it slept for {what}"),
        (None, Some(by)) => format!("{by} woke it up"),
        (None, None) => "an interrupt woke it up".to_owned(),
    }
}

fn idled(idled: &Idled) -> Vec<Cell> {
    let reasons = idled.decisions.iter();
    let reasons = reasons.map(|(made, times)| match times {
        1 => made.why.clone(),
        times => format!("{times} times, {}", made.why),
    });
    let slept = idled.slept.then(|| SLEPT.to_owned());
    let reasons = reasons.chain(slept);
    let what = format!("CPU {} idles, for {} of it", idled.cpu, shown(idled.ns));
    row(
        "meanwhile".to_owned(),
        idled.cpu,
        what,
        reasons.collect::<Vec<_>>().join("; "),
    )
}

/// The threads that ran on each CPU, and those that waited, too.
fn beside(beside: &Beside) -> Vec<Vec<Cell>> {
    let listed = |list: &[Share]| {
        let named = list.iter().take(MOST_BESIDE);
        let mut said: Vec<String> = named
            .map(|share| format!("{} {}", share.name, shown(share.ns)))
            .collect();
        if let Some(more @ [_, ..]) = list.get(MOST_BESIDE..) {
            said.push(format!("{} more", more.len()));
        }
        said.join(", ")
    };
    let ran = beside.ran.iter().take(MOST_CPUS).map(|(cpu, list)| {
        let ns = list.iter().map(|share| share.ns).sum();
        let what = format!("CPU {cpu} is busy, for {} of it", shown(ns));
        row("meanwhile".to_owned(), *cpu, what, listed(list))
    });
    let mut rows: Vec<_> = ran.collect();
    if beside.ran.len() > MOST_CPUS {
        let more = format!(
            "{} more CPUs are busy for part of it",
            beside.ran.len() - MOST_CPUS
        );
        rows.push(vec!["".into(), "".into(), more.into(), "".into()]);
    }
    if !beside.waited.is_empty() {
        let what = format!("{} others wait, too", beside.waited.len());
        let list = listed(&beside.waited);
        rows.push(vec![
            "meanwhile".into(),
            "".into(),
            what.into(),
            list.into(),
        ]);
    }
    rows
}

/// Columns of times, ns, with their names: each is in one unit, which its head has, so that one sees which is longest.
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

/// A table of threads with a number of events each, and columns of times, ns.
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

/// Where the threads lost time in the whole run.
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
        title: "Decisions about these threads and their reasons, with the numbers of the first occurrence"
            .to_owned(),
        header: ["thread", "times", "such as", "why"]
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
