//! Schedulers side by side on one machine with one workload.

use crate::runs::complete;
use crate::{
    Case, Change, Failure, Finding, Findings, Measure, Measured, Run, Runs, Scheduler, Statement,
    Verdict, Watch, measure, measures,
};
use machine::Machine;
use workload::{Goal, Workload};

/// A finished comparison.
pub struct Comparison {
    /// The machine.
    pub machine: Machine,
    /// The workload.
    pub workload: Box<dyn Workload>,
    /// The schedulers, the first of which is the baseline.
    pub schedulers: Vec<Scheduler>,
    /// The number of runs, and their seeds.
    pub runs: Runs,
    /// The number of requested runs, which is larger than the actual number if the comparison was stopped.
    pub asked: u32,
    /// The runs of each scheduler.
    pub measured: Vec<Measured>,
    /// The difference in energy, with all CPUs at their highest frequency, between the first scheduler and the
    /// scheduler that differs most from it; `None` unless the CPUs' frequencies followed the load under only one of the
    /// two.
    pub at_full_speed: Option<AtFullSpeed>,
    measures: Vec<Measure>,
}

/// A difference in energy, measured again with all CPUs at their highest frequency under the scheduler under which
/// frequencies followed the load.
#[derive(Clone, Debug)]
pub struct AtFullSpeed {
    /// The scheduler that differs from the first one.
    pub other: usize,
    /// The changed scheduler's name.
    pub changed: String,
    /// Is the first scheduler the changed one?
    pub is_first: bool,
    /// The change of the energy for the same work against the first scheduler.
    pub change: Change,
    /// Is the change significant, and large enough to matter?
    pub differs: bool,
    /// Is the change less than half of the difference with frequencies, or in the other direction? Then frequencies
    /// explain most of the difference.
    pub explains: bool,
}

impl Comparison {
    /// Runs the comparison. If the comparison is stopped, only the complete runs count ([`Comparison::asked`]).
    pub fn run(
        machine: Machine,
        workload: Box<dyn Workload>,
        schedulers: Vec<Scheduler>,
        runs: Runs,
        watch: Watch<'_>,
    ) -> Result<Comparison, Box<Failure>> {
        let mut comparison = Comparison {
            measures: measures(workload.as_ref(), &machine),
            machine,
            workload,
            schedulers,
            runs,
            asked: runs.count,
            measured: Vec::new(),
            at_full_speed: None,
        };
        comparison.measured = measure(&comparison.cases(), &runs, watch)?;
        comparison.runs.count = complete(&comparison.measured);
        comparison.at_full_speed = comparison.at_full_speed(watch)?;
        Ok(comparison)
    }

    /// Runs the test of a difference in energy, if there is one to test.
    fn at_full_speed(&self, watch: Watch<'_>) -> Result<Option<AtFullSpeed>, Box<Failure>> {
        let findings = self.findings();
        let Some(energy) = findings.verdict.of(Goal::Energy) else {
            return Ok(None);
        };
        let other = match energy.statement() {
            Statement::Best(named, _) | Statement::Baseline(Some((named, _))) => named[0],
            Statement::Better(one, _) => one,
            Statement::Same | Statement::Baseline(None) => return Ok(None),
        };
        let follows = |index: usize| {
            let changes = |run: &Run| run.counters.frequency_transitions > 0;
            self.measured[index].runs.iter().any(changes)
        };
        let follower = match (follows(0), follows(other)) {
            (true, false) => 0,
            (false, true) => other,
            _ => return Ok(None),
        };
        let Some(changed) = self.schedulers[follower].at_full_speed() else {
            return Ok(None);
        };
        let case = Case {
            machine: &self.machine,
            workload: self.workload.as_ref(),
            scheduler: &changed,
        };
        let watch = Watch {
            done: &|| (),
            ..watch
        };
        let measured = measure(&[case], &self.runs, watch)?;
        let Some(again) = measured
            .first()
            .filter(|it| it.runs.len() == self.runs.count as usize)
        else {
            return Ok(None);
        };
        let of = |index: usize| match index == follower {
            true => (changed.name(), again),
            false => (self.schedulers[index].name(), &self.measured[index]),
        };
        let pair = [of(0), of(other)];
        let rows = self
            .measures
            .iter()
            .map(|measure| Finding::of_runs(measure, &pair));
        let rows: Vec<Finding<'_>> = rows.collect();
        let verdict = Verdict::new(&rows, &pair.map(|(_, measured)| &*measured.runs));
        let test = verdict.of(Goal::Energy);
        let (Some(test), Some(before)) = (test, energy.change(0, other)) else {
            return Ok(None);
        };
        let log = |change: Change| (1.0 + change.mean_pct / 100.0).ln();
        Ok(test.change(0, 1).map(|change| AtFullSpeed {
            other,
            changed: changed.name().to_owned(),
            is_first: follower == 0,
            change,
            differs: test.tells_apart(),
            explains: 2.0 * log(change) * log(before).signum() < log(before).abs(),
        }))
    }

    /// The cases to run, one for each scheduler.
    pub fn cases(&self) -> Vec<Case<'_>> {
        let case = |scheduler| Case {
            machine: &self.machine,
            workload: self.workload.as_ref(),
            scheduler,
        };
        self.schedulers.iter().map(case).collect()
    }

    /// The results, measure by measure.
    pub fn findings(&self) -> Findings<'_> {
        Findings::new(self, &self.measures)
    }
}
