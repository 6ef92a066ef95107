//! Finds whether each CPU of a virtual machine has a CPU of the host to itself.

use super::pin;
use crate::found::Found;
use machine::CpuMask;
use std::collections::BTreeSet;
use std::fs;
use std::hint::black_box;
use std::io;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The length of a measurement. The turns of virtual CPUs are far shorter.
const TIME: Duration = Duration::from_millis(50);
/// The rounds of a loop between two readings of the clock.
const ROUNDS: u32 = 1000;
/// If CPUs together do less than this share of the work of the same number of single CPUs, they count as fewer CPUs.
const LEAST_SHARE: f64 = 0.75;

/// The number of the host's CPUs that execute the cores of this virtual machine, if there are fewer of these CPUs than
/// cores.
pub fn cpus(found: &Found) -> io::Result<Option<u32>> {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut words = info.split_whitespace();
    if !words.any(|word| word == "hypervisor") {
        return Ok(None);
    }
    // Use one CPU of each core, because hardware threads share a core anyway.
    let cores: BTreeSet<usize> = found.cpus.iter().map(first).collect();
    let cores: Vec<usize> = cores.into_iter().collect();
    let alone = rounds(&cores[..cores.len().min(1)])?;
    Ok(fewer(cores.len(), rounds(&cores)? / alone))
}

fn first((&cpu, of): (&usize, &crate::found::Cpu)) -> usize {
    let siblings: CpuMask = of.siblings;
    siblings.first().unwrap_or(cpu)
}

/// The number of CPUs that do the work of `sum` single CPUs, if this number is below `cores`.
fn fewer(cores: usize, sum: f64) -> Option<u32> {
    (sum < LEAST_SHARE * cores as f64).then(|| (sum.round() as u32).max(1))
}

/// The rounds per second of loops that run on all of these CPUs at the same time.
fn rounds(cpus: &[usize]) -> io::Result<f64> {
    let barrier = &Barrier::new(cpus.len());
    let on = |cpu: usize| {
        move || {
            let pinned = pin(&[cpu]);
            barrier.wait();
            let (began, mut rounds) = (Instant::now(), 0_u64);
            while began.elapsed() < TIME {
                (0..ROUNDS).for_each(|it| {
                    black_box(it);
                });
                rounds += u64::from(ROUNDS);
            }
            pinned.map(|()| rounds as f64 / began.elapsed().as_secs_f64())
        }
    };
    std::thread::scope(|scope| {
        let loops: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(on(cpu))).collect();
        let ended = loops.into_iter().map(|it| it.join());
        ended.map(|it| it.unwrap_or(Ok(0.0))).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::fewer;

    #[test]
    fn virtual_cpus_that_share_a_cpu_do_the_work_of_one() {
        assert_eq!(fewer(2, 1.02), Some(1));
        assert_eq!(fewer(4, 2.1), Some(2));
        assert_eq!(fewer(4, 0.4), Some(1));
        assert_eq!(fewer(4, 3.4), None);
        assert_eq!(fewer(1, 1.0), None);
    }
}
