//! A kernel for tests of workloads: CPUs of the reference speed, a FIFO queue with a slice, and no costs. This kernel
//! checks only the validity of a program's ops, and nothing about scheduling.

use crate::{
    Env, GroupId, Metric, Op, Recorder, SchedPolicy, Start, TaskSpec, UtilClamps, Workload,
};
use machine::{CoreType, Cpu, CpuMask, Machine};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const SLICE: u64 = 1_000_000;
const TIMER_SLACK: u64 = 50_000;
/// The duration of a poll, in ns.
const POLL: u64 = 1_000;
/// The limit on ops at one time; a program that exceeds it never lets time pass.
const MAX_OPS_AT_ONCE: u64 = 1_000_000;

/// A machine of `cpus` equal CPUs.
pub fn machine(cpus: usize) -> Machine {
    Machine {
        name: "fake".to_owned(),
        description: String::new(),
        hz: 1000,
        cpus: vec![
            Cpu {
                core_type: 0,
                capacity: 1024
            };
            cpus
        ],
        core_types: vec![CoreType {
            name: "fake".to_owned(),
            speed: 1 << 20,
            smt_throughput: 1 << 20,
            ..CoreType::default()
        }],
        levels: Vec::new(),
        ..Machine::default()
    }
}

enum After {
    Nothing,
    Put { stream: u32, bytes: u64 },
    Fork(Box<TaskSpec>),
    Again(Op),
    Hold { mutex: u32, work: u64, keeps: bool },
    Release(u32),
}

struct Task {
    spec: TaskSpec,
    parent: Option<usize>,
    children: usize,
    joining: bool,
    exited: bool,
    remaining: u64,
    after: After,
    wants: Option<(u32, u64, u64)>,
    due: u64,
    woken_at: u64,
    cpu: usize,
    cpu_time: u64,
}

#[derive(Default)]
struct Mutex {
    owner: Option<usize>,
    waiting: VecDeque<usize>,
}

/// The state after a run.
#[derive(Default)]
pub struct Kernel {
    /// The time since the run began, in ns.
    pub now: u64,
    /// The measurements.
    pub recorder: Recorder,
    /// The number of calls of `read(2)`.
    pub reads: u64,
    /// The number of calls of `write(2)`.
    pub writes: u64,
    /// The capacity of each stream and the bytes in it.
    pub streams: Vec<(u64, u64)>,
    /// The largest number of bytes that a stream held.
    pub fullest_stream: u64,
    /// Policies requested by tasks, with their names.
    pub policies: Vec<(String, SchedPolicy)>,
    /// Utilization clamps requested by tasks, with their names.
    pub clamps: Vec<(String, UtilClamps)>,
    /// Control groups that tasks entered, with their names.
    pub groups: Vec<(String, Option<GroupId>)>,
    /// Affinities requested by tasks, with their names.
    pub affinities: Vec<(String, CpuMask)>,
    /// Names of all tasks, and whether they exited.
    pub tasks: Vec<(String, bool)>,
    /// Times at which tasks began to compute, with their names.
    pub runs: Vec<(String, u64)>,
}

struct Machinery {
    kernel: Kernel,
    tasks: Vec<Task>,
    mutexes: Vec<Mutex>,
    condvars: Vec<VecDeque<(usize, u32)>>,
    barriers: Vec<(u32, Vec<usize>)>,
    readers: Vec<VecDeque<usize>>,
    writers: Vec<VecDeque<usize>>,
    env: Env,
    ready: VecDeque<usize>,
    cpus: Vec<Option<usize>>,
    events: BinaryHeap<Reverse<(u64, u64, bool, usize)>>,
    sequence: u64,
}

impl Kernel {
    /// Runs `workload` on `cpus` CPUs until all tasks have exited, none can continue, or the workload's duration is
    /// over.
    pub fn run(workload: &dyn Workload, cpus: usize) -> Kernel {
        let start = workload.start(&machine(cpus));
        let mut machinery = Machinery::new(&start, workload.metrics(), cpus);
        for spec in start.tasks {
            machinery.create(spec, None);
        }
        machinery.go(start.duration_ns.unwrap_or(u64::MAX));
        let mut kernel = machinery.kernel;
        kernel.recorder = machinery.env.recorder;
        let name = |task: &Task| (task.spec.name.to_string(), task.exited);
        kernel.tasks = machinery.tasks.iter().map(name).collect();
        kernel
    }

    /// Names of tasks that have not exited.
    pub fn left(&self) -> Vec<&str> {
        let left = self.tasks.iter().filter(|(_, exited)| !exited);
        left.map(|(name, _)| name.as_str()).collect()
    }
}

impl Machinery {
    fn new(start: &Start, metrics: &[Metric], cpus: usize) -> Machinery {
        let queues = || start.streams.iter().map(|_| VecDeque::new()).collect();
        Machinery {
            kernel: Kernel {
                streams: start
                    .streams
                    .iter()
                    .map(|stream| (stream.capacity, 0))
                    .collect(),
                ..Kernel::default()
            },
            tasks: Vec::new(),
            mutexes: (0..start.mutexes).map(|_| Mutex::default()).collect(),
            condvars: vec![VecDeque::new(); start.condvars],
            barriers: start.barriers.iter().map(|&n| (n, Vec::new())).collect(),
            readers: queues(),
            writers: queues(),
            env: Env::new(start.shared.clone(), 1, metrics),
            ready: VecDeque::new(),
            cpus: vec![None; cpus],
            events: BinaryHeap::new(),
            sequence: 0,
        }
    }

    fn create(&mut self, spec: TaskSpec, parent: Option<usize>) {
        if let Some(parent) = parent {
            self.tasks[parent].children += 1;
        }
        self.ready.push_back(self.tasks.len());
        self.tasks.push(Task {
            spec,
            parent,
            children: 0,
            joining: false,
            exited: false,
            remaining: 0,
            after: After::Nothing,
            wants: None,
            due: 0,
            woken_at: 0,
            cpu: 0,
            cpu_time: 0,
        });
    }

    fn go(&mut self, duration: u64) {
        self.dispatch();
        while let Some(Reverse((at, _, is_cpu, index))) = self.events.pop() {
            if at > duration {
                self.kernel.now = duration;
                return;
            }
            self.kernel.now = at;
            if is_cpu {
                let task = self.cpus[index].take().expect("a CPU that runs a task");
                self.ready.push_back(task);
            } else {
                self.ready.push_back(index);
            }
            self.dispatch();
        }
    }

    fn at(&mut self, at: u64, is_cpu: bool, index: usize) {
        self.sequence += 1;
        self.events
            .push(Reverse((at, self.sequence, is_cpu, index)));
    }

    fn dispatch(&mut self) {
        let mut ops = 0;
        while let Some((position, cpu)) = self.choose() {
            let task = self
                .ready
                .remove(position)
                .expect("a position in the queue");
            self.tasks[task].cpu = cpu;
            while self.tasks[task].remaining == 0 {
                ops += 1;
                assert!(ops < MAX_OPS_AT_ONCE, "time stands still");
                if !self.step(task) {
                    break;
                }
            }
            let remaining = self.tasks[task].remaining;
            if remaining > 0 {
                let slice = remaining.min(SLICE);
                self.tasks[task].remaining -= slice;
                self.tasks[task].cpu_time += slice;
                self.cpus[cpu] = Some(task);
                let name = self.tasks[task].spec.name.to_string();
                self.kernel.runs.push((name, self.kernel.now));
                self.at(self.kernel.now + slice, true, cpu);
            }
        }
    }

    fn choose(&self) -> Option<(usize, usize)> {
        self.ready.iter().enumerate().find_map(|(position, &task)| {
            let may_run = |cpu: &usize| {
                let affinity = &self.tasks[task].spec.affinity;
                self.cpus[*cpu].is_none() && affinity.is_none_or(|mask| mask.contains(*cpu))
            };
            Some((position, (0..self.cpus.len()).find(may_run)?))
        })
    }

    /// Executes one step of `task`. Returns false if the task leaves its CPU.
    fn step(&mut self, task: usize) -> bool {
        match std::mem::replace(&mut self.tasks[task].after, After::Nothing) {
            After::Nothing => {}
            After::Put { stream, bytes } => return self.put(task, stream, bytes),
            After::Fork(spec) => self.create(*spec, Some(task)),
            After::Again(op) => return self.execute(task, op),
            After::Hold { mutex, work, keeps } => return self.hold(task, mutex, work, keeps),
            After::Release(mutex) => self.unlock(task, mutex),
        }
        if let Some((stream, bytes, work)) = self.tasks[task].wants.take() {
            return self.get(task, stream, bytes, work);
        }
        let state = &mut self.tasks[task];
        let env = &mut self.env;
        (env.now, env.cpu, env.due) = (self.kernel.now, state.cpu, state.due);
        env.woken_at = state.woken_at;
        env.cpu_time = state.cpu_time;
        let op = state.spec.program.next(env);
        self.execute(task, op)
    }

    fn execute(&mut self, task: usize, op: Op) -> bool {
        let now = self.kernel.now;
        let slack = match self.tasks[task].spec.policy {
            SchedPolicy::Normal { .. } | SchedPolicy::Batch { .. } | SchedPolicy::Idle => {
                TIMER_SLACK
            }
            _ => 0,
        };
        match op {
            Op::Run { work } => self.tasks[task].remaining = work,
            Op::RunFor { ns } => self.tasks[task].remaining = ns,
            Op::Sleep { ns } => {
                self.tasks[task].due = now + ns;
                self.at(now + ns + slack, false, task);
                return false;
            }
            Op::SleepUntil { at } if at > now => {
                self.tasks[task].due = at;
                self.at(at + slack, false, task);
                return false;
            }
            Op::SleepUntil { .. } => {}
            Op::Lock(mutex) => {
                let mutex = &mut self.mutexes[mutex as usize];
                assert_ne!(mutex.owner, Some(task), "locks what it holds");
                if mutex.owner.is_some() {
                    mutex.waiting.push_back(task);
                    return false;
                }
                mutex.owner = Some(task);
            }
            Op::Unlock(mutex) => self.unlock(task, mutex),
            Op::Hold {
                mutex, work, keeps, ..
            } => {
                self.tasks[task].after = After::Hold { mutex, work, keeps };
                return self.execute(task, Op::Lock(mutex)) && self.step(task);
            }
            Op::Release(mutex) => self.unlock(task, mutex),
            Op::CondResched => {}
            Op::Wait { cond, mutex } => {
                self.unlock(task, mutex);
                self.condvars[cond as usize].push_back((task, mutex));
                return false;
            }
            Op::Signal(cond) => {
                let first = self.condvars[cond as usize].pop_front();
                first.into_iter().for_each(|waiter| self.relock(waiter));
            }
            Op::SpinWhile { word, value, work } => {
                if self.env.shared[word] == value && work > 0 {
                    let polled = work.min(POLL);
                    self.tasks[task].remaining = polled;
                    let work = work - polled;
                    self.tasks[task].after = After::Again(Op::SpinWhile { word, value, work });
                }
            }
            Op::SpinLock(mutex) => {
                if self.mutexes[mutex as usize].owner.is_none() {
                    return self.execute(task, Op::Lock(mutex));
                }
                self.tasks[task].remaining = POLL;
                self.tasks[task].after = After::Again(Op::SpinLock(mutex));
            }
            Op::Broadcast(cond) | Op::BroadcastRequeue(cond) => {
                let waiters = std::mem::take(&mut self.condvars[cond as usize]);
                waiters.into_iter().for_each(|waiter| self.relock(waiter));
            }
            Op::Barrier(barrier) => {
                let (needed, waiting) = &mut self.barriers[barrier as usize];
                if waiting.len() as u32 + 1 < *needed {
                    waiting.push(task);
                    return false;
                }
                self.ready.extend(waiting.drain(..));
            }
            Op::Write {
                stream,
                bytes,
                work,
            } => {
                self.kernel.writes += 1;
                self.tasks[task].remaining = work;
                self.tasks[task].after = After::Put { stream, bytes };
            }
            Op::Read {
                stream,
                bytes,
                work,
            } => {
                self.kernel.reads += 1;
                return self.get(task, stream, bytes, work);
            }
            Op::Fork { child, work } => {
                self.tasks[task].remaining = work;
                self.tasks[task].after = After::Fork(child);
            }
            Op::Join | Op::WaitChildren => {
                self.tasks[task].joining = self.tasks[task].children > 0;
                return !self.tasks[task].joining;
            }
            Op::Exec { work } => self.tasks[task].remaining = work,
            Op::Yield => {
                self.ready.push_back(task);
                return false;
            }
            Op::SetAffinity(mask) => {
                let task = &mut self.tasks[task];
                self.kernel
                    .affinities
                    .push((task.spec.name.to_string(), *mask));
                task.spec.affinity = Some(*mask);
            }
            Op::SetPolicy(policy) => {
                let task = &mut self.tasks[task];
                self.kernel
                    .policies
                    .push((task.spec.name.to_string(), policy));
                task.spec.policy = policy;
            }
            Op::SetUtilClamps(clamps) => {
                let name = self.tasks[task].spec.name.to_string();
                self.kernel.clamps.push((name, clamps));
            }
            Op::EnterGroup(group) => self
                .kernel
                .groups
                .push((self.tasks[task].spec.name.to_string(), group)),
            Op::Exit => {
                let held = self.mutexes.iter().any(|mutex| mutex.owner == Some(task));
                assert!(!held, "exits with a mutex");
                self.tasks[task].exited = true;
                if let Some(parent) = self.tasks[task].parent {
                    let parent_task = &mut self.tasks[parent];
                    parent_task.children -= 1;
                    if parent_task.joining && parent_task.children == 0 {
                        parent_task.joining = false;
                        self.ready.push_back(parent);
                    }
                }
                return false;
            }
        }
        true
    }

    /// Executes the work of `task`, which has the mutex of an [`Op::Hold`], under the mutex.
    fn hold(&mut self, task: usize, mutex: u32, work: u64, keeps: bool) -> bool {
        self.tasks[task].remaining = work;
        self.tasks[task].after = match keeps {
            true => After::Nothing,
            false => After::Release(mutex),
        };
        true
    }

    fn unlock(&mut self, task: usize, mutex: u32) {
        let mutex = &mut self.mutexes[mutex as usize];
        assert_eq!(
            mutex.owner,
            Some(task),
            "unlocks a mutex that it does not hold"
        );
        mutex.owner = mutex.waiting.pop_front();
        self.ready.extend(mutex.owner);
    }

    fn relock(&mut self, (task, mutex): (usize, u32)) {
        self.tasks[task].woken_at = self.kernel.now;
        let mutex = &mut self.mutexes[mutex as usize];
        match mutex.owner {
            Some(_) => mutex.waiting.push_back(task),
            None => {
                mutex.owner = Some(task);
                self.ready.push_back(task);
            }
        }
    }

    fn put(&mut self, task: usize, stream: u32, bytes: u64) -> bool {
        let (capacity, level) = &mut self.kernel.streams[stream as usize];
        assert!(bytes <= *capacity, "writes more than a stream holds");
        if *level + bytes > *capacity {
            self.tasks[task].after = After::Put { stream, bytes };
            self.writers[stream as usize].push_back(task);
            return false;
        }
        *level += bytes;
        self.kernel.fullest_stream = self.kernel.fullest_stream.max(*level);
        self.ready.append(&mut self.readers[stream as usize]);
        true
    }

    fn get(&mut self, task: usize, stream: u32, bytes: u64, work: u64) -> bool {
        let (_, level) = &mut self.kernel.streams[stream as usize];
        if *level < bytes {
            self.tasks[task].wants = Some((stream, bytes, work));
            self.readers[stream as usize].push_back(task);
            return false;
        }
        *level -= bytes;
        self.tasks[task].remaining = work;
        self.ready.append(&mut self.writers[stream as usize]);
        true
    }
}
