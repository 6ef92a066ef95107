//! Turbo: each package's control unit lets its cores run as fast as the number of active cores and
//! the package's power allow.
//!
//! The unit checks once per interval. The average number of active cores decides the highest frequency. Power below the
//! package's limit is a credit, which allows at most a quarter above the limit (Intel's short term limit) and is used
//! over the averaging window; power above the limit is a debt. The unit chooses the fastest OPP whose power, estimated
//! from that of the last interval, is within limit and credit. In the long run the package alternates between two OPPs,
//! and consumes its limit. If there are several types of cores, each type has its own frequencies and may have its own
//! count of active cores.

use crate::hw::energy::Meters;
use machine::{CoreType, CpuMask, Machine};

/// The control units of a machine's packages.
pub struct Turbo {
    rules: machine::Turbo,
    pcus: Vec<Pcu>,
}

/// A package's control unit.
struct Pcu {
    /// The package's cores of each type.
    kinds: Vec<Kind>,
    /// Whether the unit checks again at the end of an interval.
    looking: bool,
    /// The time of the last check, in ns, and the package's energy at that check, in pJ.
    at: u64,
    pj: u128,
    /// The energy that may be used above the limit, in pJ.
    credit: i128,
}

/// The cores of one type of a package.
struct Kind {
    core_type: usize,
    cpus: CpuMask,
    /// For each OPP, its frequency in kHz, and its dynamic power relative to that of the highest OPP.
    khz: Vec<u32>,
    power: Vec<f64>,
    /// The fastest allowed OPP; and whether it has changed since the CPUs were notified.
    cap: usize,
    changed: bool,
    /// The total busy time of the CPUs at the last check, in ns.
    busy_ns: u64,
}

impl Turbo {
    /// The control units of `machine`; `None` if it has no turbo.
    pub fn new(machine: &Machine) -> Option<Turbo> {
        let kind = |package: &CpuMask, core_type: usize| {
            let of_type = |&cpu: &usize| machine.cpus[cpu].core_type == core_type;
            let cpus: CpuMask = package.iter().filter(of_type).collect();
            let core = &machine.core_types[core_type];
            (!cpus.is_empty()).then(|| Kind {
                core_type,
                cpus,
                khz: core.opps.iter().map(|opp| opp.khz).collect(),
                power: (0..core.nr_opps()).map(|opp| dynamic(core, opp)).collect(),
                cap: core.nr_opps() - 1,
                changed: false,
                busy_ns: 0,
            })
        };
        let pcu = |package: &CpuMask| Pcu {
            kinds: (0..machine.core_types.len())
                .filter_map(|core_type| kind(package, core_type))
                .collect(),
            looking: false,
            at: 0,
            pj: 0,
            credit: 0,
        };
        Some(Turbo {
            rules: machine.turbo.clone()?,
            pcus: machine.packages().iter().map(pcu).collect(),
        })
    }

    /// Begins an interval when a CPU of `package` becomes busy. Returns the time of the control unit's next check, in
    /// ns; `None` if a check was scheduled already.
    #[inline]
    pub fn wakes(&mut self, package: usize, meters: &mut Meters, now: u64) -> Option<u64> {
        let pcu = &mut self.pcus[package];
        if pcu.looking {
            return None;
        }
        pcu.pj = meters.package_pj(package, now);
        for kind in &mut pcu.kinds {
            kind.busy_ns = meters.busy_ns(&kind.cpus, now);
        }
        Some(pcu.looks(&self.rules, now))
    }

    /// Ends an interval of `package`. Returns the end of the next interval, in ns; `None` if no core was active.
    /// [`Turbo::take_change`] returns the changes.
    pub fn interval_over(&mut self, package: usize, meters: &mut Meters, now: u64) -> Option<u64> {
        let pcu = &mut self.pcus[package];
        let pj = meters.package_pj(package, now);
        let ns = now - pcu.at;
        let used = pj - pcu.pj;
        pcu.pj = pj;
        let busy = |kind: &Kind| meters.busy_ns(&kind.cpus, now) - kind.busy_ns;
        let all_busy: u64 = pcu.kinds.iter().map(busy).sum();
        if all_busy == 0 {
            pcu.looking = false;
            return None;
        }
        let allowed_mw = pcu.allowed_mw(&self.rules, ns, used);
        for kind in &mut pcu.kinds {
            let busy_ns = meters.busy_ns(&kind.cpus, now);
            let busy = match self.rules.by_core {
                true => busy_ns - kind.busy_ns,
                false => all_busy,
            };
            kind.busy_ns = busy_ns;
            let cap = kind.decide(&self.rules, ns, used, busy, allowed_mw);
            kind.changed |= cap != kind.cap;
            kind.cap = cap;
        }
        Some(pcu.looks(&self.rules, now))
    }

    /// Returns CPUs of `package` with a new limit, and the limit in kHz. Call this until it returns `None`.
    pub fn take_change(&mut self, package: usize) -> Option<(CpuMask, u32)> {
        let changed = |kind: &&mut Kind| kind.changed;
        let kind = self.pcus[package].kinds.iter_mut().find(changed)?;
        kind.changed = false;
        Some((kind.cpus, kind.khz[kind.cap]))
    }
}

impl Pcu {
    /// Begins an interval. Returns the time of the next check, in ns.
    fn looks(&mut self, rules: &machine::Turbo, now: u64) -> u64 {
        (self.at, self.looking) = (now, true);
        now + rules.interval_ns
    }

    /// The power, in mW, that the package may draw from now on, after `ns` in which it used `pj`; `None` without a
    /// limit.
    fn allowed_mw(&mut self, turbo: &machine::Turbo, ns: u64, pj: u128) -> Option<f64> {
        let limit = turbo.limit?;
        let most = i128::from(limit.mw) * i128::from(limit.window_ns) / 4;
        let spared = i128::from(limit.mw) * i128::from(ns) - pj as i128;
        self.credit = (self.credit + spared).clamp(-most, most);
        Some(f64::from(limit.mw) + self.credit as f64 / limit.window_ns as f64)
    }
}

impl Kind {
    /// The fastest OPP of at most `khz`; if there is none, the slowest OPP.
    fn opp_for(&self, khz: u32) -> usize {
        self.khz.partition_point(|&opp| opp <= khz).max(1) - 1
    }

    /// Chooses the fastest allowed OPP, after `ns` in which the package used `pj` and the counted cores were busy for
    /// `busy_ns` together. The package may draw `allowed_mw`. The estimate assumes that only cores of this kind change
    /// their frequency.
    fn decide(
        &self,
        turbo: &machine::Turbo,
        ns: u64,
        pj: u128,
        busy_ns: u64,
        allowed_mw: Option<f64>,
    ) -> usize {
        let active = (busy_ns + ns / 2) / ns;
        let fastest = self.opp_for(turbo.khz_for(self.core_type, active as usize));
        let Some(allowed) = allowed_mw else {
            return fastest;
        };
        let used = pj as f64 / ns as f64;
        let fits = |&opp: &usize| used * self.power[opp] / self.power[self.cap] <= allowed;
        (0..=fastest).rev().find(fits).unwrap_or(0)
    }
}

/// Dynamic power at OPP `opp`, relative to that at the highest.
fn dynamic(core: &CoreType, opp: usize) -> f64 {
    let (khz, voltage) = machine::opp_ratios(core, opp);
    khz * voltage * voltage
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two OPPs of 1 and 2 GHz at one voltage, and a limit of 10 W over 100 ms.
    fn pcu(mw: Option<u32>) -> (Pcu, machine::Turbo) {
        let kind = Kind {
            core_type: 0,
            cpus: CpuMask::one(0),
            khz: vec![1_000_000, 2_000_000],
            power: vec![0.5, 1.0],
            cap: 1,
            changed: false,
            busy_ns: 0,
        };
        let pcu = Pcu {
            kinds: vec![kind],
            looking: true,
            at: 0,
            pj: 0,
            credit: 0,
        };
        let turbo = machine::Turbo {
            khz: vec![vec![2_000_000, 1_500_000, 900_000]],
            by_core: false,
            interval_ns: 1_000_000,
            limit: mw.map(|mw| machine::PowerLimit {
                mw,
                window_ns: 100_000_000,
            }),
        };
        (pcu, turbo)
    }

    #[test]
    fn active_cores_decide_the_frequency() {
        let (pcu, turbo) = pcu(None);
        let kind = &pcu.kinds[0];
        let cap = |cores: f64| kind.decide(&turbo, 1_000_000, 0, (cores * 1e6) as u64, None);
        assert_eq!([0.1, 1.4].map(cap), [1, 1]);
        // 1.5 GHz is between the two OPPs, and no OPP is slow enough for three cores.
        assert_eq!([1.6, 3.0, 9.0].map(cap), [0, 0, 0]);
    }

    #[test]
    fn in_the_long_run_the_package_draws_its_limit() {
        let (mut pcu, turbo) = pcu(Some(10_000));
        let (mut pj, mut fast) = (0u128, 0);
        for _ in 0..10_000 {
            // The faster OPP is within the short term limit of 12.5 W.
            let used = [6_000u128, 12_000][pcu.kinds[0].cap] * 1_000_000;
            pj += used;
            fast += pcu.kinds[0].cap;
            let allowed = pcu.allowed_mw(&turbo, 1_000_000, used);
            let kind = &mut pcu.kinds[0];
            kind.cap = kind.decide(&turbo, 1_000_000, used, 1_000_000, allowed);
        }
        let watts = pj as f64 / 1e13;
        assert!((watts - 10.0).abs() < 0.3, "{watts}");
        assert!(fast > 6_000 && fast < 7_500, "{fast}");
    }
}
