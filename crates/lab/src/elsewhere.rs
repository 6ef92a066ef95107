//! A foreign scheduler is native code, so its simulations run elsewhere: in processes without privileges, which can
//! only report results ([`crate::work`]). This side requests runs, and accepts only reports that are possible.
//!
//! A worker is a separate process, without this process's environment, memory, terminal or files. A worker builds the
//! machine and the workload from their descriptions ([`Recipe`]), drops the rights that it will not need, and forks a
//! process for each run, which loads the scheduler, drops the remaining rights, and simulates. Messages are
//! length-prefixed plain values (`wire`).

mod check;
mod judged;
pub(crate) mod wire;

pub use judged::Judge;
pub use wire::{Described, Recipe};

use check::Expected;
use machine::Machine;
use native::{Global, Object};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use simulator::{Error, FAULT_STATUS, Outcome, Trace};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use wire::{Job, Reply, Request, send};
use workload::Workload;

/// The polling interval for a request to stop, in ns.
const LOOK_EVERY_NS: i64 = 50_000_000;

/// The status that is reported for a process that made no progress and was ended.
pub(crate) const LOST: u8 = 125;

/// The number of bytes of a worker's standard error that are kept.
const MOST_SAID: usize = 1 << 14;

/// The command that starts a worker: a program that calls [`crate::work`].
pub type Start = Arc<dyn Fn() -> Command + Send + Sync>;

/// The workers of a scheduler, as many as there are concurrent runs.
pub(crate) struct Workers {
    start: Start,
    job: Vec<u8>,
    scheduler: String,
    idle: Mutex<Vec<Worker>>,
}

/// The client's side of a worker.
struct Worker {
    process: Child,
    /// Carries requests, and the exit codes of the processes of their runs. These processes, which contain a scheduler,
    /// have only `replies` and `errors`.
    control: UnixStream,
    replies: ChildStdout,
    errors: ChildStderr,
    said: Vec<u8>,
    /// The part of the next reply read so far.
    read: Vec<u8>,
}

impl Workers {
    /// The workers for `object` with `globals`, called `scheduler`, on the machine and workload of `recipe`.
    pub fn new(
        start: Start,
        recipe: &Recipe,
        scheduler: &str,
        object: &Object,
        globals: &[Global],
    ) -> Workers {
        let job = Job::new(recipe, scheduler, object, globals);
        Workers {
            start,
            job: wire::encode(&job),
            scheduler: scheduler.to_owned(),
            idle: Mutex::default(),
        }
    }

    /// Runs `workload` on `machine`, which the recipe describes.
    pub fn run(
        &self,
        machine: &Machine,
        workload: &dyn Workload,
        request: Request,
        trace: Option<&mut dyn Trace>,
        stop: &AtomicBool,
    ) -> Result<Outcome, Error> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let worker = idle().pop();
        let mut worker = match worker {
            Some(worker) => worker,
            None => self
                .started()
                .map_err(|error| self.fault(&format!("its process cannot be started: {error}")))?,
        };
        let result = match worker.say(&wire::encode(&request)) {
            // The worker ended before this request, and has reported why.
            Err(_) => Err(Trouble::Ended(None)),
            Ok(()) => worker.listen(Expected::new(machine, workload, trace), stop),
        };
        match result {
            Ok(result) => {
                idle().push(worker);
                result
            }
            Err(Trouble::Stopped) => Err(Error::Stopped),
            Err(Trouble::Unbelievable(what)) => Err(self.fault(&format!(
                "its process sent an impossible message ({what}); expected a scheduler that writes only to its own memory"
            ))),
            Err(Trouble::Ended(code)) => Err(self.end(worker, code)),
        }
    }

    fn started(&self) -> io::Result<Worker> {
        let (control, its) = UnixStream::pair()?;
        let mut command = (self.start)();
        // SAFETY: the function makes a system call.
        unsafe { command.pre_exec(cage::inherit_nothing) };
        let mut process = command
            .stdin(OwnedFd::from(its))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let missing = || io::Error::other("no pipe");
        let mut worker = Worker {
            control,
            replies: process.stdout.take().ok_or_else(missing)?,
            errors: process.stderr.take().ok_or_else(missing)?,
            process,
            said: Vec::new(),
            read: Vec::new(),
        };
        // If the worker has ended, the next request for a run reports why.
        let _ = worker.say(&self.job);
        Ok(worker)
    }

    fn fault(&self, what: &str) -> Error {
        Error::Fault(format!("scheduler `{}`: {what}", self.scheduler))
    }

    /// The reason why the run of `worker` ended: the run's process ended with `code`, or else the worker itself ended.
    fn end(&self, mut worker: Worker, code: Option<u8>) -> Error {
        if code.is_some() {
            let _ = worker.process.kill();
        }
        let status = worker.process.wait();
        let code = code.map(i32::from);
        let room = MOST_SAID.saturating_sub(worker.said.len());
        let _ = (&mut worker.errors)
            .take(room as u64)
            .read_to_end(&mut worker.said);
        let said = quoted(&String::from_utf8_lossy(&worker.said));
        let code = match (code, status) {
            (Some(code), _) => code,
            (None, Ok(status)) => cage::shell_status(status),
            (None, Err(error)) => return self.fault(&format!("its process is lost: {error}")),
        };
        match code {
            // If the message is ours, it describes the fault completely.
            FAULT_STATUS if said.starts_with("scheduler `") && !said.contains('\n') => {
                Error::Fault(said)
            }
            code => self.fault(&why(code, &said)),
        }
    }
}

/// The longest text of a process that is shown, in characters.
const MOST_SHOWN: usize = 1024;

/// The text `said` of a process, as a part of a message. Further lines are indented, so that none looks like another
/// message.
fn quoted(said: &str) -> String {
    let lines: Vec<_> = said.trim().lines().map(cage::text::plain).collect();
    lines.join("\n  ").chars().take(MOST_SHOWN).collect()
}

fn why(code: i32, said: &str) -> String {
    let what = match code.checked_sub(128) {
        Some(libc::SIGSYS) => {
            "made a system call, which a BPF program cannot do, by another architecture's rules or behind blocked signals; \
             expected functions of sched_ext and BPF"
                .to_owned()
        }
        Some(libc::SIGABRT) if said.contains("memory allocation") => {
            "used more than a simulation's 8 GiB of memory; expected less".to_owned()
        }
        Some(libc::SIGKILL) => {
            "was killed, probably because memory ran out or a day of CPU time was used up; expected less of both"
                .to_owned()
        }
        Some(signal) if (1..64).contains(&signal) => {
            format!("was ended by signal {signal}; expected a scheduler that writes only to its own memory")
        }
        _ if code == i32::from(LOST) => {
            "did not return from a call, or from being loaded, which the kernel's verifier refuses; expected loops with an \
             end"
                .to_owned()
        }
        _ => format!(
            "ended without a result (status {code}); expected a scheduler that does not exit"
        ),
    };
    match said {
        "" => format!("its process {what}"),
        said => format!("its process {what}\n  {said}"),
    }
}

/// The reason why there is no result of a run.
enum Trouble {
    Stopped,
    /// The process of the run ended, or the worker did.
    Ended(Option<u8>),
    Unbelievable(&'static str),
}

impl Worker {
    fn say(&mut self, message: &[u8]) -> io::Result<()> {
        send(&mut self.control, message)
    }

    /// Receives the reports of the requested run until it is over.
    fn listen(
        &mut self,
        mut expected: Expected<'_, '_>,
        stop: &AtomicBool,
    ) -> Result<Result<Outcome, Error>, Trouble> {
        let (mut result, mut code) = (None, None);
        loop {
            while let Some(length) = self.whole(expected.longest())? {
                if result.is_some() {
                    return Err(Trouble::Unbelievable("data after the result"));
                }
                let reply = wire::decode::<Reply<'_>>(&self.read[4..length]);
                let over = match reply.ok_or(Trouble::Unbelievable("no message"))? {
                    Reply::Events(events) => {
                        expected.events(events).map_err(Trouble::Unbelievable)?;
                        None
                    }
                    Reply::Done(outcome) => {
                        expected.outcome(&outcome).map_err(Trouble::Unbelievable)?;
                        Some(Ok(*outcome))
                    }
                    Reply::Failed(failed) => Some(Err(wire::safe(failed))),
                };
                self.read.drain(..length);
                result = over;
            }
            match (code, result.take()) {
                (None, none_or_some) => result = none_or_some,
                (Some(0), Some(result)) if self.read.is_empty() => return Ok(result),
                (Some(code), _) => return Err(Trouble::Ended(Some(code))),
            }
            code = self.wait(stop)?;
        }
    }

    /// The length, with its prefix, of the next message if that has been read completely.
    fn whole(&self, longest: usize) -> Result<Option<usize>, Trouble> {
        let Some(length) = self.read.first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > longest {
            return Err(Trouble::Unbelievable("a message that is too long"));
        }
        Ok((self.read.len() >= 4 + length).then_some(4 + length))
    }

    /// Waits for data and reads it. Returns the exit code of the run's process, once all its data has been read.
    fn wait(&mut self, stop: &AtomicBool) -> Result<Option<u8>, Trouble> {
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: LOOK_EVERY_NS,
        };
        let mut buffer = [0; 1 << 16];
        let (over, replies, errors) = {
            let mut all = [
                PollFd::new(&self.control, PollFlags::IN),
                PollFd::new(&self.replies, PollFlags::IN),
                PollFd::new(&self.errors, PollFlags::IN),
            ];
            // An interrupted wait is handled like a wait without a result.
            let _ = poll(&mut all, Some(&look));
            all.map(|one| one.revents()).into()
        };
        if stop.load(Ordering::Relaxed) {
            return Err(Trouble::Stopped);
        }
        if errors.contains(PollFlags::IN) {
            let read = self.errors.read(&mut buffer).unwrap_or(0);
            let room = MOST_SAID.saturating_sub(self.said.len());
            self.said.extend_from_slice(&buffer[..read.min(room)]);
        }
        if replies.contains(PollFlags::IN) {
            // If data cannot be read, the run ends without a result.
            let read = self.replies.read(&mut buffer).unwrap_or(0);
            self.read.extend_from_slice(&buffer[..read]);
            // Output that was written before the end of the run comes first.
            return Ok(None);
        }
        if over.is_empty() {
            return Ok(None);
        }
        let mut code = [0];
        match self.control.read(&mut code) {
            Ok(1) => Ok(Some(code[0])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Ok(_) | Err(_) => Err(Trouble::Ended(None)),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The process of a run ends with its worker.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    #[test]
    fn no_process_reports_that_its_run_was_stopped() {
        assert!(matches!(wire::safe(Error::Stopped), Error::Object(_)));
        let fault = wire::safe(Error::Fault("\u{1b}[2J".to_owned()));
        assert!(matches!(&fault, Error::Object(_)) && cage::text::is_plain(&fault.to_string()));
    }

    #[test]
    fn words_of_a_process_are_no_message_of_their_own() {
        assert_eq!(
            quoted("one\nerror: two\u{1b}\n"),
            "one\n  error: two\\u{1b}"
        );
        assert_eq!(quoted(&"x".repeat(5000)).len(), MOST_SHOWN);
    }

    #[test]
    fn the_error_names_the_signal_that_ended_a_process() {
        let killed = ExitStatus::from_raw(libc::SIGKILL);
        assert!(why(128 + libc::SIGSYS, "").contains("a system call"));
        let no_memory = "memory allocation of 9 bytes failed";
        assert!(why(128 + libc::SIGABRT, no_memory).contains("8 GiB of memory"));
        assert!(why(cage::shell_status(killed), "").contains("was killed"));
        assert!(
            why(cage::shell_status(ExitStatus::from_raw(7 << 8)), "what")
                .ends_with("(status 7); expected a scheduler that does not exit\n  what")
        );
    }
}
