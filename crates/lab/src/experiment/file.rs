//! The form of an experiment's file.
//!
//! ```toml
//! name = "mixed-capacity"
//! title = "..."
//! runs = 20                           # of each cell, unless the command line gives a number (optional)
//!
//! [source]                            # of a published table
//! author = "..."
//! date = "2013-03-25"
//! title = "[RFC PATCH 0/2] ..."       # of the mail or paper
//! list = "linux-kernel"               # where it was published: a list, or a URL
//!
//! [load]                              # rt-app files of its own, by name (optional)
//! frames = '''
//! { "tasks": { ... } }
//! '''
//!
//! [machine]                           # machine files of its own, by name (optional)
//! small = '''
//! name = "small"
//! ...
//! '''
//!
//! [[column]]
//! name = "3.9-rc2"                    # as the table calls it
//! policy = "cfs"
//!
//! # published = false                 # the table does not have it: rows have no number for it
//! # against = "cfs"                   # in all columns: they have changes in per cent, published.change
//! # machine = "tc2"                   # if columns differ in their machine
//!
//! [[block]]                           # a part of the table, on one machine
//! name = "SMP"
//! machine = "tc2-smp"                 # or a machine of the file
//! cpunodebind = "0"                   # optional: only on these NUMA nodes
//! remark = "..."                      # optional: what to make of its results, printed with them
//! source = { ... }                    # optional: if its figures were published elsewhere
//!
//! [[block.row]]
//! name = "sysbench_5t"
//! workload = "sysbench-cpu:threads=5" # or a load of the file; several at once with "+"
//! metric = "time"
//! unit = "s"
//! published.avg = [41.16, 41.15, "-"] # one for each column; "-" is not published
//!
//! [block.average]                     # a last row, the mean of the block's averages (optional)
//! name = "avg"
//! published = [41.16, 41.15, "-"]     # as above
//! ```

use super::{Average, Block, Column, Experiment, Published, Result, Row, Source, Stat};
use crate::Scheduler;
use crate::metrics::countable;
use machine::Machine;
use machine::input::{self, BadInput};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use workload::Workload;

/// The experiment that `text`, the content of `file`, describes.
pub(super) fn read(file: &str, text: &str) -> Result<Experiment> {
    Reader { file, text }.experiment(input::from_toml(file, text)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    name: String,
    title: String,
    source: Option<Source>,
    runs: Option<u32>,
    /// Changes smaller than this were not published, per cent: cells `"~"`.
    noise_pct: Option<f64>,
    /// rt-app files, by name.
    #[serde(default)]
    load: BTreeMap<String, Spanned<String>>,
    /// Machine files, by name.
    #[serde(default)]
    machine: BTreeMap<String, Spanned<String>>,
    column: Vec<ColumnFile>,
    block: Vec<BlockFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnFile {
    name: String,
    policy: Spanned<String>,
    /// The table has it.
    #[serde(default = "yes")]
    published: bool,
    against: Option<Spanned<String>>,
    machine: Option<Spanned<String>>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockFile {
    name: String,
    machine: Spanned<String>,
    cpunodebind: Option<Spanned<String>>,
    row: Vec<RowFile>,
    average: Option<AverageFile>,
    remark: Option<String>,
    source: Option<Source>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AverageFile {
    name: String,
    published: Spanned<Vec<Spanned<toml::Value>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowFile {
    name: String,
    workload: Spanned<String>,
    metric: Spanned<String>,
    unit: Spanned<String>,
    #[serde(default)]
    published: BTreeMap<Stat, Spanned<Vec<Spanned<toml::Value>>>>,
}

/// The file being read, for messages about it.
struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn bad(&self, at: Range<usize>, message: &str, expected: &str) -> Box<BadInput> {
        Box::new(BadInput::at(self.file, self.text, at, message, expected))
    }

    /// Looks up `name` with `find`. An error is reported at this place in the file.
    fn find<T>(&self, name: &Spanned<String>, find: impl Fn(&str) -> Result<T>) -> Result<T> {
        find(name.get_ref())
            .map_err(|error| self.bad(name.span(), error.message(), error.expected()))
    }

    fn experiment(&self, file: ExperimentFile) -> Result<Experiment> {
        let changes = file.column.iter().any(|column| column.against.is_some());
        let stats: &[Stat] = if changes { &[Stat::Change] } else { &Stat::ALL };
        let column = |column: ColumnFile| -> Result<Column> {
            if changes && column.against.is_none() {
                return Err(self.bad(
                    column.policy.span(),
                    "this column is not a change, but another one is",
                    "expected `against` in all columns or in none",
                ));
            }
            let machine = column.machine.as_ref();
            let against = column.against.as_ref();
            Ok(Column {
                name: column.name,
                scheduler: self.find(&column.policy, Scheduler::policy)?,
                against: against
                    .map(|name| self.find(name, Scheduler::policy))
                    .transpose()?,
                machine: machine
                    .map(|name| self.find(name, Machine::find))
                    .transpose()?,
            })
        };
        let published: Vec<bool> = file.column.iter().map(|column| column.published).collect();
        let columns = file
            .column
            .into_iter()
            .map(column)
            .collect::<Result<Vec<_>>>()?;
        let loads = &file.load;
        let block = |block: BlockFile| -> Result<Block> {
            let machine = match file.machine.get(block.machine.get_ref()) {
                Some(text) => Machine::parse(self.file, &self.with_lines(text))?,
                None => self.find(&block.machine, Machine::find)?,
            };
            if let Some(nodes) = &block.cpunodebind {
                let others = columns.iter().filter_map(|column| column.machine.as_ref());
                for machine in others.chain([&machine]) {
                    self.nodes(nodes, machine)?;
                }
            }
            let nodes = block
                .cpunodebind
                .as_ref()
                .map(|nodes| nodes.get_ref().as_str());
            let table = (&*published, stats, file.noise_pct);
            let rows = block.row.into_iter();
            let rows = rows.map(|row| self.row(row, loads, &machine, table, nodes));
            Ok(Block {
                name: block.name,
                rows: rows.collect::<Result<_>>()?,
                machine,
                average: block
                    .average
                    .map(|average| self.average(average, &published))
                    .transpose()?,
                remark: block.remark,
                source: block.source,
            })
        };
        let blocks = file.block.into_iter().map(block).collect::<Result<_>>()?;
        Ok(Experiment {
            name: file.name,
            title: file.title,
            source: file.source,
            runs: file.runs,
            columns,
            blocks,
        })
    }

    /// Checks that `machine` has the nodes to which a block's workloads are bound.
    fn nodes(&self, nodes: &Spanned<String>, machine: &Machine) -> Result<()> {
        match machine.cpus_of_nodes(nodes.get_ref()) {
            Ok(_) => Ok(()),
            Err(expected) => {
                let message = format!("these are not nodes of {}", machine.name);
                Err(self.bad(nodes.span(), &message, &expected))
            }
        }
    }

    fn row(
        &self,
        row: RowFile,
        loads: &BTreeMap<String, Spanned<String>>,
        machine: &Machine,
        (columns, stats, noise): (&[bool], &[Stat], Option<f64>),
        nodes: Option<&str>,
    ) -> Result<Row> {
        let mut workload = self.workload(&row.workload, loads)?;
        workload.check(machine)?;
        if let Some(nodes) = nodes {
            workload = workload::bind(workload, nodes);
        }
        let metrics = countable(workload.as_ref(), machine);
        let names: Vec<&str> = metrics.iter().map(|m| &*m.name).collect();
        let Some(metric) = names.iter().position(|name| name == row.metric.get_ref()) else {
            return Err(self.bad(
                row.metric.span(),
                &format!(
                    "`{}` does not measure this on {}",
                    workload.name(),
                    machine.name
                ),
                &format!("expected {}", names.join(", ")),
            ));
        };
        let (unit, better) = (metrics[metric].unit, metrics[metric].better);
        if unit != row.unit.get_ref() {
            return Err(self.bad(
                row.unit.span(),
                "the metric has another unit",
                &format!("expected {unit}, with the published numbers in this unit"),
            ));
        }
        let mut published = BTreeMap::new();
        for (stat, cells) in row.published {
            if !stats.contains(&stat) {
                let stats: Vec<&str> = stats.iter().map(|stat| stat.name()).collect();
                return Err(self.bad(
                    cells.span(),
                    &format!("these columns have no `{}`", stat.name()),
                    &format!("expected {}", stats.join(", ")),
                ));
            }
            published.insert(stat, self.cells(&cells, columns, noise)?);
        }
        Ok(Row {
            name: row.name,
            workload,
            metric,
            unit,
            better,
            published,
            changes: stats == [Stat::Change],
        })
    }

    /// The workload of a row. Its name may be that of a load of the file, also as one of several that run
    /// at once.
    fn workload(
        &self,
        name: &Spanned<String>,
        loads: &BTreeMap<String, Spanned<String>>,
    ) -> Result<Box<dyn Workload>> {
        let parts: Vec<&str> = name.get_ref().split('+').collect();
        if parts.iter().all(|part| !loads.contains_key(*part)) {
            return self.find(name, workload::load);
        }
        let one = |part: &str| match loads.get(part) {
            Some(text) => workload::parse(part, self.file, &self.with_lines(text), None),
            None => self.find(&Spanned::new(name.span(), part.to_owned()), workload::load),
        };
        if let [part] = parts[..] {
            return one(part);
        }
        let parts = parts.into_iter().map(one).collect::<Result<_>>()?;
        Ok(workload::together(name.get_ref(), parts))
    }

    /// `text`, a value of the file, with empty lines before it, so that messages about it have the
    /// file's line numbers.
    fn with_lines(&self, text: &Spanned<String>) -> String {
        let (before, own) = (&self.text[..text.span().start], &self.text[text.span()]);
        let quotes = own.trim_start_matches(['\'', '"']);
        let skipped = usize::from(quotes.starts_with(['\n', '\r']));
        "\n".repeat(before.matches('\n').count() + skipped) + text.get_ref()
    }

    fn average(&self, average: AverageFile, columns: &[bool]) -> Result<Average> {
        Ok(Average {
            published: self.cells(&average.published, columns, None)?,
            name: average.name,
        })
    }

    /// The number of each column, if the column is among the published ones (`columns`).
    fn cells(
        &self,
        cells: &Spanned<Vec<Spanned<toml::Value>>>,
        columns: &[bool],
        noise: Option<f64>,
    ) -> Result<Vec<Option<Published>>> {
        let published = columns.iter().filter(|&&published| published).count();
        if cells.get_ref().len() != published {
            return Err(self.bad(
                cells.span(),
                &format!("{} numbers for {published} columns", cells.get_ref().len()),
                "expected a number, or \"-\", for each column that is published",
            ));
        }
        let mut cells = cells.get_ref().iter();
        let cell = |published: &bool| match published.then(|| cells.next()).flatten() {
            Some(cell) => self.cell(cell, noise),
            None => Ok(None),
        };
        columns.iter().map(cell).collect()
    }

    fn cell(&self, cell: &Spanned<toml::Value>, noise: Option<f64>) -> Result<Option<Published>> {
        let exact = |value| Ok(Some(Published { value, margin: 0.0 }));
        match (cell.get_ref(), noise) {
            (toml::Value::Float(number), _) if number.is_finite() => exact(*number),
            (toml::Value::Integer(number), _) => exact(*number as f64),
            (toml::Value::String(dash), _) if dash == "-" => Ok(None),
            (toml::Value::String(about), Some(margin)) if about == "~" => {
                Ok(Some(Published { value: 0.0, margin }))
            }
            _ => Err(self.bad(
                cell.span(),
                "this is not a published number",
                "expected a number, \"-\" where none is published, or \"~\" for less than noise_pct",
            )),
        }
    }
}
