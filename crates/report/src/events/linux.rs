//! Linux's trace of a simulation: its tracepoints follow from the simulated kernel's events and from the machine. Idle
//! states are entered as time passes, and a child has its parent's name until it is renamed.

use super::Writer;
use super::tracked::{Frequency, Tracked};
use crate::moves::Moves;
use machine::Machine;
use policy::{About, Decided, Decision};
use simulator::{Event, Trace};
use std::borrow::Cow;
use std::io;
use trace::write::Format;
use trace::{Class, DEFAULT_PRIO, Record, Stage, State, Task, Tracepoint, Unit};

/// Makes the records of a trace, and passes them to `F`.
pub(crate) struct Linux<F> {
    format: F,
    state: Tracked,
    moves: Moves,
    tick_ns: u64,
    next_tick: u64,
    /// The earliest time at which a CPU enters its next idle state, in ns.
    next_idle: u64,
    began: bool,
}

impl<F: Format> Linux<F> {
    /// Starts the trace of a run on `machine`, whose CPUs are all idle and at their highest frequencies.
    pub fn new(machine: &Machine, format: F) -> Linux<F> {
        let tick_ns = 1_000_000_000 / u64::from(machine.hz.max(1));
        Linux {
            format,
            state: Tracked::new(machine),
            moves: Moves::default(),
            tick_ns,
            next_tick: tick_ns,
            next_idle: 0,
            began: false,
        }
    }

    /// Ends the trace, and returns the consumer.
    pub fn into_format(mut self) -> F {
        // A consumer that writes nothing cannot fail.
        let _ = self.finish();
        self.format
    }

    fn record(&mut self, cpu: usize, event: Tracepoint<'_>) {
        self.format.record(Record {
            now: self.state.now,
            cpu,
            current: self.state.running(cpu),
            event,
        });
    }

    fn begin(&mut self) {
        self.began = true;
        for cpu in 0..self.state.cpus.len() {
            self.record_speed(cpu);
        }
    }

    fn record_speed(&mut self, cpu: usize) {
        let state = &self.state.cpus[cpu];
        let (orig, curr) = (state.capacity, state.scale() as u32);
        let khz = state.frequency.as_ref().map(Frequency::khz);
        if let Some(khz) = khz {
            self.record(cpu, Tracepoint::Frequency { cpu, khz });
        }
        self.record(cpu, Tracepoint::Capacity { cpu, orig, curr });
    }

    /// Records the events that time alone causes up to `now`: CPUs entering idle states, and ticks.
    fn pass(&mut self, now: u64) {
        loop {
            let due = self.next_tick.min(self.next_idle);
            if due > now {
                return;
            }
            self.state.now = self.state.now.max(due);
            if self.next_idle <= due {
                self.enter_idle_states(due);
            }
            if self.next_tick <= due {
                self.next_tick = due + self.tick_ns;
                self.tick();
            }
        }
    }

    fn enter_idle_states(&mut self, due: u64) {
        let mut next = u64::MAX;
        for cpu in 0..self.state.cpus.len() {
            while let Some((state, at)) = self.state.cpus[cpu].next_idle_state() {
                if at > due {
                    next = next.min(at);
                    break;
                }
                self.state.cpus[cpu].idle_states += 1;
                let state = Some(state as u32);
                self.record(cpu, Tracepoint::Idle { cpu, state });
            }
        }
        self.next_idle = next;
    }

    fn tick(&mut self) {
        for cpu in 0..self.state.cpus.len() {
            if let Some(pid) = self.state.cpus[cpu].current {
                self.state.update(cpu);
                self.state.update_task(pid);
                self.record_task(cpu, pid);
                self.record_cpu(cpu);
            }
        }
    }

    fn record_task(&mut self, cpu: usize, pid: i32) {
        let Some(task) = self.state.tasks.get(&pid).filter(|task| task.is_fair()) else {
            return;
        };
        self.format.record(Record {
            now: self.state.now,
            cpu,
            current: self.state.running(cpu),
            event: Tracepoint::PeltTask {
                cpu: task.cpu,
                task: Task {
                    comm: &task.name,
                    pid,
                    prio: task.prio,
                },
                average: task.average.averages(),
            },
        });
    }

    /// Records the averages of `cpu`'s classes. Those of the real-time and deadline classes are recorded only if their
    /// utilization is at least 1.
    fn record_cpu(&mut self, cpu: usize) {
        let state = &self.state.cpus[cpu];
        let averages = [
            (Class::Fair, state.fair.average),
            (Class::Rt, state.rt),
            (Class::Dl, state.dl),
        ];
        for (class, average) in averages {
            if class == Class::Fair || average.levels().util >= 1.0 {
                self.record(
                    cpu,
                    Tracepoint::PeltCpu {
                        cpu,
                        class,
                        average: average.averages(),
                    },
                );
            }
        }
    }

    fn wakeup(&mut self, cpu: usize, task: Task<'_>, target_cpu: usize, stage: Stage) {
        self.state.update(target_cpu);
        self.state.know(target_cpu, task);
        self.state.move_task(task.pid, target_cpu);
        self.state.update_task(task.pid);
        self.state.set_runnable(task.pid, true);
        self.record_task(cpu, task.pid);
        let event = Tracepoint::Wakeup {
            stage,
            task,
            target_cpu: Some(target_cpu),
        };
        self.record(cpu, event);
    }

    fn switch(&mut self, cpu: usize, prev: Task<'_>, next: Task<'_>, runnable: bool) {
        self.state.update(cpu);
        if prev.pid == 0 {
            if self.state.cpus[cpu].idle_states > 0 {
                self.record(cpu, Tracepoint::Idle { cpu, state: None });
            }
        } else {
            self.state.update_task(prev.pid);
            self.record_task(cpu, prev.pid);
        }
        self.record_cpu(cpu);
        let exits = std::mem::take(&mut self.state.cpus[cpu].exiting);
        let state = match (runnable, exits) {
            (true, _) => State::Runnable,
            (false, true) => State::Dead,
            (false, false) => State::Blocked,
        };
        self.record(cpu, Tracepoint::Switch { prev, state, next });
        if let Some(task) = self.state.tasks.get_mut(&prev.pid) {
            task.running = false;
        }
        if !runnable {
            self.state.set_runnable(prev.pid, false);
        }
        if state == State::Dead
            && let Some(task) = self.state.tasks.remove(&prev.pid)
            && task.is_fair()
        {
            self.state.cpus[cpu]
                .fair
                .average
                .remove(task.average.levels());
        }
        if next.pid != 0 {
            self.state.know(cpu, next);
            self.state.move_task(next.pid, cpu);
            self.state.update_task(next.pid);
            self.state.set_prio(next.pid, next.prio);
            self.state.set_runnable(next.pid, true);
        }
        if let Some(task) = self.state.tasks.get_mut(&next.pid) {
            task.running = true;
        }
        let now = self.state.now;
        let state = &mut self.state.cpus[cpu];
        state.update_clock(now);
        state.current = Some(next.pid).filter(|&pid| pid != 0);
        if next.pid == 0 {
            (state.idle_since, state.idle_states) = (now, 0);
            if let Some((_, at)) = state.next_idle_state() {
                self.next_idle = self.next_idle.min(at);
            }
        }
    }

    /// Records a decision of the scheduler. The scheduler repeats frequency requests, so only changed requests are
    /// recorded.
    fn decide(&mut self, cpu: usize, task: Option<Task<'_>>, decided: Decided<'_>) {
        let pulled = self
            .moves
            .pulled(self.state.now, decided.decision, decided.cpu);
        let pulled = pulled.and_then(|pid| Some((self.state.tasks.get(&pid)?.name.clone(), pid)));
        let task = task.or(pulled
            .as_ref()
            .map(|(name, pid)| named((name, *pid), DEFAULT_PRIO)));
        let decided = Decided {
            task: task.map(|task| task.comm),
            ..decided
        };
        if decided.decision.about == About::Frequency
            && let Some(asking) = decided.cpu.and_then(|cpu| self.state.cpus.get_mut(cpu))
            && asking.asked.replace(decided.numbers[0]) == Some(decided.numbers[0])
        {
            return;
        }
        let name = |pid| match self.state.tasks.get(&pid) {
            Some(task) => Cow::Borrowed(task.name.as_str()),
            None => Cow::Owned(format!("task {pid}")),
        };
        let numbers: Vec<(&'static str, i64)> = decided
            .numbers()
            .map(|(name, _, value)| (name, value))
            .collect();
        let (what, why) = (decided.what(), decided.why(name));
        let event = Tracepoint::Decision {
            task,
            name: decided.decision.name,
            what: &what,
            numbers: &numbers,
            why: &why,
        };
        self.record(cpu, event);
    }

    /// Changes the frequency request or the hardware's limit of `cpu` by calling `change`.
    fn set_frequency(&mut self, cpu: usize, change: impl FnOnce(&mut Frequency)) {
        self.state.update(cpu);
        let now = self.state.now;
        let state = &mut self.state.cpus[cpu];
        state.update_clock(now);
        let Some(frequency) = &mut state.frequency else {
            return;
        };
        let before = frequency.khz();
        change(frequency);
        if frequency.khz() != before {
            self.record_speed(cpu);
        }
    }
}

/// Makes a task of the name and pid that the simulator reports.
fn named((comm, pid): (&str, i32), prio: i32) -> Task<'_> {
    Task { comm, pid, prio }
}

impl<F: Format> Trace for Linux<F> {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        if !self.began {
            self.begin();
        }
        self.pass(now);
        self.state.now = now;
        match event {
            Event::Switch {
                prev,
                prev_prio,
                prev_runnable,
                next,
                next_prio,
            } => {
                let (prev, next) = (named(prev, prev_prio), named(next, next_prio));
                self.switch(cpu, prev, next, prev_runnable);
            }
            Event::Wakeup {
                task,
                prio,
                target_cpu,
                new,
            } => {
                let stage = if new { Stage::New } else { Stage::Woken };
                self.wakeup(cpu, named(task, prio), target_cpu, stage);
            }
            Event::Migrate {
                task,
                prio,
                from,
                to,
            } => {
                self.state.move_task(task.1, to);
                self.moves.moved(now, task.1, to);
                let event = Tracepoint::Migrate {
                    task: named(task, prio),
                    orig_cpu: from,
                    dest_cpu: to,
                };
                self.record(cpu, event);
            }
            Event::Fork { parent, child } => {
                let event = Tracepoint::Fork {
                    parent: named(parent, DEFAULT_PRIO),
                    child: named((parent.0, child.1), DEFAULT_PRIO),
                };
                self.record(cpu, event);
                if child.0 != parent.0 {
                    let event = Tracepoint::Rename {
                        pid: child.1,
                        oldcomm: parent.0,
                        newcomm: child.0,
                    };
                    self.record(cpu, event);
                }
            }
            Event::Exit { task, prio } => {
                self.state.cpus[cpu].exiting = true;
                self.record(cpu, Tracepoint::Exit(named(task, prio)));
            }
            Event::Power { part, mw, pj } => {
                let part = part.to_string();
                let counter = |unit, value| Tracepoint::Counter {
                    part: &part,
                    unit,
                    value,
                };
                self.record(cpu, counter(Unit::Milliwatt, mw.into()));
                if pj > 0 {
                    self.record(cpu, counter(Unit::Picojoule, pj));
                }
            }
            Event::CpuFrequency { khz } => {
                self.set_frequency(cpu, |frequency| frequency.asked = khz)
            }
            Event::Turbo { khz } => self.set_frequency(cpu, |frequency| frequency.allowed = khz),
            Event::Decision {
                decision,
                task,
                cpu: about,
                numbers,
                ..
            } => {
                if let Some(decision) = Decision::find(decision) {
                    let decided = Decided {
                        decision,
                        task: task.map(|task| task.0),
                        cpu: about,
                        numbers,
                    };
                    let task = task.map(|task| named(task, DEFAULT_PRIO));
                    self.decide(cpu, task, decided);
                }
            }
            Event::Printk(message) => self.record(cpu, Tracepoint::Printk(message)),
            Event::Waker { .. }
            | Event::Affinity { .. }
            | Event::FrequencyLimit { .. }
            | Event::Online(_)
            | Event::Loaded(_)
            | Event::Weight { .. }
            | Event::Polls { .. }
            | Event::Period { .. } => {}
        }
    }
}

impl<F: Format> Writer for Linux<F> {
    fn finish(&mut self) -> io::Result<()> {
        if !self.began {
            self.begin();
        }
        self.format.finish(self.state.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::pelt::Levels;
    use crate::events::tracked::Entity;
    use lab::{Case, Runs, Scheduler};
    use std::sync::atomic::AtomicBool;

    /// Checks that records are in order, and that an idle state ends only after it began and before the CPU switches.
    #[derive(Default)]
    struct Watch {
        last: u64,
        idle: Vec<bool>,
        seen: u64,
    }

    impl Format for Watch {
        fn record(&mut self, record: Record<'_>) {
            assert!(record.now >= self.last);
            self.last = record.now;
            self.seen += 1;
            self.idle.resize(self.idle.len().max(record.cpu + 1), false);
            let idle = &mut self.idle[record.cpu];
            match record.event {
                Tracepoint::Idle { state, .. } => {
                    assert!(state.is_some() || *idle, "an end without a beginning");
                    *idle = state.is_some();
                }
                Tracepoint::Switch { .. } => assert!(!*idle, "idle while it switches"),
                // The average of a CPU may exceed the limit for a while, when tasks arrive.
                Tracepoint::PeltTask { average, .. } => {
                    assert!((0.0..1025.0).contains(&average.util));
                }
                _ => {}
            }
        }

        fn finish(&mut self, _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    /// After every 50th event, checks that the averages of a CPU equal the sums over its tasks.
    struct Checked(Linux<Watch>, u64);

    impl Trace for Checked {
        fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
            let Checked(linux, events) = self;
            linux.event(now, cpu, event);
            *events += 1;
            if *events % 50 != 0 {
                return;
            }
            let pids: Vec<i32> = linux.state.tasks.keys().copied().collect();
            pids.iter().for_each(|&pid| linux.state.update_task(pid));
            for cpu in 0..linux.state.cpus.len() {
                linux.state.update(cpu);
                let tasks = linux.state.tasks.values();
                let tasks: Vec<&Entity> = tasks
                    .filter(|task| task.cpu == cpu && task.is_fair())
                    .collect();
                let fair = &linux.state.cpus[cpu].fair;
                let (sum, of) = (
                    |level: fn(Levels) -> f64| -> f64 {
                        tasks.iter().map(|task| level(task.average.levels())).sum()
                    },
                    fair.average.levels(),
                );
                // Each arrival or departure may shift an average by 1024 ns of the clock.
                let near = |one: f64, other: f64| (one - other).abs() <= 2.0 + one.abs() / 200.0;
                assert!(
                    near(sum(|levels| levels.util), of.util),
                    "CPU {cpu} at {now}"
                );
                assert!(
                    near(sum(|levels| levels.load), of.load),
                    "CPU {cpu} at {now}"
                );
                let runnable = tasks.iter().filter(|task| task.runnable).count();
                assert_eq!(fair.runnable as usize, runnable, "CPU {cpu} at {now}");
            }
        }
    }

    #[test]
    fn a_cpu_s_load_is_that_of_its_tasks() {
        let every_class = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../lab/tests/decisions/every-class.json"
        );
        for (machine, workload, policy) in [
            ("odroid-xu3", "mixed", "schedutil"),
            ("odroid-xu3", every_class, "eevdf"),
            ("snb-laptop", "mixed", "equipoise"),
            ("tc2", "hackbench:groups=2,fds=3,loops=100", "eevdf"),
        ] {
            let machine = Machine::find(machine).unwrap();
            let mut checked = Checked(Linux::new(&machine, Watch::default()), 0);
            let case = Case {
                machine: &machine,
                workload: &*models::load(workload).unwrap(),
                scheduler: &Scheduler::policy(policy).unwrap(),
            };
            let runs = Runs {
                count: 1,
                seed: 1,
                jobs: 1,
                noise: false,
            };
            lab::trace_until(&case, &runs, &mut checked, &AtomicBool::new(false)).unwrap();
            assert!(checked.0.into_format().seen > 1000);
        }
    }
}
