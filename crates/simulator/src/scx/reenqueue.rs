//! Reenqueueing (`SCX_ENQ_REENQ`): tasks of a queue go back to the scheduler because it requested that, or because they
//! were inserted with `SCX_ENQ_IMMED` and cannot run immediately. Linux 7.3 defers this until no runqueue is locked.

use crate::abi::layout as abi;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, TaskPtr};
use crate::scx::dsq::OnDsq;
use std::collections::VecDeque;

/// `SCX_REENQ_MAX_REPEAT`: the maximum number of reenqueues of a task between two runs.
const MAX_REPEAT: u32 = 256;

/// The pending reenqueues: queues and `SCX_REENQ_*` flags.
#[derive(Default)]
pub struct Reenqueues(VecDeque<(OnDsq, u64)>);

impl Reenqueues {
    /// `schedule_dsq_reenq()`
    pub fn ask(&mut self, on: OnDsq, flags: u64) {
        match self.0.iter_mut().find(|(other, _)| *other == on) {
            Some((_, others)) => *others |= flags,
            None => self.0.push_back((on, flags)),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Kernel<'_> {
    /// `scx_bpf_reenqueue_local()` of Linux 6.12: reenqueues the local queue's tasks immediately.
    pub fn reenqueue_local(&mut self, cpu: usize) -> u32 {
        let local = self.scx.dsqs.local(cpu).iter();
        let tasks: Vec<TaskPtr> = local.map(|queued| queued.task).collect();
        for &task in &tasks {
            self.remove(task);
        }
        for &task in &tasks {
            self.give_back(task, abi::TASK_REENQ_KFUNC);
        }
        tasks.len() as u32
    }

    /// `run_deferred()`: carries out the pending reenqueues.
    #[cold]
    #[inline(never)]
    pub fn run_reenqueues(&mut self) {
        while let Some((on, flags)) = self.scx.reenqueues.0.pop_front() {
            if self.failure.is_some() {
                return;
            }
            match on.cpu() {
                Some(cpu) => self.reenqueue_some(cpu, flags),
                None => self.reenqueue_user(on),
            }
        }
    }

    /// `reenq_local()`.
    fn reenqueue_some(&mut self, cpu: usize, flags: u64) {
        let open = self.is_open(cpu, 0);
        let mut tasks = Vec::new();
        for (index, queued) in self.scx.dsqs.local(cpu).iter().enumerate() {
            let task = queued.task;
            if task.immed.get() && (index > 0 || !open) {
                tasks.push((task, abi::TASK_REENQ_IMMED));
            } else if flags & abi::REENQ_ANY != 0 {
                tasks.push((task, abi::TASK_REENQ_KFUNC));
            }
        }
        for &(task, reason) in &tasks {
            self.scx.events.reenq_immed += i64::from(reason == abi::TASK_REENQ_IMMED);
            self.remove(task);
        }
        for (task, reason) in tasks {
            self.give_back(task, reason);
        }
    }

    /// `reenq_user()`: reenqueues the tasks that are queued when the call begins.
    fn reenqueue_user(&mut self, on: OnDsq) {
        let tasks: Vec<TaskPtr> = {
            let dsq = self.scx.dsqs.get(on).iter();
            dsq.map(|queued| queued.task).collect()
        };
        for task in tasks {
            if task.dsq.get() == on {
                self.remove(task);
                self.give_back(task, abi::TASK_REENQ_KFUNC);
            }
        }
    }

    /// Reenqueues a task that is on no queue; `reason` is one of `SCX_TASK_REENQ_*`.
    pub fn give_back(&mut self, task: TaskPtr, reason: u32) {
        if self.scx.is_7_3() {
            let count = task.reenq_count.get() + 1;
            task.reenq_count.set(count);
            self.scx.events.reenq_repeat += i64::from(count > 1);
            if count > MAX_REPEAT {
                return self.scheduler_exit(
                    abi::EXIT_ERROR_REENQ,
                    0,
                    format!("{} reenqueued {count} times without running", task.label()),
                );
            }
            task.abi.scx.flags.update(|flags| flags | reason);
        }
        self.do_enqueue(task, abi::ENQ_REENQ);
        task.abi
            .scx
            .flags
            .update(|flags| flags & !abi::TASK_REENQ_REASON_MASK);
    }

    /// `rq_is_open()`: can a task of the local queue of `cpu` run immediately?
    pub fn is_open(&self, cpu: usize, enq_flags: u64) -> bool {
        if !self.cpus[cpu].dl.is_empty() || !self.cpus[cpu].rt.is_empty() {
            return false;
        }
        match self.cpus[cpu].curr {
            None => true,
            Some(curr) if curr.class.get() != Class::Ext => false,
            Some(_) => self.scx.rqs[cpu].in_balance || enq_flags & abi::ENQ_PREEMPT != 0,
        }
    }

    /// `wakeup_preempt_scx()`: a task of a higher class wakes on `cpu`, so IMMED tasks go back to the scheduler.
    #[inline]
    pub fn higher_class_woken(&mut self, cpu: usize) {
        if self.scx.rqs[cpu].nr_immed > 0 {
            self.scx.reenqueues.ask(OnDsq::local(cpu), 0);
        }
    }
}
