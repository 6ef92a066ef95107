//! A lock is a queue in virtual time: who takes it waits until those before have let go. What its lines cost
//! is [`crate::hw::memory`]'s.

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
    /// Since when the holder waits, ns.
    asked: u64,
    /// From when on it waits for the line alone, and when it lets go, ns.
    from: u64,
    until: u64,
    cpu: u16,
}

impl Lock {
    /// One that `holder` had last.
    pub fn of(holder: usize) -> Lock {
        Lock {
            holder: holder as u16,
            holds: Vec::new(),
        }
    }

    /// Forgets what is over at `now`.
    #[inline]
    pub fn forget(&mut self, now: u64) {
        let over = self.holds.partition_point(|hold| hold.until <= now);
        if over > 0 {
            self.holder = self.holds[over - 1].cpu;
            self.holds.drain(..over);
        }
    }

    /// When it is the turn of `cpu`, which asks at `asked`, given how long it needs from then on until it has it and
    /// how long it keeps it, ns, and the CPUs' nodes.
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
            // Where one follows upon another there is no need to find out what it needs.
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

    /// `cpu`, whose turn it is, has it until `until`.
    #[inline]
    pub fn hold(&mut self, cpu: usize, turn: &Turn, until: u64) {
        self.insert(turn.place, cpu, turn, until);
    }

    /// `cpu`, whose turn it was, let go at `until`, or when the next had it that is known.
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

    /// Is nobody known to have it, or to get it?
    #[cfg(test)]
    pub fn is_free(&self) -> bool {
        self.holds.is_empty()
    }
}

/// Whose turn it is to have a lock.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Since when that one waits, ns.
    pub asked: u64,
    /// The one before has let go, ns.
    pub from: u64,
    /// Who that is.
    pub holder: u16,
    /// How many of the holds that are known come before.
    place: usize,
    /// How many others in its node waited when it asked, and the nodes where any did, of the first 64.
    pub near: u64,
    pub nodes: u64,
}
