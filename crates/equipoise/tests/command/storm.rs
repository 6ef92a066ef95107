//! Linux 3.9 preempts for each message if the sender does more work for it than the receiver,
//! because receivers stay behind by more than a wakeup granularity. The cost of the wakeup, which
//! the sender pays, widens the gap.

use crate::common::json;

/// In thousands.
fn switches(policy: &str, work: &str) -> f64 {
    let workload = format!("hackbench:groups=2,loops=100,{work}");
    let workload: &'static str = workload.leak();
    let policy: &'static str = policy.to_owned().leak();
    let result = json(&format!(
        "compare --machine smp-2 --workload {workload} --policy {policy} --runs 3 --format json"
    ));
    result["counters"][0]["context_switches"].as_f64().unwrap() / 1e3
}

#[test]
fn receivers_that_do_less_than_senders_preempt_at_every_message() {
    let even = switches("cfs", "write_work=20us,read_work=20us");
    let uneven = switches("cfs", "write_work=30us,read_work=10us");
    assert!(uneven > 5.0 * even, "{even} {uneven}");
    // 80 thousand messages cause at most two switches each; most of them are preemptions.
    assert!(uneven > 80.0, "{uneven}");
    let calm = switches(
        "cfs:sched_wakeup_granularity_ns=10000000",
        "write_work=30us,read_work=10us",
    );
    assert!(calm < uneven / 3.0, "{calm} {uneven}");
}
