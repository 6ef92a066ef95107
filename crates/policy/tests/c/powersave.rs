//! Packing: the scheduler's own C is compiled, and called on the tables of a machine with four cores of two hardware
//! threads. It is compared with the rules of "[patch v7 0/21] sched: power aware scheduling". CPUs n and n + 4 are the
//! threads of core n.

use crate::common;
use libloading::Library;

/// `enum balance_idle`
const NOT_IDLE: u32 = 0;
const IDLE: u32 = 1;

const SMT: u32 = 0;
const MC: u32 = 1;

/// The result of `balance`: the first CPU of the group to pull from, or -1; and whether the balance is for power.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answer {
    group: i32,
    power: i32,
}

struct Scheduler(Library);

impl Scheduler {
    /// The scheduler's code, with this number of busy loops on each CPU.
    fn new(tasks: [u32; 8]) -> Scheduler {
        Scheduler::on("smt-4", tasks)
    }

    /// The scheduler's code on `machine`, with this number of busy loops on each of its first CPUs.
    fn on(machine: &str, tasks: [u32; 8]) -> Scheduler {
        let library = common::compile_with_tables(
            r#"#include <scx/common.bpf.h>
            #include "linux/cfs/main.bpf.c"
            const volatile struct policy policy = {
                .load_tracking = LOAD_WEIGHT, .sched_balance_policy = BALANCE_POWERSAVING,
            };
            volatile struct tunables tunables = { .sched_burst_threshold = 100000 };
            const volatile struct machine machine = { .tick_ns = 1000000, .nr_cpus = 8 };
            static struct equipoise_kernel kernel;
            void set(u32 cpu, u32 nr, u32 util, u64 avg_idle)
            {
                struct fair_rq *rq;

                equipoise_kernel = &kernel;
                rq = rq_of(cpu);
                rq->nr_running = nr;
                rq->idle = !nr;
                rq->avg_idle = avg_idle;
                rq->load_weight = nr * 1024;
                rq->avg.period_sum = LOAD_AVG_MAX;
                rq->avg.runnable_sum = LOAD_AVG_MAX * util / 1024;
            }
            /* The CPU has had a task for @ns, and none before that. */
            void keep_busy(u32 cpu, u64 ns)
            {
                struct pelt *avg = &rq_of(cpu)->avg;
                u64 until = avg->last_update_time + ns;

                while (avg->last_update_time + 4000000 < until)
                    update_pelt(avg, avg->last_update_time + 4000000, true, true);
                update_pelt(avg, until, true, true);
            }
            void reset_avg(u32 cpu) { rq_of(cpu)->avg = (struct pelt){ 0 }; }
            /* Real-time tasks have had the CPU for half of the counted time. */
            void set_rt(u32 cpu) { rt_avg_of(cpu)->sum = SCHED_AVG_PERIOD / 2; }
            u64 util(u32 cpu) { return max_rq_util(cpu, false); }
            s32 leader(u32 cpu, u32 level, u64 putil, bool wakeup)
            {
                s32 group = find_group_leader(cpu, level, putil, wakeup);
                return group < 0 ? -1 : (s32)nth_cpu(group_at(group), 0);
            }
            /*
             * The CPU for a task with utilization @util of 1024 that is forked on @cpu; if @new, without a
             * history.
             */
            s32 fork_to(u32 cpu, u32 level, u32 util, bool new)
            {
                static cpumask_t all = { .bits = { 0xff } };
                struct fair_entity se = { .weight = 1024, .load_avg_contrib = new ? 1024 : util };
                struct task_struct p = { .pid = 2, .cpus_ptr = &all, .equipoise_storage = { &se } };
                static struct equipoise_map map;

                *(struct equipoise_map **)&entities = &map;
                se.avg.period_sum = LOAD_AVG_MAX;
                se.avg.runnable_sum = LOAD_AVG_MAX * util / 1024;
                return select_power_cpu(&p, cpu, level, false);
            }
            /*
             * The CPU on which a task with a utilization of @util of 1024 wakes up, among those
             * that share @cpu's cache; -1 if there is none.
             */
            s32 wake_to(u32 cpu, u32 util)
            {
                static cpumask_t all = { .bits = { 0xff } };
                struct fair_entity se = { .weight = 1024, .load_avg_contrib = util };
                struct task_struct p = { .pid = 2, .cpus_ptr = &all, .equipoise_storage = { &se } };
                static struct equipoise_map map;

                *(struct equipoise_map **)&entities = &map;
                se.avg.period_sum = LOAD_AVG_MAX;
                se.avg.runnable_sum = LOAD_AVG_MAX * util / 1024;
                return select_power_cpu(&p, cpu, 1, true);
            }
            /* Is a group of the other package the busiest, for this pass? */
            bool other_is_busiest(u32 cpu, u32 level, u32 idle)
            {
                struct balance_env *env = this_balance_env();

                *env = (struct balance_env){ .cpu = cpu, .dst_cpu = cpu, .level = level, .idle = idle, .balance = true };
                for (u32 other = 0; other < 8; other++)
                    for (u32 i = 0; i < CPU_LOAD_IDX_MAX; i++)
                        rq_of(other)->cpu_load[i] = rq_of(other)->load_weight;
                update_sd_lb_stats(env);
                return env->sds.busiest >= 0;
            }
            /* Sets the time to this many jiffies after the domain's last balance. */
            void later(u64 jiffies) { kernel.now = jiffies * machine.tick_ns; }
            u64 max_interval(u32 cpu, u32 level) { return domain_of(cpu, level)->max_interval; }
            void record(u32 cpu, u32 level, u64 bits) { domain_state_of(cpu, level)->design.powersave.perf_lb_record = bits; }
            struct answer { s32 group, power; };
            struct answer balance(u32 cpu, u32 level, u32 idle)
            {
                struct balance_env *env = this_balance_env();
                s32 group;

                *env = (struct balance_env){ .cpu = cpu, .dst_cpu = cpu, .level = level, .idle = idle, .balance = true };
                group = find_busiest_group(env);
                return (struct answer){
                    .group = group < 0 ? -1 : (s32)nth_cpu(group_at(group), 0),
                    .power = !!(env->flags & LBF_POWER_BAL),
                };
            }"#,
            "powersaving",
            machine,
        );
        let scheduler = Scheduler(library);
        for (cpu, nr) in (0..).zip(tasks) {
            scheduler.set(cpu, nr, if nr == 0 { 0 } else { 1024 }, 1_000_000);
        }
        scheduler
    }

    c_fns! {
        /// `cpu` has `nr` tasks, uses `util` of its time (of 1024), and usually idles for `avg_idle` ns.
        fn set(cpu: u32, nr: u32, util: u32, avg_idle: u64);
        /// The first CPU of the group that a task of utilization `putil` goes to, or -1.
        fn leader(cpu: u32, level: u32, putil: u64, wakeup: bool) -> i32;
        fn record(cpu: u32, level: u32, bits: u64);
        fn balance(cpu: u32, level: u32, idle: u32) -> Answer;
        fn keep_busy(cpu: u32, ns: u64);
        fn reset_avg(cpu: u32);
        fn util(cpu: u32) -> u64;
        fn set_rt(cpu: u32);
        fn fork_to(cpu: u32, level: u32, util: u32, new: bool) -> i32;
        fn wake_to(cpu: u32, util: u32) -> i32;
        fn other_is_busiest(cpu: u32, level: u32, idle: u32) -> bool;
        fn later(jiffies: u64);
        fn max_interval(cpu: u32, level: u32) -> u64;
    }
}

#[test]
fn a_task_goes_into_the_core_with_the_least_room() {
    // One thread of core 1 is busy, and one thread of core 2 is half busy.
    let scheduler = Scheduler::new([0, 1, 0, 0, 0, 0, 0, 0]);
    scheduler.set(2, 1, 512, 1_000_000);
    assert_eq!(scheduler.leader(0, MC, 1024, false), 1);
    // A core with both threads busy has no room, whatever its cpu_power is.
    scheduler.set(5, 1, 1024, 1_000_000);
    scheduler.set(1, 1, 1024 + 1, 1_000_000);
    assert_eq!(scheduler.leader(0, MC, 1024, false), 2);
    // A new task goes alongside its parent, as long as the core has a thread for it.
    assert_eq!(scheduler.leader(2, SMT, 1024, false), 2);
    assert_eq!(scheduler.leader(1, SMT, 1024, false), -1);
}

#[test]
fn a_full_domain_has_no_room() {
    // Four cores of two threads have room for eight tasks: first there are eight, then seven.
    let scheduler = Scheduler::new([1; 8]);
    assert_eq!(scheduler.leader(0, MC, 0, false), -1);
    scheduler.set(6, 0, 0, 1_000_000);
    assert_eq!(scheduler.leader(0, MC, 1023, false), 2);
    assert_eq!(scheduler.leader(0, MC, 1025, false), -1);
}

#[test]
fn tasks_of_a_cpu_that_is_woken_in_bursts_count_in_full() {
    let scheduler = Scheduler::new([0; 8]);
    scheduler.set(3, 1, 10, 50_000);
    scheduler.set(1, 1, 300, 1_000_000);
    assert_eq!(scheduler.leader(0, MC, 100, true), 3);
    // The rule does not apply to a new task, because there is no burst of wakeups.
    assert_eq!(scheduler.leader(0, MC, 100, false), 1);
}

#[test]
fn an_idle_thread_of_the_first_core_empties_the_last() {
    let scheduler = Scheduler::new([1, 1, 0, 1, 0, 0, 0, 0]);
    let empty_last = Answer { group: 3, power: 1 };
    assert_eq!(scheduler.balance(4, MC, IDLE), empty_last);
    // The other core is not the core that is to be filled, and a busy CPU does not pack.
    assert_eq!(
        scheduler.balance(5, MC, IDLE),
        Answer {
            group: -1,
            power: 0
        }
    );
    assert_eq!(scheduler.balance(0, MC, NOT_IDLE).power, 0);
    // An idle core is not woken up to be packed.
    assert_eq!(
        scheduler.balance(2, MC, IDLE),
        Answer {
            group: -1,
            power: 0
        }
    );
    // The tasks of a core's two threads are not packed onto one of the threads.
    assert_eq!(scheduler.balance(4, SMT, IDLE).power, 0);
}

#[test]
fn an_overloaded_group_is_balanced_for_performance() {
    let scheduler = Scheduler::new([3, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        scheduler.balance(5, MC, IDLE),
        Answer { group: 0, power: 0 }
    );
    assert_eq!(
        scheduler.balance(2, MC, IDLE),
        Answer { group: 0, power: 0 }
    );
}

#[test]
fn packing_waits_until_performance_balance_has_been_rare() {
    let scheduler = Scheduler::new([1, 1, 0, 0, 0, 0, 0, 0]);
    let power = |bits| {
        scheduler.record(4, MC, bits);
        scheduler.balance(4, MC, IDLE).power
    };
    // The record moves up by one bit with each balance.
    assert_eq!(power(1 << 31), 1);
    assert_eq!(power(1 << 30), 0);
    assert_eq!(power(0b1111 << 40), 1);
    assert_eq!(power(0b11111 << 40), 0);
}

#[test]
fn a_cpu_that_is_always_busy_is_full() {
    for ms in [1, 5, 33, 100, 1000, 10_000] {
        let scheduler = Scheduler::new([1, 0, 0, 0, 0, 0, 0, 0]);
        scheduler.set(0, 1, 0, 1_000_000);
        scheduler.reset_avg(0);
        scheduler.keep_busy(0, ms * 1_000_000 + 12_345);
        assert_eq!(scheduler.util(0), 1024, "{ms} ms");
        assert_eq!(scheduler.fork_to(0, SMT, 0, true), -1, "{ms} ms");
        assert_eq!(scheduler.fork_to(0, MC, 0, true), 4, "{ms} ms");
    }
}

/// A task wakes up where four times its utilization is free: beside its waker, otherwise on the CPU
/// with the least room that suffices.
#[test]
fn light_tasks_wake_up_on_the_core_of_the_running_task() {
    let scheduler = Scheduler::new([1, 0, 0, 0, 0, 0, 0, 0]);
    let wake_to = |util| scheduler.wake_to(0, util);
    for (room, util, cpu) in [
        // Slightly more or slightly less than four times its utilization is free alongside the waker.
        (410, 100, 0),
        (390, 100, 4),
        // An idle CPU has room for four times any utilization below a quarter.
        (100, 250, 4),
    ] {
        scheduler.set(0, 1, 1024 - room, 1_000_000);
        assert_eq!(wake_to(util), cpu, "{room} {util}");
    }
    // If the waker's CPU has no room, a light task wakes up on the other CPU of the waker's core.
    scheduler.set(0, 1, 1024, 1_000_000);
    assert_eq!(wake_to(20), 4);
    // A heavy task goes to the least loaded CPU of that core.
    assert_eq!(wake_to(600), 4);
}

/// By the usual rules, a package with two tasks has one too many compared with its siblings. In a pass that packs, it
/// does not.
#[test]
fn packing_does_not_prefer_siblings() {
    const NUMA: u32 = 2;
    let scheduler = Scheduler::on("snb-ep-2s", [1, 1, 0, 0, 0, 0, 0, 0]);
    // CPU 8 is the first of the other package.
    assert!(scheduler.other_is_busiest(8, NUMA, NOT_IDLE));
    assert!(!scheduler.other_is_busiest(8, NUMA, IDLE));
}

/// A group is full at exactly 1024 for each of its CPUs, and overloaded beyond that.
#[test]
fn full_is_1024_for_each_cpu() {
    let scheduler = Scheduler::new([1, 1, 0, 0, 1, 0, 0, 0]);
    // The utilization of the core's two threads is 2047, then 2048.
    scheduler.set(4, 1, 1023, 1_000_000);
    assert_eq!(scheduler.leader(0, MC, 0, false), 0);
    scheduler.set(4, 1, 1024, 1_000_000);
    assert_eq!(scheduler.leader(0, MC, 0, false), 1);
    // A full group is not overloaded. The rest of the machine is packed into the group that has room for a whole task.
    let pack = Answer { group: 1, power: 1 };
    scheduler.set(2, 1, 1024, 1_000_000);
    scheduler.set(1, 1, 512, 1_000_000);
    assert_eq!(scheduler.balance(6, MC, IDLE), pack);
    scheduler.set(6, 1, 10, 1_000_000);
    assert_eq!(scheduler.balance(6, MC, IDLE).power, 0);
    scheduler.set(6, 0, 0, 1_000_000);
    scheduler.set(4, 2, 520, 1_000_000);
    assert_eq!(scheduler.balance(6, MC, IDLE).power, 0);
}

/// The history of balances is forgotten after eight of the longest intervals (in ms, which are jiffies here) without a
/// balance.
#[test]
fn a_long_time_without_balance_is_forgotten() {
    let scheduler = Scheduler::new([1, 1, 0, 0, 0, 0, 0, 0]);
    let quiet = 8 * scheduler.max_interval(4, MC);
    for (jiffies, packs) in [(1, 0), (quiet, 0), (quiet + 1, 1)] {
        scheduler.later(jiffies);
        scheduler.record(4, MC, u64::from(u32::MAX));
        assert_eq!(scheduler.balance(4, MC, IDLE).power, packs, "{jiffies}");
    }
    // The history has been forgotten, so the next balance for power need not wait.
    scheduler.later(1);
    assert_eq!(scheduler.balance(4, MC, IDLE).power, 1);
}

/// All threads but one are busy, and that one is busy for a quarter of its time. So a task of half a CPU fits there. A
/// new task does not fit, because its utilization is unknown, although it has used no time so far.
#[test]
fn a_new_task_counts_in_full() {
    let scheduler = Scheduler::new([1; 8]);
    scheduler.set(6, 1, 256, 1_000_000);
    let fork_to = |util, new| scheduler.fork_to(0, MC, util, new);
    assert_eq!((fork_to(0, false), fork_to(512, false)), (2, 2));
    assert_eq!((fork_to(0, true), fork_to(512, true)), (-1, -1));
    // If a thread is free, there is room for the task.
    scheduler.set(6, 0, 0, 1_000_000);
    scheduler.set(2, 0, 0, 1_000_000);
    assert_eq!(fork_to(0, true), 2);
}

/// One CPU has two tasks, on another a task runs for three tenths of the time, and a third CPU is idle. Then real-time
/// tasks take half of the time of all three.
#[test]
fn time_used_by_other_classes_is_not_available_to_fair_tasks() {
    let scheduler = Scheduler::new([2, 1, 0, 0, 0, 0, 0, 0]);
    // The average rounds down.
    scheduler.set(1, 1, 300, 1_000_000);
    let utils = || [0, 1, 2].map(|cpu| scheduler.util(cpu));
    assert_eq!(utils(), [2048, 299, 0]);
    for cpu in 0..3 {
        scheduler.set_rt(cpu);
    }
    assert_eq!(utils(), [512 + 2 * 512, 512 + 299, 512]);
}
