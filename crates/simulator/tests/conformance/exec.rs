//! `execve(2)`: a tracepoint reports this call to a scheduler, and `scheduler/linux/cfs` then places the task again.

use crate::support::{MS, Script, bound, machine, run_for, task};
use machine::CpuMask;
use native::Object;
use policy::Policy;
use simulator::{Check, Config, Event, Trace};
use workload::Op;

/// The CPUs and times of `execs`'s moves, in ns.
#[derive(Default)]
struct Moves(Vec<(u64, usize)>);

impl Trace for Moves {
    fn event(&mut self, now: u64, _cpu: usize, event: Event<'_>) {
        if let Event::Migrate {
            task: (name, _),
            to,
            ..
        } = event
            && name == "execs"
        {
            self.0.push((now, to));
        }
    }
}

/// The moves of a task that shares CPU 0 with another task and that may then run on both CPUs.
fn moves(policy: &str, exec: bool) -> Vec<(u64, usize)> {
    let machine = machine(2);
    let workload = Script(move || {
        let next = if exec {
            Op::Exec { work: MS }
        } else {
            run_for(1)
        };
        let free = Op::SetAffinity(Box::new(CpuMask::first_n(2)));
        workload::Start {
            tasks: vec![
                bound("spins", 0, [run_for(50)]),
                workload::TaskSpec {
                    affinity: Some(CpuMask::one(0)),
                    ..task("execs", [run_for(1), free, next])
                },
            ],
            ..workload::Start::default()
        }
    });
    let mut moves = Moves::default();
    let globals = Policy::find(policy).unwrap().globals(&machine);
    let config = Config {
        time_limit_ns: 1000 * MS,
        trace: Some(&mut moves),
        ..Config::new(&machine, &workload, Object::own("cfs").unwrap(), &globals)
    };
    simulator::run_checked(config, Check::INVARIANTS).unwrap_or_else(|error| panic!("{error}"));
    moves.0
}

#[test]
fn a_task_that_starts_a_program_goes_to_the_idlest_cpu() {
    for policy in ["cfs", "cfs-pelt", "powersaving"] {
        let with = moves(policy, true);
        let without = moves(policy, false);
        assert!(with.iter().any(|&(_, to)| to == 1), "{policy}: {with:?}");
        // Load balancing cannot have moved it, because that would have come later, if at all.
        assert!(
            without.first().is_none_or(|first| with[0] < *first),
            "{policy}: {with:?}, {without:?}"
        );
    }
}
