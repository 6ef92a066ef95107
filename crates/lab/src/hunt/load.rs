//! The loads that a hunt tries: a small part of rt-app's grammar that can be generated, mutated and simplified.

use std::fmt::Write;
use workload::Rng;

const MAX_TASKS: usize = 8;
const MAX_INSTANCES: u32 = 4;
const MAX_PHASES: usize = 3;
const MAX_EVENTS: usize = 4;
/// The longest time that a thread of a finite load may take alone on the fastest CPU, in us.
const MAX_THREAD_US: u64 = 400_000;
/// The limits of an event's time in us.
const TIMES_US: (u64, u64) = (20, 200_000);

#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    pub tasks: Vec<Task>,
    /// Do the threads run for a second in endless loops? Otherwise each thread ends by itself.
    pub endless: bool,
    /// May the load have real-time threads?
    pub realtime: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub instances: u32,
    pub class: Class,
    /// The CPUs that the task may use; all CPUs if empty.
    pub cpus: Vec<usize>,
    pub delay_us: u64,
    pub phases: Vec<Phase>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Class {
    Other { nice: i32 },
    Fifo,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    pub loops: u64,
    pub events: Vec<Event>,
}

/// An event of a phase; times are in us.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    Run(u64),
    Sleep(u64),
    /// A timer with this period.
    Timer(u64),
}

impl Event {
    fn us(&mut self) -> &mut u64 {
        match self {
            Event::Run(us) | Event::Sleep(us) | Event::Timer(us) => us,
        }
    }
}

impl Phase {
    /// The work of the phase's loops, in us of the fastest CPU.
    fn work_us(&self) -> u64 {
        let runs = self.events.iter().map(|event| match event {
            Event::Run(us) => *us,
            _ => 0,
        });
        self.loops * runs.sum::<u64>()
    }

    /// The time of the phase's loops on a CPU of this speed relative to the fastest, in us.
    fn time_us(&self, speed: f64) -> f64 {
        let (mut busy, mut timer) = (0.0, 0.0);
        for event in &self.events {
            match *event {
                Event::Run(us) => busy += us as f64 / speed,
                Event::Sleep(us) => busy += us as f64,
                Event::Timer(us) => timer += us as f64,
            }
        }
        self.loops as f64 * f64::max(busy, timer)
    }
}

impl Load {
    /// A random load for CPUs `0..cpus`.
    pub fn random(rng: &mut Rng, cpus: usize, endless: bool, realtime: bool) -> Load {
        let most = MAX_TASKS.min(2 * cpus) as u64;
        let count = 1 + rng.below(most);
        let mut load = Load {
            tasks: (0..count).map(|_| task(rng, cpus, realtime)).collect(),
            endless,
            realtime,
        };
        load.fit();
        load
    }

    /// A copy of this load with one to three changes, for CPUs `0..cpus`; one of them may copy a task from `other`.
    pub fn mutated(&self, rng: &mut Rng, cpus: usize, other: &Load) -> Load {
        let mut load = self.clone();
        for _ in 0..=rng.below(3) {
            load.mutate(rng, cpus, other);
        }
        // If the hunt chooses the machine, both loads may be those of a machine with more CPUs.
        for task in &mut load.tasks {
            task.cpus.retain(|&cpu| cpu < cpus);
        }
        load.fit();
        load
    }

    fn mutate(&mut self, rng: &mut Rng, cpus: usize, other: &Load) {
        let nr = rng.below(self.tasks.len() as u64) as usize;
        let has_room = self.tasks.len() < MAX_TASKS;
        let kind = rng.below(10);
        match kind {
            0 if has_room => return self.tasks.push(task(rng, cpus, self.realtime)),
            1 if has_room => return self.tasks.push(pick(rng, &other.tasks).clone()),
            2 if self.tasks.len() > 1 => {
                self.tasks.remove(nr);
                return;
            }
            _ => {}
        }
        let task = &mut self.tasks[nr];
        let phase = rng.below(task.phases.len() as u64) as usize;
        match kind {
            3 => task.class = class(rng, self.realtime),
            4 => task.cpus = affinity(rng, cpus),
            5 => task.instances = 1 + rng.below(MAX_INSTANCES.into()) as u32,
            6 => task.phases[phase].loops = scaled(rng, task.phases[phase].loops).clamp(1, 10_000),
            7 if task.phases.len() < MAX_PHASES => task.phases.push(self::phase(rng)),
            8 if task.phases[phase].events.len() < MAX_EVENTS => {
                task.phases[phase].events.push(event(rng));
            }
            9 => task.delay_us = delay(rng),
            _ => {
                let events = &mut task.phases[phase].events;
                let event = rng.below(events.len() as u64) as usize;
                let us = events[event].us();
                *us = scaled(rng, *us).clamp(TIMES_US.0, TIMES_US.1);
            }
        }
    }

    /// Changes phases such that each computes and, in a finite load, each thread ends early enough.
    fn fit(&mut self) {
        let endless = self.endless;
        for task in &mut self.tasks {
            let phases = task.phases.len() as u64;
            for phase in &mut task.phases {
                if !phase
                    .events
                    .iter()
                    .any(|event| matches!(event, Event::Run(_)))
                {
                    phase.events.insert(0, Event::Run(1000));
                }
                let once = Phase {
                    loops: 1,
                    events: phase.events.clone(),
                };
                let most = (MAX_THREAD_US / phases / (once.time_us(1.0) as u64).max(1)).max(1);
                if !endless {
                    phase.loops = phase.loops.min(most);
                }
            }
        }
    }

    pub fn threads(&self) -> u32 {
        self.tasks.iter().map(|task| task.instances).sum()
    }

    /// The loads that are simpler by one step, largest steps first.
    pub fn simpler(&self) -> Vec<Load> {
        let mut all = Vec::new();
        let mut add = |change: &dyn Fn(&mut Load)| {
            let mut load = self.clone();
            change(&mut load);
            if load != *self {
                all.push(load);
            }
        };
        let tasks = 0..self.tasks.len();
        if self.tasks.len() > 1 {
            for nr in tasks.clone() {
                add(&|load| drop(load.tasks.remove(nr)));
            }
        }
        for nr in tasks.clone() {
            for fewer in 1..self.tasks[nr].instances {
                add(&|load| load.tasks[nr].instances = fewer);
            }
        }
        for nr in tasks.clone() {
            let phases = self.tasks[nr].phases.len();
            for phase in (0..phases).filter(|_| phases > 1) {
                add(&|load| drop(load.tasks[nr].phases.remove(phase)));
            }
        }
        for nr in tasks.clone() {
            add(&|load| load.tasks[nr].cpus.clear());
            add(&|load| load.tasks[nr].class = Class::Other { nice: 0 });
            add(&|load| load.tasks[nr].delay_us = 0);
        }
        for (nr, phase) in
            tasks.flat_map(|nr| (0..self.tasks[nr].phases.len()).map(move |p| (nr, p)))
        {
            let Phase { loops, events } = &self.tasks[nr].phases[phase];
            let runs = |event: &&Event| matches!(event, Event::Run(_));
            let only_run = events.iter().filter(runs).count() == 1;
            for (index, event) in events.iter().enumerate() {
                if !(only_run && matches!(event, Event::Run(_))) {
                    add(&|load| {
                        load.tasks[nr].phases[phase].events.remove(index);
                    });
                }
            }
            add(&|load| load.tasks[nr].phases[phase].loops = 1);
            add(&|load| load.tasks[nr].phases[phase].loops = round(*loops));
            for index in 0..events.len() {
                add(&|load| {
                    let us = load.tasks[nr].phases[phase].events[index].us();
                    *us = round(*us);
                });
            }
        }
        all
    }

    /// The rt-app file, which begins with `comment`.
    pub fn rt_app(&self, comment: &str) -> String {
        let mut text = String::from("{\n");
        if !comment.is_empty() {
            text.push_str("\t/*\n");
            // A file's name may contain the end of a comment.
            for line in comment.replace("*/", "* /").lines() {
                let _ = writeln!(text, "\t * {line}");
            }
            text.push_str("\t */\n");
        }
        text.push_str("\t\"tasks\" : {\n");
        for (nr, task) in self.tasks.iter().enumerate() {
            task.write(&mut text, nr, self.endless);
        }
        let duration = if self.endless { 1 } else { -1 };
        let _ = write!(
            text,
            "\t}},\n\t\"global\" : {{\n\t\t\"duration\" : {duration},\n\
             \t\t\"default_policy\" : \"SCHED_OTHER\",\n\t\t\"calibration\" : \"CPU0\"\n\t}}\n}}\n"
        );
        text
    }
}

impl Task {
    /// The work of all threads, in us of the fastest CPU.
    pub fn work_us(&self) -> u64 {
        u64::from(self.instances) * self.phases.iter().map(Phase::work_us).sum::<u64>()
    }

    /// The time of a thread, with its delay and sleeps, alone on a CPU of this speed relative to the fastest, in us.
    pub fn time_us(&self, speed: f64) -> f64 {
        let phases = self.phases.iter().map(|phase| phase.time_us(speed));
        self.delay_us as f64 + phases.sum::<f64>()
    }

    fn write(&self, text: &mut String, nr: usize, endless: bool) {
        let mut lines = Vec::new();
        if self.instances > 1 {
            lines.push(format!("\"instance\" : {}", self.instances));
        }
        match self.class {
            Class::Other { nice: 0 } => {}
            Class::Other { nice } => lines.push(format!("\"priority\" : {nice}")),
            Class::Fifo => lines.extend([
                "\"policy\" : \"SCHED_FIFO\"".to_owned(),
                "\"priority\" : 10".to_owned(),
            ]),
        }
        if !self.cpus.is_empty() {
            let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
            lines.push(format!("\"cpus\" : [{}]", cpus.join(", ")));
        }
        if self.delay_us > 0 {
            lines.push(format!("\"delay\" : {}", self.delay_us));
        }
        let events = |phase: &Phase| {
            let events = phase.events.iter().enumerate();
            let lines = events.map(|(index, event)| match event {
                Event::Run(us) => format!("\"run{index}\" : {us}"),
                Event::Sleep(us) => format!("\"sleep{index}\" : {us}"),
                Event::Timer(us) => {
                    format!("\"timer{index}\" : {{ \"ref\" : \"unique\", \"period\" : {us} }}")
                }
            });
            lines.collect::<Vec<String>>()
        };
        let whole = if endless { -1 } else { 1 };
        match &self.phases[..] {
            [only] => {
                let loops = if endless { -1 } else { only.loops as i64 };
                lines.push(format!("\"loop\" : {loops}"));
                lines.extend(events(only));
            }
            phases => {
                lines.push(format!("\"loop\" : {whole}"));
                let inner = phases.iter().enumerate().map(|(index, phase)| {
                    let events = events(phase).join(", ");
                    format!(
                        "\t\"p{index}\" : {{ \"loop\" : {}, {events} }}",
                        phase.loops
                    )
                });
                let inner: Vec<String> = inner.collect();
                lines.push(format!(
                    "\"phases\" : {{\n\t\t\t{}\n\t\t\t}}",
                    inner.join(",\n\t\t\t")
                ));
            }
        }
        let _ = writeln!(
            text,
            "\t\t\"task{nr}\" : {{\n\t\t\t{}\n\t\t}},",
            lines.join(",\n\t\t\t")
        );
    }
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.below(from.len() as u64) as usize]
}

fn task(rng: &mut Rng, cpus: usize, realtime: bool) -> Task {
    Task {
        instances: match rng.below(3) {
            0 => 1 + rng.below(MAX_INSTANCES.into()) as u32,
            _ => 1,
        },
        class: class(rng, realtime),
        cpus: affinity(rng, cpus),
        delay_us: delay(rng),
        phases: (0..=rng.below(2)).map(|_| phase(rng)).collect(),
    }
}

fn class(rng: &mut Rng, realtime: bool) -> Class {
    match rng.below(12) {
        0 if realtime => Class::Fifo,
        1..=4 => Class::Other {
            nice: rng.below(40) as i32 - 20,
        },
        _ => Class::Other { nice: 0 },
    }
}

fn affinity(rng: &mut Rng, cpus: usize) -> Vec<usize> {
    match rng.below(6) {
        0 => vec![rng.below(cpus as u64) as usize],
        1 => {
            let mut few: Vec<usize> = (0..cpus).filter(|_| rng.below(3) == 0).collect();
            if few.is_empty() {
                few.push(0);
            }
            few
        }
        _ => Vec::new(),
    }
}

fn delay(rng: &mut Rng) -> u64 {
    match rng.below(3) {
        0 => log_uniform(rng, TIMES_US.0, 100_000),
        _ => 0,
    }
}

fn phase(rng: &mut Rng) -> Phase {
    Phase {
        loops: log_uniform(rng, 1, 1000),
        events: (0..=rng.below(3)).map(|_| event(rng)).collect(),
    }
}

fn event(rng: &mut Rng) -> Event {
    let us = log_uniform(rng, TIMES_US.0, TIMES_US.1);
    match rng.below(6) {
        0..=2 => Event::Run(us),
        3..=4 => Event::Sleep(us),
        _ => Event::Timer(us.max(200)),
    }
}

fn log_uniform(rng: &mut Rng, least: u64, most: u64) -> u64 {
    let (low, high) = ((least as f64).ln(), (most as f64).ln());
    (low + rng.unit() * (high - low)).exp().round() as u64
}

/// A random value between a quarter of `value` and four times `value`.
fn scaled(rng: &mut Rng, value: u64) -> u64 {
    let by = 4f64.powf(2.0 * rng.unit() - 1.0);
    (value as f64 * by).round() as u64
}

/// `value`, rounded to 1, 2 or 5 times a power of ten.
fn round(value: u64) -> u64 {
    let power = 10u64.pow(value.max(1).ilog10());
    let steps = [1, 2, 5, 10].map(|step| step * power);
    let nearest = steps.into_iter().min_by_key(|step| step.abs_diff(value));
    nearest.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use workload::Rng;

    proptest! {
        #[test]
        fn every_load_is_an_rt_app_file(seed: u64, cpus in 1..9usize, endless: bool) {
            let rng = &mut Rng::new(seed);
            let other = Load::random(rng, cpus, endless, true);
            let load = Load::random(rng, cpus, endless, true).mutated(rng, cpus, &other);
            for load in std::iter::once(load.clone()).chain(load.simpler()) {
                let text = load.rt_app("a comment about x*/y.json");
                let parsed = workload::parse("load", "load.json", &text, None);
                prop_assert!(parsed.is_ok(), "{}\n{text}", parsed.err().unwrap());
            }
        }

        #[test]
        fn simplifying_comes_to_an_end(seed: u64) {
            let mut load = Load::random(&mut Rng::new(seed), 4, false, true);
            for _ in 0..500 {
                match load.simpler().pop() {
                    Some(simpler) => load = simpler,
                    None => return Ok(()),
                }
            }
            prop_assert!(false, "{load:?} after 500 steps");
        }
    }

    #[test]
    fn a_load_of_a_larger_machine_keeps_to_the_cpus_of_a_smaller_one() {
        let rng = &mut Rng::new(1);
        let mut bound = 0;
        for _ in 0..100 {
            let [one, other] = [(); 2].map(|()| Load::random(rng, 8, false, true));
            let load = one.mutated(rng, 2, &other);
            let mut cpus = load.tasks.iter().flat_map(|task| &task.cpus);
            bound += cpus.clone().count();
            assert!(cpus.all(|&cpu| cpu < 2), "{load:?}");
        }
        assert!(bound > 0);
    }

    #[test]
    fn rounding_leaves_one_digit() {
        let rounded = [1, 3, 4, 7, 8, 1234, 36_000].map(round);
        assert_eq!(rounded, [1, 2, 5, 5, 10, 1000, 50_000]);
    }
}
