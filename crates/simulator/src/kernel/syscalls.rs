//! Running programs: carrying out one op after another on behalf of the task that a CPU runs.

use crate::abi::layout as abi;
use crate::events::What;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, Continuation, Section, TaskPtr};
use crate::program::polling::Spin;
use workload::{Env, KernelLock, Op, SchedPolicy};

/// How many ops a task may do without time passing before it is taken to be stuck.
const MAX_INSTANT_OPS: u32 = 1_000_000;

/// Work that a task is never done with, ns.
const ENDLESS: u64 = 1 << 50;

/// What a task does after a step of its program.
pub enum Step {
    /// Goes on at once.
    Go,
    /// Computes, as `Task::left` says, or leaves the CPU.
    Pass,
}

impl Kernel<'_> {
    /// The task on `cpu` is done computing: goes on with its program until it computes again, sleeps
    /// or has kernel time to pay for.
    pub fn advance(&mut self, cpu: usize, task: TaskPtr) {
        loop {
            let doing = task.continuation.replace(Continuation::NextOp);
            let step = match doing {
                Continuation::NextOp => {
                    let op = self.next_op(cpu, task);
                    self.begin(cpu, task, op)
                }
                Continuation::Op(op) => self.begin(cpu, task, op),
                Continuation::Sleep => Step::Go,
                Continuation::Poll => {
                    self.stop_spinning(task);
                    Step::Go
                }
                Continuation::Wait { relock: None } => Step::Go,
                Continuation::Wait {
                    relock: Some(mutex),
                } => self.relock(cpu, task, mutex),
                Continuation::LockSleep(section) => self.hold_again(cpu, task, section),
                Continuation::LockPoll(section) => self.hold_at_last(task, section),
                Continuation::LockHeld { keeps: true, .. } => Step::Go,
                Continuation::LockHeld { mutex, .. } => self.let_go(task, mutex),
                Continuation::Softirqs => self.run_ksoftirqd(cpu, task),
                Continuation::ReadDone { stream } => {
                    self.room_made(stream);
                    Step::Go
                }
                Continuation::WriteReady { stream, bytes } => {
                    if self.put(task, stream, bytes) {
                        Step::Go
                    } else {
                        task.continuation
                            .replace(Continuation::WriteReady { stream, bytes });
                        self.sleep(cpu, task, "room in a stream")
                    }
                }
            };
            if matches!(step, Step::Pass)
                || self.cpus[cpu].debt > 0
                || self.spent() > 0
                || self.cpus[cpu].need_resched
            {
                return;
            }
            if self.failure.is_some() {
                return;
            }
        }
    }

    fn next_op(&mut self, cpu: usize, task: TaskPtr) -> Op {
        let now = self.now();
        let clock_task = self.rq(cpu).clock_task;
        let cpu_time =
            task.abi.se.sum_exec_runtime.get() + (clock_task - task.abi.se.exec_start.get());
        let mut env = Env {
            now,
            cpu,
            due: task.due.get(),
            woken_at: task.woken_at.get(),
            cpu_time,
            shared: &mut self.programs.shared,
            rng: &mut self.programs.rng,
            recorder: &mut self.programs.recorder,
        };
        let op = task.program.borrow_mut().next(&mut env);
        if !self.programs.spinners.is_empty() {
            self.notice_words(cpu);
        }
        task.due.set(now);
        if task.instant.get() != now {
            task.instant.set(now);
            task.instant_ops.set(0);
        }
        task.instant_ops.set(task.instant_ops.get() + (1));
        if task.instant_ops.get() > MAX_INSTANT_OPS {
            self.task_error(
                task,
                format!("does {MAX_INSTANT_OPS} operations without time passing"),
            );
        }
        op
    }

    /// Computes `amount`, then goes on with `then`.
    pub fn compute(
        &mut self,
        task: TaskPtr,
        amount: u64,
        own_time: bool,
        then: Continuation,
    ) -> Step {
        task.continuation.replace(then);
        task.left.set(amount);
        task.own_time.set(own_time);
        if let Some(check) = &mut self.check {
            check.begins(task, amount, own_time);
        }
        if amount == 0 { Step::Go } else { Step::Pass }
    }

    /// The task sleeps until it is woken.
    pub fn sleep(&mut self, cpu: usize, task: TaskPtr, waits_for: &'static str) -> Step {
        task.abi.state.set(abi::TASK_INTERRUPTIBLE);
        task.waits_for.set(waits_for);
        self.cpus[cpu].need_resched = true;
        Step::Pass
    }

    /// After waiting in the kernel: takes the mutex, or waits again.
    fn relock(&mut self, cpu: usize, task: TaskPtr, mutex: u32) -> Step {
        if self.lock_contended(task, mutex) {
            return Step::Go;
        }
        task.continuation.replace(Continuation::Wait {
            relock: Some(mutex),
        });
        self.sleep(cpu, task, "a mutex")
    }

    /// Takes a lock of the kernel's and works under it, or polls or sleeps for it.
    fn hold(&mut self, cpu: usize, task: TaskPtr, section: Section, kind: KernelLock) -> Step {
        if kind == KernelLock::Spinlock {
            self.take_spinlock(section);
            return self.compute(task, section.work, false, Continuation::NextOp);
        }
        if self.acquire(task, section, false) {
            return self.work_under(task, section);
        }
        if kind == KernelLock::Mutex && !self.cpus[cpu].need_resched {
            self.spin(task, Spin::Kernel(section.mutex));
            return self.poll_for(task, section);
        }
        self.queue_for(task, section.mutex);
        self.sleep_for(cpu, task, section)
    }

    /// After polling for a lock of the kernel's, the longest of all: takes it, or polls on.
    fn hold_at_last(&mut self, task: TaskPtr, section: Section) -> Step {
        if self.acquire(task, section, false) {
            return self.work_under(task, section);
        }
        self.spin_on(task, Spin::Kernel(section.mutex));
        self.poll_for(task, section)
    }

    /// After sleeping for a lock of the kernel's: takes it, or sleeps again.
    fn hold_again(&mut self, cpu: usize, task: TaskPtr, section: Section) -> Step {
        match self.acquire(task, section, true) {
            true => self.work_under(task, section),
            false => self.sleep_for(cpu, task, section),
        }
    }

    fn poll_for(&mut self, task: TaskPtr, section: Section) -> Step {
        self.compute(task, ENDLESS, false, Continuation::LockPoll(section))
    }

    fn work_under(&mut self, task: TaskPtr, section: Section) -> Step {
        let Section { mutex, keeps, .. } = section;
        task.in_kernel.set(true);
        self.compute(
            task,
            section.work,
            false,
            Continuation::LockHeld { mutex, keeps },
        )
    }

    fn let_go(&mut self, task: TaskPtr, mutex: u32) -> Step {
        task.in_kernel.set(false);
        self.release(task, mutex);
        Step::Go
    }

    fn sleep_for(&mut self, cpu: usize, task: TaskPtr, section: Section) -> Step {
        task.continuation.replace(Continuation::LockSleep(section));
        self.sleep(cpu, task, "a lock of the kernel's")
    }

    fn sleep_until(&mut self, cpu: usize, task: TaskPtr, due: u64) -> Step {
        task.due.set(due);
        if due <= self.now() {
            return Step::Go;
        }
        // Normal tasks' timers may expire up to their slack later, and with nothing to merge with do.
        let slack = match task.policy.get() {
            SchedPolicy::Normal { .. } | SchedPolicy::Batch { .. } | SchedPolicy::Idle => {
                task.timer_slack_ns
            }
            _ => 0,
        };
        self.sleeping += 1;
        self.events.push(due + slack, What::Expiry { task });
        task.continuation.replace(Continuation::Sleep);
        self.sleep(cpu, task, "a timer")
    }

    fn begin(&mut self, cpu: usize, task: TaskPtr, op: Op) -> Step {
        match op {
            Op::Run { work } => self.compute(task, work, false, Continuation::NextOp),
            Op::RunFor { ns } => self.compute(task, ns, true, Continuation::NextOp),
            Op::Exec { work } => {
                self.tp_sched_prepare_exec(task);
                self.compute(task, work, false, Continuation::NextOp)
            }
            Op::Sleep { ns } => self.sleep_until(cpu, task, self.now() + ns),
            Op::SleepUntil { at } => self.sleep_until(cpu, task, at),
            Op::Lock(mutex) => {
                if self.try_lock(task, mutex) {
                    return Step::Go;
                }
                self.relock(cpu, task, mutex)
            }
            Op::Unlock(mutex) => {
                self.unlock(task, mutex);
                Step::Go
            }
            Op::Hold {
                mutex,
                work,
                lines,
                kind,
                keeps,
            } => {
                let section = Section {
                    mutex,
                    work,
                    lines,
                    keeps,
                };
                self.hold(cpu, task, section, kind)
            }
            Op::Release(mutex) => self.let_go(task, mutex),
            Op::Wait { cond, mutex } => {
                // Asleep before the mutex is released: its next owner may signal at once.
                task.continuation.replace(Continuation::Wait {
                    relock: Some(mutex),
                });
                let step = self.sleep(cpu, task, "a condition");
                self.wait(task, cond, mutex);
                step
            }
            Op::Signal(cond) => {
                self.signal(cond);
                Step::Go
            }
            Op::Broadcast(cond) => {
                self.broadcast(cond);
                Step::Go
            }
            Op::BroadcastRequeue(cond) => {
                self.broadcast_requeue(cond);
                Step::Go
            }
            Op::SpinWhile { word, value, work } => {
                if self.programs.shared.get(word) != Some(&value) || work == 0 {
                    return Step::Go;
                }
                self.spin(task, Spin::Word { word, value });
                self.compute(task, work, false, Continuation::Poll)
            }
            Op::SpinLock(mutex) => {
                if self.try_lock(task, mutex) {
                    return Step::Go;
                }
                self.spin(task, Spin::Mutex(mutex));
                self.compute(task, ENDLESS, false, Continuation::Op(Op::SpinLock(mutex)))
            }
            Op::Barrier(barrier) => {
                if self.arrive(task, barrier) {
                    return Step::Go;
                }
                task.continuation
                    .replace(Continuation::Wait { relock: None });
                self.sleep(cpu, task, "a barrier")
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
            } => {
                if self.take(task, stream, bytes) {
                    return self.compute(task, work, false, Continuation::ReadDone { stream });
                }
                task.continuation.replace(Continuation::Op(Op::Read {
                    stream,
                    bytes,
                    work,
                }));
                self.sleep(cpu, task, "bytes in a stream")
            }
            Op::Fork { child, work: 0 } => {
                self.fork(cpu, task, *child);
                Step::Go
            }
            Op::Fork { child, work } => self.compute(
                task,
                work,
                false,
                Continuation::Op(Op::Fork { child, work: 0 }),
            ),
            Op::Join => {
                if task.children.get() == 0 {
                    return Step::Go;
                }
                task.joining.set(true);
                self.sleep(cpu, task, "its children")
            }
            Op::Yield => {
                match task.class.get() {
                    Class::Dl => self.yield_dl(cpu, task),
                    Class::Rt => task.rr_left.set(0),
                    Class::Ext => self.yield_ext(task),
                }
                self.cpus[cpu].need_resched = true;
                Step::Pass
            }
            Op::SetAffinity(mask) => {
                self.set_affinity(cpu, task, *mask);
                Step::Pass
            }
            Op::SetPolicy(policy) => {
                self.change_policy(cpu, task, policy);
                Step::Pass
            }
            Op::Exit => {
                self.exit(cpu, task);
                Step::Pass
            }
        }
    }
}
