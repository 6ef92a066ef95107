//! The reasons why threads waited, as JSON. docs/explain-json.md describes the fields.

use super::Explanation;
use super::beside::Share;
use super::chain::{Chain, Made, Step, What};
use super::item::{Item, items};
use super::missed::MissedPeriod;
use super::response::Response;
use super::wait::After;
use crate::json::text;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The version of the format, the same as for `compare`.
const SCHEMA: u32 = 2;

#[derive(Serialize)]
struct Ran<'a> {
    cpu: usize,
    #[serde(flatten)]
    other: Other<'a>,
}

#[derive(Serialize)]
struct Other<'a> {
    thread: &'a str,
    ns: u64,
}

#[derive(Serialize)]
struct Link<'a> {
    at_ns: u64,
    cpu: usize,
    #[serde(flatten)]
    what: Happened<'a>,
}

#[derive(Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
enum Happened<'a> {
    Woken {
        waited_for: Option<&'a str>,
        by: Option<&'a str>,
    },
    Decided(Decision<'a>),
    Moved {
        from: usize,
        to: usize,
    },
    Other {
        thread: Option<&'a str>,
        ns: u64,
    },
    Said {
        line: &'a str,
    },
    Runs,
}

#[derive(Serialize)]
struct Decision<'a> {
    decision: &'a str,
    says: &'a str,
    why: &'a str,
    numbers: BTreeMap<&'a str, i64>,
}

#[derive(Serialize)]
struct Times<'a> {
    times: u64,
    #[serde(flatten)]
    last: Decision<'a>,
}

#[derive(Serialize)]
struct Counted<'a> {
    thread: &'a str,
    times: u64,
    #[serde(flatten)]
    first: Decision<'a>,
}

/// The explanation as JSON, which ends in a line feed.
pub fn json(of: &Explanation<'_>) -> String {
    let threads = of.latencies.iter().map(|latencies| {
        let at = |share| (!latencies.ns.is_empty()).then(|| latencies.quantile(share));
        let total = of.totals.iter().find(|total| total.name == latencies.name);
        let lost = total.map(|total| {
            json!({
                "responses": total.responses,
                "woken_ns": total.woken_ns,
                "preempted_ns": total.preempted_ns,
                "slow_cpu_ns": total.slow.kind_ns,
                "frequency_ns": total.slow.frequency_ns,
                "shared_core_ns": total.slow.shared_ns,
            })
        });
        json!({
            "name": latencies.name,
            "lost": lost,
            "wakeups": latencies.ns.len(),
            "p50_ns": at(0.5),
            "p99_ns": at(0.99),
            "max_ns": at(1.0),
        })
    });
    let items = items(of);
    let (stalls, others): (Vec<_>, Vec<_>) = items.iter().partition(|item| item.is_stall());
    let causes = (stalls.iter().map(|item| cause(item, of)))
        .chain(missed_causes(of))
        .chain(others.iter().map(|item| cause(item, of)));
    let counted = of.counted.iter().map(|counted| Counted {
        thread: &counted.thread,
        times: counted.times,
        first: decision(&counted.made),
    });
    let explained = json!({
        "schema": SCHEMA,
        "machine": of.machine.name,
        "workload": of.workload,
        "policy": of.policy,
        "seed": of.seed,
        "deadlock": of.deadlock,
        "causes": causes.collect::<Value>(),
        "missed": of.periods.iter().map(missed).collect::<Value>(),
        "threads": threads.collect::<Value>(),
        "waits": of.waits.iter().map(chain_of).collect::<Value>(),
        "slow": of.slow.iter().map(|(response, _)| slow_of(response)).collect::<Value>(),
        "decisions": counted.collect::<Vec<_>>(),
    });
    text(&explained)
}

fn missed_causes<'a>(of: &'a Explanation<'_>) -> impl Iterator<Item = Value> + 'a {
    let causes = of.periods.iter();
    causes.map(|one| cause_of(&one.cause(of.machine), &one.missed.response))
}

/// A missed period. Its cause is in the list of causes, which has the missed periods in the same order.
fn missed(one: &MissedPeriod) -> Value {
    let MissedPeriod { missed, period } = one;
    json!({
        "thread": missed.response.name,
        "pid": missed.response.pid,
        "released_ns": missed.period.released,
        "due_ns": missed.period.due,
        "done_ns": missed.period.done,
        "behind_ns": missed.behind_ns(),
        "parts": named_parts(&missed.response),
        "period": slow_of(&missed.response),
        "waited": period.waited.as_ref().map(chain_of),
        "whole": chain_of(&period.whole),
    })
}

/// The duration of each part of the response, in ns.
pub(super) fn named_parts(response: &Response) -> Value {
    let parts = response.parts();
    let parts = parts.map(|(name, ns)| (name.replace(' ', "_") + "_ns", json!(ns)));
    serde_json::Map::from_iter(parts).into()
}

pub(super) fn cause_of(cause: &super::Cause, response: &Response) -> Value {
    named(
        cause,
        &response.name,
        response.pid,
        response.from,
        response.lost_ns(),
    )
}

fn cause(item: &Item<'_>, of: &Explanation<'_>) -> Value {
    let (thread, pid) = item.thread();
    named(&item.cause(of), thread, pid, item.at(), item.lost_ns())
}

/// The cause of a loss of `lost_ns` by the thread at `at_ns`.
fn named(cause: &super::Cause, thread: &str, pid: i32, at_ns: u64, lost_ns: u64) -> Value {
    json!({
        "thread": thread,
        "pid": pid,
        "at_ns": at_ns,
        "lost_ns": lost_ns,
        "kind": cause.kind,
        "says": cause.sentence,
        "details": cause.details,
        "decision": cause.decision,
        "cpu": cause.cpu,
        "better_cpu": cause.better,
    })
}

pub(super) fn chain_of(chain: &Chain) -> Value {
    let idled = chain.idled.iter().map(|idled| {
        let decisions = idled.decisions.iter().map(|(made, times)| Times {
            times: *times,
            last: decision(made),
        });
        json!({
            "cpu": idled.cpu,
            "ns": idled.ns,
            "slept": idled.slept,
            "decisions": decisions.collect::<Vec<_>>(),
        })
    });
    let ran = chain.beside.ran.iter().flat_map(|(&cpu, list)| {
        list.iter().map(move |one| Ran {
            cpu,
            other: other(one),
        })
    });
    json!({
        "thread": chain.wait.name,
        "pid": chain.wait.pid,
        "after": match chain.wait.after {
            After::Wakeup => "wakeup",
            After::Running { .. } => "running",
        },
        "from_ns": chain.wait.from,
        "to_ns": chain.wait.to,
        "chain": chain.steps.iter().map(link).collect::<Vec<_>>(),
        "idled": idled.collect::<Value>(),
        "ran": ran.collect::<Vec<_>>(),
        "waited": chain.beside.waited.iter().map(other).collect::<Vec<_>>(),
        "unsaid": chain.unsaid,
    })
}

/// A thread's activity from its wakeup until it slept.
pub(super) fn slow_of(response: &Response) -> Value {
    let ran = response.ran.iter().map(|(&cpu, ran)| {
        json!({
            "cpu": cpu,
            "from_ns": ran.from,
            "ns": ran.ns,
            "shared_ns": ran.shared_ns,
            "frequency": ran.frequency(),
        })
    });
    json!({
        "thread": response.name,
        "pid": response.pid,
        "from_ns": response.from,
        "to_ns": response.to,
        "ran_ns": response.ran_ns(),
        "fastest_ns": response.fastest_ns(),
        "ran": ran.collect::<Value>(),
        "idle_ns": response.idle_ns,
    })
}

fn other(share: &Share) -> Other<'_> {
    Other {
        thread: &share.name,
        ns: share.ns,
    }
}

fn link(step: &Step) -> Link<'_> {
    let what = match &step.what {
        What::Woken { waited_for, by } => Happened::Woken {
            waited_for: *waited_for,
            by: by.as_deref(),
        },
        What::Decided(made) => Happened::Decided(decision(made)),
        What::Moved { from, to } => Happened::Moved {
            from: *from,
            to: *to,
        },
        What::Other { task, ns } => Happened::Other {
            thread: task.as_deref(),
            ns: *ns,
        },
        What::Said(line) => Happened::Said { line },
        What::Runs => Happened::Runs,
    };
    Link {
        at_ns: step.at,
        cpu: step.cpu,
        what,
    }
}

fn decision(made: &Made) -> Decision<'_> {
    Decision {
        decision: made.decision.name,
        says: &made.what,
        why: &made.why,
        numbers: made
            .numbers
            .iter()
            .map(|&(name, _, value)| (name, value))
            .collect(),
    }
}
