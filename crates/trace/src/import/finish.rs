//! Makes a recording of the threads that are known at the end of a trace.

use super::Imported;
use super::builder::{Builder, NICE_0};
use super::complete::NoLoad;
use super::known::{Entry, Known, Mark};
use super::locks;
use super::measured::{measured, others};
use super::periods::{self, Periodic};
use super::streams::weave;
use machine::counted;
use std::collections::HashMap;
use workload::recording::{Period, Recording, Step, Thread, VERSION};

/// The lowest number of a kernel priority that is not real time.
const FIRST_FAIR: i32 = 100;
/// The smallest number of wakeups by another thread from which that thread, and not an interrupt, counts as the waker
/// of a thread that interrupts also wake.
const BELIEVED: u32 = 3;
/// These wakeups must also be at least 1 / `BELIEVED_PART` of all wakeups of the woken thread.
const BELIEVED_PART: u32 = 2;
/// The computing time in ns below which a thread that starts others is a shell.
const SHELL_NS: u64 = 1_000_000;
/// The smallest number of intervals that show a period; fewer may be equal by chance.
const FEWEST_PERIODS: usize = 4;
/// The variation in ns of a timer's delay, because of timer slack, idle states and other interrupts.
const JITTER_NS: u64 = 150_000;
const PERIOD_PCT: u64 = 3;
/// The beginnings of the names of kernel threads, which are no part of a load.
const KERNEL_THREADS: [&str; 7] = [
    "migration/",
    "ksoftirqd/",
    "cpuhp/",
    "idle_inject/",
    "irq_work/",
    "rcu",
    "kworker/",
];

impl Builder<'_> {
    /// Returns the recording. The error says why there is none.
    pub fn finish(mut self) -> Result<Imported, NoLoad> {
        for cpu in 0..self.cpus.len() {
            self.account(cpu, self.last);
        }
        for thread in 0..self.threads.len() {
            self.flush(thread as u32);
            self.threads[thread].prio = self.threads[thread].usual_prio();
        }
        self.check_complete()?;
        self.summary.span_ns = self.last - self.first.unwrap_or(self.last);
        let keeps = self.keeps();
        self.summary.cpus = self.cpus.len();
        self.summary.others = others(&self.threads, &keeps);
        if !self.flags {
            self.doubt();
        }
        let periods = periods::find(&self.threads, &keeps, &self.periods);
        let woven = weave(&mut self.threads, &self.streams, &keeps);
        let locks = locks::weave(&mut self.threads, &self.futexes, &keeps);
        if locks.left > 0 {
            let note = format!(
                "{1} of {0} mutexes {2} replayed only as wakeups, because threads outside the load use such a mutex, \
                 or a thread holds it together with another mutex, or during a read or write",
                locks.all,
                locks.left,
                is(locks.left)
            );
            self.summary.notes.push(note);
        }
        if woven.left > 0 {
            let note = format!(
                "{1} of the load's {0} pipes and sockets {2} replayed only as wakeups, because \
                 other processes or splice() write to such a stream, or several threads read it",
                woven.left + woven.capacities.len(),
                woven.left,
                is(woven.left)
            );
            self.summary.notes.push(note);
        }
        self.say_what_is_left_out(&keeps);
        let mut numbers = vec![None; keeps.len()];
        let kept = (0..keeps.len()).filter(|&index| keeps[index]);
        kept.enumerate()
            .for_each(|(number, index)| numbers[index] = Some(number));
        if numbers.iter().flatten().next().is_none() {
            return Err(NoLoad::new("no thread did any work"));
        }
        if self.machine.is_none() {
            let note = "without --machine, all CPUs are assumed to be equally fast at all times";
            self.summary.notes.push(note.to_owned());
        }
        let kept = || (0..self.threads.len()).filter(|&index| keeps[index]);
        let base = kept().map(|index| self.threads[index].from).min();
        let base = base.unwrap_or(self.last);
        let until = kept().map(|index| self.threads[index].until).max();
        let makespan_ns = until.unwrap_or(base) - base;
        let realtime = kept()
            .filter(|&it| self.threads[it].prio < FIRST_FAIR)
            .count();
        let threads: Vec<Thread> = kept()
            .map(|index| self.recorded(index, base, &numbers, periods[index].as_ref()))
            .collect();
        let did = measured(&self.threads, &keeps);
        self.summary.threads = did;
        self.summary.makespan_ns = makespan_ns;
        if realtime > 0 {
            let threads = counted(realtime, "real-time thread is", "real-time threads are");
            let note =
                format!("{threads} assumed to be SCHED_FIFO, because a trace shows no policies");
            self.summary.notes.push(note);
        }
        Ok(Imported {
            recording: Recording {
                recording: VERSION,
                description: format!(
                    "{} in {:.3} s, recorded",
                    counted(threads.len(), "thread", "threads"),
                    makespan_ns as f64 / 1e9
                ),
                streams: woven.capacities,
                mutexes: locks.mutexes,
                threads,
            },
            summary: self.summary,
        })
    }

    /// The threads that belong to the load.
    fn keeps(&self) -> Vec<bool> {
        let marked = |thread: &Known| thread.marked == Some(Mark::Load);
        if !self.threads.iter().any(marked) {
            // In a simulation, all threads of the load descend from the simulated kernel's shell.
            let is_shell = |thread: &Known| self.simulated && thread.parent.is_none();
            let belongs = |thread| keeps(thread) && !is_shell(thread);
            return self.threads.iter().map(belongs).collect();
        }
        let mut load: Vec<bool> = Vec::with_capacity(self.threads.len());
        for thread in &self.threads {
            let inherits = thread.parent.is_some_and(|it| load[it as usize]);
            load.push(marked(thread) || inherits);
        }
        let worked = self.threads.iter().map(|thread| thread.ran_ns > 0);
        load.iter().zip(worked).map(|(&a, b)| a && b).collect()
    }

    fn say_what_is_left_out(&mut self, keeps: &[bool]) {
        let left_out = || {
            let all = self.threads.iter().zip(keeps);
            all.filter(|&(_, keep)| !keep).map(|(thread, _)| thread)
        };
        let ms = |ns: u64| ns as f64 / 1e6;
        let count = left_out().count();
        let ran: u64 = left_out().map(|thread| thread.ran_ns).sum();
        let recorders = left_out().filter(|thread| thread.marked == Some(Mark::Recorder));
        let recorder: u64 = recorders.map(|thread| thread.ran_ns).sum();
        if count == 0 {
            return;
        }
        let mut note = format!(
            "left out: {} outside the load or without work, which ran for {:.3} ms",
            counted(count, "thread", "threads"),
            ms(ran)
        );
        if recorder > 0 {
            note += &format!(
                "; the recorder's threads ran for {:.3} ms of that",
                ms(recorder)
            );
        }
        self.summary.notes.push(note);
    }

    /// The activity of thread `index`. Times are in ns relative to `base`; `numbers` has the
    /// numbers of threads in the recording.
    fn recorded(
        &self,
        index: usize,
        base: u64,
        numbers: &[Option<usize>],
        period: Option<&Periodic>,
    ) -> Thread {
        let thread = &self.threads[index];
        let timers = thread.steps.iter().filter_map(|entry| match entry {
            Entry::Slept(gap) => Some(gap.until),
            _ => None,
        });
        let periodic = is_periodic(timers);
        // A thread that was started from outside the load starts by itself at the time of its start.
        let started = thread
            .parent
            .is_some_and(|it| numbers[it as usize].is_some());
        let late = (thread.from > base && !started).then(|| Step::Sleep(thread.from - base));
        let releases = period.map_or(&[][..], |it| &it.releases);
        let mut steps: Vec<Step> = late.into_iter().collect();
        for (index, &entry) in thread.steps.iter().enumerate() {
            let is_release = releases.binary_search(&(index as u32)).is_ok();
            let step = self.step(entry, periodic || is_release, base, numbers);
            steps.extend(step);
            if is_release && step.is_some() {
                steps.push(Step::Release);
            }
        }
        let fair = thread.prio >= FIRST_FAIR;
        Thread {
            name: thread.name.clone(),
            nice: (thread.prio - NICE_0).clamp(-20, 19) as i8 * i8::from(fair),
            fifo: (!fair).then(|| (FIRST_FAIR - 1 - thread.prio).clamp(1, 99) as u8),
            period: period.map(|it| Period {
                woken_by: it.period.woken_by.and_then(|waker| numbers[waker]),
                ..it.period
            }),
            steps,
        }
    }

    /// The mask of the machine's CPUs, of which it has the first 64.
    fn all_cpus(&self) -> u64 {
        let beyond = 64 - self.cpus.len().min(64) as u32;
        u64::MAX.checked_shr(beyond).unwrap_or(0)
    }

    /// `entry` as a step of the recording; `periodic` says whether a periodic timer ends its sleep. Times are in ns
    /// relative to `base`; `numbers` has the numbers of threads in the recording.
    fn step(
        &self,
        entry: Entry,
        periodic: bool,
        base: u64,
        numbers: &[Option<usize>],
    ) -> Option<Step> {
        Some(match entry {
            Entry::Step(Step::Fork(child)) => Step::Fork(numbers[child]?),
            Entry::Step(Step::Cpus(cpus)) => {
                Step::Cpus(cpus.filter(|cpus| self.all_cpus() & !cpus != 0))
            }
            Entry::Step(step) => step,
            Entry::Slept(gap) if periodic => Step::Until(gap.until.saturating_sub(base)),
            Entry::Slept(gap) => Step::Sleep(gap.ns),
            Entry::Woken { by, gap } => match numbers[by as usize] {
                Some(_) => Step::Wait,
                None if periodic => Step::Until(gap.until.saturating_sub(base)),
                None => Step::Sleep(gap.ns),
            },
            Entry::Wakes { thread, entry } => {
                let Entry::Woken { .. } = self.threads[thread as usize].steps[entry as usize]
                else {
                    return None;
                };
                Step::Wake(numbers[thread as usize]?)
            }
            Entry::Moved { .. }
            | Entry::FutexWait { .. }
            | Entry::FutexWake { .. }
            | Entry::Gone => return None,
        })
    }

    /// Attributes doubtful wakeups to timers. In a trace without the contexts of wakeups, a wakeup by a timer's
    /// interrupt looks like a wakeup by the interrupted thread. If interrupts wake a thread on idle CPUs, or
    /// periodically, interrupts are assumed to wake it on busy CPUs, too, unless another thread often wakes it.
    fn doubt(&mut self) {
        let mut doubted = 0_u64;
        let sleeps = |thread: &Known| wakes(&thread.steps).count() as u32;
        let all_sleeps: Vec<u32> = self.threads.iter().map(sleeps).collect();
        for (thread, &sleeps) in self.threads.iter_mut().zip(&all_sleeps) {
            let mut by: HashMap<u32, u32> = HashMap::new();
            let mut alone = 0;
            for entry in &thread.steps {
                match entry {
                    Entry::Slept(_) => alone += 1,
                    Entry::Woken { by: waker, .. } => *by.entry(*waker).or_default() += 1,
                    _ => {}
                }
            }
            let periodic = is_periodic(wakes(&thread.steps));
            if alone == 0 && !periodic {
                continue;
            }
            let part = |of: u32, all: u32| of >= BELIEVED && of * BELIEVED_PART >= all;
            let believed = |waker: u32| {
                let of = by[&waker];
                // The period may belong to a timer that always expires while the same other thread
                // runs. In that case, the other thread does not wake this one each time that it
                // runs.
                let each_time = part(of, all_sleeps[waker as usize]);
                (alone == 0 || part(of, sleeps)) && (!periodic || each_time)
            };
            for entry in &mut thread.steps {
                if let Entry::Woken { by, gap } = *entry
                    && !believed(by)
                {
                    *entry = Entry::Slept(gap);
                    doubted += 1;
                }
            }
        }
        self.summary.notes.push(format!(
            "the trace has no interrupt flags: {} attributed to timers, not to the interrupted threads",
            counted(doubted, "wakeup is", "wakeups are")
        ));
    }
}

fn is(count: usize) -> &'static str {
    match count {
        1 => "is",
        _ => "are",
    }
}

fn wakes(steps: &[Entry]) -> impl Iterator<Item = u64> {
    steps.iter().filter_map(|entry| match entry {
        Entry::Slept(gap) | Entry::Woken { gap, .. } => Some(gap.until),
        _ => None,
    })
}

/// Does a periodic timer wake the thread, independently of what the thread does?
fn is_periodic(wakes: impl Iterator<Item = u64>) -> bool {
    let wakes: Vec<u64> = wakes.collect();
    let mut between: Vec<u64> = wakes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if between.len() < FEWEST_PERIODS {
        return false;
    }
    between.sort_unstable();
    let period = between[between.len() / 2].max(1);
    let tolerance = (period * PERIOD_PCT / 100).max(JITTER_NS).min(period / 8);
    // After an overrun, the thread sleeps only in a later period, so an interval may be several periods.
    between.iter().all(|&ns| {
        let periods = ((ns + period / 2) / period).max(1);
        ns.abs_diff(periods * period) <= tolerance
    })
}

/// Is the thread like a shell, which only starts other threads at once and waits for them? The
/// simulated kernel has its own shell.
fn only_starts_others(thread: &Known) -> bool {
    let forks = |entry: &Entry| matches!(entry, Entry::Step(Step::Fork(_)));
    let Some(last) = thread.steps.iter().rposition(forks) else {
        return false;
    };
    let blocks = |entry: &Entry| matches!(entry, Entry::Slept(_) | Entry::Woken { .. });
    thread.parent.is_none() && thread.ran_ns < SHELL_NS && !thread.steps[..last].iter().any(blocks)
}

fn keeps(thread: &Known) -> bool {
    thread.ran_ns > 0
        && thread.marked != Some(Mark::Recorder)
        && !only_starts_others(thread)
        && !KERNEL_THREADS
            .iter()
            .any(|name| thread.name.starts_with(name))
}
