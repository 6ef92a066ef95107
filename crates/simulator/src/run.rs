//! The event loop: lets time pass until the workload is done, and returns the outcome.

use crate::check::{check_state, check_sums};
use crate::events::{Next, What};
use crate::kernel::Kernel;
use crate::kernel::syscalls::MUTEX;
use crate::kernel::task::{Class, Continuation, TaskPtr};
use crate::{Counters, Deadlock, Error, GroupRequest, Outcome, TaskTotals};
use std::sync::atomic::{AtomicBool, Ordering};

/// The limit on the number of events at one time, and on that of a CPU's reschedules. Beyond the limit, the scheduler
/// is assumed to cause them endlessly. The limit suffices for many events of each task of the largest workload.
pub const MAX_INSTANT_EVENTS: u32 = 2_000_000;

/// The number of events between two tests of whether the run has to stop; a power of two. This number of events takes
/// about 1 ms.
const EVENTS_BETWEEN_LOOKS: u64 = 1 << 13;

/// Runs the event loop until all tasks but daemons have exited, the time of the workload or of the limit is up, the run
/// fails, or `stop` is set.
pub fn run(kernel: &mut Kernel<'_>, limit_ns: u64, stop: Option<&AtomicBool>) -> Result<(), Error> {
    let mut instant_events = 0;
    let mut events = 0u64;
    while kernel.failure.is_none() {
        events += 1;
        if events & (EVENTS_BETWEEN_LOOKS - 1) == 0
            && stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
        {
            return Err(Error::Stopped);
        }
        if kernel.alive == kernel.daemons {
            return Ok(());
        }
        // A load with a duration that is not only a default ends at that time, whatever its tasks wait for.
        let idle = kernel.runnable == 0 && kernel.sleeping == 0 && !kernel.hw.is_active();
        if idle && kernel.deadlock.is_none() {
            kernel.deadlock = Some(deadlock(kernel));
        }
        if let Some(deadlock) = kernel.deadlock.take_if(|_| !kernel.has_end) {
            return Err(Error::Deadlock(deadlock));
        }
        let Some(Next { time, done }) = kernel.events.next() else {
            return Err(Error::Deadlock(deadlock(kernel)));
        };
        if time >= limit_ns {
            return Err(Error::TimeLimit { limit_ns });
        }
        if time > kernel.now() {
            instant_events = 0;
            kernel.set_now(time);
        } else {
            instant_events += 1;
            if instant_events > MAX_INSTANT_EVENTS {
                kernel.time_stands_still("expected a finite number of timers and kicks");
                continue;
            }
        }
        match done {
            Some(cpu) => kernel.done(cpu),
            None if happens(kernel) => {}
            None => {
                kernel.check_dispatched();
                return kernel.failure.take().map_or(Ok(()), Err);
            }
        }
        if kernel.check.is_some() {
            check_state(kernel);
        }
    }
    Err(kernel.failure.take().expect("the loop ended on it"))
}

/// Executes the event scheduled for now. Returns whether the run continues.
#[inline]
fn happens(kernel: &mut Kernel<'_>) -> bool {
    match kernel.events.take() {
        What::Tick { cpu } => kernel.tick(cpu as usize),
        What::Idle { cpu } => kernel.search_done(cpu as usize),
        What::Resched { cpu } => kernel.resched_interrupt(cpu as usize),
        What::Expiry { task } => kernel.sleep_expired(task),
        What::Wake { task } => kernel.sleep_ended(task),
        What::BpfTimer(expiry) => kernel.bpf_timer_expired(expiry),
        What::Hardware(event) => kernel.hardware_event(event),
        What::Dl(timer) => kernel.dl_timer(timer),
        What::DlServer {
            cpu,
            generation,
            handled,
        } => kernel.server_timer(cpu as usize, generation, handled),
        What::Softirq { cpu } => kernel.softirq_part_done(cpu as usize),
        What::Watchdog => kernel.watchdog(),
        What::Hotplug { cpu, online } => kernel.hotplug(cpu as usize, online),
        What::HotplugPending => kernel.pending_hotplug(),
        What::Reload => kernel.reload(),
        What::End => return false,
    }
    true
}

/// The requests of the workload's groups for which the scheduler has no callback, or the simulated kernel calls none.
fn ignored(kernel: &Kernel<'_>) -> Vec<GroupRequest> {
    let (scx, groups) = (&kernel.scx, &kernel.bpf.groups);
    let (ops, is_any) = (&scx.ops, groups.len() > 1);
    if is_any && ops.cgroup_init.is_none() && ops.cgroup_move.is_none() {
        return vec![GroupRequest::Groups];
    }
    let called = |name| scx.is_fair_class || scx.release.has(name);
    let max = ops.cgroup_set_bandwidth.is_some() && called("cgroup_set_bandwidth");
    let idle = ops.cgroup_set_idle.is_some() && called("cgroup_set_idle");
    let all = [
        (
            GroupRequest::Weight,
            is_any,
            ops.cgroup_set_weight.is_some(),
        ),
        (
            GroupRequest::Max,
            groups.any(|group| group.max.is_some()),
            max,
        ),
        (GroupRequest::Idle, groups.any(|group| group.idle), idle),
    ];
    let lacks = |&(_, is_requested, is_known): &(_, bool, bool)| is_requested && !is_known;
    all.into_iter()
        .filter(lacks)
        .map(|(request, ..)| request)
        .collect()
}

/// The outcome, after [`run`].
pub fn outcome(
    mut kernel: Kernel<'_>,
    scheduler: &native::Object,
    read: &[&str],
) -> Result<Outcome, Error> {
    let tasks = end_tasks(&mut kernel);
    let has_groups = kernel.bpf.groups.len() > 1;
    let ignored = ignored(&kernel);
    kernel.disable_scheduler();
    kernel.check_constants();
    // If the scheduler has already exited, an error while it is being disabled does not count, unless it is one for
    // which Linux would have refused the scheduler.
    kernel.failure = kernel.refused.take();
    for cpu in 0..kernel.cpus.len() {
        kernel.pause(cpu);
        if kernel.cpus[cpu].curr.is_some() {
            kernel.cpus[cpu].busy_ns += kernel.now() - kernel.cpus[cpu].busy_since;
        }
    }
    check_sums(&mut kernel);
    if let Some(error) = kernel.failure.take() {
        return Err(error);
    }
    let now = kernel.now();
    Ok(Outcome {
        energy: kernel
            .hw
            .meters
            .as_mut()
            .filter(|meters| meters.are_known())
            .map(|meters| meters.read(now)),
        simulated_ns: kernel.now(),
        tasks,
        has_groups,
        ignored,
        deadlock: kernel.deadlock.take(),
        read: read
            .iter()
            .map(|symbol| kernel.bpf.instance.read(scheduler, symbol))
            .collect(),
        recorder: std::mem::take(&mut kernel.programs.env.recorder),
        counters: Counters {
            busy_ns: kernel.cpus.iter().map(|cpu| cpu.busy_ns).collect(),
            overhead_ns: kernel.cpus.iter().map(|cpu| cpu.overhead_ns).collect(),
            wasted_ns: kernel.waste.wasted_ns,
            longest_waste_ns: kernel.waste.longest_ns,
            throttled: kernel.bpf.groups.throttled(now),
            irq_ns: kernel.cpus.iter().map(|cpu| cpu.irq_ns).collect(),
            ..std::mem::take(&mut kernel.counters)
        },
    })
}

/// Tells the programs of tasks that have not exited that the run ends. Returns the totals of the workload's tasks.
fn end_tasks(kernel: &mut Kernel<'_>) -> Vec<TaskTotals> {
    let tasks: Vec<TaskPtr> = kernel
        .tasks
        .iter()
        .copied()
        .filter(is_of_workload)
        .collect();
    for &task in tasks.iter().filter(|task| !task.exited.get()) {
        kernel.end_program(task);
    }
    let mut totals = Vec::with_capacity(tasks.len());
    for task in tasks {
        let runs = kernel.cpus[task.cpu()].curr == Some(task);
        let waits = task.on_rq.get() && !runs && !kernel.is_throttled(task);
        totals.push(TaskTotals {
            name: task.name.to_string(),
            cpu_ns: kernel.cpu_time(task),
            longest_wait_ns: match task.class.get() {
                Class::Dl => 0,
                Class::Rt | Class::Ext => task.longest_wait.get(),
            },
            waits_since_ns: waits.then(|| task.waits_since.get()),
        });
    }
    totals
}

/// Does `task` belong to the workload? The shell and ksoftirqd do not, and have no parent.
fn is_of_workload(task: &TaskPtr) -> bool {
    task.parent.is_some()
}

/// The tasks of the workload that nothing will wake.
fn deadlock(kernel: &Kernel<'_>) -> Deadlock {
    let mut waiting: Vec<String> = kernel
        .tasks
        .iter()
        .filter(|task| is_of_workload(task) && !task.exited.get() && !task.on_rq.get())
        .map(|task| {
            let (name, what) = (task.label(), task.waits_for.get());
            match task.continuation.get() {
                Continuation::Wait {
                    relock: Some(mutex),
                } if what == MUTEX => {
                    let mutex = kernel.programs.mutex_label(mutex);
                    format!("{name} waits for {mutex}")
                }
                _ => format!("{name} waits for {what}"),
            }
        })
        .collect();
    if waiting.len() > 8 {
        let more = waiting.len() - 8;
        waiting.truncate(8);
        waiting.push(format!("and {more} more"));
    }
    Deadlock {
        at_ns: kernel.now(),
        waiting: cage::text::plain(&waiting.join(", ")).into_owned(),
    }
}
