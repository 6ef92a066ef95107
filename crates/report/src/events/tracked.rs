//! Linux's tracking of CPUs and tasks (PELT, in time scaled by capacity and frequency), independent of the scheduler's
//! own tracking.

use super::pelt::{Average, Levels};
use machine::Machine;
use simulator::weight_of;
use std::collections::HashMap;
use trace::{Class, DEFAULT_PRIO, Task};

/// ftrace's name of a CPU's idle task in the heads of lines.
const IDLE: Task<'_> = Task {
    comm: "<idle>",
    pid: 0,
    prio: DEFAULT_PRIO,
};

pub(super) struct Tracked {
    pub cpus: Vec<Cpu>,
    /// The tasks by pid.
    pub tasks: HashMap<i32, Entity>,
    /// The current time, in ns.
    pub now: u64,
}

#[derive(Default)]
pub(super) struct Cpu {
    /// The capacity, where 1024 is that of the machine's largest CPU.
    pub capacity: u32,
    /// The frequencies in kHz; `None` if unknown. The current frequency is the lower of the cpufreq request and the
    /// hardware's limit.
    pub frequency: Option<Frequency>,
    /// For each idle state of the CPU, the idle time in ns after which the CPU enters it.
    residencies: Vec<u64>,
    pub current: Option<i32>,
    pub exiting: bool,
    /// The scheduler's last cpufreq request, where 1024 is the highest request.
    pub asked: Option<i64>,
    /// The time since which the CPU has been idle.
    pub idle_since: u64,
    /// The number of idle states that the CPU has entered since it went idle.
    pub idle_states: usize,
    /// `clock_pelt`, and the time when it had that value, in ns. While the CPU is idle, `clock_pelt` equals the time
    /// (`rq->lost_idle_time`).
    clock: u64,
    clock_at: u64,
    pub fair: Tracker,
    /// The average of the real-time class, which has only running time; `dl` is the average of the deadline class.
    pub rt: Average,
    pub dl: Average,
}

pub(super) struct Frequency {
    pub highest: u32,
    pub asked: u32,
    pub allowed: u32,
}

impl Frequency {
    pub fn khz(&self) -> u32 {
        self.asked.min(self.allowed)
    }
}

/// The averages of a runqueue's fair tasks, and the number and the weight of its runnable tasks.
#[derive(Default)]
pub(super) struct Tracker {
    pub average: Average,
    pub runnable: f64,
    weight: f64,
}

pub(super) struct Entity {
    pub name: String,
    pub prio: i32,
    pub cpu: usize,
    pub runnable: bool,
    pub running: bool,
    pub average: Average,
}

impl Entity {
    pub fn is_fair(&self) -> bool {
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
    /// The advance of the CPU's clock in 1024 ns in which the CPU is busy.
    pub fn scale(&self) -> u64 {
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

    /// Advances the clock. Call this before the CPU's speed or its running task changes.
    pub fn update_clock(&mut self, now: u64) {
        self.clock = self.clock(now);
        self.clock_at = now;
    }

    /// Updates the CPU's averages to `now`, given the class of the task that has run since the last update.
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

    /// The idle state that the CPU enters next, and the time at which it does, in ns.
    pub fn next_idle_state(&self) -> Option<(usize, u64)> {
        if self.current.is_some() {
            return None;
        }
        let state = self.idle_states;
        Some((state, self.idle_since + self.residencies.get(state)?))
    }
}

impl Tracked {
    /// The state of `machine`, whose CPUs are all idle and at their highest frequencies.
    pub fn new(machine: &Machine) -> Tracked {
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
                // Without a cpuidle driver, the architecture has a single idle state.
                residencies: if residencies.is_empty() {
                    vec![0]
                } else {
                    residencies
                },
                ..Cpu::default()
            }
        };
        Tracked {
            cpus: machine.cpus.iter().map(cpu).collect(),
            tasks: HashMap::new(),
            now: 0,
        }
    }

    pub fn running(&self, cpu: usize) -> Task<'_> {
        let task = |pid| {
            let task = self.tasks.get(&pid)?;
            Some(Task {
                comm: &task.name,
                pid,
                prio: task.prio,
            })
        };
        self.cpus[cpu].current.and_then(task).unwrap_or(IDLE)
    }

    pub fn update(&mut self, cpu: usize) {
        let tasks = &self.tasks;
        let current = self.cpus[cpu].current.and_then(|pid| tasks.get(&pid));
        let class = current.map(|task| Class::of(task.prio));
        self.cpus[cpu].update(self.now, class);
    }

    pub fn update_task(&mut self, pid: i32) {
        if let Some(task) = self.tasks.get_mut(&pid) {
            let clock = self.cpus[task.cpu].clock(self.now);
            task.average.update(clock, task.levels());
        }
    }

    /// Adds `task` if it is unknown. The utilization of a new task is half of its CPU's spare capacity, which is
    /// Linux's upper bound (`post_init_entity_util_avg()`).
    pub fn know(&mut self, cpu: usize, task: Task<'_>) {
        let state = &mut self.cpus[cpu];
        let util = (f64::from(state.capacity) - state.fair.average.levels().util).max(0.0) / 2.0;
        let fair = &mut state.fair;
        self.tasks.entry(task.pid).or_insert_with(|| {
            let levels = Levels {
                load: weight_of(task.prio).into(),
                runnable: util,
                util,
            };
            let average = Average::attach(&fair.average, levels);
            if Class::of(task.prio) == Class::Fair {
                fair.average.add(levels);
            }
            Entity {
                name: task.comm.to_owned(),
                prio: task.prio,
                cpu,
                runnable: false,
                running: false,
                average,
            }
        });
    }

    /// Makes `pid` runnable, or not runnable. The averages of the task and of its CPU must have been updated.
    pub fn set_runnable(&mut self, pid: i32, runnable: bool) {
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

    /// Sets the task's priority, which may change its class. The averages of the task and of its CPU must have been
    /// updated.
    pub fn set_prio(&mut self, pid: i32, prio: i32) {
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

    /// Moves the averages of `pid` to `cpu`.
    pub fn move_task(&mut self, pid: i32, cpu: usize) {
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
}
