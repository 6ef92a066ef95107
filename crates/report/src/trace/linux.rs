//! What Linux would trace of a simulation: its tracepoints follow from the simulated kernel's events and from the
//! machine. Idle states are entered as time passes, a child has its parent's name until it is renamed, and load
//! is tracked as in Linux (PELT, in time scaled by capacity and frequency), whatever the scheduler tracks.

use super::Writer;
use super::pelt::{Average, Levels};
use super::tracepoint::{Class, MILLIWATT, PICOJOULE, Record, State, Task, Tracepoint};
use crate::moves::Moves;
use machine::Machine;
use policy::{About, Decided, Decision};
use simulator::{Event, Trace, weight_of};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io;

/// What is made of a trace's records, which come in time order.
pub(crate) trait Format {
    /// The next one.
    fn record(&mut self, record: Record<'_>);

    /// Ends the trace at `now`, ns. The error is the first that writing met with, now or before.
    fn finish(&mut self, now: u64) -> io::Result<()>;
}

/// Makes the records.
pub(crate) struct Linux<F> {
    format: F,
    cpus: Vec<Cpu>,
    tasks: HashMap<i32, Tracked>,
    now: u64,
    moves: Moves,
    tick_ns: u64,
    next_tick: u64,
    /// When the next idle state of any CPU is entered, ns, at the earliest.
    next_idle: u64,
    began: bool,
}

struct Cpu {
    /// Of 1024 for the machine's largest.
    capacity: u32,
    /// kHz: the highest, and the slower of what cpufreq asks for and what the hardware allows; `None` where that is
    /// not known.
    frequency: Option<Frequency>,
    /// After how much time idle each of its idle states is entered, ns.
    residencies: Vec<u64>,
    current: Option<i32>,
    exiting: bool,
    /// What the scheduler last asked cpufreq for, of 1024.
    asked: Option<i64>,
    /// Idle, since.
    idle_since: u64,
    /// So many idle states have been entered.
    idle_states: usize,
    /// `clock_pelt`, and the time at which it was that, ns; while idle it is the time.
    clock: u64,
    clock_at: u64,
    fair: Tracker,
    /// Running time alone.
    rt: Average,
    dl: Average,
}

struct Frequency {
    highest: u32,
    asked: u32,
    allowed: u32,
}

impl Frequency {
    fn khz(&self) -> u32 {
        self.asked.min(self.allowed)
    }
}

/// The tasks of a runqueue, and their averages.
#[derive(Default)]
struct Tracker {
    average: Average,
    runnable: f64,
    weight: f64,
}

struct Tracked {
    name: String,
    prio: i32,
    cpu: usize,
    runnable: bool,
    running: bool,
    average: Average,
}

impl Tracked {
    fn is_fair(&self) -> bool {
        Class::of(self.prio) == Class::Fair
    }

    fn levels(&self) -> Levels {
        let level = |on: bool, level: f64| if on { level } else { 0.0 };
        Levels {
            load: level(self.runnable, weight_of(self.prio).into()),
            runnable: level(self.runnable, 1024.0),
            util: level(self.running, 1024.0),
        }
    }
}

impl Cpu {
    /// What its clock advances in 1024 ns while it is busy.
    fn scale(&self) -> u64 {
        let capacity = u64::from(self.capacity);
        match &self.frequency {
            Some(frequency) => {
                capacity * u64::from(frequency.khz()) / u64::from(frequency.highest.max(1))
            }
            None => capacity,
        }
    }

    fn clock(&self, now: u64) -> u64 {
        match self.current {
            Some(_) => self.clock + (((now - self.clock_at) * self.scale()) >> 10),
            None => now,
        }
    }

    /// Before its speed changes, or who runs.
    fn update_clock(&mut self, now: u64) {
        self.clock = self.clock(now);
        self.clock_at = now;
    }

    /// Its averages are brought up to `now`, while a task of `class` runs.
    fn update(&mut self, now: u64, class: Option<Class>) {
        let clock = self.clock(now);
        let util = |of: Class| if class == Some(of) { 1024.0 } else { 0.0 };
        let running = |of: Class| Levels {
            util: util(of),
            ..Levels::default()
        };
        self.rt.update(clock, running(Class::Rt));
        self.dl.update(clock, running(Class::Dl));
        let fair = Levels {
            load: self.fair.weight,
            runnable: self.fair.runnable * 1024.0,
            util: util(Class::Fair),
        };
        self.fair.average.update(clock, fair);
    }

    /// The idle state that it enters next, and when, ns.
    fn next_idle_state(&self) -> Option<(usize, u64)> {
        if self.current.is_some() {
            return None;
        }
        let state = self.idle_states;
        Some((state, self.idle_since + self.residencies.get(state)?))
    }
}

/// Who runs on `cpu`.
fn running<'a>(tasks: &'a HashMap<i32, Tracked>, cpu: &Cpu) -> Task<'a> {
    let task = |pid| Some((tasks.get(&pid)?.name.as_str(), pid));
    cpu.current.and_then(task).unwrap_or(("<idle>", 0))
}

impl<F: Format> Linux<F> {
    /// Of a run on `machine`, all of whose CPUs are idle and at their highest frequencies.
    pub fn new(machine: &Machine, format: F) -> Linux<F> {
        let largest = machine.cpus.iter().map(|cpu| cpu.capacity).max();
        let cpu = |cpu: &machine::Cpu| {
            let core = &machine.core_types[cpu.core_type];
            let states = core.idle_states.iter();
            let residencies: Vec<u64> = states.map(|state| state.min_residency_ns).collect();
            Cpu {
                capacity: cpu.capacity * 1024 / largest.unwrap_or(1).max(1),
                frequency: core.opps.last().map(|opp| Frequency {
                    highest: opp.khz,
                    asked: opp.khz,
                    allowed: opp.khz,
                }),
                // Without a cpuidle driver there is the architecture's one state.
                residencies: if residencies.is_empty() {
                    vec![0]
                } else {
                    residencies
                },
                current: None,
                exiting: false,
                asked: None,
                idle_since: 0,
                idle_states: 0,
                clock: 0,
                clock_at: 0,
                fair: Tracker::default(),
                rt: Average::default(),
                dl: Average::default(),
            }
        };
        let tick_ns = 1_000_000_000 / u64::from(machine.hz.max(1));
        Linux {
            format,
            cpus: machine.cpus.iter().map(cpu).collect(),
            tasks: HashMap::new(),
            moves: Moves::default(),
            now: 0,
            tick_ns,
            next_tick: tick_ns,
            next_idle: 0,
            began: false,
        }
    }

    /// What was made of the records, at their end.
    pub fn into_format(mut self) -> F {
        // A format that writes nothing cannot fail.
        let _ = self.finish();
        self.format
    }

    fn record(&mut self, cpu: usize, event: Tracepoint<'_>) {
        self.format.record(Record {
            now: self.now,
            cpu,
            current: running(&self.tasks, &self.cpus[cpu]),
            event,
        });
    }

    /// How fast each CPU is from the beginning.
    fn begin(&mut self) {
        self.began = true;
        for cpu in 0..self.cpus.len() {
            self.record_speed(cpu);
        }
    }

    fn record_speed(&mut self, cpu: usize) {
        let state = &self.cpus[cpu];
        let (orig, curr) = (state.capacity, state.scale() as u32);
        let khz = state.frequency.as_ref().map(Frequency::khz);
        if let Some(state) = khz {
            self.record(cpu, Tracepoint::CpuFrequency { state });
        }
        self.record(cpu, Tracepoint::SchedCpuCapacity { orig, curr });
    }

    /// What happens by itself before `now`: idle states are entered, and ticks look at who runs.
    fn pass(&mut self, now: u64) {
        loop {
            let due = self.next_tick.min(self.next_idle);
            if due > now {
                return;
            }
            self.now = self.now.max(due);
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
        for cpu in 0..self.cpus.len() {
            while let Some((state, at)) = self.cpus[cpu].next_idle_state() {
                if at > due {
                    next = next.min(at);
                    break;
                }
                self.cpus[cpu].idle_states += 1;
                let state = Some(state as u32);
                self.record(cpu, Tracepoint::CpuIdle { state });
            }
        }
        self.next_idle = next;
    }

    fn tick(&mut self) {
        for cpu in 0..self.cpus.len() {
            if let Some(pid) = self.cpus[cpu].current {
                self.update(cpu);
                self.update_task(pid);
                self.record_task(cpu, pid);
                self.record_cpu(cpu);
            }
        }
    }

    /// Brings `cpu`'s averages up to now.
    fn update(&mut self, cpu: usize) {
        let tasks = &self.tasks;
        let current = self.cpus[cpu].current.and_then(|pid| tasks.get(&pid));
        let class = current.map(|task| Class::of(task.prio));
        self.cpus[cpu].update(self.now, class);
    }

    /// Brings a task's averages up to now.
    fn update_task(&mut self, pid: i32) {
        if let Some(task) = self.tasks.get_mut(&pid) {
            let clock = self.cpus[task.cpu].clock(self.now);
            task.average.update(clock, task.levels());
        }
    }

    fn record_task(&mut self, cpu: usize, pid: i32) {
        let Some(task) = self.tasks.get(&pid).filter(|task| task.is_fair()) else {
            return;
        };
        self.format.record(Record {
            now: self.now,
            cpu,
            current: running(&self.tasks, &self.cpus[cpu]),
            event: Tracepoint::SchedPeltSe {
                cpu: task.cpu,
                task: (&task.name, pid),
                average: task.average,
            },
        });
    }

    /// The averages of `cpu`'s classes, of real time only if there was any.
    fn record_cpu(&mut self, cpu: usize) {
        let state = &self.cpus[cpu];
        let averages = [
            (Class::Fair, state.fair.average),
            (Class::Rt, state.rt),
            (Class::Dl, state.dl),
        ];
        for (class, average) in averages {
            if class == Class::Fair || average.levels().util >= 1.0 {
                self.record(cpu, Tracepoint::SchedPelt { class, average });
            }
        }
    }

    /// The task `pid`, which is new if nobody has heard of it. A new task's utilization is half of what its CPU has
    /// left, the bound that Linux has (`post_init_entity_util_avg()`).
    fn know(&mut self, cpu: usize, task: Task<'_>, prio: i32) {
        let state = &mut self.cpus[cpu];
        let util = (f64::from(state.capacity) - state.fair.average.levels().util).max(0.0) / 2.0;
        let fair = &mut state.fair;
        self.tasks.entry(task.1).or_insert_with(|| {
            let levels = Levels {
                load: weight_of(prio).into(),
                runnable: util,
                util,
            };
            let average = Average::attach(&fair.average, levels);
            if Class::of(prio) == Class::Fair {
                fair.average.add(levels);
            }
            Tracked {
                name: task.0.to_owned(),
                prio,
                cpu,
                runnable: false,
                running: false,
                average,
            }
        });
    }

    /// `pid` becomes runnable, or ceases to be, after its averages and its CPU's were updated.
    fn set_runnable(&mut self, pid: i32, runnable: bool) {
        let Some(task) = self.tasks.get_mut(&pid) else {
            return;
        };
        if task.runnable == runnable {
            return;
        }
        task.runnable = runnable;
        if task.is_fair() {
            let sign = if runnable { 1.0 } else { -1.0 };
            let fair = &mut self.cpus[task.cpu].fair;
            fair.runnable += sign;
            fair.weight += sign * f64::from(weight_of(task.prio));
        }
    }

    /// It may be another than before, and of another class, whose averages are brought up to now.
    fn set_prio(&mut self, pid: i32, prio: i32) {
        let Some(task) = self.tasks.get(&pid) else {
            return;
        };
        let (runnable, cpu, was_fair) = (task.runnable, task.cpu, task.is_fair());
        self.set_runnable(pid, false);
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.prio = prio;
            let (fair, levels) = (&mut self.cpus[cpu].fair.average, task.average.levels());
            match (was_fair, task.is_fair()) {
                (true, false) => fair.remove(levels),
                (false, true) => fair.add(levels),
                _ => {}
            }
        }
        self.set_runnable(pid, runnable);
    }

    /// The averages of `pid` go with it to `cpu`.
    fn move_task(&mut self, pid: i32, cpu: usize) {
        let Some(from) = self.tasks.get(&pid).map(|task| task.cpu) else {
            return;
        };
        if from == cpu {
            return;
        }
        self.update(from);
        self.update(cpu);
        self.update_task(pid);
        let runnable = self.tasks[&pid].runnable;
        self.set_runnable(pid, false);
        if let Some(task) = self.tasks.get_mut(&pid) {
            let levels = task.average.levels();
            if task.is_fair() {
                self.cpus[from].fair.average.remove(levels);
                self.cpus[cpu].fair.average.add(levels);
            }
            task.average = Average::attach(&self.cpus[cpu].fair.average, levels);
            task.cpu = cpu;
        }
        self.set_runnable(pid, runnable);
    }

    fn wakeup(&mut self, cpu: usize, task: Task<'_>, prio: i32, target_cpu: usize, new: bool) {
        self.update(target_cpu);
        self.know(target_cpu, task, prio);
        self.move_task(task.1, target_cpu);
        self.update_task(task.1);
        self.set_runnable(task.1, true);
        self.record_task(cpu, task.1);
        let event = Tracepoint::SchedWakeup {
            task,
            prio,
            target_cpu,
            new,
        };
        self.record(cpu, event);
    }

    fn switch(&mut self, cpu: usize, prev: (Task<'_>, i32), next: (Task<'_>, i32), runnable: bool) {
        let ((prev, prev_prio), (next, next_prio)) = (prev, next);
        self.update(cpu);
        if prev.1 == 0 {
            if self.cpus[cpu].idle_states > 0 {
                self.record(cpu, Tracepoint::CpuIdle { state: None });
            }
        } else {
            self.update_task(prev.1);
            self.record_task(cpu, prev.1);
        }
        self.record_cpu(cpu);
        let exits = std::mem::take(&mut self.cpus[cpu].exiting);
        let prev_state = match (runnable, exits) {
            (true, _) => State::Running,
            (false, true) => State::Dead,
            (false, false) => State::Interruptible,
        };
        let event = Tracepoint::SchedSwitch {
            prev,
            prev_prio,
            prev_state,
            next,
            next_prio,
        };
        self.record(cpu, event);
        if let Some(task) = self.tasks.get_mut(&prev.1) {
            task.running = false;
        }
        if !runnable {
            self.set_runnable(prev.1, false);
        }
        if prev_state == State::Dead
            && let Some(task) = self.tasks.remove(&prev.1)
            && task.is_fair()
        {
            self.cpus[cpu].fair.average.remove(task.average.levels());
        }
        if next.1 != 0 {
            self.know(cpu, next, next_prio);
            self.move_task(next.1, cpu);
            self.update_task(next.1);
            self.set_prio(next.1, next_prio);
            self.set_runnable(next.1, true);
        }
        if let Some(task) = self.tasks.get_mut(&next.1) {
            task.running = true;
        }
        let now = self.now;
        let state = &mut self.cpus[cpu];
        state.update_clock(now);
        state.current = Some(next.1).filter(|&pid| pid != 0);
        if next.1 == 0 {
            // The time that it idles is made up for at once (`rq->lost_idle_time`).
            (state.idle_since, state.idle_states) = (now, 0);
            if let Some((_, at)) = state.next_idle_state() {
                self.next_idle = self.next_idle.min(at);
            }
        }
    }

    /// The scheduler says why. It asks for a frequency again and again: said is what changes.
    fn decide(&mut self, cpu: usize, task: Option<Task<'_>>, decided: Decided<'_>) {
        let pulled = self.moves.pulled(self.now, decided.decision, decided.cpu);
        let pulled = pulled.and_then(|pid| Some((self.tasks.get(&pid)?.name.clone(), pid)));
        let task = task.or(pulled.as_ref().map(|(name, pid)| (name.as_str(), *pid)));
        let decided = Decided {
            task: task.map(|task| task.0),
            ..decided
        };
        if decided.decision.about == About::Frequency
            && let Some(asking) = decided.cpu.and_then(|cpu| self.cpus.get_mut(cpu))
            && asking.asked.replace(decided.numbers[0]) == Some(decided.numbers[0])
        {
            return;
        }
        let name = |pid| match self.tasks.get(&pid) {
            Some(task) => Cow::Borrowed(task.name.as_str()),
            None => Cow::Owned(format!("task {pid}")),
        };
        let why = decided.why(name);
        let why = why.as_str();
        self.record(cpu, Tracepoint::Decision { task, decided, why });
    }

    /// cpufreq or the hardware changes how fast `cpu` may be.
    fn set_frequency(&mut self, cpu: usize, change: impl FnOnce(&mut Frequency)) {
        self.update(cpu);
        let now = self.now;
        let state = &mut self.cpus[cpu];
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

impl<F: Format> Trace for Linux<F> {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        if !self.began {
            self.begin();
        }
        self.pass(now);
        self.now = now;
        match event {
            Event::Switch {
                prev,
                prev_prio,
                prev_runnable,
                next,
                next_prio,
            } => self.switch(cpu, (prev, prev_prio), (next, next_prio), prev_runnable),
            Event::Wakeup {
                task,
                prio,
                target_cpu,
                new,
            } => self.wakeup(cpu, task, prio, target_cpu, new),
            Event::Migrate {
                task,
                prio,
                from,
                to,
            } => {
                self.move_task(task.1, to);
                self.moves.moved(now, task.1, to);
                let event = Tracepoint::SchedMigrateTask {
                    task,
                    prio,
                    orig_cpu: from,
                    dest_cpu: to,
                };
                self.record(cpu, event);
            }
            Event::Fork { parent, child } => {
                let child_pid = child.1;
                self.record(cpu, Tracepoint::SchedProcessFork { parent, child_pid });
                if child.0 != parent.0 {
                    let event = Tracepoint::TaskRename {
                        pid: child_pid,
                        oldcomm: parent.0,
                        newcomm: child.0,
                    };
                    self.record(cpu, event);
                }
            }
            Event::Exit { task, prio } => {
                self.cpus[cpu].exiting = true;
                self.record(cpu, Tracepoint::SchedProcessExit { task, prio });
            }
            Event::Power { part, mw, pj } => {
                let counter = |unit, value| Tracepoint::Counter { part, unit, value };
                self.record(cpu, counter(MILLIWATT, mw.into()));
                if pj > 0 {
                    self.record(cpu, counter(PICOJOULE, pj));
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
                    self.decide(cpu, task, decided);
                }
            }
            Event::Printk(message) => self.record(cpu, Tracepoint::BpfTracePrintk { message }),
        }
    }
}

impl<F: Format> Writer for Linux<F> {
    fn finish(&mut self) -> io::Result<()> {
        if !self.began {
            self.begin();
        }
        self.format.finish(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::{Case, Runs, Scheduler};

    /// Looks at the records: they are in order, and idle states end as they began.
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
                Tracepoint::CpuIdle { state } => {
                    assert!(state.is_some() || *idle, "an end without a beginning");
                    *idle = state.is_some();
                }
                Tracepoint::SchedSwitch { .. } => assert!(!*idle, "idle while it switches"),
                // A CPU's may be more for a while, when tasks come to it.
                Tracepoint::SchedPeltSe { average, .. } => {
                    assert!((0.0..1025.0).contains(&average.levels().util));
                }
                _ => {}
            }
        }

        fn finish(&mut self, _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    /// After each event what is tracked of a CPU must be what is tracked of its tasks, together.
    struct Checked(Linux<Watch>, u64);

    impl Trace for Checked {
        fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
            let Checked(linux, events) = self;
            linux.event(now, cpu, event);
            *events += 1;
            if *events % 50 != 0 {
                return;
            }
            let pids: Vec<i32> = linux.tasks.keys().copied().collect();
            pids.iter().for_each(|&pid| linux.update_task(pid));
            for cpu in 0..linux.cpus.len() {
                linux.update(cpu);
                let tasks = linux.tasks.values();
                let tasks: Vec<&Tracked> = tasks
                    .filter(|task| task.cpu == cpu && task.is_fair())
                    .collect();
                let fair = &linux.cpus[cpu].fair;
                let (sum, of) = (
                    |level: fn(Levels) -> f64| -> f64 {
                        tasks.iter().map(|task| level(task.average.levels())).sum()
                    },
                    fair.average.levels(),
                );
                // A clock's 1024 ns, each time that one comes or goes.
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
                workload: &*workload::load(workload).unwrap(),
                scheduler: &Scheduler::policy(policy).unwrap(),
            };
            let runs = Runs {
                count: 1,
                seed: 1,
                jobs: 1,
            };
            lab::trace(&case, &runs, &mut checked).unwrap();
            assert!(checked.0.into_format().seen > 1000);
        }
    }
}
