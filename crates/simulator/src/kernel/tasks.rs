//! Creation, exit and changes of tasks: fork, exit, affinity, control group and policy.

use crate::Event;
use crate::abi::{cgroup, layout as abi};
use crate::kernel::Kernel;
use crate::kernel::task::{Class, Continuation, Task, TaskPtr};
use crate::kernel::wakeups::Wakeup;
use machine::CpuMask;
use std::ptr::null;
use workload::{GroupId, SchedPolicy, TaskSpec};

impl Kernel<'_> {
    /// Creates a task, which is on no runqueue yet (`copy_process()`). An affinity without a CPU of the machine, or a
    /// deadline policy that is refused, ends the run. A kernel thread has no `mm`.
    pub fn new_task(
        &mut self,
        spec: TaskSpec,
        parent: Option<TaskPtr>,
        cpu: usize,
        kernel_thread: bool,
    ) -> TaskPtr {
        let all = self.machine.all_cpus();
        let inherited = parent.map_or(all, |parent| parent.abi.cpus_mask.get());
        let mask = spec.affinity.map_or(inherited, |mask| mask.and(&all));
        let task = Task::new(spec, parent, cpu, self.now());
        task.set_group(match parent {
            Some(parent) => parent.abi.cgroups.get(),
            None => self.bpf.groups.css_set(None),
        });
        let task = self.tasks.add(task);
        if kernel_thread {
            task.abi.flags.update(|flags| flags | abi::PF_KTHREAD);
            task.abi.mm.set(null());
        }
        if mask.is_empty() {
            self.task_error(task, "expected an affinity that has a CPU of the machine");
        }
        self.set_allowed(task, if mask.is_empty() { all } else { mask });
        self.alive += 1;
        if let Err(refused) = self.admit_dl(task, task.policy.get()) {
            self.task_error(task, refused);
        }
        self.init_task(task, parent.is_some());
        if task.class.get() == Class::Ext {
            self.enable_task(task);
        }
        if task.abi.cpus_mask.get() != all {
            self.trace_affinity(cpu, task);
        }
        let is_usual = task.abi.cgroups.get() == self.bpf.groups.css_set(None);
        if !is_usual || task.policy.get() == SchedPolicy::Idle {
            self.trace_weight(cpu, task);
        }
        task
    }

    /// Lets `task`, which is on no runqueue, run on the CPUs of `mask`.
    fn set_allowed(&mut self, task: TaskPtr, mask: CpuMask) {
        task.set_allowed(mask);
        task.group.set(self.waste.group(&mask));
    }

    /// Lets `task` run everywhere from now on, because none of the CPUs that it may use is online.
    #[cold]
    pub fn break_affinity(&mut self, task: TaskPtr) {
        let queued = task.on_rq.get();
        if queued {
            self.deactivate(task, abi::DEQ_SAVE);
        }
        self.set_allowed(task, self.machine.all_cpus());
        self.affinity_changed(task);
        if queued {
            self.activate(task, abi::ENQ_RESTORE);
        }
        self.trace_affinity(self.this_cpu(), task);
    }

    fn trace_affinity(&mut self, cpu: usize, task: TaskPtr) {
        if self.trace.is_some() {
            let event = Event::Affinity {
                task: (&task.name, task.pid()),
                cpus: &task.abi.cpus_mask.get().to_bytes(),
            };
            self.traced(cpu, event);
        }
    }

    fn trace_weight(&mut self, cpu: usize, task: TaskPtr) {
        if self.trace.is_none() {
            return;
        }
        let set = task.abi.cgroups.get();
        let path = cgroup::path(self.bpf.groups.of(set));
        let (group_weight, product) = self.bpf.groups.weight(set);
        let event = Event::Weight {
            task: (&task.name, task.pid()),
            prio: task.abi.prio.get(),
            idle: task.policy.get() == SchedPolicy::Idle,
            group: &path.to_string_lossy(),
            group_weight,
            product,
        };
        self.traced(cpu, event);
    }

    /// `fork(2)` by `parent` on `cpu`, and the child's first wakeup.
    pub fn fork(&mut self, cpu: usize, parent: TaskPtr, spec: TaskSpec) {
        self.counters.forks += 1;
        parent.children.update(|n| n + 1);
        let child = self.new_task(spec, Some(parent), cpu, false);
        self.traced(
            cpu,
            Event::Fork {
                parent: (&parent.name, parent.pid()),
                child: (&child.name, child.pid()),
            },
        );
        child.abi.state.set(abi::TASK_RUNNING);
        let (target, selected) = self.select_task_rq(child, cpu, abi::WAKE_FORK);
        child.abi.thread_info.cpu.set(target as u32);
        child.ran_on.set(target as u32);
        self.activate(child, selected);
        self.check_preempt(child);
        self.woken(cpu, child, true);
    }

    /// The exit of the task that runs on `cpu`, up to its last switch.
    pub fn exit(&mut self, cpu: usize, task: TaskPtr) {
        task.abi.flags.update(|flags| flags | abi::PF_EXITING);
        if self.trace.is_some() {
            self.traced(
                cpu,
                Event::Exit {
                    task: (&task.name, task.pid()),
                    prio: task.abi.prio.get(),
                },
            );
        }
        if let Some(parent) = task.parent {
            parent.children.update(|n| n - 1);
            match parent.continuation.get() {
                Continuation::Join if parent.children.get() == 0 => {
                    self.wake(parent, Wakeup::ThreadExit);
                }
                Continuation::WaitChildren => self.wake(parent, Wakeup::ChildExit),
                _ => {}
            }
        }
        task.abi.state.set(abi::TASK_DEAD);
        self.cpus[cpu].need_resched = true;
    }

    /// Cleans up after the last switch away from an exiting task.
    pub fn reap(&mut self, task: TaskPtr) {
        task.exited.set(true);
        self.exit_dl(task);
        self.alive -= 1;
        self.exit_task(task);
        task.abi.release_storage();
    }

    /// Takes the current task, which must be runnable, off its runqueue, changes the task and puts it back. The task
    /// continues to run. (`__do_set_cpus_allowed()`, `__sched_setscheduler()`.)
    pub fn change(&mut self, cpu: usize, task: TaskPtr, change: impl FnOnce(&mut Self, TaskPtr)) {
        self.deactivate(task, abi::DEQ_SAVE);
        change(self, task);
        task.on_rq.set(true);
        task.abi.on_rq.set(1);
        self.runnable += 1;
        if task.group.get() != 0 {
            self.waste.add(task.group.get());
        }
        task.abi.se.exec_start.set(self.rq(cpu).clock_task);
        match task.class.get() {
            Class::Dl => self.restore_dl(cpu, task),
            Class::Rt => self.restore_rt(cpu, task),
            Class::Ext => self.restore_ext(cpu, task),
        }
        self.cpus[cpu].need_resched = true;
    }

    /// Queues the task that runs on `cpu`, which its affinity no longer allows, on the CPU `to`
    /// (`migration_cpu_stop()`).
    fn push_current(&mut self, cpu: usize, task: TaskPtr, to: usize) {
        match task.class.get() {
            // admit_dl() and set_affinity() make sure that deadline tasks may run anywhere.
            Class::Dl => unreachable!("a deadline task may run on all CPUs"),
            Class::Rt => self.push_rt(cpu, task, to),
            Class::Ext => self.push_ext(cpu, task, to),
        }
        self.switch(cpu, Some(task), None, true);
        self.check_preempt(task);
    }

    /// `sched_setaffinity(2)` by the task that runs on `cpu`.
    pub fn set_affinity(&mut self, cpu: usize, task: TaskPtr, mask: CpuMask) {
        let mask = mask.and(&self.machine.all_cpus());
        if mask.is_empty() {
            return self.task_error(
                task,
                "sched_setaffinity(): EINVAL: the mask has no CPU of the machine",
            );
        }
        let online = self.hotplug.online;
        // Linux distributes the tasks over their new CPUs, and counts also those that may stay where they are.
        let Some(to) = self.scx.idle_masks.any_distribute(cpu, &online, &mask) else {
            let message = format!("sched_setaffinity(): EINVAL: none of CPUs {mask} is online");
            return self.task_error(task, message);
        };
        if task.class.get() == Class::Dl && mask != self.machine.all_cpus() {
            return self.task_error(
                task,
                "sched_setaffinity(): EBUSY: a deadline task must be allowed on all CPUs",
            );
        }
        self.change(cpu, task, |kernel, task| {
            kernel.set_allowed(task, mask);
            kernel.affinity_changed(task);
        });
        if !mask.contains(cpu) {
            self.push_current(cpu, task, to);
        }
        self.trace_affinity(cpu, task);
    }

    /// Moves the task that runs on `cpu` to the control group `group`, as `cgroup_attach_task()` does.
    pub fn enter_group(&mut self, cpu: usize, task: TaskPtr, group: Option<GroupId>) {
        let from = self.bpf.groups.of(task.abi.cgroups.get());
        let css_set = self.bpf.groups.css_set(group);
        let to = self.bpf.groups.of(css_set);
        if from == to {
            return;
        }
        let refused = self.prep_move(task, from, to);
        if refused != 0 {
            let message = format!("cgroup.procs: ops.cgroup_prep_move() failed ({refused})");
            return self.task_error(task, message);
        }
        self.change(cpu, task, |kernel, task| {
            task.set_group(css_set);
            kernel.moved(task, from, to);
        });
        self.trace_weight(cpu, task);
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
            task.set_policy(policy);
            // `__setscheduler_params()` tells the old class.
            if was == Class::Ext {
                kernel.weight_changed(task);
            }
            match (was, task.class.get()) {
                (Class::Ext, Class::Ext) => {}
                (Class::Ext, _) => kernel.disable_task(task),
                (_, Class::Ext) => kernel.switching_to_ext(task),
                (_, _) => {}
            }
        });
        self.trace_weight(cpu, task);
    }
}
