//! A published table next to the simulated one.

use crate::comparison::number_of_runs;
use crate::number::{number, number_or_dash, percent};
use crate::{Bar, Cell, Chart, Colour, Page, Table, Tone};
use lab::{Block, Experiment, NO_DIFFERENCE_PCT, Reproduction, Scheduler, Stat};

/// The page of a reproduction.
pub fn reproduction(reproduction: &Reproduction) -> Page {
    let experiment = &reproduction.experiment;
    let runs = &reproduction.runs;
    let cells = reproduction.cells();
    Page {
        title: format!("{}: {}", experiment.name, experiment.title),
        notes: [
            match &experiment.source {
                Some(source) => source.to_string(),
                None if experiment.is_published() => "figures of several publications".to_owned(),
                None => "not a published table: simulated only".to_owned(),
            },
            number_of_runs(runs, reproduction.asked),
        ]
        .into_iter()
        .chain(experiment.left_out.iter().cloned())
        .collect(),
        verdict: Vec::new(),
        tables: tables(reproduction, &cells),
        remarks: remarks(reproduction),
        charts: charts(&cells),
        ..Page::default()
    }
}

fn tables(reproduction: &Reproduction, cells: &[lab::Cell<'_>]) -> Vec<Table> {
    let experiment = &reproduction.experiment;
    let mut groups = lab::groups(cells);
    let published = experiment.is_published();
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
                rows(&stats, &shown, published)
            });
            Table {
                title: title(experiment, block),
                header: header(experiment, block),
                text_columns: 3,
                together: if published { 3 } else { 1 },
                rows: lines.collect(),
                ..Table::default()
            }
        })
        .collect()
}

fn header(experiment: &Experiment, block: &Block) -> Vec<String> {
    let mut header = vec!["row".to_owned(), "stat".to_owned(), "unit".to_owned()];
    for column in experiment.columns_of(block) {
        let schedulers: Vec<&str> = column.schedulers().map(Scheduler::name).collect();
        let simulated = schedulers.join(" > ");
        if experiment.is_published() {
            header.push(format!("{}\npublished", column.name));
            header.push(format!("{simulated}\nsimulated"));
            header.push("\nerror".to_owned());
        } else {
            header.push(format!("{}\n{simulated}", column.name));
        }
    }
    header
}

/// The lines of one row of the published table: one for each statistic in `shown`, and one line with the distance of
/// the averages from the limit. A table that was not published has only the simulated numbers.
fn rows(stats: &[&[lab::Cell<'_>]], shown: &[Stat], published: bool) -> Vec<Vec<Cell>> {
    let columns = if published { 0..3 } else { 1..2 };
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
            line.extend_from_slice(&numbers(cell)[columns.clone()]);
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
            let cells = [
                times(cell.published),
                times(cell.simulated),
                Cell::default(),
            ];
            line.extend_from_slice(&cells[columns.clone()]);
        }
        rows.push(line);
    }
    rows
}

/// The title of a block's table: the block, and its machine if all columns have the same machine.
fn title(experiment: &Experiment, block: &Block) -> String {
    let mut machines = experiment
        .columns_of(block)
        .map(|column| &column.machine(block).name);
    match machines.next() {
        Some(machine) if machines.all(|other| other == machine) => {
            format!("{} ({machine})", block.name)
        }
        _ => block.name.clone(),
    }
}

/// The cells of the published number, the simulated number, and the error.
fn numbers(cell: &lab::Cell<'_>) -> [Cell; 3] {
    let dash = || "-".to_owned();
    let (published, simulated, error) = if cell.stat == Stat::Change {
        let published = match cell.published {
            Some(_) if cell.margin > 0.0 => format!("within {}", number(cell.margin)),
            published => published.map_or_else(dash, percent),
        };
        let points = |points: f64| format!("{points:+.1}");
        (
            published,
            cell.simulated.map_or_else(dash, percent),
            cell.error_points().map_or_else(dash, points),
        )
    } else {
        (
            number_or_dash(cell.published),
            number_or_dash(cell.simulated),
            cell.error_pct()
                .map_or_else(dash, |error| match cell.fitted {
                    true => format!("{} *", percent(error)),
                    false => percent(error),
                }),
        )
    };
    [
        Cell::new(published, Tone::Dim),
        simulated.into(),
        error.into(),
    ]
}

/// The remarks on the blocks, then the quality of the reproduction.
fn remarks(reproduction: &Reproduction) -> Vec<String> {
    let blocks = reproduction.experiment.blocks.iter();
    blocks
        .filter_map(|block| Some(format!("{}: {}", block.name, block.note()?)))
        .chain(quality(reproduction))
        .collect()
}

/// Remarks on the errors and the sign agreement of numbers, of changes, or of both.
fn quality(reproduction: &Reproduction) -> Vec<String> {
    if !reproduction.experiment.is_published() {
        return Vec::new();
    }
    let summary = reproduction.summary();
    let agreement = summary
        .sign_agreement_pct
        .map_or("-".to_owned(), |agreement| format!("{agreement:.0} %"));
    let fitted = reproduction.cells().iter().any(|cell| cell.fitted);
    let percent = match (
        summary.mean_abs_error_pct,
        summary.mean_abs_error_pct_of_all,
    ) {
        (Some(error), Some(all)) if fitted => Some(format!(
            "mean absolute error {error:.1} % ({all:.1} % with the cells marked *)"
        )),
        (None, Some(all)) => Some(format!("mean absolute error {all:.1} % in cells marked *")),
        (error, _) => error.map(|error| format!("mean absolute error {error:.1} %")),
    };
    let points = summary.mean_abs_error_points.map(|mean| {
        let most = summary.max_abs_error_points.unwrap_or(mean);
        format!("mean absolute error {mean:.1} points, at most {most:.1} points")
    });
    let errors = match (percent, &points) {
        (Some(percent), Some(points)) => format!("{percent}; of changes, {points};"),
        (Some(percent), None) => format!("{percent},"),
        (None, Some(points)) => format!("{points};"),
        (None, None) => "mean absolute error -,".to_owned(),
    };
    let mut remarks = vec![format!("{errors} sign agreement {agreement}")];
    if fitted {
        remarks.push(
            "*: a parameter of the machine or the load was fitted to this cell, so the cell is not a prediction \
             (crates/lab/src/parameters.toml)."
                .to_owned(),
        );
    }
    if points.is_some() {
        remarks.push(
            "A change is the change of the mean in per cent, over runs paired by seed; its error is in points. \
             If only a margin was published, the error is the excess over the margin."
                .to_owned(),
        );
    }
    remarks.push(format!(
        "Sign agreement is the percentage of published cells in which the change from the first column, or the \
         published change itself, has the same direction in both tables (up, down, or less than \
         {NO_DIFFERENCE_PCT} %)."
    ));
    if reproduction.rows.iter().any(|row| row.limit.is_some()) {
        remarks.push(
            "The row `limit` has the shortest time that the machine's CPUs allow under any scheduler, and each average \
             as a multiple of this time."
                .to_owned(),
        );
    }
    remarks
}

/// For each row and block a chart of the averages, and a chart of the changes, if there are any.
fn charts(cells: &[lab::Cell<'_>]) -> Vec<Chart> {
    let charted = [Stat::Avg, Stat::Change];
    let averages = cells.iter().filter(|cell| charted.contains(&cell.stat));
    let mut charts: Vec<Chart> = Vec::new();
    for cell in averages {
        let title = format!("{}, {}, {}", cell.row, cell.block, cell.unit);
        if charts.last().is_none_or(|chart| chart.title != title) {
            charts.push(Chart {
                title,
                note: String::new(),
                bars: Vec::new(),
            });
        }
        let bar = |value: Option<f64>, what: &str, colour: Colour| {
            value.map(|value| Bar {
                label: format!("{} {what}", cell.column),
                value,
                colour,
                ..Bar::default()
            })
        };
        let bars = [
            bar(cell.published, "published", Colour::Input),
            bar(cell.simulated, "simulated", Colour::Result),
        ];
        if let Some(chart) = charts.last_mut() {
            chart.bars.extend(bars.into_iter().flatten());
        }
    }
    charts
}
