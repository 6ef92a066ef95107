//! CPUs that go offline and come online (`kernel/cpu.c`, `sched_cpu_deactivate()` and
//! `sched_cpu_activate()` of kernel/sched/core.c), and limits of their frequency.
//!
//! The change itself takes no time. When a CPU goes offline, its tasks leave it as soon as Linux's stopper thread could
//! run there.

use crate::abi::layout as abi;
use crate::events::What;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, TaskPtr};
use crate::{Error, Event, hw};
use machine::{CpuMask, Machine};
use std::collections::VecDeque;
use std::fmt::Display;
use workload::timeline::{Change, Timed};

/// The delay, in ns, after which the change is tried again if the CPU was in the middle of kernel code.
const RETRY_NS: u64 = 10_000;

pub struct Hotplug<'a> {
    /// `cpu_active_mask`.
    pub online: CpuMask,
    boot: &'a Machine,
    /// The machine with only the CPUs that are online now; `None` until these first change.
    now: Option<Box<Machine>>,
    /// CPUs that are to go online (true) or offline, one after another (`cpu_hotplug_lock`).
    pending: VecDeque<(usize, bool)>,
}

impl<'a> Hotplug<'a> {
    pub fn new(machine: &'a Machine) -> Hotplug<'a> {
        Hotplug {
            online: machine.all_cpus(),
            boot: machine,
            now: None,
            pending: VecDeque::new(),
        }
    }

    /// The machine with the CPUs that are online now.
    pub fn machine(&self) -> &Machine {
        self.now.as_deref().unwrap_or(self.boot)
    }

    fn set(&mut self, cpu: usize, online: bool) {
        match online {
            true => self.online.set(cpu),
            false => self.online.clear(cpu),
        }
        let offline = self.boot.all_cpus().without(&self.online);
        self.now = Some(Box::new(self.boot.without(&offline)));
    }
}

impl Kernel<'_> {
    pub fn schedule_changes(&mut self, timeline: Vec<Timed>) {
        for Timed { at_ns, change } in timeline {
            match change {
                Change::Online(cpus, online) => {
                    for cpu in cpus.iter() {
                        let cpu = cpu as u32;
                        self.events.push(at_ns, What::Hotplug { cpu, online });
                    }
                }
                Change::MaxFreq(cpus, limit) => {
                    for cpu in cpus.iter() {
                        let core = &self.machine.core_types[self.machine.cpus[cpu].core_type];
                        let highest = core.opps.last().map_or(0, |opp| opp.khz);
                        let (cpu, khz) = (cpu as u32, limit.khz(highest));
                        let event = hw::Event::MaxFreq { cpu, khz };
                        self.events.push(at_ns, What::Hardware(event));
                    }
                }
            }
        }
    }

    /// Takes `cpu` offline or online, after the changes that were requested before.
    pub fn hotplug(&mut self, cpu: usize, online: bool) {
        self.hotplug.pending.push_back((cpu, online));
        if self.hotplug.pending.len() == 1 {
            self.pending_hotplug();
        }
    }

    /// Carries out the first of the pending changes, unless it has to wait.
    pub fn pending_hotplug(&mut self) {
        let Some(&(cpu, online)) = self.hotplug.pending.front() else {
            return;
        };
        let now = self.now();
        // The stopper cannot run on the CPU yet.
        if !online && !self.may_schedule(cpu) {
            return self.events.push(now + RETRY_NS, What::HotplugPending);
        }
        self.hotplug.pending.pop_front();
        if !self.hotplug.pending.is_empty() {
            self.events.push(now, What::HotplugPending);
        }
        self.change_online(cpu, online);
    }

    fn change_online(&mut self, cpu: usize, online: bool) {
        if self.hotplug.online.contains(cpu) == online {
            return;
        }
        let rest = match online {
            true => self.hotplug.online,
            false => self.hotplug.online.without(&CpuMask::one(cpu)),
        };
        let Some(this) = rest.first() else {
            return self.hotplug_error(cpu, "EBUSY: no other CPU is online");
        };
        if !online && self.dl.total_bw > self.dl_limit(&rest) {
            return self.hotplug_error(cpu, "EBUSY: deadline tasks need its bandwidth");
        }
        self.enter(this);
        self.pause(cpu);
        self.hotplug.set(cpu, online);
        self.traced(cpu, Event::Online(online));
        match online {
            true => self.come_online(cpu),
            false => self.go_offline(cpu),
        }
        for other in rest.iter().filter(|&other| other != this) {
            self.resume_paused(other);
        }
        self.set_cpu(this);
        self.leave(this);
    }

    fn hotplug_error(&mut self, cpu: usize, message: impl Display) {
        self.fail(Error::Hotplug {
            cpu,
            at_ns: self.now(),
            message: message.to_string(),
        });
    }

    fn come_online(&mut self, cpu: usize) {
        let now = self.now();
        self.cpus[cpu].need_resched = false;
        self.waste.come_online(cpu, now);
        self.scx.idle_masks.set_online(cpu, true);
        self.tell_scheduler(cpu, true);
        // The CPU looks for work.
        self.resched(cpu);
    }

    fn go_offline(&mut self, cpu: usize) {
        // From here on no interrupt is sent to the CPU.
        self.cpus[cpu].need_resched = true;
        self.tell_scheduler(cpu, false);
        self.vacate(cpu);
        self.server_stop(cpu);
        self.waste.go_offline(cpu);
        self.scx.idle_masks.set_online(cpu, false);
        self.set_cpuperf(cpu, 0);
    }

    /// `handle_hotplug()`: a scheduler without the callback for the event exits.
    fn tell_scheduler(&mut self, cpu: usize, online: bool) {
        if self.scx.is_bypassed {
            return;
        }
        match online {
            true if self.cpu_online(cpu) => {}
            false if self.cpu_offline(cpu) => {}
            _ => self.exit_for_hotplug(cpu, online),
        }
    }

    /// Moves the runnable tasks of `cpu` to other CPUs (`balance_push()`).
    fn vacate(&mut self, cpu: usize) {
        let prev = self.cpus[cpu].curr;
        if let Some(prev) = prev {
            self.update_rq_clock(cpu);
            self.put_prev(cpu, Some(prev), None);
            // An offline CPU has no time to spend on kernel code.
            self.take_spent();
            self.switch(cpu, Some(prev), None, true);
            self.set_cpu(self.timers_cpu(cpu));
        }
        self.events.clear_done(cpu);
        let here = |task: &TaskPtr| task.on_rq.get() && task.cpu() == cpu;
        let tasks: Vec<TaskPtr> = self.tasks.iter().copied().filter(here).collect();
        for task in tasks {
            self.push_away(task, cpu);
        }
    }

    /// `__balance_push_cpu_stop()`: moves a task that is runnable, but not running, from `cpu` to another CPU.
    fn push_away(&mut self, task: TaskPtr, cpu: usize) {
        // A deadline task may run on all CPUs, so this never changes its affinity.
        let to = self.fallback_cpu(task, cpu);
        match task.class.get() {
            Class::Dl => self.push_away_dl(task, to),
            Class::Rt => {
                self.dequeue_rt(task);
                self.set_task_cpu(task, to);
                self.enqueue_rt(task);
            }
            Class::Ext => self.push_away_ext(task, to),
        }
        self.check_preempt(task);
    }

    /// `select_fallback_rq()`: an online CPU for `task`, instead of `cpu`: a CPU of the same node if the task may run
    /// on one of that node's online CPUs, otherwise another of its CPUs. If none of the task's CPUs is online, the task
    /// may run everywhere from then on, as in a system without a cpuset controller in use
    /// (`cpuset_cpus_allowed_fallback()`), and gets the first CPU, whatever its node.
    pub fn fallback_cpu(&mut self, task: TaskPtr, cpu: usize) -> usize {
        let usable = task.abi.cpus_mask.get().and(&self.hotplug.online);
        let mut nodes = self.machine.nodes().iter();
        let node = nodes.find(|node| node.contains(cpu));
        let near = node.and_then(|node| node.and(&usable).first());
        if let Some(cpu) = near.or_else(|| usable.first()) {
            return cpu;
        }
        self.break_affinity(task);
        self.hotplug.online.first().unwrap_or(cpu)
    }

    /// The CPU that handles the timers of `cpu`: itself or, if it is offline, an online one (`hrtimers_cpu_dying()`).
    #[inline]
    pub fn timers_cpu(&self, cpu: usize) -> usize {
        match self.hotplug.online.contains(cpu) {
            true => cpu,
            false => self.hotplug.online.first().unwrap_or(cpu),
        }
    }

    /// Stops the computing on `cpu` for a change of its task.
    pub fn pause_for_change(&mut self, cpu: usize) {
        self.pause(cpu);
        self.update_rq_clock(cpu);
    }

    /// Resumes the task of `cpu` if it was paused for another CPU's action.
    pub fn resume_paused(&mut self, cpu: usize) {
        if let Some(task) = self.cpus[cpu].curr
            && !self.cpus[cpu].armed
            && self.failure.is_none()
        {
            self.resume(cpu, task);
        }
    }

    /// Limits the frequency of `cpu`'s cpufreq policy to `khz` from now on.
    pub fn limit_frequency(&mut self, cpu: usize, khz: u32) {
        let now = self.now();
        if let Some((policy, at)) = self.hw.cpufreq.limit(cpu, khz, now) {
            let event = hw::Event::Frequency { policy };
            self.events.push(at, What::Hardware(event));
        }
        let (cpus, _) = self.hw.cpufreq.pressure(cpu);
        for cpu in cpus.iter() {
            self.bpf.cpufreq_pressure[cpu] = self.hw.cpufreq.pressure(cpu).1;
            if let Some(khz) = self.hw.cpufreq.highest_khz(cpu) {
                self.traced(cpu, Event::FrequencyLimit { khz });
            }
        }
    }
}

/// The exit code of a scheduler that a hotplug event ends, by which its loader restarts it.
pub const RESTART: i64 = (abi::ECODE_ACT_RESTART | abi::ECODE_RSN_HOTPLUG) as i64;
