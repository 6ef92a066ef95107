//! The activity of each thread of a traced run, from the run's events.

use crate::arrow::{Column, Texts};
use crate::table::{Columns as Builder, Table};
use report::events::columns::{Columns, EventKind};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

#[derive(Default)]
struct Thread {
    pid: i32,
    comm: i32,
    prio: i32,
    switches: u64,
    preemptions: u64,
    wakeups: u64,
    migrations: u64,
    ran_ns: BTreeMap<u16, u64>,
    woken_at: Option<i64>,
    /// The times from each wakeup until the thread ran, in ns; sorted at the end.
    latencies: Vec<i64>,
}

impl Thread {
    /// The smallest latency with `percent` per cent at or below it (nearest rank), in us.
    fn latency_us(&self, percent: usize) -> Option<f64> {
        let rank = (self.latencies.len() * percent).div_ceil(100);
        let ns = self.latencies.get(rank.checked_sub(1)?)?;
        Some(*ns as f64 / 1e3)
    }

    fn mean_latency_us(&self) -> Option<f64> {
        let sum = self.latencies.iter().sum::<i64>() as f64;
        (!self.latencies.is_empty()).then(|| sum / self.latencies.len() as f64 / 1e3)
    }
}

/// All threads, in the order in which they appear.
#[derive(Default)]
pub struct Threads(Vec<Thread>, HashMap<i32, usize>);

impl Threads {
    fn of(&mut self, pid: i32, comm: i32) -> &mut Thread {
        let Threads(threads, places) = self;
        let place = *places.entry(pid).or_insert_with(|| {
            threads.push(Thread {
                pid,
                ..Thread::default()
            });
            threads.len() - 1
        });
        threads[place].comm = comm;
        &mut threads[place]
    }

    pub fn table(&self, names: &Arc<Texts>) -> Table {
        let Threads(threads, _) = self;
        let comms: Vec<i32> = threads.iter().map(|thread| thread.comm).collect();
        let latency = |percent| threads.iter().map(move |thread| thread.latency_us(percent));
        Builder::default()
            .numbers::<i32>("pid", threads.iter().map(|thread| thread.pid))
            .column("comm", Column::numbers(comms).of(names))
            .numbers::<i32>("prio", threads.iter().map(|thread| thread.prio))
            .numbers::<u64>(
                "ran_ns",
                threads.iter().map(|thread| thread.ran_ns.values().sum()),
            )
            .numbers::<u64>("switches", threads.iter().map(|thread| thread.switches))
            .numbers::<u64>(
                "preemptions",
                threads.iter().map(|thread| thread.preemptions),
            )
            .numbers::<u64>("wakeups", threads.iter().map(|thread| thread.wakeups))
            .numbers::<u64>("migrations", threads.iter().map(|thread| thread.migrations))
            .optional::<f64>(
                "latency_mean_us",
                threads.iter().map(Thread::mean_latency_us),
            )
            .optional::<f64>("latency_p50_us", latency(50))
            .optional::<f64>("latency_p95_us", latency(95))
            .optional::<f64>("latency_p99_us", latency(99))
            .optional::<f64>("latency_max_us", latency(100))
            .table()
    }

    /// A table with a row for each thread and each CPU on which the thread ran.
    pub fn cpu_time(&self, names: &Arc<Texts>) -> Table {
        let Threads(threads, _) = self;
        let rows = || {
            let of = |thread: &'_ Thread| (thread.pid, thread.comm);
            threads.iter().flat_map(move |thread| {
                let (pid, comm) = of(thread);
                thread
                    .ran_ns
                    .iter()
                    .map(move |(&cpu, &ns)| (pid, comm, cpu, ns))
            })
        };
        let comms: Vec<i32> = rows().map(|(_, comm, ..)| comm).collect();
        Builder::default()
            .numbers::<i32>("pid", rows().map(|(pid, ..)| pid))
            .column("comm", Column::numbers(comms).of(names))
            .numbers::<u16>("cpu", rows().map(|(_, _, cpu, _)| cpu))
            .numbers::<u64>("ran_ns", rows().map(|(.., ns)| ns))
            .table()
    }
}

/// The threads in `columns`. A thread that is running at the last event has run until then.
pub fn threads(columns: &Columns) -> Threads {
    let mut threads = Threads::default();
    let events = &columns.events;
    // For each CPU, the running thread, and the start of its turn.
    let mut running: HashMap<u16, (i32, i32, i64)> = HashMap::new();
    let mut stop = |threads: &mut Threads, cpu: u16, now: i64, next: Option<(i32, i32, i64)>| {
        let before = match next {
            Some(next) => running.insert(cpu, next),
            None => running.remove(&cpu),
        };
        if let Some((pid, comm, since)) = before {
            *threads.of(pid, comm).ran_ns.entry(cpu).or_default() += (now - since) as u64;
        }
    };
    for row in 0..events.kind.len() {
        let (now, cpu) = (events.time_ns[row], events.cpu[row]);
        let (pid, comm) = (events.pid[row], events.comm[row]);
        match events.kind[row] {
            EventKind::Switch => {
                let next = (pid != 0).then_some((pid, comm, now));
                stop(&mut threads, cpu, now, next);
                if events.other_pid[row] != 0 && events.prev_state[row] == b'R' {
                    threads
                        .of(events.other_pid[row], events.other_comm[row])
                        .preemptions += 1;
                }
                if pid != 0 {
                    let thread = threads.of(pid, comm);
                    thread.prio = events.prio[row];
                    thread.switches += 1;
                    if let Some(woken_at) = thread.woken_at.take() {
                        thread.latencies.push(now - woken_at);
                    }
                }
            }
            EventKind::Wakeup | EventKind::WakeupNew => {
                let thread = threads.of(pid, comm);
                thread.prio = events.prio[row];
                thread.wakeups += 1;
                thread.woken_at = Some(now);
            }
            EventKind::Migrate => threads.of(pid, comm).migrations += 1,
            EventKind::Fork | EventKind::Exit | EventKind::Idle | EventKind::Frequency => {}
        }
    }
    let end = events.time_ns.last().copied().unwrap_or(0);
    let cpus: Vec<u16> = (0..=events.cpu.iter().copied().max().unwrap_or(0)).collect();
    for cpu in cpus {
        stop(&mut threads, cpu, end, None);
    }
    for thread in &mut threads.0 {
        thread.latencies.sort_unstable();
    }
    threads
}
