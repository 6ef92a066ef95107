//! The data of a page about a scheduler's first run: which threads ran on which CPUs, the CPUs'
//! load and frequency, the threads' waits after wakeups, and their migrations.

use crate::events::linux::Linux;
use crate::timeline;
use machine::Machine;
use simulator::{Event, Part, Trace};
use std::collections::{BTreeMap, HashMap};
use std::io;
use trace::write::Format;
use trace::{Record, Tracepoint};

/// The approximate maximum of the number of points in a lane; [`FEWEST_BINS`] is the minimum.
const BINS: u64 = 1000;
const FEWEST_BINS: u64 = 100;
/// The approximate number of points, of 4 or 5 bytes each, in all lanes of a page.
const MOST_POINTS: u64 = 80_000;
/// The maximum number of periods kept of a run.
const MOST_PERIODS: usize = 100_000;
/// The maximum number of slices kept of a run.
const MOST_SLICES: usize = 400_000;

/// Records a run of known duration.
pub struct Recorder {
    switches: Linux<FirstRun>,
    duration_ns: u64,
    bin_ns: u64,
    /// The periods, with the pids of their threads.
    periods: Vec<(i32, workload::Period)>,
    meters: BTreeMap<Part, Meter>,
}

struct Meter {
    mw: u32,
    since: u64,
    /// The energy of each bin in pJ.
    pj: Vec<u64>,
}

impl Recorder {
    /// Records a run on `machine` that takes `duration_ns`, for a page with `runs` runs.
    pub fn new(machine: &Machine, duration_ns: u64, runs: usize) -> Recorder {
        let lanes = 2 * machine.cpus.len().min(16) * runs.max(1);
        let bins = (MOST_POINTS / lanes as u64).clamp(FEWEST_BINS, BINS);
        let run = FirstRun::new(machine, duration_ns, bins);
        Recorder {
            bin_ns: run.bin_ns,
            switches: Linux::new(machine, run),
            duration_ns,
            periods: Vec::new(),
            meters: BTreeMap::new(),
        }
    }

    /// The recorded data.
    pub fn finish(mut self) -> FirstRun {
        let (bin_ns, end) = (self.bin_ns, self.duration_ns);
        for meter in self.meters.values_mut() {
            meter.until(bin_ns, end.max(meter.since));
        }
        let mut run = self.switches.into_format();
        let periods = self.periods.iter();
        let of_thread = |&(pid, period): &(i32, workload::Period)| {
            let thread = *run.pids.get(&pid)?;
            Some((thread as u32, period))
        };
        run.periods = periods.filter_map(of_thread).collect();
        let meters = self.meters.into_iter();
        run.pj = meters.map(|(part, meter)| (part, meter.pj)).collect();
        run
    }
}

impl Meter {
    fn until(&mut self, bin_ns: u64, now: u64) {
        let (mw, pj) = (u64::from(self.mw), &mut self.pj);
        // Power of 1 mW for 1 ns is an energy of 1 pJ.
        spread(bin_ns, self.since, now, |bin, ns| {
            if let Some(sum) = pj.get_mut(bin) {
                *sum += mw * ns;
            }
        });
        self.since = now;
    }
}

impl Trace for Recorder {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        if self.periods.len() < MOST_PERIODS {
            self.periods.extend(event.period());
        }
        if let Event::Power { part, mw, pj } = event {
            let (bin_ns, end) = (self.bin_ns, self.duration_ns);
            let meter = self.meters.entry(part).or_insert_with(|| Meter {
                mw: 0,
                since: 0,
                pj: vec![0; end.div_ceil(bin_ns) as usize],
            });
            meter.until(bin_ns, now);
            meter.mw = mw;
            if let Some(sum) = meter.pj.get_mut((now / bin_ns) as usize) {
                *sum += pj;
            }
        }
        self.switches.event(now, cpu, event);
    }
}

/// A recorded run.
#[derive(Default)]
pub struct FirstRun {
    pub(super) duration_ns: u64,
    pub(super) bin_ns: u64,
    /// The end of the slices in ns.
    pub(super) shown_ns: u64,
    /// The slices in the order of their ends.
    pub(super) slices: Vec<Slice>,
    /// The busy time in ns, by CPU and bin.
    pub(super) busy_ns: Vec<Vec<u64>>,
    /// The sum of kHz times ns, by CPU and bin; `None` for a CPU of unknown frequency.
    pub(super) khz_ns: Vec<Option<Vec<u128>>>,
    /// The threads in the order in which they first appear.
    pub(super) threads: Vec<Thread>,
    /// The threads' completed periods, in the order of their ends, each with the index of its thread.
    pub(super) periods: Vec<(u32, workload::Period)>,
    /// The energy in pJ, by part and bin.
    pub(super) pj: BTreeMap<Part, Vec<u64>>,
    pids: HashMap<i32, usize>,
    cpus: Vec<Cpu>,
}

/// A turn of a thread on a CPU; times are in ns.
#[derive(Clone, Copy)]
pub(super) struct Slice {
    pub cpu: u16,
    /// The index of the thread.
    pub thread: u32,
    pub from: u64,
    pub to: u64,
}

/// A thread, or all instances of a thread.
#[derive(Clone, Default)]
pub(super) struct Thread {
    pub name: String,
    pub wakeups: u64,
    pub migrations: u64,
    /// The running time by CPU, in ns.
    pub ran_ns: Vec<u64>,
    /// The time from each wakeup until the thread ran, in ns.
    pub latencies: Vec<u64>,
    pub(super) woken_at: Option<u64>,
}

#[derive(Clone, Copy, Default)]
struct Cpu {
    running: Option<usize>,
    since: u64,
    khz: u32,
    khz_since: u64,
}

impl FirstRun {
    fn new(machine: &Machine, duration_ns: u64, bins: u64) -> FirstRun {
        let bin_ns = duration_ns.div_ceil(bins).max(1);
        let bins = duration_ns.div_ceil(bin_ns) as usize;
        let cpus = machine.cpus.len();
        let has_opps = |cpu: &machine::Cpu| !machine.core_types[cpu.core_type].opps.is_empty();
        FirstRun {
            duration_ns,
            bin_ns,
            shown_ns: duration_ns,
            busy_ns: vec![vec![0; bins]; cpus],
            khz_ns: machine
                .cpus
                .iter()
                .map(|cpu| has_opps(cpu).then(|| vec![0; bins]))
                .collect(),
            cpus: vec![Cpu::default(); cpus],
            ..FirstRun::default()
        }
    }

    fn thread(&mut self, name: &str, pid: i32) -> &mut Thread {
        let (threads, cpus) = (&mut self.threads, self.cpus.len());
        let index = *self.pids.entry(pid).or_insert_with(|| {
            threads.push(Thread {
                name: name.to_owned(),
                ran_ns: vec![0; cpus],
                ..Thread::default()
            });
            threads.len() - 1
        });
        &mut threads[index]
    }

    /// Ends the slice on `cpu`.
    fn stop(&mut self, cpu: usize, now: u64) {
        let Some(thread) = self.cpus[cpu].running.take() else {
            return;
        };
        let from = self.cpus[cpu].since;
        self.threads[thread].ran_ns[cpu] += now - from;
        spread(self.bin_ns, from, now, |bin, ns| {
            if let Some(busy) = self.busy_ns[cpu].get_mut(bin) {
                *busy += ns;
            }
        });
        if self.slices.len() < MOST_SLICES {
            self.slices.push(Slice {
                cpu: cpu as u16,
                thread: thread as u32,
                from,
                to: now,
            });
        } else {
            self.shown_ns = self.shown_ns.min(from);
        }
    }

    fn end_frequency(&mut self, cpu: usize, now: u64) {
        let (khz, since) = (self.cpus[cpu].khz, self.cpus[cpu].khz_since);
        if let Some(bins) = &mut self.khz_ns[cpu] {
            spread(self.bin_ns, since, now, |bin, ns| {
                if let Some(sum) = bins.get_mut(bin) {
                    *sum += u128::from(khz) * u128::from(ns);
                }
            });
        }
        self.cpus[cpu].khz_since = now;
    }

    /// The turns of threads on `cpu` between two times, in ns.
    pub(crate) fn ran(&self, cpu: usize, (from, to): (u64, u64)) -> Vec<timeline::Slice> {
        let slices = self.slices.iter();
        let there = slices
            .filter(|slice| usize::from(slice.cpu) == cpu && slice.from < to && slice.to > from);
        let named = there.map(|slice| timeline::Slice {
            thread: self.threads[slice.thread as usize].name.clone(),
            from: slice.from,
            to: slice.to,
        });
        named.collect()
    }

    /// The periods of thread `name` between two times, in ns.
    pub(crate) fn periods_of(&self, name: &str, (from, to): (u64, u64)) -> Vec<workload::Period> {
        let periods = self.periods.iter();
        let own = periods.filter(|(thread, _)| self.threads[*thread as usize].name == name);
        let periods = own.map(|(_, period)| *period);
        periods
            .filter(|period| period.released < to && period.done.max(period.due) > from)
            .collect()
    }

    /// The threads, with all instances of a thread pooled (rt-app's `name-0`, `name-1`), and for each thread its index
    /// among the pooled threads.
    pub(super) fn pooled(&self) -> (Vec<Thread>, Vec<usize>) {
        let mut pooled: Vec<Thread> = Vec::new();
        let mut index_of: BTreeMap<&str, usize> = BTreeMap::new();
        let mut of = Vec::new();
        for thread in &self.threads {
            let name = base(&thread.name);
            let index = *index_of.entry(name).or_insert_with(|| {
                pooled.push(Thread {
                    name: name.to_owned(),
                    ran_ns: vec![0; self.cpus.len()],
                    ..Thread::default()
                });
                pooled.len() - 1
            });
            let all = &mut pooled[index];
            all.wakeups += thread.wakeups;
            all.migrations += thread.migrations;
            all.latencies.extend(&thread.latencies);
            for (sum, ns) in all.ran_ns.iter_mut().zip(&thread.ran_ns) {
                *sum += ns;
            }
            of.push(index);
        }
        for thread in &mut pooled {
            thread.latencies.sort_unstable();
        }
        (pooled, of)
    }
}

impl Format for FirstRun {
    fn record(&mut self, record: Record<'_>) {
        let (now, cpu) = (record.now, record.cpu);
        match record.event {
            Tracepoint::Switch { next, .. } => {
                self.stop(cpu, now);
                if next.pid != 0 {
                    let thread = self.thread(next.comm, next.pid);
                    if let Some(woken_at) = thread.woken_at.take() {
                        thread.latencies.push(now - woken_at);
                    }
                    self.cpus[cpu].running = self.pids.get(&next.pid).copied();
                    self.cpus[cpu].since = now;
                }
            }
            Tracepoint::Wakeup { task, .. } => {
                let thread = self.thread(task.comm, task.pid);
                thread.wakeups += 1;
                thread.woken_at = Some(now);
            }
            Tracepoint::Migrate { task, .. } => {
                self.thread(task.comm, task.pid).migrations += 1;
            }
            Tracepoint::Frequency { khz, .. } => {
                self.end_frequency(cpu, now);
                self.cpus[cpu].khz = khz;
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: u64) -> io::Result<()> {
        for cpu in 0..self.cpus.len() {
            self.stop(cpu, self.duration_ns.max(self.cpus[cpu].since));
            self.end_frequency(cpu, self.duration_ns.max(self.cpus[cpu].khz_since));
        }
        Ok(())
    }
}

/// Splits the time between `from` and `to` into bins of `bin_ns`, and calls `add` with each bin's number and the time
/// in it.
fn spread(bin_ns: u64, from: u64, to: u64, mut add: impl FnMut(usize, u64)) {
    let mut at = from;
    while at < to {
        let bin = at / bin_ns;
        let end = ((bin + 1) * bin_ns).min(to);
        add(bin as usize, end - at);
        at = end;
    }
}

/// A thread's name without the number of its instance.
pub(super) fn base(name: &str) -> &str {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once('-') {
        Some((base, instance)) if !base.is_empty() && number(instance) => base,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> FirstRun {
        let machine = Machine::find("hikey-6220").unwrap();
        let mut recorder = Recorder::new(&machine, 1_000_000, 1);
        let switch = |prev, next| Event::Switch {
            prev,
            prev_prio: 120,
            prev_runnable: false,
            next,
            next_prio: 120,
        };
        let wakeup = |task| Event::Wakeup {
            task,
            prio: 120,
            target_cpu: 0,
            new: false,
        };
        let (idle, one, other) = (("swapper", 0), ("worker-1", 7), ("worker-2", 8));
        recorder.event(100_500, 0, wakeup(one));
        recorder.event(102_500, 0, switch(idle, one));
        recorder.event(104_000, 0, wakeup(other));
        recorder.event(302_500, 0, switch(one, other));
        recorder.event(500_000, 1, Event::CpuFrequency { khz: 432_000 });
        recorder.event(600_000, 0, switch(other, idle));
        recorder.finish()
    }

    #[test]
    fn running_times_are_exact_to_the_nanosecond() {
        let run = recorded();
        assert_eq!(run.bin_ns, 1000);
        let busy = &run.busy_ns[0];
        assert_eq!(busy.iter().sum::<u64>(), 497_500);
        assert_eq!((busy[101], busy[102], busy[103]), (0, 500, 1000));
        assert_eq!(run.slices.len(), 2);
        let khz = run.khz_ns[1].as_ref().unwrap();
        assert_eq!((khz[499], khz[500]), (1_200_000_000, 432_000_000));
    }

    #[test]
    fn instances_are_one_thread() {
        let (pooled, of) = recorded().pooled();
        assert_eq!(of, [0, 0]);
        assert_eq!(pooled[0].name, "worker");
        assert_eq!((pooled[0].wakeups, pooled[0].ran_ns[0]), (2, 497_500));
        assert_eq!(pooled[0].latencies, [2_000, 198_500]);
    }

    #[test]
    fn a_number_at_the_end_is_an_instance() {
        assert_eq!(base("burst-5"), "burst");
        assert_eq!(base("kworker-u8"), "kworker-u8");
        assert_eq!((base("a-"), base("-1"), base("a")), ("a-", "-1", "a"));
    }
}
