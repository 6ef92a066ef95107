//! Memory that CPUs share: the cost of reading a runqueue that another CPU changed, of changing a runqueue that other
//! CPUs read, and of taking a contended lock. There are such costs only on a machine that describes them
//! ([`machine::Memory`]).
//!
//! The fields of a runqueue that other CPUs read are in four cache lines of Linux 3.10's `struct rq`. Two lines belong
//! to the kernel here: the line of the lock and `nr_running`, and that of `wake_list`. The other two lines belong to
//! the scheduler: the line of the load, and that of `curr` and `idle`. Each half is read and written as a unit: the
//! addresses are known, so the lines are fetched together. A read costs a transfer from the CPU that wrote last, unless
//! nothing was written since this CPU last read; a write costs the longest transfer needed to take the lines from their
//! owners. A task on another CPU's queue has four lines, too. A CPU that takes a lock waits for its turn
//! ([`crate::hw::lock`]), then for its line; for a ticket lock ([`machine::Spinlock`]), the wait grows with the number
//! of CPUs that poll that line.
//!
//! The CPU whose code is running spends the time. Until that CPU continues with its task or idles, the time is
//! collected in the table, to which C adds and which `bpf_ktime_get_ns()` reads.

use crate::abi::layout as abi;
use crate::abi::shared::Shared;
use crate::hw::lock::{Lock, Turn};
use machine::Spinlock;

pub struct Memory {
    /// C's view, which points to the other shared data.
    table: Shared<abi::Memory>,
    lines: Shared<[abi::Line]>,
    _seen: Shared<[u32]>,
    line_ns: Shared<[u32]>,
    /// The time to move half a runqueue, in ns, by the two CPUs' nodes as in `line_ns`.
    half_ns: Shared<[u32]>,
    node: Shared<[u16]>,
    nodes: usize,
    lock_ns: u64,
    spinlock: Spinlock,
    rq_locks: Box<[Lock]>,
    /// The locks that the running code holds, by CPU, and the turns in which it took them.
    held: [Option<(usize, Turn)>; 2],
}

/// The cost, in ns, of several lines requested together, given the cost of one line: each further line costs a fifth,
/// as in a working set (the machines' `refill_near_ns` and `refill_far_ns`).
#[inline]
fn together(ns: u64, lines: u64) -> u64 {
    ns + ns * (lines - 1) / 5
}

/// Code that runs on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    pub cpu: usize,
    /// The time at which the code started, and the time that it has spent since on shared memory and in callbacks, in
    /// ns.
    pub now: u64,
    pub spent: u64,
}

impl Memory {
    /// The memory that `memory` describes; `node` has the node of each CPU.
    pub fn new(memory: &machine::Memory, node: Shared<[u16]>) -> Memory {
        let (cpus, nodes) = (node.len(), memory.line_ns.len());
        // The order is: the kernel's lines of each CPU, the scheduler's lines of each CPU, the lines of no CPU.
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

    /// C's view, through which C changes only the data that the view points to. The view lives as long as this
    /// structure.
    pub fn table(&self) -> *mut abi::Memory {
        self.table.as_ptr()
    }

    /// The time to move a line from `from` to `to`, in ns.
    pub fn transfer_ns(&self, from: usize, to: usize) -> u64 {
        let (from, to) = (self.node[from] as usize, self.node[to] as usize);
        self.line_ns[from * self.nodes + to].into()
    }

    /// The time to move the shared half of a runqueue from `from` to `to`, in ns.
    fn half_ns(&self, from: usize, to: usize) -> u64 {
        let (from, to) = (self.node[from] as usize, self.node[to] as usize);
        self.half_ns[from * self.nodes + to].into()
    }

    /// The time for `cpu` to fetch a line last changed by `last`, in ns.
    #[inline]
    pub fn fetch_ns(&self, last: usize, cpu: usize) -> u64 {
        match last == cpu {
            true => 0,
            false => self.transfer_ns(last, cpu),
        }
    }

    /// The time for `cpu` to fetch a task last changed by `last`, in ns.
    #[inline]
    pub fn fetch_task_ns(&self, last: usize, cpu: usize) -> u64 {
        together(self.fetch_ns(last, cpu), 4)
    }

    /// Records that `cpu` writes the shared fields of the runqueue of `rq`; returns the cost, in ns.
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

    /// The time from the previous holder's release until `cpu`, whose turn it is, has the line, in ns. A ticket lock is
    /// one word that all waiters poll. When the word changes, each waiter fetches the line again, one at a time, and on
    /// average half of the others do so before the next holder (Boyd-Wickizer, Kaashoek, Morris, Zeldovich:
    /// "Non-scalable locks are dangerous", OLS 2012). In each other node, one waiter fetches the line for all, and its
    /// neighbours read the line from its cache. The count of waiters is taken at the CPU's arrival, because on average
    /// a queue is as long at departure as at arrival. In a queued lock each waiter has a word of its own.
    #[inline]
    fn handover(&self, turn: &Turn, cpu: usize) -> u64 {
        let line = self.line_of(turn, cpu);
        match turn.nodes == 0 || self.spinlock == Spinlock::Queued {
            true => line,
            false => line + self.refetches(turn, cpu),
        }
    }

    /// The time for which `cpu` waits for others that also fetch the word, in ns.
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

    /// The time to move a line from the previous holder to `cpu`, in ns.
    #[inline]
    fn line_of(&self, turn: &Turn, cpu: usize) -> u64 {
        self.fetch_ns(usize::from(turn.holder), cpu)
    }

    /// `code` takes `lock` for `hold` ns as soon as the lock is free for long enough, and fetches `lines` lines under
    /// it from the previous holder. Returns the time until `code` has the lock and the lines, in ns.
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

    /// `code` takes the lock of a queue; returns the cost, in ns.
    #[inline]
    pub fn lock(&self, lock: &mut Lock, code: Code) -> u64 {
        self.take(lock, code, 0, self.lock_ns)
    }

    /// `code` takes `lock` for the usual time plus `ns`; returns the cost including `ns`, in ns.
    pub fn lock_for(&self, lock: &mut Lock, code: Code, ns: u64) -> u64 {
        self.take(lock, code, 0, self.lock_ns + ns) + ns
    }

    /// `code` takes `lock`, to keep it. Returns the turn, and the cost in ns.
    pub fn begin(&self, lock: &mut Lock, code: Code) -> (Turn, u64) {
        lock.forget(code.now);
        let asked = code.now + code.spent;
        let turn = lock.turn(code.cpu, asked, &self.node, |_| 0, 1);
        (turn, turn.from + self.handover(&turn, code.cpu) - asked)
    }

    /// `code`, whose turn it was, releases `lock` after another `ns`.
    pub fn end(&self, lock: &mut Lock, turn: &Turn, code: Code, ns: u64) {
        lock.held(code.cpu, turn, code.now + code.spent + ns);
    }

    /// `code` takes the lock of the runqueue of `rq` and changes it; returns the cost, in ns.
    pub fn change_rq(&mut self, rq: usize, code: Code) -> u64 {
        let mut lock = std::mem::take(&mut self.rq_locks[rq]);
        let ns = self.lock(&mut lock, code);
        self.rq_locks[rq] = lock;
        ns + self.write(code.cpu, rq)
    }

    /// `code` takes the locks of two runqueues (`double_rq_lock()`), to keep them; returns the cost, in ns.
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

    /// `code` releases the runqueues that it locked.
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

    /// Does what C's __equipoise_read_line() does.
    fn read(memory: &Memory, cpu: usize, rq: usize) {
        // SAFETY: `lines` points to the memory's lines.
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
        // The CPU waits for the holder, then for the line.
        assert_eq!(take(&memory, &mut lock, 1, 1000, 0), hold + NEAR);
        assert_eq!(take(&memory, &mut lock, 2, 1000, 0), 2 * (hold + NEAR));
        // The lock has been free for a long time, but its line is still in the last holder's cache.
        assert_eq!(take(&memory, &mut lock, 79, 1_000_000, 0), FAR);
        assert_eq!(take(&memory, &mut lock, 79, 2_000_000, 0), 0);
    }

    #[test]
    fn a_ticket_lock_is_handed_over_the_more_slowly_the_more_wait() {
        let memory = memory(Spinlock::Ticket);
        let (hold, mut lock) = (memory.lock_ns, Lock::default());
        assert_eq!(take(&memory, &mut lock, 0, 1000, 0), 0);
        // CPUs 1 to 9 arrive while CPU 0 holds the lock, and find none, one, two, ... waiting.
        let mut wait = 0;
        for others in 0..9 {
            wait += hold + NEAR + NEAR * others / 2;
            assert_eq!(take(&memory, &mut lock, others as usize + 1, 1000, 0), wait);
        }
        // In another node with nine waiters, one waiter fetches the line for all, from far away if
        // the lock is in node 7.
        wait += hold + FAR + NEAR / 2;
        assert_eq!(take(&memory, &mut lock, 70, 1000, 0), wait);
        for near in 1..5 {
            wait += hold + NEAR + (near * NEAR + FAR) / 2;
            let cpu = 70 + near as usize;
            assert_eq!(take(&memory, &mut lock, cpu, 1000, 0), wait);
        }
        // A CPU that arrives when no other waits pays for no other waiters.
        assert_eq!(take(&memory, &mut lock, 0, 1_000_000, 0), FAR);
        // Nor does it pay for future waiters.
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
        // A hold that is already known is not shortened.
        lock.held(1, &turn(&lock, 500), 2000);
        assert_eq!(free(&lock, 500), (5000 + FAR + memory.lock_ns, 0));
    }

    #[test]
    fn a_lock_that_is_taken_later_is_free_until_then() {
        let memory = memory(Spinlock::Queued);
        let hold = memory.lock_ns;
        let mut lock = Lock::default();
        // CPU 79 takes the lock at 11 us, after spending 10 us.
        assert_eq!(take(&memory, &mut lock, 79, 1000, 10_000), FAR);
        assert_eq!(take(&memory, &mut lock, 0, 1000, 0), 0);
        assert_eq!(take(&memory, &mut lock, 1, 1000, 500), NEAR);
        // There is not enough time before 11 us.
        let wait = take(&memory, &mut lock, 1, 10_900, 90);
        assert_eq!(wait, 10 + FAR + hold + FAR);
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
        // The CPU takes its own lock, and the neighbour's, which the neighbour held last.
        assert_eq!(memory.lock_rqs([0, 1], code(0, 0)), NEAR);
        memory.unlock_rqs(code(0, 5000));
        // CPU 1 waits until the release, then for the lock's line, and writes its own runqueue.
        assert_eq!(memory.change_rq(1, code(1, 0)), 5000 + NEAR);
        memory.unlock_rqs(code(0, 9000));
        assert_eq!(memory.change_rq(0, code(0, 0)), 5000);
    }
}
