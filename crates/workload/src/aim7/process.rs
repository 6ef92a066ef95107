//! Processes: what fork, exec and exit do with the areas of memory, and children that users start.

use super::subtests::Call;
use super::{Setup, around, compute, lines, mapped};
use crate::{Env, KernelLock, Op, Program};
use std::sync::Arc;

/// Files that processes map: the users' program, libm, libc, ld.so, and the program that children start.
const FILES: u32 = 5;
const PROGRAM: u32 = 0;
const STARTED: u32 = 4;

/// Their locks, then those of the anonymous memory that users have from their parent.
pub const LOCKS: u32 = FILES + 9;

/// Under which locks the areas of a user's memory are, in the order of addresses, as RHEL 6 maps a program with
/// two libraries: text and data; heap; of each library text, a gap, relocated data and data; libc's bss, two
/// mappings of the loader's; and the stack. What a file maps and the process has written to is under both, and
/// neighbours of one file share their anonymous memory's (`find_mergeable_anon_vma()`).
pub const AREAS: [u32; 25] = [
    PROGRAM, PROGRAM, 5, 6, 1, 1, 1, 7, 1, 7, 2, 2, 2, 8, 2, 8, 9, 10, 3, 11, 3, 12, 3, 12, 13,
];

/// Goes through a process's areas of memory, each under its lock.
pub struct Areas {
    next: usize,
    /// Those of another program than the users', whose anonymous memory is nobody else's.
    own: bool,
}

impl Areas {
    /// Of a user, or a child of one.
    pub const FORKED: Areas = Areas::of(false);
    /// Of a program that was started.
    const STARTED: Areas = Areas::of(true);

    const fn of(own: bool) -> Areas {
        Areas { next: 0, own }
    }

    pub fn next(&mut self, setup: &Setup, env: &mut Env) -> Option<Op> {
        let (own, left) = (self.own, &AREAS[self.next..]);
        let skipped = left.iter().position(|&lock| !own || lock < FILES)?;
        let lock = match left[skipped] {
            PROGRAM if own => STARTED,
            lock => lock,
        };
        self.next += skipped + 1;
        Some(Op::Hold {
            mutex: mapped(lock),
            work: around(setup.vma, env),
            lines: lines(Call::Fork),
            kind: match lock < FILES {
                true => KernelLock::Mutex,
                false => KernelLock::Rwsem,
            },
            keeps: false,
        })
    }
}

/// A child process: perhaps starts another program, computes and exits.
pub struct Child {
    setup: Arc<Setup>,
    /// ns
    work: u64,
    areas: Areas,
    doing: Doing,
}

enum Doing {
    /// Gives up the areas of its parent's program.
    Releases,
    /// And maps those of its own.
    Maps,
    Computes,
    Exits,
}

impl Child {
    pub fn new(setup: &Arc<Setup>, work: u64, exec: bool) -> Child {
        Child {
            setup: setup.clone(),
            work,
            areas: Areas::FORKED,
            doing: match exec {
                true => Doing::Releases,
                false => Doing::Computes,
            },
        }
    }

    fn goes_on(&mut self, doing: Doing) {
        self.doing = doing;
        self.areas.next = 0;
    }
}

impl Program for Child {
    fn next(&mut self, env: &mut Env) -> Op {
        if let Doing::Computes = self.doing {
            self.goes_on(Doing::Exits);
            return compute(self.work, env);
        }
        if let Some(op) = self.areas.next(&self.setup, env) {
            return op;
        }
        match self.doing {
            Doing::Releases => {
                self.areas = Areas::STARTED;
                self.goes_on(Doing::Maps);
                Op::Exec { work: 0 }
            }
            Doing::Maps => {
                self.goes_on(Doing::Exits);
                compute(self.work, env)
            }
            Doing::Computes | Doing::Exits => Op::Exit,
        }
    }
}
