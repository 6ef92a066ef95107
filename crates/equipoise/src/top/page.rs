//! An interval as tables: CPUs by type, threads, the scheduler's decisions, its callbacks' costs,
//! energy.

use super::sample::{Computer, Cpu, Interval};
use super::threads::Thread;
use machine::counted;
use policy::{CounterRow, Counters};
use report::{Cell, Page, Table, Tone};
use serde_json::Value;
use std::collections::BTreeMap;

/// The largest number of threads in a table.
const THREADS: usize = 20;

/// The length of the longest name in a table of threads that fits into 80 columns. The name of a kworker is longer.
const NAME: usize = 20;

pub fn page(computer: &Computer, interval: &Interval) -> Page {
    let mut tables = vec![
        types(computer, interval),
        cpus(computer, interval),
        threads(interval),
        rates(decisions(interval)),
        callbacks(interval),
        energy(interval),
    ];
    tables.retain(|table| !table.rows.is_empty());
    let missing = interval.missing.iter();
    Page {
        title: title(interval),
        tables,
        remarks: missing
            .map(|(what, why)| format!("{what}: {why}"))
            .collect(),
        ..Page::default()
    }
}

/// The running scheduler, and the number of CPUs.
pub fn title(interval: &Interval) -> String {
    let cpus = counted(interval.cpus.len(), "CPU", "CPUs");
    format!("{}, {cpus}", interval.scheduler)
}

fn table(title: &str, header: &[&str], rows: Vec<Vec<Cell>>) -> Table {
    Table {
        title: title.to_owned(),
        header: header.iter().map(|&name| name.to_owned()).collect(),
        text_columns: 1,
        rows,
        ..Table::default()
    }
}

const DOES: [&str; 5] = ["capacity", "busy %", "waiting", "MHz", "switches/s"];

/// The activity of a CPU, or the average of a type's CPUs.
fn does(capacity: u32, cpu: Cpu) -> [Cell; 5] {
    let known = |text: Option<String>| text.map_or(Cell::new("-", Tone::Dim), Cell::from);
    [
        capacity.to_string().into(),
        format!("{:.0}", cpu.busy * 100.0).into(),
        known(cpu.waiting.map(|tasks| format!("{tasks:.1}"))),
        known(cpu.khz.map(|khz| (khz / 1000).to_string())),
        known(cpu.switches.map(|switches| format!("{switches:.0}"))),
    ]
}

fn average(cpus: &[Cpu]) -> Cpu {
    let n = cpus.len().max(1) as f64;
    let mean = |of: fn(&Cpu) -> Option<f64>| {
        let sum: Option<f64> = cpus.iter().map(of).sum();
        sum.map(|sum| sum / n)
    };
    Cpu {
        busy: mean(|cpu| Some(cpu.busy)).unwrap_or_default(),
        waiting: mean(|cpu| cpu.waiting),
        switches: mean(|cpu| cpu.switches),
        khz: mean(|cpu| cpu.khz.map(|khz| khz as f64)).map(|khz| khz as u64),
    }
}

/// The table of the types of cores, largest first. A computer with a single type does not need this table.
fn types(computer: &Computer, interval: &Interval) -> Table {
    let machine = &computer.machine;
    let mut by_type: BTreeMap<(u32, usize), Vec<Cpu>> = BTreeMap::new();
    for (&id, &did) in &interval.cpus {
        if let Some(cpu) = machine.cpus.get(id) {
            by_type
                .entry((cpu.capacity, cpu.core_type))
                .or_default()
                .push(did);
        }
    }
    let row = |(&(capacity, core), cpus): (&(u32, usize), &Vec<Cpu>)| {
        let name = format!("{} x {}", cpus.len(), machine.core_types[core].name);
        let cells = does(capacity, average(cpus));
        [Cell::from(name)].into_iter().chain(cells).collect()
    };
    let mut rows: Vec<Vec<Cell>> = by_type.iter().rev().map(row).collect();
    if rows.len() < 2 {
        rows.clear();
    }
    table("Cores, on average", &[&["type"], &DOES[..]].concat(), rows)
}

fn cpus(computer: &Computer, interval: &Interval) -> Table {
    let row = |(&id, &did): (&usize, &Cpu)| {
        let capacity = computer.machine.cpus.get(id).map_or(0, |cpu| cpu.capacity);
        let cells = does(capacity, did);
        [Cell::from(id.to_string())]
            .into_iter()
            .chain(cells)
            .collect()
    };
    let rows = interval.cpus.iter().map(row).collect();
    table("CPUs", &[&["CPU"], &DOES[..]].concat(), rows)
}

pub const OF_THREADS: [&str; 8] = [
    "thread", "TID", "CPU", "CPU %", "wait", "wait p99", "runs/s", "moves/s",
];

/// A thread's cells, with a dash where the kernel does not provide the value.
pub fn of_thread(thread: &Thread) -> [String; 8] {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let rate = |rate: f64| match rate < 9.95 {
        true => format!("{rate:.1}"),
        false => format!("{rate:.0}"),
    };
    [
        thread.label(),
        thread.tid.to_string(),
        known(thread.cpu.map(|cpu| cpu.to_string())),
        format!("{:.1}", thread.ran * 100.0),
        known(thread.wait_ns.map(time)),
        known(thread.wait_p99_ns.map(time)),
        known(thread.turns.map(rate)),
        known(thread.migrations.map(rate)),
    ]
}

/// A time with its unit, such as `850 us`, `12.4 ms` or `1.25 s`.
fn time(ns: f64) -> String {
    match ns {
        ns if ns < 999_500.0 => format!("{:.0} us", ns / 1e3),
        ns if ns < 999_950_000.0 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

fn threads(interval: &Interval) -> Table {
    let row = |thread: &Thread| {
        let mut cells = of_thread(thread);
        if cells[0].chars().count() > NAME {
            cells[0] = cells[0].chars().take(NAME - 1).chain(['…']).collect();
        }
        cells.map(Cell::from).into()
    };
    let rows = interval.threads.iter().take(THREADS).map(row).collect();
    let title = match interval.threads.len() {
        all if all > THREADS => format!("Threads ({THREADS} of {all} that ran)"),
        _ => "Threads".to_owned(),
    };
    table(&title, &OF_THREADS, rows)
}

pub struct Rate {
    /// The counter's name in statistics.
    pub name: String,
    /// The events that are counted.
    pub what: String,
    pub a_second: f64,
}

/// The scheduler's counters that count events and are not 0: first the counters of scx_equipoise, then the events that
/// the kernel counts for any sched_ext scheduler.
pub fn decisions(interval: &Interval) -> Vec<Rate> {
    let counted = interval.counted.iter().flat_map(|counted| {
        Counters::ALL.iter().filter_map(|counter| {
            let is_sum =
                counter.row == CounterRow::frequency_requested || counter.what.ends_with(", ns");
            let times = counted[counter.name].as_u64().filter(|_| !is_sum)?;
            Some(Rate {
                name: counter.name.to_owned(),
                what: counter.what.to_owned(),
                a_second: times as f64 / interval.seconds,
            })
        })
    });
    let events = interval.events.iter().map(|(name, &a_second)| Rate {
        name: name.clone(),
        what: name.clone(),
        a_second,
    });
    let rates = counted.chain(events);
    rates.filter(|rate| rate.a_second > 0.0).collect()
}

fn rates(rates: Vec<Rate>) -> Table {
    let row = |rate: Rate| vec![rate.what.into(), format!("{:.1}", rate.a_second).into()];
    let rows = rates.into_iter().map(row).collect();
    table("Scheduler activity", &["what", "a second"], rows)
}

pub struct Callback {
    /// The callback's name in `struct sched_ext_ops`.
    pub name: String,
    pub calls: f64,
    /// The mean time of a call in ns.
    pub ns: f64,
}

pub fn costs(interval: &Interval) -> Vec<Callback> {
    let counted = interval.counted.iter();
    let callbacks = counted.filter_map(|counted| counted["callbacks"].as_object());
    let cost = |(name, callback): (&String, &Value)| {
        let calls = callback["calls"].as_u64().filter(|&calls| calls > 0)?;
        Some(Callback {
            name: name.clone(),
            calls: calls as f64 / interval.seconds,
            ns: callback["ns_per_call"].as_f64()?,
        })
    };
    callbacks.flatten().filter_map(cost).collect()
}

fn callbacks(interval: &Interval) -> Table {
    let row = |callback: Callback| {
        vec![
            callback.name.into(),
            format!("{:.0}", callback.calls).into(),
            format!("{:.0}", callback.ns).into(),
            format!("{:.2}", callback.calls * callback.ns / 1e7).into(),
        ]
    };
    let rows = costs(interval).into_iter().map(row).collect();
    let header = ["callback", "calls/s", "ns a call", "% of a CPU"];
    table("Callback costs", &header, rows)
}

/// The power in W of each RAPL domain that scx_equipoise reads.
pub fn power(interval: &Interval) -> Vec<(String, f64)> {
    let counted = interval.counted.iter();
    let domains = counted.filter_map(|counted| counted["energy_uj"].as_object());
    let watts = |uj: f64| uj / 1e6 / interval.seconds;
    domains
        .flatten()
        .filter_map(|(name, uj)| Some((name.clone(), watts(uj.as_f64()?))))
        .collect()
}

fn energy(interval: &Interval) -> Table {
    let row = |(name, watts): (String, f64)| vec![name.into(), format!("{watts:.2}").into()];
    let rows = power(interval).into_iter().map(row).collect();
    table("Energy", &["domain", "W"], rows)
}
