//! A user, which does its jobs one after another.

use super::process::{self, Areas, Child};
use super::spinlocks::{self, Lock};
use super::subtests::{self, Call, Subtest};
use super::{
    BIN, CWD, DONE, ENOUGH, SET_UP_WORK, START, Setup, around, compute, journal, lines, root, tree,
};
use crate::{Env, KernelLock, MutexId, Op, Program, TaskSpec};
use std::sync::Arc;

pub struct User {
    setup: Arc<Setup>,
    /// The remaining jobs, by subtest.
    jobs: Box<[u32]>,
    /// The current job, once begun.
    job: Job,
    began: bool,
    doing: Doing,
}

/// The rest of a job: calls of each kind, and the work before each of them, ns.
struct Job {
    subtest: &'static Subtest,
    calls: [u32; subtests::MOST_CALLS],
    work: u64,
    filesystem: u32,
}

enum Doing {
    SetsUp,
    /// Waits for the other users.
    Waits,
    /// Is between two calls.
    Works,
    /// Has computed the work before a call.
    Calls(Call),
    /// Copies the areas of its memory for a child.
    Forks(Areas, Call),
    Joins,
    /// Has to take spinlocks, in this directory if there is one, this many of them before the
    /// directory's mutex is released.
    Spins(&'static [Lock], MutexId, Option<usize>),
    /// Has requested a commit, and has to wait for it.
    Syncs(Op),
}

/// `whole / part`, rounded randomly so that the mean is exact.
fn share(whole: u64, part: u64, env: &mut Env) -> u64 {
    (whole + env.rng.below(part)) / part
}

impl Job {
    fn new(subtest: &'static Subtest, setup: &Setup, env: &mut Env) -> Job {
        let mut calls = [0; subtests::MOST_CALLS];
        for (left, &(_, count)) in calls.iter_mut().zip(subtest.calls) {
            *left = share(count.into(), setup.part, env) as u32;
        }
        let busy = subtest
            .calls
            .iter()
            .filter(|(call, _)| *call != Call::Sleep);
        let whole: u32 = busy.map(|(_, count)| count).sum();
        Job {
            subtest,
            calls,
            work: subtest.work_ns() / u64::from(whole.max(1)),
            filesystem: env.rng.below(setup.filesystems.into()) as u32,
        }
    }

    /// The next call, drawn evenly from the remaining ones.
    fn call(&mut self, env: &mut Env) -> Option<Call> {
        let left: u32 = self.calls.iter().sum();
        if left == 0 {
            return None;
        }
        let mut drawn = env.rng.below(left.into()) as u32;
        let kinds = self.subtest.calls.iter().map(|&(call, _)| call);
        for (left, call) in self.calls.iter_mut().zip(kinds) {
            if drawn < *left {
                *left -= 1;
                return Some(call);
            }
            drawn -= *left;
        }
        unreachable!("what was drawn is less than the sum")
    }
}

/// All jobs of a user, by subtest.
fn all_jobs(setup: &Setup) -> Box<[u32]> {
    setup.subtests.iter().map(|&(_, jobs)| jobs).collect()
}

impl User {
    pub fn new(setup: &Arc<Setup>) -> User {
        User {
            setup: setup.clone(),
            jobs: all_jobs(setup),
            job: Job {
                subtest: setup.subtests[0].0,
                calls: [0; subtests::MOST_CALLS],
                work: 0,
                filesystem: 0,
            },
            began: false,
            doing: Doing::SetsUp,
        }
    }

    /// Draws the subtest of the next job, evenly among those with remaining jobs, as AIM7 does.
    fn draw(&mut self, env: &mut Env) -> &'static Subtest {
        if self.jobs.iter().all(|&jobs| jobs == 0) {
            self.jobs = all_jobs(&self.setup);
        }
        let left = self.jobs.iter().filter(|&&jobs| jobs > 0).count();
        let drawn = env.rng.below(left as u64) as usize;
        let mut with_jobs = (0..self.jobs.len()).filter(|&index| self.jobs[index] > 0);
        let index = with_jobs.nth(drawn).expect("one of those that are left");
        self.jobs[index] -= 1;
        self.setup.subtests[index].0
    }

    /// Continues the job, or begins the next.
    fn work(&mut self, env: &mut Env) -> Op {
        loop {
            if let Some(call) = self.job.call(env) {
                let work = match call {
                    // A third of it is the parent's, as measured.
                    Call::Fork | Call::Script | Call::System => self.job.work / 3,
                    Call::Sleep => 0,
                    _ => self.job.work,
                };
                self.doing = Doing::Calls(call);
                return compute(work.saturating_sub(self.setup.locked(call)), env);
            }
            self.doing = Doing::Works;
            env.shared[DONE] += u64::from(std::mem::replace(&mut self.began, true));
            if env.shared[ENOUGH] > 0 {
                return Op::Exit;
            }
            let subtest = self.draw(env);
            self.job = Job::new(subtest, &self.setup, env);
            // A subtest without relevant calls computes.
            if subtest.calls.is_empty() {
                return compute(self.job.work / self.setup.part, env);
            }
        }
    }

    fn call(&mut self, call: Call, env: &mut Env) -> Op {
        let filesystem = self.job.filesystem;
        let mutex = match call {
            Call::Entry | Call::Link | Call::Open => root(filesystem),
            Call::Search => tree(filesystem),
            Call::Fifo => CWD,
            Call::List => BIN,
            Call::Fork | Call::Script | Call::System => return self.fork(Areas::COPIED, call, env),
            Call::Sync => {
                let [ask, wait] = journal::sync(filesystem, env);
                self.doing = Doing::Syncs(wait);
                return ask;
            }
            Call::Sleep => {
                return Op::Sleep {
                    ns: subtests::SLEEP_NS / self.setup.part,
                };
            }
        };
        // Creations and removals are equally frequent.
        let creates = spinlocks::inside(call) > 0 && env.rng.below(2) > 0;
        let inside = creates.then(|| spinlocks::inside(call));
        self.doing = Doing::Spins(spinlocks::of(call), mutex, inside);
        Op::Hold {
            mutex,
            work: around(self.setup.hold(call), env),
            lines: lines(call),
            nodes: 0,
            kind: KernelLock::Mutex,
            keeps: creates,
            if_locked: false,
        }
    }

    fn fork(&mut self, mut areas: Areas, call: Call, env: &mut Env) -> Op {
        if let Some(op) = areas.next(&self.setup, env) {
            self.doing = Doing::Forks(areas, call);
            return op;
        }
        let rest = (self.job.work * 2 / 3).saturating_sub(self.setup.locked(call));
        let acts = match call {
            Call::Script => process::SCRIPT,
            Call::System => process::SYSTEM,
            _ => process::FORK,
        };
        let child = Child::new(&self.setup, rest, acts);
        self.doing = Doing::Joins;
        Op::Fork {
            child: Box::new(TaskSpec::new("child", child)),
            work: 0,
        }
    }
}

impl Program for User {
    fn next(&mut self, env: &mut Env) -> Op {
        match std::mem::replace(&mut self.doing, Doing::Works) {
            Doing::SetsUp => {
                self.doing = Doing::Waits;
                Op::Run { work: SET_UP_WORK }
            }
            Doing::Waits => Op::Read {
                stream: START,
                bytes: 1,
                work: 0,
            },
            Doing::Works => self.work(env),
            Doing::Calls(call) => self.call(call, env),
            Doing::Forks(areas, call) => self.fork(areas, call, env),
            Doing::Joins => {
                self.doing = Doing::Spins(spinlocks::of(Call::Fork), BIN, None);
                Op::Join
            }
            Doing::Spins(locks, directory, Some(0)) => {
                self.doing = Doing::Spins(locks, directory, None);
                Op::Release(directory)
            }
            Doing::Spins([], ..) => self.work(env),
            Doing::Spins([lock, rest @ ..], directory, inside) => {
                self.doing = Doing::Spins(rest, directory, inside.map(|left| left - 1));
                spinlocks::hold(*lock, directory, &self.setup, env)
            }
            Doing::Syncs(wait) => wait,
        }
    }
}
