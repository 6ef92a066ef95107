//! Costs that sysfs does not have: the kernel's time for switches, wakeups and ticks on this
//! computer, measured with small programs. Each cost is the median of many measurements. Other load
//! on the computer makes the costs useless.

mod host;

use crate::found::{Found, Measured};
use rustix::io::{read, write};
use rustix::pipe::pipe;
use rustix::process::nice;
use rustix::thread::{
    CpuSet, clock_nanosleep_absolute, sched_getaffinity, sched_setaffinity, sched_yield,
    set_current_timer_slack,
};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::hint::black_box;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// The number of rounds that are timed together; [`BATCHES`] is the number of such measurements.
const ROUNDS: u32 = 200;
const BATCHES: usize = 15;
/// The number of timers; [`TIMER_NS`] is the delay until they expire.
const TIMERS: usize = 200;
const TIMER_NS: u64 = 500_000;
/// The time for which ticks are observed; [`LEAST_TICK_NS`] is the minimal duration of a tick.
const TICKS: Duration = Duration::from_millis(400);
const LEAST_TICK_NS: u64 = 300;
/// The value for costs that are too small to be measured.
const LEAST_NS: u64 = 100;
/// The number of lines of the buffer that is fetched from another CPU; [`WORDS`] is the number of words per line.
const LINES: usize = 1024;
const WORDS: usize = machine::CACHE_LINE as usize / size_of::<u64>();
const NS_PER_S: u64 = 1_000_000_000;

/// Adds measurements to `found`, which must describe this computer. Each kind of CPU is measured on its first CPU.
pub fn calibrate(found: &mut Found) -> io::Result<()> {
    unbound_afterwards(|| measure_all(found))
}

fn unbound_afterwards<T>(what: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = sched_getaffinity(None)?;
    let result = what();
    sched_setaffinity(None, &before)?;
    result
}

fn measure_all(found: &mut Found) -> io::Result<()> {
    let numbers: Vec<usize> = found.cpus.keys().copied().collect();
    for number in numbers {
        if found.cpus[&number].costs.is_some() {
            continue;
        }
        let costs = measure(found, number)?;
        let like = found.cpus[&number].clone();
        let same = found.cpus.values_mut().filter(|cpu| {
            (&cpu.kind, &cpu.opps, &cpu.idle_states, &cpu.measures)
                == (&like.kind, &like.opps, &like.idle_states, &like.measures)
        });
        same.for_each(|cpu| cpu.costs = Some(costs));
    }
    found.host_cpus = host::cpus(found)?;
    Ok(())
}

/// The time of a wakeup and the switch after it on CPU `cpu`, in ns. It is half of a round trip of a byte through two
/// pipes, without the time of the pipes. The sum does not depend on how the kernel divides the time between the wakeup
/// and the switch.
pub fn wakeup_and_switch(cpu: usize) -> io::Result<u64> {
    unbound_afterwards(|| {
        pin(&[cpu])?;
        Ok(ping_pong(cpu, cpu)?.saturating_sub(transfer()?))
    })
}

fn measure(found: &Found, cpu: usize) -> io::Result<Measured> {
    pin(&[cpu])?;
    let transfer = transfer()?;
    let one_way = ping_pong(cpu, cpu)?;
    let together = one_way.saturating_sub(transfer).max(2 * LEAST_NS);
    // Neither cost can exceed their sum.
    let context_switch_ns = switch(cpu)?.clamp(LEAST_NS, together - LEAST_NS);
    let wakeup_ns = together - context_switch_ns;
    let exit = found.cpus[&cpu].idle_states.first();
    let exit = exit.map_or(0, |state| state.exit_latency_ns);
    // The simulated kernel sends the IPI when a wakeup begins, so the IPI's time includes the wakeup's.
    let ipi = |other: usize| {
        let beyond = transfer + context_switch_ns + exit;
        let one_way = ping_pong(cpu, other)?;
        io::Result::Ok(one_way.saturating_sub(beyond).max(LEAST_NS))
    };
    let (near_cpu, far_cpu) = others(found, cpu);
    let (near, far) = (
        near_cpu.map(ipi).transpose()?,
        far_cpu.map(ipi).transpose()?,
    );
    pin(&[cpu])?;
    let timer = timer(cpu)?.saturating_sub(wakeup_ns + context_switch_ns);
    let refill = |other: Option<usize>| other.map(|other| refill(cpu, other)).transpose();
    let (refill_near, refill_far) = (refill(near_cpu)?, refill(far_cpu)?);
    Ok(Measured {
        context_switch_ns,
        wakeup_ns,
        ipi_near_ns: near,
        ipi_far_ns: far.or(near),
        refill_near_ns: refill_near,
        refill_far_ns: refill_far.or(refill_near),
        tick_ns: tick(found.hz),
        timer_irq_ns: timer.max(LEAST_NS),
    })
}

/// A CPU with the same last-level cache as `cpu`, and a CPU with another last-level cache. Neither is a hardware thread
/// of the core of `cpu`.
fn others(found: &Found, cpu: usize) -> (Option<usize>, Option<usize>) {
    let caches = found.caches.iter();
    let mine = caches
        .filter(|cache| cache.cpus.contains(cpu))
        .max_by_key(|cache| cache.level);
    let near = |other: usize| mine.is_none_or(|cache| cache.cpus.contains(other));
    let siblings = found.cpus[&cpu].siblings;
    let others = || {
        let all = found.cpus.keys().copied();
        all.filter(|&other| other != cpu && !siblings.contains(other))
    };
    (
        others().find(|&other| near(other)),
        others().find(|&other| !near(other)),
    )
}

fn pin(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter()
        .filter(|&&cpu| cpu < CpuSet::MAX_CPU)
        .for_each(|&cpu| set.set(cpu));
    Ok(sched_setaffinity(None, &set)?)
}

fn time(mut what: impl FnMut() -> io::Result<()>) -> io::Result<u64> {
    let mut all = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let since = Instant::now();
        what()?;
        all.push(since.elapsed().as_nanos() as u64 / u64::from(ROUNDS));
    }
    Ok(median(all))
}

fn median(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

fn transfer() -> io::Result<u64> {
    let (output, input) = pipe()?;
    time(|| {
        for _ in 0..ROUNDS {
            write(&input, &[0])?;
            read(&output, &mut [0])?;
        }
        Ok(())
    })
}

/// The time of sending a byte through a pipe from a thread on CPU `a` to a waiting thread on CPU `b`, or back.
fn ping_pong(a: usize, b: usize) -> io::Result<u64> {
    let (there, back) = (pipe()?, pipe()?);
    std::thread::scope(|scope| {
        let echo = |from: OwnedFd, to: OwnedFd| {
            pin(&[b])?;
            while read(&from, &mut [0])? == 1 {
                write(&to, &[0])?;
            }
            io::Result::Ok(())
        };
        let other = scope.spawn(move || echo(there.0, back.1));
        pin(&[a])?;
        let rounds = time(|| {
            for _ in 0..ROUNDS {
                write(there.1.as_fd(), &[0])?;
                read(back.0.as_fd(), &mut [0])?;
            }
            Ok(())
        });
        drop(there.1);
        let ended = other.join().unwrap_or(Ok(()));
        let both = rounds?;
        ended.map(|()| both / 2)
    })
}

/// The time of a switch between two threads that yield to each other.
fn switch(cpu: usize) -> io::Result<u64> {
    use std::sync::atomic::{AtomicBool, Ordering};
    let alone = time(yields)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            pin(&[cpu])?;
            while !done.load(Ordering::Relaxed) {
                sched_yield();
            }
            io::Result::Ok(())
        });
        let mut all = Vec::with_capacity(BATCHES);
        for _ in 0..BATCHES {
            let (since, switches) = (Instant::now(), switches());
            yields()?;
            let ns = since.elapsed().as_nanos() as u64;
            // The other thread has usually yielded as often as this thread.
            let both = 2 * self::switches().saturating_sub(switches);
            let own = alone * (u64::from(ROUNDS) + both / 2);
            all.extend(ns.saturating_sub(own).checked_div(both));
        }
        done.store(true, Ordering::Relaxed);
        other.join().unwrap_or(Ok(()))?;
        Ok(median(all))
    })
}

fn yields() -> io::Result<()> {
    (0..ROUNDS).for_each(|_| sched_yield());
    Ok(())
}

/// The number of times that the calling thread has left its CPU.
fn switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let lines = status
        .lines()
        .filter(|line| line.contains("ctxt_switches:"));
    lines
        .filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok())
        .sum()
}

/// The delay from a timer's expiry until its thread runs, on a CPU that is kept busy so that it
/// does not idle.
fn timer(cpu: usize) -> io::Result<u64> {
    use std::sync::atomic::{AtomicBool, Ordering};
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            pin(&[cpu])?;
            // A nice value affects only the calling thread, which then gives way to any other.
            nice(19)?;
            while !done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            io::Result::Ok(())
        });
        let latencies = latencies();
        done.store(true, Ordering::Relaxed);
        other.join().unwrap_or(Ok(()))?;
        latencies.map(median)
    })
}

fn latencies() -> io::Result<Vec<u64>> {
    set_current_timer_slack(NonZeroU64::new(1))?;
    let mut all = Vec::with_capacity(TIMERS);
    for _ in 0..TIMERS {
        let due = now() + TIMER_NS;
        let at = Timespec {
            tv_sec: (due / NS_PER_S) as i64,
            tv_nsec: (due % NS_PER_S) as _,
        };
        clock_nanosleep_absolute(ClockId::Monotonic, &at)?;
        all.push(now().saturating_sub(due));
    }
    set_current_timer_slack(None)?;
    Ok(all)
}

/// The additional time of reading a line of memory that CPU `other` has written, compared with a local line.
fn refill(cpu: usize, other: usize) -> io::Result<u64> {
    let mut buffer = vec![0_u64; LINES * WORDS];
    let mut all = Vec::with_capacity(BATCHES);
    for round in 0..BATCHES as u64 {
        pin(&[other])?;
        buffer.fill(round);
        pin(&[cpu])?;
        let read = || {
            let since = Instant::now();
            let lines = buffer.chunks(WORDS);
            black_box(lines.map(|line| line[0]).sum::<u64>());
            since.elapsed().as_nanos() as u64
        };
        let (cold, warm) = (read(), read());
        all.push(cold.saturating_sub(warm) / LINES as u64);
    }
    Ok(median(all))
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}

/// The gap that a loop sees in the clock at each tick; `None` if the loop does not see enough gaps.
fn tick(hz: Option<u32>) -> Option<u64> {
    let hz = u64::from(hz?);
    let mut gaps = Vec::new();
    let since = now();
    let mut last = since;
    let end = since + TICKS.as_nanos() as u64;
    while last < end {
        let this = now();
        if this - last >= LEAST_TICK_NS {
            gaps.push(this - last);
        }
        last = this;
    }
    let expected = (TICKS.as_nanos() as u64 * hz / NS_PER_S) as usize;
    // Other interrupts and slow reads of the clock also make gaps, but the longest gaps are those of ticks.
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    gaps.truncate(expected);
    (gaps.len() == expected && expected > 0).then(|| median(gaps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_leave_the_caller_s_affinity_alone() {
        let affinity = || sched_getaffinity(None).unwrap();
        let all = affinity();
        let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu));
        let cpu = cpu.unwrap();
        wakeup_and_switch(cpu).unwrap();
        assert_eq!(affinity(), all);
        pin(&[cpu]).unwrap();
        let bound = affinity();
        calibrate(&mut crate::sysfs("/sys".as_ref()).unwrap()).unwrap();
        assert_eq!(affinity(), bound);
    }
}
