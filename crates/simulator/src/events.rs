//! What will happen when: the queue of future events, and when each CPU's task will be done
//! computing. The latter change with every interrupt, so they have a place of their own where they can
//! be changed.

use crate::abi::timers;
use crate::class::dl_timer;
use crate::hw;
use crate::kernel::task::TaskPtr;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// The task on `cpu` is done computing.
    Done { cpu: u32 },
    /// The scheduler tick of `cpu`.
    Tick { cpu: u32 },
    /// `cpu` is done with looking for something to run.
    Idle { cpu: u32 },
    /// A reschedule IPI arrives at `cpu`.
    Resched { cpu: u32 },
    /// A task's sleep ends; its high-resolution timer expires.
    Expiry { task: TaskPtr },
    /// The timer interrupt handler gets to wake the task.
    Wake { task: TaskPtr },
    /// A timer of a deadline task's.
    Dl(dl_timer::Timer),
    /// An interrupt of `cpu` is done with some of the softirqs.
    Softirq { cpu: u32 },
    /// A `bpf_timer` expires.
    BpfTimer(timers::Expiry),
    /// The hardware does something by itself.
    Hardware(hw::Event),
    /// sched_ext's watchdog looks for tasks that do not get to run.
    Watchdog,
    /// The workload's duration is over.
    End,
}

const _: () = assert!(size_of::<What>() == 16, "it is copied a lot");

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

/// Future events, soonest first; of one time, the announced ones in their order, then the CPUs.
pub struct Events {
    heap: BinaryHeap<Entry>,
    sequence: u64,
    done: Soonest,
}

impl Events {
    /// None yet, for so many CPUs.
    pub fn new(cpus: usize) -> Events {
        Events {
            heap: BinaryHeap::new(),
            sequence: 0,
            done: Soonest::new(cpus),
        }
    }

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

    /// The task on `cpu` will be done computing at `time`, ns, unless this is called again.
    #[inline]
    pub fn set_done(&mut self, cpu: usize, time: u64) {
        self.done.set(cpu, time);
    }

    /// The task on `cpu` stops computing before it is done.
    #[inline]
    pub fn clear_done(&mut self, cpu: usize) {
        self.done.set(cpu, NEVER);
    }

    /// The soonest event and its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, What)> {
        let done = self.done.time();
        match self.heap.peek() {
            Some(entry) if entry.time <= done => {
                self.heap.pop().map(|entry| (entry.time, entry.what))
            }
            _ if done == NEVER => None,
            _ => {
                let cpu = self.done.who();
                self.done.set(cpu, NEVER);
                Some((done, What::Done { cpu: cpu as u32 }))
            }
        }
    }

    /// When the soonest event is, ns; the end of time if there is none.
    #[inline]
    pub fn next_time(&self) -> u64 {
        let done = self.done.time();
        self.heap.peek().map_or(done, |entry| entry.time.min(done))
    }
}

const NEVER: u64 = u64::MAX;

/// A time for each of a number of CPUs, and the soonest of them: a tournament, as an implicit binary
/// tree whose node `i` has the sooner of `2i` and `2i + 1`.
struct Soonest {
    times: Vec<u64>,
    leaves: usize,
}

impl Soonest {
    fn new(cpus: usize) -> Soonest {
        let leaves = cpus.next_power_of_two();
        Soonest {
            times: vec![NEVER; 2 * leaves],
            leaves,
        }
    }

    #[inline]
    fn time(&self) -> u64 {
        self.times[1]
    }

    /// The lowest CPU of the soonest time.
    #[inline]
    fn who(&self) -> usize {
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            node += usize::from(self.times[node] > self.times[node + 1]);
        }
        node - self.leaves
    }

    #[inline]
    fn set(&mut self, cpu: usize, time: u64) {
        let mut node = self.leaves + cpu;
        self.times[node] = time;
        while node > 1 {
            let sooner = self.times[node].min(self.times[node ^ 1]);
            node /= 2;
            if self.times[node] == sooner {
                return;
            }
            self.times[node] = sooner;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soonest_first_and_in_order_of_announcement() {
        let mut events = Events::new(4);
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

    #[test]
    fn a_cpu_has_one_completion_which_can_be_changed() {
        for cpus in [1, 2, 3, 5, 64] {
            let mut events = Events::new(cpus);
            for cpu in 0..cpus {
                events.set_done(cpu, 100);
            }
            events.set_done(cpus - 1, 50);
            events.set_done(0, 70);
            events.push(70, What::Watchdog);
            if cpus > 1 {
                assert!(
                    matches!(events.pop(), Some((50, What::Done { cpu })) if cpu as usize == cpus - 1)
                );
            }
            assert_eq!(events.next_time(), 70);
            assert!(matches!(events.pop(), Some((70, What::Watchdog))));
            assert!(matches!(events.pop(), Some((70, What::Done { cpu: 0 }))));
            for cpu in 1..cpus {
                events.clear_done(cpu);
            }
            assert!(events.pop().is_none());
        }
    }
}
