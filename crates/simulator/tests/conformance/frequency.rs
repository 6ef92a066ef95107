//! cpufreq: requests of a scheduler, their effects and times; and the time of interrupts.

use crate::support::*;
use machine::{Cpufreq, Machine, Opp};
use workload::Op;

/// Frequencies of 500 and 1000 MHz that all CPUs share; a change takes 100 us, and at least 1 ms passes between two
/// changes.
fn scaling(cpus: usize) -> Machine {
    let mut machine = machine(cpus);
    let opp = |khz| Opp {
        khz,
        microvolt: None,
    };
    machine.core_types[0].opps = vec![opp(500_000), opp(1_000_000)];
    machine.cpufreq = Some(Cpufreq {
        policies: vec![machine.all_cpus()],
        transition_latency_ns: 100_000,
        rate_limit_ns: 1_000_000,
        governor: Default::default(),
        ramp: None,
    });
    machine
}

/// A scheduler that, whenever a task begins to run, records the frequency of CPU 0 and then requests `perf` for CPU 0
/// and 0 for CPU 1.
fn asking(perf: u32) -> native::Object {
    let text = format!(
        "{FIFO}
        void BPF_STRUCT_OPS(f_running, struct task_struct *p)
        {{
            note(\"cur\", p, scx_bpf_cpuperf_cur(0));
            scx_bpf_cpuperf_set(0, {perf});
            scx_bpf_cpuperf_set(1, 0);
        }}"
    );
    asking_anywhere(&text)
}

/// A scheduler whose `f_running()` requests the frequencies of both CPUs, which Linux 7.3 does not allow.
fn asking_anywhere(text: &str) -> native::Object {
    let ops = "FIFO_OPS, .running = (void *)f_running";
    scheduler_in(native::Kernel::V6_12, text, ops).unwrap()
}

#[test]
fn work_takes_twice_as_long_at_half_the_frequency() {
    let workload = tasks(|| [bound("a", 0, [sleep_for(5), run_for(10)])]);
    let (ran, recording) = record(&scaling(2), &workload, &asking(512));
    // The first request comes too early for the governor; the next one comes with the wakeup.
    assert_eq!(ran.numbers("cur"), [1024, 1024]);
    assert_eq!(ran.outcome.counters.frequency_transitions, 1);
    assert!(
        recording
            .text
            .contains("5100000 1 CpuFrequency { khz: 500000 }")
    );
    // The task runs at full speed for 100 us until the change, and then at half speed.
    let expected = 5 * MS + 100_000 + 2 * (10 * MS - 100_000);
    assert!(ran.outcome.simulated_ns.abs_diff(expected) <= 1);
}

#[test]
fn the_slowest_frequency_that_is_enough_is_taken_and_the_rate_limit_kept() {
    let wakes = || {
        let mut ops = Vec::new();
        for _ in 0..4 {
            ops.extend([Op::Sleep { ns: 2 * MS }, Op::Run { work: MS }]);
        }
        ops
    };
    let workload = tasks(move || [bound("a", 0, wakes())]);
    let half = run(&scaling(2), &workload, &asking(512));
    assert_eq!(half.outcome.counters.frequency_transitions, 1);
    let more = run(&scaling(2), &workload, &asking(513));
    assert_eq!(more.outcome.counters.frequency_transitions, 0);
    // The frequency goes up and down in turn, each time at least 1 ms after the last change.
    let text = format!(
        "{FIFO}
        u32 turn;
        void BPF_STRUCT_OPS(f_running, struct task_struct *p)
        {{
            scx_bpf_cpuperf_set(1, 0);
            scx_bpf_cpuperf_set(0, turn++ & 1 ? 1024 : 0);
        }}"
    );
    let turns = asking_anywhere(&text);
    let short = |us: u64| {
        move || {
            let mut ops = vec![sleep_for(2)];
            for _ in 0..40 {
                ops.extend([Op::Sleep { ns: us * 1000 }, Op::Run { work: 1000 }]);
            }
            [bound("a", 0, ops)]
        }
    };
    let transitions = |us| {
        run(&scaling(2), &tasks(short(us)), &turns)
            .outcome
            .counters
            .frequency_transitions
    };
    let (seldom, often) = (transitions(2000), transitions(200));
    assert!(seldom >= 40, "{seldom}");
    assert!((4..=10).contains(&often), "{often}");
}

#[test]
fn a_machine_of_one_speed_takes_requests_and_ignores_them() {
    let workload = tasks(|| [bound("a", 0, [run_for(10)])]);
    let ran = run(&machine(2), &workload, &asking(100));
    assert_eq!(ran.outcome.simulated_ns, 10 * MS);
    assert_eq!(ran.outcome.counters.frequency_transitions, 0);
}

#[test]
fn kernel_code_is_as_slow_as_the_cpu() {
    let switching = |perf| {
        let mut machine = scaling(2);
        machine.core_types[0].costs.context_switch_ns = 50_000;
        let workload = tasks(|| [bound("a", 0, [sleep_for(5), Op::RunFor { ns: 1000 }])]);
        run(&machine, &workload, &asking(perf))
            .outcome
            .counters
            .overhead_ns[0]
    };
    assert_eq!(switching(1024), 2 * 50_000);
    // The frequency changes 100 us after the second switch has begun, which is over by then.
    assert_eq!(switching(0), 2 * 50_000);
}

#[test]
fn the_clock_of_tasks_stands_still_in_interrupts() {
    let text = format!(
        "{FIFO}
        void BPF_STRUCT_OPS(c_tick, struct task_struct *p)
        {{
            note(\"irq\", p, scx_clock_irq(scx_bpf_task_cpu(p)));
        }}"
    );
    let scheduler = scheduler(&text, "FIFO_OPS, .tick = (void *)c_tick");
    let mut machine = machine(1);
    machine.core_types[0].costs.tick_ns = 100_000;
    let workload = tasks(|| [bound("a", 0, [run_for(18)])]);
    let ran = run(&machine, &workload, &scheduler);
    // The time of the current tick does not count yet.
    let irq = ran.numbers("irq");
    assert!(irq.len() >= 4, "{irq:?}");
    assert!(
        irq.windows(2).all(|two| two[1] - two[0] == 100_000),
        "{irq:?}"
    );
    assert_eq!(ran.outcome.counters.irq_ns[0], (irq.len() * 100_000) as u64);

    // A kernel without CONFIG_IRQ_TIME_ACCOUNTING has one clock.
    machine.irq_time_in_tasks = true;
    let without = run(&machine, &workload, &scheduler);
    let irq = without.numbers("irq");
    assert!(irq.len() >= 4 && irq.iter().all(|&ns| ns == 0), "{irq:?}");
    assert_eq!(without.outcome.counters.irq_ns, ran.outcome.counters.irq_ns);
}
