//! Threads and what they did, of events one after another.

use super::line::{Event, Line, State, Task};
use super::{Imported, Summary};
use crate::DEFAULT_FOOTPRINT;
use crate::recording::{Recording, Step, Thread, VERSION};
use machine::{CACHE_LINE, Costs, Machine, work_in};
use std::collections::HashMap;

/// The kernel's prio of nice 0.
const NICE_0: i32 = 120;
/// And the first that is not real time.
const FIRST_FAIR: i32 = 100;
/// A thread that interrupts wake up is believed to be woken by another thread if that does so as often, at least ...
const BELIEVED: u32 = 3;
/// ... and for so many of all its wakeups: one in so many.
const BELIEVED_PART: u32 = 2;
/// Who starts others and does no more than that is a shell.
const SHELL_NS: u64 = 1_000_000;
const NS_PER_S: u64 = 1_000_000_000;
/// Fewer intervals may be alike by chance.
const FEWEST_PERIODS: usize = 4;
/// What a timer is late by differs: timer slack, idle states, other interrupts.
const JITTER_NS: u64 = 150_000;
const PERIOD_PCT: u64 = 3;
/// What each kernel has of its own, also the simulated one.
const KERNEL_THREADS: [&str; 7] = [
    "migration/",
    "ksoftirqd/",
    "cpuhp/",
    "idle_inject/",
    "irq_work/",
    "rcu",
    "kworker/",
];

/// A thread as far as it is known.
struct Known {
    name: String,
    prio: i32,
    steps: Vec<Entry>,
    is: Is,
    /// Another thread's step starts it.
    forked: bool,
    /// Work that it has done since its last step, ns of the fastest core.
    work: u64,
    ran_ns: u64,
    /// Where it ran last.
    cpu: Option<usize>,
    /// Since it was last woken up it has not run: when that was, ns, and by an interrupt or by a thread.
    woken: Option<(u64, bool)>,
}

/// A step, or what may become one.
#[derive(Clone, Copy)]
enum Entry {
    Step(Step),
    /// A timer, or something else that is no thread, wakes it up.
    Slept(Gap),
    /// Waits to be woken by [`Known`] `by`, or sleeps.
    Woken {
        by: u32,
        gap: Gap,
    },
    /// Wakes up this thread, at that place of its steps.
    Wakes {
        thread: u32,
        entry: u32,
    },
}

/// How long a thread slept, and until when, ns.
#[derive(Clone, Copy)]
struct Gap {
    ns: u64,
    until: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    Runnable,
    /// Since then, ns.
    Blocked(u64),
    Dead,
}

#[derive(Clone, Copy, Default)]
struct Cpu {
    /// The thread that it runs, if it is known and not the idle one.
    runs: Option<u32>,
    /// It has been seen to switch.
    known: bool,
    /// Its thread's work is counted up to here, ns.
    since: u64,
    /// What the kernel does next in its thread's time, and a replay will have it do again, ns.
    owed: u64,
    khz: Option<u32>,
}

/// Makes a recording.
pub struct Builder<'a> {
    machine: Option<&'a Machine>,
    threads: Vec<Known>,
    /// By pid, of those that live.
    by_pid: HashMap<i32, u32>,
    cpus: Vec<Cpu>,
    first: Option<u64>,
    last: u64,
    /// The trace has events in an interrupt's context.
    flags: bool,
    /// It has sched_waking: then sched_wakeup says nothing new, and not who woke.
    waking: bool,
    pub summary: Summary,
}

impl<'a> Builder<'a> {
    pub fn new(machine: Option<&'a Machine>) -> Builder<'a> {
        Builder {
            machine,
            threads: Vec::new(),
            by_pid: HashMap::new(),
            cpus: vec![Cpu::default(); machine.map_or(1, |machine| machine.cpus.len())],
            first: None,
            last: 0,
            flags: false,
            waking: false,
            summary: Summary::default(),
        }
    }

    /// What is said is what does not fit.
    pub fn event(&mut self, line: &Line) -> Result<(), String> {
        if line.event == Event::Other {
            return Ok(());
        }
        self.summary.events += 1;
        self.flags |= line.interrupt;
        let first = *self.first.get_or_insert(line.at);
        // The files of several CPUs, one after another, may overlap a little.
        let now = line.at.max(self.last);
        self.last = now;
        self.know_cpu(line.cpu, first)?;
        match line.event {
            Event::Switch { prev, state, next } => self.switch(line.cpu, now, prev, state, next),
            Event::Waking(task) => {
                self.waking = true;
                self.wake(line, now, task);
            }
            Event::Wakeup(task) if !self.waking => self.wake(line, now, task),
            Event::New(task) => self.new_task(line, now, task),
            Event::Fork { parent, child } => {
                if let Some(&parent) = self.by_pid.get(&parent) {
                    self.fork(parent, child);
                }
            }
            Event::Frequency { cpu, khz } => {
                self.know_cpu(cpu, first)?;
                self.account(cpu, now);
                self.cpus[cpu].khz = Some(khz);
            }
            Event::Wakeup(_) | Event::Other => {}
        }
        Ok(())
    }

    fn know_cpu(&mut self, cpu: usize, first: u64) -> Result<(), String> {
        if cpu < self.cpus.len() {
            return Ok(());
        }
        if let Some(machine) = self.machine {
            return Err(format!(
                "CPU {cpu}, and {} has {}",
                machine.name,
                machine.cpus.len()
            ));
        }
        let none = Cpu {
            since: first,
            ..Cpu::default()
        };
        self.cpus.resize(cpu + 1, none);
        Ok(())
    }

    /// What `cpu`'s thread has done up to `now` is its.
    fn account(&mut self, cpu: usize, now: u64) {
        let ns = now.saturating_sub(self.cpus[cpu].since);
        self.cpus[cpu].since = now;
        let Some(thread) = self.cpus[cpu].runs else {
            return;
        };
        let kernel = ns.min(self.cpus[cpu].owed);
        self.cpus[cpu].owed -= kernel;
        let ticks = self.machine.map_or(0, |machine| {
            let tick_ns = self.kernel_ns(cpu, costs(machine, cpu).tick_ns);
            (ns - kernel) * (u64::from(machine.hz) * tick_ns).min(NS_PER_S) / NS_PER_S
        });
        let work = work_in(ns - kernel - ticks, self.speed(cpu));
        let thread = &mut self.threads[thread as usize];
        thread.ran_ns += ns;
        thread.work += work;
    }

    /// How fast `cpu` is now, in 1/2^20 of the fastest core: by its siblings and its frequency.
    fn speed(&self, cpu: usize) -> u32 {
        let Some(machine) = self.machine else {
            return 1 << 20;
        };
        let siblings = machine.siblings(cpu);
        let busy = siblings
            .iter()
            .filter(|&it| self.cpus[it].runs.is_some())
            .count();
        let full = machine.thread_speed(cpu, busy.max(1));
        let highest = machine.core_types[machine.cpus[cpu].core_type].opps.last();
        match (self.cpus[cpu].khz, highest) {
            (Some(khz), Some(highest)) => {
                (u64::from(full) * u64::from(khz.min(highest.khz)) / u64::from(highest.khz)) as u32
            }
            _ => full,
        }
    }

    /// How long kernel code takes on `cpu` now that takes `ns` at its highest frequency.
    fn kernel_ns(&self, cpu: usize, ns: u64) -> u64 {
        let highest = self.machine.and_then(|machine| {
            let core = &machine.core_types[machine.cpus[cpu].core_type];
            core.opps.last().map(|opp| opp.khz)
        });
        match (self.cpus[cpu].khz, highest) {
            (Some(khz), Some(highest)) if khz > 0 => {
                ns * u64::from(highest) / u64::from(khz.min(highest))
            }
            _ => ns,
        }
    }

    /// `thread` begins to run on `cpu`: by the machine file the kernel needs so long to have it there.
    fn owe_switch(&mut self, cpu: usize, now: u64, thread: u32) {
        let Some(machine) = self.machine else { return };
        let costs = costs(machine, cpu);
        let known = &mut self.threads[thread as usize];
        let mut ns = costs.context_switch_ns;
        if let Some((at, interrupt)) = known.woken.take() {
            // What has passed since, the trace shows to be not the thread's.
            let irq = if interrupt { costs.timer_irq_ns } else { 0 };
            ns += (irq + costs.wakeup_ns).saturating_sub(now - at);
        }
        if let Some(last) = known.cpu.replace(cpu).filter(|&last| last != cpu) {
            let mut caches = machine.last_level_caches().iter();
            let near = caches.any(|cache| cache.contains(cpu) && cache.contains(last));
            let line_ns = if near {
                costs.refill_near_ns
            } else {
                costs.refill_far_ns
            };
            ns += DEFAULT_FOOTPRINT / CACHE_LINE * line_ns;
        }
        self.cpus[cpu].owed = self.kernel_ns(cpu, ns);
    }

    fn switch(&mut self, cpu: usize, now: u64, prev: Task, state: State, next: Task) {
        self.summary.switches += 1;
        // Who runs now makes the siblings slower or faster: all up to here is as it was.
        match self.machine.map(|machine| machine.siblings(cpu)) {
            Some(siblings) => siblings.iter().for_each(|cpu| self.account(cpu, now)),
            None => self.account(cpu, now),
        }
        if prev.pid != 0 {
            let thread = self.thread(prev);
            // It may be another program since it was last seen.
            let name = &mut self.threads[thread as usize].name;
            if name != prev.comm {
                prev.comm.clone_into(name);
            }
            if !self.cpus[cpu].known {
                // It ran from the beginning on.
                let first = self.first.unwrap_or(now);
                self.cpus[cpu].since = first;
                self.cpus[cpu].runs = Some(thread);
                self.account(cpu, now);
            }
            match state {
                State::Runnable => self.threads[thread as usize].is = Is::Runnable,
                State::Blocked => {
                    self.flush(thread);
                    self.threads[thread as usize].is = Is::Blocked(now);
                }
                State::Dead => {
                    self.flush(thread);
                    self.threads[thread as usize].is = Is::Dead;
                    self.by_pid.remove(&prev.pid);
                }
            }
        }
        self.cpus[cpu].known = true;
        self.cpus[cpu].runs = (next.pid != 0).then(|| self.thread(next));
        if let Some(thread) = self.cpus[cpu].runs {
            // Nobody was seen to wake it up.
            self.woken(thread, now, None);
            self.threads[thread as usize].prio = next.prio;
            self.owe_switch(cpu, now, thread);
        }
    }

    /// The thread of `task`, which was there from the beginning if it is new.
    fn thread(&mut self, task: Task) -> u32 {
        if let Some(&known) = self.by_pid.get(&task.pid) {
            return known;
        }
        self.add(task, Is::Runnable)
    }

    fn add(&mut self, task: Task, is: Is) -> u32 {
        let index = self.threads.len() as u32;
        self.threads.push(Known {
            name: task.comm.to_owned(),
            prio: task.prio,
            steps: Vec::new(),
            is,
            forked: false,
            work: 0,
            ran_ns: 0,
            cpu: None,
            woken: None,
        });
        self.by_pid.insert(task.pid, index);
        index
    }

    /// What `thread` has computed becomes a step.
    fn flush(&mut self, thread: u32) {
        let thread = &mut self.threads[thread as usize];
        if thread.work > 0 {
            thread
                .steps
                .push(Entry::Step(Step::Run(std::mem::take(&mut thread.work))));
        }
    }

    fn wake(&mut self, line: &Line, now: u64, task: Task) {
        if task.pid == 0 {
            return;
        }
        let thread = match self.by_pid.get(&task.pid) {
            Some(&known) => known,
            // It slept from the beginning on.
            None => self.add(task, Is::Blocked(self.first.unwrap_or(now))),
        };
        let waker = self.cpus[line.cpu]
            .runs
            .filter(|&waker| !line.interrupt && waker != thread);
        self.woken(thread, now, waker.map(|waker| (waker, line.cpu)));
    }

    /// `thread`, if it sleeps, is woken up by a thread on a CPU, or by something else.
    fn woken(&mut self, thread: u32, now: u64, waker: Option<(u32, usize)>) {
        let Is::Blocked(since) = self.threads[thread as usize].is else {
            return;
        };
        self.threads[thread as usize].is = Is::Runnable;
        self.threads[thread as usize].woken = Some((now, waker.is_none()));
        let gap = Gap {
            ns: now - since,
            until: now,
        };
        let Some((waker, cpu)) = waker else {
            self.threads[thread as usize].steps.push(Entry::Slept(gap));
            return;
        };
        self.account(cpu, now);
        self.flush(waker);
        if let Some(machine) = self.machine {
            self.cpus[cpu].owed += self.kernel_ns(cpu, costs(machine, cpu).wakeup_ns);
        }
        let steps = &mut self.threads[thread as usize].steps;
        let entry = steps.len() as u32;
        steps.push(Entry::Woken { by: waker, gap });
        self.threads[waker as usize]
            .steps
            .push(Entry::Wakes { thread, entry });
    }

    fn fork(&mut self, parent: u32, child: Task) -> u32 {
        let cpu = self.cpus.iter().position(|cpu| cpu.runs == Some(parent));
        if let Some(cpu) = cpu {
            self.account(cpu, self.last);
        }
        self.flush(parent);
        // The pid may have been another's, who was not seen to exit.
        let index = self.add(child, Is::Runnable);
        self.threads[index as usize].forked = true;
        self.threads[parent as usize]
            .steps
            .push(Entry::Step(Step::Fork(index as usize)));
        index
    }

    fn new_task(&mut self, line: &Line, now: u64, task: Task) {
        if let Some(&known) = self.by_pid.get(&task.pid) {
            self.threads[known as usize].name = task.comm.to_owned();
            self.threads[known as usize].prio = task.prio;
            return;
        }
        match self.cpus[line.cpu].runs {
            Some(parent) => {
                self.fork(parent, task);
            }
            None => {
                let first = self.first.unwrap_or(now);
                let thread = self.add(task, Is::Blocked(first));
                self.woken(thread, now, None);
            }
        }
    }

    /// The recording. What is said is why there is none.
    pub fn finish(mut self) -> Result<Imported, String> {
        for cpu in 0..self.cpus.len() {
            self.account(cpu, self.last);
        }
        for thread in 0..self.threads.len() as u32 {
            self.flush(thread);
        }
        if self.summary.switches == 0 {
            return Err(match self.summary.events {
                0 => "no event of the scheduler".to_owned(),
                _ => "no sched_switch".to_owned(),
            });
        }
        self.summary.span_ns = self.last - self.first.unwrap_or(self.last);
        if !self.flags {
            self.doubt();
        }
        let keeps: Vec<bool> = self.threads.iter().map(keeps).collect();
        let left_out = keeps.iter().filter(|&&keep| !keep).count();
        if left_out > 0 {
            let note = format!(
                "{left_out} threads left out: the kernel's own, a shell, or without any work"
            );
            self.summary.notes.push(note);
        }
        let mut numbers = vec![None; keeps.len()];
        let kept = keeps
            .iter()
            .enumerate()
            .filter(|(_, keep)| **keep)
            .map(|(index, _)| index);
        kept.enumerate()
            .for_each(|(number, index)| numbers[index] = Some(number));
        if numbers.iter().flatten().next().is_none() {
            return Err("no thread that did anything".to_owned());
        }
        if self.machine.is_none() {
            let note =
                "without --machine all CPUs are taken to be as fast as each other, all the time";
            self.summary.notes.push(note.to_owned());
        }
        let mut realtime = 0;
        let mut threads = Vec::new();
        for index in (0..self.threads.len()).filter(|&index| keeps[index]) {
            let thread = &self.threads[index];
            realtime += usize::from(thread.prio < FIRST_FAIR);
            self.summary.ran_ns.push(thread.ran_ns);
            let timers = thread.steps.iter().filter_map(|entry| match entry {
                Entry::Slept(gap) => Some(gap.until),
                _ => None,
            });
            let periodic = is_periodic(timers);
            let steps = thread.steps.iter();
            let steps = steps.filter_map(|&entry| self.step(entry, periodic, &numbers));
            threads.push(Thread {
                name: thread.name.clone(),
                nice: (thread.prio - NICE_0).clamp(-20, 19) as i8
                    * i8::from(thread.prio >= FIRST_FAIR),
                fifo: (thread.prio < FIRST_FAIR)
                    .then(|| (FIRST_FAIR - 1 - thread.prio).clamp(1, 99) as u8),
                steps: steps.collect(),
            });
        }
        if realtime > 0 {
            let note = format!(
                "{realtime} real-time threads are SCHED_FIFO ones, which a trace does not tell from others"
            );
            self.summary.notes.push(note);
        }
        Ok(Imported {
            recording: Recording {
                recording: VERSION,
                description: format!(
                    "{} threads in {:.3} s, recorded",
                    threads.len(),
                    self.summary.span_ns as f64 / 1e9
                ),
                threads,
            },
            summary: self.summary,
        })
    }

    /// `entry` as a step of a thread that may be periodic, where threads have these numbers.
    fn step(&self, entry: Entry, periodic: bool, numbers: &[Option<usize>]) -> Option<Step> {
        Some(match entry {
            Entry::Step(Step::Fork(child)) => Step::Fork(numbers[child]?),
            Entry::Step(step) => step,
            // One that is left out wakes nobody.
            Entry::Slept(gap) if periodic => Step::Until(gap.until - self.first.unwrap_or(0)),
            Entry::Slept(gap) => Step::Sleep(gap.ns),
            // One that is left out wakes nobody.
            Entry::Woken { by, gap } => match numbers[by as usize] {
                Some(_) => Step::Wait,
                None => Step::Sleep(gap.ns),
            },
            Entry::Wakes { thread, entry } => {
                let Entry::Woken { .. } = self.threads[thread as usize].steps[entry as usize]
                else {
                    return None;
                };
                Step::Wake(numbers[thread as usize]?)
            }
        })
    }

    /// A trace that does not say in which context a wakeup was: a timer's interrupt looks as if whoever it interrupted
    /// had done it. Who is woken up by interrupts on idle CPUs, or with a period, is taken to be so on busy ones, too,
    /// but by threads that do it often.
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
                // With a period it may be a timer that always comes while the same one runs: then the other does
                // not wake it up each time that he runs.
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
            "the trace does not tell interrupts: {doubted} wakeups are taken to be timers', not of whom they interrupted"
        ));
    }
}

fn costs(machine: &Machine, cpu: usize) -> &Costs {
    &machine.core_types[machine.cpus[cpu].core_type].costs
}

/// When a thread was woken up, ns.
fn wakes(steps: &[Entry]) -> impl Iterator<Item = u64> {
    steps.iter().filter_map(|entry| match entry {
        Entry::Slept(gap) | Entry::Woken { gap, .. } => Some(gap.until),
        _ => None,
    })
}

/// Does a timer with a period wake the thread up? Then it does so whatever became of the thread meanwhile.
fn is_periodic(wakes: impl Iterator<Item = u64>) -> bool {
    let wakes: Vec<u64> = wakes.collect();
    let mut between: Vec<u64> = wakes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if between.len() < FEWEST_PERIODS {
        return false;
    }
    between.sort_unstable();
    let period = between[between.len() / 2].max(1);
    let tolerance = (period * PERIOD_PCT / 100).max(JITTER_NS).min(period / 8);
    // Who overran a period slept the next time.
    between.iter().all(|&ns| {
        let periods = ((ns + period / 2) / period).max(1);
        ns.abs_diff(periods * period) <= tolerance
    })
}

/// Was it there to start others at once, and to wait for them, as a shell? The simulated kernel has one, too.
fn only_starts_others(thread: &Known) -> bool {
    let forks = |entry: &Entry| matches!(entry, Entry::Step(Step::Fork(_)));
    let Some(last) = thread.steps.iter().rposition(forks) else {
        return false;
    };
    let blocks = |entry: &Entry| matches!(entry, Entry::Slept(_) | Entry::Woken { .. });
    !thread.forked && thread.ran_ns < SHELL_NS && !thread.steps[..last].iter().any(blocks)
}

/// Is `thread` of the load?
fn keeps(thread: &Known) -> bool {
    thread.ran_ns > 0
        && !only_starts_others(thread)
        && !KERNEL_THREADS
            .iter()
            .any(|name| thread.name.starts_with(name))
}
