//! The sched_ext class, as in kernel/sched/ext.c of Linux 6.12 and kernel/sched/ext/ext.c of 7.3: the calls of ops, in
//! the order of a task's life.

use crate::abi::layout as abi;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, OpsState, TaskPtr};
use crate::scx::call::{call_op, kf};
use crate::scx::dsq::OnDsq;
use crate::scx::idle_masks::Waker;
use crate::scx::verdict::{DirectTask, Given};
use machine::CpuMask;
use std::ptr::null_mut;

/// `SCX_DSP_MAX_LOOPS`: the number of times that `ops.dispatch()` may dispatch without filling the local queue.
const MAX_DISPATCH_LOOPS: u32 = 32;

impl Kernel<'_> {
    /// `select_task_rq_scx()`.
    #[inline(always)]
    pub fn select_cpu_ext(&mut self, task: TaskPtr, prev: usize, wake_flags: u64) -> usize {
        let Some(select_cpu) = self.scx.ops.select_cpu else {
            let (cpu, found) = self.select_cpu_dfl(task, prev, wake_flags);
            if found {
                task.abi.scx.slice.set(abi::SLICE_DFL);
                task.direct_given.set(Given {
                    slice: abi::SLICE_DFL,
                    vtime: 0,
                });
                task.direct_dsq.set(abi::DSQ_LOCAL);
            }
            return cpu;
        };
        self.scx.verdicts.direct_task = DirectTask::Task(task);
        let cpu = call_op!(
            self,
            kf::SELECT_CPU,
            select_cpu,
            task.abi(),
            self.cpu_for_c(prev),
            wake_flags
        );
        self.scx.verdicts.direct_task = DirectTask::None;
        let chosen = self.cpu_from_c(cpu, "from ops.select_cpu()");
        chosen.unwrap_or(prev)
    }

    /// `scx_select_cpu_dfl()` by the code that is running.
    pub fn select_cpu_dfl(&mut self, task: TaskPtr, prev: usize, wake_flags: u64) -> (usize, bool) {
        let cpu = self.this_cpu();
        let exits = |task: TaskPtr| task.abi.flags.get() & abi::PF_EXITING != 0;
        let waker = Waker {
            cpu,
            stays: !self.cpus[cpu].curr.is_some_and(exits),
            queued: self.scx.dsqs.local(cpu).len(),
        };
        let allowed = task.abi.cpus_mask.get();
        let is_7_3 = self.scx.is_7_3();
        let masks = &mut self.scx.idle_masks;
        if is_7_3 {
            let found = masks.select_cpu(&waker, &allowed, prev, wake_flags, 0);
            self.claimed(found);
            return (found.unwrap_or(prev), found.is_some());
        }
        let (cpu, is_idle) = masks.select_cpu_dfl(&waker, &allowed, prev, wake_flags);
        self.claimed(is_idle.then_some(cpu));
        (cpu, is_idle)
    }

    /// `scx_bpf_select_cpu_and()`: the CPU of `among` that `IdleMasks::select_cpu()` finds for the task, if any.
    pub fn select_cpu_and(
        &mut self,
        task: TaskPtr,
        prev: usize,
        wake_flags: u64,
        among: &CpuMask,
        flags: u64,
    ) -> Option<usize> {
        let cpu = self.this_cpu();
        let exits = |task: TaskPtr| task.abi.flags.get() & abi::PF_EXITING != 0;
        let waker = Waker {
            cpu,
            stays: !self.cpus[cpu].curr.is_some_and(exits),
            queued: self.scx.dsqs.local(cpu).len(),
        };
        let allowed = task.abi.cpus_mask.get().and(among);
        if allowed.is_empty() {
            return None;
        }
        let masks = &mut self.scx.idle_masks;
        let found = masks.select_cpu(&waker, &allowed, prev, wake_flags, flags);
        self.claimed(found);
        found
    }

    /// `enqueue_task_scx()`.
    #[inline(always)]
    pub fn enqueue_ext(&mut self, task: TaskPtr, flags: u64) {
        self.becomes_runnable(task, flags);
        self.do_enqueue(task, flags);
    }

    #[inline(always)]
    fn becomes_runnable(&mut self, task: TaskPtr, flags: u64) {
        let cpu = task.cpu();
        self.uclamp.add(task);
        self.set_runnable(task);
        task.abi.scx.flags.update(|flags| flags | abi::TASK_QUEUED);
        self.joins_rq(cpu);
        if let Some(runnable) = self.scx.ops.runnable {
            call_op!(self, kf::REST, runnable, task.abi(), flags);
        }
    }

    /// Counts a task that becomes runnable on `cpu`, and starts the deadline server if that is the first task of the
    /// class.
    #[inline]
    pub fn joins_rq(&mut self, cpu: usize) {
        self.change_rq(cpu);
        let rq = self.rq(cpu);
        rq.scx.nr_running += 1;
        rq.nr_running += 1;
        if rq.scx.nr_running == 1 {
            self.server_start(cpu);
            self.begin_load(cpu);
        }
    }

    /// Puts back the task that runs on `cpu` and was dequeued to be changed, without `ops.enqueue()`.
    pub fn restore_ext(&mut self, cpu: usize, task: TaskPtr) {
        self.becomes_runnable(task, abi::ENQ_RESTORE);
        self.set_next_ext(cpu, task);
    }

    /// Moves the task that runs on `cpu`, which its affinity no longer allows, to another runqueue.
    pub fn push_ext(&mut self, cpu: usize, task: TaskPtr, to: usize) {
        self.update_curr_ext(cpu, task);
        if let Some(stopping) = self.scx.ops.stopping {
            call_op!(self, kf::REST, stopping, task.abi(), true);
        }
        self.set_runnable(task);
        self.migrate(task, to);
        self.do_enqueue(task, 0);
    }

    /// Moves a runnable task that does not run to the runqueue of `to` (`move_queued_task()`). For the scheduler, the
    /// task stays runnable.
    pub fn push_away_ext(&mut self, task: TaskPtr, to: usize) {
        self.ops_dequeue(task, self.dequeue_flags(0));
        self.leave_queue(task);
        self.migrate(task, to);
        self.do_enqueue(task, 0);
    }

    #[inline(always)]
    fn set_runnable(&mut self, task: TaskPtr) {
        if task.reset_runnable_at.get() {
            task.runnable_at.set(self.now());
            task.abi.scx.runnable_at.set(self.now() / self.tick_ns);
            task.reset_runnable_at.set(false);
        }
    }

    /// `do_enqueue_task()`: hands the task to the scheduler, or carries out its direct dispatch.
    pub fn do_enqueue(&mut self, task: TaskPtr, flags: u64) {
        task.immed.set(false);
        // The scheduler is not asked about a task of an offline CPU, which the kernel is about to move.
        if !self.hotplug.online.contains(task.cpu()) {
            self.clear_direct_dispatch(task);
            return self.insert_here(task, flags);
        }
        if task.direct_dsq.get() != abi::DSQ_INVALID {
            return self.direct_dispatch(task, flags);
        }
        if self.scx.ops.flags & abi::OPS_ENQ_EXITING == 0
            && task.abi.flags.get() & abi::PF_EXITING != 0
        {
            self.scx.events.enq_skip_exiting += 1;
            return self.insert_here(task, flags);
        }
        let Some(enqueue) = self.scx.ops.enqueue else {
            self.refill_slice(task);
            return self.insert(OnDsq::GLOBAL, task, flags);
        };
        task.qseq.update(|n| n + 1);
        let outer = std::mem::replace(&mut self.scx.verdicts.direct_task, DirectTask::Task(task));
        call_op!(self, kf::ENQUEUE, enqueue, task.abi(), flags);
        self.scx.verdicts.direct_task = outer;
        if task.direct_dsq.get() != abi::DSQ_INVALID {
            self.direct_dispatch(task, flags);
        } else {
            task.ops_state.set(OpsState::Queued);
            task.in_custody.set(self.scx.is_7_3());
        }
    }

    fn insert_here(&mut self, task: TaskPtr, flags: u64) {
        self.refill_slice(task);
        self.insert(OnDsq::local(task.cpu()), task, flags);
    }

    /// `refill_task_slice_dfl()`
    fn refill_slice(&mut self, task: TaskPtr) {
        task.abi.scx.slice.set(abi::SLICE_DFL);
        self.scx.events.refill_slice_dfl += 1;
    }

    /// `dequeue_task_scx()`.
    pub fn dequeue_ext(&mut self, task: TaskPtr, flags: u64) {
        if task.abi.scx.flags.get() & abi::TASK_QUEUED == 0 {
            return;
        }
        let cpu = task.cpu();
        self.uclamp.remove(task);
        let told = self.dequeue_flags(flags);
        self.ops_dequeue(task, told);
        if self.cpus[cpu].curr == Some(task) {
            self.update_curr_ext(cpu, task);
            if let Some(stopping) = self.scx.ops.stopping {
                call_op!(self, kf::REST, stopping, task.abi(), false);
            }
        }
        if let Some(quiescent) = self.scx.ops.quiescent {
            call_op!(self, kf::REST, quiescent, task.abi(), told);
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
        if rq.nr_running == 0 {
            self.lost_last(cpu);
        }
        self.leave_queue(task);
    }

    /// The flags of a dequeue for the ops.
    fn dequeue_flags(&self, flags: u64) -> u64 {
        match self.scx.is_7_3() && flags & abi::DEQ_SLEEP == 0 {
            true => flags | abi::DEQ_SCHED_CHANGE,
            false => flags,
        }
    }

    #[inline]
    fn leave_queue(&mut self, task: TaskPtr) {
        self.remove(task);
        self.clear_direct_dispatch(task);
    }

    fn clear_direct_dispatch(&self, task: TaskPtr) {
        task.direct_dsq.set(abi::DSQ_INVALID);
        task.direct_flags.set(0);
    }

    #[inline(always)]
    fn ops_dequeue(&mut self, task: TaskPtr, flags: u64) {
        if self.scx.is_7_3() {
            task.ops_state.set(OpsState::None);
            self.leave_custody(task, flags);
        } else if task.ops_state.get() == OpsState::Queued {
            if let Some(dequeue) = self.scx.ops.dequeue {
                call_op!(self, kf::REST, dequeue, task.abi(), flags);
            }
            task.ops_state.set(OpsState::None);
        }
    }

    /// `update_curr_scx()`.
    pub fn update_curr_ext(&mut self, cpu: usize, task: TaskPtr) {
        let delta = self.update_curr(cpu, task);
        if delta == 0 {
            return;
        }
        self.server_update(cpu, delta);
        let slice = &task.abi.scx.slice;
        if slice.get() != abi::SLICE_INF {
            slice.update(|left| left.saturating_sub(delta));
        }
    }

    /// `balance_one()`: makes sure that the local queue has a task, or that `prev` continues.
    pub fn balance_ext(&mut self, cpu: usize, prev: Option<TaskPtr>) {
        self.scx.rqs[cpu].in_balance = true;
        let prev = prev.filter(|task| task.class.get() == Class::Ext);
        self.scx.rqs[cpu].bal_keep = self.find_work(cpu, prev);
        // An IMMED task behind another task goes back to the scheduler.
        if self.scx.rqs[cpu].nr_immed > 0 && self.scx.dsqs.local(cpu).len() > 1 {
            self.scx.reenqueues.ask(OnDsq::local(cpu), 0);
        }
        self.scx.rqs[cpu].in_balance = false;
    }

    /// Fills the local queue if it is empty and `prev` has no slice left. Returns whether `prev` continues.
    fn find_work(&mut self, cpu: usize, prev: Option<TaskPtr>) -> bool {
        if std::mem::take(&mut self.rq(cpu).scx.cpu_released)
            && let Some(cpu_acquire) = self.scx.ops.cpu_acquire
        {
            call_op!(self, kf::REST, cpu_acquire, cpu as i32, null_mut());
        }
        let prev_queued = prev.filter(|task| task.abi.scx.flags.get() & abi::TASK_QUEUED != 0);
        // A task that has just been dequeued has already been charged.
        if let Some(task) = prev_queued {
            self.update_curr_ext(cpu, task);
        }
        let has_slice = || prev_queued.is_some_and(|task| task.abi.scx.slice.get() != 0);
        if has_slice() {
            return true;
        }
        if self.has_local(cpu) {
            return false;
        }
        if let Some(dispatch) = self.scx.ops.dispatch {
            let mut loops = MAX_DISPATCH_LOOPS;
            loop {
                self.scx.verdicts.nr_tasks = 0;
                let prev = prev.map_or(null_mut(), TaskPtr::abi);
                let number = self.cpu_for_c(cpu);
                call_op!(self, kf::DISPATCH, dispatch, number, prev);
                self.flush_dispatches();
                if has_slice() {
                    return true;
                }
                if self.has_local(cpu) {
                    return false;
                }
                loops -= 1;
                if loops == 0 {
                    self.scx.kicks.resched(cpu);
                    break;
                }
                if self.scx.verdicts.nr_tasks == 0 || self.failure.is_some() {
                    break;
                }
            }
        }
        let keeps = prev_queued.is_some() && self.scx.ops.flags & abi::OPS_ENQ_LAST == 0;
        self.scx.events.dispatch_keep_last += i64::from(keeps);
        keeps
    }

    /// Is there a task in the local queue, or one that can be moved there from the global queue?
    fn has_local(&mut self, cpu: usize) -> bool {
        !self.scx.dsqs.local(cpu).is_empty() || self.consume_global(cpu)
    }

    /// `pick_task_scx()`.
    pub fn pick_ext(&mut self, cpu: usize, prev: Option<TaskPtr>) -> Option<TaskPtr> {
        let task = match prev {
            Some(prev) if self.scx.rqs[cpu].bal_keep && prev.class.get() == Class::Ext => prev,
            _ => self.scx.dsqs.local(cpu).first()?,
        };
        if task.abi.scx.slice.get() == 0 {
            self.refill_slice(task);
        }
        Some(task)
    }

    /// `put_prev_task_scx()`.
    #[inline(always)]
    pub fn put_prev_ext(&mut self, cpu: usize, task: TaskPtr, next: Option<TaskPtr>) {
        let ext_next = next.is_some_and(|task| task.class.get() == Class::Ext);
        if task.abi.scx.flags.get() & abi::TASK_QUEUED != 0 {
            self.update_curr_ext(cpu, task);
            if let Some(stopping) = self.scx.ops.stopping {
                call_op!(self, kf::REST, stopping, task.abi(), true);
            }
            self.set_runnable(task);
            if task.abi.scx.slice.get() != 0 {
                match task.immed.get() {
                    true => self.give_back(task, abi::TASK_REENQ_PREEMPTED),
                    false => self.insert(OnDsq::local(cpu), task, abi::ENQ_HEAD),
                }
            } else {
                self.do_enqueue(task, if next.is_none() { abi::ENQ_LAST } else { 0 });
                if next.is_none() && task.dsq.get() == OnDsq::local(cpu) {
                    self.cpus[cpu].need_resched = true;
                }
            }
        }
        if let Some(next) = next.filter(|_| !ext_next) {
            self.switch_class(cpu, next);
        }
    }

    /// `set_next_task_scx()`.
    #[inline(always)]
    pub fn set_next_ext(&mut self, _cpu: usize, task: TaskPtr) {
        self.ops_dequeue(task, 0);
        self.remove(task);
        if let Some(running) = self.scx.ops.running {
            call_op!(self, kf::REST, running, task.abi());
        }
        task.reset_runnable_at.set(true);
        task.reenq_count.set(0);
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

    /// `switch_class()`: notifies the scheduler that a higher class takes the CPU.
    fn switch_class(&mut self, cpu: usize, next: TaskPtr) {
        if self.scx.ops.cpu_acquire.is_none() && self.scx.ops.cpu_release.is_none()
            || self.rq(cpu).scx.cpu_released
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
        self.rq(cpu).scx.cpu_released = true;
    }

    /// Sends the kicks requested by code on `cpu` (`kick_cpus_irq_workfn()`).
    #[inline]
    pub fn send_kicks(&mut self, cpu: usize) {
        while let Some(kick) = self.scx.kicks.next() {
            debug_assert_eq!(self.this_cpu(), cpu);
            let target = kick.cpu as usize;
            // `kick_one_cpu()` checks whether the target is online, because a scheduler may kick any CPU.
            if !self.hotplug.online.contains(target) {
                continue;
            }
            let curr = self.cpus[target].curr;
            if kick.is_for_idle() && curr.is_some() {
                continue;
            }
            let preempted = curr.filter(|task| kick.preempts() && task.class.get() == Class::Ext);
            if let Some(curr) = preempted {
                curr.abi.scx.slice.set(0);
            }
            self.resched(target);
        }
    }
}
