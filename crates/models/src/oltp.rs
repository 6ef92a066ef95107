//! Clients of a database, as in sysbench's `oltp_read_only` and `oltp_read_write`.
//!
//! A transaction is a sequence of statements (`oltp_common.lua`, with its defaults): `BEGIN`, ten selects of a row,
//! four of 100 rows, `COMMIT`. `oltp_read_write` has two updates, a delete and an insert before `COMMIT`. For each
//! statement the client sends a request to its connection's thread in the database and waits for the reply. A
//! transaction that has written is over when the log is on the disk. The log has a lock, whose holder also writes the
//! records of the commits that wait for the lock (group commit).
//!
//! Locks of rows and reads from the disk are not modelled. Network hardware is not, either, because both programs run
//! on one machine.

use crate::benchmark::{Benchmark, Model, param};
use machine::Machine;
use workload::{
    Args, Better, Env, Goal, Metric, MetricId, MutexId, Op, Param, Program, Role, Start, StreamId,
    StreamKind, TaskSpec, Unit,
};

const PARAMS: &[Param] = &[
    param!(threads: Count(1..=4096) = 16,
        "clients, each with a thread in the database; sysbench's --threads (default 16; the program's is 1)"),
    param!(client_work: Us(0..=1_000_000_000) = 15_000,
        "a client's work for a statement and its reply; an assumption (default 15 us)"),
    param!(row_work: Us(0..=1_000_000_000) = 50_000,
        "the database's work for a select of one row, BEGIN or COMMIT; an assumption (default 50 us)"),
    param!(range_work: Us(0..=1_000_000_000) = 150_000,
        "the database's work for a select of 100 rows, sysbench's --range-size; an assumption (default 150 us)"),
    param!(write_work: Us(0..=1_000_000_000) = 80_000,
        "the database's work for an update, a delete or an insert; an assumption (default 80 us)"),
    param!(flush: Us(0..=1_000_000_000) = 100_000,
        "the wait for the disk when the log is written; an assumption, for a flash disk (default 100 us)"),
    param!(time: S(1_000_000..=3_600_000_000_000) = 2_000_000_000,
        "the time after which no transaction begins (default 2 s; sysbench's is 10 s)"),
];

const METRICS: &[Metric] = &[
    Metric::throughput("transactions", "1/s"),
    Metric::new(
        "latency",
        Unit::Us,
        Better::Lower,
        Role::Decides(Goal::Latency),
    ),
];

pub(crate) const READ_ONLY: Benchmark = Benchmark {
    name: "oltp-read-only",
    description: "sysbench oltp_read_only: clients that send a database's selects one by one",
    params: PARAMS,
    metrics: METRICS,
    make: |args| Box::new(Setup::new(args, false)),
};

pub(crate) const READ_WRITE: Benchmark = Benchmark {
    name: "oltp-read-write",
    description: "sysbench oltp_read_write: clients that send selects and updates, and commits that wait for a log",
    params: PARAMS,
    metrics: METRICS,
    make: |args| Box::new(Setup::new(args, true)),
};

const TRANSACTIONS: MetricId = 0;
const LATENCY: MetricId = 1;

/// The capacity of a connection in each direction, and the sizes of a request and of a reply, in bytes.
const SOCKET: u64 = 64 << 10;
const REQUEST: u64 = 60;
const REPLY: u64 = 200;

const LOG: MutexId = 0;

/// The shared words: the numbers of transactions so far, of commits whose records are in the log, of commits whose
/// records are on the disk, and of clients that have not left; then, for each client, whether it has left.
const DONE: usize = 0;
const LOGGED: usize = 1;
const FLUSHED: usize = 2;
const CLIENTS: usize = 3;
const LEFT: usize = 4;

#[derive(Clone, Copy, PartialEq)]
enum Statement {
    Row,
    Range,
    Write,
    Commit,
}

#[derive(Clone, Copy)]
struct Setup {
    threads: u64,
    client_work: u64,
    row_work: u64,
    range_work: u64,
    write_work: u64,
    flush: u64,
    time: u64,
    writes: bool,
}

impl Setup {
    fn new(args: &Args, writes: bool) -> Setup {
        Setup {
            threads: args.get("threads"),
            client_work: args.get("client_work"),
            row_work: args.get("row_work"),
            range_work: args.get("range_work"),
            write_work: args.get("write_work"),
            flush: args.get("flush"),
            time: args.get("time"),
            writes,
        }
    }

    fn statements(&self) -> u64 {
        if self.writes { 20 } else { 16 }
    }

    /// Statement `nr` of a transaction. `BEGIN` takes as long as the select of a row.
    fn statement(&self, nr: u64) -> Statement {
        match nr {
            0..=10 => Statement::Row,
            11..=14 => Statement::Range,
            _ if nr + 1 == self.statements() => Statement::Commit,
            _ => Statement::Write,
        }
    }
}

impl Model for Setup {
    fn start(&self, _machine: &Machine) -> Start {
        let connection = |nr: usize| {
            let client = Client {
                setup: *self,
                nr,
                statement: 0,
                began: 0,
                step: ClientStep::Send,
            };
            let server = Server {
                setup: *self,
                nr,
                statement: 0,
                logged: 0,
                step: ServerStep::Receive,
            };
            [
                TaskSpec::new("database", server),
                TaskSpec::new("client", client),
            ]
        };
        let threads = self.threads as usize;
        let mut shared = vec![0; LEFT + threads];
        shared[CLIENTS] = self.threads;
        Start {
            tasks: (0..threads).flat_map(connection).collect(),
            mutexes: 1,
            streams: vec![StreamKind::UnixSocket.holding(SOCKET); 2 * threads],
            shared,
            ..Start::default()
        }
    }
}

/// The streams of connection `nr`: requests and replies.
fn streams(nr: usize) -> (StreamId, StreamId) {
    let requests = 2 * nr as StreamId;
    (requests, requests + 1)
}

enum ClientStep {
    Send,
    Receive,
    Received,
    Exit,
}

struct Client {
    setup: Setup,
    nr: usize,
    /// The next statement of the transaction.
    statement: u64,
    /// The time at which the transaction began, in ns.
    began: u64,
    step: ClientStep,
}

impl Program for Client {
    fn next(&mut self, env: &mut Env) -> Op {
        let (requests, replies) = streams(self.nr);
        loop {
            match self.step {
                ClientStep::Send if self.statement == 0 && env.now >= self.setup.time => {
                    env.shared[LEFT + self.nr] = 1;
                    env.shared[CLIENTS] -= 1;
                    if env.shared[CLIENTS] == 0 {
                        let seconds = env.now as f64 / 1e9;
                        let transactions = env.shared[DONE] as f64 / seconds;
                        env.recorder.record(TRANSACTIONS, transactions);
                    }
                    self.step = ClientStep::Exit;
                    return Op::Write {
                        stream: requests,
                        bytes: REQUEST,
                        work: 0,
                    };
                }
                ClientStep::Send => {
                    if self.statement == 0 {
                        self.began = env.now;
                    }
                    self.step = ClientStep::Receive;
                    return Op::Write {
                        stream: requests,
                        bytes: REQUEST,
                        work: self.setup.client_work / 2,
                    };
                }
                ClientStep::Receive => {
                    self.step = ClientStep::Received;
                    return Op::Read {
                        stream: replies,
                        bytes: REPLY,
                        work: self.setup.client_work / 2,
                    };
                }
                ClientStep::Received => {
                    self.statement += 1;
                    if self.statement == self.setup.statements() {
                        self.statement = 0;
                        env.shared[DONE] += 1;
                        let latency = (env.now - self.began) as f64 / 1e3;
                        env.recorder.record(LATENCY, latency);
                    }
                    self.step = ClientStep::Send;
                }
                ClientStep::Exit => return Op::Exit,
            }
        }
    }
}

enum ServerStep {
    Receive,
    Work,
    /// The first of the steps after a commit's record is in the log: the thread takes the log's lock, has it, has
    /// written the log, and releases the lock.
    Commit,
    Locked,
    Written(u64),
    Reply,
}

/// The database's thread for a connection.
struct Server {
    setup: Setup,
    nr: usize,
    /// The next statement of the transaction.
    statement: u64,
    /// The number of the connection's last commit in the log.
    logged: u64,
    step: ServerStep,
}

impl Program for Server {
    fn next(&mut self, env: &mut Env) -> Op {
        let (requests, replies) = streams(self.nr);
        loop {
            match self.step {
                ServerStep::Receive => {
                    self.step = ServerStep::Work;
                    return Op::Read {
                        stream: requests,
                        bytes: REQUEST,
                        work: 0,
                    };
                }
                ServerStep::Work if env.shared[LEFT + self.nr] != 0 => return Op::Exit,
                ServerStep::Work => {
                    let statement = self.setup.statement(self.statement);
                    self.statement = (self.statement + 1) % self.setup.statements();
                    self.step = match statement {
                        Statement::Commit if self.setup.writes => ServerStep::Commit,
                        _ => ServerStep::Reply,
                    };
                    return Op::Run {
                        work: match statement {
                            Statement::Row | Statement::Commit => self.setup.row_work,
                            Statement::Range => self.setup.range_work,
                            Statement::Write => self.setup.write_work,
                        },
                    };
                }
                ServerStep::Commit => {
                    env.shared[LOGGED] += 1;
                    self.logged = env.shared[LOGGED];
                    self.step = ServerStep::Locked;
                    return Op::Lock(LOG);
                }
                // An earlier holder of the lock has written this commit's record, too.
                ServerStep::Locked if env.shared[FLUSHED] >= self.logged => {
                    self.step = ServerStep::Reply;
                    return Op::Unlock(LOG);
                }
                ServerStep::Locked => {
                    self.step = ServerStep::Written(env.shared[LOGGED]);
                    return Op::Sleep {
                        ns: self.setup.flush,
                    };
                }
                ServerStep::Written(last) => {
                    env.shared[FLUSHED] = last;
                    self.step = ServerStep::Locked;
                }
                ServerStep::Reply => {
                    self.step = ServerStep::Receive;
                    return Op::Write {
                        stream: replies,
                        bytes: REPLY,
                        work: 0,
                    };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::run_named;

    fn run(workload: &str, cpus: usize) -> (f64, Vec<f64>) {
        let kernel = run_named(workload, cpus);
        assert!(kernel.left().is_empty(), "{:?}", kernel.left());
        let transactions = kernel.recorder.samples(TRANSACTIONS);
        assert_eq!(transactions.len(), 1);
        (transactions[0], kernel.recorder.samples(LATENCY).to_vec())
    }

    /// A transaction has 16 statements. Of these, 12 take 50 us and four take 150 us in the database; each takes 15 us
    /// in the client.
    #[test]
    fn a_client_alone_waits_for_each_statement() {
        let (transactions, latencies) = run("oltp-read-only:threads=1,time=1", 2);
        let expected = 12.0 * 50.0 + 4.0 * 150.0 + 16.0 * 15.0;
        assert!(
            (transactions * expected / 1e6 - 1.0).abs() < 0.01,
            "{transactions}"
        );
        assert!(
            latencies
                .iter()
                .all(|us| (us / expected - 1.0).abs() < 0.01)
        );
    }

    /// A transaction that writes has four more statements of 80 us, and the write of the log.
    #[test]
    fn writes_add_their_work_and_the_wait_for_the_log() {
        let of = |workload: &str| {
            let (_, latencies) = run(&format!("{workload}:threads=1,flush=1000,time=1"), 2);
            latencies.iter().sum::<f64>() / latencies.len() as f64
        };
        let more = of("oltp-read-write") - of("oltp-read-only");
        // The timer of the simulated wait has up to 50 us of slack.
        let expected = 4.0 * (80.0 + 15.0) + 1000.0;
        assert!((expected - 10.0..expected + 60.0).contains(&more), "{more}");
    }

    #[test]
    fn a_write_of_the_log_is_for_all_commits_that_wait() {
        let (transactions, _) = run("oltp-read-write:threads=32,flush=10000,time=2", 64);
        assert!(transactions > 5.0 * 100.0, "{transactions}");
    }

    #[test]
    fn two_cpus_limit_many_clients() {
        let (transactions, _) = run("oltp-read-only:threads=16,time=1", 2);
        let work = 12.0 * 50.0 + 4.0 * 150.0 + 16.0 * 15.0;
        assert!(
            (transactions * work / 2e6 - 1.0).abs() < 0.02,
            "{transactions}"
        );
    }
}
