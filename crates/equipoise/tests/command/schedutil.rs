//! Frequencies follow the utilization of all classes: the published experiment.

use crate::common::json;

fn cells(row: &str, stat: &str) -> Vec<f64> {
    let result = json(&format!(
        "reproduce utilization-tracking --rows {row} --runs 2 --format json"
    ));
    let cells = result["experiments"][0]["cells"].as_array().unwrap();
    let of_stat = cells.iter().filter(|cell| cell["stat"] == stat);
    of_stat
        .map(|cell| cell["simulated"].as_f64().unwrap())
        .collect()
}

#[test]
fn the_frequency_stays_if_all_classes_count() {
    let transitions = cells("total_trans", "avg");
    // "1230" and "14".
    assert!(
        (1000.0..1500.0).contains(&transitions[0]) && transitions[1] < 15.0,
        "{transitions:?}"
    );
}

#[test]
fn more_events_and_shorter_latencies_if_all_classes_count() {
    // "The performance improvement is 56% for this use case."
    let events = cells("events", "avg");
    assert!((1.3..1.7).contains(&(events[1] / events[0])), "{events:?}");
    let latency = cells("latency", "avg");
    assert!(latency[1] < 0.8 * latency[0], "{latency:?}");
}

#[test]
fn interrupts_count_for_what_they_take() {
    let sent = cells("Tx", "avg");
    // "+10%": the direction is right, and the rate is within the link's.
    assert!(sent[1] > 1.02 * sent[0] && sent[1] < 426.0, "{sent:?}");
}
