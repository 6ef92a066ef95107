//! sched_ext besides its class: dispatch queues, idle masks, the scheduler's coming and going.

pub mod dsq;
pub mod idle;
pub mod lifecycle;

use crate::abi::layout::{self as abi, Ops};
use crate::class::ext::{DirectTask, Dispatch};
use dsq::{Dsq, UserDsqs};
use idle::IdleMasks;
use lifecycle::Exit;
use machine::Machine;

/// `SCX_DSP_DFL_MAX_BATCH`: dispatches of one call, if the scheduler does not say otherwise.
const DEFAULT_MAX_BATCH: usize = 32;
/// `SCX_WATCHDOG_MAX_TIMEOUT`, ms.
pub const WATCHDOG_MAX_TIMEOUT_MS: u32 = 30_000;

/// The state of sched_ext.
pub struct Scx {
    pub ops: Ops,
    /// Which kinds of kfunc the op that is being called may use (`SCX_KF_*`).
    pub kf_mask: u32,
    pub user_dsqs: UserDsqs,
    pub global_dsq: Dsq,
    pub direct_task: DirectTask,
    pub dispatches: Vec<Dispatch>,
    pub max_dispatches: usize,
    /// Tasks dispatched by this call of `ops.dispatch()`.
    pub dispatched: usize,
    /// Kicks that are asked for and not yet sent: CPU and `SCX_KICK_*`.
    pub kicks: Vec<(u32, u64)>,
    pub idle_masks: IdleMasks,
    pub watchdog_ns: u64,
    /// Why the scheduler leaves, if it is the scheduler's doing.
    pub exit: Option<Exit>,
    pub dump: String,
}

impl Scx {
    /// For a scheduler with these ops, not enabled yet.
    pub fn new(machine: &Machine, ops: Ops) -> Scx {
        let timeout_ms = match ops.timeout_ms {
            0 => WATCHDOG_MAX_TIMEOUT_MS,
            ms => ms,
        };
        Scx {
            kf_mask: 0,
            user_dsqs: UserDsqs::default(),
            global_dsq: Dsq::new(abi::DSQ_GLOBAL),
            direct_task: DirectTask::None,
            dispatches: Vec::new(),
            max_dispatches: match ops.dispatch_max_batch {
                0 => DEFAULT_MAX_BATCH,
                batch => batch as usize,
            },
            dispatched: 0,
            kicks: Vec::new(),
            idle_masks: IdleMasks::new(machine, &ops),
            watchdog_ns: u64::from(timeout_ms) * 1_000_000,
            exit: None,
            dump: String::new(),
            ops,
        }
    }
}
