//! The bugs of the experiment `wasted-cores`, through the command.

use crate::common::json;
use serde_json::Value;

fn cells<'a>(result: &'a Value, block: &str, row: &str) -> Vec<(&'a str, f64)> {
    let cells = result["cells"].as_array().unwrap().iter();
    let of_row = cells.filter(|cell| cell["block"] == block && cell["row"] == row);
    let of_row = of_row.filter(|cell| cell["stat"] == "avg");
    of_row
        .map(|cell| {
            let column = cell["column"].as_str().unwrap();
            (column, cell["simulated"].as_f64().unwrap())
        })
        .collect()
}

/// Without the fixes, CPUs idle for seconds while tasks wait; under today's Linux and our policies
/// they do not.
#[test]
fn only_the_scheduler_with_the_bugs_wastes_cores() {
    let result = json("reproduce wasted-cores --runs 1 --format json");
    let result = &result["experiments"][0];
    for (block, with_bug) in [
        ("Missing domains", true),
        ("Group imbalance", true),
        // Overlapping groups are not modelled.
        ("Group construction", false),
    ] {
        let waste = cells(result, block, "longest waste");
        let columns: Vec<&str> = waste.iter().map(|(column, _)| *column).collect();
        assert_eq!(columns, ["with the bug", "fixed", "equipoise"], "{block}");
        assert_eq!(waste[0].1 > 1000.0, with_bug, "{block}: {waste:?}");
        assert!(
            waste[1].1 < 100.0 && waste[2].1 < 100.0,
            "{block}: {waste:?}"
        );
    }
    // An eighth of the cores remains, on which threads that poll are in each other's way.
    let time = cells(result, "Missing domains", "lu, 64 threads");
    assert!(time[0].1 / time[1].1 > 20.0, "{time:?}");
}
