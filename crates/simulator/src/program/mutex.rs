//! Mutexes: futexes of user space, and kernel locks.

use crate::hw::lock::Lock;
use crate::kernel::task::TaskPtr;
use crate::program::wait_queue::WaitQueue;
use workload::KernelLock;

pub struct Mutexes {
    mutexes: Vec<Mutex>,
    /// For a spinlock of the kernel, the lock itself; for any other kernel lock, the spinlock inside it (`wait_lock`).
    spinlocks: Vec<Lock>,
}

/// A futex or a kernel lock: its owner, its sleeping tasks, and whether the owner has to wake a waiter when it unlocks.
struct Mutex {
    owner: Option<TaskPtr>,
    /// The CPU that took the mutex last, and so has its cache line, or [`NO_CPU`].
    cpu: u32,
    contended: bool,
    waiters: WaitQueue,
    /// For an rwsem, the number of tasks that found it taken and do not have its `wait_lock` yet.
    arriving: u32,
    /// For a kernel lock, its kind and its previous holders.
    kind: KernelLock,
    holders: Holders,
}

/// The last CPUs, at most [`Holders::MOST`], that held a kernel lock.
#[derive(Clone, Copy)]
struct Holders {
    cpus: [u16; Holders::MOST],
    /// The number of times that the lock has been taken so far.
    count: u32,
}

impl Holders {
    /// The number of holders that are recorded: the depth of a balanced tree of 4 billion nodes.
    const MOST: usize = 32;

    fn push(&mut self, cpu: usize) {
        self.cpus[self.count as usize % Holders::MOST] = cpu as u16;
        self.count += 1;
    }

    /// The last `count` holders before the current one, or all recorded holders if there are fewer.
    fn before(&self, count: u32) -> impl Iterator<Item = usize> {
        let before = self.count.saturating_sub(1);
        let known = before.min(Holders::MOST as u32 - 1);
        let from = before - count.min(known);
        (from..before).map(|index| self.cpus[index as usize % Holders::MOST].into())
    }
}

const NO_CPU: u32 = u32::MAX;

impl Mutex {
    fn new() -> Mutex {
        Mutex {
            owner: None,
            cpu: NO_CPU,
            contended: false,
            waiters: WaitQueue::default(),
            arriving: 0,
            kind: KernelLock::Mutex,
            holders: Holders {
                cpus: [0; Holders::MOST],
                count: 0,
            },
        }
    }

    /// Makes `task` the mutex's owner. Returns the CPU that had the mutex last, or the task's own if no CPU had it.
    #[inline]
    fn take(&mut self, task: TaskPtr) -> usize {
        self.owner = Some(task);
        let cpu = task.cpu();
        match std::mem::replace(&mut self.cpu, cpu as u32) {
            NO_CPU => cpu,
            last => last as usize,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryLock {
    /// The task has the mutex; CPU `from` had it last.
    Locked { from: usize },
    /// Another task has the mutex.
    Busy,
    /// The task already has the mutex, which is an error of its program.
    Owned,
}

/// A released lock: its kind, and its first waiter.
pub type Released = (KernelLock, Option<TaskPtr>);

/// A task unlocks a mutex that it does not own, which is an error of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOwner;

impl Mutexes {
    pub fn new(count: usize) -> Mutexes {
        Mutexes {
            mutexes: (0..count).map(|_| Mutex::new()).collect(),
            spinlocks: (0..count).map(|_| Lock::default()).collect(),
        }
    }

    /// Takes the mutex if it is free: the first task to arrive after a release gets it.
    #[inline]
    pub fn try_lock(&mut self, task: TaskPtr, mutex: u32) -> TryLock {
        let state = &mut self.mutexes[mutex as usize];
        match state.owner {
            None => {
                state.contended = false;
                TryLock::Locked {
                    from: state.take(task),
                }
            }
            Some(owner) if owner == task => TryLock::Owned,
            Some(_) => TryLock::Busy,
        }
    }

    /// Marks the mutex as one that has to be unlocked through the kernel, because other tasks may sleep for it.
    pub fn contend(&mut self, mutex: u32) {
        self.mutexes[mutex as usize].contended = true;
    }

    /// Queues `task` behind earlier sleepers until the mutex is unlocked.
    pub fn queue(&mut self, task: TaskPtr, mutex: u32) {
        self.mutexes[mutex as usize].waiters.push(task);
    }

    /// Unlocks the mutex, and returns the task to wake.
    #[inline]
    pub fn unlock(&mut self, task: TaskPtr, mutex: u32) -> Result<Option<TaskPtr>, NotOwner> {
        let state = self.owned(task, mutex)?;
        state.owner = None;
        Ok(match state.contended {
            true => state.waiters.pop(),
            false => None,
        })
    }

    /// Takes a kernel lock if it is free, even before other waiters (`mutex_lock()`), and returns the CPU that had it
    /// last. A task that `waited` was the first waiter, and remains so if the lock is not free.
    pub fn acquire(
        &mut self,
        task: TaskPtr,
        mutex: u32,
        kind: KernelLock,
        waited: bool,
    ) -> Option<usize> {
        if !self.is_free(mutex) {
            return None;
        }
        let state = &mut self.mutexes[mutex as usize];
        if waited {
            state.waiters.pop();
        }
        state.kind = kind;
        state.holders.push(task.cpu());
        Some(state.take(task))
    }

    /// Can a task take this kernel lock? A writer that finds an rwsem taken has counted itself as active, and undoes
    /// that only under the `wait_lock`. Until then no task can take the rwsem, even if it has been released
    /// (`down_write()`; lib/rwsem.c).
    pub fn is_free(&self, mutex: u32) -> bool {
        let state = &self.mutexes[mutex as usize];
        state.owner.is_none() && state.arriving == 0
    }

    /// Does a task hold this kernel lock or wait for it (`rwsem_is_locked()`)?
    pub fn is_locked(&self, mutex: u32) -> bool {
        !self.is_free(mutex) || self.mutexes[mutex as usize].waiters.first().is_some()
    }

    pub fn owner(&self, mutex: u32) -> Option<TaskPtr> {
        self.mutexes[mutex as usize].owner
    }

    /// Counts a task that has found an rwsem taken.
    pub fn arrive(&mut self, mutex: u32) {
        self.mutexes[mutex as usize].arriving += 1;
    }

    /// No longer counts a task as arriving, because it has the `wait_lock` of the rwsem.
    pub fn arrived(&mut self, mutex: u32) {
        self.mutexes[mutex as usize].arriving -= 1;
    }

    pub fn last_waiter(&self, mutex: u32) -> Option<TaskPtr> {
        self.mutexes[mutex as usize].waiters.last()
    }

    /// The last `count` CPUs that held a kernel lock before its current holder.
    pub fn holders(&self, mutex: u32, count: u32) -> impl Iterator<Item = usize> {
        self.mutexes[mutex as usize].holders.before(count)
    }

    /// Releases a kernel lock, and returns its kind and the waiter to wake. The woken waiter is the first, and stays
    /// first until it has the lock. No waiter of an rwsem is woken while a task arrives, because the arriving task
    /// takes the lock.
    pub fn release(&mut self, task: TaskPtr, mutex: u32) -> Result<Released, NotOwner> {
        let state = self.owned(task, mutex)?;
        state.owner = None;
        let first = state.waiters.first().filter(|_| state.arriving == 0);
        Ok((state.kind, first))
    }

    /// The lock of `mutex`: itself if it is a spinlock, otherwise its `wait_lock`.
    pub fn spinlock(&mut self, mutex: u32) -> &mut Lock {
        &mut self.spinlocks[mutex as usize]
    }

    #[inline]
    fn owned(&mut self, task: TaskPtr, mutex: u32) -> Result<&mut Mutex, NotOwner> {
        let state = &mut self.mutexes[mutex as usize];
        match state.owner == Some(task) {
            true => Ok(state),
            false => Err(NotOwner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::task::idle_tasks;
    use workload::KernelLock::Rwsem;

    #[test]
    fn the_first_to_come_after_an_unlock_has_it() {
        let tasks = idle_tasks(3);
        let [a, b, c] = [tasks[0], tasks[1], tasks[2]];
        b.abi.thread_info.cpu.set(1);
        let mut mutexes = Mutexes::new(1);
        assert_eq!(mutexes.try_lock(a, 0), TryLock::Locked { from: 0 });
        assert_eq!(mutexes.try_lock(a, 0), TryLock::Owned);
        assert_eq!(mutexes.try_lock(b, 0), TryLock::Busy);
        assert_eq!(mutexes.unlock(b, 0), Err(NotOwner));
        mutexes.contend(0);
        mutexes.queue(b, 0);
        assert_eq!(
            mutexes.unlock(a, 0),
            Ok(Some(b)),
            "b is woken, and not its owner yet"
        );
        assert_eq!(mutexes.try_lock(c, 0), TryLock::Locked { from: 0 });
        assert_eq!(mutexes.unlock(c, 0), Ok(None), "nobody sleeps in it");
        assert_eq!(mutexes.try_lock(b, 0), TryLock::Locked { from: 0 });
        assert_eq!(mutexes.unlock(b, 0), Ok(None));
        assert_eq!(mutexes.try_lock(a, 0), TryLock::Locked { from: 1 });
    }

    #[test]
    fn a_waiter_for_a_kernel_lock_is_first_until_it_has_the_lock() {
        let tasks = idle_tasks(3);
        let [a, b, c] = [tasks[0], tasks[1], tasks[2]];
        let mut locks = Mutexes::new(1);
        assert_eq!(locks.acquire(a, 0, Rwsem, false), Some(0));
        assert_eq!(locks.acquire(b, 0, Rwsem, false), None);
        locks.queue(b, 0);
        assert_eq!(locks.release(a, 0), Ok((Rwsem, Some(b))));
        assert_eq!(
            locks.acquire(c, 0, Rwsem, false),
            Some(0),
            "c comes before b runs"
        );
        assert_eq!(locks.acquire(b, 0, Rwsem, true), None);
        assert_eq!(locks.release(c, 0), Ok((Rwsem, Some(b))));
        assert_eq!(locks.acquire(b, 0, Rwsem, true), Some(0));
        assert_eq!(locks.release(b, 0), Ok((Rwsem, None)));
        assert_eq!(locks.release(b, 0), Err(NotOwner));
    }

    #[test]
    fn the_previous_holders_of_a_lock_are_known() {
        let tasks = idle_tasks(40);
        let mut locks = Mutexes::new(1);
        let mut takes = |cpu: usize| {
            tasks[cpu].abi.thread_info.cpu.set(cpu as u32);
            locks.acquire(tasks[cpu], 0, Rwsem, false);
            let before: Vec<_> = locks.holders(0, 3).collect();
            let all = locks.holders(0, 99).count();
            locks.release(tasks[cpu], 0).unwrap();
            (before, all)
        };
        assert_eq!(takes(0), (vec![], 0));
        assert_eq!(takes(1), (vec![0], 1));
        assert_eq!(takes(2), (vec![0, 1], 2));
        (3..39).for_each(|cpu| drop(takes(cpu)));
        assert_eq!(takes(39), (vec![36, 37, 38], 31));
    }
}
