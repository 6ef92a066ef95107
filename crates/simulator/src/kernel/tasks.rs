//! Tasks come and go: what a new task is, fork and exit.

use crate::Event;
use crate::abi::layout::{self as abi, TaskStruct};
use crate::abi::structs::DEFAULT_PRIO;
use crate::class::dl::DlEntity;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, Doing, OnDsq, OpsState, Task, TaskPtr};
use std::ptr::null_mut;
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
pub fn set_policy(task: &mut Task, policy: SchedPolicy) {
    let (class, number, rt_priority, nice) = match policy {
        SchedPolicy::Normal { nice } => (Class::Ext, 0, 0, nice),
        SchedPolicy::Batch { nice } => (Class::Ext, 3, 0, nice),
        SchedPolicy::Idle => (Class::Ext, 5, 0, 0),
        SchedPolicy::Fifo { priority } => (Class::Rt, 1, priority.into(), 0),
        SchedPolicy::RoundRobin { priority } => (Class::Rt, 2, priority.into(), 0),
        SchedPolicy::Deadline { .. } => (Class::Dl, 6, 0, 0),
    };
    task.policy = policy;
    task.class = class;
    task.abi.policy = number;
    task.abi.rt_priority = rt_priority;
    task.abi.static_prio = DEFAULT_PRIO + i32::from(nice.clamp(-20, 19));
    task.abi.prio = match class {
        Class::Dl => MAX_DL_PRIO - 1,
        Class::Rt => MAX_RT_PRIO - 1 - rt_priority as i32,
        Class::Ext => task.abi.static_prio,
    };
    task.abi.normal_prio = task.abi.prio;
    let weight = match policy {
        SchedPolicy::Idle => WEIGHT_IDLEPRIO,
        _ => PRIO_TO_WEIGHT[(task.abi.static_prio - MAX_RT_PRIO) as usize],
    };
    task.abi.se.load.weight = weight.into();
    // sched_weight_to_cgroup(): 1024 is 100.
    task.abi.scx.weight = ((weight * 100 + 512) / 1024).clamp(1, 10_000);
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
        let inherited = parent.map_or(all, |parent| parent.abi.cpus_mask);
        let mask = spec.affinity.map_or(inherited, |mask| mask.and(&all));
        let mut task = TaskPtr::new(Box::new(Task {
            abi: TaskStruct::new(),
            class: Class::Ext,
            policy: spec.policy,
            name: spec.name,
            program: spec.program,
            op: Doing::Next,
            left: 0,
            instant_ops: 0,
            instant: 0,
            own_time: false,
            in_kernel: false,
            waits_for: "nothing",
            on_rq: false,
            dsq: OnDsq::None,
            ops_state: OpsState::None,
            qseq: 0,
            direct_dsq: abi::DSQ_INVALID,
            direct_flags: 0,
            runnable_at: 0,
            reset_runnable_at: true,
            enabled: false,
            ran_on: cpu as u32,
            due: self.now(),
            woken_at: self.now(),
            timer_slack_ns: spec.timer_slack_ns.unwrap_or(DEFAULT_TIMER_SLACK_NS),
            rr_left: 0,
            dl: DlEntity::default(),
            footprint: spec.footprint,
            activity: spec.activity.max(1),
            parent,
            children: 0,
            joining: false,
            exited: false,
        }));
        set_policy(&mut task, spec.policy);
        let pid = self.next_pid();
        let name = task.name.clone();
        let length = name.len().min(15);
        let abi = &mut task.abi;
        abi.comm[..length].copy_from_slice(&name.as_bytes()[..length]);
        abi.pid = pid;
        abi.tgid = pid;
        abi.thread_info.cpu = cpu as u32;
        abi.wake_cpu = cpu as i32;
        abi.recent_used_cpu = cpu as i32;
        abi.state = abi::TASK_NEW;
        abi.start_time = self.now();
        abi.cgroups = self.css_set();
        let own = task.abi();
        let parent_abi = parent.map_or(own, TaskPtr::abi);
        task.abi.group_leader = own;
        task.abi.parent = parent_abi;
        task.abi.real_parent = parent_abi;
        if mask.is_empty() {
            self.task_error(task, "expected an affinity that has a CPU of the machine");
        }
        task.abi.cpus_mask = if mask.is_empty() { all } else { mask };
        task.abi.cpus_ptr = &raw const task.abi.cpus_mask;
        task.abi.nr_cpus_allowed = task.abi.cpus_mask.count() as i32;
        self.tasks.push(task);
        self.alive += 1;
        if let Err(refused) = self.admit_dl(task, task.policy) {
            self.task_error(task, refused);
        }
        self.init_task(task, fork);
        if task.class == Class::Ext {
            self.enable_task(task);
        }
        task
    }

    /// `fork(2)` by `parent` on `cpu`, and the child's first wakeup.
    pub fn fork(&mut self, cpu: usize, mut parent: TaskPtr, spec: TaskSpec) {
        self.counters.forks += 1;
        parent.children += 1;
        let mut child = self.new_task(spec, Some(parent), cpu, true);
        self.traced(
            cpu,
            Event::Fork {
                parent: (&parent.name, parent.pid()),
                child: (&child.name, child.pid()),
            },
        );
        child.abi.state = abi::TASK_RUNNING;
        let (target, selected) = self.select_task_rq(child, cpu, abi::WAKE_FORK);
        child.abi.thread_info.cpu = target as u32;
        child.ran_on = target as u32;
        self.activate(child, selected);
        self.check_preempt(child);
        self.woken(cpu, child, true);
    }

    /// The exit of the task that runs on `cpu`, up to its last switch.
    pub fn exit(&mut self, cpu: usize, mut task: TaskPtr) {
        task.abi.flags |= abi::PF_EXITING;
        if self.trace.is_some() {
            self.traced(
                cpu,
                Event::Exit {
                    task: (&task.name, task.pid()),
                    prio: task.abi.prio,
                },
            );
        }
        if let Some(mut parent) = task.parent {
            parent.children -= 1;
            if parent.children == 0 && parent.joining {
                parent.joining = false;
                self.wake(parent, 0);
            }
        }
        task.abi.state = abi::TASK_DEAD;
        self.cpus[cpu].need_resched = true;
    }

    /// After the last switch away from an exiting task.
    pub fn reap(&mut self, mut task: TaskPtr) {
        task.exited = true;
        self.exit_dl(task);
        self.alive -= 1;
        self.exit_task(task);
        for slot in &mut task.abi.storage {
            crate::abi::kfuncs::release(std::mem::replace(slot, null_mut()));
        }
    }
}
