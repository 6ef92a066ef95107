//! A workload that is kept to some of the machine's CPUs, as `numactl --cpunodebind` does: its first
//! tasks are bound, and their children inherit it. The rest of the machine is there, and idle.

use crate::{Metric, Start, Workload};
use machine::input::BadInput;
use machine::{CpuMask, Machine};

struct Bound {
    workload: Box<dyn Workload>,
    cpus: CpuMask,
}

/// `workload` on `cpus` alone, as far as its tasks do not choose CPUs themselves.
pub fn bind(workload: Box<dyn Workload>, cpus: CpuMask) -> Box<dyn Workload> {
    Box::new(Bound { workload, cpus })
}

impl Workload for Bound {
    fn name(&self) -> &str {
        self.workload.name()
    }

    fn description(&self) -> &str {
        self.workload.description()
    }

    fn metrics(&self) -> &[Metric] {
        self.workload.metrics()
    }

    fn check(&self, machine: &Machine) -> Result<(), Box<BadInput>> {
        self.workload.check(machine)
    }

    fn start(&self, machine: &Machine) -> Start {
        let mut start = self.workload.start(machine);
        for task in &mut start.tasks {
            task.affinity.get_or_insert(self.cpus);
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_tasks_are_bound_unless_they_choose() {
        let machine = crate::fake::machine(4);
        let cpus = CpuMask::one(2);
        for name in ["hackbench", "rt-and-fair"] {
            let free = crate::load(name).unwrap().start(&machine).tasks;
            let bound = bind(crate::load(name).unwrap(), cpus).start(&machine).tasks;
            assert_eq!(free.len(), bound.len());
            for (free, bound) in free.iter().zip(&bound) {
                assert_eq!(bound.affinity, Some(free.affinity.unwrap_or(cpus)));
            }
        }
    }
}
