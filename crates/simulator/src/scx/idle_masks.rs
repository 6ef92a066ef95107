//! Which CPUs idle, as sched_ext's built-in idle tracking knows it, and choosing among them.

use crate::abi::layout::{self as abi, Ops};
use machine::{CpuMask, Machine};

/// The built-in idle masks (`idle_masks`).
pub struct IdleMasks {
    /// Idle CPUs.
    pub cpus: CpuMask,
    /// CPUs all of whose SMT siblings are idle.
    pub cores: CpuMask,
    pub online: CpuMask,
    /// SMT siblings of each CPU, itself among them; empty where no core has more than one thread.
    siblings: Vec<CpuMask>,
    /// `scx_builtin_idle_enabled`: not if the scheduler tracks idle CPUs itself.
    pub enabled: bool,
    /// Of each CPU, the one that [`IdleMasks::any_distribute`] last gave it (`distribute_cpu_mask_prev`).
    distributed: Vec<usize>,
}

/// Who wakes a task, for [`IdleMasks::select_cpu_dfl`].
pub struct Waker {
    /// Where it runs.
    pub cpu: usize,
    /// It is not about to exit.
    pub stays: bool,
    /// How many tasks wait in its CPU's local queue.
    pub queued: usize,
}

impl IdleMasks {
    pub fn new(machine: &Machine, ops: &Ops) -> IdleMasks {
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
            cpus: all,
            cores: all,
            online: all,
            siblings,
            enabled: ops.update_idle.is_none() || ops.flags & abi::OPS_KEEP_BUILTIN_IDLE != 0,
            distributed: vec![0; machine.cpus.len()],
        }
    }

    /// Does any core have more than one thread?
    pub fn has_smt(&self) -> bool {
        !self.siblings.is_empty()
    }

    /// `cpu` has come to idle, or does no longer.
    pub fn update(&mut self, cpu: usize, idle: bool) {
        if !self.enabled {
            return;
        }
        if idle {
            self.cpus.set(cpu);
        } else {
            self.cpus.clear(cpu);
        }
        if let Some(siblings) = self.siblings.get(cpu) {
            if !idle {
                self.cores = self.cores.without(siblings);
            } else if siblings.is_subset(&self.cpus) {
                self.cores = self.cores.or(siblings);
            }
        }
    }

    /// Claims `cpu` if it is idle: `test_and_clear_cpu_idle()`.
    pub fn claim(&mut self, cpu: usize) -> bool {
        if let Some(siblings) = self.siblings.get(cpu) {
            self.cores = self.cores.without(siblings);
        }
        let idle = self.cpus.contains(cpu);
        self.cpus.clear(cpu);
        idle
    }

    /// `cpumask_any_and_distribute()`: a CPU of both masks, for code on `this` CPU. Takes turns.
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
                let cores = self.cores;
                found = self.any_distribute(this, &cores, allowed);
                if found.is_none() && flags & abi::PICK_IDLE_CORE != 0 {
                    return None;
                }
            }
            let cpus = self.cpus;
            let cpu = match found {
                Some(cpu) => cpu,
                None => self.any_distribute(this, &cpus, allowed)?,
            };
            if self.claim(cpu) {
                return Some(cpu);
            }
        }
    }

    /// `scx_select_cpu_dfl()` for a task that may run on `allowed`: the CPU, and whether it is idle and
    /// claimed.
    pub fn select_cpu_dfl(
        &mut self,
        waker: &Waker,
        allowed: &CpuMask,
        prev: usize,
        wake_flags: u64,
    ) -> (usize, bool) {
        if wake_flags & abi::WAKE_SYNC != 0
            && !self.cpus.is_empty()
            && waker.stays
            && waker.queued == 0
            && allowed.contains(waker.cpu)
        {
            return (waker.cpu, true);
        }
        if self.has_smt() {
            if self.cores.contains(prev) && self.claim(prev) {
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
