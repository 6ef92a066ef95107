//! The file being read, and its messages.

use super::{DEFAULT_HZ, MachineFile};
use crate::input::BadInput;
use crate::limits::COST_NS;
use crate::{MAX_CPUS, Machine};
use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;

/// The longest name of a machine, and the longest description or name of a core type, in characters.
const LONGEST_NAME: usize = 64;
const LONGEST_LINE: usize = 300;
/// A generous range for the kernel's CONFIG_HZ.
const HZ: RangeInclusive<u32> = 10..=10_000;

pub(super) type Result<T> = std::result::Result<T, Box<BadInput>>;

pub(super) struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    warnings: RefCell<Vec<String>>,
    /// The errors so far; if there are any, no machine is returned.
    errors: RefCell<Vec<BadInput>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Reader<'a> {
        Reader {
            file,
            text,
            warnings: RefCell::default(),
            errors: RefCell::default(),
        }
    }

    pub(super) fn bad<T>(
        &self,
        at: Range<usize>,
        message: String,
        expected: impl Into<String>,
    ) -> Result<T> {
        Err(Box::new(BadInput::at(
            self.file, self.text, at, message, expected,
        )))
    }

    /// Records an error, so that the rest of the file is checked, too.
    pub(super) fn keep<T>(&self, result: Result<T>) -> Option<T> {
        result
            .map_err(|bad| self.errors.borrow_mut().push(*bad))
            .ok()
    }

    pub(super) fn failed(&self) -> bool {
        !self.errors.borrow().is_empty()
    }

    fn error<T>(&self) -> Result<T> {
        match BadInput::all(self.errors.take()) {
            Some(bad) => Err(Box::new(bad)),
            None => unreachable!("a part of the file is wrong"),
        }
    }

    /// Adds a warning about the implausible value in the range `at` of the text.
    pub(super) fn warn(&self, at: Range<usize>, message: String) {
        let bad = BadInput::at(self.file, self.text, at, message, "");
        self.warnings.borrow_mut().push(bad.message().to_owned());
    }

    pub(super) fn machine(&self, machine: MachineFile) -> Result<Machine> {
        self.keep(self.name(&machine.name));
        for text in machine.core.keys().chain(&machine.description) {
            self.keep(self.one_line(text));
        }
        let hz = match &machine.hz {
            Some(hz) => self.within(hz, "hz", HZ),
            None => DEFAULT_HZ,
        };
        let host_cpus = machine.host_cpus.as_ref();
        let host_cpus = host_cpus.map(|cpus| self.within(cpus, "host_cpus", 1..=MAX_CPUS as u32));
        let cores = self.keep(self.core_types(&machine.core));
        let numa = self.keep(self.distances(&machine));
        let Some(((core_types, capacities), mut numa)) = cores.zip(numa) else {
            return self.error();
        };
        let power = self.keep(self.power(&machine));
        let turbo = self.keep(self.turbo(&machine, &core_types));
        let Some(topology) = self.keep(self.topology(&machine, &capacities, &numa)) else {
            return self.error();
        };
        let network = self.keep(self.network(&machine.network, &topology));
        let cpufreq = self.keep(self.cpufreq(&machine, &topology, &core_types));
        if let Some(memory) = &machine.memory {
            let packages = machine.package.get_ref().len();
            numa.memory = self.keep(self.memory(memory, &numa, packages));
        }
        let priorities = self.keep(self.priorities(&machine.preferred, &topology));
        let callbacks = self.callbacks(&machine.callbacks);
        // Skip warnings if there are errors, because wrong values would look implausible, too.
        if !self.failed() {
            self.keep(self.plausible(&machine, hz, &core_types));
        }
        let (Some(power), Some(turbo), Some(network), Some(cpufreq), Some(priorities), false) =
            (power, turbo, network, cpufreq, priorities, self.failed())
        else {
            return self.error();
        };
        Ok(Machine {
            name: machine.name.into_inner(),
            description: machine
                .description
                .map(Spanned::into_inner)
                .unwrap_or_default(),
            hz,
            idle_governor: machine.idle_governor,
            host_cpus,
            irq_time_in_tasks: machine.irq_time_accounting == Some(false),
            cpus: topology.cpus,
            offline: topology.offline,
            rebuilt: false,
            core_types,
            levels: topology.levels,
            clusters: topology.clusters,
            caches: topology.caches,
            cpufreq,
            network,
            governor_adds: false,
            numa,
            power,
            turbo,
            priorities,
            callbacks,
            warnings: self.warnings.take(),
        })
    }

    fn name(&self, name: &Spanned<String>) -> Result<()> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        // The names of the files of results contain this name.
        if !(1..=LONGEST_NAME).contains(&name.get_ref().len()) || !name.get_ref().chars().all(plain)
        {
            return self.bad(
                name.span(),
                format!("`{}` cannot be a machine's name", name.get_ref()),
                format!("expected 1 to {LONGEST_NAME} letters, digits, `-`, `_` and `.`"),
            );
        }
        Ok(())
    }

    /// Refuses a text that would break tables and headings.
    fn one_line(&self, text: &Spanned<String>) -> Result<()> {
        let is_plain = cage::text::is_plain(text.get_ref());
        match is_plain && text.get_ref().chars().count() <= LONGEST_LINE {
            true => Ok(()),
            false => self.bad(
                text.span(),
                "this text is longer than a line, or has control characters".to_owned(),
                format!("expected at most {LONGEST_LINE} characters on one line"),
            ),
        }
    }

    /// `value`, which must be in `range`. A value outside of the range is an error, and the checks continue with the
    /// nearest value inside.
    pub(super) fn within(
        &self,
        value: &Spanned<u32>,
        what: &str,
        range: RangeInclusive<u32>,
    ) -> u32 {
        let given = *value.get_ref();
        if !range.contains(&given) {
            self.keep(self.bad::<()>(
                value.span(),
                format!("{what} is {given}"),
                format!("expected {} to {}", range.start(), range.end()),
            ));
        }
        given.clamp(*range.start(), *range.end())
    }

    /// Converts `value`, which is in units of `unit_ns`, to ns. A time of more than a second is an error.
    pub(super) fn cost(&self, value: &Spanned<u64>, unit_ns: u64) -> u64 {
        let ns = value.get_ref().saturating_mul(unit_ns);
        if !COST_NS.contains(&ns) {
            self.keep(self.bad::<()>(
                value.span(),
                format!("{} is longer than a second", value.get_ref()),
                format!("expected 0 to {}", COST_NS.end() / unit_ns),
            ));
        }
        ns.min(*COST_NS.end())
    }

    pub(super) fn cost_or_none(&self, value: &Option<Spanned<u64>>) -> u64 {
        value.as_ref().map_or(0, |value| self.cost(value, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuMask, Spinlock};

    const GOOD: &str = r#"name = "tc2"
description = "a board"
hz = 100

[core.cortex-a15]
capacity = 1441
speed = { time = 16.47, of = "a benchmark, s" }

[core.cortex-a15.costs]
source = "a test"
context_switch_ns = 1
wakeup_ns = 20
ipi_near_ns = 3
ipi_far_ns = 4
tick_ns = 5
timer_irq_ns = 6
refill_near_ns = 7
refill_far_ns = 8

[core.cortex-a7]
capacity = 606
speed = { time = 33.5, of = "a benchmark, s" }

[core.cortex-a7.costs]
source = "a test"
context_switch_ns = 1
wakeup_ns = 2
ipi_near_ns = 3
ipi_far_ns = 4
tick_ns = 5
timer_irq_ns = 6
refill_near_ns = 7
refill_far_ns = 8

[[core.cortex-a7.idle]]
name = "WFI"
min_residency_us = 1
exit_latency_us = 1

[[core.cortex-a7.idle]]
name = "C1"
min_residency_us = 2500
exit_latency_us = 700

[[package]]

[[package.cluster]]
core = "cortex-a15"
cpus = "0-1"

[[package.cluster]]
core = "cortex-a7"
cpus = "2-4"
"#;

    fn error(from: &str, to: &str) -> (usize, String) {
        assert_eq!(
            GOOD.matches(from).count(),
            1,
            "`{from}` is not once in the file"
        );
        let error = Machine::parse("f.toml", &GOOD.replace(from, to)).unwrap_err();
        let place = error
            .message()
            .strip_prefix("f.toml:")
            .expect("a message that begins with the file");
        let (line, _) = place.split_once(':').unwrap();
        (
            line.parse().unwrap(),
            format!("{} {}", error.message(), error.expected()),
        )
    }

    fn line_of(part: &str) -> usize {
        GOOD.lines().position(|line| line.contains(part)).unwrap() + 1
    }

    #[test]
    fn errors_name_their_line() {
        let a7 = "cpus = \"2-4\"";
        for (from, to, says) in [
            ("hz = 100", "hz = 0", "expected 10 to 10000"),
            ("hz = 100", "hz = \"100\"", "expected a whole number"),
            ("hz = 100", "ghz = 100", "ghz"),
            ("[[package]]", "[package]", "which begins with `[[NAME]]`"),
            (
                "[core.cortex-a7]",
                "[[core.cortex-a7]]",
                "which begins with `[NAME]`",
            ),
            ("hz = 100", "host_cpus = 0", "expected 1 to"),
            ("capacity = 1441", "capacity = 0", "expected 1 to 65536"),
            (
                "capacity = 1441",
                "capacity = -5",
                "expected a whole number",
            ),
            ("time = 33.5", "time = 0.0", "expected a number above 0"),
            ("time = 33.5", "time = -1", "expected a number above 0"),
            ("time = 33.5", "time = nan", "expected a number above 0"),
            ("time = 33.5", "rate = 33.5", "`time` on all"),
            (
                "time = 33.5",
                "time = 33.5, rate = 1.0",
                "either `time` or `rate`",
            ),
            ("time = 33.5", "time = 33500", "1024 times slower"),
            (a7, "cpus = \"1-4\"", "CPU 1 is in two clusters"),
            (a7, "cpus = \"4-2\"", "rising range"),
            (a7, "cpus = \"2-4096\"", "below 4096"),
            (a7, "cpus = \"\"", "expected a CPU list"),
            (
                "core = \"cortex-a7\"",
                "core = \"cortex-a8\"",
                "cortex-a15, cortex-a7",
            ),
            (
                "min_residency_us = 2500",
                "min_residency_us = 0",
                "at least those of the state before",
            ),
            (
                "exit_latency_us = 700",
                "exit_latency_us = 1000001",
                "expected 0 to 1000000",
            ),
            (
                "description = \"a board\"",
                "description = \"a\\nboard\"",
                "has control characters",
            ),
            (
                "name = \"tc2\"",
                "name = \"t c 2\"",
                "cannot be a machine's name",
            ),
        ] {
            let (line, text) = error(from, to);
            assert!(text.contains(says), "{text}");
            assert_eq!(line, line_of(from), "{text}");
        }
    }

    #[test]
    fn a_wrong_speed_is_reported_beside_any_other() {
        let slow = GOOD.replace("time = 16.47", "time = 1e300");
        let error = Machine::parse("f.toml", &slow.replace("time = 33.5", "time = 0.0"));
        let message = error.unwrap_err().message().to_owned();
        assert!(message.ends_with(": the speed is 0"), "{message}");
    }

    #[test]
    fn a_gap_in_the_cpu_numbers_is_named() {
        let (_, text) = error("cpus = \"2-4\"", "cpus = \"3-5\"");
        assert!(text.contains("CPU 2 is in no cluster"), "{text}");
    }

    #[test]
    fn a_file_without_core_types_needs_the_clusters_one() {
        let text =
            "name = \"m\"\n[core]\n[[package]]\n[[package.cluster]]\ncore = \"a\"\ncpus = \"0\"\n";
        let error = Machine::parse("f.toml", text).unwrap_err();
        assert_eq!(error.expected(), "expected a section [core.a]");
    }

    #[test]
    fn an_unused_core_type_is_an_error() {
        let (_, text) = error("core = \"cortex-a7\"", "core = \"cortex-a15\"");
        assert!(text.contains("no cluster has `cortex-a7` cores"), "{text}");
    }

    #[test]
    fn missing_costs_have_typical_values() {
        let text = GOOD
            .replace("hz = 100", "")
            .replacen("wakeup_ns = 2\n", "", 1);
        let machine = Machine::parse("f.toml", &text).unwrap();
        assert_eq!(machine.hz, 250);
        let usual: Vec<_> = machine
            .core_types
            .iter()
            .map(|core| &core.usual_costs[..])
            .collect();
        assert_eq!(usual, [&[][..], &["wakeup_ns"]]);
        // Typical costs scale with the speeds: an A7 takes 33.5 / 16.47 times as long as an A15.
        assert_eq!(machine.core_types[1].costs.wakeup_ns, 2_000);
        assert_eq!(machine.core_types[1].costs.tick_ns, 5);
    }

    #[test]
    fn missing_keys_are_named() {
        for (from, says) in [
            ("name = \"tc2\"", "name"),
            ("cpus = \"2-4\"", "cpus"),
            ("capacity = 606", "capacity"),
            ("speed = { time = 33.5, of = \"a benchmark, s\" }", "speeds"),
        ] {
            let (_, text) = error(from, "");
            assert!(text.contains(says), "{text}");
        }
        assert!(Machine::parse("f.toml", "").is_err());
        assert!(Machine::parse("f.toml", "[[[").is_err());
    }

    const TWO_NODES: &str = r#"
[[package]]

[[package.cluster]]
core = "cortex-a7"
cpus = "5-6"

[memory]
source = "a test"
cached_ns = 9
line_ns = [50, 100]
lock_ns = 70
"#;

    #[test]
    fn nodes_have_distances_and_lines_have_costs() {
        let hz = "hz = 100\n";
        let with = |distances: &str, from: &str, to: &str| {
            let text = GOOD.replace(hz, &format!("{hz}numa_distances = {distances}\n")) + TWO_NODES;
            Machine::parse("f.toml", &text.replace(from, to))
        };
        let numa = with("[[10, 14], [14, 10]]", "", "").unwrap().numa;
        assert_eq!(numa.distance(0, 1), 14);
        let memory = numa.memory.unwrap();
        assert_eq!(memory.line_ns, [[50, 100], [100, 50]]);
        assert_eq!(memory.spinlock, Spinlock::Queued);
        let ticket = with(
            "[[10, 14], [14, 10]]",
            "lock_ns = 70",
            "lock_ns = 70\nspinlock = \"ticket\"",
        );
        let memory = ticket.unwrap().numa.memory.unwrap();
        assert_eq!(memory.spinlock, Spinlock::Ticket);
        for (distances, from, to, says) in [
            ("[[10]]", "", "", "2 rows of 2 distances"),
            ("[[10, 14], [14]]", "", "", "2 rows of 2 distances"),
            ("[[10, 14], [15, 10]]", "", "", "in both directions"),
            ("[[11, 14], [14, 10]]", "", "", "expected 10"),
            ("[[10, 10], [10, 10]]", "", "", "11 to 254"),
            (
                "[[10, 14], [14, 10]]",
                "[50, 100]",
                "[50]",
                "one cost for each distance: 10, 14",
            ),
            (
                "[[10, 14], [14, 10]]",
                "lock_ns = 70",
                "lock_ns = 1000000001",
                "than a second",
            ),
            ("[[10, 14], [14, 10]]", "cached_ns = 9", "", "cached_ns"),
            (
                "[[10, 14], [14, 10]]",
                "lock_ns = 70",
                "lock_ns = 70\nspinlock = \"fair\"",
                "ticket",
            ),
        ] {
            let error = with(distances, from, to).unwrap_err();
            let text = format!("{} {}", error.message(), error.expected());
            assert!(text.contains(says), "{distances}: {text}");
        }
    }

    #[test]
    fn nodes_that_do_not_nest_are_refused() {
        let ring = "[[10, 20, 20, 30], [20, 10, 30, 20], [20, 30, 10, 20], [30, 20, 20, 10]]";
        let mut text = GOOD.replace(
            "hz = 100\n",
            &format!("hz = 100\nnuma_distances = {ring}\n"),
        );
        for cpu in 5..8 {
            text += &format!(
                "[[package]]\n[[package.cluster]]\ncore = \"cortex-a7\"\ncpus = \"{cpu}\"\n"
            );
        }
        let error = Machine::parse("f.toml", &text).unwrap_err();
        assert!(
            error.message().starts_with("f.toml:4:"),
            "{}",
            error.message()
        );
        assert!(error.message().contains("20"), "{}", error.message());
    }

    #[test]
    fn packages_are_nodes() {
        let machine = Machine::find("smp-2x8").unwrap();
        let names: Vec<_> = machine.levels.iter().map(|level| level.name).collect();
        assert_eq!(names, ["MC", "PKG", "NUMA"]);
        assert_eq!(machine.levels[1].spans.len(), 2);
        assert_eq!(machine.levels[2].spans, [CpuMask::first_n(16)]);
    }
}
