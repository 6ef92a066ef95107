//! Memory that CPUs share: what it costs to read a runqueue that another CPU changed, to change one
//! that others read, and to take a lock that others want. Only on a machine that describes it
//! ([`machine::Memory`]).
//!
//! A runqueue's fields that other CPUs look at are in four cache lines of Linux 3.10's `struct rq`: the lock with
//! `nr_running`, and `wake_list`, which are the kernel's here; the load, and `curr` with `idle`, which are the
//! scheduler's. Both halves are read and written as one: where their lines are is known, so that these come
//! together. A read costs a transfer from the CPU that wrote last, unless nothing was written since this CPU last
//! read; a write costs the longest transfer that is needed to take the lines from whoever has them. A task on
//! another CPU's queue has four lines, too. A CPU that takes a lock waits for its turn
//! ([`crate::hw::lock`]), then for its line; the longer the more others poll that line, if it is a ticket lock
//! ([`machine::Spinlock`]).
//!
//! The time is spent by the CPU whose code is running: it is collected in the table, where C adds to it
//! and where [`bpf_ktime_get_ns()`] sees it, until the CPU goes on with its task or idles.

use crate::abi::layout as abi;
use crate::abi::shared::Shared;
use crate::hw::lock::{Lock, Turn};
use machine::Spinlock;

/// A machine's shared memory.
pub struct Memory {
    /// What C sees; points to the rest of what it shares.
    table: Shared<abi::Memory>,
    lines: Shared<[abi::Line]>,
    _seen: Shared<[u32]>,
    line_ns: Shared<[u32]>,
    /// The same of half a runqueue.
    half_ns: Shared<[u32]>,
    node: Shared<[u16]>,
    nodes: usize,
    lock_ns: u64,
    spinlock: Spinlock,
    /// The runqueues' locks.
    rq_locks: Box<[Lock]>,
    /// Those that the code that is running holds, and since when.
    held: [Option<(usize, Turn)>; 2],
}

/// What so many lines take that are asked for together, given what one takes, ns: each further one a fifth, as those
/// of a working set do (the machines' `refill_near_ns` and `refill_far_ns`).
#[inline]
fn together(ns: u64, lines: u64) -> u64 {
    ns + ns * (lines - 1) / 5
}

/// Code that is running on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    pub cpu: usize,
    /// Since when, and what it has spent on shared memory, ns.
    pub now: u64,
    pub spent: u64,
}

impl Memory {
    /// What `memory` describes, for CPUs in these nodes.
    pub fn new(memory: &machine::Memory, node: Shared<[u16]>) -> Memory {
        let (cpus, nodes) = (node.len(), memory.line_ns.len());
        // The kernel's lines, the scheduler's, then those of no CPU.
        let nr_lines = 2 * cpus + abi::GLOBAL_LINES;
        let line = |line| abi::Line {
            version: 1,
            shared_ns: 0,
            writer: (line % cpus) as u32,
        };
        let lines: Shared<[abi::Line]> = (0..nr_lines).map(line).collect();
        let seen = Shared::from(vec![0; cpus * nr_lines].into_boxed_slice());
        let line_ns: Shared<[u32]> = memory.line_ns.iter().flatten().copied().collect();
        let half = |&ns: &u32| together(ns.into(), 2) as u32;
        let half_ns: Shared<[u32]> = line_ns.iter().map(half).collect();
        let table = Shared::from(Box::new(abi::Memory {
            lines: lines.as_ptr().cast(),
            seen: seen.as_ptr().cast(),
            line_ns: half_ns.as_ptr().cast(),
            node: node.as_ptr().cast(),
            nr_lines: nr_lines as u32,
            nr_nodes: nodes as u32,
            cached_ns: memory.cached_ns,
            pad: 0,
        }));
        Memory {
            table,
            lines,
            _seen: seen,
            line_ns,
            half_ns,
            node,
            nodes,
            lock_ns: memory.lock_ns.into(),
            spinlock: memory.spinlock,
            rq_locks: (0..cpus).map(Lock::of).collect(),
            held: [None; 2],
        }
    }

    /// What C sees, which does not change it but what it points to. It lives as long as this.
    pub fn table(&self) -> *mut abi::Memory {
        self.table.as_ptr()
    }

    /// A line from `from` to `to`, ns.
    pub fn transfer_ns(&self, from: usize, to: usize) -> u64 {
        let (from, to) = (self.node[from] as usize, self.node[to] as usize);
        self.line_ns[from * self.nodes + to].into()
    }

    /// Half of what other CPUs look at of a runqueue from `from` to `to`, ns.
    fn half_ns(&self, from: usize, to: usize) -> u64 {
        let (from, to) = (self.node[from] as usize, self.node[to] as usize);
        self.half_ns[from * self.nodes + to].into()
    }

    /// A line that `last` was the last to change, for `cpu`, ns.
    #[inline]
    pub fn fetch_ns(&self, last: usize, cpu: usize) -> u64 {
        match last == cpu {
            true => 0,
            false => self.transfer_ns(last, cpu),
        }
    }

    /// A task that `last` was the last to change, for `cpu`, ns.
    #[inline]
    pub fn fetch_task_ns(&self, last: usize, cpu: usize) -> u64 {
        together(self.fetch_ns(last, cpu), 4)
    }

    /// `cpu` writes what other CPUs look at of the runqueue of `rq`; what that costs, ns.
    fn write(&mut self, cpu: usize, rq: usize) -> u64 {
        let line = self.lines[rq];
        let shared = u64::from(line.shared_ns);
        let ns = match line.writer as usize {
            writer if writer == cpu => shared,
            writer => self.half_ns(writer, cpu).max(shared),
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
        self.fetch_ns(usize::from(turn.holder), cpu)
    }

    /// `code` takes `lock` for `hold` ns as soon as it is free for long enough, and so many lines that it protects
    /// from who had it before; how long it takes until then, ns.
    #[inline]
    pub fn take(&self, lock: &mut Lock, code: Code, lines: u64, hold: u64) -> u64 {
        let Code { cpu, now, spent } = code;
        lock.forget(now);
        let asked = now + spent;
        let gets = |turn: &Turn| self.handover(turn, cpu) + lines * self.line_of(turn, cpu);
        let turn = lock.turn(cpu, asked, &self.node, gets, hold);
        let has = turn.from + gets(&turn);
        lock.hold(cpu, &turn, has + hold);
        has - asked
    }

    /// `code` takes the lock of a queue; what that costs, ns.
    #[inline]
    pub fn lock(&self, lock: &mut Lock, code: Code) -> u64 {
        self.take(lock, code, 0, self.lock_ns)
    }

    /// `code` takes `lock`, to keep it; what that costs, ns.
    pub fn begin(&self, lock: &mut Lock, code: Code) -> (Turn, u64) {
        lock.forget(code.now);
        let asked = code.now + code.spent;
        let turn = lock.turn(code.cpu, asked, &self.node, |_| 0, 1);
        (turn, turn.from + self.handover(&turn, code.cpu) - asked)
    }

    /// `code`, whose turn it was, lets go of `lock` once it has done what takes `ns` besides.
    pub fn end(&self, lock: &mut Lock, turn: &Turn, code: Code, ns: u64) {
        lock.held(code.cpu, turn, code.now + code.spent + ns);
    }

    /// `code` takes the lock of the runqueue of `rq` and changes it; what that costs, ns.
    pub fn change_rq(&mut self, rq: usize, code: Code) -> u64 {
        let mut lock = std::mem::take(&mut self.rq_locks[rq]);
        let ns = self.lock(&mut lock, code);
        self.rq_locks[rq] = lock;
        ns + self.write(code.cpu, rq)
    }

    /// `code` takes the locks of two runqueues (`double_rq_lock()`), to keep them; what that costs, ns.
    pub fn lock_rqs(&mut self, rqs: [usize; 2], code: Code) -> u64 {
        let asked = code.now + code.spent;
        let mut has = asked;
        for (index, rq) in rqs.into_iter().enumerate() {
            let lock = &mut self.rq_locks[rq];
            lock.forget(code.now);
            let turn = lock.turn(code.cpu, has, &self.node, |_| 0, 1);
            self.held[index] = Some((rq, turn));
            has = turn.from + self.handover(&turn, code.cpu);
        }
        has - asked
    }

    /// `code` lets go of the runqueues that it locked.
    pub fn unlock_rqs(&mut self, code: Code) {
        for (rq, turn) in self.held.iter_mut().filter_map(Option::take) {
            self.rq_locks[rq].held(code.cpu, &turn, code.now + code.spent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: u64 = 60;
    const FAR: u64 = 580;

    /// Eight nodes of ten CPUs.
    fn memory(spinlock: Spinlock) -> Memory {
        let line_ns = |from, to| if from == to { NEAR } else { FAR };
        let row = |from| (0..8).map(|to| line_ns(from, to) as u32).collect();
        let memory = machine::Memory {
            cached_ns: 5,
            line_ns: (0..8).map(row).collect(),
            lock_ns: 100,
            spinlock,
        };
        Memory::new(&memory, (0..80).map(|cpu| cpu / 10).collect())
    }

    fn take(memory: &Memory, lock: &mut Lock, cpu: usize, now: u64, spent: u64) -> u64 {
        memory.lock(lock, Code { cpu, now, spent })
    }

    /// As C's __equipoise_read_line().
    fn read(memory: &Memory, cpu: usize, rq: usize) {
        // SAFETY: it points to the memory's lines.
        let line = unsafe { &mut *(*memory.table()).lines.add(rq) };
        let ns = memory.half_ns(line.writer as usize, cpu) as u32;
        line.shared_ns = line.shared_ns.max(ns);
    }

    #[test]
    fn a_write_takes_the_line_from_whoever_has_it() {
        let mut memory = memory(Spinlock::Queued);
        let (near, far) = (NEAR + NEAR / 5, FAR + FAR / 5);
        assert_eq!(memory.write(0, 0), 0);
        assert_eq!(memory.write(1, 0), near);
        assert_eq!(memory.write(1, 0), 0);
        read(&memory, 2, 0);
        read(&memory, 79, 0);
        assert_eq!(memory.write(1, 0), far);
        assert_eq!(memory.write(1, 0), 0);
    }

    #[test]
    fn a_tasks_lines_come_together() {
        let memory = memory(Spinlock::Queued);
        assert_eq!(memory.fetch_task_ns(3, 3), 0);
        assert_eq!(memory.fetch_task_ns(0, 1), NEAR + 3 * NEAR / 5);
        assert_eq!(memory.fetch_task_ns(0, 79), FAR + 3 * FAR / 5);
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
        let turn = |lock: &Lock, asked| lock.turn(0, asked, &memory.node, |_| 0, 1);
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

    #[test]
    fn a_lock_that_is_kept_for_a_wakeup_is_waited_for() {
        let memory = memory(Spinlock::Queued);
        let (mut lock, now) = (Lock::of(0), 1000);
        let code = |cpu, spent| Code { cpu, now, spent };
        let (turn, ns) = memory.begin(&mut lock, code(1, 0));
        assert_eq!(ns, NEAR);
        memory.end(&mut lock, &turn, code(1, ns + 400), 1500);
        assert_eq!(memory.lock(&mut lock, code(0, 0)), NEAR + 400 + 1500 + NEAR);
    }

    #[test]
    fn two_runqueues_are_kept_locked() {
        let mut memory = memory(Spinlock::Queued);
        let code = |cpu, spent| Code {
            cpu,
            now: 1000,
            spent,
        };
        // Its own, and the neighbour's, which that one had last.
        assert_eq!(memory.lock_rqs([0, 1], code(0, 0)), NEAR);
        memory.unlock_rqs(code(0, 5000));
        // Waits until it lets go, for the lock's line, and writes the runqueue's own.
        assert_eq!(memory.change_rq(1, code(1, 0)), 5000 + NEAR);
        memory.unlock_rqs(code(0, 9000));
        assert_eq!(memory.change_rq(0, code(0, 0)), 5000);
    }
}
