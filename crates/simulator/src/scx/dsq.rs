//! Dispatch queues: FIFO, or ordered by virtual time.

use crate::abi::layout as abi;
use crate::hw::lock::Lock;
use crate::kernel::task::TaskPtr;
use machine::{CpuMask, MAX_CPUS};
use std::collections::{HashMap, VecDeque};

/// A queued task.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// `p->scx.dsq_vtime` when it was queued; orders a virtual-time queue.
    pub vtime: u64,
    /// Number of the insertion; an iteration skips tasks that were queued after it began.
    pub sequence: u64,
    /// The task.
    pub task: TaskPtr,
}

/// The order of a queue's tasks. The first task in an empty queue decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Fifo,
    Vtime,
}

/// One dispatch queue. A sorted ring buffer: queues are short, and most insertions are near an end,
/// where moving a few entries is faster than any tree.
#[derive(Debug)]
pub struct Dsq {
    id: u64,
    tasks: VecDeque<Queued>,
    order: Order,
    sequence: u64,
    /// Its lock, on a machine with costs of locks.
    pub lock: Lock,
    /// The CPUs that have read its line since it was last changed, on such a machine.
    pub readers: CpuMask,
    /// Current iterations; the innermost is last.
    cursors: Vec<Cursor>,
}

/// The position of an iteration: the next task is at `gap`, or before it in reverse. Tasks come and
/// go around it.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    gap: usize,
    reverse: bool,
    /// Number of the latest insertion when the iteration began.
    end: u64,
}

impl Dsq {
    /// An empty queue.
    pub fn new(id: u64) -> Dsq {
        Dsq {
            id,
            tasks: VecDeque::new(),
            order: Order::Fifo,
            sequence: 0,
            lock: Lock::default(),
            readers: CpuMask::EMPTY,
            cursors: Vec::new(),
        }
    }

    /// Its id for the scheduler.
    pub fn id(&self) -> u64 {
        self.id
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Number of the latest insertion.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    pub fn get(&self, index: usize) -> Option<Queued> {
        self.tasks.get(index).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = Queued> + '_ {
        self.tasks.iter().copied()
    }

    /// May a task be inserted in this order? (Mixing orders in one queue is a scheduler error.)
    #[inline]
    pub fn accepts(&self, order: Order) -> bool {
        self.tasks.is_empty() || self.order == order
    }

    /// Inserts at the tail, or at the head.
    #[inline]
    pub fn push(&mut self, task: TaskPtr, head: bool) {
        self.order = Order::Fifo;
        self.sequence += 1;
        let queued = Queued {
            vtime: 0,
            sequence: self.sequence,
            task,
        };
        if head {
            self.tasks.push_front(queued);
            self.inserted(0);
        } else {
            self.tasks.push_back(queued);
        }
    }

    /// Inserts by virtual time, behind tasks of the same time. Times wrap: the order is by signed
    /// difference.
    #[inline]
    pub fn insert(&mut self, task: TaskPtr, vtime: u64) {
        self.order = Order::Vtime;
        self.sequence += 1;
        let queued = Queued {
            vtime,
            sequence: self.sequence,
            task,
        };
        let later = |other: &Queued| (other.vtime.wrapping_sub(vtime) as i64) > 0;
        if !self.tasks.back().is_some_and(later) {
            return self.tasks.push_back(queued);
        }
        let index = match self.tasks.front().is_some_and(later) {
            true => 0,
            false => self.tasks.partition_point(|other| !later(other)),
        };
        match index {
            0 => self.tasks.push_front(queued),
            _ => self.tasks.insert(index, queued),
        }
        self.inserted(index);
    }

    /// Keeps iterations between the same tasks.
    #[inline]
    fn inserted(&mut self, index: usize) {
        for cursor in &mut self.cursors {
            cursor.gap += usize::from(index < cursor.gap);
        }
    }

    /// The index of `task`; usually it is the first.
    #[inline]
    pub fn position(&self, task: TaskPtr) -> Option<usize> {
        match self.tasks.front() {
            Some(first) if first.task == task => Some(0),
            _ => self.tasks.iter().position(|queued| queued.task == task),
        }
    }

    /// Takes the task at `index` off the queue.
    #[inline]
    pub fn remove_at(&mut self, index: usize) {
        match index {
            0 => self.tasks.pop_front(),
            _ => self.tasks.remove(index),
        };
        for cursor in &mut self.cursors {
            cursor.gap -= usize::from(index < cursor.gap);
        }
    }

    /// The first task.
    #[inline]
    pub fn first(&self) -> Option<TaskPtr> {
        self.tasks.front().map(|queued| queued.task)
    }

    /// Begins an iteration over the tasks that are queued now; returns its number.
    #[inline]
    pub fn open(&mut self, reverse: bool) -> usize {
        self.cursors.push(Cursor {
            gap: if reverse { self.tasks.len() } else { 0 },
            reverse,
            end: self.sequence,
        });
        self.cursors.len() - 1
    }

    /// The next task of an iteration.
    #[inline]
    pub fn next(&mut self, iteration: usize) -> Option<TaskPtr> {
        let cursor = self.cursors.get_mut(iteration)?;
        loop {
            let index = if cursor.reverse {
                cursor.gap.checked_sub(1)?
            } else {
                cursor.gap
            };
            let queued = self.tasks.get(index)?;
            cursor.gap = if cursor.reverse { index } else { index + 1 };
            if queued.sequence <= cursor.end {
                return Some(queued.task);
            }
        }
    }

    /// Ends an iteration, and those begun within it.
    #[inline]
    pub fn close(&mut self, iteration: usize) {
        self.cursors.truncate(iteration);
    }
}

/// A dispatch queue, if any: a local one, by its CPU, the global one, or one of the scheduler's, a
/// user queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct OnDsq(u32);

impl OnDsq {
    pub const NONE: OnDsq = OnDsq(u32::MAX);
    pub const GLOBAL: OnDsq = OnDsq(MAX_CPUS as u32);

    /// The local queue of `cpu`.
    #[inline]
    pub fn local(cpu: usize) -> OnDsq {
        debug_assert!(cpu < MAX_CPUS, "no such CPU");
        OnDsq(cpu as u32)
    }

    /// The CPU of a local queue.
    #[inline]
    pub fn cpu(self) -> Option<usize> {
        (self.0 < OnDsq::GLOBAL.0).then_some(self.0 as usize)
    }

    #[inline]
    pub fn is_user(self) -> bool {
        self.0 > OnDsq::GLOBAL.0 && self != OnDsq::NONE
    }
}

/// All dispatch queues: each CPU's local one, the global one and the scheduler's own, its user
/// queues.
pub struct Dsqs {
    /// By [`OnDsq`]. There is room for the local queues of the largest machine. A destroyed user
    /// queue keeps its place, empty and without an id.
    all: Vec<Dsq>,
    nr_cpus: usize,
    ids: Ids,
}

impl Dsqs {
    /// The initial queues of a machine of `nr_cpus`, empty.
    pub fn new(nr_cpus: usize) -> Dsqs {
        let local = (0..MAX_CPUS).map(|_| Dsq::new(abi::DSQ_LOCAL));
        Dsqs {
            all: local.chain([Dsq::new(abi::DSQ_GLOBAL)]).collect(),
            nr_cpus,
            ids: Ids::default(),
        }
    }

    /// `find_user_dsq()`: the user queue `id`.
    #[inline]
    pub fn find(&self, id: u64) -> Option<OnDsq> {
        self.ids.find(id)
    }

    /// Creates the user queue `id`; `false` if it exists.
    pub fn create(&mut self, id: u64) -> bool {
        if self.ids.find(id).is_some() {
            return false;
        }
        self.ids.insert(id, OnDsq(self.all.len() as u32));
        self.all.push(Dsq::new(id));
        true
    }

    /// Removes the user queue `id`, if it exists. A queue with tasks stays: the error is their
    /// number.
    pub fn destroy(&mut self, id: u64) -> Result<(), usize> {
        let Some(on) = self.ids.find(id) else {
            return Ok(());
        };
        match self.get(on).len() {
            0 => {
                self.ids.remove(id);
                Ok(())
            }
            tasks => Err(tasks),
        }
    }

    /// The local queue of `cpu`.
    #[inline]
    pub fn local(&self, cpu: usize) -> &Dsq {
        self.get(OnDsq::local(cpu))
    }

    /// The queue `on`, which is not [`OnDsq::NONE`].
    #[inline]
    pub fn get(&self, on: OnDsq) -> &Dsq {
        &self.all[on.0 as usize]
    }

    /// As [`Dsqs::get`].
    #[inline]
    pub fn get_mut(&mut self, on: OnDsq) -> &mut Dsq {
        &mut self.all[on.0 as usize]
    }

    /// As [`Dsqs::get`], for the queue of a scheduler's iteration; `None` if the iteration has not begun.
    #[inline]
    pub fn iterated(&mut self, on: OnDsq) -> Option<&mut Dsq> {
        self.all.get_mut(on.0 as usize)
    }

    /// All of them, including destroyed ones.
    pub fn iter(&self) -> impl Iterator<Item = (OnDsq, &Dsq)> {
        let local = (0..).map(OnDsq).zip(&self.all[..self.nr_cpus]);
        let others = (OnDsq::GLOBAL.0..).map(OnDsq).zip(&self.all[MAX_CPUS..]);
        local.chain(others)
    }
}

/// The user queues by their ids. Small ids, which schedulers use for per-CPU queues, are found
/// without hashing.
#[derive(Default)]
struct Ids {
    small: Vec<OnDsq>,
    large: HashMap<u64, OnDsq>,
}

const SMALL_IDS: u64 = 4096;

impl Ids {
    #[inline(always)]
    fn find(&self, id: u64) -> Option<OnDsq> {
        match id < SMALL_IDS {
            true => {
                let on = self.small.get(id as usize).copied();
                on.filter(|&on| on != OnDsq::NONE)
            }
            false => self.find_large(id),
        }
    }

    #[inline(never)]
    fn find_large(&self, id: u64) -> Option<OnDsq> {
        self.large.get(&id).copied()
    }

    fn insert(&mut self, id: u64, on: OnDsq) {
        if id < SMALL_IDS {
            if self.small.len() <= id as usize {
                self.small.resize(id as usize + 1, OnDsq::NONE);
            }
            self.small[id as usize] = on;
        } else {
            self.large.insert(id, on);
        }
    }

    fn remove(&mut self, id: u64) {
        if id < SMALL_IDS {
            self.small[id as usize] = OnDsq::NONE;
        } else {
            self.large.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queues only compare tasks.
    fn task(number: usize) -> TaskPtr {
        let address = std::ptr::without_provenance_mut(64 * number);
        unsafe { TaskPtr::from_abi(address) }.unwrap()
    }

    fn order(dsq: &Dsq) -> Vec<TaskPtr> {
        dsq.iter().map(|queued| queued.task).collect()
    }

    #[test]
    fn by_virtual_time_and_then_as_they_came_also_when_it_wraps() {
        let mut dsq = Dsq::new(0);
        for (number, vtime) in [(1, 5), (2, u64::MAX), (3, 5), (4, 0)] {
            dsq.insert(task(number), vtime);
        }
        assert_eq!(order(&dsq), [2, 4, 1, 3].map(task));
        assert!(!dsq.accepts(Order::Fifo));
    }

    #[test]
    fn an_iteration_keeps_its_place_and_does_not_see_later_arrivals() {
        for (reverse, expected) in [(false, [2, 3]), (true, [2, 1])] {
            let mut dsq = Dsq::new(0);
            for number in 1..=3 {
                dsq.push(task(number), false);
            }
            let iteration = dsq.open(reverse);
            let first = dsq.next(iteration).unwrap();
            dsq.remove_at(dsq.position(first).unwrap());
            dsq.push(task(4), true);
            dsq.push(task(5), false);
            let rest: Vec<_> = std::iter::from_fn(|| dsq.next(iteration)).collect();
            assert_eq!(rest, expected.map(task));
            dsq.close(iteration);
        }
    }

    #[test]
    fn a_user_queue_is_found_by_its_id_until_it_is_destroyed() {
        let mut dsqs = Dsqs::new(2);
        for id in [3, 1 << 40] {
            assert!(dsqs.find(id).is_none());
            assert!(dsqs.create(id) && !dsqs.create(id));
            let on = dsqs.find(id).unwrap();
            dsqs.get_mut(on).push(task(1), false);
            assert_eq!(dsqs.destroy(id), Err(1));
            dsqs.get_mut(on).remove_at(0);
            assert_eq!(dsqs.destroy(id), Ok(()));
            assert!(dsqs.find(id).is_none());
        }
        let empty = |(_, dsq): (OnDsq, &Dsq)| dsq.is_empty();
        assert!(dsqs.iter().all(empty));
    }
}
