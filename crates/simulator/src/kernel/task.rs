//! Tasks of the simulated kernel.

use crate::abi::layout::TaskStruct;
use crate::class::dl::DlEntity;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use workload::{Op, Program, SchedPolicy};

/// The pid of the first task.
pub const FIRST_PID: i32 = 1000;

/// A task. Begins with what the scheduler sees of it, so that a pointer to either is one to both.
#[repr(C)]
pub struct Task {
    pub abi: TaskStruct,
    /// Scheduling class, by policy.
    pub class: Cell<Class>,
    pub policy: Cell<SchedPolicy>,
    pub name: Arc<str>,
    pub program: RefCell<Box<dyn Program>>,

    pub continuation: RefCell<Continuation>,
    /// Compute left before `continuation`, in the unit that `own_time` says.
    pub left: Cell<u64>,
    /// How many ops it began at `instant`, ns.
    pub instant_ops: Cell<u32>,
    pub instant: Cell<u64>,
    /// `left` is CPU time (ns), not work at the reference speed.
    pub own_time: Cell<bool>,
    /// Computes in the kernel, where it is not preempted.
    pub in_kernel: Cell<bool>,
    /// Why it sleeps, for messages.
    pub waits_for: Cell<&'static str>,

    /// Runnable, on a runqueue or running (`TASK_ON_RQ_QUEUED`).
    pub on_rq: Cell<bool>,
    /// Which dispatch queue it is on.
    pub dsq: Cell<OnDsq>,
    /// Who has it: the kernel, or the scheduler.
    pub ops_state: Cell<OpsState>,
    /// Number of its latest enqueueing; a dispatch of an older one is void.
    pub qseq: Cell<u64>,
    /// The verdict of a direct dispatch that is not carried out yet.
    pub direct_dsq: Cell<u64>,
    pub direct_flags: Cell<u64>,
    /// When it last became runnable without having run since, ns.
    pub runnable_at: Cell<u64>,
    pub reset_runnable_at: Cell<bool>,
    /// `ops.enable()` was called and `ops.disable()` was not.
    pub enabled: Cell<bool>,

    /// CPU it last ran on; cold caches are paid for when it changes.
    pub ran_on: Cell<u32>,
    /// When the sleep is due, ns; see `workload::Env::due`.
    pub due: Cell<u64>,
    pub woken_at: Cell<u64>,
    pub timer_slack_ns: u64,
    /// Bytes that it works on; fetched anew after a migration.
    pub footprint: u64,
    /// What its computing draws, of [`machine::BUSY_LOOP`]; not 0.
    pub activity: u32,
    /// Round-robin time left, ns.
    pub rr_left: Cell<u64>,
    /// Of a deadline task: its budget.
    pub dl: Cell<DlEntity>,

    pub parent: Option<TaskPtr>,
    /// Children that have not exited.
    pub children: Cell<u32>,
    pub joining: Cell<bool>,
    pub exited: Cell<bool>,
}

/// Scheduling classes, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Deadline.
    Dl,
    /// Real time.
    Rt,
    /// sched_ext.
    Ext,
}

/// What a task goes on with when it is done computing, or woken.
pub enum Continuation {
    /// The next op of its program.
    NextOp,
    /// This op.
    Op(Op),
    /// It slept until `due`.
    Sleep,
    /// It polled a shared word.
    Poll,
    /// It slept for a lock of the kernel's.
    LockSleep(Section),
    /// It polled for one.
    LockPoll(Section),
    /// It has worked under it.
    LockHeld { mutex: u32, keeps: bool },
    /// It waited in a mutex, condition variable or barrier; then locks the mutex, if any.
    Wait { relock: Option<u32> },
    /// `ksoftirqd`: handles softirqs, or waits for some.
    Softirqs,
    /// Has read its bytes and computed; now tells writers.
    ReadDone { stream: u32 },
    /// Has written; wait for room and readers.
    WriteReady { stream: u32, bytes: u64 },
}

/// What is to be done under a lock of the kernel's ([`workload::Op::Hold`]).
#[derive(Clone, Copy)]
pub struct Section {
    pub mutex: u32,
    /// ns at the reference speed.
    pub work: u64,
    /// Cache lines.
    pub lines: u32,
    /// And it is kept then.
    pub keeps: bool,
}

/// Where a task is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDsq {
    None,
    Local(u32),
    Global,
    /// Index into the user queues.
    User(u32),
}

/// `p->scx.ops_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpsState {
    None,
    /// The scheduler has it, by enqueueing number `qseq`.
    Queued,
}

/// A task of one simulation. Copies all refer to the same task; it lives as long as the simulation.
///
/// A simulation is single-threaded and its tasks are reached from C as well, so they are shared by
/// pointer, and what can change of one is in cells: there is no `&mut Task`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskPtr(NonNull<Task>);

impl Task {
    /// Changes its deadline server.
    #[inline]
    pub fn update_dl(&self, change: impl FnOnce(&mut DlEntity)) {
        let mut dl = self.dl.get();
        change(&mut dl);
        self.dl.set(dl);
    }
}

impl TaskPtr {
    pub fn new(task: Box<Task>) -> TaskPtr {
        TaskPtr(NonNull::from(Box::leak(task)))
    }

    /// # Safety
    /// `task` is a task of the running simulation, as C was given it.
    #[inline]
    pub unsafe fn from_abi(task: *mut TaskStruct) -> Option<TaskPtr> {
        NonNull::new(task.cast()).map(TaskPtr)
    }

    #[inline]
    pub fn abi(self) -> *mut TaskStruct {
        self.0.as_ptr().cast()
    }

    /// # Safety
    /// The simulation is over: no copy is used after this.
    pub unsafe fn free(self) {
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }

    #[inline]
    pub fn cpu(self) -> usize {
        self.abi.thread_info.cpu.get() as usize
    }

    #[inline]
    pub fn pid(self) -> i32 {
        self.abi.pid.get()
    }

    /// How many tasks were created before it.
    pub fn index(self) -> usize {
        (self.abi.pid.get() - FIRST_PID) as usize
    }

    /// `comm[pid]`, as sched_ext's messages have it.
    pub fn label(self) -> String {
        format!("{}[{}]", self.name, self.pid())
    }
}

impl Deref for TaskPtr {
    type Target = Task;

    #[inline]
    fn deref(&self) -> &Task {
        // SAFETY: made from a box that lives until the simulation ends, and is only ever read through shared
        // references and C's pointer, which write to cells alone.
        unsafe { self.0.as_ref() }
    }
}
