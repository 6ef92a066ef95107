//! Running programs: executing one op after another for the task that a CPU runs. The objects that
//! tasks wait on are in [`crate::program`]; wakeups, sleeps and costs are decided here.

mod locks;
mod streams;

use crate::Event;
use crate::abi::layout as abi;
use crate::events::What;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, Continuation, Section, TaskPtr};
use crate::kernel::wakeups::Wakeup;
use crate::program::polling::PollUntil;
use crate::scx::tracepoints;
use std::mem::ManuallyDrop;
use workload::{Op, Program, SchedPolicy};

/// The number of ops that a task may execute without time passing before it is treated as stuck.
const MAX_INSTANT_OPS: u32 = 1_000_000;

/// Work without end, in ns.
pub const ENDLESS: u64 = 1 << 50;

/// The reason for which a waiter of a user space mutex sleeps.
pub const MUTEX: &str = "a mutex";
/// The reason for which a task sleeps until its children have exited.
const CHILDREN: &str = "its children";
/// The reason for which a task sleeps until a given time.
pub const TIMER: &str = "a timer";

/// The way in which a task continues after a step of its program.
pub enum Step {
    /// The task continues with the next op.
    Go,
    /// The task continues with its continuation ([`Continuation`]).
    Continue,
    /// The task computes, as `Task::left` says, or leaves the CPU.
    Pass,
}

impl Kernel<'_> {
    /// The task on `cpu` completes its computing: carries on with its program until the task computes again, sleeps or
    /// has kernel time to pay for.
    #[inline]
    pub fn advance(&mut self, cpu: usize, task: TaskPtr, clock_task: u64) {
        let mut step = match task.continuation.get() {
            Continuation::NextOp => Step::Go,
            _ => Step::Continue,
        };
        self.tell(cpu, task, clock_task);
        let mut program = task.program.borrow_mut();
        loop {
            step = match step {
                Step::Go => self.next_op(cpu, task, &mut **program),
                _ => self.go_on(cpu, task),
            };
            if matches!(step, Step::Pass) || self.is_held_up(cpu) {
                return;
            }
        }
    }

    /// Must `cpu`'s task wait before it takes another step?
    #[inline]
    fn is_held_up(&self, cpu: usize) -> bool {
        let state = &self.cpus[cpu];
        state.debt > 0 || self.spent() > 0 || state.need_resched || self.failure.is_some()
    }

    /// Executes the rest of an op that took time.
    #[inline(always)]
    fn go_on(&mut self, cpu: usize, task: TaskPtr) -> Step {
        match task.continuation.get() {
            Continuation::ReadDone { stream } => {
                task.continuation.set(Continuation::NextOp);
                if self.programs.streams.is_writable(stream) {
                    self.wake_writers(stream);
                }
                Step::Go
            }
            Continuation::WriteReady { stream, bytes } => {
                task.continuation.set(Continuation::NextOp);
                self.write(cpu, task, stream, bytes)
            }
            _ => self.go_on_otherwise(cpu, task),
        }
    }

    /// Executes the rest of an op that is not among the most frequent ones.
    #[inline(never)]
    fn go_on_otherwise(&mut self, cpu: usize, task: TaskPtr) -> Step {
        match task.continuation.replace(Continuation::NextOp) {
            Continuation::NextOp | Continuation::Sleep | Continuation::Join => Step::Go,
            Continuation::WaitChildren => self.wait_children(cpu, task),
            Continuation::Read {
                stream,
                bytes,
                work,
            } => {
                self.is_back(task);
                self.read(cpu, task, stream, bytes, work)
            }
            Continuation::SpinLock { mutex } => self.spin_lock(cpu, task, mutex),
            Continuation::Fork => {
                if let Some(child) = task.child.take() {
                    self.fork(cpu, task, *child);
                }
                Step::Go
            }
            Continuation::Poll => {
                self.programs.pollers.stop(task);
                Step::Go
            }
            Continuation::Wait { relock: None } => Step::Go,
            Continuation::Wait {
                relock: Some(mutex),
            } => self.lock(cpu, task, mutex),
            Continuation::LockQueue(section) => self.hold_or_sleep(cpu, task, section),
            Continuation::LockSleep(section) => self.hold_again(cpu, task, section),
            Continuation::LockRetry(section) => self.hold_or_sleep_again(cpu, task, section),
            Continuation::LockPoll(section) => self.hold_at_last(cpu, task, section),
            Continuation::LockHeld { mutex, keeps: true } => {
                task.keeps.set(Some(mutex));
                Step::Go
            }
            Continuation::CondResched => {
                self.is_back(task);
                Step::Go
            }
            Continuation::LockHeld { mutex, .. } => self.release(cpu, task, mutex),
            Continuation::Softirqs => self.run_ksoftirqd(cpu, task),
            Continuation::ReadDone { .. } | Continuation::WriteReady { .. } => {
                unreachable!("go_on() has done it")
            }
        }
    }

    /// Updates `env`, which the task's program reads. Its content is valid until time passes.
    #[inline]
    fn tell(&mut self, cpu: usize, task: TaskPtr, clock_task: u64) {
        let now = self.now();
        let entity = &task.abi.se;
        let since = clock_task - entity.exec_start.get();
        let env = &mut self.programs.env;
        env.now = now;
        env.cpu = cpu;
        env.woken_at = task.woken_at.get();
        env.cpu_time = entity.sum_exec_runtime.get() + since;
        if task.instant.replace(now) != now {
            task.instant_ops.set(0);
        }
    }

    /// Asks the task's program for its next op, and begins it.
    #[inline]
    fn next_op(&mut self, cpu: usize, task: TaskPtr, program: &mut dyn Program) -> Step {
        let env = &mut self.programs.env;
        env.due = task.due.replace(env.now);
        let op = program.next(env);
        if env.periods.as_ref().is_some_and(|list| !list.is_empty()) {
            self.trace_periods(cpu, task);
        }
        if !self.programs.pollers.is_empty() {
            self.words_written(cpu);
        }
        let ops = task.instant_ops.get() + 1;
        task.instant_ops.set(ops);
        if ops > MAX_INSTANT_OPS {
            let message = format_args!("makes {MAX_INSTANT_OPS} operations without time passing");
            self.task_error(task, message);
        }
        self.begin(cpu, task, op)
    }

    /// Ends the program of `task`, because the run ends before the task exits.
    pub fn end_program(&mut self, task: TaskPtr) {
        let (now, cpu, cpu_time) = (self.now(), task.cpu(), self.cpu_time(task));
        let env = &mut self.programs.env;
        env.now = now;
        env.cpu = cpu;
        env.woken_at = task.woken_at.get();
        env.cpu_time = cpu_time;
        task.program.borrow_mut().end(env);
        if env.periods.as_ref().is_some_and(|list| !list.is_empty()) {
            self.trace_periods(cpu, task);
        }
    }

    /// Traces the periods that the task's program has judged.
    #[cold]
    fn trace_periods(&mut self, cpu: usize, task: TaskPtr) {
        let mut periods = self.programs.env.periods.take().unwrap_or_default();
        for period in periods.drain(..) {
            let event = Event::Period {
                task: (&task.name, task.pid()),
                released: period.released,
                due: period.due,
                done: period.done,
                missed: period.missed,
            };
            self.traced(cpu, event);
        }
        self.programs.env.periods = Some(periods);
    }

    /// Computes `amount`, then continues with `then`.
    #[inline]
    pub fn compute(
        &mut self,
        task: TaskPtr,
        amount: u64,
        own_time: bool,
        then: Continuation,
    ) -> Step {
        task.continuation.set(then);
        self.set_left(task, amount, own_time);
        if amount == 0 {
            Step::Continue
        } else {
            Step::Pass
        }
    }

    /// Gives the task `amount` to compute.
    #[inline]
    pub fn set_left(&mut self, task: TaskPtr, amount: u64, own_time: bool) {
        task.left.set(amount);
        task.own_time.set(own_time);
        if let Some(check) = &mut self.check {
            check.begins(task, amount, own_time);
        }
    }

    /// Puts the task to sleep until it is woken.
    pub fn sleep(&mut self, cpu: usize, task: TaskPtr, waits_for: &'static str) -> Step {
        task.abi.state.set(abi::TASK_INTERRUPTIBLE);
        task.waits_for.set(waits_for);
        self.cpus[cpu].need_resched = true;
        Step::Pass
    }

    /// Waits for a child to exit, as long as the task has children.
    fn wait_children(&mut self, cpu: usize, task: TaskPtr) -> Step {
        if task.children.get() == 0 {
            return Step::Go;
        }
        task.continuation.set(Continuation::WaitChildren);
        self.sleep(cpu, task, CHILDREN)
    }

    /// Ends the polls for shared words that the task on `cpu` may have written.
    fn words_written(&mut self, cpu: usize) {
        while let Some(task) = self.programs.stop_changed() {
            self.end_poll(cpu, task);
        }
    }

    /// Ends the polling of tasks whose wait is `over` by an action of `cpu`.
    fn end_polls(&mut self, cpu: usize, over: impl Fn(PollUntil) -> bool) {
        while let Some(task) = self.programs.pollers.stop_first(&over) {
            self.end_poll(cpu, task);
        }
    }

    pub fn end_poll(&mut self, by: usize, task: TaskPtr) {
        let cpu = task.cpu();
        let polls = self.cpus[cpu].curr == Some(task) && self.cpus[cpu].armed;
        if polls {
            self.pause(cpu);
        }
        self.set_left(task, 0, false);
        if polls {
            self.charge(cpu, self.transfer_ns(by, cpu));
            self.resume(cpu, task);
        }
    }

    fn sleep_until(&mut self, cpu: usize, task: TaskPtr, due: u64) -> Step {
        task.due.set(due);
        if due <= self.now() {
            return Step::Go;
        }
        // The timer of a normal task may expire later by up to the task's slack, and does so if there is no other timer
        // with which it can be merged.
        let slack = match task.policy.get() {
            SchedPolicy::Normal { .. } | SchedPolicy::Batch { .. } | SchedPolicy::Idle => {
                task.timer_slack_ns
            }
            _ => 0,
        };
        self.sleeping += 1;
        self.events.push(due + slack, What::Expiry { task });
        task.continuation.set(Continuation::Sleep);
        self.sleep(cpu, task, TIMER)
    }

    #[inline]
    fn begin(&mut self, cpu: usize, task: TaskPtr, op: Op) -> Step {
        // The frequent ops own nothing that has to be dropped.
        let op = ManuallyDrop::new(op);
        match *op {
            Op::Run { work } => self.compute(task, work, false, Continuation::NextOp),
            Op::RunFor { ns } => self.compute(task, ns, true, Continuation::NextOp),
            Op::Sleep { ns } => self.sleep_until(cpu, task, self.now() + ns),
            Op::SleepUntil { at } => self.sleep_until(cpu, task, at),
            Op::Lock(mutex) => {
                if self.try_lock(cpu, task, mutex) {
                    return Step::Go;
                }
                self.lock(cpu, task, mutex)
            }
            Op::Unlock(mutex) => {
                self.unlock(cpu, task, mutex);
                Step::Go
            }
            Op::Wait { cond, mutex } => {
                // The task must be asleep before the mutex is released, because the next owner may signal at once.
                let step = self.wait(cpu, task, Some(mutex), "a condition");
                self.programs.condvars.wait(task, cond);
                self.unlock(cpu, task, mutex);
                step
            }
            Op::Signal(cond) => {
                if let Some(waiter) = self.programs.condvars.signal(cond) {
                    self.wake(waiter, Wakeup::Futex);
                }
                Step::Go
            }
            Op::Broadcast(cond) => {
                while let Some(waiter) = self.programs.condvars.signal(cond) {
                    self.wake(waiter, Wakeup::Futex);
                }
                Step::Go
            }
            Op::Write {
                stream,
                bytes,
                work,
            } => self.compute(
                task,
                work,
                false,
                Continuation::WriteReady { stream, bytes },
            ),
            Op::Read {
                stream,
                bytes,
                work,
            } => self.read(cpu, task, stream, bytes, work),
            _ => self.begin_rare(cpu, task, ManuallyDrop::into_inner(op)),
        }
    }

    #[inline(never)]
    fn begin_rare(&mut self, cpu: usize, task: TaskPtr, op: Op) -> Step {
        match op {
            Op::Exec { work } => {
                tracepoints::sched_prepare_exec(self, task);
                self.compute(task, work, false, Continuation::NextOp)
            }
            Op::Hold {
                mutex,
                work,
                lines,
                nodes,
                kind,
                keeps,
                if_locked,
            } => {
                let section = Section {
                    mutex,
                    work,
                    lines,
                    nodes,
                    kind,
                    keeps,
                    if_locked,
                };
                self.hold(cpu, task, section)
            }
            Op::Release(mutex) => self.release(cpu, task, mutex),
            Op::CondResched => {
                if !self.cpus[cpu].need_resched {
                    return Step::Go;
                }
                task.continuation.set(Continuation::CondResched);
                self.goes(cpu, task);
                Step::Pass
            }
            Op::BroadcastRequeue(cond) => {
                self.broadcast_requeue(cond);
                Step::Go
            }
            Op::SpinWhile { word, value, work } => {
                if self.programs.env.shared.get(word) != Some(value) || work == 0 {
                    return Step::Go;
                }
                let until = PollUntil::Word { word, value };
                self.programs.pollers.start(task, until);
                task.polls_since.set(self.now());
                self.compute(task, work, false, Continuation::Poll)
            }
            Op::SpinLock(mutex) => self.spin_lock(cpu, task, mutex),
            Op::Barrier(barrier) => self.arrive(cpu, task, barrier),
            Op::Fork { child, work: 0 } => {
                self.fork(cpu, task, *child);
                Step::Go
            }
            Op::Fork { child, work } => {
                task.child.set(Some(child));
                self.compute(task, work, false, Continuation::Fork)
            }
            Op::Join => {
                if task.children.get() == 0 {
                    return Step::Go;
                }
                task.continuation.set(Continuation::Join);
                self.sleep(cpu, task, CHILDREN)
            }
            Op::WaitChildren => self.wait_children(cpu, task),
            Op::Yield => {
                match task.class.get() {
                    Class::Dl => self.yield_dl(cpu, task),
                    Class::Rt => task.rr_left.set(0),
                    Class::Ext => self.yield_ext(task),
                }
                self.cpus[cpu].need_resched = true;
                Step::Pass
            }
            // As in Linux, a call that changes nothing leaves the task alone.
            Op::SetAffinity(mask)
                if mask.and(&self.machine.all_cpus()) == task.abi.cpus_mask.get() =>
            {
                Step::Go
            }
            Op::SetAffinity(mask) => {
                self.set_affinity(cpu, task, *mask);
                Step::Pass
            }
            Op::SetPolicy(policy) if policy == task.policy.get() => Step::Go,
            Op::SetPolicy(policy) => {
                self.change_policy(cpu, task, policy);
                Step::Pass
            }
            Op::SetUtilClamps(clamps) => {
                self.change_clamps(cpu, task, clamps);
                Step::Pass
            }
            Op::EnterGroup(group) => {
                self.enter_group(cpu, task, group);
                Step::Pass
            }
            Op::Exit => {
                self.exit(cpu, task);
                Step::Pass
            }
            _ => unreachable!("begin() does it"),
        }
    }
}
