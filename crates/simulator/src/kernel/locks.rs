//! Kernel locks that tasks hold in system calls: mutexes and rwsems of Linux 3.10, whose waiters
//! sleep, and spinlocks.
//!
//! The sleeping waiters of a mutex or rwsem are in a list under a spinlock of its own
//! (`wait_lock`). A task takes it to enter and leave the list, and keeps it while it wakes the
//! first waiter (kernel/mutex.c, lib/rwsem.c).

use crate::abi::layout as abi;
use crate::kernel::Kernel;
use crate::kernel::syscalls::{ENDLESS, Step};
use crate::kernel::task::{Continuation, Section, TaskPtr};
use crate::program::polling::PollUntil;
use workload::KernelLock;

/// The reason for which a waiter of a kernel lock sleeps.
const KERNEL_LOCK: &str = "a lock of the kernel's";

impl Kernel<'_> {
    /// Takes a kernel lock and works under it, or polls or sleeps for it.
    pub fn hold(&mut self, cpu: usize, task: TaskPtr, section: Section) -> Step {
        if section.kind == KernelLock::Spinlock {
            self.take_spinlock(section);
            return self.compute(task, section.work, false, Continuation::NextOp);
        }
        if self.acquire(task, section, false) {
            return self.work_under(task, section);
        }
        if section.kind == KernelLock::Mutex && !self.cpus[cpu].need_resched {
            let until = PollUntil::KernelLock(section.mutex);
            self.programs.pollers.start(task, until);
            return self.poll_for(task, section);
        }
        self.queue_for(task, section);
        self.sleep_for(cpu, task, section)
    }

    /// Takes a kernel lock if it is free, and the lines that it protects from its previous holders.
    fn acquire(&mut self, task: TaskPtr, section: Section, waited: bool) -> bool {
        let Section {
            mutex,
            lines,
            nodes,
            kind,
            ..
        } = section;
        let last = self.programs.mutexes.acquire(task, mutex, kind, waited);
        if let Some(last) = last {
            self.fetch_lines(last, lines);
            self.fetch_nodes(mutex, nodes);
        }
        last.is_some()
    }

    /// After polling for a kernel lock, the longest of all: takes it, or continues to poll.
    pub fn hold_at_last(&mut self, task: TaskPtr, section: Section) -> Step {
        if self.acquire(task, section, false) {
            return self.work_under(task, section);
        }
        let until = PollUntil::KernelLock(section.mutex);
        self.programs.pollers.go_on(task, until);
        self.poll_for(task, section)
    }

    /// After sleeping for a kernel lock: takes it, or sleeps again. A waiter of an rwsem checks it
    /// before it takes `wait_lock`.
    pub fn hold_again(&mut self, cpu: usize, task: TaskPtr, section: Section) -> Step {
        let looks = section.kind == KernelLock::Rwsem;
        if looks && !self.programs.mutexes.is_free(section.mutex) {
            return self.sleep_for(cpu, task, section);
        }
        self.take_wait_lock(section.mutex);
        match self.acquire(task, section, true) {
            true => self.work_under(task, section),
            false => self.sleep_for(cpu, task, section),
        }
    }

    fn poll_for(&mut self, task: TaskPtr, section: Section) -> Step {
        self.compute(task, ENDLESS, false, Continuation::LockPoll(section))
    }

    fn work_under(&mut self, task: TaskPtr, section: Section) -> Step {
        task.in_kernel.set(true);
        let held = Continuation::LockHeld {
            mutex: section.mutex,
            keeps: section.keeps,
        };
        self.compute(task, section.work, false, held)
    }

    /// Releases a kernel lock: the task that has polled for it the longest is next, and the first
    /// sleeper is woken.
    pub fn release(&mut self, cpu: usize, task: TaskPtr, mutex: u32) -> Step {
        task.in_kernel.set(false);
        let Ok((kind, first)) = self.programs.mutexes.release(task, mutex) else {
            self.task_error(
                task,
                format_args!("releases the kernel's lock {mutex}, which it does not hold"),
            );
            return Step::Go;
        };
        let pollers = &mut self.programs.pollers;
        let next = pollers.stop_first(|until| until == PollUntil::KernelLock(mutex));
        if let Some(next) = next {
            self.end_poll(cpu, next);
        }
        if let Some(first) = first {
            self.wake_first(cpu, mutex, kind, first);
        }
        Step::Go
    }

    /// Wakes the first waiter of a lock, under its `wait_lock`. A mutex whose first waiter has
    /// already been woken is released without it: its count shows no waiter until that one has
    /// tried and failed.
    fn wake_first(&mut self, cpu: usize, mutex: u32, kind: KernelLock, first: TaskPtr) {
        if kind == KernelLock::Mutex && first.on_rq.get() {
            return;
        }
        let turn = self.begin_wait_lock(mutex);
        let debt = self.cpus[cpu].debt;
        self.wake(first, 0);
        let woke = self.cpus[cpu].debt - debt;
        if let Some(turn) = turn {
            self.end_wait_lock(mutex, turn, woke);
        }
    }

    /// The task waits behind the other sleepers of a lock.
    fn queue_for(&mut self, task: TaskPtr, section: Section) {
        self.take_wait_lock(section.mutex);
        self.programs.mutexes.queue(task, section.mutex);
    }

    fn sleep_for(&mut self, cpu: usize, task: TaskPtr, section: Section) -> Step {
        task.continuation.set(Continuation::LockSleep(section));
        self.sleep(cpu, task, KERNEL_LOCK)
    }

    /// The task on `cpu` is to be preempted: if it polls for a kernel lock, it sleeps for it
    /// instead. It does not sleep if it is next in turn, because it might then never be woken; it
    /// takes the lock when it runs next.
    pub fn sleep_instead(&mut self, task: TaskPtr) {
        let Continuation::LockPoll(section) = task.continuation.get() else {
            return;
        };
        if !self.programs.pollers.stop(task) {
            return;
        }
        self.set_left(task, 0, false);
        self.queue_for(task, section);
        task.continuation.set(Continuation::LockSleep(section));
        task.abi.state.set(abi::TASK_INTERRUPTIBLE);
        task.waits_for.set(KERNEL_LOCK);
    }
}
