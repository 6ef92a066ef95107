//! Reads one key's value with its type and range. Every error says what was expected.

use super::json::{Entry, Kind, Source, Value};
use machine::input::{BadInput, one_of, suggest};
use machine::{CpuMask, MAX_CPUS};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The range of a C `int`, in which rt-app keeps its integers.
pub const INT: RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;
/// The range of a time, a size or a count.
pub const NATURAL: RangeInclusive<i64> = 0..=i32::MAX as i64;

type Read<T> = Result<T, Box<BadInput>>;

#[derive(Clone, Copy)]
pub struct Field<'a> {
    pub source: Source<'a>,
    pub entry: &'a Entry,
}

impl<'a> Field<'a> {
    pub fn key(&self) -> &'a str {
        &self.entry.key
    }

    /// The value, if there is one.
    pub fn value(&self, expected: &str) -> Read<&'a Value> {
        self.entry.value.as_ref().ok_or_else(|| {
            self.bad_key(
                format!("`{}` has no value", self.key()),
                format!("expected `: ` and {expected}"),
            )
        })
    }

    pub fn bad(&self, expected: impl Into<String>) -> Box<BadInput> {
        self.wrong(format!("expected {}", expected.into()))
    }

    fn wrong(&self, expected: String) -> Box<BadInput> {
        let (at, found) = match &self.entry.value {
            Some(value) => (&value.at, value.describe()),
            None => (&self.entry.key_at, "nothing".to_owned()),
        };
        let message = format!("`{}` is {found}", self.key());
        self.source.bad(at, message, expected)
    }

    /// Reads one of the names of `table`; `what` describes them.
    pub fn choice<T: Copy>(&self, what: &str, table: &[(&str, T)]) -> Read<T> {
        let word = self.string(what)?;
        let found = table.iter().find(|(name, _)| *name == word);
        found.map(|&(_, value)| value).ok_or_else(|| {
            let names: Vec<&str> = table.iter().map(|&(name, _)| name).collect();
            self.unknown_name(word, &names, &format!("one of {}", names.join(", ")))
        })
    }

    /// The error for a value, `word`, that is none of the `known` names.
    pub fn unknown_name(&self, word: &str, known: &[&str], expected: &str) -> Box<BadInput> {
        let expected = format!("expected {expected}");
        self.wrong(suggest(word, known.iter().copied(), &expected))
    }

    /// The error for a key that is none of the `known` keys; `owner` is the object that has it.
    pub fn unknown_key<'n>(
        &self,
        owner: &str,
        known: impl IntoIterator<Item = &'n str>,
    ) -> Box<BadInput> {
        let message = format!("unknown key `{}` in {owner}", self.key());
        self.bad_key(message, one_of(self.key(), known))
    }

    /// The error for a key that is not allowed here.
    pub fn bad_key(
        &self,
        message: impl Into<String>,
        expected: impl Into<String>,
    ) -> Box<BadInput> {
        self.source.bad(&self.entry.key_at, message, expected)
    }

    /// An integer within `range`; `what` describes it with its unit.
    pub fn integer(&self, range: RangeInclusive<i64>, what: &str) -> Read<i64> {
        let expected = if range == INT {
            format!("{what}, an integer")
        } else {
            format!(
                "{what}, an integer from {} to {}",
                range.start(),
                range.end()
            )
        };
        match &self.value(&expected)?.kind {
            Kind::Number(text) => text
                .parse()
                .ok()
                .filter(|value| range.contains(value))
                .ok_or_else(|| self.bad(expected)),
            _ => Err(self.bad(expected)),
        }
    }

    /// A time in us, as ns.
    pub fn microseconds(&self, what: &str) -> Read<u64> {
        let what = format!("{what} in us");
        Ok(self.integer(NATURAL, &what)? as u64 * 1000)
    }

    pub fn boolean(&self) -> Read<bool> {
        match self.value("true or false")?.kind {
            Kind::Bool(value) => Ok(value),
            _ => Err(self.bad("true or false")),
        }
    }

    pub fn string(&self, what: &str) -> Read<&'a str> {
        let expected = format!("{what}, a string");
        match &self.value(&expected)?.kind {
            Kind::String(text) => Ok(text),
            _ => Err(self.bad(expected)),
        }
    }

    /// A name: a string that is not empty.
    pub fn name(&self, what: &str) -> Read<&'a str> {
        match self.string(what)? {
            "" => Err(self.bad(format!("{what}, not empty"))),
            name => Ok(name),
        }
    }

    /// The fields of an object; `what` describes it.
    pub fn object(&self, what: &str) -> Read<Vec<Field<'a>>> {
        let expected = format!("{what}, an object");
        match &self.value(&expected)?.kind {
            Kind::Object(entries) => Ok(fields(self.source, entries)),
            _ => Err(self.bad(expected)),
        }
    }

    pub fn cpus(&self) -> Read<CpuMask> {
        let expected = format!("an array of CPU numbers below {MAX_CPUS}, such as [0, 2]");
        let Kind::Array(items) = &self.value(&expected)?.kind else {
            return Err(self.bad(expected));
        };
        let mut mask = CpuMask::EMPTY;
        for item in items {
            let cpu = match &item.kind {
                Kind::Number(text) => text.parse().ok().filter(|&cpu: &usize| cpu < MAX_CPUS),
                _ => None,
            };
            let Some(cpu) = cpu else {
                let message = format!("`{}` has {}", self.key(), item.describe());
                return Err(self
                    .source
                    .bad(&item.at, message, format!("expected {expected}")));
            };
            mask.set(cpu);
        }
        if mask.is_empty() {
            return Err(self.bad(expected));
        }
        Ok(mask)
    }
}

pub fn fields<'a>(source: Source<'a>, entries: &'a [Entry]) -> Vec<Field<'a>> {
    entries
        .iter()
        .map(|entry| Field { source, entry })
        .collect()
}

/// Refuses repeated keys, except those for which `may_repeat` is true.
pub fn no_repeats(fields: &[Field<'_>], may_repeat: impl Fn(&str) -> bool) -> Read<()> {
    let mut seen = BTreeMap::new();
    for field in fields {
        if seen.insert(field.key(), ()).is_some() && !may_repeat(field.key()) {
            return Err(field.bad_key(
                format!("`{}` occurs twice in one object", field.key()),
                "expected each key once (only events and phases may repeat)",
            ));
        }
    }
    Ok(())
}
