//! Digests of whole traces: a change that is not meant to change a decision, of the scheduler or of the simulated
//! kernel, leaves all digests unchanged.
//!
//! `make record-decisions` records the current digests, for a commit that is meant to change them.

use lab::{Case, Runs, Scheduler};
use machine::Machine;
use native::Kernel;
use policy::Policy;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use simulator::{Event, Trace};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Every policy, and a scheduler with slices, runs each of these workloads on each of these machines.
const MACHINES: [&str; 4] = ["tc2", "smt-4", "snb-ep-2s", "odroid-xu3"];
const WORKLOADS: [&str; 3] = [
    "decisions/every-class.json",
    "mixed",
    "hackbench:groups=3,fds=6,loops=100",
];

/// Runs that cover more features: cpufreq and a network adapter on USB, polling, the costs of shared memory, and kernel
/// locks.
const MORE: [(&str, &str); 5] = [
    ("hikey-6220", "iperf:time=1"),
    ("hikey-6220", "rt-cfs-pinned"),
    ("odroid-xu3", "streamcluster:threads=7,scale=100"),
    ("snb-4s", "hackbench:groups=3,fds=8,loops=40"),
    ("hp-8s-80c-ht", "aim7-disk:users=100,users_max=120"),
];

/// The runs for which reasons are recorded as well: a machine of the kind that each design is for, and a machine with
/// the costs of shared memory.
const EXPLAINED: [(&str, &str); 4] = [
    ("tc2", "mixed"),
    ("odroid-xu3", "decisions/every-class.json"),
    ("snb-ep-2s", "hackbench:groups=3,fds=6,loops=100"),
    ("snb-4s", "hackbench:groups=3,fds=8,loops=40"),
];

/// The digest of a trace, event by event.
#[derive(Default)]
struct Digested {
    sha: Sha256,
    line: String,
    events: u64,
    explained: u64,
}

impl Trace for Digested {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        // The left-out events are the hardware's decisions, which appear in the power and in later
        // events; facts about tasks that no decision changes; and reasons, which a test requests.
        if matches!(
            event,
            Event::Turbo { .. }
                | Event::FrequencyLimit { .. }
                | Event::Online(_)
                | Event::Loaded(_)
                | Event::Waker { .. }
                | Event::Affinity { .. }
                | Event::Weight { .. }
                | Event::Polls { .. }
                | Event::Period { .. }
                | Event::Decision { .. }
        ) {
            self.explained += u64::from(matches!(event, Event::Decision { .. }));
            return;
        }
        self.events += 1;
        self.line.clear();
        writeln!(self.line, "{now} {cpu} {event:?}").unwrap();
        self.sha.update(&self.line);
    }
}

/// A file next to this test, or a built-in name.
fn place(name: &str) -> String {
    match name.starts_with("decisions/") {
        true => format!("{}/tests/{name}", env!("CARGO_MANIFEST_DIR")),
        false => name.to_owned(),
    }
}

fn scheduler(name: &str) -> Scheduler {
    match name.ends_with(".c") {
        // Linux 6.12 and 7.3 choose idle CPUs differently.
        true => {
            let file = place(name);
            Scheduler::foreign_in(&[Path::new(&file)], &[], Kernel::V6_12).unwrap()
        }
        false => Scheduler::policy(name).unwrap(),
    }
}

/// Returns `machine workload scheduler: number of events, their digest`.
fn decisions(machine: &str, workload: &str, scheduler: &str) -> String {
    digest(machine, workload, scheduler, lab::trace_until).0
}

type Tracing = fn(&Case<'_>, &Runs, &mut dyn Trace, &AtomicBool) -> lab::Traced;

/// As [`decisions`], for a run traced with `traced`; also returns the number of recorded decisions.
fn digest(machine: &str, workload: &str, scheduler: &str, traced: Tracing) -> (String, u64) {
    let mut digested = Digested::default();
    let runs = Runs {
        count: 1,
        seed: 1,
        jobs: 1,
        noise: false,
    };
    let case = Case {
        machine: &Machine::find(machine).unwrap(),
        workload: &*::models::load(&place(workload)).unwrap(),
        scheduler: &self::scheduler(scheduler),
    };
    traced(&case, &runs, &mut digested, &AtomicBool::new(false)).unwrap();
    let Digested {
        sha,
        events,
        explained,
        ..
    } = digested;
    let digest = sha.finalize();
    let hex: String = digest[..12]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let line = format!("{machine} {workload} {scheduler}: {events} events {hex}\n");
    (line, explained)
}

#[test]
fn to_say_why_changes_no_decision() {
    let cases: Vec<_> = EXPLAINED
        .iter()
        .flat_map(|case| Policy::names().map(move |policy| (case.0, case.1, policy)))
        .collect();
    cases
        .into_par_iter()
        .with_max_len(1)
        .for_each(|(machine, workload, policy)| {
            let (silent, none) = digest(machine, workload, policy, lab::trace_until);
            let (explained, some) = digest(machine, workload, policy, lab::explain_until);
            assert_eq!(silent, explained);
            assert!(none == 0 && some > 100, "{explained}: {some} explained");
        });
}

#[test]
fn no_decision_has_changed() {
    let everywhere = MACHINES
        .iter()
        .flat_map(|machine| WORKLOADS.map(|workload| (*machine, workload)));
    let own = Policy::names();
    let schedulers: Vec<_> = own.chain(["decisions/slices.bpf.c"]).collect();
    let cases: Vec<_> = everywhere
        .chain(MORE)
        .flat_map(|(machine, workload)| {
            schedulers
                .iter()
                .map(move |scheduler| (machine, workload, *scheduler))
        })
        .collect();
    let lines: Vec<String> = cases
        .into_par_iter()
        .with_max_len(1)
        .map(|(machine, workload, scheduler)| decisions(machine, workload, scheduler))
        .collect();
    insta::assert_snapshot!(lines.concat());
}
