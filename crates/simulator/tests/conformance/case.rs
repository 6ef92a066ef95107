//! A random machine with a random load, for property tests and the soak.

use machine::Machine;
use machine::arbitrary::machine;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use workload::arbitrary::{MAX_TASKS, workload};

#[derive(Clone, Debug)]
pub struct Case {
    pub machine: Machine,
    /// The plan of the random workload.
    pub workload_seed: u64,
    pub tasks: usize,
    pub seed: u64,
}

impl Case {
    pub fn workload(&self) -> Box<dyn workload::Workload> {
        workload(self.workload_seed, self.tasks, &self.machine.all_cpus())
    }
}

pub fn case() -> impl Strategy<Value = Case> {
    (machine(), any::<u64>(), 1..=MAX_TASKS, any::<u64>()).prop_map(
        |(machine, workload_seed, tasks, seed)| Case {
            machine,
            workload_seed,
            tasks,
            seed,
        },
    )
}

/// Runs `cases` cases if `PROPTEST_CASES` is 256, its default, and proportionally more or fewer if it is set. By
/// default the cases are the same in every run, so that a change is judged by its own faults. If `PROPTEST_CASES` is
/// above 256, all cases are new in each run.
pub fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let rng_seed = match default.rng_seed {
        RngSeed::Random if default.cases <= 256 => RngSeed::Fixed(0),
        chosen => chosen,
    };
    ProptestConfig {
        rng_seed,
        cases: (cases * default.cases).div_ceil(256),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..default
    }
}
