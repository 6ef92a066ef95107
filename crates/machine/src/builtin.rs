//! The machines that come with Equipoise (`machines/` in the source tree), and the search for a machine by name.

use crate::Machine;
use crate::input::{self, BadInput};
use std::borrow::Cow;
use std::path::Path;

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        &[$((
            $name,
            concat!("machines/", $name, ".toml"),
            include_str!(concat!("../machines/", $name, ".toml")),
        )),*]
    };
}

/// The name, file and text of each machine, sorted by name.
const BUILTIN: &[(&str, &str, &str)] = builtin![
    "alder-lake",
    "apple-m1",
    "emr-2s",
    "epyc-2s",
    "exynos5433",
    "grace",
    "hikey-6220",
    "hp-8s-80c",
    "hp-8s-80c-ht",
    "lunar-lake",
    "odroid-xu3",
    "opteron-6272",
    "raptor-lake-h",
    "raspberry-pi-5",
    "rk3588",
    "sm8250",
    "smp-2",
    "smp-2x8",
    "smp-8",
    "smt-4",
    "snb-4s",
    "snb-ep-2s",
    "snb-laptop",
    "tc2",
    "tc2-smp",
    "zen4-x3d",
    "zen5-laptop"
];

impl Machine {
    /// The names of the machines that come with Equipoise.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|&(name, ..)| name)
    }

    /// The built-in machine with this name, otherwise the machine in the file with this path. A name with a slash or a
    /// dot is always a file, and `-` is standard input.
    pub fn find(name_or_path: &str) -> Result<Machine, Box<BadInput>> {
        let (file, text) = Machine::source(name_or_path)?;
        Machine::parse(&file, &text)
    }

    /// The text that [`Machine::find`] reads, and the name that messages give to its source.
    pub fn source(
        name_or_path: &str,
    ) -> Result<(Cow<'static, str>, Cow<'static, str>), Box<BadInput>> {
        if let Some((_, file, text)) = BUILTIN.iter().find(|(name, ..)| *name == name_or_path) {
            return Ok(((*file).into(), (*text).into()));
        }
        let path = Path::new(name_or_path);
        // No built-in name has a dot, so `soc.tml` is a mistyped file.
        let is_path = name_or_path.contains(['/', '.']) || name_or_path == input::STDIN;
        if is_path || path.exists() {
            let text = input::description(path, "machine file")?;
            return Ok((input::shown(path).into(), text.into()));
        }
        let names = input::one_of(name_or_path, Machine::names());
        Err(Box::new(BadInput::whole(
            format!("no machine is called `{name_or_path}`"),
            format!("{names}, or the path of a machine file"),
        )))
    }

    /// The machine described in the file `path`.
    pub fn load(path: &Path) -> Result<Machine, Box<BadInput>> {
        let text = input::description(path, "machine file")?;
        Machine::parse(&input::shown(path), &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_machine_is_well_formed_and_named_after_its_file() {
        for name in Machine::names() {
            let machine = Machine::find(name).unwrap_or_else(|error| panic!("{error:?}"));
            assert_eq!(machine.name, name);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = Machine::find("cray-1").unwrap_err();
        assert!(error.message().contains("cray-1"));
        assert!(error.expected().contains("tc2-smp"));
        assert!(Machine::find("no/such.toml").is_err());
    }

    #[test]
    fn tc2_is_the_board_of_the_table() {
        let tc2 = Machine::find("tc2").unwrap();
        let capacities: Vec<_> = tc2.cpus.iter().map(|cpu| cpu.capacity).collect();
        assert_eq!(capacities, [1441, 1441, 606, 606, 606]);
        assert_eq!(tc2.time_for(16_470_000_000, 0), 16_470_000_000);
        let little = tc2.time_for(16_470_000_000, 4);
        assert!(
            little.abs_diff(33_500_000_000) < 33_500_000_000 >> 18,
            "{little}"
        );
        let spans: Vec<_> = tc2.clusters().iter().map(|span| span.to_string()).collect();
        assert_eq!(spans, ["0-1", "2-4"]);
    }

    #[test]
    fn hyper_threading_is_all_that_the_two_eight_socket_machines_differ_in() {
        let (off, on) = (
            Machine::find("hp-8s-80c").unwrap(),
            Machine::find("hp-8s-80c-ht").unwrap(),
        );
        assert_eq!((off.cpus.len(), on.cpus.len()), (80, 160));
        assert_eq!((on.node_of(79), on.node_of(80)), (7, 0));
        assert_eq!(off.numa, on.numa);
        let (off, on) = (&off.core_types[0], &on.core_types[0]);
        assert_eq!((off.speed, off.costs), (on.speed, on.costs));
    }

    #[test]
    fn the_halves_of_tc2_are_the_same_silicon() {
        let (whole, half) = (
            Machine::find("tc2").unwrap(),
            Machine::find("tc2-smp").unwrap(),
        );
        let (whole, half) = (&whole.core_types[0], &half.core_types[0]);
        assert_eq!(whole.name, half.name);
        assert_eq!((whole.speed, whole.costs), (half.speed, half.costs));
    }
}
