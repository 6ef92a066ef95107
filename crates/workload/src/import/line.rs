//! A line of ftrace's text, of `trace-cmd report` or of `perf script`.

use super::event::{DEFAULT_PRIO, Event, Line, Moved, Read, State, Task};

/// Reads `line`; the error says what was expected.
pub fn read(line: &str) -> Result<Read<'_>, &'static str> {
    let trimmed = line.trim();
    // ftrace's heading ends in `#P:8`, and that of `trace-cmd report` is `cpus=8`.
    let cpus = match trimmed.starts_with('#') {
        true => trimmed.rsplit_once("#P:").map(|(_, cpus)| cpus),
        false => trimmed.strip_prefix("cpus="),
    };
    if let Some(cpus) = cpus.and_then(|cpus| cpus.parse().ok()) {
        return Ok(Read::Cpus(cpus));
    }
    if trimmed.is_empty()
        || trimmed.starts_with('#')
        || trimmed.starts_with("cpus=")
        || trimmed.starts_with("version")
    {
        return Ok(Read::Nothing);
    }
    if let Some(lost) = lost(trimmed) {
        return Ok(Read::Lost(lost));
    }
    // perf prints call chains below their event: an address and a symbol.
    let first = trimmed.split_whitespace().next().unwrap_or_default();
    if line.starts_with(char::is_whitespace)
        && first.len() >= 6
        && first.bytes().all(|byte| byte.is_ascii_hexdigit())
        && !trimmed.contains(" [0")
    {
        return Ok(Read::Nothing);
    }
    const SHAPE: &str = "expected a line of ftrace's text or of perf script, such as `task-1 [000] d.... 1.000001: sched_switch: ...`";
    let (cpu, rest) = cpu(line).ok_or(SHAPE)?;
    let (interrupt, at, rest) = time(rest).ok_or(SHAPE)?;
    let (name, fields) = name(rest).ok_or(SHAPE)?;
    Ok(Read::Event(Line {
        cpu,
        at,
        interrupt,
        event: event(name, fields)
            .ok_or("expected the fields of this event, as the kernel prints them")?,
    }))
}

/// `CPU:2 [LOST 12 EVENTS]` of ftrace, `CPU:2 [12 EVENTS DROPPED]` of trace-cmd, `PERF_RECORD_LOST
/// lost 12` of perf.
fn lost(line: &str) -> Option<u64> {
    let number = |text: &str| text.split_whitespace().find_map(|word| word.parse().ok());
    if line.starts_with("CPU:") && (line.contains("LOST") || line.contains("DROPPED")) {
        let inside = line.split_once('[')?.1.trim_end_matches(']');
        return Some(number(inside).unwrap_or(1));
    }
    let (_, lost) = line.split_once("PERF_RECORD_LOST")?;
    Some(number(lost.trim_start_matches("_SAMPLES")).unwrap_or(1))
}

/// The number in the first brackets that contain only a number, and the rest.
fn cpu(line: &str) -> Option<(usize, &str)> {
    let mut from = 0;
    loop {
        let open = from + line[from..].find('[')?;
        let close = open + line[open..].find(']')?;
        let inside = &line[open + 1..close];
        if !inside.is_empty() && inside.bytes().all(|byte| byte.is_ascii_digit()) {
            let cpu = inside.parse().ok().filter(|&cpu| cpu < machine::MAX_CPUS)?;
            return Some((cpu, &line[close + 1..]));
        }
        from = open + 1;
    }
}

/// Reads the flags, if any, and the seconds. Returns whether it is in an interrupt, the time in ns,
/// and the rest.
fn time(rest: &str) -> Option<(bool, u64, &str)> {
    let rest = rest.trim_start();
    let (mut word, mut after) = rest.split_once(' ')?;
    let mut interrupt = false;
    if !word.ends_with(':') {
        // irqs off, need_resched, context, preempt count: `h` and `H` are hard interrupts, `s` soft ones.
        interrupt = matches!(
            word.as_bytes().get(2),
            Some(b'h' | b'H' | b's' | b'z' | b'Z')
        );
        (word, after) = after.trim_start().split_once(' ')?;
    }
    let (seconds, fraction) = word.strip_suffix(':')?.split_once('.')?;
    if fraction.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(9 - fraction.len() as u32);
    let ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    Some((
        interrupt,
        ns.checked_add(fraction.parse::<u64>().ok()? * scale)?,
        after,
    ))
}

/// `sched_switch` of `sched:sched_switch: ...`, and the rest.
fn name(rest: &str) -> Option<(&str, &str)> {
    let rest = rest.trim_start();
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let name = rest[..end].strip_suffix(':')?;
    let name = name.rsplit(':').next().unwrap_or(name);
    Some((name, rest[end..].trim_start()))
}

fn event<'a>(name: &str, fields: &'a str) -> Option<Event<'a>> {
    Some(match name {
        "sched_switch" => switch(fields)?,
        "sched_waking" => Event::Waking(woken(fields)?),
        "sched_wakeup" => Event::Wakeup(woken(fields)?),
        "sched_wakeup_new" => Event::New(woken(fields)?),
        "sched_process_fork" => Event::Fork {
            parent: number(fields, " pid=")?,
            child: Task {
                comm: between(fields, "child_comm=", " child_pid=")?,
                pid: number(fields, "child_pid=")?,
                prio: DEFAULT_PRIO,
            },
        },
        "cpu_frequency" => Event::Frequency {
            cpu: usize::try_from(number(fields, "cpu_id=")?).ok()?,
            khz: u32::try_from(number(fields, "state=")?).ok()?,
        },
        "print" | "tracing_mark_write" => Event::Mark(fields.trim_end()),
        "sched_setaffinity" if fields.contains(" task=") => Event::Pinned {
            pid: number(fields, " task=")?,
            cpus: u64::from_str_radix(hex(fields, "cpus")?, 16).ok()?,
        },
        "sys_enter" => call(fields).unwrap_or(Event::Other),
        _ => moved(name, fields).map_or(Event::Other, Event::Moved),
    })
}

fn switch(fields: &str) -> Option<Event<'_>> {
    let (left, right) = fields.split_once(" ==> ")?;
    let (prev, state, next) = if left.starts_with("prev_comm=") {
        let prev = Task {
            comm: between(left, "prev_comm=", " prev_pid=")?,
            pid: number(left, " prev_pid=")?,
            prio: number(left, " prev_prio=")?,
        };
        let next = Task {
            comm: between(right, "next_comm=", " next_pid=")?,
            pid: number(right, " next_pid=")?,
            prio: number(right, " next_prio=")?,
        };
        (prev, left.split_once(" prev_state=")?.1, next)
    } else {
        let (prev, state) = short(left)?;
        (prev, state, short(right)?.0)
    };
    let state = state.trim();
    let state = if state.starts_with('R') {
        State::Runnable
    } else if state.contains(['X', 'Z']) {
        State::Dead
    } else if state.is_empty() {
        return None;
    } else {
        State::Blocked
    };
    Some(Event::Switch { prev, state, next })
}

fn woken(fields: &str) -> Option<Task<'_>> {
    if !fields.starts_with("comm=") {
        return short(fields).map(|(task, _)| task);
    }
    // A truncated one may have lost digits of a number.
    fields.contains("target_cpu=").then_some(())?;
    Some(Task {
        comm: between(fields, "comm=", " pid=")?,
        pid: number(fields, " pid=")?,
        prio: number(fields, " prio=")?,
    })
}

/// `comm:pid [prio] ...`, the short form of perf and trace-cmd, and the rest.
fn short(fields: &str) -> Option<(Task<'_>, &str)> {
    let open = fields.rfind(" [")?;
    let close = open + fields[open..].find(']')?;
    let (comm, pid) = fields[..open].rsplit_once(':')?;
    let task = Task {
        comm,
        pid: pid.parse().ok()?,
        prio: fields[open + 2..close].parse().ok()?,
    };
    Some((task, &fields[close + 1..]))
}

/// `NR 202 (7ffd5a0c, 80, 2, ...)`: the numbers of hexadecimal digits.
fn call(fields: &str) -> Option<Event<'_>> {
    let (number, args) = fields.strip_prefix("NR ")?.split_once(" (")?;
    let mut args = args.trim_end_matches(')').split(", ");
    let mut arg = || u64::from_str_radix(args.next()?.trim(), 16).ok();
    Some(Event::Call {
        number: number.parse().ok()?,
        args: [arg()?, arg()?, arg()?],
    })
}

/// `(...) object=0xffff8881 bytes=100` of a probe.
fn moved(name: &str, fields: &str) -> Option<Moved> {
    let [object, bytes] = Moved::FIELDS.map(|field| hex(fields, field));
    let object = u64::from_str_radix(object?, 16).ok()?;
    Moved::of(name, object, bytes?.parse().ok()?)
}

/// The number of `key=0x12ab`, without its prefix.
fn hex<'a>(fields: &'a str, key: &str) -> Option<&'a str> {
    let mut words = fields.split_whitespace();
    let number = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))?;
    Some(number.strip_prefix("0x").unwrap_or(number))
}

fn between<'a>(fields: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let start = fields.find(from)? + from.len();
    let end = start + fields[start..].find(to)?;
    Some(&fields[start..end])
}

fn number(fields: &str, key: &str) -> Option<i32> {
    let start = fields.find(key)? + key.len();
    let rest = &fields[start..];
    let digits = rest
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b'-')
        .count();
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event_of(line: &str) -> Line<'_> {
        match read(line) {
            Ok(Read::Event(line)) => line,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn one_switch_in_every_way_of_writing_it() {
        let expected = Event::Switch {
            prev: Task {
                comm: "my task",
                pid: 17,
                prio: 120,
            },
            state: State::Blocked,
            next: Task {
                comm: "swapper/1",
                pid: 0,
                prio: 120,
            },
        };
        for line in [
            "         my task-17      [001] d..2.    12.000345: sched_switch: prev_comm=my task prev_pid=17 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120",
            "         my task-17    (     16) [001] d..2 12.000345: sched_switch: prev_comm=my task prev_pid=17 prev_prio=120 prev_state=D ==> next_comm=swapper/1 next_pid=0 next_prio=120",
            "         my task-17    [001]    12.000345: sched_switch:         my task:17 [120] S ==> swapper/1:0 [120]",
            "my task    17 [001]    12.000345:       sched:sched_switch: my task:17 [120] S ==> swapper/1:0 [120]",
            "my task    16/17 [001]    12.000345000: sched:sched_switch: prev_comm=my task prev_pid=17 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120",
        ] {
            let read = event_of(line);
            assert_eq!(
                (read.cpu, read.at, read.interrupt),
                (1, 12_000_345_000, false),
                "{line}"
            );
            assert_eq!(read.event, expected, "{line}");
        }
    }

    #[test]
    fn wakeups_and_their_context() {
        let task = Task {
            comm: "a-b:c",
            pid: 9,
            prio: 98,
        };
        let line =
            "  <idle>-0  [003] dNh5. 1.5: sched_waking: comm=a-b:c pid=9 prio=98 target_cpu=003";
        let read = event_of(line);
        assert_eq!((read.interrupt, read.event), (true, Event::Waking(task)));
        let line =
            "swapper 0 [003] 1.500000000: sched:sched_wakeup: a-b:c:9 [98] success=1 CPU:003";
        let read = event_of(line);
        assert_eq!(
            (read.interrupt, read.at, read.event),
            (false, 1_500_000_000, Event::Wakeup(task))
        );
        let line =
            "sh-7 [000] .... 1.5: sched_process_fork: comm=sh pid=7 child_comm=ls -l child_pid=8";
        let child = Task {
            comm: "ls -l",
            pid: 8,
            prio: DEFAULT_PRIO,
        };
        assert_eq!(event_of(line).event, Event::Fork { parent: 7, child });
        let line = "<idle>-0 [000] .... 1.5: cpu_frequency: state=1200000 cpu_id=2";
        assert_eq!(
            event_of(line).event,
            Event::Frequency {
                cpu: 2,
                khz: 1_200_000
            }
        );
    }

    #[test]
    fn irrelevant_lines_are_skipped() {
        for line in [
            "",
            "# tracer: nop",
            "\tffffffff8111 schedule+0x1 ([kernel])",
        ] {
            assert_eq!(read(line), Ok(Read::Nothing), "{line}");
        }
        assert_eq!(read("#          #P:8"), Ok(Read::Cpus(8)));
        assert_eq!(read("cpus=2"), Ok(Read::Cpus(2)));
        assert_eq!(read("CPU:2 [LOST 12 EVENTS]"), Ok(Read::Lost(12)));
        assert_eq!(read("CPU:2 [7 EVENTS DROPPED]"), Ok(Read::Lost(7)));
        assert_eq!(
            read("perf 1 [000] 1.0: PERF_RECORD_LOST lost 5"),
            Ok(Read::Lost(5))
        );
        for line in [
            "hello",
            "a-1 [000] .... x: y: z",
            "a-1 [9999] .... 1.0: y: z",
            "a-1 [000] 1.0: sched_switch: prev_comm=a prev",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
