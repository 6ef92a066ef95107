//! A line of ftrace's text, of `trace-cmd report` or of `perf script`.

use crate::event::{Line, Read, Stage, State, Task, Tracepoint};
use crate::table::{Kind, MOST_FIELDS};
use crate::values::Fields;

/// The reason why a line cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The line does not have the form of an event. The line may belong to the event before it.
    Shape,
    /// The line has the form of an event, but not the event's fields.
    Fields,
}

impl Wrong {
    /// The part of an error message that says what was expected.
    pub fn expected(self) -> &'static str {
        match self {
            Wrong::Shape => {
                "expected a line of ftrace's text or of perf script, such as `task-1 [000] d.... 1.000001: sched_switch: ...`"
            }
            Wrong::Fields => "expected the fields of this event, as the kernel prints them",
        }
    }
}

/// Reads `line`.
pub fn read(line: &str) -> Result<Read<'_>, Wrong> {
    let trimmed = line.trim();
    // ftrace's heading ends in `#P:8`, and that of `trace-cmd report` is `cpus=8`.
    let cpus = match trimmed.starts_with('#') {
        true => trimmed.rsplit_once("#P:").map(|(_, cpus)| cpus),
        false => trimmed.strip_prefix("cpus="),
    };
    if let Some(cpus) = cpus.and_then(|cpus| cpus.parse().ok()) {
        return Ok(Read::Cpus(cpus));
    }
    if trimmed.is_empty() || trimmed.starts_with('#') || is_heading(trimmed) {
        return Ok(Read::Nothing);
    }
    if let Some(lost) = lost(trimmed) {
        return Ok(Read::Lost(lost));
    }
    let Head {
        cpu,
        interrupt,
        at,
        rest,
    } = head(line).ok_or(Wrong::Shape)?;
    // Lines of the function tracer and of stack traces have no name of an event.
    let event = match name(rest) {
        Some((name, fields)) => event(name, fields).ok_or(Wrong::Fields)?,
        None => Tracepoint::Other,
    };
    Ok(Read::Event(Line {
        cpu,
        at,
        interrupt,
        event,
    }))
}

/// The lines before the events of `trace-cmd report`: `version = 6`, `CPU 1 is empty`, `cpus=2`.
fn is_heading(line: &str) -> bool {
    let empty = line.to_ascii_lowercase();
    let empty = empty
        .strip_prefix("cpu")
        .and_then(|rest| rest.strip_suffix(" is empty"));
    empty.is_some_and(|cpu| cpu.trim().parse::<usize>().is_ok())
        || line.starts_with("cpus=")
        || line.starts_with("version")
}

/// Does `line` belong to a call chain, which perf, ftrace and trace-cmd print below an event: an
/// address, or an arrow and a symbol?
pub fn is_in_call_chain(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    let is_hex = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
    first == "=>"
        || (line.starts_with(char::is_whitespace) && is_hex(first) && words.next().is_some())
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

/// The part of a line before the name of its event.
struct Head<'a> {
    cpu: usize,
    interrupt: bool,
    /// The time in ns.
    at: u64,
    rest: &'a str,
}

/// The CPU is in the first brackets that contain a number and precede a time; a task's name may have
/// brackets, too. ftrace's latency format has the CPU before the flags.
fn head(line: &str) -> Option<Head<'_>> {
    let brackets = line.match_indices('[').filter_map(|(open, _)| {
        let close = open + line[open..].find(']')?;
        Some((cpu(&line[open + 1..close])?, &line[close + 1..]))
    });
    let mut heads = brackets.filter_map(|(cpu, rest)| {
        let (interrupt, at, rest) = time(rest)?;
        Some(Head {
            cpu,
            interrupt,
            at,
            rest,
        })
    });
    heads.next().or_else(|| latency_format(line))
}

fn cpu(digits: &str) -> Option<usize> {
    let all = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .parse()
        .ok()
        .filter(|&cpu| all && cpu < machine::MAX_CPUS)
}

/// The head of a line such as `task-17  1d..2  345us!: sched_switch: ...` (trace_options latency-format), or with
/// seconds in place of us, as `trace-cmd report -l` prints it.
fn latency_format(line: &str) -> Option<Head<'_>> {
    let words = line
        .split_whitespace()
        .map(|word| (word, word.as_ptr() as usize - line.as_ptr() as usize));
    let heads = words.filter_map(|(word, start)| {
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        let flags = &word.as_bytes()[digits..];
        if !(4..=6).contains(&flags.len()) || !matches!(flags[0], b'.' | b'd' | b'D' | b'X') {
            return None;
        }
        let rest = line[start + word.len()..].trim_start();
        let (at, rest) = match rest
            .find("us")
            .and_then(|end| Some((rest[..end].parse::<u64>().ok()?, end)))
        {
            Some((us, end)) => (us.checked_mul(1000)?, rest[end..].split_once(": ")?.1),
            None => seconds(rest)?,
        };
        Some(Head {
            cpu: cpu(&word[..digits])?,
            interrupt: is_interrupt(flags),
            at,
            rest,
        })
    });
    heads.into_iter().next()
}

/// The flags are irqs off, need_resched, context and preempt count. The context is `h` or `H` in a hard interrupt, and
/// `s` in a softirq.
fn is_interrupt(flags: &[u8]) -> bool {
    matches!(flags.get(2), Some(b'h' | b'H' | b's' | b'z' | b'Z'))
}

/// Reads the flags, if any, and the seconds. Returns whether the event is in an interrupt, the time
/// in ns, and the rest.
fn time(rest: &str) -> Option<(bool, u64, &str)> {
    let rest = rest.trim_start();
    let (word, after) = rest.split_once(' ')?;
    if word.ends_with(':') {
        let (at, rest) = seconds(rest)?;
        return Some((false, at, rest));
    }
    let (at, rest) = seconds(after.trim_start())?;
    Some((is_interrupt(word.as_bytes()), at, rest))
}

/// The time in ns of a text such as `12.000345: `, and the rest.
fn seconds(rest: &str) -> Option<(u64, &str)> {
    let (word, after) = rest.split_once(' ')?;
    let (seconds, fraction) = word.strip_suffix(':')?.split_once('.')?;
    if fraction.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(9 - fraction.len() as u32);
    let ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    let fraction = fraction.parse::<u64>().ok()? * scale;
    Some((ns.checked_add(fraction)?, after))
}

/// The name of the event, such as `sched_switch` in `sched:sched_switch: ...`, and the rest of the line. perf may print
/// a period before the name and modifiers after it: `1 sched:sched_switch:k: ...`.
fn name(rest: &str) -> Option<(&str, &str)> {
    let mut rest = rest.trim_start();
    if let Some((period, after)) = rest.split_once(' ')
        && !period.is_empty()
        && period.bytes().all(|byte| byte.is_ascii_digit())
    {
        rest = after.trim_start();
    }
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let name = rest[..end].strip_suffix(':')?;
    let mut parts = name.split(':');
    let first = parts.next()?;
    let name = parts.next().unwrap_or(first);
    let name = name.split('/').next().unwrap_or(name);
    Some((name, rest[end..].trim_start()))
}

fn event<'a>(name: &str, fields: &'a str) -> Option<Tracepoint<'a>> {
    let name = match name {
        "tracing_mark_write" => "print",
        name => name,
    };
    let Some(kind) = Kind::read(name) else {
        return Some(Tracepoint::Other);
    };
    match kind {
        Kind::Mark => Some(Tracepoint::Mark(fields.trim_end())),
        Kind::Call => Some(call(fields).unwrap_or(Tracepoint::Other)),
        Kind::Switch if !fields.starts_with("prev_comm=") => short_switch(fields),
        // In Linux before 4.3, this means that the task was already awake.
        Kind::Wakeup if fields.contains(" success=0") => Some(Tracepoint::Other),
        Kind::Waking if !fields.starts_with("comm=") => short_wakeup(Stage::Waking, fields),
        Kind::Wakeup if !fields.starts_with("comm=") => short_wakeup(Stage::Woken, fields),
        Kind::WakeupNew if !fields.starts_with("comm=") => short_wakeup(Stage::New, fields),
        kind => {
            let read = Text::of(kind, fields).and_then(|text| Tracepoint::of(kind, &text));
            let other = kind.may_be_of_others().then_some(Tracepoint::Other);
            read.or(other)
        }
    }
}

/// The values of an event's fields in its text.
struct Text<'a>([&'a str; MOST_FIELDS]);

impl<'a> Text<'a> {
    /// Each value extends to the key of the next value. A key may also be the field's name in tracefs, as `trace-cmd
    /// report -R` prints it.
    fn of(kind: Kind, text: &'a str) -> Option<Text<'a>> {
        let mut values = [""; MOST_FIELDS];
        let mut left = text;
        for (index, field) in kind.row().fields.iter().enumerate() {
            let (before, after) =
                split_key(left, field.key).or_else(|| split_key(left, field.name))?;
            if let Some(last) = index.checked_sub(1) {
                values[last] = before.trim_end_matches(" ==>");
            }
            values[index] = after;
            left = after;
        }
        Some(Text(values))
    }
}

/// The text before the word `key=`, and the text after it.
fn split_key<'a>(text: &'a str, key: &str) -> Option<(&'a str, &'a str)> {
    let mut all = text.match_indices(key);
    all.find_map(|(start, _)| {
        let before = match start {
            0 => "",
            _ => text[..start].strip_suffix(' ')?,
        };
        Some((before, text[start + key.len()..].strip_prefix('=')?))
    })
}

impl<'a> Fields<'a> for Text<'a> {
    fn text(&self, index: usize) -> Option<&'a str> {
        Some(self.0[index])
    }

    fn int(&self, index: usize) -> Option<i64> {
        let text = self.0[index];
        if let Some(hex) = text.strip_prefix("0x") {
            let digits = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
            let number = u64::from_str_radix(&hex[..digits], 16).ok()?;
            return Some(number.cast_signed());
        }
        let digits = text
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || *byte == b'-')
            .count();
        text[..digits].parse().ok()
    }

    fn state(&self, index: usize) -> Option<State> {
        state(self.0[index])
    }
}

/// Reads the short form of a switch: `my task:17 [120] S ==> swapper/1:0 [120]`.
fn short_switch(fields: &str) -> Option<Tracepoint<'_>> {
    let (left, right) = fields.split_once(" ==> ")?;
    let (prev, state) = short(left)?;
    Some(Tracepoint::Switch {
        prev,
        state: self::state(state)?,
        next: short(right)?.0,
    })
}

/// Reads the short form of a wakeup: `my task:17 [120] success=1 CPU:003`.
fn short_wakeup(stage: Stage, fields: &str) -> Option<Tracepoint<'_>> {
    let (task, _) = short(fields)?;
    Some(Tracepoint::Wakeup {
        stage,
        task,
        target_cpu: None,
    })
}

/// `EXIT_DEAD`, `EXIT_ZOMBIE`, and `TASK_DEAD` of kernels before 4.14. In later kernels, only parked kernel threads
/// have 0x40.
const DEAD_BITS: u64 = 0x10 | 0x20 | 0x40;
/// The bits of a task that does not run. A preempted task has a higher state.
const STATE_BITS: u64 = 0xff;

/// The state in letters, such as `S` or `R+`, or in bits. `x` is `TASK_DEAD` of kernels before 4.14.
fn state(text: &str) -> Option<State> {
    let text = text.trim();
    let bits = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    Some(match (bits, text.as_bytes().first()?) {
        (Ok(bits), _) if bits & DEAD_BITS != 0 => State::Dead,
        (Ok(bits), _) if bits & STATE_BITS != 0 => State::Blocked,
        (Ok(_), _) | (Err(_), b'R') => State::Runnable,
        (Err(_), _) if text.contains(['X', 'Z', 'x']) => State::Dead,
        (Err(_), _) => State::Blocked,
    })
}

/// Reads a task in the short form of perf and trace-cmd, `comm:pid [prio] ...`; returns the task and the rest.
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

/// Reads a system call such as `NR 202 (7ffd5a0c, 80, 2, ...)`, whose arguments are hexadecimal.
fn call(fields: &str) -> Option<Tracepoint<'_>> {
    let (number, args) = fields.strip_prefix("NR ")?.split_once(" (")?;
    let mut args = args.trim_end_matches(')').split(", ");
    let mut arg = || u64::from_str_radix(args.next()?.trim(), 16).ok();
    Some(Tracepoint::Call {
        number: number.parse().ok()?,
        args: [arg()?, arg()?, arg()?],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::DEFAULT_PRIO;

    fn event_of(line: &str) -> Line<'_> {
        match read(line) {
            Ok(Read::Event(line)) => line,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn one_switch_in_every_way_of_writing_it() {
        let expected = Tracepoint::Switch {
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
        let wakeup = |stage, target_cpu| Tracepoint::Wakeup {
            stage,
            task,
            target_cpu,
        };
        let line =
            "  <idle>-0  [003] dNh5. 1.5: sched_waking: comm=a-b:c pid=9 prio=98 target_cpu=003";
        let read = event_of(line);
        assert_eq!(
            (read.interrupt, read.event),
            (true, wakeup(Stage::Waking, Some(3)))
        );
        let line =
            "swapper 0 [003] 1.500000000: sched:sched_wakeup: a-b:c:9 [98] success=1 CPU:003";
        let read = event_of(line);
        assert_eq!(
            (read.interrupt, read.at, read.event),
            (false, 1_500_000_000, wakeup(Stage::Woken, None))
        );
        let line =
            "sh-7 [000] .... 1.5: sched_process_fork: comm=sh pid=7 child_comm=ls -l child_pid=8";
        let child = Task {
            comm: "ls -l",
            pid: 8,
            prio: DEFAULT_PRIO,
        };
        let parent = Task {
            comm: "sh",
            pid: 7,
            prio: DEFAULT_PRIO,
        };
        assert_eq!(event_of(line).event, Tracepoint::Fork { parent, child });
        let line = "<idle>-0 [000] .... 1.5: cpu_frequency: state=1200000 cpu_id=2";
        assert_eq!(
            event_of(line).event,
            Tracepoint::Frequency {
                cpu: 2,
                khz: 1_200_000
            }
        );
    }

    #[test]
    fn irrelevant_lines_are_skipped() {
        for line in ["", "# tracer: nop", "CPU 1 is empty", "version = 7"] {
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
        for line in [
            "\tffffffff8111 schedule+0x1 ([kernel])",
            "\t               0 [unknown] ([unknown])",
            " => __schedule",
            "=> schedule (ffffffff8111)",
        ] {
            assert_eq!(read(line), Err(Wrong::Shape), "{line}");
            assert!(is_in_call_chain(line), "{line}");
        }
        assert!(!is_in_call_chain("hello"));
    }

    #[test]
    fn states_are_letters_or_bits() {
        for (text, expected) in [
            ("R", State::Runnable),
            ("R+", State::Runnable),
            ("S", State::Blocked),
            ("D|K", State::Blocked),
            ("I", State::Blocked),
            ("Z", State::Dead),
            ("x", State::Dead),
            ("0", State::Runnable),
            ("256", State::Runnable),
            ("0x100", State::Runnable),
            ("1", State::Blocked),
            ("0x402", State::Blocked),
            ("16", State::Dead),
            ("64", State::Dead),
        ] {
            assert_eq!(state(text), Some(expected), "{text}");
        }
        assert_eq!(state(" "), None);
    }

    #[test]
    fn what_is_around_an_event_does_not_hide_it() {
        let fields = "comm=w[1] pid=9 prio=98 target_cpu=003";
        for (line, at, interrupt) in [
            (
                "w[1]-9 [003] d..2. 1.5: sched_waking: ",
                1_500_000_000,
                false,
            ),
            (
                "w[1] 9 [003] 1.5: 1 sched:sched_waking:k: ",
                1_500_000_000,
                false,
            ),
            (
                "w 9 [003] 1.5: sched:sched_waking/call-graph=no/: ",
                1_500_000_000,
                false,
            ),
            (
                "  <idle>-0       3dNh2   14us : sched_waking: ",
                14_000,
                true,
            ),
            (
                "    bash-1994    3d..2  103us+: sched_waking: ",
                103_000,
                false,
            ),
            (
                "    bash-1994    3d..2. 12.000345: sched_waking: ",
                12_000_345_000,
                false,
            ),
        ] {
            let line = line.to_owned() + fields;
            let read = event_of(&line);
            assert_eq!(
                (read.cpu, read.at, read.interrupt),
                (3, at, interrupt),
                "{line}"
            );
            let Tracepoint::Wakeup { task, .. } = read.event else {
                panic!("{line}: {:?}", read.event)
            };
            assert_eq!((task.comm, task.pid), ("w[1]", 9), "{line}");
        }
        for line in [
            "a-1 [000] d..2 1.0: <stack trace>",
            "a-1 [000] d..2 1.0: mutex_unlock <-rb_simple_write",
            "a-1 [000] 1.0: sched_wakeup: comm=a pid=10 prio=120 success=0 target_cpu=0",
        ] {
            assert_eq!(event_of(line).event, Tracepoint::Other, "{line}");
        }
    }
}
