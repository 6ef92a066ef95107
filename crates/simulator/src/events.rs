//! What will happen when: the queue of future events.

use crate::task::TaskPtr;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// The task on `cpu` is done computing, unless the CPU has been disturbed since (`generation`).
    Done { cpu: u32, generation: u32 },
    /// The scheduler tick of `cpu`.
    Tick { cpu: u32 },
    /// A reschedule IPI arrives at `cpu`.
    Resched { cpu: u32 },
    /// A task's sleep ends; its high-resolution timer expires.
    Expiry { task: TaskPtr },
    /// The timer interrupt handler gets to wake the task.
    Wake { task: TaskPtr },
    /// A `bpf_timer` expires, unless it was started or cancelled since.
    BpfTimer { timer: u32, generation: u32 },
    /// sched_ext's watchdog looks for tasks that do not get to run.
    Watchdog,
    /// The workload's duration is over.
    End,
}

struct Entry {
    time: u64,
    /// Order of insertion: events of one time happen in the order they were announced.
    sequence: u64,
    what: What,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        (other.time, other.sequence).cmp(&(self.time, self.sequence))
    }
}

/// Future events, soonest first.
#[derive(Default)]
pub struct Events {
    heap: BinaryHeap<Entry>,
    sequence: u64,
}

impl Events {
    /// Announces `what` at `time`, ns.
    #[inline]
    pub fn push(&mut self, time: u64, what: What) {
        self.sequence += 1;
        self.heap.push(Entry {
            time,
            sequence: self.sequence,
            what,
        });
    }

    /// The soonest event and its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, What)> {
        self.heap.pop().map(|entry| (entry.time, entry.what))
    }

    /// When the soonest event is.
    #[inline]
    pub fn next_time(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soonest_first_and_in_order_of_announcement() {
        let mut events = Events::default();
        for (time, cpu) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            events.push(time, What::Tick { cpu });
        }
        let order: Vec<_> = std::iter::from_fn(|| events.pop())
            .map(|(time, what)| match what {
                What::Tick { cpu } => (time, cpu),
                _ => unreachable!(),
            })
            .collect();
        assert_eq!(order, [(3, 1), (3, 3), (5, 0), (5, 2)]);
    }
}
