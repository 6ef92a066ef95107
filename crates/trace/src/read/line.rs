//! A line of ftrace's text, of `trace-cmd report` or of `perf script`.

use crate::event::{Line, Read, Stage, State, Task, Tracepoint};
use crate::table::{Kind, MOST_FIELDS};
use crate::values::Fields;

/// The reason why a line cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The line does not have the form of an event. The line may belong to the event before it.
    Shape,
    /// The line lacks this field before the name of the event: the CPU or the time, if perf was told to leave it out.
    Lacks(&'static str),
    /// The time is a number of ticks, as the kernel and trace-cmd print the times of a clock that does not count ns.
    Ticks,
    /// The line has the form of an event, but not the event's fields.
    Fields,
}

impl Wrong {
    pub fn message(self) -> String {
        match self {
            Wrong::Shape | Wrong::Fields => "is not a line of a trace".to_owned(),
            Wrong::Lacks(field) => format!("has no {field}"),
            Wrong::Ticks => {
                "has a time without a unit, from a clock that does not count ns".to_owned()
            }
        }
    }

    pub fn expected(self) -> &'static str {
        match self {
            Wrong::Shape => {
                "expected a line of ftrace's text or of perf script, such as `task-1 [000] d.... 1.000001: sched_switch: ...`"
            }
            Wrong::Lacks(_) => {
                "expected each event's CPU and time; print them with `perf script --fields comm,tid,cpu,time,event,trace`"
            }
            Wrong::Ticks => {
                "expected seconds, such as `1.000001:`; record with a clock that counts ns, such as `mono` (`trace-cmd record -C mono`)"
            }
            Wrong::Fields => "expected the fields of this event, as the kernel prints them",
        }
    }
}

/// Reads `line`. A line that has the form of an event is an event, even if the name of its thread is `#1` or `version`.
pub fn read(line: &str) -> Result<Read<'_>, Wrong> {
    let Some(head) = head(line) else {
        return heading(line.trim()).ok_or(Wrong::Shape);
    };
    let Head {
        cpu,
        interrupt,
        at,
        rest,
    } = head;
    // Lines of the function tracer and of stack traces have no name of an event.
    let event = match (name(rest), lost(rest)) {
        (Some((name, fields)), _) => event(name, fields).ok_or(Wrong::Fields)?,
        (None, Some(lost)) => return Ok(Read::Lost(lost)),
        (None, None) => Tracepoint::Other,
    };
    Ok(Read::Event(Line {
        cpu,
        at,
        interrupt,
        event,
    }))
}

/// The beginnings of the last lines of `trace-cmd report -w`.
const SUMMARY: [&str; 3] = [
    "Average wakeup latency: ",
    "Maximum Latency: ",
    "Minimum Latency: ",
];

/// Reads a line between the events, or before or after them: ftrace's heading `#P:8`, the headings of `trace-cmd report`
/// (`cpus=8`, `version = 6` and `CPU 1 is empty`) and its summary, the headings of Android's atrace, and the rounds of
/// `perf script --show-round-events`.
fn heading(line: &str) -> Option<Read<'_>> {
    // `num_online_cpus()` and `_SC_NPROCESSORS_CONF`.
    let online = line.rsplit_once("#P:").filter(|_| line.starts_with('#'));
    if let Some(online) = online.and_then(|(_, cpus)| cpus.parse().ok()) {
        return Some(Read::Online(online));
    }
    if let Some(cpus) = line.strip_prefix("cpus=").and_then(|it| it.parse().ok()) {
        return Some(Read::Cpus(cpus));
    }
    let empty = line.to_ascii_lowercase();
    let empty = empty
        .strip_prefix("cpu")
        .and_then(|rest| rest.strip_suffix(" is empty"));
    let is_empty = empty.is_some_and(|cpu| cpu.trim().parse::<usize>().is_ok());
    let is_atrace = matches!(line, "TRACE:" | "capturing trace... done");
    let is_summary = SUMMARY.iter().any(|start| line.starts_with(start));
    let is_round = line.starts_with("PERF_RECORD_") && !line.contains(' ');
    let is_other = line.is_empty() || line.starts_with('#') || line.starts_with("version =");
    match is_empty || is_atrace || is_summary || is_round || is_other {
        true => Some(Read::Nothing),
        false => lost(line).map(Read::Lost),
    }
}

/// The number of events that ftrace has overwritten, from the heading `# entries-in-buffer/entries-written: 90/100`.
pub fn overwritten(line: &str) -> Option<u64> {
    let counts = line.strip_prefix("# entries-in-buffer/entries-written:")?;
    let (kept, written) = counts.split_whitespace().next()?.split_once('/')?;
    written.parse::<u64>().ok()?.checked_sub(kept.parse().ok()?)
}

/// The reason why `line`, which does not have the form of an event, is wrong. If it has the name of an event, the words
/// before the name show the reason.
pub fn missing(line: &str) -> Wrong {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_name = |word: &&str| {
        let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
        word.ends_with(':') && word.contains('_') && word.bytes().all(of_name)
    };
    let Some(event) = words.iter().position(is_name) else {
        return Wrong::Shape;
    };
    let head = &words[..event];
    let has_cpu = head.iter().any(|word| word.starts_with('['));
    let mut times = head.iter().filter_map(|word| word.strip_suffix(':'));
    match times.next_back() {
        Some(time) if time.parse::<u64>().is_ok() => Wrong::Ticks,
        Some(time) if time.parse::<f64>().is_ok() && has_cpu => Wrong::Shape,
        Some(time) if time.parse::<f64>().is_ok() => Wrong::Lacks("CPU"),
        _ => Wrong::Lacks("time"),
    }
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

/// The number of lost events, from `CPU:2 [LOST 12 EVENTS]` of ftrace, `CPU:2 [12 EVENTS DROPPED]` of trace-cmd,
/// or `PERF_RECORD_LOST lost 12` of perf.
fn lost(line: &str) -> Option<u64> {
    let number = |text: &str| text.split_whitespace().find_map(|word| word.parse().ok());
    if let Some((cpu, inside)) = line.strip_prefix("CPU:").and_then(|it| it.split_once(" ["))
        && cpu.parse::<usize>().is_ok()
        && (inside.contains("LOST") || inside.contains("DROPPED"))
    {
        return Some(number(inside.trim_end_matches(']')).unwrap_or(1));
    }
    let (_, lost) = line.split_once("PERF_RECORD_LOST")?;
    Some(number(lost.trim_start_matches("_SAMPLES")).unwrap_or(1))
}

struct Head<'a> {
    cpu: usize,
    interrupt: bool,
    /// The time in ns.
    at: u64,
    rest: &'a str,
}

/// Reads the head of `line`. The CPU is in the first brackets that contain a number and precede a time and the name of
/// an event; a task's name may have brackets and even a time, too. ftrace's latency format has the CPU before the
/// flags.
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
    let first = heads.next().or_else(|| latency_format(line))?;
    match name(first.rest) {
        Some(_) => Some(first),
        None => heads.find(|it| name(it.rest).is_some()).or(Some(first)),
    }
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
        if !(4..=7).contains(&flags.len()) || !matches!(flags[0], b'.' | b'b' | b'd' | b'D' | b'X')
        {
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

/// Do ftrace's `flags` show an interrupt? They are irqs off, need_resched, context, preempt count and more. The context
/// is `h` or `H` in a hard interrupt, `s` in a softirq, and `z` or `Z` in an NMI. No other flag has these letters
/// (`trace_print_lat_fmt()` in the kernel's kernel/trace/trace_output.c). Kernels with the older patches of PREEMPT_RT
/// have one more flag before the context.
fn is_interrupt(flags: &[u8]) -> bool {
    let in_context = |flag: &u8| matches!(flag, b'h' | b'H' | b's' | b'z' | b'Z');
    flags.iter().any(in_context)
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

/// Reads a text such as `12.000345: `.
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
/// a period before the name and modifiers after it: `1 sched:sched_switch:k: ...`. `trace-cmd report --ts-diff` prints
/// the time since the previous event: `(+12) sched_switch: ...`.
fn name(rest: &str) -> Option<(&str, &str)> {
    let mut rest = rest.trim_start();
    if let Some((word, after)) = rest.split_once(' ') {
        let inside = word.strip_prefix("(+").and_then(|it| it.strip_suffix(')'));
        let number = inside.unwrap_or(word);
        if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
            rest = after.trim_start();
        }
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
        Kind::Wakeup if was_awake(fields) => Some(Tracepoint::Other),
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

/// Was the task of a wakeup already awake? Linux before 4.3 says so after the task's name and pid. A name can have the
/// same words.
fn was_awake(fields: &str) -> bool {
    let is_name = |rest: &str| rest.contains(" pid=") || rest.contains(" [");
    all_keys(fields, "success").any(|(_, rest)| rest.starts_with('0') && !is_name(rest))
}

struct Text<'a>([&'a str; MOST_FIELDS]);

impl<'a> Text<'a> {
    /// Finds the values of an event in its `text`. Each value extends to the key of the next value. A key may also be
    /// the field's name in tracefs, as `trace-cmd report -R` prints it. All keys but the first are searched from the
    /// end, because a thread may be called `a pid=1`.
    fn of(kind: Kind, text: &'a str) -> Option<Text<'a>> {
        let mut values = [""; MOST_FIELDS];
        let (first, others) = kind.row().fields.split_first()?;
        let begins = |key: &str| all_keys(text, key).next();
        let (_, mut left) = begins(first.key).or_else(|| begins(first.name))?;
        for (index, field) in others.iter().enumerate().rev() {
            let last = |key: &str| all_keys(left, key).last();
            let (before, value) = last(field.key).or_else(|| last(field.name))?;
            values[index + 1] = value.trim_end_matches(" ==>");
            left = before;
        }
        values[0] = left;
        Some(Text(values))
    }
}

/// The text before each word `key=`, and the text after it.
fn all_keys<'a>(text: &'a str, key: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    text.match_indices(key).filter_map(move |(start, key)| {
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
        number(self.0[index])
    }

    fn state(&self, index: usize) -> Option<State> {
        state(self.0[index])
    }
}

/// The number at the beginning of `text`. ftrace's option `fields` prints `0x78 (120)`.
fn number(text: &str) -> Option<i64> {
    if let Some(hex) = text.strip_prefix("0x") {
        let digits = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        let number = u64::from_str_radix(&hex[..digits], 16).ok()?;
        return Some(number.cast_signed());
    }
    let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
    let digits = text.bytes().take_while(is_digit).count();
    text[..digits].parse().ok()
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
const DEAD_BITS: i64 = 0x10 | 0x20 | 0x40;
/// The bits of a task that does not run. A preempted task has a higher state.
const STATE_BITS: i64 = 0xff;

/// The state in letters, such as `S` or `R+`, or in bits. `x` is `TASK_DEAD` of kernels before 4.14.
fn state(text: &str) -> Option<State> {
    let text = text.trim();
    Some(match (number(text), text.as_bytes().first()?) {
        (Some(bits), _) if bits & DEAD_BITS != 0 => State::Dead,
        (Some(bits), _) if bits & STATE_BITS != 0 => State::Blocked,
        (Some(_), _) | (None, b'R') => State::Runnable,
        (None, letter) if !letter.is_ascii_alphabetic() => return None,
        (None, _) if text.contains(['X', 'Z', 'x']) => State::Dead,
        (None, _) => State::Blocked,
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
mod tests;
