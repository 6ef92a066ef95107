//! The ranges of values in machine files. A value outside of its range is probably in the wrong unit.

use std::ops::RangeInclusive;

/// Frequencies, 1 MHz to 10 GHz.
pub const KHZ: RangeInclusive<u32> = 1_000..=10_000_000;
/// The limit of a core type's highest frequency, in kHz; a lower number is probably in MHz. Even the slowest CPUs that
/// run Linux are faster: an OpenRISC core has 20 MHz (arch/openrisc/boot/dts/or1ksim.dts). The slower OPPs of a CPU may
/// have less, such as 1 MHz (drivers/cpufreq/elanfreq.c).
pub const SLOWEST_KHZ: u32 = 10_000;
/// Voltages, 0.1 V to 5 V.
pub const MICROVOLT: RangeInclusive<u32> = 100_000..=5_000_000;
/// Powers, up to 10 kW.
pub const MW: RangeInclusive<u32> = 0..=10_000_000;
/// Energies, up to 1 J.
pub const ENTRY_UJ: RangeInclusive<u32> = 0..=1_000_000;
/// Costs and latencies, up to a second.
pub const COST_NS: RangeInclusive<u64> = 0..=1_000_000_000;
/// The cache levels, L1 to L4.
pub const CACHE_LEVEL: RangeInclusive<u32> = 1..=4;
/// Cache sizes, up to 16 GiB.
pub const SIZE_KIB: RangeInclusive<u32> = 1..=16 << 20;
/// The hardware threads of a core (POWER8 has eight).
pub const THREADS: RangeInclusive<usize> = 1..=8;
/// The maximum number of levels of CPUs, from cores to nodes, in a scheduler's tables (`MAX_LEVELS` in
/// scheduler/intf.h).
pub const MAX_LEVELS: usize = 8;
/// The ratio of a capacity to the speed, or its inverse, from which the capacity is probably in another unit, or has a
/// wrong number of digits.
pub const CAPACITY_TO_SPEED: f64 = 10.0;
