//! Utilization clamps (uclamp): bounds that a task sets, by `sched_setattr(2)`, for the frequency of
//! the CPU on which it is runnable.
//!
//! The rules are from `kernel/sched/core.c` of Linux 7.3. A CPU's bounds are the largest of its runnable tasks' bounds
//! (max aggregation). Bounds are kept in buckets: a bucket's value falls only when its last task leaves, so a task may
//! be boosted by the higher clamp of a task in the same bucket that has left. The upper bound of a CPU that becomes
//! idle stays, because otherwise the utilization that still decays there would raise the frequency. Nothing is counted
//! before the first task sets a clamp (`sched_uclamp_used`); deadline tasks never count.

use crate::kernel::Kernel;
use crate::kernel::task::{Class, TaskPtr};
use crate::per_cpu::PerCpu;
use std::cell::Cell;
use workload::UtilClamps;

/// `CONFIG_UCLAMP_BUCKETS_COUNT`: the default, which Debian uses, too.
const BUCKETS: usize = 5;

/// `SCHED_CAPACITY_SCALE`.
const SCALE: u16 = 1024;

const MIN: usize = 0;
const MAX: usize = 1;
const BOTH: [usize; 2] = [MIN, MAX];

/// The clamps of a task, lower and upper.
#[derive(Default)]
pub struct TaskClamps {
    /// The clamps that the task has set.
    requested: [Cell<Option<u16>>; 2],
    /// The clamps that count on the task's runqueue, while the task is counted there.
    active: [Cell<Option<u16>>; 2],
}

impl TaskClamps {
    /// The clamps of a new task, which inherits its parent's clamps (`uclamp_fork()`).
    pub fn of_child(parent: Option<TaskPtr>) -> TaskClamps {
        let clamps = TaskClamps::default();
        if let Some(parent) = parent {
            for which in BOTH {
                clamps.requested[which].set(parent.clamps.requested[which].get());
            }
        }
        clamps
    }

    /// The clamp that counts on a runqueue: the request or, without one, the default. A real-time task requests the
    /// highest frequency by default (`sched_util_clamp_min_rt_default`).
    fn effective(&self, which: usize, class: Class) -> u16 {
        let default = match (which, class) {
            (MIN, Class::Rt) | (MAX, _) => SCALE,
            _ => 0,
        };
        self.requested[which].get().unwrap_or(default)
    }
}

/// The clamps of all runqueues.
pub struct Uclamp {
    is_used: bool,
    cpus: PerCpu<CpuClamps>,
}

#[derive(Default)]
struct CpuClamps {
    clamps: [Aggregate; 2],
    /// Whether the last task has left the runqueue (`UCLAMP_FLAG_IDLE`).
    is_idle: bool,
}

/// One of the two clamps of a runqueue.
#[derive(Default)]
struct Aggregate {
    value: u16,
    buckets: [Bucket; BUCKETS],
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    value: u16,
    tasks: u32,
}

impl Aggregate {
    fn bucket(&mut self, value: u16) -> &mut Bucket {
        // UCLAMP_BUCKET_DELTA, rounded to the nearest integer.
        let delta = (usize::from(SCALE) + BUCKETS / 2) / BUCKETS;
        &mut self.buckets[(usize::from(value) / delta).min(BUCKETS - 1)]
    }

    fn add(&mut self, value: u16, was_idle: bool) {
        let bucket = self.bucket(value);
        bucket.tasks += 1;
        if bucket.tasks == 1 || value > bucket.value {
            bucket.value = value;
        }
        if was_idle || value > self.value {
            self.value = value;
        }
    }

    /// Removes `value` from its bucket. Returns whether no task is left.
    fn remove(&mut self, value: u16, when_idle: u16) -> bool {
        let bucket = self.bucket(value);
        bucket.tasks -= 1;
        if bucket.tasks == 0 && bucket.value >= self.value {
            let top = self.buckets.iter().rev().find(|bucket| bucket.tasks > 0);
            self.value = top.map_or(when_idle, |bucket| bucket.value);
            return top.is_none();
        }
        false
    }
}

impl Uclamp {
    /// The runqueues of this number of CPUs, without clamps.
    pub fn new(cpus: usize) -> Uclamp {
        let none = |_| {
            let mut cpu = CpuClamps {
                is_idle: true,
                ..CpuClamps::default()
            };
            cpu.clamps[MAX].value = SCALE;
            cpu
        };
        Uclamp {
            is_used: false,
            cpus: PerCpu::new(cpus, none),
        }
    }

    /// The request `perf` of `cpu`, where 1024 is the capacity of the largest CPU, within the CPU's clamps
    /// (`sugov_effective_cpu_perf()`).
    pub fn clamped(&self, cpu: usize, perf: u32) -> u32 {
        if !self.is_used {
            return perf;
        }
        let [min, max] = BOTH.map(|which| u32::from(self.cpus[cpu].clamps[which].value));
        perf.min(max).max(min)
    }

    /// `uclamp_rq_inc()`: counts the clamps of `task`, which becomes runnable on its CPU.
    #[inline]
    pub fn add(&mut self, task: TaskPtr) {
        if self.is_used && task.class.get() != Class::Dl {
            self.count(task);
        }
    }

    #[cold]
    fn count(&mut self, task: TaskPtr) {
        let cpu = &mut self.cpus[task.cpu()];
        for which in BOTH {
            let value = task.clamps.effective(which, task.class.get());
            task.clamps.active[which].set(Some(value));
            cpu.clamps[which].add(value, cpu.is_idle);
        }
        cpu.is_idle = false;
    }

    /// `uclamp_rq_dec()`: no longer counts the clamps of `task`, which leaves the runqueue of its CPU.
    #[inline]
    pub fn remove(&mut self, task: TaskPtr) {
        if self.is_used {
            self.uncount(task);
        }
    }

    #[cold]
    fn uncount(&mut self, task: TaskPtr) {
        let cpu = &mut self.cpus[task.cpu()];
        for which in BOTH {
            // The task may have become runnable before clamps were used.
            let Some(value) = task.clamps.active[which].take() else {
                continue;
            };
            let when_idle = if which == MAX { value } else { 0 };
            let is_last = cpu.clamps[which].remove(value, when_idle);
            cpu.is_idle |= is_last && which == MAX;
        }
    }
}

impl Kernel<'_> {
    /// `sched_setattr(2)` with `SCHED_FLAG_UTIL_CLAMP`, by the task that runs on `cpu`.
    pub fn change_clamps(&mut self, cpu: usize, task: TaskPtr, clamps: UtilClamps) {
        let changes = [clamps.min, clamps.max];
        let asked = BOTH.map(|which| {
            let requested = task.clamps.requested[which].get();
            changes[which].or(requested)
        });
        let [min, max] = [asked[MIN].unwrap_or(0), asked[MAX].unwrap_or(SCALE)];
        if min > max || max > SCALE {
            let message = format!(
                "sched_setattr(): EINVAL: util_min {min} and util_max {max}; expected \
                 util_min <= util_max <= {SCALE}"
            );
            return self.task_error(task, message);
        }
        self.uclamp.is_used = true;
        self.change(cpu, task, |_, task| {
            for which in BOTH {
                task.clamps.requested[which].set(asked[which]);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_clamp_of_the_runnable_tasks_counts() {
        let mut clamp = Aggregate::default();
        clamp.add(300, true);
        clamp.add(700, false);
        assert_eq!(clamp.value, 700);
        assert!(!clamp.remove(700, 0));
        assert_eq!(clamp.value, 300);
        assert!(clamp.remove(300, 0));
        assert_eq!(clamp.value, 0);
    }

    /// 300 and 400 are in one bucket, 205 to 409.
    #[test]
    fn a_bucket_keeps_its_largest_value_until_it_is_empty() {
        let mut clamp = Aggregate::default();
        clamp.add(300, true);
        clamp.add(400, false);
        clamp.remove(400, 0);
        assert_eq!(clamp.value, 400);
        clamp.remove(300, 0);
        clamp.add(300, true);
        assert_eq!(clamp.value, 300);
    }
}
