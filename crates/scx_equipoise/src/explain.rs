//! `--explain`: prints each of the scheduler's decisions on a line.

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use machine::counted;
use policy::Explained;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// The largest number of task names that are remembered. When there are more, all names are looked up again.
const MOST_NAMES: usize = 4096;
/// The time after which a name is looked up again. A task is renamed when it executes a program, and pids are reused.
const REMEMBERED: Duration = Duration::from_millis(50);

/// Prints the decisions in `buffer` at each call of `RingBuffer::consume`: all decisions or, if `task` is given, only
/// those about the task with this name or pid.
pub fn printer(buffer: &dyn MapCore, task: Option<String>) -> Result<RingBuffer<'static>> {
    let names = Names::default();
    let mut builder = RingBufferBuilder::new();
    builder.add(buffer, move |record| {
        let is_shown = Cell::new(task.is_none());
        let line = Explained::line(record, |pid| {
            let name = names.of(pid);
            let is_it = task.as_deref().is_some_and(|task| is(task, &name, pid));
            is_shown.set(is_shown.get() || is_it);
            Cow::Owned(format!("{name} ({pid})"))
        });
        let line = line.as_deref().unwrap_or("unknown decision");
        if is_shown.get() {
            // If a reader closes standard output, the scheduler stays loaded.
            let _ = writeln!(io::stdout().lock(), "{line}");
        }
        0
    })?;
    builder
        .build()
        .context("cannot listen to the scheduler's decisions")
}

/// Is `task`, as the user calls it, the name or the pid of this task?
fn is(task: &str, name: &str, pid: i32) -> bool {
    task == name || task.parse() == Ok(pid)
}

/// Prints the number of lost decisions, `said` of which have already been reported.
pub fn warn_of_lost(said: &mut u64, lost: u64) {
    if lost > *said {
        let decisions = counted(lost - *said, "decision was lost", "decisions were lost");
        log::warn!("{decisions}, because there were too many to print");
        *said = lost;
    }
}

/// The names of tasks, by pid, each with the time when it was looked up.
#[derive(Default)]
struct Names(RefCell<HashMap<i32, (String, Instant)>>);

impl Names {
    fn of(&self, pid: i32) -> String {
        let mut names = self.0.borrow_mut();
        if names.len() >= MOST_NAMES {
            names.clear();
        }
        let (known, now) = (names.get(&pid), Instant::now());
        if let Some((name, since)) = known
            && now.duration_since(*since) < REMEMBERED
        {
            return name.clone();
        }
        let comm = std::fs::read(format!("/proc/{pid}/comm"));
        let name = match (comm, known) {
            // The kernel cuts names after 15 bytes, maybe within a letter.
            (Ok(comm), _) => String::from_utf8_lossy(&comm).trim_end().to_owned(),
            // The task has exited.
            (Err(_), Some((name, _))) => name.clone(),
            (Err(_), None) => "task".to_owned(),
        };
        names.insert(pid, (name.clone(), now));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Names may have spaces and hyphens.
    #[test]
    fn a_task_is_chosen_by_its_whole_name_or_pid() {
        for task in ["Web Content", "412"] {
            assert!(is(task, "Web Content", 412), "{task}");
        }
        for other in ["Content", "Web", "41", ""] {
            assert!(!is(other, "Web Content", 412), "{other}");
        }
        assert!(!is("ui", "my-ui", 412));
    }

    #[test]
    fn tasks_are_called_by_their_names() {
        let names = Names::default();
        let (own, pid) = (
            std::fs::read_to_string("/proc/self/comm").unwrap(),
            std::process::id(),
        );
        assert_eq!(names.of(pid as i32), own.trim_end());
        assert_eq!(names.of(-1), "task");
    }

    #[test]
    fn a_name_need_not_be_text() {
        let named = std::thread::spawn(|| {
            // SAFETY: the name ends with a zero.
            let renamed = unsafe { libc::prctl(libc::PR_SET_NAME, c"ui\xd0".as_ptr()) };
            assert_eq!(renamed, 0);
            // SAFETY: gettid(2) has no arguments.
            Names::default().of(unsafe { libc::gettid() })
        });
        assert_eq!(named.join().unwrap(), "ui\u{fffd}");
    }

    /// A shell's child has the shell's name until it executes a program, and keeps its last name when it has exited.
    #[test]
    fn a_task_that_executes_a_program_has_its_name() {
        let mut command = Command::new("sh");
        command.args(["-c", "read -r line; exec cat"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let names = Names::default();
        let is_called = |name: &str| {
            let began = Instant::now();
            while names.of(pid) != name && began.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(REMEMBERED / 10);
            }
            names.of(pid) == name
        };
        assert!(is_called("sh"));
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"\n").unwrap();
        assert!(is_called("cat"));
        drop(input);
        child.wait().unwrap();
        std::thread::sleep(REMEMBERED);
        assert_eq!(names.of(pid), "cat");
    }
}
