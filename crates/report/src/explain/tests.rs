//! Causes in runs of small loads. The causes must be true at the time of the loss, whatever changes later in the run.

use super::{Asked, Cause, Explanation, Kind, item};
use lab::{Case, Runs, Scheduler, Watch};
use machine::Machine;

/// The causes that `explain --policy POLICY` names for `load` on `machine`.
fn causes(
    machine: &str,
    load: &str,
    policy: &str,
    threads: &[&str],
    at: Option<u64>,
) -> Vec<Cause> {
    let machine = Machine::find(machine).unwrap();
    let workload = workload::parse("load", "load.json", load, None).unwrap();
    let scheduler = Scheduler::policy(policy).unwrap();
    let case = Case {
        machine: &machine,
        workload: &*workload,
        scheduler: &scheduler,
    };
    let runs = Runs {
        count: 1,
        seed: 1,
        jobs: 1,
        noise: false,
    };
    let asked = Asked {
        threads: threads.iter().map(|&name| name.to_owned()).collect(),
        at,
        worst: 3,
    };
    let explanation = Explanation::of(&case, &runs, &asked, Watch::none().stop).unwrap();
    item::causes(&explanation, &item::items(&explanation))
}

fn has(causes: &[Cause], kind: Kind) -> bool {
    causes.iter().any(|cause| cause.kind == kind)
}

const HALF_OFFLINE: &str = r#"{
    "tasks": {
        "ui": { "loop": -1, "run": 3000, "timer": { "ref": "t", "period": 10000 } },
        "bg": { "instance": 3, "loop": -1, "run": 1000 }
    },
    "timeline": [{ "at": 500000, "cpus": [1], "online": false }],
    "global": { "duration": 1 }
}"#;

#[test]
fn an_offline_cpu_does_not_idle() {
    for policy in ["eevdf", "equipoise", "cfs"] {
        let found = causes("smp-2", HALF_OFFLINE, policy, &[], None);
        assert!(!found.is_empty());
        for cause in &found {
            assert_ne!(cause.better, Some(1), "{policy}: {cause:?}");
            let said = format!("{} {:?}", cause.sentence, cause.details);
            assert!(!said.contains("CPU 1 idled"), "{policy}: {said}");
            assert!(!said.contains("all 2 CPUs"), "{policy}: {said}");
        }
    }
}

/// The scheduler is loaded again 100 ms after the change.
#[test]
fn a_wait_without_a_scheduler_is_due_to_its_restart() {
    let found = causes("smp-2", HALF_OFFLINE, "eevdf", &["ui"], Some(540_000_000));
    assert_eq!(found[0].kind, Kind::Restart, "{found:?}");
    let late = causes("smp-2", HALF_OFFLINE, "eevdf", &["ui"], Some(900_000_000));
    assert!(!has(&late, Kind::Restart), "{late:?}");
}

/// The middle cores of sm8250 at 30 % of their frequency are slower than its little cores, and the fast core is offline.
#[test]
fn a_cpu_of_limited_frequency_is_no_faster_cpu() {
    let load = r#"{
        "tasks": { "ui": { "loop": -1, "run": 4000, "timer": { "ref": "t", "period": 10000 } } },
        "timeline": [
            { "at": 300000, "cpus": [4, 5, 6], "scaling_max_freq": "30%" },
            { "at": 300000, "cpus": [7], "online": false }
        ],
        "global": { "duration": 1 }
    }"#;
    for policy in ["eevdf", "equipoise"] {
        let found = causes("sm8250", load, policy, &[], Some(800_000_000));
        let slow = found.iter().filter(|cause| {
            [Kind::SlowCpu, Kind::FastCpusBusy, Kind::Affinity].contains(&cause.kind)
        });
        assert_eq!(slow.count(), 0, "{policy}: {found:?}");
        let limited = found.iter().flat_map(|cause| &cause.details);
        let mut limited = limited.filter(|said| said.starts_with("scaling_max_freq limits CPU"));
        assert!(limited.next().is_some(), "{policy}: {found:?}");
    }
}

#[test]
fn a_cause_is_about_the_priority_and_affinity_at_that_time() {
    let phases = |first: &str, second: &str| {
        format!(
            r#"{{ "tasks": {{
                "ui": {{ "loop": 1, "phases": {{
                    "first": {{ "loop": 40, "run": 3000, {first} "timer": {{ "ref": "t", "period": 10000 }} }},
                    "second": {{ "loop": 50, "run": 100, {second} "timer": {{ "ref": "t", "period": 20000 }} }}
                }} }},
                "loop": {{ "instance": 4, "loop": -1, "run": 5000, "cpus": [0, 1] }} }},
              "global": {{ "duration": 1 }} }}"#
        )
    };
    let nice = phases("", r#""priority": 15,"#);
    let bound = phases(r#""cpus": [0, 1],"#, r#""cpus": [1],"#);
    for policy in ["eevdf", "equipoise"] {
        let at = Some(200_000_000);
        let early = causes("smp-2", &nice, policy, &["ui"], at);
        assert!(!has(&early, Kind::Nice), "{policy}: {early:?}");
        for cause in causes("smp-8", &bound, policy, &["ui"], at) {
            let said = format!("{} {:?}", cause.sentence, cause.details);
            assert!(!said.contains("only CPU 1,"), "{policy}: {said}");
            assert!(!said.contains("no other CPU"), "{policy}: {said}");
        }
    }
}

/// The thread becomes a real-time thread while it runs, and then keeps its CPU.
#[test]
fn a_thread_that_becomes_real_time_is_known_as_such() {
    let load = r#"{ "tasks": {
        "fifo": { "loop": 1, "delay": 300000, "run": 100000000, "policy": "SCHED_FIFO", "priority": 50, "cpus": [0] },
        "victim": { "loop": -1, "run": 2000, "timer": { "ref": "t", "period": 10000 }, "cpus": [0] } },
        "global": { "duration": 1 } }"#;
    let found = causes("smp-2", load, "eevdf", &[], None);
    assert_eq!(found[0].kind, Kind::RealTime, "{found:?}");
}

#[test]
fn a_thread_does_not_share_a_core_with_itself() {
    let load = r#"{ "tasks": {
        "ui": { "loop": -1, "run": 6000, "timer": { "ref": "t", "period": 10000 } },
        "bg": { "instance": 3, "loop": -1, "run": 1000 },
        "batch": { "loop": -1, "run": 1000, "policy": "SCHED_IDLE" },
        "nicer": { "loop": -1, "run": 1000, "priority": 19 } },
        "global": { "duration": 1 } }"#;
    for thread in ["batch", "nicer"] {
        for cause in causes("smt-4", load, "equipoise", &[thread], None) {
            let with = cause.sentence.split_once("shared the core").map(|it| it.1);
            assert!(with.is_none_or(|with| !with.contains(thread)), "{cause:?}");
        }
    }
}
