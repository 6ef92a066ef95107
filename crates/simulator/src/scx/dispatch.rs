//! Moving tasks between dispatch queues, as in kernel/sched/ext.c of Linux 6.12 and
//! kernel/sched/ext/ext.c of 7.3: insertion, removal, moves, and verdicts.

use crate::abi::layout as abi;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, OpsState, TaskPtr};
use crate::scx::call::{call_op, kf};
use crate::scx::dsq::{OnDsq, Order};
use crate::scx::verdict::Given;

impl Kernel<'_> {
    /// `dispatch_enqueue()`.
    pub fn insert(&mut self, on: OnDsq, task: TaskPtr, flags: u64) {
        let vtime_order = flags & abi::ENQ_DSQ_PRIQ != 0;
        task.ops_state.set(OpsState::None);
        task.dsq.set(on);
        if vtime_order && !on.is_user() {
            self.scheduler_error("cannot use vtime ordering for built-in DSQs");
        }
        let order = match vtime_order && on.is_user() {
            true => Order::Vtime,
            false => Order::Fifo,
        };
        self.lock_to_insert(on, order);
        if !self.scx.dsqs.get(on).accepts(order) {
            self.orders_mixed(on, order);
        }
        let dsqs = &mut self.scx.dsqs;
        match order {
            Order::Vtime => dsqs.insert(on, task, task.abi.scx.dsq_vtime.get()),
            Order::Fifo => dsqs.push(on, task, flags & (abi::ENQ_HEAD | abi::ENQ_PREEMPT) != 0),
        }
        if let Some(cpu) = on.cpu() {
            self.rq(cpu).scx.local_dsq.nr += 1;
            if (flags & abi::ENQ_IMMED != 0 || task.immed.get()) && self.scx.is_7_3() {
                self.immed_inserted(cpu, task, flags);
            }
            self.leave_custody(task, 0);
            self.local_inserted(cpu, task, flags);
        } else if self.scx.is_7_3() {
            match on {
                OnDsq::GLOBAL => self.leave_custody(task, 0),
                _ => task.in_custody.set(true),
            }
        }
    }

    /// `task_leave_custody()`: Linux 7.3 calls `ops.dequeue()` for every task that leaves the scheduler's custody.
    #[inline(always)]
    pub fn leave_custody(&mut self, task: TaskPtr, flags: u64) {
        if task.in_custody.take()
            && let Some(dequeue) = self.scx.ops.dequeue
        {
            call_op!(self, kf::REST, dequeue, task.abi(), flags);
        }
    }

    /// `dsq_inc_nr()` of an IMMED task: the task goes back to the scheduler if it cannot run immediately.
    #[cold]
    fn immed_inserted(&mut self, cpu: usize, task: TaskPtr, flags: u64) {
        task.immed.set(true);
        self.scx.rqs[cpu].nr_immed += 1;
        if self.scx.dsqs.local(cpu).len() > 1 || !self.is_open(cpu, flags) {
            self.scx.reenqueues.ask(OnDsq::local(cpu), 0);
        }
    }

    #[cold]
    fn orders_mixed(&mut self, on: OnDsq, order: Order) {
        let id = self.scx.dsqs.get(on).id();
        let already = match order {
            Order::Vtime => "FIFO",
            Order::Fifo => "PRIQ",
        };
        self.scheduler_error(format_args!(
            "DSQ ID {id:#018x} already had {already}-enqueued tasks"
        ));
    }

    /// `local_dsq_post_enq()`: makes the CPU reschedule if it is idle, or if the task preempts the running task.
    fn local_inserted(&mut self, cpu: usize, task: TaskPtr, flags: u64) {
        if self.scx.rqs[cpu].in_balance {
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

    /// `dispatch_dequeue()`: takes the task off its queue, if it is on one.
    #[inline]
    pub fn remove(&mut self, task: TaskPtr) {
        let on = task.dsq.get();
        if on != OnDsq::NONE {
            self.remove_from(on, task);
        }
    }

    #[inline(always)]
    fn remove_from(&mut self, on: OnDsq, task: TaskPtr) {
        task.dsq.set(OnDsq::NONE);
        let position = self.scx.dsqs.get(on).position(task);
        let index = position.expect("a task is on the queue that it says it is on");
        self.lock_to_remove(on, index);
        self.scx.dsqs.remove_at(on, index);
        if let Some(cpu) = on.cpu() {
            self.rq(cpu).scx.local_dsq.nr -= 1;
            self.scx.rqs[cpu].nr_immed -= u32::from(task.immed.get());
        }
    }

    /// Inserts `task`, which is on no queue, into `dsq`; if that is another CPU's local queue, moves the task to that
    /// CPU or, if it cannot run there, to the global queue (`dispatch_to_local_dsq()`).
    #[inline]
    fn move_to(&mut self, dsq: OnDsq, task: TaskPtr, flags: u64) {
        match dsq.cpu() {
            Some(cpu) if cpu != task.cpu() => {
                if self.can_run_on(task, cpu) {
                    self.migrate(task, cpu);
                    self.insert(dsq, task, flags);
                } else {
                    self.insert(OnDsq::GLOBAL, task, flags & !abi::ENQ_DSQ_PRIQ);
                }
            }
            _ => self.insert(dsq, task, flags),
        }
    }

    /// `task_can_run_on_remote_rq()` for a scheduler's verdict: a CPU that the task may not use is an error.
    #[inline(never)]
    fn can_run_on(&mut self, task: TaskPtr, cpu: usize) -> bool {
        let allowed = task.abi.is_allowed(cpu);
        if !allowed {
            self.scheduler_error(format_args!(
                "SCX_DSQ_LOCAL[_ON] target CPU {cpu} not allowed for {}",
                task.label()
            ));
        }
        // An offline CPU is not an error, but gets no task.
        allowed && self.hotplug.online.contains(cpu)
    }

    /// Moves a runnable task that is on no queue to the runqueue of `cpu`.
    pub fn migrate(&mut self, task: TaskPtr, cpu: usize) {
        self.change_rq(task.cpu());
        let from = self.rq(task.cpu());
        from.nr_running -= 1;
        from.scx.nr_running -= 1;
        if from.nr_running == 0 {
            self.lost_last(task.cpu());
        }
        self.uclamp.remove(task);
        self.set_task_cpu(task, cpu);
        self.uclamp.add(task);
        self.joins_rq(cpu);
    }

    /// `find_dsq_for_dispatch()`: an unknown id is an error of the scheduler, and means the global
    /// queue.
    #[inline]
    fn find_dsq_for_dispatch(&mut self, task: TaskPtr, dsq_id: u64) -> OnDsq {
        if dsq_id & abi::DSQ_BUILTIN != 0 {
            return self.find_builtin_dsq(task, dsq_id);
        }
        match self.scx.dsqs.find(dsq_id) {
            Some(on) => on,
            None => self.no_such_dsq(task, dsq_id),
        }
    }

    #[inline(never)]
    fn find_builtin_dsq(&mut self, task: TaskPtr, dsq_id: u64) -> OnDsq {
        match dsq_id {
            abi::DSQ_LOCAL => OnDsq::local(task.cpu()),
            abi::DSQ_GLOBAL => OnDsq::GLOBAL,
            id if id & abi::DSQ_LOCAL_ON == abi::DSQ_LOCAL_ON => {
                let cpu = (id & abi::DSQ_LOCAL_CPU_MASK) as i32;
                match self.cpu_from_c(cpu, "in SCX_DSQ_LOCAL_ON dispatch verdict") {
                    Some(cpu) => OnDsq::local(cpu),
                    None => OnDsq::GLOBAL,
                }
            }
            id => self.no_such_dsq(task, id),
        }
    }

    #[cold]
    fn no_such_dsq(&mut self, task: TaskPtr, id: u64) -> OnDsq {
        match self.scx.is_7_3() {
            true => self.scheduler_error(format_args!("non-existent DSQ {id:#x}")),
            false => self.scheduler_error(format_args!(
                "non-existent DSQ {id:#x} for {}",
                task.label()
            )),
        }
        OnDsq::GLOBAL
    }

    /// Finds a queue as `find_dsq_for_dispatch()` does, for code on the dispatching CPU, to whose local queue
    /// an id without a CPU refers.
    pub fn find_dsq_here(&mut self, task: TaskPtr, dsq_id: u64) -> OnDsq {
        match dsq_id {
            abi::DSQ_LOCAL => OnDsq::local(self.this_cpu()),
            id => self.find_dsq_for_dispatch(task, id),
        }
    }

    /// `direct_dispatch()`: carries out the verdict stored in `task`.
    #[inline(always)]
    pub fn direct_dispatch(&mut self, task: TaskPtr, flags: u64) {
        let dsq_id = task.direct_dsq.replace(abi::DSQ_INVALID);
        let flags = flags | task.direct_flags.take();
        self.apply(task, task.direct_given.get(), flags);
        let dsq = self.find_dsq_for_dispatch(task, dsq_id);
        self.move_to(dsq, task, flags);
    }

    /// Linux 7.3 applies slice and virtual time at insertion; Linux 6.12 applies them when the kfunc is called.
    #[inline]
    fn apply(&mut self, task: TaskPtr, given: Given, flags: u64) {
        if self.scx.is_7_3() {
            given.apply(task, flags & abi::ENQ_DSQ_PRIQ != 0);
        }
    }

    /// `flush_dispatch_buf()`: carries out the dispatches of `ops.dispatch()`.
    #[inline]
    pub fn flush_dispatches(&mut self) {
        if !self.scx.verdicts.is_empty() {
            self.flush_verdicts();
        }
    }

    #[inline(never)]
    fn flush_verdicts(&mut self) {
        for index in 0..self.scx.verdicts.begin_flush() {
            if let Some(verdict) = self.scx.verdicts.get(index) {
                self.apply(verdict.task, verdict.given, verdict.enq_flags);
                let dsq = self.find_dsq_here(verdict.task, verdict.dsq_id);
                self.move_to(dsq, verdict.task, verdict.enq_flags);
            }
        }
        self.scx.verdicts.end_flush();
    }

    /// `consume_dispatch_q()`: moves the first task of `on` that may run on `cpu` to the local queue of `cpu`.
    #[inline]
    pub fn consume(&mut self, cpu: usize, on: OnDsq, flags: u64) -> bool {
        let allowed = |task: TaskPtr| task.cpu() == cpu || task.abi.is_allowed(cpu);
        let dsq = self.scx.dsqs.get(on);
        let found = match dsq.first() {
            Some(first) if allowed(first) => Some((0, first)),
            _ => {
                let mut tasks = dsq.iter().map(|queued| queued.task).enumerate();
                tasks.find(|&(_, task)| allowed(task))
            }
        };
        let Some((index, task)) = found else {
            self.find_nothing(on);
            return false;
        };
        self.lock_to_remove(on, index);
        self.scx.dsqs.remove_at(on, index);
        if task.cpu() != cpu {
            self.migrate(task, cpu);
        }
        let local = OnDsq::local(cpu);
        task.dsq.set(local);
        let head = flags & (abi::ENQ_HEAD | abi::ENQ_PREEMPT) != 0;
        self.scx.dsqs.push(local, task, head);
        self.rq(cpu).scx.local_dsq.nr += 1;
        if flags & abi::ENQ_IMMED != 0 {
            self.immed_inserted(cpu, task, flags);
        }
        self.leave_custody(task, 0);
        true
    }

    /// `consume_dispatch_q()` of the global queue.
    #[inline]
    pub fn consume_global(&mut self, cpu: usize) -> bool {
        !self.scx.dsqs.get(OnDsq::GLOBAL).is_empty() && self.consume_global_first(cpu)
    }

    #[inline(never)]
    fn consume_global_first(&mut self, cpu: usize) -> bool {
        self.consume(cpu, OnDsq::GLOBAL, 0)
    }

    /// `move_task_between_dsqs()`: moves `task` from a user queue. A forbidden destination is an
    /// error.
    pub fn move_between(&mut self, task: TaskPtr, dsq: OnDsq, flags: u64) {
        self.remove(task);
        self.move_to(dsq, task, flags);
    }
}
