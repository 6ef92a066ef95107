//! The verdict on values that two commands measured, for tools.sensitivity and tools.ablate.
//!
//! Each line of standard input is a measure, in words: its unit, `lower` or `higher`, its goal or `-`, and then the
//! values of each run before a change, and of each run after it, each separated by commas. The output has a line for
//! each measure, with the verdict on the values after the change, and the amount by which they are worse.

use lab::{Finding, Measure, Pooled, Samples};
use std::io::{self, BufRead};
use workload::{Better, Goal, Metric, Role, Unit};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [unit, better, goal, before, after] = words[..] else {
            return Err(format!("expected UNIT BETTER GOAL BEFORE AFTER, found `{line}`").into());
        };
        let (verdict, worse) = judged(&measure(unit, better, goal), before, after)?;
        println!("{verdict} {worse}");
    }
    Ok(())
}

fn measure(unit: &str, better: &str, goal: &str) -> Measure {
    let better = match better {
        "higher" => Better::Higher,
        _ => Better::Lower,
    };
    let goals = [
        ("latency", Goal::Latency),
        ("throughput", Goal::Throughput),
        ("energy", Goal::Energy),
        ("fairness", Goal::Fairness),
    ];
    let goal = goals.into_iter().find(|(name, _)| *name == goal);
    let role = goal.map_or(Role::Detail, |(_, goal)| Role::Decides(goal));
    let unit = match unit {
        "s" => Unit::S,
        "ms" => Unit::Ms,
        "us" => Unit::Us,
        "%" => Unit::Percent,
        // There are few units.
        other => Unit::Other(other.to_owned().leak()),
    };
    Measure::new(Metric::new("measure", unit, better, role), vec![0], false)
}

fn judged(
    measure: &Measure,
    before: &str,
    after: &str,
) -> Result<(&'static str, f64), Box<dyn std::error::Error>> {
    let runs = |values: &str| -> Result<Vec<Option<Pooled>>, std::num::ParseFloatError> {
        let values = values.split(',').map(str::parse);
        values
            .map(|value| Ok(Pooled::new([&Samples::new(&[value?])])))
            .collect()
    };
    let row = Finding::new(
        measure,
        [("before", runs(before)?), ("after", runs(after)?)],
    );
    let against = row.entries[1].against(&row.entries[0]);
    let against = against.ok_or("the two have different numbers of runs")?;
    Ok((against.verdict, against.worse))
}
