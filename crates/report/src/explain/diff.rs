//! A period of a thread under two schedulers, side by side.

use super::json::{cause_of, chain_of, named_parts, slow_of};
use super::period::Period;
use super::response::Response;
use super::steps::chain;
use super::words::{seconds, shown};
use crate::first_run::FirstRun;
use crate::json::text;
use crate::timeline::{Run, Timeline, kinds};
use crate::{Page, Table};
use machine::Machine;
use serde_json::{Value, json};

/// The version of the format, which is that of `compare`.
const SCHEMA: u32 = 2;

/// The largest number of listed CPUs on which the thread ran.
const MOST_CPUS: usize = 4;
/// The largest number of CPUs drawn.
const MOST_ROWS: usize = 16;
/// The longest time drawn, in periods of the thread.
const MOST_PERIODS: u64 = 5;

/// Two runs of a workload with the same seed.
pub struct Difference<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The workload's name.
    pub workload: &'a str,
    /// The seed.
    pub seed: u64,
    /// The requested time in ns, if any.
    pub at: Option<u64>,
    /// The chosen period, and the period of the other run that is nearest in time.
    pub sides: [Period; 2],
}

impl Difference<'_> {
    /// A page with a table of both periods, and the decisions in each period.
    pub fn page(&self) -> Page {
        let [first, second] = &self.sides;
        let mut tables = vec![self.table()];
        for side in &self.sides {
            tables.extend(decided(side));
        }
        Page {
            title: format!(
                "{} on {} under {} and {}",
                self.workload, self.machine.name, first.policy, second.policy
            ),
            notes: [format!("first run, seed {}", self.seed)]
                .into_iter()
                .chain(self.nearest())
                .collect(),
            verdict: self.verdict(),
            tables,
            ..Page::default()
        }
    }

    /// The period under both schedulers, drawn from `runs`.
    pub fn timeline(&self, runs: [&FirstRun; 2]) -> Timeline {
        let [first, second] = &self.sides;
        let name = &first.response.name;
        let mut said = self.verdict().into_iter();
        let title = said.next().unwrap_or_default();
        let (from, to) = self.shown(runs);
        let ran = |cpu: usize| {
            self.sides
                .iter()
                .any(|side| side.response.ran.contains_key(&cpu))
        };
        let mut cpus: Vec<usize> = (0..self.machine.cpus.len()).collect();
        cpus.sort_by_key(|&cpu| (!ran(cpu), cpu));
        cpus.truncate(MOST_ROWS);
        cpus.sort_unstable();
        let kinds = kinds(self.machine);
        let label = |cpu: usize| {
            let kind = kinds
                .get(cpu)
                .map_or(String::new(), |kind| format!(" {kind}"));
            format!("CPU {cpu}{kind}")
        };
        let mut run = |(side, run): (&Period, &FirstRun)| Run {
            name: side.policy.clone(),
            cpus: cpus
                .iter()
                .map(|&cpu| (label(cpu), run.ran(cpu, (from, to))))
                .collect(),
            thread: name.clone(),
            periods: run.periods_of(name, (from, to)),
            says: said.next().into_iter().collect(),
        };
        let sides = [first, second].into_iter().zip(runs);
        Timeline {
            title,
            from,
            to,
            runs: sides.map(&mut run).collect(),
        }
    }

    /// The time drawn, in ns: both responses and the whole of the first period in them, up to [`MOST_PERIODS`] periods,
    /// with a margin.
    fn shown(&self, runs: [&FirstRun; 2]) -> (u64, u64) {
        let name = &self.sides[0].response.name;
        let responses = self.sides.iter().map(|side| &side.response);
        let (from, to) = responses.fold((u64::MAX, 0), |(from, to), response| {
            (from.min(response.from), to.max(response.to))
        });
        let periods = runs[0].periods_of(name, (from, to));
        let first = periods.first();
        let from = first.map_or(from, |period| from.min(period.released));
        let longest = first.map_or(to - from, |period| {
            MOST_PERIODS * (period.due - period.released)
        });
        let due = first.map_or(to, |period| period.due);
        let to = to.max(due).min(from + longest.max(1));
        let margin = (to - from) / 20;
        (from.saturating_sub(margin), to + margin)
    }

    /// A note if the requested time is in no period.
    fn nearest(&self) -> Option<String> {
        let response = &self.sides[0].response;
        let outside = |at: &u64| !(response.from..=response.to).contains(at);
        let at = self.at.filter(outside)?;
        Some(format!(
            "No period of {} contains {}; the nearest one is shown.",
            response.name,
            seconds(at)
        ))
    }

    fn verdict(&self) -> Vec<String> {
        let [first, second] = &self.sides;
        let mut verdict = vec![format!(
            "{} took {} after its wakeup at {} under {}, and {} under {}{}.",
            first.response.name,
            shown(first.response.ns()),
            seconds(first.response.from),
            first.policy,
            shown(second.response.ns()),
            second.policy,
            self.mostly(),
        )];
        for side in &self.sides {
            let cause = side.cause.as_ref().map(|cause| {
                let details = cause.details.iter().map(|detail| format!(" {detail}"));
                format!("{}{}", cause.sentence, details.collect::<String>())
            });
            let none = || format!("{} lost no time.", side.response.name);
            let text = cause.unwrap_or_else(none);
            verdict.push(format!("Under {}: {text}", side.policy));
        }
        verdict
    }

    /// The largest part of the difference in words, if there is a difference.
    fn mostly(&self) -> String {
        let [first, second] = self.sides.each_ref().map(|side| side.response.parts());
        let longer = self.sides[1].response.ns() > self.sides[0].response.ns();
        let differences = first.iter().zip(&second).map(|(&(name, a), &(_, b))| {
            let (less, more) = if longer { (a, b) } else { (b, a) };
            (more.saturating_sub(less), name)
        });
        match differences.max() {
            Some((ns, name)) if ns > 0 => {
                let sign = if longer { "more" } else { "less" };
                let name = match name {
                    "work" => "work in the period",
                    "preempted" => "time preempted",
                    "waited to run" => "waiting to run",
                    "slow CPU" => "time lost to a slow CPU",
                    "low frequency" => "time lost to a low frequency",
                    name => name,
                };
                format!(": {} {sign} {name}", shown(ns))
            }
            _ => String::new(),
        }
    }

    fn table(&self) -> Table {
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut row = |name: &str, of: &dyn Fn(&Period) -> String| {
            let cells = self.sides.iter().map(of);
            rows.push([name.to_owned()].into_iter().chain(cells).collect());
        };
        row("woke up at", &|side| seconds(side.response.from));
        row("slept after", &|side| shown(side.response.ns()));
        for (at, (name, _)) in self.sides[0].response.parts().into_iter().enumerate() {
            let time = |side: &Period| side.response.parts()[at].1;
            // Omit a reason for which neither run lost time.
            if name == "work" || self.sides.iter().any(|side| time(side) > 0) {
                row(&format!("  {name}"), &|side| shown(time(side)));
            }
        }
        row("ran on", &|side| ran_on(&side.response));
        row("decision", &|side| {
            let decision = side.cause.as_ref().and_then(|cause| cause.decision);
            decision.unwrap_or("-").to_owned()
        });
        row("better CPU", &|side| {
            let better = side.cause.as_ref().and_then(|cause| cause.better);
            better.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string())
        });
        let [first, second] = &self.sides;
        let rows = rows.into_iter();
        Table {
            title: format!("{}, from its wakeup until it slept", first.response.name),
            header: vec![String::new(), first.policy.clone(), second.policy.clone()],
            text_columns: 3,
            rows: rows
                .map(|row| row.into_iter().map(Into::into).collect())
                .collect(),
            ..Table::default()
        }
    }

    /// The comparison as JSON, with a line feed at the end.
    pub fn json(&self) -> String {
        let sides: Vec<Value> = self.sides.iter().map(side).collect();
        let all = json!({
            "schema": SCHEMA,
            "machine": self.machine.name,
            "workload": self.workload,
            "seed": self.seed,
            "thread": self.sides[0].response.name,
            "sides": sides,
        });
        text(&all)
    }
}

/// The CPUs on which the thread ran, in words, such as `CPU 4 (10.2 ms), CPU 1 (300 us)`, longest first.
fn ran_on(response: &Response) -> String {
    let ran = response.ran.iter().map(|(&cpu, ran)| (cpu, ran.ns));
    let mut ran: Vec<(usize, u64)> = ran.filter(|&(_, ns)| ns > 0).collect();
    ran.sort_by_key(|&(cpu, ns)| (u64::MAX - ns, cpu));
    let named = ran.iter().take(MOST_CPUS);
    let mut named: Vec<String> = named
        .map(|&(cpu, ns)| format!("CPU {cpu} ({})", shown(ns)))
        .collect();
    if ran.len() > MOST_CPUS {
        named.push(format!("{} more", ran.len() - MOST_CPUS));
    }
    named.join(", ")
}

/// The decisions of the whole period, and the events of its longest wait.
fn decided(side: &Period) -> Vec<Table> {
    let whole = Table {
        title: format!("{}: all of the period", side.policy),
        ..chain(&side.whole, side.decisions)
    };
    let waited = side.waited.as_ref().map(|waited| {
        let table = chain(waited, side.decisions);
        Table {
            title: format!("{}: {}", side.policy, table.title),
            ..table
        }
    });
    let tables = waited.into_iter().chain([whole]);
    tables.filter(|table| !table.rows.is_empty()).collect()
}

fn side(side: &Period) -> Value {
    let response = &side.response;
    json!({
        "policy": side.policy,
        "from_ns": response.from,
        "to_ns": response.to,
        "parts": named_parts(response),
        "period": slow_of(response),
        "cause": side.cause.as_ref().map(|cause| cause_of(cause, response)),
        "waited": side.waited.as_ref().map(chain_of),
        "whole": chain_of(&side.whole),
    })
}
