//! The frequency that the scheduler requests: its own C is compiled and called.

use crate::common;
use libloading::{Library, Symbol};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// Classes, as in `enum util_class`.
const FAIR: u32 = 0;
const RT: u32 = 1;
const DL: u32 = 2;

/// The settings of two policies.
const SCHEDUTIL_CFS: &str = ".frequency = true";
const SCHEDUTIL: &str =
    ".frequency = true, .frequency_rt = true, .frequency_dl = true, .frequency_irq = true";

struct Scheduler(Library);

impl Scheduler {
    /// The scheduler's code with these settings on two CPUs, the second of which has half the capacity.
    fn new(policy: &str, machine: &str) -> Scheduler {
        let library = common::compile(&format!(
            r#"#include "linux/cfs/main.bpf.c"
        const volatile struct policy policy = {{ {policy} }};
        const volatile struct machine machine = {{ .tick_ns = 1000000, .nr_cpus = 2, {machine} }};
        static struct equipoise_kernel kernel;
        static struct rq rqs[2];
        static u32 asked[2], asks;
        static u32 cpuperf(void *k, s32 cpu, u32 what) {{ return what == EQUIPOISE_CPUPERF_CUR ? 1024 : 1024 >> cpu; }}
        static void cpuperf_set(void *k, s32 cpu, u32 perf, bool of_any_cpu) {{ asked[cpu] = perf; asks++; }}
        void boot(void)
        {{
            kernel.now = 1000000000;
            kernel.nr_cpu_ids = 2;
            kernel.rqs = rqs;
            kernel.cpuperf = cpuperf;
            kernel.cpuperf_set = cpuperf_set;
            equipoise_kernel = &kernel;
            for (u32 cpu = 0; cpu < 2; cpu++)
                init_cpu_util(cpu, kernel.now);
        }}
        void limit_rate(u64 ns) {{ tunables.frequency_rate_limit = ns; }}
        void idle(s32 cpu) {{ equipoise_update_idle(cpu, true); }}
        /*
         * Lets @ns pass, of which interrupts take @irq ns on CPU 0. The tick of CPU 1
         * updates CPU 0.
         */
        void pass(u64 ns, u64 irq)
        {{
            kernel.now += ns;
            rqs[0].clock += ns;
            rqs[0].clock_task += ns - irq;
            update_idle_cpus(kernel.now);
        }}
        u32 request(u32 cpu) {{ return asked[cpu]; }}
        /* The utilizations of @cpu, whether a real-time task is runnable, and the bandwidth of deadline tasks. */
        void set(u32 cpu, u32 fair, u32 rt, u32 dl, u32 irq, bool runnable, u64 running_bw)
        {{
            struct cpu_util *util = cpu_util_of(cpu);
            const u32 utils[] = {{ fair, rt, dl }};

            for (u32 class = 0; class < NR_UTIL_CLASSES; class++) {{
                util->avg[class].period_contrib = 1024;
                util->avg[class].running_sum = (LOAD_AVG_MAX * (u64)utils[class] + 1023) / 1024;
            }}
            util->irq.period_contrib = 1024;
            util->irq.running_sum = (LOAD_AVG_MAX * (u64)irq + 1023) / 1024;
            rqs[cpu].rt.rt_nr_running = runnable;
            rqs[cpu].dl.running_bw = running_bw;
        }}
        u64 effective(u32 cpu) {{ return effective_cpu_util(cpu); }}
        /* Lets some time pass. Returns the number of requests so far. */
        u32 ask(u32 cpu, u64 ns) {{ kernel.now += ns; update_frequency(cpu, kernel.now); return asks; }}"#
        ));
        let scheduler = Scheduler(library);
        scheduler.boot();
        scheduler
    }

    c_fns! {
        fn boot();
        fn idle(cpu: i32);
        fn pass(ns: u64, irq: u64);
        fn limit_rate(ns: u64);
        fn request(cpu: u32) -> u32;
        fn effective(cpu: u32) -> u64;
        fn ask(cpu: u32, ns: u64) -> u32;
    }

    fn set(&self, cpu: u32, used: &Used) {
        let set: Symbol<unsafe extern "C" fn(u32, u32, u32, u32, u32, bool, u64)> =
            unsafe { self.0.get(b"set") }.unwrap();
        let &Used {
            utils: [fair, rt, dl, irq],
            rt_runnable,
            bw_dl,
        } = used;
        unsafe { set(cpu, fair, rt, dl, irq, rt_runnable, u64::from(bw_dl) << 10) }
    }
}

/// The utilization of a CPU, of 1024.
#[derive(Clone, Debug, Default)]
struct Used {
    /// The utilization by fair, real-time and deadline tasks, and by interrupts.
    utils: [u32; 4],
    rt_runnable: bool,
    bw_dl: u32,
}

/// sugov_get_util() as in the posting, for a CPU of `max`. `counts` says whether the utilization by real-time tasks,
/// deadline tasks and interrupts counts.
fn sugov_get_util(max: u64, counts: bool, used: &Used) -> u64 {
    let [fair, rt, dl, irq] = used.utils.map(u64::from);
    let (rt, dl, irq) = if counts { (rt, dl, irq) } else { (0, 0, 0) };
    if used.rt_runnable || irq >= max || (counts && fair + rt + dl >= max) {
        return max;
    }
    ((fair + rt) * (max - irq) / max + irq + u64::from(used.bw_dl)).min(max)
}

#[test]
fn an_idle_cpu_asks_for_what_its_interrupts_need_and_no_longer_than_they_last() {
    let scheduler = Scheduler::new(".frequency = true, .frequency_irq = true", "");
    scheduler.idle(0);
    for _ in 0..400 {
        scheduler.pass(MS, MS / 2);
    }
    // The CPU counts as busy for the last half of each 32 ms, which makes a utilization of 600 of 1024. A quarter is
    // added as a margin.
    assert!(
        scheduler.request(0).abs_diff(750) < 16,
        "{}",
        scheduler.request(0)
    );
    for _ in 0..2000 {
        scheduler.pass(MS, 0);
    }
    assert_eq!(scheduler.request(0), 0);
}

#[test]
fn each_branch_of_the_selection() {
    let scheduler = Scheduler::new(SCHEDUTIL, "");
    let of = |used: Used| {
        scheduler.set(0, &used);
        scheduler.effective(0)
    };
    let used = |utils| Used {
        utils,
        ..Used::default()
    };
    // The request is the whole capacity if a real-time task is runnable, interrupts take everything, or no
    // idle time is left.
    let mut light = used([10, 0, 0, 0]);
    light.rt_runnable = true;
    assert_eq!(of(light), 1024);
    assert_eq!(of(used([0, 0, 0, 1024])), 1024);
    assert_eq!(of(used([400, 324, 300, 0])), 1024);
    assert_eq!(of(used([400, 324, 299, 0])), 724);
    // Fair and real-time tasks count for the share of time that interrupts leave: 128 + 7/8 of (400 + 200).
    assert_eq!(of(used([400, 200, 0, 128])), 128 + 525);
    // Deadline tasks count with their bandwidth, not with their running time.
    let mut promised = used([400, 0, 100, 0]);
    promised.bw_dl = 300;
    assert_eq!(of(promised), 700);

    let scheduler = Scheduler::new(SCHEDUTIL_CFS, "");
    scheduler.set(
        0,
        &Used {
            utils: [400, 324, 300, 128],
            rt_runnable: false,
            bw_dl: 100,
        },
    );
    assert_eq!(scheduler.effective(0), 500);
}

#[test]
fn bandwidth_is_of_the_largest_cpu() {
    let scheduler = Scheduler::new(SCHEDUTIL, "");
    // Three tenths of the largest CPU are six tenths of one with half its capacity, and a quarter is added as a margin.
    let used = Used {
        bw_dl: 307,
        ..Used::default()
    };
    for cpu in [0, 1] {
        scheduler.set(cpu, &used);
        scheduler.ask(cpu, MS);
        assert_eq!(scheduler.request(cpu), 307 + 307 / 4);
    }
    // The request is at most the CPU's capacity.
    scheduler.set(
        1,
        &Used {
            bw_dl: 450,
            ..Used::default()
        },
    );
    scheduler.ask(1, MS);
    assert_eq!(scheduler.request(1), 512);
}

#[test]
fn where_the_governor_adds_only_fair_tasks_are_asked_for() {
    let scheduler = Scheduler::new(SCHEDUTIL, ".governor_adds = true");
    scheduler.set(
        0,
        &Used {
            utils: [400, 200, 100, 128],
            rt_runnable: true,
            bw_dl: 300,
        },
    );
    scheduler.ask(0, MS);
    assert_eq!(scheduler.request(0), 400);
}

#[test]
fn the_rate_limit_does_not_hold_for_more_deadline_bandwidth() {
    let scheduler = Scheduler::new(".frequency = true", "");
    scheduler.limit_rate(10 * MS);
    let bw_dl = |bw_dl| {
        scheduler.set(
            0,
            &Used {
                bw_dl,
                ..Used::default()
            },
        )
    };
    assert_eq!(scheduler.ask(0, 10 * MS), 1);
    assert_eq!(scheduler.ask(0, MS), 1);
    bw_dl(100);
    assert_eq!(scheduler.ask(0, MS), 2);
    assert_eq!(scheduler.ask(0, MS), 2);
    bw_dl(50);
    assert_eq!(scheduler.ask(0, MS), 2);
    assert_eq!(scheduler.ask(0, 10 * MS), 3);
}

#[test]
fn the_selection_is_the_posting_s() {
    for (policy, counts) in [(SCHEDUTIL, true), (SCHEDUTIL_CFS, false)] {
        let scheduler = Scheduler::new(policy, "");
        let config = ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let utils = (prop::array::uniform4(0..=1024u32), 0..4u32)
            .prop_map(|(utils, shift)| utils.map(|util| util >> shift));
        let used = (utils, prop::bool::weighted(0.1), 0..=400u32).prop_map(
            |(utils, rt_runnable, bw_dl)| Used {
                utils,
                rt_runnable,
                bw_dl,
            },
        );
        proptest!(config, |(used in used, cpu in 0..2u32)| {
            scheduler.set(cpu, &used);
            let expected = sugov_get_util(1024 >> cpu, counts, &used);
            prop_assert_eq!(scheduler.effective(cpu), expected);
        });
    }
}

#[test]
fn the_classes_are_counted_apart() {
    let scheduler = Scheduler::new(SCHEDUTIL, "");
    for class in [FAIR, RT] {
        let mut used = Used::default();
        used.utils[class as usize] = 300;
        scheduler.set(0, &used);
        assert_eq!(scheduler.effective(0), 300);
    }
    let mut used = Used::default();
    used.utils[DL as usize] = 300;
    scheduler.set(0, &used);
    assert_eq!(scheduler.effective(0), 0);
}
