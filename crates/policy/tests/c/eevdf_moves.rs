//! The choice of tasks in `eevdf`'s balancing, by Linux 6.12's rules, on two CPUs with tasks in its dispatch queues.

use crate::common;
use libloading::{Library, Symbol};

const CODE: &str = concat!(
    r#"#include <scx/common.bpf.h>
#include "linux/eevdf/main.bpf.c"
#define TASKS 8
const volatile struct policy policy = {
	.scale_rt_capacity = RT_CAPACITY_PELT, .ni_random = true, .ni_rate = true,
};
volatile struct tunables tunables = {
	.sched_base_slice = 3000000, .sched_migration_cost = 500000, .sched_nr_migrate = 32,
};
const volatile struct machine machine = { .tick_ns = 1000000, .nr_cpus = 2 };
static struct rq core[2];
static struct cpumask both, one_cpu;
static struct task_struct tasks[TASKS];
static struct fair_entity of_task[TASKS];
static struct equipoise_map map;
/* The queues by number, each in its order. */
static struct queue { u32 nr; struct task_struct *task[TASKS]; } queues[4];

static struct queue *queue_at(u64 id) { return &queues[(id >= MAX_CPUS ? 2 : 0) + id % MAX_CPUS]; }
"#,
    include_str!("dispatch_queues.h"),
    r#"
static void kick(void *k, s32 cpu, u64 flags) {}
static struct task_struct *from_pid(void *k, s32 pid) { return pid > 0 && pid <= TASKS ? &tasks[pid - 1] : NULL; }
static void lock_rqs(void *k, u32 a, u32 b) {}
static void unlock_rqs(void *k) {}

static struct equipoise_kernel kernel = {
	.nr_cpu_ids = 2, .rqs = core, .dispatch_vtime = put, .iter_dsq_new = iterate, .iter_dsq_next = next,
	.iter_dsq_destroy = ends, .dispatch_from_dsq = move, .cpuperf = cpuperf, .kick_cpu = kick,
	.task_from_pid = from_pid, .lock_rqs = lock_rqs, .unlock_rqs = unlock_rqs,
};

/* Task 0 runs on CPU 0; @waiting other tasks wait there, and @woken has their wakeup times (ns). CPU 1 is idle. */
void start(u32 waiting, const u64 *woken)
{
	equipoise_kernel = &kernel;
	*(struct equipoise_map **)&entities = &map;
	__builtin_memset(&both, 0xff, sizeof(both));
	one_cpu = (struct cpumask){ .bits = { 1 } };
	__builtin_memset(queues, 0, sizeof(queues));
	__builtin_memset(group_states, 0, sizeof(group_states));
	kernel.now = NSEC_PER_SEC;
	for (u32 cpu = 0; cpu < 2; cpu++) {
		fair_rqs[cpu] = (struct fair_rq){};
		init_rq(cpu, kernel.now);
		init_groups(cpu);
	}
	rq_of(0)->idle = false;
	for (u32 i = 0; i <= waiting; i++) {
		struct fair_entity *se = &of_task[i];

		tasks[i] = (struct task_struct){ .pid = i + 1, .static_prio = 120, .cpus_ptr = &both, .nr_cpus_allowed = 2 };
		*se = (struct fair_entity){ .pid = i + 1 };
		tasks[i].equipoise_storage[0] = se;
		reweight_entity(&tasks[i], se, 0);
		enqueue_entity(se, 0, i ? woken[i - 1] : kernel.now);
		if (i)
			queue_task(&tasks[i], se, 0, 0);
		else
			set_curr(0, &tasks[0], se, kernel.now);
	}
}

/* Waiting task @i is bound to CPU 0, as a kernel thread if @kernels. */
void bind(u32 i, bool kernels)
{
	tasks[i].cpus_ptr = &one_cpu;
	tasks[i].nr_cpus_allowed = 1;
	tasks[i].flags = kernels ? PF_KTHREAD : 0;
}

static struct balance_env *env_of(enum balance_idle idle, u32 tasks_wanted)
{
	struct balance_env *env = this_balance_env();

	*env = (struct balance_env){
		.cpu = 1, .dst_cpu = 1, .src_cpu = 0, .local_group = local_group_of(1, 0), .idle = idle,
		.migration_type = MIGRATE_TASK, .imbalance = tasks_wanted, .now = kernel.now, .loop_max = TASKS,
		.flags = LBF_ALL_PINNED,
	};
	return env;
}

/* CPU 1 requests this number of tasks. Returns a bit for each task that it got. */
u32 pull(u32 idle, u32 wanted)
{
	u32 got = 0;

	move_tasks(env_of(idle, wanted));
	for (u32 i = 0; i < TASKS; i++)
		if (of_task[i].on_rq && of_task[i].cpu == 1)
			got |= 1U << i;
	return got;
}

/* LBF_*: what balancing found out about affinity. */
u32 flags(void) { return this_balance_env()->flags; }

/*
 * CPU 0 is asked to push a task to CPU 1, whose balancing has failed @failed times. Returns the
 * number afterwards.
 */
u32 failures_after_push(u32 failed)
{
	domain_state_of(1, 0)->nr_balance_failed = failed;
	rq_of(0)->push_cpu = 1;
	rq_of(0)->active_balance = 1;
	active_load_balance(0, &tasks[0], kernel.now);
	return domain_state_of(1, 0)->nr_balance_failed;
}

/*
 * CPU 1 runs out of work while no CPU is overloaded; it was due to balance in @due jiffies. Returns
 * the new due time.
 */
u64 due_after_idling(u64 due)
{
	struct fair_rq *rq = rq_of(1);

	whole_machine.overloaded = false;
	rq->next_balance = jiffies_at(kernel.now) + due;
	idle_balance(1, kernel.now);
	return rq->next_balance - jiffies_at(kernel.now);
}

/*
 * An idle CPU balances for all idle CPUs; without @idle, there are none. Returns their due time in jiffies
 * from now.
 */
s64 nohz_due(bool idle)
{
	u64 jiffies = jiffies_at(kernel.now);

	nohz = (struct nohz){ .next_balance = jiffies + 7 };
	rq_of(0)->tick_stopped = rq_of(1)->tick_stopped = false;
	if (idle)
		nohz_balance_enter_idle(1);
	rq_of(1)->next_balance = jiffies + 3;
	nohz_idle_balance(1, NOHZ_STATS_KICK | NOHZ_NEXT_KICK, kernel.now);
	return nohz.next_balance - jiffies;
}

/*
 * CPU 1 becomes newly idle @times times, @apart ns apart, and never finds a task. Returns the number of
 * cases, of 1024, in which the CPU searches.
 */
u64 newidle_ratio(u64 times, u64 apart)
{
	u64 now = kernel.now;

	for (u64 i = 0; i < times; i++)
		update_newidle_stats(domain_state_of(1, 0), 0, now += apart);
	return domain_state_of(1, 0)->newidle_ratio;
}

/*
 * CPU 1 has a task, and waiting task 1 is @more ns beyond its share. Balancing has failed @failed
 * times. Is task 1 pulled?
 */
u64 pulls_ineligible(u64 more, u64 failed)
{
	struct fair_entity *se = &of_task[1];

	remove_entity(se);
	se->vruntime = avg_vruntime(&rq_of(0)->queue) + more;
	add_entity(se, 0);
	rq_of(1)->nr_running = 1;
	domain_state_of(1, 0)->nr_balance_failed = failed;
	return pull(LB_NOT_IDLE, 1);
}
"#
);

/// A value of `enum balance_idle`.
const NOT_IDLE: u32 = 0;
const NEWLY_IDLE: u32 = 2;
const SOME_PINNED: u32 = 2;
const ALL_PINNED: u32 = 1;

struct Cpus(Library);

impl Cpus {
    /// One task runs on CPU 0. For each of the times `woken` (ns), one task has been waiting there since then.
    fn new(woken: &[u64]) -> Cpus {
        let cpus = Cpus(common::compile_with_tables(CODE, "eevdf", "smp-2"));
        let start: Symbol<unsafe extern "C" fn(u32, *const u64)> =
            unsafe { cpus.0.get(b"start") }.unwrap();
        unsafe { start(woken.len() as u32, woken.as_ptr()) };
        cpus
    }

    fn call(&self, name: &str, a: u64, b: u64) -> u64 {
        let call: Symbol<unsafe extern "C" fn(u64, u64) -> u64> =
            unsafe { self.0.get(name.as_bytes()) }.unwrap();
        unsafe { call(a, b) }
    }

    fn pull(&self, idle: u32, wanted: u64) -> u32 {
        self.call("pull", idle.into(), wanted) as u32
    }
}

#[test]
fn the_task_that_has_waited_longest_is_moved_first() {
    let cpus = Cpus::new(&[300, 100, 200]);
    assert_eq!(cpus.pull(NOT_IDLE, 1), 1 << 2);
    assert_eq!(cpus.pull(NOT_IDLE, 1), 1 << 2 | 1 << 3);
}

#[test]
fn a_newly_idle_cpu_takes_one_task() {
    assert_eq!(Cpus::new(&[1, 2, 3, 4]).pull(NEWLY_IDLE, 3).count_ones(), 1);
    assert_eq!(Cpus::new(&[1, 2, 3, 4]).pull(NOT_IDLE, 3).count_ones(), 3);
}

#[test]
fn the_kernels_bound_threads_are_no_imbalance() {
    for (kernels, expected) in [(1, 0), (0, SOME_PINNED)] {
        let cpus = Cpus::new(&[1]);
        cpus.call("bind", 1, kernels);
        assert_eq!(cpus.pull(NOT_IDLE, 1), 0);
        assert_eq!(
            cpus.call("flags", 0, 0) as u32 & (SOME_PINNED | ALL_PINNED),
            expected,
            "{kernels}"
        );
    }
}

#[test]
fn a_push_that_succeeds_forgets_failures() {
    let cpus = Cpus::new(&[1]);
    assert_eq!(cpus.call("failures_after_push", 5, 0), 0);
    // Here no task may leave its CPU.
    let cpus = Cpus::new(&[1]);
    cpus.call("bind", 0, 0);
    cpus.call("bind", 1, 0);
    assert_eq!(cpus.call("failures_after_push", 5, 0), 5);
}

#[test]
fn a_cpu_that_becomes_idle_is_due_after_the_interval_of_idle_cpus() {
    let cpus = Cpus::new(&[]);
    assert_eq!(cpus.call("due_after_idling", 100, 0), 2);
    assert_eq!(cpus.call("due_after_idling", 1, 0), 1);
}

/// NI_RANDOM and NI_RATE: 512 unsuccessful searches halve the share of cases in which the CPU searches. If these
/// searches are rare, more do no harm, and the share rises.
#[test]
fn looks_that_bring_nothing_become_rare_unless_they_are() {
    let cpus = Cpus::new(&[]);
    assert_eq!(cpus.call("newidle_ratio", 511, 0), 512);
    assert_eq!(cpus.call("newidle_ratio", 1, 0), 256);
    assert_eq!(cpus.call("newidle_ratio", 512, 0), 128);
    let rare = Cpus::new(&[]);
    assert_eq!(rare.call("newidle_ratio", 512, 1 << 22), 256 + 512);
    assert_eq!(rare.call("newidle_ratio", 512, 3 << 22), 1024);
}

#[test]
fn a_task_that_is_not_eligible_stays_until_balancing_has_failed() {
    for (more, failed, pulled) in [(0, 0, true), (1_000_000, 0, false), (1_000_000, 1, true)] {
        let cpus = Cpus::new(&[1]);
        let pulled_it = cpus.call("pulls_ineligible", more, failed) != 0;
        assert_eq!(pulled_it, pulled, "{more} {failed}");
    }
}

#[test]
fn a_balancer_that_sees_no_idle_cpu_does_not_set_their_due_time() {
    let cpus = Cpus::new(&[]);
    assert_eq!(cpus.call("nohz_due", 1, 0), 3);
    assert_eq!(cpus.call("nohz_due", 0, 0), 7);
}
