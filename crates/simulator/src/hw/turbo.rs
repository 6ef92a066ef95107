//! Turbo: each package's control unit lets its cores run as fast as the number of them that are active
//! and the package's power allow.
//!
//! It looks once an interval. How many cores were active on average decides the highest frequency; power
//! that the package did not use of its limit is a credit, a quarter of the limit at most (Intel's short
//! term limit), that it may use over the averaging window, and a debt where it used more. Of the OPPs
//! whose power, judged by that of the last interval, is within limit and credit, the fastest is taken: in
//! the long run the package draws its limit, between two OPPs.

use crate::events::What;
use crate::kernel::Kernel;
use machine::{CoreType, Machine, Turbo};

/// A package's control unit.
pub struct Pcu {
    cpus: Vec<usize>,
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

impl Pcu {
    /// Those of `machine`'s packages; none if it has no turbo.
    pub fn all(machine: &Machine) -> Vec<Pcu> {
        if machine.turbo.is_none() {
            return Vec::new();
        }
        let pcu = |span: &machine::CpuMask| {
            let cpus: Vec<usize> = span.iter().collect();
            let core = &machine.core_types[machine.cpus[cpus[0]].core_type];
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
        machine.packages().iter().map(pcu).collect()
    }

    /// The fastest OPP of at most `khz`; the slowest if there is none.
    fn opp_for(&self, khz: u32) -> usize {
        self.khz.partition_point(|&opp| opp <= khz).max(1) - 1
    }

    /// After `ns` in which the package used `pj` and its cores were busy for `busy_ns` together: the
    /// fastest OPP from now on.
    fn decide(&mut self, turbo: &Turbo, ns: u64, pj: u128, busy_ns: u64) -> usize {
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

impl Kernel<'_> {
    /// A CPU of `package` becomes busy.
    #[inline]
    pub fn turbo_wakes(&mut self, package: usize) {
        if self.hw.pcus.get(package).is_some_and(|pcu| !pcu.looking) {
            self.turbo_looks(package, self.now());
        }
    }

    /// The package's control unit notes what there is now and looks again in an interval.
    fn turbo_looks(&mut self, package: usize, now: u64) {
        let (Some(turbo), Some(meters)) = (&self.machine.turbo, &mut self.hw.meters) else {
            return;
        };
        let pcu = &mut self.hw.pcus[package];
        let (pj, busy_ns) = meters.package(pcu.cpus[0], now);
        (pcu.at, pcu.pj, pcu.busy_ns, pcu.looking) = (now, pj, busy_ns, true);
        let what = What::Turbo {
            package: package as u32,
        };
        self.events.push(now + turbo.interval_ns, what);
    }

    /// The end of an interval.
    pub fn turbo_interval(&mut self, package: usize) {
        let now = self.now();
        let (Some(turbo), Some(meters)) = (&self.machine.turbo, &mut self.hw.meters) else {
            return;
        };
        let pcu = &mut self.hw.pcus[package];
        let (pj, busy_ns) = meters.package(pcu.cpus[0], now);
        let busy = busy_ns - pcu.busy_ns;
        if busy == 0 {
            pcu.looking = false;
            return;
        }
        let cap = pcu.decide(turbo, now - pcu.at, pj - pcu.pj, busy);
        if cap != pcu.cap {
            pcu.cap = cap;
            let khz = pcu.khz[cap];
            for index in 0..self.hw.pcus[package].cpus.len() {
                let cpu = self.hw.pcus[package].cpus[index];
                self.set_cap(cpu, khz);
            }
        }
        self.turbo_looks(package, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two OPPs of 1 and 2 GHz at one voltage, and a limit of 10 W over 100 ms.
    fn pcu(limit_mw: Option<u32>) -> (Pcu, Turbo) {
        let pcu = Pcu {
            cpus: vec![0],
            khz: vec![1_000_000, 2_000_000],
            power: vec![0.5, 1.0],
            cap: 1,
            looking: true,
            at: 0,
            pj: 0,
            busy_ns: 0,
            credit: 0,
        };
        let turbo = Turbo {
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
