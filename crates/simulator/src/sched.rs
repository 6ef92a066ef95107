//! The scheduler core, above the classes: creating, waking, switching and ending tasks, and the tick.

use crate::Event;
use crate::abi::{self, Rq, SchedEntity, SchedExtEntity, TaskStruct, ThreadInfo};
use crate::events::What;
use crate::kernel::Kernel;
use crate::task::{Class, Doing, OnDsq, OpsState, Task, TaskPtr};
use machine::{CACHE_LINE, CpuMask, Machine};
use std::ptr::{null, null_mut};
use workload::{SchedPolicy, TaskSpec};

const MAX_RT_PRIO: i32 = 100;
const DEFAULT_PRIO: i32 = 120;
/// `current->timer_slack_ns` of a task whose parents did not change it (init/init_task.c), ns.
const DEFAULT_TIMER_SLACK_NS: u64 = 50_000;
/// `sched_prio_to_weight[]` of kernel/sched/core.c: each nice level is worth 1.25 of the next.
const PRIO_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];
const WEIGHT_IDLEPRIO: u32 = 3;
/// The comm of the idle task.
const SWAPPER: &str = "swapper";

/// What C sees of the idle task of `cpu`.
pub fn idle_task(cpu: usize, machine: &Machine) -> TaskStruct {
    let mut task = new_task_struct();
    task.thread_info.cpu = cpu as u32;
    task.flags = abi::PF_IDLE;
    task.cpus_mask = machine.all_cpus();
    task.comm[..SWAPPER.len()].copy_from_slice(SWAPPER.as_bytes());
    task
}

fn new_task_struct() -> TaskStruct {
    TaskStruct {
        thread_info: ThreadInfo { flags: 0, cpu: 0 },
        state: abi::TASK_RUNNING,
        flags: 0,
        on_cpu: 0,
        wake_cpu: 0,
        recent_used_cpu: 0,
        on_rq: 0,
        prio: DEFAULT_PRIO,
        static_prio: DEFAULT_PRIO,
        normal_prio: DEFAULT_PRIO,
        rt_priority: 0,
        sched_class: null(),
        se: SchedEntity::default(),
        scx: SchedExtEntity {
            slice: abi::SLICE_DFL,
            dsq_vtime: 0,
            weight: 0,
            flags: 0,
            sticky_cpu: -1,
            holding_cpu: -1,
            core_sched_at: 0,
            disallow: false,
        },
        policy: 0,
        nr_cpus_allowed: 1,
        cpus_ptr: null(),
        cpus_mask: CpuMask::EMPTY,
        migration_disabled: 0,
        mm: null_mut(),
        exit_state: 0,
        pid: 0,
        tgid: 0,
        real_parent: null_mut(),
        parent: null_mut(),
        group_leader: null_mut(),
        nvcsw: 0,
        nivcsw: 0,
        start_time: 0,
        comm: [0; 16],
        cgroups: null_mut(),
        storage: [null_mut(); abi::MAX_STORAGES],
    }
}

impl Rq {
    /// The runqueue of `cpu`, running its `idle` task.
    pub fn new(cpu: usize, idle: &mut TaskStruct) -> Rq {
        Rq {
            nr_running: 0,
            cpu: cpu as i32,
            curr: idle,
            idle,
            clock: 0,
            scx: abi::ScxRq {
                local_dsq: abi::DispatchQ {
                    nr: 0,
                    id: abi::DSQ_LOCAL,
                },
                nr_running: 0,
                cpu_released: false,
            },
        }
    }
}

/// Sets what follows from the policy: class, priorities, weight. (`__setscheduler_params()`)
fn set_policy(task: &mut Task, policy: SchedPolicy) {
    let (class, number, rt_priority, nice) = match policy {
        SchedPolicy::Normal { nice } => (Class::Ext, 0, 0, nice),
        SchedPolicy::Batch { nice } => (Class::Ext, 3, 0, nice),
        SchedPolicy::Idle => (Class::Ext, 5, 0, 0),
        SchedPolicy::Fifo { priority } => (Class::Rt, 1, priority.into(), 0),
        SchedPolicy::RoundRobin { priority } => (Class::Rt, 2, priority.into(), 0),
        // Run above every FIFO priority until there is a deadline class.
        SchedPolicy::Deadline { .. } => (Class::Rt, 6, 100, 0),
    };
    task.policy = policy;
    task.class = class;
    task.abi.policy = number;
    task.abi.rt_priority = rt_priority;
    task.abi.static_prio = DEFAULT_PRIO + i32::from(nice.clamp(-20, 19));
    task.abi.prio = match class {
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
        let mask = spec.affinity.map_or(all, |mask| mask.and(&all));
        let mut task = TaskPtr::new(Box::new(Task {
            abi: new_task_struct(),
            class: Class::Ext,
            policy: spec.policy,
            name: spec.name,
            program: spec.program,
            op: Doing::Next,
            left: 0,
            instant_ops: 0,
            instant: 0,
            own_time: false,
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
            footprint: spec.footprint,
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

    /// `try_to_wake_up()`, by code on the current CPU.
    pub fn wake(&mut self, mut task: TaskPtr, wake_flags: u64) {
        if task.on_rq || task.abi.state == abi::TASK_RUNNING {
            return;
        }
        let this = self.this_cpu();
        self.counters.wakeups += 1;
        task.abi.state = abi::TASK_RUNNING;
        task.woken_at = self.now();
        let (cpu, selected) = self.select_task_rq(task, task.cpu(), wake_flags | abi::WAKE_TTWU);
        self.set_task_cpu(task, cpu);
        self.charge(this, self.cpus[this].costs.wakeup_ns);
        self.activate(task, abi::ENQ_WAKEUP | selected);
        self.check_preempt(task);
        self.woken(this, task, false);
    }

    fn woken(&mut self, cpu: usize, task: TaskPtr, new: bool) {
        if self.trace.is_some() {
            let target_cpu = task.cpu();
            self.traced(
                cpu,
                Event::Wakeup {
                    task: (&task.name, task.pid()),
                    prio: task.abi.prio,
                    target_cpu,
                    new,
                },
            );
        }
    }

    /// Where a waking task goes, and the enqueue flag that says whether its class was asked.
    fn select_task_rq(&mut self, task: TaskPtr, prev: usize, wake_flags: u64) -> (usize, u64) {
        let allowed = &task.abi.cpus_mask;
        if task.abi.nr_cpus_allowed == 1 {
            return (allowed.first().unwrap_or(prev), 0);
        }
        let cpu = match task.class {
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
    pub fn set_task_cpu(&mut self, mut task: TaskPtr, cpu: usize) {
        let from = task.cpu();
        if from == cpu {
            return;
        }
        self.counters.migrations += 1;
        task.abi.thread_info.cpu = cpu as u32;
        task.abi.wake_cpu = cpu as i32;
        if self.trace.is_some() {
            let this = self.this_cpu();
            self.traced(
                this,
                Event::Migrate {
                    task: (&task.name, task.pid()),
                    prio: task.abi.prio,
                    from,
                    to: cpu,
                },
            );
        }
    }

    /// Puts a runnable task on its CPU's runqueue.
    pub fn activate(&mut self, mut task: TaskPtr, flags: u64) {
        task.abi.state = abi::TASK_RUNNING;
        task.on_rq = true;
        task.abi.on_rq = 1;
        self.runnable += 1;
        match task.class {
            Class::Rt => self.enqueue_rt(task),
            Class::Ext => self.enqueue_ext(task, flags),
        }
    }

    /// Takes a task off its runqueue.
    fn deactivate(&mut self, mut task: TaskPtr, flags: u64) {
        task.on_rq = false;
        task.abi.on_rq = 0;
        self.runnable -= 1;
        match task.class {
            Class::Rt => self.dequeue_rt(task),
            Class::Ext => self.dequeue_ext(task, flags),
        }
    }

    /// `wakeup_preempt()`: a task of a higher class than what runs on its CPU preempts it.
    fn check_preempt(&mut self, task: TaskPtr) {
        let cpu = task.cpu();
        let preempts = match self.cpus[cpu].curr {
            None => true,
            Some(curr) => match (task.class, curr.class) {
                (Class::Rt, Class::Rt) => task.abi.prio < curr.abi.prio,
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
        self.events
            .push(self.now() + delay, What::Resched { cpu: cpu as u32 });
    }

    /// A reschedule IPI has arrived.
    pub fn resched_interrupt(&mut self, cpu: usize) {
        if self.cpus[cpu].need_resched {
            self.enter(cpu);
            self.leave(cpu);
        }
    }

    /// `__schedule()` on `cpu`.
    pub fn schedule(&mut self, cpu: usize) {
        self.cpus[cpu].need_resched = false;
        let prev = self.cpus[cpu].curr;
        let mut switched_out_runnable = true;
        if let Some(mut task) = prev.filter(|task| task.abi.state != abi::TASK_RUNNING) {
            switched_out_runnable = false;
            task.abi.nvcsw += 1;
            self.deactivate(task, abi::DEQ_SLEEP);
        }
        let next = self.pick_next(cpu, prev);
        if next != prev {
            self.put_prev(cpu, prev, next);
            self.switch(cpu, prev, next, switched_out_runnable);
        } else if next.is_none() {
            self.refresh_idle(cpu, true);
        }
        if let Some(task) = prev.filter(|task| task.abi.state == abi::TASK_DEAD) {
            self.reap(task);
        }
    }

    /// The task to run next: `pick_next_task()`.
    fn pick_next(&mut self, cpu: usize, prev: Option<TaskPtr>) -> Option<TaskPtr> {
        let runnable = prev.filter(|task| task.on_rq);
        let rt_prev = runnable.filter(|task| task.class == Class::Rt);
        // prev_balance() begins at the class of `prev`, but never below sched_ext.
        let rt_first = prev.is_some_and(|task| task.class == Class::Rt);
        if !(rt_first && (rt_prev.is_some() || !self.cpus[cpu].rt.is_empty())) {
            if self.rt_queued > 0 {
                self.pull_rt(cpu);
            }
            self.balance_ext(cpu, prev);
        }
        if let Some(task) = self.pick_rt(cpu, rt_prev) {
            return Some(task);
        }
        self.pick_ext(cpu, prev)
    }

    fn put_prev(&mut self, cpu: usize, prev: Option<TaskPtr>, next: Option<TaskPtr>) {
        match prev {
            None => self.update_idle(cpu, false),
            Some(task) => match task.class {
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
        if let Some(mut task) = prev {
            task.abi.on_cpu = 0;
            task.abi.nivcsw += u64::from(prev_runnable);
        }
        self.cpus[cpu].curr = next;
        match next {
            Some(mut task) => {
                task.abi.on_cpu = 1;
                let rq = self.rq(cpu);
                rq.curr = task.abi();
                rq.clock = now;
                self.set_cpu(cpu);
                if prev.is_none() {
                    self.cpus[cpu].busy_since = now;
                    self.start_tick(cpu);
                }
                self.charge_switch(cpu, task);
                task.abi.se.exec_start = now;
                match task.class {
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
                self.update_idle(cpu, true);
            }
        }
        if self.trace.is_some() {
            let comm = |task: &Option<TaskPtr>| {
                task.map_or((0, DEFAULT_PRIO), |task| (task.pid(), task.abi.prio))
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
    fn charge_switch(&mut self, cpu: usize, mut task: TaskPtr) {
        let costs = self.cpus[cpu].costs;
        let mut cost = costs.context_switch_ns;
        let from = task.ran_on as usize;
        if from != cpu {
            task.ran_on = cpu as u32;
            let near = self.cpus[from].cluster == self.cpus[cpu].cluster;
            let line = if near {
                costs.refill_near_ns
            } else {
                costs.refill_far_ns
            };
            cost += task.footprint / CACHE_LINE * line;
        }
        self.charge(cpu, cost);
    }

    /// Accounts the running task's time: `update_curr_common()`. Returns the time since the last, ns.
    #[inline]
    pub fn update_curr(&mut self, cpu: usize, mut task: TaskPtr) -> u64 {
        let now = self.now();
        self.rq(cpu).clock = now;
        let entity = &mut task.abi.se;
        let delta = now - entity.exec_start;
        entity.sum_exec_runtime += delta;
        entity.exec_start = now;
        delta
    }

    /// Takes the current task, which must be runnable, off its runqueue, changes it and puts it back.
    /// It runs on, unless the CPU is not allowed any more: then it is queued on one that is.
    /// (`__do_set_cpus_allowed()`, `__sched_setscheduler()`, `migration_cpu_stop()`.)
    fn change(&mut self, cpu: usize, mut task: TaskPtr, change: impl FnOnce(&mut Self, TaskPtr)) {
        self.deactivate(task, abi::DEQ_SAVE);
        change(self, task);
        task.on_rq = true;
        task.abi.on_rq = 1;
        self.runnable += 1;
        task.abi.se.exec_start = self.now();
        match task.class {
            Class::Rt => self.restore_rt(cpu, task),
            Class::Ext => self.restore_ext(cpu, task),
        }
        let allowed = task.abi.cpus_mask;
        if !allowed.contains(cpu) {
            let to = allowed.first().unwrap_or(cpu);
            match task.class {
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
        self.change(cpu, task, |kernel, mut task| {
            task.abi.cpus_mask = mask;
            task.abi.nr_cpus_allowed = mask.count() as i32;
            kernel.affinity_changed(task);
        });
    }

    /// `sched_setattr(2)` by the task that runs on `cpu`.
    pub fn change_policy(&mut self, cpu: usize, task: TaskPtr, policy: SchedPolicy) {
        self.change(cpu, task, |kernel, mut task| {
            let was = task.class;
            if was == Class::Ext {
                kernel.update_curr(cpu, task);
            }
            set_policy(&mut task, policy);
            match (was, task.class) {
                (Class::Ext, Class::Rt) => kernel.disable_task(task),
                (Class::Rt, Class::Ext) => kernel.switching_to_ext(task),
                (Class::Ext, Class::Ext) => kernel.weight_changed(task),
                (Class::Rt, Class::Rt) => {}
            }
        });
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
    fn reap(&mut self, mut task: TaskPtr) {
        task.exited = true;
        self.alive -= 1;
        self.exit_task(task);
        for slot in &mut task.abi.storage {
            crate::kfuncs::release(std::mem::replace(slot, null_mut()));
        }
    }

    /// Ticks go on while a CPU is busy (NO_HZ_IDLE), at the same times on all CPUs.
    fn start_tick(&mut self, cpu: usize) {
        if !self.cpus[cpu].tick_queued {
            self.cpus[cpu].tick_queued = true;
            let now = self.now();
            let next = now + self.tick_ns - (now + self.tick_ns - self.tick_phase) % self.tick_ns;
            self.events.push(next, What::Tick { cpu: cpu as u32 });
        }
    }

    /// The tick of `cpu`: `sched_tick()`.
    pub fn tick(&mut self, cpu: usize) {
        self.cpus[cpu].tick_queued = false;
        let Some(task) = self.cpus[cpu].curr else {
            return;
        };
        self.enter(cpu);
        self.counters.ticks += 1;
        self.charge(cpu, self.cpus[cpu].costs.tick_ns);
        match task.class {
            Class::Rt => self.tick_rt(cpu, task),
            Class::Ext => self.tick_ext(cpu, task),
        }
        self.start_tick(cpu);
        self.leave(cpu);
    }

    /// A task's sleep timer has expired: the interrupt comes as soon as its CPU is awake.
    pub fn sleep_expired(&mut self, task: TaskPtr) {
        let cpu = task.cpu();
        let cost = self.cpus[cpu].costs.timer_irq_ns;
        let mut at = self.now() + cost;
        if self.cpus[cpu].curr.is_none() {
            at += self.cpus[cpu].idle_exit_ns(self.now());
            self.cpus[cpu].idle_since = at;
            return self.events.push(at, What::Wake { task });
        }
        // Before the task goes on, which may be for longer.
        self.events.push(at, What::Wake { task });
        self.enter(cpu);
        self.charge(cpu, cost);
        self.leave(cpu);
    }

    /// The timer's handler wakes its task.
    pub fn sleep_ended(&mut self, task: TaskPtr) {
        self.sleeping -= 1;
        let cpu = task.cpu();
        self.enter(cpu);
        self.wake(task, 0);
        self.leave(cpu);
    }
}
