//! The origin of every parameter of the published designs' tables, and the cells to which parameters
//! were fitted (`parameters.toml`).

use crate::Stat;
use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    parameter: Vec<Parameter>,
}

/// Parameters of the same origin.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(test), allow(dead_code))]
struct Parameter {
    /// The machines and loads that have the parameters.
    of: Vec<String>,
    /// Patterns of the parameters' keys.
    keys: Vec<String>,
    origin: Origin,
    source: String,
    /// The cells to which the parameters were fitted.
    #[serde(default)]
    cell: Vec<Fitted>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Origin {
    Cited,
    Measured,
    Fitted,
    Assumed,
}

/// Cells of a table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fitted {
    experiment: String,
    block: String,
    row: String,
    /// The columns; all columns if the list is empty.
    #[serde(default)]
    columns: Vec<String>,
    /// The statistics; all statistics if the list is empty.
    #[serde(default)]
    stats: Vec<Stat>,
}

impl Fitted {
    fn is(&self, experiment: &str, block: &str, row: &str, column: &str, stat: Stat) -> bool {
        (&*self.experiment, &*self.block, &*self.row) == (experiment, block, row)
            && (self.columns.is_empty() || self.columns.iter().any(|name| name == column))
            && (self.stats.is_empty() || self.stats.contains(&stat))
    }
}

static FILE: LazyLock<File> = LazyLock::new(|| {
    let text = include_str!("parameters.toml");
    toml::from_str(text).expect("a valid list of parameters: a test reads it")
});

/// Was a parameter fitted to this cell?
pub fn is_fitted(experiment: &str, block: &str, row: &str, column: &str, stat: Stat) -> bool {
    let mut cells = FILE.parameter.iter().flat_map(|parameter| &parameter.cell);
    cells.any(|cell| cell.is(experiment, block, row, column, stat))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Reproduction};
    use glob::Pattern;
    use std::collections::BTreeSet;
    use std::path::Path;

    const TABLES: [&str; 5] = [
        "mixed-capacity",
        "utilization-tracking",
        "power-aware",
        "hperf-hmp",
        "idle-balance-limit",
    ];

    fn table(name: &str) -> Experiment {
        Experiment::find(name, None, &|_| {
            Ok(Err("no published scheduler here".into()))
        })
        .unwrap()
    }

    /// The names of a table's values, without the machine's own name and remarks.
    fn keys(value: &toml::Value, prefix: &str, into: &mut BTreeSet<String>) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    let is_name = prefix.is_empty() && key == "name";
                    if !is_name && key != "source" && key != "description" {
                        let dot = if prefix.is_empty() { "" } else { "." };
                        keys(value, &format!("{prefix}{dot}{key}"), into);
                    }
                }
            }
            toml::Value::Array(list) if list.first().is_some_and(toml::Value::is_table) => {
                list.iter().for_each(|value| keys(value, prefix, into));
            }
            _ => drop(into.insert(prefix.to_owned())),
        }
    }

    /// Every parameter of the tables' machines and loads: its owner, and its key.
    fn parameters() -> BTreeSet<(String, String)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut all = BTreeSet::new();
        for experiment in TABLES.map(table) {
            for (block, row) in experiment.rows() {
                for column in experiment.columns_of(block) {
                    let machine = &column.machine(block).name;
                    let file = folder.join(format!("machines/{machine}.toml"));
                    let text = std::fs::read_to_string(file).unwrap();
                    let mut own = BTreeSet::new();
                    keys(&text.parse::<toml::Table>().unwrap().into(), "", &mut own);
                    all.extend(own.into_iter().map(|key| (machine.clone(), key)));
                }
                for load in row.workload.name().split('+') {
                    let load = load.split(':').next().unwrap();
                    let names = models::parameters(load).iter().map(|param| param.name);
                    all.extend(names.map(|name| (load.to_owned(), name.to_owned())));
                    if folder.join(format!("workloads/{load}.json")).exists() {
                        all.insert((load.to_owned(), "tasks.*".to_owned()));
                    }
                }
            }
        }
        all
    }

    #[test]
    fn every_parameter_has_one_origin() {
        let parameters = parameters();
        assert!(parameters.len() > 250, "{}", parameters.len());
        let matches = |row: &Parameter, (owner, key): &(String, String)| {
            let mut keys = row.keys.iter();
            row.of.contains(owner)
                && keys.any(|pattern| Pattern::new(pattern).unwrap().matches(key))
        };
        for parameter in &parameters {
            let rows = FILE.parameter.iter().filter(|row| matches(row, parameter));
            let count = rows.count();
            assert_eq!(
                count, 1,
                "{parameter:?} has {count} origins in crates/lab/src/parameters.toml"
            );
        }
        for row in &FILE.parameter {
            assert_eq!(
                row.origin == Origin::Fitted,
                !row.cell.is_empty(),
                "{}",
                row.source
            );
            assert!(!row.source.is_empty());
            for pattern in &row.keys {
                let one = Pattern::new(pattern).unwrap();
                let mut own = parameters
                    .iter()
                    .filter(|(owner, _)| row.of.contains(owner));
                assert!(
                    own.any(|(_, key)| one.matches(key)),
                    "{pattern}: {}",
                    row.source
                );
            }
            for name in &row.of {
                assert!(
                    parameters
                        .iter()
                        .any(|parameter| { parameter.0 == *name && matches(row, parameter) }),
                    "{name}: {}",
                    row.source
                );
            }
        }
    }

    #[test]
    fn a_fitted_cell_is_a_published_one() {
        let tables = TABLES.map(table).map(Reproduction::without_runs);
        let cells: Vec<_> = tables
            .iter()
            .flat_map(|table| {
                let cells = table.cells().into_iter();
                cells.map(|cell| (table.experiment.name.as_str(), cell))
            })
            .collect();
        for fitted in FILE.parameter.iter().flat_map(|row| &row.cell) {
            let own = cells.iter().filter(|(experiment, cell)| {
                fitted.is(experiment, cell.block, cell.row, cell.column, cell.stat)
            });
            let published = own.filter(|(_, cell)| cell.published.is_some()).count();
            let least = fitted.columns.len().max(1) * fitted.stats.len().max(1);
            assert!(published >= least, "{fitted:?}");
        }
        let others = cells
            .iter()
            .filter(|(_, cell)| cell.published.is_some() && !cell.fitted);
        assert!(others.count() > 200, "most cells calibrate nothing");
    }
}
