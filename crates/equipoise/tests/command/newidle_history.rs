//! The experiment `newidle-history`, through the command.

use crate::common::json;
use serde_json::Value;

fn mean(result: &Value, block: &str, row: &str, column: &str) -> f64 {
    let mut cells = result["cells"].as_array().unwrap().iter();
    let cell = cells.find(|cell| {
        cell["block"] == block
            && cell["row"] == row
            && cell["column"] == column
            && cell["stat"] == "avg"
    });
    cell.unwrap_or_else(|| panic!("{block}, {row}, {column}"))["simulated"]
        .as_f64()
        .unwrap()
}

/// Where CPUs idle briefly and find nothing, NI_RANDOM spends less than half as much time on searches as Linux 7.3
/// without it, and messages are no slower.
#[test]
fn ni_random_saves_searches_that_find_nothing() {
    let result = json(&[
        "reproduce",
        "newidle-history",
        "--rows",
        "tbench: *",
        "--runs",
        "1",
        "--format",
        "json",
    ]);
    let result = &result["experiments"][0];
    let machines = ["hp-8s-80c-ht", "epyc-2s"];
    let without = "7.3 without NI_RANDOM";
    let sum = |row: &str, column: &str| -> f64 {
        let of = |block| mean(result, block, row, column);
        machines.map(of).iter().sum()
    };
    for row in ["tbench: attempts", "tbench: time spent"] {
        let (with, without) = (sum(row, "NI_RANDOM"), sum(row, without));
        assert!(with < without / 2.0, "{row}: {with} for {without}");
    }
    let gain = sum("tbench: throughput", "NI_RANDOM") / sum("tbench: throughput", without);
    assert!((1.0..1.2).contains(&gain), "{gain}");

    // Frequencies are no part of the comparison: schedutil would halve these messages.
    let of = |column: &str| mean(result, "epyc-2s", "tbench: throughput", column);
    for column in ["max_newidle_lb_cost", without, "NI_RANDOM", "equipoise"] {
        let relative = of(column) / of("3.10");
        assert!((0.7..1.3).contains(&relative), "{column}: {relative}");
    }
    // A search of other caches reads memory that their CPUs change.
    for block in machines {
        let of = |row: &str| mean(result, block, row, "equipoise");
        assert!(of("tbench: attempts") > 1.0, "{block}");
        assert!(of("tbench: time spent") > 0.0, "{block}");
    }
}
