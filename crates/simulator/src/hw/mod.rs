//! The machine's parts, as models.

pub mod cpufreq;
pub mod energy;
pub mod lock;
pub mod memory;
pub mod network;
pub mod turbo;
pub mod usb;

use machine::Machine;
use workload::{Direction, StreamId};

/// The machine besides its CPUs.
pub struct Hardware {
    /// cpufreq's policies; none if frequencies never change.
    pub policies: Vec<cpufreq::Policy>,
    /// Control units of the packages; none without turbo.
    pub pcus: Vec<turbo::Pcu>,
    /// What the machine's parts draw, if that is known.
    pub meters: Option<energy::Meters>,
    /// What sharing memory costs, on a machine that describes it.
    pub memory: Option<memory::Memory>,
    /// What goes over the network.
    pub connections: Vec<network::Connection>,
}

impl Hardware {
    /// That of `machine`, with these connections over its network.
    pub fn new(machine: &Machine, connections: Vec<(StreamId, Direction)>) -> Hardware {
        Hardware {
            policies: cpufreq::Policy::all(machine),
            pcus: turbo::Pcu::all(machine),
            meters: energy::Meters::new(machine),
            memory: memory::Memory::new(machine),
            connections: network::Connection::all(connections),
        }
    }
}
