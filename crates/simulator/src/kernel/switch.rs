//! Switching between tasks: the choice of the next task, and the costs of the switch.

use crate::Event;
use crate::abi::layout as abi;
use crate::abi::structs::{DEFAULT_PRIO, SWAPPER};
use crate::events::What;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, TaskPtr};
use crate::scx::tracepoints;
use machine::CACHE_LINE;

impl Kernel<'_> {
    /// `__schedule()` on `cpu`.
    pub fn schedule(&mut self, cpu: usize) {
        self.cpus[cpu].need_resched = false;
        let prev = self.cpus[cpu].curr;
        let mut switched_out_runnable = true;
        if let Some(task) = prev.filter(|task| task.abi.state.get() != abi::TASK_RUNNING) {
            switched_out_runnable = false;
            task.abi.nvcsw.update(|n| n + 1);
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

    /// The next task: `pick_next_task()`.
    fn pick_next(&mut self, cpu: usize, prev: Option<TaskPtr>) -> Option<TaskPtr> {
        // prev_balance() begins at the class of `prev`, but never below sched_ext.
        let first = prev.map_or(Class::Ext, |task| task.class.get());
        if first == Class::Ext && self.dl.queued == 0 && self.rt.queued == 0 {
            self.balance_ext(cpu, prev);
            let task = self.pick_ext(cpu, prev);
            if task.is_none() && self.cpus[cpu].server.deadline().is_some() {
                self.server_stop(cpu);
            }
            return task;
        }
        let runnable = prev.filter(|task| task.on_rq.get());
        let rt_prev = runnable.filter(|task| task.class.get() == Class::Rt);
        let dl_prev =
            runnable.filter(|task| task.class.get() == Class::Dl && !task.dl.get().throttled);
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
        let dl = self.pick_dl(cpu, dl_prev);
        let server = self.cpus[cpu].server.deadline();
        let first = |deadline: &u64| dl.is_none_or(|task| *deadline < task.dl.get().deadline);
        if server.filter(first).is_some()
            && let Some(task) = self.pick_server(cpu, prev)
        {
            return Some(task);
        }
        if let Some(task) = dl {
            return Some(task);
        }
        if let Some(task) = self.pick_rt(cpu, rt_prev) {
            return Some(task);
        }
        self.pick_ext(cpu, prev)
    }

    #[inline(always)]
    pub fn put_prev(&mut self, cpu: usize, prev: Option<TaskPtr>, next: Option<TaskPtr>) {
        match prev {
            None if std::mem::take(&mut self.cpus[cpu].knows_idle) => self.update_idle(cpu, false),
            // The CPU was still searching for a task to run, and has found this task.
            None => {}
            Some(task) => match task.class.get() {
                Class::Dl => self.put_prev_dl(cpu, task),
                Class::Rt => self.put_prev_rt(cpu, task),
                Class::Ext => self.put_prev_ext(cpu, task, next),
            },
        }
    }

    pub fn switch(
        &mut self,
        cpu: usize,
        prev: Option<TaskPtr>,
        next: Option<TaskPtr>,
        prev_runnable: bool,
    ) {
        self.counters.context_switches += 1;
        if let Some(task) = prev {
            task.abi.on_cpu.set(0);
            task.abi.nivcsw.update(|n| n + u64::from(prev_runnable));
            task.waits_since.set(self.now());
        }
        self.cpus[cpu].curr = next;
        self.meter_switch(cpu, next);
        match next {
            Some(task) => {
                task.abi.on_cpu.set(1);
                let waited = self.now() - task.waits_since.get();
                task.longest_wait.update(|longest| longest.max(waited));
                let clock_task = self.update_rq_clock(cpu);
                self.rq(cpu).curr = task.abi();
                self.set_cpu(cpu);
                if prev.is_none() {
                    self.end_idle(cpu);
                }
                self.charge_switch(cpu, task);
                task.abi.se.exec_start.set(clock_task);
                match task.class.get() {
                    Class::Dl => self.set_next_dl(cpu, task),
                    Class::Rt => self.set_next_rt(cpu, task),
                    Class::Ext => self.set_next_ext(cpu, task),
                }
            }
            None => self.switch_to_idle(cpu),
        }
        tracepoints::sched_switch(self, cpu, prev, next, prev_runnable);
        if self.trace.is_some() {
            self.trace_switch(cpu, prev, next, prev_runnable);
        }
        if self.rt.queued > 0 && next.is_some_and(|task| task.class.get() == Class::Rt) {
            self.push_rt_tasks(cpu);
        }
    }

    #[cold]
    fn trace_switch(
        &mut self,
        cpu: usize,
        prev: Option<TaskPtr>,
        next: Option<TaskPtr>,
        prev_runnable: bool,
    ) {
        let comm = |task: &Option<TaskPtr>| {
            task.map_or((0, DEFAULT_PRIO), |task| (task.pid(), task.abi.prio.get()))
        };
        let ((prev_pid, prev_prio), (next_pid, next_prio)) = (comm(&prev), comm(&next));
        let prev_name = prev.as_ref().map_or(SWAPPER, |task| &task.name);
        if let Some(task) = prev.filter(|task| prev_runnable && task.continuation.get().polls()) {
            let since = task.polls_since.get();
            let task = (prev_name, prev_pid);
            self.traced(cpu, Event::Polls { task, since });
        }
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

    /// Ends the idle period of `cpu`, which gets a task.
    #[inline(never)]
    fn end_idle(&mut self, cpu: usize) {
        let now = self.now();
        let (since, tick_ns) = (self.cpus[cpu].idle_since, self.tick_ns);
        self.hw.idle_states.left(cpu, since, now, tick_ns);
        self.waste.begin_load(cpu, now);
        self.end_idle_irq(cpu);
        self.server_idled(cpu);
        self.share_core(cpu);
        self.cpus[cpu].busy_since = self.now();
        self.start_tick(cpu);
    }

    #[inline(never)]
    fn switch_to_idle(&mut self, cpu: usize) {
        let now = self.now();
        let rq = self.rq(cpu);
        rq.curr = rq.idle;
        self.set_cpu(cpu);
        let state = &mut self.cpus[cpu];
        state.debt = 0;
        state.idle_since = now;
        state.busy_ns += now - state.busy_since;
        self.server_idles(cpu);
        self.share_core(cpu);
        if self.rq(cpu).nr_running == 0 {
            self.idles(cpu, false);
        }
        self.idle(cpu);
    }

    /// Lets `cpu`, which has nothing to run, idle at the end of its search for a task.
    fn idle(&mut self, cpu: usize) {
        let ns = self.take_spent();
        if ns == 0 {
            return self.begin_idle(cpu);
        }
        self.cpus[cpu].idles_at = Some(self.now());
        self.share_core(cpu);
        let ns = self.hw.cores.shared(ns);
        let at = self.now() + ns;
        let state = &mut self.cpus[cpu];
        state.busy_ns += ns;
        state.overhead_ns += ns;
        state.idles_at = Some(at);
        self.events.push(at, What::Idle { cpu: cpu as u32 });
    }

    /// Ends the search of `cpu` for a task to run. The CPU idles if there is still none.
    pub fn search_done(&mut self, cpu: usize) {
        self.cpus[cpu].idles_at = None;
        self.set_cpu(cpu);
        if !self.cpus[cpu].need_resched {
            self.cpus[cpu].idle_since = self.now();
            self.share_core(cpu);
            self.begin_idle(cpu);
        }
        self.leave(cpu);
    }

    /// Notifies the scheduler that `cpu` is idle. If the scheduler already knows, because the CPU
    /// was woken for nothing, only the built-in idle masks are updated.
    fn begin_idle(&mut self, cpu: usize) {
        self.hw.idle_states.enter(cpu);
        if !self.cpus[cpu].need_resched && self.rq(cpu).nr_running > 0 {
            self.idles(cpu, true);
        }
        if self.cpus[cpu].knows_idle {
            return self.set_idle_mask(cpu, true);
        }
        self.cpus[cpu].knows_idle = true;
        self.update_idle(cpu, true);
    }

    /// Charges the cost of the switch itself, and of cold caches if the task comes from another CPU.
    fn charge_switch(&mut self, cpu: usize, task: TaskPtr) {
        let costs = self.cpus[cpu].costs;
        let mut cost = costs.context_switch_ns;
        if self.callbacks.is_some() {
            // The cost of a switch was measured under the fair class, in whose place sched_ext runs here.
            cost = (cost + costs.ext_class_ns).saturating_sub(costs.fair_class_ns);
        }
        let from = task.ran_on.get() as usize;
        if from != cpu {
            task.ran_on.set(cpu as u32);
            cost += task.footprint / CACHE_LINE * self.refill_ns(from, cpu);
        }
        self.charge(cpu, cost);
    }

    /// Accounts the running task's time: `update_curr_common()`. Returns the time since the last call by `clock_task`,
    /// in ns.
    #[inline(always)]
    pub fn update_curr(&mut self, cpu: usize, task: TaskPtr) -> u64 {
        let clock_task = self.update_rq_clock(cpu);
        let entity = &task.abi.se;
        let delta = clock_task - entity.exec_start.get();
        entity.sum_exec_runtime.update(|sum| sum + delta);
        entity.exec_start.set(clock_task);
        if self.groups_have_limits {
            let (set, now) = (task.abi.cgroups.get(), self.now());
            self.bpf.groups.charge(set, now, delta);
        }
        delta
    }

    /// The CPU time that `task` has had until now, in ns, including the time since the last [`Kernel::update_curr`].
    pub fn cpu_time(&mut self, task: TaskPtr) -> u64 {
        let (cpu, entity) = (task.cpu(), &task.abi.se);
        let since = match self.cpus[cpu].curr == Some(task) {
            true => self.update_rq_clock(cpu) - entity.exec_start.get(),
            false => 0,
        };
        entity.sum_exec_runtime.get() + since
    }
}
