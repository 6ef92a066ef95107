//! Digests of whole traces: a change that is not meant to change a decision, of the scheduler or of the
//! simulated kernel, leaves all of them alone.
//!
//! `make record-decisions` writes down what comes out now, for the commit that means to change them.

use lab::{Case, Runs, Scheduler};
use machine::Machine;
use policy::Policy;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use simulator::{Event, Trace};
use std::fmt::Write as _;
use std::path::Path;

/// Every policy, and a scheduler with slices, runs each of these workloads on each of these machines.
const MACHINES: [&str; 4] = ["tc2", "smt-4", "snb-ep-2s", "odroid-xu3"];
const WORKLOADS: [&str; 3] = [
    "decisions/every-class.json",
    "mixed",
    "hackbench:groups=3,fds=6,loops=100",
];

/// And these, which have what the others lack: cpufreq and a network adapter on USB, polling, the costs of
/// shared memory, locks of the kernel's.
const MORE: [(&str, &str); 5] = [
    ("hikey-6220", "iperf:time=1"),
    ("hikey-6220", "rt-cfs-pinned"),
    ("odroid-xu3", "streamcluster:threads=7,scale=100"),
    ("snb-4s", "hackbench:groups=3,fds=8,loops=40"),
    (
        "hp-8s-80c-ht",
        "aim7-disk:users=100,users_max=120,least=5ms",
    ),
];

/// The digest of a trace, event by event.
#[derive(Default)]
struct Digested {
    sha: Sha256,
    line: String,
    events: u64,
}

impl Trace for Digested {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        // The hardware's decision, which the power and what follows tell of.
        if matches!(event, Event::Turbo { .. }) {
            return;
        }
        self.events += 1;
        self.line.clear();
        writeln!(self.line, "{now} {cpu} {event:?}").unwrap();
        self.sha.update(&self.line);
    }
}

/// A file beside this test, or what comes with Equipoise.
fn place(name: &str) -> String {
    match name.starts_with("decisions/") {
        true => format!("{}/tests/{name}", env!("CARGO_MANIFEST_DIR")),
        false => name.to_owned(),
    }
}

fn scheduler(name: &str) -> Scheduler {
    match name.ends_with(".c") {
        true => Scheduler::foreign(&[Path::new(&place(name))], &[]).unwrap(),
        false => Scheduler::policy(name).unwrap(),
    }
}

/// `machine workload scheduler: so many events, their digest`
fn decisions(machine: &str, workload: &str, scheduler: &str) -> String {
    let mut digested = Digested::default();
    let runs = Runs {
        count: 1,
        seed: 1,
        jobs: 1,
    };
    let case = Case {
        machine: &Machine::find(machine).unwrap(),
        workload: &*::workload::load(&place(workload)).unwrap(),
        scheduler: &self::scheduler(scheduler),
    };
    lab::trace(&case, &runs, &mut digested).unwrap();
    let Digested { sha, events, .. } = digested;
    let digest = sha.finalize();
    let hex: String = digest[..12]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{machine} {workload} {scheduler}: {events} events {hex}\n")
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
