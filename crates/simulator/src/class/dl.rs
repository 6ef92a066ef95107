//! The deadline class: `SCHED_DEADLINE` as in Linux 6.12 (`kernel/sched/deadline.c`), with a constant bandwidth server
//! per task, and the earliest deadline first over all CPUs.
//!
//! A task has a budget of `runtime` for each period. Running consumes it; a task without budget is throttled until its
//! next period, when a timer replenishes the budget and moves the deadline. Budgets are checked by the tick and
//! whenever the task's time is accounted (`HRTICK_DL` is off, as it is by default), so a task may overrun by up to a
//! tick, and pays for the overrun from its next budget. Budgets are relative to the largest CPU at its highest
//! frequency: time on a slower CPU counts less. Bandwidth is not reclaimed, and priority is not inherited.

use crate::class::dl_timer::{Timer, TimerKind};
use crate::class::server::{BW_SHIFT, DlEntity};
use crate::events::What;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, TaskPtr};
use machine::CpuMask;
use workload::SchedPolicy;

/// The part of each CPU's bandwidth that can be promised to tasks: `sched_rt_runtime_us` of
/// `sched_rt_period_us`, 95 %.
const MAX_BW: u64 = (950_000 << BW_SHIFT) / 1_000_000;

/// `sched_deadline_period_min_us` and `sched_deadline_period_max_us`, in ns.
const PERIOD_NS: std::ops::RangeInclusive<u64> = 100_000..=4_194_304_000;
/// The shortest budget (`1 << DL_SCALE`), in ns.
const MIN_RUNTIME_NS: u64 = 1 << 10;

#[derive(Default)]
pub struct Dl {
    /// The number of tasks that wait for a CPU.
    pub queued: usize,
    /// The bandwidth promised to tasks, in units of 1/2^20 of a CPU.
    pub total_bw: u64,
}

impl Kernel<'_> {
    /// `sched_dl_overflow()` and `__checkparam_dl()`: reserves bandwidth for `task`, whose policy changes to `policy`,
    /// and releases its old bandwidth, or returns the reason for a refusal.
    pub fn admit_dl(&mut self, task: TaskPtr, policy: SchedPolicy) -> Result<(), String> {
        let old = task.dl.get().bandwidth();
        let (new, entity) = match policy {
            SchedPolicy::Deadline {
                runtime_ns,
                deadline_ns,
                period_ns,
            } => {
                if runtime_ns < MIN_RUNTIME_NS
                    || runtime_ns > deadline_ns
                    || deadline_ns > period_ns
                    || !PERIOD_NS.contains(&period_ns)
                {
                    return Err(format!(
                        "sched_setattr(): EINVAL: a runtime of {runtime_ns}, deadline of {deadline_ns} \
                         and period of {period_ns} ns; expected {MIN_RUNTIME_NS} <= runtime <= deadline \
                         <= period, and a period of 100 us to 4.194304 s"
                    ));
                }
                if task.abi.cpus_mask.get() != self.machine.all_cpus() {
                    return Err(format!(
                        "sched_setattr(): EPERM: SCHED_DEADLINE on CPUs {} alone; expected all CPUs \
                         to be allowed",
                        task.abi.cpus_mask.get()
                    ));
                }
                let entity = DlEntity {
                    dl_runtime: runtime_ns,
                    dl_deadline: deadline_ns,
                    dl_period: period_ns,
                    generation: task.dl.get().generation + 1,
                    ..DlEntity::default()
                };
                (entity.bandwidth(), entity)
            }
            _ => {
                let generation = task.dl.get().generation + 1;
                let entity = DlEntity {
                    generation,
                    ..DlEntity::default()
                };
                (0, entity)
            }
        };
        let total = self.dl.total_bw - old + new;
        let limit = || self.dl_limit(&self.hotplug.online);
        if new > old && total > limit() {
            let percent = |bw: u64| 100.0 * bw as f64 / f64::from(1 << BW_SHIFT);
            return Err(format!(
                "sched_setattr(): EBUSY: deadline tasks would have {:.1} % of a CPU; expected at most \
                 {:.1} %",
                percent(total),
                percent(limit())
            ));
        }
        self.dl_deactivate(task);
        self.dl.total_bw = total;
        task.dl.set(entity);
        Ok(())
    }

    /// The bandwidth of `cpus` that can be promised to tasks, in units of 1/2^20 of a CPU.
    pub fn dl_limit(&self, cpus: &CpuMask) -> u64 {
        let capacity = |cpu| u64::from(self.hw.cpufreq.cap(cpu));
        cpus.iter().map(|cpu| (capacity(cpu) * MAX_BW) >> 10).sum()
    }

    /// Releases the bandwidth of `task`, which has exited, and voids its timers.
    pub fn exit_dl(&mut self, task: TaskPtr) {
        self.dl_deactivate(task);
        self.dl.total_bw -= task.dl.get().bandwidth();
        task.dl.set(DlEntity {
            generation: task.dl.get().generation + 1,
            ..DlEntity::default()
        });
    }

    /// `add_running_bw()`
    fn dl_activate(&mut self, task: TaskPtr) {
        if !task.dl.get().active {
            task.update_dl(|dl| dl.active = true);
            self.rq(task.cpu()).dl.running_bw += task.dl.get().bandwidth();
        }
    }

    /// `sub_running_bw()`
    fn dl_deactivate(&mut self, task: TaskPtr) {
        if task.dl.get().active {
            task.update_dl(|dl| dl.active = false);
            self.rq(task.cpu()).dl.running_bw -= task.dl.get().bandwidth();
        }
    }

    /// Moves the bandwidth of `task`, which changes its CPU, to `to`.
    pub fn migrate_dl(&mut self, task: TaskPtr, to: usize) {
        if task.dl.get().active {
            let bandwidth = task.dl.get().bandwidth();
            self.rq(task.cpu()).dl.running_bw -= bandwidth;
            self.rq(to).dl.running_bw += bandwidth;
        }
    }

    /// `enqueue_task_dl()` of a task that wakes up or has just joined the class.
    #[inline(never)]
    pub fn enqueue_dl(&mut self, task: TaskPtr) {
        let now = self.now();
        self.dl_activate(task);
        if task.dl.get().throttled {
            return;
        }
        let mut entity = task.dl.get();
        entity.generation += 1;
        // dl_check_constrained_dl(): a task may not get two budgets within one period.
        let constrained = entity.dl_deadline < entity.dl_period && entity.deadline > 0;
        if constrained && entity.deadline < now && now < entity.next_period() {
            entity.throttled = true;
            entity.runtime = entity.runtime.min(0);
            task.dl.set(entity);
            return self.start_dl_timer(task);
        }
        entity.wake(now);
        task.dl.set(entity);
        self.start_dl(task);
    }

    /// Puts a task with budget on its runqueue.
    fn start_dl(&mut self, task: TaskPtr) {
        let rq = self.rq(task.cpu());
        rq.nr_running += 1;
        rq.dl.dl_nr_running += 1;
        self.load_changed(task.cpu());
        self.queue_dl(task);
    }

    fn stop_dl(&mut self, task: TaskPtr) {
        let rq = self.rq(task.cpu());
        rq.nr_running -= 1;
        rq.dl.dl_nr_running -= 1;
        self.load_changed(task.cpu());
    }

    fn queue_dl(&mut self, task: TaskPtr) {
        let deadline = task.dl.get().deadline;
        let queue = &mut self.cpus[task.cpu()].dl;
        let index = queue.partition_point(|other| other.dl.get().deadline <= deadline);
        queue.insert(index, task);
        self.dl.queued += 1;
    }

    fn unqueue_dl(&mut self, task: TaskPtr) {
        let queue = &mut self.cpus[task.cpu()].dl;
        if let Some(index) = queue.iter().position(|&other| other == task) {
            queue.remove(index);
            self.dl.queued -= 1;
        }
    }

    /// `dequeue_task_dl()`: the task sleeps, or is dequeued to be changed.
    #[inline(never)]
    pub fn dequeue_dl(&mut self, task: TaskPtr, sleeps: bool) {
        let cpu = task.cpu();
        if self.cpus[cpu].curr == Some(task) {
            self.update_curr_dl(cpu, task);
        }
        if !task.dl.get().throttled {
            self.stop_dl(task);
            self.unqueue_dl(task);
        }
        if !sleeps {
            return;
        }
        // task_non_contending()
        let now = self.now();
        if !task.dl.get().throttled {
            task.update_dl(|dl| dl.generation += 1);
            let at = task.dl.get().zero_lag();
            if at <= now {
                self.dl_deactivate(task);
            } else {
                self.push_dl_timer(at, task, TimerKind::Inactive);
            }
        }
    }

    /// Accounts the running time of `task`, which stops running, and queues it if it is runnable and has budget.
    #[inline(never)]
    pub fn put_prev_dl(&mut self, cpu: usize, task: TaskPtr) {
        self.update_curr_dl(cpu, task);
        if task.on_rq.get() && !task.dl.get().throttled {
            self.queue_dl(task);
        }
    }

    #[inline(never)]
    pub fn set_next_dl(&mut self, cpu: usize, task: TaskPtr) {
        debug_assert_eq!(task.cpu(), cpu);
        self.unqueue_dl(task);
        self.push_dl(cpu);
    }

    #[inline(never)]
    pub fn tick_dl(&mut self, cpu: usize, task: TaskPtr) {
        self.update_curr_dl(cpu, task);
    }

    /// `yield_task_dl()`: the rest of the budget is given up.
    pub fn yield_dl(&mut self, cpu: usize, task: TaskPtr) {
        task.update_dl(|dl| dl.yielded = true);
        self.update_curr_dl(cpu, task);
    }

    /// `dl_scaled_delta_exec()`: the charge for `delta` ns on `cpu` at its current frequency.
    fn scale_dl(&self, cpu: usize, delta: u64) -> u64 {
        let scaled = (delta * u64::from(self.hw.cores.cpuperf_cur(cpu))) >> 10;
        (scaled * u64::from(self.hw.cpufreq.cap(cpu))) >> 10
    }

    fn charge_dl(&mut self, cpu: usize, task: TaskPtr) {
        let delta = self.update_curr(cpu, task);
        if task.class.get() == Class::Dl && !task.dl.get().throttled {
            let scaled = self.scale_dl(cpu, delta);
            task.update_dl(|dl| dl.runtime -= scaled as i64);
        }
    }

    /// `cpu` is about to change its frequency: charges the running time so far at the old frequency. Linux charges the
    /// time since its last accounting, up to a tick, at the new frequency.
    pub fn frequency_changes_dl(&mut self, cpu: usize) {
        if let Some(task) = self.cpus[cpu]
            .curr
            .filter(|task| task.class.get() == Class::Dl)
        {
            self.charge_dl(cpu, task);
            // The running time up to now is accounted, so an interrupt that comes now must not be subtracted from it.
            let now = self.now();
            self.cpus[cpu].forget_past(now);
        }
    }

    /// `update_curr_dl()`: charges the task's running time to its budget; throttles the task if no budget is left.
    pub fn update_curr_dl(&mut self, cpu: usize, task: TaskPtr) {
        self.charge_dl(cpu, task);
        if task.class.get() != Class::Dl || task.dl.get().throttled {
            return;
        }
        if task.dl.get().runtime > 0 && !task.dl.get().yielded {
            return;
        }
        if task.dl.get().yielded {
            task.update_dl(|dl| dl.runtime = dl.runtime.min(0));
        } else {
            self.counters.dl_throttled += 1;
        }
        self.stop_dl(task);
        self.unqueue_dl(task);
        task.update_dl(|dl| dl.throttled = true);
        self.cpus[cpu].need_resched = true;
        if task.dl.get().next_period() <= self.now() {
            // The next period has begun already, so start_dl_timer() would fail: replenish the budget now.
            {
                let now = self.now();
                task.update_dl(|dl| dl.replenish(now));
            }
            let rq = self.rq(cpu);
            rq.nr_running += 1;
            rq.dl.dl_nr_running += 1;
        } else {
            self.start_dl_timer(task);
        }
    }

    fn start_dl_timer(&mut self, task: TaskPtr) {
        task.update_dl(|dl| dl.generation += 1);
        let at = task.dl.get().next_period().max(self.now());
        self.push_dl_timer(at, task, TimerKind::Expiry);
    }

    fn push_dl_timer(&mut self, at: u64, task: TaskPtr, what: TimerKind) {
        let generation = task.dl.get().generation;
        let timer = Timer {
            task,
            generation,
            what,
        };
        self.events.push(at, What::Dl(timer));
    }

    pub fn dl_timer(&mut self, timer: Timer) {
        let Timer {
            task,
            generation,
            what,
        } = timer;
        if task.dl.get().generation != generation {
            return;
        }
        match what {
            TimerKind::Expiry => {
                let cpu = self.timers_cpu(task.cpu());
                let at = self.timer_interrupt(cpu);
                self.push_dl_timer(at, task, TimerKind::Replenish);
                self.timer_interrupt_done(cpu);
            }
            TimerKind::Replenish if task.dl.get().throttled => self.dl_replenish(task),
            TimerKind::Replenish => {}
            TimerKind::Inactive => self.dl_deactivate(task),
        }
    }

    /// `dl_task_timer()`
    fn dl_replenish(&mut self, task: TaskPtr) {
        let cpu = self.timers_cpu(task.cpu());
        self.enter(cpu);
        let now = self.now();
        task.update_dl(|dl| dl.replenish(now));
        if task.on_rq.get() {
            self.start_dl(task);
            self.check_preempt(task);
            self.push_dl(cpu);
        } else {
            // The task went to sleep without budget.
            self.dl_deactivate(task);
        }
        self.leave(cpu);
    }

    /// The queued task with the earliest deadline, or `prev`, which ran and may continue.
    #[inline(never)]
    pub fn pick_dl(&mut self, cpu: usize, prev: Option<TaskPtr>) -> Option<TaskPtr> {
        let head = self.cpus[cpu].dl.front().copied();
        match (head, prev) {
            (Some(head), Some(prev)) if head.dl.get().deadline < prev.dl.get().deadline => {
                Some(head)
            }
            (_, Some(prev)) => Some(prev),
            (head, None) => head,
        }
    }

    /// Puts back the task that runs on `cpu` and was dequeued to be changed.
    pub fn restore_dl(&mut self, cpu: usize, task: TaskPtr) {
        self.enqueue_dl(task);
        self.unqueue_dl(task);
        debug_assert_eq!(task.cpu(), cpu);
    }

    /// The earliest deadline of the deadline tasks that run or wait on `cpu`; the largest number if there is none.
    fn dl_urgency(&self, cpu: usize) -> u64 {
        let curr = self.cpus[cpu]
            .curr
            .filter(|curr| curr.class.get() == Class::Dl);
        let curr = curr.filter(|curr| curr.on_rq.get() && !curr.dl.get().throttled);
        let running = curr.map_or(u64::MAX, |curr| curr.dl.get().deadline);
        let waiting = self.cpus[cpu].dl.front();
        running.min(waiting.map_or(u64::MAX, |task| task.dl.get().deadline))
    }

    /// `dl_task_fits_capacity()`: could `cpu` consume the budget by the deadline?
    fn dl_fits(&self, task: TaskPtr, cpu: usize) -> bool {
        let dl = task.dl.get();
        (dl.dl_deadline * u64::from(self.hw.cpufreq.cap(cpu))) >> 10 >= dl.dl_runtime
    }

    /// `find_later_rq()`: the allowed CPU whose task has the latest deadline, or no deadline, if that is later than the
    /// deadline of `task` or, if that has passed, than a new one. Among equals it prefers a CPU that is large enough
    /// or, if none is, the largest CPU; among these, the task's last CPU, then an idle one.
    fn find_later_rq(&self, task: TaskPtr) -> Option<usize> {
        let allowed = &task.abi.cpus_mask.get().and(&self.hotplug.online);
        let deadline = if task.dl.get().deadline > self.now() {
            task.dl.get().deadline
        } else {
            self.now() + task.dl.get().dl_deadline
        };
        let capacity = |cpu| match self.dl_fits(task, cpu) {
            true => u32::MAX,
            false => self.hw.cpufreq.cap(cpu),
        };
        allowed
            .iter()
            .max_by_key(|&cpu| {
                (
                    self.dl_urgency(cpu),
                    capacity(cpu),
                    cpu == task.cpu(),
                    self.cpus[cpu].curr.is_none(),
                    usize::MAX - cpu,
                )
            })
            .filter(|&cpu| self.dl_urgency(cpu) > deadline)
    }

    /// `select_task_rq_dl()`: the task's last CPU, unless a deadline task runs or waits there, or that CPU is too small
    /// or forbidden; then the CPU of `find_later_rq()`, if there is one.
    #[inline(never)]
    pub fn select_cpu_dl(&mut self, task: TaskPtr, prev: usize) -> usize {
        let free = self.dl_urgency(prev) == u64::MAX;
        if task.abi.is_allowed(prev) && free && self.dl_fits(task, prev) {
            return prev;
        }
        self.find_later_rq(task).unwrap_or(prev)
    }

    /// `pull_dl_task()`: pulls the waiting task with the earliest deadline that may run on `cpu`, if that deadline is
    /// earlier than all deadlines on `cpu`.
    #[inline(never)]
    pub fn pull_dl(&mut self, cpu: usize) {
        let own = self.dl_urgency(cpu);
        let candidate = (0..self.cpus.len())
            .filter(|&other| other != cpu)
            .flat_map(|other| self.cpus[other].dl.iter().copied())
            .filter(|task| task.abi.is_allowed(cpu) && task.dl.get().deadline < own)
            .min_by_key(|task| task.dl.get().deadline);
        if let Some(task) = candidate {
            self.move_dl(task, cpu);
        }
    }

    /// `push_dl_task()`: sends the first waiting task to a CPU whose task has a later deadline.
    fn push_dl(&mut self, cpu: usize) {
        let Some(&task) = self.cpus[cpu].dl.front() else {
            return;
        };
        if let Some(to) = self.find_later_rq(task).filter(|&to| to != cpu) {
            self.move_dl(task, to);
            self.check_preempt(task);
        }
    }

    /// Moves `task`, which is runnable and does not run, to `to`, even if it has no budget.
    pub fn push_away_dl(&mut self, task: TaskPtr, to: usize) {
        match task.dl.get().throttled {
            true => self.set_task_cpu(task, to),
            false => self.move_dl(task, to),
        }
    }

    fn move_dl(&mut self, task: TaskPtr, to: usize) {
        self.stop_dl(task);
        self.unqueue_dl(task);
        self.set_task_cpu(task, to);
        self.start_dl(task);
    }
}
