//! cpuidle states: an idle CPU enters one after another as time passes, and has to leave the
//! current one before it can do anything.

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

    /// The exit latency of the state that `cpu` has entered after `slept` ns, ns.
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
        let state = |min_residency_ns, exit_latency_ns| IdleState {
            min_residency_ns,
            exit_latency_ns,
            ..IdleState::default()
        };
        let idle_states = IdleStates {
            core_types: vec![1, 0],
            states: vec![vec![], vec![state(10, 1), state(100, 20), state(1000, 50)]],
        };
        let slept = [0, 9, 10, 99, 100, 999, 1000, u64::MAX];
        let exits = slept.map(|slept| idle_states.exit_ns(0, slept));
        assert_eq!(exits, [0, 0, 1, 1, 20, 20, 50, 50]);
        assert_eq!(idle_states.exit_ns(1, u64::MAX), 0);
    }
}
