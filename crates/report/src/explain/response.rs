//! Threads that took long though they hardly waited: their CPU was slow, by its kind, its frequency
//! or a busy core.

use super::wait::{Asked, base};
use machine::Machine;
use simulator::{Event, Trace};
use std::collections::{BTreeMap, HashMap};

/// A speed or a share of 1.
const FULL: u32 = 1 << 20;

/// A thread from its wakeup until it sleeps again.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// Its name, such as `ui-0`.
    pub name: String,
    /// Its pid.
    pub pid: i32,
    /// When it woke up, ns.
    pub from: u64,
    /// When it slept, ns.
    pub to: u64,
    /// The CPUs it ran on.
    pub ran: BTreeMap<usize, Ran>,
    /// The idle time of each CPU meanwhile, ns.
    pub idle_ns: Vec<u64>,
}

/// A thread's activity on a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    /// The time when it first ran there, ns.
    pub from: u64,
    /// Its running time, ns.
    pub ns: u64,
    /// The same with another thread of the core busy, ns.
    pub shared_ns: u64,
    /// In ns times 1/2^20 of the fastest core. Includes the kernel's work for it.
    work: u128,
    /// In ns times 1/2^20 of the CPU's highest frequency.
    frequency: u128,
}

impl Ran {
    /// The average frequency, relative to the highest.
    pub fn frequency(&self) -> f64 {
        self.frequency as f64 / self.ns.max(1) as f64 / f64::from(FULL)
    }
}

impl Response {
    /// From the wakeup to the sleep, ns.
    pub fn ns(&self) -> u64 {
        self.to - self.from
    }

    /// Its running time, ns.
    pub fn ran_ns(&self) -> u64 {
        self.ran.values().map(|ran| ran.ns).sum()
    }

    /// The time of the same work on the fastest CPU at its highest frequency, ns.
    pub fn fastest_ns(&self) -> u64 {
        (self.ran.values().map(|ran| ran.work).sum::<u128>() >> 20) as u64
    }

    /// The excess of its running time over that, ns.
    pub fn slow_ns(&self) -> u64 {
        self.ran_ns().saturating_sub(self.fastest_ns())
    }

    /// Did it lose more time to a slow CPU than to waiting?
    fn is_slow(&self) -> bool {
        self.slow_ns() > self.ns().saturating_sub(self.ran_ns())
    }
}

/// Observes a run, and keeps the responses of each thread that lost most time to slow CPUs.
pub struct Responses<'a> {
    machine: &'a Machine,
    asked: &'a Asked,
    cpus: Vec<Cpu>,
    open: HashMap<i32, Response>,
    kept: BTreeMap<i32, Vec<Response>>,
}

#[derive(Clone, Default)]
struct Cpu {
    task: Option<i32>,
    since: u64,
    idle_ns: u64,
    /// The cpufreq request, and the hardware's limit, kHz, if known.
    asked_khz: Option<u32>,
    allowed_khz: Option<u32>,
}

impl<'a> Responses<'a> {
    /// On `machine`, for the threads in `asked`.
    pub fn new(machine: &'a Machine, asked: &'a Asked) -> Responses<'a> {
        Responses {
            machine,
            asked,
            cpus: vec![Cpu::default(); machine.cpus.len()],
            open: HashMap::new(),
            kept: BTreeMap::new(),
        }
    }

    /// Of the requested threads, or otherwise of `threads` (names without instances), those that
    /// lost most, largest first.
    pub fn choose(self, threads: &[&str]) -> Vec<Response> {
        let asked = &self.asked.threads;
        let wanted = |response: &Response| match asked.is_empty() {
            true => threads.contains(&base(&response.name)),
            false => asked.iter().any(|thread| {
                thread == &response.name
                    || thread == base(&response.name)
                    || thread.parse() == Ok(response.pid)
            }),
        };
        let all = self.kept.into_values().flatten();
        let mut chosen: Vec<Response> = all.filter(wanted).collect();
        keep(&mut chosen, self.asked.worst);
        chosen
    }

    /// The current frequency of `cpu`, in 1/2^20 of its highest.
    fn frequency(&self, cpu: usize) -> u32 {
        let Cpu {
            asked_khz,
            allowed_khz,
            ..
        } = self.cpus[cpu];
        let khz = asked_khz.into_iter().chain(allowed_khz).min();
        let core = &self.machine.core_types[self.machine.cpus[cpu].core_type];
        match (khz, core.opps.last()) {
            (Some(khz), Some(highest)) => {
                let khz = khz.min(highest.khz);
                ((u64::from(khz) << 20) / u64::from(highest.khz)) as u32
            }
            _ => FULL,
        }
    }

    /// Accounts the activity of `cpu` and its core's other threads until `now`, before a change.
    fn account(&mut self, now: u64, cpu: usize) {
        let siblings = self.machine.siblings(cpu);
        let busy = siblings.iter().filter(|&it| self.cpus[it].task.is_some());
        let busy = busy.count();
        for cpu in siblings.iter() {
            let frequency = self.frequency(cpu);
            let speed = self.machine.thread_speed(cpu, busy.max(1));
            let this = &mut self.cpus[cpu];
            let ns = now - this.since;
            this.since = now;
            let Some(pid) = this.task else {
                this.idle_ns += ns;
                continue;
            };
            if let Some(response) = self.open.get_mut(&pid) {
                let ran = response.ran.entry(cpu).or_insert(Ran {
                    from: now - ns,
                    ..Ran::default()
                });
                let at_frequency = u128::from(ns) * u128::from(frequency);
                ran.ns += ns;
                ran.shared_ns += if busy > 1 { ns } else { 0 };
                ran.frequency += at_frequency;
                ran.work += (at_frequency * u128::from(speed)) >> 20;
            }
        }
    }

    /// How long `cpu` has been idle up to `now`, ns.
    fn idle_ns(&self, now: u64, cpu: &Cpu) -> u64 {
        cpu.idle_ns
            + if cpu.task.is_none() {
                now - cpu.since
            } else {
                0
            }
    }

    fn sleeps(&mut self, now: u64, pid: i32) {
        let Some(mut response) = self.open.remove(&pid) else {
            return;
        };
        response.to = now;
        let at = self.asked.at;
        if !response.is_slow() || at.is_some_and(|at| !(response.from..=now).contains(&at)) {
            return;
        }
        let idle = self.cpus.iter().map(|cpu| self.idle_ns(now, cpu));
        let meanwhile = idle.zip(&response.idle_ns).map(|(now, then)| now - then);
        response.idle_ns = meanwhile.collect();
        let kept = self.kept.entry(pid).or_default();
        kept.push(response);
        if kept.len() > 2 * self.asked.worst {
            keep(kept, self.asked.worst);
        }
    }
}

/// Keeps the `worst` responses: those that lost most time to slow CPUs, first.
fn keep(responses: &mut Vec<Response>, worst: usize) {
    responses.sort_by_key(|one| (u64::MAX - one.slow_ns(), one.from, one.pid));
    responses.truncate(worst);
}

impl Trace for Responses<'_> {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        match event {
            Event::Wakeup { task, .. } => {
                let idle = self.cpus.iter().map(|cpu| self.idle_ns(now, cpu));
                let response = Response {
                    name: task.0.to_owned(),
                    pid: task.1,
                    from: now,
                    idle_ns: idle.collect(),
                    ..Response::default()
                };
                self.open.entry(task.1).or_insert(response);
            }
            Event::Switch {
                prev,
                prev_runnable,
                next,
                ..
            } => {
                self.account(now, cpu);
                self.cpus[cpu].task = Some(next.1).filter(|&pid| pid != 0);
                if !prev_runnable {
                    self.sleeps(now, prev.1);
                }
            }
            Event::CpuFrequency { khz } => {
                self.account(now, cpu);
                self.cpus[cpu].asked_khz = Some(khz);
            }
            Event::Turbo { khz } => {
                self.account(now, cpu);
                self.cpus[cpu].allowed_khz = Some(khz);
            }
            _ => {}
        }
    }
}
