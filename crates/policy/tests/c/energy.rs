//! Placement by energy, on the tables of an ODROID-XU3 with the power of Cortex-A15 and A7.

use crate::common;
use libloading::{Library, Symbol};
use machine::{CorePower, Machine};
use policy::Decision;
use std::ops::Range;

const A7: Range<u32> = 0..4;
const A15: Range<u32> = 4..8;

const CODE: &str = r#"#define EQUIPOISE_EXPLAINS
#include <scx/common.bpf.h>
#include "linux/eevdf/main.bpf.c"
const volatile struct policy policy = { .frequency = true };
const volatile struct machine machine = { .tick_ns = 5000000, .nr_cpus = 8, .asymmetric = 1, .nr_energy_domains = 2 };
static struct rq rqs[8];
static struct equipoise_map map;
static struct cpumask all = {};
static struct task_struct task = { .pid = 1, .cpus_ptr = &all };
static struct fair_entity entity;
/* The last recorded decision. */
u32 decided;
s64 numbers[EXPLAINED_NUMBERS];
static void record(void *k, u32 decision, s32 pid, s32 cpu, const s64 *recorded)
{
	decided = decision;
	__builtin_memcpy(numbers, recorded, sizeof(numbers));
}
static struct equipoise_kernel kernel = { .nr_cpu_ids = 8, .rqs = rqs, .explain = record };

void set_util(u32 cpu, u64 util)
{
	equipoise_kernel = &kernel;
	rq_of(cpu)->avg.util_avg = util;
}

/* The CPU for a task of @util that was on @prev_cpu. */
s32 ask(u64 util, u32 prev_cpu)
{
	s32 found;

	equipoise_kernel = &kernel;
	__builtin_memset(&all, 0xff, sizeof(all));
	*(struct equipoise_map **)&entities = &map;
	task.equipoise_storage[0] = &entity;
	entity.avg.util_avg = entity.avg.runnable_avg = util;
	/* A sleeping task still counts on its last CPU. */
	rq_of(prev_cpu)->avg.util_avg += util;
	found = find_energy_efficient_cpu(&task, prev_cpu);
	rq_of(prev_cpu)->avg.util_avg -= util;
	return found;
}

bool overutilized(u32 cpu) { return cpu_overutilized(cpu); }
u64 cost(u32 domain, u32 state) { return energy_states[energy_domains[domain].first_state + state].cost; }
u32 nr_states(u32 domain) { return energy_domains[domain].nr_states; }
"#;

struct Scheduler(Library);

impl Scheduler {
    fn new() -> Scheduler {
        let mut machine = Machine::find("odroid-xu3").unwrap();
        for core in &mut machine.core_types {
            core.power = Some(CorePower {
                dynamic_mw: if core.name == "cortex-a15" {
                    1_500
                } else {
                    250
                },
                smt_dynamic: 1 << 20,
                static_mw: 0,
            });
        }
        Scheduler(common::compile_with_tables_of(CODE, "eevdf", &machine))
    }

    c_fns! {
        fn set_util(cpu: u32, util: u64);
        fn overutilized(cpu: u32) -> bool;
    }

    fn ask(&self, util: u64, prev_cpu: u32) -> u32 {
        let ask: Symbol<unsafe extern "C" fn(u64, u32) -> i32> =
            unsafe { self.0.get(b"ask") }.unwrap();
        u32::try_from(unsafe { ask(util, prev_cpu) }).unwrap()
    }

    /// The name and the numbers of the decision about a task of `util` that was on `prev_cpu`.
    fn why(&self, util: u64, prev_cpu: u32) -> (&'static str, [i64; 4]) {
        self.ask(util, prev_cpu);
        let decided: Symbol<*const u32> = unsafe { self.0.get(b"decided") }.unwrap();
        let numbers: Symbol<*const [i64; 4]> = unsafe { self.0.get(b"numbers") }.unwrap();
        let decision = Decision::find(unsafe { **decided }).unwrap();
        (decision.name, unsafe { **numbers })
    }

    fn number(&self, name: &str, domain: u32, state: u32) -> u64 {
        let number: Symbol<unsafe extern "C" fn(u32, u32) -> u64> =
            unsafe { self.0.get(name.as_bytes()) }.unwrap();
        unsafe { number(domain, state) }
    }
}

#[test]
fn costs_rise_with_frequency() {
    let scheduler = Scheduler::new();
    let states: Vec<u64> = [0, 1]
        .map(|domain| scheduler.number("nr_states", domain, 0) & 0xffff_ffff)
        .to_vec();
    // Seven A15 frequencies at 0.9 V cost the same: the highest of them suffices.
    assert!(states.iter().all(|&states| states > 3), "{states:?}");
    for (domain, &states) in states.iter().enumerate() {
        let costs: Vec<u64> = (0..states as u32)
            .map(|state| scheduler.number("cost", domain as u32, state))
            .collect();
        assert!(costs.windows(2).all(|pair| pair[0] < pair[1]), "{costs:?}");
    }
}

#[test]
fn light_tasks_go_to_slow_cpus_and_heavy_ones_do_not_fit_there() {
    let scheduler = Scheduler::new();
    assert!(A7.contains(&scheduler.ask(100, 4)));
    assert!(A15.contains(&scheduler.ask(600, 0)));
    // A task fits up to four fifths of a CPU's capacity. An A7 has a capacity of 377.
    assert!(A15.contains(&scheduler.ask(320, 0)));
}

#[test]
fn a_task_goes_where_there_is_most_room() {
    let scheduler = Scheduler::new();
    assert_eq!(scheduler.ask(50, 2), 2);
    for cpu in A7 {
        scheduler.set_util(cpu, 200 - 20 * u64::from(cpu));
    }
    assert_eq!(scheduler.ask(50, 4), 3);
    // None of these CPUs has room for the task.
    for cpu in A7 {
        scheduler.set_util(cpu, 290);
    }
    assert!(A15.contains(&scheduler.ask(50, 4)));
}

#[test]
fn the_reason_names_the_costs_on_the_chosen_cpu_and_on_the_other() {
    let scheduler = Scheduler::new();
    let (moves, [util, cheap, prev, dear]) = scheduler.why(100, 4);
    assert_eq!((moves, util, prev), ("least_energy", 100, 4));
    assert!(0 < cheap && cheap < dear, "{cheap} {dear}");
    let (stays, [_, here, other, there]) = scheduler.why(100, 1);
    assert_eq!((stays, here), ("least_energy_stays", cheap));
    assert!(other != 1 && here <= there, "{other}: {here} {there}");
    // The other A7s have no room for the task, so the cost on an A15 is recorded.
    for cpu in A7.filter(|&cpu| cpu != 1) {
        scheduler.set_util(cpu, 290);
    }
    let (stays, [_, here, other, there]) = scheduler.why(100, 1);
    assert_eq!(stays, "least_energy_stays");
    assert!(A15.contains(&(other as u32)) && here < there);
    // CPU 0 is too slow for the task, so there is no cost on CPU 0.
    let (moves, [.., there]) = scheduler.why(320, 0);
    assert_eq!((moves, there), ("least_energy", -1));
    for cpu in A15.skip(1) {
        scheduler.set_util(cpu, 900);
    }
    assert_eq!(scheduler.why(320, 4).0, "fits_nowhere_else");
    scheduler.set_util(4, 900);
    assert_eq!(scheduler.why(320, 0).0, "fits_nowhere_else");
}

#[test]
fn a_cpu_whose_tasks_do_not_fit_it_is_overutilized() {
    let scheduler = Scheduler::new();
    for (util, expected) in [(290, false), (305, true)] {
        scheduler.set_util(0, util);
        assert_eq!(scheduler.overutilized(0), expected, "{util}");
    }
}
