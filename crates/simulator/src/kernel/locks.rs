//! Kernel locks that tasks hold in system calls: mutexes and rwsems of Linux 3.10, whose waiters sleep, and spinlocks.
//!
//! The sleeping waiters of a mutex or rwsem are in a list that a spinlock of the lock protects (`wait_lock`). A task
//! takes the `wait_lock` to enter and leave the list, and keeps it while it wakes the first waiter (kernel/mutex.c,
//! lib/rwsem.c). Once a task has the `wait_lock`, it tries to take the lock again before it sleeps. Before they sleep
//! for a mutex, tasks poll for it in a queue. Only the first task of the queue stops polling when its CPU has to
//! reschedule, or when the holder does not run (`mspin_lock()`, `mutex_spin_on_owner()`).

use crate::kernel::Kernel;
use crate::kernel::syscalls::{ENDLESS, Step};
use crate::kernel::task::{Continuation, Section, TaskPtr};
use crate::kernel::wakeups::Wakeup;
use crate::program::polling::PollUntil;
use workload::KernelLock;

/// The reason for which a waiter of a kernel lock sleeps.
const KERNEL_LOCK: &str = "a kernel lock";

impl Kernel<'_> {
    /// Takes a kernel lock and works under it, or polls or sleeps for it.
    pub fn hold(&mut self, cpu: usize, task: TaskPtr, section: Section) -> Step {
        if section.kind == KernelLock::Spinlock {
            self.take_spinlock(section);
            return self.compute(task, section.work, false, Continuation::NextOp);
        }
        if section.if_locked && !self.programs.mutexes.is_locked(section.mutex) {
            return Step::Go;
        }
        if self.acquire(task, section, false) {
            return self.work_under(task, section);
        }
        if section.kind == KernelLock::Rwsem {
            return self.queue_for(task, section);
        }
        let until = PollUntil::KernelLock(section.mutex);
        self.programs.pollers.start(task, until);
        task.polls_since.set(self.now());
        if self.must_stop_polling(cpu, section.mutex) && self.programs.pollers.is_first(task, until)
        {
            self.programs.pollers.stop(task);
            return self.queue_for(task, section);
        }
        self.poll_for(task, section)
    }

    /// Takes a kernel lock if it is free, and fetches the lines that it protects from its previous holders.
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

    /// Must the first task that polls for a kernel lock stop? The task is on `cpu`.
    fn must_stop_polling(&self, cpu: usize, mutex: u32) -> bool {
        self.cpus[cpu].need_resched || !self.holder_runs(mutex)
    }

    /// Does the holder of a kernel lock, if there is one, have a CPU?
    fn holder_runs(&self, mutex: u32) -> bool {
        let owner = self.programs.mutexes.owner(mutex);
        owner.is_none_or(|owner| owner.in_kernel.get())
    }

    /// Prepares `task` for leaving `cpu`. If the task keeps a kernel lock, no other task may poll for that lock.
    pub fn goes(&mut self, cpu: usize, task: TaskPtr) {
        if let Some(mutex) = task.keeps.get() {
            task.in_kernel.set(false);
            self.next_poller(cpu, mutex);
        }
    }

    /// Restores the state of `task`, which has its CPU again.
    pub fn is_back(&mut self, task: TaskPtr) {
        task.in_kernel.set(task.keeps.get().is_some());
    }

    /// Takes a kernel lock for the task that has polled for it longer than all others. If another task was faster, the
    /// poller continues to poll, or sleeps if it must.
    pub fn hold_at_last(&mut self, cpu: usize, task: TaskPtr, section: Section) -> Step {
        let step = match self.acquire(task, section, false) {
            true => self.work_under(task, section),
            false if self.must_stop_polling(cpu, section.mutex) => self.queue_for(task, section),
            false => {
                let until = PollUntil::KernelLock(section.mutex);
                self.programs.pollers.go_on(task, until);
                return self.poll_for(task, section);
            }
        };
        self.next_poller(cpu, section.mutex);
        step
    }

    /// Stops the first task that polls for a kernel lock if it must stop. Called when a task has become the first, or
    /// when the holder leaves its CPU.
    fn next_poller(&mut self, cpu: usize, mutex: u32) {
        let until = PollUntil::KernelLock(mutex);
        let Some(first) = self.programs.pollers.first(until) else {
            return;
        };
        if self.must_stop_polling(first.cpu(), mutex) {
            self.programs.pollers.stop(first);
            self.end_poll(cpu, first);
        }
    }

    /// `cpu` has to reschedule: if its task is the first that polls for a kernel lock, the task sleeps for that lock
    /// instead.
    pub fn stop_polling(&mut self, cpu: usize) {
        let Some(task) = self.cpus[cpu].curr else {
            return;
        };
        let Continuation::LockPoll(section) = task.continuation.get() else {
            return;
        };
        let until = PollUntil::KernelLock(section.mutex);
        if self.programs.pollers.is_first(task, until) {
            self.programs.pollers.stop(task);
            self.queue_for(task, section);
            self.next_poller(cpu, section.mutex);
        }
    }

    fn poll_for(&mut self, task: TaskPtr, section: Section) -> Step {
        task.in_kernel.set(true);
        self.compute(task, ENDLESS, false, Continuation::LockPoll(section))
    }

    /// Takes the `wait_lock`, to wait behind the other sleepers of a lock.
    fn queue_for(&mut self, task: TaskPtr, section: Section) -> Step {
        let Section { mutex, kind, .. } = section;
        if kind == KernelLock::Rwsem {
            self.programs.mutexes.arrive(mutex);
        }
        let last = self.programs.mutexes.last_waiter(mutex);
        self.take_wait_lock(mutex, last);
        task.in_kernel.set(true);
        self.compute(task, 0, false, Continuation::LockQueue(section))
    }

    /// Takes the lock for a task that has the `wait_lock`; if the lock is still held, the task sleeps.
    pub fn hold_or_sleep(&mut self, cpu: usize, task: TaskPtr, section: Section) -> Step {
        if section.kind == KernelLock::Rwsem {
            self.programs.mutexes.arrived(section.mutex);
        }
        if self.acquire(task, section, false) {
            return self.work_under(task, section);
        }
        self.programs.mutexes.queue(task, section.mutex);
        self.sleep_for(cpu, task, section)
    }

    /// Takes the `wait_lock` for a task that has slept for a kernel lock, to try again. A waiter of an rwsem first
    /// checks whether the lock is free.
    pub fn hold_again(&mut self, cpu: usize, task: TaskPtr, section: Section) -> Step {
        let looks = section.kind == KernelLock::Rwsem;
        if looks && !self.programs.mutexes.is_free(section.mutex) {
            return self.sleep_for(cpu, task, section);
        }
        let next = task.next_waiter.get();
        self.take_wait_lock(section.mutex, next);
        task.in_kernel.set(true);
        self.compute(task, 0, false, Continuation::LockRetry(section))
    }

    /// Takes the lock for the first waiter, which has the `wait_lock`, or lets the waiter sleep again.
    pub fn hold_or_sleep_again(&mut self, cpu: usize, task: TaskPtr, section: Section) -> Step {
        match self.acquire(task, section, true) {
            true => self.work_under(task, section),
            false => self.sleep_for(cpu, task, section),
        }
    }

    fn sleep_for(&mut self, cpu: usize, task: TaskPtr, section: Section) -> Step {
        task.in_kernel.set(false);
        task.continuation.set(Continuation::LockSleep(section));
        self.sleep(cpu, task, KERNEL_LOCK)
    }

    fn work_under(&mut self, task: TaskPtr, section: Section) -> Step {
        task.in_kernel.set(true);
        let held = Continuation::LockHeld {
            mutex: section.mutex,
            keeps: section.keeps,
        };
        self.compute(task, section.work, false, held)
    }

    /// Releases a kernel lock: the task that has polled for it the longest is next, and the first sleeper is woken.
    pub fn release(&mut self, cpu: usize, task: TaskPtr, mutex: u32) -> Step {
        task.in_kernel.set(false);
        task.keeps.set(None);
        let Ok((kind, first)) = self.programs.mutexes.release(task, mutex) else {
            self.task_error(
                task,
                format_args!("releases the kernel lock {mutex}, which it does not hold"),
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

    /// Wakes the first waiter of a lock, under its `wait_lock`. If the first waiter of a mutex has already been woken,
    /// the mutex is released without another wakeup: its count shows no waiter until that waiter has tried and failed.
    fn wake_first(&mut self, cpu: usize, mutex: u32, kind: KernelLock, first: TaskPtr) {
        if kind == KernelLock::Mutex && first.on_rq.get() {
            return;
        }
        let turn = self.begin_wait_lock(mutex);
        let debt = self.cpus[cpu].debt;
        self.fetch_waiter(first);
        let wakeup = match kind {
            KernelLock::Rwsem => Wakeup::Rwsem,
            _ => Wakeup::Mutex,
        };
        self.wake(first, wakeup);
        let woke = self.cpus[cpu].debt - debt;
        if let Some(turn) = turn {
            self.end_wait_lock(mutex, turn, woke);
        }
    }
}
