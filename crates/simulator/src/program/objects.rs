//! What tasks wait for each other with: mutexes, condition variables, barriers and streams.

use crate::abi::layout as abi;
use crate::hw::lock::Lock;
use crate::kernel::Kernel;
use crate::kernel::task::{Continuation, Section, TaskPtr};
use std::collections::VecDeque;

/// The kernel objects of one run.
pub struct Objects {
    mutexes: Vec<Mutex>,
    condvars: Vec<VecDeque<TaskPtr>>,
    barriers: Vec<Barrier>,
    streams: Vec<Stream>,
}

/// A futex: the owner, whether it has to wake someone when it unlocks, and who sleeps in the kernel. Or a lock
/// of the kernel's.
#[derive(Default)]
struct Mutex {
    owner: Option<TaskPtr>,
    /// Where its cache line is: the CPU that took it last.
    cpu: Option<usize>,
    contended: bool,
    waiters: VecDeque<TaskPtr>,
    /// What it is in place of all that, if it is a spinlock.
    spinlock: Lock,
}

struct Barrier {
    parties: u32,
    waiters: Vec<TaskPtr>,
}

struct Stream {
    capacity: u64,
    used: u64,
    readers: Vec<TaskPtr>,
    writers: Vec<TaskPtr>,
}

impl Objects {
    pub fn new(mutexes: usize, condvars: usize, barriers: &[u32], streams: &[u64]) -> Objects {
        Objects {
            mutexes: (0..mutexes).map(|_| Mutex::default()).collect(),
            condvars: vec![VecDeque::new(); condvars],
            barriers: barriers
                .iter()
                .map(|&parties| Barrier {
                    parties,
                    waiters: Vec::new(),
                })
                .collect(),
            streams: streams
                .iter()
                .map(|&capacity| Stream {
                    capacity,
                    used: 0,
                    readers: Vec::new(),
                    writers: Vec::new(),
                })
                .collect(),
        }
    }

    /// The spinlock that `mutex` is.
    pub fn spinlock(&mut self, mutex: u32) -> &mut Lock {
        &mut self.mutexes[mutex as usize].spinlock
    }

    /// Bytes in `stream`, and how many it holds.
    pub fn stream_level(&self, stream: u32) -> (u64, u64) {
        let state = &self.streams[stream as usize];
        (state.used, state.capacity)
    }
}

impl Kernel<'_> {
    /// Takes the mutex if it is free: whoever comes first after it is released gets it. With it come two
    /// cache lines from who had it last: its own, and that of what it protects.
    pub fn try_lock(&mut self, task: TaskPtr, mutex: u32) -> bool {
        let state = &mut self.programs.objects.mutexes[mutex as usize];
        match state.owner {
            None => {
                let cpu = task.cpu();
                let last = state.cpu.replace(cpu).unwrap_or(cpu);
                state.owner = Some(task);
                state.contended = false;
                if last != cpu {
                    self.charge(cpu, 2 * self.transfer_ns(last, cpu));
                }
                true
            }
            Some(owner) if owner == task => {
                self.task_error(task, format!("locks mutex {mutex}, which it holds"));
                true
            }
            Some(_) => false,
        }
    }

    /// Takes the mutex, or queues for it. Others may sleep in it: it has to be unlocked by way of the
    /// kernel.
    pub fn lock_contended(&mut self, task: TaskPtr, mutex: u32) -> bool {
        let locked = self.try_lock(task, mutex);
        let state = &mut self.programs.objects.mutexes[mutex as usize];
        state.contended = true;
        if !locked {
            state.waiters.push_back(task);
        }
        locked
    }

    pub fn unlock(&mut self, task: TaskPtr, mutex: u32) {
        let state = &mut self.programs.objects.mutexes[mutex as usize];
        if state.owner != Some(task) {
            return self.task_error(
                task,
                format!("unlocks mutex {mutex}, which it does not hold"),
            );
        }
        state.owner = None;
        let waiter = match state.contended {
            true => state.waiters.pop_front(),
            false => None,
        };
        if let Some(waiter) = waiter {
            self.wake(waiter, 0);
        }
        if !self.programs.spinners.is_empty() {
            self.notice_mutex(task.cpu(), mutex);
        }
    }

    /// Takes a lock of the kernel's if it is free, even before others that wait (`mutex_lock()`). One that
    /// `waited` was the first of them, and still is if it is not free.
    pub fn acquire(&mut self, task: TaskPtr, section: Section, waited: bool) -> bool {
        let state = &mut self.programs.objects.mutexes[section.mutex as usize];
        if state.owner.is_some() {
            return false;
        }
        state.owner = Some(task);
        if waited {
            state.waiters.pop_front();
        }
        if let Some(last_cpu) = state.cpu.replace(task.cpu()) {
            self.fetch_lines(last_cpu, section.lines);
        }
        true
    }

    /// The task is to sleep for a lock of the kernel's.
    pub fn queue_for(&mut self, task: TaskPtr, mutex: u32) {
        self.programs.objects.mutexes[mutex as usize]
            .waiters
            .push_back(task);
    }

    /// Releases a lock of the kernel's and wakes who waits first, who stays so until it has it.
    pub fn release(&mut self, task: TaskPtr, mutex: u32) {
        let state = &mut self.programs.objects.mutexes[mutex as usize];
        if state.owner != Some(task) {
            return self.task_error(
                task,
                format!("releases the kernel's lock {mutex}, which it does not have"),
            );
        }
        state.owner = None;
        let first = state.waiters.front().copied();
        if !self.programs.spinners.is_empty() {
            self.pass_on(task.cpu(), mutex);
        }
        if let Some(first) = first {
            self.wake(first, 0);
        }
    }

    /// Queues for the condition and releases the mutex.
    pub fn wait(&mut self, task: TaskPtr, cond: u32, mutex: u32) {
        self.programs.objects.condvars[cond as usize].push_back(task);
        self.unlock(task, mutex);
    }

    pub fn signal(&mut self, cond: u32) {
        if let Some(waiter) = self.programs.objects.condvars[cond as usize].pop_front() {
            self.wake(waiter, 0);
        }
    }

    pub fn broadcast(&mut self, cond: u32) {
        let mut waiters = std::mem::take(&mut self.programs.objects.condvars[cond as usize]);
        for waiter in waiters.drain(..) {
            self.wake(waiter, 0);
        }
        self.programs.objects.condvars[cond as usize] = waiters;
    }

    /// Wakes the first that waits for the condition; the others now wait for their mutex, whose owner
    /// has to wake one of them.
    pub fn broadcast_requeue(&mut self, cond: u32) {
        let mut waiters = std::mem::take(&mut self.programs.objects.condvars[cond as usize]);
        let first = waiters.pop_front();
        for waiter in waiters.drain(..) {
            if let Continuation::Wait {
                relock: Some(mutex),
            } = *waiter.continuation.borrow()
            {
                let state = &mut self.programs.objects.mutexes[mutex as usize];
                state.contended = true;
                state.waiters.push_back(waiter);
            }
        }
        self.programs.objects.condvars[cond as usize] = waiters;
        if let Some(first) = first {
            self.wake(first, 0);
        }
    }

    /// Arrives at the barrier; `true` if the task was the last and has woken the others.
    pub fn arrive(&mut self, task: TaskPtr, barrier: u32) -> bool {
        let state = &mut self.programs.objects.barriers[barrier as usize];
        if state.waiters.len() as u32 + 1 < state.parties {
            state.waiters.push(task);
            return false;
        }
        let mut waiters = std::mem::take(&mut state.waiters);
        for waiter in waiters.drain(..) {
            self.wake(waiter, 0);
        }
        self.programs.objects.barriers[barrier as usize].waiters = waiters;
        true
    }

    /// Puts bytes into the stream and wakes its readers, or queues for room.
    pub fn put(&mut self, task: TaskPtr, stream: u32, bytes: u64) -> bool {
        let state = &mut self.programs.objects.streams[stream as usize];
        if bytes > state.capacity {
            let capacity = state.capacity;
            self.task_error(
                task,
                format!("writes {bytes} bytes at once to a stream that holds {capacity}"),
            );
            return true;
        }
        if state.used + bytes > state.capacity {
            state.writers.push(task);
            return false;
        }
        state.used += bytes;
        self.wake_stream(stream, abi::WAKE_SYNC, |stream| &mut stream.readers);
        self.stream_changed(stream);
        true
    }

    /// The network has sent bytes of the stream. TCP wakes writers once no more than two thirds are in use
    /// (`sk_stream_is_writeable()`, include/net/sock.h), and does not say that it is about to sleep.
    pub fn sent(&mut self, stream: u32, bytes: u64) {
        let state = &mut self.programs.objects.streams[stream as usize];
        state.used -= bytes;
        if !state.writers.is_empty() && state.used * 3 <= state.capacity * 2 {
            self.wake_stream(stream, 0, |stream| &mut stream.writers);
        }
    }

    /// The network has put bytes into the stream, which has room for them.
    pub fn received(&mut self, stream: u32, bytes: u64) {
        self.programs.objects.streams[stream as usize].used += bytes;
        self.wake_stream(stream, abi::WAKE_SYNC, |stream| &mut stream.readers);
    }

    /// Takes bytes from the stream, or queues for them.
    pub fn take(&mut self, task: TaskPtr, stream: u32, bytes: u64) -> bool {
        let state = &mut self.programs.objects.streams[stream as usize];
        if bytes > state.capacity {
            let capacity = state.capacity;
            self.task_error(
                task,
                format!("reads {bytes} bytes at once from a stream that holds {capacity}"),
            );
            return true;
        }
        if state.used < bytes {
            state.readers.push(task);
            return false;
        }
        state.used -= bytes;
        self.stream_changed(stream);
        true
    }

    /// After a read: Unix sockets wake their writers once no more than a quarter is in use (`unix_writable()`,
    /// net/unix/af_unix.c), and say that they are about to sleep (`wake_up_interruptible_sync_poll()`).
    pub fn room_made(&mut self, stream: u32) {
        let state = &self.programs.objects.streams[stream as usize];
        if !state.writers.is_empty() && state.used * 4 <= state.capacity {
            self.wake_stream(stream, abi::WAKE_SYNC, |stream| &mut stream.writers);
        }
    }

    /// Wakes all that wait.
    fn wake_stream(
        &mut self,
        stream: u32,
        wake_flags: u64,
        queue: fn(&mut Stream) -> &mut Vec<TaskPtr>,
    ) {
        let waiters = queue(&mut self.programs.objects.streams[stream as usize]);
        if waiters.is_empty() {
            return;
        }
        let mut waiters = std::mem::take(waiters);
        for waiter in waiters.drain(..) {
            self.wake(waiter, wake_flags);
        }
        *queue(&mut self.programs.objects.streams[stream as usize]) = waiters;
    }
}
