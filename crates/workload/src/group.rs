//! Control groups that tasks of a workload are in.

/// An index into the workload's control groups, see [`crate::Start::groups`].
pub type GroupId = u32;

/// A control group with the settings of its cpu controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    /// The group's name within its parent.
    pub name: String,
    /// The group's parent, which precedes it in the list; `None` stands for the root.
    pub parent: Option<GroupId>,
    /// `cpu.weight`, 1 to 10,000.
    pub weight: u32,
    /// `cpu.max`; `None` if there is no limit.
    pub max: Option<Bandwidth>,
    /// `cpu.idle`.
    pub idle: bool,
}

/// `cpu.max` and `cpu.max.burst`, in us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// The CPU time that the group may use in each period, at least 1000 us.
    pub quota_us: u64,
    /// The period, 1000 to 1,000,000 us.
    pub period_us: u64,
    /// The maximum of the unused time that is kept for later periods, which is at most the quota.
    pub burst_us: u64,
}

impl ControlGroup {
    /// The default of `cpu.weight`.
    pub const WEIGHT: u32 = 100;

    /// A group with the kernel's defaults.
    pub fn new(name: impl Into<String>, parent: Option<GroupId>) -> ControlGroup {
        ControlGroup {
            name: name.into(),
            parent,
            weight: Self::WEIGHT,
            max: None,
            idle: false,
        }
    }
}
