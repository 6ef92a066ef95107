//! A thread of an rt-app file as a program, step by step like rt-app's `thread_body()` and
//! `run_event()`.

mod measures;

use super::config::{Action, Phase, Task, Timer, TimerMode};
use super::{Log, Plan, TIME, word};
use crate::{Env, GroupId, Op, Period, Program, SchedPolicy, TaskSpec, UtilClamps};
use machine::CpuMask;
use measures::us;
use std::sync::Arc;

/// The work of `runtime` between two reads of the clock: 32 us of the calibrated CPU.
const RUNTIME_CHUNK: u64 = 32_000;

/// rt-app fails when one task has been forked this many times; here the forking thread ends.
const FORKS_LIMIT: u64 = 1024;

/// The work of `pthread_create`, in ns at the reference speed; the value is an assumption.
const FORK_WORK: u64 = 30_000;

/// The work of rt-app itself for a loop of a phase, in ns at the reference speed: reading clocks and writing the log's
/// line. The value is an assumption. The work also lets time pass in a loop of events that take no time.
const LOOP_WORK: u64 = 1_000;

/// The barrier that all initial threads meet first.
const START_BARRIER: u32 = 0;

/// The position after all events of a loop.
const NOT_IN_LOOP: usize = usize::MAX;

/// One thread. The fields that each event reads come first.
#[repr(C, align(64))]
pub struct Thread {
    doing: Doing,
    /// The actions of the phase's loop, and the position in it; the position is [`NOT_IN_LOOP`] before and between
    /// loops.
    actions: Arc<[Action]>,
    event: usize,
    step: Step,
    /// The number of completed loops of the phase, and its limit, unless the phase continues forever.
    phase_loops: u32,
    loops: Option<u32>,
    line: Line,
    log: Log,
    /// The time of the thread's release, in ns, at which its timer expired, or it was woken from a wait. `None` before
    /// the first release.
    released: Option<u64>,
    /// The thread's deadline after a release by a wakeup, and its response time, in ns. A thread with timers is judged
    /// only by its timers.
    deadline: Option<u64>,
    response: u64,
    /// The thread's longest response, in ns.
    longest: u64,
    /// The time from which timers count, in ns.
    first: u64,
    /// The states of the thread's own timers; see [`Thread::timer`].
    timers: Vec<u64>,
    plan: Arc<Plan>,
    task: usize,
    /// The thread's number among the task's initial threads.
    instance: usize,
    /// The index in `phases`, and the number of completed iterations over all phases.
    phase: usize,
    thread_loops: u32,
    forked: bool,
    policy: SchedPolicy,
    group: Option<GroupId>,
    affinity: Box<Affinity>,
}

enum Step {
    Start,
    Delay,
    TaskPolicy,
    TaskClamps,
    TaskGroup,
    Affinity,
    PhasePolicy,
    PhaseClamps,
    Group,
    Begin,
    Events,
    EndLoop(Next),
}

/// The next loop after a loop of a phase.
#[derive(Clone, Copy)]
enum Next {
    /// Another loop of the same phase, whose policy and affinity are already set.
    Again,
    /// A loop of another phase.
    Other,
    Exit,
}

/// The current event, if work remains when its op is complete.
enum Doing {
    Nothing,
    Run { since: u64 },
    Runtime { since: u64, until: u64 },
    Timer { due: u64 },
    Wait { cond: u32, since: u64 },
}

/// A thread's affinity; `None` stands for all CPUs.
#[derive(Default)]
struct Affinity {
    /// The affinity of the thread's parent.
    default: Option<CpuMask>,
    own: Option<CpuMask>,
}

/// A line of rt-app's log: the measurements of one loop of a phase, in ns.
#[derive(Default)]
struct Line {
    start: u64,
    run: u64,
    slack: i64,
    wakeup_latency: u64,
    /// Whether the loop had a timer, so that the last two values are measured.
    has_timer: bool,
}

impl Thread {
    pub fn initial(plan: &Arc<Plan>, task: usize, instance: usize) -> TaskSpec {
        let name = plan.thread_name(task, instance);
        let thread = Thread::new(plan, task, instance);
        plan.account(task, None)
            .measure(TaskSpec::new(name, thread))
    }

    fn new(plan: &Arc<Plan>, task: usize, instance: usize) -> Thread {
        let logs = &plan.logs[task];
        let mut thread = Thread {
            plan: Arc::clone(plan),
            task,
            instance,
            log: logs[instance.min(logs.len() - 1)],
            step: Step::Start,
            phase: 0,
            actions: Arc::clone(&plan.actions[task][0]),
            phase_loops: 0,
            loops: None,
            thread_loops: 0,
            event: NOT_IN_LOOP,
            doing: Doing::Nothing,
            forked: false,
            released: None,
            deadline: None,
            response: 0,
            longest: 0,
            first: 0,
            timers: vec![0; plan.config.tasks[task].timers.len()],
            policy: SchedPolicy::Normal {
                nice: 0,
                slice_ns: 0,
            },
            group: None,
            affinity: Box::default(),
            line: Line::default(),
        };
        thread.enter_phase();
        thread
    }

    /// Starts `phase`, which differs from the previous one.
    fn enter_phase(&mut self) {
        let phase = &self.plan.config.tasks[self.task].phases[self.phase];
        self.loops = phase.loops;
        self.line.has_timer = phase.has_timer();
        self.actions = Arc::clone(&self.plan.actions[self.task][self.phase]);
    }

    /// Makes a thread that this thread forks at `now`, which inherits the policy, the control group and the affinity.
    fn forked(&self, task: usize, now: u64) -> TaskSpec {
        let mut thread = Thread {
            forked: true,
            policy: self.policy,
            group: self.group,
            affinity: Box::new(Affinity {
                default: self.affinity.own,
                own: self.affinity.own,
            }),
            ..Thread::new(&self.plan, task, 0)
        };
        // If the run ends before the thread's first loop, the loop has been open since the fork.
        thread.line.start = now;
        let spec = TaskSpec {
            policy: self.policy,
            affinity: self.affinity.own,
            ..TaskSpec::new(Arc::clone(&self.plan.config.tasks[task].name), thread)
        };
        self.plan.account(task, self.group).measure(spec)
    }

    fn phase<'a>(&self, task: &'a Task) -> &'a Phase {
        &task.phases[self.phase]
    }

    fn set_policy(&mut self, policy: SchedPolicy) -> Option<Op> {
        (self.policy != policy).then(|| {
            self.policy = policy;
            Op::SetPolicy(policy)
        })
    }

    /// Enters the group of a `taskgroup`. Without one, the thread stays in its group.
    fn set_group(&mut self, wanted: Option<Option<GroupId>>) -> Option<Op> {
        let group = wanted.filter(|&group| group != self.group)?;
        self.group = group;
        Some(Op::EnterGroup(group))
    }

    fn set_affinity(&mut self, env: &Env, wanted: Option<CpuMask>) -> Option<Op> {
        let wanted = wanted.or(self.affinity.default);
        (self.affinity.own != wanted).then(|| {
            self.affinity.own = wanted;
            let all = || CpuMask::first_n(env.shared[word::CPUS] as usize);
            Op::SetAffinity(Box::new(wanted.unwrap_or_else(all)))
        })
    }

    /// Finishes the current event, unless the event continues with another [`RUNTIME_CHUNK`].
    #[inline]
    fn finish(&mut self, env: &mut Env) -> Option<Op> {
        let now = env.now;
        match self.doing {
            Doing::Nothing => {}
            Doing::Run { since } => self.line.run += now - since,
            Doing::Runtime { until, .. } if now < until => {
                return Some(Op::Run {
                    work: RUNTIME_CHUNK,
                });
            }
            Doing::Runtime { since, .. } => self.line.run += now - since,
            Doing::Timer { due } => self.line.wakeup_latency += now - due,
            Doing::Wait { cond, since } => self.woken(env, cond, since),
        }
        self.doing = Doing::Nothing;
        None
    }

    #[inline(never)]
    fn fork(&self, env: &mut Env, task: usize) -> Op {
        let forks = &mut env.shared[self.plan.forks_word(task)];
        if *forks == FORKS_LIMIT {
            return self.exit(env);
        }
        *forks += 1;
        env.shared[word::LIVE] += 1;
        Op::Fork {
            child: Box::new(self.forked(task, env.now)),
            work: FORK_WORK,
        }
    }

    /// The next op when all events of a loop are complete, or no loop has begun.
    #[inline(never)]
    fn turn(&mut self, env: &mut Env) -> Op {
        loop {
            match self.step {
                Step::Events => {
                    self.step = Step::EndLoop(self.end_loop(env));
                    return Op::Run { work: LOOP_WORK };
                }
                Step::Begin | Step::EndLoop(Next::Again) => {
                    self.begin_loop(env);
                    return self.act(env);
                }
                Step::EndLoop(Next::Other) => self.step = Step::Affinity,
                Step::EndLoop(Next::Exit) => return self.exit(env),
                _ => {
                    if let Some(op) = self.enter_loop(env) {
                        return op;
                    }
                }
            }
        }
    }

    /// Sleeps until the timer expires, unless its time has passed.
    #[inline(never)]
    fn sleep(&mut self, env: &mut Env, timer: Timer, period: u64) -> Op {
        match self.timer(env, timer, period) {
            Some(at) => Op::SleepUntil { at },
            None => self.act(env),
        }
    }

    /// Sets the timer for its next period. Returns the expiry, in ns, unless that has passed. A timer's state is the
    /// time from which its next period counts, plus 1, or 0 before the first use, when that time is `first`. It is the
    /// last expiry or, if a relative timer was set too late, the time when it was set.
    fn timer(&mut self, env: &mut Env, timer: Timer, period: u64) -> Option<u64> {
        let config = &self.plan.config;
        let (state, mode) = match timer {
            Timer::Shared(index) => {
                let index = index as usize;
                (&mut env.shared[word::TIMERS + index], config.timers[index])
            }
            Timer::Own(index) => {
                let modes = &config.tasks[self.task].timers;
                (&mut self.timers[index as usize], modes[index as usize])
            }
        };
        let last = state.checked_sub(1).unwrap_or(self.first);
        let due = last + period;
        let slack = due as i64 - env.now as i64;
        self.line.slack = match config.cumulative_slack {
            true => self.line.slack + slack,
            false => slack,
        };
        let missed = due <= env.now;
        let next = match mode {
            TimerMode::Relative if missed => env.now,
            _ => due,
        };
        *state = 1 + next;
        self.released.get_or_insert(self.first);
        self.respond(env);
        self.released = Some(next);
        if let Some(id) = self.log.wakes.and_then(|wakes| wakes.missed) {
            let period = Period {
                released: last,
                due,
                done: env.now,
                missed,
            };
            env.judge(id, period);
        }
        if missed {
            self.line.wakeup_latency = 0;
            return None;
        }
        self.doing = Doing::Timer { due };
        Some(due)
    }

    fn end_loop(&mut self, env: &mut Env) -> Next {
        let recorder = &mut env.recorder;
        let period = us(env.now - self.line.start);
        recorder.record_of(self.log.period, self.instance, period);
        self.line.start = env.now;
        if let Some(run) = self.log.run {
            recorder.record(run, us(self.line.run));
        }
        if self.line.has_timer
            && let (Some(slack), Some(wakes)) = (self.log.slack, self.log.wakes)
        {
            recorder.record(slack, self.line.slack as f64 / 1e3);
            recorder.record(wakes.wakeup_latency, us(self.line.wakeup_latency));
        }
        self.event = NOT_IN_LOOP;
        self.phase_loops = self.phase_loops.wrapping_add(1);
        if self.loops != Some(self.phase_loops) {
            return Next::Again;
        }
        self.end_phase()
    }

    #[inline(never)]
    fn end_phase(&mut self) -> Next {
        let task = &self.plan.config.tasks[self.task];
        self.phase_loops = 0;
        let last = self.phase;
        self.phase += 1;
        if self.phase == task.phases.len() {
            self.phase = 0;
            self.thread_loops = self.thread_loops.wrapping_add(1);
            if task.loops == Some(self.thread_loops) {
                return Next::Exit;
            }
        }
        if self.phase == last {
            return Next::Again;
        }
        self.enter_phase();
        Next::Other
    }

    /// Makes a step before the first event of a loop, and returns the op of the step, if it has one.
    #[inline(never)]
    fn enter_loop(&mut self, env: &mut Env) -> Option<Op> {
        let plan = Arc::clone(&self.plan);
        let task = &plan.config.tasks[self.task];
        match self.step {
            Step::Start => {
                self.step = Step::Delay;
                // As in rt-app, the first thread sets the time from which all threads count.
                if env.shared[word::ZERO_SET] == 0 {
                    env.shared[word::ZERO_SET] = 1;
                    env.shared[word::ZERO] = env.now;
                }
                if !self.forked {
                    env.shared[word::BEGUN] = env.now;
                }
                (!self.forked).then_some(Op::Barrier(START_BARRIER))
            }
            Step::Delay => {
                self.step = Step::TaskPolicy;
                self.first = env.shared[word::ZERO] + task.delay;
                // The thread is at work from here on, even if it waits for a CPU.
                let begun = self.first.max(env.shared[word::BEGUN]);
                self.line.start = self.line.start.max(begun);
                (task.delay > 0).then_some(Op::SleepUntil { at: self.first })
            }
            Step::TaskPolicy => {
                self.step = Step::TaskClamps;
                self.set_policy(task.policy)
            }
            Step::TaskClamps => {
                self.step = Step::TaskGroup;
                set_clamps(task.clamps)
            }
            Step::TaskGroup => {
                self.step = Step::Affinity;
                self.set_group(task.group)
            }
            Step::Affinity => {
                self.step = Step::PhasePolicy;
                let wanted = self.phase(task).affinity.or(task.affinity);
                self.set_affinity(env, wanted)
            }
            Step::Group => {
                self.step = Step::Begin;
                self.set_group(self.phase(task).group)
            }
            Step::PhasePolicy => {
                self.step = Step::PhaseClamps;
                let policy = self.phase(task).policy.unwrap_or(self.policy);
                self.set_policy(policy)
            }
            Step::PhaseClamps => {
                self.step = Step::Group;
                set_clamps(self.phase(task).clamps)
            }
            Step::Begin | Step::Events | Step::EndLoop(_) => unreachable!("not on the way"),
        }
    }

    fn begin_loop(&mut self, env: &mut Env) {
        self.step = Step::Events;
        self.event = 0;
        let now = env.now;
        if (self.thread_loops, self.phase, self.phase_loops) == (0, 0, 0) {
            let waited = us(now - self.line.start);
            env.recorder.record_wait(self.log.period, waited);
        }
        self.line = Line {
            start: now,
            has_timer: self.line.has_timer,
            ..Line::default()
        };
    }

    /// The op of the next event or, between loops, of the next step.
    #[inline(always)]
    fn act(&mut self, env: &mut Env) -> Op {
        let Some(&action) = self.actions.get(self.event) else {
            return self.turn(env);
        };
        self.event += 1;
        match action {
            Action::Run(work) => {
                self.doing = Doing::Run { since: env.now };
                Op::Run { work }
            }
            Action::Runtime(ns) => {
                self.doing = Doing::Runtime {
                    since: env.now,
                    until: env.now + ns,
                };
                Op::Run {
                    work: RUNTIME_CHUNK,
                }
            }
            Action::Copy(work) => Op::Run { work },
            Action::Sleep(ns) => Op::Sleep { ns },
            Action::Timer { timer, period } => self.sleep(env, timer, period),
            Action::Lock(mutex) => Op::Lock(mutex),
            Action::Unlock(mutex) => Op::Unlock(mutex),
            Action::Wait { cond, mutex } => {
                self.respond(env);
                self.doing = Doing::Wait {
                    cond,
                    since: env.now,
                };
                Op::Wait { cond, mutex }
            }
            Action::Signal(cond) => Op::Signal(cond),
            Action::Broadcast(cond) => Op::Broadcast(cond),
            Action::Post(semaphore) => Op::Write {
                stream: semaphore.stream,
                bytes: 1,
                work: 0,
            },
            Action::Take(semaphore) => {
                self.respond(env);
                self.doing = Doing::Wait {
                    cond: semaphore.cond,
                    since: env.now,
                };
                Op::Read {
                    stream: semaphore.stream,
                    bytes: 1,
                    work: 0,
                }
            }
            Action::Barrier(barrier) => Op::Barrier(START_BARRIER + 1 + barrier),
            Action::Yield => Op::Yield,
            Action::Fork(task) => self.fork(env, task),
        }
    }

    fn exit(&self, env: &mut Env) -> Op {
        env.shared[word::LIVE] -= 1;
        if env.shared[word::LIVE] == 0 {
            let ns = env.now - env.shared[word::ZERO];
            env.recorder.record(TIME, ns as f64 / 1e9);
        }
        Op::Exit
    }
}

fn set_clamps(clamps: UtilClamps) -> Option<Op> {
    (clamps != UtilClamps::default()).then_some(Op::SetUtilClamps(clamps))
}

impl Program for Thread {
    fn next(&mut self, env: &mut Env) -> Op {
        if !matches!(self.doing, Doing::Nothing)
            && let Some(op) = self.finish(env)
        {
            return op;
        }
        self.act(env)
    }

    fn end(&mut self, env: &mut Env) {
        if env.now > self.line.start {
            let age = us(env.now - self.line.start);
            env.recorder.record_open(self.log.period, age);
        }
        if let Some(wakes) = self.log.wakes {
            self.end_response(env, wakes);
        }
    }
}
