//! Waking tasks: the choice of the CPU, enqueueing, and preemption.

use crate::Event;
use crate::abi::layout as abi;
use crate::events::What;
use crate::kernel::Kernel;
use crate::kernel::syscalls::TIMER;
use crate::kernel::task::{Class, TaskPtr};
use crate::kernel::wakeups::Wakeup;

impl Kernel<'_> {
    /// `try_to_wake_up()`, by code on the current CPU.
    pub fn wake(&mut self, task: TaskPtr, wakeup: Wakeup) {
        if task.on_rq.get() || task.abi.state.get() == abi::TASK_RUNNING {
            return;
        }
        let this = self.this_cpu();
        self.counters.wakeups += 1;
        task.abi.state.set(abi::TASK_RUNNING);
        task.woken_at.set(self.now());
        let (cpu, selected) =
            self.select_task_rq(task, task.cpu(), wakeup.flags() | abi::WAKE_TTWU);
        self.set_task_cpu(task, cpu);
        self.charge(this, self.cpus[this].costs.wakeup_ns);
        self.activate(task, abi::ENQ_WAKEUP | selected);
        self.check_preempt(task);
        if self.waste.nr_idle > 0 && self.has_slow_cpus() {
            self.count_slow_wakeup(task);
        }
        if self.trace.is_some() {
            self.trace_waker(this, task);
        }
        self.woken(this, task, false);
    }

    #[inline]
    pub fn woken(&mut self, cpu: usize, task: TaskPtr, new: bool) {
        task.waits_since.set(self.now());
        if self.trace.is_some() {
            self.trace_wakeup(cpu, task, new);
        }
    }

    #[cold]
    fn trace_waker(&mut self, cpu: usize, task: TaskPtr) {
        let interrupts = task.waits_for.get() == TIMER || self.softirqs.in_interrupt(cpu);
        let by = self.cpus[cpu].curr.filter(|_| !interrupts);
        let event = Event::Waker {
            task: (&task.name, task.pid()),
            by: by.as_ref().map(|by| (&*by.name, by.pid())),
        };
        self.traced(cpu, event);
    }

    #[cold]
    fn trace_wakeup(&mut self, cpu: usize, task: TaskPtr, new: bool) {
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

    /// The CPU for a waking or new task, and the enqueue flag that says whether the task's class was asked for one.
    #[inline]
    pub fn select_task_rq(&mut self, task: TaskPtr, prev: usize, wake_flags: u64) -> (usize, u64) {
        if task.abi.nr_cpus_allowed.get() == 1 {
            let only = task.abi.cpus_mask.get().first().unwrap_or(prev);
            return match self.hotplug.online.contains(only) {
                true => (only, 0),
                false => (self.fallback_cpu(task, prev), 0),
            };
        }
        let cpu = match task.class.get() {
            Class::Ext => self.select_cpu_ext(task, prev, wake_flags),
            Class::Rt => self.select_cpu_rt(task, prev),
            Class::Dl => self.select_cpu_dl(task, prev),
        };
        let allowed = cpu < self.cpus.len() && task.abi.is_allowed(cpu);
        match allowed && self.hotplug.online.contains(cpu) {
            true => (cpu, abi::ENQ_CPU_SELECTED),
            false => {
                self.scx.events.select_cpu_fallback += i64::from(task.class.get() == Class::Ext);
                (self.fallback_cpu(task, prev), abi::ENQ_CPU_SELECTED)
            }
        }
    }

    /// Moves a task that is on no runqueue to `cpu`.
    #[inline]
    pub fn set_task_cpu(&mut self, task: TaskPtr, cpu: usize) {
        let from = task.cpu();
        if from != cpu {
            self.move_task(task, from, cpu);
        }
    }

    #[inline(never)]
    fn move_task(&mut self, task: TaskPtr, from: usize, cpu: usize) {
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
        if task.group.get() != 0 {
            self.waste.add(task.group.get());
        }
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
        if task.group.get() != 0 {
            self.waste.remove(task.group.get());
        }
        match task.class.get() {
            Class::Dl => self.dequeue_dl(task, flags & abi::DEQ_SLEEP != 0),
            Class::Rt => self.dequeue_rt(task),
            Class::Ext => self.dequeue_ext(task, flags),
        }
    }

    /// `wakeup_preempt()`: makes the CPU of `task` reschedule if `task` preempts the CPU's running task.
    #[inline]
    pub fn check_preempt(&mut self, task: TaskPtr) {
        let cpu = task.cpu();
        if task.class.get() != Class::Ext {
            self.higher_class_woken(cpu);
        }
        let preempts = match self.cpus[cpu].curr {
            None => true,
            Some(curr) => match (task.class.get(), curr.class.get()) {
                // A throttled task runs only after its timer has expired.
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

    /// `resched_curr()`: makes `cpu` reschedule, at once if the call comes from code on that CPU, otherwise after an
    /// IPI (and the exit from its idle state).
    pub fn resched(&mut self, cpu: usize) {
        if self.cpus[cpu].need_resched {
            return;
        }
        self.cpus[cpu].need_resched = true;
        if self.waste.nr_stuck > 0 {
            self.unstick(cpu);
        }
        let this = self.this_cpu();
        if this == cpu {
            return;
        }
        if self.cpus[cpu].idles_at.is_some() {
            // The CPU notices `need_resched` itself before it idles.
            return;
        }
        let costs = &self.cpus[this].costs;
        let near = self.cpus[this].cache == self.cpus[cpu].cache;
        let mut delay = if near {
            costs.ipi_near_ns
        } else {
            costs.ipi_far_ns
        };
        if self.cpus[cpu].curr.is_none() {
            delay += self.idle_exit_ns(cpu);
        }
        let at = self.now() + self.spent() + delay;
        self.events.push(at, What::Resched { cpu: cpu as u32 });
    }
}
