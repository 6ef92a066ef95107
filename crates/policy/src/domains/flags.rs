//! The flags of a sched domain.

use std::ops::BitOr;

/// `SD_*` flags of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// The kernel balances at this level.
    pub const LOAD_BALANCE: Flags = Flags(0x0001);
    /// A CPU balances when it is about to become idle.
    pub const BALANCE_NEWIDLE: Flags = Flags(0x0002);
    /// The kernel places tasks that start another program.
    pub const BALANCE_EXEC: Flags = Flags(0x0004);
    /// The kernel places forked tasks.
    pub const BALANCE_FORK: Flags = Flags(0x0008);
    /// The kernel considers waking a task on the waker's CPU.
    pub const WAKE_AFFINE: Flags = Flags(0x0020);
    /// The CPUs are hardware threads of a core.
    pub const SHARE_CPUPOWER: Flags = Flags(0x0080);
    /// The CPUs share a last-level cache.
    pub const SHARE_PKG_RESOURCES: Flags = Flags(0x0200);
    /// Some of the CPUs are preferred to others.
    pub const ASYM_PACKING: Flags = Flags(0x0800);
    /// One CPU at a time balances such domains.
    pub const SERIALIZE: Flags = Flags(0x0400);
    /// Tasks are preferably in a sibling of this domain.
    pub const PREFER_SIBLING: Flags = Flags(0x1000);
    /// The domain spans NUMA nodes.
    pub const NUMA: Flags = Flags(0x4000);
    /// The CPUs differ in capacity.
    pub const ASYM_CPUCAPACITY: Flags = Flags(0x20000);
    /// The domain has CPUs of every capacity of the machine.
    pub const ASYM_CPUCAPACITY_FULL: Flags = Flags(0x40000);

    pub(super) const NEED_GROUPS: Flags = Flags(
        0x0001
            | 0x0002
            | 0x0004
            | 0x0008
            | 0x0080
            | 0x0200
            | 0x0400
            | 0x0800
            | 0x1000
            | 0x4000
            | 0x20000
            | 0x40000,
    );

    /// Is any flag of `other` set?
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}
