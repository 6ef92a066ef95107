//! The utilization of fair tasks, and the CPU to which it belongs: the scheduler's own C is compiled and called.

use crate::common;
use libloading::Library;
use proptest::prelude::*;

const US: u64 = 1000;
const MS: u64 = 1_000_000;

/// Stands for "no task".
const NONE: u32 = u32::MAX;

struct Scheduler(Library);

impl Scheduler {
    /// Three CPUs, the last of which has half the capacity, and eight tasks that are attached to none of them.
    fn new() -> Scheduler {
        let library = common::compile(
            r#"#include "linux/cfs/main.bpf.c"
            const volatile struct policy policy = { .frequency = true };
            const volatile struct machine machine = { .tick_ns = 1000000, .nr_cpus = 3 };
            static struct equipoise_kernel kernel;
            static struct rq rqs[3];
            static struct task_util tasks[8];
            static u32 cpuperf(void *k, s32 cpu, u32 what)
            {
                return what == EQUIPOISE_CPUPERF_CAP && cpu == 2 ? 512 : 1024;
            }
            void boot(void)
            {
                __builtin_memset(cpu_utils, 0, sizeof(cpu_utils));
                __builtin_memset(rqs, 0, sizeof(rqs));
                __builtin_memset(tasks, 0, sizeof(tasks));
                kernel.now = 1000000000;
                for (u32 cpu = 0; cpu < 3; cpu++)
                    rqs[cpu].clock = rqs[cpu].clock_task = kernel.now;
                kernel.nr_cpu_ids = 3;
                kernel.rqs = rqs;
                kernel.cpuperf = cpuperf;
                equipoise_kernel = &kernel;
                for (u32 cpu = 0; cpu < 3; cpu++)
                    init_cpu_util(cpu, kernel.now);
            }
            /* For @ns, each CPU runs one of its tasks, or none. */
            void run_on(u32 a, u32 b, u32 c, u64 ns)
            {
                const u32 on[] = { a, b, c };

                for (u32 cpu = 0; cpu < 3; cpu++) {
                    bool idle = cpu_util_of(cpu)->running == UTIL_NONE;

                    /* An idle CPU's clock stands still. */
                    if (idle && on[cpu] >= 8)
                        continue;
                    if (idle)
                        rqs[cpu].clock = rqs[cpu].clock_task = kernel.now;
                    update_cpu_util(cpu, kernel.now);
                    cpu_util_of(cpu)->running = on[cpu] < 8 ? UTIL_FAIR : UTIL_NONE;
                    if (on[cpu] < 8)
                        update_task_util(&tasks[on[cpu]], cpu, false);
                }
                kernel.now += ns;
                for (u32 cpu = 0; cpu < 3; cpu++) {
                    if (on[cpu] >= 8)
                        continue;
                    rqs[cpu].clock = rqs[cpu].clock_task = kernel.now;
                    update_cpu_util(cpu, kernel.now);
                    update_task_util(&tasks[on[cpu]], cpu, true);
                }
            }
            void attach(u32 task, u32 cpu)
            {
                prepare_attach(cpu);
                attach_task_util(&tasks[task], cpu);
            }
            void detach(u32 task) { detach_task_util(&tasks[task]); }
            void begin(u32 task, u32 cpu, u64 load)
            {
                init_task_util(&tasks[task], cpu, 1024, load);
                attach_task_util(&tasks[task], cpu);
            }
            void wakes(u32 task) { util_est_enqueue(&tasks[task], tasks[task].cpu); }
            void sleeps(u32 task)
            {
                util_est_dequeue(&tasks[task], tasks[task].cpu);
                util_est_update(&tasks[task]);
            }
            /*
             * The task's current value. The stored value of a task that does not run is as old as its last
             * event.
             */
            u64 task(u32 task)
            {
                struct pelt now = tasks[task].avg;

                update_pelt(&now, kernel.now, false, false);
                return pelt_util(&now);
            }
            u64 fair_of(u32 cpu)
            {
                update_cpu_util(cpu, kernel.now);
                return cpu_util_fair(cpu);
            }
            u64 cfs(u32 cpu)
            {
                update_cpu_util(cpu, kernel.now);
                return cpu_util_cfs(cpu);
            }"#,
        );
        let scheduler = Scheduler(library);
        scheduler.boot();
        scheduler
    }

    c_fns! {
        fn boot();
        fn attach(task: u32, cpu: u32);
        fn detach(task: u32);
        fn begin(task: u32, cpu: u32, load: u64);
        fn wakes(task: u32);
        fn sleeps(task: u32);
        fn task(task: u32) -> u64;
        fn cfs(cpu: u32) -> u64;
        fn run_on(a: u32, b: u32, c: u32, ns: u64);
        fn fair_of(cpu: u32) -> u64;
    }

    fn run(&self, on: [u32; 3], ns: u64) {
        self.run_on(on[0], on[1], on[2], ns);
    }

    /// `cpu_util_fair()` of each CPU.
    fn fair(&self) -> [u64; 3] {
        [0, 1, 2].map(|cpu| self.fair_of(cpu))
    }
}

#[test]
fn a_task_takes_its_utilization_along() {
    let scheduler = Scheduler::new();
    scheduler.attach(0, 0);
    scheduler.run([0, NONE, NONE], 320 * MS);
    let [used, other, _] = scheduler.fair();
    assert!(used > 1020 && other == 0, "{used} {other}");
    // The utilization moves at once, before any time passes, and stays there.
    scheduler.attach(0, 1);
    assert!(scheduler.fair()[0] <= 1 && scheduler.fair()[1].abs_diff(used) <= 1);
    scheduler.run([NONE, 0, NONE], MS);
    assert!(scheduler.fair()[0] <= 1 && scheduler.fair()[1] > 1015);
    // While the task sleeps, the CPU keeps its decaying utilization, until the task wakes up
    // elsewhere. This takes 32 periods of 1024 times 1024 ns.
    scheduler.run([NONE; 3], 32 << 20);
    assert!(
        scheduler.fair()[1].abs_diff(512) < 8,
        "{:?}",
        scheduler.fair()
    );
    scheduler.attach(0, 0);
    assert!(scheduler.fair()[0].abs_diff(512) < 8 && scheduler.fair()[1] <= 1);
    // The task changes its class or ends.
    scheduler.detach(0);
    assert!(scheduler.fair()[0] <= 1);
}

#[test]
fn a_small_cpu_s_time_counts_less() {
    let scheduler = Scheduler::new();
    scheduler.attach(0, 2);
    scheduler.run([NONE, NONE, 0], 320 * MS);
    assert!(scheduler.task(0).abs_diff(512) < 4 && scheduler.fair()[2].abs_diff(512) < 4);
}

#[test]
fn a_new_task_counts_half_of_what_is_left() {
    let scheduler = Scheduler::new();
    for (task, (cpu, load, expected)) in [
        // On CPU 0 there is first no task, then one, then two. On CPU 2, which has half the capacity, there is none.
        (0, 0, 512),
        (0, 1024, 512 + 256),
        (0, 3 * 1024, 768 + 128),
        (2, 0, 256),
    ]
    .into_iter()
    .enumerate()
    {
        scheduler.begin(task as u32, cpu, load);
        let used = scheduler.fair()[cpu as usize];
        assert!(used.abs_diff(expected) <= 3, "{task}: {used} {expected}");
    }
    // A new task's utilization is in proportion to its weight, if that is less than half of what is left.
    let scheduler = Scheduler::new();
    scheduler.attach(0, 0);
    scheduler.run([0, NONE, NONE], 10 * MS);
    let used = scheduler.fair()[0];
    scheduler.begin(1, 0, 4 * 1024);
    assert!(scheduler.fair()[0].abs_diff(used + used / 4) <= 2);
}

#[test]
fn a_long_sleep_does_not_make_a_task_light() {
    let scheduler = Scheduler::new();
    scheduler.attach(0, 0);
    scheduler.wakes(0);
    assert_eq!(scheduler.cfs(0), 0);
    scheduler.run([0, NONE, NONE], 32 * MS);
    let used = scheduler.task(0);
    scheduler.sleeps(0);
    scheduler.run([NONE; 3], 1000 * MS);
    assert_eq!((scheduler.cfs(0), scheduler.task(0)), (0, 0));
    // The estimate is the utilization of the last activation or, if larger, the average, in which each activation
    // counts for a quarter.
    scheduler.wakes(0);
    assert_eq!(scheduler.cfs(0), used);
    scheduler.run([0, NONE, NONE], 2 * MS);
    scheduler.sleeps(0);
    scheduler.wakes(0);
    let average = used / 4;
    assert!(scheduler.cfs(0) < used && scheduler.cfs(0).abs_diff(average) <= average / 4);
    // An activation of less than a period does not change the estimate.
    let before = scheduler.cfs(0);
    scheduler.run([0, NONE, NONE], 500 * US);
    scheduler.sleeps(0);
    scheduler.wakes(0);
    assert_eq!(scheduler.cfs(0), before);
    // A sleeping task does not count.
    scheduler.sleeps(0);
    scheduler.run([NONE; 3], 1000 * MS);
    assert_eq!(scheduler.cfs(0), 0);
}

#[test]
fn a_cpu_s_utilization_is_its_tasks_sum() {
    let scheduler = Scheduler::new();
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let steps = prop::collection::vec((0..8u32, 0..3u32, any::<[u32; 3]>(), 1..8000u64), 1..80);
    proptest!(config, |(steps in steps)| {
        scheduler.boot();
        let mut of = [0, 1, 2, 0, 1, 2, 0, 1];
        for task in 0..8 {
            scheduler.attach(task, of[task as usize]);
        }
        for (task, cpu, picks, us) in steps {
            of[task as usize] = cpu;
            scheduler.attach(task, cpu);
            let on = [0, 1, 2].map(|cpu| {
                let own: Vec<u32> = (0..8).filter(|&task| of[task as usize] == cpu).collect();
                let pick = picks[cpu as usize] as usize % (own.len() + 1);
                own.get(pick).copied().unwrap_or(NONE)
            });
            scheduler.run(on, us * US);
            let used = scheduler.fair();
            for cpu in 0..3 {
                let own = (0..8).filter(|&task| of[task as usize] == cpu);
                let sum: u64 = own.map(|task| scheduler.task(task)).sum::<u64>().min(1024);
                // Each move rounds by at most one of 1024, and each task is rounded once more here.
                prop_assert!(used[cpu as usize].abs_diff(sum) <= 16, "{cpu}: {used:?} {sum}");
            }
        }
    });
}
