//! The table of a wait: what happened in it, in order.

use super::beside::{Beside, Share};
use super::chain::{Chain, Idled, SLEPT, Step, What};
use super::wait::{After, Wait};
use super::words::{seconds, shown};
use crate::{Cell, Table, Tone};
use machine::{CpuMask, counted};
use policy::About;

/// The largest number of other threads' turns on the CPU that are listed one by one.
const MOST_OTHERS: usize = 10;

/// The largest number of idle CPUs listed.
const MOST_IDLED: usize = 6;

/// The largest number of busy CPUs listed.
const MOST_CPUS: usize = 16;

/// The largest number of threads listed that ran on a CPU or waited.
const MOST_BESIDE: usize = 4;

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
            // The first and the last turns are shown; the turns in between are summed up.
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
        let more = counted(chain.unsaid, "more line", "more lines") + " of bpf_printk()";
        rows.push(vec!["meanwhile".into(), "".into(), more.into(), "".into()]);
    }
    // The idle CPU for which the thread waits has already been listed.
    let idles = |step: &Step| matches!(step.what, What::Other { task: None, .. });
    let is_said = |cpu| {
        chain
            .steps
            .iter()
            .any(|step| step.cpu == cpu && idles(step))
    };
    let matters = |idled: &&Idled| 100 * idled.ns >= chain.wait.ns() && !is_said(idled.cpu);
    let idle = alike(chain.idled.iter().filter(matters));
    rows.extend(idle.iter().take(MOST_IDLED).map(|cpus| idled(cpus)));
    if let Some(more @ [_, ..]) = idle.get(MOST_IDLED..) {
        let hidden: usize = more.iter().map(Vec::len).sum();
        let more = counted(hidden, "more CPU", "more CPUs") + " idled for part of it";
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

/// Other threads' turns that are not shown one by one.
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

    /// Is `step` a decision about the other threads that belongs to these turns?
    fn is_part(&self, step: &Step) -> bool {
        let about_others = |about| matches!(about, About::Keeps | About::Yields | About::Preempts);
        self.first.is_some()
            && matches!(&step.what, What::Decided(made) if about_others(made.decision.about))
    }

    fn take(&mut self) -> Option<Vec<Cell>> {
        let Left { first, runs, ns } = std::mem::take(self);
        let (at, cpu) = first?;
        let what = counted(
            runs,
            "more turn of another thread",
            "more turns of other threads",
        );
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
        (Some("nothing"), Some(by)) => format!("{by} created it"),
        (Some(what), Some(by)) => format!("{by} woke it up; it slept for {what}"),
        (Some(what), None) => format!("an interrupt woke it up; it slept for {what}"),
        (None, Some(by)) => format!("{by} woke it up"),
        (None, None) => "an interrupt woke it up".to_owned(),
    }
}

/// The CPUs, together if they idled for the same time in words and for the same reasons.
fn alike<'a>(idled: impl Iterator<Item = &'a Idled>) -> Vec<Vec<&'a Idled>> {
    let mut found: Vec<Vec<&Idled>> = Vec::new();
    for one in idled {
        let is_alike = |others: &&mut Vec<&Idled>| {
            (shown(others[0].ns), reasons(others[0])) == (shown(one.ns), reasons(one))
        };
        match found.iter_mut().find(is_alike) {
            Some(others) => others.push(one),
            None => found.push(vec![one]),
        }
    }
    found
}

/// The reasons why an idle CPU found no work.
fn reasons(idled: &Idled) -> String {
    let reasons = idled.decisions.iter();
    let reasons = reasons.map(|(made, times)| match times {
        1 => made.why.clone(),
        times => format!("{times} times, {}", made.why),
    });
    let slept = idled.slept.then(|| SLEPT.to_owned());
    reasons.chain(slept).collect::<Vec<_>>().join("; ")
}

fn idled(alike: &[&Idled]) -> Vec<Cell> {
    let cpus: CpuMask = alike.iter().map(|idled| idled.cpu).collect();
    let (named, idle) = match alike {
        [_] => ("CPU", "idles, for"),
        _ => ("CPUs", "idle, each for"),
    };
    let what = format!("{named} {cpus} {idle} {} of it", shown(alike[0].ns));
    let why = reasons(alike[0]);
    vec![
        "meanwhile".into(),
        cpus.to_string().into(),
        what.into(),
        why.into(),
    ]
}

/// Rows about the threads that ran on each CPU, and about the other threads that waited.
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
        let hidden = beside.ran.len() - MOST_CPUS;
        let more = counted(hidden, "more CPU is", "more CPUs are") + " busy for part of it";
        rows.push(vec!["".into(), "".into(), more.into(), "".into()]);
    }
    if !beside.waited.is_empty() {
        let what = counted(
            beside.waited.len(),
            "other thread waits, too",
            "other threads wait, too",
        );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_idled_alike_share_a_row() {
        let one = |cpu, ns, slept| Idled {
            cpu,
            ns,
            at_start: true,
            decisions: Vec::new(),
            slept,
        };
        let all = [
            one(0, 3_000_000, true),
            one(2, 3_000_000, true),
            one(3, 3_000_000, false),
            one(1, 3_000_000, true),
        ];
        let rows = alike(all.iter()).into_iter().map(|alike| idled(&alike));
        let rows: Vec<[String; 2]> = rows
            .map(|row| [row[1].text.clone(), row[2].text.clone()])
            .collect();
        let row = |cpus: &str, what: &str| [cpus.to_owned(), what.to_owned()];
        assert_eq!(
            rows,
            [
                row("0-2", "CPUs 0-2 idle, each for 3.00 ms of it"),
                row("3", "CPU 3 idles, for 3.00 ms of it")
            ]
        );
    }
}
