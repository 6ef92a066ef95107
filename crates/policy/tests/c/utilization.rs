//! The use of a CPU's time by class: the scheduler's own C is compiled and called.

use crate::common;
use libloading::Library;

const MS: u64 = 1_000_000;

/// Priorities, as in the kernel's `p->prio`: that of the stop class and of `SCHED_FIFO` 99, and that of a normal task.
const HIGHEST: i32 = 0;
const NORMAL: i32 = 120;

/// Classes, as in `enum util_class`.
const FAIR: u32 = 0;
const RT: u32 = 1;

struct Scheduler(Library);

impl Scheduler {
    fn new() -> Scheduler {
        let library = common::compile(
            r#"#include <scx/common.bpf.h>
            #include "linux/cfs/main.bpf.c"
            const volatile struct policy policy = { .frequency = true, .frequency_rt = true };
            const volatile struct machine machine = { .tick_ns = 1000000, .nr_cpus = 1 };
            static struct equipoise_kernel kernel;
            static struct rq rqs[1];
            static struct task_struct stopper = { .pid = 1, .prio = 0 };
            static u32 cpuperf(void *k, s32 cpu, u32 what) { return 1024; }
            void boot(void)
            {
                kernel.now = 1000000000;
                kernel.nr_cpu_ids = 1;
                kernel.rqs = rqs;
                kernel.cpuperf = cpuperf;
                equipoise_kernel = &kernel;
                rqs[0].stop = &stopper;
                init_cpu_util(0, kernel.now);
            }
            /*
             * @ns later the CPU switches to a task of @prio, or to its stopper; the program is called
             * @late ns after that.
             */
            void switch_to(u64 ns, s32 prio, bool stop, u64 late)
            {
                struct task_struct next = { .pid = 2, .prio = prio };

                rqs[0].clock += ns;
                rqs[0].clock_task += ns;
                kernel.now += ns + late;
                switch_cpu_util(0, stop ? &stopper : &next);
                kernel.now -= late;
            }
            u64 util(u32 class) { return cpu_util(0, class); }"#,
        );
        let scheduler = Scheduler(library);
        scheduler.boot();
        scheduler
    }

    c_fns! {
        fn boot();
        fn switch_to(ns: u64, prio: i32, stop: bool, late: u64);
        fn util(class: u32) -> u64;
    }
}

#[test]
fn the_stop_class_s_time_is_nobody_s() {
    let (stopped, preempted) = (Scheduler::new(), Scheduler::new());
    for _ in 0..200 {
        stopped.switch_to(5 * MS, HIGHEST, true, 0);
        stopped.switch_to(5 * MS, NORMAL, false, 0);
        preempted.switch_to(5 * MS, HIGHEST, false, 0);
        preempted.switch_to(5 * MS, NORMAL, false, 0);
    }
    assert_eq!(stopped.util(RT), 0);
    assert!(preempted.util(RT).abs_diff(512) < 60);
    assert_eq!(stopped.util(FAIR), preempted.util(FAIR));
}

#[test]
fn a_switch_is_when_the_runqueue_s_clock_says() {
    let (prompt, late) = (Scheduler::new(), Scheduler::new());
    for round in 0..200 {
        for prio in [HIGHEST, NORMAL] {
            prompt.switch_to(5 * MS, prio, false, 0);
            late.switch_to(5 * MS, prio, false, round % 3 * MS);
        }
    }
    assert_eq!(late.util(RT), prompt.util(RT));
    assert_eq!(late.util(FAIR), prompt.util(FAIR));
}
