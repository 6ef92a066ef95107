//! The machine's parts, as models.

pub mod cores;
pub mod cpufreq;
pub mod energy;
pub mod idle_states;
pub mod lock;
pub mod memory;
pub mod network;
pub mod turbo;
pub mod usb;

use machine::Machine;
use workload::{Direction, StreamId};

/// Something that the hardware does by itself, at its time.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The CPUs of a cpufreq policy have changed to another frequency.
    Frequency { policy: u32 },
    /// A part of the machine that `cpu` is in may enter an idle state; only for the trace.
    Power { cpu: u32 },
    /// The control unit of `package` looks what its cores may do.
    Turbo { package: u32 },
}

/// The machine.
pub struct Hardware {
    pub cores: cores::Cores,
    pub idle_states: idle_states::IdleStates,
    pub cpufreq: cpufreq::Cpufreq,
    /// Control units of the packages, if it has turbo and its power is known.
    pub turbo: Option<turbo::Turbo>,
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
        let meters = energy::Meters::new(machine);
        Hardware {
            cores: cores::Cores::new(machine),
            idle_states: idle_states::IdleStates::new(machine),
            cpufreq: cpufreq::Cpufreq::new(machine),
            turbo: turbo::Turbo::new(machine).filter(|_| meters.is_some()),
            meters,
            memory: memory::Memory::new(machine),
            connections: network::Connection::all(connections),
        }
    }
}
