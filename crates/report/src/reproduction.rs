//! A published table beside the simulated one.

use crate::number::{number, number_or_dash, percent};
use crate::{Bar, Cell, Chart, Page, Table, Tone};
use lab::{NO_DIFFERENCE_PCT, Reproduction, Stat};

/// The page of `reproduction`.
pub fn reproduction(reproduction: &Reproduction) -> Page {
    let experiment = &reproduction.experiment;
    let (source, runs) = (&experiment.source, &reproduction.runs);
    let cells = reproduction.cells();
    Page {
        title: format!("{}: {}", experiment.name, experiment.title),
        notes: vec![
            format!(
                "{}, {}, {}: \"{}\"",
                source.author, source.date, source.list, source.title
            ),
            format!("{} runs, seed {}", runs.count, runs.seed),
        ],
        tables: tables(reproduction, &cells),
        remarks: remarks(reproduction),
        charts: charts(&cells),
    }
}

/// One table for each block.
fn tables(reproduction: &Reproduction, cells: &[lab::Cell<'_>]) -> Vec<Table> {
    let experiment = &reproduction.experiment;
    let columns = experiment.columns.len().max(1);
    let mut groups = cells.chunks(columns);
    let mut header = vec!["row".to_owned(), "stat".to_owned(), "unit".to_owned()];
    for column in &experiment.columns {
        header.push(format!("{}\npublished", column.name));
        header.push(format!("{}\nsimulated", column.scheduler.name()));
        header.push("\nerror".to_owned());
    }
    experiment
        .blocks
        .iter()
        .map(|block| {
            let shown: Vec<Stat> = Stat::ALL
                .into_iter()
                .filter(|stat| block.publishes(*stat))
                .collect();
            let lengths = block.rows.iter().map(|row| row.stats().len());
            let lengths = lengths.chain(block.average.iter().map(|_| 1));
            let lines = lengths.flat_map(|length| {
                let stats: Vec<_> = groups.by_ref().take(length).collect();
                rows(&stats, &shown)
            });
            Table {
                title: format!("{} ({})", block.name, block.machine.name),
                header: header.clone(),
                text_columns: 3,
                rows: lines.collect(),
            }
        })
        .collect()
}

/// The lines of one row of the published table: one for each statistic that is `shown`, and how far from
/// the limit the averages are.
fn rows(stats: &[&[lab::Cell<'_>]], shown: &[Stat]) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    let shown = |cells: &&&[lab::Cell<'_>]| shown.contains(&cells[0].stat);
    for (index, cells) in stats.iter().filter(shown).enumerate() {
        let name = if index == 0 { cells[0].row } else { "" };
        let mut line = vec![
            name.into(),
            cells[0].stat.name().into(),
            cells[0].unit.into(),
        ];
        for cell in *cells {
            line.push(Cell::new(number_or_dash(cell.published), Tone::Dim));
            line.push(number_or_dash(cell.simulated).into());
            line.push(cell.error_pct().map_or("-".to_owned(), percent).into());
        }
        rows.push(line);
    }
    let averages = stats.iter().find(|cells| cells[0].stat == Stat::Avg);
    if let Some((cells, limit)) = averages.and_then(|cells| Some((cells, cells[0].limit?))) {
        let times = |value: Option<f64>| {
            let text = value.map_or("-".to_owned(), |value| format!("{:.3} x", value / limit));
            Cell::new(text, Tone::Dim)
        };
        let mut line: Vec<Cell> = ["".to_owned(), "limit".to_owned(), number(limit)]
            .map(|text| Cell::new(text, Tone::Dim))
            .into();
        for cell in *cells {
            line.extend([
                times(cell.published),
                times(cell.simulated),
                Cell::default(),
            ]);
        }
        rows.push(line);
    }
    rows
}

fn remarks(reproduction: &Reproduction) -> Vec<String> {
    let summary = reproduction.summary();
    let mut remarks = vec![format!(
        "mean absolute error {}, sign agreement {}",
        summary
            .mean_abs_error_pct
            .map_or("-".to_owned(), |error| format!("{error:.1} %")),
        summary
            .sign_agreement_pct
            .map_or("-".to_owned(), |agreement| format!("{agreement:.0} %")),
    )];
    remarks.push(format!(
        "Sign agreement: in how many published cells the change from the first column goes the same \
         way in both tables (up, down, or less than {NO_DIFFERENCE_PCT} %)."
    ));
    if reproduction.rows.iter().any(|row| row.limit.is_some()) {
        remarks.push(
            "limit: the best time that the machine's CPUs allow under any scheduler, and the average \
             as a multiple of it."
                .to_owned(),
        );
    }
    remarks
}

/// One chart for each row: the averages.
fn charts(cells: &[lab::Cell<'_>]) -> Vec<Chart> {
    let averages = cells.iter().filter(|cell| cell.stat == Stat::Avg);
    let mut charts: Vec<Chart> = Vec::new();
    for cell in averages {
        let title = format!("{}, {}, {}", cell.row, cell.block, cell.unit);
        if charts.last().is_none_or(|chart| chart.title != title) {
            charts.push(Chart {
                title,
                bars: Vec::new(),
            });
        }
        let bar = |value: Option<f64>, what: &str, muted: bool| {
            value.map(|value| Bar {
                label: format!("{} {what}", cell.column),
                value,
                range: None,
                muted,
            })
        };
        let bars = [
            bar(cell.published, "published", true),
            bar(cell.simulated, "simulated", false),
        ];
        if let Some(chart) = charts.last_mut() {
            chart.bars.extend(bars.into_iter().flatten());
        }
    }
    charts
}
