//! The idle CPUs according to sched_ext's built-in idle tracking, and the choice among them.

use crate::abi::layout::{self as abi, Ops};
use crate::abi::shared::Shared;
use machine::{CpuMask, Machine};

/// The built-in idle masks (`idle_masks`).
pub struct IdleMasks {
    masks: Shared<Masks>,
    /// The SMT siblings of each CPU, including itself; empty if no core has more than one thread.
    siblings: Vec<CpuMask>,
    /// `scx_builtin_idle_enabled`: false if the scheduler tracks idle CPUs itself.
    pub enabled: bool,
    /// The masks of nodes that were given to C, which are reused in turn.
    of_nodes: Shared<[CpuMask]>,
    next_of_nodes: usize,
    /// For each CPU, the CPUs of its last-level cache and of its node, unless these are all CPUs. Linux 7.3 searches
    /// these CPUs first.
    near: Vec<[Option<CpuMask>; 2]>,
    /// For each CPU, the last result of [`IdleMasks::any_distribute`] (`distribute_cpu_mask_prev`).
    distributed: Vec<usize>,
}

/// The number of masks of nodes, which is more than an op holds at a time.
const NODE_MASKS: usize = 64;

/// The masks that C reads.
struct Masks {
    cpus: CpuMask,
    /// The CPUs all of whose SMT siblings are idle.
    cores: CpuMask,
    online: CpuMask,
    possible: CpuMask,
}

/// The waker of a task, for the choice of the task's CPU.
pub struct Waker {
    /// The waker's CPU.
    pub cpu: usize,
    /// Whether the waker is not about to exit.
    pub stays: bool,
    /// The number of tasks in the local queue of the waker's CPU.
    pub queued: usize,
}

impl IdleMasks {
    /// The masks of `machine`. Any of the `possible` CPUs may come online.
    pub fn new(
        machine: &Machine,
        possible: CpuMask,
        ops: &Ops,
        release: native::Kernel,
    ) -> IdleMasks {
        let all = machine.all_cpus();
        let smt = machine.levels.iter().find(|level| level.name == "SMT");
        let spans: &[CpuMask] = smt.map_or(&[], |level| &level.spans);
        let siblings = if spans.iter().any(|span| span.count() > 1) {
            let of = |cpu| {
                spans
                    .iter()
                    .find(|span| span.contains(cpu))
                    .copied()
                    .unwrap_or(CpuMask::one(cpu))
            };
            (0..machine.cpus.len()).map(of).collect()
        } else {
            Vec::new()
        };
        IdleMasks {
            masks: Shared::from(Box::new(Masks {
                cpus: all,
                cores: all,
                online: all,
                possible,
            })),
            siblings,
            of_nodes: vec![CpuMask::EMPTY; NODE_MASKS].into_boxed_slice().into(),
            next_of_nodes: 0,
            near: match release {
                native::Kernel::V6_12 => Vec::new(),
                native::Kernel::V7_3 => near(machine),
            },
            enabled: ops.update_idle.is_none() || ops.flags & abi::OPS_KEEP_BUILTIN_IDLE != 0,
            distributed: vec![0; machine.cpus.len()],
        }
    }

    /// Does any core have more than one thread?
    pub fn has_smt(&self) -> bool {
        !self.siblings.is_empty()
    }

    /// The masks for C, by `enum equipoise_cpumask`. These are the possible and the online CPUs, the idle CPUs, and the
    /// idle cores, which are the idle CPUs if no core has more than one thread.
    pub fn for_c(&self, which: u32) -> *const CpuMask {
        let masks = self.masks.as_ptr();
        // SAFETY: the masks are alive, and only addresses are taken.
        unsafe {
            match which {
                0 => &raw const (*masks).possible,
                1 => &raw const (*masks).online,
                3 if self.has_smt() => &raw const (*masks).cores,
                _ => &raw const (*masks).cpus,
            }
        }
    }

    /// A snapshot of the idle CPUs, or idle cores, of the node that spans `span`.
    pub fn of_node(&mut self, span: &CpuMask, smt: bool) -> *const CpuMask {
        let masks = match smt && self.has_smt() {
            true => &self.masks.cores,
            false => &self.masks.cpus,
        };
        let mask = masks.and(span);
        self.next_of_nodes = (self.next_of_nodes + 1) % NODE_MASKS;
        self.of_nodes[self.next_of_nodes] = mask;
        &raw const self.of_nodes[self.next_of_nodes]
    }

    /// Is `cpu` known to be idle, and not claimed?
    pub fn is_idle(&self, cpu: usize) -> bool {
        self.enabled && self.masks.cpus.contains(cpu)
    }

    /// The CPUs that may come online.
    pub fn possible(&self) -> CpuMask {
        self.masks.possible
    }

    /// Records that `cpu` comes online and idles, or that it goes offline.
    pub fn set_online(&mut self, cpu: usize, online: bool) {
        match online {
            true => self.masks.online.set(cpu),
            false => self.masks.online.clear(cpu),
        }
        self.update(cpu, online);
    }

    /// Records that `cpu` becomes idle or busy.
    pub fn update(&mut self, cpu: usize, idle: bool) {
        if !self.enabled {
            return;
        }
        if idle {
            self.masks.cpus.set(cpu);
        } else {
            self.masks.cpus.clear(cpu);
        }
        if let Some(siblings) = self.siblings.get(cpu) {
            if !idle {
                self.masks.cores = self.masks.cores.without(siblings);
            } else if siblings.is_subset(&self.masks.cpus) {
                self.masks.cores = self.masks.cores.or(siblings);
            }
        }
    }

    /// Claims `cpu` if it is idle: `test_and_clear_cpu_idle()`.
    pub fn claim(&mut self, cpu: usize) -> bool {
        if let Some(siblings) = self.siblings.get(cpu) {
            self.masks.cores = self.masks.cores.without(siblings);
        }
        let idle = self.masks.cpus.contains(cpu);
        self.masks.cpus.clear(cpu);
        idle
    }

    /// `cpumask_any_and_distribute()`: a CPU of both masks, for code on `this` CPU; each call starts the search behind
    /// the last result.
    pub fn any_distribute(&mut self, this: usize, a: &CpuMask, b: &CpuMask) -> Option<usize> {
        let both = a.and(b);
        let last = &mut self.distributed[this];
        let cpu = both.first_from(*last + 1).or_else(|| both.first())?;
        *last = cpu;
        Some(cpu)
    }

    /// `scx_pick_idle_cpu()`, for code on `this` CPU: claims an idle CPU of `allowed`.
    pub fn pick_idle_cpu(&mut self, this: usize, allowed: &CpuMask, flags: u64) -> Option<usize> {
        loop {
            let mut found = None;
            if self.has_smt() {
                let cores = self.masks.cores;
                found = self.any_distribute(this, &cores, allowed);
                if found.is_none() && flags & abi::PICK_IDLE_CORE != 0 {
                    return None;
                }
            }
            let cpus = self.masks.cpus;
            let cpu = match found {
                Some(cpu) => cpu,
                None => self.any_distribute(this, &cpus, allowed)?,
            };
            if self.claim(cpu) {
                return Some(cpu);
            }
        }
    }

    /// `scx_select_cpu_dfl()` of Linux 7.3 for a task that may run on `allowed`, with `SCX_PICK_IDLE_*` flags. Claims
    /// and returns an idle CPU or, for a synchronous wakeup, returns the waker's CPU.
    pub fn select_cpu(
        &mut self,
        waker: &Waker,
        allowed: &CpuMask,
        prev: usize,
        wake_flags: u64,
        flags: u64,
    ) -> Option<usize> {
        let this = waker.cpu;
        let prev_allowed = allowed.contains(prev);
        let near = self.near.get(prev).copied().unwrap_or_default();
        let near = near.map(|span| span.map(|span| span.and(allowed)));
        if wake_flags & abi::WAKE_SYNC != 0 {
            let shares = self.share_cache(this, prev);
            if prev_allowed && shares && self.claim(prev) {
                return Some(prev);
            }
            if waker.stays
                && waker.queued == 0
                && !self.masks.cpus.is_empty()
                && allowed.contains(this)
            {
                self.claim(this);
                return Some(this);
            }
        }
        let spans = || near.iter().flatten().chain([allowed]);
        if self.has_smt() {
            if prev_allowed && self.masks.cores.contains(prev) && self.claim(prev) {
                return Some(prev);
            }
            for span in spans() {
                if let Some(cpu) = self.pick_idle_cpu(this, span, abi::PICK_IDLE_CORE) {
                    return Some(cpu);
                }
            }
            if flags & abi::PICK_IDLE_CORE != 0 {
                return None;
            }
        }
        if prev_allowed && self.claim(prev) {
            return Some(prev);
        }
        let siblings = self.siblings.get(prev).copied().unwrap_or_default();
        for cpu in siblings.and(allowed).iter().filter(|&cpu| cpu != prev) {
            if self.claim(cpu) {
                return Some(cpu);
            }
        }
        spans().find_map(|span| self.pick_idle_cpu(this, span, 0))
    }

    /// `cpus_share_cache()`
    fn share_cache(&self, a: usize, b: usize) -> bool {
        match self.near.get(a) {
            Some([Some(cache), _]) => cache.contains(b),
            _ => true,
        }
    }

    /// `scx_select_cpu_dfl()` of Linux 6.12 for a task that may run on `allowed`: the CPU, and whether it is idle and
    /// claimed or, for a synchronous wakeup, is the waker's.
    pub fn select_cpu_dfl(
        &mut self,
        waker: &Waker,
        allowed: &CpuMask,
        prev: usize,
        wake_flags: u64,
    ) -> (usize, bool) {
        if wake_flags & abi::WAKE_SYNC != 0
            && !self.masks.cpus.is_empty()
            && waker.stays
            && waker.queued == 0
            && allowed.contains(waker.cpu)
        {
            return (waker.cpu, true);
        }
        if self.has_smt() {
            if self.masks.cores.contains(prev) && self.claim(prev) {
                return (prev, true);
            }
            if let Some(cpu) = self.pick_idle_cpu(waker.cpu, allowed, abi::PICK_IDLE_CORE) {
                return (cpu, true);
            }
        }
        if self.claim(prev) {
            return (prev, true);
        }
        match self.pick_idle_cpu(waker.cpu, allowed, 0) {
            Some(cpu) => (cpu, true),
            None => (prev, false),
        }
    }
}

/// `scx_idle_update_selcpu_topology()`: for each CPU, the CPUs of its last-level cache, if there are several caches,
/// and the CPUs of its node, if these are not the same CPUs and there are several nodes.
fn near(machine: &Machine) -> Vec<[Option<CpuMask>; 2]> {
    let all = machine.all_cpus();
    let span_of = |spans: &[CpuMask], cpu: usize| {
        let span = spans.iter().find(|span| span.contains(cpu)).copied();
        span.filter(|span| span.count() < all.count())
    };
    let of = |cpu| {
        let cache = span_of(machine.last_level_caches(), cpu);
        let node = span_of(machine.nodes(), cpu).filter(|node| Some(*node) != cache);
        [cache, node]
    };
    (0..machine.cpus.len()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four cores of two threads each: CPUs 0 and 1, 2 and 3, ...
    fn masks() -> IdleMasks {
        let all = CpuMask::first_n(8);
        let pair = |cpu: usize| CpuMask::one(cpu & !1).or(&CpuMask::one(cpu | 1));
        IdleMasks {
            masks: Shared::from(Box::new(Masks {
                cpus: all,
                cores: all,
                online: all,
                possible: all,
            })),
            siblings: (0..8).map(pair).collect(),
            of_nodes: vec![CpuMask::EMPTY; NODE_MASKS].into_boxed_slice().into(),
            next_of_nodes: 0,
            near: Vec::new(),
            enabled: true,
            distributed: vec![0; 8],
        }
    }

    const WAKER: Waker = Waker {
        cpu: 7,
        stays: true,
        queued: 1,
    };

    #[test]
    fn idle_cores_come_before_idle_threads_and_take_turns() {
        let (mut masks, all) = (masks(), CpuMask::first_n(8));
        let mut pick = |flags| masks.pick_idle_cpu(0, &all, flags);
        assert_eq!([pick(0), pick(0)], [Some(1), Some(2)]);
        assert_eq!([pick(abi::PICK_IDLE_CORE), pick(0)], [Some(4), Some(6)]);
        assert_eq!(pick(abi::PICK_IDLE_CORE), None);
        assert_eq!([pick(0), pick(0), pick(0)], [Some(7), Some(0), Some(3)]);
        assert_eq!([pick(0), pick(0)], [Some(5), None]);
        masks.update(2, true);
        assert_eq!(masks.pick_idle_cpu(0, &all, abi::PICK_IDLE_CORE), None);
        masks.update(3, true);
        assert!(masks.is_idle(2));
        assert_eq!(
            masks.pick_idle_cpu(0, &CpuMask::one(3), abi::PICK_IDLE_CORE),
            Some(3)
        );
    }

    #[test]
    fn the_default_is_the_previous_cpu_if_its_core_is_idle() {
        let (mut masks, all) = (masks(), CpuMask::first_n(8));
        assert_eq!(masks.select_cpu_dfl(&WAKER, &all, 4, 0), (4, true));
        // The CPU's core is no longer idle, and another idle core is better than the other thread of that core.
        assert_eq!(masks.select_cpu_dfl(&WAKER, &all, 5, 0), (1, true));
        for cpu in 0..8 {
            masks.update(cpu, false);
        }
        assert_eq!(masks.select_cpu_dfl(&WAKER, &all, 5, 0), (5, false));
    }

    #[test]
    fn a_synchronous_wakeup_stays_where_the_waker_leaves() {
        let (mut masks, all) = (masks(), CpuMask::first_n(8));
        let sync = |masks: &mut IdleMasks, waker: &Waker| {
            masks.select_cpu_dfl(waker, &all, 4, abi::WAKE_SYNC).0
        };
        let alone = Waker { queued: 0, ..WAKER };
        assert_eq!(sync(&mut masks, &alone), 7);
        assert_eq!(sync(&mut masks, &WAKER), 4);
        let exits = Waker {
            stays: false,
            ..alone
        };
        assert_eq!(sync(&mut masks, &exits), 1);
    }
}
