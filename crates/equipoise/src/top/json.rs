//! An interval as JSON. Numbers that the kernel does not provide are null.

use super::page::{self, Callback, Rate};
use super::sample::{Computer, Cpu, Interval};
use super::threads::Thread;
use report::json::text;
use serde_json::{Value, json};

/// The interval as JSON: `title`, `scheduler`, `seconds`; `cpus[]`; `threads[]`, the threads that ran, sorted by CPU
/// time, largest first; `decisions[]`, `callbacks[]` and `power_w` of the scheduler; `missing[]`, which lists the
/// values that could not be read, with the reasons.
pub fn json(computer: &Computer, interval: &Interval) -> String {
    let cpus: Vec<Value> = interval
        .cpus
        .iter()
        .map(|(&id, did)| cpu(computer, id, did))
        .collect();
    let threads: Vec<Value> = interval.threads.iter().map(thread).collect();
    let decisions: Vec<Value> = page::decisions(interval).iter().map(rate).collect();
    let callbacks: Vec<Value> = page::costs(interval).iter().map(callback).collect();
    let power: serde_json::Map<_, _> = page::power(interval)
        .into_iter()
        .map(|(domain, watts)| (domain, json!(watts)))
        .collect();
    let missing = interval.missing.iter();
    let missing: Vec<Value> = missing
        .map(|(what, why)| json!({ "what": what, "why": why }))
        .collect();
    let all = json!({
        "title": page::title(interval),
        "scheduler": interval.scheduler,
        "seconds": interval.seconds,
        "cpus": cpus,
        "threads": threads,
        "decisions": decisions,
        "callbacks": callbacks,
        "power_w": power,
        "missing": missing,
    });
    text(&all)
}

fn cpu(computer: &Computer, id: usize, did: &Cpu) -> Value {
    let machine = &computer.machine;
    let clusters = machine.clusters();
    json!({
        "cpu": id,
        "cluster": clusters.iter().position(|cluster| cluster.contains(id)),
        "capacity": machine.cpus.get(id).map(|cpu| cpu.capacity),
        "busy_pct": did.busy * 100.0,
        "waiting": did.waiting,
        "khz": did.khz,
        "switches_per_s": did.switches,
    })
}

fn thread(thread: &Thread) -> Value {
    json!({
        "name": thread.name,
        "process": thread.process,
        "pid": thread.pid,
        "tid": thread.tid,
        "cpu": thread.cpu,
        "cpu_pct": thread.ran * 100.0,
        "wait_ns": thread.wait_ns,
        "wait_p99_ns": thread.wait_p99_ns,
        "runs_per_s": thread.turns,
        "migrations_per_s": thread.migrations,
    })
}

fn rate(rate: &Rate) -> Value {
    json!({ "name": rate.name, "what": rate.what, "per_s": rate.a_second })
}

fn callback(callback: &Callback) -> Value {
    json!({
        "name": callback.name,
        "calls_per_s": callback.calls,
        "ns_per_call": callback.ns,
    })
}
