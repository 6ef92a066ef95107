//! The capacity left for fair tasks, by `rq->rt_avg` and by the utilization of other classes, on the tables of TC2.

use crate::common;
use libloading::Library;

const MS: u64 = 1_000_000;

/// `enum balance_idle`
const NOT_IDLE: u32 = 0;
const NEWLY_IDLE: u32 = 2;

/// TC2's package level, above its two clusters.
const PKG: u32 = 1;

/// The time of boot, in ns.
const START: u64 = 3_000 * MS;

struct Scheduler(Library);

impl Scheduler {
    /// The scheduler's code on TC2, with the measure `rt_capacity`.
    fn new(rt_capacity: &str) -> Scheduler {
        let library = common::compile_with_tables(
            &format!(
                r#"#include <scx/common.bpf.h>
            #include "linux/cfs/main.bpf.c"
            const volatile struct policy policy = {{ .scale_rt_capacity = {rt_capacity} }};
            const volatile struct machine machine = {{ .tick_ns = 10000000, .nr_cpus = 5 }};
            static struct equipoise_kernel kernel;
            static struct rq rqs[5];
            static u32 cpuperf(void *k, s32 cpu, u32 what) {{ return 1024; }}
            void boot(u64 now)
            {{
                kernel.now = now;
                kernel.nr_cpu_ids = 5;
                kernel.tick_ns = machine.tick_ns;
                kernel.rqs = rqs;
                kernel.cpuperf = cpuperf;
                equipoise_kernel = &kernel;
                __builtin_memset(cpu_utils, 0, sizeof(cpu_utils));
                __builtin_memset(rt_avgs, 0, sizeof(rt_avgs));
                __builtin_memset(rqs, 0, sizeof(rqs));
                for (u32 cpu = 0; cpu < 5; cpu++) {{
                    domain_state_of(cpu, 0)->balance_interval = domain_state_of(cpu, 1)->balance_interval = 20;
                    init_cpu_util(cpu, now);
                }}
            }}
            /* A task of @class had @cpu for @ns. */
            void run(u32 cpu, u32 class, u64 ns)
            {{
                cpu_util_of(cpu)->running = class;
                kernel.now += ns;
                rqs[cpu].clock += ns;
                rqs[cpu].clock_task += ns;
                update_cpu_util(cpu, kernel.now);
            }}
            /* A fair task had @cpu for @before ns, then interrupts had it for @ns. */
            void interrupt(u32 cpu, u64 before, u64 ns)
            {{
                cpu_util_of(cpu)->running = UTIL_FAIR;
                kernel.now += before + ns;
                rqs[cpu].clock += before + ns;
                rqs[cpu].clock_task += before;
                update_cpu_util(cpu, kernel.now);
            }}
            u64 left(u32 cpu) {{ return scale_rt_capacity(cpu); }}
            void balance(u32 cpu, u32 level, u32 idle)
            {{
                struct balance_env *env = this_balance_env();

                *env = (struct balance_env){{ .cpu = cpu, .dst_cpu = cpu, .level = level, .idle = idle, .balance = true }};
                find_busiest_group(env);
            }}
            u64 power(u32 cpu) {{ return power_of(cpu); }}
            u64 group_power(u32 cpu, u32 level) {{ return group_at(local_group_of(cpu, level))->power; }}
            u64 threads_fit(u32 power)
            {{
                const struct domain smt = {{ .flags = SD_SHARE_CPUPOWER }};
                const struct group core = {{ .power = power, .power_orig = 294 }};

                return group_capacity(&smt, &core, power);
            }}"#
            ),
            "cfs",
            "tc2",
        );
        let scheduler = Scheduler(library);
        scheduler.boot(START);
        scheduler
    }

    c_fns! {
        /// The state before anything has run.
        fn boot(now: u64);
        fn run(cpu: u32, class: u32, ns: u64);
        fn interrupt(cpu: u32, before: u64, ns: u64);
        /// The capacity left on `cpu`, of 1024.
        fn left(cpu: u32) -> u64;
        fn balance(cpu: u32, level: u32, idle: u32);
        fn power(cpu: u32) -> u64;
        /// The power of `cpu`'s own group at `level`.
        fn group_power(cpu: u32, level: u32) -> u64;
        fn threads_fit(power: u32) -> u64;
    }
}

const FAIR: u32 = 0;
const RT: u32 = 1;
const DL: u32 = 2;

/// Linux 3.9's arithmetic in floating point, for a time that consists of `spans` (the length of each in ns, and whether
/// the CPU was in use).
fn by_rt_avg(spans: &[(u64, bool)]) -> f64 {
    const PERIOD: f64 = 500e6;
    let (mut sum, mut in_period) = (0.0, 0.0);
    for &(ns, used) in spans {
        let mut rest = ns as f64;
        while in_period + rest > PERIOD {
            let part = PERIOD - in_period;
            sum = (sum + if used { part } else { 0.0 }) / 2.0;
            rest -= part;
            in_period = 0.0;
        }
        in_period += rest;
        sum += if used { rest } else { 0.0 };
    }
    1024.0 * (1.0 - sum / (PERIOD + in_period))
}

#[test]
fn rt_avg_halves_every_half_a_second() {
    let scheduler = Scheduler::new("RT_CAPACITY_AVG");
    for spans in [
        &[(200 * MS, true)][..],
        &[(700 * MS, true)],
        &[(1700 * MS, true), (900 * MS, false)],
        &[
            (400 * MS, false),
            (300 * MS, true),
            (100 * MS, false),
            (2000 * MS, true),
        ],
        &[(300 * MS, true), (60_000 * MS, false)],
        &[(60_000 * MS, true)],
        &[(400 * MS, true), (40_000 * MS, false), (250 * MS, true)],
    ] {
        scheduler.boot(START);
        for &(ns, used) in spans {
            scheduler.run(0, if used { RT } else { FAIR }, ns);
        }
        let (got, expected) = (scheduler.left(0) as f64, by_rt_avg(spans));
        assert!((got - expected).abs() < 2.0, "{got} {expected} {spans:?}");
    }
}

#[test]
fn half_the_time_is_half_of_the_capacity_by_either() {
    for rt_capacity in ["RT_CAPACITY_AVG", "RT_CAPACITY_PELT"] {
        let scheduler = Scheduler::new(rt_capacity);
        for class in [RT, DL] {
            scheduler.boot(START);
            for _ in 0..2000 {
                scheduler.run(0, class, MS);
                scheduler.run(0, FAIR, MS);
            }
            let left = scheduler.left(0);
            assert!(left.abs_diff(512) < 16, "{rt_capacity} {class}: {left}");
            assert!(scheduler.left(1) >= 1023);
        }
    }
}

#[test]
fn interrupts_take_their_part() {
    for rt_capacity in ["RT_CAPACITY_AVG", "RT_CAPACITY_PELT"] {
        let scheduler = Scheduler::new(rt_capacity);
        for _ in 0..4000 {
            scheduler.interrupt(0, 3 * MS / 4, MS / 4);
        }
        let left = scheduler.left(0);
        assert!(left.abs_diff(768) < 16, "{rt_capacity}: {left}");
    }
}

#[test]
fn the_signals_are_quicker() {
    let left = |rt_capacity| {
        let scheduler = Scheduler::new(rt_capacity);
        scheduler.run(0, RT, 100 * MS);
        scheduler.left(0)
    };
    // y^100 is 0.115. The CPU was in use for 100 of 600 ms.
    assert!(left("RT_CAPACITY_PELT").abs_diff(117) < 16);
    assert!(left("RT_CAPACITY_AVG").abs_diff(853) < 2);
}

#[test]
fn balancing_finds_the_power_of_its_group() {
    let scheduler = Scheduler::new("RT_CAPACITY_AVG");
    for _ in 0..2000 {
        scheduler.run(0, RT, MS);
        scheduler.run(0, FAIR, MS);
    }
    let left = scheduler.left(0);
    // No CPU has balanced yet.
    assert_eq!(
        (scheduler.power(0), scheduler.group_power(0, PKG)),
        (1441, 2882)
    );
    scheduler.balance(0, 0, NOT_IDLE);
    assert_eq!(scheduler.power(0), 1441 * left / 1024);
    // One level up, the change appears when that level is balanced. It does not affect CPUs outside the group.
    assert_eq!(scheduler.group_power(0, PKG), 2882);
    scheduler.balance(0, PKG, NOT_IDLE);
    assert_eq!(scheduler.group_power(0, PKG), 1441 + scheduler.power(0));
    assert_eq!(scheduler.group_power(2, PKG), 3 * 606);
}

#[test]
fn a_cpu_that_runs_out_of_work_does_not_find_it_every_time() {
    let scheduler = Scheduler::new("RT_CAPACITY_AVG");
    scheduler.balance(0, 0, NEWLY_IDLE);
    let full = scheduler.power(0);
    scheduler.run(0, RT, 10 * MS);
    scheduler.balance(0, 0, NEWLY_IDLE);
    assert_eq!(scheduler.power(0), full);
    // This is after the domain's interval of 20 ms.
    scheduler.run(0, RT, 10 * MS);
    scheduler.balance(0, 0, NEWLY_IDLE);
    assert!(scheduler.power(0) < full);
}

#[test]
fn a_thread_of_which_a_tenth_is_taken_takes_no_task() {
    let scheduler = Scheduler::new("RT_CAPACITY_AVG");
    // Each of four threads has 1178 / 4.
    assert_eq!(
        [294, 267, 266].map(|power| scheduler.threads_fit(power)),
        [1, 1, 0]
    );
}
