//! A sched_ext scheduler in the kernel, and the program that keeps it there.

use crate::Fault;
use crate::guard::Part;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a loader may take to end after SIGINT; then it is killed.
const POLITE: Duration = Duration::from_secs(10);
/// How long the kernel may take to return to its own scheduler.
const UNLOADS: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);
/// The number of lines that a message quotes of the loader's.
const QUOTED: usize = 3;

/// A loader.
pub struct Loader {
    child: Child,
    part: Part,
    output: File,
    sched_ext: PathBuf,
    was_loaded: bool,
}

impl Loader {
    /// Starts `command`; `sched_ext` is the kernel's folder of that name.
    pub fn start(part: Part, command: &[OsString], sched_ext: PathBuf) -> Result<Loader, Fault> {
        let failed =
            |error: std::io::Error| Fault::System(format!("cannot start a loader: {error}"));
        let output = tempfile::tempfile().map_err(failed)?;
        let copy = || output.try_clone().map(Stdio::from).map_err(failed);
        let (program, options) = command
            .split_first()
            .unwrap_or_else(|| unreachable!("a loader is a program"));
        let mut command = Command::new(program);
        // Ctrl-C is for the trial, which ends the loader.
        command
            .args(options)
            .stdin(Stdio::null())
            .stdout(copy()?)
            .stderr(copy()?)
            .process_group(0);
        let child = part.spawn(&mut command);
        let child =
            child.map_err(|error| Fault::Scheduler(format!("{}: {error}", program.display())))?;
        Ok(Loader {
            child,
            part,
            output,
            sched_ext,
            was_loaded: false,
        })
    }

    fn state(&self) -> String {
        let text = fs::read_to_string(self.sched_ext.join("state")).unwrap_or_default();
        text.trim().to_owned()
    }

    /// Does the kernel run its scheduler?
    pub fn is_loaded(&self) -> bool {
        self.state() == "enabled"
    }

    /// An error that says what happened, if the loader has ended or its scheduler was thrown out.
    pub fn check(&mut self) -> Result<(), String> {
        let state = self.state();
        self.was_loaded |= state == "enabled";
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(format!("its loader ended {}{}", with(status), self.said()));
        }
        if self.was_loaded && state != "enabled" {
            // Its loader is about to print the reason.
            let began = Instant::now();
            while matches!(self.child.try_wait(), Ok(None))
                && began.elapsed() < Duration::from_secs(2)
            {
                sleep(LOOK);
            }
            return Err(format!("the kernel unloaded it{}", self.said()));
        }
        Ok(())
    }

    /// The loader's last lines, after a colon; the line in which scx's loaders print the reason of the end, if
    /// there is one.
    pub fn said(&self) -> String {
        let mut text = Vec::new();
        let read = self.output.try_clone().and_then(|mut output| {
            output.rewind()?;
            output.read_to_end(&mut text)
        });
        let text = String::from_utf8_lossy(&text);
        match read.map(|_| quoted(&text)) {
            Ok(said) if !said.is_empty() => format!(": {said}"),
            _ => String::new(),
        }
    }

    /// Ends the loader, and waits until the kernel's own scheduler runs.
    pub fn end(mut self) -> Result<(), Fault> {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32)
            && matches!(self.child.try_wait(), Ok(None))
        {
            let _ = kill_process(pid, Signal::INT);
        }
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < POLITE {
            sleep(LOOK);
        }
        let killed = self.part.kill();
        let _ = self.child.wait();
        let stuck =
            |what: String| Fault::System(format!("the scheduler cannot be unloaded: {what}"));
        killed.map_err(|error| stuck(error.to_string()))?;
        let began = Instant::now();
        while self.state() != "disabled" {
            if began.elapsed() > UNLOADS {
                return Err(stuck(format!("the kernel's state is {}", self.state())));
            }
            sleep(LOOK);
        }
        Ok(())
    }
}

/// `with status 1`, `by signal 9`.
pub fn with(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("with status {code}"),
        (None, signal) => format!("by signal {}", signal.unwrap_or(0)),
    }
}

/// What a message quotes of a loader's output.
fn quoted(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .collect();
    // scx_utils' UEI report, which follows what the kernel dumps.
    if let Some(reason) = lines.iter().rev().find(|it| it.contains("EXIT:")) {
        return (*reason).to_owned();
    }
    lines[lines.len().saturating_sub(QUOTED)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_quoted_else_the_last_lines() {
        assert_eq!(quoted("a\n\nb\nc\nd\n"), "b; c; d");
        let dump = "DEBUG DUMP\n====\nEXIT: runnable task stall (x[1] failed to run for 30 s)\nError: ended\n";
        assert_eq!(
            quoted(dump),
            "EXIT: runnable task stall (x[1] failed to run for 30 s)"
        );
        assert_eq!(quoted(""), "");
    }
}
