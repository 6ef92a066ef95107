//! README's table of `equipoise` against today's Linux is the command's output by the rule next to
//! the table: each load lasts at least 2 s, and a build has a job for each CPU. `make docs` writes it.

use crate::common::{json, root};
use crate::printed::documented;
use machine::Machine;
use serde_json::Value;
use std::collections::BTreeMap;

/// The text in backticks in a table's cell.
fn quoted(cell: &str) -> Option<&str> {
    cell.split('`').nth(1)
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

/// A row of the comparison of `equipoise` with `eevdf` on `machine`, as JSON.
fn compared(machine: &str, workload: &str) -> Value {
    let cpus = Machine::find(machine).unwrap().cpus.len();
    let workload = workload.replace("=N", &format!("={cpus}"));
    let policies = ["--policy", "eevdf", "--policy", "equipoise"];
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

/// The table's cell: the change by `goal`. Power is not modelled on every machine.
fn cell(found: &Value, goal: &str) -> String {
    let verdicts = found["verdict"].as_array().unwrap();
    let Some(verdict) = verdicts.iter().find(|verdict| verdict["goal"] == goal) else {
        assert_eq!(goal, "energy");
        return "not modelled".to_owned();
    };
    let standing = &verdict["standings"][1];
    let number = |key: &str| standing[key].as_f64().unwrap();
    // A zero has no sign.
    let change = (10.0 * number("change_pct")).round() / 10.0 + 0.0;
    // As in the verdict, a margin is left out if it would be printed as 0.
    match number("change_margin_pct") {
        margin if margin < 0.05 => format!("{change:.1} %"),
        margin => format!("{change:.1} ± {margin:.1} %"),
    }
}

#[test]
fn readme_has_what_the_command_prints() {
    let path = root().join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let is_row = |line: &&str| line.starts_with('|');
    let (before, rest) = readme.split_once("| machine | `mixed`").unwrap();
    let (head, rest) = rest.split_once("\n| --- |").unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    let columns = cells(head).len();
    let heads = format!("`mixed`{head}");
    let loads: Vec<(&str, &str)> = cells(&heads)
        .into_iter()
        .map(|head| {
            let (_, goal) = head.rsplit_once(": ").unwrap();
            (
                quoted(head).unwrap(),
                if goal == "time" { "throughput" } else { goal },
            )
        })
        .collect();
    assert_eq!(loads.len(), 4, "{loads:?}");
    let mut rows = String::new();
    for row in rest.lines().take_while(is_row) {
        let name = cells(row)[0];
        let machine = quoted(name).unwrap();
        let mut found: BTreeMap<&str, Value> = BTreeMap::new();
        let mut line = vec![name.to_owned()];
        for (load, goal) in &loads {
            let found = found.entry(load).or_insert_with(|| compared(machine, load));
            line.push(cell(found, goal));
        }
        rows += &format!("| {} |\n", line.join(" | "));
    }
    assert!(rows.lines().count() >= 6, "{rows}");
    let after: Vec<&str> = rest.lines().skip_while(is_row).collect();
    let rule = " --- |".repeat(columns + 1);
    let made = format!(
        "{before}| machine | `mixed`{head}\n|{rule}\n{rows}{}\n",
        after.join("\n")
    );
    documented(&path, &made);
}
