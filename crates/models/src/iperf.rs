//! iperf (2.0): one TCP connection that carries as much as it can in one direction, as by `iperf -c HOST -t 5`.
//!
//! The client writes, or reads, 128 KiB at a time. The kernel's work on the thread's behalf
//! (copying, TCP) is the thread's own time; the network adapter's interrupts are not.

use crate::benchmark::{Benchmark, Model, param};
use machine::Machine;
use machine::input::BadInput;
use workload::{
    Args, Direction, Env, Metric, MetricId, Op, Param, Program, Start, StreamKind, TaskSpec,
};

const PARAMS: &[Param] = &[
    param!(time: S(1_000_000..=3_600_000_000_000) = 10_000_000_000,
        "the duration of the transfer, iperf's -t (default 10s)"),
    param!(receive: Count(0..=1) = 0, "1 to receive instead of transmitting (default 0)"),
    param!(kib: Us(10..=1_000_000) = 10_000,
        "the task's work for a KiB at the reference speed (default 10us, an assumption: a Cortex-A53 copies data \
         and passes it through TCP at 100 MB per second)"),
];

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "iperf",
    description: "iperf: throughput of one TCP connection, transmitting or receiving",
    params: PARAMS,
    metrics: &[Metric::throughput("throughput", "Mbit/s")],
    make: |args| Box::new(Iperf::new(args)),
};

/// The size of iperf's buffer (`-l`), in bytes.
const BUFFER: u64 = 128 << 10;
/// The size of the socket's buffer, in bytes. The value is an assumption close to the result of Linux's autotuning on a
/// local network.
const SOCKET: u64 = 512 << 10;

const THROUGHPUT: MetricId = 0;

struct Iperf {
    time: u64,
    direction: Direction,
    work: u64,
}

impl Iperf {
    fn new(args: &Args) -> Iperf {
        Iperf {
            time: args.get("time"),
            direction: match args.get("receive") {
                0 => Direction::Transmit,
                _ => Direction::Receive,
            },
            work: args.get("kib") * (BUFFER >> 10),
        }
    }
}

impl Model for Iperf {
    fn check(&self, machine: &Machine) -> Result<(), Box<BadInput>> {
        match machine.network {
            Some(_) => Ok(()),
            None => Err(Box::new(BadInput::whole(
                format!(
                    "workload `{}`: {} has no network",
                    BENCHMARK.name, machine.name
                ),
                "expected a machine with a [network] section, such as hikey-6220",
            ))),
        }
    }

    fn start(&self, _machine: &Machine) -> Start {
        let client = Client {
            end: self.time,
            direction: self.direction,
            work: self.work,
            buffers: 0,
        };
        Start {
            tasks: vec![TaskSpec::new("iperf", client)],
            streams: vec![StreamKind::TcpSocket.holding(SOCKET)],
            connections: vec![(0, self.direction)],
            ..Start::default()
        }
    }
}

struct Client {
    end: u64,
    direction: Direction,
    work: u64,
    /// The number of buffers that were written or requested.
    buffers: u64,
}

impl Program for Client {
    fn next(&mut self, env: &mut Env) -> Op {
        if env.now >= self.end {
            let megabits = (self.buffers * BUFFER * 8) as f64 / 1e6;
            env.recorder
                .record(THROUGHPUT, megabits / (env.now as f64 / 1e9));
            return Op::Exit;
        }
        self.buffers += 1;
        let (stream, bytes, work) = (0, BUFFER, self.work);
        match self.direction {
            Direction::Transmit => Op::Write {
                stream,
                bytes,
                work,
            },
            Direction::Receive => Op::Read {
                stream,
                bytes,
                work,
            },
        }
    }
}
