//! Which frequency the scheduler's C asks for: its own code, compiled and called.

mod common;

use libloading::{Library, Symbol};

const MS: u64 = 1_000_000;

fn scheduler() -> Library {
    common::compile(
        r#"#include "cfs/main.bpf.c"
        const volatile struct policy policy = { .frequency = true, .frequency_irq = true };
        const volatile struct machine machine = { .tick_ns = 1000000, .nr_cpus = 2 };
        static struct equipoise_kernel kernel;
        static struct rq rqs[2];
        static u32 asked[2];
        static u32 cpuperf(void *k, s32 cpu, u32 what) { return 1024; }
        static void cpuperf_set(void *k, s32 cpu, u32 perf) { asked[cpu] = perf; }
        void boot(void)
        {
            kernel.now = 1000000000;
            kernel.nr_cpu_ids = 2;
            kernel.rqs = rqs;
            kernel.cpuperf = cpuperf;
            kernel.cpuperf_set = cpuperf_set;
            equipoise_kernel = &kernel;
            for (u32 cpu = 0; cpu < 2; cpu++)
                init_cpu_util(cpu, kernel.now);
        }
        void idle(s32 cpu) { equipoise_update_idle(cpu, true); }
        /* Time passes, of which interrupts have so much on CPU 0, ns. CPU 1 has a tick, and looks after it. */
        void pass(u64 ns, u64 irq)
        {
            kernel.now += ns;
            rqs[0].clock += ns;
            rqs[0].clock_task += ns - irq;
            update_idle_cpus(kernel.now);
        }
        u32 request(u32 cpu) { return asked[cpu]; }"#,
    )
}

#[test]
fn an_idle_cpu_asks_for_what_its_interrupts_need_and_no_longer_than_they_last() {
    let library = scheduler();
    let boot: Symbol<unsafe extern "C" fn()> = unsafe { library.get(b"boot") }.unwrap();
    let idle: Symbol<unsafe extern "C" fn(i32)> = unsafe { library.get(b"idle") }.unwrap();
    let pass: Symbol<unsafe extern "C" fn(u64, u64)> = unsafe { library.get(b"pass") }.unwrap();
    let request: Symbol<unsafe extern "C" fn(u32) -> u32> =
        unsafe { library.get(b"request") }.unwrap();
    // SAFETY: functions of the library, after `boot`.
    unsafe {
        boot();
        idle(0);
        for _ in 0..400 {
            pass(MS, MS / 2);
        }
        // Half of the time, taken for the last half of each 32 ms: 0.586 of 1024. And a quarter more for room.
        assert!(request(0).abs_diff(750) < 16, "{}", request(0));
        for _ in 0..2000 {
            pass(MS, 0);
        }
        assert_eq!(request(0), 0);
    }
}
