//! The scheduler's EEVDF, which has two queues per CPU, is compared with the definition of EEVDF. Its own C is compiled
//! and called, on one CPU whose tasks wake up, run and sleep at random.

use crate::common;
use libloading::{Library, Symbol};
use proptest::prelude::*;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const CODE: &str = concat!(
    r#"#include <scx/common.bpf.h>
#include "linux/eevdf/main.bpf.c"
#define TASKS 12
#define SLICE 3000000
const volatile struct policy policy = { ROWS };
volatile struct tunables tunables = { .sched_base_slice = SLICE };
const volatile struct machine machine = { .tick_ns = 1000000, .nr_cpus = 1 };
static struct rq core;
static struct task_struct tasks[TASKS];
static struct fair_entity of_task[TASKS];
static struct equipoise_map map;
static struct task_struct *prev;

/* The dispatch queues: that of the eligible tasks, and that of the other tasks. */
static struct queue { u32 nr; struct task_struct *task[TASKS]; } queues[2];

static struct queue *queue_at(u64 id)
{
	return &queues[id >= MAX_CPUS];
}
"#,
    include_str!("dispatch_queues.h"),
    r#"
static struct equipoise_kernel kernel = {
	.nr_cpu_ids = 1, .rqs = &core, .dispatch_vtime = put, .iter_dsq_new = iterate, .iter_dsq_next = next,
	.iter_dsq_destroy = ends, .dispatch_from_dsq = move, .consume = consume, .cpuperf = cpuperf,
};

/* Starts with the nice level of each task and the slice in ns that it requests; 0 is the default. */
void begin(const s32 *nice, const u64 *slice)
{
	equipoise_kernel = &kernel;
	kernel.now = NSEC_PER_SEC;
	*(struct equipoise_map **)&entities = &map;
	fair_rqs[0] = (struct fair_rq){};
	init_rq(0, kernel.now);
	for (u32 i = 0; i < TASKS; i++) {
		tasks[i] = (struct task_struct){ .pid = i + 1, .static_prio = 120 + nice[i],
						 .se = { .slice = slice[i], .custom_slice = !!slice[i] } };
		of_task[i] = (struct fair_entity){ .forked = true, .pid = i + 1 };
		tasks[i].equipoise_storage[0] = &of_task[i];
		reweight_entity(&tasks[i], &of_task[i], 0);
	}
	prev = NULL;
	queues[0].nr = queues[1].nr = 0;
}

void pass(u64 ns)
{
	kernel.now += ns;
}

/* Makes task @i runnable, unless it is. */
void wake(u32 i)
{
	struct fair_entity *se = &of_task[i];

	if (se->on_rq)
		return;
	update_rq_clock(0, kernel.now);
	update_curr(0);
	enqueue_entity(se, 0, kernel.now);
	queue_task(&tasks[i], se, 0, 0);
}

/* Puts the running task to sleep, if there is one. */
void sleeps(void)
{
	struct fair_entity *se = prev ? entity_of(prev) : NULL;

	if (!se)
		return;
	put_curr(0, se, kernel.now);
	dequeue_entity(se, true, kernel.now);
	prev = NULL;
}

/*
 * The number of the next task, or -1. @kept: whether it is the previous task, in its protected
 * slice.
 */
s32 pick(bool *kept)
{
	struct fair_rq *rq = rq_of(0);

	*kept = false;
	if (prev) {
		update_rq_clock(0, kernel.now);
		update_curr(0);
		*kept = is_protected(&rq->curr);
	}
	local = NULL;
	pick_next_entity(0, prev, kernel.now);
	if (local) {
		if (prev) {
			put_curr(0, entity_of(prev), kernel.now);
			queue_task(prev, entity_of(prev), 0, 0);
		}
		set_curr(0, local, entity_of(local), kernel.now);
		prev = local;
	}
	return prev ? (s32)prev->pid - 1 : -1;
}

/* Task @i has woken up: does it preempt the running one? */
bool preempts(u32 i)
{
	update_rq_clock(0, kernel.now);
	update_curr(0);
	return check_preempt_wakeup(rq_of(0), &tasks[i], &of_task[i]);
}

/* Does the running task have to stop? */
bool is_over(void)
{
	update_rq_clock(0, kernel.now);
	return update_curr(0);
}

struct state { u32 on_rq, counts, weight; u64 vruntime, deadline; s64 vlag; };

struct state look(u32 i)
{
	const struct running *curr = &rq_of(0)->curr;
	bool runs = curr->pid == tasks[i].pid;

	return (struct state){ of_task[i].on_rq, of_task[i].on_rq || still_delayed(&of_task[i]), of_task[i].weight, runs ? curr->vruntime : of_task[i].vruntime,
				 runs ? curr->deadline : of_task[i].deadline, of_task[i].vlag };
}

u64 average(void) { return avg_vruntime(&rq_of(0)->queue); }
"#
);

const TASKS: usize = 12;
const SLICE: f64 = 3e6;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct State {
    on_rq: u32,
    /// Whether the task is runnable, or asleep and not yet dequeued.
    counts: u32,
    weight: u32,
    vruntime: u64,
    deadline: u64,
    vlag: i64,
}

/// The settings of the policies under test, Linux 7.3's and 6.12's.
const V7_3: &str =
    ".max_slice_lag = 1, .min_slice_protection = 1, .delayed_keeps_lag = 1, .pick_buddy = 1";
const V6_12: &str = ".fork_preempts = 1";

/// The only CPU of the simulated kernel. Only one test can use it at a time.
struct Cpu(MutexGuard<'static, Library>);

impl Cpu {
    /// Begins with all tasks asleep, at these nice levels.
    fn start(nice: &[i32; TASKS]) -> Cpu {
        Cpu::with_slices(nice, &[0; TASKS])
    }

    /// As [`Cpu::start`], with the slice that each task requests, in ns.
    fn with_slices(nice: &[i32; TASKS], slices: &[u64; TASKS]) -> Cpu {
        Cpu::of(V7_3, nice, slices)
    }

    /// As [`Cpu::with_slices`], for a scheduler with these settings.
    fn of(rows: &str, nice: &[i32; TASKS], slices: &[u64; TASKS]) -> Cpu {
        let compile = |rows: &str| {
            let code = CODE.replace("ROWS", rows);
            Mutex::new(common::compile_with_tables(&code, "eevdf", "smp-2"))
        };
        static LIBRARIES: [OnceLock<Mutex<Library>>; 2] = [const { OnceLock::new() }; 2];
        let library = LIBRARIES[usize::from(rows == V7_3)].get_or_init(|| compile(rows));
        let library = library.lock().unwrap_or_else(PoisonError::into_inner);
        let cpu = Cpu(library);
        cpu.begin(nice.as_ptr(), slices.as_ptr());
        cpu
    }

    c_fns! {
        fn pass(ns: u64);
        fn wake(task: u32);
        /// Does `task`, which has woken up, preempt?
        fn preempts(task: u32) -> bool;
        fn average() -> u64;
        fn sleeps();
        /// Does the running task have to stop?
        fn is_over() -> bool;
        fn begin(nice: *const i32, slices: *const u64);
        fn look(task: u32) -> State;
    }

    /// The next task, and whether it is the previous one in its protected slice.
    fn pick(&self) -> (Option<usize>, bool) {
        let pick: Symbol<unsafe extern "C" fn(*mut bool) -> i32> =
            unsafe { self.0.get(b"pick") }.unwrap();
        let mut kept = false;
        let task = unsafe { pick(&mut kept) };
        (usize::try_from(task).ok(), kept)
    }

    fn tasks(&self) -> [State; TASKS] {
        std::array::from_fn(|task| self.look(task as u32))
    }
}

/// V by its definition over the queued tasks, rounded down.
fn average(tasks: &[State]) -> Option<u64> {
    let queued = || tasks.iter().filter(|task| task.counts != 0);
    let weight: i128 = queued().map(|task| i128::from(task.weight)).sum();
    let sum: i128 = queued()
        .map(|task| i128::from(task.weight) * i128::from(task.vruntime))
        .sum();
    (weight > 0).then(|| sum.div_euclid(weight) as u64)
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Wake(u32),
    Sleep,
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..TASKS as u32).prop_map(Step::Wake),
        Just(Step::Sleep),
        (1_000u64..6_000_000).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// The running task is eligible and has the earliest deadline of all eligible tasks, unless it is in its protected
    /// slice. Sleepers that would have been picked instead have been dequeued, and the sums match the tasks.
    #[test]
    fn the_earliest_eligible_deadline_runs(
        nice in proptest::array::uniform12(-20..20i32),
        slices in proptest::array::uniform12(prop_oneof![Just(0), 100_000..100_000_000u64]),
        steps in steps(),
        rows in prop_oneof![Just(V7_3), Just(V6_12)],
    ) {
        let cpu = Cpu::of(rows, &nice, &slices);
        for step in steps {
            match step {
                Step::Wake(task) => cpu.wake(task),
                Step::Sleep => cpu.sleeps(),
                Step::Pass(ns) => cpu.pass(ns),
            }
            let (picked, kept) = cpu.pick();
            let tasks = cpu.tasks();
            let Some(expected) = average(&tasks) else {
                prop_assert_eq!(picked, None);
                continue;
            };
            prop_assert_eq!(cpu.average(), expected);
            let picked = tasks[picked.unwrap()];
            let overdue = |task: &State| {
                task.counts > task.on_rq && task.vruntime <= expected && task.deadline < picked.deadline
            };
            prop_assert!(kept || !tasks.iter().any(overdue), "{tasks:?}");
            let eligible = |task: &&State| task.on_rq != 0 && task.vruntime <= expected;
            prop_assert!(eligible(&&picked));
            let earliest = tasks.iter().filter(eligible).map(|task| task.deadline).min();
            prop_assert!(kept || Some(picked.deadline) == earliest, "{:?} of {:?}", picked, tasks);
        }
    }

    /// A positive lag survives a sleep, and does not grow. A negative lag is forgotten once the other tasks have caught
    /// up.
    #[test]
    fn lag_outlives_sleep(
        nice in proptest::array::uniform12(-5..5i32),
        rounds in 0..24,
        ran in 1_000u64..1_000_000,
        slept in 1_000u64..3_000_000,
    ) {
        let cpu = Cpu::start(&nice);
        (0..TASKS as u32).for_each(|task| cpu.wake(task));
        for _ in 0..rounds {
            cpu.pick();
            cpu.pass(3_100_000);
        }
        let sleeper = cpu.pick().0.unwrap();
        cpu.pass(ran);
        cpu.sleeps();
        let (before, vruntime) = (cpu.tasks()[sleeper].vlag, cpu.tasks()[sleeper].vruntime);
        cpu.pick();
        cpu.pass(slept);
        cpu.pick();
        let caught_up = cpu.average() >= vruntime;
        cpu.wake(sleeper as u32);
        let (tasks, average) = (cpu.tasks(), cpu.average());
        let lag = average.wrapping_sub(tasks[sleeper].vruntime) as i64;
        if before >= 0 {
            prop_assert!((lag - before).abs() <= 2, "{before} {lag}");
        } else if caught_up {
            prop_assert!(lag.abs() <= 1, "{lag}");
        } else {
            // The task owes no more than before.
            prop_assert!(tasks[sleeper].vruntime <= vruntime && lag <= 0, "{lag}");
            prop_assert!(lag >= before - 2, "{before} {lag}");
        }
    }
}

/// Within its slice a task continues even beyond its share. Afterwards, in Linux 6.12, it continues
/// only until it has had its share.
#[test]
fn a_task_that_goes_on_after_its_slice_stops_with_its_part() {
    let cpu = Cpu::of(V6_12, &[0; TASKS], &[0; TASKS]);
    cpu.wake(0);
    cpu.pick();
    cpu.wake(1);
    cpu.pass(1_000_000);
    assert!(!cpu.is_over());
    drop(cpu);
    let cpu = Cpu::of(V6_12, &[0; TASKS], &[0; TASKS]);
    cpu.wake(0);
    cpu.pick();
    cpu.pass(4_000_000);
    assert!(!cpu.is_over(), "no other task is there");
    cpu.wake(1);
    cpu.pass(1_000_000);
    assert!(cpu.is_over());
}

#[test]
fn a_task_is_not_protected_after_its_slice() {
    let cpu = Cpu::start(&[0; TASKS]);
    cpu.wake(0);
    cpu.pick();
    cpu.pass(4_000_000);
    assert!(!cpu.is_over(), "no other task is there");
    cpu.wake(1);
    cpu.pass(1_000);
    assert!(cpu.is_over());
}

/// If a task with a shorter slice waits, Linux 7.3 protects the running task only until it has had its share. Linux
/// 6.12 protects the running task until its deadline.
#[test]
fn a_shorter_slice_that_waits_shortens_the_protection() {
    let mut slices = [0; TASKS];
    slices[1] = 200_000;
    for (rows, over) in [(V7_3, true), (V6_12, false)] {
        let cpu = Cpu::of(rows, &[0; TASKS], &slices);
        cpu.wake(0);
        cpu.wake(1);
        // The task with the shorter slice has the earlier deadline, and runs first.
        assert_eq!(cpu.pick().0, Some(1));
        cpu.pass(210_000);
        assert_eq!(cpu.pick().0, Some(0));
        cpu.pass(250_000);
        assert_eq!(cpu.is_over(), over, "{rows}");
    }
}

#[test]
fn a_new_task_does_not_preempt() {
    for (rows, preempts) in [(V7_3, false), (V6_12, true)] {
        let cpu = Cpu::of(rows, &[0; TASKS], &[0; TASKS]);
        cpu.wake(0);
        cpu.pick();
        cpu.pass(4_000_000);
        assert!(!cpu.is_over());
        cpu.wake(1);
        cpu.pass(100_000);
        assert_eq!(cpu.preempts(1), preempts, "{rows}");
    }
}

#[test]
fn lag_is_limited_by_the_longest_slice() {
    let mut slices = [0; TASKS];
    slices[1] = 50_000_000;
    for (rows, limit) in [(V7_3, 51_000_000i64), (V6_12, 6_000_000)] {
        let cpu = Cpu::of(rows, &[0; TASKS], &slices);
        cpu.wake(0);
        cpu.wake(1);
        let first = cpu.pick().0;
        cpu.pass(120_000_000);
        assert_eq!(first, Some(0));
        cpu.sleeps();
        assert_eq!(cpu.tasks()[0].vlag, -limit, "{rows}");
    }
}

#[test]
fn tasks_share_by_weight() {
    let nice: [i32; TASKS] = std::array::from_fn(|task| task as i32 - 5);
    let cpu = Cpu::start(&nice);
    (0..TASKS as u32).for_each(|task| cpu.wake(task));
    let mut had = [0u64; TASKS];
    for _ in 0..100_000 {
        let (picked, _) = cpu.pick();
        cpu.pass(1_000_000);
        had[picked.unwrap()] += 1_000_000;
    }
    let tasks = cpu.tasks();
    let weight: f64 = tasks.iter().map(|task| f64::from(task.weight)).sum();
    for (task, had) in tasks.iter().zip(had) {
        let part = 100_000e6 * f64::from(task.weight) / weight;
        assert!((had as f64 - part).abs() <= 3.0 * SLICE, "{had} of {part}");
    }
}

#[test]
fn lag_is_bounded() {
    let cpu = Cpu::start(&[0; TASKS]);
    (0..TASKS as u32).for_each(|task| cpu.wake(task));
    let mut longest = 0;
    for step in 0..10_000u64 {
        cpu.pick();
        cpu.pass(1 + step * 7_919 % 4_000_000);
        if step % 5 == 0 {
            cpu.sleeps();
        }
        cpu.pick();
        cpu.wake((step % TASKS as u64) as u32);
        let average = cpu.average();
        let lags = cpu.tasks().map(|task| match task.on_rq {
            0 => 0,
            _ => (average.wrapping_sub(task.vruntime) as i64).abs(),
        });
        longest = lags.into_iter().fold(longest, i64::max);
    }
    assert!((longest as f64) < 3.0 * SLICE, "{longest}");
}

/// Tasks of nice 0, of which tasks 0 and 1 have these slices, in ns, and have run. Task 1 sleeps, and task 0 has begun
/// another slice.
fn beside_a_loop(slices: [u64; 2]) -> Cpu {
    let mut all = [0; TASKS];
    all[..2].copy_from_slice(&slices);
    let cpu = Cpu::with_slices(&[0; TASKS], &all);
    cpu.wake(1);
    cpu.pick();
    cpu.pass(1_000);
    cpu.sleeps();
    cpu.wake(0);
    cpu.pick();
    // The first slice of a task is half of a normal one.
    cpu.pass(if slices[0] > 0 {
        slices[0]
    } else {
        SLICE as u64
    });
    cpu.pick();
    cpu.pass(10_000);
    cpu
}

/// `PREEMPT_SHORT`.
#[test]
fn a_task_of_a_shorter_slice_does_not_wait_for_the_end_of_a_longer_one() {
    for (slices, preempts) in [
        ([0, 0], false),
        ([0, 100_000], true),
        ([0, 2_900_000], true),
        ([0, 3_100_000], false),
        ([100_000_000, 0], true),
        ([100_000, 0], false),
    ] {
        let cpu = beside_a_loop(slices);
        cpu.wake(1);
        assert_eq!(cpu.preempts(1), preempts, "{slices:?}");
    }
}

/// At nice 0, vruntime is time.
#[test]
fn a_deadline_is_a_slice_of_the_tasks_own_ahead() {
    for slice in [0, 100_000, 20_000_000, 100_000_000] {
        let cpu = beside_a_loop([slice, 0]);
        let task = cpu.tasks()[0];
        let ahead = task.deadline - task.vruntime;
        let expected = if slice > 0 { slice } else { SLICE as u64 };
        assert!(ahead.abs_diff(expected) < 20_000, "{slice}: {ahead}");
    }
}
