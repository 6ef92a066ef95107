//! Wasted time, in which CPUs idle while tasks that they may run wait on other CPUs, after the
//! checker of Lozi et al., "The Linux Scheduler: a Decade of Wasted Cores" (EuroSys 2016).
//!
//! A CPU idles while no task runs on it or is on its way to it. A task is on its way if it is queued on a CPU that has
//! a request to reschedule. The waste at a time is the number of waiting tasks that the idle CPUs could run, each task
//! where its affinity allows. CPUs to which a task is on its way take tasks first. Time is wasted only while a CPU
//! idles, so computing it costs nothing while all CPUs have tasks.

use crate::kernel::Kernel;
use crate::kernel::task::{Class, TaskPtr};
use machine::{CpuMask, Machine};
use matching::Matching;

mod matching;

pub struct Waste {
    idle: CpuMask,
    pub nr_idle: usize,
    /// The number of online CPUs that are not idle.
    pub nr_loaded: usize,
    /// The number of CPUs that idle although there is a task on their own runqueue.
    pub nr_stuck: usize,
    cpus: Vec<CpuState>,
    groups: Groups,
    streak: Streak,
    speeds: Speeds,
    /// CPU time wasted, in ns.
    pub wasted_ns: u64,
    /// The longest time for which a CPU idled while there was a task for it, in ns.
    pub longest_ns: u64,
}

#[derive(Clone, Copy, Default)]
struct CpuState {
    idle_since: u64,
    loaded_at: u64,
    /// The time before which there was no task for this CPU within the current [`Streak`].
    wanted_since: u64,
    is_stuck: bool,
}

/// The CPUs that could take a waiting task, idle or not. Usually all waiting tasks are of one group, for which no mask
/// is copied or compared.
#[derive(PartialEq)]
enum Wanted {
    Group(usize),
    Cpus(Box<CpuMask>),
}

impl Wanted {
    fn cpus<'a>(&'a self, groups: &'a Groups) -> &'a CpuMask {
        match self {
            Wanted::Group(group) => &groups.list[*group].allowed,
            Wanted::Cpus(cpus) => cpus,
        }
    }
}

/// An uninterrupted time in which there were tasks for idle CPUs.
struct Streak {
    from: u64,
    until: u64,
    wanted: Wanted,
    /// The CPU that has been idle for longest among the CPUs that could take a task, if known.
    oldest: Option<usize>,
}

/// Tasks by their affinity.
struct Groups {
    /// Every affinity that tasks have had. The tasks of the first affinity, which allows all CPUs, are not counted.
    list: Vec<Group>,
    /// The number of runnable tasks in the groups after the first one.
    bound: usize,
}

struct Group {
    allowed: CpuMask,
    runnable: u32,
}

struct Speeds {
    /// For each speed, in ascending order, the CPUs that are faster.
    faster: Vec<CpuMask>,
    /// For each CPU, its index into `faster`.
    of: Vec<usize>,
}

impl Waste {
    pub fn new(machine: &Machine) -> Waste {
        let idle = machine.all_cpus();
        Waste {
            nr_idle: idle.count(),
            idle,
            nr_loaded: 0,
            nr_stuck: 0,
            cpus: vec![CpuState::default(); machine.cpus.len()],
            groups: Groups {
                list: vec![Group {
                    allowed: idle,
                    runnable: 0,
                }],
                bound: 0,
            },
            streak: Streak {
                from: 0,
                until: 0,
                wanted: Wanted::Group(0),
                oldest: None,
            },
            speeds: Speeds::new(machine),
            wasted_ns: 0,
            longest_ns: 0,
        }
    }

    /// Records that `cpu` is not idle from `now` on, because a task is on its way.
    pub fn begin_load(&mut self, cpu: usize, now: u64) {
        if !self.idle.contains(cpu) {
            return;
        }
        self.idle.clear(cpu);
        self.nr_idle -= 1;
        self.nr_loaded += 1;
        let state = &mut self.cpus[cpu];
        state.loaded_at = now;
        self.nr_stuck -= usize::from(std::mem::take(&mut state.is_stuck));
        self.streak.oldest.take_if(|oldest| *oldest == cpu);
    }

    /// Records that `cpu` idles from `now` on. If `is_stuck`, there is a task on its runqueue.
    pub fn end_load(&mut self, cpu: usize, now: u64, is_stuck: bool) {
        let state = &mut self.cpus[cpu];
        if is_stuck && !state.is_stuck {
            state.is_stuck = true;
            self.nr_stuck += 1;
        }
        if self.idle.contains(cpu) {
            return;
        }
        // If the task left at once, the CPU has been idle without interruption.
        if state.loaded_at < now {
            state.idle_since = now;
        } else {
            self.streak.oldest = None;
        }
        self.idle.set(cpu);
        self.nr_idle += 1;
        self.nr_loaded -= 1;
    }

    /// Records that `cpu`, which is idle, goes offline.
    pub fn go_offline(&mut self, cpu: usize) {
        self.idle.clear(cpu);
        self.nr_idle -= 1;
        self.nr_stuck -= usize::from(std::mem::take(&mut self.cpus[cpu].is_stuck));
        self.streak.oldest = None;
    }

    /// Records that `cpu` comes online, and is idle.
    pub fn come_online(&mut self, cpu: usize, now: u64) {
        self.idle.set(cpu);
        self.nr_idle += 1;
        self.cpus[cpu].idle_since = now;
        self.streak.oldest = None;
    }

    /// The number of the group of tasks that may run on `allowed`; 0 if these are all CPUs.
    pub fn group(&mut self, allowed: &CpuMask) -> u32 {
        let list = &mut self.groups.list;
        let found = list.iter().position(|group| group.allowed == *allowed);
        found.unwrap_or_else(|| {
            list.push(Group {
                allowed: *allowed,
                runnable: 0,
            });
            list.len() - 1
        }) as u32
    }

    /// Counts a task of `group`, which is not 0, as runnable.
    #[inline(never)]
    pub fn add(&mut self, group: u32) {
        self.groups.list[group as usize].runnable += 1;
        self.groups.bound += 1;
    }

    /// No longer counts a task of `group`, which is not 0, as runnable.
    #[inline(never)]
    pub fn remove(&mut self, group: u32) {
        self.groups.list[group as usize].runnable -= 1;
        self.groups.bound -= 1;
    }

    /// Adds the wasted time from `from` to `until`, in which idle CPUs could have run `count` more tasks.
    fn lose(&mut self, from: u64, until: u64, count: usize, wanted: Wanted) {
        self.wasted_ns += count as u64 * (until - from);
        let streak = &mut self.streak;
        let groups = &self.groups;
        if streak.until != from {
            streak.from = from;
            streak.wanted = wanted;
            streak.oldest = None;
        } else if streak.wanted != wanted {
            let new = wanted.cpus(groups).without(streak.wanted.cpus(groups));
            for cpu in new.iter() {
                self.cpus[cpu].wanted_since = from;
            }
            streak.wanted = wanted;
            streak.oldest = None;
        }
        streak.until = until;
        if until - streak.from <= self.longest_ns {
            return;
        }
        let start = streak.from;
        let cpus = &self.cpus;
        let since = |cpu: usize| {
            let state = &cpus[cpu];
            start.max(state.idle_since).max(state.wanted_since)
        };
        let oldest = match streak.oldest {
            Some(cpu) => Some(cpu),
            None => {
                let idle = self.idle.and(streak.wanted.cpus(groups));
                idle.iter().min_by_key(|&cpu| since(cpu))
            }
        };
        streak.oldest = oldest;
        if let Some(cpu) = oldest {
            self.longest_ns = self.longest_ns.max(until - since(cpu));
        }
    }
}

impl Speeds {
    fn new(machine: &Machine) -> Speeds {
        let all = machine.all_cpus();
        let speed = |cpu: usize| machine.thread_speed(cpu, 1);
        let mut speeds: Vec<u32> = all.iter().map(speed).collect();
        speeds.sort_unstable();
        speeds.dedup();
        Speeds {
            faster: speeds
                .iter()
                .map(|&than| all.iter().filter(|&cpu| speed(cpu) > than).collect())
                .collect(),
            of: (0..machine.cpus.len())
                .map(|cpu| speeds.partition_point(|&than| than < speed(cpu)))
                .collect(),
        }
    }
}

impl Kernel<'_> {
    /// Adds the time wasted from now to `until`. Call this while a CPU idles and there are more runnable tasks than
    /// busy CPUs.
    #[cold]
    #[inline(never)]
    pub fn waste_until(&mut self, until: u64) {
        let now = self.now();
        if until == now {
            return;
        }
        // A throttled task does not wait for a CPU.
        let runnable = self.runnable - self.throttled().count();
        let waiting = runnable.saturating_sub(self.waste.nr_loaded);
        if waiting == 0 {
            return;
        }
        let waste = &mut self.waste;
        let groups = &waste.groups;
        let only = match groups.bound {
            0 => Some(0),
            bound if bound == self.runnable => {
                let mut active = (1..groups.list.len()).filter(|&nr| groups.list[nr].runnable > 0);
                active.next().filter(|_| active.next().is_none())
            }
            _ => None,
        };
        let (count, wanted) = match only {
            Some(group) => {
                let idle = match group {
                    0 => waste.nr_idle,
                    _ => waste.idle.and(&groups.list[group].allowed).count(),
                };
                (waiting.min(idle), Wanted::Group(group))
            }
            None => {
                let (count, wanted) = self.match_waiting();
                (count, Wanted::Cpus(Box::new(wanted)))
            }
        };
        if count > 0 {
            self.waste.lose(now, until, count, wanted);
        }
    }

    fn throttled(&self) -> impl Iterator<Item = TaskPtr> + '_ {
        let any = self.dl.total_bw > 0 || self.groups_have_limits;
        let tasks = any.then(|| self.tasks.iter().copied());
        tasks
            .into_iter()
            .flatten()
            .filter(|&task| self.is_throttled(task))
    }

    /// The number of runnable tasks, of several affinities, that idle CPUs could run in addition, and the CPUs that
    /// could each run one of them.
    fn match_waiting(&self) -> (usize, CpuMask) {
        let waste = &self.waste;
        let list = waste.groups.list.iter();
        let mut waiting: Vec<usize> = list.map(|group| group.runnable as usize).collect();
        waiting[0] = self.runnable - waste.groups.bound;
        for task in self.throttled() {
            waiting[task.group.get() as usize] -= 1;
        }
        let mut arriving = CpuMask::EMPTY;
        for (id, cpu) in self.cpus.iter().enumerate() {
            match cpu.curr {
                Some(curr) if curr.on_rq.get() => waiting[curr.group.get() as usize] -= 1,
                None if !waste.idle.contains(id) && self.hotplug.online.contains(id) => {
                    arriving.set(id);
                }
                _ => {}
            }
        }
        let groups: Vec<(CpuMask, usize)> = waste
            .groups
            .list
            .iter()
            .map(|group| group.allowed)
            .zip(waiting)
            .filter(|(_, waiting)| *waiting > 0)
            .collect();
        let mut matching = Matching::new(&groups);
        matching.add_all(&arriving);
        let wanted = matching.wanted();
        (matching.add_all(&waste.idle.and(&wanted)), wanted)
    }

    #[cold]
    pub fn recount_waste(&mut self, until: u64) {
        if let Some(mut check) = self.check.take() {
            check.waste.until(self, until);
            self.check = Some(check);
        }
    }

    pub fn is_throttled(&self, task: TaskPtr) -> bool {
        if !task.on_rq.get() || self.cpus[task.cpu()].curr == Some(task) {
            return false;
        }
        match task.class.get() {
            Class::Dl => task.dl.get().throttled,
            Class::Ext if self.groups_have_limits => {
                let set = task.abi.cgroups.get();
                self.bpf.groups.is_throttled(set, self.now())
            }
            Class::Rt | Class::Ext => false,
        }
    }

    /// Records that a task is on its way to `cpu`.
    pub fn begin_load(&mut self, cpu: usize) {
        let now = self.now();
        self.waste.begin_load(cpu, now);
    }

    /// Records that the last task on the runqueue of `cpu` has left it. If the task ran, the CPU is about to switch.
    #[inline(never)]
    pub fn lost_last(&mut self, cpu: usize) {
        if self.cpus[cpu].curr.is_none() {
            self.idles(cpu, false);
        }
    }

    /// Records that the number of tasks on the runqueue of `cpu` has changed.
    pub fn load_changed(&mut self, cpu: usize) {
        match self.rq(cpu).nr_running {
            0 => self.lost_last(cpu),
            _ => self.begin_load(cpu),
        }
    }

    /// Records that `cpu`, which may be idle with a task on its runqueue, reschedules.
    #[cold]
    pub fn unstick(&mut self, cpu: usize) {
        if self.waste.cpus[cpu].is_stuck && self.rq(cpu).nr_running > 0 {
            self.begin_load(cpu);
        }
    }

    /// Records that `cpu` has no task to switch to, or has lost the task that was on its way.
    pub fn idles(&mut self, cpu: usize, is_stuck: bool) {
        let now = self.now();
        self.waste.end_load(cpu, now, is_stuck);
    }

    /// Counts the wakeup of `task` if a faster CPU that it may use is idle. A hardware thread counts as fast only while
    /// its core's other threads are idle.
    #[inline(never)]
    pub fn count_slow_wakeup(&mut self, task: TaskPtr) {
        let waste = &self.waste;
        let faster = &waste.speeds.faster[waste.speeds.of[task.cpu()]];
        if !faster.intersects(&waste.idle) {
            return;
        }
        let candidates = faster.and(&waste.idle).and(&task.abi.cpus_mask.get());
        let cores = &self.hw.cores;
        let is_free = |&cpu: &usize| {
            let mut siblings = cores.siblings(cpu).iter();
            siblings.all(|&other| waste.idle.contains(other))
        };
        if candidates.iter().any(|cpu| is_free(&cpu)) {
            self.counters.slow_wakeups += 1;
        }
    }

    /// Does the machine have CPUs of several speeds?
    #[inline]
    pub fn has_slow_cpus(&self) -> bool {
        self.waste.speeds.faster.len() > 1
    }
}

/// Recomputes wasted time for each interval, task by task, to check the results of [`Waste`].
#[derive(Default)]
pub struct Recount {
    wasted_ns: u64,
    longest_ns: u64,
    /// For each CPU, the time at which it began to idle while a task that it could run waited.
    since: Vec<Option<u64>>,
}

impl Recount {
    /// Adds the time wasted from now to `until`.
    pub fn until(&mut self, kernel: &Kernel<'_>, until: u64) {
        self.since.resize(kernel.cpus.len(), None);
        let now = kernel.now();
        if until == now {
            return;
        }
        let waiting: Vec<(CpuMask, usize)> = kernel
            .tasks
            .iter()
            .filter(|task| task.on_rq.get() && kernel.cpus[task.cpu()].curr != Some(**task))
            .filter(|task| !kernel.is_throttled(**task))
            .map(|task| (task.abi.cpus_mask.get(), 1))
            .collect();
        let (mut idle, mut arriving) = (CpuMask::EMPTY, CpuMask::EMPTY);
        for cpu in kernel.hotplug.online.iter() {
            let state = &kernel.cpus[cpu];
            if state.curr.is_some() {
                continue;
            }
            let acts = state.need_resched || state.idles_at.is_some();
            match kernel.bpf.rq_ref(cpu).nr_running > 0 && acts {
                true => arriving.set(cpu),
                false => idle.set(cpu),
            }
        }
        if waiting.is_empty() || idle.is_empty() {
            return self.since.fill(None);
        }
        let found = |cpus: &CpuMask| Matching::new(&waiting).add_all(cpus);
        let first = found(&arriving);
        self.wasted_ns += (found(&arriving.or(&idle)) - first) as u64 * (until - now);
        for (cpu, since) in self.since.iter_mut().enumerate() {
            let with = arriving.or(&CpuMask::one(cpu));
            if idle.contains(cpu) && found(&with) > first {
                let since = *since.get_or_insert(now);
                self.longest_ns = self.longest_ns.max(until - since);
            } else {
                *since = None;
            }
        }
    }

    /// The difference between `waste` and this count, if any.
    pub fn differs(&self, waste: &Waste) -> Option<String> {
        let of = (waste.wasted_ns, waste.longest_ns);
        let (total, longest) = (self.wasted_ns, self.longest_ns);
        (of != (total, longest)).then(|| {
            format!(
                "{} ns were counted as wasted, the longest {}; by a recount {total} and {longest}",
                of.0, of.1
            )
        })
    }
}
