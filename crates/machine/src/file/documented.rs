//! Tests that `docs/machine-format.md` has exactly the keys of the format, and that the examples there and in
//! `docs/machine-examples.md` are valid machines.

use super::*;
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde::forward_to_deserialize_any;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../machine-format.md");
const EXAMPLES: &str = include_str!("../../machine-examples.md");

/// A deserializer whose error has the keys of the requested structure.
struct Keys;

impl<'de> Deserializer<'de> for Keys {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        panic!("expected a structure")
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom(fields.join(" ")))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn keys<T: DeserializeOwned>(path: &str) -> Vec<String> {
    let Err(keys) = T::deserialize(Keys) else {
        panic!("expected the keys of {path}")
    };
    let keys = keys.to_string();
    keys.split(' ').map(|key| format!("{path}{key}")).collect()
}

#[test]
fn every_key_is_in_the_page_and_no_other() {
    let read: BTreeSet<String> = [
        keys::<MachineFile>(""),
        keys::<CoreFile>("core.NAME."),
        keys::<SpeedFile>("core.NAME.speed."),
        keys::<CostsFile>("core.NAME.costs."),
        keys::<IdleFile>("core.NAME.idle."),
        keys::<OppFile>("core.NAME.opp."),
        keys::<CorePowerFile>("core.NAME.power."),
        keys::<PackageFile>("package."),
        keys::<ClusterFile>("package.cluster."),
        keys::<CacheFile>("package.cache."),
        keys::<CpufreqFile>("cpufreq."),
        keys::<TurboFile>("turbo."),
        keys::<PreferredFile>("preferred."),
        keys::<PowerFile>("power."),
        keys::<PartPowerFile>("power.PART."),
        keys::<PartIdleFile>("power.PART.idle."),
        keys::<MemoryFile>("memory."),
        keys::<NetworkFile>("network."),
        keys::<CallbacksFile>("callbacks.NAME."),
    ]
    .concat()
    .into_iter()
    .collect();
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let written: BTreeSet<String> = rows
        .map(|row| row.split('`').next().unwrap().to_owned())
        .collect();
    assert_eq!(written, read);
}

#[test]
fn every_structure_of_the_file_is_looked_at() {
    let structures = include_str!("../file.rs").matches("deny_unknown_fields");
    let lines = include_str!("documented.rs").lines();
    let looked_at = lines.filter(|line| line.starts_with("        keys::<"));
    assert_eq!(looked_at.count(), structures.count());
}

#[test]
fn every_example_is_a_machine() {
    let blocks: Vec<&str> = [PAGE, EXAMPLES]
        .iter()
        .flat_map(|page| page.split("```toml\n").skip(1))
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(blocks.len() >= 5, "{}", blocks.len());
    for text in blocks {
        let machine = Machine::parse("example.toml", text)
            .unwrap_or_else(|error| panic!("{}: {}\n{text}", error.message(), error.expected()));
        assert_eq!(machine.warnings, Vec::<String>::new());
    }
}
