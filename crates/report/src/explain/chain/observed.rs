//! Observes waits: the events of each, in order.

use super::super::beside::{Beside, Others, Share};
use super::super::said::MOST_SAID;
use super::super::tasks::Tasks;
use super::super::wait::{After, Wait};
use super::super::window::{Raw, RawStep, RawWhat, Reasons, Subject, Window};
use super::super::words::shown;
use super::{Chain, Counted, Idled, Made, Step, What};
use crate::first_run::base;
use crate::moves::Moves;
use machine::CpuMask;
use policy::{About, Decided, Decision, DecisionRow};
use simulator::{Event, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// The summary of a search whose reasons are also recorded domain by domain.
const SUMMARY: DecisionRow = DecisionRow::found_none;

/// Collects the events of some waits.
pub struct Chains {
    windows: Vec<Window>,
    /// The threads whose decisions are counted.
    counted: BTreeSet<String>,
    /// The counts and first values, by thread and decision.
    counts: BTreeMap<(String, &'static str), (u64, Raw)>,
    tasks: Tasks,
    /// The windows that have not begun, latest first.
    coming: Vec<usize>,
    /// For each CPU, the task on it, and the start of the task's turn.
    running: Vec<(Option<i32>, u64)>,
    /// For each CPU, the reasons why it has found no work since it went idle. `requests` has each CPU's last frequency
    /// request.
    idle: Vec<Reasons>,
    requests: Vec<Option<(u64, Raw)>>,
    /// Has the scheduler ever reported why a CPU found no work?
    reports_idle: bool,
    offline: CpuMask,
    /// The time since which no scheduler is loaded, in ns.
    unloaded: Option<u64>,
    /// The waker of a thread that is about to wake up; the inner `None` stands for an interrupt.
    waker: Option<(i32, Option<i32>)>,
    moves: Moves,
    others: Others,
}

impl Chains {
    /// Starts to collect the events of these windows on a machine with `cpus` CPUs.
    pub fn new(
        windows: Vec<(Wait, Subject)>,
        threads: impl IntoIterator<Item = String>,
        cpus: usize,
    ) -> Chains {
        let waits: Vec<Wait> = windows.iter().map(|(wait, _)| wait.clone()).collect();
        let mut coming: Vec<usize> = (0..waits.len()).collect();
        coming.sort_by_key(|&window| u64::MAX - waits[window].from);
        let windows = windows.into_iter();
        Chains {
            others: Others::new(&waits),
            windows: windows
                .map(|(wait, subject)| Window::new(wait, subject))
                .collect(),
            counted: threads.into_iter().collect(),
            counts: BTreeMap::new(),
            tasks: Tasks::default(),
            coming,
            running: vec![(None, 0); cpus],
            idle: vec![Reasons::new(); cpus],
            reports_idle: false,
            offline: CpuMask::EMPTY,
            unloaded: None,
            requests: vec![None; cpus],
            waker: None,
            moves: Moves::default(),
        }
    }

    /// Records the state of the CPUs for the windows that begin by `now`.
    fn begin(&mut self, now: u64) {
        while let Some(&next) = self.coming.last() {
            let window = &mut self.windows[next];
            if window.wait.from > now {
                return;
            }
            self.coming.pop();
            window.offline = self.offline;
            for (cpu, (task, _)) in self.running.iter().enumerate() {
                if task.is_none() && !self.offline.contains(cpu) {
                    window.idle_at_start.insert(cpu);
                    window.idle_before.insert(cpu, self.idle[cpu].clone());
                }
                let request = self.requests[cpu].map(|request| (cpu, request));
                window.requests.extend(request);
            }
        }
    }

    /// Records the state of the tasks for the windows about slow threads that ended before `now`. Windows about waits
    /// end when the thread runs, before it changes its own state.
    fn end(&mut self, now: u64) {
        let ended = |it: &&mut Window| it.subject != Subject::Wait && it.wait.to < now;
        for window in self.windows.iter_mut().filter(ended) {
            window.tasks.get_or_insert_with(|| self.tasks.clone());
        }
    }

    fn open(&mut self, now: u64) -> impl Iterator<Item = &mut Window> {
        self.windows
            .iter_mut()
            .filter(move |window| window.is_open(now))
    }

    /// Records the activity of `cpu` until `now`.
    fn end_turn(&mut self, cpu: usize, now: u64) {
        let (task, since) = self.running[cpu];
        if let Some(pid) = task {
            return self.others.ran(since, now, cpu, pid);
        }
        if self.offline.contains(cpu) {
            return;
        }
        for window in &mut self.windows {
            let within = window.within(since, now);
            if within > 0 {
                *window.idle_ns.entry(cpu).or_default() += within;
            }
        }
    }

    /// Records that `cpu` comes online or goes offline. An offline CPU does not idle.
    fn online(&mut self, now: u64, cpu: usize, online: bool) {
        self.end_turn(cpu, now);
        self.running[cpu].1 = now;
        self.idle[cpu].clear();
        match online {
            true => self.offline.clear(cpu),
            false => self.offline.set(cpu),
        }
        for window in self.open(now).filter(|_| online) {
            window.offline.clear(cpu);
        }
    }

    /// Records that a scheduler is loaded again, or that none is loaded any more.
    fn loaded(&mut self, now: u64, loaded: bool) {
        if let Some(since) = self.unloaded.take() {
            for window in &mut self.windows {
                window.unloaded_ns += window.within(since, now);
            }
        }
        self.unloaded = (!loaded).then_some(now);
    }

    fn switch(&mut self, now: u64, cpu: usize, next: i32) {
        self.end_turn(cpu, now);
        let next = Some(next).filter(|&pid| pid != 0);
        self.running[cpu] = (next, now);
        if next.is_some() {
            self.idle[cpu].clear();
        }
        let windows = self.windows.iter_mut();
        for window in windows.filter(|it| it.is_open(now) && now >= it.wait.from) {
            let Wait { pid, to, .. } = window.wait;
            if next == Some(pid) && now == to {
                window.tasks = Some(self.tasks.clone());
                window.end_other(now);
                window.push(now, cpu, RawWhat::Runs);
            } else if window.cpu == Some(cpu) {
                window.end_other(now);
                window.push(
                    now,
                    cpu,
                    RawWhat::Other {
                        pid: next,
                        until: None,
                    },
                );
            }
        }
    }

    fn decided(&mut self, now: u64, cpu: usize, raw: Raw) {
        if let Some(name) = raw.pid.and_then(|pid| self.tasks.name(pid))
            && self.counted.contains(base(name))
        {
            let key = (base(name).to_owned(), raw.decision.name);
            self.counts.entry(key).or_insert((0, raw)).0 += 1;
        }
        match (raw.decision.about, raw.cpu) {
            (About::Idle, Some(cpu)) => {
                self.idle[cpu].insert(raw.reason(), (now, raw));
                self.reports_idle = true;
            }
            (About::Frequency, Some(cpu)) => self.requests[cpu] = Some((now, raw)),
            _ => {}
        }
        self.open(now)
            .for_each(|window| window.decided(now, cpu, raw));
    }

    fn made(&self, raw: &Raw) -> Made {
        let name = |pid| self.tasks.label(pid);
        let task = raw.pid.map(name);
        let decided = Decided {
            decision: raw.decision,
            task: task.as_deref(),
            cpu: raw.cpu,
            numbers: &raw.numbers,
        };
        Made {
            decision: raw.decision,
            cpu: raw.cpu,
            what: decided.what(),
            why: decided.why(name),
            numbers: decided.numbers().collect(),
        }
    }

    /// The chains, in the order of the waits, and the counts of decisions about each thread, most frequent first.
    pub fn finish(mut self) -> (Vec<Chain>, Vec<Counted>) {
        for cpu in 0..self.running.len() {
            self.end_turn(cpu, u64::MAX);
        }
        self.loaded(u64::MAX, true);
        self.tasks.finish();
        let others = std::mem::replace(&mut self.others, Others::new(&[]));
        let beside = others.finish(|pid| self.tasks.label(pid).into_owned());
        let windows = self.windows.iter().zip(beside);
        let chains = windows
            .map(|(window, beside)| self.chain(window, beside))
            .collect();
        let counted = self
            .counts
            .iter()
            .map(|((thread, _), (times, raw))| Counted {
                thread: thread.clone(),
                made: self.made(raw),
                times: *times,
            });
        let mut counted: Vec<Counted> = counted.collect();
        counted.sort_by(|a, b| (&a.thread, b.times).cmp(&(&b.thread, a.times)));
        (chains, counted)
    }

    fn chain(&self, window: &Window, beside: Beside) -> Chain {
        let name = |pid: i32| Some(self.tasks.label(pid).into_owned());
        let steps = window.steps.iter().map(|step| Step {
            at: step.at,
            cpu: step.cpu,
            what: match &step.what {
                RawWhat::Woken { by, waited_for } => What::Woken {
                    waited_for: *waited_for,
                    by: by.and_then(name),
                },
                RawWhat::Decided(raw) => What::Decided(self.made(raw)),
                RawWhat::Moved { from, to } => What::Moved {
                    from: *from,
                    to: *to,
                },
                RawWhat::Other { pid, until } => What::Other {
                    task: pid.and_then(name),
                    ns: until.unwrap_or(window.wait.to).saturating_sub(step.at),
                },
                RawWhat::Said(line) => What::Said(line.clone()),
                RawWhat::Runs => What::Runs,
            },
        });
        let mut steps: Vec<Step> = steps.collect();
        steps.retain(|step| !matches!(step.what, What::Other { ns: 0, .. }));
        let idled = window.idle_ns.iter().map(|(&cpu, &ns)| {
            let of_it = window.idle.range((cpu, ("", 0))..(cpu + 1, ("", 0)));
            let of_it = of_it.map(|(_, (times, raw))| (self.made(raw), *times));
            let mut decisions: Vec<(Made, u64)> = of_it.collect();
            if decisions.is_empty() {
                let before = window.idle_before.get(&cpu).into_iter().flatten();
                decisions.extend(before.map(|(_, (at, raw))| {
                    let mut made = self.made(raw);
                    let earlier = shown(window.wait.from - at);
                    made.why = format!("{} (decided {earlier} before)", made.why);
                    (made, 1)
                }));
            }
            // The summary of a search adds nothing to the reasons, so leave it out beside them.
            if decisions.len() > 1 {
                decisions.retain(|(made, _)| made.decision.row != SUMMARY);
            }
            let at_start = window.idle_at_start.contains(&cpu);
            Idled {
                cpu,
                ns,
                at_start,
                slept: self.reports_idle && at_start && decisions.is_empty(),
                decisions,
            }
        });
        let mut idled: Vec<Idled> = idled.filter(|idled| idled.ns > 0).collect();
        idled.sort_by_key(|idled| (u64::MAX - idled.ns, idled.cpu));
        let tasks = window.tasks.as_ref().unwrap_or(&self.tasks);
        let shares = beside.ran.values().flatten().chain(&beside.waited);
        let priority = |share: &Share| (share.pid, tasks.priority(share.pid));
        let requests = window.requests.iter();
        let pids = shares
            .clone()
            .map(|share| share.pid)
            .chain([window.wait.pid]);
        let group = |pid: i32| Some((pid, tasks.group(pid)?.clone()));
        Chain {
            allowed: tasks.allowed(window.wait.pid),
            offline: window.offline,
            unloaded_ns: window.unloaded_ns,
            priority: tasks.priority(window.wait.pid),
            groups: pids.filter_map(group).collect(),
            priorities: shares.map(priority).collect(),
            requests: requests
                .map(|(&cpu, (at, raw))| (cpu, (*at, self.made(raw))))
                .collect(),
            wait: Wait {
                name: self.tasks.label(window.wait.pid).into_owned(),
                ..window.wait
            },
            steps,
            unsaid: window.said.saturating_sub(MOST_SAID),
            idled,
            beside,
        }
    }
}

impl Trace for Chains {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        self.begin(now);
        self.end(now);
        self.tasks.learn(&event);
        match event {
            Event::Switch {
                prev,
                prev_runnable,
                next,
                ..
            } => {
                if prev_runnable && prev.1 != 0 {
                    self.others.waits(now, prev.1);
                }
                self.others.runs(now, next.1);
                self.switch(now, cpu, next.1);
            }
            Event::Wakeup {
                task, target_cpu, ..
            } => {
                self.others.waits(now, task.1);
                let by = self.waker.take().filter(|&(pid, _)| pid == task.1);
                let by = match by {
                    Some((_, by)) => by,
                    // The parent makes the first wakeup of a thread.
                    None => self.running[cpu].0,
                };
                let there = self.running[target_cpu];
                for window in self.open(now).filter(|window| window.wait.pid == task.1) {
                    // If the scheduler reported its decision, that event has already added the step with the reason
                    // for the sleep.
                    match window.steps.iter_mut().map(|step| &mut step.what).next() {
                        Some(RawWhat::Woken { by: waker, .. }) => *waker = by,
                        _ => {
                            let what = RawWhat::Woken {
                                by,
                                waited_for: None,
                            };
                            window.steps.insert(0, RawStep { at: now, cpu, what });
                        }
                    }
                    window.waits_for(now, target_cpu, there);
                }
            }
            Event::Migrate { task, from, to, .. } => {
                self.moves.moved(now, task.1, to);
                let there = self.running[to];
                for window in self.open(now).filter(|window| window.wait.pid == task.1) {
                    // The thread's placement at the wakeup has already been recorded.
                    if window.cpu.is_some() {
                        window.push(now, cpu, RawWhat::Moved { from, to });
                        window.waits_for(now, to, there);
                    }
                }
            }
            Event::Decision {
                decision,
                task,
                waited_for,
                cpu: about,
                numbers,
            } => {
                let Some(decision) = Decision::find(decision) else {
                    return;
                };
                let pid = task.map(|task| task.1);
                let pid = pid.or_else(|| self.moves.pulled(now, decision, about));
                let raw = Raw {
                    decision,
                    pid,
                    cpu: about,
                    numbers: *numbers,
                };
                for window in self.open(now) {
                    let wakes = window.steps.is_empty()
                        && window.wait.after == After::Wakeup
                        && window.subject != Subject::Continued;
                    if wakes && pid == Some(window.wait.pid) {
                        let waited_for = Some(waited_for);
                        window.push(
                            now,
                            cpu,
                            RawWhat::Woken {
                                by: None,
                                waited_for,
                            },
                        );
                    }
                }
                self.decided(now, cpu, raw);
            }
            Event::Online(online) => self.online(now, cpu, online),
            Event::Loaded(loaded) => self.loaded(now, loaded),
            Event::Polls { task, since } => self.others.polls(task.1, since),
            Event::Waker { task, by } => self.waker = Some((task.1, by.map(|by| by.1))),
            Event::Printk(line) => {
                self.open(now)
                    .for_each(|window| window.says(now, cpu, line));
            }
            _ => {}
        }
    }
}
