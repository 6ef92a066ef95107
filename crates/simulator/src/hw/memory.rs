//! Memory that CPUs share: what it costs to read a runqueue that another CPU changed, to change one
//! that others read, and to take a lock that others want. Only on a machine that describes it
//! ([`machine::Memory`]).
//!
//! A runqueue's fields that other CPUs look at are one cache line, the scheduler's of it another. A read
//! costs a transfer from the CPU that wrote last, unless nothing was written since this CPU last read; a
//! write costs the longest transfer that is needed to take the line from whoever has it. So does the task
//! that one meets on another CPU's queue. Who takes a lock waits for its turn ([`crate::hw::lock`]), then for its
//! line; the longer the more others poll that line, if it is a ticket lock ([`machine::Spinlock`]).
//!
//! The time is spent by the CPU whose code is running: it is collected in the table, where C adds to it
//! and where [`bpf_ktime_get_ns()`] sees it, until the CPU goes on with its task or idles.

use crate::abi::layout as abi;
use crate::hw::lock::{Lock, Turn};
use crate::kernel::Kernel;
use crate::kernel::task::{OnDsq, Section, TaskPtr};
use machine::{Machine, Spinlock, time_for};

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
    spinlock: Spinlock,
    /// The runqueues' locks.
    rq_locks: Box<[Lock]>,
    /// Those that the code that is running holds, and since when.
    held: [Option<(usize, Turn)>; 2],
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
        Some(Memory {
            table,
            lines,
            _seen: seen,
            line_ns,
            node,
            nodes,
            lock_ns: memory.lock_ns.into(),
            spinlock: memory.spinlock,
            rq_locks: (0..cpus).map(Lock::of).collect(),
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

    /// From when on the one before has let go of a lock until `cpu`, whose turn it is, has its line, ns. A ticket
    /// lock is one word that all who wait poll. When it changes, each of them fetches the line again, one at a
    /// time, and the next has it after half of the others on average (Boyd-Wickizer, Kaashoek, Morris, Zeldovich:
    /// "Non-scalable locks are dangerous", OLS 2012); from other nodes one does it for all, whose cache its
    /// neighbours then have it from. These are those that it found when it came: a queue is as long, on average,
    /// when one leaves it as when one joins it. In a queued lock each has a word of its own.
    #[inline]
    fn handover(&self, turn: &Turn, cpu: usize) -> u64 {
        let line = self.line_of(turn, cpu);
        match turn.nodes == 0 || self.spinlock == Spinlock::Queued {
            true => line,
            false => line + self.refetches(turn, cpu),
        }
    }

    /// How long `cpu` waits for others that fetch the word, too, ns.
    #[cold]
    fn refetches(&self, turn: &Turn, cpu: usize) -> u64 {
        let (from, to) = (
            usize::from(self.node[usize::from(turn.holder)]),
            usize::from(self.node[cpu]),
        );
        let ns = |from: usize, to: usize| u64::from(self.line_ns[from * self.nodes + to]);
        let others =
            (0..self.nodes.min(64)).filter(|&node| node != to && turn.nodes >> node & 1 > 0);
        (turn.near * ns(to, to) + others.map(|node| ns(from, node)).sum::<u64>()) / 2
    }

    /// A line from the one before to `cpu`, ns.
    #[inline]
    fn line_of(&self, turn: &Turn, cpu: usize) -> u64 {
        match usize::from(turn.holder) {
            holder if holder == cpu => 0,
            holder => self.transfer(holder, cpu),
        }
    }

    /// `cpu`, having spent `spent` since `now`, takes `lock` for `hold` ns as soon as it is free for long enough,
    /// and so many lines that it protects from who had it before; how long it takes until then, ns.
    #[inline]
    fn take(
        &self,
        lock: &mut Lock,
        cpu: usize,
        now: u64,
        spent: u64,
        (lines, hold): (u64, u64),
    ) -> u64 {
        lock.forget(now);
        let asked = now + spent;
        let gets = |turn: &Turn| self.handover(turn, cpu) + lines * self.line_of(turn, cpu);
        let turn = lock.turn(cpu, asked, &self.node, |turn| gets(turn) + hold);
        let has = turn.from + gets(&turn);
        lock.hold(cpu, &turn, has + hold);
        has - asked
    }
}

impl Kernel<'_> {
    /// Time that the code that is running has spent on shared memory, ns.
    #[inline]
    pub fn spent(&self) -> u64 {
        self.bpf.table().spent
    }

    /// As [`Kernel::spent`], which begins anew.
    #[inline]
    pub fn take_spent(&mut self) -> u64 {
        let ns = std::mem::take(&mut self.bpf.table_mut().spent);
        self.counters.memory_ns += ns;
        ns
    }

    #[inline]
    fn spend(&mut self, ns: u64) {
        self.bpf.table_mut().spent += ns;
    }

    /// The code that is running takes the lock of the runqueue of `rq` and changes it.
    #[inline]
    pub fn change_rq(&mut self, rq: usize) {
        let (cpu, now, spent) = (self.this_cpu(), self.now(), self.spent());
        let Some(memory) = &mut self.hw.memory else {
            return;
        };
        let mut lock = std::mem::take(&mut memory.rq_locks[rq]);
        let ns = memory.take(&mut lock, cpu, now, spent, (0, memory.lock_ns));
        memory.rq_locks[rq] = lock;
        let ns = ns + memory.write(cpu, rq);
        self.spend(ns);
    }

    /// The code that is running takes the locks of two runqueues (`double_rq_lock()`), to keep them.
    pub fn lock_rqs(&mut self, rqs: [usize; 2]) {
        let (cpu, now) = (self.this_cpu(), self.now());
        for (index, rq) in rqs.into_iter().enumerate() {
            let asked = now + self.spent();
            let Some(memory) = &mut self.hw.memory else {
                return;
            };
            let lock = &mut memory.rq_locks[rq];
            lock.forget(now);
            let turn = lock.turn(cpu, asked, &memory.node, |_| 1);
            memory.held[index] = Some((rq, turn));
            let line = memory.handover(&turn, cpu);
            self.spend(turn.from - asked + line);
        }
    }

    /// The code that is running lets go of the runqueues that it locked.
    pub fn unlock_rqs(&mut self) {
        let (cpu, until) = (self.this_cpu(), self.now() + self.spent());
        let Some(memory) = &mut self.hw.memory else {
            return;
        };
        for (rq, turn) in memory.held.iter_mut().filter_map(Option::take) {
            memory.rq_locks[rq].held(cpu, &turn, until);
        }
    }

    /// The code that is running takes the lock of `dsq`, a queue of the scheduler's.
    #[inline]
    pub fn lock_dsq(&mut self, dsq: OnDsq) {
        let (cpu, now, spent) = (self.this_cpu(), self.now(), self.spent());
        let (Some(memory), OnDsq::User(_)) = (&self.hw.memory, dsq) else {
            return;
        };
        let lock = &mut self.scx.dsqs.get_mut(dsq).lock;
        let ns = memory.take(lock, cpu, now, spent, (0, memory.lock_ns));
        self.spend(ns);
    }

    /// The task that is running takes a spinlock, to do its work under it now.
    pub fn take_spinlock(&mut self, section: Section) {
        let (cpu, now, spent) = (self.this_cpu(), self.now(), self.spent());
        let work = time_for(section.work, self.cpus[cpu].speed);
        let Some(memory) = &self.hw.memory else {
            return;
        };
        let lock = self.programs.mutexes.spinlock(section.mutex);
        // One of the lines is the lock's.
        let lines = u64::from(section.lines.saturating_sub(1));
        let ns = memory.take(lock, cpu, now, spent, (lines, work));
        self.spend(ns);
    }

    /// The code that is running looks at `task`, which last ran, or was queued, on its CPU.
    #[inline]
    pub fn read_task(&mut self, task: TaskPtr) {
        let cpu = self.this_cpu();
        if let Some(memory) = self.hw.memory.as_ref().filter(|_| task.cpu() != cpu) {
            let ns = memory.transfer(task.cpu(), cpu);
            self.spend(ns);
        }
    }

    /// The code that is running changes lines that `last` was the last to change.
    pub fn fetch_lines(&mut self, last: usize, lines: u32) {
        let cpu = self.this_cpu();
        if let Some(memory) = self.hw.memory.as_ref().filter(|_| last != cpu) {
            let ns = memory.transfer(last, cpu);
            self.spend(u64::from(lines) * ns);
        }
    }

    /// What it takes a CPU to see what another wrote, ns.
    pub fn transfer_ns(&self, from: usize, to: usize) -> u64 {
        match &self.hw.memory {
            Some(memory) => memory.transfer(from, to),
            None => self.refill_ns(from, to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHED: u64 = 5;
    const NEAR: u64 = 60;
    const FAR: u64 = 580;

    fn memory(spinlock: Spinlock) -> Memory {
        let mut machine = Machine::find("hp-8s-80c").unwrap();
        machine.numa.memory.as_mut().unwrap().spinlock = spinlock;
        let memory = Memory::new(&machine).unwrap();
        assert_eq!(u64::from(memory.table.cached_ns), CACHED);
        assert_eq!((memory.transfer(0, 1), memory.transfer(0, 79)), (NEAR, FAR));
        memory
    }

    fn take(memory: &Memory, lock: &mut Lock, cpu: usize, now: u64, spent: u64) -> u64 {
        memory.take(lock, cpu, now, spent, (0, memory.lock_ns))
    }

    /// As C's __equipoise_read_line().
    fn read(memory: &mut Memory, cpu: usize, rq: usize) {
        let ns = memory.transfer(memory.lines[rq].writer as usize, cpu) as u32;
        memory.lines[rq].shared_ns = memory.lines[rq].shared_ns.max(ns);
    }

    #[test]
    fn a_write_takes_the_line_from_whoever_has_it() {
        let mut memory = memory(Spinlock::Queued);
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
        let memory = memory(Spinlock::Queued);
        let hold = memory.lock_ns;
        let mut lock = Lock::default();
        assert_eq!(take(&memory, &mut lock, 0, 1000, 0), 0);
        // Waits for the holder, then for the line.
        assert_eq!(take(&memory, &mut lock, 1, 1000, 0), hold + NEAR);
        assert_eq!(take(&memory, &mut lock, 2, 1000, 0), 2 * (hold + NEAR));
        // Long free, and still where it was used last.
        assert_eq!(take(&memory, &mut lock, 79, 1_000_000, 0), FAR);
        assert_eq!(take(&memory, &mut lock, 79, 2_000_000, 0), 0);
    }

    #[test]
    fn a_ticket_lock_is_handed_over_the_more_slowly_the_more_wait() {
        let memory = memory(Spinlock::Ticket);
        let (hold, mut lock) = (memory.lock_ns, Lock::default());
        assert_eq!(take(&memory, &mut lock, 0, 1000, 0), 0);
        // CPUs 1 to 9 come while CPU 0 has it, and find none, one, two, ... that wait.
        let mut wait = 0;
        for others in 0..9 {
            wait += hold + NEAR + NEAR * others / 2;
            assert_eq!(take(&memory, &mut lock, others as usize + 1, 1000, 0), wait);
        }
        // Of the nine in another node one fetches it for all: from far away once the lock is in node 7.
        wait += hold + FAR + NEAR / 2;
        assert_eq!(take(&memory, &mut lock, 70, 1000, 0), wait);
        for near in 1..5 {
            wait += hold + NEAR + (near * NEAR + FAR) / 2;
            let cpu = 70 + near as usize;
            assert_eq!(take(&memory, &mut lock, cpu, 1000, 0), wait);
        }
        // Who comes when nobody waits pays for nobody.
        assert_eq!(take(&memory, &mut lock, 0, 1_000_000, 0), FAR);
        // Nor for who is still to come.
        assert_eq!(take(&memory, &mut lock, 1, 2_000_000, 500), NEAR);
        assert_eq!(take(&memory, &mut lock, 2, 2_000_000, 0), NEAR);
        let wait = take(&memory, &mut lock, 3, 2_000_000, 510);
        assert_eq!(wait, (NEAR + hold - 10) + NEAR);
    }

    #[test]
    fn a_lock_that_is_kept_is_waited_for() {
        let memory = memory(Spinlock::Queued);
        let mut lock = Lock::default();
        let turn = |lock: &Lock, asked| lock.turn(0, asked, &memory.node, |_| 1);
        let free = |lock: &Lock, asked| (turn(lock, asked).from, turn(lock, asked).holder);
        assert_eq!(free(&lock, 1000), (1000, 0));
        lock.held(79, &turn(&lock, 1000), 5000);
        assert_eq!(free(&lock, 900), (900, 0));
        assert_eq!(free(&lock, 2000), (5000, 79));
        assert_eq!(take(&memory, &mut lock, 0, 2000, 0), 3000 + FAR);
        // Whoever is known to have it at a time had it then.
        lock.held(1, &turn(&lock, 500), 2000);
        assert_eq!(free(&lock, 500), (5000 + FAR + memory.lock_ns, 0));
    }

    #[test]
    fn a_lock_that_is_taken_later_is_free_until_then() {
        let memory = memory(Spinlock::Queued);
        let hold = memory.lock_ns;
        let mut lock = Lock::default();
        // Takes it at 11 us, having spent ten.
        assert_eq!(take(&memory, &mut lock, 79, 1000, 10_000), FAR);
        assert_eq!(take(&memory, &mut lock, 0, 1000, 0), 0);
        assert_eq!(take(&memory, &mut lock, 1, 1000, 500), NEAR);
        // There is not time enough before 11 us.
        let wait = take(&memory, &mut lock, 1, 10_900, 90);
        assert_eq!(wait, 10 + FAR + hold + FAR);
        // All that is over.
        lock.forget(1_000_000);
        assert!(lock.is_free());
    }
}
