//! `--explain`: prints each of the scheduler's decisions on a line.

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use machine::counted;
use policy::Explained;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Write};

/// The largest number of task names that are remembered. When there are more, all names are looked up again, because
/// pids are reused.
const MOST_NAMES: usize = 4096;

/// Prints the decisions in `buffer` at each call of `RingBuffer::consume`: all decisions or, if `task` is given, only
/// those about the task with this name or pid.
pub fn printer(buffer: &dyn MapCore, task: Option<String>) -> Result<RingBuffer<'static>> {
    let names = Names::default();
    let mut builder = RingBufferBuilder::new();
    builder.add(buffer, move |record| {
        let line = Explained::line(record, |pid| names.of(pid));
        let line = line.as_deref().unwrap_or("unknown decision");
        if task.as_deref().is_none_or(|task| concerns(line, task)) {
            // If a reader closes standard output, the scheduler stays loaded.
            let _ = writeln!(io::stdout().lock(), "{line}");
        }
        0
    })?;
    builder
        .build()
        .context("cannot listen to the scheduler's decisions")
}

/// Does a decision's `line` name the task? The task appears as `NAME (PID)`.
fn concerns(line: &str, task: &str) -> bool {
    let is_word_end = |before: &str| !before.ends_with(|c: char| c.is_alphanumeric());
    let name = format!("{task} (");
    let named = line
        .match_indices(&name)
        .any(|(at, _)| is_word_end(&line[..at]));
    named || line.contains(&format!(" ({task})"))
}

/// Prints the number of lost decisions, `said` of which have already been reported.
pub fn warn_of_lost(said: &mut u64, lost: u64) {
    if lost > *said {
        let decisions = counted(lost - *said, "decision was lost", "decisions were lost");
        log::warn!("{decisions}, because there were too many to print");
        *said = lost;
    }
}

/// The names of tasks.
#[derive(Default)]
struct Names(RefCell<HashMap<i32, String>>);

impl Names {
    fn of(&self, pid: i32) -> Cow<'static, str> {
        let mut names = self.0.borrow_mut();
        if names.len() >= MOST_NAMES {
            names.clear();
        }
        let name = names.entry(pid).or_insert_with(|| {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            comm.map_or_else(|_| "task".to_owned(), |comm| comm.trim_end().to_owned())
        });
        Cow::Owned(format!("{name} ({pid})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_chosen_by_name_or_pid() {
        let line = "1.000001 CPU 3: ui (412) goes to CPU 1: it idles";
        for task in ["ui", "412"] {
            assert!(concerns(line, task), "{task}");
        }
        for other in ["i", "41", "CPU", "render"] {
            assert!(!concerns(line, other), "{other}");
        }
    }

    #[test]
    fn tasks_are_called_by_their_names_and_pids() {
        let names = Names::default();
        let (own, pid) = (
            std::fs::read_to_string("/proc/self/comm").unwrap(),
            std::process::id(),
        );
        assert_eq!(names.of(pid as i32), format!("{} ({pid})", own.trim_end()));
        assert_eq!(names.of(-1), "task (-1)");
    }
}
