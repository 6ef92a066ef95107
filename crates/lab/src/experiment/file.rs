//! The format of an experiment's file.
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
//! list = "linux-kernel"               # the place of publication: a list, or a URL
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
//! # against = "cfs"                   # in all columns or none: rows have changes in per cent (published.change)
//! # machine = "tc2"                   # if columns differ in their machine
//! # parameters = "i_mmap_rwsem=1"     # if columns differ in parameters of the loads
//! # scheduler = "scx_lavd"            # instead of `policy`: a published scheduler (peers/peers.toml)
//! # blocks = ["SMP"]                  # if only these blocks have the column
//!
//! [[block]]                           # a part of the table, on one machine
//! name = "SMP"
//! machine = "tc2-smp"                 # or a machine of the file
//! cpunodebind = "0"                   # optional: only on these NUMA nodes
//! remark = "..."                      # optional: a remark on the results, printed with them
//! source = { ... }                    # optional: if its figures were published elsewhere
//!
//! [[block.row]]
//! name = "sysbench_5t"
//! workload = "sysbench-cpu:threads=5" # or a load of the file; several at once with "+"
//! metric = "time"
//! unit = "s"
//! published.avg = [41.16, 41.15, "-"] # one for each column of the block; "-" is not published
//!                                     # also min, max, p95, p99, "p99.9", change
//! # fitted = ["cfs"]                  # the columns whose numbers were used to choose the load's parameters
//!
//! [block.average]                     # a last row, the mean of the block's averages (optional)
//! name = "avg"
//! published = [41.16, 41.15, "-"]     # as above
//! ```

use super::{
    Average, Block, Column, Experiment, Load, Placed, Published, Result, Row, Source, Stat,
    with_parameters,
};
use crate::elsewhere::Described;
use crate::metrics::countable;
use crate::{Peer, Scheduler};
use glob::Pattern;
use machine::Machine;
use machine::input::{self, BadInput};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use workload::Workload;

pub(super) fn read(
    file: &str,
    text: &str,
    rows: Option<&Pattern>,
    load: Load<'_>,
) -> Result<Experiment> {
    let reader = Reader {
        file,
        text,
        rows,
        load,
    };
    reader.experiment(input::from_toml(file, text)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    name: String,
    title: String,
    source: Option<Source>,
    runs: Option<u32>,
    /// The size of a change, in %, below which its cell is published as `"~"`.
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
    name: Spanned<String>,
    policy: Option<Spanned<String>>,
    /// A published scheduler, instead of a policy.
    scheduler: Option<Spanned<String>>,
    /// The blocks that have the column; all blocks if the list is empty.
    #[serde(default)]
    blocks: Vec<Spanned<String>>,
    /// Does the published table have this column?
    #[serde(default = "yes")]
    published: bool,
    against: Option<Spanned<String>>,
    machine: Option<Spanned<String>>,
    parameters: Option<Spanned<String>>,
}

impl ColumnFile {
    fn is_of(&self, block: &BlockFile) -> bool {
        let mut blocks = self.blocks.iter();
        self.blocks.is_empty() || blocks.any(|name| *name.get_ref() == block.name)
    }
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
    #[serde(default)]
    fitted: Vec<Spanned<String>>,
}

/// The file being read, for messages about it.
struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    /// The rows that will be run; `None` means all.
    rows: Option<&'a Pattern>,
    load: Load<'a>,
}

/// A column of a block, for the rows' cells.
#[derive(Clone, Copy)]
struct Shown {
    /// Does the published table have numbers for this column?
    published: bool,
    /// The column's index in [`Experiment::columns`]; `None` if the column is left out.
    index: Option<usize>,
}

/// A column of the file, by its treatment in this run.
enum Read {
    Column(Box<Column>),
    /// The column is left out. The sentence says why its published scheduler cannot be run here.
    LeftOut(String),
    /// None of the column's rows will be run, so its published scheduler is not loaded.
    WithoutRows,
}

impl Reader<'_> {
    fn bad(&self, at: Range<usize>, message: &str, expected: &str) -> Box<BadInput> {
        Box::new(BadInput::at(self.file, self.text, at, message, expected))
    }

    /// Looks up `name` with `find`. An error is reported at the place of `name` in the file.
    fn find<T>(&self, name: &Spanned<String>, find: impl Fn(&str) -> Result<T>) -> Result<T> {
        find(name.get_ref())
            .map_err(|error| self.bad(name.span(), error.message(), error.expected()))
    }

    fn experiment(&self, file: ExperimentFile) -> Result<Experiment> {
        let changes = file.column.iter().any(|column| column.against.is_some());
        let stats: &[Stat] = if changes { &[Stat::Change] } else { &Stat::ALL };
        let mut columns = Vec::new();
        let mut left_out = Vec::new();
        let mut shown = Vec::new();
        for column in &file.column {
            self.blocks_exist(column, &file.block)?;
            let mut index = None;
            match self.column(column, changes, &file.block)? {
                Read::Column(column) => {
                    index = Some(columns.len());
                    columns.push(*column);
                }
                Read::LeftOut(sentence) => left_out.push(sentence),
                Read::WithoutRows => {}
            }
            shown.push(Shown {
                published: column.published,
                index,
            });
        }
        let block = |block: &BlockFile| -> Result<Block> {
            let shown = file.column.iter().zip(&shown);
            let shown = shown.filter(|(column, _)| column.is_of(block));
            let names = shown
                .clone()
                .map(|(column, _)| column.name.get_ref().as_str());
            let names: Vec<&str> = names.collect();
            for fitted in block.row.iter().flat_map(|row| &row.fitted) {
                if !names.contains(&fitted.get_ref().as_str()) {
                    let expected = format!("expected {}", names.join(", "));
                    return Err(self.bad(fitted.span(), "the block has no such column", &expected));
                }
            }
            let shown: Vec<Shown> = shown.map(|(_, shown)| *shown).collect();
            self.block(block, &file, &columns, &shown, stats)
        };
        let blocks = file.block.iter().map(block).collect::<Result<_>>()?;
        Ok(Experiment {
            name: file.name,
            title: file.title,
            source: file.source,
            runs: file.runs,
            columns,
            left_out,
            blocks,
        })
    }

    /// Checks that the file has the blocks to which a column is limited.
    fn blocks_exist(&self, column: &ColumnFile, blocks: &[BlockFile]) -> Result<()> {
        let names = || blocks.iter().map(|block| block.name.as_str());
        match column
            .blocks
            .iter()
            .find(|name| names().all(|block| block != name.get_ref()))
        {
            Some(name) => Err(self.bad(
                name.span(),
                "no block has this name",
                &input::one_of(name.get_ref(), names()),
            )),
            None => Ok(()),
        }
    }

    fn column(&self, column: &ColumnFile, changes: bool, blocks: &[BlockFile]) -> Result<Read> {
        let ((Some(named), None) | (None, Some(named))) = (&column.policy, &column.scheduler)
        else {
            return Err(self.bad(
                column.name.span(),
                "this column has no scheduler, or two schedulers",
                "expected either `policy` or `scheduler`",
            ));
        };
        if changes && column.against.is_none() {
            return Err(self.bad(
                named.span(),
                "this column is not a change, but another column is",
                "expected `against` in all columns or in none",
            ));
        }
        let scheduler = match &column.scheduler {
            Some(name) => {
                let peer = self.find(name, Peer::find)?;
                let mut blocks = blocks.iter();
                if !blocks.any(|block| column.is_of(block) && self.runs_rows_of(block)) {
                    return Ok(Read::WithoutRows);
                }
                self.find(name, |_| (self.load)(peer))?
            }
            None => Ok(self.find(named, Scheduler::policy)?),
        };
        let against = column.against.as_ref();
        let against = against.map(|name| self.find(name, Scheduler::policy));
        let machine = column.machine.as_ref();
        let machine = machine.map(|name| self.placed(name));
        let (against, machine) = (against.transpose()?, machine.transpose()?);
        let name = column.name.get_ref();
        Ok(match scheduler {
            Ok(scheduler) => Read::Column(Box::new(Column {
                name: name.clone(),
                scheduler,
                against,
                machine,
                parameters: column.parameters.clone(),
            })),
            Err(reason) => Read::LeftOut(format!("Column `{name}` is left out: {reason}.")),
        })
    }

    fn runs_rows_of(&self, block: &BlockFile) -> bool {
        let mut rows = block.row.iter();
        self.rows
            .is_none_or(|pattern| rows.any(|row| pattern.matches(&row.name)))
    }

    fn placed(&self, name: &Spanned<String>) -> Result<Placed> {
        Ok(Placed {
            machine: self.find(name, Machine::find)?,
            described: Described::Named(name.get_ref().clone()),
        })
    }

    fn block(
        &self,
        block: &BlockFile,
        file: &ExperimentFile,
        columns: &[Column],
        shown: &[Shown],
        stats: &[Stat],
    ) -> Result<Block> {
        let name = &block.machine;
        let placed = match file.machine.get(name.get_ref()) {
            Some(text) => {
                let text = self.with_lines(text);
                Placed {
                    machine: Machine::parse(self.file, &text)?,
                    described: Described::Text {
                        name: name.get_ref().clone(),
                        file: self.file.to_owned(),
                        text,
                        params: None,
                    },
                }
            }
            None => self.placed(name)?,
        };
        if let Some(nodes) = &block.cpunodebind {
            let others = columns.iter().filter_map(|column| column.machine.as_ref());
            for placed in others.chain([&placed]) {
                self.nodes(nodes, &placed.machine)?;
            }
        }
        let nodes = block.cpunodebind.as_ref();
        let nodes = nodes.map(|nodes| nodes.get_ref().clone());
        let table = (shown, stats, file.noise_pct);
        let of_row = |row: &RowFile| -> Result<Row> {
            let mut read = self.row(row, &file.load, &placed.machine, table, nodes.as_deref())?;
            let indices = shown.iter().filter_map(|shown| shown.index);
            let own = indices.map(|index| (index, &columns[index]));
            read.variants = self.variants(&read, own, &placed.machine, nodes.as_deref())?;
            Ok(read)
        };
        let rows = block.row.iter().map(of_row);
        let average = block.average.as_ref();
        let average = average.map(|average| self.average(average, shown));
        Ok(Block {
            name: block.name.clone(),
            rows: rows.collect::<Result<_>>()?,
            placed,
            nodes,
            columns: shown.iter().filter_map(|shown| shown.index).collect(),
            average: average.transpose()?,
            remark: block.remark.clone(),
            source: block.source.clone(),
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
        row: &RowFile,
        loads: &BTreeMap<String, Spanned<String>>,
        machine: &Machine,
        (columns, stats, noise): (&[Shown], &[Stat], Option<f64>),
        nodes: Option<&str>,
    ) -> Result<Row> {
        let described = self.described(&row.workload, loads)?;
        let workload = described.bound(nodes)?;
        workload.check(machine)?;
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
        let (unit, better) = (metrics[metric].unit.name(), metrics[metric].better);
        if unit != row.unit.get_ref() {
            return Err(self.bad(
                row.unit.span(),
                "the metric has another unit",
                &format!("expected {unit}, with the published numbers in this unit"),
            ));
        }
        let mut published = BTreeMap::new();
        for (&stat, cells) in &row.published {
            if !stats.contains(&stat) {
                let stats: Vec<&str> = stats.iter().map(|stat| stat.name()).collect();
                return Err(self.bad(
                    cells.span(),
                    &format!("these columns have no `{}`", stat.name()),
                    &format!("expected {}", stats.join(", ")),
                ));
            }
            published.insert(stat, self.cells(cells, columns, noise)?);
        }
        let fitted = row.fitted.iter().map(|column| column.get_ref().clone());
        Ok(Row {
            fitted: fitted.collect(),
            name: row.name.clone(),
            workload,
            described,
            variants: BTreeMap::new(),
            elsewhere: Vec::new(),
            metric,
            unit,
            better,
            published,
            changes: stats == [Stat::Change],
        })
    }

    /// The workload of `row` in each of `columns` that has parameters of its own.
    fn variants<'a>(
        &self,
        row: &Row,
        columns: impl Iterator<Item = (usize, &'a Column)>,
        machine: &Machine,
        nodes: Option<&str>,
    ) -> Result<BTreeMap<usize, Box<dyn Workload>>> {
        let own = columns.filter_map(|(index, column)| Some((index, column.parameters.as_ref()?)));
        let variant = |(index, parameters): (usize, &Spanned<String>)| {
            let Described::Named(name) = &row.described else {
                return Err(self.bad(
                    parameters.span(),
                    &format!("`{}` takes no parameters", row.workload.name()),
                    "expected rows with loads that come with Equipoise",
                ));
            };
            let name = with_parameters(name, parameters.get_ref());
            let name = Spanned::new(parameters.span(), name);
            let workload =
                self.find(&name, |name| Described::Named(name.to_owned()).bound(nodes))?;
            workload.check(machine)?;
            Ok((index, workload))
        };
        own.map(variant).collect()
    }

    /// The workload of a row. The name may be that of a load in the file, or list such names among several loads that
    /// run at once.
    fn described(
        &self,
        name: &Spanned<String>,
        loads: &BTreeMap<String, Spanned<String>>,
    ) -> Result<Described> {
        // An unknown name is reported at its place in the file.
        let named = |part: &str| -> Result<Described> {
            self.find(&Spanned::new(name.span(), part.to_owned()), models::load)?;
            Ok(Described::Named(part.to_owned()))
        };
        let parts = models::parts(name.get_ref());
        if parts.iter().all(|part| !loads.contains_key(*part)) {
            return named(name.get_ref());
        }
        let one = |part: &str| match loads.get(part) {
            Some(text) => Ok(Described::Text {
                name: part.to_owned(),
                file: self.file.to_owned(),
                text: self.with_lines(text),
                params: None,
            }),
            None => named(part),
        };
        if let [part] = parts[..] {
            return one(part);
        }
        Ok(Described::Together {
            name: name.get_ref().clone(),
            parts: parts.into_iter().map(one).collect::<Result<_>>()?,
        })
    }

    /// `text`, a value of the file, with empty lines before it, so that messages about it have the
    /// file's line numbers.
    fn with_lines(&self, text: &Spanned<String>) -> String {
        let (before, own) = (&self.text[..text.span().start], &self.text[text.span()]);
        let quotes = own.trim_start_matches(['\'', '"']);
        let skipped = usize::from(quotes.starts_with(['\n', '\r']));
        "\n".repeat(before.matches('\n').count() + skipped) + text.get_ref()
    }

    fn average(&self, average: &AverageFile, columns: &[Shown]) -> Result<Average> {
        Ok(Average {
            published: self.cells(&average.published, columns, None)?,
            name: average.name.clone(),
        })
    }

    /// The number of each column that is not left out, if the column is among the published columns.
    fn cells(
        &self,
        cells: &Spanned<Vec<Spanned<toml::Value>>>,
        columns: &[Shown],
        noise: Option<f64>,
    ) -> Result<Vec<Option<Published>>> {
        let published = columns.iter().filter(|column| column.published).count();
        if cells.get_ref().len() != published {
            return Err(self.bad(
                cells.span(),
                &format!("{} numbers for {published} columns", cells.get_ref().len()),
                "expected a number, or \"-\", for each column that is published",
            ));
        }
        let mut cells = cells.get_ref().iter();
        let mut numbers = Vec::new();
        for column in columns {
            let cell = column.published.then(|| cells.next()).flatten();
            let number = cell.map(|cell| self.cell(cell, noise)).transpose()?;
            if column.index.is_some() {
                numbers.push(number.flatten());
            }
        }
        Ok(numbers)
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
