//! Energy by work, and the frequencies on which the energy depends.

use super::LEAST_WORK_PCT;
use lab::{Comparison, GoalVerdict, Measured, Results, mean_interval};
use workload::Goal;

/// The energy by the work done, as a column. If one measure counts the loops or responses, the energy is that of each;
/// otherwise, if the work differs, it is scaled to the work done under the first scheduler.
pub(super) fn for_work(
    findings: &Results<'_>,
    verdict: &GoalVerdict,
    by_work: bool,
) -> Option<(String, Vec<Option<f64>>)> {
    let mut rows = findings.rows.iter();
    let energy = rows.find(|row| row.measure.decides() == Some(Goal::Energy))?;
    let mean = |index: usize| mean_interval(&energy.entries[index].judged()?).map(|it| it.0);
    let schedulers = 0..energy.entries.len();
    let counted = lab::counted_work(&findings.rows);
    match counted.as_slice() {
        // A measure without `/` in its name is of the whole load. If it is the load's time, it counts one job, whose
        // energy is that of the run.
        [work] if work.measure.counts_work() && work.measure.metric.name.contains('/') => {
            let unit = match work.measure.metric.role.goal() {
                Some(Goal::Latency) => "response",
                _ => "loop",
            };
            let of = |index: usize| Some(1e3 * mean(index)? / work.entries[index].completed()?);
            let values = schedulers.map(|it| of(it).filter(|value| value.is_finite()));
            Some((format!("for each\n{unit}\nmJ"), values.collect()))
        }
        _ if by_work => {
            let of = |index: usize| {
                let work = 1.0 + verdict.work_pct(index, 0)? / 100.0;
                Some(mean(index)? / work)
            };
            Some((
                "for the\nsame work\nJ".to_owned(),
                schedulers.map(of).collect(),
            ))
        }
        _ => None,
    }
}

/// Is `verdict` about energy, and did the schedulers do different work?
pub(super) fn differs_by_work(verdict: &GoalVerdict) -> bool {
    let mut others = 1..verdict.standings.len();
    let differs = |pct: f64| pct.abs() >= LEAST_WORK_PCT;
    verdict.goal == Goal::Energy
        && others.any(|index| verdict.work_pct(index, 0).is_some_and(differs))
}

/// For each scheduler, the energy for the first scheduler's work relative to the energy of a run, if the work differs and
/// is known.
pub(super) fn factors_for_work(verdict: &GoalVerdict) -> Option<Vec<f64>> {
    let all = 0..verdict.standings.len();
    let factor = |index| Some(1.0 / (1.0 + verdict.work_pct(index, 0)? / 100.0));
    let factors: Option<Vec<f64>> = all.map(factor).collect();
    factors.filter(|_| differs_by_work(verdict))
}

/// Says which policies ran at full speed and which at a speed that followed the load, if there are both.
pub(super) fn frequencies(comparison: &Comparison) -> Option<String> {
    comparison.machine.power.as_ref()?;
    let changes = |measured: &Measured| {
        let any = |run: &lab::Run| run.counters.frequency_transitions > 0;
        measured.runs.iter().any(any)
    };
    let (change, never): (Vec<_>, Vec<_>) = comparison
        .schedulers
        .iter()
        .zip(&comparison.measured)
        .partition(|(_, measured)| changes(measured));
    if change.is_empty() || never.is_empty() {
        return None;
    }
    let names = |of: &[(&lab::Scheduler, &Measured)]| {
        let names: Vec<&str> = of.iter().map(|(scheduler, _)| scheduler.name()).collect();
        names.join(", ")
    };
    Some(format!(
        "energy: the CPUs' frequencies followed the load under {}, and were always the highest under {}.",
        names(&change),
        names(&never)
    ))
}
