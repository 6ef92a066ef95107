//! Energy: the power of each part of the machine, integrated over time.
//!
//! A hardware thread's power changes with its frequency, and with the activity on it and its siblings. The power of a
//! core, cluster or package changes when its first CPU becomes busy or its last one idle, and, while all its CPUs are
//! idle, as the part enters one idle state after another; the power of a core also changes with its frequency. Power in
//! mW times time in ns is energy in pJ. All are integers, so nothing is lost and the parts sum to the whole.

use crate::Event;
use machine::{BUSY_LOOP, CorePower, CoreType, CpuMask, Machine, PartIdle, PartPower};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A part of the machine that consumes power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Part {
    /// A hardware thread, by CPU: the power of its tasks.
    Cpu(usize),
    /// A core without its threads, named by its first CPU.
    Core(usize),
    /// A cluster, by number, without its cores.
    Cluster(usize),
    /// A package, by number, without its clusters.
    Package(usize),
    /// The rest of the machine.
    Rest,
}

/// Writes the part's name, such as `cpu-3` or `package-0`.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Cpu(number) => write!(f, "cpu-{number}"),
            Part::Core(number) => write!(f, "core-{number}"),
            Part::Cluster(number) => write!(f, "cluster-{number}"),
            Part::Package(number) => write!(f, "package-{number}"),
            Part::Rest => f.write_str("rest"),
        }
    }
}

/// The energy of a run, by part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Energy {
    /// The energy of each part, in pJ.
    pub parts: Vec<(Part, u128)>,
}

const PJ_PER_J: f64 = 1e12;

impl Energy {
    /// The total energy in J.
    pub fn total_j(&self) -> f64 {
        self.sum_j(|_| true)
    }

    /// The energy of the parts for which `which` is true, in J.
    pub fn sum_j(&self, which: impl Fn(Part) -> bool) -> f64 {
        let of = self.parts.iter().filter(|(part, _)| which(*part));
        of.map(|(_, pj)| pj).sum::<u128>() as f64 / PJ_PER_J
    }
}

/// The power of one part since the last change, and its energy until then.
#[derive(Clone, Debug, Default)]
struct Meter {
    mw: u32,
    since: u64,
    pj: u128,
    /// The last traced power, in mW, and the energy of instantaneous events since then, in pJ.
    traced: u32,
    at_once: u64,
}

impl Meter {
    /// Adds the energy up to `now`, in ns.
    #[inline]
    fn advance(&mut self, now: u64) {
        self.pj += u128::from(self.mw) * u128::from(now - self.since);
        self.since = now;
    }

    #[inline]
    fn set(&mut self, now: u64, mw: u32) {
        self.advance(now);
        self.mw = mw;
    }

    /// The change of `part` that has not been traced yet, if any.
    fn news(&mut self, part: Part) -> Option<Event<'static>> {
        if self.mw == self.traced && self.at_once == 0 {
            return None;
        }
        self.traced = self.mw;
        Some(Event::Power {
            part,
            mw: self.mw,
            pj: std::mem::take(&mut self.at_once),
        })
    }
}

struct Thread {
    meter: Meter,
    /// The activity of the thread's task, relative to [`BUSY_LOOP`]; 0 if the thread is idle.
    activity: u32,
    /// The core, cluster and package of the hardware thread, as indices into [`Meters::groups`].
    groups: [usize; 3],
}

/// A core, cluster or package.
struct Group {
    part: Part,
    cpus: Vec<usize>,
    meter: Meter,
    active_mw: u32,
    idle: Vec<PartIdle>,
    /// The number of busy CPUs; the time at which it became 0, and the busy time until then, in ns.
    busy: usize,
    changed_at: u64,
    busy_ns: u64,
    /// The number of idle states that the part has entered since it became idle.
    entered: usize,
    /// The time at which the next idle state is traced, in ns.
    told_at: u64,
}

impl Group {
    fn new(part: Part, cpus: Vec<usize>, power: &PartPower) -> Group {
        let mut group = Group {
            part,
            cpus,
            meter: Meter::default(),
            active_mw: power.active_mw,
            idle: power.idle.clone(),
            busy: 0,
            changed_at: 0,
            busy_ns: 0,
            entered: 0,
            told_at: 0,
        };
        group.meter.mw = group.active_mw;
        group
    }

    /// The time, in ns, at which the part enters its next idle state if its CPUs stay idle.
    fn next_idle_at(&self) -> Option<u64> {
        let next = self.idle.get(self.entered).filter(|_| self.busy == 0)?;
        Some(self.changed_at + next.residency_ns)
    }

    /// Adds the energy up to `now`, entering idle states on the way.
    fn advance(&mut self, now: u64) {
        while let Some(at) = self.next_idle_at().filter(|&at| at <= now) {
            let state = self.idle[self.entered];
            self.meter.set(at.max(self.meter.since), state.power_mw);
            self.meter.pj += u128::from(state.entry_pj);
            self.meter.at_once += state.entry_pj;
            self.entered += 1;
        }
        self.meter.advance(now);
    }

    fn add_busy(&mut self, now: u64) {
        if self.busy == 0 {
            self.advance(now);
            self.entered = 0;
            self.meter.mw = self.active_mw;
            self.changed_at = now;
        }
        self.busy += 1;
    }

    fn remove_busy(&mut self, now: u64) {
        self.busy -= 1;
        if self.busy == 0 {
            self.meter.advance(now);
            self.busy_ns += now - self.changed_at;
            self.changed_at = now;
            self.advance(now);
        }
    }

    /// The time up to `now` for which any CPU of the part was busy, in ns.
    fn busy_ns(&self, now: u64) -> u64 {
        match self.busy {
            0 => self.busy_ns,
            _ => self.busy_ns + now - self.changed_at,
        }
    }

    fn set_active_mw(&mut self, now: u64, mw: u32) {
        self.advance(now);
        if self.entered == 0 {
            self.meter.mw = mw;
        }
        self.active_mw = mw;
    }
}

/// Power at each OPP of a core type.
struct Table {
    /// The power of each busy thread in mW, by OPP and then by the number of the core's busy threads, less one.
    thread_mw: Vec<Vec<u32>>,
    /// For each OPP, the additional power of the core, in mW.
    static_mw: Vec<u32>,
}

impl Table {
    fn new(core: &CoreType, power: &CorePower, threads: usize) -> Table {
        let opps = 0..core.nr_opps();
        let thread = |opp, busy| power.thread_mw(core, opp, busy, threads);
        Table {
            thread_mw: opps
                .clone()
                .map(|opp| (1..=threads).map(|busy| thread(opp, busy)).collect())
                .collect(),
            static_mw: opps.map(|opp| power.static_mw(core, opp)).collect(),
        }
    }
}

/// The machine's meters.
pub struct Meters {
    threads: Vec<Thread>,
    /// Cores, then clusters, then packages.
    groups: Vec<Group>,
    /// The table of each core, with the same index as the core in `groups`.
    tables: Vec<Table>,
    /// The current OPP of each core.
    opps: Vec<usize>,
    first_package: usize,
    rest_mw: u32,
    /// Whether power is known. If the machine has no `[power]`, the meters only count busy times.
    known: bool,
}

impl Meters {
    /// The meters of `machine`, all of it idle since time 0; `None` if the machine does not need any: its power is
    /// unknown, and it has no turbo.
    pub fn new(machine: &Machine) -> Option<Meters> {
        if machine.power.is_none() && machine.turbo.is_none() {
            return None;
        }
        let power = machine.power.clone().unwrap_or_default();
        let mut meters = Meters {
            threads: Vec::new(),
            groups: Vec::new(),
            tables: Vec::new(),
            opps: Vec::new(),
            first_package: 0,
            rest_mw: power.rest_mw,
            known: machine.power.is_some(),
        };
        let online = machine.all_cpus();
        // Offline CPUs do nothing, so their entries are never read.
        let mut core_of = vec![usize::MAX; machine.cpus.len()];
        for cpu in online.iter() {
            let span = machine.siblings(cpu);
            if span.first() != Some(cpu) {
                continue;
            }
            let core = &machine.core_types[machine.cpus[cpu].core_type];
            let core_power = core.power.unwrap_or_default();
            span.iter()
                .for_each(|cpu| core_of[cpu] = meters.groups.len());
            let table = Table::new(core, &core_power, span.count());
            let idle = core.idle_states.iter().map(|state| PartIdle {
                residency_ns: state.min_residency_ns,
                power_mw: state.power_mw,
                entry_pj: state.entry_pj,
            });
            let highest = core.nr_opps() - 1;
            let part = PartPower {
                active_mw: table.static_mw[highest],
                idle: idle.collect(),
            };
            meters
                .groups
                .push(Group::new(Part::Core(cpu), span.iter().collect(), &part));
            meters.tables.push(table);
            meters.opps.push(highest);
        }
        let first_cluster = meters.groups.len();
        for (index, span) in machine.clusters().iter().enumerate() {
            let part = Part::Cluster(index);
            meters
                .groups
                .push(Group::new(part, span.iter().collect(), &power.cluster));
        }
        let first_package = meters.groups.len();
        for (index, span) in machine.packages().iter().enumerate() {
            let part = Part::Package(index);
            meters
                .groups
                .push(Group::new(part, span.iter().collect(), &power.package));
        }
        meters.first_package = first_package;
        let find = |groups: &[Group], from: usize, cpu: usize| {
            let position = groups[from..]
                .iter()
                .position(|group| group.cpus.contains(&cpu));
            from + position.unwrap_or(0)
        };
        meters.threads = (0..machine.cpus.len())
            .map(|cpu| Thread {
                meter: Meter::default(),
                activity: 0,
                groups: [
                    core_of[cpu],
                    find(&meters.groups, first_cluster, cpu),
                    find(&meters.groups, first_package, cpu),
                ],
            })
            .collect();
        Some(meters)
    }

    /// The activity of `cpu` from `now` on: 0 for an idle CPU, otherwise relative to [`BUSY_LOOP`]. Returns whether any
    /// power changes.
    #[inline]
    pub fn set_activity(&mut self, cpu: usize, activity: u32, now: u64) -> bool {
        let thread = &mut self.threads[cpu];
        let was = std::mem::replace(&mut thread.activity, activity);
        if was == activity {
            return false;
        }
        let groups = thread.groups;
        if (was == 0) != (activity == 0) {
            for group in groups {
                match activity {
                    0 => self.groups[group].remove_busy(now),
                    _ => self.groups[group].add_busy(now),
                }
            }
        }
        self.update_threads(groups[0], now);
        true
    }

    fn update_threads(&mut self, core: usize, now: u64) {
        let group = &self.groups[core];
        let of_busy = &self.tables[core].thread_mw[self.opps[core]];
        for &cpu in &group.cpus {
            let thread = &mut self.threads[cpu];
            let mw = match thread.activity {
                0 => 0,
                activity => {
                    u64::from(of_busy[group.busy - 1]) * u64::from(activity) / u64::from(BUSY_LOOP)
                }
            };
            thread.meter.set(now, mw as u32);
        }
    }

    /// Sets the OPP at which the core of `cpu` runs from `now` on.
    pub fn set_opp(&mut self, cpu: usize, opp: usize, now: u64) {
        // Cores come first among the groups.
        let core = self.threads[cpu].groups[0];
        if self.opps[core] == opp {
            return;
        }
        self.opps[core] = opp;
        let mw = self.tables[core].static_mw[opp];
        self.groups[core].set_active_mw(now, mw);
        self.update_threads(core, now);
    }

    /// Is the power of the parts known?
    pub fn are_known(&self) -> bool {
        self.known
    }

    /// The energy up to `now`, by part.
    pub fn read(&mut self, now: u64) -> Energy {
        let mut energy = Energy::default();
        let online = |(_, thread): &(usize, &mut Thread)| thread.groups[0] != usize::MAX;
        for (cpu, thread) in self.threads.iter_mut().enumerate().filter(online) {
            thread.meter.advance(now);
            energy.parts.push((Part::Cpu(cpu), thread.meter.pj));
        }
        for group in &mut self.groups {
            group.advance(now);
            energy.parts.push((group.part, group.meter.pj));
        }
        let rest = u128::from(self.rest_mw) * u128::from(now);
        energy.parts.push((Part::Rest, rest));
        energy
    }

    /// The number of the package that `cpu` is in.
    #[inline]
    pub fn package_of(&self, cpu: usize) -> usize {
        self.threads[cpu].groups[2] - self.first_package
    }

    /// The energy of a package and all its parts up to `now`, in pJ.
    pub fn package_pj(&mut self, package: usize, now: u64) -> u128 {
        let package = self.first_package + package;
        let mut pj = 0;
        for index in 0..self.groups.len() {
            if !self.groups[package]
                .cpus
                .contains(&self.groups[index].cpus[0])
            {
                continue;
            }
            let group = &mut self.groups[index];
            group.advance(now);
            pj += group.meter.pj;
        }
        for index in 0..self.groups[package].cpus.len() {
            let cpu = self.groups[package].cpus[index];
            self.threads[cpu].meter.advance(now);
            pj += self.threads[cpu].meter.pj;
        }
        pj
    }

    /// The sum of the busy times of the cores of `cpus`, up to `now`, in ns.
    pub fn busy_ns(&self, cpus: &CpuMask, now: u64) -> u64 {
        let cores = self.groups.iter().take(self.tables.len());
        let of_cpus = cores.filter(|core| cpus.contains(core.cpus[0]));
        of_cpus.map(|core| core.busy_ns(now)).sum()
    }

    /// The initial trace event of the rest of the machine, whose power is constant.
    pub fn rest(&self) -> Event<'static> {
        let (part, mw) = (Part::Rest, self.rest_mw);
        Event::Power { part, mw, pj: 0 }
    }

    /// Appends the untraced changes of `cpu`'s parts to `news`.
    pub fn news(&mut self, cpu: usize, now: u64, news: &mut Vec<Event<'static>>) {
        let groups = self.threads[cpu].groups;
        for index in groups {
            let group = &mut self.groups[index];
            group.advance(now);
            news.extend(group.meter.news(group.part));
        }
        for &cpu in &self.groups[groups[0]].cpus {
            news.extend(self.threads[cpu].meter.news(Part::Cpu(cpu)));
        }
    }

    /// The times, in ns, when the core, cluster and package of `cpu` enter their next idle states if all their CPUs
    /// stay idle. Each time is returned once, because otherwise each event would schedule three more events.
    pub fn next_idle_states(&mut self, cpu: usize) -> impl Iterator<Item = u64> {
        let groups = self.threads[cpu].groups.into_iter();
        groups.filter_map(|index| {
            let group = &mut self.groups[index];
            let at = group.next_idle_at().filter(|&at| at != group.told_at)?;
            group.told_at = at;
            Some(at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> Group {
        let idle = |residency_ns, power_mw, entry_pj| PartIdle {
            residency_ns,
            power_mw,
            entry_pj,
        };
        let power = PartPower {
            active_mw: 100,
            idle: vec![idle(10, 50, 7), idle(30, 5, 11)],
        };
        Group::new(Part::Core(0), vec![0, 1], &power)
    }

    #[test]
    fn an_idle_part_enters_one_state_after_another() {
        let mut group = group();
        group.advance(1000);
        assert_eq!(group.meter.pj, 10 * 100 + 20 * 50 + 970 * 5 + 7 + 11);
        // Advance another group over the same duration, in many small steps.
        let mut stepped = self::group();
        (0..=1000).for_each(|now| stepped.advance(now));
        assert_eq!(stepped.meter.pj, group.meter.pj);
    }

    #[test]
    fn a_part_is_busy_while_any_cpu_is() {
        let mut group = group();
        group.add_busy(0);
        group.add_busy(20);
        group.remove_busy(50);
        group.remove_busy(60);
        group.add_busy(75);
        group.advance(80);
        assert_eq!(group.busy_ns(80), 65);
        assert_eq!(group.meter.pj, 60 * 100 + (10 * 100 + 5 * 50 + 7) + 5 * 100);
    }

    #[test]
    fn another_active_power_leaves_an_idle_state_alone() {
        let mut group = group();
        group.set_active_mw(20, 70);
        group.advance(25);
        assert_eq!(group.meter.pj, 10 * 100 + 15 * 50 + 7);
        group.add_busy(25);
        group.advance(35);
        assert_eq!(group.meter.pj, 10 * 100 + 15 * 50 + 7 + 10 * 70);
    }
}
