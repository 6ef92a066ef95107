//! The sched_ext class, as kernel/sched/ext.c of Linux 6.12 has it: when each op is called, how tasks
//! move between dispatch queues, and what is an error of the scheduler.

use crate::abi::layout as abi;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, OnDsq, OpsState, TaskPtr};
use crate::scx::dsq::Order;
use std::ptr::null_mut;

/// `SCX_DSP_MAX_LOOPS`: how often `ops.dispatch()` may dispatch without filling the local queue.
const MAX_DISPATCH_LOOPS: u32 = 32;

/// `SCX_KF_*`: what an op may call.
pub mod kf {
    /// `ops.init()`, timers: anything that needs no runqueue lock.
    pub const UNLOCKED: u32 = 0;
    pub const CPU_RELEASE: u32 = 1 << 0;
    pub const DISPATCH: u32 = 1 << 1;
    pub const ENQUEUE: u32 = 1 << 2;
    pub const SELECT_CPU: u32 = 1 << 3;
    pub const REST: u32 = 1 << 4;
}

/// The task that `ops.select_cpu()` or `ops.enqueue()` is being called for, which it may dispatch at
/// once (`direct_dispatch_task`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DirectTask {
    /// Neither is being called.
    None,
    Task(TaskPtr),
    /// It was dispatched; a second time is an error.
    Done,
}

/// A task dispatched by `ops.dispatch()`, until the buffer is flushed.
pub struct Dispatch {
    pub task: TaskPtr,
    pub qseq: u64,
    pub dsq_id: u64,
    pub enq_flags: u64,
}

/// Calls an op of the scheduler, which may use the kfuncs that `$mask` allows.
macro_rules! call_op {
    ($kernel:expr, $mask:expr, $function:expr $(, $argument:expr)*) => {{
        let function = $function;
        let outer = std::mem::replace(&mut $kernel.scx.kf_mask, $mask);
        let outer_op = $kernel.calls.begin(&stringify!($function));
        $kernel.lend();
        // SAFETY: an op of the loaded scheduler, with arguments of its type; its calls back come
        // through the pointer that was just lent.
        let result = unsafe { function($($argument),*) };
        if $kernel.calls.end(outer_op) {
            $kernel.bpf.instance.forget_removed();
        }
        $kernel.scx.kf_mask = outer;
        result
    }};
}
pub(crate) use call_op;

impl Kernel<'_> {
    /// `select_task_rq_scx()`.
    pub fn select_cpu_ext(&mut self, task: TaskPtr, prev: usize, wake_flags: u64) -> usize {
        let Some(select_cpu) = self.scx.ops.select_cpu else {
            let (cpu, found) = self.select_cpu_dfl(task, prev, wake_flags);
            if found {
                task.abi.scx.slice.set(abi::SLICE_DFL);
                task.direct_dsq.set(abi::DSQ_LOCAL);
            }
            return cpu;
        };
        self.scx.direct_task = DirectTask::Task(task);
        let cpu = call_op!(
            self,
            kf::ENQUEUE | kf::SELECT_CPU,
            select_cpu,
            task.abi(),
            prev as i32,
            wake_flags
        );
        self.scx.direct_task = DirectTask::None;
        if self.cpu_valid(cpu, "from ops.select_cpu()") {
            cpu as usize
        } else {
            prev
        }
    }

    /// `ops_cpu_valid()`: anything but a CPU number is an error of the scheduler.
    pub fn cpu_valid(&mut self, cpu: i32, place: &str) -> bool {
        let valid = cpu >= 0 && (cpu as usize) < self.cpus.len();
        if !valid {
            self.scheduler_error(format!("invalid CPU {cpu} {place}"));
        }
        valid
    }

    /// `enqueue_task_scx()`.
    pub fn enqueue_ext(&mut self, task: TaskPtr, flags: u64) {
        self.becomes_runnable(task, flags);
        self.do_enqueue(task, flags);
    }

    fn becomes_runnable(&mut self, task: TaskPtr, flags: u64) {
        let cpu = task.cpu();
        self.set_runnable(task);
        task.abi.scx.flags.update(|flags| flags | abi::TASK_QUEUED);
        self.change_rq(cpu);
        let rq = self.rq(cpu);
        rq.scx.nr_running += 1;
        rq.nr_running += 1;
        if let Some(runnable) = self.scx.ops.runnable {
            call_op!(self, kf::REST, runnable, task.abi(), flags);
        }
    }

    /// Puts the task back that runs on `cpu` and was dequeued to be changed: the scheduler is not
    /// asked where to.
    pub fn restore_ext(&mut self, cpu: usize, task: TaskPtr) {
        self.becomes_runnable(task, abi::ENQ_RESTORE);
        self.set_next_ext(cpu, task);
    }

    /// Takes the task that runs on `cpu`, where it may not be any more, to another runqueue.
    pub fn push_ext(&mut self, cpu: usize, task: TaskPtr, to: usize) {
        self.update_curr_ext(cpu, task);
        if let Some(stopping) = self.scx.ops.stopping {
            call_op!(self, kf::REST, stopping, task.abi(), true);
        }
        self.set_runnable(task);
        self.migrate(task, to);
        self.do_enqueue(task, 0);
    }

    fn set_runnable(&mut self, task: TaskPtr) {
        if task.reset_runnable_at.get() {
            task.runnable_at.set(self.now());
            task.reset_runnable_at.set(false);
        }
    }

    /// `do_enqueue_task()`: hands the task to the scheduler, or carries out where it was directly
    /// dispatched.
    fn do_enqueue(&mut self, task: TaskPtr, flags: u64) {
        if task.direct_dsq.get() != abi::DSQ_INVALID {
            return self.direct_dispatch(task, flags);
        }
        if self.scx.ops.flags & abi::OPS_ENQ_EXITING == 0
            && task.abi.flags.get() & abi::PF_EXITING != 0
        {
            task.abi.scx.slice.set(abi::SLICE_DFL);
            return self.insert(OnDsq::Local(task.cpu() as u32), task, flags);
        }
        let Some(enqueue) = self.scx.ops.enqueue else {
            task.abi.scx.slice.set(abi::SLICE_DFL);
            return self.insert(OnDsq::Global, task, flags);
        };
        task.qseq.update(|n| n + 1);
        let outer = std::mem::replace(&mut self.scx.direct_task, DirectTask::Task(task));
        call_op!(self, kf::ENQUEUE, enqueue, task.abi(), flags);
        self.scx.direct_task = outer;
        if task.direct_dsq.get() != abi::DSQ_INVALID {
            self.direct_dispatch(task, flags);
        } else {
            task.ops_state.set(OpsState::Queued);
        }
    }

    fn direct_dispatch(&mut self, task: TaskPtr, flags: u64) {
        let dsq_id = task.direct_dsq.replace(abi::DSQ_INVALID);
        let flags = flags | task.direct_flags.take();
        let dsq = self.find_dsq_for_dispatch(task, dsq_id);
        self.move_to(dsq, task, flags);
    }

    /// Inserts `task`, which is on no queue, into `dsq`; if that is another CPU's local queue, moves
    /// it there (`dispatch_to_local_dsq()`).
    fn move_to(&mut self, dsq: OnDsq, task: TaskPtr, flags: u64) {
        match dsq {
            OnDsq::Local(cpu) if cpu as usize != task.cpu() => {
                if self.can_run_on(task, cpu as usize, true) {
                    self.migrate(task, cpu as usize);
                    self.insert(dsq, task, flags);
                } else {
                    self.insert(OnDsq::Global, task, flags & !abi::ENQ_DSQ_PRIQ);
                }
            }
            _ => self.insert(dsq, task, flags),
        }
    }

    /// `task_can_run_on_remote_rq()`.
    fn can_run_on(&mut self, task: TaskPtr, cpu: usize, is_error: bool) -> bool {
        let allowed = task.abi.cpus_mask.get().contains(cpu);
        if !allowed && is_error {
            self.scheduler_error(format!(
                "SCX_DSQ_LOCAL[_ON] target CPU {cpu} not allowed for {}",
                task.label()
            ));
        }
        allowed
    }

    /// Moves a runnable task that is on no queue to the runqueue of `cpu`.
    fn migrate(&mut self, task: TaskPtr, cpu: usize) {
        self.change_rq(task.cpu());
        self.change_rq(cpu);
        let from = self.rq(task.cpu());
        from.nr_running -= 1;
        from.scx.nr_running -= 1;
        self.set_task_cpu(task, cpu);
        let to = self.rq(cpu);
        to.nr_running += 1;
        to.scx.nr_running += 1;
    }

    /// `find_dsq_for_dispatch()`.
    pub fn find_dsq_for_dispatch(&mut self, task: TaskPtr, dsq_id: u64) -> OnDsq {
        match dsq_id {
            abi::DSQ_LOCAL => OnDsq::Local(task.cpu() as u32),
            abi::DSQ_GLOBAL => OnDsq::Global,
            id if id & abi::DSQ_LOCAL_ON == abi::DSQ_LOCAL_ON => {
                let cpu = (id & abi::DSQ_LOCAL_CPU_MASK) as i32;
                if self.cpu_valid(cpu, "in SCX_DSQ_LOCAL_ON dispatch verdict") {
                    OnDsq::Local(cpu as u32)
                } else {
                    OnDsq::Global
                }
            }
            id => match self.scx.user_dsqs.find(id) {
                Some(index) => OnDsq::User(index),
                None => {
                    self.scheduler_error(format!("non-existent DSQ {id:#x} for {}", task.label()));
                    OnDsq::Global
                }
            },
        }
    }

    /// `dispatch_enqueue()`.
    fn insert(&mut self, on: OnDsq, task: TaskPtr, flags: u64) {
        let vtime_order = flags & abi::ENQ_DSQ_PRIQ != 0;
        let vtime = task.abi.scx.dsq_vtime.get();
        task.ops_state.set(OpsState::None);
        task.dsq.set(on);
        self.lock_dsq(on);
        let head = flags & (abi::ENQ_HEAD | abi::ENQ_PREEMPT) != 0;
        if vtime_order && !matches!(on, OnDsq::User(_)) {
            self.scheduler_error("cannot use vtime ordering for built-in DSQs".into());
        }
        match on {
            OnDsq::User(index) => {
                let order = if vtime_order {
                    Order::Vtime
                } else {
                    Order::Fifo
                };
                let dsq = self.scx.user_dsqs.get_mut(index);
                let mixed = !dsq.accepts(order);
                if vtime_order {
                    dsq.insert(task, vtime);
                } else {
                    dsq.push(task, head);
                }
                if mixed {
                    let id = dsq.id();
                    let already = if vtime_order { "FIFO" } else { "PRIQ" };
                    self.scheduler_error(format!(
                        "DSQ ID {id:#018x} already had {already}-enqueued tasks"
                    ));
                }
            }
            OnDsq::Global => self.scx.global_dsq.push(task, head),
            OnDsq::Local(cpu) => {
                let cpu = cpu as usize;
                self.cpus[cpu].local.push(task, head);
                self.rq(cpu).scx.local_dsq.nr += 1;
                self.local_inserted(cpu, task, flags);
            }
            OnDsq::None => unreachable!("a task is inserted into a queue"),
        }
    }

    /// `local_dsq_post_enq()`: does the CPU have to reschedule?
    fn local_inserted(&mut self, cpu: usize, task: TaskPtr, flags: u64) {
        if self.cpus[cpu].in_balance {
            return;
        }
        match self.cpus[cpu].curr {
            None => self.resched(cpu),
            Some(curr)
                if flags & abi::ENQ_PREEMPT != 0
                    && curr != task
                    && curr.class.get() == Class::Ext =>
            {
                curr.abi.scx.slice.set(0);
                self.resched(cpu);
            }
            Some(_) => {}
        }
    }

    /// `dispatch_dequeue()`: takes the task off the queue it is on, if any.
    fn remove(&mut self, task: TaskPtr) {
        self.lock_dsq(task.dsq.get());
        let dsq = match task.dsq.replace(OnDsq::None) {
            OnDsq::None => return,
            OnDsq::Local(cpu) => {
                self.rq(cpu as usize).scx.local_dsq.nr -= 1;
                &mut self.cpus[cpu as usize].local
            }
            OnDsq::Global => &mut self.scx.global_dsq,
            OnDsq::User(index) => self.scx.user_dsqs.get_mut(index),
        };
        let index = dsq
            .position(task)
            .expect("a task is on the queue that it says it is on");
        dsq.remove_at(index);
    }

    /// `dequeue_task_scx()`.
    pub fn dequeue_ext(&mut self, task: TaskPtr, flags: u64) {
        if task.abi.scx.flags.get() & abi::TASK_QUEUED == 0 {
            return;
        }
        let cpu = task.cpu();
        self.ops_dequeue(task, flags);
        if self.cpus[cpu].curr == Some(task) {
            self.update_curr_ext(cpu, task);
            if let Some(stopping) = self.scx.ops.stopping {
                call_op!(self, kf::REST, stopping, task.abi(), false);
            }
        }
        if let Some(quiescent) = self.scx.ops.quiescent {
            call_op!(self, kf::REST, quiescent, task.abi(), flags);
        }
        let mut scx_flags = task.abi.scx.flags.get();
        scx_flags &= !(abi::TASK_QUEUED | abi::TASK_DEQD_FOR_SLEEP);
        if flags & abi::DEQ_SLEEP != 0 {
            scx_flags |= abi::TASK_DEQD_FOR_SLEEP;
        }
        task.abi.scx.flags.set(scx_flags);
        self.change_rq(cpu);
        let rq = self.rq(cpu);
        rq.scx.nr_running -= 1;
        rq.nr_running -= 1;
        self.remove(task);
        task.direct_dsq.set(abi::DSQ_INVALID);
        task.direct_flags.set(0);
    }

    fn ops_dequeue(&mut self, task: TaskPtr, flags: u64) {
        if task.ops_state.get() == OpsState::Queued {
            if let Some(dequeue) = self.scx.ops.dequeue {
                call_op!(self, kf::REST, dequeue, task.abi(), flags);
            }
            task.ops_state.set(OpsState::None);
        }
    }

    /// `update_curr_scx()`.
    fn update_curr_ext(&mut self, cpu: usize, task: TaskPtr) {
        let delta = self.update_curr(cpu, task);
        let slice = task.abi.scx.slice.get();
        if slice != abi::SLICE_INF {
            task.abi.scx.slice.set(slice.saturating_sub(delta));
        }
    }

    /// `balance_one()`: sees to it that the local queue has a task, or that `prev` goes on.
    pub fn balance_ext(&mut self, cpu: usize, prev: Option<TaskPtr>) {
        self.cpus[cpu].in_balance = true;
        self.cpus[cpu].keep = false;
        self.find_work(cpu, prev.filter(|task| task.class.get() == Class::Ext));
        self.cpus[cpu].in_balance = false;
    }

    fn find_work(&mut self, cpu: usize, prev: Option<TaskPtr>) {
        if self.cpus[cpu].released {
            self.cpus[cpu].released = false;
            self.rq(cpu).scx.cpu_released = false;
            if let Some(cpu_acquire) = self.scx.ops.cpu_acquire {
                call_op!(self, kf::REST, cpu_acquire, cpu as i32, null_mut());
            }
        }
        let prev_queued = prev.filter(|task| task.abi.scx.flags.get() & abi::TASK_QUEUED != 0);
        if let Some(task) = prev {
            self.update_curr_ext(cpu, task);
        }
        let has_slice =
            |task: Option<TaskPtr>| task.is_some_and(|task| task.abi.scx.slice.get() != 0);
        if has_slice(prev_queued) {
            self.cpus[cpu].keep = true;
            return;
        }
        if !self.cpus[cpu].local.is_empty() || self.consume_global(cpu) {
            return;
        }
        if let Some(dispatch) = self.scx.ops.dispatch {
            let mut loops = MAX_DISPATCH_LOOPS;
            loop {
                self.scx.dispatched = 0;
                let prev = prev.map_or(null_mut(), TaskPtr::abi);
                call_op!(self, kf::DISPATCH, dispatch, cpu as i32, prev);
                self.flush_dispatches();
                if has_slice(prev_queued) {
                    self.cpus[cpu].keep = true;
                    return;
                }
                if !self.cpus[cpu].local.is_empty() || self.consume_global(cpu) {
                    return;
                }
                loops -= 1;
                if loops == 0 {
                    self.scx.kicks.push((cpu as u32, 0));
                    break;
                }
                if self.scx.dispatched == 0 || self.failure.is_some() {
                    break;
                }
            }
        }
        if prev_queued.is_some() && self.scx.ops.flags & abi::OPS_ENQ_LAST == 0 {
            self.cpus[cpu].keep = true;
        }
    }

    fn consume_global(&mut self, cpu: usize) -> bool {
        !self.scx.global_dsq.is_empty() && self.consume(cpu, OnDsq::Global)
    }

    /// `consume_dispatch_q()`: moves the first task of `dsq` that may run here to the local queue.
    pub fn consume(&mut self, cpu: usize, on: OnDsq) -> bool {
        self.lock_dsq(on);
        let dsq = match on {
            OnDsq::Global => &mut self.scx.global_dsq,
            OnDsq::User(index) => self.scx.user_dsqs.get_mut(index),
            OnDsq::Local(_) | OnDsq::None => unreachable!("only shared queues are consumed from"),
        };
        let allowed = |task: TaskPtr| task.cpu() == cpu || task.abi.cpus_mask.get().contains(cpu);
        let Some((index, task)) = dsq
            .iter()
            .enumerate()
            .find(|(_, queued)| allowed(queued.task))
            .map(|(index, queued)| (index, queued.task))
        else {
            return false;
        };
        dsq.remove_at(index);
        if task.cpu() != cpu {
            self.migrate(task, cpu);
        }
        task.dsq.set(OnDsq::Local(cpu as u32));
        self.cpus[cpu].local.push(task, false);
        self.rq(cpu).scx.local_dsq.nr += 1;
        true
    }

    /// `flush_dispatch_buf()`: carries out what `ops.dispatch()` dispatched.
    pub fn flush_dispatches(&mut self) {
        self.scx.dispatched += self.scx.dispatches.len();
        let mut dispatches = std::mem::take(&mut self.scx.dispatches);
        for dispatch in dispatches.drain(..) {
            let task = dispatch.task;
            if task.ops_state.get() != OpsState::Queued || task.qseq.get() != dispatch.qseq {
                continue;
            }
            // A local queue without a CPU is the dispatching CPU's.
            let dsq = if dispatch.dsq_id == abi::DSQ_LOCAL {
                OnDsq::Local(self.this_cpu() as u32)
            } else {
                self.find_dsq_for_dispatch(task, dispatch.dsq_id)
            };
            self.move_to(dsq, task, dispatch.enq_flags);
        }
        self.scx.dispatches = dispatches;
    }

    /// `move_task_between_dsqs()`: moves `task` from a user queue. A destination that it may not go to
    /// is an error.
    pub fn move_between(&mut self, task: TaskPtr, dsq: OnDsq, flags: u64) {
        self.remove(task);
        self.move_to(dsq, task, flags);
    }

    /// `pick_task_scx()`.
    pub fn pick_ext(&mut self, cpu: usize, prev: Option<TaskPtr>) -> Option<TaskPtr> {
        let task = match prev {
            Some(prev) if self.cpus[cpu].keep && prev.class.get() == Class::Ext => prev,
            _ => self.cpus[cpu].local.get(0)?.task,
        };
        if task.abi.scx.slice.get() == 0 {
            task.abi.scx.slice.set(abi::SLICE_DFL);
        }
        Some(task)
    }

    /// `put_prev_task_scx()`.
    pub fn put_prev_ext(&mut self, cpu: usize, task: TaskPtr, next: Option<TaskPtr>) {
        self.update_curr_ext(cpu, task);
        let ext_next = next.is_some_and(|task| task.class.get() == Class::Ext);
        if task.abi.scx.flags.get() & abi::TASK_QUEUED != 0 {
            if let Some(stopping) = self.scx.ops.stopping {
                call_op!(self, kf::REST, stopping, task.abi(), true);
            }
            self.set_runnable(task);
            if task.abi.scx.slice.get() != 0 {
                self.insert(OnDsq::Local(cpu as u32), task, abi::ENQ_HEAD);
            } else {
                self.do_enqueue(task, if next.is_none() { abi::ENQ_LAST } else { 0 });
                if next.is_none() && task.dsq.get() == OnDsq::Local(cpu as u32) {
                    self.cpus[cpu].need_resched = true;
                }
            }
        }
        if let Some(next) = next.filter(|_| !ext_next) {
            self.switch_class(cpu, next);
        }
    }

    /// `switch_class()`: tells the scheduler that a higher class takes the CPU.
    fn switch_class(&mut self, cpu: usize, next: TaskPtr) {
        if self.scx.ops.cpu_acquire.is_none() && self.scx.ops.cpu_release.is_none()
            || self.cpus[cpu].released
        {
            return;
        }
        if let Some(cpu_release) = self.scx.ops.cpu_release {
            let mut args = abi::CpuReleaseArgs {
                reason: match next.class.get() {
                    Class::Dl => abi::PREEMPT_DL,
                    _ => abi::PREEMPT_RT,
                },
                task: next.abi(),
            };
            call_op!(
                self,
                kf::CPU_RELEASE,
                cpu_release,
                cpu as i32,
                &raw mut args
            );
        }
        self.cpus[cpu].released = true;
        self.rq(cpu).scx.cpu_released = true;
    }

    /// `scx_bpf_reenqueue_local()`: hands the local queue's tasks back to the scheduler.
    pub fn reenqueue_local(&mut self, cpu: usize) -> u32 {
        let tasks: Vec<TaskPtr> = self.cpus[cpu]
            .local
            .iter()
            .map(|queued| queued.task)
            .collect();
        for &task in &tasks {
            self.remove(task);
            self.do_enqueue(task, abi::ENQ_REENQ);
        }
        tasks.len() as u32
    }

    /// `set_next_task_scx()`.
    pub fn set_next_ext(&mut self, _cpu: usize, task: TaskPtr) {
        self.ops_dequeue(task, 0);
        self.remove(task);
        if let Some(running) = self.scx.ops.running {
            call_op!(self, kf::REST, running, task.abi());
        }
        task.reset_runnable_at.set(true);
    }

    /// `task_tick_scx()`.
    pub fn tick_ext(&mut self, cpu: usize, task: TaskPtr) {
        self.update_curr_ext(cpu, task);
        if let Some(tick) = self.scx.ops.tick {
            call_op!(self, kf::REST, tick, task.abi());
        }
        if task.abi.scx.slice.get() == 0 {
            self.cpus[cpu].need_resched = true;
        }
    }

    /// `yield_task_scx()`.
    pub fn yield_ext(&mut self, task: TaskPtr) {
        match self.scx.ops.yield_ {
            Some(yield_) => {
                call_op!(self, kf::REST, yield_, task.abi(), null_mut());
            }
            None => task.abi.scx.slice.set(0),
        }
    }

    /// Sends the kicks that code on `cpu` has asked for (`kick_cpus_irq_workfn()`).
    #[inline]
    pub fn send_kicks(&mut self, cpu: usize) {
        if self.scx.kicks.is_empty() {
            return;
        }
        debug_assert_eq!(self.this_cpu(), cpu);
        let mut kicks = std::mem::take(&mut self.scx.kicks);
        for (target, flags) in kicks.drain(..) {
            let curr = self.cpus[target as usize].curr;
            if flags & abi::KICK_IDLE != 0 && curr.is_some() {
                continue;
            }
            if let Some(curr) =
                curr.filter(|task| flags & abi::KICK_PREEMPT != 0 && task.class.get() == Class::Ext)
            {
                curr.abi.scx.slice.set(0);
            }
            self.resched(target as usize);
        }
        self.scx.kicks = kicks;
    }

    /// `scx_watchdog_workfn()`: a runnable task that has not run for too long stops the scheduler.
    pub fn watchdog(&mut self) {
        let now = self.now();
        let stalled = self.tasks.iter().copied().find(|task| {
            let waits = task.on_rq.get()
                && task.class.get() == Class::Ext
                && self.cpus[task.cpu()].curr != Some(*task);
            waits && !task.exited.get() && now - task.runnable_at.get() > self.scx.watchdog_ns
        });
        match stalled {
            Some(task) => {
                let ms = (now - task.runnable_at.get()) / 1_000_000;
                let message = format!(
                    "{} failed to run for {}.{:03}s",
                    task.label(),
                    ms / 1000,
                    ms % 1000
                );
                self.scheduler_exit(abi::EXIT_ERROR_STALL, 0, message);
            }
            None => self.events.push(
                now + self.scx.watchdog_ns / 2,
                crate::events::What::Watchdog,
            ),
        }
    }
}
