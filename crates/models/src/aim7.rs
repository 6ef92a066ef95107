//! AIM7, the AIM Multiuser Benchmark, Suite VII: many users, each of which does one job after
//! another. A job is a subtest drawn from a mix. The result is the number of jobs per minute.
//!
//! The mixes are AIM7's, and so are the operations of a subtest ([`subtests`]). These are its computing
//! time, and its system calls that wait for an event or take a lock which users share. The locks are Linux 3.10's. A
//! directory's mutex (`i_mutex`) is taken when the directory's entries are listed or change. On fork, exec and exit,
//! the locks of each area of memory ([`process`]) are taken: the locks of the files that all processes map
//! (`i_mmap_mutex`), and those of the memory that a child shares with its parent (`anon_vma`), because all users are
//! children of one process. Users poll for the mutexes while the holder has a CPU, sleep for `anon_vma`, and are not
//! preempted while they hold one of these locks, except where a block of a directory may have to be read. All users
//! also share some spinlocks, whatever their directories ([`spinlocks`]). The file systems are ext4 on RAM disks, as
//! HP's scripts make them: writing is computing, a synchronous write sleeps until the journal's thread has committed,
//! and a change of a file system may have to wait for the commit ([`journal`]).
//!
//! A user has about 100 jobs, drawn from the mix without replacement. As in AIM7's driver, the parent forks the users,
//! reads a report from a pipe when each user is ready, and starts all users by a signal. The time ends when the last
//! user has exited and the parent has waited for that user. A user's first subtest that works in a directory gets a
//! random file system, and each further subtest gets the next one. A subtest keeps its file system (the driver
//! overwrites `DISKS` in the subtest's argument). AIM7's runs take minutes. Here a job may be shortened to a part of
//! AIM7's job, which is the same part for all jobs, and makes only that part of the calls. The time between two calls
//! is not shortened, because it decides how often a CPU idles. A job without calls is shortened to that part, and so is
//! a sleep.

mod journal;
mod process;
mod spinlocks;
mod subtests;
mod user;

use crate::benchmark::{Benchmark, Model, param};
use journal::Journal;
use machine::Machine;
use std::sync::Arc;
use subtests::{Call, SUBTESTS, Subtest};
use user::User;
use workload::{
    Args, Env, KernelLock, Metric, MetricId, MutexId, Op, Param, Program, Start, StreamId,
    StreamKind, TaskSpec,
};

/// Converts `ns`, the duration of work on the machine on which the subtests were timed, to the duration on the machine
/// of AIM7's published figures, in ns.
///
/// A core of Westmere-EX at 2.4 GHz is assumed to take twice as long as a core of a Xeon of 2024: the
/// Xeon's clock is 1.3 to 1.6 times as high, and the core accounts for the rest. This is an assumption,
/// which is fitted to no figure.
const fn at_speed(ns: u64) -> u64 {
    2 * ns
}

const PARAMS: &[Param] = &[
    param!(users: Count(1..=20_000) = 1100,
        "the smallest number of users; the runs are spread evenly from here to users_max, and a single run has the \
         number in the middle"),
    param!(users_max: Count(1..=20_000) = 2000,
        "the largest number of users (default 2000, as in the published averages)"),
    param!(filesystems: Count(1..=1000) = 16,
        "the number of file systems, each with its directories and its journal (HP's master_disk_list)"),
    param!(jobs: Count(1..=1_000_000) = 100,
        "the number of jobs of a user, with each subtest at least once (AIM7's -j)"),
    param!(part: Count(1..=1_000_000) = 5,
        "the divisor of AIM7's jobs, which would otherwise take long to simulate"),
    param!(entry: Us(0..=1_000_000_000) = at_speed(2_300),
        "work under a directory's lock to create or remove a file; about four fifths of disk_src's time for each \
         (subtests.rs), an assumption"),
    param!(link: Us(0..=1_000_000_000) = at_speed(1_000),
        "work under a directory's lock to link or unlink a file, in link_test"),
    param!(lookup: Us(0..=1_000_000_000) = at_speed(330),
        "work under a directory's lock to open an existing file; about a quarter of creat_clo's time, an \
         assumption"),
    param!(list: Us(0..=1_000_000_000) = at_speed(20_000),
        "work under a directory's lock to list /bin, in dir_rtns_1, for some 130 files as in RHEL 6; an assumption"),
    param!(vma: Us(0..=1_000_000_000) = at_speed(330),
        "work under the lock of an area of a process's memory, on fork, exec and exit; an assumption: with all its \
         other work, an anonymous area was measured to add some 1 us to a fork and exit on the Xeon of 2024 \
         (process.rs)"),
    param!(i_mmap_rwsem: Count(0..=1) = 0,
        "1: the lock of the processes that map a file is an rwsem, as in a trial on Linux 3.10-rc5; 0: it is a \
         mutex, as in Linux 3.10"),
    param!(spin: Us(0..=1_000_000_000) = 200, "work under a spinlock (spinlocks.rs): an assumption"),
    param!(block: Us(0..=1_000_000_000) = 3_000,
        "work of the journal's thread for each block of a transaction: an assumption, a third of it to copy 4 KiB"),
];

macro_rules! benchmark {
    ($index:literal, $name:literal, $mix:literal) => {
        Benchmark {
            name: $name,
            description: concat!("AIM7 users with the mix of subtests called ", $mix),
            params: PARAMS,
            metrics: &[Metric::throughput("jobs", "1/min")],
            make: |args| Box::new(Arc::new(Setup::new($index, args))),
        }
    };
}

/// One benchmark for each of [`MIXES`].
pub(crate) static BENCHMARKS: [Benchmark; 9] = [
    benchmark!(0, "aim7-alltests", "alltests"),
    benchmark!(1, "aim7-compute", "compute"),
    benchmark!(2, "aim7-custom", "custom"),
    benchmark!(3, "aim7-disk", "disk"),
    benchmark!(4, "aim7-fserver", "fserver"),
    benchmark!(5, "aim7-high_systime", "high_systime"),
    benchmark!(6, "aim7-new_fserver", "new_fserver"),
    benchmark!(7, "aim7-shared", "shared"),
    benchmark!(8, "aim7-short", "short"),
];

/// The work of `fork(2)` of a user, before the clock runs, in ns at the reference speed.
const START_WORK: u64 = 20_000;
/// The initial work of a user (its files and buffers), in ns at the reference speed. It is long enough for users to
/// spread over the machine as they are forked.
const SET_UP_WORK: u64 = 2_000_000;

const JOBS: MetricId = 0;

/// State shared by all tasks.
#[derive(Clone)]
struct Setup {
    /// The subtests, and the number of a user's jobs for each.
    subtests: Vec<(&'static Subtest, u32)>,
    users: (u64, u64),
    filesystems: u32,
    part: u64,
    entry: u64,
    link: u64,
    lookup: u64,
    list: u64,
    vma: u64,
    i_mmap: KernelLock,
    spin: u64,
    block: u64,
}

impl Setup {
    fn new(mix: usize, args: &Args) -> Setup {
        let weights = || SUBTESTS.iter().map(|test| u64::from(test.weights[mix]));
        let (all, jobs) = (weights().sum::<u64>(), args.get("jobs"));
        // As in AIM7, round to the nearest number, but use at least one.
        let jobs_of = |weight: u64| ((2 * weight * jobs + all) / (2 * all)).max(1) as u32;
        let users = args.get("users");
        Setup {
            subtests: (SUBTESTS.iter().zip(weights()))
                .filter(|&(_, weight)| weight > 0)
                .map(|(test, weight)| (test, jobs_of(weight)))
                .collect(),
            users: (users, args.get("users_max").max(users)),
            filesystems: args.get("filesystems") as u32,
            part: args.get("part"),
            entry: args.get("entry"),
            link: args.get("link"),
            lookup: args.get("lookup"),
            list: args.get("list"),
            vma: args.get("vma"),
            i_mmap: match args.get("i_mmap_rwsem") {
                0 => KernelLock::Mutex,
                _ => KernelLock::Rwsem,
            },
            spin: args.get("spin"),
            block: args.get("block"),
        }
    }

    fn jobs(&self) -> u64 {
        self.subtests.iter().map(|&(_, jobs)| u64::from(jobs)).sum()
    }

    /// The time for which `call` holds its locks, in ns.
    fn locked(&self, call: Call) -> u64 {
        self.hold(call) + self.spin * spinlocks::of(call).len() as u64
    }

    /// The time for which `call` holds the locks for which a task may sleep, in ns.
    fn hold(&self, call: Call) -> u64 {
        match call {
            Call::Entry | Call::Search | Call::Fifo => self.entry,
            Call::Link => self.link,
            Call::Open => self.lookup,
            Call::List => self.list,
            Call::Fork | Call::Script | Call::System => {
                self.vma * process::AREAS.len() as u64 + self.spin * process::anonymous()
            }
            Call::Sync | Call::Sleep => 0,
        }
    }
}

/// The number of cache lines that `call` changes under its lock, including the lock's. For a directory that gets or
/// loses an entry, these are its inode, its block and that block's buffer and journal heads; for a new or removed file,
/// also the lines of its group of inodes (bitmap, descriptor, counters). For a directory that is read, it is the
/// inode's line. The lines were counted in Linux 3.10.
fn lines(call: Call) -> u32 {
    match call {
        Call::Entry | Call::Search | Call::Fifo => 8,
        Call::Link => 5,
        Call::Open | Call::List => 2,
        Call::Fork | Call::Script | Call::System | Call::Sync | Call::Sleep => 0,
    }
}

/// The first of the directories that exist only once.
const BIN: MutexId = 0;
const CWD: MutexId = 1;
/// The `n`th lock of [`process`].
fn mapped(n: u32) -> MutexId {
    2 + n
}

/// The directory of a file system in which all users work.
fn root(filesystem: u32) -> MutexId {
    mapped(process::LOCKS) + 2 * filesystem
}

/// The directory that `disk_src` searches.
fn tree(filesystem: u32) -> MutexId {
    root(filesystem) + 1
}

fn mutexes(filesystems: u32) -> usize {
    (root(filesystems) + spinlocks::count(filesystems)) as usize
}

/// The signal for which users wait.
const START: StreamId = 0;
/// The pipe into which a user writes a byte when it is ready.
const READY: StreamId = 1;
/// The first stream of the journals.
const STREAMS: StreamId = 2;

/// A random value between 0.5 and 1.5 times `mean`.
fn around(mean: u64, env: &mut Env) -> u64 {
    mean / 2 + env.rng.below(mean + 1)
}

fn compute(mean: u64, env: &mut Env) -> Op {
    Op::Run {
        work: around(mean, env),
    }
}

/// The shared words are the number of users, then the words of the journals.
const USERS: usize = 0;
const WORDS: usize = 1;

/// The parent's sleep before it starts the users (`SLEEP`), in ns.
const SLEEP: u64 = 1_000_000_000;

/// Starts the users, and measures the time from the signal to the last exit.
struct Parent {
    setup: Arc<Setup>,
    users: u64,
    /// The time at which the parent started the users, in ns.
    started: u64,
    state: ParentState,
}

/// The current step of the parent.
enum ParentState {
    /// The parent forks the users, and has forked this many.
    Forks(u64),
    /// The parent reads reports that users are ready, and has read this many.
    Hears(u64),
    Starts,
    Waits,
    Reports,
    /// The parent tells the journals that all jobs are done, and has told this many.
    Stops(u32),
}

impl Model for Arc<Setup> {
    /// The numbers of users are evenly spaced, with half a distance at each end.
    fn of_run(&self, run: u32, count: u32) -> Option<Box<dyn Model>> {
        let ((least, most), steps) = (self.users, 2 * u64::from(count));
        let users = least + (most - least) * (2 * u64::from(run) + 1) / steps;
        Some(Box::new(Arc::new(Setup {
            users: (users, users),
            ..Setup::clone(self)
        })))
    }

    fn start(&self, _machine: &Machine) -> Start {
        let parent = Parent {
            setup: self.clone(),
            users: 0,
            started: 0,
            state: ParentState::Forks(0),
        };
        let mut tasks = vec![TaskSpec::new("multitask", parent)];
        tasks.extend((0..self.filesystems).map(|filesystem| {
            let journal = Journal::new(filesystem, self.filesystems, self.block);
            TaskSpec::new("jbd2", journal)
        }));
        Start {
            tasks,
            mutexes: mutexes(self.filesystems),
            streams: [StreamKind::Signal, StreamKind::Pipe]
                .into_iter()
                .chain(vec![
                    StreamKind::WaitQueue;
                    journal::STREAMS * self.filesystems as usize
                ])
                .map(|kind| kind.holding(self.users.1))
                .collect(),
            shared: vec![0; WORDS + journal::WORDS * self.filesystems as usize],
            ..Start::default()
        }
    }
}

impl Program for Parent {
    fn next(&mut self, env: &mut Env) -> Op {
        let setup = &self.setup;
        match self.state {
            ParentState::Forks(0) if self.users == 0 => {
                let (least, most) = setup.users;
                self.users = least + env.rng.below(most - least + 1);
                env.shared[USERS] = self.users;
                self.next(env)
            }
            ParentState::Forks(created) if created < self.users => {
                self.state = ParentState::Forks(created + 1);
                let user = TaskSpec {
                    timer_slack_ns: Some(0),
                    ..TaskSpec::new("user", User::new(setup))
                };
                Op::Fork {
                    child: Box::new(user),
                    work: START_WORK,
                }
            }
            ParentState::Forks(_) => {
                self.state = ParentState::Hears(0);
                self.next(env)
            }
            ParentState::Hears(ready) if ready < self.users => {
                self.state = ParentState::Hears(ready + 1);
                Op::Read {
                    stream: READY,
                    bytes: 1,
                    work: 0,
                }
            }
            ParentState::Hears(_) => {
                self.state = ParentState::Starts;
                Op::Sleep { ns: SLEEP }
            }
            ParentState::Starts => {
                self.state = ParentState::Waits;
                self.started = env.now;
                Op::Write {
                    stream: START,
                    bytes: self.users,
                    work: 0,
                }
            }
            ParentState::Waits => {
                self.state = ParentState::Reports;
                Op::WaitChildren
            }
            ParentState::Reports => {
                let jobs = (self.users * setup.jobs()) as f64 / setup.part as f64;
                let minutes = (env.now - self.started) as f64 / 60e9;
                env.recorder.record(JOBS, jobs / minutes);
                self.state = ParentState::Stops(0);
                self.next(env)
            }
            ParentState::Stops(stopped) if stopped == setup.filesystems => Op::Exit,
            ParentState::Stops(stopped) => {
                self.state = ParentState::Stops(stopped + 1);
                journal::stop(stopped, env).unwrap_or_else(|| self.next(env))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Kernel, run_named};
    use subtests::MIXES;

    fn run(mix: &str, users: usize, params: &str, cpus: usize) -> Kernel {
        let params = format!("users={users},users_max={users}{params}");
        run_named(&format!("aim7-{mix}:{params}"), cpus)
    }

    fn rate(kernel: &Kernel) -> f64 {
        let samples = kernel.recorder.samples(JOBS);
        assert_eq!(samples.len(), 1);
        samples[0]
    }

    #[test]
    fn benchmarks_are_named_after_their_mix() {
        for (benchmark, mix) in BENCHMARKS.iter().zip(MIXES) {
            assert_eq!(benchmark.name, format!("aim7-{mix}"));
            assert!(benchmark.description.ends_with(mix));
        }
    }

    #[test]
    fn all_jobs_are_done_and_all_tasks_exit() {
        for mix in MIXES {
            let kernel = run(mix, 10, ",jobs=60", 4);
            assert!(kernel.left().is_empty(), "{mix}: {:?}", kernel.left());
            assert!(rate(&kernel) > 0.0);
        }
    }

    #[test]
    fn each_subtest_has_its_share_of_a_users_jobs_and_at_least_one() {
        let args = Args::read("aim7", PARAMS, None).unwrap();
        let high_systime = MIXES.iter().position(|&mix| mix == "high_systime");
        let setup = Setup::new(high_systime.unwrap(), &args);
        let jobs = |name: &str| setup.subtests.iter().find(|(test, _)| test.name == name);
        assert_eq!(jobs("pipe_cpy").unwrap().1, 12);
        assert_eq!(jobs("tcp_test").unwrap().1, 4);
        assert_eq!(jobs("link_test").unwrap().1, 8);
        let few = Args::read("aim7", PARAMS, Some("jobs=1")).unwrap();
        assert_eq!(Setup::new(0, &few).jobs(), 62);
    }

    #[test]
    fn jobs_that_only_compute_scale_with_cpus() {
        let compute = |cpus| rate(&run("compute", 40, ",entry=0", cpus));
        let (one, four) = (compute(1), compute(4));
        assert!((3.5..4.6).contains(&(four / one)), "{one} {four}");
    }

    #[test]
    fn a_parts_length_does_not_matter() {
        let of = |part| rate(&run("custom", 100, &format!(",part={part}"), 4));
        let (short, long) = (of(20), of(5));
        assert!((0.97..1.03).contains(&(short / long)), "{short} {long}");
    }

    #[test]
    fn the_time_lasts_from_the_signal_to_the_last_exit() {
        let kernel = run("custom", 50, "", 4);
        let jobs = 50 * Setup::new(2, &Args::read("aim7", PARAMS, None).unwrap()).jobs();
        let ns = jobs as f64 / 5.0 / rate(&kernel) * 60e9;
        let before = SLEEP + 50 * START_WORK.max(SET_UP_WORK / 4);
        let all = kernel.now as f64;
        assert!(ns < all - SLEEP as f64, "{ns} of {all}");
        assert!(ns > all - 1.3 * before as f64, "{ns} of {all}");
    }

    #[test]
    fn a_lock_bounds_what_needs_it() {
        let params = ",filesystems=1,part=1,jobs=20,entry=1ms,block=0";
        let rate = rate(&run("disk", 20, params, 16));
        let disk = MIXES.iter().position(|&mix| mix == "disk").unwrap();
        let calls =
            (SUBTESTS.iter().filter(|test| test.weights[disk] > 0)).flat_map(|test| test.calls);
        let all = |call| -> u32 {
            let of_kind = calls.clone().filter(|(kind, _)| *kind == call);
            of_kind.map(|(_, count)| count).sum()
        };
        let longest = all(Call::Entry).max(all(Call::Search));
        let bound = 60.0 * 20.0 / (f64::from(longest) * 1e-3);
        assert!((0.5..1.1).contains(&(rate / bound)), "{rate} of {bound}");
    }

    #[test]
    fn processes_have_children() {
        let kernel = run("high_systime", 20, "", 4);
        let children = kernel.tasks.iter().filter(|(name, _)| name == "child");
        assert!(children.count() > 100);
    }
}
