//! Results as comma-separated values (RFC 4180), with names in the first line: for spreadsheets, R and pandas. In the
//! results of `compare` and `reproduce`, numbers have all their digits, and missing values are empty.

use crate::{Page, json};
use cage::text::cell;
use lab::{Comparison, Entry, Findings, Reproduction};
use serde::Serialize;

/// A line for each measure, policy and run of `equipoise compare`.
#[derive(Serialize)]
struct OfRun<'a> {
    machine: &'a str,
    workload: &'a str,
    policy: &'a str,
    metric: &'a str,
    unit: &'a str,
    better: &'static str,
    goal: Option<&'static str>,
    decides: bool,
    part: bool,
    run: usize,
    seed: String,
    n: u64,
    mean: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    p999: Option<f64>,
}

/// The results of `equipoise compare` as tidy data: a line for each measure, policy and run, with the names of the JSON
/// output.
pub fn comparison(findings: &Findings<'_>) -> String {
    let lines = findings
        .entries()
        .flat_map(|(_, entry)| of_runs(findings.comparison, entry));
    text(lines)
}

fn of_runs<'a>(
    comparison: &'a Comparison,
    entry: &'a Entry<'a>,
) -> impl Iterator<Item = OfRun<'a>> {
    let metric = &entry.measure.metric;
    entry.runs.iter().enumerate().map(move |(run, pooled)| {
        let of = |value: fn(&lab::Pooled) -> f64| pooled.as_ref().map(value);
        OfRun {
            machine: &comparison.machine.name,
            workload: comparison.workload.name(),
            policy: entry.scheduler,
            metric: &metric.name,
            unit: metric.unit.name(),
            better: json::better_name(metric.better),
            goal: metric.role.goal().map(json::goal_name),
            decides: entry.measure.decides().is_some(),
            part: entry.measure.is_part,
            run,
            seed: json::seed_name(comparison.runs.seed_of(run as u32)),
            n: pooled.as_ref().map_or(0, |pooled| pooled.n),
            mean: of(|pooled| pooled.mean),
            min: of(|pooled| pooled.min),
            max: of(|pooled| pooled.max),
            p50: of(|pooled| pooled.p50),
            p95: of(|pooled| pooled.p95),
            p99: of(|pooled| pooled.p99),
            p999: of(|pooled| pooled.p999),
        }
    })
}

/// The results of `equipoise reproduce`: a line for each cell, with the names of the JSON output.
pub fn reproductions(reproductions: &[Reproduction]) -> String {
    text(json::cells(reproductions))
}

/// The tables of any other page, one below the other, separated by empty lines.
pub fn page(page: &Page) -> String {
    let tables = page.tables.iter().map(|table| {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let header = table.header.iter().map(|name| name.replace('\n', " "));
        let header: Vec<String> = header.map(|name| cell(&name).into_owned()).collect();
        written(writer.write_record(header));
        for row in &table.rows {
            written(writer.write_record(row.iter().map(|one| cell(&one.text).into_owned())));
        }
        finished(writer)
    });
    tables.collect::<Vec<_>>().join("\n")
}

fn text(lines: impl IntoIterator<Item = impl Serialize>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for line in lines {
        written(writer.serialize(line));
    }
    // Only serialization turns the strings of `lines` into cells, so escape the cells afterwards.
    let plain = finished(writer);
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(plain.as_bytes());
    let mut writer = csv::Writer::from_writer(Vec::new());
    for line in reader.records() {
        let line = line.expect("what was written can be read");
        written(writer.write_record(line.iter().map(|one| cell(one).into_owned())));
    }
    finished(writer)
}

fn written(result: csv::Result<()>) {
    result.expect("a line of plain values, as long as the others, goes into memory");
}

fn finished(writer: csv::Writer<Vec<u8>>) -> String {
    let bytes = writer
        .into_inner()
        .expect("writing to memory does not fail");
    String::from_utf8(bytes).expect("what was written is text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Table;

    #[test]
    fn no_cell_is_a_formula() {
        #[derive(Serialize)]
        struct Line {
            name: &'static str,
            value: f64,
        }
        let line = Line {
            name: "=cmd|' /C calc'!A0",
            value: -1.5,
        };
        assert_eq!(text([line]), "name,value\n'=cmd|' /C calc'!A0,-1.5\n");
    }

    #[test]
    fn tables_are_lines_of_values() {
        let table = Table {
            title: "t".to_owned(),
            header: vec!["a".to_owned(), "b\nc".to_owned()],
            text_columns: 2,
            rows: vec![vec!["x, y".into(), "\"".into()]],
            ..Table::default()
        };
        let page_of_two = Page {
            tables: vec![table.clone(), table],
            ..Page::default()
        };
        let one = "a,b c\n\"x, y\",\"\"\"\"\n";
        assert_eq!(page(&page_of_two), format!("{one}\n{one}"));
    }
}
