//! An interval as tables: CPUs by type, the scheduler's decisions, its callbacks' costs, energy.

use super::sample::{Computer, Cpu, Interval};
use policy::Counters;
use report::{Cell, Page, Table, Tone};
use serde_json::Value;
use std::collections::BTreeMap;

/// The page. Tables without data are left out.
pub fn page(computer: &Computer, interval: &Interval) -> Page {
    let mut tables = vec![types(computer, interval), cpus(computer, interval)];
    if let Some(counted) = &interval.counted {
        tables.extend([
            decisions(counted, interval.seconds),
            callbacks(counted, interval.seconds),
            energy(counted, interval.seconds),
        ]);
    }
    tables.retain(|table| !table.rows.is_empty());
    Page {
        title: format!("{}, {} CPUs", interval.scheduler, interval.cpus.len()),
        tables,
        ..Page::default()
    }
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

/// The columns that tables of CPUs and of types share.
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

/// Types of cores, the largest first. A computer with one type does not need the table.
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

/// The scheduler's counts, except times, as far as they are not 0.
fn decisions(counted: &Value, seconds: f64) -> Table {
    let row = |counter: &policy::Counter| {
        let times = counted[counter.name].as_u64().filter(|&times| times > 0)?;
        let rate = format!("{:.1}", times as f64 / seconds);
        let is_sum = counter.name == "frequency_requested" || counter.what.ends_with(", ns");
        (!is_sum).then(|| vec![counter.what.into(), rate.into()])
    };
    let rows = Counters::ALL.iter().filter_map(row).collect();
    table("Scheduler activity", &["what", "a second"], rows)
}

fn callbacks(counted: &Value, seconds: f64) -> Table {
    let callbacks = counted["callbacks"].as_object().into_iter().flatten();
    let row = |(name, callback): (&String, &Value)| {
        let calls = callback["calls"].as_u64().filter(|&calls| calls > 0)? as f64 / seconds;
        let ns = callback["ns_per_call"].as_f64()?;
        Some(vec![
            Cell::from(name.clone()),
            format!("{calls:.0}").into(),
            format!("{ns:.0}").into(),
            format!("{:.2}", calls * ns / 1e7).into(),
        ])
    };
    let rows = callbacks.filter_map(row).collect();
    let header = ["callback", "calls/s", "ns a call", "% of a CPU"];
    table("Callback costs", &header, rows)
}

fn energy(counted: &Value, seconds: f64) -> Table {
    let domains = counted["energy_uj"].as_object().into_iter().flatten();
    let row = |(name, uj): (&String, &Value)| {
        let watts = uj.as_f64()? / 1e6 / seconds;
        Some(vec![Cell::from(name.clone()), format!("{watts:.2}").into()])
    };
    table(
        "Energy",
        &["domain", "W"],
        domains.filter_map(row).collect(),
    )
}
