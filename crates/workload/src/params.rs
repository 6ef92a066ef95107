//! Parameters on the command line: `sysbench-cpu:threads=5,request=8ms`.

use crate::{Unit, placed};
use machine::input::{self, BadInput};

/// A parameter that a workload takes.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The name before the `=`.
    pub name: &'static str,
    /// The unit of the value: a count, or a unit of time, in which a value without a suffix (`ns`, `us`, `ms`, `s`) is
    /// read.
    pub unit: Unit,
    /// The default value, which is a count, or a time in ns.
    pub default: u64,
    /// The least value, in the unit of `default`.
    pub min: u64,
    /// The greatest value, in the unit of `default`.
    pub max: u64,
    /// The meaning of the parameter, and the source of its default.
    pub help: &'static str,
}

const SUFFIXES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

impl Param {
    /// `value` in its usual notation.
    pub fn show(&self, value: u64) -> String {
        match self.unit.ns() {
            Some(ns) => format!("{}{}", value as f64 / ns, self.unit.name()),
            None => value.to_string(),
        }
    }

    fn read(&self, text: &str) -> Option<u64> {
        let value = match self.unit.ns() {
            Some(ns) => nanoseconds(text, ns)?,
            None => text.parse().ok()?,
        };
        (self.min..=self.max).contains(&value).then_some(value)
    }

    fn expected(&self) -> String {
        let what = match self.unit.ns() {
            Some(_) => "a time",
            None => "a whole number",
        };
        format!(
            "expected {what} from {} to {}: {}",
            self.show(self.min),
            self.show(self.max),
            self.help
        )
    }
}

/// The time in `text`, in ns. A number without a suffix (`ns`, `us`, `ms`, `s`) is in units of `plain` ns.
pub fn nanoseconds(text: &str, plain: f64) -> Option<u64> {
    let (number, scale) = SUFFIXES
        .iter()
        .find_map(|&(suffix, scale)| Some((text.strip_suffix(suffix)?, scale)))
        .unwrap_or((text, plain));
    let value: f64 = number.parse().ok()?;
    (value.is_finite() && value >= 0.0).then(|| (value * scale).round() as u64)
}

/// A value for every parameter of a workload.
#[derive(Clone, Debug)]
pub struct Args {
    params: &'static [Param],
    values: Vec<u64>,
    given: Vec<bool>,
}

impl Args {
    /// Parses `text`, the part after the colon of `workload`'s name. An unknown or repeated name
    /// and a bad value are errors that say what was expected.
    pub fn read(
        workload: &str,
        params: &'static [Param],
        text: Option<&str>,
    ) -> Result<Args, Box<BadInput>> {
        let mut args = Args {
            params,
            values: params.iter().map(|param| param.default).collect(),
            given: vec![false; params.len()],
        };
        for item in text.into_iter().flat_map(|text| text.split(',')) {
            args.assign(item)
                .map_err(|(message, expected)| {
                    BadInput::whole(format!("workload `{workload}`: {message}"), expected)
                })
                .map_err(Box::new)?;
        }
        Ok(args)
    }

    fn assign(&mut self, item: &str) -> Result<(), (String, String)> {
        let own = self.params.iter().map(|param| param.name);
        let names: Vec<_> = own.chain(placed::NAMES).collect();
        let Some((name, value)) = item.split_once('=') else {
            return Err((
                format!("`{item}` is not a parameter"),
                format!("expected NAME=VALUE with a NAME of {}", names.join(", ")),
            ));
        };
        let Some(index) = self.params.iter().position(|param| param.name == name) else {
            return Err((
                format!("unknown parameter `{name}`"),
                input::one_of(name, names),
            ));
        };
        if self.given[index] {
            return Err((
                format!("parameter `{name}` is given twice"),
                format!("expected `{name}` once"),
            ));
        }
        let param = &self.params[index];
        self.values[index] = param.read(value).ok_or_else(|| {
            (
                format!("`{value}` is not a value of `{name}`"),
                param.expected(),
            )
        })?;
        self.given[index] = true;
        Ok(())
    }

    /// The value of `name`, which is a count, or a time in ns.
    ///
    /// # Panics
    /// If the workload has no such parameter.
    pub fn get(&self, name: &str) -> u64 {
        self.values[self.index(name)]
    }

    /// The value of `name` if it was given.
    ///
    /// # Panics
    /// If the workload has no such parameter.
    pub fn given(&self, name: &str) -> Option<u64> {
        let index = self.index(name);
        self.given[index].then_some(self.values[index])
    }

    fn index(&self, name: &str) -> usize {
        self.params
            .iter()
            .position(|param| param.name == name)
            .unwrap_or_else(|| panic!("no parameter {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: &[Param] = &[
        Param {
            name: "threads",
            unit: Unit::Count,
            default: 2,
            min: 1,
            max: 8,
            help: "how many threads",
        },
        Param {
            name: "duration",
            unit: Unit::S,
            default: 1_000_000_000,
            min: 1,
            max: 10_000_000_000,
            help: "how long",
        },
    ];

    fn read(text: &str) -> Result<Args, Box<BadInput>> {
        Args::read("w", PARAMS, Some(text))
    }

    #[test]
    fn reads_counts_and_times() {
        let args = read("threads=5,duration=1.5").unwrap();
        assert_eq!(args.get("threads"), 5);
        assert_eq!(args.get("duration"), 1_500_000_000);
        assert_eq!(read("duration=20ms").unwrap().get("duration"), 20_000_000);
        assert_eq!(read("threads=1").unwrap().given("duration"), None);
    }

    #[test]
    fn says_what_was_expected() {
        for (text, message, expected) in [
            ("thread=5", "unknown parameter `thread`", "threads"),
            ("group", "`group` is not a parameter", "group, weight"),
            (
                "groups=/a",
                "unknown parameter `groups`",
                "did you mean `group`?",
            ),
            ("threads=9", "`9` is not a value of `threads`", "1 to 8"),
            ("threads", "`threads` is not a parameter", "NAME=VALUE"),
            ("threads=1,threads=2", "given twice", "once"),
            ("duration=-1", "`-1` is not a value", "a time from"),
            ("duration=nan", "`nan` is not a value", "a time from"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.message().contains(message), "{error}");
            assert!(error.expected().contains(expected), "{}", error.expected());
        }
    }
}
