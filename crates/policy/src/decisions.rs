//! The scheduler's reasons: `scheduler/decisions.def` in Rust, with the words of its rows.

use bytemuck::{Pod, Zeroable};
use std::borrow::Cow;

/// A decision that the scheduler makes for one reason.
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    /// The row.
    pub row: DecisionRow,
    /// The row's name.
    pub name: &'static str,
    /// The kind of decision.
    pub about: About,
    /// The reason, with `{name}` in place of the number of that name, and `{cpu}` in place of the CPU that the decision
    /// is about.
    pub words: &'static str,
    /// The names and kinds of the numbers on which the decision is based.
    pub numbers: &'static [(&'static str, Number)],
}

/// The kind of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// The task, which wakes up or is new, goes to the CPU.
    Placed,
    /// The task waits for the CPU.
    Queued,
    /// The task preempts the task that runs on the CPU.
    Preempts,
    /// The task does not preempt the task that runs on the CPU.
    Waits,
    /// The task runs on the CPU, and continues.
    Keeps,
    /// The task runs on the CPU, and yields to other tasks.
    Yields,
    /// The task waited on another CPU, and the CPU pulls it.
    Pulled,
    /// The task runs on another CPU, and the CPU asks for it.
    Asked,
    /// The task ran on another CPU, and is sent to the CPU.
    Sent,
    /// The CPU has nothing to run, and does not search for a task or finds none. The decision has no task.
    Idle,
    /// The CPU requests a frequency. The decision has no task.
    Frequency,
}

/// The kind of a decision's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// A time, in ns.
    Ns,
    /// The virtual time in ns by which a task is ahead of another one; negative if it is behind.
    Lead,
    /// A CPU, by its number.
    Cpu,
    /// A task, by its pid.
    Task,
    /// A utilization, load, capacity or ratio, in 1024ths.
    Of1024,
    /// A power, in 0.1 uW.
    Power,
    /// A count.
    Count,
}

macro_rules! about {
    (PLACED) => {
        About::Placed
    };
    (QUEUED) => {
        About::Queued
    };
    (PREEMPTS) => {
        About::Preempts
    };
    (WAITS) => {
        About::Waits
    };
    (KEEPS) => {
        About::Keeps
    };
    (YIELDS) => {
        About::Yields
    };
    (PULLED) => {
        About::Pulled
    };
    (ASKED) => {
        About::Asked
    };
    (SENT) => {
        About::Sent
    };
    (IDLE) => {
        About::Idle
    };
    (FREQUENCY) => {
        About::Frequency
    };
}

macro_rules! number {
    (NS) => {
        Number::Ns
    };
    (LEAD) => {
        Number::Lead
    };
    (CPU) => {
        Number::Cpu
    };
    (TASK) => {
        Number::Task
    };
    (OF_1024) => {
        Number::Of1024
    };
    (POWER) => {
        Number::Power
    };
    (COUNT) => {
        Number::Count
    };
}

macro_rules! decisions {
    ($(DECISION($name:ident, $about:ident, $($words:literal)+ $(, $number:ident($of:ident))*))*) => {
        /// The rows of `scheduler/decisions.def`, by their names in that file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, non_camel_case_types)]
        pub enum DecisionRow {
            $($name,)*
        }

        impl Decision {
            /// The decisions of all schedulers, by their numbers.
            pub const ALL: &[Decision] = &[$(Decision {
                row: DecisionRow::$name,
                name: stringify!($name),
                about: about!($about),
                words: concat!($($words),+),
                numbers: &[$((stringify!($of), number!($number))),*],
            }),*];
        }
    };
}
include!(concat!(env!("OUT_DIR"), "/decisions.rs"));

/// `struct explained`: a record of the ring buffer, with a decision that was made in Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Explained {
    /// The time of `CLOCK_MONOTONIC`, in ns.
    pub at: u64,
    /// The index in [`Decision::ALL`].
    pub decision: u32,
    /// The CPU that decided.
    pub by: u32,
    /// The pid of the task that the decision is about; 0 if the decision is about no task.
    pub pid: i32,
    /// The CPU that the decision is about; negative if the decision is about no CPU.
    pub cpu: i32,
    /// The decision's numbers, padded.
    pub numbers: [i64; 4],
}

impl Explained {
    /// The name of the map that is the ring buffer.
    pub const BUFFER: &str = "explanations";
    /// The name of the global variable, a byte, that enables the records.
    pub const SWITCH: &str = "explains";

    /// The record as one line: the time, the deciding CPU, the decision and the reason. `name` returns the name of a
    /// pid's task. `None` if `record` is not such a record.
    pub fn line<'n>(record: &[u8], name: impl Fn(i32) -> Cow<'n, str>) -> Option<String> {
        let Explained {
            at,
            decision,
            by,
            pid,
            cpu,
            numbers,
        } = bytemuck::try_pod_read_unaligned(record).ok()?;
        let task = (pid != 0).then(|| name(pid));
        let decided = Decided {
            decision: Decision::find(decision)?,
            task: task.as_deref(),
            cpu: usize::try_from(cpu).ok(),
            numbers: &numbers,
        };
        let (seconds, us) = (at / 1_000_000_000, at % 1_000_000_000 / 1_000);
        let (what, why) = (decided.what(), decided.why(name));
        Some(format!("{seconds}.{us:06} CPU {by}: {what}: {why}"))
    }
}

/// A decision with its values.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// The decision.
    pub decision: &'static Decision,
    /// The name of the task that the decision is about, if any.
    pub task: Option<&'a str>,
    /// The CPU that the decision is about, if any.
    pub cpu: Option<usize>,
    /// The decision's numbers, padded.
    pub numbers: &'a [i64],
}

impl Decision {
    /// The decision to which the scheduler gives this number.
    pub fn find(number: u32) -> Option<&'static Decision> {
        Decision::ALL.get(number as usize)
    }
}

impl Decided<'_> {
    /// The numbers with their names.
    pub fn numbers(&self) -> impl Iterator<Item = (&'static str, Number, i64)> {
        let named = self.decision.numbers.iter().zip(self.numbers);
        named.map(|(&(name, number), &value)| (name, number, value))
    }

    /// The decision in words, such as `ui goes to CPU 3`.
    pub fn what(&self) -> String {
        let cpu = self
            .cpu
            .map_or("a CPU".to_owned(), |cpu| format!("CPU {cpu}"));
        let task = self.task.unwrap_or("a task");
        match self.decision.about {
            About::Placed => format!("{task} goes to {cpu}"),
            About::Queued => format!("{task} waits for {cpu}"),
            About::Preempts => format!("{task} preempts on {cpu}"),
            About::Waits => format!("{task} does not preempt on {cpu}"),
            About::Keeps => format!("{task} keeps {cpu}"),
            About::Yields => format!("{task} yields {cpu}"),
            About::Pulled => format!("{cpu} pulls {task}"),
            About::Asked => format!("{cpu} asks for {task}"),
            About::Sent => format!("{task} is sent to {cpu}"),
            About::Idle => format!("{cpu} stays idle"),
            About::Frequency => format!("{cpu} requests a frequency"),
        }
    }

    /// The reason, with its numbers; `name` returns the name of a pid's task.
    pub fn why<'n>(&self, name: impl Fn(i32) -> Cow<'n, str>) -> String {
        let mut words = self.decision.words.to_owned();
        if let Some(cpu) = self.cpu {
            words = words.replace("{cpu}", &format!("CPU {cpu}"));
        }
        for (number, counts, value) in self.numbers() {
            let text = match counts {
                Number::Ns => time(value),
                Number::Lead if value < 0 => format!("{} behind", time(value.saturating_neg())),
                Number::Lead => format!("{} ahead of", time(value)),
                Number::Cpu => format!("CPU {value}"),
                Number::Task => name(value as i32).into_owned(),
                // C uses this value if the task does not fit the CPU.
                Number::Power if value < 0 => "too little capacity".to_owned(),
                Number::Power => format!("{:.3} mW", value as f64 / 1e4),
                Number::Of1024 if words.contains(&format!("{{{number}}} %")) => {
                    format!("{:.0}", value as f64 * 100.0 / 1024.0)
                }
                Number::Of1024 | Number::Count => value.to_string(),
            };
            if counts == Number::Count && value == 1 {
                // Use the singular: "wait" is the only verb that follows a number of tasks.
                words = words
                    .replace(
                        &format!("{{{number}}} tasks already wait"),
                        "1 task already waits",
                    )
                    .replace(&format!("{{{number}}} tasks"), "1 task");
            }
            words = words.replace(&format!("{{{number}}}"), &text);
        }
        words
    }
}

/// `ns` as text, rounded to three digits.
pub fn time(ns: i64) -> String {
    let (unit, name) = match ns.unsigned_abs() {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = ns as f64 / unit;
    let digits = match value.abs() {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_have_all_of_the_numbers_and_no_others() {
        let mut names = HashSet::new();
        for decision in Decision::ALL {
            assert!(names.insert(decision.name), "{} twice", decision.name);
            assert!(decision.numbers.len() <= 4, "{}", decision.name);
            for (number, _) in decision.numbers {
                let place = format!("{{{number}}}");
                assert!(
                    decision.words.contains(&place),
                    "{}: {number}",
                    decision.name
                );
            }
            let said = Decided {
                decision,
                task: Some("ui"),
                cpu: Some(3),
                numbers: &[1, 2, 3, 4],
            };
            let said = said.why(|pid| format!("task {pid}").into());
            assert!(!said.contains(['{', '}']), "{said}");
        }
    }

    #[test]
    fn a_decision_is_said_in_words() {
        let decision = Decision::ALL
            .iter()
            .find(|decision| decision.name == "too_early");
        let decided = Decided {
            decision: decision.unwrap(),
            task: Some("ui"),
            cpu: Some(3),
            numbers: &[1007, 420_000, -1_250_000, 1_000_000],
        };
        assert_eq!(decided.what(), "ui does not preempt on CPU 3");
        assert_eq!(
            decided.why(|pid| format!("render {pid}").into()),
            "render 1007 had run for 420 us, and its deadline was 1.25 ms behind this task's; a preemption \
             required 1.00 ms"
        );
    }

    #[test]
    fn a_record_of_the_ring_buffer_is_a_line() {
        let decision = Decision::ALL
            .iter()
            .position(|decision| decision.name == "target_idle");
        let mut record = Explained {
            at: 12_000_345_678,
            decision: decision.unwrap() as u32,
            by: 1,
            pid: 77,
            cpu: 3,
            numbers: [2, 0, 0, 0],
        };
        let line = |record: &Explained| {
            Explained::line(bytemuck::bytes_of(record), |pid| format!("sh {pid}").into())
        };
        assert_eq!(
            line(&record).unwrap(),
            "12.000345 CPU 1: sh 77 goes to CPU 3: idle, and it last ran or was woken up here; it last ran on CPU 2"
        );
        record.decision = 1000;
        assert_eq!(line(&record), None);
        assert_eq!(Explained::line(&[0; 7], |_| "".into()), None);
    }

    #[test]
    fn times_have_three_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_234, "1.23 us"),
            (12_345, "12.3 us"),
            (999_999, "1000 us"),
            (-8_000_000, "-8.00 ms"),
            (1_204_000_000, "1.20 s"),
        ] {
            assert_eq!(time(ns), text);
        }
    }
}
