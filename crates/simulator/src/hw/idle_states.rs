//! cpuidle states: an idle CPU has to leave its state before it can do anything.

use crate::hw::menu::Menu;
use machine::{IdleGovernor, IdleState, Machine};

pub struct IdleStates {
    core_types: Vec<u32>,
    /// For each core type, its idle states from the shallowest to the deepest.
    states: Vec<Vec<IdleState>>,
    /// For each CPU, its governor; empty if the end of each idle period is assumed to be known.
    menus: Vec<Menu>,
    /// For each CPU, if there are governors, the hardware threads of its core.
    threads: Vec<Box<[usize]>>,
}

impl IdleStates {
    pub fn new(machine: &Machine) -> IdleStates {
        let (cpus, types) = (machine.cpus.iter(), machine.core_types.iter());
        let governed = match machine.idle_governor {
            IdleGovernor::Exact => 0,
            IdleGovernor::Menu => machine.cpus.len(),
        };
        let threads = |cpu| machine.siblings(cpu).iter().collect();
        IdleStates {
            core_types: cpus.map(|cpu| cpu.core_type as u32).collect(),
            states: types.map(|core| core.idle_states.clone()).collect(),
            menus: vec![Menu::default(); governed],
            threads: (0..governed).map(threads).collect(),
        }
    }

    /// Chooses an idle state for `cpu`, which idles from now on.
    #[inline]
    pub fn enter(&mut self, cpu: usize) {
        if let Some(menu) = self.menus.get_mut(cpu) {
            menu.choose(&self.states[self.core_types[cpu] as usize]);
        }
    }

    /// Ends the idle state of `cpu`, which gets a task. If `cpu` idled, it did so from `since` until `now`. Ticks come
    /// every `tick_ns`.
    #[inline]
    pub fn left(&mut self, cpu: usize, since: u64, now: u64, tick_ns: u64) {
        if let Some(menu) = self.menus.get_mut(cpu) {
            menu.idled(since, now, tick_ns);
        }
    }

    /// Passes the number of runnable tasks at a tick of `cpu` to its governor.
    #[inline]
    pub fn tick(&mut self, cpu: usize, runnable: u32) {
        if let Some(menu) = self.menus.get_mut(cpu) {
            menu.tick(runnable);
        }
    }

    /// The exit latency, in ns, of the state that `cpu` has entered after `slept` ns. A core is in the shallowest of
    /// the states that its threads have chosen: while one thread is busy, the core is in no state deeper than the first
    /// (Intel's datasheets: thread and core C-states).
    pub fn exit_ns(&self, cpu: usize, slept: u64) -> u64 {
        let states = &self.states[self.core_types[cpu] as usize];
        if let Some(threads) = self.threads.get(cpu) {
            let first = states.first().map_or(0, |state| state.exit_latency_ns);
            let exit = |&cpu: &usize| self.menus[cpu].exit_ns().unwrap_or(first);
            return threads.iter().map(exit).min().unwrap_or(0);
        }
        states
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
            menus: Vec::new(),
            threads: Vec::new(),
        };
        let slept = [0, 9, 10, 99, 100, 999, 1000, u64::MAX];
        let exits = slept.map(|slept| idle_states.exit_ns(0, slept));
        assert_eq!(exits, [0, 0, 1, 1, 20, 20, 50, 50]);
        assert_eq!(idle_states.exit_ns(1, u64::MAX), 0);
    }
}
