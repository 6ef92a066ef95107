//! README's table of `equipoise` against today's Linux is the command's output by the rule next to
//! the table: each load lasts at least 2 s, and a build has a job for each CPU. `make docs` writes it.
//!
//! A column's head is a load in backticks, or `the same`, which is the load of the column before; then `from` and
//! another baseline than `eevdf` in backticks, if any; then the goal.

use crate::common::{json, root};
use crate::printed::documented;
use machine::Machine;
use serde_json::Value;
use std::collections::BTreeMap;

fn quoted(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.split('`').next()
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

struct Column<'a> {
    load: &'a str,
    baseline: &'a str,
    goal: &'a str,
}

/// The columns after the first one, which names the machine.
fn columns(head: &str) -> Vec<Column<'_>> {
    let mut columns: Vec<Column<'_>> = Vec::new();
    for cell in cells(head).into_iter().skip(1) {
        let (what, goal) = cell.rsplit_once(": ").unwrap();
        let baseline = what
            .split_once("from ")
            .map_or("eevdf", |(_, from)| quoted(from).unwrap());
        columns.push(Column {
            load: quoted(what).unwrap_or_else(|| columns.last().unwrap().load),
            baseline,
            goal: if goal == "time" { "throughput" } else { goal },
        });
    }
    columns
}

fn compared(machine: &str, workload: &str, baseline: &str) -> Value {
    let cpus = Machine::find(machine).unwrap().cpus.len();
    let workload = workload.replace("=N", &format!("={cpus}"));
    let policies = ["--policy", baseline, "--policy", "equipoise"];
    let options = [
        "--machine",
        machine,
        "--workload",
        &workload,
        "--runs",
        "8",
        "--format",
        "json",
    ];
    let found = json(&[&["compare"], &options[..], &policies].concat());
    for result in found["results"].as_array().unwrap() {
        if let (Some("time"), Some(seconds)) = (result["metric"].as_str(), result["mean"].as_f64())
        {
            assert!(seconds >= 2.0, "{workload} on {machine} lasts {seconds} s");
        }
    }
    found
}

/// The table's cell: the change by `goal` in %. Power is not modelled on every machine.
fn cell(found: &Value, goal: &str) -> String {
    let verdicts = found["verdict"].as_array().unwrap();
    let Some(verdict) = verdicts.iter().find(|verdict| verdict["goal"] == goal) else {
        assert_eq!(goal, "energy");
        return "not modelled".to_owned();
    };
    let standing = &verdict["standings"][1];
    let number = |key: &str| standing[key].as_f64().unwrap();
    let change = match (10.0 * number("change_pct")).round() / 10.0 {
        0.0 => "0.0".to_owned(),
        change => format!("{change:+.1}"),
    };
    // As in the verdict, a margin is left out if it would be printed as 0.
    match number("change_margin_pct") {
        margin if margin < 0.05 => change,
        margin => format!("{change} ± {margin:.1}"),
    }
}

#[test]
fn readme_has_what_the_command_prints() {
    let path = root().join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let is_row = |line: &&str| line.starts_with('|');
    let start = readme.find("| machine |").unwrap();
    let (before, table) = readme.split_at(start);
    let mut rows = table.lines().take_while(is_row);
    let (head, rule) = (rows.next().unwrap(), rows.next().unwrap());
    let columns = columns(head);
    let mut made = format!("{before}{head}\n{rule}\n");
    let mut count = 0;
    for row in rows {
        let name = cells(row)[0];
        let machine = quoted(name).unwrap();
        let mut found: BTreeMap<(&str, &str), Value> = BTreeMap::new();
        let mut line = vec![name.to_owned()];
        for Column {
            load,
            baseline,
            goal,
        } in &columns
        {
            let found = found
                .entry((load, baseline))
                .or_insert_with(|| compared(machine, load, baseline));
            line.push(cell(found, goal));
        }
        made += &format!("| {} |\n", line.join(" | "));
        count += 1;
    }
    assert!(columns.len() >= 4 && count >= 6, "{made}");
    let after: Vec<&str> = table.lines().skip_while(is_row).collect();
    documented(&path, &format!("{made}{}\n", after.join("\n")));
}
