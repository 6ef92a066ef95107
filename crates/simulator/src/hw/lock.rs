//! A lock is a queue in simulated time: a CPU that takes it waits until earlier holders have released it. The costs of
//! a lock's cache lines are in [`crate::hw::memory`].

/// A lock: its current and future holds. The simulator executes a CPU's code at once, so a hold in that code may be
/// known before other CPUs request the lock for earlier times. These CPUs find the lock free until the known hold.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    /// The last holder among the CPUs whose holds are forgotten.
    holder: u16,
    /// Holds that are not over yet, in order.
    holds: Vec<Hold>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    /// The time at which the holder began to wait, in ns.
    asked: u64,
    /// The time of the previous release, after which the holder waits only for the cache line, and the time of its own
    /// release, in ns.
    from: u64,
    until: u64,
    cpu: u16,
}

impl Lock {
    /// A lock whose last holder is `holder`.
    pub fn of(holder: usize) -> Lock {
        Lock {
            holder: holder as u16,
            holds: Vec::new(),
        }
    }

    pub fn holder(&self) -> usize {
        self.holder.into()
    }

    /// Forgets holds that are over at `now`.
    #[inline]
    pub fn forget(&mut self, now: u64) {
        let over = self.holds.partition_point(|hold| hold.until <= now);
        if over > 0 {
            self.holder = self.holds[over - 1].cpu;
            self.holds.drain(..over);
        }
    }

    /// Finds the first turn that `cpu`, which requests the lock at `asked`, can have. `needs` returns the time to get
    /// the lock in a given turn, `keeps` is the time for which `cpu` keeps the lock, both in ns, and `node` has the
    /// node of each CPU.
    #[inline]
    pub fn turn(
        &self,
        cpu: usize,
        asked: u64,
        node: &[u16],
        needs: impl Fn(&Turn) -> u64,
        keeps: u64,
    ) -> Turn {
        let mut turn = Turn {
            asked,
            from: asked,
            holder: self.holder,
            place: 0,
            near: 0,
            nodes: 0,
        };
        for hold in &self.holds {
            // If one hold directly follows another, there is no gap between them, so `needs` need not be called.
            let lets_go = turn.from + keeps;
            if lets_go <= hold.from && lets_go + needs(&turn) <= hold.from {
                break;
            }
            turn.from = turn.from.max(hold.until);
            turn.holder = hold.cpu;
            turn.place += 1;
            if hold.asked <= asked && hold.from > asked {
                let other = node[usize::from(hold.cpu)];
                turn.near += u64::from(other == node[cpu]);
                turn.nodes |= 1 << (other % 64);
            }
        }
        turn
    }

    /// Records that `cpu`, whose turn it is, holds the lock until `until`.
    #[inline]
    pub fn hold(&mut self, cpu: usize, turn: &Turn, until: u64) {
        self.insert(turn.place, cpu, turn, until);
    }

    /// Records that `cpu`, whose turn it was, released the lock at `until`, or when the next known holder got the lock,
    /// if that was earlier.
    pub fn held(&mut self, cpu: usize, turn: &Turn, until: u64) {
        let place = self.holds.partition_point(|hold| hold.from <= turn.from);
        let next = self.holds.get(place).map_or(u64::MAX, |hold| hold.from);
        self.insert(place, cpu, turn, until.min(next));
    }

    #[inline]
    fn insert(&mut self, place: usize, cpu: usize, turn: &Turn, until: u64) {
        let hold = Hold {
            asked: turn.asked,
            from: turn.from,
            until,
            cpu: cpu as u16,
        };
        self.holds.insert(place, hold);
    }

    /// Is there no current or future holder?
    #[cfg(test)]
    pub fn is_free(&self) -> bool {
        self.holds.is_empty()
    }
}

/// A turn to hold a lock.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The time at which the CPU began to wait, in ns.
    pub asked: u64,
    /// The time, in ns, at which the previous holder releases the lock or, if later, the CPU begins to wait.
    pub from: u64,
    /// The previous holder.
    pub holder: u16,
    /// The number of known holds before this one.
    place: usize,
    /// The number of other waiters in the CPU's node when the CPU began to wait, and the nodes with waiters, as a set
    /// of node numbers modulo 64.
    pub near: u64,
    pub nodes: u64,
}
