//! A published table next to the simulated one.

use crate::parameters::is_fitted;
use crate::runs::complete;
use crate::stats::mean;
use crate::{
    Average, Block, Case, Change, Experiment, Failure, Measured, Pooled, Row, Runs, Stat, Watch,
    limit_s, measure, paired_change,
};
use workload::Better;

/// The percentage below which a difference between schedulers counts as none ([`sign`]).
pub const NO_DIFFERENCE_PCT: f64 = 1.0;

/// An experiment with its simulated results.
pub struct Reproduction {
    /// The table.
    pub experiment: Experiment,
    /// The number of runs of each cell, and their seed.
    pub runs: Runs,
    /// The number of requested runs, which is larger than the actual number if the experiment was stopped.
    pub asked: u32,
    /// The rows, in the order of [`Experiment::rows`].
    pub rows: Vec<ReproducedRow>,
}

/// The simulated results of a row.
pub struct ReproducedRow {
    /// The simulated samples of each column; `None` if no run measured anything.
    pub simulated: Vec<Option<Pooled>>,
    /// The change of each column against its reference or, without a reference, against the first column; `None` if
    /// there is nothing to compare.
    pub changes: Vec<Option<Change>>,
    /// The best possible time in s, if the row is CPU-bound.
    pub limit: Option<f64>,
}

/// A cell of the table.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    /// The part of the table.
    pub block: &'a str,
    /// The row.
    pub row: &'a str,
    /// The column.
    pub column: &'a str,
    /// The machine that was simulated.
    pub machine: &'a str,
    /// The workload that was simulated.
    pub workload: &'a str,
    /// The scheduler that was simulated.
    pub policy: &'a str,
    /// The statistic.
    pub stat: Stat,
    /// The metric's unit.
    pub unit: &'static str,
    /// The better direction of the metric.
    pub better: Better,
    /// The number in the published table; `None` if the table has none in this cell.
    pub published: Option<f64>,
    /// Was a parameter of a machine or load fitted to this cell? Such a cell is not a prediction.
    pub fitted: bool,
    /// If the table gives a bound instead of a number, the largest distance from `published`; otherwise 0.
    pub margin: f64,
    /// The number from the simulation; `None` if no run measured anything.
    pub simulated: Option<f64>,
    /// The best possible value of the row's metric, if the row is CPU-bound.
    pub limit: Option<f64>,
}

impl Cell<'_> {
    /// The error of the simulation, in per cent of the published number; negative if the simulated
    /// number is smaller. `None` for a change, which is a percentage itself.
    pub fn error_pct(&self) -> Option<f64> {
        if self.stat == Stat::Change {
            return None;
        }
        Some((self.simulated? / self.published? - 1.0) * 100.0).filter(|error| error.is_finite())
    }

    /// The error of a simulated change against the published one, or against its margin, in points.
    pub fn error_points(&self) -> Option<f64> {
        if self.stat != Stat::Change {
            return None;
        }
        let off = self.simulated? - self.published?;
        Some(off.signum() * (off.abs() - self.margin).max(0.0))
    }
}

/// The quality of a reproduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The mean of |error| over the published cells to which nothing was fitted, in per cent; `None` if there are no
    /// such cells.
    pub mean_abs_error_pct: Option<f64>,
    /// The mean of |error| over all published cells, in per cent.
    pub mean_abs_error_pct_of_all: Option<f64>,
    /// The percentage of cells for which the [`sign`] of the change from the first column is the same in the table and
    /// in the simulation. The percentage covers the published cells outside the first column in rows whose first column
    /// is published, except cells to which a parameter was fitted. `None` if there are no such cells.
    ///
    /// Each published change counts by its own sign, except changes within a margin.
    pub sign_agreement_pct: Option<f64>,
    /// The mean of |[`Cell::error_points`]| over all published changes; `None` if there are no published changes.
    pub mean_abs_error_points: Option<f64>,
    /// The largest |[`Cell::error_points`]| over all published changes.
    pub max_abs_error_points: Option<f64>,
}

/// The direction of the change from `baseline` to `other`: -1, 0 or 1, where 0 is a change of less
/// than [`NO_DIFFERENCE_PCT`].
pub fn sign(baseline: f64, other: f64) -> i8 {
    let threshold = baseline.abs() * NO_DIFFERENCE_PCT / 100.0;
    match other - baseline {
        change if change > threshold => 1,
        change if change < -threshold => -1,
        _ => 0,
    }
}

impl Reproduction {
    /// Runs every cell of `experiment`, whether published or not. If the experiment is stopped,
    /// only the complete runs count.
    pub fn run(
        experiment: Experiment,
        runs: Runs,
        watch: Watch<'_>,
    ) -> Result<Reproduction, Box<Failure>> {
        let measured = measure(&experiment.cases(), &runs, watch)?;
        let mut rest = &measured[..];
        let loads: Vec<_> = experiment
            .loads()
            .into_iter()
            .map(|load| {
                let width = experiment.cases_of(load.0, load.1).count();
                let own = rest.split_off(..width).unwrap_or_default();
                (load, own)
            })
            .collect();
        let of_row = |(block, row): (&Block, &Row)| {
            let (_, measured) = loads
                .iter()
                .find(|(load, _)| same_load(*load, (block, row)))?;
            Some(reproduced(&experiment, block, row, measured))
        };
        let rows = experiment.rows().filter_map(of_row).collect();
        Ok(Reproduction {
            experiment,
            asked: runs.count,
            runs: Runs {
                count: complete(&measured),
                ..runs
            },
            rows,
        })
    }

    /// The reproduction of `experiment` before any run.
    #[cfg(test)]
    pub(crate) fn without_runs(experiment: Experiment) -> Reproduction {
        let row = |(block, _): (&Block, &Row)| {
            let columns = experiment.columns_of(block).count();
            ReproducedRow {
                simulated: (0..columns).map(|_| None).collect(),
                changes: vec![None; columns],
                limit: None,
            }
        };
        Reproduction {
            rows: experiment.rows().map(row).collect(),
            runs: Runs {
                count: 0,
                seed: 1,
                jobs: 1,
                noise: false,
            },
            asked: 0,
            experiment,
        }
    }

    /// The cells, row by row, and within a row, for each statistic, column by column. A block's row of averages, which
    /// has one statistic, is last.
    pub fn cells(&self) -> Vec<Cell<'_>> {
        let mut cells = Vec::new();
        let mut reproduced = self.rows.iter();
        for block in &self.experiment.blocks {
            let rows: Vec<_> = block.rows.iter().zip(reproduced.by_ref()).collect();
            for &(row, reproduced) in &rows {
                self.row_cells(block, row, reproduced, &mut cells);
            }
            if let Some(average) = &block.average {
                self.average_cells(block, average, &rows, &mut cells);
            }
        }
        cells
    }

    fn row_cells<'a>(
        &'a self,
        block: &'a Block,
        row: &'a Row,
        reproduced: &ReproducedRow,
        cells: &mut Vec<Cell<'a>>,
    ) {
        for stat in row.stats() {
            for (index, &number) in block.columns.iter().enumerate() {
                let column = &self.experiment.columns[number];
                let published = row.published.get(&stat).and_then(|cells| cells[index]);
                let simulated = reproduced.simulated[index].as_ref();
                cells.push(Cell {
                    block: &block.name,
                    row: &row.name,
                    column: &column.name,
                    machine: &column.machine(block).name,
                    workload: row.workload_of(number).name(),
                    policy: column.scheduler.name(),
                    stat,
                    unit: match stat {
                        Stat::Change => "%",
                        _ => row.unit,
                    },
                    better: row.better,
                    published: published.map(|published| published.value),
                    fitted: published.is_some()
                        && (row.fitted.contains(&column.name)
                            || is_fitted(
                                &self.experiment.name,
                                &block.name,
                                &row.name,
                                &column.name,
                                stat,
                            )),
                    margin: published.map_or(0.0, |published| published.margin),
                    simulated: match stat {
                        Stat::Avg => simulated.map(|pooled| pooled.mean),
                        Stat::Min => simulated.map(|pooled| pooled.min),
                        Stat::Max => simulated.map(|pooled| pooled.max),
                        Stat::P95 => simulated.map(|pooled| pooled.p95),
                        Stat::P99 => simulated.map(|pooled| pooled.p99),
                        Stat::P999 => simulated.map(|pooled| pooled.p999),
                        Stat::Change => reproduced.changes[index].map(|change| change.mean_pct),
                    },
                    limit: reproduced.limit,
                });
            }
        }
    }

    fn average_cells<'a>(
        &'a self,
        block: &'a Block,
        average: &'a Average,
        rows: &[(&'a Row, &ReproducedRow)],
        cells: &mut Vec<Cell<'a>>,
    ) {
        let mean = |values: Option<Vec<f64>>| mean(&values?);
        for (index, column) in self.experiment.columns_of(block).enumerate() {
            let simulated = |(_, row): &(_, &ReproducedRow)| {
                row.simulated[index].as_ref().map(|pooled| pooled.mean)
            };
            cells.push(Cell {
                block: &block.name,
                row: &average.name,
                column: &column.name,
                machine: &block.machine().name,
                workload: "",
                policy: column.scheduler.name(),
                stat: Stat::Avg,
                unit: rows.first().map_or("", |(row, _)| row.unit),
                better: rows.first().map_or(Better::Lower, |(row, _)| row.better),
                published: average.published[index].map(|published| published.value),
                fitted: false,
                margin: average.published[index].map_or(0.0, |published| published.margin),
                simulated: mean(rows.iter().map(simulated).collect()),
                limit: mean(rows.iter().map(|(_, row)| row.limit).collect()),
            });
        }
    }

    /// The quality of the reproduction.
    pub fn summary(&self) -> Summary {
        summary(&self.cells())
    }
}

impl Experiment {
    /// The first row of each load, because several rows can show metrics of the same runs.
    pub fn loads(&self) -> Vec<(&Block, &Row)> {
        let mut loads: Vec<(&Block, &Row)> = Vec::new();
        for row in self.rows() {
            if !loads.iter().any(|&load| same_load(load, row)) {
                loads.push(row);
            }
        }
        loads
    }

    /// The cases to run: for each of the [`Experiment::loads`], one for each scheduler of each column.
    pub fn cases(&self) -> Vec<Case<'_>> {
        self.loads()
            .into_iter()
            .flat_map(|(block, row)| self.cases_of(block, row))
            .collect()
    }
}

/// Do these rows belong to the same block and measure the same workload?
fn same_load(a: (&Block, &Row), b: (&Block, &Row)) -> bool {
    std::ptr::eq(a.0, b.0) && a.1.workload.name() == b.1.workload.name()
}

fn reproduced(
    experiment: &Experiment,
    block: &Block,
    row: &Row,
    measured: &[Measured],
) -> ReproducedRow {
    let cpu_bound = row.workload.cpu_bound();
    let (mut simulated, mut changes) = (Vec::new(), Vec::new());
    let mut measured = measured.iter();
    let mut first = None;
    for column in experiment.columns_of(block) {
        let mut next = |_| measured.next();
        let against = match &column.against {
            Some(against) => next(against),
            None => first,
        };
        let Some(measured) = next(&column.scheduler) else {
            continue;
        };
        first = first.or(Some(measured));
        simulated.push(Pooled::new(measured.samples(row.metric)));
        changes.push(against.and_then(|against| {
            paired_change(&against.means(row.metric)?, &measured.means(row.metric)?)
        }));
    }
    ReproducedRow {
        simulated,
        changes,
        limit: cpu_bound
            .filter(|bound| bound.metric == row.metric)
            .map(|bound| limit_s(&bound, block.machine())),
    }
}

/// The groups of cells that differ only in their column.
pub fn groups<'a, 'b>(cells: &'a [Cell<'b>]) -> impl Iterator<Item = &'a [Cell<'b>]> {
    let same = |a: &Cell<'_>, b: &Cell<'_>| (a.block, a.row, a.stat) == (b.block, b.row, b.stat);
    cells.chunk_by(same)
}

fn summary(cells: &[Cell<'_>]) -> Summary {
    let errors = |of_all: bool| {
        let own = cells.iter().filter(|cell| of_all || !cell.fitted);
        let errors: Vec<f64> = own
            .filter_map(|cell| cell.error_pct().map(f64::abs))
            .collect();
        mean(&errors)
    };
    let agreement = |baseline: &Cell<'_>, cell: &Cell<'_>| {
        let (published, simulated) = match cell.stat {
            _ if cell.fitted => return None,
            Stat::Change if cell.margin > 0.0 => return None,
            Stat::Change => (
                sign(100.0, 100.0 + cell.published?),
                sign(100.0, 100.0 + cell.simulated?),
            ),
            _ if std::ptr::eq(baseline, cell) => return None,
            _ => (
                sign(baseline.published?, cell.published?),
                sign(baseline.simulated?, cell.simulated?),
            ),
        };
        Some(if published == simulated { 100.0 } else { 0.0 })
    };
    let agreements: Vec<f64> = groups(cells)
        .flat_map(|group| group.iter().filter_map(|cell| agreement(&group[0], cell)))
        .collect();
    let off: Vec<f64> = cells
        .iter()
        .filter_map(|cell| cell.error_points().map(f64::abs))
        .collect();
    Summary {
        mean_abs_error_pct: errors(false),
        mean_abs_error_pct_of_all: errors(true),
        sign_agreement_pct: mean(&agreements),
        mean_abs_error_points: mean(&off),
        max_abs_error_points: off.iter().copied().reduce(f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(published: Option<f64>, simulated: f64) -> Cell<'static> {
        Cell {
            block: "",
            row: "",
            column: "",
            machine: "",
            workload: "",
            policy: "",
            stat: Stat::Avg,
            unit: "s",
            better: Better::Lower,
            published,
            fitted: false,
            margin: 0.0,
            simulated: Some(simulated),
            limit: None,
        }
    }

    #[test]
    fn errors_are_over_published_cells_alone() {
        let cells = [
            cell(Some(10.0), 11.0),
            cell(None, 7.0),
            cell(Some(10.0), 8.0),
        ];
        let summary = summary(&cells);
        assert!((summary.mean_abs_error_pct.unwrap() - 15.0).abs() < 1e-9);
        // 10 -> 10 is published as no change; 11 -> 8 is a change.
        assert_eq!(summary.sign_agreement_pct, Some(0.0));
    }

    #[test]
    fn a_cell_to_which_a_parameter_was_fitted_is_no_prediction() {
        let fitted = |simulated| Cell {
            fitted: true,
            ..cell(Some(10.0), simulated)
        };
        let cells = [
            fitted(10.0),
            cell(Some(10.0), 12.0),
            fitted(11.0),
            cell(Some(9.0), 8.1),
        ];
        let of = summary(&cells);
        assert!((of.mean_abs_error_pct.unwrap() - 15.0).abs() < 1e-9);
        assert!((of.mean_abs_error_pct_of_all.unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(of.sign_agreement_pct, Some(50.0));
        assert_eq!(summary(&cells[..1]).mean_abs_error_pct, None);
    }

    #[test]
    fn changes_are_off_by_points_and_what_is_within_noise_by_what_is_beyond_it() {
        let change = |published, margin, simulated| Cell {
            stat: Stat::Change,
            unit: "%",
            better: Better::Lower,
            margin,
            ..cell(Some(published), simulated)
        };
        let cells = [
            change(10.0, 0.0, 4.0),
            change(-4.0, 0.0, 1.0),
            change(0.0, 2.0, -5.0),
            change(0.0, 2.0, 1.5),
        ];
        let off: Vec<f64> = cells.iter().filter_map(Cell::error_points).collect();
        assert_eq!(off, [-6.0, 5.0, -3.0, 0.0]);
        let summary = summary(&cells);
        assert_eq!(summary.mean_abs_error_pct, None);
        assert_eq!(summary.mean_abs_error_points, Some(3.5));
        assert_eq!(summary.max_abs_error_points, Some(6.0));
        assert_eq!(summary.sign_agreement_pct, Some(50.0));
    }

    #[test]
    fn signs_agree_when_both_go_the_same_way_or_nowhere() {
        let group = |published: f64, simulated: f64| {
            [cell(Some(10.0), 10.0), cell(Some(published), simulated)]
        };
        for (published, simulated, agreement) in [
            (8.0, 5.0, 100.0),
            (8.0, 12.0, 0.0),
            (10.05, 9.95, 100.0),
            (10.05, 9.0, 0.0),
        ] {
            let summary = summary(&group(published, simulated));
            assert_eq!(
                summary.sign_agreement_pct,
                Some(agreement),
                "{published} {simulated}"
            );
        }
    }

    #[test]
    fn a_change_agrees_by_its_own_sign() {
        let change = |published, simulated| Cell {
            stat: Stat::Change,
            ..cell(published, simulated)
        };
        for (published, simulated, agreement) in
            [(-40.0, -20.0, 100.0), (-40.0, 2.0, 0.0), (0.5, -0.5, 100.0)]
        {
            let group = [change(None, f64::NAN), change(Some(published), simulated)];
            let summary = summary(&group);
            assert_eq!(summary.sign_agreement_pct, Some(agreement));
            assert_eq!(summary.mean_abs_error_pct, None);
        }
    }

    #[test]
    fn without_a_published_cell_there_is_no_summary() {
        let summary = summary(&[cell(None, 1.0), cell(None, 2.0)]);
        assert_eq!(
            summary,
            Summary {
                mean_abs_error_pct: None,
                mean_abs_error_pct_of_all: None,
                sign_agreement_pct: None,
                mean_abs_error_points: None,
                max_abs_error_points: None,
            }
        );
    }

    #[test]
    fn published_numbers_have_no_influence_on_simulated_ones() {
        let text = include_str!("../experiments/mixed-capacity.toml");
        let without = |_| Ok(Err("no published scheduler here".to_owned()));
        let run = |text: &str| {
            let mut experiment = Experiment::parse("e.toml", text, None, &without).unwrap();
            experiment.retain_rows(|row| row == "sysbench_5t");
            let runs = Runs {
                count: 2,
                seed: 7,
                jobs: 1,
                noise: false,
            };
            Reproduction::run(experiment, runs, Watch::none()).unwrap()
        };
        let numbers = "published.avg = [27.22, 27.71, 24.14]";
        assert_eq!(text.matches(numbers).count(), 1);
        let all = run(text);
        let withheld = run(&text.replace(numbers, "published.avg = [99.0, 1, \"-\"]"));
        let (all, withheld) = (all.cells(), withheld.cells());
        let simulated = |cells: &[Cell<'_>]| -> Vec<Option<f64>> {
            cells.iter().map(|cell| cell.simulated).collect()
        };
        assert_eq!(simulated(&all), simulated(&withheld));
        let baseline = |cell: &Cell<'_>| cell.stat == Stat::Change && cell.column == "3.9-rc2";
        assert!(
            all.iter()
                .all(|cell| cell.simulated.is_some() != baseline(cell))
        );
        let published: Vec<_> = withheld[..3].iter().map(|cell| cell.published).collect();
        assert_eq!(published, [Some(99.0), Some(1.0), None]);
        assert_eq!(withheld[2].error_pct(), None);
    }
}
