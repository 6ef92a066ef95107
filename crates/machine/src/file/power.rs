//! The power of cores, clusters and packages, and turbo.

use super::reader::{Reader, Result};
use super::{CoreFile, IdleFile, MachineFile, PartPowerFile, TurboFile, TurboKhz};
use crate::limits::{ENTRY_UJ, MW};
use crate::{CorePower, CoreType, PartIdle, PartPower, Power, PowerLimit, Turbo};
use toml::Spanned;

/// The default of `smt_dynamic`, measured on Sandy Bridge (machines/snb-ep-2s.toml).
const SMT_DYNAMIC: f64 = 1.357;
const PJ_PER_UJ: u64 = 1_000_000;

impl Reader<'_> {
    pub(super) fn core_power(&self, core: &CoreFile) -> Result<Option<CorePower>> {
        let Some(file) = &core.power else {
            return Ok(None);
        };
        let smt_dynamic = match &file.smt_dynamic {
            None => SMT_DYNAMIC,
            Some(ratio) if (1.0..=8.0).contains(ratio.get_ref()) => *ratio.get_ref(),
            Some(ratio) => {
                return self.bad(
                    ratio.span(),
                    format!("smt_dynamic is {}", ratio.get_ref()),
                    "expected 1 (a second thread costs nothing) to 8",
                );
            }
        };
        Ok(Some(CorePower {
            dynamic_mw: self.within(&file.dynamic_mw, "dynamic_mw", MW),
            smt_dynamic: (smt_dynamic * f64::from(1 << 20)).round() as u32,
            static_mw: self.within(&file.static_mw, "static_mw", MW),
        }))
    }

    /// The power of a core's idle state, in mW, and the energy for entering it, in pJ.
    pub(super) fn idle_power(&self, state: &IdleFile) -> Result<(u32, u64)> {
        let mw = match &state.power_mw {
            Some(mw) => self.within(mw, "power_mw", MW),
            None => 0,
        };
        Ok((mw, self.entry_pj(&state.entry_uj)?))
    }

    fn entry_pj(&self, uj: &Option<Spanned<u32>>) -> Result<u64> {
        let uj = match uj {
            Some(uj) => self.within(uj, "entry_uj", ENTRY_UJ),
            None => 0,
        };
        Ok(u64::from(uj) * PJ_PER_UJ)
    }

    pub(super) fn power(&self, machine: &MachineFile) -> Result<Option<Power>> {
        let with = machine.core.iter().find(|(_, core)| core.power.is_some());
        let without = machine.core.iter().find(|(_, core)| core.power.is_none());
        let Some(file) = &machine.power else {
            return match with {
                None => Ok(None),
                Some((name, _)) => self.bad(
                    name.span(),
                    format!(
                        "`{}` has power data, but the machine has none",
                        name.get_ref()
                    ),
                    "expected a [power] section",
                ),
            };
        };
        if let Some((name, _)) = without {
            return self.bad(
                name.span(),
                format!(
                    "the machine has power data, but `{}` has none",
                    name.get_ref()
                ),
                format!("expected [core.{}.power]", name.get_ref()),
            );
        }
        let states = machine.core.values().flat_map(|core| &core.idle);
        if let Some(state) = states.into_iter().find(|state| state.power_mw.is_none()) {
            return self.bad(
                state.min_residency_us.span(),
                "the machine has power data, but this idle state has none".to_owned(),
                "expected power_mw",
            );
        }
        let file = file.get_ref();
        Ok(Some(Power {
            rest_mw: self.within(&file.rest_mw, "rest_mw", MW),
            package: self.part_power(&file.package)?,
            cluster: self.part_power(&file.cluster)?,
        }))
    }

    fn part_power(&self, file: &Option<PartPowerFile>) -> Result<PartPower> {
        let Some(file) = file else {
            return Ok(PartPower::default());
        };
        let mut power = PartPower {
            active_mw: self.within(&file.active_mw, "active_mw", MW),
            idle: Vec::new(),
        };
        for state in &file.idle {
            let residency_ns = self.cost(&state.residency_us, 1000);
            let shallower: Option<&PartIdle> = power.idle.last();
            if shallower.is_some_and(|shallower| residency_ns < shallower.residency_ns) {
                return self.bad(
                    state.residency_us.span(),
                    "this idle state is shallower than the one before it".to_owned(),
                    "expected a residency_us that is at least that of the state before",
                );
            }
            power.idle.push(PartIdle {
                residency_ns,
                power_mw: self.within(&state.power_mw, "power_mw", MW),
                entry_pj: self.entry_pj(&state.entry_uj)?,
            });
        }
        Ok(power)
    }

    pub(super) fn turbo(
        &self,
        machine: &MachineFile,
        core_types: &[CoreType],
    ) -> Result<Option<Turbo>> {
        let Some(file) = &machine.turbo else {
            return Ok(None);
        };
        let khz = self.turbo_khz(file, core_types)?;
        let file = file.get_ref();
        let limit = match (&file.limit_mw, &file.window_ms) {
            (None, None) => None,
            (Some(limit), Some(window)) if machine.power.is_some() => Some(PowerLimit {
                mw: self.within(limit, "limit_mw", 1..=*MW.end()),
                window_ns: self.time(window, 1_000_000)?,
            }),
            (Some(limit), Some(_)) => {
                return self.bad(
                    limit.span(),
                    "there is a limit on the power, but the power is unknown".to_owned(),
                    "expected a [power] section, or no limit_mw",
                );
            }
            (Some(limit), None) => {
                return self.bad(
                    limit.span(),
                    "the limit on the power has no time window".to_owned(),
                    "expected window_ms, the time over which the power is averaged",
                );
            }
            (None, Some(window)) => {
                return self.bad(
                    window.span(),
                    "there is a time window, but no limit on the power".to_owned(),
                    "expected limit_mw, or no window_ms",
                );
            }
        };
        Ok(Some(Turbo {
            khz,
            by_core: matches!(file.khz.get_ref(), TurboKhz::ByCore(_)),
            interval_ns: self.time(&file.interval_us, 1000)?,
            limit,
        }))
    }

    /// The highest frequencies of each core type by the number of active cores.
    fn turbo_khz(
        &self,
        file: &Spanned<TurboFile>,
        core_types: &[CoreType],
    ) -> Result<Vec<Vec<u32>>> {
        let span = file.span();
        let file = file.get_ref();
        let mut khz = vec![Vec::new(); core_types.len()];
        match file.khz.get_ref() {
            TurboKhz::All(list) => khz.fill(list.clone()),
            TurboKhz::ByCore(lists) => {
                for (name, list) in lists {
                    let Some(index) = core_types.iter().position(|core| core.name == *name) else {
                        return self.bad(
                            file.khz.span(),
                            format!("no core type is called `{name}`"),
                            "expected core types of this machine",
                        );
                    };
                    khz[index].clone_from(list);
                }
            }
        }
        let falls = |list: &Vec<u32>| list.is_sorted_by(|fewer, more| fewer >= more);
        if khz.iter().any(|list| list.is_empty() || !falls(list)) {
            return self.bad(
                file.khz.span(),
                "these are not frequencies for one, two and more active cores".to_owned(),
                "expected at least one frequency for each core type, and none above the previous one",
            );
        }
        if core_types.iter().any(|core| core.opps.is_empty()) {
            return self.bad(
                span,
                "there is a [turbo] section, but the machine has no frequencies".to_owned(),
                "expected OPPs for every core type",
            );
        }
        let slowest = |core: &CoreType| core.opps.first().map_or(0, |opp| opp.khz);
        let mut limits = core_types.iter().zip(&khz);
        let low = limits.find(|(core, list)| list.last() < Some(&slowest(core)));
        if let Some((core, _)) = low.filter(|_| !self.failed()) {
            return self.bad(
                file.khz.span(),
                format!("a limit is below the slowest OPP of `{}`", core.name),
                format!("expected at least {} kHz", slowest(core)),
            );
        }
        Ok(khz)
    }

    /// Converts a time as [`Reader::cost`] does, except that 0 is an error.
    pub(super) fn time(&self, value: &Spanned<u64>, unit_ns: u64) -> Result<u64> {
        match self.cost(value, unit_ns) {
            0 => self.bad(
                value.span(),
                "this time is 0".to_owned(),
                "expected a time above 0",
            ),
            ns => Ok(ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Machine, PartIdle};

    const GOOD: &str = r#"name = "server"
description = "a package"
hz = 1000

[core.big]
capacity = 1024
speed = { rate = 1.0, of = "a test" }
smt_throughput = 1.25

[[core.big.opp]]
khz = 1_000_000
microvolt = 800_000

[[core.big.opp]]
khz = 2_000_000
microvolt = 1_000_000

[core.big.power]
source = "a test"
dynamic_mw = 8_000
smt_dynamic = 1.5
static_mw = 1_000

[[core.big.idle]]
name = "C6"
min_residency_us = 200
exit_latency_us = 100
power_mw = 50
entry_uj = 3

[cpufreq]
source = "a test"
shared_by = "package"
transition_latency_us = 10

[power]
source = "a test"
rest_mw = 90_000

[power.package]
active_mw = 20_000

[[power.package.idle]]
residency_us = 300
power_mw = 4_000

[turbo]
source = "a test"
khz = [2_000_000, 1_000_000]
interval_us = 1_000
limit_mw = 95_000
window_ms = 500

[[package]]

[[package.cluster]]
core = "big"
cpus = "0-3"
threads = 2
"#;

    #[test]
    fn power_goes_with_frequency_voltage_and_threads() {
        let machine = Machine::parse("f.toml", GOOD).unwrap();
        let core = &machine.core_types[0];
        let power = core.power.unwrap();
        let thread = |opp, busy| power.thread_mw(core, opp, busy, 2);
        assert_eq!((thread(1, 1), thread(1, 2)), (8000, 6000));
        assert_eq!((thread(0, 1), thread(0, 2)), (2560, 1920));
        assert_eq!(
            (power.static_mw(core, 0), power.static_mw(core, 1)),
            (640, 1000)
        );
        let state = &core.idle_states[0];
        assert_eq!((state.power_mw, state.entry_pj), (50, 3_000_000));
        let parts = machine.power.as_ref().unwrap();
        let sleeping = PartIdle {
            residency_ns: 300_000,
            power_mw: 4000,
            entry_pj: 0,
        };
        assert_eq!(parts.package.idle, [sleeping]);
        assert_eq!((parts.rest_mw, parts.cluster.active_mw), (90_000, 0));
        let turbo = machine.turbo.as_ref().unwrap();
        let khz = [0, 1, 2, 3].map(|active| turbo.khz_for(0, active));
        assert_eq!(khz, [2_000_000, 2_000_000, 1_000_000, 1_000_000]);
        let limit = turbo.limit.unwrap();
        assert_eq!((limit.mw, limit.window_ns), (95_000, 500_000_000));
    }

    #[test]
    fn errors_name_their_line() {
        let section =
            |from: &str, to: &str| &GOOD[GOOD.find(from).unwrap()..GOOD.find(to).unwrap()];
        let core = section("[core.big.power]", "[[core.big.idle]]");
        let parts = section("[power]", "[turbo]");
        let turbo = section("[turbo]", "[[package]]");
        let without_turbo = GOOD.replace(turbo, "");
        for (good, from, to, at, says) in [
            (
                GOOD,
                "rest_mw = 90_000",
                "rest_mw = 90_000_000",
                "rest_mw",
                "expected 0 to 10000000",
            ),
            (
                GOOD,
                "smt_dynamic = 1.5",
                "smt_dynamic = 0.5",
                "smt_dynamic",
                "expected 1 ",
            ),
            (
                GOOD,
                "power_mw = 50\n",
                "",
                "min_residency_us",
                "expected power_mw",
            ),
            (GOOD, core, "", "[core.big]", "expected [core.big.power]"),
            (
                GOOD,
                "[2_000_000, 1_000_000]",
                "[1_000_000, 2_000_000]",
                "khz = [",
                "none above",
            ),
            (
                GOOD,
                "window_ms = 500",
                "window_ms = 0",
                "window_ms",
                "expected a time",
            ),
            (
                GOOD,
                "[2_000_000, 1_000_000]",
                "[2_000, 1_000]",
                "khz = [",
                "expected at least 1000000 kHz",
            ),
            (
                GOOD,
                "limit_mw = 95_000\n",
                "",
                "window_ms",
                "expected limit_mw",
            ),
            (GOOD, parts, "", "[core.big]", "expected a [power] section"),
            (
                without_turbo.as_str(),
                "power_mw = 4_000\n",
                "power_mw = 4_000\n[[power.package.idle]]\nresidency_us = 250\npower_mw = 1\n",
                "residency_us = 250",
                "at least that of the state before",
            ),
        ] {
            assert_eq!(good.matches(from).count(), 1, "{from}");
            let text = good.replace(from, to);
            let error = Machine::parse("f.toml", &text).unwrap_err();
            let said = format!("{} {}", error.message(), error.expected());
            assert!(said.contains(says), "{said}");
            let line = text[..text.find(at).unwrap()].lines().count() + 1;
            assert!(
                said.starts_with(&format!("f.toml:{line}:")),
                "{line}: {said}"
            );
        }
    }

    #[test]
    fn a_wrong_opp_causes_no_other_errors() {
        let text = GOOD.replace("khz = 1_000_000\n", "khz = 3_000_000\n");
        let shown = Machine::parse("f.toml", &text).unwrap_err().render(false);
        let errors: Vec<&str> = shown
            .lines()
            .filter(|line| line.starts_with("error"))
            .collect();
        let [error] = errors[..] else {
            panic!("{errors:?}")
        };
        assert!(error.contains("not faster"), "{error}");
    }
}
