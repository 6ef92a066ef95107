//! A user, which does its jobs one after another.

use super::journal::{Handle, credits};
use super::process::{self, Areas, Child};
use super::spinlocks::{self, Lock};
use super::subtests::{self, Call, Subtest};
use super::{
    BIN, CWD, READY, SET_UP_WORK, START, Setup, around, compute, journal, lines, root, tree,
};
use std::sync::Arc;
use workload::{Env, KernelLock, MutexId, Op, Program, TaskSpec};

pub struct User {
    setup: Arc<Setup>,
    /// The remaining jobs, by subtest.
    jobs: Box<[u32]>,
    /// The file systems, by subtest, and the number of the next file system to use.
    filesystems: Box<[Option<u32>]>,
    next: Option<u32>,
    /// The current job, once it has begun.
    job: Job,
    state: UserState,
}

/// The rest of a job: calls of each kind, and the work before each of them, in ns.
struct Job {
    subtest: &'static Subtest,
    calls: [u32; subtests::MOST_CALLS],
    work: u64,
    filesystem: u32,
}

enum UserState {
    SetsUp,
    /// The user tells the parent that it is ready.
    Tells,
    /// The user waits for the other users.
    Waits,
    /// The user is between two calls.
    Works,
    /// The user has computed the work before a call.
    Calls(Call),
    /// The user copies the areas of its memory for a child.
    Forks(Areas, Call),
    Joins,
    /// The user has a directory's mutex, and has this work to do, in ns, in a handle of this many blocks.
    Holds(DirectoryCall, u64, Option<u64>),
    /// The user is about to do this work on the directory, in ns.
    Runs(DirectoryCall, u64),
    /// The user starts a handle of the file system's journal.
    Begins(Handle, Purpose),
    /// The user works on a directory.
    Changes(DirectoryCall),
    /// The user has to release the directory.
    Releases(DirectoryCall),
    /// The user has written, and has to request a commit.
    Asks,
    /// The user has requested a commit, and has to wait for it.
    Syncs(Op),
}

enum Purpose {
    /// The handle changes a directory, which takes this work, in ns.
    Changes(DirectoryCall, u64),
    Syncs,
    /// The handle writes or frees an inode.
    Works,
}

/// The rest of a call on a directory.
#[derive(Default)]
struct DirectoryCall {
    directory: MutexId,
    /// The spinlocks to take, and the number of these that are taken before the directory's mutex is released; `None`
    /// if the user does not hold the mutex.
    locks: &'static [Lock],
    inside: Option<usize>,
    handle: Option<Handle>,
    /// The number of blocks of the last handle, if there is one after all locks.
    last: Option<u64>,
}

/// `whole / part`, rounded up or down at random so that the mean is exact.
fn share(whole: u64, part: u64, env: &mut Env) -> u64 {
    (whole + env.rng.below(part)) / part
}

impl Job {
    fn new(subtest: &'static Subtest, filesystem: u32, setup: &Setup, env: &mut Env) -> Job {
        let mut calls = [0; subtests::MOST_CALLS];
        for (left, &(call, count)) in calls.iter_mut().zip(subtest.calls) {
            *left = match call {
                // The sleep itself is shortened.
                Call::Sleep => count,
                _ => share(count.into(), setup.part, env) as u32,
            };
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
            filesystem,
        }
    }

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

impl User {
    pub fn new(setup: &Arc<Setup>) -> User {
        User {
            setup: setup.clone(),
            jobs: setup.subtests.iter().map(|&(_, jobs)| jobs).collect(),
            filesystems: setup.subtests.iter().map(|_| None).collect(),
            next: None,
            job: Job {
                subtest: setup.subtests[0].0,
                calls: [0; subtests::MOST_CALLS],
                work: 0,
                filesystem: 0,
            },
            state: UserState::SetsUp,
        }
    }

    /// Draws the subtest of the next job, with equal probability among the subtests with remaining jobs, as AIM7 does,
    /// and the file system of the job.
    fn draw(&mut self, env: &mut Env) -> Option<(&'static Subtest, u32)> {
        let left = self.jobs.iter().filter(|&&jobs| jobs > 0).count();
        if left == 0 {
            return None;
        }
        let drawn = env.rng.below(left as u64) as usize;
        let mut with_jobs = (0..self.jobs.len()).filter(|&index| self.jobs[index] > 0);
        let index = with_jobs.nth(drawn).expect("one of those that are left");
        self.jobs[index] -= 1;
        let subtest = self.setup.subtests[index].0;
        if !subtest.has_directory() {
            return Some((subtest, 0));
        }
        let count = self.setup.filesystems;
        let filesystem = *self.filesystems[index].get_or_insert_with(|| {
            let next = self
                .next
                .unwrap_or_else(|| env.rng.below(count.into()) as u32);
            self.next = Some((next + 1) % count);
            next
        });
        Some((subtest, filesystem))
    }

    fn work(&mut self, env: &mut Env) -> Op {
        loop {
            if let Some(call) = self.job.call(env) {
                let work = match call {
                    // The parent does a third of the work, as measured.
                    Call::Fork | Call::Script | Call::System => self.job.work / 3,
                    Call::Sleep => 0,
                    _ => self.job.work,
                };
                self.state = UserState::Calls(call);
                return compute(work.saturating_sub(self.setup.locked(call)), env);
            }
            self.state = UserState::Works;
            let Some((subtest, filesystem)) = self.draw(env) else {
                return Op::Exit;
            };
            self.job = Job::new(subtest, filesystem, &self.setup, env);
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
                let handle = Handle::new(filesystem, credits::INODE);
                self.state = UserState::Begins(handle, Purpose::Syncs);
                return self.next(env);
            }
            Call::Sleep => {
                return Op::Sleep {
                    ns: subtests::SLEEP_NS / self.setup.part,
                };
            }
        };
        // Creations and removals are equally frequent.
        let creates = spinlocks::inside(call) > 0 && env.rng.below(2) > 0;
        let (reserves, last) = match call {
            Call::Entry | Call::Search if creates => (Some(credits::CREATE), None),
            Call::Entry | Call::Search => (Some(credits::UNLINK), Some(credits::EVICT)),
            Call::Link if creates => (Some(credits::LINK), None),
            Call::Link => (Some(credits::UNLINK), None),
            Call::Open => (None, Some(credits::INODE)),
            _ => (None, None),
        };
        // An existing file is found in the cache; any other call may read a block of the directory.
        let keeps = call != Call::Open;
        let change = DirectoryCall {
            directory: mutex,
            locks: spinlocks::of(call),
            inside: keeps.then(|| if creates { spinlocks::inside(call) } else { 0 }),
            handle: None,
            last,
        };
        let mut work = around(self.setup.hold(call), env);
        self.state = match keeps {
            true => UserState::Holds(change, std::mem::take(&mut work), reserves),
            false => UserState::Changes(change),
        };
        Op::Hold {
            mutex,
            work,
            lines: lines(call),
            nodes: 0,
            kind: KernelLock::Mutex,
            keeps,
            if_locked: false,
        }
    }

    /// Does the work for which the user began the handle.
    fn begun(&mut self, handle: Handle, purpose: Purpose, env: &mut Env) -> Op {
        self.state = match purpose {
            Purpose::Changes(change, work) => {
                self.state = UserState::Changes(DirectoryCall {
                    handle: Some(handle),
                    ..change
                });
                return Op::Run { work };
            }
            Purpose::Syncs => UserState::Asks,
            Purpose::Works => UserState::Works,
        };
        handle.end(env).unwrap_or_else(|| self.next(env))
    }

    fn change(&mut self, mut change: DirectoryCall, env: &mut Env) -> Op {
        if change.inside == Some(0) {
            change.inside = None;
            let ended = change.handle.take().and_then(|handle| handle.end(env));
            self.state = UserState::Releases(change);
            return ended.unwrap_or_else(|| self.next(env));
        }
        let directory = change.directory;
        match (change.locks, change.last) {
            ([lock, rest @ ..], _) => {
                change.locks = rest;
                change.inside = change.inside.map(|left| left - 1);
                self.state = UserState::Changes(change);
                spinlocks::hold(*lock, directory, &self.setup, env)
            }
            ([], Some(blocks)) => {
                let handle = Handle::new(self.job.filesystem, blocks);
                self.state = UserState::Begins(handle, Purpose::Works);
                self.next(env)
            }
            ([], None) => self.work(env),
        }
    }

    fn fork(&mut self, mut areas: Areas, call: Call, env: &mut Env) -> Op {
        if let Some(op) = areas.next(&self.setup, env) {
            self.state = UserState::Forks(areas, call);
            return op;
        }
        let rest = (self.job.work * 2 / 3).saturating_sub(self.setup.locked(call));
        let acts = match call {
            Call::Script => process::SCRIPT,
            Call::System => process::SYSTEM,
            _ => process::FORK,
        };
        let child = Child::new(&self.setup, rest, acts);
        self.state = UserState::Joins;
        Op::Fork {
            child: Box::new(TaskSpec::new("child", child)),
            work: 0,
        }
    }
}

impl Program for User {
    fn next(&mut self, env: &mut Env) -> Op {
        match std::mem::replace(&mut self.state, UserState::Works) {
            UserState::SetsUp => {
                self.state = UserState::Tells;
                Op::Run { work: SET_UP_WORK }
            }
            UserState::Tells => {
                self.state = UserState::Waits;
                Op::Write {
                    stream: READY,
                    bytes: 1,
                    work: 0,
                }
            }
            UserState::Waits => Op::Read {
                stream: START,
                bytes: 1,
                work: 0,
            },
            UserState::Works => self.work(env),
            UserState::Calls(call) => self.call(call, env),
            UserState::Forks(areas, call) => self.fork(areas, call, env),
            UserState::Joins => {
                self.state = UserState::Changes(DirectoryCall {
                    directory: BIN,
                    locks: spinlocks::of(Call::Fork),
                    ..DirectoryCall::default()
                });
                Op::WaitChildren
            }
            UserState::Begins(mut handle, purpose) => match handle.begin(env) {
                Some(wait) => {
                    self.state = UserState::Begins(handle, purpose);
                    wait
                }
                None => self.begun(handle, purpose, env),
            },
            // The kernel may reschedule here, in `__getblk()`.
            UserState::Holds(change, work, reserves) => {
                self.state = match reserves {
                    Some(blocks) => {
                        let handle = Handle::new(self.job.filesystem, blocks);
                        UserState::Begins(handle, Purpose::Changes(change, work))
                    }
                    None => UserState::Runs(change, work),
                };
                Op::CondResched
            }
            UserState::Runs(change, work) => {
                self.state = UserState::Changes(change);
                Op::Run { work }
            }
            UserState::Changes(change) => self.change(change, env),
            UserState::Releases(change) => {
                let directory = change.directory;
                self.state = UserState::Changes(change);
                Op::Release(directory)
            }
            UserState::Asks => {
                let (ask, wait) = journal::sync(self.job.filesystem, env);
                match ask {
                    Some(ask) => {
                        self.state = UserState::Syncs(wait);
                        ask
                    }
                    None => wait,
                }
            }
            UserState::Syncs(wait) => wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aim7::subtests::MIXES;
    use crate::aim7::{PARAMS, WORDS};
    use std::collections::HashMap;
    use workload::Args;

    #[test]
    fn a_subtest_keeps_its_file_system_and_the_next_one_gets_the_next() {
        let disk = MIXES.iter().position(|&mix| mix == "disk").unwrap();
        let args = Args::read("aim7", PARAMS, None).unwrap();
        let setup = Arc::new(Setup::new(disk, &args));
        let mut env = Env::new(vec![0; WORDS], 1, &[]);
        let mut user = User::new(&setup);
        let (mut kept, mut order) = (HashMap::new(), Vec::new());
        let mut jobs = 0;
        while let Some((subtest, filesystem)) = user.draw(&mut env) {
            jobs += 1;
            kept.entry(subtest.name).or_insert_with(|| {
                order.push(filesystem);
                filesystem
            });
            assert_eq!(kept[subtest.name], filesystem);
        }
        assert_eq!(jobs, setup.jobs());
        assert_eq!(order.len(), 20);
        for pair in order.windows(2) {
            assert_eq!(pair[1], (pair[0] + 1) % setup.filesystems);
        }
    }
    #[test]
    fn a_part_of_a_job_sleeps_for_that_part_of_the_time() {
        let alltests = MIXES.iter().position(|&mix| mix == "alltests").unwrap();
        let args = Args::read("aim7", PARAMS, None).unwrap();
        let setup = Arc::new(Setup::new(alltests, &args));
        let subtest =
            |(subtest, _): &(&'static Subtest, u32)| subtest.calls.contains(&(Call::Sleep, 1));
        let &(sleeps, _) = setup.subtests.iter().find(|&of| subtest(of)).unwrap();
        let mut env = Env::new(vec![0; WORDS], 1, &[]);
        let mut user = User::new(&setup);
        for _ in 0..20 {
            user.job = Job::new(sleeps, 0, &setup, &mut env);
            let mut slept = 0;
            while let Some(call) = user.job.call(&mut env) {
                if call == Call::Sleep
                    && let Op::Sleep { ns } = user.call(call, &mut env)
                {
                    slept += ns;
                }
            }
            assert_eq!(slept * setup.part, subtests::SLEEP_NS);
        }
    }
}
