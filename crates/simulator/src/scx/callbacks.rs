//! The time that the scheduler's callbacks take.

use crate::kernel::Kernel;
use crate::per_cpu::PerCpu;
use machine::{CALLBACKS, Callbacks, Machine, time_for};

/// The costs of the callbacks on each CPU, for a scheduler whose callbacks take time.
pub struct Costs {
    /// The costs in the order of [`CALLBACKS`], in ns at the CPU's highest frequency.
    ns: PerCpu<[u64; CALLBACKS.len()]>,
    /// The time of callbacks that [`Kernel::spent`] includes, in ns.
    pub spent: u64,
}

impl Costs {
    pub fn new(machine: &Machine, callbacks: &Callbacks) -> Costs {
        let of_cpu = |cpu: usize| {
            let speed = machine.core_types[machine.cpus[cpu].core_type].speed;
            callbacks.0.map(|ns| time_for(ns, speed))
        };
        Costs {
            ns: PerCpu::new(machine.cpus.len(), of_cpu),
            spent: 0,
        }
    }
}

impl Kernel<'_> {
    /// Charges the running code for calling the callback `index` of [`CALLBACKS`].
    #[cold]
    pub fn charge_callback(&mut self, index: usize) {
        let cpu = self.this_cpu();
        if let Some(costs) = &mut self.callbacks {
            let ns = costs.ns[cpu][index];
            costs.spent += ns;
            self.counters.callbacks_ns += ns;
            self.bpf.table_mut().spent += ns;
        }
    }
}

/// The index of the callback `name` in [`CALLBACKS`]; a `_` at the end of `name`, which distinguishes it from a keyword
/// of Rust, is ignored.
pub const fn index(name: &str) -> Option<usize> {
    let mut index = 0;
    while index < CALLBACKS.len() {
        if is_name(CALLBACKS[index].as_bytes(), name.as_bytes()) {
            return Some(index);
        }
        index += 1;
    }
    None
}

const fn is_name(callback: &[u8], name: &[u8]) -> bool {
    let extra = name.len().wrapping_sub(callback.len());
    if extra > 1 || extra == 1 && name[callback.len()] != b'_' {
        return false;
    }
    let mut at = 0;
    while at < callback.len() {
        if callback[at] != name[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_are_found_by_their_names() {
        for (at, name) in CALLBACKS.iter().enumerate() {
            assert_eq!(index(name), Some(at));
        }
        assert_eq!(index("yield_"), index("yield"));
        for other in ["", "enable__", "enabled", "select", "init"] {
            assert_eq!(index(other), None, "{other}");
        }
    }
}
