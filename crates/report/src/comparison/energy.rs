//! Energy by work, and the frequencies on which the energy depends.

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
