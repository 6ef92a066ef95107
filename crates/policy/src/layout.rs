//! The scheduler's global variables as bytes: `scheduler/intf.h` and `policy.bpf.h` in Rust.

use crate::{Domain, Domains, Flags, Kind, Linux, Setting, Settings};
use bytemuck::{Pod, Zeroable};
use machine::{CorePower, CoreType, CpuMask, Machine};
use native::Global;

const MAX_LEVELS: usize = 8;
const MAX_ENERGY_DOMAINS: usize = 64;
const MAX_ENERGY_STATES: usize = 1024;

/// `SD_HMP`: a domain with both fast and slow CPUs.
const SD_HMP: u32 = 0x10000;

const NSEC_PER_SEC: u64 = 1_000_000_000;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct MachineC {
    tick_ns: u64,
    nr_cpus: u32,
    governor_adds: u32,
    asymmetric: u32,
    fast_group: u32,
    slow_group: u32,
    max_power: u32,
    nr_energy_domains: u32,
    scales: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct EnergyDomainC {
    group: u32,
    first_state: u32,
    nr_states: u32,
    pad: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct EnergyStateC {
    performance: u64,
    cost: u64,
}

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
    imb_numa_nr: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct GroupC {
    first: u32,
    weight: u32,
    power: u32,
    power_orig: u32,
    next_update: u64,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct CpuLevelsC {
    power: u32,
    power_orig: u32,
    nr_levels: u32,
    nr_llc_levels: u32,
    llc_id: u32,
    llc_first: u32,
    llc_weight: u32,
    online: u32,
    fast: u32,
    priority: u32,
    thread_speed: u32,
    domain: [u16; MAX_LEVELS],
    group: [u16; MAX_LEVELS],
}

pub(crate) fn globals(settings: &Settings, machine: &Machine, linux: Linux) -> Vec<Global> {
    let tables = Tables::new(machine, linux);
    vec![
        global("policy", &values(settings, machine.cpus.len(), false)),
        tunables(settings, machine.cpus.len()),
        global("machine", &[machine_c(machine, &tables)]),
        global("domains", &tables.domains),
        global("groups", &tables.groups),
        global("cpu_list", &tables.cpu_list),
        global("llc_list", &tables.llc_list),
        global("cpu_levels", &tables.cpu_levels),
        global("energy_domains", &tables.energy_domains),
        global("energy_states", &tables.energy_states),
    ]
}

fn global<T: Pod>(symbol: &str, value: &[T]) -> Global {
    Global {
        symbol: symbol.to_owned(),
        bytes: bytemuck::cast_slice(value).to_vec(),
    }
}

/// The variable `tunables`, which may change while the scheduler runs, for a machine with this number of CPUs.
pub(crate) fn tunables(settings: &Settings, cpus: usize) -> Global {
    global("tunables", &values(settings, cpus, true))
}

/// `struct tunables` if `live`, otherwise `struct policy`.
fn values(settings: &Settings, cpus: usize, live: bool) -> Vec<u64> {
    let factor = tunable_scaling(settings.get("tunable_scaling").unwrap_or(0), cpus);
    let value = |(setting, value): (&Setting, u64)| match setting.kind {
        Kind::Number { scaled: true, .. } => value * factor,
        _ => value,
    };
    let of_kind = settings.list().filter(|(setting, _)| setting.live == live);
    of_kind.map(value).collect()
}

/// The factor of tunables for this number of CPUs, by `TUNABLE_SCALING_*`. More than 8 CPUs count as 8
/// (`get_update_sysctl_factor()`).
fn tunable_scaling(scaling: u64, cpus: usize) -> u64 {
    let cpus = cpus.clamp(1, 8) as u64;
    match scaling {
        0 => 1,
        1 => 1 + u64::from(cpus.ilog2()),
        _ => cpus,
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
        max_power: tables
            .cpu_levels
            .iter()
            .map(|cpu| cpu.power_orig)
            .max()
            .unwrap_or(0),
        nr_energy_domains: tables.nr_energy_domains,
        scales: scales(machine).into(),
    }
}

/// Does the frequency of any CPU follow requests?
pub(crate) fn scales(machine: &Machine) -> bool {
    machine.governor_adds || machine.follows_requests()
}

/// The CPUs with the highest capacity, and the other CPUs, if any. Where Linux 6.12 ranks CPUs, all count as the
/// former.
fn fast_and_slow(machine: &Machine, linux: Linux) -> (CpuMask, Option<CpuMask>) {
    if linux == Linux::V6_12 && !machine.priorities.is_empty() {
        return (machine.all_cpus(), None);
    }
    let highest = machine.cpus.iter().map(|cpu| cpu.capacity).max();
    let (mut fast, mut slow) = (CpuMask::EMPTY, CpuMask::EMPTY);
    for id in machine.all_cpus().iter() {
        match Some(machine.cpus[id].capacity) == highest {
            true => fast.set(id),
            false => slow.set(id),
        };
    }
    let any_slow = slow.first().is_some();
    (fast, any_slow.then_some(slow))
}

/// `cpu_power` of a CPU, which Linux 6.12 calls `cpu_capacity`. In 6.12 the largest CPUs have 1024, even if they are
/// hardware threads. For [`Linux::Described`] it is the capacity in the machine file. In 3.9 a hardware thread has its
/// part of the core's power, which SMT increases slightly (`default_scale_smt_power()`: sd->smt_gain, which is 1178 of
/// 1024, divided by the number of threads).
fn cpu_power(machine: &Machine, cpu: usize, linux: Linux) -> u32 {
    const SMT_GAIN: u64 = 1178;
    let capacity = machine.cpus[cpu].capacity;
    match linux {
        Linux::V3_9 => {}
        Linux::V6_12 => return machine.linux_capacity(cpu),
        Linux::Described => return capacity,
    }
    match machine.siblings(cpu).count() as u64 {
        1 => capacity,
        threads => (u64::from(capacity) * (SMT_GAIN / threads) / 1024).max(1) as u32,
    }
}

/// The speed of a hardware thread while all threads of its core are busy, where 1024 is the speed of a thread alone.
fn thread_speed(machine: &Machine, cpu: usize) -> u32 {
    let alone = machine.thread_speed(cpu, 1).max(1);
    let beside_all = machine.thread_speed(cpu, machine.siblings(cpu).count());
    (u64::from(beside_all) * 1024 / u64::from(alone)) as u32
}

struct Tables {
    domains: Vec<DomainC>,
    groups: Vec<GroupC>,
    cpu_list: Vec<u16>,
    llc_list: Vec<u16>,
    cpu_levels: Vec<CpuLevelsC>,
    /// The numbers of the groups of the fast and the slow CPUs, if both exist.
    hmp_groups: Option<(u32, u32)>,
    energy_domains: Vec<EnergyDomainC>,
    nr_energy_domains: u32,
    energy_states: Vec<EnergyStateC>,
}

/// The performance states of `core`, whose CPUs have `capacity`, in rising order: `em_compute_costs()` of Linux 6.12. A
/// state that costs no less than the next one is omitted, because it is never worthwhile. The kernel's model has no
/// static power.
fn energy_states(core: &CoreType, power: &CorePower, capacity: u32) -> Vec<EnergyStateC> {
    let mut states: Vec<EnergyStateC> = Vec::new();
    for opp in (0..core.opps.len()).rev() {
        let performance = u64::from(core.at_opp(capacity, opp)).max(1);
        let cost = u64::from(power.thread_mw(core, opp, 1, 1)) * 10_000 / performance;
        if states.last().is_none_or(|higher| cost < higher.cost) {
            states.push(EnergyStateC { performance, cost });
        }
    }
    states.reverse();
    states
}

impl Tables {
    /// Makes the tables. Their static sizes in C suffice for any machine (intf.h).
    fn new(machine: &Machine, linux: Linux) -> Tables {
        let domains = Domains::new(machine, linux);
        let mut tables = Tables {
            domains: Vec::new(),
            groups: Vec::new(),
            cpu_list: Vec::new(),
            llc_list: Vec::new(),
            cpu_levels: Vec::new(),
            hmp_groups: None,
            energy_domains: Vec::new(),
            nr_energy_domains: 0,
            energy_states: Vec::new(),
        };
        let (fast, slow) = fast_and_slow(machine, linux);
        let power = |group: &CpuMask| group.iter().map(|cpu| cpu_power(machine, cpu, linux)).sum();
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
                imb_numa_nr: domain.imb_numa_nr,
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
                power: cpu_power(machine, cpu, linux),
                power_orig: cpu_power(machine, cpu, linux),
                online: (!machine.offline.contains(cpu)).into(),
                fast: fast.contains(cpu).into(),
                priority: machine.priorities.get(cpu).copied().unwrap_or(0),
                thread_speed: thread_speed(machine, cpu),
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
        tables.list_llcs();
        tables.hmp_groups = slow.map(|slow| {
            let fast = tables.add_group(&fast, power(&fast));
            (fast, tables.add_group(&slow, power(&slow)))
        });
        if linux == Linux::V6_12 && tables.hmp_groups.is_some() {
            tables.add_energy_model(machine);
        }
        tables
    }

    /// Adds the energy model of `machine`, if the power of all its CPUs is known at more than one frequency, no core
    /// has several hardware threads, and the governor is schedutil (`sched_is_eas_possible()`). CPUs that share a
    /// frequency must have one capacity (`em_dev_register_perf_domain()`).
    fn add_energy_model(&mut self, machine: &Machine) {
        let policies = machine.policies();
        let known = machine
            .core_types
            .iter()
            .all(|core| core.power.is_some() && core.opps.len() > 1);
        let threads = (0..machine.cpus.len()).any(|cpu| machine.siblings(cpu).count() > 1);
        let uneven = policies.iter().any(|cpus| {
            let mut capacities = cpus.iter().map(|cpu| machine.cpus[cpu].capacity);
            let first = capacities.next();
            capacities.any(|capacity| Some(capacity) != first)
        });
        let possible = machine.follows_requests() && known && !threads && !uneven;
        if !possible || policies.len() > MAX_ENERGY_DOMAINS {
            return;
        }
        for cpus in &policies {
            let Some(first) = cpus.first() else { continue };
            let core = &machine.core_types[machine.cpus[first].core_type];
            let Some(power) = &core.power else { continue };
            let states = energy_states(core, power, self.cpu_levels[first].power_orig);
            let domain = EnergyDomainC {
                group: self.add_group(cpus, 0),
                first_state: self.energy_states.len() as u32,
                nr_states: states.len() as u32,
                pad: 0,
            };
            self.energy_domains.push(domain);
            self.energy_states.extend(states);
        }
        // If there is no room for all states, there is no model.
        if self.energy_states.len() <= MAX_ENERGY_STATES {
            self.nr_energy_domains = self.energy_domains.len() as u32;
        }
        self.energy_states.truncate(MAX_ENERGY_STATES);
    }

    /// Lists the CPUs of each last-level cache, sorted by number.
    fn list_llcs(&mut self) {
        let mut by_llc: Vec<u16> = (0..self.cpu_levels.len() as u16).collect();
        let llc_id = |cpu: u16| self.cpu_levels[usize::from(cpu)].llc_id;
        by_llc.sort_by_key(|&cpu| llc_id(cpu));
        let spans: Vec<(u32, u32)> = (0..self.cpu_levels.len() as u16)
            .map(|cpu| {
                let first = by_llc.partition_point(|&other| llc_id(other) < llc_id(cpu));
                let end = by_llc.partition_point(|&other| llc_id(other) <= llc_id(cpu));
                (first as u32, (end - first) as u32)
            })
            .collect();
        for (row, (first, weight)) in self.cpu_levels.iter_mut().zip(spans) {
            (row.llc_first, row.llc_weight) = (first, weight);
        }
        self.llc_list = by_llc;
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunables_grow_as_the_kernels_do() {
        let log = [1, 2, 3, 4, 5, 7, 8, 64].map(|cpus| tunable_scaling(1, cpus));
        assert_eq!(log, [1, 2, 2, 3, 3, 3, 4, 4]);
        assert_eq!([tunable_scaling(2, 5), tunable_scaling(0, 5)], [5, 1]);
    }

    #[test]
    fn busy_siblings_leave_a_thread_the_machines_part_of_the_core() {
        let smt = "smt_throughput = 1.25";
        let file = |gain: &str| {
            format!(
                "name = \"m\"\n[core.c]\n{gain}\n[[package]]\n[[package.cluster]]\ncore = \"c\"\n\
                 cpus = \"0-3\"\nthreads = 2\n"
            )
        };
        let speed = |gain: &str| thread_speed(&Machine::parse("m.toml", &file(gain)).unwrap(), 0);
        assert_eq!(
            [speed(smt), speed(""), speed("smt_throughput = 2")],
            [640, 512, 1024]
        );
        assert_eq!(thread_speed(&Machine::find("tc2").unwrap(), 0), 1024);
    }
}
