//! Causes on machines and under loads that no rule was made for. The expected causes were written down
//! before `equipoise explain` ran.

use crate::cause::Case;

/// A machine, a load, a policy or a scheduler's source, the kinds of cause that are right, and words of the first
/// sentence.
type Known<'a> = (
    &'static str,
    &'a str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const INF: &str = r#"#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
s32 BPF_STRUCT_OPS_SLEEPABLE(inf_init) { return scx_bpf_create_dsq(7, -1); }
void BPF_STRUCT_OPS(inf_enqueue, struct task_struct *p, u64 enq_flags)
{ scx_bpf_dsq_insert(p, 7, SCX_SLICE_INF, enq_flags); }
void BPF_STRUCT_OPS(inf_dispatch, s32 cpu, struct task_struct *prev) { scx_bpf_dsq_move_to_local(7); }
SCX_OPS_DEFINE(inf_ops, .init = (void *)inf_init, .enqueue = (void *)inf_enqueue, .dispatch = (void *)inf_dispatch, .name = "inf");
"#;

const LOWER: &str = r#"#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
s32 BPF_STRUCT_OPS(lower_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags) { return p->pid & 1; }
void BPF_STRUCT_OPS(lower_enqueue, struct task_struct *p, u64 enq_flags)
{ scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | (p->pid & 1), SCX_SLICE_DFL, enq_flags); }
SCX_OPS_DEFINE(lower_ops, .select_cpu = (void *)lower_select_cpu, .enqueue = (void *)lower_enqueue, .name = "lower");
"#;

fn check((machine, load, policy, kinds, words): Known<'_>) {
    let case = Case::of_load(
        machine,
        load,
        if policy.contains("bpf") {
            "eevdf"
        } else {
            policy
        },
        "victim",
    );
    let case = match policy.contains("bpf") {
        true => case.under(policy),
        false => case,
    };
    case.is_one_of(kinds, words);
}

const HOG: &str = r#""run": 1000, "loop": -1, "priority": -10"#;

/// The tasks `name0`, `name1` and so on of a file, each bound to the CPU of its number, that do `what`.
fn bound(name: &str, cpus: impl Iterator<Item = u32>, what: &str) -> String {
    let task = |cpu| format!(r#""{name}{cpu}": {{{what}, "cpus": [{cpu}]}}"#);
    cpus.map(task).collect::<Vec<_>>().join(", ")
}

#[test]
fn rt_on_each_cpu() {
    let rt = r#""policy": "SCHED_FIFO", "priority": 20, "run": 12000, "loop": -1, "timer": {"ref":
    "unique", "period": 40000}"#;
    check((
        "raspberry-pi-5",
        &r#"{"tasks": {RT, "victim": {"run": 4000, "timer": {"ref": "unique", "period": 20000},
    "loop": -1}}, "global": {"duration": 1}}"#
            .replace("RT", &bound("rt", 0..4, rt)),
        "eevdf",
        &["real_time"],
        &["rt", "real-time thread of priority 20"],
    ));
}

#[test]
fn bound_to_icestorm() {
    check((
        "apple-m1",
        r#"{"tasks": {"victim": {"run": 6000, "timer": {"ref": "unique", "period": 16000}, "loop": -1,
    "cpus": [0, 1, 2, 3]}}, "global": {"duration": 1}}"#,
        "equipoise",
        &["affinity"],
        &["its affinity allows only CPUs 0-3", "4-7"],
    ));
}

#[test]
fn firestorms_busy() {
    check((
        "apple-m1",
        &r#"{"tasks": {HOGS, "victim": {"run": 5000, "timer": {"ref": "unique", "period": 16000}, "loop": -1,
    "delay": 50000}}, "global": {"duration": 1}}"#
            .replace("HOGS", &bound("hog", 4..8, HOG)),
        "eevdf",
        &["fast_cpus_busy", "nice"],
        &["hog"],
    ));
}

#[test]
fn second_hardware_thread() {
    check((
        "raptor-lake-h",
        &r#"{"tasks": {HOGS, "victim": {"run": 8000, "timer": {"ref": "unique", "period": 20000}, "loop":
    -1}}, "global": {"duration": 1}}"#
            .replace("HOGS", &bound("hog", (0..1).chain(2..20), HOG)),
        "eevdf",
        &["shared_core", "not_pulled"],
        &[],
    ));
}

#[test]
fn nice_10_on_a_busy_machine() {
    check((
        "rk3588",
        &r#"{"tasks": {"hog": {"instance": 2, "run": 1000, "loop": -1, "cpus": [4]}, OWN, "victim": {"run":
    3000, "timer": {"ref": "unique", "period": 20000}, "loop": -1, "cpus": [4], "priority": 10}}, "global":
    {"duration": 2}}"#
            .replace("OWN", &bound("own", (0..4).chain(5..8), r#""run": 1000, "loop": -1"#)),
        "eevdf",
        &["nice"],
        &["its nice value of 10", "CPU 4", "hog-"],
    ));
}

#[test]
fn quota() {
    check((
        "grace",
        r#"{"tasks": {"hog": {"instance": 4, "run": 1000, "loop": -1, "taskgroup": "/q"}, "victim": {"run":
    1000, "timer": {"ref": "unique", "period": 10000}, "loop": -1, "taskgroup": "/q"}}, "global":
    {"duration": 1}, "taskgroups": {"/q": {"cpu.max": "40000 100000"}}}"#,
        "equipoise",
        &["throttled"],
        &["cpu.max"],
    ));
}

#[test]
fn long_critical_section() {
    check((
        "raspberry-pi-5",
        r#"{"tasks": {"holder": {"loop": -1, "lock": "m", "run": 18000, "unlock": "m", "sleep": 3000},
    "victim": {"loop": -1, "lock": "m", "run": 500, "unlock": "m", "timer": {"ref": "unique",
    "period": 10000}}}, "global": {"duration": 1}}"#,
        "eevdf",
        &["late_waker"],
        &["holder"],
    ));
}

#[test]
fn rare_burst() {
    check((
        "sm8250",
        r#"{"tasks": {"victim": {"run": 15000, "timer": {"ref": "unique", "period": 250000}, "loop": -1}},
    "global": {"duration": 2}}"#,
        "schedutil-cfs",
        &["frequency", "slow_cpu"],
        &["%"],
    ));
}

#[test]
fn chain_of_four() {
    check((
        "rk3588",
        r#"{"tasks": {"rt": {"policy": "SCHED_FIFO", "priority": 40, "run": 12000, "loop": -1, "cpus": [0],
    "timer": {"ref": "unique", "period": 30000}}, "one": {"run": 500, "resume": "a", "timer":
    {"ref": "unique", "period": 20000}, "loop": -1, "cpus": [0]}, "two": {"suspend": "a", "run":
    300, "resume": "b", "loop": -1, "cpus": [1]}, "three": {"suspend": "b", "run": 300, "resume":
    "c", "loop": -1, "cpus": [2]}, "victim": {"suspend": "c", "run": 300, "loop": -1, "cpus": [3]}},
    "global": {"duration": 1}}"#,
        "eevdf",
        &["late_waker"],
        &["one", "rt"],
    ));
}

#[test]
fn too_much_work() {
    check((
        "lunar-lake",
        r#"{"tasks": {"victim": {"run": 25000, "timer": {"ref": "unique", "period": 20000}, "loop": -1}},
    "global": {"duration": 1}}"#,
        "equipoise",
        &["work"],
        &["longer than its period"],
    ));
}

#[test]
fn three_times_as_many() {
    check((
        "zen5-laptop",
        r#"{"tasks": {"spin": {"instance": 72, "run": 1000, "loop": -1}, "victim": {"run": 4000, "timer":
    {"ref": "unique", "period": 20000}, "loop": -1}}, "global": {"duration": 1}}"#,
        "eevdf",
        &["busy"],
        &["all 24 CPUs were busy"],
    ));
}

#[test]
fn no_slices() {
    check((
        "raspberry-pi-5",
        r#"{"tasks": {"hog": {"instance": 5, "run": 80000, "loop": -1, "sleep": 1000}, "victim": {"run":
    1000, "timer": {"ref": "unique", "period": 10000}, "loop": -1}}, "global": {"duration": 1}}"#,
        INF,
        &["busy", "starved"],
        &["hog-"],
    ));
}

#[test]
fn two_of_four_cpus() {
    check((
        "raspberry-pi-5",
        r#"{"tasks": {"hog": {"instance": 4, "run": 1000, "loop": -1}, "victim": {"run": 1000, "timer":
    {"ref": "unique", "period": 10000}, "loop": -1}}, "global": {"duration": 1}}"#,
        LOWER,
        &["placement", "not_pulled"],
        &["idled"],
    ));
}

#[test]
fn sched_idle() {
    check((
        "rk3588",
        r#"{"tasks": {"hog": {"instance": 8, "run": 1000, "loop": -1}, "victim": {"run": 3000, "timer":
    {"ref": "unique", "period": 20000}, "loop": -1, "policy": "SCHED_IDLE"}}, "global": {"duration":
    2}}"#,
        "equipoise",
        &["nice"],
        &["SCHED_IDLE"],
    ));
}

#[test]
fn deep_idle() {
    check((
        "sm8250",
        r#"{"tasks": {"victim": {"run": 100, "timer": {"ref": "unique", "period": 100000}, "loop": -1,
    "cpus": [7]}}, "global": {"duration": 2}}"#,
        "eevdf:frequency=false",
        &["idle_exit"],
        &["CPU 7"],
    ));
}

#[test]
fn group_weights() {
    check((
        "rk3588",
        r#"{"tasks": {"fg": {"instance": 6, "run": 1000, "loop": -1, "cpus": [4, 5, 6, 7], "taskgroup":
    "/fg"}, "little": {"instance": 4, "run": 1000, "loop": -1, "cpus": [0, 1, 2, 3]}, "victim":
    {"instance": 1, "run": 1000, "loop": -1, "cpus": [4, 5, 6, 7], "taskgroup": "/bg"}}, "global":
    {"duration": 2}, "taskgroups": {"/bg": {"cpu.weight": 5}, "/fg": {"cpu.weight": 1000}}}"#,
        "equipoise",
        &["group"],
        &["/bg (cpu.weight 5)", "/fg (cpu.weight 1000)"],
    ));
}

#[test]
fn nice_minus_15() {
    check((
        "raspberry-pi-5",
        r#"{"tasks": {"hog": {"instance": 8, "run": 1000, "loop": -1, "priority": -15}, "victim": {"run":
    5000, "timer": {"ref": "unique", "period": 20000}, "loop": -1}}, "global": {"duration": 2}}"#,
        "eevdf",
        &["nice"],
        &["hog-", "-15"],
    ));
}

#[test]
fn bound_to_a_full_node() {
    check((
        "smp-2x8",
        r#"{"tasks": {"hog": {"instance": 16, "run": 1000, "loop": -1, "cpus": [8, 9, 10, 11, 12, 13, 14,
    15]}, "victim": {"run": 5000, "timer": {"ref": "unique", "period": 20000}, "loop": -1, "cpus":
    [8, 9, 10, 11, 12, 13, 14, 15]}}, "global": {"duration": 1}}"#,
        "eevdf",
        &["affinity"],
        &["its affinity allows only CPUs 8-15", "idled"],
    ));
}

#[test]
fn holder_behind_rt() {
    check((
        "exynos5433",
        r#"{"tasks": {"rt": {"policy": "SCHED_FIFO", "priority": 50, "run": 15000, "loop": -1, "cpus": [4],
    "timer": {"ref": "unique", "period": 47000}}, "low": {"loop": -1, "lock": "m", "run": 3000,
    "unlock": "m", "sleep": 1700, "cpus": [4]}, "victim": {"loop": -1, "lock": "m", "run": 300,
    "unlock": "m", "timer": {"ref": "unique", "period": 20000}, "cpus": [5]}}, "global":
    {"duration": 1}}"#,
        "eevdf",
        &["late_waker"],
        &["low", "rt"],
    ));
}

#[test]
fn bound_siblings() {
    check((
        "epyc-2s",
        r#"{"tasks": {"victim": {"instance": 3, "run": 4000, "loop": -1, "timer": {"ref": "unique",
    "period": 10000}, "cpus": [9]}}, "global": {"duration": 1}}"#,
        "equipoise",
        &["affinity"],
        &["its affinity allows only CPU 9", "idled"],
    ));
}
