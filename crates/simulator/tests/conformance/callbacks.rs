//! The ops that are called in a task's life, and their order; slices and the tick.

use crate::support::*;
use machine::{CALLBACKS, Callbacks, CoreType, CpuMask, Machine};
use simulator::{Check, Config};
use workload::{Op, SchedPolicy, Start, TaskSpec, Workload};

/// Records all calls of these ops except `ops.dispatch()`.
const EVERYTHING: &str = r#"
#define SHARED 0
s32 BPF_STRUCT_OPS_SLEEPABLE(all_init) { note("init", NULL, 0); return scx_bpf_create_dsq(SHARED, -1); }
void BPF_STRUCT_OPS(all_exit, struct scx_exit_info *ei) { note("exit", NULL, ei->kind); }
s32 BPF_STRUCT_OPS(all_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	note("init_task", p, args->fork);
	return 0;
}
void BPF_STRUCT_OPS(all_enable, struct task_struct *p) { note("enable", p, p->scx.weight); }
void BPF_STRUCT_OPS(all_disable, struct task_struct *p) { note("disable", p, 0); }
void BPF_STRUCT_OPS(all_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	note("exit_task", p, args->cancelled);
}
s32 BPF_STRUCT_OPS(all_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	note("select_cpu", p, wake_flags);
	return prev_cpu;
}
void BPF_STRUCT_OPS(all_runnable, struct task_struct *p, u64 flags) { note("runnable", p, flags); }
void BPF_STRUCT_OPS(all_enqueue, struct task_struct *p, u64 flags)
{
	note("enqueue", p, flags);
	scx_bpf_dsq_insert(p, SHARED, 8 * 1000000, flags);
}
void BPF_STRUCT_OPS(all_dispatch, s32 cpu, struct task_struct *prev) { scx_bpf_dsq_move_to_local(SHARED); }
void BPF_STRUCT_OPS(all_running, struct task_struct *p) { note("running", p, p->scx.slice); }
void BPF_STRUCT_OPS(all_tick, struct task_struct *p) { note("tick", p, p->scx.slice); }
void BPF_STRUCT_OPS(all_stopping, struct task_struct *p, bool runnable) { note("stopping", p, runnable); }
void BPF_STRUCT_OPS(all_quiescent, struct task_struct *p, u64 flags) { note("quiescent", p, flags); }
void BPF_STRUCT_OPS(all_set_weight, struct task_struct *p, u32 weight) { note("set_weight", p, weight); }
void BPF_STRUCT_OPS(all_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	note("set_cpumask", p, bpf_cpumask_weight(mask));
}
"#;
const OPS: &str = ".init = (void *)all_init, .exit = (void *)all_exit, .init_task = (void *)all_init_task,
	.enable = (void *)all_enable, .disable = (void *)all_disable, .exit_task = (void *)all_exit_task,
	.select_cpu = (void *)all_select_cpu, .runnable = (void *)all_runnable, .enqueue = (void *)all_enqueue,
	.dispatch = (void *)all_dispatch, .running = (void *)all_running, .stopping = (void *)all_stopping,
	.quiescent = (void *)all_quiescent, .set_weight = (void *)all_set_weight,
	.set_cpumask = (void *)all_set_cpumask";

#[test]
fn ops_know_whether_an_interrupt_called_them() {
    let text = r#"
#define SHARED 0
static s64 context(void)
{
	return bpf_in_hardirq() ? 'h' : bpf_in_serving_softirq() ? 's' : bpf_in_interrupt() || !bpf_in_task() ? '?' : 't';
}
struct holder { struct bpf_timer timer; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1);
	 __type(key, u32); __type(value, struct holder); } timers SEC(".maps");
static int expired(void *map, u32 *key, struct holder *holder) { note("timer", NULL, context()); return 0; }
s32 BPF_STRUCT_OPS_SLEEPABLE(context_init)
{
	u32 key = 0;
	struct bpf_timer *timer = &((struct holder *)bpf_map_lookup_elem(&timers, &key))->timer;

	bpf_timer_init(timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(timer, expired);
	bpf_timer_start(timer, 1000000, 0);
	return scx_bpf_create_dsq(SHARED, -1);
}
s32 BPF_STRUCT_OPS(context_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	note(wake_flags & SCX_WAKE_FORK ? "fork" : "wakeup", p, context());
	return prev_cpu;
}
void BPF_STRUCT_OPS(context_enqueue, struct task_struct *p, u64 flags)
{
	scx_bpf_dsq_insert(p, SHARED, SCX_SLICE_DFL, flags);
}
void BPF_STRUCT_OPS(context_dispatch, s32 cpu, struct task_struct *prev) { scx_bpf_dsq_move_to_local(SHARED); }
void BPF_STRUCT_OPS(context_running, struct task_struct *p) { note("running", p, context()); }
void BPF_STRUCT_OPS(context_tick, struct task_struct *p) { note("tick", p, context()); }
"#;
    let ops = ".init = (void *)context_init, .select_cpu = (void *)context_select_cpu,
	.enqueue = (void *)context_enqueue, .dispatch = (void *)context_dispatch,
	.running = (void *)context_running, .tick = (void *)context_tick";
    // The timer of c interrupts a or b.
    let workload = tasks(|| {
        [
            task("a", [run_for(10)]),
            task("b", [run_for(10)]),
            task("c", [sleep_for(5), run_for(1)]),
        ]
    });
    let ran = run(&machine(2), &workload, &scheduler(text, ops));
    for (op, context) in [
        ("fork", 't'),
        ("wakeup", 'h'),
        ("running", 't'),
        ("tick", 'h'),
        ("timer", 's'),
    ] {
        let contexts = ran.numbers(op);
        assert!(!contexts.is_empty(), "{op}");
        assert!(
            contexts.iter().all(|&number| number == context as i64),
            "{op}: {contexts:?}"
        );
    }
}

#[test]
fn a_task_is_born_runs_sleeps_wakes_and_dies() {
    let workload = tasks(|| [task("a", [run_for(1), sleep_for(1), run_for(1)])]);
    let ran = run(&machine(2), &workload, &scheduler(EVERYTHING, OPS));
    assert_eq!(
        ran.log(),
        [
            "init",
            "init_task a",
            "enable a",
            "set_weight a",
            "select_cpu a",
            "runnable a",
            "enqueue a",
            "running a",
            "stopping a",
            "quiescent a",
            "select_cpu a",
            "runnable a",
            "enqueue a",
            "running a",
            "stopping a",
            "quiescent a",
            "disable a",
            "exit_task a",
            "exit",
        ]
    );
    assert_eq!(ran.numbers("init_task"), [1], "it came by fork");
    assert_eq!(ran.numbers("enable"), [100]);
    assert_eq!(
        ran.numbers("select_cpu"),
        [0x04, 0x08],
        "WF_FORK, then WF_TTWU"
    );
    // The flag is SCX_ENQ_CPU_SELECTED; the second call is for a wakeup.
    assert_eq!(ran.numbers("runnable"), [0x400, 0x401]);
    assert_eq!(ran.numbers("enqueue"), [0x400, 0x401]);
    assert_eq!(ran.numbers("stopping"), [0, 0], "it left the CPU to sleep");
    assert_eq!(ran.numbers("quiescent"), [1, 1], "SCX_DEQ_SLEEP");
    assert_eq!(ran.numbers("exit"), [64], "SCX_EXIT_UNREG");
}

#[test]
fn a_task_that_may_run_on_one_cpu_only_is_not_asked_about() {
    let workload = tasks(|| [bound("a", 1, [run_for(1)])]);
    let ran = run(&machine(2), &workload, &scheduler(EVERYTHING, OPS));
    assert!(ran.tasks("select_cpu").is_empty());
    assert_eq!(ran.numbers("enqueue"), [0]);
}

#[test]
fn a_slice_ends_at_the_tick_after_it_and_the_task_is_queued_again() {
    let workload = tasks(|| [bound("a", 0, [run_for(30)]), bound("b", 0, [run_for(30)])]);
    let ran = run(&machine(1), &workload, &scheduler(EVERYTHING, OPS));
    let lines = ran.lines();
    let stops: Vec<_> = lines
        .iter()
        .filter(|line| line.what == "stopping")
        .collect();
    assert!(stops.len() >= 6);
    for pair in lines.windows(2) {
        if pair[0].what == "stopping" && pair[0].number == 1 {
            let again = ("enqueue", &pair[0].task);
            assert_eq!((pair[1].what.as_str(), &pair[1].task), again);
        }
    }
    let runs: Vec<_> = lines.iter().filter(|line| line.what == "running").collect();
    for (run, stop) in runs.iter().zip(&stops) {
        let ran = stop.at - run.at;
        // The 8 ms are over, and the next tick comes within 4 ms.
        assert!(
            stop.number == 0 || (8 * MS..12 * MS).contains(&ran),
            "{ran}"
        );
    }
    // The tasks take turns.
    let order = ran.tasks("running");
    assert!(
        order[..6].windows(2).all(|pair| pair[0] != pair[1]),
        "{order:?}"
    );
}

#[test]
fn a_lone_task_is_kept_when_its_slice_is_over() {
    let workload = tasks(|| [bound("a", 0, [run_for(50)])]);
    let ran = run(&machine(1), &workload, &scheduler(EVERYTHING, OPS));
    assert_eq!(ran.tasks("enqueue").len(), 1);
    assert_eq!(ran.tasks("running").len(), 1);
}

#[test]
fn the_tick_op_is_called_at_the_ticks_and_sees_the_slice_shrink() {
    let ops = format!("{OPS}, .tick = (void *)all_tick");
    let workload = tasks(|| [bound("a", 0, [run_for(50)])]);
    let ran = run(&machine(1), &workload, &scheduler(EVERYTHING, &ops));
    let lines = ran.lines();
    let ticks: Vec<_> = lines.iter().filter(|line| line.what == "tick").collect();
    assert!((12..=13).contains(&ticks.len()), "{}", ticks.len());
    for pair in ticks.windows(2) {
        assert_eq!(pair[1].at - pair[0].at, 4 * MS);
        let refilled = pair[0].number == 0;
        assert!(refilled || pair[1].number < pair[0].number);
    }
}

#[test]
fn a_new_weight_is_told_while_the_task_stays_on_its_cpu() {
    let workload = tasks(|| {
        let nicer = Op::SetPolicy(SchedPolicy::Normal {
            nice: 5,
            slice_ns: 0,
        });
        [bound("a", 0, [run_for(1), nicer, run_for(1)])]
    });
    let ran = run(&machine(1), &workload, &scheduler(EVERYTHING, OPS));
    assert_eq!(ran.numbers("set_weight"), [100, 33], "335 of 1024");
    assert_eq!(
        ran.log()[4..14],
        [
            "runnable a",
            "enqueue a",
            "running a",
            "stopping a",
            "quiescent a",
            "set_weight a",
            "runnable a",
            "running a",
            "stopping a",
            "quiescent a"
        ][..],
        "dequeued and restored, and ops.enqueue() is not asked"
    );
}

#[test]
fn nice_levels_are_weights_as_cgroups_count_them() {
    for (nice, weight) in [(-20, 8668), (-1, 125), (0, 100), (1, 80), (19, 1)] {
        let workload = tasks(|| {
            [TaskSpec {
                policy: SchedPolicy::Normal { nice, slice_ns: 0 },
                ..task("a", [run_for(1)])
            }]
        });
        let ran = run(&machine(1), &workload, &scheduler(EVERYTHING, OPS));
        assert_eq!(ran.numbers("enable"), [weight], "nice {nice}");
    }
}

#[test]
fn a_task_that_may_not_stay_moves_to_a_cpu_of_its_new_mask() {
    let workload = tasks(|| {
        let all_but_0 = CpuMask::first_n(3).without(&CpuMask::one(0));
        let moved = Op::SetAffinity(Box::new(all_but_0));
        [bound("a", 0, [run_for(1), moved, run_for(1)])]
    });
    let ran = run(&machine(3), &workload, &scheduler(EVERYTHING, OPS));
    assert_eq!(ran.numbers("set_cpumask"), [2]);
    let cpus: Vec<_> = ran
        .lines()
        .into_iter()
        .filter(|line| line.what == "running")
        .collect();
    assert_eq!((cpus[0].cpu, cpus.last().unwrap().cpu > 0), (0, true));
    assert_eq!(ran.tasks("quiescent").len(), 2, "a move is not a sleep");
}

/// `cpumask_any_and_distribute()`
#[test]
fn tasks_that_may_not_stay_are_distributed_over_their_new_cpus() {
    let workload = tasks(|| {
        let moved = || Op::SetAffinity(Box::new((1..4).collect()));
        ["a", "b", "c"].map(|name| bound(name, 0, [run_for(1), moved(), run_for(1)]))
    });
    let (_, trace) = record(&machine(4), &workload, &scheduler(FIFO, "FIFO_OPS"));
    let moves = |line: &str| {
        let (_, to) = line.split_once("from: 0, to: ")?;
        to.get(..1)?.parse().ok()
    };
    let to: Vec<u32> = trace.text.lines().filter_map(moves).collect();
    assert_eq!(to, [1, 2, 3]);
}

/// `sched_setaffinity()` and `sched_setattr()` dequeue a task only if they change it.
#[test]
fn a_call_that_changes_nothing_leaves_the_task_alone() {
    let workload = tasks(|| {
        let affinity = Op::SetAffinity(Box::new(CpuMask::one(0)));
        let policy = Op::SetPolicy(SchedPolicy::Normal {
            nice: 0,
            slice_ns: 0,
        });
        [bound("a", 0, [run_for(1), affinity, policy, run_for(1)])]
    });
    let ran = run(&machine(2), &workload, &scheduler(EVERYTHING, OPS));
    for once in ["runnable", "enqueue", "running", "stopping", "quiescent"] {
        assert_eq!(ran.tasks(once).len(), 1, "{once}");
    }
    assert_eq!(ran.tasks("set_cpumask").len(), 0);
}

#[test]
fn a_task_under_another_class_is_not_the_schedulers() {
    let workload = tasks(|| {
        let real_time = Op::SetPolicy(SchedPolicy::Fifo { priority: 1 });
        let normal = Op::SetPolicy(SchedPolicy::Normal {
            nice: 0,
            slice_ns: 0,
        });
        [bound(
            "a",
            0,
            [run_for(1), real_time, run_for(1), normal, run_for(1)],
        )]
    });
    let ran = run(&machine(1), &workload, &scheduler(EVERYTHING, OPS));
    assert_eq!(
        ran.log()[..19],
        [
            "init",
            "init_task a",
            "enable a",
            "set_weight a",
            "runnable a",
            "enqueue a",
            "running a",
            "stopping a",
            "quiescent a",
            "set_weight a",
            "disable a",
            "enable a",
            "set_weight a",
            "set_cpumask a",
            "runnable a",
            "running a",
            "stopping a",
            "quiescent a",
            "disable a"
        ][..],
        "the scheduler hears of the new parameters before it loses the task"
    );
}

#[test]
fn yield_gives_up_the_slice_unless_the_scheduler_says_otherwise() {
    let workload = || {
        tasks(|| {
            let yields = || [run_for(1), Op::Yield, run_for(1)];
            [bound("a", 0, yields()), bound("b", 0, yields())]
        })
    };
    let ran = run(&machine(1), &workload(), &scheduler(EVERYTHING, OPS));
    assert_eq!(ran.tasks("running"), ["a", "b", "a", "b"]);
    let text = format!(
        "{EVERYTHING}bool BPF_STRUCT_OPS(keeps, struct task_struct *from, struct task_struct *to)
         {{ note(\"yield\", from, !to); return false; }}"
    );
    let ops = format!("{OPS}, .yield = (void *)keeps");
    let ran = run(&machine(1), &workload(), &scheduler(&text, &ops));
    assert_eq!(ran.tasks("running"), ["a", "b"]);
    assert_eq!(ran.numbers("yield"), [1, 1], "sched_yield() is to nobody");
}

#[test]
fn without_ops_tasks_share_the_global_queue() {
    let workload = tasks(|| {
        let spin = || task("spin", [run_for(100)]);
        [spin(), spin(), spin(), spin()]
    });
    let ran = run(&machine(2), &workload, &scheduler("", ".flags = 0"));
    assert_eq!(ran.outcome.simulated_ns, 200 * MS);
}

/// The cost of the first callback, in us. Each further callback costs a microsecond more than the one before.
const FIRST_US: u64 = 10;

fn cost(callback: &str) -> u64 {
    let index = CALLBACKS.iter().position(|name| *name == callback).unwrap();
    (FIRST_US + index as u64) * 1000
}

/// Runs `workload` under [`EVERYTHING`], whose callbacks take time.
fn run_with_costs(machine: &Machine, workload: &dyn Workload) -> Ran {
    let callbacks = Callbacks(CALLBACKS.map(cost));
    let scheduler = scheduler(EVERYTHING, OPS);
    let config = Config {
        read: &["lines", "nr_lines"],
        callbacks: Some(&callbacks),
        time_limit_ns: 1000 * MS,
        ..Config::new(machine, workload, &scheduler, &[])
    };
    let outcome = simulator::run_checked(config, Check::INVARIANTS).unwrap();
    Ran { outcome }
}

#[test]
fn a_callback_takes_its_time_before_the_next_one_is_called() {
    let workload = tasks(|| [bound("a", 1, [run_for(1), sleep_for(1), run_for(1)])]);
    let ran = run_with_costs(&machine(2), &workload);
    let lines = ran.lines();
    let at = |what: &str, nth: usize| {
        let mut lines = lines.iter().filter(|line| line.what == what);
        lines.nth(nth).unwrap().at
    };
    // The second wakeup finds the CPU idle, which then makes all calls, one after another.
    assert_eq!(at("enqueue", 1) - at("runnable", 1), cost("runnable"));
    assert_eq!(at("quiescent", 1) - at("stopping", 1), cost("stopping"));
    let started = at("running", 1) - at("enqueue", 1);
    assert_eq!(started, cost("enqueue") + cost("dispatch"));
    // The task computes once the switch is complete.
    assert_eq!(at("stopping", 0) - at("running", 0), MS + cost("running"));
}

#[test]
fn a_waker_pays_for_the_callbacks_of_its_wakeups() {
    // A task wakes another, which is bound to the other CPU, each millisecond of one slice.
    let workload = tasks(|| {
        let wakes = (0..5).flat_map(|_| [run_for(1), Op::Signal(0)]);
        let wait = || Op::Wait { cond: 0, mutex: 0 };
        let waits = (0..5).flat_map(move |_| [Op::Lock(0), wait(), Op::Unlock(0)]);
        [bound("waker", 0, wakes), bound("woken", 1, waits)]
    });
    let workload = Script(move || Start {
        mutexes: 1,
        condvars: 1,
        ..workload.start(&machine(2))
    });
    let lines = run_with_costs(&machine(2), &workload).lines();
    let first = |what: &str| {
        let of_waker = |line: &&Line| line.what == what && line.task == "waker";
        lines.iter().find(of_waker).unwrap().at
    };
    let (starts, stops) = (first("running"), first("stopping"));
    let meanwhile = |line: &&Line| line.cpu == 0 && (starts..stops).contains(&line.at);
    let costs: u64 = lines
        .iter()
        .filter(meanwhile)
        .map(|line| cost(&line.what))
        .sum();
    assert!(costs >= 4 * (cost("runnable") + cost("enqueue")), "{costs}");
    assert_eq!(stops - starts, 5 * MS + costs);
}

#[test]
fn a_slow_core_takes_longer_for_a_callback() {
    let mut slow = machine(2);
    slow.core_types.push(CoreType {
        name: "slow".into(),
        speed: 1 << 19,
        ..slow.core_types[0].clone()
    });
    slow.cpus[1].core_type = 1;
    let workload = tasks(|| [bound("a", 1, [run_for(1), sleep_for(1), run_for(1)])]);
    let lines = run_with_costs(&slow, &workload).lines();
    let at = |what: &str| lines.iter().rfind(|line| line.what == what).unwrap().at;
    assert_eq!(at("quiescent") - at("stopping"), 2 * cost("stopping"));
}

#[test]
fn sched_ext_takes_the_place_of_the_fair_class() {
    let costs = machine::Costs {
        context_switch_ns: 5000,
        fair_class_ns: 4000,
        ext_class_ns: 1000,
        ..machine::Costs::default()
    };
    let mut measured = machine(2);
    measured.core_types[0].costs = costs;
    let until_done = |ran: Ran| {
        let lines = ran.lines();
        let at = |what: &str| lines.iter().find(|line| line.what == what).unwrap().at;
        at("stopping") - at("running")
    };
    let workload = tasks(|| [bound("a", 1, [run_for(1), sleep_for(1), run_for(1)])]);
    // If callbacks have no costs, a switch costs as much as under the kernel's fair class. If they have costs,
    // sched_ext's 1 us and these costs take the place of the fair class's 4 us.
    let as_measured = run(&measured, &workload, &scheduler(EVERYTHING, OPS));
    assert_eq!(until_done(as_measured), MS + 5000);
    assert_eq!(
        until_done(run_with_costs(&measured, &workload)),
        MS + 2000 + cost("running")
    );
}

#[test]
fn the_time_in_callbacks_is_counted() {
    let workload = tasks(|| [bound("a", 1, [run_for(1), sleep_for(1), run_for(1)])]);
    let ran = run_with_costs(&machine(2), &workload);
    let calls = |what: &str| ran.numbers(what).len() as u64;
    let noted: u64 = CALLBACKS.iter().map(|name| calls(name) * cost(name)).sum();
    // The shell's callbacks and ops.dispatch() are not recorded.
    let counted = ran.outcome.counters.callbacks_ns;
    assert!(noted > 0 && counted > noted, "{counted} {noted}");
    assert_eq!(ran.outcome.counters.memory_ns, 0);
}
