//! The shares of `scheduler/equipoise`: the lags of a queue, and feasible weights, which are compared with the exact
//! ideal.

use crate::common::compile;
use crate::equipoise_kernel::FOUR_CPUS;
use libloading::{Library, Symbol};
use proptest::prelude::*;

/// Eight entities on one clock.
const FAIR: &str = r#"#include <scx/common.bpf.h>
    #define NSEC_PER_SEC 1000000000ULL
    #include "equipoise/fair.h"
    static struct clock clock_;
    static struct entity entity[8];
    static bool asleep[8];

    void begin(void)
    {
        clock_ = (struct clock){ .now = 1ULL << 63 };
        for (u32 i = 0; i < 8; i++) {
            entity[i] = (struct entity){};
            asleep[i] = true;
        }
    }
    void wakes(u32 i, u64 weight)
    {
        if (asleep[i])
            join(&clock_, &entity[i], weight, come_back(&clock_, &entity[i]));
        asleep[i] = false;
    }
    void sleeps(u32 i)
    {
        if (!asleep[i])
            leave(&clock_, &entity[i], MOST_SERVICE);
        asleep[i] = true;
    }
    void works(u32 i, u64 work)
    {
        if (asleep[i])
            return;
        entity[i].vtime += vtime_for(work, entity[i].weight);
        advance(&clock_, work);
    }
    void weighs(u32 i, u64 weight) { if (!asleep[i]) reweigh(&clock_, &entity[i], weight); }
    void gives(u32 i, s64 lag) { if (!asleep[i]) give(&clock_, &entity[i], lag); }
    void brings(u32 i, s64 lag) { if (!asleep[i]) bring(&clock_, &entity[i], lag); }
    void bounds(u32 i, s64 most) { if (!asleep[i]) bound_lag(&clock_, &entity[i], most); }
    s64 lag(u32 i) { return asleep[i] ? 0 : lag_of(&clock_, &entity[i]); }
    s64 owed(u32 i) { return asleep[i] ? come_back(&clock_, &entity[i]) : lag(i); }
    s64 debts(void) { return weight_of_debtors(&clock_) ? lag_at(&clock_, clock_.debtors_vtime, weight_of_debtors(&clock_)) : 0; }
    s64 weight(void) { return clock_.weight; }
    s64 weights(void)
    {
        s64 sum = weight_of_debtors(&clock_);

        for (u32 i = 0; i < 8; i++)
            sum += entity[i].weight;
        return sum;
    }
    bool before(u64 a, u64 b) { return is_before(a, b); }"#;

const MS: i64 = 1_000_000;
const NICE_0: i64 = 1 << 20;

struct Fair(Library);

impl Fair {
    fn new() -> Fair {
        let fair = Fair(compile(FAIR));
        fair.call("begin", &[]);
        fair
    }

    /// Calls a function of up to two arguments, each of which the ABI passes in a register of its own.
    fn call(&self, what: &str, arguments: &[i64]) -> i64 {
        let function: Symbol<unsafe extern "C" fn(i64, i64) -> i64> =
            unsafe { self.0.get(what.as_bytes()) }.unwrap();
        let argument = |i: usize| arguments.get(i).copied().unwrap_or(0);
        unsafe { function(argument(0), argument(1)) }
    }

    /// The service that all entities on the clock are owed together, in ns.
    fn owed_in_all(&self) -> i64 {
        (0..8).map(|i| self.call("lag", &[i])).sum::<i64>() + self.call("debts", &[])
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Wakes(i64, i64),
    Sleeps(i64),
    Works(i64, i64),
    Weighs(i64, i64),
    Gives(i64, i64),
    Brings(i64, i64),
    Bounds(i64, i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // The weights of nice 19 to -20.
    let weight = || (15i64..88_762).prop_map(|weight| weight << 10);
    let step = prop_oneof![
        (0i64..8, weight()).prop_map(|(i, weight)| Step::Wakes(i, weight)),
        (0i64..8).prop_map(Step::Sleeps),
        (0i64..8, 0i64..MS).prop_map(|(i, work)| Step::Works(i, work)),
        (0i64..8, weight()).prop_map(|(i, weight)| Step::Weighs(i, weight)),
        (0i64..8, -MS..MS).prop_map(|(i, lag)| Step::Gives(i, lag)),
        (0i64..8, -MS..MS).prop_map(|(i, lag)| Step::Brings(i, lag)),
        (0i64..8, 0i64..MS).prop_map(|(i, most)| Step::Bounds(i, most)),
    ];
    proptest::collection::vec(step, 1..200)
}

/// The clock's weight is the sum of the weights of its entities and of the sleepers that still owe time, and the lags
/// of these sum to zero, whatever the entities do.
#[test]
fn the_lags_of_a_queue_sum_to_zero() {
    let fair = Fair::new();
    proptest!(|(steps in steps())| {
        fair.call("begin", &[]);
        let mut off = 10_000;
        for step in steps {
            match step {
                Step::Wakes(i, weight) => fair.call("wakes", &[i, weight]),
                Step::Sleeps(i) => fair.call("sleeps", &[i]),
                Step::Works(i, work) => fair.call("works", &[i, work]),
                Step::Weighs(i, weight) => fair.call("weighs", &[i, weight]),
                Step::Gives(i, lag) => fair.call("gives", &[i, lag]),
                Step::Brings(i, lag) => fair.call("brings", &[i, lag]),
                Step::Bounds(i, most) => fair.call("bounds", &[i, most]),
            };
            prop_assert_eq!(fair.call("weight", &[]), fair.call("weights", &[]));
            // Each step rounds to 1 ns of an entity's virtual time, which is multiplied by its weight here.
            off += 4_000;
            let owed = fair.owed_in_all();
            prop_assert!(owed.abs() <= off, "{} ns after {:?}, {} ns at most", owed, step, off);
        }
    });
}

/// The virtual time that a SCHED_IDLE task owes after 0.8 s, times the weight of nice -20, exceeds 64 bits.
#[test]
fn a_light_and_a_heavy_debtor_owe_what_they_took() {
    let fair = Fair::new();
    for (i, weight) in [(0, 3), (1, 88_761), (2, 88_761)] {
        fair.call("wakes", &[i, weight << 10]);
    }
    fair.call("works", &[0, 800 * MS]);
    fair.call("works", &[1, 1_000 * MS]);
    let lags: i64 = (0..2).map(|i| fair.call("lag", &[i])).sum();
    fair.call("sleeps", &[0]);
    fair.call("sleeps", &[1]);
    let debts = fair.call("debts", &[]);
    assert!((debts - lags).abs() < MS, "{debts} ns, expected {lags}");
}

#[test]
fn a_part_that_moves_takes_its_lag_along() {
    let fair = Fair::new();
    for (i, weight) in [NICE_0, NICE_0, NICE_0 / 2].into_iter().enumerate() {
        fair.call("wakes", &[i as i64, weight]);
    }
    fair.call("brings", &[0, -2 * MS]);
    fair.call("brings", &[1, 2 * MS]);
    let owed: Vec<i64> = (0..3).map(|i| fair.call("lag", &[i])).collect();
    for (owed, expected) in owed.iter().zip([-2 * MS, 2 * MS, 0]) {
        assert!((owed - expected).abs() < 10, "{owed:?}");
    }
}

#[test]
fn what_a_task_is_given_the_others_lose() {
    let fair = Fair::new();
    for (i, weight) in [NICE_0, 3 * NICE_0, NICE_0 / 2].into_iter().enumerate() {
        fair.call("wakes", &[i as i64, weight]);
    }
    fair.call("gives", &[0, 7 * MS]);
    let owed: Vec<i64> = (0..3).map(|i| fair.call("lag", &[i])).collect();
    let near = |i: usize, lag: i64| (owed[i] - lag).abs() < 10;
    assert!(
        near(0, 7 * MS) && near(1, -6 * MS) && near(2, -MS),
        "{owed:?}"
    );
}

/// Two tasks that run in turn, each only while the other sleeps, and a loop that waits: the loop is owed about half of
/// the work that the two do. If sleepers' debts did not count, the loop would be owed nothing and would never run.
#[test]
fn two_tasks_that_run_in_turn_owe_a_loop_its_share() {
    let fair = Fair::new();
    fair.call("wakes", &[0, NICE_0]);
    for turn in 0..1000 {
        let (one, other) = (1 + turn % 2, 2 - turn % 2);
        fair.call("wakes", &[one, NICE_0]);
        fair.call("sleeps", &[other]);
        fair.call("works", &[one, 8_000]);
    }
    let owed = fair.call("lag", &[0]);
    assert!((2 * MS..5 * MS).contains(&owed), "{owed}");
}

#[test]
fn a_lag_survives_a_sleep() {
    let start = || {
        let fair = Fair::new();
        fair.call("wakes", &[0, NICE_0]);
        fair.call("wakes", &[1, NICE_0]);
        fair.call("works", &[0, 4 * MS]);
        fair
    };
    let fair = start();
    fair.call("sleeps", &[1]);
    fair.call("works", &[0, 8 * MS]);
    assert_eq!(fair.call("owed", &[1]), 2 * MS);

    // Task 0 has run 2 ms beyond its share. Its debt falls by half of the work that task 1 does.
    for (work, owed) in [(0, -2 * MS), (2 * MS, -MS), (6 * MS, 0)] {
        let fair = start();
        fair.call("sleeps", &[0]);
        fair.call("works", &[1, work]);
        assert_eq!(fair.call("owed", &[0]), owed, "{work} ns");
    }
}

#[test]
fn what_a_task_is_owed_has_a_bound() {
    let fair = Fair::new();
    fair.call("wakes", &[0, NICE_0]);
    fair.call("wakes", &[1, NICE_0]);
    fair.call("works", &[0, 8 * MS]);
    fair.call("bounds", &[1, 3 * MS]);
    assert_eq!(
        (fair.call("lag", &[0]), fair.call("lag", &[1])),
        (-3 * MS, 3 * MS)
    );
    fair.call("bounds", &[0, 0]);
    assert_eq!(fair.call("lag", &[0]), -3 * MS, "a debt has none");
}

/// Any virtual time, even one that has wrapped, comes before "no task"; "no task" never comes first.
#[test]
fn no_task_comes_last() {
    let library = compile(FAIR);
    let before: Symbol<unsafe extern "C" fn(u64, u64) -> bool> =
        unsafe { library.get(b"before") }.unwrap();
    const NONE: u64 = u64::MAX;
    for (a, b, expected) in [
        (1, 2, true),
        (2, 1, false),
        (2, 2, false),
        (NONE - 5, 5, true),
        (5, NONE - 5, false),
        (1 << 63, NONE, true),
        (5, NONE, true),
        (NONE, 5, false),
        (NONE, NONE, false),
    ] {
        assert_eq!(unsafe { before(a, b) }, expected, "{a}, {b}");
    }
}

/// One cluster, each of whose CPUs runs a task, and may have another task that is bound to the CPU.
const LEVEL: &str = r#"
    volatile struct tunables tunables = { .slice = 3 * MS, .lag = 6 * MS };
    static u64 waiting;
    void begin(u64 cpus)
    {
        equipoise_kernel = &kernel;
        waiting = 0;
        clusters[0] = (struct cluster){ .nr_cpus = cpus, .worth = ~0ULL >> 20 };
        for (u32 cpu = 0; cpu < cpus; cpu++) {
            clusters[0].cpu[cpu] = cpu;
            cpu_states[cpu] = (struct cpu_state){};
        }
    }
    void runs(u64 cpu, u64 weight) { clusters[0].running[cpu] = weight; }
    void waits(u64 weight) { waiting += weight; }
    void is_bound(u64 cpu, u64 weight) { cpu_states[cpu].own.weight = weight; }
    /* The level is an average over time, and the feasible weights follow the level. */
    u64 level(void)
    {
        struct cluster *c = &clusters[0];

        for (u32 i = 0; i < 400; i++) {
            c->clock.weight = waiting;
            for (u32 cpu = 0; cpu < c->nr_cpus; cpu++) {
                cpu_states[cpu].bound.weight = cpu_states[cpu].own.weight < (s64)c->worth ?
                    cpu_states[cpu].own.weight : c->worth;
                c->clock.weight += cpu_states[cpu].bound.weight;
                /* A task that has just begun to run still counts in full. */
                c->counted[cpu] = (i + cpu) % 3 && c->running[cpu] > c->worth ? c->worth : c->running[cpu];
                c->clock.weight += c->counted[cpu];
            }
            find_level(0);
        }
        return c->worth;
    }"#;

/// The weight that is worth a CPU, with `weights` on `cpus` CPUs, found by water-filling, from the heaviest weight
/// down; `running_least` if each task has a CPU to itself.
fn worth(mut weights: Vec<u64>, cpus: u64, running_least: u64) -> u64 {
    weights.sort_unstable_by(|a, b| b.cmp(a));
    let (mut rest, mut left) = (weights.iter().sum::<u64>(), cpus);
    for weight in weights {
        if left == 0 || weight * left <= rest {
            break;
        }
        rest -= weight;
        left -= 1;
    }
    if left == 0 || rest == 0 {
        return running_least;
    }
    rest / left
}

#[test]
fn feasible_weights_are_those_of_the_ideal() {
    let library = compile(&format!("{FOUR_CPUS}{LEVEL}"));
    let call = |what: &str, arguments: [i64; 2]| -> i64 {
        let function: Symbol<unsafe extern "C" fn(i64, i64) -> i64> =
            unsafe { library.get(what.as_bytes()) }.unwrap();
        unsafe { function(arguments[0], arguments[1]) }
    };
    let weight = || (15u64..88_762).prop_map(|weight| weight << 10);
    let cpus = proptest::collection::vec((weight(), proptest::option::of(weight())), 2..24);
    let waiting = proptest::collection::vec(0.0f64..1.0, 0..40);
    proptest!(|(cpus in cpus, waiting in waiting)| {
        call("begin", [cpus.len() as i64, 0]);
        let mut weights = Vec::new();
        for (cpu, &(running, bound)) in cpus.iter().enumerate() {
            call("runs", [cpu as i64, running as i64]);
            weights.push(running);
            if let Some(bound) = bound {
                call("is_bound", [cpu as i64, bound as i64]);
                weights.push(bound);
            }
        }
        // Only running tasks can be worth a CPU, so waiting tasks are lighter.
        let least = *weights.iter().min().unwrap();
        for part in waiting {
            let weight = ((part * least as f64) as u64).max(1);
            call("waits", [weight as i64, 0]);
            weights.push(weight);
        }
        let expected = worth(weights, cpus.len() as u64, least);
        let found = call("level", [0, 0]) as u64;
        prop_assert!(found.abs_diff(expected) <= expected / 100 + 16, "{} for {}", found, expected);
    });
}
