//! Core types: speeds, capacities, costs, idle states.

use super::reader::{Reader, Result};
use super::{CoreFile, IdleFile, SpeedFile};
use crate::limits::THREADS;
use crate::{CoreType, Costs, IdleState, MAX_IDLE_STATES};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use toml::Spanned;

const CAPACITY: RangeInclusive<u32> = 1..=65_536;
/// The capacity of the fastest CPUs in today's kernels (`SCHED_CAPACITY_SCALE`).
const FULL_CAPACITY: f64 = 1024.0;
/// The frequency in kHz for which the typical costs hold.
const USUAL_KHZ: f64 = 3e6;

impl Reader<'_> {
    /// The core types, and the capacity of each.
    pub(super) fn core_types(
        &self,
        cores: &BTreeMap<Spanned<String>, CoreFile>,
    ) -> Result<(Vec<CoreType>, Vec<u32>)> {
        self.all_say_the_same(cores)?;
        let mut rates = Vec::new();
        for core in cores.values() {
            rates.push(match (&core.speed, &core.capacity) {
                (Some(speed), _) => self.keep(self.rate(speed)).unwrap_or(1.0),
                (None, Some(capacity)) => f64::from(self.within(capacity, "capacity", CAPACITY)),
                (None, None) => 1.0,
            });
        }
        let fastest = rates.iter().copied().fold(0.0, f64::max);
        let mut opps = Vec::new();
        for core in cores.values() {
            opps.push(self.opps(core));
        }
        let of_fastest = rates
            .iter()
            .zip(&opps)
            .filter(|(rate, _)| **rate == fastest);
        let khz = of_fastest
            .filter_map(|(_, opps)| opps.last().map(|opp| opp.khz))
            .max();
        let slowdown = khz.map_or(1.0, |khz| USUAL_KHZ / f64::from(khz));
        let (mut core_types, mut capacities) = (Vec::new(), Vec::new());
        for (((name, core), rate), opps) in cores.iter().zip(rates).zip(opps) {
            capacities.push(match &core.capacity {
                Some(capacity) => self.within(capacity, "capacity", CAPACITY),
                None => (rate / fastest * FULL_CAPACITY).round().max(1.0) as u32,
            });
            let speed = (rate / fastest * f64::from(1 << 20)).round() as u32;
            // Below 1/1024 of the fastest core type's speed, the fixed point would be coarser than 0.1 %.
            if speed < 1 << 10 && !self.failed() {
                return self.bad(
                    core.speed.as_ref().map_or(name.span(), Spanned::span),
                    "this core type is more than 1024 times slower than the fastest core type"
                        .to_owned(),
                    "expected speeds in the same unit on all core types",
                );
            }
            let (costs, usual_costs) = self.costs(core, slowdown * fastest / rate)?;
            core_types.push(CoreType {
                name: name.get_ref().clone(),
                speed,
                smt_throughput: self.smt_throughput(core)?,
                costs,
                usual_costs,
                opps,
                idle_states: self.keep(self.idle_states(&core.idle)).unwrap_or_default(),
                power: self.keep(self.core_power(core)).flatten(),
            });
        }
        Ok((core_types, capacities))
    }

    /// Checks that all core types give their speeds in the same way, and that all or none give capacities, because
    /// these values are meaningful only relative to those of the other core types.
    fn all_say_the_same(&self, cores: &BTreeMap<Spanned<String>, CoreFile>) -> Result<()> {
        let Some((first_name, first)) = cores.first_key_value() else {
            return Ok(());
        };
        let kind = |core: &CoreFile| {
            let speed = core
                .speed
                .as_ref()
                .map(|speed| speed.get_ref().time.is_some());
            (speed, core.capacity.is_some())
        };
        if kind(first) == (None, false) && cores.len() > 1 {
            return self.bad(
                first_name.span(),
                format!("`{}` has neither speed nor capacity", first_name.get_ref()),
                "expected a speed or a capacity if there are several core types",
            );
        }
        for (name, core) in cores {
            let at = |given: Option<std::ops::Range<usize>>| given.unwrap_or(name.span());
            if kind(core).0 != kind(first).0 {
                return self.bad(
                    at(core.speed.as_ref().map(Spanned::span)),
                    "speeds are given in two ways".to_owned(),
                    "expected `time` on all core types, `rate` on all, or neither",
                );
            }
            if kind(core).1 != kind(first).1 {
                return self.bad(
                    at(core.capacity.as_ref().map(Spanned::span)),
                    "some core types have a capacity and others have none".to_owned(),
                    "expected capacity on all core types or on none",
                );
            }
        }
        Ok(())
    }

    fn smt_throughput(&self, core: &CoreFile) -> Result<u32> {
        let Some(throughput) = &core.smt_throughput else {
            return Ok(1 << 20);
        };
        if (1.0..=*THREADS.end() as f64).contains(throughput.get_ref()) {
            return Ok((throughput.get_ref() * f64::from(1 << 20)).round() as u32);
        }
        self.bad(
            throughput.span(),
            format!("smt_throughput is {}", throughput.get_ref()),
            format!("expected 1 (no gain) to {}", THREADS.end()),
        )
    }

    fn rate(&self, speed: &Spanned<SpeedFile>) -> Result<f64> {
        let (value, rate) = match speed.get_ref() {
            SpeedFile {
                time: Some(time),
                rate: None,
                ..
            } => (time, 1.0 / time.get_ref()),
            SpeedFile {
                time: None,
                rate: Some(rate),
                ..
            } => (rate, *rate.get_ref()),
            _ => {
                return self.bad(
                    speed.span(),
                    "the speed needs exactly one number".to_owned(),
                    "expected either `time` or `rate`",
                );
            }
        };
        if *value.get_ref() > 0.0 && value.get_ref().is_finite() && rate.is_finite() {
            return Ok(rate);
        }
        self.bad(
            value.span(),
            format!("the speed is {}", value.get_ref()),
            "expected a number above 0",
        )
    }

    /// The costs, and the keys of the costs that take typical values. `slowness` is 1 for a fast core at 3 GHz.
    fn costs(&self, core: &CoreFile, slowness: f64) -> Result<(Costs, Vec<&'static str>)> {
        let mut costs = Costs::usual(slowness);
        let mut usual = Vec::new();
        let file = core.costs.as_ref();
        macro_rules! cost {
            ($($key:ident),* $(,)?) => {$(
                match file.and_then(|file| file.$key.as_ref()) {
                    Some(given) => costs.$key = self.cost(given, 1),
                    None => usual.push(stringify!($key)),
                }
            )*};
        }
        cost!(
            context_switch_ns,
            wakeup_ns,
            ipi_near_ns,
            ipi_far_ns,
            tick_ns,
            timer_irq_ns,
            refill_near_ns,
            refill_far_ns,
        );
        if let Some(file) = file {
            costs.fair_class_ns = self.cost_or_none(&file.fair_class_ns);
            costs.ext_class_ns = self.cost_or_none(&file.ext_class_ns);
        }
        Ok((costs, usual))
    }

    fn idle_states(&self, states: &[IdleFile]) -> Result<Vec<IdleState>> {
        let mut idle_states: Vec<IdleState> = Vec::new();
        for (index, state) in states.iter().enumerate() {
            if index == MAX_IDLE_STATES {
                return self.bad(
                    state.min_residency_us.span(),
                    "too many idle states".to_owned(),
                    format!("expected at most {MAX_IDLE_STATES}, as in the kernel's cpuidle"),
                );
            }
            let (power_mw, entry_pj) = self.idle_power(state)?;
            let next = IdleState {
                name: state.name.clone(),
                min_residency_ns: self.cost(&state.min_residency_us, 1000),
                exit_latency_ns: self.cost(&state.exit_latency_us, 1000),
                power_mw,
                entry_pj,
            };
            if idle_states.last().is_some_and(|shallower| {
                next.min_residency_ns < shallower.min_residency_ns
                    || next.exit_latency_ns < shallower.exit_latency_ns
            }) {
                return self.bad(
                    state.min_residency_us.span(),
                    "this idle state has a lower residency or exit latency than the one before it".to_owned(),
                    "expected a min_residency_us and an exit_latency_us that are at least those of the state before",
                );
            }
            idle_states.push(next);
        }
        Ok(idle_states)
    }
}
