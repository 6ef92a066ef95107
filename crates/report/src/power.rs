//! The power of a machine's parts as tables: cores at each OPP, idle states, turbo frequencies.

use crate::number::number;
use crate::{Cell, Table};
use machine::{CoreType, Machine, PartIdle, PartPower, Turbo};

/// The tables of a machine's power. A machine without turbo whose power is not known has no such tables.
pub(crate) fn tables(machine: &Machine) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    if machine.power.is_some() {
        let cores = machine.core_types.iter();
        tables.extend(cores.filter_map(|core| opps(machine, core)));
        tables.push(parts(machine));
    }
    tables.extend(machine.turbo.as_ref().map(|of| turbo(machine, of)));
    tables
}

fn watts(mw: u32) -> Cell {
    number(f64::from(mw) / 1e3).into()
}

/// The power of a core of this type at each OPP, by the number of threads that run a busy loop.
fn opps(machine: &Machine, core: &CoreType) -> Option<Table> {
    let power = core.power.as_ref()?;
    let of_type = |&cpu: &usize| machine.core_types[machine.cpus[cpu].core_type].name == core.name;
    let cpu = machine.all_cpus().iter().find(of_type)?;
    let threads = machine.siblings(cpu).count();
    let row = |opp: usize| -> Vec<Cell> {
        let at = core.opps.get(opp);
        let mhz = at.map_or("-".to_owned(), |at| number(f64::from(at.khz) / 1e3));
        let volt = at.and_then(|at| at.microvolt);
        let idle = power.static_mw(core, opp);
        let busy =
            |busy: usize| watts(idle + busy as u32 * power.thread_mw(core, opp, busy, threads));
        [
            mhz.into(),
            volt.map_or("-".to_owned(), |volt| number(f64::from(volt) / 1e6))
                .into(),
            watts(idle),
        ]
        .into_iter()
        .chain((1..=threads).map(busy))
        .collect()
    };
    let threads = (1..=threads).map(|busy| match busy {
        1 => "1 thread\nbusy, W".to_owned(),
        busy => format!("{busy} threads\nbusy, W"),
    });
    Some(Table {
        title: format!("Power of a {} core", core.name),
        header: ["\nMHz", "\nV", "none\nbusy, W"]
            .map(str::to_owned)
            .into_iter()
            .chain(threads)
            .collect(),
        text_columns: 0,
        rows: (0..core.nr_opps()).map(row).collect(),
        ..Table::default()
    })
}

/// The power of cores in their idle states, and of the other parts while any of their CPUs is busy and in idle states.
fn parts(machine: &Machine) -> Table {
    let state = |name: String, state: &str, after_ns: Option<u64>, mw: u32, entry_pj: u64| {
        let after = after_ns.map_or("-".to_owned(), |ns| number(ns as f64 / 1e3));
        vec![
            name.into(),
            state.into(),
            after.into(),
            watts(mw),
            number(entry_pj as f64 / 1e6).into(),
        ]
    };
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for core in machine
        .core_types
        .iter()
        .filter(|core| core.power.is_some())
    {
        for (index, idle) in core.idle_states.iter().enumerate() {
            let name = match index {
                0 => format!("{} core", core.name),
                _ => String::new(),
            };
            let (after, mw) = (Some(idle.min_residency_ns), idle.power_mw);
            rows.push(state(name, &idle.name, after, mw, idle.entry_pj));
        }
    }
    let Some(power) = &machine.power else {
        return Table::default();
    };
    let mut part = |name: &str, power: &PartPower| {
        if *power == PartPower::default() {
            return;
        }
        rows.push(state(name.to_owned(), "active", None, power.active_mw, 0));
        for (index, idle) in power.idle.iter().enumerate() {
            let PartIdle {
                residency_ns,
                power_mw,
                entry_pj,
            } = *idle;
            let label = format!("idle {index}");
            rows.push(state(
                String::new(),
                &label,
                Some(residency_ns),
                power_mw,
                entry_pj,
            ));
        }
    };
    part("cluster", &power.cluster);
    part("package", &power.package);
    rows.push(state("rest".to_owned(), "", None, power.rest_mw, 0));
    Table {
        title: "Power of parts, without the parts within".to_owned(),
        header: ["", "state", "after, us", "W", "entry, uJ"]
            .map(str::to_owned)
            .to_vec(),
        text_columns: 2,
        rows,
        ..Table::default()
    }
}

/// A package's frequency limits by the number of active cores.
fn turbo(machine: &Machine, turbo: &Turbo) -> Table {
    let limit = turbo.limit.map_or(String::new(), |limit| {
        format!(
            ", within {} W for each package, over {} s",
            number(f64::from(limit.mw) / 1e3),
            number(limit.window_ns as f64 / 1e9)
        )
    });
    let last = turbo.khz.iter().map(Vec::len).max().unwrap_or(1);
    let kinds = match turbo.by_core {
        true => turbo.khz.len(),
        false => 1,
    };
    let row = |active: usize| -> Vec<Cell> {
        let label = match active == last {
            true => format!("{active} and more"),
            false => active.to_string(),
        };
        let mhz = |kind| Cell::from(number(f64::from(turbo.khz_for(kind, active)) / 1e3));
        std::iter::once(label.into())
            .chain((0..kinds).map(mhz))
            .collect()
    };
    let columns = machine.core_types.iter().map(|core| match turbo.by_core {
        true => format!("{}, MHz", core.name),
        false => "MHz".to_owned(),
    });
    let active = match turbo.by_core {
        true => "active cores of the type",
        false => "active cores",
    };
    Table {
        title: format!("Turbo{limit}"),
        header: std::iter::once(active.to_owned())
            .chain(columns.take(kinds))
            .collect(),
        text_columns: 1,
        rows: (1..=last).map(row).collect(),
        ..Table::default()
    }
}
