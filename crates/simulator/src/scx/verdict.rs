//! Verdicts: the effects of `scx_bpf_dispatch()` on a task, until they are carried out. A verdict
//! on the task for which `ops.select_cpu()` or `ops.enqueue()` is called stays with the task (a
//! direct dispatch); the verdicts of `ops.dispatch()` are collected in a buffer.

use crate::abi::layout::Ops;
use crate::kernel::task::{OpsState, TaskPtr};

/// `SCX_DSP_DFL_MAX_BATCH`: the default limit of dispatches in one call.
const DEFAULT_MAX_BATCH: usize = 32;

/// The task for which `ops.select_cpu()` or `ops.enqueue()` is being called, which the op may dispatch directly
/// (`direct_dispatch_task`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DirectTask {
    /// Neither of the two ops is being called.
    None,
    Task(TaskPtr),
    /// The task was dispatched; a second dispatch is an error.
    Done,
}

/// The verdict on a task that `ops.dispatch()` dispatched (`scx_dsp_buf_ent`).
#[derive(Clone, Copy)]
pub struct Verdict {
    pub task: TaskPtr,
    /// The enqueueing to which the verdict belongs.
    qseq: u64,
    pub dsq_id: u64,
    pub enq_flags: u64,
    pub given: Given,
}

/// The slice and the virtual time of a verdict.
#[derive(Clone, Copy, Default)]
pub struct Given {
    pub slice: u64,
    pub vtime: u64,
}

impl Given {
    /// `apply_slice_vtime()`: a slice of 0 keeps the remaining slice.
    #[inline]
    pub fn apply(self, task: TaskPtr, vtime_order: bool) {
        let slice = &task.abi.scx.slice;
        if self.slice != 0 {
            slice.set(self.slice);
        } else if slice.get() == 0 {
            slice.set(1);
        }
        if vtime_order {
            task.abi.scx.dsq_vtime.set(self.vtime);
        }
    }
}

impl Verdict {
    /// Does the scheduler still have the task from the enqueueing to which the verdict belongs?
    #[inline]
    fn holds(&self) -> bool {
        self.task.ops_state.get() == OpsState::Queued && self.task.qseq.get() == self.qseq
    }
}

/// The reason why a verdict on a task is refused.
pub enum Refused {
    /// The buffer is full.
    Overflow,
    /// The op was called for another task.
    NotExpected { expected: TaskPtr },
    /// There is already a verdict.
    Again,
}

impl Refused {
    /// The kernel's message.
    pub fn message(&self, task: TaskPtr) -> String {
        let task = task.label();
        match self {
            Refused::Overflow => "dispatch buffer overflow".into(),
            Refused::NotExpected { expected } => {
                let expected = expected.label();
                format!("scheduling for {expected} but trying to direct-dispatch {task}")
            }
            Refused::Again => format!("{task} already direct-dispatched"),
        }
    }
}

/// Verdicts that are not carried out yet (`scx_dsp_ctx`).
pub struct Verdicts {
    pub direct_task: DirectTask,
    buffer: Vec<Verdict>,
    max: usize,
    /// The number of tasks that this call of `ops.dispatch()` has moved to its local queue, and of its verdicts that
    /// have been carried out or found void.
    pub nr_tasks: usize,
}

impl Verdicts {
    /// An empty buffer, with room for as many verdicts as `ops` requests.
    pub fn new(ops: &Ops) -> Verdicts {
        Verdicts {
            direct_task: DirectTask::None,
            buffer: Vec::new(),
            max: match ops.dispatch_max_batch {
                0 => DEFAULT_MAX_BATCH,
                batch => batch as usize,
            },
            nr_tasks: 0,
        }
    }

    /// `scx_dispatch_commit()`: sends `task` to the queue `dsq_id`. The error is the reason why the verdict is refused.
    #[inline]
    pub fn commit(
        &mut self,
        task: TaskPtr,
        dsq_id: u64,
        enq_flags: u64,
        given: Given,
    ) -> Result<(), Refused> {
        match self.direct_task {
            DirectTask::None if self.slots() == 0 => return Err(Refused::Overflow),
            DirectTask::None => self.buffer.push(Verdict {
                task,
                qseq: task.qseq.get(),
                dsq_id,
                enq_flags,
                given,
            }),
            DirectTask::Task(expected) if expected == task => {
                self.direct_task = DirectTask::Done;
                task.direct_dsq.set(dsq_id);
                task.direct_flags.set(enq_flags);
                task.direct_given.set(given);
            }
            DirectTask::Task(expected) => return Err(Refused::NotExpected { expected }),
            DirectTask::Done => return Err(Refused::Again),
        }
        Ok(())
    }

    /// The remaining room.
    pub fn slots(&self) -> usize {
        self.max - self.buffer.len()
    }

    /// Cancels the latest verdict; `false` if there is none.
    pub fn cancel(&mut self) -> bool {
        self.buffer.pop().is_some()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Begins to carry out the verdicts in the buffer, and returns their number.
    #[inline]
    pub fn begin_flush(&mut self) -> usize {
        self.nr_tasks += self.buffer.len();
        self.buffer.len()
    }

    /// The verdict at `index`, unless it is void.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Verdict> {
        self.buffer.get(index).copied().filter(Verdict::holds)
    }

    /// Empties the buffer, whose verdicts have been carried out.
    #[inline]
    pub fn end_flush(&mut self) {
        self.buffer.clear();
    }
}
