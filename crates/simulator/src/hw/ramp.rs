//! Processors that set frequencies themselves, and change them slowly: a busy core's frequency rises gradually, and
//! falls while the core idles.

use crate::hw::cores::Cores;
use machine::{CpuMask, Machine};

pub struct Ramp {
    rules: machine::Ramp,
    cores: Vec<Core>,
    core_of: Vec<u32>,
}

/// A core, whose hardware threads have one frequency.
struct Core {
    cpus: CpuMask,
    /// The frequencies of the core's OPPs, in kHz.
    khz: Vec<u32>,
    /// The core's frequency at the time `at`, where 0 is the lowest and 1 the highest.
    level: f64,
    at: u64,
    busy: CpuMask,
    /// Whether the next step up is scheduled.
    climbing: bool,
}

impl Ramp {
    /// The cores of `machine`, each at its lowest frequency; `None` if the machine's frequencies change at once.
    pub fn new(machine: &Machine, cores: &mut Cores) -> Option<Ramp> {
        let rules = machine.cpufreq.as_ref()?.ramp?;
        let mut ramp = Ramp {
            rules,
            cores: Vec::new(),
            core_of: vec![0; machine.cpus.len()],
        };
        for cpu in 0..machine.cpus.len() {
            let cpus = machine.siblings(cpu);
            if cpus.first() != Some(cpu) {
                continue;
            }
            let opps = &machine.core_types[machine.cpus[cpu].core_type].opps;
            for cpu in cpus.iter() {
                ramp.core_of[cpu] = ramp.cores.len() as u32;
                cores.set_ramp(cpu, 0);
            }
            ramp.cores.push(Core {
                cpus,
                khz: opps.iter().map(|opp| opp.khz).collect(),
                level: 0.0,
                at: 0,
                busy: CpuMask::default(),
                climbing: false,
            });
        }
        Some(ramp)
    }

    /// Records that `cpu` becomes busy or idle. Returns the present step of its core if `cpu` becomes busy and no step
    /// up is scheduled.
    pub fn set_busy(&mut self, cpu: usize, busy: bool, now: u64) -> Option<Step> {
        let index = self.core_of[cpu];
        let core = &mut self.cores[index as usize];
        core.pass(&self.rules, now);
        match busy {
            true => core.busy.set(cpu),
            false => core.busy.clear(cpu),
        };
        (busy && !core.climbing).then(|| core.step(index, &self.rules, now))
    }

    /// Takes the next step of core number `index`, whose time has come; returns `None` if the core idles.
    pub fn climb(&mut self, index: u32, now: u64) -> Option<Step> {
        let core = &mut self.cores[index as usize];
        core.pass(&self.rules, now);
        core.climbing = false;
        (!core.busy.is_empty()).then(|| core.step(index, &self.rules, now))
    }
}

/// The OPP of a core from now on.
#[derive(Debug, PartialEq)]
pub struct Step {
    pub core: u32,
    pub cpus: CpuMask,
    pub opp: usize,
    pub khz: u32,
    /// The time, in ns, at which the frequency may next rise; `None` at the highest OPP.
    pub next: Option<u64>,
}

impl Core {
    /// Updates the level for the time until `now`, in which the core was busy or idle.
    fn pass(&mut self, rules: &machine::Ramp, now: u64) {
        let ns = (now - self.at) as f64;
        self.level = match self.busy.is_empty() {
            true => (self.level - ns / rules.down_ns as f64).max(0.0),
            false => (self.level + ns / rules.up_ns as f64).min(1.0),
        };
        self.at = now;
    }

    /// The fastest OPP that the core's level allows, and the time of the next step.
    fn step(&mut self, core: u32, rules: &machine::Ramp, now: u64) -> Step {
        let (first, last) = (self.khz[0], self.khz[self.khz.len() - 1]);
        let span = f64::from(last - first);
        // A level that is reached on time may be too low by a rounding error.
        let reached = f64::from(first) + self.level * span + 0.5;
        let opp = self
            .khz
            .partition_point(|&khz| f64::from(khz) <= reached)
            .max(1)
            - 1;
        let next = self.khz.get(opp + 1).map(|&khz| {
            let missing = (f64::from(khz - first) / span - self.level).max(0.0);
            now + (missing * rules.up_ns as f64).ceil() as u64 + 1
        });
        self.climbing = next.is_some();
        Step {
            core,
            cpus: self.cpus,
            opp,
            khz: self.khz[opp],
            next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Governor;

    /// 208, 432, 729, 960 and 1200 MHz, with 10 ms from the lowest to the highest frequency and 20 ms back.
    fn ramp() -> Ramp {
        let mut machine = Machine::find("hikey-6220").unwrap();
        let cpufreq = machine.cpufreq.as_mut().unwrap();
        cpufreq.governor = Governor::Hwp(machine::Preference::BalancePerformance);
        cpufreq.ramp = Some(machine::Ramp {
            up_ns: 10_000_000,
            down_ns: 20_000_000,
        });
        let mut cores = Cores::new(&machine);
        let ramp = Ramp::new(&machine, &mut cores).unwrap();
        assert_eq!(cores.opp(3), 0);
        ramp
    }

    #[test]
    fn a_busy_core_climbs_and_an_idle_one_sinks() {
        let mut ramp = ramp();
        let mut step = ramp.set_busy(3, true, 0).unwrap();
        let mut seen = vec![];
        while let Some(at) = step.next {
            seen.push((step.khz / 1000, at / 100_000));
            step = ramp.climb(3, at).unwrap();
        }
        // (432 - 208) / (1200 - 208) of 10 ms is 2.25 ms, and so on.
        assert_eq!(seen, [(208, 22), (432, 52), (729, 75), (960, 100)]);
        assert_eq!((step.opp, step.cpus), (4, CpuMask::one(3)));
        // After half of the time from the highest frequency to the lowest, the frequency is 704 MHz.
        assert_eq!(ramp.set_busy(3, false, 12_000_000), None);
        assert_eq!(ramp.set_busy(3, true, 22_000_000).unwrap().khz, 432_000);
        // A step that comes while the core idles does nothing.
        assert_eq!(ramp.set_busy(3, false, 22_000_001), None);
        assert_eq!(ramp.climb(3, 24_000_000), None);
    }
}
