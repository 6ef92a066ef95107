//! The values of options, and the functions that parse them.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lab::By;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The files of a scheduler in C, at least one.
#[derive(Clone, Debug)]
pub struct Files(pub Vec<PathBuf>);

/// A trace, and the scheduler under which it was recorded.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The policy, or the file of a scheduler in C.
    pub policy: String,
    pub trace: PathBuf,
}

/// A value for a variable of a scheduler in C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The scheduler's own name, if the setting is only for one scheduler.
    pub scheduler: Option<String>,
    pub variable: String,
    pub value: i128,
}

impl fmt::Display for Setting {
    /// Writes the form that [`setting`] parses.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheduler) = &self.scheduler {
            write!(out, "{scheduler}:")?;
        }
        write!(out, "{}={}", self.variable, self.value)
    }
}

/// A time since the start, in ns. The text is in s unless it has a suffix.
pub fn time(text: &str) -> Result<u64, String> {
    workload::nanoseconds(text, 1e9).ok_or_else(|| {
        "expected a time since the start, such as 1.204s, 1204ms or 1204000us".to_owned()
    })
}

/// A time of at least 0.1 s.
pub fn span(text: &str) -> Result<Duration, String> {
    let ns = workload::nanoseconds(text, 1e9).filter(|&ns| ns >= 100_000_000);
    ns.map(Duration::from_nanos)
        .ok_or_else(|| "expected a time of at least 0.1 s, such as 20s or 500ms".to_owned())
}

/// The period in ns of the threads with a certain name, or none.
pub fn period(text: &str) -> Result<trace::import::Set, String> {
    let expected =
        || format!("expected THREAD=TIME or THREAD=none, such as ui=16.67ms, found `{text}`");
    let (name, period) = text.rsplit_once('=').ok_or_else(expected)?;
    let period = match period {
        "none" => None,
        time => Some(
            workload::nanoseconds(time, 1e9)
                .filter(|&ns| ns > 0)
                .ok_or_else(expected)?,
        ),
    };
    Ok((name.to_owned(), period))
}

pub fn interval(text: &str) -> Result<Duration, String> {
    seconds(text, 0.1..=3600.0, "expected seconds from 0.1 to 3600")
}

pub fn limit(text: &str) -> Result<Duration, String> {
    let expected = "expected a number of seconds, such as 10 or 0.5";
    seconds(text, 0.001..=1e6, expected)
}

fn seconds(text: &str, range: RangeInclusive<f64>, expected: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| range.contains(seconds));
    let duration = seconds.map(Duration::from_secs_f64);
    duration.ok_or_else(|| expected.to_owned())
}

/// Paths separated by commas, or one path that contains commas.
pub fn files(text: &str) -> Result<Files, String> {
    let whole = PathBuf::from(text);
    if whole.exists() {
        return Ok(Files(vec![whole]));
    }
    let files: Vec<PathBuf> = text.split(',').map(PathBuf::from).collect();
    match files.iter().any(|file| file.as_os_str().is_empty()) {
        true => Err(format!("expected FILE,FILE..., found `{text}`")),
        false => Ok(Files(files)),
    }
}

/// Parses `[POLICY|FILE.bpf.c=]TRACE`; Linux's own scheduler is `eevdf`.
pub fn measured(text: &str) -> Result<Measured, String> {
    let (policy, trace) = match text.rsplit_once('=') {
        Some(parts) if !PathBuf::from(text).exists() => parts,
        _ => ("eevdf", text),
    };
    Ok(Measured {
        policy: policy.to_owned(),
        trace: trace.into(),
    })
}

/// Parses `[NAME:]VAR=VALUE`; the value is a decimal or 0x number, or true or false.
pub fn setting(text: &str) -> Result<Setting, String> {
    let expected = || {
        format!(
            "expected VAR=VALUE or NAME:VAR=VALUE, where VALUE is an integer (decimal or 0x...), true or false; found \
             `{text}`"
        )
    };
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    let (scheduler, variable) = match name.split_once(':') {
        Some((scheduler, variable)) => (Some(scheduler), variable),
        None => (None, name),
    };
    if variable.is_empty() || scheduler == Some("") {
        return Err(expected());
    }
    let value = match value {
        "true" => Some(1),
        "false" => Some(0),
        _ => match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok().map(i128::from),
            None => value.parse().ok(),
        },
    };
    Ok(Setting {
        scheduler: scheduler.map(str::to_owned),
        variable: variable.to_owned(),
        value: value.ok_or_else(expected)?,
    })
}

/// Parses the name of a measure of `hunt`; help lists all of them.
pub fn by() -> impl TypedValueParser<Value = By> {
    let about = |by| match by {
        By::Share => "The CPU time of a thread that gets less than it is entitled to",
        By::Wait => {
            "The longest time for which a thread waits for a CPU; real-time threads do not count"
        }
        By::Time => "The time until all threads have ended",
        By::Energy => "The energy until all threads have ended",
    };
    let value = |by: By| PossibleValue::new(by.name()).help(about(by));
    PossibleValuesParser::new(By::ALL.map(value)).try_map(|name| {
        let mut all = By::ALL.into_iter();
        all.find(|by| by.name() == name).ok_or("an unknown measure")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn times_have_units() {
        for (text, ns) in [
            ("1.204s", 1_204_000_000),
            ("1.204", 1_204_000_000),
            ("20us", 20_000),
        ] {
            assert_eq!(time(text), Ok(ns));
        }
        for wrong in ["", "s", "-1s", "nan", "1h"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn spans_are_long_enough_to_measure() {
        assert_eq!(span("20s"), Ok(Duration::from_secs(20)));
        assert_eq!(span("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["", "0", "99ms", "-1s"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn periods_are_times_or_none() {
        assert_eq!(
            period("ui=16.67ms"),
            Ok(("ui".to_owned(), Some(16_670_000)))
        );
        assert_eq!(period("a=b=none"), Ok(("a=b".to_owned(), None)));
        for wrong in ["ui", "ui=", "ui=0", "ui=-1ms"] {
            assert!(period(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_are_integers() {
        for (text, scheduler, variable, value) in [
            ("a=1", None, "a", 1),
            ("a=-0", None, "a", 0),
            ("slice_ns=0x10", None, "slice_ns", 16),
            (
                "mask=0xffffffffffffffff",
                None,
                "mask",
                i128::from(u64::MAX),
            ),
            ("simple:fifo=true", Some("simple"), "fifo", 1),
        ] {
            let wanted = Setting {
                scheduler: scheduler.map(str::to_owned),
                variable: variable.to_owned(),
                value,
            };
            assert_eq!(setting(&wanted.to_string()), Ok(wanted.clone()));
            assert_eq!(setting(text), Ok(wanted));
        }
        for wrong in ["a", "=1", "a=", "a=1.5", "a=0x", "a=b=1", ":a=1", "a:=1"] {
            assert!(setting(wrong).is_err(), "{wrong}");
        }
    }
}
