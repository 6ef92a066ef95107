//! Future events, and the time when each CPU's task completes its computing. Completion times change with every
//! interrupt, so they have a structure of their own in which they can be changed.

use crate::abi::timers;
use crate::class::dl_timer;
use crate::hw;
use crate::kernel::task::TaskPtr;
use machine::MAX_CPUS;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// The scheduler tick of `cpu`.
    Tick { cpu: u32 },
    /// `cpu` has completed its search for a task to run.
    Idle { cpu: u32 },
    /// A reschedule IPI arrives at `cpu`.
    Resched { cpu: u32 },
    /// A task's sleep ends; its high-resolution timer expires.
    Expiry { task: TaskPtr },
    /// The timer interrupt's handler is about to wake the task.
    Wake { task: TaskPtr },
    /// A deadline task's timer expires.
    Dl(dl_timer::Timer),
    /// The timer of a CPU's deadline server expires, or its handler runs. The event is void if the server's generation
    /// has changed.
    DlServer {
        cpu: u32,
        generation: u32,
        handled: bool,
    },
    /// An interrupt of `cpu` has completed a part of its softirqs.
    Softirq { cpu: u32 },
    /// A `bpf_timer` expires.
    BpfTimer(timers::Expiry),
    /// The hardware changes state by itself.
    Hardware(hw::Event),
    /// `cpu` goes offline or comes online.
    Hotplug { cpu: u32, online: bool },
    /// A CPU that could not go offline tries again.
    HotplugPending,
    /// The loader reloads a scheduler that has exited.
    Reload,
    /// sched_ext's watchdog checks for tasks that do not get to run.
    Watchdog,
    /// The workload's duration is over.
    End,
}

const _: () = assert!(size_of::<What>() == 16, "it is copied a lot");

#[derive(Clone, Copy)]
struct Entry {
    /// The time, in ns, and the order of insertion, because events of the same time happen in the order in which they
    /// were scheduled. Both are one number, which is compared without a branch.
    key: u128,
    what: What,
}

impl Entry {
    /// An entry that is after all others.
    const NONE: Entry = Entry {
        key: u128::MAX,
        what: What::End,
    };

    #[inline]
    fn new(time: u64, sequence: u64, what: What) -> Entry {
        Entry {
            key: u128::from(time) << 64 | u128::from(sequence),
            what,
        }
    }

    /// The time in ns.
    #[inline]
    fn time(&self) -> u64 {
        (self.key >> 64) as u64
    }
}

/// Future events, soonest first. At the same time, scheduled events come first, in the order of insertion, then
/// completions by CPU.
pub struct Events {
    /// A heap: the element at `i` is before its children, the first of which is at `CHILDREN * i + 1`. [`Entry::NONE`]
    /// fills the heap up, so that an element has all its children or none.
    heap: Vec<Entry>,
    len: usize,
    /// Whether the heap's first event has happened. The next scheduled event takes its place, which is cheaper than
    /// filling it at once: most events soon lead to another.
    first_is_over: bool,
    sequence: u64,
    done: Soonest,
}

const CHILDREN: usize = 4;

impl Events {
    /// Returns a queue without events, for this number of CPUs.
    pub fn new(cpus: usize) -> Events {
        Events {
            heap: vec![Entry::NONE],
            len: 0,
            first_is_over: false,
            sequence: 0,
            done: Soonest::new(cpus),
        }
    }

    /// Schedules `what` at `time`, in ns.
    #[inline]
    pub fn push(&mut self, time: u64, what: What) {
        self.sequence += 1;
        self.insert(Entry::new(time, self.sequence, what));
    }

    #[inline(never)]
    fn insert(&mut self, entry: Entry) {
        if std::mem::take(&mut self.first_is_over) {
            return self.sink(entry);
        }
        let mut place = self.len;
        self.len += 1;
        if place == self.heap.len() {
            self.heap.extend([Entry::NONE; CHILDREN]);
        }
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.heap[parent].key < entry.key {
                break;
            }
            self.heap[place] = self.heap[parent];
            place = parent;
        }
        self.heap[place] = entry;
    }

    /// Replaces the first element by `entry`.
    fn sink(&mut self, entry: Entry) {
        let heap = &mut self.heap[..];
        let mut place = 0;
        loop {
            let first = CHILDREN * place + 1;
            let rest = heap.get(first..).unwrap_or_default();
            let Some(children) = rest.first_chunk::<CHILDREN>() else {
                break;
            };
            // A tournament of two matches and a final, without branches that a processor could mispredict.
            let wins = |a: usize, b: usize| match children[b].key < children[a].key {
                true => b,
                false => a,
            };
            let child = wins(wins(0, 1), wins(2, 3));
            if entry.key < children[child].key {
                break;
            }
            heap[place] = children[child];
            place = first + child;
        }
        heap[place] = entry;
    }

    /// Removes the first element of the heap, whose event has happened.
    #[inline(never)]
    fn remove_first(&mut self) {
        self.first_is_over = false;
        self.len -= 1;
        let last = std::mem::replace(&mut self.heap[self.len], Entry::NONE);
        if self.len > 0 {
            self.sink(last);
        }
    }

    /// The time of the next scheduled event, in ns; the largest number if there is none.
    #[inline]
    fn announced(&mut self) -> u64 {
        if self.first_is_over {
            self.remove_first();
        }
        self.heap[0].time()
    }

    /// Sets the time, in ns, at which the task on `cpu` will complete its computing.
    #[inline]
    pub fn set_done(&mut self, cpu: usize, time: u64) {
        self.done.set(cpu, Done::new(time, cpu));
    }

    /// Sets the time as [`Events::set_done`] does. Returns true if the completion is the next event, which then happens
    /// now, without [`Events::next`].
    #[inline]
    pub fn set_done_next(&mut self, cpu: usize, time: u64) -> bool {
        let done = Done::new(time, cpu);
        self.done.set(cpu, done);
        self.done.soonest() == done && self.announced() > time
    }

    /// Forgets the completion time of `cpu`, on which no task computes from now on.
    #[inline]
    pub fn clear_done(&mut self, cpu: usize) {
        self.done.set(cpu, NEVER);
    }

    #[inline]
    pub fn next(&mut self) -> Option<Next> {
        let (announced, done) = (self.announced(), self.done.soonest());
        let time = announced.min(done.time());
        (time < NEVER.time()).then_some(Next {
            time,
            done: (announced > time).then_some(done.cpu()),
        })
    }

    /// The next scheduled event, which happens now.
    #[inline]
    pub fn take(&mut self) -> What {
        self.first_is_over = true;
        self.heap[0].what
    }
}

pub struct Next {
    /// The time of the event, in ns.
    pub time: u64,
    /// The CPU whose task completes its computing; the caller sets or clears its next completion. `None` for a
    /// scheduled event, which [`Events::take`] returns.
    pub done: Option<usize>,
}

/// A time and a CPU, in one word that is compared at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Done(u64);

/// A time after all other times.
const NEVER: Done = Done(u64::MAX);
/// The number of bits of the word for the CPU.
const CPU_BITS: u32 = MAX_CPUS.trailing_zeros();

impl Done {
    /// A time beyond the word's range, 52 days, becomes the largest time of that range.
    #[inline]
    fn new(time: u64, cpu: usize) -> Done {
        let last = (u64::MAX >> CPU_BITS) - 1;
        Done(time.min(last) << CPU_BITS | cpu as u64)
    }

    /// The time in ns.
    #[inline]
    fn time(self) -> u64 {
        self.0 >> CPU_BITS
    }

    #[inline]
    fn cpu(self) -> usize {
        (self.0 & (MAX_CPUS as u64 - 1)) as usize
    }
}

/// The completion time of each CPU, and the soonest of these times (if several are equal, that of the lowest CPU),
/// found by a tournament. The winner of matches `2 * i` and `2 * i + 1` is at `i`.
struct Soonest {
    /// There is room for the largest number of CPUs, so that a mask keeps an index in bounds.
    matches: Box<[Done; 2 * MAX_CPUS]>,
    /// The index of the first CPU.
    first: usize,
}

impl Soonest {
    fn new(cpus: usize) -> Soonest {
        Soonest {
            matches: Box::new([NEVER; 2 * MAX_CPUS]),
            first: cpus.next_power_of_two().max(2),
        }
    }

    #[inline]
    fn soonest(&self) -> Done {
        self.matches[1]
    }

    #[inline]
    fn set(&mut self, cpu: usize, done: Done) {
        let mut place = (self.first + cpu) % (2 * MAX_CPUS);
        let mut winner = done;
        self.matches[place] = done;
        loop {
            winner = winner.min(self.matches[place ^ 1]);
            place /= 2;
            self.matches[place] = winner;
            if place == 1 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, PartialEq)]
    enum Event {
        Announced(What),
        Done(usize),
    }
    use Event::{Announced, Done};

    fn pop(events: &mut Events) -> Option<(u64, Event)> {
        let Next { time, done } = events.next()?;
        Some((time, done.map_or_else(|| Announced(events.take()), Done)))
    }

    proptest! {
        // Miri knows no files to keep failures in, and is slow.
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            cases: if cfg!(miri) { 4 } else { 256 },
            ..ProptestConfig::default()
        })]

        #[test]
        fn all_that_is_announced_happens_in_its_order(
            steps in prop::collection::vec(prop::option::weighted(0.6, 0..40_u64), 1..200)
        ) {
            let mut events = Events::new(1);
            let mut expected: Vec<(u64, u32)> = Vec::new();
            let steps = steps.iter().zip(0..);
            let rest = std::iter::repeat_n((&None, 0), 200);
            for (step, number) in steps.chain(rest) {
                if let &Some(time) = step {
                    events.push(time, What::Tick { cpu: number });
                    expected.push((time, number));
                    continue;
                }
                expected.sort();
                let next = (!expected.is_empty()).then(|| expected.remove(0));
                let next = next.map(|(time, cpu)| (time, Announced(What::Tick { cpu })));
                prop_assert_eq!(pop(&mut events), next);
            }
        }
    }

    #[test]
    fn soonest_first_and_in_order_of_announcement() {
        let mut events = Events::new(4);
        for (time, cpu) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            events.push(time, What::Tick { cpu });
        }
        let order: Vec<_> = std::iter::from_fn(|| pop(&mut events))
            .map(|(time, what)| match what {
                Announced(What::Tick { cpu }) => (time, cpu),
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
            let last = Some((50, Done(cpus - 1)));
            assert_eq!(pop(&mut events), last);
            assert_eq!(pop(&mut events), last, "as nothing else was said");
            assert!(!events.set_done_next(cpus - 1, 70), "others are announced");
            assert_eq!(pop(&mut events), Some((70, Announced(What::Watchdog))));
            assert!(events.set_done_next(cpus - 1, 80));
            for cpu in 0..cpus {
                events.set_done(cpu, 90);
            }
            for cpu in 0..cpus {
                assert_eq!(pop(&mut events), Some((90, Done(cpu))), "the lowest first");
                events.clear_done(cpu);
            }
            assert_eq!(pop(&mut events), None);
        }
    }

    #[test]
    fn times_beyond_the_range_are_the_latest_time() {
        let mut events = Events::new(2);
        events.set_done(1, u64::MAX);
        let late = u64::MAX >> (CPU_BITS + 1);
        events.push(late, What::Watchdog);
        assert_eq!(pop(&mut events), Some((late, Announced(What::Watchdog))));
        assert!(matches!(pop(&mut events), Some((_, Done(1)))));
    }
}
