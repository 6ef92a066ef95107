//! A run's events as columns, for programs that process tables: a vector for each field.

use super::linux::Linux;
use machine::Machine;
use simulator::{Event, Trace};
use std::collections::HashMap;
use std::io;
use trace::write::Format;
use trace::{Averages, Class, Record, Stage, Task, Tracepoint, Unit};

/// The kind of an event, by the kernel's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// `sched_switch`.
    Switch,
    /// `sched_wakeup`.
    Wakeup,
    /// `sched_wakeup_new`.
    WakeupNew,
    /// `sched_migrate_task`.
    Migrate,
    /// `sched_process_fork`.
    Fork,
    /// `sched_process_exit`.
    Exit,
    /// `cpu_idle`.
    Idle,
    /// `cpu_frequency`.
    Frequency,
}

impl EventKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [EventKind; 8] = [
        EventKind::Switch,
        EventKind::Wakeup,
        EventKind::WakeupNew,
        EventKind::Migrate,
        EventKind::Fork,
        EventKind::Exit,
        EventKind::Idle,
        EventKind::Frequency,
    ];

    /// The tracepoint's name.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Switch => "sched_switch",
            EventKind::Wakeup => "sched_wakeup",
            EventKind::WakeupNew => "sched_wakeup_new",
            EventKind::Migrate => "sched_migrate_task",
            EventKind::Fork => "sched_process_fork",
            EventKind::Exit => "sched_process_exit",
            EventKind::Idle => "cpu_idle",
            EventKind::Frequency => "cpu_frequency",
        }
    }

    /// Is an event of this kind about a task ([`Events::pid`])?
    pub fn has_task(self) -> bool {
        !matches!(self, EventKind::Idle | EventKind::Frequency)
    }

    /// Does an event of this kind have [`Events::prio`]?
    pub fn has_prio(self) -> bool {
        self.has_task() && self != EventKind::Fork
    }

    /// Does an event of this kind have [`Events::other_pid`]?
    pub fn has_other(self) -> bool {
        matches!(self, EventKind::Switch | EventKind::Fork)
    }

    /// Does an event of this kind have [`Events::dest_cpu`]?
    pub fn has_dest_cpu(self) -> bool {
        use EventKind::{Migrate, Wakeup, WakeupNew};
        matches!(self, Wakeup | WakeupNew | Migrate)
    }

    /// Does an event of this kind have [`Events::state`]?
    pub fn has_state(self) -> bool {
        matches!(self, EventKind::Idle | EventKind::Frequency)
    }
}

/// Events, in time order. Fields that a kind does not have are 0, except names, which then have no meaning.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// The time since the run began, in ns.
    pub time_ns: Vec<i64>,
    /// The CPU.
    pub cpu: Vec<u16>,
    /// The kind.
    pub kind: Vec<EventKind>,
    /// The pid of the event's task (`next_pid` of a switch, the child of a fork); 0 is the idle task.
    pub pid: Vec<i32>,
    /// The task's name, as an index into [`Columns::names`].
    pub comm: Vec<i32>,
    /// The task's priority (`next_prio` of a switch).
    pub prio: Vec<i32>,
    /// `prev_pid` of a switch, the parent of a fork.
    pub other_pid: Vec<i32>,
    /// The name of the task `other_pid`, as an index into [`Columns::names`].
    pub other_comm: Vec<i32>,
    /// `prev_prio` of a switch.
    pub other_prio: Vec<i32>,
    /// `prev_state` of a switch: `R`, `S` or `X`.
    pub prev_state: Vec<u8>,
    /// `orig_cpu` of a migration.
    pub orig_cpu: Vec<u16>,
    /// `dest_cpu` of a migration, `target_cpu` of a wakeup.
    pub dest_cpu: Vec<u16>,
    /// `state` of `cpu_frequency` (kHz), or of `cpu_idle` (the idle state, or -1 when the CPU leaves it).
    pub state: Vec<i32>,
}

/// Averages of load tracking (PELT), in time order.
#[derive(Clone, Debug, Default)]
pub struct Utilization {
    /// The time since the run began, in ns.
    pub time_ns: Vec<i64>,
    /// The CPU.
    pub cpu: Vec<u16>,
    /// The task, or -1 for all fair tasks of the CPU, -2 for all its real-time tasks, and -3 for all its deadline
    /// tasks.
    pub pid: Vec<i32>,
    /// The name of the task, or of the class for averages of a CPU; an index into [`Columns::names`].
    pub comm: Vec<i32>,
    /// The utilization, where 1024 is the largest CPU's capacity.
    pub util: Vec<f32>,
    /// The runnable average: 1024 for each runnable task.
    pub runnable: Vec<f32>,
    /// The weighted load average: 1024 for each runnable task of nice 0.
    pub load: Vec<f32>,
}

/// The power of the machine's parts, in time order.
#[derive(Clone, Debug, Default)]
pub struct Energy {
    /// The time since the run began, in ns.
    pub time_ns: Vec<i64>,
    /// The part, an index into [`Columns::names`].
    pub part: Vec<i32>,
    /// The power from `time_ns` on, in mW; `None` if this is energy.
    pub power_mw: Vec<Option<u64>>,
    /// The energy of an instantaneous event, in pJ; `None` if this is power.
    pub energy_pj: Vec<Option<u64>>,
}

/// All data of a run.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// The names of tasks, classes and parts, and an empty name for events that are not about a task.
    pub names: Vec<String>,
    /// Switches, wakeups, migrations, ...
    pub events: Events,
    /// Load tracking; empty if that was not requested.
    pub utilization: Utilization,
    /// Power and energy; empty if the machine's power is not known.
    pub energy: Energy,
    places: HashMap<String, i32>,
    with_utilization: bool,
}

/// Records a run's [`Columns`].
pub struct ColumnRecorder(Linux<Columns>);

impl ColumnRecorder {
    /// Records a run on `machine`. Load tracking takes as much memory as all other data together.
    pub fn new(machine: &Machine, with_utilization: bool) -> ColumnRecorder {
        let columns = Columns {
            with_utilization,
            ..Columns::default()
        };
        ColumnRecorder(Linux::new(machine, columns))
    }

    /// The recorded data.
    pub fn finish(self) -> Columns {
        self.0.into_format()
    }
}

impl Trace for ColumnRecorder {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        self.0.event(now, cpu, event);
    }
}

/// The task of an event that is not about a task.
const NO_TASK: Task<'_> = Task {
    comm: "",
    pid: 0,
    prio: 0,
};

/// The data of an event apart from its task.
#[derive(Default)]
struct More<'a> {
    other: Option<Task<'a>>,
    other_prio: i32,
    prev_state: u8,
    orig_cpu: usize,
    dest_cpu: usize,
    state: i32,
}

impl Columns {
    fn name(&mut self, name: &str) -> i32 {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        let place = self.names.len() as i32;
        self.names.push(name.to_owned());
        self.places.insert(name.to_owned(), place);
        place
    }

    fn event(&mut self, at: (u64, usize), kind: EventKind, task: Task<'_>, more: More) {
        let comm = self.name(task.comm);
        let (other_comm, other_pid) = match more.other {
            Some(other) => (self.name(other.comm), other.pid),
            None => (0, 0),
        };
        let events = &mut self.events;
        events.time_ns.push(at.0 as i64);
        events.cpu.push(at.1 as u16);
        events.kind.push(kind);
        events.pid.push(task.pid);
        events.comm.push(comm);
        events.prio.push(task.prio);
        events.other_pid.push(other_pid);
        events.other_comm.push(other_comm);
        events.other_prio.push(more.other_prio);
        events.prev_state.push(more.prev_state);
        events.orig_cpu.push(more.orig_cpu as u16);
        events.dest_cpu.push(more.dest_cpu as u16);
        events.state.push(more.state);
    }

    fn average(&mut self, at: (u64, usize), task: (&str, i32), average: Averages) {
        if !self.with_utilization {
            return;
        }
        let comm = self.name(task.0);
        let utilization = &mut self.utilization;
        utilization.time_ns.push(at.0 as i64);
        utilization.cpu.push(at.1 as u16);
        utilization.pid.push(task.1);
        utilization.comm.push(comm);
        utilization.util.push(average.util as f32);
        utilization.runnable.push(average.runnable as f32);
        utilization.load.push(average.load as f32);
    }
}

impl Format for Columns {
    fn record(&mut self, record: Record<'_>) {
        let at = (record.now, record.cpu);
        match record.event {
            Tracepoint::Switch { prev, state, next } => {
                let more = More {
                    other: Some(prev),
                    other_prio: prev.prio,
                    prev_state: state.letter() as u8,
                    ..More::default()
                };
                self.event(at, EventKind::Switch, next, more);
            }
            Tracepoint::Wakeup {
                stage,
                task,
                target_cpu,
            } => {
                let kind = match stage {
                    Stage::New => EventKind::WakeupNew,
                    Stage::Waking | Stage::Woken => EventKind::Wakeup,
                };
                let more = More {
                    dest_cpu: target_cpu.unwrap_or(record.cpu),
                    ..More::default()
                };
                self.event(at, kind, task, more);
            }
            Tracepoint::Migrate {
                task,
                orig_cpu,
                dest_cpu,
            } => {
                let more = More {
                    orig_cpu,
                    dest_cpu,
                    ..More::default()
                };
                self.event(at, EventKind::Migrate, task, more);
            }
            Tracepoint::Fork { parent, child } => {
                let more = More {
                    other: Some(parent),
                    ..More::default()
                };
                self.event(at, EventKind::Fork, Task { prio: 0, ..child }, more);
            }
            Tracepoint::Exit(task) => self.event(at, EventKind::Exit, task, More::default()),
            Tracepoint::Idle { state, .. } => {
                let more = More {
                    state: state.map_or(-1, |state| state as i32),
                    ..More::default()
                };
                self.event(at, EventKind::Idle, NO_TASK, more);
            }
            Tracepoint::Frequency { khz, .. } => {
                let more = More {
                    state: khz as i32,
                    ..More::default()
                };
                self.event(at, EventKind::Frequency, NO_TASK, more);
            }
            Tracepoint::PeltTask { cpu, task, average } => {
                self.average((record.now, cpu), (task.comm, task.pid), average);
            }
            Tracepoint::PeltCpu { class, average, .. } => {
                let class = match class {
                    Class::Fair => ("fair", -1),
                    Class::Rt => ("rt", -2),
                    Class::Dl => ("dl", -3),
                };
                self.average(at, class, average);
            }
            Tracepoint::Counter { part, unit, value } => {
                let part = self.name(part);
                let of = |wanted| (unit == wanted).then_some(value);
                self.energy.time_ns.push(record.now as i64);
                self.energy.part.push(part);
                self.energy.power_mw.push(of(Unit::Milliwatt));
                self.energy.energy_pj.push(of(Unit::Picojoule));
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::story;
    use super::*;

    #[test]
    fn a_story_in_columns() {
        let machine = Machine::find("hikey-6220").unwrap();
        let mut recorder = ColumnRecorder::new(&machine, true);
        story(&mut recorder);
        let columns = recorder.finish();
        let events = &columns.events;
        let of = |kind: EventKind| {
            let all = events.kind.iter().enumerate();
            all.filter(|(_, other)| **other == kind)
                .map(|(row, _)| row)
                .collect::<Vec<_>>()
        };
        let name = |place: i32| columns.names[place as usize].as_str();
        let fork = of(EventKind::Fork)[0];
        assert_eq!((events.pid[fork], events.other_pid[fork]), (11, 10));
        let migration = of(EventKind::Migrate)[0];
        assert_eq!(name(events.comm[migration]), "ls -l");
        assert_eq!(
            (events.orig_cpu[migration], events.dest_cpu[migration]),
            (0, 1)
        );
        let last = *of(EventKind::Switch).last().unwrap();
        assert_eq!((events.other_pid[last], events.pid[last]), (10, 0));
        assert_eq!(
            (events.time_ns[last], events.prev_state[last]),
            (4_000, b'X')
        );
        let slower = *of(EventKind::Frequency).last().unwrap();
        assert_eq!((events.cpu[slower], events.state[slower]), (0, 432_000));
        assert!(events.time_ns.is_sorted());
        assert_eq!(columns.energy.power_mw, [Some(20), Some(120), None]);
        assert_eq!(columns.energy.energy_pj[2], Some(7));
        assert!(columns.utilization.pid.contains(&11) && columns.utilization.pid.contains(&-1));
    }
}
