//! A shell that runs one command after the other, as in `configure` and in the sequential parts of `make`: each command
//! is a chain of processes that fork, load a program and wait for each other.
//!
//! The chain is that of a compiler's driver: the shell forks the driver and waits; the driver forks the compiler,
//! waits, and does the next part itself. One or two processes are thus runnable at a time, each for a short time, and a
//! child begins just before its parent waits.

use crate::benchmark::{Benchmark, Model, params};
use machine::Machine;
use workload::{Better, Env, Goal, Metric, MetricId, Op, Program, Role, Start, TaskSpec, Unit};

params! {
    struct Setup {
        commands: Count(1..=1_000_000) = 200, "commands that the shell runs (default 200)";
        depth: Count(1..=10) = 2,
            "processes of a command, each the parent of the next (default 2: a driver and a compiler)";
        shell: Us(0..=10_000_000_000) = 500_000,
            "the shell's work between two commands, at the reference speed (default 500 us, an assumption)";
        least: Us(1_000..=10_000_000_000) = 1_000_000,
            "the minimum work of a process, at the reference speed (default 1 ms, an assumption)";
        most: Us(1_000..=10_000_000_000) = 10_000_000,
            "the maximum work of a process, which is random between least and most (default 10 ms, an assumption)";
    }
}

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "fork-chain",
    description: "a shell's commands one after the other, as in configure: processes that fork and wait",
    params: Setup::PARAMS,
    metrics: &[
        Metric::makespan("time"),
        Metric::new(
            "cpus",
            Unit::Count,
            Better::Neither,
            Role::Explains(Goal::Throughput),
        ),
    ],
    make: |args| Box::new(Setup::new(args)),
};

const TIME: MetricId = 0;
/// The number of different CPUs on which processes began within each [`WINDOW`].
const CPUS: MetricId = 1;
const WINDOW: u64 = 300_000_000;

/// The work of fork(2), and the work of execve(2), in ns at the reference speed. Both values are assumptions.
const FORK_WORK: u64 = 100_000;
const EXEC_WORK: u64 = 300_000;

/// The shared words: the time at which the window began; the number of CPUs; then for each CPU whether a process has
/// begun on it in the window.
const SINCE: usize = 0;
const NR_CPUS: usize = 1;
const SEEN: usize = 2;

impl Setup {
    fn process(self, depth: u64) -> Op {
        let process = Process {
            setup: self,
            depth,
            at: At::Exec,
            work: 0,
        };
        Op::Fork {
            child: Box::new(TaskSpec::new("command", process)),
            work: FORK_WORK,
        }
    }
}

impl Model for Setup {
    fn start(&self, machine: &Machine) -> Start {
        let shell = Shell {
            setup: *self,
            left: self.commands,
            at: AtShell::Think,
        };
        let mut shared = vec![0; SEEN + machine.cpus.len()];
        shared[NR_CPUS] = machine.cpus.len() as u64;
        Start {
            tasks: vec![TaskSpec::new("shell", shell)],
            shared,
            ..Start::default()
        }
    }
}

enum AtShell {
    Think,
    Fork,
    Wait,
}

struct Shell {
    setup: Setup,
    left: u64,
    at: AtShell,
}

impl Program for Shell {
    fn next(&mut self, env: &mut Env) -> Op {
        match self.at {
            AtShell::Think if self.left == 0 => {
                env.recorder.record(TIME, env.now as f64 / 1e9);
                Op::Exit
            }
            AtShell::Think => {
                self.left -= 1;
                self.at = AtShell::Fork;
                Op::Run {
                    work: self.setup.shell.max(1),
                }
            }
            AtShell::Fork => {
                self.at = AtShell::Wait;
                self.setup.process(1)
            }
            AtShell::Wait => {
                self.at = AtShell::Think;
                Op::WaitChildren
            }
        }
    }
}

enum At {
    Exec,
    First,
    Fork,
    Wait,
    Second,
    Gone,
}

struct Process {
    setup: Setup,
    /// The process's place in the chain, from 1.
    depth: u64,
    at: At,
    work: u64,
}

impl Process {
    fn count(&self, env: &mut Env) {
        if env.now - env.shared[SINCE] >= WINDOW {
            let mut seen = 0;
            for word in SEEN..SEEN + env.shared[NR_CPUS] as usize {
                seen += std::mem::take(&mut env.shared[word]);
            }
            env.recorder.record(CPUS, seen as f64);
            env.shared[SINCE] = env.now;
        }
        env.shared[SEEN + env.cpu] = 1;
    }
}

impl Program for Process {
    fn next(&mut self, env: &mut Env) -> Op {
        let setup = self.setup;
        let half = Op::Run {
            work: (self.work / 2).max(1),
        };
        let (at, op) = match self.at {
            At::Exec => {
                self.count(env);
                self.work = setup.least + env.rng.below(setup.most.saturating_sub(setup.least) + 1);
                (At::First, Op::Exec { work: EXEC_WORK })
            }
            At::First => (At::Fork, half),
            At::Fork if self.depth < setup.depth => (At::Wait, setup.process(self.depth + 1)),
            At::Wait => (At::Second, Op::WaitChildren),
            At::Fork | At::Second => (At::Gone, half),
            At::Gone => (At::Gone, Op::Exit),
        };
        self.at = at;
        op
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::run_named;

    #[test]
    fn commands_follow_each_other() {
        let kernel = run_named("fork-chain:commands=10,depth=3,least=2ms,most=2ms", 4);
        assert!(kernel.left().is_empty());
        let time = kernel.recorder.samples(TIME)[0];
        let best = 10.0 * (0.5 + 3.0 * (2.0 + 0.1 + 0.3)) / 1e3;
        assert!((best..best * 1.05).contains(&time), "{time} {best}");
    }
}
