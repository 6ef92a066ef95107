//! Reports implausible values: as an error if they would spoil every result, otherwise as a warning.

use super::reader::{Reader, Result};
use super::{CoreFile, MachineFile};
use crate::CoreType;
use crate::limits::{CAPACITY_TO_SPEED, SLOWEST_KHZ};
use toml::Spanned;

/// The usual values of CONFIG_HZ (kernel/Kconfig.hz, and the values of Alpha, ARM and MIPS).
const USUAL_HZ: [u32; 13] = [
    24, 48, 64, 100, 128, 200, 250, 256, 300, 500, 512, 1000, 1024,
];
/// The ratio of a capacity to the speed, or its inverse, that may be intended but rarely is. TC2's values, which are
/// measured, differ by a factor of 1.2.
const ODD: f64 = 2.0;
/// The time of a switch or wakeup, in ns, from which it is assumed to be measured with tracing, or to be in another
/// unit.
const SLOW_NS: u64 = 100_000;

impl Reader<'_> {
    pub(super) fn plausible(
        &self,
        machine: &MachineFile,
        hz: u32,
        core_types: &[CoreType],
    ) -> Result<()> {
        if let Some(given) = machine.hz.as_ref().filter(|_| !USUAL_HZ.contains(&hz)) {
            self.warn(given.span(), format!("no kernel is built with {hz} Hz"));
        }
        self.capacities(machine, core_types)?;
        for (file, core) in machine.core.values().zip(core_types) {
            self.costs_of(file, core);
            self.fastest_opp(file, core)?;
            for state in &file.idle {
                let (residency, latency) = (&state.min_residency_us, &state.exit_latency_us);
                if latency.get_ref() > residency.get_ref() {
                    let message = format!(
                        "the exit latency of `{}` is longer than its residency",
                        state.name
                    );
                    self.warn(latency.span(), message);
                }
            }
        }
        Ok(())
    }

    fn fastest_opp(&self, file: &CoreFile, core: &CoreType) -> Result<()> {
        let fastest = file.opp.last().map(|opp| &opp.khz);
        let Some(khz) = fastest.filter(|khz| *khz.get_ref() < SLOWEST_KHZ) else {
            return Ok(());
        };
        self.bad(
            khz.span(),
            format!(
                "the fastest OPP of `{}` has {} kHz",
                core.name,
                khz.get_ref()
            ),
            format!("expected at least {SLOWEST_KHZ} kHz: no CPU that runs Linux is slower"),
        )
    }

    /// Checks the factor between each core type's capacity and its speed, relative to the fastest core type.
    fn capacities(&self, machine: &MachineFile, core_types: &[CoreType]) -> Result<()> {
        let given = || machine.core.values().zip(core_types);
        let capacity = |file: &CoreFile| file.capacity.as_ref().map(|it| f64::from(*it.get_ref()));
        let fastest = given().find(|(_, core)| core.speed == 1 << 20);
        let Some(reference) = fastest.and_then(|(file, _)| capacity(file)) else {
            return Ok(());
        };
        for (file, core) in given() {
            let Some(at) = &file.capacity else { continue };
            let speed = f64::from(core.speed) / f64::from(1 << 20);
            let off = f64::from(*at.get_ref()) / reference / speed;
            let times = off.max(1.0 / off);
            let message = || {
                format!(
                    "`{}` has a capacity of {} but {speed:.3} of the fastest cores' speed, a factor of {times:.1} apart",
                    core.name,
                    at.get_ref()
                )
            };
            if times >= CAPACITY_TO_SPEED {
                let expected = reference * speed;
                return self.bad(
                    at.span(),
                    message(),
                    format!("expected about {expected:.0}"),
                );
            }
            if times > ODD {
                self.warn(at.span(), message());
            }
        }
        Ok(())
    }

    fn costs_of(&self, file: &CoreFile, core: &CoreType) {
        let Some(costs) = &file.costs else { return };
        let more = |near: &Option<Spanned<u64>>, near_ns, far_ns, what| {
            if let Some(near) = near.as_ref().filter(|_| near_ns > far_ns) {
                let message =
                    format!("{what} costs more within a last-level cache than across caches");
                self.warn(near.span(), message);
            }
        };
        let ns = &core.costs;
        more(&costs.ipi_near_ns, ns.ipi_near_ns, ns.ipi_far_ns, "an IPI");
        more(
            &costs.refill_near_ns,
            ns.refill_near_ns,
            ns.refill_far_ns,
            "fetching a cache line",
        );
        for (given, what) in [
            (&costs.context_switch_ns, "a context switch"),
            (&costs.wakeup_ns, "a wakeup"),
        ] {
            if let Some(given) = given.as_ref().filter(|ns| *ns.get_ref() > SLOW_NS) {
                let message = format!(
                    "{what} of {} us is implausibly slow",
                    given.get_ref() / 1000
                );
                self.warn(given.span(), message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Machine;

    const HYBRID: &str = r#"name = "hybrid"

[core.big]
capacity = 1024
speed = { rate = 2.0, of = "a test" }

[core.big.costs]
source = "a test"
ipi_near_ns = 500
context_switch_ns = 1_000

[[core.big.idle]]
name = "C1"
min_residency_us = 10
exit_latency_us = 5

[core.little]
capacity = 512
speed = { rate = 1.0, of = "a test" }

[[package]]

[[package.cluster]]
core = "big"
cpus = "0-1"

[[package.cluster]]
core = "little"
cpus = "2-3"
"#;

    #[test]
    fn a_capacity_ten_times_off_its_speed_is_an_error() {
        for (capacity, off) in [("5_120", "a factor of 10.0"), ("51", "a factor of 10.0")] {
            let text = HYBRID.replace("capacity = 512", &format!("capacity = {capacity}"));
            let error = Machine::parse("f.toml", &text).unwrap_err();
            assert!(
                error.message().starts_with("f.toml:18: "),
                "{}",
                error.message()
            );
            assert!(error.message().contains(off), "{}", error.message());
            assert_eq!(error.expected(), "expected about 512");
        }
    }

    #[test]
    fn frequencies_in_mhz_are_an_error() {
        let opps = |slow, fast| {
            let opps = format!("[[core.big.opp]]\nkhz = {slow}\n[[core.big.opp]]\nkhz = {fast}\n");
            let cpufreq = "[cpufreq]\nsource = \"a test\"\nshared_by = \"cluster\"\ntransition_latency_us = 10\n";
            let text = HYBRID.replace("[core.little]", &format!("{opps}{cpufreq}[core.little]"));
            Machine::parse("f.toml", &text)
        };
        let error = opps(1800, 2400).unwrap_err();
        assert_eq!(
            error.message(),
            "f.toml:20: the fastest OPP of `big` has 2400 kHz"
        );
        assert!(
            error.expected().contains("at least 10000 kHz"),
            "{}",
            error.expected()
        );
        assert!(opps(1000, 33_000).is_ok());
    }

    #[test]
    fn implausible_values_are_warnings_with_their_lines() {
        assert!(
            Machine::parse("f.toml", HYBRID)
                .unwrap()
                .warnings
                .is_empty()
        );
        for (from, to, line, says) in [
            ("capacity = 512", "capacity = 200", 18, "a factor of 2.6"),
            (
                "ipi_near_ns = 500",
                "ipi_near_ns = 5_000",
                9,
                "an IPI costs more within a last-level cache than across caches",
            ),
            (
                "context_switch_ns = 1_000",
                "context_switch_ns = 1_000_000",
                10,
                "a context switch of 1000 us",
            ),
            (
                "exit_latency_us = 5",
                "exit_latency_us = 50",
                15,
                "of `C1` is longer",
            ),
            (
                "name = \"hybrid\"",
                "name = \"hybrid\"\nhz = 42",
                2,
                "42 Hz",
            ),
        ] {
            assert_eq!(HYBRID.matches(from).count(), 1, "{from}");
            let machine = Machine::parse("f.toml", &HYBRID.replace(from, to)).unwrap();
            let [warning] = &machine.warnings[..] else {
                panic!("{:?}", machine.warnings)
            };
            assert!(
                warning.starts_with(&format!("f.toml:{line}: ")),
                "{warning}"
            );
            assert!(warning.contains(says), "{warning}");
        }
    }

    #[test]
    fn the_machines_that_come_along_are_plausible() {
        for name in Machine::names() {
            assert_eq!(
                Machine::find(name).unwrap().warnings,
                Vec::<String>::new(),
                "{name}"
            );
        }
    }
}
