//! The time that CPUs spend on the cache lines that sched_ext shares: dispatch queues and the masks of idle CPUs. They
//! spend it only on a machine that describes its memory ([`machine::Memory`]). A policy that stands for the kernel's
//! fair class, which has no such lines, pays only for the locks of the queues that the policy itself uses.
//!
//! A dispatch queue is one line: lock, list, tree and count (`struct scx_dispatch_q`). An insertion changes the
//! neighbour's list node under the lock, and in a queue by virtual time it also reads a path in the tree, whose length
//! is the logarithm of the queue's (`dispatch_enqueue()`). A removal changes the task and its successor's list node
//! under the lock; an empty queue is read without the lock (`consume_dispatch_q()`). A mask of idle CPUs is one line,
//! and that of idle cores another; a claim of a CPU writes both, and so does a CPU that starts or stops idling
//! (kernel/sched/ext_idle.c). A CPU is assumed to have written the task that last ran there or was queued there.

use crate::abi::layout as abi;
use crate::abi::layout::Ops;
use crate::hw::lock::Lock;
use crate::hw::memory::Memory;
use crate::kernel::Kernel;
use crate::kernel::entry::spend;
use crate::kernel::task::TaskPtr;
use crate::scx::dsq::{Dsq, OnDsq, Order};
use machine::{CpuMask, Machine};

/// The lines of the masks of idle CPUs: one for all CPUs or, with `SCX_OPS_BUILTIN_IDLE_PER_NODE`, one for each node.
pub struct IdleLines(Vec<(CpuMask, Lock)>);

impl IdleLines {
    pub fn new(machine: &Machine, ops: &Ops) -> IdleLines {
        let line = |&span: &CpuMask| (span, Lock::default());
        match ops.flags & abi::OPS_BUILTIN_IDLE_PER_NODE != 0 {
            true => IdleLines(machine.nodes().iter().map(line).collect()),
            false => IdleLines(vec![line(&machine.all_cpus())]),
        }
    }
}

/// The time for `cpu` to fetch a task's list node, in ns.
fn node_ns(memory: &Memory, task: Option<TaskPtr>, cpu: usize) -> u64 {
    task.map_or(0, |task| memory.fetch_ns(task.cpu(), cpu))
}

/// The time to fetch the tasks of `dsq` that an insertion reads and changes, in ns.
fn insertion_ns(memory: &Memory, dsq: &Dsq, order: Order, cpu: usize) -> u64 {
    let at = |index: usize| dsq.get(index).map(|queued| queued.task);
    let neighbour = node_ns(memory, dsq.len().checked_sub(1).and_then(at), cpu);
    match order {
        Order::Fifo => neighbour,
        Order::Vtime => {
            // The path to the end of a balanced tree.
            let halves = std::iter::successors(Some(dsq.len() / 2), |left| Some(left / 2));
            let path = halves.take_while(|&left| left > 0);
            let nodes = path.map(|left| node_ns(memory, at(dsq.len() - left - 1), cpu));
            neighbour + nodes.sum::<u64>()
        }
    }
}

impl Kernel<'_> {
    /// Do the shared lines of sched_ext cost time under this scheduler?
    #[inline]
    fn shares_lines(&self) -> bool {
        self.hw.memory.is_some() && !self.scx.is_fair_class
    }

    /// Charges the running code for taking the lock of `on` to insert a task.
    #[inline]
    pub fn lock_to_insert(&mut self, on: OnDsq, order: Order) {
        self.lock_dsq_for(on, |memory, dsq, cpu| insertion_ns(memory, dsq, order, cpu));
    }

    /// Charges the running code for taking the lock of `on` to remove the task at `index`.
    #[inline]
    pub fn lock_to_remove(&mut self, on: OnDsq, index: usize) {
        self.lock_dsq_for(on, |memory, dsq, cpu| {
            let at = |index: usize| dsq.get(index).map(|queued| queued.task);
            let task_ns = at(index).map_or(0, |task| memory.fetch_task_ns(task.cpu(), cpu));
            task_ns + node_ns(memory, at(index + 1), cpu)
        });
    }

    /// Charges the running code for taking the lock of `on`, if that is a queue of the scheduler.
    #[inline]
    pub fn lock_dsq(&mut self, on: OnDsq) {
        self.lock_dsq_for(on, |_, _, _| 0);
    }

    /// Charges the running code as [`Kernel::lock_dsq`] does, and for the time under the lock that `tasks_ns` returns
    /// for the queue and the CPU.
    #[inline]
    fn lock_dsq_for(&mut self, on: OnDsq, tasks_ns: impl Fn(&Memory, &Dsq, usize) -> u64) {
        if self.hw.memory.is_some() && on.is_user() {
            self.lock_user_dsq(on, tasks_ns);
        }
    }

    #[inline(never)]
    fn lock_user_dsq(&mut self, on: OnDsq, tasks_ns: impl Fn(&Memory, &Dsq, usize) -> u64) {
        let pays = self.shares_lines();
        spend(&mut self.bpf, &mut self.hw.memory, |memory, code| {
            let dsq = self.scx.dsqs.get_mut(on);
            let ns = match pays {
                true => tasks_ns(memory, dsq, code.cpu),
                false => 0,
            };
            dsq.readers = CpuMask::EMPTY;
            memory.lock_for(&mut dsq.lock, code, ns)
        });
    }

    /// Charges the running code, which finds no task in `on`, for taking the queue's lock or, if the queue is empty,
    /// for reading its line.
    #[inline]
    pub fn find_nothing(&mut self, on: OnDsq) {
        match self.shares_lines() && on.is_user() && self.scx.dsqs.get(on).is_empty() {
            true => self.read_dsq(on),
            false => self.lock_dsq(on),
        }
    }

    #[inline(never)]
    fn read_dsq(&mut self, on: OnDsq) {
        spend(&mut self.bpf, &mut self.hw.memory, |memory, code| {
            let dsq = self.scx.dsqs.get_mut(on);
            if dsq.readers.contains(code.cpu) {
                return 0;
            }
            dsq.readers.set(code.cpu);
            memory.fetch_ns(dsq.lock.holder(), code.cpu)
        });
    }

    /// Records that `cpu`, whose code is running, becomes idle or busy.
    pub fn set_idle_mask(&mut self, cpu: usize, idle: bool) {
        self.scx.idle_masks.update(cpu, idle);
        self.change_idle_mask(cpu);
    }

    /// Claims `cpu` for the running code if it is idle (`test_and_clear_cpu_idle()`), and charges for the attempt.
    pub fn claim_idle(&mut self, cpu: usize) -> bool {
        self.change_idle_mask(cpu);
        self.scx.idle_masks.claim(cpu)
    }

    /// Charges the running code for claiming `cpu`, if it claimed one.
    #[inline]
    pub fn claimed(&mut self, cpu: Option<usize>) {
        if let Some(cpu) = cpu {
            self.change_idle_mask(cpu);
        }
    }

    /// Charges the running code for changing the bit of `cpu` in the masks of idle CPUs, or trying to.
    #[inline]
    fn change_idle_mask(&mut self, cpu: usize) {
        if self.shares_lines() && self.scx.idle_masks.enabled {
            self.write_idle_mask(cpu);
        }
    }

    #[inline(never)]
    fn write_idle_mask(&mut self, cpu: usize) {
        let cores = u64::from(self.scx.idle_masks.has_smt());
        spend(&mut self.bpf, &mut self.hw.memory, |memory, code| {
            let mut lines = self.scx.idle_lines.0.iter_mut();
            let line = lines.find(|(span, _)| span.contains(cpu));
            line.map_or(0, |(_, line)| memory.take(line, code, cores, 0))
        });
    }
}
