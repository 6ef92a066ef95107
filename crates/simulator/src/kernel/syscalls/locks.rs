//! System calls on mutexes, condition variables and barriers.

use super::{ENDLESS, MUTEX, Step};
use crate::kernel::Kernel;
use crate::kernel::task::{Continuation, TaskPtr};
use crate::kernel::wakeups::Wakeup;
use crate::program::mutex::TryLock;
use crate::program::polling::PollUntil;

impl Kernel<'_> {
    /// Takes the mutex if it is free.
    #[inline(always)]
    pub(super) fn try_lock(&mut self, cpu: usize, task: TaskPtr, mutex: u32) -> bool {
        match self.programs.mutexes.try_lock(task, mutex) {
            TryLock::Locked { from } if from == cpu => true,
            TryLock::Locked { from } => {
                self.fetch_mutex(cpu, from);
                true
            }
            TryLock::Owned => {
                self.mutex_error(task, mutex, ("locks", "which it holds"));
                true
            }
            TryLock::Busy => false,
        }
    }

    /// Charges `cpu`, which takes a mutex, for fetching two cache lines from the last holder: that of the mutex, and
    /// that of the data that the mutex protects.
    #[inline(never)]
    fn fetch_mutex(&mut self, cpu: usize, from: usize) {
        self.charge(cpu, 2 * self.transfer_ns(from, cpu));
    }

    /// Takes the mutex, or polls for it.
    pub(super) fn spin_lock(&mut self, cpu: usize, task: TaskPtr, mutex: u32) -> Step {
        if self.try_lock(cpu, task, mutex) {
            return Step::Go;
        }
        let until = PollUntil::Mutex(mutex);
        self.programs.pollers.start(task, until);
        task.polls_since.set(self.now());
        self.compute(task, ENDLESS, false, Continuation::SpinLock { mutex })
    }

    /// Takes the mutex in the kernel, or waits for it.
    pub(super) fn lock(&mut self, cpu: usize, task: TaskPtr, mutex: u32) -> Step {
        let locked = self.try_lock(cpu, task, mutex);
        self.programs.mutexes.contend(mutex);
        if locked {
            return Step::Go;
        }
        self.programs.mutexes.queue(task, mutex);
        self.wait(cpu, task, Some(mutex), MUTEX)
    }

    /// Puts the task to sleep; after a wakeup it locks the mutex, if any.
    pub(super) fn wait(
        &mut self,
        cpu: usize,
        task: TaskPtr,
        relock: Option<u32>,
        waits_for: &'static str,
    ) -> Step {
        task.continuation.set(Continuation::Wait { relock });
        self.sleep(cpu, task, waits_for)
    }

    #[inline(always)]
    pub(super) fn unlock(&mut self, cpu: usize, task: TaskPtr, mutex: u32) {
        match self.programs.mutexes.unlock(task, mutex) {
            Ok(None) if self.programs.pollers.is_empty() => {}
            Ok(waiter) => self.unlocked(cpu, mutex, waiter),
            Err(_) => self.mutex_error(task, mutex, ("unlocks", "which it does not hold")),
        }
    }

    /// Ends the run: the task does something invalid to a mutex.
    #[cold]
    #[inline(never)]
    fn mutex_error(&mut self, task: TaskPtr, mutex: u32, (does, although): (&str, &str)) {
        let mutex = self.programs.mutex_label(mutex);
        self.task_error(task, format_args!("{does} {mutex}, {although}"));
    }

    /// Wakes `waiter`, because the mutex is free, and lets a task that polls for the mutex take it.
    #[inline(never)]
    fn unlocked(&mut self, cpu: usize, mutex: u32, waiter: Option<TaskPtr>) {
        if let Some(waiter) = waiter {
            self.wake(waiter, Wakeup::Futex);
        }
        self.end_polls(cpu, |until| until == PollUntil::Mutex(mutex));
    }

    /// Wakes the first waiter of the condition. The other waiters now wait for their mutex, whose owner wakes one of
    /// them on unlocking.
    pub(super) fn broadcast_requeue(&mut self, cond: u32) {
        let first = self.programs.condvars.signal(cond);
        while let Some(waiter) = self.programs.condvars.signal(cond) {
            if let Continuation::Wait {
                relock: Some(mutex),
            } = waiter.continuation.get()
            {
                self.programs.mutexes.contend(mutex);
                self.programs.mutexes.queue(waiter, mutex);
            }
        }
        if let Some(first) = first {
            self.wake(first, Wakeup::Futex);
        }
    }

    /// Arrives at the barrier, and wakes the others or waits for them.
    pub(super) fn arrive(&mut self, cpu: usize, task: TaskPtr, barrier: u32) -> Step {
        if !self.programs.barriers.arrive(task, barrier) {
            return self.wait(cpu, task, None, "a barrier");
        }
        while let Some(waiter) = self.programs.barriers.let_go(barrier) {
            self.wake(waiter, Wakeup::Futex);
        }
        Step::Go
    }
}
