//! Schedulers side by side on one machine with one workload.

use crate::runs::complete;
use crate::{
    Case, Failure, Findings, Measure, Measured, Runs, Scheduler, Watch, measure, measures,
};
use machine::Machine;
use workload::Workload;

/// A finished comparison.
pub struct Comparison {
    /// The machine.
    pub machine: Machine,
    /// The workload.
    pub workload: Box<dyn Workload>,
    /// The schedulers; the first is the baseline.
    pub schedulers: Vec<Scheduler>,
    /// The number of runs, and their seeds.
    pub runs: Runs,
    /// The number of requested runs, which is larger than the actual number if they were stopped.
    pub asked: u32,
    /// The runs of each scheduler.
    pub measured: Vec<Measured>,
    /// The compared measures.
    measures: Vec<Measure>,
}

impl Comparison {
    /// Runs the comparison. If it is stopped, only the complete runs count ([`Comparison::asked`]).
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
        };
        comparison.measured = measure(&comparison.cases(), &runs, watch)?;
        comparison.runs.count = complete(&comparison.measured);
        Ok(comparison)
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
