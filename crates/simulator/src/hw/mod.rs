//! Models of the machine's parts.

pub mod cores;
pub mod cpufreq;
pub mod energy;
pub mod idle_states;
pub mod lock;
pub mod memory;
mod menu;
pub mod network;
pub mod ramp;
pub mod turbo;
pub mod usb;

use machine::Machine;
use workload::{Direction, StreamId};

/// A scheduled change of the hardware.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The CPUs of a cpufreq policy have changed to another frequency.
    Frequency { policy: u32 },
    /// `scaling_max_freq` of the cpufreq policy of `cpu` becomes `khz`.
    MaxFreq { cpu: u32, khz: u32 },
    /// A part of the machine that contains `cpu` may enter an idle state. Only the trace needs this event.
    Power { cpu: u32 },
    /// The control unit of `package` checks the limits of its cores.
    Turbo { package: u32 },
    /// The frequency of a core has risen to its next OPP.
    Ramp { core: u32 },
    /// A packet of a network connection has passed the link.
    Packet { connection: u32 },
    /// The handler of the network adapter's interrupt for a connection completes.
    NetworkInterrupt { connection: u32 },
}

pub struct Hardware {
    pub cores: cores::Cores,
    pub idle_states: idle_states::IdleStates,
    pub cpufreq: cpufreq::Cpufreq,
    /// The control units of the packages, if the machine has turbo.
    pub turbo: Option<turbo::Turbo>,
    /// The cores' frequencies, if these change slowly.
    pub ramp: Option<ramp::Ramp>,
    /// The meters of power and busy times, if power is known or the machine has turbo.
    pub meters: Option<energy::Meters>,
    /// The costs of shared memory, on a machine that describes it.
    pub memory: Option<memory::Memory>,
    /// The network adapter, if the workload has connections.
    pub network: Option<network::Network>,
}

impl Hardware {
    /// The hardware of `machine`, with these connections over its network.
    pub fn new(machine: &Machine, connections: Vec<(StreamId, Direction)>) -> Hardware {
        let adapter = machine.network.clone().filter(|_| !connections.is_empty());
        let meters = energy::Meters::new(machine);
        let mut cores = cores::Cores::new(machine);
        Hardware {
            ramp: ramp::Ramp::new(machine, &mut cores),
            cores,
            idle_states: idle_states::IdleStates::new(machine),
            cpufreq: cpufreq::Cpufreq::new(machine),
            turbo: turbo::Turbo::new(machine).filter(|_| meters.is_some()),
            meters,
            memory: machine.numa.memory.as_ref().map(|memory| {
                let node = |cpu| machine.node_of(cpu) as u16;
                memory::Memory::new(memory, (0..machine.cpus.len()).map(node).collect())
            }),
            network: adapter.map(|adapter| network::Network::new(adapter, connections)),
        }
    }

    /// May the hardware wake a task by itself?
    pub fn is_active(&self) -> bool {
        self.network
            .as_ref()
            .is_some_and(|network| network.is_active())
    }
}
