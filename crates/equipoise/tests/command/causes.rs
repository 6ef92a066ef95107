//! `equipoise explain` names the cause: for each case with a known cause, the first sentence.

use crate::common::{json, root, stdout};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A machine, a load and a scheduler with a known cause of the thread's largest loss.
struct Case {
    folder: TempDir,
    machine: String,
    workload: String,
    scheduler: Vec<String>,
    thread: &'static str,
}

impl Case {
    fn new(machine: &str, workload: &str, policy: &str, thread: &'static str) -> Case {
        Case {
            folder: tempfile::tempdir().unwrap(),
            machine: machine.to_owned(),
            workload: workload.to_owned(),
            scheduler: vec!["--policy".to_owned(), policy.to_owned()],
            thread,
        }
    }

    /// Explains a load in rt-app's format.
    fn of_load(machine: &str, load: &str, policy: &str, thread: &'static str) -> Case {
        let mut case = Case::new(machine, "", policy, thread);
        case.workload = path(&case.file("load.json", load));
        case
    }

    /// The same case under a scheduler in C.
    fn under(mut self, source: &str) -> Case {
        let file = path(&self.file("scheduler.bpf.c", source));
        self.scheduler = vec!["--scheduler".to_owned(), file];
        self
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    }

    fn args(&self) -> Vec<&str> {
        let mut args = vec!["explain", "--machine", &self.machine];
        args.extend(["--workload", &self.workload, "--task", self.thread]);
        args.extend(self.scheduler.iter().map(String::as_str));
        args
    }

    /// The first sentence of the page contains `words`; the first cause in JSON is of this kind,
    /// with this decision if the scheduler reports any. Returns that cause.
    fn is(&self, kind: &str, decision: Option<&str>, words: &[&str]) -> Value {
        let said = stdout(&self.args());
        let sentence = first_sentence(&said);
        let loss = sentence.starts_with(self.thread) && sentence.contains(" because ");
        assert!(loss, "{sentence}");
        for word in words {
            assert!(sentence.contains(word), "{word}: {sentence}");
        }
        let mut args = self.args();
        args.extend(["--format", "json"]);
        let cause = json(&args)["causes"][0].clone();
        assert_eq!(cause["kind"], kind, "{cause:#}");
        assert_eq!(cause["says"], sentence, "{cause:#}");
        if let Some(decision) = decision {
            assert_eq!(cause["decision"], decision, "{cause:#}");
        }
        cause
    }
}

fn path(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The first sentence after the page's title and notes.
fn first_sentence(page: &str) -> String {
    let verdict = page.split("\n\n").nth(1).unwrap_or_default();
    let line = verdict.lines().next().unwrap_or_default();
    let ends = |at: usize| line[at..].starts_with(". ");
    let end = (0..line.len()).find(|&at| line.is_char_boundary(at) && ends(at));
    match end {
        Some(end) => line[..=end].to_owned(),
        None => line.to_owned(),
    }
}

/// Three kinds of core under a design for two: `hperf` counts the middle ones as slow, and they
/// leave a slow task where it is.
#[test]
fn capacity_misfit() {
    let case = Case::new("sm8250", "mixed:duration=2", "hperf", "ui");
    let words = [
        "it ran on CPU",
        "(speed 284 of 1024)",
        "(speed 871 of 1024) idled",
        "counts it among the slow",
    ];
    let cause = case.is("slow_cpu", Some("not_fast"), &words);
    assert!(
        (4..=6).contains(&cause["better_cpu"].as_u64().unwrap()),
        "{cause:#}"
    );
}

const PINNED: &str = r#"{ "tasks": {
    "hog": { "instance": 3, "run": 400000, "loop": 1, "cpus": [0] },
    "light": { "run": 1000, "timer": { "ref": "t", "period": 10000 }, "loop": 30, "cpus": [0] } } }"#;

#[test]
fn pinned_crowd() {
    for policy in ["eevdf", "equipoise"] {
        let case = Case::of_load("smp-2", PINNED, policy, "light");
        let words = [
            "its affinity allows only CPU 0",
            "hog-",
            "while CPU 1 idled",
        ];
        case.is("affinity", None, &words);
    }
}

const PRODUCER: &str = r#"{ "tasks": {
    "producer": { "loop": -1, "phases": {
        "short": { "loop": 20, "run": 30, "resume": "item", "sleep": 1000 },
        "long": { "loop": 1, "resume": "item", "run": 20000, "sleep": 1000 } } },
    "consumer": { "loop": -1, "suspend": "item", "run": 40 } },
    "global": { "duration": 1 } }"#;

/// Each woken task stays with its waker, as if the waker always went to sleep at once.
const STICKY: &str = r#"#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
s32 BPF_STRUCT_OPS(sticky_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
    scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
    return bpf_get_smp_processor_id();
}
void BPF_STRUCT_OPS(sticky_enqueue, struct task_struct *p, u64 enq_flags)
{
    scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags);
}
SCX_OPS_DEFINE(sticky_ops, .select_cpu = (void *)sticky_select_cpu, .enqueue = (void *)sticky_enqueue,
               .name = "sticky");
"#;

#[test]
fn sync_wakeup_onto_a_busy_cpu() {
    let case = Case::of_load("smp-2", PRODUCER, "eevdf", "consumer").under(STICKY);
    let words = [
        "producer woke it up and continued to run",
        "CPU 0 idled for all of it",
    ];
    case.is("with_waker", None, &words);
}

/// A write to a pipe wakes the reader with SCX_WAKE_SYNC, which promises that the writer sleeps soon;
/// here it computes for 12 ms. The reader's own CPU, with another cache, idles.
#[test]
fn sync_wakeup_by_a_pipe() {
    let machine = r#"name = "two-caches"
        [core.any]
        [[package]]
        [[package.cluster]]
        core = "any"
        cpus = "0"
        [[package.cluster]]
        core = "any"
        cpus = "1""#;
    let written = r#"{"run": 300000}, {"write": [0, 64]}, {"run": 12000000}, {"sleep": 8000000}"#;
    let read = r#"{"read": [0, 64]}, {"run": 500000}"#;
    let load = format!(
        r#"{{ "recording": 4, "description": "a pipe", "streams": [65536], "mutexes": 0, "threads": [
            {{ "name": "writer", "nice": 0, "steps": [{{"fork": 1}}, {}] }},
            {{ "name": "reader", "nice": 0, "steps": [{}] }} ] }}"#,
        [written; 10].join(", "),
        [read; 10].join(", "),
    );
    let mut case = Case::of_load("", &load, "cfs", "reader");
    case.machine = path(&case.file("two.toml", machine));
    let words = [
        "it was placed on CPU 0, where writer woke it up and continued to run",
        "while CPU 1 idled for all of it",
    ];
    let cause = case.is("with_waker", Some("none_near_idle"), &words);
    assert_eq!(cause["better_cpu"], 1);
}

/// A thread that often runs for a short time makes CPU 0 run into the limit on searches.
#[test]
fn limiter() {
    let load = r#"{ "tasks": {
        "flip": { "loop": -1, "run": 300, "sleep": 700, "cpus": [0] },
        "one": { "loop": 100, "run": 5000, "timer": { "ref": "a", "period": 20000 } },
        "two": { "loop": 100, "run": 5000, "timer": { "ref": "b", "period": 21000 } } },
        "global": { "duration": 2 } }"#;
    let case = Case::of_load("smp-2", load, "newidle-limit", "two");
    let words = [
        "the idle CPU 0 did not take it",
        "does not search for work",
        "the limit of 5.00 ms",
    ];
    let cause = case.is("not_pulled", Some("idle_too_often"), &words);
    assert_eq!(cause["better_cpu"], 0);
}

#[test]
fn packing() {
    let load = r#"{ "tasks": {
        "one": { "run": 3000, "timer": { "ref": "t", "period": 16000 }, "loop": 40 },
        "two": { "run": 3000, "timer": { "ref": "u", "period": 16000 }, "loop": 40 } } }"#;
    let case = Case::of_load("smp-8", load, "powersaving", "two");
    let words = [
        "it was placed on the busy CPU",
        "its group is already in use",
    ];
    case.is("placement", Some("packed"), &words);
}

/// The task has slept, so its utilization and with it the frequency are low when its burst begins.
#[test]
fn frequency_ramp() {
    let load = r#"{ "tasks": {
        "burst": { "loop": 10, "run": 20000, "timer": { "ref": "t", "period": 200000 } } } }"#;
    let case = Case::of_load("hikey-6220", load, "schedutil-cfs", "burst");
    let words = ["% of its highest frequency"];
    let cause = case.is("frequency", Some("frequency"), &words);
    let request = cause["details"][0].as_str().unwrap();
    assert!(
        request.contains("requests") && request.contains("of 1024"),
        "{cause:#}"
    );
}

/// CPUs 0 and 4 share a core. The thread returns to CPU 0, which is idle, while other cores are.
#[test]
fn smt_sibling() {
    let load = r#"{ "tasks": {
        "hog": { "run": 400000, "loop": 1, "cpus": [4] },
        "light": { "phases": {
            "first": { "cpus": [0], "run": 100, "loop": 1, "sleep": 5000 },
            "rest": { "cpus": [0,1,2,3,4,5,6,7], "run": 5000, "loop": 20,
                      "timer": { "ref": "t", "period": 20000 } } } } } }"#;
    let case = Case::of_load("smt-4", load, "cfs", "light");
    let words = [
        "it shared the core of CPU 0 with hog",
        "while the core of CPUs",
        "idled",
    ];
    case.is("shared_core", None, &words);
}

#[test]
fn nice() {
    let load = r#"{ "tasks": {
        "hog": { "instance": 4, "run": 400000, "loop": 1 },
        "low": { "priority": 15, "run": 5000, "timer": { "ref": "t", "period": 40000 }, "loop": 10 } } }"#;
    for policy in ["eevdf", "equipoise"] {
        let case = Case::of_load("smp-2", load, policy, "low");
        let words = ["its nice value of 15 gives it less", "hog-", "(nice 0)"];
        case.is("nice", None, &words);
    }
}

#[test]
fn real_time_hog() {
    let load = r#"{ "tasks": {
        "rt": { "policy": "SCHED_FIFO", "priority": 10, "run": 9500, "loop": 20, "cpus": [0],
                "timer": { "ref": "r", "period": 25000 } },
        "hog": { "run": 400000, "loop": 1 },
        "ui": { "run": 2000, "timer": { "ref": "t", "period": 10000 }, "loop": 40 } } }"#;
    for policy in ["eevdf", "cfs", "equipoise"] {
        let case = Case::of_load("smp-2", load, policy, "ui");
        let words = ["rt, a real-time thread of priority 10, held CPU 0"];
        case.is("real_time", None, &words);
    }
}

#[test]
fn remote_node() {
    let load = r#"{ "tasks": {
        "hog": { "instance": 8, "run": 400000, "loop": 1, "cpus": [0,1,2,3,4,5,6,7] },
        "light": { "run": 1000, "timer": { "ref": "t", "period": 10000 }, "loop": 30 } } }"#;
    let case = Case::of_load("smp-2x8", load, "eevdf", "light");
    let words = ["only CPUs of another NUMA node", "were idle"];
    let cause = case.is("remote_node", Some("none_near_idle"), &words);
    assert!(cause["better_cpu"].as_u64().unwrap() >= 8, "{cause:#}");
}

/// TC2 whose A7s are described as A15s. Later the decoder waits longer than it loses on an A7.
#[test]
fn wrong_capacities() {
    let mut case = Case::new("", "mixed:duration=0.8", "equipoise", "decoder");
    let machine = std::fs::read_to_string(root().join("machines/tc2.toml")).unwrap();
    let wrong = machine.replace("capacity = 606", "capacity = 1441");
    assert_ne!(machine, wrong);
    case.machine = path(&case.file("wrong.toml", &wrong));
    let words = [
        "the machine's description rates CPU",
        "too high",
        "503 and 1024 of 1024",
    ];
    case.is("wrong_capacity", None, &words);
}

/// All tasks wait in one queue, which only CPU 0 serves.
const LONE: &str = r#"#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
s32 BPF_STRUCT_OPS_SLEEPABLE(lone_init)
{
    return scx_bpf_create_dsq(0, -1);
}
s32 BPF_STRUCT_OPS(lone_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
    return prev_cpu;
}
void BPF_STRUCT_OPS(lone_enqueue, struct task_struct *p, u64 enq_flags)
{
    scx_bpf_dsq_insert(p, 0, SCX_SLICE_DFL, enq_flags);
    scx_bpf_kick_cpu(0, SCX_KICK_IDLE);
}
void BPF_STRUCT_OPS(lone_dispatch, s32 cpu, struct task_struct *prev)
{
    if (cpu == 0)
        scx_bpf_dsq_move_to_local(0);
}
SCX_OPS_DEFINE(lone_ops, .init = (void *)lone_init, .select_cpu = (void *)lone_select_cpu,
               .enqueue = (void *)lone_enqueue, .dispatch = (void *)lone_dispatch, .name = "lone");
"#;

#[test]
fn bug_in_a_c_scheduler() {
    let load = r#"{ "tasks": {
        "hog": { "instance": 2, "run": 100000, "loop": 1 },
        "ui": { "run": 1000, "timer": { "ref": "t", "period": 10000 }, "loop": 20 } } }"#;
    let case = Case::of_load("smp-2", load, "eevdf", "ui").under(LONE);
    let words = ["the scheduler left it waiting for CPU 0 while CPU 1 idled for all of it"];
    let cause = case.is("not_pulled", None, &words);
    assert_eq!(cause["better_cpu"], 1);
}

/// The stages of a pipeline wake each other up, so the last one is late because the first one
/// waited.
#[test]
fn late_waker() {
    let load = r#"{ "tasks": {
        "hog": { "instance": 3, "run": 400000, "loop": 1, "cpus": [0] },
        "first": { "run": 500, "resume": "a", "timer": { "ref": "t", "period": 20000 }, "loop": 15, "cpus": [0] },
        "last": { "suspend": "a", "run": 500, "loop": 15, "cpus": [1] } } }"#;
    let case = Case::of_load("smp-2", load, "eevdf", "last");
    let words = [
        "last woke up",
        "late",
        "because first, which wakes it up, was late: first waited",
        "its affinity",
    ];
    case.is("late_waker", None, &words);
}
