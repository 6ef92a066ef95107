//! sched_ext besides its class: dispatch queues and verdicts, idle masks, kicks, the watchdog, calls into
//! the scheduler, its coming and going.

pub mod call;
pub mod dispatch;
pub mod dsq;
pub mod exit;
pub mod idle_masks;
pub mod kicks;
pub mod lifecycle;
pub mod tracepoints;
pub mod verdict;
pub mod watchdog;

use crate::abi::layout::Ops;
use crate::per_cpu::PerCpu;
use dsq::Dsqs;
use exit::Exit;
use idle_masks::IdleMasks;
use kicks::Kicks;
use machine::Machine;
use verdict::Verdicts;
use watchdog::Watchdog;

/// The state of sched_ext.
pub struct Scx {
    pub ops: Ops,
    /// Which kinds of kfunc the op that is being called may use (`SCX_KF_*`).
    pub kf_mask: u32,
    pub dsqs: Dsqs,
    pub verdicts: Verdicts,
    pub kicks: Kicks,
    pub idle_masks: IdleMasks,
    pub watchdog: Watchdog,
    /// Of each CPU's runqueue.
    pub rqs: PerCpu<RqFlags>,
    /// Why the scheduler leaves, if it is the scheduler's doing.
    pub exit: Option<Exit>,
    pub dump: String,
}

/// What `balance_one()` notes of a runqueue (`SCX_RQ_*`).
#[derive(Clone, Copy, Default)]
pub struct RqFlags {
    /// It is under way.
    pub in_balance: bool,
    /// It decided that the current task goes on.
    pub bal_keep: bool,
}

impl Scx {
    /// For a scheduler with these ops, not enabled yet.
    pub fn new(machine: &Machine, ops: Ops) -> Scx {
        let nr_cpus = machine.cpus.len();
        Scx {
            kf_mask: 0,
            dsqs: Dsqs::new(nr_cpus),
            verdicts: Verdicts::new(&ops),
            kicks: Kicks::default(),
            idle_masks: IdleMasks::new(machine, &ops),
            watchdog: Watchdog::new(&ops),
            rqs: PerCpu::new(nr_cpus, |_| RqFlags::default()),
            exit: None,
            dump: String::new(),
            ops,
        }
    }
}
