//! The scheduler core, above the classes: waking tasks, switching between them, and changing what they
//! may do.

use crate::Event;
use crate::abi::layout as abi;
use crate::abi::structs::{DEFAULT_PRIO, SWAPPER};
use crate::events::What;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, TaskPtr};
use crate::kernel::tasks::set_policy;
use machine::{CACHE_LINE, CpuMask};
use workload::SchedPolicy;

impl Kernel<'_> {
    /// `try_to_wake_up()`, by code on the current CPU.
    pub fn wake(&mut self, task: TaskPtr, wake_flags: u64) {
        if task.on_rq.get() || task.abi.state.get() == abi::TASK_RUNNING {
            return;
        }
        let this = self.this_cpu();
        self.counters.wakeups += 1;
        task.abi.state.set(abi::TASK_RUNNING);
        task.woken_at.set(self.now());
        let (cpu, selected) = self.select_task_rq(task, task.cpu(), wake_flags | abi::WAKE_TTWU);
        self.set_task_cpu(task, cpu);
        self.charge(this, self.cpus[this].costs.wakeup_ns);
        self.activate(task, abi::ENQ_WAKEUP | selected);
        self.check_preempt(task);
        self.woken(this, task, false);
    }

    pub fn woken(&mut self, cpu: usize, task: TaskPtr, new: bool) {
        if self.trace.is_some() {
            let target_cpu = task.cpu();
            self.traced(
                cpu,
                Event::Wakeup {
                    task: (&task.name, task.pid()),
                    prio: task.abi.prio.get(),
                    target_cpu,
                    new,
                },
            );
        }
    }

    /// Where a waking task goes, and the enqueue flag that says whether its class was asked.
    pub fn select_task_rq(&mut self, task: TaskPtr, prev: usize, wake_flags: u64) -> (usize, u64) {
        let allowed = &task.abi.cpus_mask.get();
        if task.abi.nr_cpus_allowed.get() == 1 {
            return (allowed.first().unwrap_or(prev), 0);
        }
        let cpu = match task.class.get() {
            Class::Dl => self.select_cpu_dl(task, prev),
            Class::Rt => self.select_cpu_rt(task, prev),
            Class::Ext => self.select_cpu_ext(task, prev, wake_flags),
        };
        if cpu < self.cpus.len() && allowed.contains(cpu) {
            (cpu, abi::ENQ_CPU_SELECTED)
        } else {
            (allowed.first().unwrap_or(prev), abi::ENQ_CPU_SELECTED)
        }
    }

    /// Moves a task that is on no runqueue.
    pub fn set_task_cpu(&mut self, task: TaskPtr, cpu: usize) {
        let from = task.cpu();
        if from == cpu {
            return;
        }
        self.counters.migrations += 1;
        self.migrate_dl(task, cpu);
        task.abi.thread_info.cpu.set(cpu as u32);
        task.abi.wake_cpu.set(cpu as i32);
        if self.trace.is_some() {
            let this = self.this_cpu();
            self.traced(
                this,
                Event::Migrate {
                    task: (&task.name, task.pid()),
                    prio: task.abi.prio.get(),
                    from,
                    to: cpu,
                },
            );
        }
    }

    /// Puts a runnable task on its CPU's runqueue.
    pub fn activate(&mut self, task: TaskPtr, flags: u64) {
        task.abi.state.set(abi::TASK_RUNNING);
        task.on_rq.set(true);
        task.abi.on_rq.set(1);
        self.runnable += 1;
        match task.class.get() {
            Class::Dl => self.enqueue_dl(task),
            Class::Rt => self.enqueue_rt(task),
            Class::Ext => self.enqueue_ext(task, flags),
        }
    }

    /// Takes a task off its runqueue.
    pub fn deactivate(&mut self, task: TaskPtr, flags: u64) {
        task.on_rq.set(false);
        task.abi.on_rq.set(0);
        self.runnable -= 1;
        match task.class.get() {
            Class::Dl => self.dequeue_dl(task, flags & abi::DEQ_SLEEP != 0),
            Class::Rt => self.dequeue_rt(task),
            Class::Ext => self.dequeue_ext(task, flags),
        }
    }

    /// `wakeup_preempt()`: a task of a higher class than what runs on its CPU preempts it.
    pub fn check_preempt(&mut self, task: TaskPtr) {
        let cpu = task.cpu();
        let preempts = match self.cpus[cpu].curr {
            None => true,
            Some(curr) => match (task.class.get(), curr.class.get()) {
                // A throttled task only wakes up for its timer.
                (Class::Dl, _) if task.dl.get().throttled => false,
                (Class::Dl, Class::Dl) => task.dl.get().deadline < curr.dl.get().deadline,
                (Class::Rt, Class::Rt) => task.abi.prio.get() < curr.abi.prio.get(),
                (task, curr) => task < curr,
            },
        };
        if preempts {
            self.resched(cpu);
        }
    }

    /// `resched_curr()`: `cpu` is to reschedule, now if its own code asks, else when an IPI (and the
    /// idle state) lets it.
    pub fn resched(&mut self, cpu: usize) {
        if self.cpus[cpu].need_resched {
            return;
        }
        self.cpus[cpu].need_resched = true;
        let this = self.this_cpu();
        if this == cpu {
            return;
        }
        if self.cpus[cpu].idles_at.is_some() {
            // It sees for itself, before it idles.
            return;
        }
        let costs = &self.cpus[this].costs;
        let near = self.cpus[this].cluster == self.cpus[cpu].cluster;
        let mut delay = if near {
            costs.ipi_near_ns
        } else {
            costs.ipi_far_ns
        };
        if self.cpus[cpu].curr.is_none() {
            delay += self.cpus[cpu].idle_exit_ns(self.now());
        }
        let at = self.now() + self.spent() + delay;
        self.events.push(at, What::Resched { cpu: cpu as u32 });
    }

    /// `__schedule()` on `cpu`.
    pub fn schedule(&mut self, cpu: usize) {
        self.cpus[cpu].need_resched = false;
        let prev = self.cpus[cpu].curr;
        let mut switched_out_runnable = true;
        if let Some(task) = prev.filter(|task| task.abi.state.get() != abi::TASK_RUNNING) {
            switched_out_runnable = false;
            task.abi.nvcsw.set(task.abi.nvcsw.get() + (1));
            self.deactivate(task, abi::DEQ_SLEEP);
        }
        let next = self.pick_next(cpu, prev);
        if next != prev {
            self.put_prev(cpu, prev, next);
            self.switch(cpu, prev, next, switched_out_runnable);
        } else if next.is_none() {
            self.idle(cpu);
        }
        if let Some(task) = prev.filter(|task| task.abi.state.get() == abi::TASK_DEAD) {
            self.reap(task);
        }
    }

    /// The task to run next: `pick_next_task()`.
    fn pick_next(&mut self, cpu: usize, prev: Option<TaskPtr>) -> Option<TaskPtr> {
        let runnable = prev.filter(|task| task.on_rq.get());
        let rt_prev = runnable.filter(|task| task.class.get() == Class::Rt);
        let dl_prev =
            runnable.filter(|task| task.class.get() == Class::Dl && !task.dl.get().throttled);
        // prev_balance() begins at the class of `prev`, but never below sched_ext.
        let first = prev.map_or(Class::Ext, |task| task.class.get());
        if self.dl.queued > 0 {
            self.pull_dl(cpu);
        }
        let has_dl = dl_prev.is_some() || !self.cpus[cpu].dl.is_empty();
        let has_rt = rt_prev.is_some() || !self.cpus[cpu].rt.is_empty();
        if !(first == Class::Dl && has_dl || first <= Class::Rt && has_rt) {
            if self.rt.queued > 0 && !has_dl {
                self.pull_rt(cpu);
            }
            self.balance_ext(cpu, prev);
        }
        if let Some(task) = self.pick_dl(cpu, dl_prev) {
            return Some(task);
        }
        if let Some(task) = self.pick_rt(cpu, rt_prev) {
            return Some(task);
        }
        self.pick_ext(cpu, prev)
    }

    fn put_prev(&mut self, cpu: usize, prev: Option<TaskPtr>, next: Option<TaskPtr>) {
        match prev {
            None if std::mem::take(&mut self.cpus[cpu].knows_idle) => self.update_idle(cpu, false),
            // It was still looking for something to run, and found it.
            None => {}
            Some(task) => match task.class.get() {
                Class::Dl => self.put_prev_dl(cpu, task),
                Class::Rt => self.put_prev_rt(cpu, task),
                Class::Ext => self.put_prev_ext(cpu, task, next),
            },
        }
    }

    fn switch(
        &mut self,
        cpu: usize,
        prev: Option<TaskPtr>,
        next: Option<TaskPtr>,
        prev_runnable: bool,
    ) {
        let now = self.now();
        self.counters.context_switches += 1;
        if let Some(task) = prev {
            task.abi.on_cpu.set(0);
            task.abi
                .nivcsw
                .set(task.abi.nivcsw.get() + (u64::from(prev_runnable)));
        }
        self.cpus[cpu].curr = next;
        self.meter_switch(cpu, next);
        match next {
            Some(task) => {
                task.abi.on_cpu.set(1);
                self.update_rq_clock(cpu);
                let rq = self.rq(cpu);
                rq.curr = task.abi();
                let clock_task = rq.clock_task;
                self.set_cpu(cpu);
                if prev.is_none() {
                    self.end_idle_irq(cpu);
                    self.share_core(cpu);
                    self.cpus[cpu].busy_since = now;
                    self.start_tick(cpu);
                }
                self.charge_switch(cpu, task);
                task.abi.se.exec_start.set(clock_task);
                match task.class.get() {
                    Class::Dl => self.set_next_dl(cpu, task),
                    Class::Rt => self.set_next_rt(cpu, task),
                    Class::Ext => self.set_next_ext(cpu, task),
                }
            }
            None => {
                let rq = self.rq(cpu);
                rq.curr = rq.idle;
                self.set_cpu(cpu);
                let state = &mut self.cpus[cpu];
                state.debt = 0;
                state.idle_since = now;
                self.counters.busy_ns[cpu] += now - state.busy_since;
                self.share_core(cpu);
                self.idle(cpu);
            }
        }
        self.tp_sched_switch(cpu, prev, next, prev_runnable);
        if self.trace.is_some() {
            let comm = |task: &Option<TaskPtr>| {
                task.map_or((0, DEFAULT_PRIO), |task| (task.pid(), task.abi.prio.get()))
            };
            let ((prev_pid, prev_prio), (next_pid, next_prio)) = (comm(&prev), comm(&next));
            let prev_name = prev.as_ref().map_or(SWAPPER, |task| &task.name);
            let next_name = next.as_ref().map_or(SWAPPER, |task| &task.name);
            self.traced(
                cpu,
                Event::Switch {
                    prev: (prev_name, prev_pid),
                    prev_prio,
                    prev_runnable: prev_runnable || prev.is_none(),
                    next: (next_name, next_pid),
                    next_prio,
                },
            );
        }
    }

    /// What the switch itself costs, and cold caches if the task comes from another CPU.
    fn charge_switch(&mut self, cpu: usize, task: TaskPtr) {
        let costs = self.cpus[cpu].costs;
        let mut cost = costs.context_switch_ns;
        let from = task.ran_on.get() as usize;
        if from != cpu {
            task.ran_on.set(cpu as u32);
            cost += task.footprint / CACHE_LINE * self.refill_ns(from, cpu);
        }
        self.charge(cpu, cost);
    }

    /// Accounts the running task's time: `update_curr_common()`. Returns the time since the last, ns,
    /// without interrupts'.
    #[inline]
    pub fn update_curr(&mut self, cpu: usize, task: TaskPtr) -> u64 {
        self.update_rq_clock(cpu);
        let clock_task = self.rq(cpu).clock_task;
        let entity = &task.abi.se;
        let delta = clock_task - entity.exec_start.get();
        entity.sum_exec_runtime.update(|sum| sum + delta);
        entity.exec_start.set(clock_task);
        delta
    }

    /// Takes the current task, which must be runnable, off its runqueue, changes it and puts it back.
    /// It runs on, unless the CPU is not allowed any more: then it is queued on one that is.
    /// (`__do_set_cpus_allowed()`, `__sched_setscheduler()`, `migration_cpu_stop()`.)
    fn change(&mut self, cpu: usize, task: TaskPtr, change: impl FnOnce(&mut Self, TaskPtr)) {
        self.deactivate(task, abi::DEQ_SAVE);
        change(self, task);
        task.on_rq.set(true);
        task.abi.on_rq.set(1);
        self.runnable += 1;
        task.abi.se.exec_start.set(self.rq(cpu).clock_task);
        match task.class.get() {
            Class::Dl => self.restore_dl(cpu, task),
            Class::Rt => self.restore_rt(cpu, task),
            Class::Ext => self.restore_ext(cpu, task),
        }
        let allowed = task.abi.cpus_mask.get();
        if !allowed.contains(cpu) {
            let to = allowed.first().unwrap_or(cpu);
            match task.class.get() {
                // admit_dl() and set_affinity() see to it that they may run anywhere.
                Class::Dl => unreachable!("a deadline task may run on all CPUs"),
                Class::Rt => self.push_rt(cpu, task, to),
                Class::Ext => self.push_ext(cpu, task, to),
            }
            self.switch(cpu, Some(task), None, true);
            self.check_preempt(task);
        }
        self.cpus[cpu].need_resched = true;
    }

    /// `sched_setaffinity(2)` by the task that runs on `cpu`.
    pub fn set_affinity(&mut self, cpu: usize, task: TaskPtr, mask: CpuMask) {
        let mask = mask.and(&self.machine.all_cpus());
        if mask.is_empty() {
            return self.task_error(task, "sched_setaffinity(): expected a CPU of the machine");
        }
        if task.class.get() == Class::Dl && mask != self.machine.all_cpus() {
            return self.task_error(
                task,
                "sched_setaffinity(): EBUSY: a deadline task must be allowed on all CPUs",
            );
        }
        self.change(cpu, task, |kernel, task| {
            task.abi.cpus_mask.set(mask);
            task.abi.nr_cpus_allowed.set(mask.count() as i32);
            kernel.affinity_changed(task);
        });
    }

    /// `sched_setattr(2)` by the task that runs on `cpu`.
    pub fn change_policy(&mut self, cpu: usize, task: TaskPtr, policy: SchedPolicy) {
        self.change(cpu, task, |kernel, task| {
            let was = task.class.get();
            if was == Class::Ext {
                kernel.update_curr(cpu, task);
            }
            if let Err(refused) = kernel.admit_dl(task, policy) {
                kernel.task_error(task, refused);
                return;
            }
            set_policy(&task, policy);
            match (was, task.class.get()) {
                (Class::Ext, Class::Ext) => kernel.weight_changed(task),
                (Class::Ext, _) => kernel.disable_task(task),
                (_, Class::Ext) => kernel.switching_to_ext(task),
                (_, _) => {}
            }
        });
    }
}
