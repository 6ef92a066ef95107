//! hackbench: groups of processes, in which every sender writes to every receiver over a Unix stream
//! socket.
//!
//! The model follows rt-tests' `hackbench.c` in its default mode (processes, socket pairs). The parent creates the
//! groups, receivers first; a child reports by one byte that it is ready, and waits to be woken. When all children are
//! ready, the clock starts and the parent wakes them. A sender writes a message to each receiver of its group in turn,
//! `loops` times; the senders of a group share the sending end of a receiver's socket. The clock stops when all
//! children have been reaped.

use crate::benchmark::{Benchmark, Model, params};
use machine::Machine;
use workload::{Env, Metric, MetricId, Op, Program, Start, StreamId, StreamKind, TaskSpec};

/// The memory that a child uses between two switches, in bytes: the child's buffer and stack, and in the kernel another
/// stack, a socket and a message. The size is an assumption.
const FOOTPRINT: u64 = 4 << 10;

params! {
    struct Setup {
        groups: Count(1..=1000) = 10, "hackbench's --groups (default 10)";
        fds: Count(1..=1000) = 20,
            "the number of senders, and of receivers, in a group; hackbench's --fds (default 20)";
        loops: Count(1..=1_000_000) = 100,
            "messages from each sender to each receiver; hackbench's --loops (default 100)";
        datasize: Count(1..=100_000) = 100, "bytes of a message; hackbench's --datasize (default 100)";
        write_work: Us(0..=1_000_000_000) = 9_200,
            "work of one write(2) at the reference speed; with read_work calibrated on a run of the default \
             settings in 3.55 s on two Cortex-A15 of ARM's TC2 (17.7 us per message, including switches)";
        read_work: Us(0..=1_000_000_000) = 8_100, "work of one read(2) at the reference speed; see write_work";
        buffer: Count(1..=1_000_000) = 278,
            "messages that a socket holds; Linux charges the whole sk_buff, 768 bytes for messages of up to 192, \
             to the socket's send buffer (net.core.wmem_default, 212992 bytes); the same number was counted on \
             x86-64";
    }
}

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "hackbench",
    description: "hackbench: groups of senders and receivers over Unix stream sockets",
    params: Setup::PARAMS,
    metrics: &[Metric::makespan("time")],
    make: |args| Box::new(Setup::new(args)),
};

/// The work of `fork(2)` of a small process, in ns at the reference speed. The value is an assumption, but has no
/// effect on the result, because the clock starts later.
const FORK_WORK: u64 = 100_000;

const TIME: MetricId = 0;

/// The stream into which a child writes a byte when it is ready.
const READY: StreamId = 0;
/// The stream into which the parent writes a byte for each child. (hackbench writes one byte, which wakes all pollers
/// and is never read; one byte for each child has the same effect.)
const WAKE: StreamId = 1;
/// The first receiver's socket.
const FIRST_SOCKET: StreamId = 2;

impl Setup {
    fn children(&self) -> u64 {
        self.groups * self.fds * 2
    }
}

impl Model for Setup {
    fn start(&self, _machine: &Machine) -> Start {
        let setup = *self;
        let mut streams = vec![
            StreamKind::Pipe.holding(setup.buffer),
            StreamKind::Pipe.holding(setup.children()),
        ];
        let socket = StreamKind::UnixSocket.holding(setup.buffer * setup.datasize);
        streams.extend(vec![socket; (setup.groups * setup.fds) as usize]);
        let parent = Parent {
            step: Step::Create,
            setup,
            created: 0,
            ready: 0,
            started: 0,
        };
        Start {
            tasks: vec![TaskSpec::new("hackbench", parent)],
            streams,
            ..Start::default()
        }
    }
}

enum Step {
    Create,
    AwaitReady,
    Join,
    Report,
}

struct Parent {
    step: Step,
    setup: Setup,
    created: u64,
    ready: u64,
    started: u64,
}

impl Parent {
    /// The next child, whose number is `created`. In each group the receivers come first, then the senders.
    fn child(&self) -> TaskSpec {
        let setup = self.setup;
        let (group, member) = (
            self.created / (setup.fds * 2),
            self.created % (setup.fds * 2),
        );
        let first = FIRST_SOCKET + (group * setup.fds) as StreamId;
        let role = if member < setup.fds {
            Role::Receiver {
                socket: first + member as StreamId,
                left: setup.fds * setup.loops,
            }
        } else {
            Role::Sender {
                first,
                sent: 0,
                total: setup.fds * setup.loops,
            }
        };
        let child = Child {
            step: ChildStep::SayReady,
            role,
            setup,
        };
        TaskSpec {
            footprint: FOOTPRINT,
            ..TaskSpec::new("hackbench", child)
        }
    }
}

impl Program for Parent {
    fn next(&mut self, env: &mut Env) -> Op {
        loop {
            match self.step {
                Step::Create if self.created < self.setup.children() => {
                    let child = Box::new(self.child());
                    self.created += 1;
                    return Op::Fork {
                        child,
                        work: FORK_WORK,
                    };
                }
                Step::Create => self.step = Step::AwaitReady,
                Step::AwaitReady if self.ready < self.setup.children() => {
                    self.ready += 1;
                    return Op::Read {
                        stream: READY,
                        bytes: 1,
                        work: self.setup.read_work,
                    };
                }
                Step::AwaitReady => {
                    self.step = Step::Join;
                    self.started = env.now;
                    return Op::Write {
                        stream: WAKE,
                        bytes: self.setup.children(),
                        work: self.setup.write_work,
                    };
                }
                Step::Join => {
                    self.step = Step::Report;
                    return Op::WaitChildren;
                }
                Step::Report => {
                    let seconds = (env.now - self.started) as f64 / 1e9;
                    env.recorder.record(TIME, seconds);
                    return Op::Exit;
                }
            }
        }
    }
}

enum ChildStep {
    SayReady,
    AwaitWake,
    Messages,
}

enum Role {
    Sender {
        first: StreamId,
        sent: u64,
        total: u64,
    },
    Receiver {
        socket: StreamId,
        left: u64,
    },
}

struct Child {
    step: ChildStep,
    role: Role,
    setup: Setup,
}

impl Program for Child {
    fn next(&mut self, _env: &mut Env) -> Op {
        let setup = &self.setup;
        match self.step {
            ChildStep::SayReady => {
                self.step = ChildStep::AwaitWake;
                Op::Write {
                    stream: READY,
                    bytes: 1,
                    work: setup.write_work,
                }
            }
            ChildStep::AwaitWake => {
                self.step = ChildStep::Messages;
                Op::Read {
                    stream: WAKE,
                    bytes: 1,
                    work: 0,
                }
            }
            ChildStep::Messages => match &mut self.role {
                Role::Sender { sent, total, .. } if sent == total => Op::Exit,
                Role::Sender { first, sent, .. } => {
                    let stream = *first + (*sent % setup.fds) as StreamId;
                    *sent += 1;
                    Op::Write {
                        stream,
                        bytes: setup.datasize,
                        work: setup.write_work,
                    }
                }
                Role::Receiver { left: 0, .. } => Op::Exit,
                Role::Receiver { socket, left } => {
                    *left -= 1;
                    Op::Read {
                        stream: *socket,
                        bytes: setup.datasize,
                        work: setup.read_work,
                    }
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Kernel, run_named};

    fn run(params: &str) -> Kernel {
        run_named(&format!("hackbench:{params}"), 2)
    }

    #[test]
    fn every_message_is_sent_and_received() {
        let kernel = run("groups=2,fds=3,loops=5");
        // There are 2 groups x 3 senders x 3 receivers x 5 messages, and the ready bytes of 12 children and one write
        // that wakes them.
        assert_eq!(kernel.writes, 2 * 3 * 3 * 5 + 12 + 1);
        assert_eq!(kernel.reads, 2 * 3 * 3 * 5 + 12 + 12);
        assert_eq!(kernel.recorder.samples(TIME).len(), 1);
        assert!(kernel.streams.iter().all(|&(_, level)| level == 0));
    }

    #[test]
    fn a_full_socket_stops_the_sender() {
        let kernel = run("groups=1,fds=2,loops=50,buffer=2");
        assert!(kernel.fullest_stream <= 200);
        assert_eq!(kernel.recorder.samples(TIME).len(), 1);
    }

    #[test]
    fn time_is_work_over_cpus_when_nothing_else_costs() {
        let kernel = run("groups=4,fds=4,loops=20,write_work=8us,read_work=7us");
        let messages = 4.0 * 4.0 * 4.0 * 20.0;
        let best = messages * 15e-6 / 2.0;
        let time = kernel.recorder.samples(TIME)[0];
        assert!(time >= best && time < best * 1.1, "{time} {best}");
    }
}
