//! Invariants of a run, checked during the run if a caller asks for that ([`crate::run_checked`]).
//!
//! After every event, each runnable task must be in exactly one place, which its affinity allows; the counters must
//! agree with the queues; no CPU may sleep while its own queue has work; and no task of sched_ext may wait for so long
//! that the watchdog must have noticed. Each computation must do exactly the requested work. The busy time of each CPU
//! must be the computing time of its tasks plus the kernel's overhead. At the end of a run, the wasted time must equal
//! a recount over all intervals between events.

use crate::Error;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, Continuation, OpsState, TaskPtr};
use crate::scx::dsq::OnDsq;
use crate::waste::Recount;
use machine::CpuMask;

/// The checks of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check {
    idle_limit_ns: Option<u64>,
}

impl Check {
    /// Properties that hold under any scheduler.
    pub const INVARIANTS: Check = Check {
        idle_limit_ns: None,
    };

    /// Also checks a property that a scheduler may promise: no CPU is idle for longer than `max_ns`
    /// while another CPU has a waiting task that may run on the idle CPU.
    pub const fn work_conserving(max_ns: u64) -> Check {
        Check {
            idle_limit_ns: Some(max_ns),
        }
    }
}

/// The state that the checks keep from event to event.
pub struct Checker {
    check: Check,
    /// For each CPU, the time for which tasks computed on it, in ns.
    computed_ns: Vec<u64>,
    /// The work of each task, in order of creation.
    work: Vec<Work>,
    /// For each CPU, the time at which it became idle while another CPU had a waiting task for it, in ns.
    idle_since: Vec<Option<u64>>,
    pub waste: Recount,
    /// The first violation.
    found: Option<String>,
    /// Buffers for [`check_tasks`], by task, and for [`check_cpus`], by CPU, which both run after every event.
    places: Vec<usize>,
    runnable: Vec<Runnable>,
}

/// The number of runnable tasks of a CPU.
#[derive(Clone, Copy, Default)]
struct Runnable {
    all: u32,
    ext: u32,
}

#[derive(Clone, Copy, Default)]
struct Work {
    /// The requested work, or CPU time if `own_time`.
    asked: u64,
    own_time: bool,
    /// The work done, in units of 1/2^20.
    done: u128,
    /// The number of pieces in which the work was done; each may round by one unit.
    pieces: u128,
}

impl Checker {
    pub fn new(check: Check, nr_cpus: usize) -> Checker {
        Checker {
            check,
            computed_ns: vec![0; nr_cpus],
            work: Vec::new(),
            idle_since: vec![None; nr_cpus],
            waste: Recount::default(),
            found: None,
            places: Vec::new(),
            runnable: Vec::new(),
        }
    }

    fn work_of(&mut self, task: TaskPtr) -> &mut Work {
        let index = task.index();
        if self.work.len() <= index {
            self.work.resize(index + 1, Work::default());
        }
        &mut self.work[index]
    }

    fn violation(&mut self, message: String) {
        self.found.get_or_insert(message);
    }

    /// Begins the account of a computation of `task`.
    pub fn begins(&mut self, task: TaskPtr, asked: u64, own_time: bool) {
        *self.work_of(task) = Work {
            asked,
            own_time,
            ..Work::default()
        };
    }

    /// Adds the time `ns` for which `task` has computed on `cpu`, whose speed is in 1/2^20, to the account.
    pub fn computed(&mut self, task: TaskPtr, cpu: usize, ns: u64, speed: u32) {
        self.computed_ns[cpu] += ns;
        let work = self.work_of(task);
        let rate = if work.own_time { 1 << 20 } else { speed };
        work.done += u128::from(ns) * u128::from(rate);
        work.pieces += 1;
    }

    /// Checks that `task`, which completes its computation on a CPU of `speed`, got exactly its work.
    pub fn ends(&mut self, task: TaskPtr, speed: u32) {
        let Work {
            asked,
            own_time,
            done,
            pieces,
        } = std::mem::take(self.work_of(task));
        let least = u128::from(asked) << 20;
        // The task may need only a part of the last nanosecond, and repeats the work that it lost at a pause.
        let most = match own_time {
            true => least,
            false => least + (pieces << 20) + u128::from(speed),
        };
        if !(least..=most).contains(&done) {
            self.violation(format!(
                "{} had to compute {asked} but computed {:.3}",
                task.label(),
                done as f64 / f64::from(1 << 20)
            ));
        }
    }

    /// Checks that no CPU is idle for too long while another CPU has a waiting task for it.
    fn check_idle(&mut self, kernel: &Kernel<'_>) -> Result<(), String> {
        let Some(limit) = self.check.idle_limit_ns else {
            return Ok(());
        };
        let now = kernel.now();
        let mut wanted = CpuMask::EMPTY;
        for task in kernel.tasks.iter().filter(|task| task.on_rq.get()) {
            if !runs(kernel, *task) && kernel.bpf.rq_ref(task.cpu()).nr_running >= 2 {
                wanted = wanted.or(&task.abi.cpus_mask.get());
            }
        }
        for (id, cpu) in kernel.cpus.iter().enumerate() {
            let idle = cpu.curr.is_none() && !cpu.need_resched && wanted.contains(id);
            if let Some(since) = self.idle_since[id].filter(|since| now - since > limit) {
                return Err(format!(
                    "CPU {id} was idle for {} ns while another CPU had two runnable tasks",
                    now - since
                ));
            }
            self.idle_since[id] = idle.then(|| self.idle_since[id].unwrap_or(now));
        }
        Ok(())
    }
}

/// Checks everything observable now. Called after each event and each reschedule.
pub fn check_state(kernel: &mut Kernel<'_>) {
    let Some(mut checker) = kernel.check.take() else {
        return;
    };
    if let Some(message) = checker
        .found
        .take()
        .or_else(|| check_tasks(kernel, &mut checker.places).err())
        .or_else(|| check_cpus(kernel, &mut checker.runnable).err())
        .or_else(|| checker.check_idle(kernel).err())
    {
        invariant_broken(kernel, message);
    }
    kernel.check = Some(checker);
}

/// Checks the sums at the end of a run, when no CPU computes.
pub fn check_sums(kernel: &mut Kernel<'_>) {
    let Some(checker) = kernel.check.take() else {
        return;
    };
    let mut cpus = kernel.cpus.iter().zip(&checker.computed_ns).enumerate();
    let wrong = cpus.find(|(_, (cpu, computed_ns))| cpu.busy_ns != *computed_ns + cpu.overhead_ns);
    if let Some((id, (cpu, computed_ns))) = wrong {
        let message = format!(
            "CPU {id} was busy for {} ns: {computed_ns} computing, {} overhead",
            cpu.busy_ns, cpu.overhead_ns
        );
        invariant_broken(kernel, message);
    }
    if let Some(message) = checker.waste.differs(&kernel.waste) {
        invariant_broken(kernel, message);
    }
}

fn invariant_broken(kernel: &mut Kernel<'_>, message: String) {
    kernel.fail(Error::Invariant {
        at_ns: kernel.now(),
        message,
    });
}

/// Checks that every task is in its place, and only there. `places` is overwritten.
fn check_tasks(kernel: &Kernel<'_>, places: &mut Vec<usize>) -> Result<(), String> {
    places.clear();
    places.resize(kernel.tasks.len(), 0);
    let mut found = |task: TaskPtr, right: bool, place: &str| {
        places[task.index()] += 1;
        match right {
            true => Ok(()),
            false => Err(format!(
                "{} is {place}, but its state differs",
                task.label()
            )),
        }
    };
    for (id, cpu) in kernel.cpus.iter().enumerate() {
        if let Some(task) = cpu.curr {
            found(
                task,
                task.cpu() == id && task.dsq.get() == OnDsq::NONE,
                "running",
            )?;
        }
        for &task in &cpu.rt {
            found(
                task,
                task.cpu() == id && task.class.get() == Class::Rt,
                "on the RT queue",
            )?;
        }
        for &task in &cpu.dl {
            let right =
                task.cpu() == id && task.class.get() == Class::Dl && !task.dl.get().throttled;
            found(task, right, "on the deadline queue")?;
        }
    }
    for (on, dsq) in kernel.scx.dsqs.iter() {
        for task in dsq.iter().map(|queued| queued.task) {
            let here = on.cpu().is_none_or(|cpu| cpu == task.cpu());
            found(task, task.dsq.get() == on && here, "on a dispatch queue")?;
        }
    }
    for (&task, &places) in kernel.tasks.iter().zip(&*places) {
        check_task(kernel, task, places)?;
    }
    Ok(())
}

/// Checks the state of `task`, which was found on `places` CPUs and queues.
fn check_task(kernel: &Kernel<'_>, task: TaskPtr, places: usize) -> Result<(), String> {
    let label = || task.label();
    let custody = usize::from(task.ops_state.get() == OpsState::Queued);
    let throttled = usize::from(task.on_rq.get() && task.dl.get().throttled && !runs(kernel, task));
    let places = places + custody + throttled;
    if places != usize::from(task.on_rq.get()) {
        let state = if task.on_rq.get() {
            "runnable"
        } else {
            "not runnable"
        };
        let places = machine::counted(places, "place", "places");
        return Err(format!("{} is {state} and in {places}", label()));
    }
    if task.on_rq.get() && task.exited.get() {
        return Err(format!("{} has exited and is runnable", label()));
    }
    let on = task.dsq.get();
    let bound = custody == 0 && !on.is_user() && on != OnDsq::GLOBAL;
    if task.on_rq.get() && bound && !task.abi.is_allowed(task.cpu()) {
        return Err(format!(
            "{} is on CPU {}, where it may not run",
            label(),
            task.cpu()
        ));
    }
    let waits = task.on_rq.get() && task.class.get() == Class::Ext && !runs(kernel, task);
    let waited = kernel.now().saturating_sub(task.runnable_at.get());
    if waits && waited > kernel.scx.watchdog.timeout_ns * 3 / 2 {
        return Err(format!(
            "{} has waited for {waited} ns and the watchdog did not notice",
            label()
        ));
    }
    Ok(())
}

fn runs(kernel: &Kernel<'_>, task: TaskPtr) -> bool {
    kernel.cpus[task.cpu()].curr == Some(task)
}

/// Checks that counters agree with the queues, and that no CPU sleeps while it has work. `runnable` is overwritten.
fn check_cpus(kernel: &Kernel<'_>, runnable: &mut Vec<Runnable>) -> Result<(), String> {
    runnable.clear();
    runnable.resize(kernel.cpus.len(), Runnable::default());
    let (mut alive, mut on_rq, mut sleeping) = (0, 0, 0);
    for task in kernel.tasks.iter().filter(|task| !task.exited.get()) {
        alive += 1;
        if task.on_rq.get() {
            if !kernel.hotplug.online.contains(task.cpu()) {
                let (label, cpu) = (task.label(), task.cpu());
                return Err(format!(
                    "{label} is runnable on CPU {cpu}, which is offline"
                ));
            }
            on_rq += 1;
            let of_cpu = &mut runnable[task.cpu()];
            of_cpu.all += u32::from(!task.dl.get().throttled);
            of_cpu.ext += u32::from(task.class.get() == Class::Ext);
        } else {
            sleeping += usize::from(matches!(task.continuation.get(), Continuation::Sleep));
        }
    }
    let (mut rt_queued, mut dl_queued) = (0, 0);
    for (id, (cpu, runnable)) in kernel.cpus.iter().zip(&*runnable).enumerate() {
        let rq = kernel.bpf.rq_ref(id);
        let counted = |what: &str, counted: u32, is: u32| {
            agree(
                || format!("{what} of CPU {id}"),
                counted as usize,
                is as usize,
            )
        };
        counted("nr_running", rq.nr_running, runnable.all)?;
        counted("scx.nr_running", rq.scx.nr_running, runnable.ext)?;
        let local = kernel.scx.dsqs.local(id).len() as u32;
        counted("local_dsq.nr", rq.scx.local_dsq.nr, local)?;
        let queued = local > 0 || !cpu.rt.is_empty() || !cpu.dl.is_empty();
        if cpu.curr.is_none() && queued && !cpu.need_resched {
            return Err(format!("CPU {id} is idle although its own queue has tasks"));
        }
        if cpu.curr.is_some() && kernel.scx.idle_masks.is_idle(id) {
            return Err(format!("CPU {id} is busy, but in the idle mask"));
        }
        rt_queued += cpu.rt.len();
        dl_queued += cpu.dl.len();
    }
    let number_of = |what: &str, counted: usize, is: usize| {
        agree(|| format!("the number of {what}"), counted, is)
    };
    number_of("runnable tasks", kernel.runnable, on_rq)?;
    number_of("sleeping tasks", kernel.sleeping, sleeping)?;
    number_of("tasks", kernel.alive, alive)?;
    number_of("waiting RT tasks", kernel.rt.queued, rt_queued)?;
    number_of("waiting deadline tasks", kernel.dl.queued, dl_queued)
}

/// Checks that the running count `counted` equals the actual count `is`. The name is built only on failure.
fn agree(name: impl Fn() -> String, counted: usize, is: usize) -> Result<(), String> {
    match counted == is {
        true => Ok(()),
        false => Err(format!("{} is {counted}, but there are {is}", name())),
    }
}
