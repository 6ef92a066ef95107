//! The scheduler's C, compiled unchanged and called from here: its arithmetic is compared with a
//! floating-point reference, and its structures with this crate's mirror of them.

use crate::common::compile;
use libloading::{Library, Symbol};
use machine::Machine;
use policy::{Counters, Decision, Explained, Policy};

/// The kernel's types and macros, for a header that is compiled by itself.
const PRELUDE: &str = r#"
#include <linux/types.h>
typedef __u8 u8; typedef __u16 u16; typedef __u32 u32; typedef __u64 u64; typedef __s32 s32; typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
"#;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pelt {
    last_update_time: u64,
    period_contrib: u32,
    period_sum: u32,
    runnable_sum: u32,
    running_sum: u32,
}

type Update = unsafe extern "C" fn(*mut Pelt, u64, bool, bool) -> bool;

fn pelt() -> Library {
    compile(&format!(
        "{PRELUDE}{}",
        r#"#include "signals/pelt.h"
        bool update(struct pelt *sa, u64 now, bool runnable, bool running)
        { return update_pelt(sa, now, runnable, running); }
        u64 decay(u64 val, u64 n) { return decay_load(val, n); }
        u64 size(void) { return sizeof(struct pelt); }"#,
    ))
}

/// y, with y^32 = 1/2.
fn y() -> f64 {
    0.5f64.powf(1.0 / 32.0)
}

#[test]
fn decay_is_y_to_the_n() {
    let library = pelt();
    let decay: Symbol<unsafe extern "C" fn(u64, u64) -> u64> =
        unsafe { library.get(b"decay") }.unwrap();
    for value in [1u64, 1000, 47742, 1 << 31] {
        for n in 0..200 {
            let expected = value as f64 * y().powi(n);
            // There are two roundings down: of the shift, and of the product.
            let got = unsafe { decay(value, n as u64) } as f64;
            assert!(
                got <= expected && got > expected - 2.0,
                "{value} * y^{n}: {got}, {expected}"
            );
        }
    }
    assert_eq!(unsafe { decay(u64::from(u32::MAX), 1 << 40) }, 0);
}

/// A burst of `on` us every `cycle` us, sampled at odd times, is compared with the sum in floating point.
#[test]
fn sums_follow_the_floating_point_series() {
    let library = pelt();
    let update: Symbol<Update> = unsafe { library.get(b"update") }.unwrap();
    let size: Symbol<unsafe extern "C" fn() -> u64> = unsafe { library.get(b"size") }.unwrap();
    assert_eq!(unsafe { size() }, size_of::<Pelt>() as u64);
    for (on, cycle) in [
        (1000u64, 10_000u64),
        (37, 100),
        (400_000, 1_000_000),
        (5, 70_001),
        (1, 1),
    ] {
        let mut sa = Pelt::default();
        // Running time in each period so far, in us.
        let mut periods: Vec<f64> = vec![0.0];
        let mut now = 0u64;
        for step in 0..3000u64 {
            let running = now % cycle < on;
            let left = if running {
                on - now % cycle
            } else {
                cycle - now % cycle
            };
            let ahead = left.min(1 + step * 7919 % 5000);
            for us in now..now + ahead {
                let period = (us / 1024) as usize;
                periods.resize(periods.len().max(period + 1), 0.0);
                periods[period] += if running { 1.0 } else { 0.0 };
            }
            now += ahead;
            unsafe { update(&mut sa, now << 10, true, running) };
        }
        periods.resize((now / 1024) as usize + 1, 0.0);
        let series = |u: &dyn Fn(usize) -> f64| -> f64 {
            (0..periods.len())
                .map(|age| u(periods.len() - 1 - age) * y().powi(age as i32))
                .sum()
        };
        let current = (now % 1024) as f64;
        let expected_running = series(&|period| periods[period]);
        let expected_period = series(&|period| {
            if period == periods.len() - 1 {
                current
            } else {
                1024.0
            }
        });
        // Every update may round down, and the errors decay; the kernel's constants are 0.1 % too low.
        let close =
            |got: u32, expected: f64| (f64::from(got) - expected).abs() <= 0.002 * expected + 100.0;
        assert!(
            close(sa.running_sum, expected_running),
            "{on}/{cycle}: {sa:?}, {expected_running}"
        );
        assert!(
            close(sa.period_sum, expected_period),
            "{on}/{cycle}: {sa:?}, {expected_period}"
        );
        assert_eq!(sa.runnable_sum, sa.period_sum);
        assert_eq!(sa.period_contrib, (now % 1024) as u32);
    }
}

#[test]
fn a_clock_that_is_behind_changes_nothing() {
    let library = pelt();
    let update: Symbol<Update> = unsafe { library.get(b"update") }.unwrap();
    let mut sa = Pelt {
        last_update_time: 10 << 20,
        period_sum: 500,
        runnable_sum: 300,
        running_sum: 100,
        period_contrib: 7,
    };
    let before = sa;
    assert!(!unsafe { update(&mut sa, 9 << 20, true, true) });
    assert_eq!(
        sa,
        Pelt {
            last_update_time: 9 << 20,
            ..before
        }
    );
    // A remainder of less than 1 us is kept for later.
    assert!(!unsafe { update(&mut sa, (9 << 20) + 1000, true, true) });
    assert!(!unsafe { update(&mut sa, (9 << 20) + 2000, true, true) });
    assert_eq!(sa.running_sum, 101);
}

/// The decayed load of a task that wakes up on CPU 1. The load was 512 when the task went to sleep on CPU 0, and CPU
/// 0's last event was `known` periods of 1024 us later.
#[test]
fn a_sleep_that_the_old_runqueue_does_not_know_of_does_not_count() {
    let library = compile(
        r#"#include <scx/common.bpf.h>
        #include "linux/cfs/main.bpf.c"
        const volatile struct machine machine = { .nr_cpus = 2 };
        static struct equipoise_kernel kernel;
        u32 woken(u64 slept_at, u64 last_event, u64 now)
        {
            struct fair_entity se = { .weight = 1024, .avg = {
                .last_update_time = slept_at, .period_sum = LOAD_AVG_MAX, .runnable_sum = LOAD_AVG_MAX / 2,
            } };

            equipoise_kernel = &kernel;
            rq_of(0)->avg.last_update_time = last_event;
            migrate_sleeper(&se, now);
            update_pelt(&se.avg, now, false, false);
            return pelt_avg(&se.avg, se.avg.runnable_sum, 1024);
        }"#,
    );
    let woken: Symbol<unsafe extern "C" fn(u64, u64, u64) -> u32> =
        unsafe { library.get(b"woken") }.unwrap();
    let slept_at = 1000 << 20;
    for (known, expected) in [(-1i64, 512), (0, 512), (32, 256), (64, 128)] {
        let last_event = slept_at + known * (1 << 20);
        let load = unsafe { woken(slept_at as u64, last_event as u64, 1064 << 20) };
        assert!(load.abs_diff(expected) <= 2, "{known} ms: {load}");
    }
}

#[test]
fn tables_mean_the_same_to_c() {
    let library = compile(
        r#"#include <scx/common.bpf.h>
        #include "linux/cfs/main.bpf.c"
        const u32 sizes[] = {
            sizeof(struct policy), sizeof(struct tunables), sizeof(struct machine), sizeof(struct domain),
            sizeof(struct group), sizeof(u16), sizeof(struct cpu_levels), sizeof(struct counters) * MAX_CPUS,
        };
        u64 policy_field(const struct policy *p, int i)
        {
            switch (i) {
            case 0: return p->load_tracking == LOAD_PELT;
            case 1: return p->misfit;
            default: return p->idle_pull;
            }
        }
        u64 tunable_field(const struct tunables *t, int i)
        {
            switch (i) {
            case 0: return t->sched_latency;
            case 1: return t->sched_min_granularity;
            case 2: return t->sched_wakeup_granularity;
            case 3: return t->sched_migration_cost;
            case 4: return t->sched_nr_migrate;
            default: return t->newidle_limit;
            }
        }
        u64 machine_field(const struct machine *m, int i) { return i ? m->nr_cpus : m->tick_ns; }
        u64 domain_field(const struct domain *d, int i)
        {
            switch (i) {
            case 0: return d->first;
            case 1: return d->weight;
            case 2: return d->first_group;
            case 3: return d->nr_groups;
            case 4: return !!(d->flags & SD_SHARE_PKG_RESOURCES);
            case 5: return !!(d->flags & SD_PREFER_SIBLING);
            case 6: return (d->flags & (SD_LOAD_BALANCE | SD_BALANCE_NEWIDLE | SD_BALANCE_EXEC | SD_BALANCE_FORK | SD_WAKE_AFFINE)) ==
                           (SD_LOAD_BALANCE | SD_BALANCE_NEWIDLE | SD_BALANCE_EXEC | SD_BALANCE_FORK | SD_WAKE_AFFINE);
            case 7: return !!(d->flags & (SD_BALANCE_WAKE | SD_SHARE_CPUPOWER));
            case 8: return d->imbalance_pct;
            case 9: return d->cache_nice_tries;
            case 10: return d->busy_idx * 100 + d->idle_idx * 10 + d->newidle_idx;
            case 11: return d->busy_factor;
            case 12: return d->min_interval;
            default: return d->max_interval;
            }
        }
        u64 group_field(const struct group *g, int i) { return i == 0 ? g->first : i == 1 ? g->weight : i == 2 ? g->power : i == 3 ? g->power_orig : g->next_update; }
        u64 cpu_field(const struct cpu_levels *c, int i)
        {
            switch (i) {
            case 0: return c->power;
            case 1: return c->nr_levels;
            case 2: return c->nr_llc_levels;
            case 3: return c->llc_id;
            case 4: return c->domain[0];
            case 5: return c->domain[1];
            case 6: return c->group[0];
            case 7: return c->group[1];
            case 8: return c->fast;
            case 9: return c->thread_speed;
            case 10: return c->online;
            default: return c->power_orig;
            }
        }
        u64 misfit_moves(const struct counters *c) { return c->misfit_moves; }"#,
    );
    let globals = Policy::find("capacity")
        .unwrap()
        .globals(&Machine::find("tc2").unwrap());
    let bytes = |symbol: &str| {
        &globals
            .iter()
            .find(|global| global.symbol == symbol)
            .unwrap()
            .bytes
    };

    let sizes: Symbol<*const [u32; 8]> = unsafe { library.get(b"sizes") }.unwrap();
    let sizes = unsafe { **sizes };
    // tc2 has three domains, and besides the groups of the domains it has one of its fast and one of its slow CPUs.
    let lengths = [
        ("policy", 1),
        ("tunables", 1),
        ("machine", 1),
        ("domains", 3),
        ("groups", 9),
        ("cpu_list", 15),
        ("cpu_levels", 5),
    ];
    for ((name, length), size) in lengths.into_iter().zip(sizes) {
        assert_eq!(bytes(name).len(), length * size as usize, "{name}");
    }

    type Field = unsafe extern "C" fn(*const u8, i32) -> u64;
    let row =
        |function: &str, symbol: &str, index: usize, stride: usize, fields: i32| -> Vec<u64> {
            let field: Symbol<Field> = unsafe { library.get(function.as_bytes()) }.unwrap();
            let at = bytes(symbol)[index * stride..].as_ptr();
            (0..fields).map(|i| unsafe { field(at, i) }).collect()
        };
    assert_eq!(row("policy_field", "policy", 0, 0, 3), [1, 1, 1]);
    // Five CPUs: 1 + log2(5) = 3.
    assert_eq!(
        row("tunable_field", "tunables", 0, 0, 6),
        [18_000_000, 2_250_000, 3_000_000, 500_000, 32, 0]
    );
    assert_eq!(row("machine_field", "machine", 0, 0, 2), [10_000_000, 5]);

    let domain = |index| row("domain_field", "domains", index, 64, 14);
    assert_eq!(domain(0), [0, 2, 0, 2, 1, 0, 1, 0, 125, 1, 200, 64, 1, 4]);
    assert_eq!(domain(1), [2, 3, 2, 3, 1, 0, 1, 0, 125, 1, 200, 64, 1, 4]);
    assert_eq!(domain(2), [5, 5, 5, 2, 0, 1, 1, 0, 125, 1, 210, 64, 1, 4]);
    let group = |index| row("group_field", "groups", index, 24, 5);
    assert_eq!(
        [group(1), group(4)],
        [[1, 1, 1441, 1441, 0], [4, 1, 606, 606, 0]]
    );
    assert_eq!(
        [group(5), group(6)],
        [[5, 2, 2882, 2882, 0], [7, 3, 1818, 1818, 0]]
    );
    let cpu = |index| row("cpu_field", "cpu_levels", index, 76, 12);
    assert_eq!(cpu(1), [1441, 2, 1, 0, 0, 2, 1, 5, 1, 1024, 1, 1441]);
    assert_eq!(cpu(4), [606, 2, 1, 2, 1, 2, 4, 6, 0, 1024, 1, 606]);
    assert_eq!(
        bytes("cpu_list")[..20]
            .chunks(2)
            .map(|cpu| cpu[0])
            .collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
    );

    let mut counters = vec![0u8; sizes[7] as usize];
    // Two CPUs whose counters are 0, 1, 2, ... in the order of their fields.
    let words = sizes[7] as usize / 8 / machine::MAX_CPUS;
    for (index, word) in counters.chunks_exact_mut(8).enumerate().take(2 * words) {
        word.copy_from_slice(&(index as u64).to_ne_bytes());
    }
    let misfit_moves: Symbol<unsafe extern "C" fn(*const u8) -> u64> =
        unsafe { library.get(b"misfit_moves") }.unwrap();
    let both =
        unsafe { misfit_moves(counters.as_ptr()) + misfit_moves(counters[words * 8..].as_ptr()) };
    let sums = Counters::from_bytes(&counters).unwrap();
    assert_eq!(
        (
            sums.misfit_moves,
            (Counters::ALL[0].of)(&sums),
            (Counters::ALL[Counters::ALL.len() - 1].of)(&sums)
        ),
        (both, words as u64, 3 * words as u64 - 2)
    );
    assert_eq!(Counters::from_bytes(&counters[8..]), None);
}

#[test]
fn the_scheduler_has_every_variable() {
    let policy = Policy::find("cfs").unwrap();
    let object = policy.object().unwrap();
    for global in policy.globals(&Machine::find("smp-8").unwrap()) {
        let room = object.global_size(&global.symbol);
        assert!(room >= Some(global.bytes.len()), "{}", global.symbol);
    }
    assert!(
        Counters::from_bytes(&vec![0; object.global_size(Counters::SYMBOL).unwrap()]).is_some()
    );
}

#[test]
fn a_decision_means_the_same_to_c() {
    let library = compile(
        r#"#include <scx/common.bpf.h>
        #include "explain.bpf.h"
        u32 fill(struct explained *e)
        {
            *e = (struct explained){ .at = 1, .decision = DECIDED_found_none, .by = 2, .pid = 3, .cpu = -4,
                                     .numbers = { 5, 6, 7, -8 } };
            return sizeof(*e);
        }
        u32 numbers_of_frequency(void) { return NUMBERS_OF_frequency; }"#,
    );
    let row = |name: &str| {
        let rows = Decision::ALL.iter();
        rows.enumerate().find(|(_, row)| row.name == name).unwrap()
    };
    let mut record = Explained::default();
    let fill: Symbol<unsafe extern "C" fn(*mut Explained) -> u32> =
        unsafe { library.get(b"fill") }.unwrap();
    assert_eq!(
        unsafe { fill(&raw mut record) } as usize,
        size_of::<Explained>()
    );
    let ours = Explained {
        at: 1,
        decision: row("found_none").0 as u32,
        by: 2,
        pid: 3,
        cpu: -4,
        numbers: [5, 6, 7, -8],
    };
    assert_eq!(record, ours);
    let numbers: Symbol<unsafe extern "C" fn() -> u32> =
        unsafe { library.get(b"numbers_of_frequency") }.unwrap();
    assert_eq!(
        unsafe { numbers() } as usize,
        row("frequency").1.numbers.len()
    );
}
