//! Tasks come and go, and change: fork and exit, affinity and policy.

use crate::Event;
use crate::abi::layout::{self as abi, TaskStruct};
use crate::abi::structs::DEFAULT_PRIO;

use crate::kernel::Kernel;
use crate::kernel::task::{Class, Continuation, OnDsq, OpsState, Task, TaskPtr};
use machine::CpuMask;
use std::cell::{Cell, RefCell};
use workload::{SchedPolicy, TaskSpec};

const MAX_DL_PRIO: i32 = 0;
const MAX_RT_PRIO: i32 = 100;
/// `current->timer_slack_ns` of a task whose parents did not change it (init/init_task.c), ns.
const DEFAULT_TIMER_SLACK_NS: u64 = 50_000;
/// `sched_prio_to_weight[]` of kernel/sched/core.c: each nice level is worth 1.25 of the next.
const PRIO_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];
const WEIGHT_IDLEPRIO: u32 = 3;

/// Sets what follows from the policy: class, priorities, weight. (`__setscheduler_params()`)
pub fn set_policy(task: &Task, policy: SchedPolicy) {
    let (class, number, rt_priority, nice) = match policy {
        SchedPolicy::Normal { nice } => (Class::Ext, 0, 0, nice),
        SchedPolicy::Batch { nice } => (Class::Ext, 3, 0, nice),
        SchedPolicy::Idle => (Class::Ext, 5, 0, 0),
        SchedPolicy::Fifo { priority } => (Class::Rt, 1, priority.into(), 0),
        SchedPolicy::RoundRobin { priority } => (Class::Rt, 2, priority.into(), 0),
        SchedPolicy::Deadline { .. } => (Class::Dl, 6, 0, 0),
    };
    task.policy.set(policy);
    task.class.set(class);
    task.abi.policy.set(number);
    task.abi.rt_priority.set(rt_priority);
    task.abi
        .static_prio
        .set(DEFAULT_PRIO + i32::from(nice.clamp(-20, 19)));
    task.abi.prio.set(match class {
        Class::Dl => MAX_DL_PRIO - 1,
        Class::Rt => MAX_RT_PRIO - 1 - rt_priority as i32,
        Class::Ext => task.abi.static_prio.get(),
    });
    task.abi.normal_prio.set(task.abi.prio.get());
    let weight = match policy {
        SchedPolicy::Idle => WEIGHT_IDLEPRIO,
        _ => PRIO_TO_WEIGHT[(task.abi.static_prio.get() - MAX_RT_PRIO) as usize],
    };
    task.abi.se.load.weight.set(weight.into());
    // sched_weight_to_cgroup(): 1024 is 100.
    task.abi
        .scx
        .weight
        .set(((weight * 100 + 512) / 1024).clamp(1, 10_000));
}

impl Kernel<'_> {
    /// A new task, on no runqueue yet: `copy_process()`.
    pub fn new_task(
        &mut self,
        spec: TaskSpec,
        parent: Option<TaskPtr>,
        cpu: usize,
        fork: bool,
    ) -> TaskPtr {
        let all = self.machine.all_cpus();
        let inherited = parent.map_or(all, |parent| parent.abi.cpus_mask.get());
        let mask = spec.affinity.map_or(inherited, |mask| mask.and(&all));
        let task = TaskPtr::new(Box::new(Task {
            abi: TaskStruct::new(),
            class: Cell::new(Class::Ext),
            policy: Cell::new(spec.policy),
            name: spec.name,
            program: RefCell::new(spec.program),
            continuation: RefCell::new(Continuation::NextOp),
            left: Cell::new(0),
            instant_ops: Cell::new(0),
            instant: Cell::new(0),
            own_time: Cell::new(false),
            in_kernel: Cell::new(false),
            waits_for: Cell::new("nothing"),
            on_rq: Cell::new(false),
            dsq: Cell::new(OnDsq::None),
            ops_state: Cell::new(OpsState::None),
            qseq: Cell::new(0),
            direct_dsq: Cell::new(abi::DSQ_INVALID),
            direct_flags: Cell::new(0),
            runnable_at: Cell::new(0),
            reset_runnable_at: Cell::new(true),
            enabled: Cell::new(false),
            ran_on: Cell::new(cpu as u32),
            due: Cell::new(self.now()),
            woken_at: Cell::new(self.now()),
            timer_slack_ns: spec.timer_slack_ns.unwrap_or(DEFAULT_TIMER_SLACK_NS),
            rr_left: Cell::new(0),
            dl: Cell::default(),
            footprint: spec.footprint,
            activity: spec.activity.max(1),
            parent,
            children: Cell::new(0),
            joining: Cell::new(false),
            exited: Cell::new(false),
        }));
        set_policy(&task, spec.policy);
        let pid = self.next_pid();
        let abi = &task.abi;
        abi.set_comm(&task.name);
        abi.pid.set(pid);
        abi.tgid.set(pid);
        abi.thread_info.cpu.set(cpu as u32);
        abi.wake_cpu.set(cpu as i32);
        abi.recent_used_cpu.set(cpu as i32);
        abi.state.set(abi::TASK_NEW);
        abi.start_time.set(self.now());
        abi.cgroups.set(self.css_set());
        let own = task.abi();
        let parent_abi = parent.map_or(own, TaskPtr::abi);
        task.abi.group_leader.set(own);
        task.abi.parent.set(parent_abi);
        task.abi.real_parent.set(parent_abi);
        if mask.is_empty() {
            self.task_error(task, "expected an affinity that has a CPU of the machine");
        }
        task.abi
            .cpus_mask
            .set(if mask.is_empty() { all } else { mask });
        task.abi.cpus_ptr.set(task.abi.cpus_mask.as_ptr());
        task.abi
            .nr_cpus_allowed
            .set(task.abi.cpus_mask.get().count() as i32);
        self.tasks.push(task);
        self.alive += 1;
        if let Err(refused) = self.admit_dl(task, task.policy.get()) {
            self.task_error(task, refused);
        }
        self.init_task(task, fork);
        if task.class.get() == Class::Ext {
            self.enable_task(task);
        }
        task
    }

    /// `fork(2)` by `parent` on `cpu`, and the child's first wakeup.
    pub fn fork(&mut self, cpu: usize, parent: TaskPtr, spec: TaskSpec) {
        self.counters.forks += 1;
        parent.children.update(|n| n + 1);
        let child = self.new_task(spec, Some(parent), cpu, true);
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
            if parent.children.get() == 0 && parent.joining.get() {
                parent.joining.set(false);
                self.wake(parent, 0);
            }
        }
        task.abi.state.set(abi::TASK_DEAD);
        self.cpus[cpu].need_resched = true;
    }

    /// After the last switch away from an exiting task.
    pub fn reap(&mut self, task: TaskPtr) {
        task.exited.set(true);
        self.exit_dl(task);
        self.alive -= 1;
        self.exit_task(task);
        task.abi.release_storage();
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
