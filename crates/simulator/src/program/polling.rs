//! Tasks that poll: busy loops that end when another task writes a word or releases a mutex. The loop is ordinary
//! computing; its end is noticed one cache line transfer later, or when the task next runs.

use crate::kernel::task::TaskPtr;

/// The condition that ends a task's polling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollUntil {
    /// The shared word is no longer `value`.
    Word { word: usize, value: u64 },
    /// The mutex is free.
    Mutex(u32),
    /// The kernel lock is free, and no task has polled for longer.
    KernelLock(u32),
}

#[derive(Default)]
pub struct Pollers(Vec<Poller>);

struct Poller {
    task: TaskPtr,
    until: PollUntil,
}

impl Pollers {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `task` starts to poll.
    pub fn start(&mut self, task: TaskPtr, until: PollUntil) {
        self.0.push(Poller { task, until });
    }

    /// `task` continues to poll, before all others.
    pub fn go_on(&mut self, task: TaskPtr, until: PollUntil) {
        self.0.insert(0, Poller { task, until });
    }

    /// `task` stops polling. Returns whether it did poll.
    pub fn stop(&mut self, task: TaskPtr) -> bool {
        let pollers = self.0.len();
        self.0.retain(|poller| poller.task != task);
        self.0.len() < pollers
    }

    /// Is `task` the first of the tasks that poll for this object?
    pub fn is_first(&self, task: TaskPtr, until: PollUntil) -> bool {
        self.first(until) == Some(task)
    }

    /// The first task that polls for this object.
    pub fn first(&self, until: PollUntil) -> Option<TaskPtr> {
        let first = self.0.iter().find(|poller| poller.until == until);
        first.map(|poller| poller.task)
    }

    /// Ends the polling of the first task whose wait is `over`.
    pub fn stop_first(&mut self, over: impl Fn(PollUntil) -> bool) -> Option<TaskPtr> {
        let first = self.0.iter().position(|poller| over(poller.until))?;
        Some(self.0.remove(first).task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::task::idle_tasks;

    #[test]
    fn the_first_to_poll_is_the_first_to_stop() {
        let tasks = idle_tasks(3);
        let mut pollers = Pollers::default();
        let (lock, mutex) = (PollUntil::KernelLock(1), PollUntil::Mutex(1));
        pollers.start(tasks[0], mutex);
        pollers.start(tasks[1], lock);
        pollers.go_on(tasks[2], lock);
        assert_eq!(pollers.stop_first(|until| until == lock), Some(tasks[2]));
        assert_eq!(pollers.stop_first(|until| until == lock), Some(tasks[1]));
        assert_eq!(pollers.stop_first(|until| until == lock), None);
        assert!(pollers.stop(tasks[0]));
        assert!(!pollers.stop(tasks[0]));
        assert!(pollers.is_empty());
    }
}
