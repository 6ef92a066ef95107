//! `equipoise record`: records the kernel's scheduler while a command runs, as a `trace.dat` or
//! directly as a workload.

use crate::busy::{self, Watch};
use crate::cli::Record;
use crate::error::Error;
use crate::import;
use crate::interrupt::{self, STOP};
use crate::output::{self, Staged};
use crate::say;
use crate::tracefs::{Buffer, Instance};
use machine::Machine;
use machine::input::BadInput;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use workload::import::{MARK, MOST_OTHERS_PCT};

/// How often the recorder checks whether to stop: each check takes a CPU from the load.
const LOOK_MS: u32 = 200;
/// The time of the first check for other load.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// Records, and writes the recording, also after Ctrl-C.
pub fn run(args: &Record) -> Result<(), Error> {
    let workload = match args.output.extension().and_then(|it| it.to_str()) {
        Some("dat") if args.machine.is_some() => {
            return Err(bad(
                format!("--machine for {}, which is a trace", args.output.display()),
                "expected --output FILE.json for a workload; for a trace, give --machine to `workload import`",
            ));
        }
        Some("dat") => None,
        Some("json") => Some(machine(args)?),
        _ => {
            return Err(bad(
                format!("{}: unknown kind of recording", args.output.display()),
                &output::listed_extension(
                    &args.output,
                    ".dat (trace-cmd's trace) or .json (a workload)",
                ),
            ));
        }
    };
    let cannot = |error: io::Error| {
        let root = match rustix::process::geteuid().is_root() {
            true => "",
            false => " (this requires root, or a writable tracefs)",
        };
        Error::Write(format!("cannot record: {error}{root}"))
    };
    // Preparations may take a while, and after a signal their files must be removed.
    interrupt::listen_to_end();
    let mut recorder = Recorder::new(args).map_err(cannot)?;
    let status = recorder.record(args)?;
    let lost = recorder.instance.lost();
    say_calls(&recorder.instance);
    let mut staged = Staged::default();
    let mut bytes = Vec::new();
    staged.add(&args.output, |out| match &workload {
        None => recorder
            .write(out)
            .map_err(|it| Error::write(&args.output, &it)),
        Some(machine) => {
            recorder.write(&mut bytes).map_err(cannot)?;
            let name = args.output.display().to_string();
            let imported = workload::import::import(&name, &bytes[..], Some(machine))?;
            import::say(&imported.summary);
            import::say_periods(&imported.recording);
            let text = import::text(&imported.recording)?;
            out.write_all(text.as_bytes())
                .map_err(|it| Error::write(&args.output, &it))
        }
    })?;
    drop(recorder);
    staged.commit()?;
    let size = fs::metadata(&args.output).map_or(0, |file| file.len());
    say!(
        "{}: {:.1} MB, {lost} events lost",
        args.output.display(),
        size as f64 / 1e6
    );
    if lost > 0 {
        say!(
            "warning: because of lost events, runs are too long and wakeups are missing; try --buffer"
        );
    }
    match status {
        0 => Ok(()),
        _ => Err(Error::Command(status)),
    }
}

/// Prints a summary of the calls on pipes and sockets.
fn say_calls(instance: &Instance) {
    let Some((calls, refused)) = instance.calls() else {
        return;
    };
    for what in refused {
        say!("note: without {what}");
    }
    if calls.seen > 0 {
        say!(
            "{} calls were probed; each took about {} ns longer, which counts as work",
            calls.seen,
            calls.cost_ns
        );
    }
    if calls.missed > 0 {
        say!("warning: {} more were missed", calls.missed);
    }
}

/// The machine of the option, or this computer.
fn machine(args: &Record) -> Result<Machine, Error> {
    match &args.machine {
        Some(name) => Ok(Machine::find(name)?),
        None => {
            let found = crate::detect::this()?;
            let file = found.machine_file("detected");
            Ok(Machine::parse("detected.toml", &file.text)?)
        }
    }
}

/// Buffers are dropped before their instance, which otherwise could not be removed.
struct Recorder {
    buffers: Vec<Spooled>,
    instance: Instance,
}

/// A CPU's buffer, and the pages taken from it, in a file without a name.
struct Spooled {
    buffer: Buffer,
    file: BufWriter<File>,
    pages: u64,
}

impl Recorder {
    fn new(args: &Record) -> io::Result<Recorder> {
        let mut instance = Instance::new(args.buffer.saturating_mul(1024), args.pipes)?;
        if args.futexes {
            instance.enable_futexes()?;
        }
        let folder = args.output.parent().filter(|it| *it != Path::new(""));
        let folder = folder.unwrap_or(Path::new("."));
        let spooled = |buffer| {
            Ok(Spooled {
                buffer,
                file: BufWriter::new(tempfile::tempfile_in(folder)?),
                pages: 0,
            })
        };
        let buffers = instance.buffers()?.into_iter().map(spooled);
        Ok(Recorder {
            buffers: buffers.collect::<io::Result<_>>()?,
            instance,
        })
    }

    /// Records until the recorded process ends, or the user ends it. Returns the command's status,
    /// 0 without a command.
    fn record(&mut self, args: &Record) -> Result<i32, Error> {
        let failed = |error: io::Error| Error::Write(format!("cannot record: {error}"));
        let watch = Watch::begin().filter(|_| !args.all);
        self.instance.switch(true).map_err(failed)?;
        if args.futexes {
            let call = format!("{MARK}futex {}", libc::SYS_futex);
            self.instance.mark(&call).map_err(failed)?;
        }
        for thread in threads(std::process::id() as i32) {
            self.mark("recorder", thread).map_err(failed)?;
        }
        let mut command = None;
        let end = match args.pid {
            Some(pid) => {
                let end = process(pid)?;
                for thread in busy::family(pid).into_iter().flat_map(threads) {
                    self.mark("load", thread).map_err(failed)?;
                }
                Some(end)
            }
            None if args.all => None,
            None => {
                let child = start(&args.command)?;
                self.mark("load", child.id() as i32).map_err(failed)?;
                let end = process(child.id() as i32)?;
                command = Some(child);
                Some(end)
            }
        };
        let since = Instant::now();
        let limit = args.seconds;
        let load = args
            .pid
            .or(command.as_ref().map(|child: &Child| child.id() as i32));
        let (mut is_busy, mut next_look) = (false, FIRST_LOOK);
        loop {
            let (ended, half_full) = self.wait(end.as_ref()).map_err(failed)?;
            let over = limit.is_some_and(|limit| since.elapsed() >= limit);
            let ends = ended || over || STOP.load(Ordering::Relaxed);
            if !is_busy && (ends || since.elapsed() >= next_look) {
                // Each check takes a CPU from the load, so checks become rare.
                next_look *= 2;
                is_busy = watch.as_ref().is_some_and(|watch| warns(watch, load));
            }
            if ends {
                break;
            }
            // Taking pages takes a CPU from the load.
            if half_full {
                for spooled in &mut self.buffers {
                    spooled.drain(false).map_err(failed)?;
                }
            }
        }
        self.instance.switch(false).map_err(failed)?;
        for spooled in &mut self.buffers {
            spooled.drain(true).map_err(failed)?;
        }
        finish(command).map_err(failed)
    }

    /// Writes to the trace the role of a thread, and its affinity.
    fn mark(&self, what: &str, thread: i32) -> io::Result<()> {
        let name = fs::read_to_string(format!("/proc/{thread}/comm")).unwrap_or_default();
        let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
        let mut lines = status.lines();
        if let Some(cpus) = lines.find_map(|line| line.strip_prefix("Cpus_allowed:")) {
            // The kernel prints words of 32 bits; the first CPUs are in the last word.
            let words: Vec<&str> = cpus.trim().rsplitn(3, ',').take(2).collect();
            let mask: String = words.into_iter().rev().collect();
            let mask = u64::from_str_radix(&mask, 16).unwrap_or(u64::MAX);
            let mut first = self
                .buffers
                .iter()
                .map(|it| it.buffer.cpu)
                .take_while(|&cpu| cpu < 64);
            if first.any(|cpu| mask & 1 << cpu == 0) {
                self.instance
                    .mark(&format!("{MARK}cpus {thread} {mask:x}"))?;
            }
        }
        self.instance
            .mark(&format!("{MARK}{what} {thread} {}", name.trim_end()))
    }

    /// Waits until a buffer is half full, for a limited time. Returns whether the recorded process has
    /// ended, and whether a buffer is.
    fn wait(&self, end: Option<&OwnedFd>) -> io::Result<(bool, bool)> {
        let buffers = self.buffers.iter().map(|it| &it.buffer.pipe);
        let mut fds: Vec<PollFd<'_>> = buffers.map(|it| PollFd::new(it, PollFlags::IN)).collect();
        fds.extend(end.map(|end| PollFd::new(end, PollFlags::IN)));
        let timeout = Duration::from_millis(LOOK_MS.into());
        match poll(&mut fds, Some(&timeout.try_into().unwrap_or_default())) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = |fds: &[PollFd<'_>]| fds.iter().any(|it| !it.revents().is_empty());
        let (buffers, end) = fds.split_at(self.buffers.len());
        Ok((ready(end), ready(buffers)))
    }

    /// Writes the recording as a `trace.dat`.
    fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let cpus = self.buffers.last().map_or(0, |last| last.buffer.cpu + 1);
        let pages = |cpu| {
            let there = self.buffers.iter().find(|it| it.buffer.cpu == cpu);
            there.map_or(0, |it| it.pages as usize)
        };
        let pages: Vec<usize> = (0..cpus).map(pages).collect();
        out.write_all(&self.instance.head()?.bytes(&pages))?;
        for spooled in &mut self.buffers {
            spooled.file.flush()?;
            spooled.file.get_mut().rewind()?;
            io::copy(spooled.file.get_mut(), out)?;
        }
        Ok(())
    }
}

impl Spooled {
    fn drain(&mut self, all: bool) -> io::Result<()> {
        self.pages += self.buffer.drain(all, &mut self.file)?;
        Ok(())
    }
}

/// Warns if processes outside the recorded `load` use enough CPU time for `validate` to
/// fail.
fn warns(watch: &Watch, load: Option<i32>) -> bool {
    let Some(others) = watch.others(load) else {
        return false;
    };
    let is_busy = others.pct + others.stolen_pct > MOST_OTHERS_PCT;
    if is_busy {
        say!(
            "warning: this computer is busy: {}; the load waits for them in the recording, but not in a replay",
            others.words()
        );
    }
    is_busy
}

fn start(command: &[OsString]) -> Result<Child, Error> {
    let (program, arguments) = command.split_first().unwrap_or_else(|| {
        unreachable!("the command line has a command, where it has neither --pid nor --all")
    });
    Command::new(program)
        .args(arguments)
        .spawn()
        .map_err(|error| {
            bad(
                format!("{}: {error}", program.display()),
                "expected a command that can be run",
            )
        })
}

/// The command's status; ends the command if it still runs.
fn finish(command: Option<Child>) -> io::Result<i32> {
    let Some(mut child) = command else {
        return Ok(0);
    };
    if child.try_wait()?.is_none()
        && let Some(pid) = Pid::from_raw(child.id() as i32)
    {
        // The command may have ended just now.
        let _ = kill_process(pid, Signal::TERM);
        return Ok(0);
    }
    Ok(child.wait()?.code().unwrap_or(1))
}

/// A descriptor that becomes readable when process `pid` ends.
fn process(pid: i32) -> Result<OwnedFd, Error> {
    let fd = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    match fd {
        Some(Ok(fd)) => Ok(fd),
        _ => Err(bad(
            format!("--pid {pid}: no such process"),
            "expected the pid of a running process",
        )),
    }
}

/// The threads of process `pid`.
fn threads(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let names = entries.flatten().flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

fn bad(message: String, expected: &str) -> Error {
    Error::Input(Box::new(BadInput::whole(message, expected)))
}
