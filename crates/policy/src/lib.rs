//! Policies: what the scheduler in `scheduler/` is told to do. A policy is data, switches and numbers
//! over one body of code; presets are in `policies/`, and a file of one's own can extend them.
//!
//! This crate is also the scheduler's user-space half: it builds the sched domains of a machine
//! ([`Domains`]) and lays everything out as the scheduler's global variables ([`Policy::globals`]),
//! the same for the simulated kernel and for BPF.

mod builtin;
mod counters;
mod domains;
mod file;
mod layout;

pub use counters::Counters;
pub use domains::{Domain, Domains, Flags};

use machine::Machine;
use native::{Global, Object};

/// A policy, complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The name that `--policy` takes.
    pub name: String,
    /// One line for a person.
    pub description: String,
    /// Which scheduler it is for, of [`native::SCHEDULERS`].
    pub scheduler: &'static str,
    /// The switches and numbers.
    pub settings: Settings,
}

/// What a policy can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Each runnable task should run once within this, ns, for one CPU.
    pub sched_latency_ns: u64,
    /// But for no less than this, ns, for one CPU.
    pub sched_min_granularity_ns: u64,
    /// A task that wakes up preempts one that is ahead by more than this, ns, for one CPU.
    pub sched_wakeup_granularity_ns: u64,
    /// How these three grow with the number of CPUs.
    pub tunable_scaling: TunableScaling,
    /// A task that ran within this time is cache-hot, ns.
    pub sched_migration_cost_ns: u64,
    /// How many tasks one pass over a busy runqueue looks at.
    pub sched_nr_migrate: u32,
    /// What the load of a task is in balancing.
    pub load_tracking: LoadTracking,
    /// Force a task that is too heavy for its CPU onto a CPU of higher capacity.
    pub misfit: bool,
    /// An idle CPU pulls wherever a group has more tasks than CPUs.
    pub idle_pull: bool,
    /// A CPU that runs out of work more often than this on average does not look for some, ns; 0:
    /// however often.
    pub newidle_limit_ns: u64,
    /// What balancing is for.
    pub sched_balance_policy: BalancePolicy,
    /// A CPU that idles for less than this on average is woken in bursts, ns: packing then counts its
    /// tasks in full.
    pub sched_burst_threshold_ns: u64,
    /// Frequencies follow the fair tasks' utilization and the bandwidth of deadline tasks; all that the
    /// CPU can do while a real-time task is runnable. Otherwise CPUs run at their highest frequency.
    pub frequency: bool,
    /// The utilization of real-time tasks counts too.
    pub frequency_rt: bool,
    /// That of deadline tasks tells whether the CPU has any idle time.
    pub frequency_dl: bool,
    /// Interrupts' counts too.
    pub frequency_irq: bool,
    /// A CPU asks for another frequency no sooner than this after the last time, ns.
    pub frequency_rate_limit_ns: u64,
    /// What tells how much of a CPU other classes and interrupts leave for fair tasks.
    pub scale_rt_capacity: RtCapacity,
    /// What an interrupt wakes stays on its idle CPU, and does not go to the interrupt's.
    pub wake_affine_idle: bool,
    /// Who moves tasks between fast and slow CPUs.
    pub hmp: Hmp,
    /// Linaro's: tasks with a runnable average of at least this, of 1024, go to fast CPUs.
    pub hmp_up_threshold: u32,
    /// Linaro's: tasks that wake up with less than this, of 1024, go to slow CPUs.
    pub hmp_down_threshold: u32,
    /// Linaro's: small tasks wake up on the first slow CPU that is not above this with them, of 1024;
    /// 0: they are spread.
    pub hmp_full_threshold: u32,
    /// Linaro's: no sooner than this after it went up, a task goes up again, ns.
    pub hmp_next_up_ns: u64,
    /// Linaro's: no sooner than this after it went down, a task goes down again, ns.
    pub hmp_next_down_ns: u64,
}

impl Settings {
    /// Names and values, as in a policy file.
    pub fn list(&self) -> Vec<(&'static str, String)> {
        vec![
            ("sched_latency_ns", self.sched_latency_ns.to_string()),
            (
                "sched_min_granularity_ns",
                self.sched_min_granularity_ns.to_string(),
            ),
            (
                "sched_wakeup_granularity_ns",
                self.sched_wakeup_granularity_ns.to_string(),
            ),
            (
                "tunable_scaling",
                format!("{:?}", self.tunable_scaling).to_lowercase(),
            ),
            (
                "sched_migration_cost_ns",
                self.sched_migration_cost_ns.to_string(),
            ),
            ("sched_nr_migrate", self.sched_nr_migrate.to_string()),
            (
                "load_tracking",
                format!("{:?}", self.load_tracking).to_lowercase(),
            ),
            ("misfit", self.misfit.to_string()),
            ("idle_pull", self.idle_pull.to_string()),
            ("newidle_limit_ns", self.newidle_limit_ns.to_string()),
            (
                "sched_balance_policy",
                format!("{:?}", self.sched_balance_policy).to_lowercase(),
            ),
            (
                "sched_burst_threshold_ns",
                self.sched_burst_threshold_ns.to_string(),
            ),
            ("frequency", self.frequency.to_string()),
            ("frequency_rt", self.frequency_rt.to_string()),
            ("frequency_dl", self.frequency_dl.to_string()),
            ("frequency_irq", self.frequency_irq.to_string()),
            (
                "frequency_rate_limit_ns",
                self.frequency_rate_limit_ns.to_string(),
            ),
            ("scale_rt_capacity", self.scale_rt_capacity.to_string()),
            ("wake_affine_idle", self.wake_affine_idle.to_string()),
            ("hmp", format!("{:?}", self.hmp).to_lowercase()),
            ("hmp_up_threshold", self.hmp_up_threshold.to_string()),
            ("hmp_down_threshold", self.hmp_down_threshold.to_string()),
            ("hmp_full_threshold", self.hmp_full_threshold.to_string()),
            ("hmp_next_up_ns", self.hmp_next_up_ns.to_string()),
            ("hmp_next_down_ns", self.hmp_next_down_ns.to_string()),
        ]
    }
}

/// `sysctl_sched_tunable_scaling`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TunableScaling {
    /// Not at all.
    None,
    /// 1 + log2 of the number of CPUs.
    Log,
    /// With the number of CPUs.
    Linear,
}

impl TunableScaling {
    /// The factor for so many CPUs; more than 8 count as 8 (`get_update_sysctl_factor()`).
    pub fn factor(self, cpus: usize) -> u64 {
        let cpus = cpus.clamp(1, 8) as u64;
        match self {
            TunableScaling::None => 1,
            TunableScaling::Log => 1 + u64::from(cpus.ilog2()),
            TunableScaling::Linear => cpus,
        }
    }
}

/// What the load of a task is in balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadTracking {
    /// Its weight (Linux 3.9).
    Weight,
    /// Its runnable average times its weight (Linux 3.11).
    Pelt,
}

/// What tells how much of a CPU other classes and interrupts leave for fair tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RtCapacity {
    /// The time they had, halved every half a second (`rq->rt_avg` of Linux until 4.18).
    RtAvg,
    /// Their utilization.
    Pelt,
}

impl std::fmt::Display for RtCapacity {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            RtCapacity::RtAvg => "rt-avg",
            RtCapacity::Pelt => "pelt",
        })
    }
}

/// Who moves tasks between fast and slow CPUs, where there are both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hmp {
    /// Balancing of domains, as between any CPUs.
    Off,
    /// Linaro's big.LITTLE MP scheduler: thresholds on a task's load.
    Linaro,
    /// Balancing of the two clusters by load and fairness.
    Hperf,
}

/// What balancing is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BalancePolicy {
    /// To spread tasks.
    Performance,
    /// To pack them into few groups of CPUs as long as these have room.
    Powersaving,
}

impl Policy {
    /// The scheduler, for the simulated kernel.
    pub fn object(&self) -> &'static Object {
        Object::own(self.scheduler).expect("a policy is for a scheduler that there is")
    }

    /// The scheduler's global variables for this policy on `machine`.
    pub fn globals(&self, machine: &Machine) -> Vec<Global> {
        layout::globals(&self.settings, machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunables_grow_as_the_kernels_do() {
        let log = [1, 2, 3, 4, 5, 7, 8, 64].map(|cpus| TunableScaling::Log.factor(cpus));
        assert_eq!(log, [1, 2, 2, 3, 3, 3, 4, 4]);
        assert_eq!(TunableScaling::Linear.factor(5), 5);
        assert_eq!(TunableScaling::None.factor(5), 1);
    }
}
