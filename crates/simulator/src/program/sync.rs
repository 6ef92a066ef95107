//! Condition variables and barriers.

use crate::kernel::task::TaskPtr;
use crate::program::wait_queue::WaitQueue;

/// The condition variables of a run: the waiters of each, in order.
pub struct Condvars(Vec<WaitQueue>);

impl Condvars {
    pub fn new(count: usize) -> Condvars {
        Condvars(vec![WaitQueue::default(); count])
    }

    #[inline]
    pub fn wait(&mut self, task: TaskPtr, cond: u32) {
        self.0[cond as usize].push(task);
    }

    /// Removes and returns the task that has waited longest.
    #[inline]
    pub fn signal(&mut self, cond: u32) -> Option<TaskPtr> {
        self.0[cond as usize].pop()
    }
}

pub struct Barriers(Vec<Barrier>);

struct Barrier {
    parties: u32,
    arrived: u32,
    waiters: WaitQueue,
}

impl Barriers {
    /// Barriers, each of which waits for the number of tasks in `parties`.
    pub fn new(parties: &[u32]) -> Barriers {
        let barrier = |&parties: &u32| Barrier {
            parties,
            arrived: 0,
            waiters: WaitQueue::default(),
        };
        Barriers(parties.iter().map(barrier).collect())
    }

    /// Counts `task` as arrived, and queues it unless it is the last one. Returns whether it is the last one: the
    /// caller then releases the others by [`Barriers::let_go`].
    pub fn arrive(&mut self, task: TaskPtr, barrier: u32) -> bool {
        let state = &mut self.0[barrier as usize];
        if state.arrived + 1 >= state.parties {
            state.arrived = 0;
            return true;
        }
        state.arrived += 1;
        state.waiters.push(task);
        false
    }

    /// Removes and returns the next waiting task, in order of arrival.
    pub fn let_go(&mut self, barrier: u32) -> Option<TaskPtr> {
        self.0[barrier as usize].waiters.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::task::idle_tasks;

    #[test]
    fn the_last_to_arrive_lets_the_others_go_in_their_order() {
        let tasks = idle_tasks(3);
        let mut barriers = Barriers::new(&[3]);
        for _ in 0..2 {
            assert!(!barriers.arrive(tasks[1], 0));
            assert!(!barriers.arrive(tasks[0], 0));
            assert!(barriers.arrive(tasks[2], 0));
            let let_go = [(); 3].map(|()| barriers.let_go(0));
            assert_eq!(let_go, [Some(tasks[1]), Some(tasks[0]), None]);
        }
    }
}
