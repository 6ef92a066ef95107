//! The subject of a command: a load on a machine.

use crate::error::Error;
use lab::{Described, Recipe};
use machine::Machine;
use workload::Workload;

/// The recipe by which another process makes this machine and load.
pub fn recipe(machine: &str, workload: &str, cpunodebind: Option<&str>) -> Recipe {
    Recipe {
        machine: Described::Named(machine.to_owned()),
        workload: Described::Named(workload.to_owned()),
        nodes: cpunodebind.map(str::to_owned),
    }
}

pub fn options(machine: &str, workload: &str, cpunodebind: Option<&str>) -> Vec<String> {
    let options = [
        ("--machine", Some(machine)),
        ("--workload", Some(workload)),
        ("--cpunodebind", cpunodebind),
    ];
    let options = options
        .into_iter()
        .filter_map(|(name, value)| Some([name, value?]));
    options.flatten().map(str::to_owned).collect()
}

/// Finds the machine and the load by their names or files, binds the load to the NUMA nodes of
/// `cpunodebind`, and checks that the load fits the machine.
pub fn find(
    machine: &str,
    workload: &str,
    cpunodebind: Option<&str>,
) -> Result<(Machine, Box<dyn Workload>), Error> {
    let machine = Machine::find(machine)?;
    let mut workload = models::load(workload)?;
    if let Some(nodes) = cpunodebind {
        workload = workload::bind(workload, nodes);
    }
    workload.check(&machine)?;
    Ok((machine, workload))
}
