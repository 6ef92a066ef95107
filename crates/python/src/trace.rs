//! `equipoise.trace()`: the events of a run as columns.

use crate::arrow::{Bits, Column, Texts, Values};
use crate::error::{bad, failed};
use crate::machine::Machine;
use crate::measure::Combined;
use crate::policy::Policy;
use crate::running::{Stop, run as running};
use crate::table::{Columns as Builder, Table};
use crate::threads;
use crate::workload::Workload;
use lab::Runs;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use report::events::columns::{ColumnRecorder, Columns, Energy, EventKind, Events, Utilization};
use std::sync::Arc;

/// The columns of each event, by the kernel's names: (field, column of `events`).
const FIELDS: [(EventKind, &[(&str, &str)]); 8] = {
    const TASK: [(&str, &str); 3] = [("comm", "comm"), ("pid", "pid"), ("prio", "prio")];
    const WAKEUP: [(&str, &str); 4] = [TASK[0], TASK[1], TASK[2], ("target_cpu", "dest_cpu")];
    [
        (
            EventKind::Switch,
            &[
                ("prev_comm", "other_comm"),
                ("prev_pid", "other_pid"),
                ("prev_prio", "other_prio"),
                ("prev_state", "prev_state"),
                ("next_comm", "comm"),
                ("next_pid", "pid"),
                ("next_prio", "prio"),
            ],
        ),
        (EventKind::Wakeup, &WAKEUP),
        (EventKind::WakeupNew, &WAKEUP),
        (
            EventKind::Migrate,
            &[
                TASK[0],
                TASK[1],
                TASK[2],
                ("orig_cpu", "orig_cpu"),
                ("dest_cpu", "dest_cpu"),
            ],
        ),
        (
            EventKind::Fork,
            &[
                ("parent_comm", "other_comm"),
                ("parent_pid", "other_pid"),
                ("child_comm", "comm"),
                ("child_pid", "pid"),
            ],
        ),
        (EventKind::Exit, &TASK),
        (EventKind::Idle, &[("state", "state")]),
        (EventKind::Frequency, &[("state", "state")]),
    ]
};

/// Repeats run `run` of a case with `runs`, traces it, and returns the tables `events`, `utilization`, `energy`,
/// `threads` and `cpu_time`.
#[pyfunction]
#[pyo3(signature = (machine, workload, policy, run, runs, seed, exact, utilization, stop=None))]
#[expect(clippy::too_many_arguments, reason = "keywords, in Python")]
pub fn trace<'py>(
    py: Python<'py>,
    machine: &Machine,
    workload: &Workload,
    policy: &Policy,
    run: u32,
    runs: u32,
    seed: u64,
    exact: bool,
    utilization: bool,
    stop: Option<&Stop>,
) -> PyResult<Bound<'py, PyDict>> {
    if run >= runs {
        return Err(bad(
            format!("run {run} of {runs}"),
            format!("expected 0 to {}", runs - 1),
        ));
    }
    let combined = Combined::new(py, machine, workload, policy)?;
    let runs = Runs {
        count: runs,
        seed,
        jobs: 1,
        noise: !exact,
    };
    let case = combined.case();
    let columns = running(py, stop, None, |watch| {
        let mut recorder = ColumnRecorder::new(case.machine, utilization);
        lab::trace_run(&case, &runs, run, &mut recorder, watch.stop)?;
        Ok(tables(recorder.finish()))
    })?;
    let all = PyDict::new(py);
    for (name, table) in columns.map_err(failed)? {
        all.set_item(name, table)?;
    }
    Ok(all)
}

/// The rows of a trace's `events` for the event `name`, with the fields of the kernel's tracepoint.
#[pyfunction]
pub fn select_events(events: &Table, name: &str) -> PyResult<Table> {
    let Some((kind, fields)) = FIELDS.iter().find(|(kind, _)| kind.name() == name) else {
        let known = EventKind::ALL.map(EventKind::name);
        return Err(bad(
            format!("no event is called `{name}`"),
            machine::input::one_of(name, known),
        ));
    };
    let column = |name: &str| {
        let found = events.column(name);
        found.ok_or_else(|| bad(format!("no column `{name}`"), "expected a trace's events"))
    };
    let Some(Values::I8(kinds)) = column("event")?.values() else {
        return Err(bad("no events", "expected a trace's events"));
    };
    let kinds = kinds.iter().enumerate();
    let chosen = kinds.filter(|&(_, &other)| other == *kind as i8);
    let chosen: Vec<usize> = chosen.map(|(row, _)| row).collect();
    let mut table = Builder::default();
    let common = [("time_ns", "time_ns"), ("cpu", "cpu")];
    for (field, name) in common.iter().chain(*fields) {
        table = table.column(field, column(name)?.chosen(&chosen));
    }
    Ok(table.table())
}

fn tables(columns: Columns) -> Vec<(&'static str, Table)> {
    let threads = threads::threads(&columns);
    let Columns {
        names,
        events,
        utilization,
        energy,
        ..
    } = columns;
    let names: Arc<Texts> = Arc::new(names.iter().collect());
    vec![
        ("threads", threads.table(&names)),
        ("cpu_time", threads.cpu_time(&names)),
        ("events", of_events(events, &names)),
        ("utilization", of_utilization(utilization, &names)),
        ("energy", of_energy(energy, &names)),
    ]
}

fn of_events(events: Events, names: &Arc<Texts>) -> Table {
    let kinds = &events.kind;
    let kind: Vec<i8> = kinds.iter().map(|&kind| kind as i8).collect();
    let kind_names: Texts = EventKind::ALL.map(EventKind::name).iter().collect();
    let states: Texts = ["R", "S", "X"].iter().collect();
    let state = |&state: &u8| match state {
        b'R' => Some(0i8),
        b'S' => Some(1),
        b'X' => Some(2),
        _ => None,
    };
    let state = Column::optional(events.prev_state.iter().map(state));
    let valid = |has: fn(EventKind) -> bool| -> Bits { kinds.iter().copied().map(has).collect() };
    let number = |values: Vec<i32>, has| Column::where_(values, valid(has));
    let place = |values: Vec<i32>, has| number(values, has).of(names);
    let cpu = |values: Vec<u16>, has| Column::where_(values, valid(has));
    let is_switch: fn(EventKind) -> bool = |kind| kind == EventKind::Switch;
    Builder::default()
        .column("time_ns", Column::numbers(events.time_ns))
        .column("cpu", Column::numbers(events.cpu))
        .column("event", Column::numbers(kind).of(&Arc::new(kind_names)))
        .column("comm", place(events.comm, EventKind::has_task))
        .column("pid", number(events.pid, EventKind::has_task))
        .column("prio", number(events.prio, EventKind::has_prio))
        .column("other_comm", place(events.other_comm, EventKind::has_other))
        .column("other_pid", number(events.other_pid, EventKind::has_other))
        .column("other_prio", number(events.other_prio, is_switch))
        .column("prev_state", state.of(&Arc::new(states)))
        .column(
            "orig_cpu",
            cpu(events.orig_cpu, |kind| kind == EventKind::Migrate),
        )
        .column("dest_cpu", cpu(events.dest_cpu, EventKind::has_dest_cpu))
        .column("state", number(events.state, EventKind::has_state))
        .table()
}

fn of_utilization(utilization: Utilization, names: &Arc<Texts>) -> Table {
    Builder::default()
        .column("time_ns", Column::numbers(utilization.time_ns))
        .column("cpu", Column::numbers(utilization.cpu))
        .column("comm", Column::numbers(utilization.comm).of(names))
        .column("pid", Column::numbers(utilization.pid))
        .column("util", Column::numbers(utilization.util))
        .column("runnable", Column::numbers(utilization.runnable))
        .column("load", Column::numbers(utilization.load))
        .table()
}

fn of_energy(energy: Energy, names: &Arc<Texts>) -> Table {
    Builder::default()
        .column("time_ns", Column::numbers(energy.time_ns))
        .column("part", Column::numbers(energy.part).of(names))
        .optional::<u64>("power_mw", energy.power_mw)
        .optional::<u64>("energy_pj", energy.energy_pj)
        .table()
}
