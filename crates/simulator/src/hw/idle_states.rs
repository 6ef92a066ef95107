//! cpuidle states: an idle CPU enters one after another as time passes, and has to leave the one that it is in
//! before it does anything.

use machine::{IdleState, Machine};

/// The idle states of a machine's CPUs.
pub struct IdleStates {
    /// By CPU: its core type.
    core_types: Vec<u32>,
    /// By core type, from the shallowest to the deepest.
    states: Vec<Vec<IdleState>>,
}

impl IdleStates {
    pub fn new(machine: &Machine) -> IdleStates {
        let (cpus, types) = (machine.cpus.iter(), machine.core_types.iter());
        IdleStates {
            core_types: cpus.map(|cpu| cpu.core_type as u32).collect(),
            states: types.map(|core| core.idle_states.clone()).collect(),
        }
    }

    /// How long leaving the state takes that `cpu` has entered in `slept` ns, ns.
    pub fn exit_ns(&self, cpu: usize, slept: u64) -> u64 {
        self.states[self.core_types[cpu] as usize]
            .iter()
            .take_while(|state| state.min_residency_ns <= slept)
            .last()
            .map_or(0, |state| state.exit_latency_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_state_that_was_entered_is_left() {
        let machine = Machine::find("hikey-6220").unwrap();
        let states = IdleStates::new(&machine);
        for cpu in [0, machine.cpus.len() - 1] {
            let of = &machine.core_types[machine.cpus[cpu].core_type].idle_states;
            assert!(of.len() > 1);
            let mut exit_ns = 0;
            for state in of {
                if state.min_residency_ns > 0 {
                    assert_eq!(states.exit_ns(cpu, state.min_residency_ns - 1), exit_ns);
                }
                exit_ns = state.exit_latency_ns;
                assert_eq!(states.exit_ns(cpu, state.min_residency_ns), exit_ns);
            }
            assert_eq!(states.exit_ns(cpu, u64::MAX), exit_ns);
        }
    }
}
