//! The kernel as a whole: its state, how it boots, and the loop that lets time pass.

use crate::abi::{self, CssSet, Ops, Rq, Table, TaskStruct};
use crate::check::Checker;
use crate::cpu::Cpu;
use crate::doing::Doing;
use crate::dsq::{Dsq, UserDsqs};
use crate::energy::Meters;
use crate::events::{Events, What};
use crate::ext::{DirectTask, Dispatch};
use crate::idle::IdleMasks;
use crate::instance::Instance;
use crate::lifecycle::Exit;
use crate::memory::Memory;
use crate::objects::Objects;
use crate::spin::Spinner;
use crate::task::{FIRST_PID, TaskPtr};
use crate::timers::Timer;
use crate::turbo::Pcu;
use crate::{Config, Counters, Error, Event, Outcome, Trace, kfuncs};
use machine::Machine;
use std::ffi::c_void;
use std::sync::Arc;
use workload::{Op, Recorder, Rng, Start, TaskSpec};

/// How many events may happen at one time before the scheduler is taken to cause them for ever: many
/// for each task of the largest workload.
const MAX_INSTANT_EVENTS: u32 = 2_000_000;

/// A simulated kernel that runs one workload under one scheduler.
pub struct Kernel<'a> {
    pub machine: &'a Machine,
    pub cpus: Vec<Cpu>,
    pub tasks: Vec<TaskPtr>,
    /// Tasks that have not exited.
    pub alive: usize,
    /// Those of them that never do: the kernel's own.
    pub daemons: usize,
    /// Tasks that are runnable or running, and sleeps that will end: with neither, nothing can happen.
    pub runnable: usize,
    pub sleeping: usize,
    pub events: Events,
    pub objects: Objects,
    /// Tasks that poll for something in a busy loop.
    pub spinners: Vec<Spinner>,

    pub ops: Ops,
    /// Which kinds of kfunc the op that is being called may use (`SCX_KF_*`).
    pub kf_mask: u32,
    pub user_dsqs: UserDsqs,
    pub global_dsq: Dsq,
    pub direct_task: DirectTask,
    pub dispatches: Vec<Dispatch>,
    pub max_dispatches: usize,
    /// Tasks dispatched by this call of `ops.dispatch()`.
    pub dispatched: usize,
    /// Kicks that are asked for and not yet sent: CPU and `SCX_KICK_*`.
    pub kicks: Vec<(u32, u64)>,
    pub idle_masks: IdleMasks,
    pub timers: Vec<Timer>,
    pub watchdog_ns: u64,
    /// RT tasks that wait for a CPU, and deadline tasks.
    pub rt_queued: usize,
    pub dl_queued: usize,
    /// Bandwidth promised to deadline tasks, of 1/2^20 of a CPU.
    pub dl_total_bw: u64,
    /// What goes over the network.
    pub connections: Vec<crate::network::Connection>,
    /// cpufreq's policies; none if frequencies never change.
    pub policies: Vec<crate::cpufreq::Policy>,

    pub tick_ns: u64,
    /// When the tick is, modulo its period, ns.
    pub tick_phase: u64,

    pub shared: Vec<u64>,
    pub recorder: Recorder,
    pub rng: Rng,
    pub kernel_rng: Rng,
    pub counters: Counters,
    pub trace: Option<&'a mut dyn Trace>,
    /// What the machine's parts draw, if that is known.
    pub meters: Option<Meters>,
    /// Control units of the packages; none without turbo.
    pub pcus: Vec<Pcu>,
    /// Set once; ends the run.
    pub failure: Option<Error>,
    /// Why the scheduler leaves, if it is the scheduler's doing.
    pub exit: Option<Exit>,
    pub dump: String,
    /// Checks the run's invariants, if asked to.
    pub check: Option<Box<Checker>>,

    /// For those who look from outside.
    pub doing: Arc<Doing>,
    pub table: *mut Table,
    /// What `table` points to, on a machine that describes its memory.
    pub memory: Option<Memory>,
    /// What C sees of the runqueues and the idle tasks; pointed to by `table`.
    rqs: Box<[Rq]>,
    _idle_tasks: Box<[TaskStruct]>,
    pub root_cgroup: Box<crate::cgroup::Root>,
    /// Last: the others hold addresses in it.
    pub instance: Instance,
}

impl<'a> Kernel<'a> {
    /// A kernel that has booted, with the scheduler loaded and the shell about to start the workload.
    pub fn boot(config: Config<'a>, check: Option<Box<Checker>>) -> Result<Kernel<'a>, Error> {
        let machine = config.machine;
        let nr_cpus = machine.cpus.len();
        let start = config.workload.start(machine);
        let tick_ns = 1_000_000_000 / u64::from(machine.hz);
        let mut kernel_rng = Rng::new(config.seed ^ 0x6b65_726e_656c);
        let root_cgroup = crate::cgroup::Root::new();
        let mut idle_tasks: Box<[TaskStruct]> = (0..nr_cpus)
            .map(|cpu| crate::fork::idle_task(cpu, machine))
            .collect();
        let mut rqs: Box<[Rq]> = idle_tasks
            .iter_mut()
            .enumerate()
            .map(|(cpu, idle)| Rq::new(cpu, idle))
            .collect();
        let table = Box::into_raw(Box::new(kfuncs::table(nr_cpus, tick_ns, rqs.as_mut_ptr())));
        let mut memory = Memory::new(machine);
        if let Some(memory) = &mut memory {
            // SAFETY: made above; the memory is boxed and lives as long as the kernel.
            unsafe { (*table).memory = &raw mut *memory.table };
        }
        let instance = match Instance::load(config.scheduler, config.globals, table, nr_cpus) {
            Ok(instance) => instance,
            Err(error) => {
                // SAFETY: made above; nobody else has it.
                drop(unsafe { Box::from_raw(table) });
                return Err(error.into());
            }
        };
        let ops = instance.ops;
        let Start {
            tasks,
            mutexes,
            condvars,
            barriers,
            streams,
            connections,
            shared,
            duration_ns,
        } = start;
        let mut kernel = Kernel {
            machine,
            cpus: Cpu::all(machine),
            tasks: Vec::new(),
            alive: 0,
            daemons: 0,
            runnable: 0,
            sleeping: 0,
            events: Events::new(nr_cpus),
            objects: Objects::new(mutexes, condvars, &barriers, &streams),
            spinners: Vec::new(),
            kf_mask: 0,
            user_dsqs: UserDsqs::default(),
            global_dsq: Dsq::new(abi::DSQ_GLOBAL),
            direct_task: DirectTask::None,
            dispatches: Vec::new(),
            max_dispatches: if ops.dispatch_max_batch == 0 {
                32
            } else {
                ops.dispatch_max_batch as usize
            },
            dispatched: 0,
            kicks: Vec::new(),
            idle_masks: IdleMasks::new(machine, &ops),
            timers: Vec::new(),
            watchdog_ns: if ops.timeout_ms == 0 {
                30_000
            } else {
                u64::from(ops.timeout_ms)
            } * 1_000_000,
            rt_queued: 0,
            dl_queued: 0,
            dl_total_bw: 0,
            connections: crate::network::Connection::all(connections),
            policies: crate::cpufreq::Policy::all(machine),
            tick_ns,
            tick_phase: kernel_rng.below(tick_ns),
            shared,
            recorder: Recorder::new(config.workload.metrics().len()),
            rng: Rng::new(config.seed),
            kernel_rng,
            counters: Counters {
                busy_ns: vec![0; nr_cpus],
                overhead_ns: vec![0; nr_cpus],
                irq_ns: vec![0; nr_cpus],
                ..Counters::default()
            },
            trace: config.trace,
            meters: Meters::new(machine),
            pcus: Pcu::all(machine),
            failure: None,
            exit: None,
            dump: String::new(),
            check,
            doing: Doing::start(ops.name()),
            ops,
            table,
            memory,
            rqs,
            _idle_tasks: idle_tasks,
            root_cgroup,
            instance,
        };
        kernel.trace_power_from_boot();
        kernel.enable_scheduler();
        if kernel.failure.is_some() {
            return Ok(kernel);
        }
        if let Some(duration) = duration_ns {
            kernel.events.push(duration, What::End);
        }
        kernel.events.push(kernel.watchdog_ns / 2, What::Watchdog);
        kernel.start_shell(tasks);
        kernel.start_connections();
        Ok(kernel)
    }

    /// The shell runs somewhere, by chance, and starts the workload's first tasks.
    fn start_shell(&mut self, tasks: Vec<TaskSpec>) {
        let mut tasks = tasks.into_iter();
        let mut left = false;
        let shell = TaskSpec::new("sh", move |_: &mut workload::Env<'_>| match tasks.next() {
            Some(task) => Op::Fork {
                child: Box::new(task),
                work: 0,
            },
            None if left => Op::Exit,
            None => {
                left = true;
                Op::Join
            }
        });
        let cpu = self.kernel_rng.below(self.cpus.len() as u64) as usize;
        self.set_cpu(cpu);
        let shell = self.new_task(shell, None, cpu, false);
        self.activate(shell, 0);
        self.cpus[cpu].need_resched = true;
        self.leave(cpu);
    }

    /// Lets time pass until the workload is done.
    pub fn run(&mut self, limit_ns: u64) -> Result<(), Error> {
        let mut instant_events = 0;
        while self.failure.is_none() {
            if self.alive == self.daemons {
                return Ok(());
            }
            if self.runnable == 0 && self.sleeping == 0 && !self.network_is_active() {
                return Err(self.deadlock());
            }
            let Some((time, what)) = self.events.pop() else {
                return Err(self.deadlock());
            };
            if time >= limit_ns {
                return Err(Error::TimeLimit { limit_ns });
            }
            instant_events = if time > self.now() {
                0
            } else {
                instant_events + 1
            };
            if instant_events > MAX_INSTANT_EVENTS {
                self.scheduler_error(format!(
                    "{MAX_INSTANT_EVENTS} events without time passing; expected timers and kicks that end"
                ));
                continue;
            }
            self.set_now(time);
            match what {
                What::Done { cpu } => self.done(cpu as usize),
                What::Tick { cpu } => self.tick(cpu as usize),
                What::Idle { cpu } => self.idle_time(cpu as usize),
                What::Resched { cpu } => self.resched_interrupt(cpu as usize),
                What::Expiry { task } => self.sleep_expired(task),
                What::Wake { task } => self.sleep_ended(task),
                What::BpfTimer { timer, generation } => {
                    self.bpf_timer_expired(timer as usize, generation)
                }
                What::Power { cpu } => self.trace_power(cpu as usize),
                What::Turbo { package } => self.turbo_interval(package as usize),
                What::DlTimer { task, generation } => self.dl_timer_expired(task, generation),
                What::DlReplenish { task, generation } => self.dl_replenish(task, generation),
                What::DlInactive { task, generation } => self.dl_inactive(task, generation),
                What::Packet { connection } => self.packet_passed(connection as usize),
                What::NetworkInterrupt { connection } => {
                    self.network_interrupt_done(connection as usize)
                }
                What::Softirq { cpu } => self.softirq_part_done(cpu as usize),
                What::Frequency { policy } => self.frequency_changed(policy as usize),
                What::Watchdog => self.watchdog(),
                What::End => return Ok(()),
            }
            if self.check.is_some() {
                self.check_state();
            }
        }
        Err(self.failure.take().expect("the loop ended on it"))
    }

    /// What came out, after [`Kernel::run`].
    pub fn outcome(mut self, scheduler: &native::Object, read: &[&str]) -> Result<Outcome, Error> {
        self.disable_scheduler();
        // It is out already: an error that it makes on its way means nothing.
        self.failure = None;
        for cpu in 0..self.cpus.len() {
            self.pause(cpu);
            if self.cpus[cpu].curr.is_some() {
                self.counters.busy_ns[cpu] += self.now() - self.cpus[cpu].busy_since;
            }
        }
        self.check_sums();
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let now = self.now();
        Ok(Outcome {
            energy: self.meters.as_mut().map(|meters| meters.read(now)),
            simulated_ns: self.now(),
            read: read
                .iter()
                .map(|symbol| self.instance.read(scheduler, symbol))
                .collect(),
            recorder: std::mem::take(&mut self.recorder),
            counters: std::mem::take(&mut self.counters),
        })
    }

    fn deadlock(&self) -> Error {
        let mut waiting: Vec<String> = self
            .tasks
            .iter()
            .filter(|task| !task.exited)
            .map(|task| format!("{} waits for {}", task.label(), task.waits_for))
            .collect();
        if waiting.len() > 8 {
            let more = waiting.len() - 8;
            waiting.truncate(8);
            waiting.push(format!("and {more} more"));
        }
        Error::Deadlock {
            at_ns: self.now(),
            waiting: waiting.join(", "),
        }
    }

    /// The time, ns.
    #[inline]
    pub fn now(&self) -> u64 {
        // SAFETY: the table lives as long as the kernel.
        unsafe { (*self.table).now }
    }

    #[inline]
    pub fn set_now(&mut self, now: u64) {
        debug_assert!(now >= self.now(), "time goes forward");
        // SAFETY: as above.
        unsafe { (*self.table).now = now };
    }

    /// The CPU whose code is running.
    #[inline]
    pub fn this_cpu(&self) -> usize {
        // SAFETY: as above.
        unsafe { (*self.table).cpu as usize }
    }

    /// Code runs on `cpu` from here on.
    #[inline]
    pub fn set_cpu(&mut self, cpu: usize) {
        // SAFETY: as above.
        unsafe {
            (*self.table).cpu = cpu as i32;
            (*self.table).current = self.rqs[cpu].curr;
        }
    }

    /// What C sees of `cpu`'s runqueue.
    #[inline]
    pub fn rq(&mut self, cpu: usize) -> &mut Rq {
        &mut self.rqs[cpu]
    }

    /// As [`Kernel::rq`], to look at.
    pub fn rq_ref(&self, cpu: usize) -> &Rq {
        &self.rqs[cpu]
    }

    /// This kernel as C knows it, for the time of one call into the scheduler.
    #[inline]
    pub fn lend(&mut self) {
        let kernel: *mut Kernel<'a> = self;
        // SAFETY: as above. The scheduler's calls come back through this pointer while the caller's
        // borrow rests.
        unsafe { (*self.table).kernel = kernel.cast::<c_void>() };
    }

    /// The pid after the last task's.
    pub fn next_pid(&self) -> i32 {
        FIRST_PID + self.tasks.len() as i32
    }

    /// The task `pid`, unless it has exited.
    pub fn task(&self, pid: i32) -> Option<TaskPtr> {
        let index = usize::try_from(pid.checked_sub(FIRST_PID)?).ok()?;
        self.tasks.get(index).copied().filter(|task| !task.exited)
    }

    /// The task group's css_set, for a new task.
    pub fn css_set(&mut self) -> *mut CssSet {
        self.root_cgroup.css_set()
    }

    #[inline]
    pub fn traced(&mut self, cpu: usize, event: Event<'_>) {
        let now = self.now();
        if let Some(trace) = &mut self.trace {
            trace.event(now, cpu, event);
        }
    }

    /// The workload did something that cannot go on.
    pub fn task_error(&mut self, task: TaskPtr, message: impl Into<String>) {
        if self.failure.is_none() {
            self.failure = Some(Error::Task {
                task: task.label(),
                at_ns: self.now(),
                message: message.into(),
            });
        }
    }
}

impl Drop for Kernel<'_> {
    fn drop(&mut self) {
        for &task in &self.tasks {
            for slot in task.abi.storage {
                kfuncs::release(slot);
            }
            // SAFETY: the simulation is over.
            unsafe { task.free() };
        }
        // SAFETY: made in boot(); the scheduler, which has a pointer to it, runs no more.
        drop(unsafe { Box::from_raw(self.table) });
    }
}
