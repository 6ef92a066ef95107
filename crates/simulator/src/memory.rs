//! Memory that CPUs share: what it costs to read a runqueue that another CPU changed, to change one
//! that others read, and to take a lock that others want. Only on a machine that describes it
//! ([`machine::Memory`]).
//!
//! A runqueue's fields that other CPUs look at are one cache line, the scheduler's of it another. A read
//! costs a transfer from the CPU that wrote last, unless nothing was written since this CPU last read; a
//! write costs the longest transfer that is needed to take the line from whoever has it. So does the task
//! that one meets on another CPU's queue. A lock is a queue in virtual time: who takes it waits until those
//! before have let go, then for its line.
//!
//! The time is spent by the CPU whose code is running: it is collected in the table, where C adds to it
//! and where [`bpf_ktime_get_ns()`] sees it, until the CPU goes on with its task or idles.

use crate::abi;
use crate::events::What;
use crate::kernel::Kernel;
use crate::task::{OnDsq, TaskPtr};
use machine::Machine;

/// A machine's shared memory.
pub struct Memory {
    /// What C sees; points into the rest.
    pub table: Box<abi::Memory>,
    lines: Box<[abi::Line]>,
    _seen: Box<[u32]>,
    line_ns: Box<[u32]>,
    node: Box<[u16]>,
    nodes: usize,
    lock_ns: u64,
    /// The runqueues' locks.
    rq_locks: Box<[Lock]>,
    /// Those that the code that is running holds, and since when.
    held: [Option<(usize, u64)>; 2],
}

/// A lock: when it was and will be held. The code that runs on one CPU is done at once, and takes its last
/// lock before others of earlier times take theirs: these find it free as long as it is.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    /// Who had it last.
    holder: u16,
    /// Not over yet, in order.
    holds: Vec<Hold>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    /// From when on the holder waits for the line, and when it lets go, ns.
    from: u64,
    until: u64,
    cpu: u16,
}

impl Lock {
    /// Forgets what is over at `now`.
    fn forget(&mut self, now: u64) {
        let over = self.holds.partition_point(|hold| hold.until <= now);
        if over > 0 {
            self.holder = self.holds[over - 1].cpu;
            self.holds.drain(..over);
        }
    }

    /// From when on, after `from`, it is free, and who has it until then.
    fn free(&self, mut from: u64) -> (u64, u16) {
        let mut holder = self.holder;
        for hold in &self.holds {
            if hold.from > from {
                break;
            }
            from = from.max(hold.until);
            holder = hold.cpu;
        }
        (from, holder)
    }

    /// `cpu` held it from `from` until `until`, or until the next that is known to have it.
    fn held(&mut self, cpu: u16, from: u64, until: u64) {
        let place = self.holds.partition_point(|hold| hold.from <= from);
        let next = self.holds.get(place).map_or(u64::MAX, |hold| hold.from);
        let until = until.min(next);
        self.holds.insert(place, Hold { from, until, cpu });
    }
}

impl Memory {
    /// That of `machine`, if it describes any.
    pub fn new(machine: &Machine) -> Option<Memory> {
        let memory = machine.numa.memory.as_ref()?;
        let (cpus, nodes) = (machine.cpus.len(), memory.line_ns.len());
        // The kernel's lines, the scheduler's, then those of no CPU.
        let nr_lines = 2 * cpus + abi::GLOBAL_LINES;
        let mut lines: Box<[abi::Line]> = (0..nr_lines)
            .map(|line| abi::Line {
                version: 1,
                shared_ns: 0,
                writer: (line % cpus) as u32,
            })
            .collect();
        let mut seen = vec![0u32; cpus * nr_lines].into_boxed_slice();
        let line_ns: Box<[u32]> = memory.line_ns.iter().flatten().copied().collect();
        let node: Box<[u16]> = (0..cpus).map(|cpu| machine.node_of(cpu) as u16).collect();
        let table = Box::new(abi::Memory {
            lines: lines.as_mut_ptr(),
            seen: seen.as_mut_ptr(),
            line_ns: line_ns.as_ptr(),
            node: node.as_ptr(),
            nr_lines: nr_lines as u32,
            nr_nodes: nodes as u32,
            cached_ns: memory.cached_ns,
            pad: 0,
        });
        let rq_lock = |cpu: usize| Lock {
            holder: cpu as u16,
            holds: Vec::new(),
        };
        Some(Memory {
            table,
            lines,
            _seen: seen,
            line_ns,
            node,
            nodes,
            lock_ns: memory.lock_ns.into(),
            rq_locks: (0..cpus).map(rq_lock).collect(),
            held: [None; 2],
        })
    }

    /// A line from `from` to `to`, ns.
    fn transfer(&self, from: usize, to: usize) -> u64 {
        let (from, to) = (self.node[from] as usize, self.node[to] as usize);
        self.line_ns[from * self.nodes + to].into()
    }

    /// `cpu` writes what other CPUs look at of the runqueue of `rq`; what that costs, ns.
    fn write(&mut self, cpu: usize, rq: usize) -> u64 {
        let line = self.lines[rq];
        let shared = u64::from(line.shared_ns);
        let ns = match line.writer as usize {
            writer if writer == cpu => shared,
            writer => self.transfer(writer, cpu).max(shared),
        };
        self.lines[rq] = abi::Line {
            version: line.version.wrapping_add(1),
            shared_ns: 0,
            writer: cpu as u32,
        };
        ns
    }

    /// `cpu`, having spent `spent` since `now`, takes `lock` as soon as it is free for long enough; how long
    /// that takes, ns.
    fn take(&self, lock: &mut Lock, cpu: usize, now: u64, spent: u64) -> u64 {
        lock.forget(now);
        let line_from = |holder: u16| match usize::from(holder) {
            holder if holder == cpu => 0,
            holder => self.transfer(holder, cpu),
        };
        let (mut from, mut line, mut place) = (now + spent, line_from(lock.holder), 0);
        for hold in &lock.holds {
            if from + line + self.lock_ns <= hold.from {
                break;
            }
            from = from.max(hold.until);
            line = line_from(hold.cpu);
            place += 1;
        }
        let hold = Hold {
            from,
            until: from + line + self.lock_ns,
            cpu: cpu as u16,
        };
        lock.holds.insert(place, hold);
        from + line - (now + spent)
    }
}

impl Kernel<'_> {
    /// Time that the code that is running has spent on shared memory, ns.
    #[inline]
    pub fn spent(&self) -> u64 {
        // SAFETY: the table lives as long as the kernel.
        unsafe { (*self.table).spent }
    }

    /// As [`Kernel::spent`], which begins anew.
    #[inline]
    pub fn take_spent(&mut self) -> u64 {
        // SAFETY: as above.
        let ns = unsafe { std::mem::take(&mut (*self.table).spent) };
        self.counters.memory_ns += ns;
        ns
    }

    #[inline]
    fn spend(&mut self, ns: u64) {
        // SAFETY: as above.
        unsafe { (*self.table).spent += ns };
    }

    /// The code that is running takes the lock of the runqueue of `rq` and changes it.
    #[inline]
    pub fn change_rq(&mut self, rq: usize) {
        let (cpu, now, spent) = (self.this_cpu(), self.now(), self.spent());
        let Some(memory) = &mut self.memory else {
            return;
        };
        let mut lock = std::mem::take(&mut memory.rq_locks[rq]);
        let ns = memory.take(&mut lock, cpu, now, spent);
        memory.rq_locks[rq] = lock;
        let ns = ns + memory.write(cpu, rq);
        self.spend(ns);
    }

    /// The code that is running takes the locks of two runqueues (`double_rq_lock()`), to keep them.
    pub fn lock_rqs(&mut self, rqs: [usize; 2]) {
        let now = self.now();
        for (index, rq) in rqs.into_iter().enumerate() {
            let asked = now + self.spent();
            let Some(memory) = &mut self.memory else {
                return;
            };
            let lock = &mut memory.rq_locks[rq];
            lock.forget(now);
            let (from, holder) = lock.free(asked);
            memory.held[index] = Some((rq, from));
            self.spend(from - asked);
            self.fetch_lines(holder.into(), 1);
        }
    }

    /// The code that is running lets go of the runqueues that it locked.
    pub fn unlock_rqs(&mut self) {
        let (cpu, until) = (self.this_cpu(), self.now() + self.spent());
        let Some(memory) = &mut self.memory else {
            return;
        };
        for (rq, from) in memory.held.iter_mut().filter_map(Option::take) {
            memory.rq_locks[rq].held(cpu as u16, from, until);
        }
    }

    /// The code that is running takes the lock of `dsq`, a queue of the scheduler's.
    #[inline]
    pub fn lock_dsq(&mut self, dsq: OnDsq) {
        let (cpu, now, spent) = (self.this_cpu(), self.now(), self.spent());
        let (Some(memory), OnDsq::User(index)) = (&self.memory, dsq) else {
            return;
        };
        let lock = &mut self.user_dsqs.get_mut(index).lock;
        let ns = memory.take(lock, cpu, now, spent);
        self.spend(ns);
    }

    /// The code that is running looks at `task`, which last ran, or was queued, on its CPU.
    #[inline]
    pub fn read_task(&mut self, task: TaskPtr) {
        let cpu = self.this_cpu();
        if let Some(memory) = self.memory.as_ref().filter(|_| task.cpu() != cpu) {
            let ns = memory.transfer(task.cpu(), cpu);
            self.spend(ns);
        }
    }

    /// The code that is running changes lines that `last` was the last to change.
    pub fn fetch_lines(&mut self, last: usize, lines: u32) {
        let cpu = self.this_cpu();
        if let Some(memory) = self.memory.as_ref().filter(|_| last != cpu) {
            let ns = memory.transfer(last, cpu);
            self.spend(u64::from(lines) * ns);
        }
    }

    /// What it takes a CPU to see what another wrote, ns.
    pub fn transfer_ns(&self, from: usize, to: usize) -> u64 {
        match &self.memory {
            Some(memory) => memory.transfer(from, to),
            None => self.refill_ns(from, to),
        }
    }

    /// `cpu` has nothing to run: it idles, as soon as it is done with what it did to find out.
    pub fn idle(&mut self, cpu: usize) {
        let ns = self.take_spent();
        if ns == 0 {
            return self.is_idle(cpu);
        }
        self.counters.busy_ns[cpu] += ns;
        self.counters.overhead_ns[cpu] += ns;
        self.cpus[cpu].idles_at = Some(self.now() + ns);
        self.share_core(cpu);
        self.events
            .push(self.now() + ns, What::Idle { cpu: cpu as u32 });
    }

    /// The time of [`Kernel::idle`] has come: is there still nothing to run?
    pub fn idle_time(&mut self, cpu: usize) {
        self.cpus[cpu].idles_at = None;
        self.set_cpu(cpu);
        if !self.cpus[cpu].need_resched {
            self.cpus[cpu].idle_since = self.now();
            self.share_core(cpu);
            self.is_idle(cpu);
        }
        self.leave(cpu);
    }

    /// The scheduler is told, unless it knows.
    fn is_idle(&mut self, cpu: usize) {
        if self.cpus[cpu].knows_idle {
            return self.refresh_idle(cpu, true);
        }
        self.cpus[cpu].knows_idle = true;
        self.update_idle(cpu, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHED: u64 = 5;
    const NEAR: u64 = 60;
    const FAR: u64 = 580;

    fn memory() -> Memory {
        let machine = Machine::find("hp-8s-80c").unwrap();
        let memory = Memory::new(&machine).unwrap();
        assert_eq!(u64::from(memory.table.cached_ns), CACHED);
        assert_eq!((memory.transfer(0, 1), memory.transfer(0, 79)), (NEAR, FAR));
        memory
    }

    /// As C's __equipoise_read_line().
    fn read(memory: &mut Memory, cpu: usize, rq: usize) {
        let ns = memory.transfer(memory.lines[rq].writer as usize, cpu) as u32;
        memory.lines[rq].shared_ns = memory.lines[rq].shared_ns.max(ns);
    }

    #[test]
    fn a_write_takes_the_line_from_whoever_has_it() {
        let mut memory = memory();
        assert_eq!(memory.write(0, 0), 0);
        assert_eq!(memory.write(1, 0), NEAR);
        assert_eq!(memory.write(1, 0), 0);
        read(&mut memory, 2, 0);
        read(&mut memory, 79, 0);
        assert_eq!(memory.write(1, 0), FAR);
        assert_eq!(memory.write(1, 0), 0);
    }

    #[test]
    fn a_lock_is_a_queue() {
        let memory = memory();
        let hold = memory.lock_ns;
        let mut lock = Lock::default();
        assert_eq!(memory.take(&mut lock, 0, 1000, 0), 0);
        // Waits for the holder, then for the line.
        assert_eq!(memory.take(&mut lock, 1, 1000, 0), hold + NEAR);
        assert_eq!(memory.take(&mut lock, 2, 1000, 0), 2 * (hold + NEAR));
        // Long free, and still where it was used last.
        assert_eq!(memory.take(&mut lock, 79, 1_000_000, 0), FAR);
        assert_eq!(memory.take(&mut lock, 79, 2_000_000, 0), 0);
    }

    #[test]
    fn a_lock_that_is_kept_is_waited_for() {
        let memory = memory();
        let mut lock = Lock::default();
        assert_eq!(lock.free(1000), (1000, 0));
        lock.held(79, 1000, 5000);
        assert_eq!(lock.free(900), (900, 0));
        assert_eq!(lock.free(2000), (5000, 79));
        assert_eq!(memory.take(&mut lock, 0, 2000, 0), 3000 + FAR);
        // Whoever is known to have it at a time had it then.
        lock.held(1, 500, 2000);
        assert_eq!(lock.free(500), (5000 + FAR + memory.lock_ns, 0));
    }

    #[test]
    fn a_lock_that_is_taken_later_is_free_until_then() {
        let memory = memory();
        let hold = memory.lock_ns;
        let mut lock = Lock::default();
        // Takes it at 11 us, having spent ten.
        assert_eq!(memory.take(&mut lock, 79, 1000, 10_000), FAR);
        assert_eq!(memory.take(&mut lock, 0, 1000, 0), 0);
        assert_eq!(memory.take(&mut lock, 1, 1000, 500), NEAR);
        // There is not time enough before 11 us.
        let wait = memory.take(&mut lock, 1, 10_900, 90);
        assert_eq!(wait, 10 + FAR + hold + FAR);
        // All that is over.
        lock.forget(1_000_000);
        assert!(lock.holds.is_empty());
    }
}
