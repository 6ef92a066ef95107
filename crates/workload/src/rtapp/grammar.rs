//! The grammar's objects: the file, `global`, tasks and phases.

use super::check;
use super::config::{Config, Event, Phase, Task};
use super::event::{self, Resources, Timers};
use super::field::{Field, NATURAL, fields, no_repeats};
use super::groups;
use super::json::{self, Kind, Source};
use super::sched::{Class, Settings};
use super::timeline;
use crate::{SchedPolicy, UtilClamps};
use machine::CpuMask;
use machine::input::{BadInput, suggest};

/// The size in bytes that rt-app uses if the file gives no `mem_buffer_size`.
const DEFAULT_BUFFER: u64 = 4 << 20;

/// The largest number of threads with which a file may begin.
const MAX_THREADS: u64 = 100_000;

/// The longest `duration` in s: a day, after which a simulation ends in any case.
const MAX_DURATION: i64 = 24 * 3600;

const GLOBAL_KEYS: [&str; 13] = [
    "duration",
    "calibration",
    "default_policy",
    "pi_enabled",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
];
/// The keys of tasks only, and the keys of tasks and phases.
const TASK_KEYS: [&str; 4] = ["instance", "delay", "phases", "cpu_time"];
const PHASE_KEYS: [&str; 11] = [
    "loop",
    "cpus",
    "policy",
    "priority",
    "dl-runtime",
    "dl-deadline",
    "dl-period",
    "util_min",
    "util_max",
    "nodes_membind",
    "taskgroup",
];

type Read<T> = Result<T, Box<BadInput>>;

pub fn parse(source: Source<'_>) -> Read<Config> {
    let root = json::parse(source)?;
    let Kind::Object(entries) = &root.kind else {
        return Err(source.bad(
            &root.at,
            format!("the file is {}", root.describe()),
            "expected an object with `tasks`",
        ));
    };
    let sections = fields(source, entries);
    no_repeats(&sections, |_| false)?;
    let (mut global, mut tasks, mut groups, mut timeline) = (None, None, None, Vec::new());
    for section in sections {
        match section.key() {
            "global" => global = Some(section),
            "tasks" => tasks = Some(section),
            "taskgroups" => groups = Some(section),
            "timeline" => timeline = timeline::read(section)?,
            // rt-app creates resources when events name them; the section is from older releases.
            "resources" => drop(section.object("resources by name")?),
            _ => {
                let known = ["tasks", "global", "taskgroups", "timeline", "resources"];
                return Err(section.unknown_key("the file", known));
            }
        }
    }
    let Some(tasks) = tasks else {
        return Err(source.bad(
            &(root.at.start..root.at.start + 1),
            "`tasks` is missing",
            "expected an object with `tasks`",
        ));
    };
    let global = Global::read(global)?;
    let mut config = Config {
        duration: global.duration,
        cumulative_slack: global.cumulative_slack,
        timeline,
        ..Config::default()
    };
    read_tasks(tasks, groups, &global, &mut config)?;
    Ok(config)
}

struct Global {
    duration: Option<u64>,
    default_policy: Class,
    cumulative_slack: bool,
    buffer: u64,
}

impl Global {
    fn read(section: Option<Field<'_>>) -> Read<Global> {
        let mut global = Global {
            duration: None,
            default_policy: Class::Other,
            cumulative_slack: false,
            buffer: DEFAULT_BUFFER,
        };
        let Some(section) = section else {
            return Ok(global);
        };
        let fields = section.object("global settings")?;
        no_repeats(&fields, |_| false)?;
        for field in fields {
            global.set(field)?;
        }
        Ok(global)
    }

    fn set(&mut self, field: Field<'_>) -> Read<()> {
        match field.key() {
            "duration" => {
                let range = -1..=MAX_DURATION;
                self.duration = match field.integer(range, "seconds, or -1 for no limit")? {
                    -1 => None,
                    0 => return Err(field.bad("at least 1 second, or -1 for no limit")),
                    seconds => Some(seconds as u64 * 1_000_000_000),
                };
            }
            "default_policy" => self.default_policy = Class::read(field)?,
            "cumulative_slack" => self.cumulative_slack = field.boolean()?,
            "mem_buffer_size" => {
                self.buffer = field.integer(1..=*NATURAL.end(), "bytes")? as u64;
            }
            // The value is the CPU on which rt-app calibrates `run`, or the ns per loop of that calibration. Here `run`
            // is work at the reference speed, which needs no measurement.
            "calibration" => match field.value("\"CPU0\" or ns per loop")?.kind {
                Kind::Number(_) => {
                    field.integer(1..=*NATURAL.end(), "ns per loop")?;
                }
                _ => {
                    let text = field.string("a CPU such as \"CPU0\"")?;
                    let number = text.strip_prefix("CPU").unwrap_or_default();
                    if number.parse::<u16>().is_err() {
                        return Err(field.bad("a CPU such as \"CPU0\", or ns per loop"));
                    }
                }
            },
            // Simulated mutexes do not inherit priority, simulated memory is never paged out, and
            // measurements replace the logs.
            "pi_enabled" | "lock_pages" | "gnuplot" => drop(field.boolean()?),
            "logdir" | "log_basename" | "io_device" => drop(field.string("a path")?),
            "log_size" => match field
                .value("MB, or \"file\", \"disable\" or \"auto\"")?
                .kind
            {
                Kind::Number(_) => drop(field.integer(NATURAL, "MB")?),
                _ => drop(field.string("\"file\", \"disable\" or \"auto\"")?),
            },
            "ftrace" => match field.value("true, false or categories")?.kind {
                Kind::String(_) => drop(field.string("categories")?),
                _ => drop(field.boolean()?),
            },
            // Releases before 1.0 read this key, and rt-app's own examples still have it.
            "frag" => {}
            _ => return Err(field.unknown_key("`global`", GLOBAL_KEYS)),
        }
        Ok(())
    }
}

fn read_tasks(
    section: Field<'_>,
    groups: Option<Field<'_>>,
    global: &Global,
    config: &mut Config,
) -> Read<()> {
    let tasks = section.object("tasks by name")?;
    no_repeats(&tasks, |_| false)?;
    let mut resources = Resources {
        buffer: global.buffer,
        ..Resources::default()
    };
    if let Some(groups) = groups {
        resources.groups.read(groups)?;
    }
    for (index, task) in tasks.iter().enumerate() {
        resources.tasks.insert(task.key().to_owned(), index);
    }
    for &task in &tasks {
        let task = read_task(task, global, &mut resources)?;
        config.tasks.push(task);
    }
    let threads: u64 = config.tasks.iter().map(|task| task.instances as u64).sum();
    if threads == 0 {
        return Err(section.bad_key(
            "`tasks` starts no thread",
            "expected a task with an `instance` of at least 1 (the default)",
        ));
    }
    if threads > MAX_THREADS {
        return Err(section.bad_key(
            format!("`tasks` starts {threads} threads"),
            format!("expected at most {MAX_THREADS}"),
        ));
    }
    check::forks(section.source, &config.tasks)?;
    check::mutexes(section.source, &config.tasks, &resources.mutexes)?;
    config.notes = resources.notes;
    config.notes.extend(check::never_run(&config.tasks));
    let idle = check::condvars(section.source, &config.tasks, &resources.condvars)?;
    config.notes.extend(idle);
    config.barriers = check::barriers(section.source, &config.tasks, &resources.barriers)?;
    config.mutexes = resources.mutexes.iter().map(str::to_owned).collect();
    config.condvars = resources.condvars.len();
    config.semaphores = resources.semaphores.len();
    config.timers = resources.timers.modes;
    config.bindings = resources.bindings;
    (config.groups, config.measured_groups) = resources.groups.all();
    config.clamped = resources.clamped;
    Ok(())
}

fn read_task(task: Field<'_>, global: &Global, resources: &mut Resources) -> Read<Task> {
    let fields = task.object("a task")?;
    no_repeats(&fields, event::is_event)?;
    let phases = fields.iter().find(|field| field.key() == "phases").copied();
    let mut settings = Settings::default();
    let (mut instances, mut delay, mut affinity, mut loops, mut group) = (1, 0, None, None, None);
    let (mut clamps, mut cpu_time) = (UtilClamps::default(), None);
    for &field in &fields {
        let is_legacy_runtime = field.key() == "runtime";
        if settings.take(field, true)? && !is_legacy_runtime {
            continue;
        }
        match field.key() {
            "instance" => {
                instances = field.integer(NATURAL, "the number of threads to start")? as u32;
            }
            "delay" => delay = field.microseconds("a time to wait at the start")?,
            "cpus" => affinity = Some(read_cpus(field, resources)?),
            "taskgroup" => group = resources.groups.of_task(field)?,
            "cpu_time" => cpu_time = Some(groups::cpu_time(field)?),
            "loop" => loops = Some(read_loops(field)?),
            "phases" => {}
            "util_min" | "util_max" => resources.clamped(field, task.key(), &mut clamps)?,
            key if event::is_event(key) => {
                if phases.is_some() && !is_legacy_runtime {
                    return Err(field.bad_key(
                        format!("event `{key}` next to `phases`"),
                        "expected the event inside a phase; rt-app skips it here",
                    ));
                }
            }
            _ if ignored(field)? => {}
            _ => {
                let owner = format!("task `{}`", task.key());
                return Err(neither_key_nor_event(field, &owner, &TASK_KEYS));
            }
        }
    }
    let policy = settings.of_task(global.default_policy, task)?;
    if let Some(slice) = settings.legacy_slice(policy)? {
        resources.notes.push(format!(
            "task {} has the default slice; rt-app since February 2025 takes its `runtime` also as `dl-runtime`, a \
             slice of {} us",
            task.key(),
            slice / 1000
        ));
    }
    let mut timers = Timers::default();
    let (phases, loops) = match phases {
        Some(section) => {
            let in_force = (policy, group.is_some());
            let phases = read_phases(section, task.key(), in_force, &mut timers, resources)?;
            (phases, loops.unwrap_or(None))
        }
        None => {
            check_group(task, policy, group.is_some())?;
            let events = read_events(task, &fields, task.key(), &mut timers, resources)?;
            let phase = Phase {
                loops: loops.unwrap_or(Some(1)),
                affinity: None,
                group: None,
                policy: None,
                clamps: UtilClamps::default(),
                events,
            };
            // A single phase runs `loop` times or, without `loop`, forever.
            (vec![phase], loops.map(|_| 1))
        }
    };
    Ok(Task {
        name: cage::text::plain(task.key()).into(),
        instances,
        delay,
        loops,
        policy,
        clamps,
        affinity,
        group,
        cpu_time,
        phases,
        timers: timers.modes,
    })
}

/// Reads `phases`. `in_force` is the task's policy, and whether the task has a `taskgroup`.
fn read_phases(
    section: Field<'_>,
    task: &str,
    in_force: (SchedPolicy, bool),
    timers: &mut Timers,
    resources: &mut Resources,
) -> Read<Vec<Phase>> {
    let (mut policy, mut has_group) = in_force;
    let mut phases = Vec::new();
    for field in section.object("phases by name")? {
        let phase = read_phase(field, task, policy, timers, resources)?;
        policy = phase.policy.unwrap_or(policy);
        has_group |= phase.group.is_some();
        check_group(field, policy, has_group)?;
        phases.push(phase);
    }
    match phases.is_empty() {
        true => Err(section.bad("at least one phase")),
        false => Ok(phases),
    }
}

/// Refuses a task or phase that rt-app refuses: with a `taskgroup`, of its own or of an earlier phase, and a policy of
/// a class other than the fair class.
fn check_group(owner: Field<'_>, policy: SchedPolicy, has_group: bool) -> Read<()> {
    let class = Class::of(policy);
    if class.is_fair() || !has_group {
        return Ok(());
    }
    Err(owner.bad_key(
        format!("`{}` has a taskgroup and is {}", owner.key(), class.name()),
        "expected SCHED_OTHER, SCHED_BATCH or SCHED_IDLE: rt-app refuses other policies with a taskgroup",
    ))
}

fn read_phase(
    phase: Field<'_>,
    task: &str,
    current: SchedPolicy,
    timers: &mut Timers,
    resources: &mut Resources,
) -> Read<Phase> {
    let fields = phase.object("a phase")?;
    no_repeats(&fields, event::is_event)?;
    let mut settings = Settings::default();
    let (mut affinity, mut group, mut loops) = (None, None, Some(1));
    let mut clamps = UtilClamps::default();
    for &field in &fields {
        if settings.take(field, false)? {
            continue;
        }
        match field.key() {
            "cpus" => affinity = Some(read_cpus(field, resources)?),
            "taskgroup" => group = resources.groups.of_task(field)?,
            "loop" => loops = read_loops(field)?,
            "util_min" | "util_max" => resources.clamped(field, task, &mut clamps)?,
            key if event::is_event(key) => {}
            _ if ignored(field)? => {}
            _ => {
                let owner = format!("phase `{}`", phase.key());
                return Err(neither_key_nor_event(field, &owner, &[]));
            }
        }
    }
    Ok(Phase {
        loops,
        affinity,
        group,
        policy: settings.of_phase(current)?,
        clamps,
        events: read_events(phase, &fields, task, timers, resources)?,
    })
}

/// The error for an unknown key of `owner`, a task or a phase. `more` are the keys that only `owner`'s kind has.
fn neither_key_nor_event(field: Field<'_>, owner: &str, more: &[&str]) -> Box<BadInput> {
    let (keys, events) = ([more, &PHASE_KEYS].concat(), event::names());
    let expected = format!(
        "expected {}, or an event: {}",
        keys.join(", "),
        events.join(", ")
    );
    field.bad_key(
        format!("unknown key `{}` in {owner}", field.key()),
        suggest(field.key(), keys.into_iter().chain(events), &expected),
    )
}

fn read_events(
    owner: Field<'_>,
    fields: &[Field<'_>],
    task: &str,
    timers: &mut Timers,
    resources: &mut Resources,
) -> Read<Vec<Event>> {
    let mut events = Vec::new();
    for &field in fields.iter().filter(|field| event::is_event(field.key())) {
        event::read(field, task, timers, resources, &mut events)?;
    }
    if events.is_empty() {
        return Err(owner.bad_key(
            format!("`{}` has no events", owner.key()),
            format!("expected at least one of {}", event::names().join(", ")),
        ));
    }
    Ok(events)
}

/// Reads `cpus`, and records them so that a machine can be checked for them.
fn read_cpus(field: Field<'_>, resources: &mut Resources) -> Read<CpuMask> {
    let cpus = field.cpus()?;
    let at = &field.value("CPUs")?.at;
    resources.bindings.push((cpus, at.clone()));
    Ok(cpus)
}

/// Reads `loop`; `None` stands for endless iteration.
fn read_loops(field: Field<'_>) -> Read<Option<u32>> {
    let expected = "the number of loops: at least 1, or -1 for no limit";
    match field.integer(-1..=*NATURAL.end(), expected)? {
        -1 => Ok(None),
        0 => Err(field.bad(expected)),
        count => Ok(Some(count as u32)),
    }
}

/// Reads and ignores the key that places memory, which is not simulated.
fn ignored(field: Field<'_>) -> Read<bool> {
    match field.key() {
        "nodes_membind" => drop(field.cpus()?),
        _ => return Ok(false),
    }
    Ok(true)
}
