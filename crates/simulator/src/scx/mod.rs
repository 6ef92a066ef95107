//! sched_ext apart from its class: dispatch queues and verdicts, idle masks, kicks, the watchdog,
//! calls into the scheduler, and its life cycle.

pub mod call;
pub mod callbacks;
pub mod cids;
pub mod contention;
pub mod dispatch;
pub mod dsq;
pub mod exit;
pub mod idle_masks;
pub mod iterations;
pub mod kicks;
pub mod lifecycle;
pub mod reenqueue;
pub mod restart;
pub mod tracepoints;
pub mod verdict;
pub mod watchdog;

use crate::abi::layout::{EventStats, Ops};
use crate::per_cpu::PerCpu;
use call::Context;
use cids::Cids;
use contention::IdleLines;
use dsq::Dsqs;
use exit::Exit;
use idle_masks::IdleMasks;
use kicks::Kicks;
use machine::Machine;
use reenqueue::Reenqueues;
use verdict::Verdicts;
use watchdog::Watchdog;

/// The state of sched_ext.
pub struct Scx {
    pub ops: Ops,
    /// The simulated release of Linux.
    pub release: native::Kernel,
    /// Whether the scheduler is a policy that stands for the kernel's fair class.
    pub is_fair_class: bool,
    /// Whether the scheduler's tasks have a deadline server. Fair tasks have one in both kernels, tasks of sched_ext
    /// only in Linux 7.3.
    pub is_served: bool,
    pub context: Context,
    /// The bits of the context's mask that apply to this kernel.
    pub kf_bits: u32,
    pub cids: Cids,
    pub reenqueues: Reenqueues,
    pub events: EventStats,
    pub dsqs: Dsqs,
    pub verdicts: Verdicts,
    pub kicks: Kicks,
    pub idle_masks: IdleMasks,
    pub idle_lines: IdleLines,
    pub watchdog: Watchdog,
    /// sched_ext's state of each runqueue.
    pub rqs: PerCpu<RqFlags>,
    /// The reason for the scheduler's exit, if the scheduler caused it.
    pub exit: Option<Exit>,
    pub dump: String,
    /// Whether the scheduler has exited, and its loader has not loaded it again yet.
    pub is_bypassed: bool,
}

/// sched_ext's state of a runqueue (`SCX_RQ_*`).
#[derive(Clone, Copy, Default)]
pub struct RqFlags {
    /// Whether `balance_one()` is in progress.
    pub in_balance: bool,
    /// Whether `balance_one()` decided that the current task continues.
    pub bal_keep: bool,
    /// The number of IMMED tasks in the local queue.
    pub nr_immed: u32,
}

impl Scx {
    /// The state for a scheduler with these ops in the kernel `release`, before it is enabled.
    pub fn new(
        machine: &Machine,
        ops: Ops,
        release: native::Kernel,
        cid_form: bool,
        is_fair_class: bool,
    ) -> Scx {
        let nr_cpus = machine.cpus.len();
        Scx {
            release,
            is_fair_class,
            is_served: is_fair_class || release >= native::Kernel::V7_3,
            context: Context {
                mask: 0,
                subject: u32::MAX,
                task: std::ptr::null_mut(),
            },
            kf_bits: match release {
                native::Kernel::V6_12 => call::kf::BITS_6_12,
                native::Kernel::V7_3 => call::kf::BITS_7_3,
            },
            cids: Cids::new(machine, ops.cid_shard_size, cid_form),
            reenqueues: Reenqueues::default(),
            events: EventStats::default(),
            dsqs: Dsqs::new(nr_cpus),
            verdicts: Verdicts::new(&ops),
            kicks: Kicks::default(),
            idle_lines: IdleLines::new(machine, &ops),
            idle_masks: IdleMasks::new(machine, machine.all_cpus(), &ops, release),
            watchdog: Watchdog::new(&ops),
            rqs: PerCpu::new(nr_cpus, |_| RqFlags::default()),
            exit: None,
            dump: String::new(),
            is_bypassed: false,
            ops,
        }
    }
}

impl Scx {
    /// Replaces the ops, before any of them is called, on `machine` as it is now.
    pub fn set_ops(&mut self, machine: &Machine, ops: Ops) {
        let possible = self.idle_masks.possible();
        self.verdicts = Verdicts::new(&ops);
        self.idle_masks = IdleMasks::new(machine, possible, &ops, self.release);
        self.idle_lines = IdleLines::new(machine, &ops);
        self.watchdog = Watchdog::new(&ops);
        self.ops = ops;
    }

    #[inline]
    pub fn is_7_3(&self) -> bool {
        self.release == native::Kernel::V7_3
    }
}
