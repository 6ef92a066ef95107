//! The restart of a scheduler after hotplug: the event ends the scheduler, and its loader loads it again for the CPUs
//! that are online then.
//!
//! Meanwhile Linux runs the tasks under the fair class, which the simulated kernel does not have. Here they run as
//! under sched_ext in bypass mode: first in, first out from the global queue.

use crate::abi::layout::{self as abi, Ops};
use crate::abi::tracepoints::Tracepoints;
use crate::events::What;
use crate::host::calls::{CallRecord, Code};
use crate::kernel::Kernel;
use crate::kernel::hotplug::RESTART;
use crate::kernel::task::{Class, OpsState, TaskPtr};
use crate::scx::RqFlags;
use crate::scx::call::{call_op, kf};
use crate::scx::cids::Cids;
use crate::scx::dsq::{Dsqs, OnDsq};
use crate::scx::exit::Exit;
use crate::scx::kicks::Kicks;
use crate::scx::reenqueue::Reenqueues;
use crate::{Error, Event, Globals};
use native::{Global, Object};

/// The time from a scheduler's exit until its loader has loaded it again, in ns. The value is an assumption: the loader
/// waits for the exit, and the verifier takes most of the time.
const RELOAD_NS: u64 = 100_000_000;

/// The scheduler's loader, which loads the scheduler again after hotplug.
pub struct Loader<'a> {
    pub object: &'a Object,
    pub globals: &'a [Global],
    pub restart: Option<Globals<'a>>,
}

impl Kernel<'_> {
    /// Calls `ops.cpu_online()`. Returns false if there is no such op.
    pub fn cpu_online(&mut self, cpu: usize) -> bool {
        let Some(cpu_online) = self.scx.ops.cpu_online else {
            return false;
        };
        call_op!(self, kf::UNLOCKED, cpu_online, cpu as i32);
        true
    }

    /// Calls `ops.cpu_offline()`. Returns false if there is no such op.
    pub fn cpu_offline(&mut self, cpu: usize) -> bool {
        let Some(cpu_offline) = self.scx.ops.cpu_offline else {
            return false;
        };
        call_op!(self, kf::UNLOCKED, cpu_offline, cpu as i32);
        true
    }

    /// Lets the scheduler exit because `cpu` goes offline or comes online (`handle_hotplug()`). If no loader restarts
    /// the scheduler, its exit ends the run.
    pub fn exit_for_hotplug(&mut self, cpu: usize, online: bool) {
        let going = if online { "online" } else { "offline" };
        let message = format!("cpu {cpu} going {going}, exiting scheduler");
        if self.loader.restart.is_none() {
            return self.scheduler_exit(abi::EXIT_UNREG_KERN, RESTART, message);
        }
        let tasks = self.take_tasks();
        self.scx.exit = Some(Exit {
            kind: abi::EXIT_UNREG_KERN,
            code: RESTART,
            message,
            cpu: self.this_cpu() as i32,
        });
        self.disable_scheduler();
        self.check_constants();
        self.bpf.instance.tracepoints = Tracepoints::default();
        self.begin_scheduler(Ops::NONE);
        self.scx.is_bypassed = true;
        self.traced(cpu, Event::Loaded(false));
        self.give_tasks(&tasks);
        let at = self.now() + RELOAD_NS;
        self.events.push(at, What::Reload);
    }

    /// Loads the scheduler again.
    pub fn reload(&mut self) {
        let machine = self.hotplug.machine();
        let globals = match self.loader.restart {
            Some(globals) => globals(machine),
            None => self.loader.globals.to_vec(),
        };
        let object = self.loader.object;
        if let Err(error) = self.bpf.reload(object, &globals) {
            return self.fail(Error::Object(error));
        }
        let this = self.hotplug.online.first().unwrap_or(0);
        self.enter(this);
        let ops = self.bpf.instance.ops;
        let code = Code::new(object, self.bpf.instance.base());
        self.calls = CallRecord::start(ops.name(), code);
        let tasks = self.take_tasks();
        self.begin_scheduler(ops);
        self.scx.is_bypassed = false;
        self.traced(this, Event::Loaded(true));
        self.enable_scheduler(object);
        for index in 0..self.tasks.len() {
            let task = self.tasks[index];
            if self.failure.is_none() && !task.exited.get() {
                self.init_task(task, false);
            }
        }
        for index in 0..self.tasks.len() {
            let task = self.tasks[index];
            if self.failure.is_some() {
                return;
            }
            if !task.exited.get() && task.class.get() == Class::Ext {
                self.enable_task(task);
            }
        }
        self.give_tasks(&tasks);
        let online = self.hotplug.online;
        for cpu in online.iter().filter(|&cpu| cpu != this) {
            self.resume_paused(cpu);
        }
        self.set_cpu(this);
        self.leave(this);
    }

    /// Takes all runnable tasks of sched_ext, including running ones, off their runqueues (`sched_deq_and_put_task()`).
    fn take_tasks(&mut self) -> Vec<TaskPtr> {
        let queued = |task: &TaskPtr| task.on_rq.get() && task.class.get() == Class::Ext;
        let tasks: Vec<TaskPtr> = self.tasks.iter().copied().filter(queued).collect();
        for &task in &tasks {
            let cpu = task.cpu();
            if self.cpus[cpu].curr == Some(task) {
                self.pause_for_change(cpu);
            }
            self.dequeue_ext(task, abi::DEQ_SAVE);
            task.ops_state.set(OpsState::None);
        }
        tasks
    }

    /// Puts the tasks that [`Kernel::take_tasks`] took back on runqueues (`sched_enq_and_set_task()`), and makes all
    /// CPUs reschedule.
    fn give_tasks(&mut self, tasks: &[TaskPtr]) {
        for &task in tasks {
            if self.failure.is_some() {
                return;
            }
            let cpu = task.cpu();
            match self.cpus[cpu].curr == Some(task) {
                true => {
                    self.restore_ext(cpu, task);
                    let clock_task = self.rq(cpu).clock_task;
                    task.abi.se.exec_start.set(clock_task);
                }
                false => self.enqueue_ext(task, abi::ENQ_RESTORE),
            }
        }
        let online = self.hotplug.online;
        for cpu in online.iter() {
            self.resched(cpu);
        }
    }

    /// Resets the state that the last scheduler left, for a scheduler with these ops.
    fn begin_scheduler(&mut self, ops: Ops) {
        let machine = self.hotplug.machine();
        let nr_cpus = machine.cpus.len();
        self.scx.cids = Cids::new(machine, ops.cid_shard_size, self.scx.cids.form);
        self.scx.set_ops(machine, ops);
        self.scx.dsqs = Dsqs::new(nr_cpus);
        self.scx.kicks = Kicks::default();
        self.scx.reenqueues = Reenqueues::default();
        self.scx.dump.clear();
        self.bpf.set_cids(self.scx.cids.tables());
        self.bpf.forget_scheduler();
        for cpu in 0..nr_cpus {
            self.scx.rqs[cpu] = RqFlags::default();
            self.rq(cpu).scx.cpu_released = false;
            if self.cpus[cpu].curr.is_some() {
                self.scx.idle_masks.update(cpu, false);
            }
            if self.hotplug.online.contains(cpu) {
                self.set_cpuperf(cpu, abi::CPUPERF_ONE);
            }
        }
        for task in self.tasks.iter().filter(|task| !task.exited.get()) {
            task.abi.release_storage();
            task.abi.scx.slice.set(abi::SLICE_DFL);
            task.abi.scx.dsq_vtime.set(0);
            task.dsq.set(OnDsq::NONE);
            task.direct_dsq.set(abi::DSQ_INVALID);
            task.in_custody.set(false);
            task.immed.set(false);
            task.reenq_count.set(0);
        }
    }
}
