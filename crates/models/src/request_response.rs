//! Clients and servers in pairs, one request and its reply at a time: netperf's TCP_RR and tbench over
//! loopback TCP, and UnixBench's and perf's pipes.
//!
//! A client writes a request, its server reads the request and writes a reply, and the client reads the reply and
//! begins again, for a given time. The result is the total number of requests per second. For netperf and tbench, the
//! model follows netperf 2.4's `nettest_bsd.c` (`send_tcp_rr()`), and tbench 4's `sockio.c` and `tbench_srv.c`. In
//! both, each client has a server process of its own.

use crate::benchmark::{Benchmark, Model, param};
use machine::Machine;
use workload::{Args, Env, Metric, MetricId, Op, Program, Start, StreamId, StreamKind, TaskSpec};

/// The parameters, with these defaults and this source of the two works.
macro_rules! pairs {
    ($pairs:literal, $request:literal, $reply:literal, $client:literal, $server:literal, $from:literal) => {
        &[
            param!(pairs: Count(1..=10_000) = $pairs, concat!("clients, each with a server (default ", $pairs, ")")),
            param!(request: Count(1..=SOCKET) = $request, concat!("bytes of a request (default ", $request, ")")),
            param!(reply: Count(1..=SOCKET) = $reply, concat!("bytes of a reply (default ", $reply, ")")),
            param!(client_work: Us(0..=1_000_000_000) = $client,
                concat!("a client's work for a request and its reply; ", $from)),
            param!(server_work: Us(0..=1_000_000_000) = $server,
                concat!("a server's work for a request and its reply; ", $from)),
            param!(time: S(1_000_000..=3_600_000_000_000) = 2_000_000_000,
                "the duration (default 2 s; the programs' own defaults are 10 and 600 s)"),
        ]
    };
}

const METRICS: &[Metric] = &[Metric::throughput("throughput", "1/s")];

pub(crate) const NETPERF: Benchmark = Benchmark {
    name: "netperf",
    description: "netperf TCP_RR over loopback: pairs of processes that pass a byte back and forth",
    params: pairs!(
        16,
        1,
        1,
        6_000,
        6_000,
        "a send and a receive through the TCP stack, an assumption of 3 us each"
    ),
    metrics: METRICS,
    make: |args| Box::new(Setup::new(args, StreamKind::TcpSocket)),
};

pub(crate) const TBENCH: Benchmark = Benchmark {
    name: "tbench",
    description: "tbench: the network half of a file server's load, over loopback",
    params: pairs!(
        16,
        120,
        1_000,
        12_000,
        15_000,
        "as for netperf, plus the work to pack or unpack the packet; an assumption"
    ),
    metrics: METRICS,
    make: |args| Box::new(Setup::new(args, StreamKind::TcpSocket)),
};

/// UnixBench's `context1.c`: two processes pass a counter of four bytes back and forth through two
/// pipes. `perf bench sched pipe` does the same with one pair.
pub(crate) const PIPE: Benchmark = Benchmark {
    name: "pipe",
    description: "pipe-based context switching, as in UnixBench and perf bench: pairs pass a word back and forth",
    params: pairs!(
        1,
        4,
        4,
        1_000,
        1_000,
        "a write and a read of a pipe, an assumption of 0.5 us each"
    ),
    metrics: METRICS,
    make: |args| Box::new(Setup::new(args, StreamKind::Pipe)),
};

/// The size of the socket's buffer, in bytes. (It is 16 KiB at first by net.ipv4.tcp_wmem, and grows.)
const SOCKET: u64 = 64 << 10;
/// The memory that each process uses between two switches, in bytes. As in hackbench, this is the size of packet
/// buffers and little else, which is an assumption.
const FOOTPRINT: u64 = 4 << 10;
/// The work of fork(2) and of a process's start, in ns at the reference speed. As in hackbench, the value is an
/// assumption.
const FORK_WORK: u64 = 100_000;

const THROUGHPUT: MetricId = 0;
/// The shared words: the number of replies so far; whether the time is over; then, for each pair, whether its client
/// has left.
const REPLIES: usize = 0;
const ENOUGH: usize = 1;
const GONE: usize = 2;

#[derive(Clone, Copy)]
struct Setup {
    pairs: u64,
    request: u64,
    reply: u64,
    client_work: u64,
    server_work: u64,
    time: u64,
    connection: StreamKind,
}

impl Setup {
    fn new(args: &Args, connection: StreamKind) -> Setup {
        Setup {
            connection,
            pairs: args.get("pairs"),
            request: args.get("request"),
            reply: args.get("reply"),
            client_work: args.get("client_work"),
            server_work: args.get("server_work"),
            time: args.get("time"),
        }
    }
}

impl Model for Setup {
    fn start(&self, _machine: &Machine) -> Start {
        let parent = Parent {
            setup: *self,
            created: 0,
            began: None,
        };
        Start {
            tasks: vec![TaskSpec::new("parent", parent)],
            streams: vec![self.connection.holding(SOCKET); 2 * self.pairs as usize],
            shared: vec![0; GONE + self.pairs as usize],
            ..Start::default()
        }
    }
}

struct Parent {
    setup: Setup,
    created: u64,
    /// The time, in ns, at which all processes had started, and the number of replies at that time.
    began: Option<(u64, u64)>,
}

impl Program for Parent {
    fn next(&mut self, env: &mut Env) -> Op {
        if self.created < 2 * self.setup.pairs {
            let (pair, client) = ((self.created / 2) as usize, self.created % 2 == 1);
            self.created += 1;
            let (name, step) = match client {
                true => ("client", Step::Request),
                false => ("server", Step::Await),
            };
            let role = Role {
                setup: self.setup,
                pair,
                step,
            };
            return Op::Fork {
                child: Box::new(TaskSpec {
                    footprint: FOOTPRINT,
                    ..TaskSpec::new(name, role)
                }),
                work: FORK_WORK,
            };
        }
        match self.began {
            None => {
                self.began = Some((env.now, env.shared[REPLIES]));
                Op::SleepUntil {
                    at: env.now + self.setup.time,
                }
            }
            Some((began, before)) => {
                let seconds = (env.now - began) as f64 / 1e9;
                let replies = env.shared[REPLIES] - before;
                env.recorder.record(THROUGHPUT, replies as f64 / seconds);
                env.shared[ENOUGH] = 1;
                Op::Exit
            }
        }
    }
}

struct Role {
    setup: Setup,
    pair: usize,
    step: Step,
}

#[derive(Clone, Copy)]
enum Step {
    /// The first of the client's steps: it writes a request, reads the reply, and has read it.
    Request,
    Receive,
    Received,
    /// The client has announced its end to its server.
    Left,
    /// The first of the server's steps: it reads a request, has read it, and writes the reply.
    Await,
    Reply,
}

impl Program for Role {
    fn next(&mut self, env: &mut Env) -> Op {
        let Setup {
            request,
            reply,
            client_work,
            server_work,
            ..
        } = self.setup;
        let requests = 2 * self.pair as StreamId;
        let replies = requests + 1;
        if let Step::Received = self.step {
            env.shared[REPLIES] += 1;
            self.step = Step::Request;
        }
        let (next, op) = match self.step {
            Step::Request if env.shared[ENOUGH] != 0 => {
                env.shared[GONE + self.pair] = 1;
                let op = Op::Write {
                    stream: requests,
                    bytes: request,
                    work: 0,
                };
                (Step::Left, op)
            }
            Step::Request | Step::Received => {
                let op = Op::Write {
                    stream: requests,
                    bytes: request,
                    work: client_work / 2,
                };
                (Step::Receive, op)
            }
            Step::Receive => {
                let op = Op::Read {
                    stream: replies,
                    bytes: reply,
                    work: client_work / 2,
                };
                (Step::Received, op)
            }
            Step::Left => (Step::Left, Op::Exit),
            Step::Await => {
                let op = Op::Read {
                    stream: requests,
                    bytes: request,
                    work: server_work / 2,
                };
                (Step::Reply, op)
            }
            Step::Reply if env.shared[GONE + self.pair] != 0 => (Step::Reply, Op::Exit),
            Step::Reply => {
                let op = Op::Write {
                    stream: replies,
                    bytes: reply,
                    work: server_work / 2,
                };
                (Step::Await, op)
            }
        };
        self.step = next;
        op
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::run_named;

    fn rate(workload: &str, cpus: usize) -> f64 {
        let kernel = run_named(workload, cpus);
        let samples = kernel.recorder.samples(THROUGHPUT);
        assert_eq!(samples.len(), 1);
        samples[0]
    }

    #[test]
    fn a_pair_takes_turns() {
        // A request takes 10 us of the client and 30 us of the server, one after the other.
        let one = "pairs=1,client_work=10,server_work=30,time=1";
        for name in ["netperf", "tbench", "pipe"] {
            let rate = rate(&format!("{name}:{one}"), 8);
            assert!((rate / 25_000.0 - 1.0).abs() < 0.01, "{name}: {rate}");
        }
    }

    #[test]
    fn pairs_share_cpus_and_no_more() {
        let works = "client_work=10,server_work=30,time=1";
        let four = rate(&format!("netperf:pairs=4,{works}"), 2);
        assert!((four / 50_000.0 - 1.0).abs() < 0.02, "{four}");
    }
}
