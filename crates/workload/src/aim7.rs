//! AIM7, the AIM Multiuser Benchmark, Suite VII: many users, each of whom does one job after another, a
//! job being a subtest that is drawn from a mix. What counts is how many jobs are done a minute.
//!
//! The mixes are AIM7's ([`mixes`]); the subtests are what a scheduler sees of them: how long they
//! compute, and what they sleep for. Users are spread over file systems, each on a device of its own that
//! does one request at a time; each file system has a lock that its operations take, and a few locks are for
//! what all users share (System V IPC, and the tables of processes). They sleep for these locks.
//!
//! AIM7 says what its subtests do, and nothing of how long that takes on some machine or how much of it is
//! under which lock. The parameters' defaults are round numbers; with them the mixes that work the file
//! system and processes are bound by locks on 80 CPUs, and those that compute by CPUs, as the published
//! results say. They are the same for all mixes.
//!
//! AIM7's jobs take some hundred milliseconds and its runs minutes. Here a job is a few milliseconds and
//! a run less than a second: the jobs are short by a factor that is the same for all of them, and none of
//! the times within a job, which decide how often a CPU idles, is.

mod mixes;

use crate::benchmark::{Benchmark, Model};
use crate::params::{Args, Param, Unit};
use crate::{
    Better, Env, Metric, MetricId, MutexId, Op, Program, SchedPolicy, Start, StreamId, TaskSpec,
};
use machine::Machine;
use mixes::{Kind, MIXES};
use std::sync::Arc;

macro_rules! time {
    ($name:literal, $default:expr, $help:literal) => {
        Param {
            name: $name,
            unit: Unit::Microseconds,
            default: $default,
            min: 0,
            max: 1_000_000_000,
            help: $help,
        }
    };
}

macro_rules! count {
    ($name:literal, $default:expr, $max:expr, $help:literal) => {
        Param {
            name: $name,
            unit: Unit::Count,
            default: $default,
            min: 1,
            max: $max,
            help: $help,
        }
    };
}

const PARAMS: &[Param] = &[
    count!(
        "users",
        1100,
        20_000,
        "the fewest users; a run draws their number"
    ),
    count!(
        "users_max",
        2000,
        20_000,
        "the most users (default 2000, as many as published averages are over)"
    ),
    count!(
        "filesystems",
        3,
        1000,
        "file systems, each with a lock and on a device of its own; with system_locks, syscalls and hold \
         calibrated on which mixes idle with 80 CPUs in the table of experiments/idle-balance-limit.toml"
    ),
    count!(
        "system_locks",
        2,
        1000,
        "locks of what users share besides: System V IPC, address spaces; see filesystems"
    ),
    count!(
        "steps",
        4,
        1_000_000,
        "how many steps a job has, each with a sleep or none, by its kind"
    ),
    time!(
        "compute",
        200_000,
        "work of a step that computes; an assumption"
    ),
    time!(
        "syscalls",
        200_000,
        "work of a step between locks; see filesystems"
    ),
    time!(
        "hold",
        10_000,
        "work under a lock of a file system or of all users; see filesystems"
    ),
    time!(
        "io",
        100_000,
        "a request's time at its device, which does one at a time; an array's write cache, an assumption"
    ),
    time!("child", 100_000, "work of a child process; an assumption"),
    Param {
        name: "warm_up",
        unit: Unit::Seconds,
        default: 200_000_000,
        min: 0,
        max: 1_000_000_000_000,
        help: "when jobs begin to count",
    },
    Param {
        name: "duration",
        unit: Unit::Seconds,
        default: 300_000_000,
        min: 1_000_000,
        max: 1_000_000_000_000,
        help: "for how long they count",
    },
];

macro_rules! benchmark {
    ($index:literal, $name:literal, $mix:literal) => {
        Benchmark {
            name: $name,
            description: concat!("AIM7 users with the mix of subtests called ", $mix),
            params: PARAMS,
            metrics: &[Metric::new("jobs", "1/min", Better::Higher)],
            make: |args| Box::new(Arc::new(Setup::new($index, args))),
        }
    };
}

/// One for each of [`MIXES`].
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

/// `fork(2)` of a user before the clock runs, ns at the reference speed.
const START_WORK: u64 = 20_000;
/// What a user does first (its files and buffers), ns at the reference speed. So long that users spread
/// over the machine as they are forked.
const SET_UP_WORK: u64 = 2_000_000;
/// How late the clock may be read, ns.
const CLOCK_LATENCY: u64 = 1_000_000;

const JOBS: MetricId = 0;
/// The shared word that counts steps of jobs.
const STEPS: usize = 0;

/// Users wait for a byte from here.
const START: StreamId = 0;

struct Setup {
    /// Kinds of subtests, each with the sum of the weights up to it.
    kinds: Vec<(Kind, u64)>,
    users: (u64, u64),
    filesystems: u64,
    system_locks: u64,
    steps: u64,
    compute: u64,
    syscalls: u64,
    hold: u64,
    io: u64,
    child: u64,
    warm_up: u64,
    duration: u64,
}

impl Setup {
    fn new(mix: usize, args: &Args) -> Setup {
        let mut sum = 0;
        let kinds = mixes::kinds(&MIXES[mix]);
        let cumulative = kinds.into_iter().map(|(kind, weight)| {
            sum += u64::from(weight);
            (kind, sum)
        });
        let users = args.get("users");
        Setup {
            kinds: cumulative.collect(),
            users: (users, args.get("users_max").max(users)),
            filesystems: args.get("filesystems"),
            system_locks: args.get("system_locks"),
            steps: args.get("steps"),
            compute: args.get("compute"),
            syscalls: args.get("syscalls"),
            hold: args.get("hold"),
            io: args.get("io"),
            child: args.get("child"),
            warm_up: args.get("warm_up"),
            duration: args.get("duration"),
        }
    }
}

impl Model for Arc<Setup> {
    fn start(&self, _machine: &Machine) -> Start {
        let setup = self;
        let parent = Parent {
            setup: setup.clone(),
            users: None,
            created: 0,
            started: false,
            began: None,
        };
        Start {
            tasks: vec![TaskSpec {
                policy: SchedPolicy::Fifo { priority: 99 },
                ..TaskSpec::new("multitask", parent)
            }],
            mutexes: (setup.system_locks + 2 * setup.filesystems) as usize,
            streams: vec![setup.users.1],
            shared: vec![0],
            duration_ns: Some(setup.warm_up + setup.duration + CLOCK_LATENCY),
            ..Start::default()
        }
    }
}

/// Starts the users, and counts. Real time, so that it reads the clock in time.
struct Parent {
    setup: Arc<Setup>,
    users: Option<u64>,
    created: u64,
    started: bool,
    /// When counting began, ns, and with how many steps.
    began: Option<(u64, u64)>,
}

impl Program for Parent {
    fn next(&mut self, env: &mut Env<'_>) -> Op {
        let setup = &self.setup;
        let (least, most) = setup.users;
        let users = *self
            .users
            .get_or_insert_with(|| least + env.rng.below(most - least + 1));
        if self.created < users {
            let user = User {
                setup: setup.clone(),
                number: self.created,
                kind: Kind::Compute,
                left: 0,
                phase: 0,
                start: Begin::SetUp,
            };
            self.created += 1;
            let user = TaskSpec {
                timer_slack_ns: Some(0),
                ..TaskSpec::new("user", user)
            };
            return Op::Fork {
                child: Box::new(user),
                work: START_WORK,
            };
        }
        if !std::mem::replace(&mut self.started, true) {
            return Op::Write {
                stream: START,
                bytes: users,
                work: 0,
            };
        }
        if env.now < setup.warm_up {
            return Op::SleepUntil { at: setup.warm_up };
        }
        let (began, steps) = *self.began.get_or_insert((env.now, env.shared[STEPS]));
        let end = setup.warm_up + setup.duration;
        if env.now < end {
            return Op::SleepUntil { at: end };
        }
        let jobs = (env.shared[STEPS] - steps) as f64 / setup.steps as f64;
        let minutes = (env.now - began) as f64 / 60e9;
        env.recorder.record(JOBS, jobs / minutes);
        Op::Exit
    }
}

/// One user.
struct User {
    setup: Arc<Setup>,
    number: u64,
    /// The job that is being done: its kind, the steps that are left, and how far the step is.
    kind: Kind,
    left: u64,
    phase: u32,
    start: Begin,
}

/// How far a user is with starting.
enum Begin {
    SetUp,
    Wait,
    Done,
}

impl User {
    /// Work around `mean`: anything from half to one and a half of it.
    fn around(mean: u64, env: &mut Env<'_>) -> Op {
        Op::Run {
            work: mean / 2 + env.rng.below(mean + 1),
        }
    }

    /// The lock of a step of this kind, if it has one. First come the locks of what all share, then
    /// those of the file systems, then their devices.
    fn lock(&self) -> MutexId {
        let setup = &self.setup;
        let lock = match self.kind {
            Kind::Ipc | Kind::Process => self.number % setup.system_locks,
            _ => setup.system_locks + self.number % setup.filesystems,
        };
        lock as MutexId
    }

    fn device(&self) -> MutexId {
        let setup = &self.setup;
        let devices = setup.system_locks + setup.filesystems;
        (devices + self.number % setup.filesystems) as MutexId
    }

    /// What comes at this phase of a step; `None` at its end.
    fn op(&self, env: &mut Env<'_>) -> Option<Op> {
        let setup = &self.setup;
        if self.kind == Kind::Compute {
            return (self.phase == 0).then(|| User::around(setup.compute, env));
        }
        Some(match (self.phase, self.kind) {
            (0, _) => User::around(setup.syscalls, env),
            (1, _) => Op::Lock(self.lock()),
            (2, _) => User::around(setup.hold, env),
            (3, _) => Op::Unlock(self.lock()),
            (4, Kind::Synchronous) => Op::Lock(self.device()),
            (5, Kind::Synchronous) => Op::Sleep { ns: setup.io },
            (6, Kind::Synchronous) => Op::Unlock(self.device()),
            (4, Kind::Process) => Op::Fork {
                child: Box::new(Self::child(setup.child)),
                work: setup.syscalls,
            },
            (5, Kind::Process) => Op::Join,
            _ => return None,
        })
    }

    fn child(work: u64) -> TaskSpec {
        let mut done = false;
        let child = move |env: &mut Env<'_>| match std::mem::replace(&mut done, true) {
            false => User::around(work, env),
            true => Op::Exit,
        };
        TaskSpec::new("child", child)
    }
}

impl Program for User {
    fn next(&mut self, env: &mut Env<'_>) -> Op {
        match std::mem::replace(&mut self.start, Begin::Done) {
            Begin::SetUp => {
                self.start = Begin::Wait;
                return Op::Run { work: SET_UP_WORK };
            }
            Begin::Wait => {
                return Op::Read {
                    stream: START,
                    bytes: 1,
                    work: 0,
                };
            }
            Begin::Done => {}
        }
        loop {
            if self.left == 0 {
                let kinds = &self.setup.kinds;
                let all = kinds.last().map_or(0, |&(_, sum)| sum);
                let drawn = env.rng.below(all);
                let kind = kinds.iter().find(|&&(_, sum)| drawn < sum);
                self.kind = kind.expect("the last sum is above all draws").0;
                self.left = self.setup.steps;
                self.phase = 0;
            }
            if let Some(op) = self.op(env) {
                self.phase += 1;
                return op;
            }
            env.shared[STEPS] += 1;
            self.left -= 1;
            self.phase = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Kernel;

    fn run(mix: usize, params: &str, cpus: usize) -> Kernel {
        run_users(20, mix, params, cpus)
    }

    fn run_users(users: usize, mix: usize, params: &str, cpus: usize) -> Kernel {
        let params = format!("users={users},users_max={users},warm_up=10ms,duration=100ms{params}");
        Kernel::load(&format!("{}:{params}", BENCHMARKS[mix].name), cpus)
    }

    fn jobs(mix: usize, params: &str, cpus: usize) -> f64 {
        jobs_of(&run(mix, params, cpus))
    }

    fn jobs_of(kernel: &Kernel) -> f64 {
        let samples = kernel.recorder.samples(JOBS);
        assert_eq!(samples.len(), 1);
        samples[0]
    }

    fn mix(name: &str) -> usize {
        MIXES.iter().position(|mix| mix.0 == name).unwrap()
    }

    #[test]
    fn benchmarks_are_named_after_their_mix() {
        for (benchmark, mix) in BENCHMARKS.iter().zip(MIXES) {
            assert_eq!(benchmark.name, format!("aim7-{}", mix.0));
            assert!(benchmark.description.ends_with(mix.0));
        }
    }

    #[test]
    fn jobs_that_only_compute_scale_with_cpus() {
        // A CPU for each user, and one for whoever counts: this kernel does not preempt.
        let compute = |users| jobs_of(&run_users(users, mix("compute"), ",hold=0", users + 1));
        let (one, four) = (compute(1), compute(4));
        assert!((3.5..4.5).contains(&(four / one)), "{one} {four}");
    }

    #[test]
    fn a_lock_bounds_what_needs_it() {
        // One file system: every step of the disk mix holds its lock for 1 ms.
        let held = jobs(
            mix("disk"),
            ",filesystems=1,hold=1ms,syscalls=0,steps=1",
            16,
        );
        let bound = 60.0 / 1e-3;
        assert!((0.9..1.1).contains(&(held / bound)), "{held} of {bound}");
    }

    #[test]
    fn devices_do_one_request_at_a_time() {
        let of = |filesystems: u64| {
            let params = format!(",filesystems={filesystems},io=5ms,hold=0,syscalls=0");
            jobs(mix("disk"), &params, 16)
        };
        assert!(of(8) > 4.0 * of(1));
    }

    #[test]
    fn processes_have_children() {
        let kernel = run(mix("high_systime"), "", 4);
        let children = kernel.tasks.iter().filter(|(name, _)| name == "child");
        assert!(children.count() > 10);
    }
}
