//! The fair class of Linux 6.12 and 7.3, as the policies `eevdf-6.12` and `eevdf` imitate it.

use crate::support::*;
use machine::Machine;
use workload::{Op, SchedPolicy, Start, TaskSpec};

fn busy(name: &str) -> TaskSpec {
    task(name, (0..4000).map(|_| run_for(1)))
}

/// A running thread whose nice value rises stops (`prio_changed_fair()`). A thread that alternated between nice 19 and
/// 0 had a CPU to itself for seconds.
#[test]
fn a_thread_whose_nice_value_rises_makes_room() {
    let workload = Script(|| {
        let nice = |nice| Op::SetPolicy(SchedPolicy::Normal { nice, slice_ns: 0 });
        let half = || Op::Run { work: MS / 2 };
        let flips = (0..4000).flat_map(move |_| [nice(19), half(), nice(0), half()]);
        Start {
            tasks: vec![task("flips", flips), busy("a"), busy("b")],
            duration_ns: Some(2000 * MS),
            ..Start::default()
        }
    });
    for policy in ["eevdf", "eevdf-6.12"] {
        let window = 0..2000 * MS;
        let got = cpu_time_under(policy, &machine(1), &workload, 1, 60_000 * MS, window).unwrap();
        assert!(got["a"] > 900 * MS, "{policy}: {got:?}");
        assert!(got["b"] > 900 * MS, "{policy}: {got:?}");
    }
}

/// Loops that may use only one slow CPU do not keep a misfit loop on another slow CPU: the balancer that finds them
/// bound looks at the next CPU, whose only task it moves actively. The other loops did 0.54 of the work.
#[test]
fn bound_loops_do_not_hide_a_misfit_loop() {
    let workload = Script(|| {
        let bound = (0..2).map(|i| bound(&format!("bound {i}"), 0, (0..500).map(|_| run_for(1))));
        let free = (0..4).map(|i| task(&format!("free {i}"), (0..1000).map(|_| run_for(1))));
        Start {
            tasks: bound.chain(free).collect(),
            ..Start::default()
        }
    });
    let machine = Machine::find("rk3588").unwrap();
    for policy in ["eevdf", "eevdf-6.12"] {
        let mut trace = Recording::default();
        simulate(&machine, policy, &workload, 1, &mut trace);
        for (name, at) in trace.ends() {
            assert!(
                !name.starts_with("free") || at < 1200 * MS,
                "{policy}: {name} ends at {at} ns"
            );
        }
    }
}
