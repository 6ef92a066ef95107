//! Tasks that sleep for the same event.

use crate::kernel::task::TaskPtr;

/// Tasks in order of arrival. Each task points to the next task, so a task can be in one queue at most. That suffices,
/// because a task sleeps for one event.
#[derive(Clone, Copy, Default)]
pub struct WaitQueue {
    /// The first and the last task.
    ends: Option<(TaskPtr, TaskPtr)>,
}

impl WaitQueue {
    #[inline]
    pub fn push(&mut self, task: TaskPtr) {
        debug_assert_eq!(task.next_waiter.get(), None, "it waits elsewhere");
        self.ends = match self.ends {
            None => Some((task, task)),
            Some((first, last)) => {
                last.next_waiter.set(Some(task));
                Some((first, task))
            }
        };
    }

    /// The task that has waited longest.
    #[inline]
    pub fn first(&self) -> Option<TaskPtr> {
        self.ends.map(|(first, _)| first)
    }

    pub fn last(&self) -> Option<TaskPtr> {
        self.ends.map(|(_, last)| last)
    }

    /// Returns the first task and removes it from the queue.
    #[inline]
    pub fn pop(&mut self) -> Option<TaskPtr> {
        let (first, last) = self.ends?;
        self.ends = first.next_waiter.take().map(|next| (next, last));
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::task::idle_tasks;

    #[test]
    fn first_come_first_served() {
        let tasks = idle_tasks(3);
        let mut queue = WaitQueue::default();
        assert!(queue.pop().is_none());
        queue.push(tasks[1]);
        queue.push(tasks[0]);
        assert_eq!(queue.pop(), Some(tasks[1]));
        queue.push(tasks[2]);
        queue.push(tasks[1]);
        assert_eq!(queue.first(), Some(tasks[0]));
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, [tasks[0], tasks[2], tasks[1]]);
        assert!(queue.first().is_none());
    }
}
