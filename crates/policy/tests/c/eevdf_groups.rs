//! `eevdf`'s task groups: the scheduler's own C, compiled and called, on two CPUs whose tasks wake up, run, sleep and
//! move between CPUs and groups at random. After each step, weights and counts must equal their definition, computed
//! here from the tree. In the long run, CPU time must be divided in proportion to the weights.

use crate::common;
use libloading::{Library, Symbol};
use proptest::prelude::*;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const CODE: &str = concat!(
    r#"#include <scx/common.bpf.h>
#include "linux/eevdf/main.bpf.c"
#define TASKS 10
#define GROUPS 8
#define CPUS 2
const volatile struct policy policy = {
	.task_groups = 1, .cgroup_mode = MODE, .group_queues = QUEUES,
	.max_slice_lag = !QUEUES, .min_slice_protection = !QUEUES, .delayed_keeps_lag = !QUEUES, .pick_buddy = !QUEUES,
};
volatile struct tunables tunables = { .sched_base_slice = 3000000, .sched_cfs_bandwidth_slice = 5000000 };
const volatile struct machine machine = { .tick_ns = 1000000, .nr_cpus = CPUS };
static struct rq core[CPUS];
static struct task_struct tasks[TASKS];
static struct fair_entity of_task[TASKS];
static struct equipoise_map map;
static struct task_struct *prev[CPUS];
static u64 ran[TASKS];
static struct counters counted;

/* The dispatch queues: for each CPU, those of the eligible, the other and the throttled tasks. */
static struct queue { u32 nr; struct task_struct *task[TASKS]; } queues[3 * CPUS];

static struct queue *queue_at(u64 id) { return &queues[id / MAX_CPUS * CPUS + id % MAX_CPUS]; }
"#,
    include_str!("dispatch_queues.h"),
    r#"
static void kick(void *k, s32 cpu, u64 flags) {}

static struct equipoise_kernel kernel = {
	.nr_cpu_ids = CPUS, .rqs = core, .dispatch_vtime = put, .iter_dsq_new = iterate, .iter_dsq_next = next,
	.iter_dsq_destroy = ends, .dispatch_from_dsq = move, .consume = consume, .cpuperf = cpuperf, .kick_cpu = kick,
};

/* Starts with groups 1 to @nr, each of which is below the root (0) or an earlier group, and with all tasks asleep. */
void start(u32 nr, const u32 *parent, const u32 *weight, const u32 *idle, const u32 *in, const s32 *nice)
{
	equipoise_kernel = &kernel;
	kernel.now = NSEC_PER_SEC;
	*(struct equipoise_map **)&entities = &map;
	__builtin_memset(group_rqs, 0, sizeof(group_rqs[0]) * CPUS * (GROUPS + 1));
	__builtin_memset(fair_groups, 0, sizeof(fair_groups[0]) * (GROUPS + 1));
	__builtin_memset(queues, 0, sizeof(queues));
	__builtin_memset(ran, 0, sizeof(ran));
	nr_fair_groups = 0;
	for (u32 cpu = 0; cpu < CPUS; cpu++) {
		fair_rqs[cpu] = (struct fair_rq){};
		delayed_rqs[cpu] = (struct delayed_rq){};
		init_rq(cpu, kernel.now);
		prev[cpu] = NULL;
	}
	for (u32 i = 0; i < nr; i++)
		add_group(parent[i], shares_of_cgroup(weight[i]), idle[i]);
	for (u32 i = 0; i < TASKS; i++) {
		tasks[i] = (struct task_struct){ .pid = i + 1, .static_prio = 120 + nice[i] };
		of_task[i] = (struct fair_entity){ .forked = true, .pid = i + 1, .group = in[i] };
		tasks[i].equipoise_storage[0] = &of_task[i];
		reweight_entity(&tasks[i], &of_task[i], in[i]);
	}
}

static void off(struct task_struct *p)
{
	for (u32 i = 0; i < 3 * CPUS; i++)
		for (u32 at = 0; at < queues[i].nr; at++)
			if (queues[i].task[at] == p)
				take(&queues[i], at--);
}

void pass(u64 ns)
{
	kernel.now += ns;
	for (u32 cpu = 0; cpu < CPUS; cpu++)
		if (prev[cpu])
			ran[prev[cpu]->pid - 1] += ns;
}

void wake(u32 i, u32 cpu)
{
	struct fair_entity *se = &of_task[i];

	if (se->on_rq)
		return;
	update_rq_clock(cpu, kernel.now);
	update_curr(cpu);
	enqueue_entity(se, cpu, kernel.now);
	queue_task(&tasks[i], se, cpu, 0);
}

void sleeps(u32 cpu)
{
	struct fair_entity *se = prev[cpu] ? entity_of(prev[cpu]) : NULL;

	if (!se)
		return;
	put_curr(cpu, se, kernel.now);
	dequeue_entity(se, true, kernel.now);
	prev[cpu] = NULL;
}

void pick(u32 cpu)
{
	local = NULL;
	update_rq_clock(cpu, kernel.now);
	update_curr(cpu);
	pick_next_entity(cpu, prev[cpu], kernel.now);
	if (!local)
		return;
	if (prev[cpu]) {
		put_curr(cpu, entity_of(prev[cpu]), kernel.now);
		queue_task(prev[cpu], entity_of(prev[cpu]), cpu, 0);
	}
	set_idle(cpu, false, kernel.now);
	set_curr(cpu, local, entity_of(local), kernel.now);
	prev[cpu] = local;
}

void tick(u32 cpu)
{
	struct fair_entity *se = prev[cpu] ? entity_of(prev[cpu]) : NULL;
	struct fair_rq *rq = rq_of(cpu);

	update_rq_clock(cpu, kernel.now);
	update_curr(cpu);
	if (se) {
		update_entity_load_avg(se, se_clock_pelt(rq, se), true);
		if (se->group) {
			update_avg_of(rq, se->group, cpu);
			if (group_queues())
				tick_groups(se->group, cpu);
			else
				reweight_curr(rq, se, tick_hierarchy(se->group, cpu, se->weight));
		}
		update_tg_load_avg(rq);
	}
	pick(cpu);
}

void ticks(u32 cpu, u32 count, u64 ns)
{
	while (count--) {
		tick(cpu);
		pass(ns);
	}
}

/* A waiting task goes to the other CPU. */
void migrate(u32 i)
{
	struct fair_entity *se = &of_task[i];
	u32 cpu = !se->cpu;

	if (!se->on_rq || prev[se->cpu] == &tasks[i])
		return;
	off(&tasks[i]);
	migrate_entity(se, cpu);
	queue_task(&tasks[i], se, cpu, 0);
}

/* The task moves to another group in the way in which its CPU moves a running task: off the runqueue, and on again. */
void enter(u32 i, u32 group)
{
	struct fair_entity *se = &of_task[i];
	bool on_rq = se->on_rq;
	u32 cpu = se->cpu;

	if (prev[cpu] == &tasks[i]) {
		put_curr(cpu, se, kernel.now);
		prev[cpu] = NULL;
	}
	if (on_rq) {
		off(&tasks[i]);
		dequeue_entity(se, false, kernel.now);
	}
	reweight_entity(&tasks[i], se, group);
	if (on_rq)
		wake(i, cpu);
}

u64 time_of(u32 i) { return ran[i]; }

struct look {
	u64 load_weight, weight, shares, load_avg, contrib, tg_load_avg, tg_runnable;
	u32 nr_queued, h_nr_queued, h_nr_runnable, h_nr_idle, on_rq, h_curr, delayed;
};

struct look group(u32 group, u32 cpu)
{
	const struct group_rq *grq = group_rq_at(group, cpu);
	const struct fair_group *tg = fair_group_at(group);

	return (struct look){ grq->queue.load_weight, grq->se.h_weight, tg->shares, grq->avg.load_avg, grq->tg_load_avg_contrib,
			       tg->load_avg, tg->runnable_avg, grq->queue.nr, grq->h_nr_queued, grq->h_nr_runnable,
			       grq->h_nr_idle, grq->se.on_rq, grq->h_curr, grq->se.delayed };
}

/* The weight that the entity of @group would get now. */
u64 shares_now(u32 group, u32 cpu) { return calc_group_shares(fair_group_at(group), group_rq_at(group, cpu)); }

struct task { u32 group, cpu, counts, runnable, runs, idle; u64 weight, h_weight; };

struct task look_at_task(u32 i)
{
	const struct fair_entity *se = &of_task[i];

	return (struct task){ se->group, se->cpu, se->on_rq || still_delayed(se), se->on_rq, prev[se->cpu] == &tasks[i],
			       se->idle_policy, se->weight, se->h_weight };
}

/* Of the root on @cpu: the weight of its entities, the weight in EEVDF's sums, and its counts of tasks. */
u64 root_weight(u32 cpu) { return rq_of(cpu)->queue.load_weight + rq_of(cpu)->group_load; }
u64 eevdf_weight(u32 cpu) { return rq_of(cpu)->queue.load_weight; }
u32 root_tasks(u32 cpu) { return rq_of(cpu)->nr_running; }
u32 root_idle(u32 cpu) { return rq_of(cpu)->nr_idle_policy; }
"#
);

const TASKS: usize = 10;
const CPUS: u32 = 2;
/// The weight of nice 0, scaled.
const NICE_0: u64 = 1 << 20;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    load_weight: u64,
    weight: u64,
    shares: u64,
    load_avg: u64,
    contrib: u64,
    tg_load_avg: u64,
    tg_runnable: u64,
    nr_queued: u32,
    h_nr_queued: u32,
    h_nr_runnable: u32,
    h_nr_idle: u32,
    on_rq: u32,
    h_curr: u32,
    /// The entity has no tasks left, and leaves its queue when it would be picked.
    delayed: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    group: u32,
    cpu: u32,
    /// Whether the task is runnable, or asleep and not yet dequeued.
    counts: u32,
    runnable: u32,
    runs: u32,
    idle: u32,
    weight: u64,
    h_weight: u64,
}

/// A tree of groups with tasks; group 0 is the root.
#[derive(Clone, Debug)]
struct Tree {
    parents: Vec<u32>,
    weights: Vec<u32>,
    idle: Vec<u32>,
    groups: Vec<u32>,
    nice: Vec<i32>,
}

impl Tree {
    fn parent(&self, group: u32) -> u32 {
        self.parents[group as usize - 1]
    }

    fn nr(&self) -> u32 {
        self.parents.len() as u32
    }

    /// The groups from `group` up, without the root.
    fn path(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(group), |&group| {
            (group > 0).then(|| self.parent(group))
        })
        .take_while(|&group| group > 0)
    }

    fn contains(&self, group: u32, below: u32) -> bool {
        self.path(below).any(|above| above == group)
    }
}

fn trees(idle: bool) -> impl Strategy<Value = Tree> {
    let weight = prop_oneof![Just(100u32), 1u32..=10_000];
    let group = (any::<prop::sample::Index>(), weight, 0u32..8);
    let groups = proptest::collection::vec(group, 1..=8);
    let task = (any::<prop::sample::Index>(), -5i32..=10);
    let tasks = proptest::collection::vec(task, TASKS);
    (groups, tasks).prop_map(move |(groups, tasks)| Tree {
        parents: groups
            .iter()
            .enumerate()
            .map(|(index, (parent, _, _))| parent.index(index + 1) as u32)
            .collect(),
        weights: groups.iter().map(|&(_, weight, _)| weight).collect(),
        idle: groups
            .iter()
            .map(|&(_, _, is_idle)| u32::from(idle && is_idle == 0))
            .collect(),
        groups: tasks
            .iter()
            .map(|(group, _)| group.index(groups.len() + 1) as u32)
            .collect(),
        nice: tasks.iter().map(|&(_, nice)| nice).collect(),
    })
}

/// The rules by which groups compete.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rules {
    /// Linux 7.3: tasks compete, each with its part of the weights of the groups above it.
    Concurrent,
    /// As `Concurrent`, but the weights of groups are computed as in earlier versions of Linux.
    Smp,
    /// Linux 6.12: each group has a queue on each CPU.
    Queues,
}

/// The simulated kernel. Only one test can use it at a time.
struct Kernel(MutexGuard<'static, Library>);

impl Kernel {
    fn start(rules: Rules, tree: &Tree) -> Kernel {
        static LIBRARIES: [OnceLock<Mutex<Library>>; 3] = [const { OnceLock::new() }; 3];
        let library = LIBRARIES[rules as usize].get_or_init(|| {
            let (mode, queues) = match rules {
                Rules::Concurrent => ("CGROUP_MODE_CONCUR", "0"),
                Rules::Smp => ("CGROUP_MODE_SMP", "0"),
                Rules::Queues => ("CGROUP_MODE_SMP", "1"),
            };
            let code = CODE.replace("MODE,", &format!("{mode},"));
            let code = code.replace("QUEUES,", &format!("{queues},"));
            Mutex::new(common::compile_with_tables(&code, "eevdf", "smp-2"))
        });
        let kernel = Kernel(library.lock().unwrap_or_else(PoisonError::into_inner));
        type Start =
            unsafe extern "C" fn(u32, *const u32, *const u32, *const u32, *const u32, *const i32);
        let start: Symbol<Start> = unsafe { kernel.0.get(b"start") }.unwrap();
        unsafe {
            start(
                tree.nr(),
                tree.parents.as_ptr(),
                tree.weights.as_ptr(),
                tree.idle.as_ptr(),
                tree.groups.as_ptr(),
                tree.nice.as_ptr(),
            )
        };
        kernel
    }

    fn call(&self, name: &str, argument: u32) {
        let call: Symbol<unsafe extern "C" fn(u32)> =
            unsafe { self.0.get(name.as_bytes()) }.unwrap();
        unsafe { call(argument) }
    }

    fn call2(&self, name: &str, a: u32, b: u32) -> u64 {
        let call: Symbol<unsafe extern "C" fn(u32, u32) -> u64> =
            unsafe { self.0.get(name.as_bytes()) }.unwrap();
        unsafe { call(a, b) }
    }

    fn number(&self, name: &str, argument: u32) -> u64 {
        let call: Symbol<unsafe extern "C" fn(u32) -> u64> =
            unsafe { self.0.get(name.as_bytes()) }.unwrap();
        unsafe { call(argument) }
    }

    c_fns! {
        fn pass(ns: u64);
        fn ticks(cpu: u32, count: u32, ns: u64);
        fn group(group: u32, cpu: u32) -> Group;
        fn look_at_task(task: u32) -> Task;
    }

    fn tasks(&self) -> [Task; TASKS] {
        std::array::from_fn(|task| self.look_at_task(task as u32))
    }
}

/// `__calc_smp_shares()` with `calc_concur_shares()` or `calc_smp_shares()`: the formula in the comment of Linux 7.3,
/// computed exactly.
fn calc_group_shares(group: &Group, concurrent: bool) -> u64 {
    let tasks = (group.tg_runnable >> 10).max(1);
    let factor = if concurrent {
        tasks.min(u64::from(CPUS))
    } else {
        1
    };
    let most = u128::from(group.shares * factor);
    let scaled_down = match group.load_weight {
        0 => 0,
        weight => (weight >> 10).max(2),
    };
    let load = u128::from(scaled_down.max(group.load_avg));
    let all = i128::from(group.tg_load_avg) - i128::from(group.contrib) + load as i128;
    let shares = if all > 0 {
        most * load / all as u128
    } else {
        most * load
    };
    shares.clamp(2, most) as u64
}

fn check(kernel: &Kernel, tree: &Tree, rules: Rules) -> Result<(), TestCaseError> {
    let tasks = kernel.tasks();
    for cpu in 0..CPUS {
        let here = || {
            tasks
                .iter()
                .filter(|task| task.cpu == cpu && task.counts != 0)
        };
        let mut root = 0;
        for group in 1..=tree.nr() {
            let state = kernel.group(group, cpu);
            let below = || here().filter(|task| tree.contains(group, task.group));
            let own = || here().filter(|task| task.group == group);
            let children = || {
                (1..=tree.nr())
                    .filter(|&child| tree.parent(child) == group)
                    .map(|child| kernel.group(child, cpu))
                    .filter(|child| child.on_rq != 0)
            };
            let is_idle = |task: &&Task| {
                let mut path = tree.path(task.group).take_while(|&above| above != group);
                task.idle != 0 || path.any(|above| tree.idle[above as usize - 1] != 0)
            };
            let weight = own().map(|task| task.weight << 10).sum::<u64>()
                + children().map(|child| child.weight).sum::<u64>();
            prop_assert_eq!(
                state.load_weight,
                weight,
                "weight of group {} on {}",
                group,
                cpu
            );
            prop_assert_eq!(state.nr_queued as usize, own().count() + children().count());
            prop_assert_eq!(state.h_nr_queued as usize, below().count());
            prop_assert_eq!(
                state.h_nr_runnable as usize,
                below().filter(|task| task.runnable != 0).count()
            );
            prop_assert_eq!(state.h_nr_idle as usize, below().filter(is_idle).count());
            let queued = state.nr_queued > 0 || (rules == Rules::Queues && state.delayed != 0);
            prop_assert_eq!(state.on_rq != 0, queued);
            prop_assert_eq!(state.h_curr != 0, below().any(|task| task.runs != 0));
            prop_assert_eq!(
                kernel.call2("shares_now", group, cpu),
                calc_group_shares(&state, rules == Rules::Concurrent)
            );
            if tree.parent(group) == 0 && state.on_rq != 0 {
                root += state.weight;
            }
        }
        root += here()
            .filter(|task| task.group == 0)
            .map(|task| task.weight << 10)
            .sum::<u64>();
        prop_assert_eq!(kernel.number("root_weight", cpu), root);
        let eevdf: u64 = match rules {
            Rules::Queues => root,
            _ => here().map(|task| task.h_weight).sum(),
        };
        prop_assert_eq!(kernel.number("eevdf_weight", cpu), eevdf);
        prop_assert_eq!(
            kernel.number("root_tasks", cpu) as u32 as usize,
            here().count()
        );
    }
    for group in 1..=tree.nr() {
        let states: Vec<Group> = (0..CPUS).map(|cpu| kernel.group(group, cpu)).collect();
        let sum: u64 = states.iter().map(|state| state.contrib).sum();
        prop_assert_eq!(states[0].tg_load_avg, sum);
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Wake(u32, u32),
    Sleep(u32),
    Tick(u32),
    Pass(u64),
    Migrate(u32),
    Enter(u32, prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (task, cpu) = (0..TASKS as u32, 0..CPUS);
    let step = prop_oneof![
        3 => (task.clone(), cpu.clone()).prop_map(|(task, cpu)| Step::Wake(task, cpu)),
        1 => cpu.clone().prop_map(Step::Sleep),
        3 => cpu.prop_map(Step::Tick),
        3 => (1_000u64..6_000_000).prop_map(Step::Pass),
        1 => task.clone().prop_map(Step::Migrate),
        1 => (task, any::<prop::sample::Index>()).prop_map(|(task, group)| Step::Enter(task, group)),
    ];
    proptest::collection::vec(step, 1..120)
}

fn rules() -> impl Strategy<Value = Rules> {
    prop_oneof![
        Just(Rules::Concurrent),
        Just(Rules::Smp),
        Just(Rules::Queues)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn groups_are_consistent(tree in trees(true), steps in steps(), rules in rules()) {
        let kernel = Kernel::start(rules, &tree);
        for step in steps {
            match step {
                Step::Wake(task, cpu) => { kernel.call2("wake", task, cpu); }
                Step::Sleep(cpu) => kernel.call("sleeps", cpu),
                Step::Tick(cpu) => kernel.call("tick", cpu),
                Step::Pass(ns) => kernel.pass(ns),
                Step::Migrate(task) => kernel.call("migrate", task),
                Step::Enter(task, group) => {
                    kernel.call2("enter", task, group.index(tree.nr() as usize + 1) as u32);
                }
            }
            check(&kernel, &tree, rules)?;
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn cpu_time_follows_the_tree(
        tree in trees(false),
        runnable in proptest::collection::vec(any::<bool>(), TASKS),
        queues in any::<bool>(),
    ) {
        let kernel = Kernel::start(if queues { Rules::Queues } else { Rules::Smp }, &tree);
        let busy: Vec<usize> = (0..TASKS).filter(|&task| runnable[task]).collect();
        for &task in &busy {
            kernel.call2("wake", task as u32, 0);
        }
        kernel.ticks(0, 20_000, 1_000_000);
        let tasks = kernel.tasks();
        // A group's weight is divided among its busy tasks and those of its groups that have any.
        let in_use = |group: u32| busy.iter().any(|&task| tree.contains(group, tasks[task].group));
        let weights = |group: u32| {
            let own = busy.iter().filter(|&&task| tasks[task].group == group);
            let below = (1..=tree.nr()).filter(|&child| tree.parent(child) == group && in_use(child));
            own.map(|&task| tasks[task].weight as f64 * 1024.0).sum::<f64>()
                + below.map(|child| kernel.group(child, 0).shares as f64).sum::<f64>()
        };
        for &task in &busy {
            let group = tasks[task].group;
            let mut share = tasks[task].weight as f64 * 1024.0 / weights(group);
            for above in tree.path(group) {
                share *= kernel.group(above, 0).shares as f64 / weights(tree.parent(above));
            }
            let time = kernel.number("time_of", task as u32) as f64 / 20e9;
            // Weights are whole numbers, and a slice is 3 ms.
            let rounding = 4.0 * share * NICE_0 as f64 / (share * NICE_0 as f64).max(1.0) / NICE_0 as f64;
            prop_assert!(
                (time - share).abs() < 0.02 * share + 0.002 + rounding,
                "task {task}: {time} of the time, expected {share}; {busy:?}"
            );
        }
    }
}
