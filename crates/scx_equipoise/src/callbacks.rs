//! `--costs`: the costs of the callbacks of the loaded scheduler, which may be of any project, as a section of a
//! machine file ([`machine::Callbacks`]).

use crate::control::{self, Request};
use crate::cost::{Cost, Measuring};
use anyhow::{Result, bail};
use libbpf_rs::ProgramType;
use libbpf_rs::btf::types::Func;
use libbpf_rs::btf::{Btf, TypeId};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};
use machine::CALLBACKS;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Measures the scheduler that `sched_ext` (`/sys/kernel/sched_ext`) says is loaded, until `time` has passed or
/// `stop` receives a message. Returns the section. `release` is the kernel's release.
pub fn measure(
    sched_ext: &Path,
    release: &str,
    time: Duration,
    stop: &Receiver<()>,
) -> Result<String> {
    let Ok(ops) = fs::read_to_string(sched_ext.join("root/ops")) else {
        bail!(
            "no sched_ext scheduler is loaded: expected a scheduler whose callbacks can be measured"
        );
    };
    let started = Instant::now();
    let measuring = Measuring::start()?;
    let before = programs();
    // The wait returns an error when the time is up, which is the normal case.
    let _ = stop.recv_timeout(time);
    let costs = difference(&before, &programs());
    drop(measuring);
    if !costs.values().any(|cost| cost.calls > 0) {
        bail!(
            "{}: no callback was called: expected a load that wakes tasks",
            ops.trim()
        );
    }
    let name = match control::ask(&Request::Get(vec!["policy".to_owned()])) {
        // The policy's name is in quotation marks, as in `policy = "hperf"`.
        Ok(policy) => policy.split('"').nth(1).unwrap_or("equipoise").to_owned(),
        Err(_) => without_version(ops.trim()).to_owned(),
    };
    let source = format!(
        "scx_equipoise --costs, {:.0} s on Linux {release}",
        started.elapsed().as_secs_f64()
    );
    Ok(section(&name, &source, &costs, clock_ns()))
}

/// The cost so far of each loaded program that is a callback of [`CALLBACKS`], by its id.
fn programs() -> BTreeMap<u32, (&'static str, Cost)> {
    let options = ProgInfoQueryOptions::default().include_func_info(true);
    let mut costs = BTreeMap::new();
    for info in ProgInfoIter::with_query_opts(options) {
        let is_candidate = matches!(info.ty, ProgramType::StructOps | ProgramType::Tracing);
        let Some(name) = is_candidate.then(|| function(&info)).flatten() else {
            continue;
        };
        // Every callback is a member of struct sched_ext_ops, except for the program at a tracepoint.
        if let Some(callback) = callback(&name)
            && (info.ty == ProgramType::StructOps) != (callback == "sched_switch")
        {
            let cost = Cost {
                calls: info.run_cnt,
                ns: info.run_time_ns,
            };
            costs.insert(info.id, (callback, cost));
        }
    }
    costs
}

/// The name of the program's main function, because the program's own name has at most 15 letters.
fn function(info: &ProgramInfo) -> Option<String> {
    let id = info.func_info.first()?.type_id;
    let btf = Btf::from_prog_id(info.id).ok()?;
    let function: Func<'_> = btf.type_by_id(TypeId::from(id))?;
    Some(function.name()?.to_string_lossy().into_owned())
}

/// The callback whose name is the end of `function`, as in `bpfland_update_idle`.
fn callback(function: &str) -> Option<&'static str> {
    let ends = |name: &&&str| {
        function
            .strip_suffix(**name)
            .is_some_and(|scheduler| scheduler.ends_with('_'))
    };
    CALLBACKS
        .iter()
        .filter(ends)
        .max_by_key(|name| name.len())
        .copied()
}

/// The number of calls and the time that were added to each callback between two readings.
fn difference(
    before: &BTreeMap<u32, (&'static str, Cost)>,
    after: &BTreeMap<u32, (&'static str, Cost)>,
) -> BTreeMap<&'static str, Cost> {
    let mut sums: BTreeMap<&'static str, Cost> = BTreeMap::new();
    for (id, (name, cost)) in after {
        let was = before.get(id).map(|(_, cost)| *cost).unwrap_or_default();
        let new = cost.since(was);
        let sum = sums.entry(name).or_default();
        sum.calls += new.calls;
        sum.ns += new.ns;
    }
    sums
}

/// A scheduler's name without its version: `bpfland` of `bpfland_1.1.4_x86_64_unknown_linux_gnu`.
fn without_version(ops: &str) -> &str {
    let version = |(at, _): &(usize, &str)| ops[at + 1..].starts_with(|c: char| c.is_ascii_digit());
    ops.match_indices('_')
        .find(version)
        .map_or(ops, |(at, _)| &ops[..at])
}

/// The shortest time in ns between two readings of the clock, which the kernel's measuring adds to each call.
fn clock_ns() -> u64 {
    let between = |_| {
        let start = Instant::now();
        start.elapsed().as_nanos() as u64
    };
    (0..1000).map(between).min().unwrap_or_default()
}

fn section(
    name: &str,
    source: &str,
    costs: &BTreeMap<&'static str, Cost>,
    clock_ns: u64,
) -> String {
    let mut text = format!(
        "# Wall time on the CPU that calls, less {clock_ns} ns of each call for the clock.\n\
         [callbacks.{}]\nsource = \"{source}\"\n",
        key(name)
    );
    for callback in CALLBACKS {
        let Some(cost) = costs.get(callback).filter(|cost| cost.calls > 0) else {
            continue;
        };
        let ns = (cost.ns / cost.calls).saturating_sub(clock_ns);
        let _ = writeln!(text, "{callback} = {ns} # {} calls", cost.calls);
    }
    text
}

/// A scheduler's name as a key of TOML, which is quoted if it has settings (`equipoise:prefer=power`).
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match name.chars().all(is_bare) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(calls: u64, ns: u64) -> Cost {
        Cost { calls, ns }
    }

    #[test]
    fn a_callback_is_what_the_name_ends_with() {
        for (function, found) in [
            ("bpfland_update_idle", Some("update_idle")),
            ("simple_enable", Some("enable")),
            ("equipoise_exit_task", Some("exit_task")),
            ("rusty_init_task", Some("init_task")),
            ("tick", None),
            ("bpfland_exit", None),
            ("my_antiyield", None),
        ] {
            assert_eq!(callback(function), found, "{function}");
        }
    }

    #[test]
    fn the_version_is_no_part_of_the_name() {
        for (ops, name) in [
            ("bpfland_1.1.4_x86_64_unknown_linux_gnu", "bpfland"),
            ("equipoise_cfs", "equipoise_cfs"),
            ("simple", "simple"),
        ] {
            assert_eq!(without_version(ops), name);
        }
    }

    #[test]
    fn only_what_is_new_counts() {
        let before = BTreeMap::from([
            (7, ("enqueue", cost(10, 5000))),
            (9, ("tick", cost(3, 600))),
        ]);
        let after = BTreeMap::from([
            (7, ("enqueue", cost(30, 9000))),
            (8, ("dispatch", cost(2, 900))),
        ]);
        let sums = difference(&before, &after);
        assert_eq!(
            sums,
            BTreeMap::from([("enqueue", cost(20, 4000)), ("dispatch", cost(2, 900))])
        );
    }

    #[test]
    fn the_section_is_one_of_a_machine_file() {
        let costs = BTreeMap::from([
            ("enqueue", cost(20, 4000)),
            ("yield", cost(0, 0)),
            ("tick", cost(2, 30)),
        ]);
        let text = section("bpfland", "a test", &costs, 50);
        assert!(text.contains("enqueue = 150 # 20 calls\n"), "{text}");
        assert!(text.contains("tick = 0 # 2 calls\n"), "{text}");
        assert!(!text.contains("yield"), "{text}");
        let machine = "name = \"m\"\n[core.c]\n[[package]]\n[[package.cluster]]\ncore = \"c\"\ncpus = \"0-1\"\n";
        for name in ["bpfland", "equipoise:prefer=power", "scx.simple"] {
            let text = machine.to_owned() + &section(name, "a test", &costs, 50);
            let machine = machine::Machine::parse("m.toml", &text).unwrap();
            assert!(machine.callbacks.contains_key(name), "{text}");
        }
    }
}
