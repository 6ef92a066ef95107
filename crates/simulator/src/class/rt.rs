//! The real-time class: fixed priorities, and FIFO or round robin among tasks of one priority.

use crate::kernel::Kernel;
use crate::kernel::task::{Class, TaskPtr};
use workload::SchedPolicy;

/// `RR_TIMESLICE`, include/linux/sched/rt.h, in ns.
const RR_TIMESLICE_NS: u64 = 100_000_000;

#[derive(Default)]
pub struct Rt {
    /// The number of tasks that wait for a CPU.
    pub queued: usize,
}

/// Gives a task whose slice is over, or that yielded, its next slice.
fn refill(task: TaskPtr) {
    if task.rr_left.get() == 0 {
        task.rr_left.set(match task.policy.get() {
            SchedPolicy::RoundRobin { .. } => RR_TIMESLICE_NS,
            _ => u64::MAX,
        });
    }
}

impl Kernel<'_> {
    /// Changes the number of runnable tasks of the class on `cpu` by `more`.
    fn count_rt(&mut self, cpu: usize, more: i32) {
        let rq = self.rq(cpu);
        rq.nr_running = rq.nr_running.wrapping_add_signed(more);
        rq.rt.rt_nr_running = rq.rt.rt_nr_running.wrapping_add_signed(more);
        self.load_changed(cpu);
    }

    #[inline(never)]
    pub fn enqueue_rt(&mut self, task: TaskPtr) {
        self.uclamp.add(task);
        self.count_rt(task.cpu(), 1);
        self.queue_rt(task, false);
    }

    /// Accounts the running time of `task`, which stops running, and queues it if it is runnable: ahead of tasks of
    /// equal priority if it was preempted, behind them if its slice is over or it yielded.
    #[inline(never)]
    pub fn put_prev_rt(&mut self, cpu: usize, task: TaskPtr) {
        self.update_curr(cpu, task);
        if task.on_rq.get() {
            self.queue_rt(task, task.rr_left.get() != 0);
        }
    }

    fn queue_rt(&mut self, task: TaskPtr, head: bool) {
        let cpu = task.cpu();
        let prio = task.abi.prio.get();
        let queue = &mut self.cpus[cpu].rt;
        let index = queue.partition_point(|other| {
            if head {
                other.abi.prio.get() < prio
            } else {
                other.abi.prio.get() <= prio
            }
        });
        queue.insert(index, task);
        self.rt.queued += 1;
    }

    /// `dequeue_task_rt()`: the task sleeps, or is dequeued to be changed or moved.
    #[inline(never)]
    pub fn dequeue_rt(&mut self, task: TaskPtr) {
        let cpu = task.cpu();
        if self.cpus[cpu].curr == Some(task) {
            self.update_curr(cpu, task);
        }
        self.uclamp.remove(task);
        self.count_rt(cpu, -1);
        self.unqueue_rt(cpu, task);
    }

    fn unqueue_rt(&mut self, cpu: usize, task: TaskPtr) {
        if let Some(index) = self.cpus[cpu].rt.iter().position(|&other| other == task) {
            self.cpus[cpu].rt.remove(index);
            self.rt.queued -= 1;
        }
    }

    /// The most urgent of the queued tasks and `prev`, the runnable RT task that ran.
    #[inline(never)]
    pub fn pick_rt(&mut self, cpu: usize, prev: Option<TaskPtr>) -> Option<TaskPtr> {
        let head = self.cpus[cpu].rt.front().copied();
        match (head, prev) {
            (Some(head), Some(prev)) if head.abi.prio.get() < prev.abi.prio.get() => Some(head),
            // Round robin: the next task of the same priority runs.
            (Some(head), Some(prev))
                if head.abi.prio.get() == prev.abi.prio.get() && prev.rr_left.get() == 0 =>
            {
                Some(head)
            }
            (_, Some(prev)) => {
                refill(prev);
                Some(prev)
            }
            (head, None) => head,
        }
    }

    /// Puts back the task that runs on `cpu` and was dequeued to be changed.
    pub fn restore_rt(&mut self, cpu: usize, task: TaskPtr) {
        self.uclamp.add(task);
        self.count_rt(cpu, 1);
        task.rr_left.set(0);
        refill(task);
    }

    /// Moves the task that runs on `cpu`, which its affinity no longer allows, to another runqueue.
    pub fn push_rt(&mut self, cpu: usize, task: TaskPtr, to: usize) {
        self.update_curr(cpu, task);
        self.uclamp.remove(task);
        self.count_rt(cpu, -1);
        self.set_task_cpu(task, to);
        self.enqueue_rt(task);
    }

    #[inline(never)]
    pub fn set_next_rt(&mut self, cpu: usize, task: TaskPtr) {
        self.unqueue_rt(cpu, task);
        refill(task);
    }

    /// `push_rt_tasks()`: after a switch to a task of the class, sends the tasks that wait on `cpu` to CPUs whose tasks
    /// are less urgent.
    pub fn push_rt_tasks(&mut self, cpu: usize) {
        let pushable = |task: &TaskPtr| task.abi.nr_cpus_allowed.get() > 1;
        while let Some(task) = self.cpus[cpu].rt.iter().copied().find(pushable)
            && let Some(to) = self.find_lowest_rq(task, cpu)
        {
            self.dequeue_rt(task);
            self.set_task_cpu(task, to);
            self.enqueue_rt(task);
            self.check_preempt(task);
        }
    }

    #[inline(never)]
    pub fn tick_rt(&mut self, cpu: usize, task: TaskPtr) {
        self.update_curr(cpu, task);
        if task.rr_left.get() == u64::MAX {
            return;
        }
        task.rr_left
            .set(task.rr_left.get().saturating_sub(self.tick_ns));
        if task.rr_left.get() == 0 {
            if self.cpus[cpu]
                .rt
                .front()
                .is_some_and(|head| head.abi.prio.get() <= task.abi.prio.get())
            {
                self.cpus[cpu].need_resched = true;
            } else {
                task.rr_left.set(RR_TIMESLICE_NS);
            }
        }
    }

    /// `select_task_rq_rt()`: the task's last CPU; if that is forbidden, or a task that is at least as urgent runs
    /// there, the CPU with the least urgent task.
    #[inline(never)]
    pub fn select_cpu_rt(&mut self, task: TaskPtr, prev: usize) -> usize {
        let allowed = &task.abi.cpus_mask.get().and(&self.hotplug.online);
        if allowed.contains(prev) && self.running_prio(prev) > task.abi.prio.get() {
            return prev;
        }
        self.find_lowest_rq(task, prev).unwrap_or(prev)
    }

    /// The priority of the task that runs on `cpu`; a task below the class counts as one of the least priority, and an
    /// idle CPU as less.
    fn running_prio(&self, cpu: usize) -> i32 {
        match self.cpus[cpu].curr {
            Some(curr) if curr.class.get() <= Class::Rt => curr.abi.prio.get(),
            Some(_) => i32::MAX - 1,
            None => i32::MAX,
        }
    }

    /// `find_lowest_rq()`: the allowed CPU whose most urgent task, which runs or waits there, is the least urgent, if
    /// that task is less urgent than `task`.
    fn find_lowest_rq(&self, task: TaskPtr, prev: usize) -> Option<usize> {
        let highest = |cpu: usize| {
            let state = &self.cpus[cpu];
            let waiting = state.dl.front().or(state.rt.front());
            let waiting = waiting.map_or(i32::MAX, |task| task.abi.prio.get());
            self.running_prio(cpu).min(waiting)
        };
        let this = self.this_cpu();
        let allowed = &task.abi.cpus_mask.get().and(&self.hotplug.online);
        allowed
            .iter()
            .max_by_key(|&cpu| {
                (
                    highest(cpu),
                    cpu == prev,
                    cpu == this,
                    self.cpus[cpu].cache == self.cpus[prev].cache,
                )
            })
            .filter(|&cpu| highest(cpu) > task.abi.prio.get())
    }

    /// `pull_rt_task()`: pulls the most urgent waiting task that may run here, if that task is more urgent than the RT
    /// tasks that wait here.
    #[inline(never)]
    pub fn pull_rt(&mut self, cpu: usize) {
        let own = self.cpus[cpu]
            .rt
            .front()
            .map_or(i32::MAX, |task| task.abi.prio.get());
        let candidate = (0..self.cpus.len())
            .filter(|&other| other != cpu)
            .flat_map(|other| self.cpus[other].rt.iter().copied())
            .filter(|task| task.abi.is_allowed(cpu) && task.abi.prio.get() < own)
            .min_by_key(|task| task.abi.prio.get());
        if let Some(task) = candidate {
            self.dequeue_rt(task);
            self.set_task_cpu(task, cpu);
            self.enqueue_rt(task);
        }
    }
}
