//! Dispatch queues: FIFO, or ordered by virtual time.

use crate::abi::layout::{self as abi, IterDsq};
use crate::hw::lock::Lock;
use crate::kernel::task::TaskPtr;
use crate::scx::iterations::Iterations;
use machine::CpuMask;
use std::collections::{HashMap, VecDeque};

/// A queued task.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// `p->scx.dsq_vtime` when the task was queued. A virtual-time queue is ordered by this time.
    pub vtime: u64,
    /// The number of the insertion; an iteration skips tasks that were queued after it began.
    pub sequence: u64,
    /// The task.
    pub task: TaskPtr,
}

/// The order of a queue's tasks. The first task that is inserted into an empty queue decides the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Fifo,
    Vtime,
}

/// One dispatch queue. The tasks are in a ring buffer, because queues are short and most insertions are near an end,
/// where moving a few entries is faster than updating a tree.
#[derive(Debug)]
pub struct Dsq {
    id: u64,
    tasks: VecDeque<Queued>,
    order: Order,
    sequence: u64,
    /// The queue's lock, on a machine that describes the costs of locks.
    pub lock: Lock,
    /// The CPUs that have read the queue's cache line since its last change, on a machine that describes the costs of
    /// locks.
    pub readers: CpuMask,
}

impl Dsq {
    pub fn new(id: u64) -> Dsq {
        Dsq {
            id,
            tasks: VecDeque::new(),
            order: Order::Fifo,
            sequence: 0,
            lock: Lock::default(),
            readers: CpuMask::EMPTY,
        }
    }

    /// The queue's id, by which the scheduler names it.
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

    pub fn get(&self, index: usize) -> Option<Queued> {
        self.tasks.get(index).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = Queued> + '_ {
        self.tasks.iter().copied()
    }

    /// May a task be inserted in this order? (To mix orders in one queue is a scheduler error.)
    #[inline]
    pub fn accepts(&self, order: Order) -> bool {
        self.tasks.is_empty() || self.order == order
    }

    /// Inserts `task` at the head if `head` is true, otherwise at the tail.
    #[inline]
    fn push(&mut self, task: TaskPtr, head: bool) {
        self.order = Order::Fifo;
        self.sequence += 1;
        let queued = Queued {
            vtime: 0,
            sequence: self.sequence,
            task,
        };
        match head {
            true => self.tasks.push_front(queued),
            false => self.tasks.push_back(queued),
        }
    }

    /// Inserts `task` by virtual time, behind tasks of the same time. Times wrap, so the signed difference decides.
    /// Returns the index of the task.
    #[inline]
    fn insert(&mut self, task: TaskPtr, vtime: u64) -> usize {
        self.order = Order::Vtime;
        self.sequence += 1;
        let queued = Queued {
            vtime,
            sequence: self.sequence,
            task,
        };
        let later = |other: &Queued| (other.vtime.wrapping_sub(vtime) as i64) > 0;
        if !self.tasks.back().is_some_and(later) {
            self.tasks.push_back(queued);
            return self.tasks.len() - 1;
        }
        let index = match self.tasks.front().is_some_and(later) {
            true => 0,
            false => self.tasks.partition_point(|other| !later(other)),
        };
        match index {
            0 => self.tasks.push_front(queued),
            _ => self.tasks.insert(index, queued),
        }
        index
    }

    /// The index of `task`, which usually is the first one.
    #[inline]
    pub fn position(&self, task: TaskPtr) -> Option<usize> {
        match self.tasks.front() {
            Some(first) if first.task == task => Some(0),
            _ => self.position_within(task),
        }
    }

    #[inline(never)]
    fn position_within(&self, task: TaskPtr) -> Option<usize> {
        self.tasks.iter().position(|queued| queued.task == task)
    }

    #[inline(never)]
    fn remove_within(&mut self, index: usize) {
        self.tasks.remove(index);
    }

    #[inline]
    pub fn first(&self) -> Option<TaskPtr> {
        self.tasks.front().map(|queued| queued.task)
    }
}

/// The place of a dispatch queue, if any: a local queue, by its CPU; the global queue; or a user queue, which the
/// scheduler has created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct OnDsq(u32);

impl OnDsq {
    pub const NONE: OnDsq = OnDsq(u32::MAX);
    pub const GLOBAL: OnDsq = OnDsq(0);
    /// The bit of a user queue. Without it, the number is a place in [`Dsqs::all`].
    const USER: u32 = 1 << 31;

    /// The local queue of `cpu`.
    #[inline]
    pub fn local(cpu: usize) -> OnDsq {
        OnDsq(1 + cpu as u32)
    }

    /// The CPU of a local queue; `None` for other queues.
    #[inline]
    pub fn cpu(self) -> Option<usize> {
        match self.0 {
            0 | OnDsq::USER.. => None,
            local => Some(local as usize - 1),
        }
    }

    #[inline]
    pub fn is_user(self) -> bool {
        self.0 & OnDsq::USER != 0 && self != OnDsq::NONE
    }

    #[inline]
    fn place(self) -> usize {
        (self.0 & !OnDsq::USER) as usize
    }
}

/// The error for an iteration that the scheduler has not begun.
pub struct NotBegun;

/// All dispatch queues: the global queue, the local queue of each CPU, and the user queues, which the scheduler has
/// created.
pub struct Dsqs {
    /// The global queue, the local queues by CPU, and the user queues. A destroyed user queue keeps its place, empty
    /// and without an id, until a new queue takes the place.
    all: Vec<Dsq>,
    /// The places of destroyed user queues.
    free: Vec<OnDsq>,
    nr_cpus: usize,
    ids: Ids,
    pub iterations: Iterations,
}

impl Dsqs {
    /// The initial queues of a machine of `nr_cpus`, empty.
    pub fn new(nr_cpus: usize) -> Dsqs {
        let local = (0..nr_cpus).map(|_| Dsq::new(abi::DSQ_LOCAL));
        Dsqs {
            all: std::iter::once(Dsq::new(abi::DSQ_GLOBAL))
                .chain(local)
                .collect(),
            free: Vec::new(),
            nr_cpus,
            ids: Ids::default(),
            iterations: Iterations::default(),
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
        let on = match self.free.pop() {
            Some(on) => {
                let dsq = self.get_mut(on);
                // An iteration over the destroyed queue finds no task of the new one, whose insertions are later.
                *dsq = Dsq {
                    sequence: dsq.sequence,
                    ..Dsq::new(id)
                };
                on
            }
            None => {
                self.all.push(Dsq::new(id));
                OnDsq(OnDsq::USER | (self.all.len() - 1) as u32)
            }
        };
        self.ids.insert(id, on);
        true
    }

    /// Removes the user queue `id`, if it exists. A queue with tasks stays, and the error is the number of its tasks.
    pub fn destroy(&mut self, id: u64) -> Result<(), usize> {
        let Some(on) = self.ids.find(id) else {
            return Ok(());
        };
        match self.get(on).len() {
            0 => {
                self.ids.remove(id);
                self.free.push(on);
                Ok(())
            }
            tasks => Err(tasks),
        }
    }

    #[inline]
    pub fn local(&self, cpu: usize) -> &Dsq {
        self.get(OnDsq::local(cpu))
    }

    /// The queue `on`, which is not [`OnDsq::NONE`].
    #[inline]
    pub fn get(&self, on: OnDsq) -> &Dsq {
        &self.all[on.place()]
    }

    #[inline]
    pub fn get_mut(&mut self, on: OnDsq) -> &mut Dsq {
        &mut self.all[on.place()]
    }

    /// Inserts `task` into `on`, at the head if `head` is true, otherwise at the tail.
    #[inline]
    pub fn push(&mut self, on: OnDsq, task: TaskPtr, head: bool) {
        self.get_mut(on).push(task, head);
        if head {
            self.iterations.shift(on, 0, 1);
        }
    }

    /// Inserts `task` into `on` by virtual time.
    #[inline]
    pub fn insert(&mut self, on: OnDsq, task: TaskPtr, vtime: u64) {
        let index = self.get_mut(on).insert(task, vtime);
        self.iterations.shift(on, index, 1);
    }

    /// Takes the task at `index` off `on`.
    #[inline(always)]
    pub fn remove_at(&mut self, on: OnDsq, index: usize) {
        let dsq = self.get_mut(on);
        match index {
            0 => drop(dsq.tasks.pop_front()),
            _ => dsq.remove_within(index),
        }
        self.iterations.shift(on, index, -1);
    }

    /// Begins an iteration over the tasks that `on` has now, if that is a queue. Returns false if an iteration at this
    /// address has begun already.
    #[inline]
    pub fn iterate(&mut self, it: &mut IterDsq, on: OnDsq, reverse: bool) -> bool {
        let mut gap = 0;
        if let Some(dsq) = self.all.get(on.place()) {
            it.end = dsq.sequence;
            gap = if reverse { dsq.tasks.len() } else { 0 };
        }
        self.iterations.begin(it, on, reverse, gap)
    }

    /// The next task of an iteration.
    #[inline]
    pub fn next(&mut self, iteration: &IterDsq) -> Result<Option<TaskPtr>, NotBegun> {
        let iteration = self.iterations.get(iteration).ok_or(NotBegun)?;
        let Some(dsq) = self.all.get(iteration.on.place()) else {
            return Ok(None);
        };
        loop {
            let index = match iteration.reverse {
                true => iteration.gap.wrapping_sub(1),
                false => iteration.gap,
            };
            let Some(queued) = dsq.tasks.get(index) else {
                return Ok(None);
            };
            iteration.gap = index + usize::from(!iteration.reverse);
            if queued.sequence <= iteration.end {
                return Ok(Some(queued.task));
            }
        }
    }

    /// All queues, including destroyed ones.
    pub fn iter(&self) -> impl Iterator<Item = (OnDsq, &Dsq)> {
        let (own, user) = self.all.split_at(1 + self.nr_cpus);
        let local = (0..).map(OnDsq::local).zip(&own[1..]);
        let first_user = OnDsq::USER | own.len() as u32;
        local
            .chain([(OnDsq::GLOBAL, &own[0])])
            .chain((first_user..).map(OnDsq).zip(user))
    }
}

/// The user queues by their ids. Small ids, which schedulers use for per-CPU queues, are found without hashing.
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

    /// A pointer suffices, because queues only compare tasks.
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
            let (mut dsqs, on) = (Dsqs::new(1), OnDsq::GLOBAL);
            for number in 1..=3 {
                dsqs.push(on, task(number), false);
            }
            let mut it = IterDsq::default();
            assert!(dsqs.next(&it).is_err() && dsqs.iterate(&mut it, on, reverse));
            let next = |dsqs: &mut Dsqs| dsqs.next(&it).ok().flatten();
            let first = next(&mut dsqs).unwrap();
            dsqs.remove_at(on, dsqs.get(on).position(first).unwrap());
            dsqs.push(on, task(4), true);
            dsqs.push(on, task(5), false);
            let rest: Vec<_> = std::iter::from_fn(|| next(&mut dsqs)).collect();
            assert_eq!(rest, expected.map(task));
            assert!(dsqs.iterations.end(&it) && !dsqs.iterations.end(&it));
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
            dsqs.remove_at(on, 0);
            assert_eq!(dsqs.destroy(id), Ok(()));
            assert!(dsqs.find(id).is_none());
        }
        let empty = |(_, dsq): (OnDsq, &Dsq)| dsq.is_empty();
        assert!(dsqs.iter().all(empty));
    }

    #[test]
    fn a_new_queue_takes_the_place_of_a_destroyed_one_which_an_iteration_does_not_see() {
        let mut dsqs = Dsqs::new(1);
        let places = dsqs.all.len() + 1;
        let mut it = IterDsq::default();
        for id in 1..100 {
            assert!(dsqs.create(id));
            let on = dsqs.find(id).unwrap();
            dsqs.push(on, task(1), false);
            assert!(dsqs.iterate(&mut it, on, false));
            dsqs.remove_at(on, 0);
            assert_eq!(dsqs.destroy(id), Ok(()));
            assert!(dsqs.create(1000 + id));
            assert_eq!(dsqs.find(1000 + id), Some(on));
            dsqs.push(on, task(2), false);
            assert!(dsqs.next(&it).is_ok_and(|next| next.is_none()));
            assert!(dsqs.iterations.end(&it));
            dsqs.remove_at(on, 0);
            assert_eq!(dsqs.destroy(1000 + id), Ok(()));
        }
        assert_eq!(dsqs.all.len(), places);
    }
}
