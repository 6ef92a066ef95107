//! ext4's journal: a thread for each file system that commits transactions on request, for all
//! writers until then.

use super::{WORDS as BEFORE, compute};
use crate::{Env, Op, Program, StreamId};

/// For each file system: the stream for requests, and those on which writers wait, in turn for odd
/// and even transactions.
pub const STREAMS: usize = 3;
/// For each file system: the number of the open transaction, and the number of waiters for its
/// commit.
pub const WORDS: usize = 2;

fn requests(filesystem: u32) -> StreamId {
    1 + 3 * filesystem
}

fn commits(filesystem: u32, transaction: u64) -> StreamId {
    2 + 3 * filesystem + (transaction & 1) as u32
}

fn open(filesystem: u32) -> usize {
    BEFORE + 2 * filesystem as usize
}

fn writers(filesystem: u32) -> usize {
    BEFORE + 2 * filesystem as usize + 1
}

/// A writer's commit of its data: it requests one, then waits.
pub fn sync(filesystem: u32, env: &mut Env) -> [Op; 2] {
    env.shared[writers(filesystem)] += 1;
    let wait = Op::Read {
        stream: commits(filesystem, env.shared[open(filesystem)]),
        bytes: 1,
        work: 0,
    };
    [stop(filesystem), wait]
}

/// Wakes the journal, which exits if there is no request.
pub fn stop(filesystem: u32) -> Op {
    Op::Write {
        stream: requests(filesystem),
        bytes: 1,
        work: 0,
    }
}

pub struct Journal {
    filesystem: u32,
    /// The work of a commit, ns.
    commit: u64,
    doing: Doing,
}

enum Doing {
    /// Waits for a request.
    Idle,
    /// Has received a request.
    Asked,
    /// Takes the requests of the others.
    Begins { writers: u64, transaction: u64 },
    /// Writes the transaction.
    Commits { writers: u64, transaction: u64 },
}

impl Journal {
    pub fn new(filesystem: u32, commit: u64) -> Journal {
        Journal {
            filesystem,
            commit,
            doing: Doing::Idle,
        }
    }
}

impl Program for Journal {
    fn next(&mut self, env: &mut Env) -> Op {
        let filesystem = self.filesystem;
        match std::mem::replace(&mut self.doing, Doing::Idle) {
            Doing::Idle => {
                self.doing = Doing::Asked;
                Op::Read {
                    stream: requests(filesystem),
                    bytes: 1,
                    work: 0,
                }
            }
            Doing::Asked => {
                let writers = std::mem::take(&mut env.shared[writers(filesystem)]);
                let Some(others) = writers.checked_sub(1) else {
                    return Op::Exit;
                };
                let transaction = env.shared[open(filesystem)];
                env.shared[open(filesystem)] += 1;
                self.doing = Doing::Begins {
                    writers,
                    transaction,
                };
                Op::Read {
                    stream: requests(filesystem),
                    bytes: others,
                    work: 0,
                }
            }
            Doing::Begins {
                writers,
                transaction,
            } => {
                self.doing = Doing::Commits {
                    writers,
                    transaction,
                };
                compute(self.commit, env)
            }
            Doing::Commits {
                writers,
                transaction,
            } => Op::Write {
                stream: commits(filesystem, transaction),
                bytes: writers,
                work: 0,
            },
        }
    }
}
