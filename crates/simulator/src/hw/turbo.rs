//! Turbo: each package's control unit lets its cores run as fast as the number of them that are active
//! and the package's power allow.
//!
//! It looks once an interval. How many cores were active on average decides the highest frequency; power
//! that the package did not use of its limit is a credit, a quarter of the limit at most (Intel's short
//! term limit), that it may use over the averaging window, and a debt where it used more. Of the OPPs
//! whose power, judged by that of the last interval, is within limit and credit, the fastest is taken: in
//! the long run the package draws its limit, between two OPPs.

use crate::hw::energy::Meters;
use machine::{CoreType, CpuMask, Machine};

/// The control units of a machine's packages.
pub struct Turbo {
    rules: machine::Turbo,
    pcus: Vec<Pcu>,
}

/// A package's control unit.
struct Pcu {
    cpus: CpuMask,
    /// By OPP: frequency, kHz, and dynamic power, of that at the highest.
    khz: Vec<u32>,
    power: Vec<f64>,
    /// The fastest OPP that it allows.
    cap: usize,
    /// It looks again at the end of an interval.
    looking: bool,
    /// What it saw the last time: when, ns; the package's energy, pJ; its cores' busy time, ns.
    at: u64,
    pj: u128,
    busy_ns: u64,
    /// Energy to spare, pJ.
    credit: i128,
}

/// What a control unit makes of an interval.
pub struct Decision {
    /// Its CPUs, and the highest frequency at which they may run from now on, kHz, if that is another one.
    pub cap: Option<(CpuMask, u32)>,
    /// When it looks again, ns; never while no core is active.
    pub next: Option<u64>,
}

impl Turbo {
    /// Those of `machine`; `None` if it has no turbo.
    pub fn new(machine: &Machine) -> Option<Turbo> {
        let pcu = |&cpus: &CpuMask| {
            let first = cpus.first().unwrap_or(0);
            let core = &machine.core_types[machine.cpus[first].core_type];
            Pcu {
                cpus,
                khz: core.opps.iter().map(|opp| opp.khz).collect(),
                power: (0..core.nr_opps()).map(|opp| dynamic(core, opp)).collect(),
                cap: core.nr_opps() - 1,
                looking: false,
                at: 0,
                pj: 0,
                busy_ns: 0,
                credit: 0,
            }
        };
        Some(Turbo {
            rules: machine.turbo.clone()?,
            pcus: machine.packages().iter().map(pcu).collect(),
        })
    }

    /// A CPU of `package` becomes busy. Returns when its control unit looks, ns, if it did not already.
    #[inline]
    pub fn wakes(&mut self, package: usize, meters: &mut Meters, now: u64) -> Option<u64> {
        let pcu = &mut self.pcus[package];
        if pcu.looking {
            return None;
        }
        let (pj, busy_ns) = meters.package(package, now);
        Some(pcu.look(&self.rules, now, pj, busy_ns))
    }

    /// The end of an interval of `package`.
    pub fn interval_over(&mut self, package: usize, meters: &mut Meters, now: u64) -> Decision {
        let pcu = &mut self.pcus[package];
        let (pj, busy_ns) = meters.package(package, now);
        let busy = busy_ns - pcu.busy_ns;
        if busy == 0 {
            pcu.looking = false;
            return Decision {
                cap: None,
                next: None,
            };
        }
        let cap = pcu.decide(&self.rules, now - pcu.at, pj - pcu.pj, busy);
        let was = std::mem::replace(&mut pcu.cap, cap);
        Decision {
            cap: (cap != was).then(|| (pcu.cpus, pcu.khz[cap])),
            next: Some(pcu.look(&self.rules, now, pj, busy_ns)),
        }
    }
}

impl Pcu {
    /// Notes what there is `now`. Returns when it looks again, ns.
    fn look(&mut self, rules: &machine::Turbo, now: u64, pj: u128, busy_ns: u64) -> u64 {
        (self.at, self.pj, self.busy_ns, self.looking) = (now, pj, busy_ns, true);
        now + rules.interval_ns
    }

    /// The fastest OPP of at most `khz`; the slowest if there is none.
    fn opp_for(&self, khz: u32) -> usize {
        self.khz.partition_point(|&opp| opp <= khz).max(1) - 1
    }

    /// After `ns` in which the package used `pj` and its cores were busy for `busy_ns` together: the
    /// fastest OPP from now on.
    fn decide(&mut self, turbo: &machine::Turbo, ns: u64, pj: u128, busy_ns: u64) -> usize {
        let active = (busy_ns + ns / 2) / ns;
        let fastest = self.opp_for(turbo.khz_for(active as usize));
        let Some(limit_mw) = turbo.limit_mw else {
            return fastest;
        };
        let most = i128::from(limit_mw) * i128::from(turbo.window_ns) / 4;
        let spared = i128::from(limit_mw) * i128::from(ns) - pj as i128;
        self.credit = (self.credit + spared).clamp(-most, most);
        let allowed = f64::from(limit_mw) + self.credit as f64 / turbo.window_ns as f64;
        let used = pj as f64 / ns as f64;
        let fits = |&opp: &usize| used * self.power[opp] / self.power[self.cap] <= allowed;
        (0..=fastest).rev().find(fits).unwrap_or(0)
    }
}

/// Dynamic power at OPP `opp`, of that at the highest.
fn dynamic(core: &CoreType, opp: usize) -> f64 {
    let (khz, voltage) = machine::opp_ratios(core, opp);
    khz * voltage * voltage
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two OPPs of 1 and 2 GHz at one voltage, and a limit of 10 W over 100 ms.
    fn pcu(limit_mw: Option<u32>) -> (Pcu, machine::Turbo) {
        let pcu = Pcu {
            cpus: CpuMask::one(0),
            khz: vec![1_000_000, 2_000_000],
            power: vec![0.5, 1.0],
            cap: 1,
            looking: true,
            at: 0,
            pj: 0,
            busy_ns: 0,
            credit: 0,
        };
        let turbo = machine::Turbo {
            khz: vec![2_000_000, 1_500_000, 900_000],
            interval_ns: 1_000_000,
            limit_mw,
            window_ns: 100_000_000,
        };
        (pcu, turbo)
    }

    #[test]
    fn active_cores_decide_the_frequency() {
        let (mut pcu, turbo) = pcu(None);
        let cap =
            |pcu: &mut Pcu, cores: f64| pcu.decide(&turbo, 1_000_000, 0, (cores * 1e6) as u64);
        assert_eq!([0.1, 1.4].map(|cores| cap(&mut pcu, cores)), [1, 1]);
        // 1.5 GHz is between the two; nothing is slow enough for three cores.
        assert_eq!([1.6, 3.0, 9.0].map(|cores| cap(&mut pcu, cores)), [0, 0, 0]);
    }

    #[test]
    fn in_the_long_run_the_package_draws_its_limit() {
        let (mut pcu, turbo) = pcu(Some(10_000));
        let (mut pj, mut fast) = (0u128, 0);
        for _ in 0..10_000 {
            // The faster one within the short term limit of 12.5 W.
            let used = [6_000u128, 12_000][pcu.cap] * 1_000_000;
            pj += used;
            fast += pcu.cap;
            pcu.cap = pcu.decide(&turbo, 1_000_000, used, 1_000_000);
        }
        let watts = pj as f64 / 1e13;
        assert!((watts - 10.0).abs() < 0.3, "{watts}");
        assert!(fast > 6_000 && fast < 7_500, "{fast}");
    }
}
