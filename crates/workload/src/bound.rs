//! A workload bound to some of the machine's CPUs, as by `numactl --cpunodebind`: its first tasks are bound, and their
//! children inherit the affinity. The rest of the machine exists but stays idle.

use crate::{CpuBound, Metric, Start, Workload};
use machine::input::BadInput;
use machine::{CpuMask, Machine};

struct Bound {
    workload: Box<dyn Workload>,
    nodes: String,
}

/// Binds `workload` to the CPUs of `nodes` (a list such as `0-3`), unless its tasks choose CPUs themselves.
pub fn bind(workload: Box<dyn Workload>, nodes: &str) -> Box<dyn Workload> {
    let nodes = nodes.to_owned();
    Box::new(Bound { workload, nodes })
}

impl Bound {
    fn cpus(&self, machine: &Machine) -> Result<CpuMask, Box<BadInput>> {
        machine.cpus_of_nodes(&self.nodes).map_err(|expected| {
            let message = format!("`{}` are not nodes of {}", self.nodes, machine.name);
            Box::new(BadInput::whole(message, expected))
        })
    }
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

    fn inner(&self) -> Option<&dyn Workload> {
        Some(&*self.workload)
    }

    /// The nodes have less than the machine has.
    fn cpu_bound(&self) -> Option<CpuBound> {
        None
    }

    fn check(&self, machine: &Machine) -> Result<(), Box<BadInput>> {
        self.cpus(machine)?;
        self.workload.check(machine)
    }

    fn of_run(&self, run: u32, count: u32) -> Option<Box<dyn Workload>> {
        Some(bind(self.workload.of_run(run, count)?, &self.nodes))
    }

    fn start(&self, machine: &Machine) -> Start {
        let mut start = self.workload.start(machine);
        let cpus = self.cpus(machine).expect("check() found the nodes");
        for task in &mut start.tasks {
            task.affinity.get_or_insert(cpus);
        }
        start
    }
}
