//! `equipoise.trace()`: the events of a run as columns.

use crate::error::{bad, failed};
use crate::machine::Machine;
use crate::measure::Combined;
use crate::policy::Policy;
use crate::running::{Stop, run as running};
use crate::table::{Columns as Builder, Table};
use crate::threads;
use crate::workload::Workload;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int8Type, Int32Type, Int64Type, UInt16Type, UInt64Type};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, DictionaryArray, Int8Array, PrimitiveArray,
    StringArray,
};
use arrow_select::filter::filter;
use lab::Runs;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use report::trace::columns::{ColumnRecorder, Columns, Energy, EventKind, Events, Utilization};
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

/// Repeats run `run` of a case that has `runs` and traces it: tables `events`, `utilization`,
/// `energy`, `threads`, `cpu_time`.
#[pyfunction]
#[pyo3(signature = (machine, workload, policy, run, runs, seed, utilization, stop=None))]
#[expect(clippy::too_many_arguments, reason = "keywords, in Python")]
pub fn trace<'py>(
    py: Python<'py>,
    machine: &Machine,
    workload: &Workload,
    policy: &Policy,
    run: u32,
    runs: u32,
    seed: u64,
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

/// The rows of a trace's `events` with the event `name`, with the fields of the kernel's
/// tracepoint.
#[pyfunction]
pub fn select_events(events: &Table, name: &str) -> PyResult<Table> {
    let Some((kind, fields)) = FIELDS.iter().find(|(kind, _)| kind.name() == name) else {
        let known = EventKind::ALL.map(EventKind::name);
        return Err(bad(
            format!("no event is called `{name}`"),
            machine::input::one_of(name, known),
        ));
    };
    let batch = events.batch();
    let column = |name: &str| {
        let found = batch.column_by_name(name);
        found.ok_or_else(|| bad(format!("no column `{name}`"), "expected a trace's events"))
    };
    let kinds = column("event")?.as_any_dictionary_opt();
    let kinds = kinds.and_then(|kinds| kinds.keys().as_primitive_opt::<Int8Type>());
    let kinds = kinds.ok_or_else(|| bad("no events", "expected a trace's events"))?;
    let chosen: BooleanArray = kinds
        .values()
        .iter()
        .map(|&other| Some(other == *kind as i8))
        .collect();
    let mut table = Builder::default();
    let common = [("time_ns", "time_ns"), ("cpu", "cpu")];
    for (field, name) in common.iter().chain(*fields) {
        let array = filter(column(name)?.as_ref(), &chosen);
        let array = array.map_err(|error| bad(error.to_string(), "expected a trace's events"))?;
        table = table.array(field, array);
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
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(&names));
    vec![
        ("threads", threads.table(&names)),
        ("cpu_time", threads.cpu_time(&names)),
        ("events", of_events(events, &names)),
        ("utilization", of_utilization(utilization, &names)),
        ("energy", of_energy(energy, &names)),
    ]
}

/// A column of texts from `names`.
pub fn named(places: impl Into<PrimitiveArray<Int32Type>>, names: &ArrayRef) -> ArrayRef {
    let places = places.into();
    Arc::new(DictionaryArray::new(places, names.clone()))
}

fn of_events(events: Events, names: &ArrayRef) -> Table {
    let kinds = &events.kind;
    let kind_names = StringArray::from_iter_values(EventKind::ALL.map(EventKind::name));
    let kind = Int8Array::from_iter_values(kinds.iter().map(|&kind| kind as i8));
    let states = StringArray::from_iter_values(["R", "S", "X"]);
    let state = |&state: &u8| match state {
        b'R' => Some(0),
        b'S' => Some(1),
        b'X' => Some(2),
        _ => None,
    };
    let state: Int8Array = events.prev_state.iter().map(state).collect();
    let place = |values: Vec<i32>, has: fn(EventKind) -> bool| {
        let array: PrimitiveArray<Int32Type> = where_(values, kinds, has);
        named(array, names)
    };
    let number = |values: Vec<i32>, has: fn(EventKind) -> bool| -> ArrayRef {
        Arc::new(where_::<Int32Type>(values, kinds, has))
    };
    let cpu = |values: Vec<u16>, has: fn(EventKind) -> bool| -> ArrayRef {
        Arc::new(where_::<UInt16Type>(values, kinds, has))
    };
    let is_switch = |kind| kind == EventKind::Switch;
    let table = Builder::default()
        .array(
            "time_ns",
            Arc::new(PrimitiveArray::<Int64Type>::from(events.time_ns)),
        )
        .array(
            "cpu",
            Arc::new(PrimitiveArray::<UInt16Type>::from(events.cpu)),
        )
        .array(
            "event",
            Arc::new(DictionaryArray::new(kind, Arc::new(kind_names))),
        );
    table
        .array("comm", place(events.comm, EventKind::has_task))
        .array("pid", number(events.pid, EventKind::has_task))
        .array("prio", number(events.prio, EventKind::has_prio))
        .array("other_comm", place(events.other_comm, EventKind::has_other))
        .array("other_pid", number(events.other_pid, EventKind::has_other))
        .array("other_prio", number(events.other_prio, is_switch))
        .array(
            "prev_state",
            Arc::new(DictionaryArray::new(state, Arc::new(states))),
        )
        .array(
            "orig_cpu",
            cpu(events.orig_cpu, |kind| kind == EventKind::Migrate),
        )
        .array("dest_cpu", cpu(events.dest_cpu, EventKind::has_dest_cpu))
        .array("state", number(events.state, EventKind::has_state))
        .table()
}

/// `values`, of which only those count whose kind `has` the field.
fn where_<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    kinds: &[EventKind],
    has: fn(EventKind) -> bool,
) -> PrimitiveArray<T> {
    let valid: Vec<bool> = kinds.iter().map(|&kind| has(kind)).collect();
    PrimitiveArray::new(values.into(), Some(valid.into()))
}

fn of_utilization(utilization: Utilization, names: &ArrayRef) -> Table {
    Builder::default()
        .array(
            "time_ns",
            Arc::new(PrimitiveArray::<Int64Type>::from(utilization.time_ns)),
        )
        .array(
            "cpu",
            Arc::new(PrimitiveArray::<UInt16Type>::from(utilization.cpu)),
        )
        .array("comm", named(utilization.comm, names))
        .array(
            "pid",
            Arc::new(PrimitiveArray::<Int32Type>::from(utilization.pid)),
        )
        .array(
            "util",
            Arc::new(PrimitiveArray::<Float32Type>::from(utilization.util)),
        )
        .array(
            "runnable",
            Arc::new(PrimitiveArray::<Float32Type>::from(utilization.runnable)),
        )
        .array(
            "load",
            Arc::new(PrimitiveArray::<Float32Type>::from(utilization.load)),
        )
        .table()
}

fn of_energy(energy: Energy, names: &ArrayRef) -> Table {
    Builder::default()
        .array(
            "time_ns",
            Arc::new(PrimitiveArray::<Int64Type>::from(energy.time_ns)),
        )
        .array("part", named(energy.part, names))
        .optional::<UInt64Type>("power_mw", energy.power_mw)
        .optional::<UInt64Type>("energy_pj", energy.energy_pj)
        .table()
}
