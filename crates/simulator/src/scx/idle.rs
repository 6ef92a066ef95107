//! How a CPU comes to idle; which CPUs do, as sched_ext's built-in idle tracking knows it, and choosing among
//! them.

use crate::abi::layout::{self as abi, Ops};
use crate::class::ext::{call_op, kf};
use crate::events::What;
use crate::kernel::Kernel;
use crate::kernel::task::TaskPtr;
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
        }
    }

    /// Does any core have more than one thread?
    pub fn has_smt(&self) -> bool {
        !self.siblings.is_empty()
    }

    fn update(&mut self, cpu: usize, idle: bool) {
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
}

impl Kernel<'_> {
    /// `cpu` has nothing to run: it idles, as soon as it is done with what it did to find out.
    pub fn idle(&mut self, cpu: usize) {
        let ns = self.take_spent();
        if ns == 0 {
            return self.is_idle(cpu);
        }
        self.counters.busy_ns[cpu] += ns;
        self.counters.overhead_ns[cpu] += ns;
        self.cpus[cpu].idles_at = Some(self.now() + ns);
        self.share_core(cpu);
        self.events
            .push(self.now() + ns, What::Idle { cpu: cpu as u32 });
    }

    /// The time of [`Kernel::idle`] has come: is there still nothing to run?
    pub fn idle_time(&mut self, cpu: usize) {
        self.cpus[cpu].idles_at = None;
        self.set_cpu(cpu);
        if !self.cpus[cpu].need_resched {
            self.cpus[cpu].idle_since = self.now();
            self.share_core(cpu);
            self.is_idle(cpu);
        }
        self.leave(cpu);
    }

    /// The scheduler is told, unless it knows.
    fn is_idle(&mut self, cpu: usize) {
        if self.cpus[cpu].knows_idle {
            return self.refresh_idle(cpu, true);
        }
        self.cpus[cpu].knows_idle = true;
        self.update_idle(cpu, true);
    }

    /// `scx_update_idle()` on a change between the idle task and another.
    pub fn update_idle(&mut self, cpu: usize, idle: bool) {
        if let Some(update_idle) = self.scx.ops.update_idle {
            call_op!(self, kf::REST, update_idle, cpu as i32, idle);
        }
        self.refresh_idle(cpu, idle);
    }

    /// The same without a change, when an idle CPU was woken for nothing.
    pub fn refresh_idle(&mut self, cpu: usize, idle: bool) {
        if self.scx.idle_masks.enabled {
            self.scx.idle_masks.update(cpu, idle);
        }
    }

    /// `cpumask_any_and_distribute()`: takes turns.
    pub fn any_distribute(&mut self, a: &CpuMask, b: &CpuMask) -> Option<usize> {
        let both = a.and(b);
        let this = self.this_cpu();
        let turn = &mut self.cpus[this].distribute;
        let cpu = both.first_from(*turn + 1).or_else(|| both.first())?;
        *turn = cpu;
        Some(cpu)
    }

    /// `scx_pick_idle_cpu()`.
    pub fn pick_idle_cpu(&mut self, allowed: &CpuMask, flags: u64) -> Option<usize> {
        loop {
            let mut found = None;
            if self.scx.idle_masks.has_smt() {
                let cores = self.scx.idle_masks.cores;
                found = self.any_distribute(&cores, allowed);
                if found.is_none() && flags & abi::PICK_IDLE_CORE != 0 {
                    return None;
                }
            }
            let cpus = self.scx.idle_masks.cpus;
            let cpu = match found {
                Some(cpu) => cpu,
                None => self.any_distribute(&cpus, allowed)?,
            };
            if self.scx.idle_masks.claim(cpu) {
                return Some(cpu);
            }
        }
    }

    /// `scx_select_cpu_dfl()`: the CPU, and whether it is idle and claimed.
    pub fn select_cpu_dfl(&mut self, task: TaskPtr, prev: usize, wake_flags: u64) -> (usize, bool) {
        let allowed = task.abi.cpus_mask.get();
        let this = self.this_cpu();
        let waker_exits = self.cpus[this]
            .curr
            .is_some_and(|curr| curr.abi.flags.get() & abi::PF_EXITING != 0);
        if wake_flags & abi::WAKE_SYNC != 0
            && !self.scx.idle_masks.cpus.is_empty()
            && !waker_exits
            && self.cpus[this].local.is_empty()
            && allowed.contains(this)
        {
            return (this, true);
        }
        if self.scx.idle_masks.has_smt() {
            if self.scx.idle_masks.cores.contains(prev) && self.scx.idle_masks.claim(prev) {
                return (prev, true);
            }
            if let Some(cpu) = self.pick_idle_cpu(&allowed, abi::PICK_IDLE_CORE) {
                return (cpu, true);
            }
        }
        if self.scx.idle_masks.claim(prev) {
            return (prev, true);
        }
        match self.pick_idle_cpu(&allowed, 0) {
            Some(cpu) => (cpu, true),
            None => (prev, false),
        }
    }
}
