//! Threads and their activity, built from a sequence of events.

use super::Summary;
use super::known::{Cpu, Early, Entry, Gap, Is, Known, MARK, Mark, Stream, Waker};
use super::locks::Futexes;
use super::periods::Set;
use crate::event::{Line, Moved, Stage, State, Task, Tracepoint};
use machine::{CACHE_LINE, Costs, MAX_CPUS, Machine, counted, work_in};
use std::collections::HashMap;
use workload::recording::Step;
use workload::{DEFAULT_FOOTPRINT, SLICES_NS};

/// The kernel's priority of nice 0.
pub const NICE_0: i32 = 120;
/// `SCHED_NORMAL` and `SCHED_BATCH`, whose tasks may request a slice.
const FAIR: [i32; 2] = [0, 3];

#[derive(Default)]
pub struct Builder<'a> {
    pub machine: Option<&'a Machine>,
    pub threads: Vec<Known>,
    pub by_pid: HashMap<i32, u32>,
    pub cpus: Vec<Cpu>,
    pub streams: Vec<Stream>,
    /// Streams whose end has not been read yet, by the kernel's identity.
    by_object: HashMap<u64, u32>,
    pub futexes: Futexes,
    /// The affinity and the slice of a thread that is about to be marked, by pid.
    first_steps: HashMap<i32, Vec<Step>>,
    pub first: Option<u64>,
    pub last: u64,
    /// Does the trace have events in the context of interrupts?
    pub flags: bool,
    /// Does the trace have sched_waking? If so, sched_wakeup adds nothing, and lacks the waker.
    waking: bool,
    /// Does the trace have wakeups? `sleeps` is the number of sleeps that ended, and `unwoken` is the number of sleeps
    /// after which a thread ran although no event woke it.
    pub wakes: bool,
    pub sleeps: u64,
    pub unwoken: u64,
    /// The number of switches from a thread other than the one that ran on the CPU.
    pub contradictions: u64,
    /// Does the trace come from a simulation? There, the cost of a wakeup follows the switch that
    /// it caused, and is not charged to the thread that runs then.
    pub simulated: bool,
    /// Is the time of the recorder's probes to be left out of the load?
    pub unprobed: bool,
    pub probe_ns: u64,
    pub periods: Vec<Set>,
    pub summary: Summary,
}

impl<'a> Builder<'a> {
    pub fn new(machine: Option<&'a Machine>) -> Builder<'a> {
        Builder {
            machine,
            cpus: vec![Cpu::default(); machine.map_or(1, |machine| machine.cpus.len())],
            ..Builder::default()
        }
    }

    /// Processes an event. The error says why the event does not fit.
    pub fn event(&mut self, line: &Line) -> Result<(), String> {
        match line.event {
            Tracepoint::Other => return Ok(()),
            Tracepoint::Mark(text) if !text.contains(MARK) => return Ok(()),
            _ => {}
        }
        self.summary.events += 1;
        self.flags |= line.interrupt;
        let first = *self.first.get_or_insert(line.at);
        let now = line.at;
        debug_assert!(now >= self.last, "events come in the order of time");
        self.last = now;
        self.know_cpu(line.cpu, first)?;
        self.cpus[line.cpu].first.get_or_insert(now);
        match line.event {
            Tracepoint::Switch { prev, state, next } => {
                self.switch(line.cpu, now, prev, state, next)
            }
            Tracepoint::Wakeup { stage, task, .. } => match stage {
                Stage::Waking => {
                    self.waking = true;
                    self.wake(line, now, task);
                }
                Stage::Woken if !self.waking => self.wake(line, now, task),
                Stage::Woken => {}
                Stage::New => self.new_task(line, now, task),
            },
            Tracepoint::Fork { parent, child } => {
                if let Some(&parent) = self.by_pid.get(&parent.pid) {
                    self.fork(parent, child);
                }
            }
            Tracepoint::Frequency { cpu, khz } => {
                self.know_cpu(cpu, first)?;
                self.account(cpu, now);
                // Some drivers report 0 for an unknown frequency.
                self.cpus[cpu].khz = Some(khz).filter(|&khz| khz > 0);
            }
            Tracepoint::Moved(moved) => self.moved(line.cpu, now, moved),
            Tracepoint::Call { number, args } if self.futexes.call == Some(number) => {
                self.futex(line.cpu, now, args);
            }
            Tracepoint::Pinned { pid, cpus } => {
                let thread = match pid {
                    0 => self.cpus[line.cpu].runs,
                    _ => self.by_pid.get(&pid).copied(),
                };
                self.set(thread, now, Step::Cpus(Some(cpus)));
            }
            Tracepoint::Scheduled {
                pid,
                policy,
                runtime,
            } if policy < 0 || FAIR.contains(&policy) => {
                self.set(self.by_pid.get(&pid).copied(), now, Step::Slice(runtime));
            }
            Tracepoint::Mark(text) => self.mark(now, text),
            _ => {}
        }
        Ok(())
    }

    /// Counts events that were lost according to the trace, which may have any number.
    pub fn lost(&mut self, count: u64) {
        self.summary.lost = self.summary.lost.saturating_add(count);
    }

    /// Returns an error if the machine is known and does not fit a trace that was recorded on `cpus` CPUs.
    pub fn recorded_on(&self, cpus: usize, fits: impl Fn(&Machine) -> bool) -> Result<(), String> {
        match self.machine {
            Some(machine) if !fits(machine) => Err(format!(
                "the trace was recorded on {}, but machine `{}` has {}",
                counted(cpus, "CPU", "CPUs"),
                machine.name,
                counted(machine.all_cpus().count(), "CPU", "CPUs")
            )),
            _ => Ok(()),
        }
    }

    fn know_cpu(&mut self, cpu: usize, first: u64) -> Result<(), String> {
        if cpu < self.cpus.len() {
            return Ok(());
        }
        if let Some(machine) = self.machine {
            return Err(format!(
                "the trace has an event on CPU {cpu}, but machine `{}` has {}",
                machine.name,
                counted(machine.cpus.len(), "CPU", "CPUs")
            ));
        }
        if cpu >= MAX_CPUS {
            return Err(format!(
                "the trace has an event on CPU {cpu}, but a machine has at most {MAX_CPUS} CPUs"
            ));
        }
        let none = Cpu {
            since: first,
            ..Cpu::default()
        };
        self.cpus.resize(cpu + 1, none);
        Ok(())
    }

    /// Adds the kernel's cost of a switch, from the machine file, when `thread` begins to run on `cpu`.
    fn owe_switch(&mut self, cpu: usize, now: u64, thread: u32, woken: Option<(u64, bool)>) {
        let known = &mut self.threads[thread as usize];
        let from = known.cpu.replace(cpu).filter(|&last| last != cpu);
        known.migrations += u64::from(from.is_some());
        let Some(machine) = self.machine else { return };
        let costs = costs(machine, cpu);
        // In a real kernel most of the switch precedes its event, in the time of the previous
        // thread.
        let mut ns = match self.simulated {
            true => costs.context_switch_ns,
            false => 0,
        };
        // The trace shows that the time since the wakeup does not belong to the thread.
        let late = woken.map_or(0, |(at, _)| costs.wakeup_ns.saturating_sub(now - at));
        ns += late;
        if let Some(last) = from {
            let mut caches = machine.last_level_caches().iter();
            let near = caches.any(|cache| cache.contains(cpu) && cache.contains(last));
            let line_ns = if near {
                costs.refill_near_ns
            } else {
                costs.refill_far_ns
            };
            ns += DEFAULT_FOOTPRINT / CACHE_LINE * line_ns;
        }
        if self.simulated {
            self.cpus[cpu].waker_s = late;
        }
        let before = std::mem::take(&mut self.threads[thread as usize].owed);
        self.cpus[cpu].owed = before + self.kernel_ns(cpu, ns);
    }

    /// The time that a wakeup and a switch take after their events in a simulation. In a real kernel, each event comes
    /// near the end of the wakeup or switch.
    fn simulated_ns(&self, cpu: usize) -> [u64; 2] {
        match self.machine {
            Some(machine) if self.simulated => {
                let costs = costs(machine, cpu);
                [costs.wakeup_ns, costs.context_switch_ns].map(|ns| self.kernel_ns(cpu, ns))
            }
            _ => [0; 2],
        }
    }

    fn switch(&mut self, cpu: usize, now: u64, prev: Task, state: State, next: Task) {
        self.summary.switches += 1;
        // A switch changes the speed of the siblings, and of all CPUs of a virtual machine, so first account for all
        // time up to now at the old speed.
        match self.machine {
            Some(it) if it.host_cpus.is_some() => {
                (0..self.cpus.len()).for_each(|cpu| self.account(cpu, now));
            }
            Some(it) => it
                .siblings(cpu)
                .iter()
                .for_each(|cpu| self.account(cpu, now)),
            None => self.account(cpu, now),
        }
        self.check_order(cpu, prev);
        if prev.pid != 0 {
            let is_new = !self.by_pid.contains_key(&prev.pid);
            let thread = self.named(prev);
            if !self.cpus[cpu].known {
                self.begin(cpu, now, thread, is_new);
            }
            let switch = match self.machine.filter(|_| !self.simulated) {
                Some(machine) => self.kernel_ns(cpu, costs(machine, cpu).context_switch_ns),
                None => 0,
            };
            let switch = work_in(switch, self.speed(cpu));
            let known = &mut self.threads[thread as usize];
            known.until = now;
            known.work = known.work.saturating_sub(switch);
            known.owed = std::mem::take(&mut self.cpus[cpu].owed);
            match state {
                State::Runnable => {
                    self.threads[thread as usize].is = Is::Runnable;
                    self.threads[thread as usize].early = None;
                }
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
        self.cpus[cpu].runs = (next.pid != 0).then(|| self.named(next));
        if let Some(thread) = self.cpus[cpu].runs {
            let early = self.threads[thread as usize].early.take();
            if early.is_some() {
                self.woken(thread, now, None, early);
            }
            let [wakeup, switch] = self.simulated_ns(cpu);
            let known = &mut self.threads[thread as usize];
            let latency = known.woken.map(|(at, _)| (now - at).max(wakeup) + switch);
            known.latencies.extend(latency);
            let asleep = matches!(self.threads[thread as usize].is, Is::Blocked(_));
            self.unwoken += u64::from(asleep);
            self.woken(thread, now, None, None);
            let known = &mut self.threads[thread as usize];
            known.prio = next.prio;
            known.turns += 1;
            let woken = known.woken.take();
            self.owe_switch(cpu, now, thread, woken);
            if let Some((_, false)) = woken
                && prev.pid != 0
            {
                let waker = self.thread(prev);
                self.threads[waker as usize].ran_ns += self.cpus[cpu].waker_s;
            }
        }
    }

    /// The thread of `task` as in [`Builder::thread`], but with its current name, because the thread may have executed
    /// another program since its last event.
    fn named(&mut self, task: Task) -> u32 {
        let thread = self.thread(task);
        let name = &mut self.threads[thread as usize].name;
        if name != task.comm {
            task.comm.clone_into(name);
        }
        thread
    }

    /// The thread of `task`; a new thread is assumed to have existed from the beginning.
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
            is,
            from: self.first.unwrap_or(self.last),
            until: self.last,
            ..Known::default()
        });
        self.by_pid.insert(task.pid, index);
        index
    }

    pub fn flush(&mut self, thread: u32) {
        let thread = &mut self.threads[thread as usize];
        if thread.work > 0 {
            thread
                .steps
                .push(Entry::Step(Step::Run(std::mem::take(&mut thread.work))));
        }
    }

    fn wake(&mut self, line: &Line, now: u64, task: Task) {
        self.wakes = true;
        if task.pid == 0 {
            return;
        }
        let thread = match self.by_pid.get(&task.pid) {
            Some(&known) => known,
            // The thread has been asleep since the beginning.
            None => self.add(task, Is::Blocked(self.first.unwrap_or(now))),
        };
        let waker = self.cpus[line.cpu]
            .runs
            .filter(|&waker| !line.interrupt && waker != thread);
        let waker = waker.map(|waker| (waker, line.cpu));
        match self.threads[thread as usize].is {
            Is::Runnable => {
                let entry = waker.map_or(0, |(waker, cpu)| self.hold_place(waker, cpu, now));
                self.threads[thread as usize].early = Some(Early {
                    waker,
                    entry,
                    at: now,
                });
            }
            _ => self.woken(thread, now, waker, None),
        }
    }

    /// Adds a write or a read by the thread of `cpu`.
    fn moved(&mut self, cpu: usize, now: u64, moved: Moved) {
        let Ok(bytes @ 1..) = u32::try_from(moved.bytes) else {
            // A later stream at that address is a different stream.
            if moved.bytes == 0 && !moved.write {
                self.by_object.remove(&moved.object);
            }
            return;
        };
        let streams = &mut self.streams;
        let stream = *self.by_object.entry(moved.object).or_insert_with(|| {
            streams.push(Stream {
                socket: moved.socket,
                foreign: false,
            });
            streams.len() as u32 - 1
        });
        let Some(thread) = self.cpus[cpu].runs else {
            self.streams[stream as usize].foreign = true;
            return;
        };
        self.account(cpu, now);
        self.leave_out_probe(cpu, thread);
        self.flush(thread);
        self.threads[thread as usize].steps.push(Entry::Moved {
            stream,
            bytes,
            write: moved.write,
            at: now,
        });
    }

    /// Adds a step that changes the affinity of a thread, or the slice that it requests.
    fn set(&mut self, thread: Option<u32>, now: u64, mut step: Step) {
        let Some(thread) = thread else { return };
        if let Step::Slice(ns) = &mut step {
            if *ns != 0 {
                *ns = (*ns).clamp(*SLICES_NS.start(), *SLICES_NS.end());
            }
            if std::mem::replace(&mut self.threads[thread as usize].slice_ns, *ns) == *ns {
                return;
            }
        }
        let runs = self.cpus.iter().position(|cpu| cpu.runs == Some(thread));
        if let Some(cpu) = runs {
            self.account(cpu, now);
        }
        self.flush(thread);
        self.threads[thread as usize].steps.push(Entry::Step(step));
    }

    fn mark(&mut self, now: u64, text: &str) {
        let (_, text) = text.split_once(MARK).unwrap_or_default();
        let mut words = text.splitn(3, ' ');
        let what = words.next();
        let Some(pid) = words.next().and_then(|pid| pid.parse::<i32>().ok()) else {
            return;
        };
        let mark = match what {
            Some("futex") => {
                self.futexes.call = Some(pid.into());
                return;
            }
            Some("probe") => {
                self.probe_ns = if self.unprobed { pid as u64 } else { 0 };
                return;
            }
            Some("load") => Mark::Load,
            Some("recorder") => Mark::Recorder,
            Some(what @ ("cpus" | "slice")) => {
                let value = words.next().unwrap_or_default();
                let step = match what {
                    "cpus" => u64::from_str_radix(value, 16).map(|cpus| Step::Cpus(Some(cpus))),
                    _ => value.parse().map(Step::Slice),
                };
                self.first_steps.entry(pid).or_default().extend(step);
                return;
            }
            _ => return,
        };
        let thread = match self.by_pid.get(&pid) {
            Some(&known) => known,
            None => {
                let task = Task {
                    comm: words.next().unwrap_or_default(),
                    pid,
                    prio: NICE_0,
                };
                self.add(task, Is::Blocked(self.first.unwrap_or(now)))
            }
        };
        self.threads[thread as usize].marked = Some(mark);
        for step in self.first_steps.remove(&pid).unwrap_or_default() {
            self.set(Some(thread), now, step);
        }
    }

    /// Reserves a place in the steps of `waker`, which runs on `cpu`, for a wakeup at this time.
    fn hold_place(&mut self, waker: u32, cpu: usize, now: u64) -> u32 {
        self.account(cpu, now);
        self.flush(waker);
        let steps = &mut self.threads[waker as usize].steps;
        steps.push(Entry::Gone);
        steps.len() as u32 - 1
    }

    /// Ends the sleep of `thread`, which was woken by `waker`, or by `early` before it slept.
    fn woken(&mut self, thread: u32, now: u64, waker: Waker, early: Option<Early>) {
        let Is::Blocked(since) = self.threads[thread as usize].is else {
            return;
        };
        let (waker, now) = match early {
            Some(early) => (early.waker, early.at.max(since + 1).min(now)),
            None => (waker, now),
        };
        self.sleeps += 1;
        let known = &mut self.threads[thread as usize];
        known.is = Is::Runnable;
        known.woken = Some((now, waker.is_none()));
        known.early = None;
        // Leave out the time of the interrupt, which a replay adds after its timer.
        let irq = match (waker, self.machine) {
            (None, Some(machine)) => {
                let cpu = self.threads[thread as usize].cpu.unwrap_or(0);
                // The wait remains a sleep, even if it is short.
                let most = (now - since).saturating_sub(1);
                costs(machine, cpu).timer_irq_ns.min(most)
            }
            _ => 0,
        };
        let gap = Gap {
            ns: now - since - irq,
            until: now - irq,
        };
        let Some((waker, cpu)) = waker else {
            self.threads[thread as usize].steps.push(Entry::Slept(gap));
            return;
        };
        let place = match early {
            Some(early) => early.entry,
            None => self.hold_place(waker, cpu, now),
        };
        if let Some(machine) = self.machine
            && self.cpus[cpu].runs == Some(waker)
        {
            self.cpus[cpu].owed += self.kernel_ns(cpu, costs(machine, cpu).wakeup_ns);
        }
        let steps = &mut self.threads[thread as usize].steps;
        let entry = steps.len() as u32;
        steps.push(Entry::Woken { by: waker, gap });
        self.threads[waker as usize].steps[place as usize] = Entry::Wakes { thread, entry };
    }

    fn fork(&mut self, parent: u32, child: Task) -> u32 {
        let cpu = self.cpus.iter().position(|cpu| cpu.runs == Some(parent));
        if let Some(cpu) = cpu {
            self.account(cpu, self.last);
        }
        self.flush(parent);
        // The pid may have belonged to another thread, whose exit the trace lacks.
        let index = self.add(child, Is::Runnable);
        self.threads[index as usize].parent = Some(parent);
        self.threads[index as usize].from = self.last;
        self.threads[parent as usize]
            .steps
            .push(Entry::Step(Step::Fork(index as usize)));
        let inherited = Step::Slice(self.threads[parent as usize].slice_ns);
        self.set(Some(index), self.last, inherited);
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
                let thread = self.add(task, Is::Runnable);
                self.threads[thread as usize].from = now;
            }
        }
    }
}

pub fn costs(machine: &Machine, cpu: usize) -> &Costs {
    &machine.core_types[machine.cpus[cpu].core_type].costs
}
