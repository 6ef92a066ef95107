//! A worker. Requests arrive on standard input, which is a socket, on which the worker also reports how the process of
//! each run ended. The reports of this process go to standard output.

use crate::elsewhere::LOST;
use crate::elsewhere::wire::{Job, Reply, Request, decode, encode, receive, send};
use crate::runs::{self, Case};
use crate::scheduler::Scheduler;
use cage::{Progress, Verdict, Watch};
use machine::input;
use native::{Global, Object};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, pidfd_open, set_parent_process_death_signal,
};
use simulator::{Event, Trace};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;

/// The size in bytes of the part of a trace that is sent at a time.
const TOLD_AT_ONCE: usize = 1 << 16;

/// Runs a worker until its client closes the socket, and returns its exit status. Call this before the process has a
/// second thread.
pub fn work() -> u8 {
    match serve() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

fn serve() -> io::Result<()> {
    // SAFETY: no other code in this program uses this descriptor.
    let mut control = unsafe { UnixStream::from_raw_fd(libc::STDIN_FILENO) };
    let Some(job) = receive(&mut control)? else {
        return Ok(());
    };
    let job: Job = decode(&job).ok_or_else(|| io::Error::other("this is not a job"))?;
    if job.uncaged {
        cage::run_uncaged();
    }
    input::give(job.files);
    let bad = |error: Box<input::BadInput>| io::Error::other(error.message().to_owned());
    let (machine, workload) = job.recipe.make().map_err(bad)?;
    let object = Object::described(&job.scheduler, job.image, job.description);
    let object = object.map_err(io::Error::other)?;
    let mut scheduler = Scheduler::compiled(Path::new(&job.scheduler), object).map_err(bad)?;
    scheduler.rename(job.scheduler);
    let globals: Vec<Global> = job
        .globals
        .into_iter()
        .map(|(symbol, bytes)| Global { symbol, bytes })
        .collect();
    let case = Case {
        machine: &machine,
        workload: &*workload,
        scheduler: &scheduler,
    };
    let progress = Progress::shared()?;
    cage::prepare()?;
    while let Some(request) = receive(&mut control)? {
        let request = decode(&request).ok_or_else(|| io::Error::other("this is not a request"))?;
        progress.reset();
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => {
                drop(control);
                let status = i32::from(run(&case, &globals, request, progress).is_err());
                // SAFETY: `_exit()` has no preconditions. The parent's exit handlers must not run twice.
                unsafe { libc::_exit(status) };
            }
            child => {
                let code = wait(child, &control, progress)?;
                control.write_all(&[code])?;
            }
        }
    }
    Ok(())
}

/// Waits for the end of a run's process, and kills the process if it makes no `progress`. Returns its status in a
/// shell's numbering, or [`LOST`]. If the client is gone, this process ends, and the run's process with it.
fn wait(child: libc::pid_t, control: &UnixStream, progress: &Progress) -> io::Result<u8> {
    let pid = Pid::from_raw(child).ok_or_else(|| io::Error::other("no child"))?;
    let ends = pidfd_open(pid, PidfdFlags::empty())?;
    let mut both = [
        PollFd::new(&ends, PollFlags::IN),
        // poll(2) reports hangups without being asked.
        PollFd::from_borrowed_fd(control.as_fd(), PollFlags::empty()),
    ];
    let look = Timespec {
        tv_sec: 0,
        tv_nsec: cage::LOOK_EVERY.subsec_nanos().into(),
    };
    let mut watch = Watch::new(progress);
    let mut is_lost = false;
    while both.iter().all(|one| one.revents().is_empty()) {
        match poll(&mut both, Some(&look)) {
            Ok(0) if !is_lost => match watch.sample(cage::cpu_time(child), has_room()) {
                Verdict::Fine => {}
                // The thread that simulates reports the place in its code, unless it blocks signals.
                Verdict::Late => {
                    let _ = interrupt(child);
                }
                Verdict::Lost => {
                    is_lost = true;
                    kill_process(pid, Signal::KILL)?;
                }
            },
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if both[0].revents().is_empty() {
        std::process::exit(0);
    }
    let mut status = 0;
    // SAFETY: the call writes only `status`.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    let code = cage::shell_status(ExitStatus::from_raw(status));
    Ok(if is_lost { LOST } else { code as u8 })
}

/// Does the pipe for the results have room? If not, the run's process may be waiting for the reader.
fn has_room() -> bool {
    let stdout = io::stdout();
    let mut pipe = [PollFd::new(&stdout, PollFlags::OUT)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // If poll() fails, the pipe counts as having room, so that the time limit applies.
    poll(&mut pipe, Some(&now)) != Ok(0)
}

/// Asks the main thread of `child` to report the place in its code.
fn interrupt(child: libc::pid_t) -> io::Result<()> {
    // SAFETY: the call sends a signal to this process's child.
    match unsafe { libc::syscall(libc::SYS_tgkill, child, child, libc::SIGXCPU) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn run(
    case: &Case<'_>,
    globals: &[Global],
    request: Request,
    progress: &'static Progress,
) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    simulator::report_scheduler_faults(case.scheduler.name(), progress);
    // SAFETY: no other code in this process uses this descriptor.
    let mut told = Told {
        to: unsafe { File::from_raw_fd(libc::STDOUT_FILENO) },
        events: Vec::new(),
    };
    let trace = request.traced.then_some(&mut told as &mut dyn Trace);
    let result = runs::simulate_here(case, globals, &request, trace);
    told.tell();
    let reply = match result {
        Ok(outcome) => Reply::Done(Box::new(outcome)),
        Err(error) => Reply::Failed(error),
    };
    let sent = send(&mut told.to, &encode(&reply));
    // The descriptor is closed when the process ends.
    std::mem::forget(told);
    sent
}

/// The events of a run, on their way to the client.
struct Told {
    to: File,
    events: Vec<u8>,
}

impl Told {
    fn tell(&mut self) {
        if self.events.is_empty() {
            return;
        }
        let message = encode(&Reply::Events(&self.events));
        let sent = send(&mut self.to, &message).and_then(|()| self.to.flush());
        if sent.is_err() {
            // The client is gone.
            std::process::abort();
        }
        self.events.clear();
    }
}

impl Trace for Told {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        if let Event::Decision { .. } = event {
            return;
        }
        let event = (now, cpu as u32, event);
        self.events = postcard::to_extend(&event, std::mem::take(&mut self.events))
            .expect("writing to memory does not fail");
        if self.events.len() >= TOLD_AT_ONCE {
            self.tell();
        }
    }
}
