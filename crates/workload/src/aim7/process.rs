//! Processes: what fork, exec and exit do with the areas of memory, and children that users start.

use super::{Setup, around, compute, is_file, mapped};
use crate::{Env, Op, Program};
use std::sync::Arc;

/// Goes through a process's areas of memory, each under its lock.
pub struct Areas {
    next: u32,
}

impl Areas {
    pub const ALL: Areas = Areas { next: 0 };

    pub fn next(&mut self, setup: &Setup, env: &mut Env<'_>) -> Option<Op> {
        if self.next == setup.vmas {
            return None;
        }
        let mutex = mapped(self.next);
        self.next += 1;
        Some(Op::Hold {
            mutex,
            work: around(setup.vma, env),
            spins: is_file(mutex),
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
            areas: Areas::ALL,
            doing: match exec {
                true => Doing::Releases,
                false => Doing::Computes,
            },
        }
    }

    fn goes_on(&mut self, doing: Doing) {
        self.doing = doing;
        self.areas = Areas::ALL;
    }
}

impl Program for Child {
    fn next(&mut self, env: &mut Env<'_>) -> Op {
        if let Doing::Computes = self.doing {
            self.goes_on(Doing::Exits);
            return compute(self.work, env);
        }
        if let Some(op) = self.areas.next(&self.setup, env) {
            return op;
        }
        match self.doing {
            Doing::Releases => {
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
