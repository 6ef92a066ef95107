//! The reasons why a thread ran slowly, as text and tables.

use super::cause::speed;
use super::response::{Ran, Response};
use super::steps::row;
use super::words::{seconds, shown};
use crate::Table;
use machine::Machine;

/// The largest number of idle CPUs listed.
const MOST_IDLED: usize = 4;

/// A table of a response: the CPUs on which the thread ran, with their speeds, and the idle CPUs that are no slower
/// than the slowest of them. The title has the time that the work takes on the fastest CPU.
pub fn table(response: &Response, machine: &Machine) -> Table {
    let name = &response.name;
    let from = seconds(response.from);
    let ran = response.ran.iter().filter(|(_, ran)| ran.ns > 0);
    let mut ran: Vec<(usize, &Ran)> = ran.map(|(&cpu, ran)| (cpu, ran)).collect();
    ran.sort_by_key(|(_, ran)| ran.from);
    let mut rows: Vec<_> = ran
        .into_iter()
        .map(|(cpu, ran)| {
            let what = format!("{name} runs, for {} in all", shown(ran.ns));
            row(seconds(ran.from), cpu, what, how_fast(machine, cpu, ran))
        })
        .collect();
    for (cpu, ns) in idled(response, machine) {
        let what = format!("CPU {cpu} idles, for {} of it", shown(ns));
        let mut why = format!("speed {} of 1024", speed(machine, cpu));
        if let Some(limit) = response.limit(cpu) {
            why += &format!(
                "; limited to {:.0} % of its highest frequency",
                100.0 * limit
            );
        }
        rows.push(row("meanwhile".to_owned(), cpu, what, why));
    }
    Table {
        title: format!(
            "{name} took {} from {}: it waited {} and ran {}; on the fastest CPU the same work \
             takes {}",
            shown(response.ns()),
            match response.continues {
                true => format!("{from} until its work was done"),
                false => format!("waking up at {from} until it slept"),
            },
            shown(response.ns() - response.ran_ns()),
            shown(response.ran_ns()),
            shown(response.fastest_ns())
        ),
        header: ["at", "CPU", "what", "why"].map(str::to_owned).to_vec(),
        text_columns: 4,
        rows,
        ..Table::default()
    }
}

fn how_fast(machine: &Machine, cpu: usize, ran: &Ran) -> String {
    let mut said = format!("speed {} of 1024", speed(machine, cpu));
    let frequency = ran.frequency();
    if frequency < 0.995 {
        said += &format!("; at {:.0} % of its highest frequency", 100.0 * frequency);
    }
    if ran.shared_ns > 0 {
        said += &format!("; {} of it shared its core", shown(ran.shared_ns));
    }
    said
}

/// At most [`MOST_IDLED`] other CPUs that idled for at least 1 % of the time and are no slower than the slowest on which
/// the thread ran, fastest first.
fn idled(response: &Response, machine: &Machine) -> Vec<(usize, u64)> {
    let ran = response.ran.iter().filter(|(_, ran)| ran.ns > 0);
    let speed = |cpu| response.speed(machine, cpu);
    let slowest = ran.map(|(&cpu, _)| speed(cpu)).min().unwrap_or(0);
    let idle = response.idle_ns.iter().copied().enumerate();
    let mut idled: Vec<(usize, u64)> = idle
        .filter(|&(cpu, ns)| 100 * ns >= response.ns() && speed(cpu) >= slowest)
        .filter(|(cpu, _)| response.ran.get(cpu).is_none_or(|ran| ran.ns == 0))
        .collect();
    idled.sort_by_key(|&(cpu, ns)| (u32::MAX - speed(cpu), u64::MAX - ns, cpu));
    idled.truncate(MOST_IDLED);
    idled
}
