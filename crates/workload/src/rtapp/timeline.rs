//! The section `timeline`: changes of the machine while the threads run. rt-app has no such section. The keys are those
//! of sysfs, and times are in us, as in rt-app:
//!
//! ```text
//! "timeline": [
//!     { "at": 2000000, "cpus": [3], "online": false },
//!     { "at": 5000000, "cpus": [0, 1], "scaling_max_freq": "40%" }
//! ]
//! ```

use super::field::{Field, fields, no_repeats};
use super::json::Kind;
use crate::timeline::{Change, Limit, Timed};
use machine::CpuMask;
use machine::input::BadInput;
use std::ops::Range;

type Read<T> = Result<T, Box<BadInput>>;

/// The highest frequency of a machine file, in kHz.
const MAX_KHZ: i64 = 10_000_000;

/// Reads the section: the changes in order of time, each with its place in the text.
pub fn read(section: Field<'_>) -> Read<Vec<(Timed, Range<usize>)>> {
    let expected = "an array of changes of the machine, such as { \"at\": 2000000, \"cpus\": [3], \
                    \"online\": false }";
    let Kind::Array(items) = &section.value(expected)?.kind else {
        return Err(section.bad(expected));
    };
    let mut changes = Vec::new();
    for item in items {
        let Kind::Object(entries) = &item.kind else {
            let message = format!("`timeline` has {}", item.describe());
            let expected = format!("expected {expected}");
            return Err(section.source.bad(&item.at, message, expected));
        };
        let fields = fields(section.source, entries);
        no_repeats(&fields, |_| false)?;
        let change = one(section, &item.at, &fields)?;
        changes.push((change, item.at.clone()));
    }
    changes.sort_by_key(|(change, _)| change.at_ns);
    Ok(changes)
}

fn one(section: Field<'_>, place: &Range<usize>, fields: &[Field<'_>]) -> Read<Timed> {
    let (mut at, mut cpus, mut online, mut limit) = (None, None, None, None);
    for field in fields {
        match field.key() {
            "at" => at = Some(field.microseconds("a time since the start")?),
            "cpus" => cpus = Some(field.cpus()?),
            "online" => online = Some(field.boolean()?),
            "scaling_max_freq" => limit = Some(read_limit(*field)?),
            _ => {
                let known = ["at", "cpus", "online", "scaling_max_freq"];
                return Err(field.unknown_key("`timeline`", known));
            }
        }
    }
    let missing = |what: &str| {
        let message = format!("`{what}` is missing");
        let expected = "expected `at`, `cpus`, and `online` or `scaling_max_freq`";
        section.source.bad(place, message, expected)
    };
    let at_ns = at.ok_or_else(|| missing("at"))?;
    let cpus: CpuMask = cpus.ok_or_else(|| missing("cpus"))?;
    let change = match (online, limit) {
        (Some(online), None) => Change::Online(cpus, online),
        (None, Some(limit)) => Change::MaxFreq(cpus, limit),
        (None, None) => return Err(missing("online")),
        (Some(_), Some(_)) => {
            let message = "one change has both `online` and `scaling_max_freq`";
            let expected = "expected one of the two keys; several changes may have the same time";
            return Err(section.source.bad(place, message, expected));
        }
    };
    Ok(Timed { at_ns, change })
}

fn read_limit(field: Field<'_>) -> Read<Limit> {
    let expected = "kHz, or a percentage of the highest frequency such as \"40%\"";
    if let Kind::Number(_) = &field.value(expected)?.kind {
        return Ok(Limit::Khz(field.integer(1..=MAX_KHZ, "kHz")? as u32));
    }
    let percent = field.string(expected)?.strip_suffix('%');
    match percent.and_then(|number| number.parse().ok()) {
        Some(percent @ 1..=100) => Ok(Limit::Percent(percent)),
        _ => Err(field.bad(expected)),
    }
}
