//! Control groups: the root, and the workload's groups. Groups exist from boot on.

use crate::abi::layout::{
    Cgroup, CgroupInitArgs, Css, CssSet, KernfsNode, MAX_LEVELS, MAX_STORAGES, TaskGroup,
};
use crate::abi::objects::release;
use crate::abi::shared::Shared;
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::ptr::null_mut;
use workload::{Bandwidth, ControlGroup, GroupId};

/// All groups, parents before their children.
pub struct Groups(Vec<Group>);

struct Group {
    parts: Shared<Parts>,
    settings: ControlGroup,
    /// The CPU time that a group with a limit may still use, and the end of the current period, in ns.
    left: Cell<i64>,
    period_end: Cell<u64>,
    /// The time at which the group's CPU time ran out in the current period, in ns.
    out_since: Cell<Option<u64>>,
    throttled: Cell<Throttled>,
    /// The text to which `kn->name` points.
    _name: CString,
}

struct Parts {
    cgroup: Cgroup,
    node: KernfsNode,
    group: TaskGroup,
    set: CssSet,
}

/// `kn->id` of the root of the default hierarchy. The ids of the other groups follow.
const ROOT_ID: u64 = 1;

/// `default_bw_period_us()`
const DEFAULT_PERIOD_US: u64 = 100_000;

fn css() -> Css {
    Css {
        cgroup: null_mut(),
        parent: null_mut(),
        child: null_mut(),
        sibling: null_mut(),
    }
}

impl Parts {
    fn new(id: u64, level: i32, name: &CString, weight: u32) -> Shared<Parts> {
        let parts = Shared::from(Box::new(Parts {
            cgroup: Cgroup {
                self_css: css(),
                kn: null_mut(),
                level,
                cpu_css: null_mut(),
                storage: Default::default(),
                ancestors: [null_mut(); MAX_LEVELS],
            },
            node: KernfsNode {
                id,
                name: name.as_ptr(),
            },
            group: TaskGroup { css: css(), weight },
            set: CssSet {
                dfl_cgrp: null_mut(),
            },
        }));
        let own = parts.as_ptr();
        // SAFETY: the group was just made.
        unsafe {
            (*own).cgroup.self_css.cgroup = &raw mut (*own).cgroup;
            (*own).cgroup.kn = &raw mut (*own).node;
            (*own).cgroup.cpu_css = &raw mut (*own).group;
            (*own).group.css.cgroup = &raw mut (*own).cgroup;
            (*own).set.dfl_cgrp = &raw mut (*own).cgroup;
        }
        parts
    }
}

/// Makes `child` the last child of `parent`.
///
/// # Safety
/// `parent` and `child` are alive.
unsafe fn link(parent: *mut Css, child: *mut Css) {
    // SAFETY: both are alive, and so are the groups that they point to.
    unsafe {
        (*child).parent = parent;
        let mut last = &raw mut (*parent).child;
        while !(*last).is_null() {
            last = &raw mut (**last).sibling;
        }
        *last = child;
    }
}

/// Counts of a run's periods for groups with a `cpu.max`, judged by the CPU time that the groups' tasks had.
/// (`cpu.stat` instead counts the periods in which the scheduler throttled a CPU.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Throttled {
    /// The number of all periods.
    pub periods: u64,
    /// The number of periods in which a group used up its time.
    pub throttled: u64,
    /// The sum of the times from running out of CPU time to the end of the period, in ns.
    pub ns: u64,
}

/// In [`Groups::is_throttled`] a group counts as throttled if at most 1/`NEARLY` of its quota is left.
const NEARLY: u64 = 50;

impl Group {
    /// Begins the periods until `now`, each of which adds the quota. Any overdraft is paid back from the added time.
    fn refill(&self, max: Bandwidth, now: u64) {
        let (period, quota) = (max.period_us * 1000, max.quota_us as i64 * 1000);
        let end = self.period_end.get();
        if now < end {
            return;
        }
        let periods = (now - end) / period + 1;
        let most = quota + max.burst_us as i64 * 1000;
        let added = quota.saturating_mul(periods.min(i64::MAX as u64) as i64);
        let left = self.left.get().saturating_add(added).min(most);
        self.left.set(left);
        self.period_end.set(end + periods * period);

        let mut throttled = self.throttled.get();
        // The first refill begins the first period, so no period has ended before it.
        throttled.periods += periods - u64::from(end == 0);
        if let Some(since) = self.out_since.take() {
            throttled.throttled += 1;
            throttled.ns += end.saturating_sub(since);
        }
        self.throttled.set(throttled);
        self.out_since.set((left <= 0).then_some(end));
    }
}

impl Groups {
    /// The root, with `groups` below it.
    pub fn new(groups: Vec<ControlGroup>) -> Groups {
        let mut all = Groups(Vec::new());
        let root = ControlGroup::new("", None);
        for settings in std::iter::once(root).chain(groups) {
            all.add(settings);
        }
        all
    }

    fn add(&mut self, settings: ControlGroup) {
        let id = ROOT_ID + self.0.len() as u64;
        let above = (!self.0.is_empty()).then(|| self.parts(self.place(settings.parent)));
        // SAFETY: the group above is alive.
        let level = above.map_or(0, |above| unsafe { (*above).cgroup.level } + 1);
        let name = CString::new(settings.name.replace('\0', "")).unwrap_or_default();
        let parts = Parts::new(id, level, &name, settings.weight);
        if let Some(above) = above {
            let own = parts.as_ptr();
            // SAFETY: both groups are alive.
            unsafe {
                link(
                    &raw mut (*above).cgroup.self_css,
                    &raw mut (*own).cgroup.self_css,
                );
                link(&raw mut (*above).group.css, &raw mut (*own).group.css);
                (*own).cgroup.ancestors = (*above).cgroup.ancestors;
            }
        }
        let own = parts.as_ptr();
        // SAFETY: the group was just made.
        unsafe {
            let cgroup = &raw mut (*own).cgroup;
            // The array has no entry for a deeper level; there a scheduler finds null.
            if let Some(place) = (*cgroup).ancestors.get_mut(level as usize) {
                *place = cgroup;
            }
        }
        self.0.push(Group {
            parts,
            settings,
            left: Cell::new(0),
            period_end: Cell::new(0),
            out_since: Cell::new(None),
            throttled: Cell::default(),
            _name: name,
        });
    }

    /// The index in this list of the workload's `group`.
    fn place(&self, group: Option<GroupId>) -> usize {
        group.map_or(0, |group| 1 + group as usize)
    }

    fn parts(&self, index: usize) -> *mut Parts {
        self.0[index].parts.as_ptr()
    }

    /// The number of groups, including the root.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn group(&self, index: usize) -> *mut Cgroup {
        // SAFETY: the group is alive; only the address is taken.
        unsafe { &raw mut (*self.parts(index)).cgroup }
    }

    /// The css_set of the tasks in the workload's `group`; `None` is the root.
    pub fn css_set(&self, group: Option<GroupId>) -> *mut CssSet {
        // SAFETY: the group is alive; only the address is taken.
        unsafe { &raw mut (*self.parts(self.place(group))).set }
    }

    /// The group of the tasks with this css_set.
    pub fn of(&self, set: *mut CssSet) -> *mut Cgroup {
        // SAFETY: the css_set belongs to one of the groups, which are alive.
        unsafe { (*set).dfl_cgrp }
    }

    /// Is the CPU time of the tasks with this css_set limited, by their group or one of its ancestors?
    pub fn is_limited(&self, set: *mut CssSet) -> bool {
        // SAFETY: the pointer is that of one of the groups, which are alive.
        let id = unsafe { (*(*self.of(set)).kn).id };
        let mut index = (id - ROOT_ID) as usize;
        while index > 0 {
            let settings = &self.0[index].settings;
            if settings.max.is_some() {
                return true;
            }
            index = self.place(settings.parent);
        }
        false
    }

    pub fn have_limits(&self) -> bool {
        self.0.iter().any(|group| group.settings.max.is_some())
    }

    /// The groups with a limit among the group of this css_set and its ancestors, with their limits.
    fn limited(&self, set: *mut CssSet) -> impl Iterator<Item = (&Group, Bandwidth)> {
        // SAFETY: the pointer is that of one of the groups, which are alive.
        let id = unsafe { (*(*self.of(set)).kn).id };
        let first = (id - ROOT_ID) as usize;
        let up = |&index: &usize| Some(self.place(self.0[index].settings.parent));
        let path = std::iter::successors(Some(first), up).take_while(|&index| index > 0);
        path.filter_map(|index| Some((&self.0[index], self.0[index].settings.max?)))
    }

    /// Charges `ns` of CPU time, until `now`, to the limited groups of a task with this css_set.
    pub fn charge(&self, set: *mut CssSet, now: u64, ns: u64) {
        for (group, max) in self.limited(set) {
            group.refill(max, now);
            group.left.update(|left| left - ns as i64);
            if group.left.get() <= 0 && group.out_since.get().is_none() {
                group.out_since.set(Some(now));
            }
        }
    }

    /// Returns the sums of the periods of all groups with a limit, until `now`.
    pub fn throttled(&self, now: u64) -> Throttled {
        let limited = self
            .0
            .iter()
            .filter_map(|group| Some((group, group.settings.max?)));
        limited.fold(Throttled::default(), |sum, (group, max)| {
            group.refill(max, now);
            let own = group.throttled.get();
            Throttled {
                periods: sum.periods + own.periods,
                throttled: sum.throttled + own.throttled,
                ns: sum.ns + own.ns,
            }
        })
    }

    /// Has the group with this css_set, or an ancestor, used up its CPU time, or nearly? This account is for
    /// measurements; the scheduler throttles groups by an account of its own.
    pub fn is_throttled(&self, set: *mut CssSet, now: u64) -> bool {
        self.limited(set).any(|(group, max)| {
            group.refill(max, now);
            // A scheduler stops a group at a tick or a switch, perhaps a little before the quota is used up.
            group.left.get() <= (max.quota_us * 1000 / NEARLY) as i64
        })
    }

    /// The `cpu.weight` of the group with this css_set, and the product of its weight and its
    /// ancestors' weights, where 2^20 stands for the default weight of 100.
    pub fn weight(&self, set: *mut CssSet) -> (u32, u64) {
        // SAFETY: the pointer is that of one of the groups, which are alive.
        let id = unsafe { (*(*self.of(set)).kn).id };
        let own = (id - ROOT_ID) as usize;
        let (mut index, mut product) = (own, 1 << 20);
        while index > 0 {
            let settings = &self.0[index].settings;
            product = (product * u64::from(settings.weight) / 100).clamp(1, 1 << 40);
            index = self.place(settings.parent);
        }
        (self.0[own].settings.weight, product)
    }

    /// The group with this id; null if there is none.
    pub fn find(&self, id: u64) -> *mut Cgroup {
        match id.checked_sub(ROOT_ID) {
            Some(index) if (index as usize) < self.len() => self.group(index as usize),
            _ => null_mut(),
        }
    }

    /// Does `what` hold for any group besides the root?
    pub fn any(&self, what: impl Fn(&ControlGroup) -> bool) -> bool {
        self.0.iter().skip(1).any(|group| what(&group.settings))
    }

    /// Returns a group, and the arguments of `ops.cgroup_init()` for that group.
    pub fn init(&self, index: usize) -> (*mut Cgroup, CgroupInitArgs) {
        let settings = &self.0[index].settings;
        let Bandwidth {
            quota_us,
            period_us,
            burst_us,
        } = settings.max.unwrap_or(Bandwidth {
            quota_us: u64::MAX,
            period_us: DEFAULT_PERIOD_US,
            burst_us: 0,
        });
        let args = CgroupInitArgs {
            weight: settings.weight,
            bw_period_us: period_us,
            bw_quota_us: quota_us,
            bw_burst_us: burst_us,
            sched_idle: settings.idle,
        };
        (self.group(index), args)
    }
}

/// The path of `group`, which is alive, below the root of the hierarchy: `cgroup_path()`.
pub fn path(group: *mut Cgroup) -> CString {
    // SAFETY: a group is alive, and so are those above it and their names.
    let names = unsafe {
        let levels = 1..=(*group).level.max(0) as usize;
        let above = levels.filter_map(|level| (*group).ancestors.get(level));
        above
            .filter(|above| !above.is_null())
            .map(|above| CStr::from_ptr((*(**above).kn).name).to_bytes())
            .flat_map(|name| [b"/", name].concat())
            .collect::<Vec<u8>>()
    };
    let path = if names.is_empty() { b"/".into() } else { names };
    CString::new(path).expect("a name has no zero")
}

impl Groups {
    /// Frees the scheduler's storage of the groups.
    pub fn release_storage(&mut self) {
        for group in &mut self.0 {
            let none = [null_mut(); MAX_STORAGES];
            for slot in std::mem::replace(&mut group.parts.cgroup.storage, none) {
                release(slot);
            }
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.release_storage();
    }
}
