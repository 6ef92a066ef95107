//! README's table of `equipoise` against today's Linux is the command's output by the rule next to
//! the table: each load lasts at least 2 s, and a build has a job for each CPU. When a figure
//! changes for a good reason, the failure prints the new table.

use crate::common::{json, root};
use machine::Machine;

/// The text in backticks in a table's cell.
fn quoted(cell: &str) -> Option<&str> {
    cell.split('`').nth(1)
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

/// The table's cell: `equipoise` against `eevdf` on `machine`, by `goal`.
fn cell(machine: &str, workload: &str, goal: &str) -> String {
    let cpus = Machine::find(machine).unwrap().cpus.len();
    let workload = workload.replace("=N", &format!("={cpus}"));
    let found = json(&[
        "compare",
        "--machine",
        machine,
        "--workload",
        &workload,
        "--policy",
        "eevdf",
        "--policy",
        "equipoise",
        "--runs",
        "20",
        "--format",
        "json",
    ]);
    let all = |key: &str| found[key].as_array().unwrap().clone();
    for result in all("results") {
        if let (Some("time"), Some(seconds)) = (result["metric"].as_str(), result["mean"].as_f64())
        {
            assert!(seconds >= 2.0, "{workload} on {machine} lasts {seconds} s");
        }
    }
    let verdict = all("verdict")
        .into_iter()
        .find(|verdict| verdict["goal"] == goal)
        .unwrap();
    let standing = &verdict["standings"][1];
    let number = |key: &str| standing[key].as_f64().unwrap();
    // As in the verdict, a margin is left out if it would be printed as 0.
    match number("change_margin_pct") {
        margin if margin < 0.05 => format!("{:.1} %", number("change_pct")),
        margin => format!("{:.1} ± {margin:.1} %", number("change_pct")),
    }
}

#[test]
fn readme_has_what_the_command_prints() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let table: Vec<&str> = readme
        .lines()
        .skip_while(|line| !line.starts_with("| machine | `mixed`"))
        .take_while(|line| line.starts_with('|'))
        .collect();
    let loads: Vec<(&str, &str)> = cells(table[0])[1..]
        .iter()
        .map(|head| match head.contains(": latency") {
            true => (quoted(head).unwrap(), "latency"),
            false => (quoted(head).unwrap(), "throughput"),
        })
        .collect();
    assert!(table.len() >= 8 && loads.len() == 3, "{table:?}");
    let rows: Vec<String> = table[2..]
        .iter()
        .map(|row| {
            let name = cells(row)[0];
            let machine = quoted(name).unwrap();
            let found = loads.iter().map(|(load, goal)| cell(machine, load, goal));
            format!("| {name} | {} |", found.collect::<Vec<_>>().join(" | "))
        })
        .collect();
    assert_eq!(
        table[2..].join("\n"),
        rows.join("\n"),
        "\n{}\n",
        rows.join("\n")
    );
}
