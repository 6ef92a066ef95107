//! The reasons why threads waited, as JSON. docs/explain-json.md describes the fields.

use super::Explanation;
use super::beside::Share;
use super::cause::Kind;
use super::chain::{Chain, Made, Step, What};
use super::item::{Item, items};
use super::missed::MissedPeriod;
use super::response::Response;
use super::wait::After;
use serde::Serialize;
use std::collections::BTreeMap;

/// The version of the format, the same as for `compare`.
const SCHEMA: u32 = 2;

#[derive(Serialize)]
struct Explained<'a> {
    schema: u32,
    machine: &'a str,
    workload: &'a str,
    policy: &'a str,
    seed: u64,
    causes: Vec<Cause>,
    missed: Vec<serde_json::Value>,
    threads: Vec<Thread<'a>>,
    waits: Vec<Waited<'a>>,
    slow: Vec<Slow<'a>>,
    decisions: Vec<Counted<'a>>,
}

#[derive(Serialize)]
struct Cause {
    thread: String,
    pid: i32,
    at_ns: u64,
    lost_ns: u64,
    kind: Kind,
    says: String,
    details: Vec<String>,
    decision: Option<&'static str>,
    cpu: Option<usize>,
    better_cpu: Option<usize>,
}

#[derive(Serialize)]
struct Thread<'a> {
    name: &'a str,
    lost: Option<TimeLost>,
    wakeups: usize,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
}

#[derive(Serialize)]
struct TimeLost {
    responses: usize,
    woken_ns: u64,
    preempted_ns: u64,
    slow_cpu_ns: u64,
    frequency_ns: u64,
    shared_core_ns: u64,
}

#[derive(Serialize)]
struct Waited<'a> {
    thread: &'a str,
    pid: i32,
    after: &'static str,
    from_ns: u64,
    to_ns: u64,
    chain: Vec<Link<'a>>,
    idled: Vec<Idled<'a>>,
    ran: Vec<Ran<'a>>,
    waited: Vec<Other<'a>>,
    unsaid: usize,
}

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
struct Slow<'a> {
    thread: &'a str,
    pid: i32,
    from_ns: u64,
    to_ns: u64,
    ran_ns: u64,
    fastest_ns: u64,
    ran: Vec<SlowOn>,
    idle_ns: &'a [u64],
}

#[derive(Serialize)]
struct SlowOn {
    cpu: usize,
    from_ns: u64,
    ns: u64,
    shared_ns: u64,
    frequency: f64,
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
struct Idled<'a> {
    cpu: usize,
    ns: u64,
    /// Was the CPU idle all the time without a decision since it went idle?
    slept: bool,
    decisions: Vec<Times<'a>>,
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
        Thread {
            name: &latencies.name,
            lost: total.map(|total| TimeLost {
                responses: total.responses,
                woken_ns: total.woken_ns,
                preempted_ns: total.preempted_ns,
                slow_cpu_ns: total.slow.kind_ns,
                frequency_ns: total.slow.frequency_ns,
                shared_core_ns: total.slow.shared_ns,
            }),
            wakeups: latencies.ns.len(),
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            max_ns: at(1.0),
        }
    });
    let items = items(of);
    let (stalls, others): (Vec<_>, Vec<_>) = items.iter().partition(|item| item.is_stall());
    let explained = Explained {
        schema: SCHEMA,
        machine: &of.machine.name,
        workload: of.workload,
        policy: of.policy,
        seed: of.seed,
        causes: stalls
            .iter()
            .map(|item| cause(item, of))
            .chain(missed_causes(of))
            .chain(others.iter().map(|item| cause(item, of)))
            .collect(),
        missed: of.periods.iter().map(missed).collect(),
        threads: threads.collect(),
        waits: of.waits.iter().map(waited).collect(),
        slow: of.slow.iter().map(|(response, _)| slow(response)).collect(),
        decisions: of
            .counted
            .iter()
            .map(|counted| Counted {
                thread: &counted.thread,
                times: counted.times,
                first: decision(&counted.made),
            })
            .collect(),
    };
    let mut text = serde_json::to_string_pretty(&explained).expect("names and numbers are JSON");
    text.push('\n');
    cage::text::json(text)
}

fn missed_causes<'a>(of: &'a Explanation<'_>) -> impl Iterator<Item = Cause> + 'a {
    let causes = of.periods.iter();
    causes.map(|one| in_response(&one.cause(of.machine), &one.missed.response))
}

/// A missed period. Its cause is in the list of causes, which has the same order.
fn missed(one: &MissedPeriod) -> serde_json::Value {
    let MissedPeriod { missed, period } = one;
    serde_json::json!({
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

/// The time lost by reason, in ns.
pub(super) fn named_parts(response: &Response) -> serde_json::Value {
    let parts = response.parts();
    let parts = parts.map(|(name, ns)| (name.replace(' ', "_") + "_ns", serde_json::json!(ns)));
    serde_json::Map::from_iter(parts).into()
}

/// The cause of the time that `response` lost.
pub(super) fn cause_of(cause: &super::Cause, response: &Response) -> serde_json::Value {
    serde_json::json!(in_response(cause, response))
}

fn in_response(cause: &super::Cause, response: &Response) -> Cause {
    Cause {
        thread: response.name.clone(),
        pid: response.pid,
        at_ns: response.from,
        lost_ns: response.lost_ns(),
        kind: cause.kind,
        says: cause.sentence.clone(),
        details: cause.details.clone(),
        decision: cause.decision,
        cpu: cause.cpu,
        better_cpu: cause.better,
    }
}

/// The events of a wait.
pub(super) fn chain_of(chain: &Chain) -> serde_json::Value {
    serde_json::json!(waited(chain))
}

/// A thread's activity from its wakeup until it slept.
pub(super) fn slow_of(response: &Response) -> serde_json::Value {
    serde_json::json!(slow(response))
}

fn cause(item: &Item<'_>, of: &Explanation<'_>) -> Cause {
    let cause = item.cause(of);
    let (thread, pid) = item.thread();
    Cause {
        thread: thread.to_owned(),
        pid,
        at_ns: item.at(),
        lost_ns: item.lost_ns(),
        kind: cause.kind,
        says: cause.sentence,
        details: cause.details,
        decision: cause.decision,
        cpu: cause.cpu,
        better_cpu: cause.better,
    }
}

fn waited(chain: &Chain) -> Waited<'_> {
    Waited {
        thread: &chain.wait.name,
        pid: chain.wait.pid,
        after: match chain.wait.after {
            After::Wakeup => "wakeup",
            After::Running { .. } => "running",
        },
        from_ns: chain.wait.from,
        to_ns: chain.wait.to,
        chain: chain.steps.iter().map(link).collect(),
        idled: chain
            .idled
            .iter()
            .map(|idled| Idled {
                cpu: idled.cpu,
                ns: idled.ns,
                slept: idled.slept,
                decisions: idled
                    .decisions
                    .iter()
                    .map(|(made, times)| Times {
                        times: *times,
                        last: decision(made),
                    })
                    .collect(),
            })
            .collect(),
        ran: chain
            .beside
            .ran
            .iter()
            .flat_map(|(&cpu, list)| {
                list.iter().map(move |one| Ran {
                    cpu,
                    other: other(one),
                })
            })
            .collect(),
        waited: chain.beside.waited.iter().map(other).collect(),
        unsaid: chain.unsaid,
    }
}

fn slow(response: &Response) -> Slow<'_> {
    let ran = response.ran.iter().map(|(&cpu, ran)| SlowOn {
        cpu,
        from_ns: ran.from,
        ns: ran.ns,
        shared_ns: ran.shared_ns,
        frequency: ran.frequency(),
    });
    Slow {
        thread: &response.name,
        pid: response.pid,
        from_ns: response.from,
        to_ns: response.to,
        ran_ns: response.ran_ns(),
        fastest_ns: response.fastest_ns(),
        ran: ran.collect(),
        idle_ns: &response.idle_ns,
    }
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
