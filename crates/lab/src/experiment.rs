//! Experiments: published tables, and the runs that reproduce them (`experiments/*.toml`).

mod file;
#[cfg(test)]
mod tests;

use crate::elsewhere::{Described, Recipe, Start};
use crate::{Case, Peer, Scheduler};
use glob::Pattern;
use machine::Machine;
use machine::input::{self, BadInput};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use toml::Spanned;
use workload::{Better, Workload};

/// The experiments that come with Equipoise: name, file, text.
const BUILTIN: &[(&str, &str, &str)] = &[
    (
        "aim7-rates",
        "experiments/aim7-rates.toml",
        include_str!("../experiments/aim7-rates.toml"),
    ),
    (
        "idle-balance-limit",
        "experiments/idle-balance-limit.toml",
        include_str!("../experiments/idle-balance-limit.toml"),
    ),
    (
        "groups",
        "experiments/groups.toml",
        include_str!("../experiments/groups.toml"),
    ),
    (
        "hybrid",
        "experiments/hybrid.toml",
        include_str!("../experiments/hybrid.toml"),
    ),
    (
        "i-mmap-rwsem",
        "experiments/i-mmap-rwsem.toml",
        include_str!("../experiments/i-mmap-rwsem.toml"),
    ),
    (
        "many-caches",
        "experiments/many-caches.toml",
        include_str!("../experiments/many-caches.toml"),
    ),
    (
        "mixed-capacity",
        "experiments/mixed-capacity.toml",
        include_str!("../experiments/mixed-capacity.toml"),
    ),
    (
        "newidle-history",
        "experiments/newidle-history.toml",
        include_str!("../experiments/newidle-history.toml"),
    ),
    (
        "power-aware",
        "experiments/power-aware.toml",
        include_str!("../experiments/power-aware.toml"),
    ),
    (
        "quiet",
        "experiments/quiet.toml",
        include_str!("../experiments/quiet.toml"),
    ),
    (
        "small",
        "experiments/small.toml",
        include_str!("../experiments/small.toml"),
    ),
    (
        "utilization-tracking",
        "experiments/utilization-tracking.toml",
        include_str!("../experiments/utilization-tracking.toml"),
    ),
    (
        "warm-cores",
        "experiments/warm-cores.toml",
        include_str!("../experiments/warm-cores.toml"),
    ),
    (
        "wasted-cores",
        "experiments/wasted-cores.toml",
        include_str!("../experiments/wasted-cores.toml"),
    ),
    (
        "hperf-hmp",
        "experiments/hperf-hmp.toml",
        include_str!("../experiments/hperf-hmp.toml"),
    ),
];

/// A published table, and how to run it.
pub struct Experiment {
    /// The name that `reproduce` takes.
    pub name: String,
    /// A title of one line.
    pub title: String,
    /// The publication of the table; `None` if only blocks have publications, or if the table is only simulated.
    pub source: Option<Source>,
    /// The number of runs, unless the command line gives one.
    pub runs: Option<u32>,
    /// The compared schedulers, the first of which is the baseline, or the compared changes.
    pub columns: Vec<Column>,
    /// For each column that is left out, a sentence with the reason.
    pub left_out: Vec<String>,
    /// The parts of the table.
    pub blocks: Vec<Block>,
}

/// The publication of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The author.
    pub author: String,
    /// The date, as YYYY-MM-DD.
    pub date: String,
    /// The title of the mail or paper.
    pub title: String,
    /// The mailing list, or a URL.
    pub list: String,
}

/// A scheduler of the table, or the change from one scheduler to another.
pub struct Column {
    /// The column's name in the table.
    pub name: String,
    /// The scheduler of the column's runs.
    pub scheduler: Scheduler,
    /// The baseline of a change: the column has changes in per cent.
    pub against: Option<Scheduler>,
    /// The column's own machine, if it is not the block's.
    machine: Option<Placed>,
    /// The column's own parameters, which its loads have in addition to those of the rows, such as `i_mmap_rwsem=1`.
    parameters: Option<Spanned<String>>,
}

/// A machine, and its description for another process.
struct Placed {
    machine: Machine,
    described: Described,
}

impl Column {
    /// The schedulers of the column's runs: the baseline, and the changed one.
    pub fn schedulers(&self) -> impl Iterator<Item = &Scheduler> {
        self.against.iter().chain([&self.scheduler])
    }

    /// The machine of the column's cells in `block`.
    pub fn machine<'a>(&'a self, block: &'a Block) -> &'a Machine {
        &self.placed(block).machine
    }

    fn placed<'a>(&'a self, block: &'a Block) -> &'a Placed {
        self.machine.as_ref().unwrap_or(&block.placed)
    }
}

/// A part of the table: rows measured on one machine.
pub struct Block {
    /// The block's name in the table.
    pub name: String,
    /// The machine of the columns that have none of their own.
    placed: Placed,
    /// The NUMA nodes to which the workloads are bound, if any.
    nodes: Option<String>,
    /// The block's columns, as indices into [`Experiment::columns`].
    pub(crate) columns: Vec<usize>,
    /// The rows.
    pub rows: Vec<Row>,
    /// The row of averages at the end.
    pub average: Option<Average>,
    /// A remark on the results, for the reader.
    pub remark: Option<String>,
    /// The publication of the block's figures, if it is not that of the whole table.
    pub source: Option<Source>,
}

impl Experiment {
    /// Does the experiment have published figures?
    pub fn is_published(&self) -> bool {
        self.source.is_some() || self.blocks.iter().any(|block| block.source.is_some())
    }
}

/// Writes `AUTHOR, DATE, LIST: "TITLE"`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Source {
            author,
            date,
            title,
            list,
        } = self;
        write!(f, "{author}, {date}, {list}: \"{title}\"")
    }
}

impl Block {
    /// The machine of the columns that have none of their own.
    pub fn machine(&self) -> &Machine {
        &self.placed.machine
    }

    /// The source of the block's figures, and the remark.
    pub fn note(&self) -> Option<String> {
        let source = self.source.as_ref().map(|source| format!("{source}."));
        let parts: Vec<String> = source.into_iter().chain(self.remark.clone()).collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }

    /// Does any row have published numbers for this statistic, or has no row any published numbers?
    pub fn publishes(&self, stat: Stat) -> bool {
        let none = self.rows.iter().all(|row| row.published.is_empty());
        none || self
            .rows
            .iter()
            .any(|row| row.published.contains_key(&stat))
    }
}

/// A row that is the mean of the averages of a block's other rows, which share a unit.
pub struct Average {
    /// The row's name in the table.
    pub name: String,
    pub(crate) published: Vec<Option<Published>>,
}

/// A row of the table: one metric of one workload.
pub struct Row {
    /// The row's name in the table.
    pub name: String,
    /// The workload.
    pub workload: Box<dyn Workload>,
    /// The workload's description for another process.
    described: Described,
    /// The workload with the parameters of each column that has parameters of its own, by index into
    /// [`Experiment::columns`].
    variants: BTreeMap<usize, Box<dyn Workload>>,
    /// The foreign schedulers of the block's columns, if separate processes run this load under them.
    elsewhere: Vec<Scheduler>,
    /// The index into the samples of a [`Run`](crate::Run), which is an index into its [`metrics`](crate::metrics()) on
    /// the machine or, for new-idle balancing, an index beyond them.
    pub metric: usize,
    /// The metric's unit.
    pub unit: &'static str,
    /// The better direction.
    pub better: Better,
    pub(crate) published: BTreeMap<Stat, Vec<Option<Published>>>,
    /// The columns to whose numbers the load's parameters were fitted.
    pub(crate) fitted: Vec<String>,
    /// Whether the columns are changes.
    changes: bool,
}

/// A published number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The number.
    pub value: f64,
    /// The largest distance of the measured number from `value`: the published bound (such as 2 for "within 2 %"), or
    /// 0 if the number itself was published.
    pub margin: f64,
}

impl Row {
    /// The workload of the cell in the column with index `column` of [`Experiment::columns`].
    pub(crate) fn workload_of(&self, column: usize) -> &dyn Workload {
        self.variants
            .get(&column)
            .unwrap_or(&self.workload)
            .as_ref()
    }

    /// The statistics to show: changes if the columns are changes, and otherwise percentiles and
    /// changes only if the file names them.
    pub fn stats(&self) -> Vec<Stat> {
        if self.changes {
            return vec![Stat::Change];
        }
        Stat::ALL
            .into_iter()
            .filter(|stat| {
                let named = matches!(stat, Stat::P95 | Stat::P99 | Stat::P999 | Stat::Change);
                !named || self.published.contains_key(stat)
            })
            .collect()
    }
}

/// A statistic over the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stat {
    /// The mean over all samples of all runs.
    Avg,
    /// The smallest sample of any run.
    Min,
    /// The largest sample of any run.
    Max,
    /// The 95th percentile of all samples of all runs.
    P95,
    /// The 99th percentile of all samples of all runs.
    P99,
    /// The 99.9th percentile of all samples of all runs.
    #[serde(rename = "p99.9")]
    P999,
    /// The change of the mean in per cent, over runs paired by seed, against the scheduler that the column names or, if
    /// it names none, against the first column.
    Change,
}

impl Stat {
    /// All statistics.
    pub const ALL: [Stat; 7] = [
        Stat::Avg,
        Stat::Min,
        Stat::Max,
        Stat::P95,
        Stat::P99,
        Stat::P999,
        Stat::Change,
    ];

    /// The name in files and output: `avg`, `min`, `max`, `p95`, `p99`, `p99.9`, `change`.
    pub fn name(self) -> &'static str {
        match self {
            Stat::Avg => "avg",
            Stat::Min => "min",
            Stat::Max => "max",
            Stat::P95 => "p95",
            Stat::P99 => "p99",
            Stat::P999 => "p99.9",
            Stat::Change => "change",
        }
    }
}

type Result<T> = std::result::Result<T, Box<BadInput>>;

/// Loads the published scheduler of a column, or returns the reason why it cannot be run here.
pub type Load<'a> = &'a dyn Fn(Peer) -> Result<std::result::Result<Scheduler, String>>;

impl Experiment {
    /// The names of the experiments that come with Equipoise.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|&(name, ..)| name)
    }

    /// The experiment of this name that comes with Equipoise, or otherwise the experiment in the file of this name,
    /// which has a slash or ends in `.toml`, or is `-` for standard input. `load` loads the published schedulers of
    /// columns with rows that match `rows`.
    pub fn find(name_or_path: &str, rows: Option<&Pattern>, load: Load<'_>) -> Result<Experiment> {
        if let Some((_, file, text)) = BUILTIN.iter().find(|(name, ..)| *name == name_or_path) {
            return Experiment::parse(file, text, rows, load);
        }
        let path = Path::new(name_or_path);
        let is_path = name_or_path.contains('/') || name_or_path == input::STDIN;
        if is_path || name_or_path.ends_with(".toml") {
            let text = input::read(path, "experiment file")?;
            return Experiment::parse(&input::shown(path), &text, rows, load);
        }
        let names = input::one_of(name_or_path, Experiment::names());
        Err(Box::new(BadInput::whole(
            format!("no experiment is called `{name_or_path}`"),
            format!("{names}, or the path of an experiment file"),
        )))
    }

    /// The experiment that `text`, the content of `file`, describes; `rows` and `load` are as for `find`.
    pub fn parse(
        file: &str,
        text: &str,
        rows: Option<&Pattern>,
        load: Load<'_>,
    ) -> Result<Experiment> {
        file::read(file, text, rows, load)
    }

    /// The columns of `block`.
    pub fn columns_of<'a>(&'a self, block: &'a Block) -> impl Iterator<Item = &'a Column> {
        block.columns.iter().map(|&index| &self.columns[index])
    }

    /// Makes the foreign schedulers of the columns run in processes that `start` starts.
    pub fn run_elsewhere(&mut self, start: &Start) {
        for block in &mut self.blocks {
            let columns = block.columns.iter().map(|&index| &self.columns[index]);
            let foreign = columns.filter(|column| column.scheduler.is_foreign());
            let foreign: Vec<(Scheduler, Described)> = foreign
                .map(|column| {
                    let machine = column.placed(block).described.clone();
                    (column.scheduler.clone(), machine)
                })
                .collect();
            // Rows with the same load show metrics of the same runs.
            let mut loads = BTreeSet::new();
            for row in &mut block.rows {
                if !loads.insert(row.workload.name().to_owned()) {
                    continue;
                }
                let ready = |(scheduler, machine): &(Scheduler, Described)| {
                    let mut scheduler = scheduler.clone();
                    let recipe = Recipe {
                        machine: machine.clone(),
                        workload: row.described.clone(),
                        nodes: block.nodes.clone(),
                    };
                    scheduler.run_elsewhere(&recipe, start);
                    scheduler
                };
                row.elsewhere = foreign.iter().map(ready).collect();
            }
        }
    }

    /// The cases of a row: one for each scheduler of each column.
    pub(crate) fn cases_of<'a>(
        &'a self,
        block: &'a Block,
        row: &'a Row,
    ) -> impl Iterator<Item = Case<'a>> {
        let mut elsewhere = row.elsewhere.iter();
        block.columns.iter().flat_map(move |&index| {
            let column = &self.columns[index];
            let own = match column.scheduler.is_foreign() {
                true => elsewhere.next(),
                false => None,
            };
            let own = own.unwrap_or(&column.scheduler);
            let schedulers = column.against.iter().chain([own]);
            schedulers.map(move |scheduler| Case {
                machine: column.machine(block),
                workload: row.workload_of(index),
                scheduler,
            })
        })
    }

    /// Every row with its block, in the table's order.
    pub fn rows(&self) -> impl Iterator<Item = (&Block, &Row)> {
        self.blocks
            .iter()
            .flat_map(|block| block.rows.iter().map(move |row| (block, row)))
    }

    /// Shortens each workload that can be shortened to 1/`scale`; its rows then estimate the time of the whole
    /// workload. Returns whether there is such a workload.
    pub fn scale(&mut self, scale: u32) -> Result<bool> {
        let mut any = false;
        for block in &mut self.blocks {
            for row in &mut block.rows {
                let name = row.workload.name();
                let base = name.split(':').next().unwrap_or(name);
                let parameters = models::parameters(base);
                if parameters.iter().any(|param| param.name == "scale") {
                    let nodes = block.nodes.as_deref();
                    let scaled = |workload: &dyn Workload| {
                        Described::Named(with_parameters(
                            workload.name(),
                            &format!("scale={scale}"),
                        ))
                    };
                    row.described = scaled(row.workload.as_ref());
                    row.workload = row.described.bound(nodes)?;
                    for variant in row.variants.values_mut() {
                        *variant = scaled(variant.as_ref()).bound(nodes)?;
                    }
                    any = true;
                }
            }
        }
        Ok(any)
    }

    /// Removes the rows for whose name `keep` is false, and blocks without rows.
    pub fn retain_rows(&mut self, keep: impl Fn(&str) -> bool) {
        for block in &mut self.blocks {
            let all = block.rows.len();
            block.rows.retain(|row| keep(&row.name));
            // The average is over all rows, so a block that lacks some of its rows has no average.
            block.average = block.average.take().filter(|_| block.rows.len() == all);
        }
        self.blocks.retain(|block| !block.rows.is_empty());
    }
}

/// The name of the workload that is `name` with more `parameters`.
fn with_parameters(name: &str, parameters: &str) -> String {
    let separator = if name.contains(':') { ',' } else { ':' };
    format!("{name}{separator}{parameters}")
}
