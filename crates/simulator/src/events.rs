//! What will happen when: the queue of future events, and when each CPU's task will be done
//! computing. The latter change with every interrupt, so they have a place of their own where they can
//! be changed.

use crate::abi::timers;
use crate::class::dl_timer;
use crate::hw;
use crate::kernel::task::TaskPtr;
use machine::MAX_CPUS;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
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
        self.done.set(cpu, Done::new(time, cpu));
    }

    /// The same. Is that the next event? Then it happens, without [`Events::pop`].
    #[inline]
    pub fn set_done_next(&mut self, cpu: usize, time: u64) -> bool {
        let done = Done::new(time, cpu);
        self.done.set(cpu, done);
        self.done.soonest() == done && self.heap.peek().is_none_or(|entry| entry.time > time)
    }

    /// There is no task on `cpu` that computes.
    #[inline]
    pub fn clear_done(&mut self, cpu: usize) {
        self.done.set(cpu, NEVER);
    }

    /// The soonest event and its time. Of [`What::Done`] the next is to be set, or to be cleared.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, What)> {
        let done = self.done.soonest();
        match self.heap.peek() {
            Some(entry) if entry.time <= done.time() => {
                self.heap.pop().map(|entry| (entry.time, entry.what))
            }
            _ if done == NEVER => None,
            _ => {
                let cpu = done.cpu() as u32;
                Some((done.time(), What::Done { cpu }))
            }
        }
    }
}

/// A time and a CPU, in one word that is compared at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Done(u64);

/// The end of time.
const NEVER: Done = Done(u64::MAX);
/// How much of the word is the CPU.
const CPU_BITS: u32 = MAX_CPUS.trailing_zeros();

impl Done {
    /// What is later than the word can say is at its last time, after 208 days.
    #[inline]
    fn new(time: u64, cpu: usize) -> Done {
        let last = (u64::MAX >> CPU_BITS) - 1;
        Done(time.min(last) << CPU_BITS | cpu as u64)
    }

    /// ns; of [`NEVER`] after all others.
    #[inline]
    fn time(self) -> u64 {
        self.0 >> CPU_BITS
    }

    #[inline]
    fn cpu(self) -> usize {
        (self.0 & (MAX_CPUS as u64 - 1)) as usize
    }
}

/// When each of a number of CPUs will be done, and the soonest of these, of equal ones the lowest CPU's: a
/// tournament in groups of eight. The winner of group `i` stands in group `(i - 1) / 8`.
struct Soonest {
    groups: Vec<[Done; GROUP]>,
    /// The group of the first CPUs.
    first: usize,
    soonest: Done,
}

const GROUP: usize = 8;

impl Soonest {
    fn new(cpus: usize) -> Soonest {
        let (mut first, mut last) = (0, 1);
        while last * GROUP < cpus {
            first += last;
            last *= GROUP;
        }
        Soonest {
            groups: vec![[NEVER; GROUP]; first + cpus.div_ceil(GROUP)],
            first,
            soonest: NEVER,
        }
    }

    #[inline]
    fn soonest(&self) -> Done {
        self.soonest
    }

    #[inline]
    fn set(&mut self, cpu: usize, done: Done) {
        let (mut group, mut place) = (self.first + cpu / GROUP, cpu % GROUP);
        let mut winner = done;
        loop {
            let rivals = &mut self.groups[group];
            if rivals[place] == winner {
                return;
            }
            rivals[place] = winner;
            winner = rivals.iter().copied().fold(NEVER, Done::min);
            if group == 0 {
                self.soonest = winner;
                return;
            }
            (group, place) = ((group - 1) / GROUP, (group - 1) % GROUP);
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
        for cpus in [1, 3, 8, 9, 64, 65, 1024] {
            let mut events = Events::new(cpus);
            for cpu in 0..cpus {
                events.set_done(cpu, 100);
            }
            events.set_done(cpus - 1, 50);
            events.push(70, What::Watchdog);
            let (last, done) = (cpus as u32 - 1, |cpu| What::Done { cpu });
            assert_eq!(events.pop(), Some((50, done(last))));
            assert_eq!(
                events.pop(),
                Some((50, done(last))),
                "as nothing else was said"
            );
            assert!(!events.set_done_next(cpus - 1, 70), "others are announced");
            assert_eq!(events.pop(), Some((70, What::Watchdog)));
            assert!(events.set_done_next(cpus - 1, 80));
            for cpu in 0..cpus {
                events.set_done(cpu, 90);
            }
            for cpu in 0..cpus {
                assert_eq!(
                    events.pop(),
                    Some((90, done(cpu as u32))),
                    "the lowest first"
                );
                events.clear_done(cpu);
            }
            assert_eq!(events.pop(), None);
        }
    }

    #[test]
    fn what_is_too_late_to_count_is_as_late_as_can_be() {
        let mut events = Events::new(2);
        events.set_done(1, u64::MAX);
        events.push(1 << 53, What::Watchdog);
        assert_eq!(events.pop(), Some((1 << 53, What::Watchdog)));
        assert!(matches!(events.pop(), Some((_, What::Done { cpu: 1 }))));
    }
}
