//! Observes the responses of a run.

use super::super::wait::{After, Asked, Wait};
use super::periods::{Missed, Misses, Parts};
use super::pick::Pick;
use super::{FULL, LONGEST_PATH, Late, Ran, Response, Total};
use crate::first_run::base;
use machine::Machine;
use simulator::{Event, Trace};
use std::collections::{BTreeMap, HashMap};

/// Observes a run, and keeps for each thread the responses that lost the most time by running slowly or to late
/// wakers, and the worst missed periods.
pub struct Responses<'a> {
    machine: &'a Machine,
    asked: &'a Asked,
    cpus: Vec<Cpu>,
    now: u64,
    open: HashMap<i32, Response>,
    /// The waiting threads, with the time and the cause of the beginning of each wait.
    waiting: HashMap<i32, (u64, After)>,
    /// The waker of a thread that is about to wake up; the inner `None` stands for an interrupt.
    waker: Option<(i32, Option<i32>)>,
    slow: BTreeMap<i32, Vec<Response>>,
    late: BTreeMap<i32, Vec<Response>>,
    totals: BTreeMap<String, Total>,
    pick: Option<Pick>,
    /// The parts of responses that are periods, and the missed periods.
    parts: Parts,
    misses: Misses,
}

/// The chosen responses.
#[derive(Debug, Default)]
pub struct Chosen {
    /// The responses that lost the most time by running slowly, largest loss first.
    pub slow: Vec<Response>,
    /// The responses whose wakers lost most time, largest first.
    pub late: Vec<Response>,
    /// The time that the threads lost in the whole run, by reason.
    pub totals: Vec<Total>,
    /// The response to compare with another run's, if requested.
    pub picked: Option<Response>,
    /// The missed periods that lost most time, largest first.
    pub missed: Vec<Missed>,
    /// The time in ns at which the run ended.
    pub end: u64,
}

#[derive(Clone, Default)]
struct Cpu {
    task: Option<i32>,
    since: u64,
    idle_ns: u64,
    /// The cpufreq request in kHz, if known; `allowed_khz` is the hardware's limit.
    asked_khz: Option<u32>,
    allowed_khz: Option<u32>,
    /// The limit by `scaling_max_freq` in kHz, if there is one.
    limit_khz: Option<u32>,
    offline: bool,
}

impl<'a> Responses<'a> {
    /// Starts to observe a run on `machine`, for the threads in `asked`.
    pub fn new(machine: &'a Machine, asked: &'a Asked) -> Responses<'a> {
        Responses {
            machine,
            asked,
            cpus: vec![Cpu::default(); machine.cpus.len()],
            now: 0,
            open: HashMap::new(),
            waiting: HashMap::new(),
            waker: None,
            slow: BTreeMap::new(),
            late: BTreeMap::new(),
            totals: BTreeMap::new(),
            pick: None,
            parts: Parts::default(),
            misses: Misses::default(),
        }
    }

    /// Keeps one response, to compare it with a response of another run: the response around or nearest to the time
    /// `near` in ns or, without a time, the response that lost the most time.
    pub fn picking(self, near: Option<u64>) -> Responses<'a> {
        Responses {
            pick: Some(Pick::new(near)),
            ..self
        }
    }

    /// Ends the run at its duration `end` (in ns), if the run has one.
    pub fn end(&mut self, end: Option<u64>) {
        self.now = end.unwrap_or(self.now).max(self.now);
    }

    /// The responses of the requested threads, or otherwise of `threads` (names without instances),
    /// once the run is over.
    pub fn choose(mut self, threads: &[&str]) -> Chosen {
        let now = self.now;
        (0..self.cpus.len()).for_each(|cpu| self.account(now, cpu));
        let mut open: Vec<i32> = self.open.keys().copied().collect();
        open.sort_unstable();
        for pid in open {
            self.ends_wait(now, pid, true);
            self.sleeps(now, pid);
        }
        let (asked, worst) = (&self.asked.threads, self.asked.worst);
        let wanted = |response: &Response| match asked.is_empty() {
            true => threads.contains(&base(&response.name)),
            false => asked.iter().any(|thread| {
                thread == &response.name
                    || thread == base(&response.name)
                    || thread.parse() == Ok(response.pid)
            }),
        };
        let choose = |kept: BTreeMap<i32, Vec<Response>>, lost: fn(&Response) -> u64| {
            let mut chosen: Vec<Response> = kept.into_values().flatten().filter(wanted).collect();
            keep(&mut chosen, worst, lost);
            chosen
        };
        let totals = self.totals.into_values();
        let picked = self.pick.and_then(|pick| pick.best(wanted));
        Chosen {
            end: now,
            picked,
            missed: self.misses.choose(worst, wanted),
            slow: choose(self.slow, Response::slow_ns),
            late: choose(self.late, Response::late_ns),
            totals: totals
                .filter(|total| threads.contains(&total.name.as_str()))
                .collect(),
        }
    }

    /// The current frequency of `cpu`, in 1/2^20 of its highest.
    fn frequency(&self, cpu: usize) -> u32 {
        let Cpu {
            asked_khz,
            allowed_khz,
            ..
        } = self.cpus[cpu];
        self.relative(cpu, asked_khz.into_iter().chain(allowed_khz).min())
    }

    /// The highest frequency of `cpu` that `scaling_max_freq` allows, in 1/2^20 of its highest.
    fn limit(&self, cpu: usize) -> u32 {
        self.relative(cpu, self.cpus[cpu].limit_khz)
    }

    /// The frequency `khz` of `cpu`, in 1/2^20 of its highest. An unknown frequency counts as the highest.
    fn relative(&self, cpu: usize, khz: Option<u32>) -> u32 {
        let core = &self.machine.core_types[self.machine.cpus[cpu].core_type];
        match (khz, core.opps.last()) {
            (Some(khz), Some(highest)) => {
                let khz = khz.min(highest.khz);
                ((u64::from(khz) << 20) / u64::from(highest.khz)) as u32
            }
            _ => FULL,
        }
    }

    /// Accounts the activity of `cpu` and its core's other threads until `now`. Call this before a change.
    fn account(&mut self, now: u64, cpu: usize) {
        let siblings = self.machine.siblings(cpu);
        let busy = siblings.iter().filter(|&it| self.cpus[it].task.is_some());
        let busy = busy.count();
        for cpu in siblings.iter() {
            let frequency = self.frequency(cpu);
            let speed = self.machine.thread_speed(cpu, busy.max(1));
            let alone = self.machine.thread_speed(cpu, 1);
            let this = &mut self.cpus[cpu];
            let ns = now - this.since;
            this.since = now;
            let Some(pid) = this.task else {
                this.idle_ns += if this.offline { 0 } else { ns };
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
                ran.full_work += u128::from(ns) * u128::from(speed);
                ran.alone_work += u128::from(ns) * u128::from(alone);
            }
        }
    }

    /// The time for which `cpu` has been idle up to `now`, in ns.
    fn idle_ns(&self, now: u64, cpu: &Cpu) -> u64 {
        cpu.idle_ns
            + if cpu.task.is_none() && !cpu.offline {
                now - cpu.since
            } else {
                0
            }
    }

    fn idle_of_all(&self, now: u64) -> Vec<u64> {
        self.cpus.iter().map(|cpu| self.idle_ns(now, cpu)).collect()
    }

    /// Records the end of a period of `pid`, which runs on `cpu`.
    fn period(&mut self, now: u64, cpu: usize, pid: i32, period: workload::Period) {
        self.account(now, cpu);
        // The thread waits only if the run ends before the work is done.
        self.ends_wait(now, pid, true);
        let idle = self.idle_of_all(now);
        let open = self.open.get(&pid);
        let Some(response) = self.parts.ends(now, pid, period.done, open, &idle) else {
            return;
        };
        let at = self.asked.at;
        let is_asked = at.is_none_or(|at| (period.released..=period.done).contains(&at));
        // A period that was lost because the previous period took too long has no work of its own.
        let is_late = period.missed && period.done > period.due;
        if is_late && is_asked {
            self.misses
                .add(Missed { period, response }, self.asked.worst);
        }
    }

    /// Begins a response when the thread `name` with number `pid` wakes up.
    fn wakes(&mut self, now: u64, (name, pid): (&str, i32)) {
        self.waiting.entry(pid).or_insert((now, After::Wakeup));
        let waker = self.waker.take().filter(|&(task, _)| task == pid);
        if self.open.contains_key(&pid) {
            return;
        }
        let idle = self.cpus.iter().map(|cpu| self.idle_ns(now, cpu));
        let limited = (0..self.cpus.len()).filter(|&cpu| self.cpus[cpu].limit_khz.is_some());
        let mut response = Response {
            name: name.to_owned(),
            pid,
            from: now,
            idle_ns: idle.collect(),
            limits: limited.map(|cpu| (cpu, self.limit(cpu))).collect(),
            path: vec![pid],
            timed: matches!(waker, Some((_, None))),
            ..Response::default()
        };
        if let Some((_, Some(by))) = waker {
            response.woken_by = self.open.get(&by).map(|waker| waker.name.clone());
            self.inherits(now, &mut response, by);
        }
        self.open.insert(pid, response);
    }

    /// Computes the delay of `response`, which begins because the running thread `by` woke up its thread. The response
    /// is delayed by the time that `by` has lost since its own wakeup, or since it last woke up the same thread. Its
    /// first wakeup of that thread passes its own delay on, too.
    fn inherits(&mut self, now: u64, response: &mut Response, by: i32) {
        if let Some(cpu) = self.cpus.iter().position(|cpu| cpu.task == Some(by)) {
            self.account(now, cpu);
        }
        let idle = self.idle_of_all(now);
        let Some(waker) = self.open.get_mut(&by) else {
            return;
        };
        // In a cycle of threads that wake each other up, no thread has a time at which it should wake up.
        let is_cycle = waker.path.contains(&response.pid) || waker.path.len() >= LONGEST_PATH;
        if !waker.timed || is_cycle {
            return;
        }
        let lost = (now - waker.from).saturating_sub(waker.fastest_ns());
        let told = waker.told.iter_mut().find(|told| told.0 == response.pid);
        let is_first = told.is_none();
        let before = match told {
            Some(told) => std::mem::replace(&mut told.1, lost),
            None => {
                waker.told.push((response.pid, lost));
                0
            }
        };
        let own = lost.saturating_sub(before);
        response.timed = true;
        response.path.splice(0..0, waker.path.iter().copied());
        let earlier = waker.late.as_ref().filter(|_| is_first);
        let ns = own + earlier.map_or(0, |late| late.ns);
        if ns == 0 {
            return;
        }
        let root = match earlier.filter(|late| late.root.lost_ns() > own) {
            Some(late) => late.root.clone(),
            None => {
                let mut root = Response {
                    to: now,
                    late: None,
                    told: Vec::new(),
                    ..waker.clone()
                };
                root.idled_until(&idle);
                root
            }
        };
        response.late = Some(Box::new(Late { ns, root }));
    }

    /// Ends the wait of thread `pid`, which begins to run or, if the wait is `open`, waits until the end of the run.
    fn ends_wait(&mut self, now: u64, pid: i32, open: bool) {
        let Some((from, after)) = self.waiting.remove(&pid) else {
            return;
        };
        let Some(response) = self.open.get_mut(&pid).filter(|_| now > from) else {
            return;
        };
        let wait = Wait {
            name: response.name.clone(),
            pid,
            after,
            from,
            to: now,
            open,
        };
        if after == After::Wakeup {
            response.woken_ns += wait.ns();
        }
        self.parts.waited(&wait);
        if response.longest.as_ref().map_or(0, Wait::ns) < wait.ns() {
            response.longest = Some(wait);
        }
    }

    fn sleeps(&mut self, now: u64, pid: i32) {
        let Some(mut response) = self.open.remove(&pid) else {
            return;
        };
        response.to = now;
        self.count(&response);
        if self.parts.has(pid) {
            let idle: Vec<u64> = self.idle_of_all(now);
            self.parts.closes(&response, &idle);
        }
        let at = self.asked.at;
        let is_late = response.is_late();
        let is_bad = is_late || response.is_slow();
        let is_bad = is_bad && at.is_none_or(|at| (response.from..=now).contains(&at));
        let is_picked = self.pick.as_ref().is_some_and(|pick| pick.wants(&response));
        if !is_bad && !is_picked {
            return;
        }
        response.idled_until(&self.idle_of_all(now));
        if let Some(pick) = self.pick.as_mut().filter(|_| is_picked) {
            pick.keep(response.clone());
        }
        if !is_bad {
            return;
        }
        let (kept, lost): (_, fn(&Response) -> u64) = match is_late {
            true => (&mut self.late, Response::late_ns),
            false => (&mut self.slow, Response::slow_ns),
        };
        let kept = kept.entry(pid).or_default();
        kept.push(response);
        if kept.len() > 2 * self.asked.worst {
            keep(kept, self.asked.worst, lost);
        }
    }

    /// Adds `response` to its thread's total.
    fn count(&mut self, response: &Response) {
        let name = base(&response.name);
        if !self.totals.contains_key(name) {
            let total = Total {
                name: name.to_owned(),
                ..Total::default()
            };
            self.totals.insert(name.to_owned(), total);
        }
        if let Some(total) = self.totals.get_mut(name) {
            total.responses += 1;
            total.woken_ns += response.woken_ns;
            total.preempted_ns += response.waited_ns().saturating_sub(response.woken_ns);
            total.slow.add(response.lost());
        }
    }
}

/// Keeps at most `worst` responses, those with the largest times `lost`, largest first.
fn keep(responses: &mut Vec<Response>, worst: usize, lost: fn(&Response) -> u64) {
    responses.sort_by_key(|one| (u64::MAX - lost(one), one.from, one.pid));
    responses.truncate(worst);
}

impl Trace for Responses<'_> {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        self.now = now;
        match event {
            Event::Waker { task, by } => self.waker = Some((task.1, by.map(|by| by.1))),
            Event::Wakeup { task, .. } => self.wakes(now, task),
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
                } else if prev.1 != 0 {
                    self.waiting.insert(prev.1, (now, After::Running { cpu }));
                }
                self.ends_wait(now, next.1, false);
            }
            Event::CpuFrequency { khz } => {
                self.account(now, cpu);
                self.cpus[cpu].asked_khz = Some(khz);
            }
            Event::Turbo { khz } => {
                self.account(now, cpu);
                self.cpus[cpu].allowed_khz = Some(khz);
            }
            Event::FrequencyLimit { khz } => {
                self.cpus[cpu].limit_khz = Some(khz);
                let limit = self.limit(cpu);
                for response in self.open.values_mut() {
                    response.limits.insert(cpu, limit);
                }
            }
            Event::Online(online) => {
                self.account(now, cpu);
                self.cpus[cpu].offline = !online;
            }
            _ => {
                if let Some((pid, period)) = event.period() {
                    self.period(now, cpu, pid, period);
                }
            }
        }
    }
}
