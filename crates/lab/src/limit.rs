//! The best possible time on a machine, under any scheduler.

use machine::{CpuMask, Machine, time_for};
use workload::CpuBound;

/// The time of CPU-bound work, in seconds, if the machine's `parallelism` best CPUs do nothing else
/// from beginning to end: the work divided by the sum of their speeds. A core's second hardware
/// thread counts only by the throughput that it adds. The best CPU does the serial part alone.
pub fn limit_s(work: &CpuBound, machine: &Machine) -> f64 {
    limit_on(work, machine, &machine.all_cpus())
}

/// As [`limit_s`], for work that may use only `cpus`.
pub(crate) fn limit_on(work: &CpuBound, machine: &Machine, cpus: &CpuMask) -> f64 {
    let mut speeds: Vec<u32> = cpus
        .iter()
        .map(|cpu| {
            let before = machine
                .siblings(cpu)
                .and(cpus)
                .iter()
                .take_while(|&other| other < cpu)
                .count();
            let core = |busy: usize| machine.thread_speed(cpu, busy) * busy as u32;
            core(before + 1) - core(before)
        })
        .collect();
    speeds.sort_unstable_by(|a, b| b.cmp(a));
    let total: u64 = speeds
        .iter()
        .take(work.parallelism)
        .map(|&speed| u64::from(speed))
        .sum();
    // MAX_CPUS CPUs of full speed have a total of 2^32, which does not fit into 32 bits and is reduced by one.
    let ns = time_for(work.work, u32::try_from(total).unwrap_or(u32::MAX).max(1));
    let serial_ns = time_for(work.serial, speeds.first().copied().unwrap_or(1).max(1));
    (serial_ns + ns) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(parallelism: usize, serial: u64) -> CpuBound {
        CpuBound {
            work: 10_000_000_000,
            serial,
            parallelism,
            metric: 0,
        }
    }

    #[test]
    fn sums_the_fastest() {
        let tc2 = Machine::find("tc2").unwrap();
        let limit = |parallelism| limit_s(&bound(parallelism, 0), &tc2);
        assert_eq!(limit(1), 10.0);
        assert_eq!(limit(2), 5.0);
        let little = 16.47 / 33.5;
        assert!((limit(5) - 10.0 / (2.0 + 3.0 * little)).abs() < 1e-4);
        assert_eq!(limit(5), limit(100));
    }

    #[test]
    fn a_serial_part_is_for_the_fastest_alone() {
        let tc2 = Machine::find("tc2").unwrap();
        assert_eq!(limit_s(&bound(2, 3_000_000_000), &tc2), 8.0);
    }

    #[test]
    fn a_second_thread_is_worth_what_it_adds() {
        let machine = Machine::find("smt-4").unwrap();
        let limit = |parallelism| limit_s(&bound(parallelism, 0), &machine);
        assert_eq!(limit(4), 2.5);
        assert!((limit(5) - 10.0 / 4.25).abs() < 1e-4);
        assert!((limit(8) - 2.0).abs() < 1e-4);
    }
}
