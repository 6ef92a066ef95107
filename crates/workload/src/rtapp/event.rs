//! The grammar's events: the action of a key such as `run`, `timer2` or `lock_a`.

use super::config::{Action, Event, Semaphore, Timer, TimerMode};
use super::field::{Field, NATURAL, no_repeats};
use super::groups::Groups;
use crate::UtilClamps;
use machine::CpuMask;
use machine::input::BadInput;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// The number of bytes that `mem` writes per ns. The number is an assumption, in the range of a mobile core's memory
/// bandwidth; the reference core's real rate is not part of a machine's description.
const MEM_BYTES_PER_NS: u64 = 4;
/// The work of one `write(2)` of `iorun` to the default device `/dev/null`, in ns at the reference speed. The time is
/// an assumption, in the range of a system call; devices that make a task wait are not modelled.
const WRITE_WORK: u64 = 500;

/// The work of an access to a byte by `memrun`, which is an iteration of its loop, in ns; the value is an assumption.
const BYTE_WORK: u64 = 1;
/// For each of the first, the second and the last level of cache, the size in bytes of the largest buffer that fits
/// into it, and the time in ns in which `memrun` follows a pointer in such a buffer: the cache's latency. The values
/// are assumptions, in the range of a mobile processor; caches are not simulated.
const CHASE_WORK: [(u64, u64); 3] = [(32 << 10, 2), (512 << 10, 5), (8 << 20, 15)];
/// The time in which `memrun` follows a pointer in a larger buffer, in ns: the latency of memory.
const MEMORY_WORK: u64 = 80;

#[derive(Clone, Copy)]
enum Kind {
    Run,
    Runtime,
    Sleep,
    Mem,
    Iorun,
    Lock,
    Unlock,
    Wait,
    Sync,
    Signal,
    Broad,
    Barrier,
    Timer,
    Suspend,
    Resume,
    Yield,
    Fork,
    // Events of releases after 1.0, as `Fork` is.
    MemRun,
    Post,
    Take,
}

/// rt-app compares only the first letters of a key, so `run1` is a `run`. If a name is a prefix of
/// another, the longer name comes first.
const KINDS: [(&str, Kind); 20] = [
    ("runtime", Kind::Runtime),
    ("run", Kind::Run),
    ("sleep", Kind::Sleep),
    ("memrun", Kind::MemRun),
    ("mem", Kind::Mem),
    ("iorun", Kind::Iorun),
    ("lock", Kind::Lock),
    ("unlock", Kind::Unlock),
    ("wait", Kind::Wait),
    ("sync", Kind::Sync),
    ("signal", Kind::Signal),
    ("broad", Kind::Broad),
    ("barrier", Kind::Barrier),
    ("timer", Kind::Timer),
    ("suspend", Kind::Suspend),
    ("resume", Kind::Resume),
    ("yield", Kind::Yield),
    ("fork", Kind::Fork),
    ("sem_post", Kind::Post),
    ("sem_wait", Kind::Take),
];

const MODES: [(&str, TimerMode); 2] = [
    ("relative", TimerMode::Relative),
    ("absolute", TimerMode::Absolute),
];

fn kind(key: &str) -> Option<Kind> {
    KINDS
        .iter()
        .find(|(name, _)| key.starts_with(name))
        .map(|&(_, kind)| kind)
}

pub fn is_event(key: &str) -> bool {
    kind(key).is_some()
}

pub fn names() -> [&'static str; KINDS.len()] {
    KINDS.map(|(name, _)| name)
}

/// Names of one kind of resource, numbered in order of appearance. rt-app creates a resource when
/// it is first named.
#[derive(Default)]
pub struct Names {
    numbers: BTreeMap<Rc<str>, u32>,
    names: Vec<Rc<str>>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        let name: Rc<str> = name.into();
        self.numbers.insert(name.clone(), number);
        self.names.push(name);
        number
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn name(&self, wanted: u32) -> &str {
        &self.names[wanted as usize]
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(Rc::as_ref)
    }
}

/// Timers by name, with their modes.
#[derive(Default)]
pub struct Timers {
    names: Names,
    /// The modes by the timers' numbers.
    pub modes: Vec<TimerMode>,
}

impl Timers {
    /// rt-app stores the mode with the timer and never reverts `absolute`.
    fn number(&mut self, name: &str, mode: TimerMode) -> usize {
        let number = self.names.number(name) as usize;
        self.modes.resize(self.names.len(), TimerMode::Relative);
        if mode == TimerMode::Absolute {
            self.modes[number] = mode;
        }
        number
    }
}

#[derive(Default)]
pub struct Resources {
    /// Mutexes. A `suspend` or `resume` uses the mutex with the name that it gives.
    pub mutexes: Names,
    /// Condition variables. A `suspend` or `resume` uses the condition variable with the name that it gives.
    pub condvars: Names,
    pub barriers: Names,
    /// Timers that threads share.
    pub timers: Timers,
    pub tasks: BTreeMap<String, usize>,
    pub semaphores: Names,
    pub notes: Vec<String>,
    pub bindings: Vec<(CpuMask, Range<usize>)>,
    pub groups: Groups,
    pub clamped: Vec<String>,
    /// `global.mem_buffer_size`, in bytes.
    pub buffer: u64,
}

impl Resources {
    /// Takes a `util_min` or `util_max` of `task`: 0 to 1024, or -1, which leaves the clamp as it is. `clamps` are
    /// the clamps of the same object so far.
    pub fn clamped(
        &mut self,
        field: Field<'_>,
        task: &str,
        clamps: &mut UtilClamps,
    ) -> Result<(), Box<BadInput>> {
        let value = field.integer(
            -1..=1024,
            "a utilization of at most 1024, or -1 for no change",
        )?;
        let Ok(value) = u16::try_from(value) else {
            return Ok(());
        };
        if !self.clamped.iter().any(|name| name == task) {
            self.clamped.push(task.to_owned());
        }
        match field.key() {
            "util_min" => clamps.min = Some(value),
            _ => clamps.max = Some(value),
        }
        if let (Some(min), Some(max)) = (clamps.min, clamps.max)
            && min > max
        {
            return Err(field.bad("a util_min of at most util_max"));
        }
        Ok(())
    }
}

/// Parses the event at `field` of the task `task` and appends its actions.
pub fn read(
    field: Field<'_>,
    task: &str,
    own_timers: &mut Timers,
    resources: &mut Resources,
    events: &mut Vec<Event>,
) -> Result<(), Box<BadInput>> {
    let at = field.entry.key_at.clone();
    let mut push = |action| {
        let at: Range<usize> = at.clone();
        events.push(Event { action, at });
    };
    match kind(field.key()).expect("is_event was asked first") {
        Kind::Run => push(Action::Run(field.microseconds("work")?)),
        Kind::Runtime => push(Action::Runtime(field.microseconds("a time to run")?)),
        Kind::Sleep => push(Action::Sleep(field.microseconds("a time to sleep")?)),
        Kind::Mem => {
            let bytes = field.integer(NATURAL, "the number of bytes to write")? as u64;
            push(Action::Copy(bytes / MEM_BYTES_PER_NS));
        }
        Kind::Iorun => {
            let bytes = field.integer(NATURAL, "the number of bytes to write")? as u64;
            push(Action::Copy(bytes.div_ceil(resources.buffer) * WRITE_WORK));
        }
        Kind::Lock => push(Action::Lock(mutex(field, resources)?)),
        Kind::Unlock => push(Action::Unlock(mutex(field, resources)?)),
        Kind::Wait => push(wait(field, resources)?),
        Kind::Sync => {
            let wait = wait(field, resources)?;
            if let Action::Wait { cond, .. } = wait {
                push(Action::Signal(cond));
            }
            push(wait);
        }
        Kind::Signal => push(Action::Signal(condvar(field, resources)?)),
        Kind::Broad => push(Action::Broadcast(condvar(field, resources)?)),
        Kind::Barrier => {
            let name = field.name("the barrier's name")?;
            push(Action::Barrier(resources.barriers.number(name)));
        }
        Kind::Timer => push(timer(field, own_timers, resources)?),
        Kind::Suspend => {
            let name = suspend_name(field, task)?;
            if name != task {
                resources.notes.push(format!(
                    "task {task} suspends until {name} is resumed; rt-app since June 2025 ignores that name, and waits \
                     until {task} is resumed"
                ));
            }
            let mutex = resources.mutexes.number(name);
            let cond = resources.condvars.number(name);
            push(Action::Lock(mutex));
            push(Action::Wait { cond, mutex });
            push(Action::Unlock(mutex));
        }
        Kind::Resume => {
            let name = field.name("the name with which the other task suspends")?;
            let mutex = resources.mutexes.number(name);
            push(Action::Lock(mutex));
            push(Action::Broadcast(resources.condvars.number(name)));
            push(Action::Unlock(mutex));
        }
        Kind::Yield => push(Action::Yield),
        Kind::Fork => {
            let name = field.name("the task to create")?;
            let Some(&task) = resources.tasks.get(name) else {
                let tasks: Vec<_> = resources.tasks.keys().map(String::as_str).collect();
                let expected = format!("one of the tasks {}", tasks.join(", "));
                return Err(field.unknown_name(name, &tasks, &expected));
            };
            push(Action::Fork(task));
        }
        Kind::MemRun => push(Action::Copy(memrun(field)?)),
        Kind::Post => push(Action::Post(semaphore(field, resources)?)),
        Kind::Take => push(Action::Take(semaphore(field, resources)?)),
    }
    Ok(())
}

fn mutex(field: Field<'_>, resources: &mut Resources) -> Result<u32, Box<BadInput>> {
    Ok(resources.mutexes.number(field.name("the mutex's name")?))
}

fn condvar(field: Field<'_>, resources: &mut Resources) -> Result<u32, Box<BadInput>> {
    let name = field.name("the condition variable's name")?;
    Ok(resources.condvars.number(name))
}

/// Reads the name of a semaphore, which also gets a number among the condition variables, under a name for messages.
fn semaphore(field: Field<'_>, resources: &mut Resources) -> Result<Semaphore, Box<BadInput>> {
    let name = field.name("the semaphore's name")?;
    Ok(Semaphore {
        stream: resources.semaphores.number(name),
        cond: resources.condvars.number(&format!("semaphore {name}")),
    })
}

/// The work of `memrun` in ns at the reference speed: `count` bytes that are read or written one at a time, or `count`
/// pointers that are followed, each of which takes the latency of the cache or memory into which `size` fits, or of the
/// first level if the order is sequential.
fn memrun(field: Field<'_>) -> Result<u64, Box<BadInput>> {
    let [kind, size, count, stride, pattern, name] =
        members(field, ["type", "size", "count", "stride", "pattern", "ref"])?;
    let kind = required(field, kind, "type")?;
    let size = required(field, size, "size")?.integer(NATURAL, "the buffer's bytes")? as u64;
    let count = required(field, count, "count")?.integer(NATURAL, "the number of accesses")? as u64;
    if let Some(stride) = stride {
        stride.integer(1..=*NATURAL.end(), "the bytes between two pointers")?;
    }
    name.map(|name| name.name("the buffer's name"))
        .transpose()?;
    let orders = [("random", false), ("sequential", true)];
    let sequential = match pattern {
        Some(pattern) => pattern.choice("the order of the pointers", &orders)?,
        None => false,
    };
    let kinds = [("read", false), ("write", false), ("chase", true)];
    let work = match kind.choice("the kind of accesses", &kinds)? {
        false => BYTE_WORK,
        true if sequential => CHASE_WORK[0].1,
        true => {
            let fits = CHASE_WORK.iter().find(|(most, _)| size <= *most);
            fits.map_or(MEMORY_WORK, |&(_, work)| work)
        }
    };
    Ok(count * work)
}

/// The name that a `suspend` gives or, if it gives none, the task's name.
fn suspend_name<'a>(field: Field<'a>, task: &'a str) -> Result<&'a str, Box<BadInput>> {
    if field.entry.value.is_none() {
        return Ok(task);
    }
    match field.string("the name that resumes it")? {
        "" => Ok(task),
        name => Ok(name),
    }
}

/// The fields of an object that may have only these keys.
fn members<'a, const N: usize>(
    field: Field<'a>,
    names: [&str; N],
) -> Result<[Option<Field<'a>>; N], Box<BadInput>> {
    let fields = field.object(&format!("{{ {} }}", names.join(", ")))?;
    no_repeats(&fields, |_| false)?;
    let mut found = [None; N];
    for member in fields {
        let Some(index) = names.iter().position(|name| *name == member.key()) else {
            return Err(member.unknown_key(&format!("`{}`", field.key()), names));
        };
        found[index] = Some(member);
    }
    Ok(found)
}

fn required<'a>(
    field: Field<'a>,
    member: Option<Field<'a>>,
    what: &str,
) -> Result<Field<'a>, Box<BadInput>> {
    member.ok_or_else(|| {
        field.bad_key(
            format!("`{}` lacks `{what}`", field.key()),
            format!("expected an object with `{what}`"),
        )
    })
}

fn wait(field: Field<'_>, resources: &mut Resources) -> Result<Action, Box<BadInput>> {
    let [cond, mutex] = members(field, ["ref", "mutex"])?;
    let cond = name_or_unknown(field, cond, "ref", resources)?;
    let mutex = name_or_unknown(field, mutex, "mutex", resources)?;
    Ok(Action::Wait {
        cond: resources.condvars.number(cond),
        mutex: resources.mutexes.number(mutex),
    })
}

/// The name in the member `key` of the object `field`. The default is rt-app's, `unknown`.
fn name_or_unknown<'a>(
    field: Field<'a>,
    member: Option<Field<'a>>,
    key: &str,
    resources: &mut Resources,
) -> Result<&'a str, Box<BadInput>> {
    match member {
        Some(member) => member.name("a name"),
        None => {
            note_default(field, key, "`unknown`", resources);
            Ok("unknown")
        }
    }
}

fn note_default(field: Field<'_>, key: &str, default: &str, resources: &mut Resources) {
    let note = format!(
        "a `{}` lacks `{key}`, for which {default} is used, as rt-app does",
        field.key()
    );
    if !resources.notes.contains(&note) {
        resources.notes.push(note);
    }
}

fn timer(
    field: Field<'_>,
    own: &mut Timers,
    resources: &mut Resources,
) -> Result<Action, Box<BadInput>> {
    let [name, period, mode] = members(field, ["ref", "period", "mode"])?;
    let name = name_or_unknown(field, name, "ref", resources)?;
    let period = match period {
        Some(period) => period.microseconds("the timer's period")?,
        None => {
            note_default(field, "period", "0", resources);
            0
        }
    };
    let mode = match mode {
        None => TimerMode::Relative,
        Some(mode) => mode.choice("the timer's mode", &MODES)?,
    };
    let timer = if name.starts_with("unique") {
        Timer::Own(own.number(name, mode) as u32)
    } else {
        Timer::Shared(resources.timers.number(name, mode) as u32)
    };
    Ok(Action::Timer { timer, period })
}
