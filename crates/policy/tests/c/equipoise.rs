//! Parts of `scheduler/equipoise`: requests between CPUs; crowds and preemption on four equal CPUs; the shares of
//! control groups.

use crate::common::compile;
use crate::equipoise_kernel::FOUR_CPUS;
use libloading::{Library, Symbol};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

fn request() -> Library {
    compile(
        r#"#include <scx/common.bpf.h>
        #include "equipoise/request.h"
        u64 make(u32 kind, u32 target, s32 pid, s32 peer) { return make_request(kind, target, pid, peer); }
        u32 kind(u64 request) { return request_kind(request); }
        u32 target(u64 request) { return request_target(request); }
        s32 pid(u64 request) { return request_pid(request); }
        s32 peer(u64 request) { return request_peer(request); }
        bool asks(u64 request) { return asks_for_task(request); }
        bool post(u64 *word, u64 request) { return post_request(word, request); }
        u64 take(u64 *word) { return take_request(word); }
        bool take_this(u64 *word, u64 request) { return take_this_request(word, request); }"#,
    )
}

#[test]
fn a_pull_does_not_ask_for_the_running_task() {
    let library = request();
    let make: Symbol<unsafe extern "C" fn(u32, u32, i32, i32) -> u64> =
        unsafe { library.get(b"make") }.unwrap();
    let asks: Symbol<unsafe extern "C" fn(u64) -> bool> = unsafe { library.get(b"asks") }.unwrap();
    // REQUEST_SEND to REQUEST_PULL.
    for (kind, expected) in [(1, true), (2, true), (3, false)] {
        assert_eq!(unsafe { asks(make(kind, 3, 5, 7)) }, expected, "{kind}");
    }
    assert!(!unsafe { asks(0) });
}

#[test]
fn a_request_is_what_was_asked() {
    let library = request();
    let make: Symbol<unsafe extern "C" fn(u32, u32, i32, i32) -> u64> =
        unsafe { library.get(b"make") }.unwrap();
    let word = |name: &[u8]| -> Symbol<unsafe extern "C" fn(u64) -> u32> {
        unsafe { library.get(name) }.unwrap()
    };
    let (kind, target, pid, peer) = (word(b"kind"), word(b"target"), word(b"pid"), word(b"peer"));
    // PID_MAX_LIMIT is 2^22.
    proptest!(|(k in 1u32..=4, t in 0u32..4096, p in 0i32..1 << 22, q in 0i32..1 << 22)| {
        unsafe {
            let request = make(k, t, p, q);
            prop_assert_eq!((kind(request), target(request)), (k, t));
            prop_assert_eq!((pid(request) as i32, peer(request) as i32), (p, q));
        }
    });
}

#[test]
fn no_request_is_lost_or_taken_twice() {
    const POSTERS: u64 = 3;
    const EACH: u64 = 20_000;
    let library = request();
    let post: Symbol<unsafe extern "C" fn(*mut u64, u64) -> bool> =
        unsafe { library.get(b"post") }.unwrap();
    let take: Symbol<unsafe extern "C" fn(*mut u64) -> u64> =
        unsafe { library.get(b"take") }.unwrap();
    let take_this: Symbol<unsafe extern "C" fn(*mut u64, u64) -> bool> =
        unsafe { library.get(b"take_this") }.unwrap();
    let (post, take, take_this) = (*post, *take, *take_this);
    let word = AtomicU64::new(0);
    let taken: Vec<AtomicU64> = (0..POSTERS).map(|_| AtomicU64::new(0)).collect();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let posters: Vec<_> = (0..POSTERS)
            .map(|poster| {
                let word = &word;
                scope.spawn(move || {
                    for sequence in 0..EACH {
                        while !unsafe { post(word.as_ptr(), sequence << 8 | (poster + 1)) } {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        for taker in 0..2 {
            let (word, taken, over) = (&word, &taken, &over);
            scope.spawn(move || {
                loop {
                    let last = over.load(Ordering::SeqCst);
                    let mut request = word.load(Ordering::SeqCst);
                    if taker == 0 {
                        request = unsafe { take(word.as_ptr()) };
                    } else if request == 0 || !unsafe { take_this(word.as_ptr(), request) } {
                        request = 0;
                    }
                    if request != 0 {
                        taken[(request & 0xff) as usize - 1].fetch_add(1, Ordering::Relaxed);
                    } else if last {
                        break;
                    } else {
                        // On a busy computer, the threads that post requests need this CPU.
                        thread::yield_now();
                    }
                }
            });
        }
        for poster in posters {
            poster.join().unwrap();
        }
        over.store(true, Ordering::SeqCst);
    });
    for taken in &taken {
        assert_eq!(taken.load(Ordering::Relaxed), EACH);
    }
}

/// The whole scheduler on four equal CPUs of one cluster, each of which runs a task. Only the first
/// task of each queue exists.
const CPUS: &str = r#"
    volatile struct tunables tunables = { .slice = 3 * MS, .lag = 6 * MS, .preempt_after = MS, .unfairness = 5 * MS,
        .sync_burst = MS / 20 };
    /* The tasks that run on the CPUs, and the waking task. */
    static struct task_struct task[6];
    static struct task_state state[6];

    void begin(void)
    {
        begin_kernel(50 * NSEC_PER_SEC);
        clusters[0] = (struct cluster){ .clock = { .now = CLOCK, .weight = 5 << 20 }, .worth = 4 << 20, .nr_cpus = 4, .capacity = 1024, .speed = 1024,
                                        .shared_speed = 1024 };
        nr_clusters = 1;
        waiting_clusters = 0;
        for (u32 i = 0; i < 6; i++) {
            begin_task(&task[i], i + 1, &allowed);
            state[i] = (struct task_state){ .weight = 1024, .full_weight = 1 << 20, .whole = ~0ULL,
                                            .fair = { .vtime = CLOCK, .weight = 1 << 20 } };
            task[i].equipoise_storage[0] = &state[i];
        }
        for (u32 i = 0; i < QUEUES; i++) {
            begin_task(&first[i], 100 + i, &allowed);
            queued[i] = 0;
        }
        for (u32 cpu = 0; cpu < 4; cpu++) {
            clusters[0].cpu[cpu] = cpu;
            cpu_states[cpu] = (struct cpu_state){ .slot = cpu, .siblings = 1 << cpu, .charged_at = kernel.now,
                                                .pid = cpu + 1 };
            cores[cpu] = (struct rq){ .cpu = cpu, .curr = &task[cpu] };
        }
    }

    void set(u32 i, s32 nice, u32 rule, s64 ahead)
    {
        task[i].static_prio = 120 + nice;
        task[i].prio = rule == SCHED_FIFO ? 50 : 120 + nice;
        task[i].policy = rule;
        task[i].scx.dsq_vtime = CLOCK + ahead;
        state[i].weight = task_weight(&task[i]);
        state[i].full_weight = state[i].fair.weight = (u64)state[i].weight << 10;
        state[i].fair.vtime = CLOCK + ahead;
    }
    void worth(u32 cluster, s64 weight) { clusters[cluster].worth = weight; }
    void runs_weight(u32 cpu, s64 weight) { clusters[0].running[cpu] = weight; }
    void forbid(u32 cpu) { allowed.bits[0] &= ~(1ULL << cpu); }
    /* @cpu stopped for task 4 @ago ns ago. */
    void stopped(u32 cpu, u64 ago)
    {
        note_stop(cpu, kernel.now - ago);
        cpu_states[cpu].asked = false;
    }
    void asked(u32 cpu) { cpu_states[cpu].asked = true; }
    /* Task 4 wakes up: does it preempt the task on @cpu? */
    bool preempts_on(u32 cpu) { return preempts(&task[4], &state[4], 0, cpu, running_on(cpu), kernel.now, false); }
    bool gets_at_once(u32 cpu) { return preempts(&task[4], &state[4], 0, cpu, running_on(cpu), kernel.now, true); }
    s32 found_from(u32 cpu) { return find_preemptible(&task[4], &state[4], cpu, kernel.now, false); }
    /* Tasks 0 and 4 have the same parent, and task 0, which has just woken a task, usually runs on for @after. */
    void related(u32 cpu, s64 after)
    {
        task[5].tgid = 1000;
        task[0].real_parent = task[4].real_parent = &task[5];
        cpu_states[0].after_wakeup = after;
        cpu_states[0].woke_at = kernel.now;
    }
    /* Task 1, which is not related, stopped on @cpu, and so did task 0, @ago ns ago. */
    void stranger_ran(u32 cpu, s64 ago)
    {
        note_family(&cpu_states[cpu], &task[1], kernel.now - ago);
        note_family(&cpu_states[cpu], &task[0], kernel.now);
    }
    void kernel_thread_ran(u32 cpu, s64 ago)
    {
        task[2].flags = PF_KTHREAD;
        note_family(&cpu_states[cpu], &task[2], kernel.now - ago);
    }
    void parent_ran(u32 cpu, s64 ago)
    {
        task[5].real_parent = &task[1];
        note_family(&cpu_states[cpu], &task[5], kernel.now - ago);
    }
    /* The task on CPU @waker wakes up task 4: is it in a crowd on @cpu? */
    bool is_woken_by(u32 waker, u32 cpu)
    {
        kernel.cpu = waker;
        kernel.current = &task[waker];
        return is_in_crowd(&task[4], cpu, kernel.now);
    }
    bool in_crowd(u32 cpu) { return is_woken_by(0, cpu); }
    bool in_crowd_of_stranger(u32 cpu) { return is_woken_by(1, cpu); }
"#;

const MS: i64 = 1_000_000;
const NORMAL: u32 = 0;
const FIFO: u32 = 1;
const BATCH: u32 = 3;

/// The initial state of [`CPUS`]: tasks 0 to 3 run on the CPUs of the same number, and task 4 wakes up. The virtual
/// time of all tasks is the clock's.
struct Cpus(Library);

impl Cpus {
    fn new() -> Cpus {
        let cpus = Cpus(compile(&format!("{FOUR_CPUS}{CPUS}")));
        cpus.begin();
        cpus
    }

    c_fns! {
        fn begin();
        /// Gives task `i` this nice level and policy, and puts it `ahead` of the clock, in ns.
        fn set(i: u32, nice: i32, policy: u32, ahead: i64);
    }

    fn tell(&self, what: &str, cpu: u32, number: i64) {
        let tell: Symbol<unsafe extern "C" fn(u32, i64)> =
            unsafe { self.0.get(what.as_bytes()) }.unwrap();
        unsafe { tell(cpu, number) };
    }

    fn says(&self, what: &str, cpu: u32) -> bool {
        let says: Symbol<unsafe extern "C" fn(u32) -> bool> =
            unsafe { self.0.get(what.as_bytes()) }.unwrap();
        unsafe { says(cpu) }
    }

    /// The CPU that the search `what` finds from `cpu` on, or -1.
    fn finds(&self, what: &str, cpu: u32) -> i32 {
        let found: Symbol<unsafe extern "C" fn(u32) -> i32> =
            unsafe { self.0.get(what.as_bytes()) }.unwrap();
        unsafe { found(cpu) }
    }
}

/// A crowd is one family that has had the CPU to itself for 32 ms, apart from kernel threads, and whose waker goes on
/// after a wakeup.
#[test]
fn a_crowd_has_the_cpu_to_itself() {
    let cpus = Cpus::new();
    cpus.tell("related", 0, 60_000);
    cpus.tell("stranger_ran", 3, 33 * MS);
    assert!(cpus.says("in_crowd", 3));
    assert!(!cpus.says("in_crowd_of_stranger", 3));
    cpus.tell("kernel_thread_ran", 3, MS);
    cpus.tell("parent_ran", 3, MS);
    assert!(cpus.says("in_crowd", 3));
    cpus.tell("related", 0, 40_000);
    assert!(!cpus.says("in_crowd", 3), "its waker goes to sleep");
    cpus.tell("related", 0, 60_000);
    cpus.tell("stranger_ran", 3, 31 * MS);
    assert!(!cpus.says("in_crowd", 3));
}

#[test]
fn a_wakeup_preempts_by_deadline_and_policy() {
    for (policy, running, ahead, expected) in [
        (NORMAL, NORMAL, MS / 2, true),
        (NORMAL, NORMAL, 0, false),
        (NORMAL, NORMAL, -5 * MS, false),
        (BATCH, NORMAL, 20 * MS, false),
        (NORMAL, FIFO, 20 * MS, false),
        (NORMAL, BATCH, 2 * MS, true),
    ] {
        let cpus = Cpus::new();
        cpus.set(4, 0, policy, 0);
        cpus.set(1, 0, running, ahead);
        assert_eq!(
            cpus.says("preempts_on", 1),
            expected,
            "policy {policy}, against {running}, {ahead} ns ahead"
        );
    }
}

#[test]
fn a_stop_has_a_price() {
    for (nice, ago, ahead, expected) in [
        (0, MS / 4, MS / 2, false),
        (0, MS / 4, MS, true),
        (0, MS, MS / 2, true),
        (-10, MS / 4, MS / 2, true),
        (5, MS / 4, MS, false),
    ] {
        let cpus = Cpus::new();
        cpus.set(4, nice, NORMAL, 0);
        cpus.set(1, 0, NORMAL, ahead);
        cpus.tell("stopped", 1, ago);
        assert_eq!(
            cpus.says("preempts_on", 1),
            expected,
            "nice {nice}, {ago} ns ago, {ahead} ns ahead"
        );
    }
}

#[test]
fn a_task_that_is_worth_a_cpu_gets_one() {
    for (worth, running, ahead, expected) in [
        (9_000, 1024, -5 * MS, true),
        (10_000, 1024, 5 * MS, false),
        (9_000, 9_548, 5 * MS, false),
    ] {
        let cpus = Cpus::new();
        cpus.set(4, -10, NORMAL, 0);
        cpus.set(1, 0, NORMAL, ahead);
        cpus.tell("worth", 0, worth << 10);
        cpus.tell("runs_weight", 1, running << 10);
        assert_eq!(cpus.says("gets_at_once", 1), expected, "{worth}, {running}");
    }
}

#[test]
fn the_task_most_ahead_is_preempted() {
    let cpus = Cpus::new();
    for (cpu, ahead) in [(0, 2 * MS), (1, 5 * MS), (2, 8 * MS), (3, 0)] {
        cpus.set(cpu, 0, NORMAL, ahead);
    }
    assert_eq!(cpus.finds("found_from", 3), 2);
    cpus.tell("asked", 2, 0);
    assert_eq!(cpus.finds("found_from", 3), 1);
    cpus.tell("forbid", 1, 0);
    assert_eq!(cpus.finds("found_from", 3), 0);
    cpus.tell("forbid", 0, 0);
    assert_eq!(cpus.finds("found_from", 3), -1);
}

/// Control groups 1 to 7, each of which is in a group with a smaller number, and the runnable weight in each.
const SHARES: &str = r#"#include <scx/common.bpf.h>
    /*
     * The simulator has one thread, and replaces this function by one that is not atomic. Here several threads call it.
     */
    #undef __sync_fetch_and_add
    /* Called once while this CPU changes the part of a group that counts, as if another CPU acted in between. */
    static void (*meanwhile)(void);
    static void do_meanwhile(void)
    {
        void (*once)(void) = meanwhile;

        meanwhile = NULL;
        if (once)
            once();
    }
    #undef __sync_lock_test_and_set
    #define __sync_lock_test_and_set(to, value) (do_meanwhile(), __atomic_exchange_n(to, value, __ATOMIC_SEQ_CST))
    #define SCHEDULER_SETTINGS "equipoise/settings.def"
    #include "equipoise/share.bpf.h"
    static struct equipoise_map map;
    static struct equipoise_kernel kernel;
    void group(u32 index, u32 parent, u32 cpu_weight)
    {
        u32 weight = weight_of_cgroup(cpu_weight);

        *(struct equipoise_map **)&cgroups = &map;
        equipoise_kernel = &kernel;
        shares[index] = (struct share){ .parent = parent, .weight = weight,
                                        .given = weight, .average = NICE_0_LOAD << SUM_SHIFT };
    }
    static struct share_of_cgroup of = { .own = true };
    static struct cgroup cgroup = { .storage = { &of } };
    static struct cgroup *cgroup_of(u32 index)
    {
        of.index = index;
        return &cgroup;
    }
    void weigh(u32 index, u32 cpu_weight) { set_share_weight(cgroup_of(index), cpu_weight); }
    void set_idle_group(u32 index, u32 idle) { set_share_idle(cgroup_of(index), idle); }
    void add(u32 index, s64 weight) { add_runnable(index, weight, 0); }
    void sleeps_with_debt(u32 index, u32 ms) { add_runnable(index, -1024, ms * NSEC_PER_MSEC); }
    void wakes_with_debt(u32 index, u32 ms) { add_runnable(index, 1024, ms * NSEC_PER_MSEC); }
    u64 counts_with(u32 index, u32 weight) { return countable(index, weight); }
    static u32 other_group, other_weight;
    static void weigh_other(void) { weigh(other_group, other_weight); }
    void weigh_meanwhile(u32 index, u32 cpu_weight)
    {
        other_group = index;
        other_weight = cpu_weight;
        meanwhile = weigh_other;
    }
    s64 runnable(u32 index) { return shares[index].runnable; }
    s64 counted(u32 index) { return shares[index].counted; }
    u64 shared(u32 index, u32 weight) { return shared_weight(index, weight); }
    void pass(u32 us, u32 unused) { kernel.now += us * 1000ULL; }
    "#;

const GROUPS: usize = 8;

struct Shares(Library);

impl Shares {
    fn new(parents: &[usize; GROUPS], weights: &[u32; GROUPS]) -> Shares {
        let shares = Shares(compile(SHARES));
        let group: Symbol<unsafe extern "C" fn(u32, u32, u32)> =
            unsafe { shares.0.get(b"group") }.unwrap();
        for index in 1..GROUPS {
            unsafe { group(index as u32, parents[index] as u32, weights[index]) };
        }
        shares
    }

    fn add(&self, group: usize, weight: i64) {
        let add: Symbol<unsafe extern "C" fn(u32, i64)> = unsafe { self.0.get(b"add") }.unwrap();
        unsafe { add(group as u32, weight) };
    }

    fn of(&self, what: &[u8], group: usize) -> i64 {
        let of: Symbol<unsafe extern "C" fn(u32) -> i64> = unsafe { self.0.get(what) }.unwrap();
        unsafe { of(group as u32) }
    }

    fn shared(&self, group: usize, weight: u32) -> f64 {
        let shared: Symbol<unsafe extern "C" fn(u32, u32) -> u64> =
            unsafe { self.0.get(b"shared") }.unwrap();
        unsafe { shared(group as u32, weight) as f64 / 1024.0 }
    }

    fn counts_with(&self, group: usize, weight: u32) -> u64 {
        let counts: Symbol<unsafe extern "C" fn(u32, u32) -> u64> =
            unsafe { self.0.get(b"counts_with") }.unwrap();
        unsafe { counts(group as u32, weight) }
    }

    /// Lets so much time pass that the averages equal the sums.
    fn settle(&self) {
        self.pass(100_000);
    }

    fn pass(&self, us: u32) {
        self.set(b"pass", us as usize, 0);
    }

    fn weigh(&self, group: usize, cpu_weight: u32) {
        self.set(b"weigh", group, cpu_weight);
    }

    fn set(&self, what: &[u8], group: usize, value: u32) {
        let set: Symbol<unsafe extern "C" fn(u32, u32)> = unsafe { self.0.get(what) }.unwrap();
        unsafe { set(group as u32, value) };
    }
}

/// The runnable weight of each group by definition: its tasks, and its groups with a runnable task.
fn runnable(
    parents: &[usize; GROUPS],
    weights: &[u32; GROUPS],
    tasks: &[(usize, u32)],
) -> [i64; GROUPS] {
    let mut sums = [0; GROUPS];
    for index in (1..GROUPS).rev() {
        let own = tasks.iter().filter(|(group, _)| *group == index);
        sums[index] += own.map(|(_, weight)| i64::from(*weight)).sum::<i64>();
        if sums[index] > 0 && parents[index] > 0 {
            sums[parents[index]] += i64::from(weights[index] * 1024 / 100);
        }
    }
    sums
}

/// The parent of each group has a smaller number; 0 is the root.
fn parents() -> impl Strategy<Value = [usize; GROUPS]> {
    proptest::array::uniform8(0..usize::MAX).prop_map(|random| {
        std::array::from_fn(|index| if index == 0 { 0 } else { random[index] % index })
    })
}

#[test]
fn shares_are_those_of_the_tree() {
    let wakes = proptest::collection::vec((1..GROUPS, 15u32..20_000, any::<bool>()), 1..40);
    let weighs = proptest::collection::vec((1..GROUPS, 1u32..=10_000), 0..3);
    let weights = proptest::array::uniform8(1u32..=10_000);
    proptest!(ProptestConfig::with_cases(64), |(parents in parents(), weights in weights, wakes in wakes, weighs in weighs)| {
        let shares = Shares::new(&parents, &weights);
        let mut weights = weights;
        for &(group, weight, _) in &wakes {
            shares.add(group, i64::from(weight));
        }
        for &(group, weight, sleeps) in &wakes {
            if sleeps {
                shares.add(group, -i64::from(weight));
            }
        }
        for (group, weight) in weighs {
            shares.weigh(group, weight);
            weights[group] = weight;
        }
        let tasks: Vec<_> = wakes.iter().filter(|wake| !wake.2).map(|wake| (wake.0, wake.1)).collect();
        let sums = runnable(&parents, &weights, &tasks);
        for (index, sum) in sums.iter().enumerate().skip(1) {
            prop_assert_eq!(shares.of(b"runnable", index), *sum, "group {}", index);
        }
        shares.settle();
        for &(group, weight) in &tasks {
            let (mut expected, mut index) = (f64::from(weight), group);
            while index > 0 {
                expected *= f64::from(weights[index] * 1024 / 100) / sums[index] as f64;
                index = parents[index];
            }
            let shared = shares.shared(group, weight);
            prop_assert!((shared - expected).abs() < 0.02 * expected + 0.1, "{} of {}", shared, expected);
        }
    });
}

/// Two loops keep their halves of a group while a heavy thread there runs for 50 us, but not while it runs for longer.
#[test]
fn a_short_run_hardly_changes_the_division_of_a_group() {
    let shares = Shares::new(&[0; GROUPS], &[100; GROUPS]);
    shares.add(1, 2 * 1024);
    shares.settle();
    assert_eq!(shares.shared(1, 1024), 512.0);
    shares.add(1, 11_916);
    shares.pass(50);
    assert!((505.0..512.0).contains(&shares.shared(1, 1024)));
    shares.settle();
    assert_eq!(shares.shared(1, 1024).round(), 75.0);
    shares.add(1, -11_916);
    shares.settle();
    assert_eq!(shares.shared(1, 1024), 512.0);
}

/// A debtor that sleeps competes until it has paid, and counts for that time in its group.
#[test]
fn a_sleeping_debtor_counts_in_its_group() {
    let shares = Shares::new(&[0; GROUPS], &[100; GROUPS]);
    shares.add(1, 2 * 1024);
    shares.settle();
    for wakes_after in [10, 5] {
        shares.set(b"sleeps_with_debt", 1, 10);
        shares.pass(wakes_after * 1000);
        shares.set(b"wakes_with_debt", 1, 10 - wakes_after);
        let part = shares.shared(1, 1024);
        assert!(
            (480.0..540.0).contains(&part),
            "{part} after {wakes_after} ms"
        );
        shares.settle();
    }
    shares.add(1, -1024);
    shares.pass(10_000);
    assert!(shares.shared(1, 1024) > 590.0);
}

/// A heavy task that has just begun to run counts with twice the average of its group.
#[test]
fn a_heavy_task_counts_in_full_if_it_runs_for_long() {
    let shares = Shares::new(&[0; GROUPS], &[100; GROUPS]);
    shares.add(1, 2 * 1024);
    shares.settle();
    assert_eq!(shares.counts_with(1, 11_916), 4096);
    shares.add(1, 4096);
    shares.settle();
    assert_eq!(shares.counts_with(1, 11_916), 11_916);
    assert_eq!(shares.counts_with(1, 1024), 1024);
}

/// A SCHED_IDLE task has a weight of 3.
#[test]
fn an_idle_group_weighs_little_while_it_is_idle() {
    let shares = Shares::new(&[0, 0, 1, 1, 0, 0, 0, 0], &[100; GROUPS]);
    for group in [2, 3] {
        shares.add(group, 1024);
    }
    for (idle, others_and_it) in [(1, 1024 + 3), (0, 2048), (1, 1024 + 3)] {
        shares.set(b"set_idle_group", 2, idle);
        assert_eq!(shares.of(b"runnable", 1), others_and_it);
    }
}

#[test]
fn a_weight_that_changes_at_a_wakeup_counts() {
    let shares = Shares::new(&[0, 0, 1, 1, 0, 0, 0, 0], &[100; GROUPS]);
    shares.set(b"weigh_meanwhile", 2, 10_000);
    shares.add(2, 1024);
    shares.add(3, 1024);
    assert_eq!(shares.of(b"counted", 2), 102_400);
    assert_eq!(shares.of(b"runnable", 1), 102_400 + 1024);
}

#[test]
fn no_share_is_lost_between_cpus() {
    let parents = [0, 0, 1, 1, 2, 2, 4, 4];
    let shares = Shares::new(&parents, &[100; GROUPS]);
    let add: Symbol<unsafe extern "C" fn(u32, i64)> = unsafe { shares.0.get(b"add") }.unwrap();
    let add = *add;
    thread::scope(|scope| {
        for cpu in 0..3u32 {
            scope.spawn(move || {
                for turn in 0..30_000 {
                    let group = 1 + (turn + cpu) % 7;
                    unsafe { add(group, 1024) };
                    unsafe { add(group, -1024) };
                }
            });
        }
    });
    for group in 1..GROUPS {
        assert_eq!(shares.of(b"runnable", group), 0, "group {group}");
        assert_eq!(shares.of(b"counted", group), 0, "group {group}");
    }
}
