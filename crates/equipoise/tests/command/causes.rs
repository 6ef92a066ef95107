//! `equipoise explain` names the cause: for each case with a known cause, the first sentence.

use crate::cause::{Case, first_sentence, path};
use crate::common::{root, stdout};

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

/// CPUs 0 and 4 share a core. The thread returns to CPU 0, which is idle, although both CPUs of other cores are.
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

#[test]
fn wrong_capacities() {
    let mut case = Case::new("", "busy:threads=3,duration=0.3", "equipoise", "busy-0").exact();
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
        "first": { "run": 500, "resume": "a", "timer": { "ref": "t", "period": 20000 }, "loop": -1, "cpus": [0] },
        "last": { "suspend": "a", "run": 500, "loop": -1, "cpus": [1] } },
        "global": { "duration": 1 } }"#;
    let case = Case::of_load("smp-2", load, "eevdf", "last");
    let words = [
        "last woke up",
        "late",
        "because first, which wakes it up, was late: first waited",
        "its affinity",
    ];
    case.is("late_waker", None, &words);
}

fn load(tasks: &str, duration: &str) -> String {
    format!(r#"{{ "tasks": {{ {tasks} }}, {duration} }}"#)
}

const SECOND: &str = r#""global": { "duration": 1 }"#;
const TO_THE_END: &str = r#""global": { "duration": -1 }"#;

#[test]
fn affinity_is_a_cause_only_where_another_cpu_was_free() {
    let ui = r#""ui": { "run": 4000, "timer": { "ref": "t", "period": 20000 }, "loop": 20, "cpus": [2, 3, 4] }"#;
    let case = Case::of_load("tc2", &load(ui, TO_THE_END), "eevdf", "ui");
    case.is(
        "affinity",
        None,
        &["its affinity allows only CPUs 2-4", "idled for all of it"],
    );
    let hogs = r#""hog": { "instance": 2, "run": 10000, "loop": -1, "cpus": [0, 1] }, "#;
    let late = ui.replace("\"run\"", "\"delay\": 50000, \"run\"");
    let case = Case::of_load(
        "tc2",
        &load(&(hogs.to_owned() + &late), SECOND),
        "eevdf",
        "ui",
    );
    let words = [
        "it ran on CPU",
        "while the faster CPUs 0-1 were busy with hog-",
    ];
    case.is("fast_cpus_busy", None, &words);
}

#[test]
fn deadline_threads_are_named() {
    let tasks = r#""dl": { "policy": "SCHED_DEADLINE", "dl-runtime": 15000, "dl-period": 20000, "run": 14000,
            "timer": { "ref": "d", "period": 20000 }, "loop": 30 },
        "hog": { "run": 400000, "loop": 1, "cpus": [1] },
        "ui": { "run": 500, "timer": { "ref": "u", "period": 10000 }, "loop": 30, "cpus": [0] }"#;
    let case = Case::of_load("smp-2", &load(tasks, TO_THE_END), "eevdf", "ui");
    case.is(
        "real_time",
        None,
        &["dl, a SCHED_DEADLINE thread, held CPU 0"],
    );
}

#[test]
fn round_robin_threads_of_equal_priority_take_turns() {
    let tasks = r#""rr": { "policy": "SCHED_RR", "priority": 10, "instance": 2, "run": 300000, "loop": 1, "cpus": [0] },
        "ui": { "policy": "SCHED_RR", "priority": 10, "run": 500, "timer": { "ref": "u", "period": 20000 },
            "loop": 15, "cpus": [0] },
        "other": { "run": 400000, "loop": 1, "cpus": [1] }"#;
    let case = Case::of_load("smp-2", &load(tasks, TO_THE_END), "eevdf", "ui");
    case.is(
        "real_time",
        None,
        &["a real-time thread of priority 10, held CPU 0"],
    );
}

#[test]
fn a_quota_throttles() {
    let tasks = r#""lim": { "run": 2000, "timer": { "ref": "u", "period": 20000 }, "loop": 20, "taskgroup": "/l" },
        "hog": { "run": 1000, "loop": -1, "taskgroup": "/l" }"#;
    let group =
        r#""taskgroups": { "/l": { "cpu.max": "10000 100000" } }, "global": { "duration": 1 }"#;
    let case = Case::of_load("smp-2", &load(tasks, group), "equipoise", "lim");
    case.is(
        "throttled",
        Some("held_back"),
        &["has used up its CPU time (cpu.max)"],
    );
}

#[test]
fn a_group_of_little_weight_gets_little() {
    let tasks = r#""light": { "instance": 2, "run": 1000, "loop": -1, "taskgroup": "/a" },
        "heavy": { "instance": 4, "run": 1000, "loop": -1, "taskgroup": "/b" }"#;
    let groups = r#""taskgroups": { "/a": { "cpu.weight": 1 }, "/b": { "cpu.weight": 1000 } },
        "global": { "duration": 1 }"#;
    let case = Case::of_load("smp-2", &load(tasks, groups), "equipoise", "light");
    let words = [
        "its control group /a (cpu.weight 1) gives it less of CPU",
        "than /b (cpu.weight 1000) gives heavy-",
    ];
    case.is("group", None, &words);
}

#[test]
fn a_heavy_group_in_a_light_one_gets_little() {
    let tasks = r#""light": { "instance": 2, "run": 1000, "loop": -1, "taskgroup": "/a/b" },
        "heavy": { "instance": 4, "run": 1000, "loop": -1, "taskgroup": "/c" }"#;
    let groups = r#""taskgroups": { "/a": { "cpu.weight": 1 }, "/a/b": { "cpu.weight": 500 },
        "/c": { "cpu.weight": 100 } }, "global": { "duration": 1 }"#;
    let case = Case::of_load("smp-2", &load(tasks, groups), "equipoise", "light");
    case.is(
        "group",
        None,
        &[
            "its control group /a/b (cpu.weight 500)",
            "than /c (cpu.weight 100)",
        ],
    );
}

#[test]
fn sched_idle_gets_what_is_left() {
    let tasks = r#""batch": { "policy": "SCHED_IDLE", "run": 1000, "loop": -1 },
        "hog": { "instance": 2, "run": 1000, "loop": -1 }"#;
    let duration = r#""global": { "duration": 2 }"#;
    for policy in ["eevdf", "equipoise"] {
        let case = Case::of_load("smp-2", &load(tasks, duration), policy, "batch");
        case.is(
            "nice",
            None,
            &["its policy SCHED_IDLE gives it less of CPU", "than hog-"],
        );
    }
}

#[test]
fn nice_19_on_one_cpu() {
    let tasks = r#""low": { "priority": 19, "run": 1000, "loop": -1, "cpus": [0] },
        "hog": { "instance": 2, "run": 1000, "loop": -1, "cpus": [0] },
        "other": { "run": 1000, "loop": -1, "cpus": [1] }"#;
    let case = Case::of_load("smp-2", &load(tasks, SECOND), "eevdf", "low");
    case.is(
        "nice",
        None,
        &["its nice value of 19 gives it less of CPU 0 than hog-"],
    );
}

/// A wait of a microsecond does not make a period late by five milliseconds.
#[test]
fn work_that_is_too_long_is_the_cause_whatever_else_was_lost() {
    let tasks = r#""ui": { "run": 15000, "timer": { "ref": "u", "period": 10000, "mode": "absolute" }, "loop": 20 }"#;
    let said = stdout(&Case::of_load("smp-2", &load(tasks, TO_THE_END), "eevdf", "ui").args());
    let sentence = first_sentence(&said);
    assert!(
        sentence.ends_with("its work takes longer than its period, even on the fastest CPU."),
        "{said}"
    );
}

#[test]
fn a_chain_of_three() {
    let tasks = r#""hog": { "instance": 3, "run": 400000, "loop": 1, "cpus": [0] },
        "a": { "run": 500, "resume": "x", "timer": { "ref": "t", "period": 20000 }, "loop": -1, "cpus": [0] },
        "b": { "suspend": "x", "run": 300, "resume": "y", "loop": -1, "cpus": [1] },
        "c": { "suspend": "y", "run": 300, "loop": -1, "cpus": [1] }"#;
    let case = Case::of_load("smp-2", &load(tasks, SECOND), "eevdf", "c");
    case.is(
        "late_waker",
        None,
        &[
            "because a, which wakes it up, was late: a waited",
            "its affinity",
        ],
    );
}

#[test]
fn all_cpus_busy_with_equal_threads() {
    let tasks = r#""hog": { "instance": 4, "run": 1000, "loop": -1 },
        "ui": { "run": 1000, "timer": { "ref": "u", "period": 16000 }, "loop": 40 }"#;
    let case = Case::of_load("smp-2", &load(tasks, SECOND), "eevdf", "hog");
    case.is("busy", None, &["all 2 CPUs were busy"]);
}

#[test]
fn cpus_outside_its_affinity_idled() {
    let tasks = r#""hog": { "instance": 3, "run": 200000, "loop": 1, "cpus": [2] },
        "ui": { "run": 1000, "timer": { "ref": "u", "period": 10000 }, "loop": 20, "cpus": [2] }"#;
    let case = Case::of_load("smp-8", &load(tasks, TO_THE_END), "eevdf", "ui");
    case.is(
        "affinity",
        None,
        &["its affinity allows only CPU 2", "while CPUs 0-1,3-7 idled"],
    );
}

#[test]
fn the_holder_of_a_mutex_was_late() {
    let tasks = r#""low": { "priority": 19, "lock": "m", "run": 5000, "unlock": "m", "sleep": 3000, "loop": 60, "cpus": [0] },
        "hog": { "run": 1000, "loop": -1, "cpus": [0] },
        "ui": { "lock": "m", "run": 200, "unlock": "m", "timer": { "ref": "u", "period": 20000 }, "loop": 30, "cpus": [1] }"#;
    let case = Case::of_load("smp-2", &load(tasks, SECOND), "eevdf", "ui");
    case.is(
        "late_waker",
        None,
        &["because low, which wakes it up, was late: low waited"],
    );
}

#[test]
fn a_frequency_that_follows_the_load() {
    let tasks = r#""ui": { "run": 3000, "timer": { "ref": "u", "period": 16000 }, "loop": 40 }"#;
    let case = Case::of_load("rk3588", &load(tasks, SECOND), "schedutil-cfs", "ui");
    case.is(
        "frequency",
        Some("frequency"),
        &["% of its highest frequency on average"],
    );
}

#[test]
fn a_scheduler_that_starves_is_the_cause() {
    let source = root().join("crates/equipoise/tests/misleading/runs-the-last-first.bpf.c");
    let source = std::fs::read_to_string(source).unwrap();
    let load = std::fs::read_to_string(root().join("tests/loads/eight-bound-to-one-cpu.json"));
    let case = Case::of_load("tc2", &load.unwrap(), "eevdf", "bound");
    let case = case.under(&source).exact();
    let words = [
        "and did not run until the end of the run because the scheduler ran bound-",
        "no higher",
    ];
    case.is("starved", None, &words);
}

#[test]
fn a_scheduler_that_loses_a_task_is_the_cause() {
    let source = root().join("crates/equipoise/tests/misleading/never-inserts-nice.bpf.c");
    let source = std::fs::read_to_string(source).unwrap();
    let case = Case::new("tc2", "mixed", "eevdf", "background").under(&source);
    let words = ["until the end of the run because the scheduler did not dispatch it while CPU"];
    case.is("not_run", None, &words);
    let args: Vec<&str> = case
        .args()
        .into_iter()
        .filter(|it| !["--task", "background"].contains(it))
        .collect();
    let said = stdout(&args);
    assert!(first_sentence(&said).starts_with("background-"), "{said}");
}

#[test]
fn a_fifo_thread_on_one_cpu() {
    let tasks = r#""rt": { "policy": "SCHED_FIFO", "priority": 50, "run": 30000, "sleep": 20000, "loop": 10, "cpus": [0] },
        "ui": { "run": 500, "timer": { "ref": "u", "period": 10000 }, "loop": 30, "cpus": [0] },
        "other": { "run": 500000, "loop": 1, "cpus": [1] }"#;
    let case = Case::of_load("smp-2", &load(tasks, TO_THE_END), "equipoise", "ui");
    case.is(
        "real_time",
        None,
        &["rt, a real-time thread of priority 50, held CPU 0"],
    );
}

#[test]
fn the_fast_cpus_are_busy() {
    let tasks = r#""hog": { "instance": 4, "run": 10000, "loop": -1, "cpus": [4, 5, 6, 7] },
        "ui": { "delay": 50000, "run": 3000, "timer": { "ref": "u", "period": 16000 }, "loop": 40 }"#;
    let case = Case::of_load("odroid-xu3", &load(tasks, SECOND), "eevdf", "ui");
    case.is(
        "fast_cpus_busy",
        None,
        &["while the faster CPUs 4-7 were busy with hog-"],
    );
}

#[test]
fn a_thread_that_only_polls_is_said_to_poll() {
    let case = Case::new("smp-2", "spin-barrier:threads=3", "eevdf", "thread");
    let said = stdout(&case.args());
    has!(said, ", only polling)");
}
