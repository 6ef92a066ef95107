//! Random workloads for property tests: small rt-app files that always end.

use crate::rtapp::RtApp;
use crate::{Rng, Workload};
use machine::CpuMask;
use std::fmt::Write;

/// The maximum number of tasks that [`rt_app_json`] makes, besides the forked tasks.
pub const MAX_TASKS: usize = 20;

/// The workload of [`rt_app_json`].
///
/// # Panics
/// If the file does not parse, which is an error of this module.
pub fn workload(seed: u64, tasks: usize, cpus: &CpuMask) -> Box<dyn Workload> {
    let text = rt_app_json(seed, tasks, cpus);
    match RtApp::parse("random", "random.json", &text, None) {
        Ok(workload) => Box::new(workload),
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// An rt-app file of `tasks` (1 to [`MAX_TASKS`]) random tasks, some of which are bound to some of `cpus`. Equal
/// arguments give equal files. Fewer tasks with the same seed shrink a failing case.
///
/// The load ends under any fair scheduler: all loops are finite, and tasks hold at most one mutex at a time and meet
/// barriers in one order. No wakeup can be lost, because a waiter holds its mutex from before a barrier until it waits,
/// and its waker takes that mutex after the barrier.
pub fn rt_app_json(seed: u64, tasks: usize, cpus: &CpuMask) -> String {
    let tasks = tasks.clamp(1, MAX_TASKS);
    let mut generator = Generator {
        rng: Rng::new(seed),
        cpus: cpus.iter().collect(),
        text: String::from("{\n\t\"tasks\" : {\n"),
        forks: false,
    };
    for task in 0..tasks {
        generator.task(task, tasks);
    }
    if generator.forks {
        generator.text.push_str(
            "\t\t\"leaf\" : { \"instance\" : 0, \"loop\" : 2, \"run\" : 150, \"sleep\" : 50 },\n",
        );
    }
    generator.text.push_str("\t}\n}\n");
    generator.text
}

struct Generator {
    rng: Rng,
    cpus: Vec<usize>,
    text: String,
    /// Whether a task forks `leaf`.
    forks: bool,
}

impl Generator {
    fn one_in(&mut self, chances: u64) -> bool {
        self.rng.below(chances) == 0
    }

    fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.rng.below(last - first + 1)
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        writeln!(self.text, "\t\t\t\t\t{text},").expect("strings grow");
    }

    fn task(&mut self, task: usize, tasks: usize) {
        write!(self.text, "\t\t\"task{task}\" : {{\n\t\t\t\"loop\" : 1,\n").expect("strings grow");
        self.policy();
        if self.one_in(3) {
            self.affinity();
        }
        if self.one_in(4) {
            let delay = self.between(1, 2000);
            writeln!(self.text, "\t\t\t\"delay\" : {delay},").expect("strings grow");
        }
        self.text.push_str("\t\t\t\"phases\" : {\n");
        for phase in 0..self.between(1, 3) {
            self.open_phase("own", phase as usize);
            let loops = self.between(1, 8);
            self.line(format_args!("\"loop\" : {loops}"));
            if self.one_in(4) {
                self.affinity();
            }
            for _ in 0..self.between(1, 4) {
                self.event(task);
            }
            self.text.push_str("\t\t\t\t},\n");
        }
        // Pairs of tasks meet first (0 and 1, and so on), then groups of four, then all tasks.
        if tasks > task ^ 1 {
            self.pair(task);
        }
        for size in [4, MAX_TASKS] {
            self.open_phase("meet", size);
            self.line(format_args!("\"run\" : 10"));
            self.line(format_args!("\"barrier\" : \"of{size}-{}\"", task / size));
            self.text.push_str("\t\t\t\t},\n");
        }
        self.text.push_str("\t\t\t}\n\t\t},\n");
    }

    fn open_phase(&mut self, name: &str, number: usize) {
        writeln!(self.text, "\t\t\t\t\"{name}{number}\" : {{").expect("strings grow");
    }

    fn policy(&mut self) {
        let text = match self.rng.below(10) {
            0 => "\"policy\" : \"SCHED_BATCH\"".to_owned(),
            1 => "\"policy\" : \"SCHED_IDLE\"".to_owned(),
            2 => format!(
                "\"policy\" : \"SCHED_FIFO\", \"priority\" : {}",
                self.between(1, 99)
            ),
            3 => format!(
                "\"policy\" : \"SCHED_RR\", \"priority\" : {}",
                self.between(1, 99)
            ),
            4..=6 => format!("\"priority\" : {}", self.between(0, 39) as i64 - 20),
            _ => return,
        };
        writeln!(self.text, "\t\t\t{text},").expect("strings grow");
    }

    fn affinity(&mut self) {
        let all = std::mem::take(&mut self.cpus);
        let always = self.rng.below(all.len() as u64) as usize;
        let chosen: Vec<_> = (0..all.len())
            .filter(|&nth| nth == always || self.one_in(2))
            .map(|nth| all[nth])
            .map(|cpu| cpu.to_string())
            .collect();
        self.cpus = all;
        let cpus = chosen.join(", ");
        writeln!(self.text, "\t\t\t\"cpus\" : [{cpus}],").expect("strings grow");
    }

    fn event(&mut self, task: usize) {
        match self.rng.below(16) {
            0..=4 => {
                let us = self.between(1, 3000);
                self.line(format_args!("\"run\" : {us}"));
            }
            5 => {
                let us = self.between(1, 2000);
                self.line(format_args!("\"runtime\" : {us}"));
            }
            6..=8 => {
                let us = self.between(0, 3000);
                self.line(format_args!("\"sleep\" : {us}"));
            }
            9..=11 => {
                let (period, absolute) = (self.between(100, 8000), self.one_in(2));
                let mode = if absolute { "absolute" } else { "relative" };
                self.line(format_args!(
                    "\"timer\" : {{ \"ref\" : \"unique-{mode}\", \"period\" : {period}, \"mode\" : \"{mode}\" }}"
                ));
            }
            12 => {
                let (mutex, us) = (self.rng.below(3), self.between(1, 500));
                self.line(format_args!("\"lock\" : \"shared{mutex}\""));
                self.line(format_args!("\"run\" : {us}"));
                if self.one_in(2) {
                    self.line(format_args!("\"sleep\" : {us}"));
                }
                self.line(format_args!("\"unlock\" : \"shared{mutex}\""));
            }
            13 => self.line(format_args!("\"yield\" : \"\"")),
            14 => self.line(format_args!("\"mem\" : 100000")),
            _ => {
                // Only some tasks fork, so that some small workloads have no fork.
                if task.is_multiple_of(3) {
                    self.forks = true;
                    self.line(format_args!("\"fork\" : \"leaf\""));
                } else {
                    self.line(format_args!("\"iorun\" : 4096"));
                }
            }
        }
    }

    fn pair(&mut self, task: usize) {
        let pair = task / 2;
        let wakers = ["signal", "broad"];
        let waker = wakers[pair % wakers.len()];
        self.open_phase("pair", pair);
        if task.is_multiple_of(2) {
            self.line(format_args!("\"lock\" : \"pair{pair}\""));
            self.line(format_args!("\"barrier\" : \"pair{pair}\""));
            self.line(format_args!(
                "\"wait\" : {{ \"ref\" : \"pair{pair}\", \"mutex\" : \"pair{pair}\" }}"
            ));
            self.line(format_args!("\"unlock\" : \"pair{pair}\""));
        } else {
            self.line(format_args!("\"barrier\" : \"pair{pair}\""));
            self.line(format_args!("\"lock\" : \"pair{pair}\""));
            self.line(format_args!("\"{waker}\" : \"pair{pair}\""));
            self.line(format_args!("\"unlock\" : \"pair{pair}\""));
        }
        self.text.push_str("\t\t\t\t},\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Kernel;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_random_workload_ends(seed: u64, tasks in 1..=MAX_TASKS, cpus in 1..9usize) {
            let all = CpuMask::first_n(cpus);
            let workload = workload(seed, tasks, &all);
            let kernel = Kernel::run(&*workload, cpus);
            prop_assert!(kernel.left().is_empty(), "{:?}\n{}", kernel.left(), rt_app_json(seed, tasks, &all));
            prop_assert_eq!(kernel.recorder.samples(0).len(), 1);
        }
    }

    #[test]
    fn the_same_arguments_make_the_same_file() {
        let of = |seed| rt_app_json(seed, 9, &CpuMask::first_n(4));
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }

    #[test]
    fn every_kind_of_event_is_made() {
        let cpus = CpuMask::first_n(4);
        let texts: String = (0..200).map(|seed| rt_app_json(seed, 8, &cpus)).collect();
        for event in [
            "run", "runtime", "sleep", "timer", "lock", "wait", "signal", "broad", "barrier",
            "yield", "fork", "mem", "iorun",
        ] {
            assert!(texts.contains(&format!("\"{event}\" :")), "{event}");
        }
    }
}
