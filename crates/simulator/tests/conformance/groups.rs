//! Control groups: a scheduler's ops for them, and how well `equipoise` enforces their `cpu.weight`, `cpu.idle` and
//! `cpu.max`.

use crate::case::config;
use crate::support::*;
use machine::Machine;
use proptest::prelude::*;
use std::collections::HashMap;
use std::ops::Range;
use workload::{Bandwidth, ControlGroup, Op, Start, Workload};

/// Records every op that is called for control groups.
const GROUPS: &str = r#"
#define SHARED 0
s32 BPF_STRUCT_OPS_SLEEPABLE(all_init) { return scx_bpf_create_dsq(SHARED, -1); }
void BPF_STRUCT_OPS(all_enqueue, struct task_struct *p, u64 flags) { scx_bpf_dsq_insert(p, SHARED, 8 * 1000000, flags); }
void BPF_STRUCT_OPS(all_dispatch, s32 cpu, struct task_struct *prev) { scx_bpf_dsq_move_to_local(SHARED); }
s32 BPF_STRUCT_OPS(all_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	note("id", NULL, cgrp->kn->id);
	note("level", NULL, cgrp->level);
	note("weight", NULL, args->weight);
	note("quota", NULL, args->bw_quota_us);
	note("idle", NULL, args->sched_idle);
	return 0;
}
void BPF_STRUCT_OPS(all_cgroup_exit, struct cgroup *cgrp) { note("exit", NULL, cgrp->kn->id); }
s32 BPF_STRUCT_OPS(all_prep_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	note("prep_move", p, from->kn->id * 100 + to->kn->id);
	return 0;
}
void BPF_STRUCT_OPS(all_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct cgroup *now = scx_bpf_task_cgroup(p);

	note("move", p, from->kn->id * 100 + now->kn->id);
	bpf_cgroup_release(now);
}
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(on_attach, struct cgroup *to, const char *path, struct task_struct *p, bool threadgroup)
{
	note(path, p, to->kn->id);
	return 0;
}
SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *p, const char *name)
{
	note("rename", p, 0);
	return 0;
}
s32 BPF_STRUCT_OPS(all_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct cgroup_subsys_state *css;
	struct cgroup *root = bpf_cgroup_from_id(1), *above;

	note("in", p, args->cgroup->kn->id);
	above = bpf_cgroup_ancestor(args->cgroup, 1);
	if (above) {
		note("above", p, above->kn->id);
		bpf_cgroup_release(above);
	}
	if (!root)
		return -ENOENT;
	bpf_rcu_read_lock();
	bpf_for_each(css, css, &root->self, BPF_CGROUP_ITER_DESCENDANTS_PRE)
		note("pre", p, css->cgroup->kn->id);
	bpf_for_each(css, css, &root->self, BPF_CGROUP_ITER_DESCENDANTS_POST)
		note("post", p, css->cgroup->kn->id);
	bpf_for_each(css, css, &args->cgroup->self, BPF_CGROUP_ITER_ANCESTORS_UP)
		note("up", p, css->cgroup->kn->id);
	bpf_rcu_read_unlock();
	bpf_cgroup_release(root);
	return 0;
}
"#;

const OPS: &str = ".init = (void *)all_init, .enqueue = (void *)all_enqueue, .dispatch = (void *)all_dispatch,
    .cgroup_init = (void *)all_cgroup_init, .cgroup_exit = (void *)all_cgroup_exit,
    .cgroup_prep_move = (void *)all_prep_move, .cgroup_move = (void *)all_move, .init_task = (void *)all_init_task";

/// Groups 2 and 4 are below the root, and 3 is below 2.
#[test]
fn a_scheduler_is_told_of_groups_and_of_the_tasks_in_them() {
    let workload = Script(|| Start {
        groups: vec![
            ControlGroup::new("a", None),
            ControlGroup {
                weight: 300,
                max: Some(Bandwidth {
                    quota_us: 20_000,
                    period_us: 100_000,
                    burst_us: 0,
                }),
                ..ControlGroup::new("b", Some(0))
            },
            ControlGroup {
                idle: true,
                ..ControlGroup::new("c", None)
            },
        ],
        tasks: vec![task(
            "a",
            [
                run_for(1),
                Op::EnterGroup(Some(1)),
                run_for(1),
                Op::EnterGroup(Some(1)),
                Op::Fork {
                    child: Box::new(task("child", [run_for(1)])),
                    work: 0,
                },
                Op::EnterGroup(None),
                run_for(1),
            ],
        )],
        ..Start::default()
    });
    let ran = run(&machine(1), &workload, &scheduler(GROUPS, OPS));
    assert_eq!(ran.numbers("id"), [1, 2, 3, 4]);
    assert_eq!(ran.numbers("level"), [0, 1, 2, 1]);
    assert_eq!(ran.numbers("weight"), [100, 100, 300, 100]);
    assert_eq!(ran.numbers("quota"), [-1, -1, 20_000, -1]);
    assert_eq!(ran.numbers("idle"), [0, 0, 0, 1]);
    assert_eq!(ran.numbers("prep_move"), [103, 301]);
    assert_eq!(ran.numbers("move"), [103, 301]);
    assert_eq!(ran.numbers("/a/b"), [3], "cgroup_attach_task");
    assert_eq!(ran.numbers("/"), [1], "cgroup_attach_task");
    assert_eq!(ran.numbers("rename").len(), 0);
    assert_eq!(ran.numbers("in"), [1, 3], "a child is where its parent is");
    assert_eq!(ran.numbers("above"), [2]);
    assert_eq!(ran.numbers("pre")[..4], [1, 2, 3, 4]);
    assert_eq!(ran.numbers("post")[..4], [3, 2, 4, 1]);
    assert_eq!(ran.numbers("up"), [1, 3, 2, 1]);
    assert_eq!(ran.numbers("exit"), [4, 3, 2, 1]);
}

/// The share of a CPU that the tasks of each name get under `equipoise` after the first second.
/// `json` is an rt-app file without its braces; its threads are NAME-NUMBER.
fn shares(cpus: usize, seconds: u64, json: &str) -> HashMap<String, f64> {
    shares_on(&machine(cpus), seconds, json)
}

fn shares_on(machine: &Machine, seconds: u64, json: &str) -> HashMap<String, f64> {
    let time = cpu_time(machine, seconds + 1, json, 1000 * MS..u64::MAX);
    let share = |ns| ns as f64 / (seconds * 1000 * MS) as f64;
    time.into_iter()
        .map(|(name, ns)| (name, share(ns)))
        .collect()
}

/// The workload of `json`, an rt-app file without its braces, for this many seconds.
fn rt_app(seconds: u64, json: &str) -> Box<dyn Workload> {
    let json = format!("{{ \"global\": {{ \"duration\": {seconds} }}, {json} }}");
    workload::parse("groups", "groups.json", &json, None).unwrap()
}

/// The CPU time, in ns, that the tasks of each name get in the `window` of a run of this many seconds.
fn cpu_time(
    machine: &Machine,
    seconds: u64,
    json: &str,
    window: Range<u64>,
) -> HashMap<String, u64> {
    cpu_time_of("equipoise", machine, seconds, json, window)
}

/// As [`cpu_time`], under `policy`.
fn cpu_time_of(
    policy: &str,
    machine: &Machine,
    seconds: u64,
    json: &str,
    window: Range<u64>,
) -> HashMap<String, u64> {
    let workload = rt_app(seconds, json);
    let got = cpu_time_under(policy, machine, &*workload, 1, 1_000_000 * MS, window).unwrap();
    let mut time = HashMap::new();
    for (task, ns) in got {
        let name = task.split('-').next().unwrap().to_owned();
        *time.entry(name).or_insert(0) += ns;
    }
    time
}

/// Each group gets its share within 5 %.
#[track_caller]
fn assert_shares(got: &HashMap<String, f64>, expected: &[(&str, f64)]) {
    for &(task, share) in expected {
        let is = got.get(task).copied().unwrap_or(0.0);
        assert!(
            (0.95 * share..=1.05 * share).contains(&is),
            "{task} got {is:.4} of a CPU, expected {share:.4}: {got:?}"
        );
    }
}

/// The rt-app entry of a number of threads that loop in a group.
fn loops(name: &str, group: &str, threads: u32) -> String {
    format!(
        "\"{name}\": {{ \"instance\": {threads}, \"taskgroup\": \"{group}\", \"loop\": -1, \"run\": 1000 }}"
    )
}

#[test]
fn groups_get_their_shares_of_a_tree() {
    for cpus in [1, 4] {
        let tasks = [
            loops("ax1", "/a/x/1", cpus),
            loops("ax2", "/a/x/2", 2 * cpus),
            loops("ay", "/a/y", cpus),
            loops("b", "/b", 3 * cpus),
        ]
        .join(", ");
        let groups = r#""/a": {}, "/a/y": { "cpu.weight": 200 }, "/a/x/2": { "cpu.weight": 300 },
            "/b": { "cpu.weight": 300 }"#;
        let json = format!(r#""taskgroups": {{ {groups} }}, "tasks": {{ {tasks} }}"#);
        let part = f64::from(cpus) / 48.0;
        assert_shares(
            &shares(cpus as usize, 12, &json),
            &[
                ("ax1", part),
                ("ax2", 3.0 * part),
                ("ay", 8.0 * part),
                ("b", 36.0 * part),
            ],
        );
    }
}

/// A turn of a task with little weight costs more virtual time than a task may otherwise be ahead. The task is
/// charged for all of it, with any tick, and if switches take time.
#[test]
fn the_charge_for_a_turn_is_kept() {
    let tasks = [
        loops("light", "/light", 2),
        loops("lighter", "/lighter", 1),
        loops("others", "/others", 3),
    ]
    .join(", ");
    let groups = r#""/light": { "cpu.weight": 38 }, "/lighter": { "cpu.weight": 12 }, "/others": { "cpu.weight": 350 }"#;
    let json = format!(r#""taskgroups": {{ {groups} }}, "tasks": {{ {tasks} }}"#);
    for hz in [100, 250, 1000] {
        let mut machine = Machine { hz, ..machine(1) };
        machine.core_types[0].costs.context_switch_ns = 40_000;
        machine.core_types[0].costs.tick_ns = 40_000;
        let got = shares_on(&machine, 30, &json);
        for (group, share) in [("light", 0.095), ("lighter", 0.03), ("others", 0.875)] {
            let error = got[group] / share - 1.0;
            // At 100 Hz the lightest loop has 90 turns.
            assert!(error.abs() < 0.012, "{group} at {hz} Hz: {got:?}");
        }
    }
}

/// A heavy thread that runs for 50 us every 5 ms changes the weights of its group's other threads each time. The
/// group's loops once waited as if they had a tenth of their weight, and the group got 4.2 of 10 s.
#[test]
fn short_runs_of_a_heavy_thread_do_not_cost_its_group_the_share() {
    let helper = r#""helper": { "taskgroup": "/session", "loop": -1, "priority": -11, "run": 50,
        "timer": { "ref": "unique", "period": 5000 } }"#;
    let tasks = [
        &*loops("app", "/session", 2),
        helper,
        &loops("build", "/build", 8),
    ]
    .join(", ");
    let json =
        format!(r#""taskgroups": {{ "/session": {{}}, "/build": {{}} }}, "tasks": {{ {tasks} }}"#);
    assert_shares(&shares(2, 5, &json), &[("app", 0.99), ("build", 1.0)]);
}

#[test]
fn a_quota_is_kept() {
    let max = |max: &str| format!(r#""taskgroups": {{ "/limited": {{ "cpu.max": "{max}" }} }}"#);
    for (cpus, threads, quota, expected) in [
        (1, 1, "20000 100000", 0.2),
        (1, 3, "20000 100000", 0.2),
        (2, 2, "20000 100000", 0.2),
        (2, 4, "150000 100000", 1.5),
        (4, 4, "5000 50000", 0.1),
        (8, 16, "300000 100000", 3.0),
        (1, 2, "1000 10000", 0.1),
    ] {
        let limited = loops("limited", "/limited", threads);
        let json = format!(r#"{}, "tasks": {{ {limited} }}"#, max(quota));
        assert_shares(&shares(cpus, 5, &json), &[("limited", expected)]);
        let others = loops("others", "/others", cpus as u32);
        let json = format!(r#"{}, "tasks": {{ {limited}, {others} }}"#, max(quota));
        // By its weight, the group gets at most half of all CPUs.
        let limited = expected.min(cpus as f64 / 2.0);
        assert_shares(
            &shares(cpus, 5, &json),
            &[("limited", limited), ("others", cpus as f64 - limited)],
        );
    }
}

/// A loop whose quota is a quarter of a CPU runs at the highest frequency: it waits because of its quota, not because
/// it needs only a part of a CPU. (A timer wakes it, so its frequency is not raised because another thread woke or
/// created it.)
#[test]
fn a_quota_does_not_lower_the_frequency() {
    let json = r#""taskgroups": { "/limited": { "cpu.max": "25000 100000" } },
        "tasks": { "limited": { "taskgroup": "/limited", "loop": 1, "sleep": 1000, "run": 500000 } }"#;
    let mut recording = Recording::default();
    let machine = Machine::find("grace").unwrap();
    simulate(&machine, "equipoise", &*rt_app(5, json), 1, &mut recording);
    let end = recording.ends()[0].1;
    assert!(end < 2000 * MS, "{end} ns");
}

/// When a group has used up its quota, neither its waiting threads run nor threads that wake up, so in each
/// period the group uses at most a tick more than its quota.
#[test]
fn a_quota_stops_all_threads() {
    let naps = r#""limited": { "instance": 3, "taskgroup": "/limited", "loop": -1, "run": 300, "sleep": 2000 }"#;
    for threads in [&*loops("limited", "/limited", 20), naps] {
        let json = format!(
            r#""taskgroups": {{ "/limited": {{ "cpu.max": "10000 100000" }} }}, "tasks": {{ {threads} }}"#
        );
        for period in 10..25 {
            let window = period * 100 * MS..(period + 1) * 100 * MS;
            let used = cpu_time(&machine(2), 3, &json, window)["limited"];
            assert!(used <= 14 * MS, "{used} ns in period {period}: {threads}");
        }
    }
}

/// A thread that slept for longer than a throttled task may have to wait (`LONGEST_WAIT`, 10 s) has not waited, so its
/// group's quota stops it, too. The threads wake up one after another; each runs for less than a tick.
#[test]
fn a_quota_stops_threads_that_slept_for_long() {
    let threads: Vec<_> = (0..100)
        .map(|i| {
            let sleep = 11_000_000 + 700 * i;
            format!(
                r#""limited-{i}": {{ "taskgroup": "/limited", "loop": 1, "sleep": {sleep}, "run": 700 }}"#
            )
        })
        .collect();
    let json = format!(
        r#""taskgroups": {{ "/limited": {{ "cpu.max": "10000 100000" }} }}, "tasks": {{ {} }}"#,
        threads.join(", ")
    );
    for period in 110..114 {
        let window = period * 100 * MS..(period + 1) * 100 * MS;
        let used = cpu_time(&machine(2), 13, &json, window)["limited"];
        assert!(used <= 14 * MS, "{used} ns in period {period}");
    }
}

#[test]
fn a_quota_holds_for_sleepers() {
    let json = r#""taskgroups": { "/limited": { "cpu.max": "30000 100000" } },
        "tasks": { "limited": { "instance": 4, "taskgroup": "/limited", "loop": -1, "run": 700, "sleep": 300 } }"#;
    for cpus in [1, 2, 4] {
        assert_shares(&shares(cpus, 5, json), &[("limited", 0.3)]);
    }
}

/// A limit holds within the parent group's limit, and one child's unused time goes to its sibling.
#[test]
fn quotas_are_nested() {
    let tasks = [
        loops("inner", "/outer/inner", 2),
        loops("beside", "/outer/beside", 2),
        loops("others", "/others", 2),
    ]
    .join(", ");
    let json = format!(
        r#""taskgroups": {{ "/outer": {{ "cpu.max": "80000 100000" }}, "/outer/inner": {{ "cpu.max": "20000 100000" }} }},
        "tasks": {{ {tasks} }}"#
    );
    assert_shares(
        &shares(2, 10, &json),
        &[("inner", 0.2), ("beside", 0.6), ("others", 1.2)],
    );
    // The outer limit is the narrower one.
    let json = json.replace("80000 100000", "10000 100000");
    let got = shares(2, 10, &json);
    assert_shares(&got, &[("others", 1.9)]);
    assert!(
        (0.095..=0.105).contains(&(got["inner"] + got["beside"])),
        "{got:?}"
    );
}

/// A throttled group's weight goes to its siblings: they get all of their parent's time except the part that
/// the group used.
#[test]
fn a_throttled_group_has_no_weight() {
    let tasks = [
        loops("limited", "/a/limited", 1),
        loops("beside", "/a/beside", 1),
        loops("others", "/b", 1),
    ]
    .join(", ");
    let json = format!(
        r#""taskgroups": {{ "/a/limited": {{ "cpu.max": "5000 100000" }} }},
        "tasks": {{ {tasks} }}"#
    );
    assert_shares(
        &shares(1, 20, &json),
        &[("limited", 0.05), ("beside", 0.45), ("others", 0.5)],
    );
}

/// After a second without work, a group may use its burst in addition to its quota: 60 ms of work are done without a
/// pause, but without a burst the group is throttled between its quotas.
#[test]
fn a_burst_is_what_was_left_over() {
    let took = |burst: &str| {
        let json = format!(
            r#"{{ "taskgroups": {{ "/g": {{ "cpu.max": "30000 100000"{burst} }} }},
            "tasks": {{ "t": {{ "taskgroup": "/g", "loop": 5, "run": 60000, "timer": {{ "ref": "x", "period": 1000000 }} }} }} }}"#
        );
        let workload = workload::parse("burst", "burst.json", &json, None).unwrap();
        let outcome = run_policy(
            "equipoise",
            &machine(1),
            &*workload,
            1,
            1_000_000 * MS,
            None,
        )
        .unwrap();
        let run = workload
            .metrics()
            .iter()
            .position(|metric| metric.name == "t/run")
            .unwrap();
        outcome.recorder.samples(run).to_vec()
    };
    // There is no pause before the first loop.
    for ms in &took(r#", "cpu.max.burst": 30000"#)[1..] {
        assert!((59_000.0..66_000.0).contains(ms), "{ms} us");
    }
    for ms in &took("")[1..] {
        assert!((100_000.0..200_000.0).contains(ms), "{ms} us");
    }
}

/// A group with cpu.idle has the weight of a SCHED_IDLE task, 3, where nice 0 has 1024.
#[test]
fn an_idle_group_gets_little() {
    let tasks = [loops("idle", "/idle", 1), loops("others", "/others", 1)].join(", ");
    let json = format!(
        r#""taskgroups": {{ "/idle": {{ "cpu.weight": 100, "cpu.idle": 1 }} }}, "tasks": {{ {tasks} }}"#
    );
    let got = shares(1, 30, &json);
    assert!(got["idle"] > 0.0 && got["idle"] < 0.01, "{got:?}");
}

/// sched_ext ends a scheduler under which a task waits for 30 s. That must not happen where many tasks share
/// a quota of 1 ms a second.
#[test]
fn a_small_quota_stalls_no_task() {
    let limited = loops("limited", "/limited", 60);
    let json = format!(
        r#""taskgroups": {{ "/limited": {{ "cpu.max": "1000 1000000" }} }}, "tasks": {{ {limited} }}"#
    );
    let got = shares(4, 60, &json);
    assert!(got["limited"] < 0.05, "{got:?}");
}

/// Linux's fair classes enforce the quotas of single and of nested groups on several CPUs: 7.3's, which stops tasks,
/// and 6.12's and 3.9's, which stop queues.
#[test]
fn linux_keeps_quotas() {
    for policy in ["eevdf", "eevdf-6.12", "cfs"] {
        let shares = |cpus: usize, json: &str| -> HashMap<String, f64> {
            let time = cpu_time_of(policy, &machine(cpus), 6, json, 1000 * MS..u64::MAX);
            let share = |ns| ns as f64 / (5000 * MS) as f64;
            time.into_iter()
                .map(|(name, ns)| (name, share(ns)))
                .collect()
        };
        let tasks = [
            loops("limited", "/limited", 4),
            loops("others", "/others", 4),
        ]
        .join(", ");
        let groups = r#""taskgroups": { "/limited": { "cpu.max": "50000 100000" } }"#;
        let got = shares(4, &format!(r#"{groups}, "tasks": {{ {tasks} }}"#));
        assert_shares(&got, &[("limited", 0.5), ("others", 3.5)]);

        let tasks = [
            loops("inner", "/outer/inner", 2),
            loops("beside", "/outer/beside", 2),
            loops("others", "/others", 2),
        ]
        .join(", ");
        let groups = r#""taskgroups": { "/outer": { "cpu.max": "80000 100000" }, "/outer/inner": { "cpu.max": "20000 100000" } }"#;
        let got = shares(2, &format!(r#"{groups}, "tasks": {{ {tasks} }}"#));
        assert_shares(&got, &[("inner", 0.2), ("others", 1.2)]);
    }
}

/// Two tasks that are bound to different CPUs use all of their group's quota, although one of them shares its CPU with
/// another group's task.
#[test]
fn throttled_tasks_that_are_bound_do_not_wait() {
    let json = r#""taskgroups": { "/both": { "cpu.max": "80000 100000" } }, "tasks": {
        "first": { "taskgroup": "/both", "cpus": [0], "loop": -1, "run": 1000 },
        "second": { "taskgroup": "/both", "cpus": [1], "loop": -1, "run": 1000 },
        "here": { "taskgroup": "/here", "cpus": [0], "loop": -1, "run": 1000 } }"#;
    for policy in ["equipoise", "eevdf", "eevdf-6.12", "cfs"] {
        let got = cpu_time_of(policy, &machine(2), 5, json, 0..u64::MAX);
        let both = (got["first"] + got["second"]) as f64 / (5000 * MS) as f64;
        assert!((0.76..0.84).contains(&both), "{policy}: {got:?}");
    }
}

/// A group below the root or below an earlier one (`parent` counts from 1), with loops of its own.
#[derive(Clone, Debug)]
struct Node {
    parent: usize,
    weight: u64,
    threads: u32,
}

fn trees() -> impl Strategy<Value = Vec<Node>> {
    let node = (0..4usize, 20..400u64, 1..4u32);
    prop::collection::vec(node, 1..5).prop_map(|nodes| {
        let nodes = nodes.into_iter().enumerate();
        nodes
            .map(|(index, (parent, weight, threads))| Node {
                parent: parent.min(index),
                weight,
                threads,
            })
            .collect()
    })
}

/// The path of group `index` of `tree`, counted from 1.
fn path(tree: &[Node], index: usize) -> String {
    match index {
        0 => String::new(),
        _ => format!("{}/{index}", path(tree, tree[index - 1].parent)),
    }
}

/// The part of a CPU that the threads of group `index` get together, by definition: in each queue, an entity gets
/// time in proportion to its weight, which for a thread equals a `cpu.weight` of 100.
fn part(tree: &[Node], index: usize) -> f64 {
    let queue = |of: usize| -> f64 {
        let groups = tree.iter().filter(|node| node.parent == of);
        let own = of.checked_sub(1).map_or(0, |own| tree[own].threads);
        groups.map(|node| node.weight as f64).sum::<f64>() + 100.0 * f64::from(own)
    };
    let (mut part, mut group) = (
        100.0 * f64::from(tree[index - 1].threads) / queue(index),
        index,
    );
    while group > 0 {
        let node = &tree[group - 1];
        part *= node.weight as f64 / queue(node.parent);
        group = node.parent;
    }
    part
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn cfs_divides_a_cpu_in_any_tree(tree in trees()) {
        let name = |index: usize| format!("g{index}");
        let tasks: Vec<_> = (1..=tree.len())
            .map(|index| loops(&name(index), &path(&tree, index), tree[index - 1].threads))
            .collect();
        let groups: Vec<_> = (1..=tree.len())
            .map(|index| format!(r#""{}": {{ "cpu.weight": {} }}"#, path(&tree, index), tree[index - 1].weight))
            .collect();
        let json = format!(r#""taskgroups": {{ {} }}, "tasks": {{ {} }}"#, groups.join(", "), tasks.join(", "));
        let got = cpu_time_of("cfs", &machine(1), 9, &json, 1000 * MS..u64::MAX);
        for index in 1..=tree.len() {
            let share = got.get(&name(index)).copied().unwrap_or(0) as f64 / (8000 * MS) as f64;
            let expected = part(&tree, index);
            prop_assert!((share - expected).abs() < 0.01 + 0.05 * expected, "{index} got {share}, not {expected}: {got:?}");
        }
    }
}
