//! A sched_ext scheduler in the kernel, and the program that keeps it there.

use super::kmsg::Log;
use super::said::{Said, with};
use crate::Fault;
use crate::guard::Part;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time limit for a loader to end after SIGINT, after which it is killed.
const POLITE: Duration = Duration::from_secs(10);
/// The time limit for the kernel to return to its own scheduler.
const UNLOADS: Duration = Duration::from_secs(60);
/// The time after the end of a loader. A scheduler that is still loaded then has no BPF link.
const OUTLIVES: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

pub struct Loader {
    child: Child,
    part: Part,
    said: Said,
    log: Log,
    sched_ext: PathBuf,
    /// The number of schedulers that the kernel had loaded before.
    earlier: String,
    was_loaded: bool,
}

impl Loader {
    /// Starts `command`; `sched_ext` is the kernel's folder of that name.
    pub fn start(part: Part, command: &[OsString], sched_ext: PathBuf) -> Result<Loader, Fault> {
        let failed =
            |error: std::io::Error| Fault::System(format!("cannot start a loader: {error}"));
        let (program, options) = command
            .split_first()
            .unwrap_or_else(|| unreachable!("a loader is a program"));
        let mut command = Command::new(program);
        // Ctrl-C must reach only the trial, which ends the loader.
        command.args(options).stdin(Stdio::null()).process_group(0);
        let said = Said::by(&mut command).map_err(failed)?;
        let (log, earlier) = (Log::from_now(), read(&sched_ext, "enable_seq"));
        let child = part.spawn(&mut command);
        let child =
            child.map_err(|error| Fault::Scheduler(format!("{}: {error}", program.display())))?;
        Ok(Loader {
            child,
            part,
            said,
            log,
            sched_ext,
            earlier,
            was_loaded: false,
        })
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Does the kernel run the loader's scheduler?
    pub fn is_loaded(&self) -> bool {
        state(&self.sched_ext) == "enabled"
    }

    /// Returns an error, which says what happened, if the loader has ended or the kernel has unloaded its scheduler.
    pub fn check(&mut self) -> Result<(), String> {
        // A scheduler may be loaded and unloaded between two checks. Read the number first: it changes after the state.
        let was_loaded = read(&self.sched_ext, "enable_seq") != self.earlier;
        let state = state(&self.sched_ext);
        self.was_loaded |= was_loaded || state == "enabled";
        self.said.forget();
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(format!("its loader ended {}{}", with(status), self.why()));
        }
        if self.was_loaded && state != "enabled" {
            // Wait, because the loader is about to print the reason.
            let began = Instant::now();
            while matches!(self.child.try_wait(), Ok(None))
                && began.elapsed() < Duration::from_secs(2)
            {
                sleep(LOOK);
            }
            return Err(format!("the kernel unloaded it{}", self.why()));
        }
        Ok(())
    }

    /// The reason that the loader or the kernel has given for the scheduler's end, else the loader's last lines, after a
    /// colon.
    pub fn why(&mut self) -> String {
        match self.said.reason().or_else(|| self.log.reason()) {
            Some(why) => format!(": {why}"),
            None => self.said.last(),
        }
    }

    /// Ends the loader, and waits until the kernel's own scheduler runs.
    pub fn end(mut self) -> Result<(), Fault> {
        if matches!(self.child.try_wait(), Ok(None)) {
            interrupt(&self.child);
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
        unload(&self.sched_ext).map_err(stuck)
    }
}

/// Sends SIGINT to the process group of a loader, as Ctrl-C in a terminal does. The loader may be a script, which waits
/// for the program that it has started.
fn interrupt(loader: &Child) {
    if let Some(pid) = Pid::from_raw(loader.id() as i32) {
        let _ = kill_process_group(pid, Signal::INT);
    }
}

/// Waits until the kernel's own scheduler runs. Call this after the end of every loader. A scheduler without a BPF link
/// outlives its loader; the kernel unloads it on request (SysRq-S, kernel/sched/ext.c).
pub fn unload(sched_ext: &Path) -> Result<(), String> {
    let began = Instant::now();
    let mut is_asked = false;
    loop {
        let state = state(sched_ext);
        if state == "disabled" {
            return Ok(());
        }
        if began.elapsed() > OUTLIVES && !is_asked {
            is_asked = true;
            let asked = fs::write("/proc/sysrq-trigger", "S");
            asked.map_err(|error| {
                format!("its loader has left it there, and SysRq-S failed: {error}")
            })?;
        }
        if began.elapsed() > UNLOADS {
            return Err(format!("the kernel's state is {state}"));
        }
        sleep(LOOK);
    }
}

/// The state of the kernel's sched_ext, such as `enabled` or `disabled`; empty if the kernel has no sched_ext.
pub fn state(sched_ext: &Path) -> String {
    read(sched_ext, "state")
}

fn read(sched_ext: &Path, file: &str) -> String {
    let text = fs::read_to_string(sched_ext.join(file)).unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};

    /// A broken scheduler may keep the trial itself from running until the kernel has unloaded it.
    #[test]
    fn a_scheduler_that_was_never_seen_loaded_is_seen_unloaded() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
        write("state", "disabled\n");
        write("enable_seq", "3\n");
        let group = folder.path().join("group");
        fs::create_dir(&group).unwrap();
        fs::write(group.join("cgroup.procs"), "").unwrap();
        let part = Part { folder: group };
        let command = ["sleep", "60"].map(OsString::from);
        let mut loader = Loader::start(part, &command, folder.path().to_owned()).unwrap();
        assert_eq!(loader.check(), Ok(()));
        write("enable_seq", "4\n");
        assert!(loader.check().unwrap_err().contains("unloaded it"));
        loader.child.kill().unwrap();
    }

    #[test]
    fn a_script_that_starts_a_loader_ends_at_once() {
        let mut script = Command::new("bash")
            .args(["-c", "(exec cat); true"])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The program runs when it answers; between its start by bash and its first instruction bash may lose a signal.
        script.stdin.as_ref().unwrap().write_all(b"x\n").unwrap();
        let mut out = BufReader::new(script.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        interrupt(&script);
        let began = Instant::now();
        while matches!(script.try_wait(), Ok(None)) && began.elapsed() < POLITE {
            sleep(LOOK);
        }
        let ended = script.try_wait().unwrap();
        script.kill().unwrap();
        assert!(ended.is_some(), "bash waits for the program");
    }
}
