//! What the scheduler counted.

use crate::layout;

/// Sums over all CPUs of the scheduler's `counters`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Passes of load balancing over a domain, of all kinds.
    pub balance_calls: u64,
    /// Time in them, ns.
    pub balance_ns: u64,
    /// Tasks that they pulled.
    pub pulled: u64,
    /// Times that a CPU ran out of work and looked for some.
    pub newidle_calls: u64,
    /// Times that it did not look, because it usually has work again soon.
    pub newidle_skipped: u64,
    /// Times that it did not look, because it runs out of work too often.
    pub newidle_limited: u64,
    /// Tasks that the looking brought.
    pub newidle_pulled: u64,
    /// Time that the looking took, ns.
    pub newidle_ns: u64,
    /// Running tasks asked for from another CPU.
    pub active_balances: u64,
    /// Those of them that were too heavy for their CPU.
    pub misfit_moves: u64,
    /// Idle CPUs asked to balance for all idle CPUs.
    pub nohz_kicks: u64,
    /// Tasks that packing placed.
    pub power_placed: u64,
    /// Passes of load balancing that were to empty a group.
    pub power_balances: u64,
    /// Frequencies asked for.
    pub frequency_requests: u64,
    /// The sum of what was asked for, of 1024 for the highest of the largest CPU.
    pub frequency_requested: u64,
    /// Tasks that went from a slow to a fast CPU by a policy for both.
    pub up_migrations: u64,
    /// Tasks that went from a fast to a slow CPU by one.
    pub down_migrations: u64,
    /// Pairs of tasks on a fast and a slow CPU that changed places.
    pub swaps: u64,
}

impl Counters {
    /// The scheduler's global variable that has them.
    pub const SYMBOL: &str = "counters";

    /// The sums of what is in [`Counters::SYMBOL`]; `None` if `bytes` are not as long as that.
    pub fn from_bytes(bytes: &[u8]) -> Option<Counters> {
        let per_cpu = layout::counters(bytes)?;
        Some(
            per_cpu
                .iter()
                .fold(Counters::default(), |sum, cpu| Counters {
                    balance_calls: sum.balance_calls + cpu.balance_calls,
                    balance_ns: sum.balance_ns + cpu.balance_ns,
                    pulled: sum.pulled + cpu.pulled,
                    newidle_calls: sum.newidle_calls + cpu.newidle_calls,
                    newidle_skipped: sum.newidle_skipped + cpu.newidle_skipped,
                    newidle_limited: sum.newidle_limited + cpu.newidle_limited,
                    newidle_pulled: sum.newidle_pulled + cpu.newidle_pulled,
                    newidle_ns: sum.newidle_ns + cpu.newidle_ns,
                    active_balances: sum.active_balances + cpu.active_balances,
                    misfit_moves: sum.misfit_moves + cpu.misfit_moves,
                    nohz_kicks: sum.nohz_kicks + cpu.nohz_kicks,
                    power_placed: sum.power_placed + cpu.power_placed,
                    power_balances: sum.power_balances + cpu.power_balances,
                    frequency_requests: sum.frequency_requests + cpu.frequency_requests,
                    frequency_requested: sum.frequency_requested + cpu.frequency_requested,
                    up_migrations: sum.up_migrations + cpu.up_migrations,
                    down_migrations: sum.down_migrations + cpu.down_migrations,
                    swaps: sum.swaps + cpu.swaps,
                }),
        )
    }
}
