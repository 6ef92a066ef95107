//! The time charged to a task: the scheduler's own C is compiled and called.

use crate::common;
use libloading::Library;

const MS: u64 = 1_000_000;

struct Scheduler(Library);

impl Scheduler {
    fn new() -> Scheduler {
        let library = common::compile_with_tables(
            r#"#include <scx/common.bpf.h>
            #include "linux/cfs/main.bpf.c"
            const volatile struct policy policy = {};
            const volatile struct machine machine = { .tick_ns = 1000000, .nr_cpus = 5 };
            static struct equipoise_kernel kernel = { .nr_cpu_ids = 5 };
            static struct rq rqs[5];
            static struct task_struct task = { .pid = 1 };
            static struct fair_entity entity = { .weight = NICE_0_LOAD, .inv_weight = (1ULL << 32) / NICE_0_LOAD };
            /* Lets @ns pass on @cpu, of which interrupts take @irq_ns. */
            void pass(u32 cpu, u64 ns, u64 irq_ns)
            {
                kernel.now += ns;
                rqs[cpu].clock += ns;
                rqs[cpu].clock_task += ns - irq_ns;
            }
            /* Code on @this_cpu gives @cpu to the task or takes it away. */
            void give(u32 this_cpu, u32 cpu)
            {
                kernel.rqs = rqs;
                kernel.cpu = this_cpu;
                equipoise_kernel = &kernel;
                entity.cpu = cpu;
                set_curr(cpu, &task, &entity, kernel.now);
            }
            u64 take(u32 this_cpu, u32 cpu)
            {
                kernel.cpu = this_cpu;
                put_curr(cpu, &entity, kernel.now);
                return entity.vruntime;
            }"#,
            "cfs",
            "tc2",
        );
        Scheduler(library)
    }

    c_fns! {
        fn pass(cpu: u32, ns: u64, irq_ns: u64);
        fn give(this_cpu: u32, cpu: u32);
        /// Returns the task's vruntime, in ns.
        fn take(this_cpu: u32, cpu: u32) -> u64;
    }
}

#[test]
fn a_task_is_not_charged_for_interrupts() {
    let scheduler = Scheduler::new();
    scheduler.give(1, 1);
    scheduler.pass(1, 10 * MS, 3 * MS);
    assert_eq!(scheduler.take(1, 1), 7 * MS);
}

/// Another CPU gives a task the CPU if a scheduler is loaded, or a nice level changed, while the task runs.
#[test]
fn a_task_is_charged_by_its_own_cpu_s_interrupts_whoever_gives_it_the_cpu() {
    let scheduler = Scheduler::new();
    scheduler.pass(0, 60_000 * MS, 20_000 * MS);
    scheduler.give(0, 1);
    scheduler.pass(1, 10 * MS, 0);
    assert_eq!(scheduler.take(1, 1), 10 * MS);
    scheduler.give(1, 1);
    scheduler.pass(1, 10 * MS, 0);
    assert_eq!(scheduler.take(0, 1), 20 * MS);
}
