//! The scheduler's global variables as bytes: `scheduler/intf.h` in Rust.

use crate::{BalancePolicy, Domain, Domains, Flags, Hmp, LoadTracking, RtCapacity, Settings};
use bytemuck::{Pod, Zeroable};
use machine::{CpuMask, MAX_CPUS, Machine};
use native::Global;

const MAX_LEVELS: usize = 8;
const MAX_DOMAINS: usize = 1024;
const MAX_GROUPS: usize = 2048;

/// `SD_HMP`: a domain with both fast and slow CPUs.
const SD_HMP: u32 = 0x10000;

const NSEC_PER_SEC: u64 = 1_000_000_000;

/// `struct policy`
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct PolicyC {
    sched_latency: u64,
    sched_min_granularity: u64,
    sched_wakeup_granularity: u64,
    sched_migration_cost: u64,
    sched_nr_migrate: u32,
    load_tracking: u32,
    misfit: u32,
    idle_pull: u32,
    newidle_limit: u64,
    sched_burst_threshold: u64,
    sched_balance_policy: u32,
    frequency: u32,
    frequency_rate_limit: u64,
    hmp: u32,
    hmp_up_threshold: u32,
    hmp_down_threshold: u32,
    hmp_full_threshold: u32,
    hmp_next_up: u64,
    hmp_next_down: u64,
    scale_rt_capacity: u32,
    wake_affine_idle: u32,
}

/// `struct machine`
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct MachineC {
    tick_ns: u64,
    nr_cpus: u32,
    governor_adds: u32,
    asymmetric: u32,
    fast_group: u32,
    slow_group: u32,
    pad: u32,
}

/// `struct domain`
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct DomainC {
    first: u32,
    weight: u32,
    first_group: u32,
    nr_groups: u32,
    flags: u32,
    imbalance_pct: u32,
    cache_nice_tries: u32,
    busy_idx: u32,
    idle_idx: u32,
    newidle_idx: u32,
    wake_idx: u32,
    forkexec_idx: u32,
    busy_factor: u32,
    min_interval: u32,
    max_interval: u32,
    pad: u32,
}

/// `struct group`
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct GroupC {
    first: u32,
    weight: u32,
    power: u32,
    power_orig: u32,
    next_update: u64,
}

/// `struct cpu_levels`
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct CpuLevelsC {
    power: u32,
    power_orig: u32,
    nr_levels: u32,
    nr_llc_levels: u32,
    llc_id: u32,
    fast: u32,
    domain: [u16; MAX_LEVELS],
    group: [u16; MAX_LEVELS],
}

/// `struct counters`
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct CountersC {
    pub(crate) balance_calls: u64,
    pub(crate) balance_ns: u64,
    pub(crate) pulled: u64,
    pub(crate) newidle_calls: u64,
    pub(crate) newidle_skipped: u64,
    pub(crate) newidle_limited: u64,
    pub(crate) newidle_pulled: u64,
    pub(crate) newidle_ns: u64,
    pub(crate) active_balances: u64,
    pub(crate) misfit_moves: u64,
    pub(crate) nohz_kicks: u64,
    pub(crate) power_placed: u64,
    pub(crate) power_balances: u64,
    pub(crate) frequency_requests: u64,
    pub(crate) frequency_requested: u64,
    pub(crate) up_migrations: u64,
    pub(crate) down_migrations: u64,
    pub(crate) swaps: u64,
}

/// The variable `counters`, by CPU.
pub(crate) fn counters(bytes: &[u8]) -> Option<Vec<CountersC>> {
    const SIZE: usize = size_of::<CountersC>();
    (bytes.len() == MAX_CPUS * SIZE).then(|| {
        bytes
            .chunks_exact(SIZE)
            .map(bytemuck::pod_read_unaligned)
            .collect()
    })
}

/// Every variable that user space sets.
pub(crate) fn globals(settings: &Settings, machine: &Machine) -> Vec<Global> {
    let tables = Tables::new(machine);
    vec![
        global("policy", &[policy(settings, machine.cpus.len())]),
        global("machine", &[machine_c(machine, &tables)]),
        global("domains", &tables.domains),
        global("groups", &tables.groups),
        global("cpu_list", &tables.cpu_list),
        global("cpu_levels", &tables.cpu_levels),
    ]
}

fn global<T: Pod>(symbol: &str, value: &[T]) -> Global {
    Global {
        symbol: symbol.to_owned(),
        bytes: bytemuck::cast_slice(value).to_vec(),
    }
}

fn policy(settings: &Settings, cpus: usize) -> PolicyC {
    let factor = settings.tunable_scaling.factor(cpus);
    PolicyC {
        sched_latency: settings.sched_latency_ns * factor,
        sched_min_granularity: settings.sched_min_granularity_ns * factor,
        sched_wakeup_granularity: settings.sched_wakeup_granularity_ns * factor,
        sched_migration_cost: settings.sched_migration_cost_ns,
        sched_nr_migrate: settings.sched_nr_migrate,
        load_tracking: match settings.load_tracking {
            LoadTracking::Weight => 0,
            LoadTracking::Pelt => 1,
        },
        misfit: settings.misfit.into(),
        idle_pull: settings.idle_pull.into(),
        newidle_limit: settings.newidle_limit_ns,
        sched_burst_threshold: settings.sched_burst_threshold_ns,
        sched_balance_policy: match settings.sched_balance_policy {
            BalancePolicy::Performance => 0,
            BalancePolicy::Powersaving => 1,
        },
        frequency: frequency(settings),
        frequency_rate_limit: settings.frequency_rate_limit_ns,
        hmp: match settings.hmp {
            Hmp::Off => 0,
            Hmp::Linaro => 1,
            Hmp::Hperf => 2,
        },
        hmp_up_threshold: settings.hmp_up_threshold,
        hmp_down_threshold: settings.hmp_down_threshold,
        hmp_full_threshold: settings.hmp_full_threshold,
        hmp_next_up: settings.hmp_next_up_ns,
        hmp_next_down: settings.hmp_next_down_ns,
        scale_rt_capacity: match settings.scale_rt_capacity {
            RtCapacity::RtAvg => 0,
            RtCapacity::Pelt => 1,
        },
        wake_affine_idle: settings.wake_affine_idle.into(),
    }
}

fn machine_c(machine: &Machine, tables: &Tables) -> MachineC {
    let (fast_group, slow_group) = tables.hmp_groups.unwrap_or((0, 0));
    MachineC {
        tick_ns: NSEC_PER_SEC / u64::from(machine.hz),
        nr_cpus: machine.cpus.len() as u32,
        governor_adds: machine.governor_adds.into(),
        asymmetric: tables.hmp_groups.is_some().into(),
        fast_group,
        slow_group,
        pad: 0,
    }
}

/// `FREQUENCY_*`
fn frequency(settings: &Settings) -> u32 {
    if !settings.frequency {
        return 0;
    }
    let switches = [
        true,
        settings.frequency_rt,
        settings.frequency_dl,
        settings.frequency_irq,
    ];
    (0..)
        .zip(switches)
        .map(|(bit, on)| u32::from(on) << bit)
        .sum()
}

/// The CPUs of the highest capacity, and the rest if there is one.
fn fast_and_slow(machine: &Machine) -> (CpuMask, Option<CpuMask>) {
    let highest = machine.cpus.iter().map(|cpu| cpu.capacity).max();
    let (mut fast, mut slow) = (CpuMask::EMPTY, CpuMask::EMPTY);
    for (id, cpu) in machine.cpus.iter().enumerate() {
        match Some(cpu.capacity) == highest {
            true => fast.set(id),
            false => slow.set(id),
        };
    }
    let any_slow = slow.first().is_some();
    (fast, any_slow.then_some(slow))
}

/// `cpu_power` of a CPU. A hardware thread has its part of the core's, which SMT makes a little more
/// (`default_scale_smt_power()`: sd->smt_gain, 1178 of 1024, over the threads).
fn cpu_power(machine: &Machine, cpu: usize) -> u32 {
    const SMT_GAIN: u64 = 1178;
    let capacity = machine.cpus[cpu].capacity;
    match machine.siblings(cpu).count() as u64 {
        1 => capacity,
        threads => (u64::from(capacity) * (SMT_GAIN / threads) / 1024).max(1) as u32,
    }
}

/// The topology.
struct Tables {
    domains: Vec<DomainC>,
    groups: Vec<GroupC>,
    cpu_list: Vec<u16>,
    cpu_levels: Vec<CpuLevelsC>,
    /// The numbers of the fast and the slow CPUs' groups, where there are both.
    hmp_groups: Option<(u32, u32)>,
}

impl Tables {
    /// Domains grow from level to level, so that the tables' static sizes are enough for any machine
    /// of up to [`MAX_CPUS`]; see intf.h.
    fn new(machine: &Machine) -> Tables {
        let domains = Domains::new(machine);
        let mut tables = Tables {
            domains: Vec::new(),
            groups: Vec::new(),
            cpu_list: Vec::new(),
            cpu_levels: Vec::new(),
            hmp_groups: None,
        };
        let (fast, slow) = fast_and_slow(machine);
        let power = |group: &CpuMask| group.iter().map(|cpu| cpu_power(machine, cpu)).sum();
        let mut group_of = Vec::new();
        for domain in &domains.domains {
            tables.domains.push(DomainC {
                first: tables.cpu_list.len() as u32,
                weight: domain.span.count() as u32,
                first_group: tables.groups.len() as u32,
                nr_groups: domain.groups.len() as u32,
                flags: match domain.span.is_subset(&fast)
                    || slow.is_some_and(|slow| domain.span.is_subset(&slow))
                {
                    true => domain.flags.0,
                    false => domain.flags.0 | SD_HMP,
                },
                imbalance_pct: domain.imbalance_pct,
                cache_nice_tries: domain.cache_nice_tries,
                busy_idx: domain.busy_idx,
                idle_idx: domain.idle_idx,
                newidle_idx: 0,
                wake_idx: 0,
                forkexec_idx: 0,
                busy_factor: domain.busy_factor,
                min_interval: domain.min_interval,
                max_interval: domain.max_interval,
                pad: 0,
            });
            let mut of_cpu = vec![0; machine.cpus.len()];
            for group in &domain.groups {
                let number = tables.add_group(group, power(group));
                group.iter().for_each(|cpu| of_cpu[cpu] = number as u16);
            }
            group_of.push(of_cpu);
        }
        for (cpu, levels) in domains.cpus.iter().enumerate() {
            let mut row = CpuLevelsC {
                power: cpu_power(machine, cpu),
                power_orig: cpu_power(machine, cpu),
                fast: fast.contains(cpu).into(),
                nr_levels: levels.len() as u32,
                ..Zeroable::zeroed()
            };
            for (level, &index) in levels.iter().enumerate() {
                row.domain[level] = index as u16;
                row.group[level] = group_of[index][cpu];
            }
            let shares_cache = |domain: &&Domain| domain.flags.has(Flags::SHARE_PKG_RESOURCES);
            let llc: Vec<&Domain> = domains.of(cpu).take_while(shares_cache).collect();
            row.nr_llc_levels = llc.len() as u32;
            row.llc_id = llc
                .last()
                .and_then(|domain| domain.span.first())
                .unwrap_or(cpu) as u32;
            tables.cpu_levels.push(row);
        }
        tables.hmp_groups = slow.map(|slow| {
            let fast = tables.add_group(&fast, power(&fast));
            (fast, tables.add_group(&slow, power(&slow)))
        });
        tables.domains.resize(MAX_DOMAINS, Zeroable::zeroed());
        tables.groups.resize(MAX_GROUPS, Zeroable::zeroed());
        tables.cpu_list.resize(MAX_DOMAINS * MAX_LEVELS, 0);
        tables.cpu_levels.resize(MAX_CPUS, Zeroable::zeroed());
        tables
    }

    /// Returns its number.
    fn add_group(&mut self, cpus: &CpuMask, power: u32) -> u32 {
        self.groups.push(GroupC {
            first: self.cpu_list.len() as u32,
            weight: cpus.count() as u32,
            power,
            power_orig: power,
            next_update: 0,
        });
        self.cpu_list.extend(cpus.iter().map(|cpu| cpu as u16));
        self.groups.len() as u32 - 1
    }
}
