//! Tasks of the simulated kernel.

use crate::abi::layout::{self, CssSet, TaskStruct};
use crate::abi::structs::DEFAULT_PRIO;
use crate::class::server::DlEntity;
use crate::kernel::uclamp::TaskClamps;
use crate::scx::dsq::OnDsq;
use crate::scx::verdict::Given;
use machine::CpuMask;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::ptr::{NonNull, null};
use std::rc::Rc;
use std::sync::Arc;
use workload::{KernelLock, PRIO_TO_WEIGHT, Program, SLICES_NS, SchedPolicy, TaskSpec};

/// The pid of the first task.
pub const FIRST_PID: i32 = 1000;

const MAX_DL_PRIO: i32 = 0;
const MAX_RT_PRIO: i32 = 100;
/// `current->timer_slack_ns` of a task whose parents did not change it (init/init_task.c), in ns.
const DEFAULT_TIMER_SLACK_NS: u64 = 50_000;
/// `current->wakee_flips` of a shell, which the tasks that it starts inherit: the number of times that a task woke a
/// different task than the time before. Linux decays this number only at wakeups, so a task's value depends on all its
/// ancestors. In Linux 6.12, just booted in a virtual machine, we measured 14 for the shell and 8 to 37 for its
/// children.
const SHELLS_WAKEE_FLIPS: u32 = 14;
const WEIGHT_IDLEPRIO: u32 = 3;

/// The weight of a fair task of priority `prio` (100 to 139). Nice 0 is priority 120, and has the weight 1024.
pub fn weight_of(prio: i32) -> u32 {
    PRIO_TO_WEIGHT[(prio - MAX_RT_PRIO).clamp(0, 39) as usize]
}

/// A session of tasks (`setsid(2)`).
pub struct Session {
    signal: layout::SignalStruct,
    /// The autogroup to which `signal` points.
    _autogroup: Box<layout::Autogroup>,
}

impl Session {
    fn new(id: u32) -> Rc<Session> {
        // The ids of autogroups begin with 1 (`autogroup_seq_nr`).
        let id = u64::from(id) + 1;
        let autogroup = Box::new(layout::Autogroup { id });
        Rc::new(Session {
            signal: layout::SignalStruct {
                thread_head: [null(); 2],
                pids: [null(); 4],
                autogroup: &raw const *autogroup,
            },
            _autogroup: autogroup,
        })
    }
}

/// A task. The structure begins with the part that the scheduler sees, so that a pointer to that part is also a pointer
/// to the task.
#[repr(C, align(64))]
pub struct Task {
    pub abi: TaskStruct,
    /// The data of the task's session, to which `abi.signal` points.
    pub session: Option<Rc<Session>>,

    // Each switch reads the fields from here on.
    /// The scheduling class, which depends on the policy.
    pub class: Cell<Class>,
    /// Whether the task is runnable: on a runqueue or running (`TASK_ON_RQ_QUEUED`).
    pub on_rq: Cell<bool>,
    /// The number of the task's affinity in [`crate::waste`]; 0 stands for all CPUs.
    pub group: Cell<u32>,
    /// Whether `left` is CPU time in ns, not work at the reference speed.
    pub own_time: Cell<bool>,
    /// Whether the task computes in the kernel, where it is not preempted.
    pub in_kernel: Cell<bool>,
    /// The kernel lock that the task keeps from one op to the next.
    pub keeps: Cell<Option<u32>>,
    pub reset_runnable_at: Cell<bool>,
    /// The task's owner: the kernel, or the scheduler.
    pub ops_state: Cell<OpsState>,
    /// The dispatch queue that the task is on.
    pub dsq: Cell<OnDsq>,
    /// The CPU on which the task last ran; on another CPU it finds cold caches.
    pub ran_on: Cell<u32>,
    /// The number of ops begun at `instant`, in ns.
    pub instant_ops: Cell<u32>,
    pub instant: Cell<u64>,
    pub continuation: Cell<Continuation>,
    /// The work that is left before `continuation`, in the unit that `own_time` gives.
    pub left: Cell<u64>,
    pub program: RefCell<Box<dyn Program>>,
    /// The time at which the sleep is due, in ns; see `workload::Env::due`.
    pub due: Cell<u64>,
    pub woken_at: Cell<u64>,
    /// The number of the task's latest enqueueing. A dispatch of an older enqueueing is void.
    pub qseq: Cell<u64>,
    /// The verdict of a direct dispatch that is not carried out yet.
    pub direct_dsq: Cell<u64>,
    pub direct_flags: Cell<u64>,
    /// The slice and virtual time of that verdict; Linux 7.3 applies them at insertion.
    pub direct_given: Cell<Given>,
    /// Whether the scheduler or one of its queues has the task (`SCX_TASK_IN_CUSTODY`).
    pub in_custody: Cell<bool>,
    /// Whether the task was inserted with `SCX_ENQ_IMMED` (`SCX_TASK_IMMED`).
    pub immed: Cell<bool>,
    /// The number of reenqueues since the task last ran.
    pub reenq_count: Cell<u32>,
    /// The time, in ns, since which the task has been runnable without running, for the watchdog
    /// (`p->scx.runnable_at`).
    pub runnable_at: Cell<u64>,
    /// The time at which the task began to poll, in ns, if its continuation is to poll.
    pub polls_since: Cell<u64>,
    /// The time since which the task has been runnable without running, if it waits now, and the longest such wait that
    /// is over, both in ns.
    pub waits_since: Cell<u64>,
    pub longest_wait: Cell<u64>,
    /// The next waiter in the queue in which the task waits ([`crate::program::wait_queue`]).
    pub next_waiter: Cell<Option<TaskPtr>>,
    /// The reason for which the task sleeps, for messages.
    pub waits_for: Cell<&'static str>,
    /// The size of the task's working set in bytes, which it fetches again after a migration.
    pub footprint: u64,
    /// The power of the task's computing, relative to [`machine::BUSY_LOOP`]; not 0.
    pub activity: u32,

    // The fields from here on are for rare operations.
    pub policy: Cell<SchedPolicy>,
    pub clamps: TaskClamps,
    pub name: Arc<str>,
    /// The child that the task forks next, while it computes the cost of the fork.
    pub child: Cell<Option<Box<TaskSpec>>>,
    /// Whether `ops.enable()` was called for the task, and `ops.disable()` has not been called since.
    pub enabled: Cell<bool>,
    pub timer_slack_ns: u64,
    /// The rest of the round-robin slice, in ns.
    pub rr_left: Cell<u64>,
    /// The server of a deadline task.
    pub dl: Cell<DlEntity>,
    pub parent: Option<TaskPtr>,
    /// The number of the task's children that have not exited.
    pub children: Cell<u32>,
    pub exited: Cell<bool>,
    /// The process's memory, to which `abi.mm` points.
    pub mm: layout::MmStruct,
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

/// The continuation of a task that completes its computing, or is woken.
#[derive(Clone, Copy)]
pub enum Continuation {
    /// The task executes the next op of its program.
    NextOp,
    /// The task waited for bytes in a stream.
    Read { stream: u32, bytes: u64, work: u64 },
    /// The task polled a user space mutex.
    SpinLock { mutex: u32 },
    /// The task computed the cost of a fork.
    Fork,
    /// The task waited for its children to exit.
    Join,
    /// The task waited for a child to exit.
    WaitChildren,
    /// The task slept until `due`.
    Sleep,
    /// The task polled a shared word.
    Poll,
    /// The task took the `wait_lock` of a kernel lock, to wait for that lock.
    LockQueue(Section),
    /// The task slept for a kernel lock.
    LockSleep(Section),
    /// The task was woken, and took the `wait_lock` of a kernel lock to try again.
    LockRetry(Section),
    /// The task polled for a kernel lock.
    LockPoll(Section),
    /// The task has worked under a kernel lock.
    LockHeld { mutex: u32, keeps: bool },
    /// The task let other tasks run in the middle of a system call.
    CondResched,
    /// The task waited for a mutex, a condition variable or a barrier, and now locks the mutex, if any.
    Wait { relock: Option<u32> },
    /// `ksoftirqd`: handles softirqs, or waits for some.
    Softirqs,
    /// The task has taken its bytes and computed the cost of that, and now notifies writers.
    ReadDone { stream: u32 },
    /// The task computed the cost of a write, or waited for room in the stream, and now writes its bytes.
    WriteReady { stream: u32, bytes: u64 },
}

/// The work to do under a kernel lock ([`workload::Op::Hold`]).
#[derive(Clone, Copy)]
pub struct Section {
    pub mutex: u32,
    /// The work, in ns at the reference speed.
    pub work: u64,
    /// The number of cache lines.
    pub lines: u32,
    /// The number of nodes of a tree that are read.
    pub nodes: u32,
    pub kind: KernelLock,
    /// Whether the task keeps the lock afterwards.
    pub keeps: bool,
    /// Whether the task takes the lock only if others hold it or wait for it.
    pub if_locked: bool,
}

/// `p->scx.ops_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpsState {
    None,
    /// The scheduler has had the task since enqueueing number `qseq`.
    Queued,
}

/// A task of one simulation. All copies refer to the same task, which lives as long as the simulation.
///
/// A simulation is single-threaded, and C accesses its tasks as well, so they are shared by pointer. Every mutable
/// field is in a cell, so there is no `&mut Task`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskPtr(NonNull<Task>);

impl Continuation {
    /// Does the task poll until this continuation?
    pub fn polls(self) -> bool {
        matches!(
            self,
            Continuation::Poll | Continuation::SpinLock { .. } | Continuation::LockPoll(_)
        )
    }
}

impl Task {
    /// A task that runs `spec`, on no runqueue yet, created on `cpu`. Its affinity is still empty.
    pub fn new(spec: TaskSpec, parent: Option<TaskPtr>, cpu: usize, now: u64) -> Task {
        let task = Task {
            abi: TaskStruct::new(),
            session: match spec.session {
                Some(id) => Some(Session::new(id)),
                None => parent.and_then(|parent| parent.session.clone()),
            },
            class: Cell::new(Class::Ext),
            policy: Cell::new(spec.policy),
            clamps: TaskClamps::of_child(parent),
            name: spec.name,
            program: RefCell::new(spec.program),
            continuation: Cell::new(Continuation::NextOp),
            child: Cell::new(None),
            left: Cell::new(0),
            instant_ops: Cell::new(0),
            instant: Cell::new(0),
            own_time: Cell::new(false),
            in_kernel: Cell::new(false),
            keeps: Cell::new(None),
            next_waiter: Cell::new(None),
            waits_for: Cell::new("nothing"),
            on_rq: Cell::new(false),
            group: Cell::new(0),
            dsq: Cell::new(OnDsq::NONE),
            ops_state: Cell::new(OpsState::None),
            qseq: Cell::new(0),
            direct_dsq: Cell::new(layout::DSQ_INVALID),
            direct_flags: Cell::new(0),
            direct_given: Cell::new(Given::default()),
            in_custody: Cell::new(false),
            immed: Cell::new(false),
            reenq_count: Cell::new(0),
            runnable_at: Cell::new(0),
            polls_since: Cell::new(now),
            waits_since: Cell::new(now),
            longest_wait: Cell::new(0),
            reset_runnable_at: Cell::new(true),
            enabled: Cell::new(false),
            ran_on: Cell::new(cpu as u32),
            due: Cell::new(now),
            woken_at: Cell::new(now),
            timer_slack_ns: spec.timer_slack_ns.unwrap_or(DEFAULT_TIMER_SLACK_NS),
            rr_left: Cell::new(0),
            dl: Cell::default(),
            footprint: spec.footprint,
            activity: spec.activity.max(1),
            parent,
            children: Cell::new(0),
            exited: Cell::new(false),
            mm: layout::MmStruct { id: Cell::new(0) },
        };
        task.set_policy(spec.policy);
        let abi = &task.abi;
        abi.set_comm(&task.name);
        abi.thread_info.cpu.set(cpu as u32);
        abi.wake_cpu.set(cpu as i32);
        abi.recent_used_cpu.set(cpu as i32);
        abi.wakee_flips.set(SHELLS_WAKEE_FLIPS);
        abi.state.set(layout::TASK_NEW);
        abi.start_time.set(now);
        if let Some(session) = &task.session {
            abi.signal.set(&raw const session.signal);
        }
        task
    }

    /// Sets the fields that depend on the policy: class, slice, priorities and weight (`__setscheduler_params()`).
    pub fn set_policy(&self, policy: SchedPolicy) {
        let (class, number, rt_priority, nice) = match policy {
            SchedPolicy::Normal { nice, .. } => (Class::Ext, 0, 0, Some(nice)),
            SchedPolicy::Batch { nice, .. } => (Class::Ext, 3, 0, Some(nice)),
            SchedPolicy::Idle => (Class::Ext, 5, 0, Some(0)),
            SchedPolicy::Fifo { priority } => (Class::Rt, 1, priority.into(), None),
            SchedPolicy::RoundRobin { priority } => (Class::Rt, 2, priority.into(), None),
            SchedPolicy::Deadline { .. } => (Class::Dl, 6, 0, None),
        };
        if let SchedPolicy::Normal { slice_ns, .. } | SchedPolicy::Batch { slice_ns, .. } = policy {
            self.abi.se.custom_slice.set((slice_ns > 0).into());
            self.abi
                .se
                .slice
                .set(slice_ns.clamp(*SLICES_NS.start(), *SLICES_NS.end()));
        }
        self.policy.set(policy);
        self.class.set(class);
        self.abi.policy.set(number);
        self.abi.rt_priority.set(rt_priority);
        if let Some(nice) = nice {
            let prio = DEFAULT_PRIO + i32::from(nice.clamp(-20, 19));
            self.abi.static_prio.set(prio);
        }
        self.abi.prio.set(match class {
            Class::Dl => MAX_DL_PRIO - 1,
            Class::Rt => MAX_RT_PRIO - 1 - rt_priority as i32,
            Class::Ext => self.abi.static_prio.get(),
        });
        self.abi.normal_prio.set(self.abi.prio.get());
        let weight = match policy {
            SchedPolicy::Idle => WEIGHT_IDLEPRIO,
            _ => weight_of(self.abi.static_prio.get()),
        };
        self.abi.se.load.weight.set(weight.into());
        // sched_weight_to_cgroup(): a weight of 1024 becomes 100.
        self.abi
            .scx
            .weight
            .set(((weight * 100 + 512) / 1024).clamp(1, 10_000));
    }

    /// Lets the task run on the CPUs of `mask`.
    pub fn set_allowed(&self, mask: CpuMask) {
        self.abi.cpus_mask.set(mask);
        self.abi.nr_cpus_allowed.set(mask.count() as i32);
    }

    /// Puts the task into the control group of `set`.
    pub fn set_group(&self, set: *mut CssSet) {
        self.abi.cgroups.set(set);
        // SAFETY: `set` belongs to one of the groups, which are alive.
        self.abi
            .sched_task_group
            .set(unsafe { (*(*set).dfl_cgrp).cpu_css });
    }

    /// Changes the task's deadline server.
    #[inline]
    pub fn update_dl(&self, change: impl FnOnce(&mut DlEntity)) {
        let mut dl = self.dl.get();
        change(&mut dl);
        self.dl.set(dl);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.abi.release_storage();
    }
}

/// The tasks of one simulation, in order of creation, including exited ones.
#[derive(Default)]
pub struct Tasks(Vec<TaskPtr>);

impl Tasks {
    /// Gives `task` a pid, and the addresses for C.
    pub fn add(&mut self, task: Task) -> TaskPtr {
        let task = TaskPtr(NonNull::from(Box::leak(Box::new(task))));
        let (abi, own) = (&task.abi, task.abi());
        let pid = FIRST_PID + self.0.len() as i32;
        abi.pid.set(pid);
        abi.tgid.set(pid);
        task.mm.id.set(pid as u64);
        abi.mm.set(&raw const task.mm);
        abi.cpus_ptr.set(abi.cpus_mask.as_ptr());
        abi.group_leader.set(own);
        let parent = task.parent.map_or(own, TaskPtr::abi);
        abi.parent.set(parent);
        abi.real_parent.set(parent);
        self.0.push(task);
        task
    }
}

impl Deref for Tasks {
    type Target = [TaskPtr];

    fn deref(&self) -> &[TaskPtr] {
        &self.0
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &self.0 {
            // SAFETY: the pointer comes from a box (add()), which has no other owner. The
            // simulation is over: no copy of the pointer is used after this.
            drop(unsafe { Box::from_raw(task.0.as_ptr()) });
        }
    }
}

impl TaskPtr {
    /// # Safety
    /// `task` is a task of the running simulation that was given to C.
    #[inline]
    pub unsafe fn from_abi(task: *mut TaskStruct) -> Option<TaskPtr> {
        NonNull::new(task.cast()).map(TaskPtr)
    }

    #[inline]
    pub fn abi(self) -> *mut TaskStruct {
        self.0.as_ptr().cast()
    }

    #[inline]
    pub fn cpu(self) -> usize {
        self.abi.thread_info.cpu.get() as usize
    }

    #[inline]
    pub fn pid(self) -> i32 {
        self.abi.pid.get()
    }

    /// The number of tasks that were created before this one.
    pub fn index(self) -> usize {
        (self.abi.pid.get() - FIRST_PID) as usize
    }

    /// `comm[pid]`, as in sched_ext's messages.
    pub fn label(self) -> String {
        format!("{}[{}]", self.name, self.pid())
    }
}

impl Deref for TaskPtr {
    type Target = Task;

    #[inline]
    fn deref(&self) -> &Task {
        // SAFETY: the pointer was made from a box that lives until the simulation ends. The task is used only through
        // shared references and C's pointer, which write only to cells.
        unsafe { self.0.as_ref() }
    }
}

/// `count` inactive tasks on CPU 0, for tests of modules that know tasks but no kernel.
#[cfg(test)]
pub fn idle_tasks(count: usize) -> Tasks {
    let mut tasks = Tasks::default();
    for _ in 0..count {
        let spec = TaskSpec::new("test", |_: &mut workload::Env| workload::Op::Exit);
        tasks.add(Task::new(spec, None, 0, 0));
    }
    tasks
}
