//! Settings of `equipoise` that may suit the recorded load of a trial better, by simulation.

use super::predict::{self, Predictor};
use crate::error::Error;
use ::trial::bundle::Tuning;
use ::trial::{About, Measured};
use lab::{Results, Scheduler};
use policy::{Kind, Policy, Setting};
use report::{Cell, Page, Shown, Table};

pub const TUNED: &str = "equipoise";
/// The metrics of a replay that judge a setting, the first one first. If the load goes on, latency comes first.
const FIGURES: [&str; 2] = ["makespan", "latency"];
/// The gain in % from which a setting is worth a trial, which is the least difference of a verdict.
const LEAST_PCT: f64 = 1.0;

const OTHER_SETTINGS: &str = "Tuning simulated the recorded load with one changed setting at a time, of those that a \
                              loaded scheduler can change: half and twice a number, or another choice. A change that \
                              is not shown changes no figure by 1 % or more.";
const NOTHING_TO_TUNE: &str = "Tuning found no setting that is better than the defaults by 1 % in the simulation, so none was measured.";

/// Adds the results of tuning to the page of their trial.
pub fn add(page: &mut Page, about: &About, tuning: &Tuning, shown: Shown) {
    let row = |row: &Vec<String>| row.iter().map(|it| Cell::from(it.clone())).collect();
    let table = Table {
        title: format!("Settings of {TUNED}, simulated"),
        header: tuning.header.clone(),
        text_columns: 1,
        rows: tuning.rows.iter().map(row).collect(),
        ..Table::default()
    };
    page.tables
        .extend((!table.rows.is_empty()).then_some(table));
    page.remarks.push(OTHER_SETTINGS.to_owned());
    let Some(best) = &tuning.best else {
        page.remarks.push(NOTHING_TO_TUNE.to_owned());
        return;
    };
    let Some((plan, outcome)) = &tuning.measured else {
        return;
    };
    let tuned = ::trial::page(about, plan, outcome, &Measured::new(outcome), shown);
    let said = tuned.verdict.into_iter();
    page.verdict
        .extend(said.map(|it| format!("Then {best} beside {TUNED}: {it}")));
    page.tables
        .extend(tuned.tables.into_iter().map(|table| Table {
            title: format!("{best}: {}", table.title),
            ..table
        }));
}

/// Simulates the load of `trace`, which ends or `goes_on`, under the policy with one changed setting at a time.
pub fn tune(predictor: &Predictor, trace: &[u8], goes_on: bool) -> Result<Tuning, Error> {
    let policy = Policy::find(TUNED)?;
    let others = policy
        .settings
        .list()
        .flat_map(|(setting, value)| changed(setting, value));
    let names: Vec<String> = std::iter::once(TUNED.to_owned()).chain(others).collect();
    let kernel = predict::kernel();
    let schedulers = names.iter().map(|it| Scheduler::policy_in(it, kernel));
    let simulation = predictor.simulate(trace, schedulers.collect::<Result<_, _>>()?)?;
    let mut columns = FIGURES.map(|figure| (figure, ratios(&simulation.findings(), figure)));
    if goes_on {
        columns.reverse();
    }
    Ok(judge(&names, &columns))
}

/// The policies in which `setting` has one of its other choices, or half or twice the number `value`; none if a loaded
/// scheduler cannot change the setting.
fn changed(setting: &Setting, value: u64) -> Vec<String> {
    let values: Vec<u64> = match &setting.kind {
        _ if !setting.live => Vec::new(),
        Kind::Choice(choices) => choices.iter().map(|it| it.value).collect(),
        Kind::Switch => vec![0, 1],
        Kind::Number { range, .. } => [value / 2, value.saturating_mul(2)]
            .map(|it| it.clamp(*range.start(), *range.end()))
            .to_vec(),
    };
    let others = values.into_iter().filter(|it| *it != value);
    others
        .map(|it| format!("{TUNED}:{}={}", setting.key, setting.show(it)))
        .collect()
}

/// The metric `name` of each scheduler relative to the metric of the first scheduler; empty if the load does not have
/// this metric.
fn ratios(results: &Results<'_>, name: &str) -> Vec<f64> {
    let row = results
        .rows
        .iter()
        .find(|row| row.measure.metric.name == name);
    let value = |index: usize| {
        let judged = row?.entries[index].judged()?;
        lab::mean_interval(&judged).map(|(mean, _)| mean)
    };
    let values = (0..results.schedulers.len()).map(|it| Some(value(it)? / value(0)?));
    let values: Option<Vec<f64>> = values.collect();
    values
        .filter(|them| them.iter().all(|it| it.is_finite()))
        .unwrap_or_default()
}

/// The table of the figures, and the setting that is best by the first figure that any setting improves.
fn judge(names: &[String], columns: &[(&str, Vec<f64>)]) -> Tuning {
    let known: Vec<&(&str, Vec<f64>)> = columns.iter().filter(|it| !it.1.is_empty()).collect();
    let change = |ratio: f64| 100.0 * (ratio - 1.0);
    let best = known.iter().find_map(|(_, ratios)| {
        let best = (1..ratios.len()).min_by(|&a, &b| ratios[a].total_cmp(&ratios[b]))?;
        (change(ratios[best]) <= -LEAST_PCT).then(|| names[best].clone())
    });
    let changes = |index: &usize| {
        known
            .iter()
            .any(|(_, ratios)| change(ratios[*index]).abs() >= LEAST_PCT)
    };
    let row = |index: usize| {
        let cells = known
            .iter()
            .map(|(_, ratios)| format!("{:+.1} %", change(ratios[index])));
        std::iter::once(names[index].clone()).chain(cells).collect()
    };
    let header = std::iter::once("policy".to_owned()).chain(
        known
            .iter()
            .map(|(figure, _)| format!("predicted\n{figure}")),
    );
    Tuning {
        header: header.collect(),
        rows: (1..names.len()).filter(changes).map(row).collect(),
        best,
        measured: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_live_setting_is_changed_within_its_range() {
        let policy = Policy::find(TUNED).unwrap();
        let all: Vec<String> = policy
            .settings
            .list()
            .flat_map(|(it, value)| changed(it, value))
            .collect();
        for name in &all {
            assert!(Policy::find(name).is_ok(), "{name}");
        }
        for expected in [
            "prefer=power",
            "prefer=performance",
            "slice_ns=1500000",
            "slice_ns=6000000",
        ] {
            assert!(
                all.contains(&format!("{TUNED}:{expected}")),
                "{expected}: {all:?}"
            );
        }
        assert!(!all.contains(&format!("{TUNED}:prefer=balanced")));
    }

    #[test]
    fn the_best_setting_is_that_of_the_first_figure_that_any_improves() {
        let names = ["equipoise", "equipoise:a=1", "equipoise:b=2"].map(str::to_owned);
        let latency = ("latency", vec![1.0, 0.97, 0.999]);
        let tuned = |time: Vec<f64>| judge(&names, &[("makespan", time), latency.clone()]);
        let best = |time: Vec<f64>| tuned(time).best;
        assert_eq!(best(vec![1.0, 1.2, 0.9]).as_deref(), Some("equipoise:b=2"));
        assert_eq!(
            best(vec![1.0, 1.2, 0.995]).as_deref(),
            Some("equipoise:a=1")
        );
        assert_eq!(best(Vec::new()).as_deref(), Some("equipoise:a=1"));
        assert_eq!(
            judge(&names, &[("makespan", vec![1.0, 1.0, 0.995])]).best,
            None
        );
        let rows = tuned(Vec::new()).rows;
        assert_eq!(rows.len(), 1, "b changes nothing by a per cent");
        assert_eq!(rows[0][1], "-3.0 %");
    }
}
