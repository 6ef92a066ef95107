//! Records the scheduling of this computer's kernel as a `trace.dat`, with an instance of its own in
//! tracefs, and observes the load by other processes.
//!
//! - A [`Recorder`] enables the events that its [`Options`] name, copies the pages of the kernel's ring
//!   buffers, and writes the file.
//! - An [`Instance`] is a folder of tracefs, which is removed at the end.
//! - [`busy`] has the busy time of all CPUs, from which the time of other processes follows.
//!
//! ```no_run
//! use recorder::{Events, Options, Recorder, wait};
//!
//! let folder = std::env::temp_dir();
//! let options = Options { buffer_kib: 4096, events: Events::All, pipes: false, futexes: false, folder: &folder };
//! let mut recorder = Recorder::new(&options)?;
//! recorder.begin()?;
//! wait(None, std::time::Duration::from_secs(1))?;
//! recorder.end()?;
//! recorder.write(&mut std::fs::File::create("trace.dat")?)?;
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod busy;
mod probes;
mod process;
mod tracefs;

pub use probes::Calls;
pub use process::{end, exit_of, text, threads};
pub use tracefs::{Events, Instance, sweep};

use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};
use trace::import::{GAP, MARK, WINDOW};
use tracefs::Buffer;

/// The events to record, and the place for them.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The size of the kernel's buffer for each CPU, in KiB.
    pub buffer_kib: u32,
    /// The events of the kernel's scheduler.
    pub events: Events,
    /// Should pipes, sockets and affinities be recorded, too, with kernel probes?
    pub pipes: bool,
    /// Should calls of futex(2) be recorded, too?
    pub futexes: bool,
    /// The folder for the events, in files without names.
    pub folder: &'a Path,
}

/// A recorder. Buffers are dropped before their instance, because an instance with open buffers cannot be removed.
pub struct Recorder {
    buffers: Vec<Spooled>,
    futexes: bool,
    /// The instance in tracefs.
    pub instance: Instance,
}

/// A CPU's buffer, and the pages taken from it, in a file without a name.
struct Spooled {
    buffer: Buffer,
    file: BufWriter<File>,
    pages: u64,
}

/// The events that [`Recorder::wait`] has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Has the observed process ended?
    pub ended: bool,
    /// Is a buffer half full?
    pub half_full: bool,
}

impl Recorder {
    /// Makes the instance, which does not yet record. It is an error if tracefs is not mounted or not writable.
    pub fn new(options: &Options<'_>) -> io::Result<Recorder> {
        let Options {
            buffer_kib,
            events,
            pipes,
            futexes,
            ..
        } = *options;
        let instance = Instance::new(buffer_kib, events, futexes, pipes)?;
        let spooled = |buffer| {
            Ok(Spooled {
                buffer,
                file: BufWriter::new(tempfile::tempfile_in(options.folder)?),
                pages: 0,
            })
        };
        let buffers = instance.buffers()?.into_iter().map(spooled);
        Ok(Recorder {
            buffers: buffers.collect::<io::Result<_>>()?,
            futexes: options.futexes,
            instance,
        })
    }

    /// Starts to record. This process is not part of the load.
    pub fn begin(&self) -> io::Result<()> {
        self.instance.switch(true)?;
        if self.futexes {
            let call = format!("{MARK}futex {}", libc::SYS_futex);
            self.instance.mark(&call)?;
        }
        if let Some((calls, _)) = self.instance.calls() {
            self.instance
                .mark(&format!("{MARK}probe {}", calls.cost_ns))?;
        }
        for thread in threads(std::process::id() as i32) {
            self.mark("recorder", thread)?;
        }
        Ok(())
    }

    /// Prepares a recording in windows. Between windows, the kernel writes no frequent events, because they cost time.
    pub fn begin_windows(&self) -> io::Result<()> {
        self.instance.switch_events(false)?;
        self.instance.switch(true)
    }

    /// Begins a window, in which `load` are the threads of the load. This process and `others` are not part of the
    /// load. Returns the time at which the window began.
    pub fn open(&self, load: &[i32], others: &[i32]) -> io::Result<Instant> {
        self.instance.mark(WINDOW)?;
        let own = threads(std::process::id() as i32);
        for thread in own.iter().chain(others) {
            self.instance.mark(&format!("{MARK}recorder {thread}"))?;
        }
        for thread in load {
            self.instance.mark(&format!("{MARK}load {thread}"))?;
        }
        let began = Instant::now();
        self.instance.switch_events(true)?;
        Ok(began)
    }

    /// Ends a window.
    pub fn close(&self) -> io::Result<()> {
        self.instance.switch_events(false)?;
        self.instance.mark(GAP)
    }

    /// Stops recording, and reads the remaining events from the buffers.
    pub fn end(&mut self) -> io::Result<()> {
        self.instance.switch(false)?;
        self.drain(true)
    }

    /// Takes the pages out of each buffer until it is empty or, unless `all` is set, a page is less than half full.
    /// This takes a CPU from the load.
    pub fn drain(&mut self, all: bool) -> io::Result<()> {
        for spooled in &mut self.buffers {
            spooled.pages += spooled.buffer.drain(all, &mut spooled.file)?;
        }
        Ok(())
    }

    /// Writes to the trace the role of a thread (`load`, `recorder`), its affinity, and its slice.
    pub fn mark(&self, what: &str, thread: i32) -> io::Result<()> {
        let name = text(format!("/proc/{thread}/comm")).unwrap_or_default();
        let status = text(format!("/proc/{thread}/status")).unwrap_or_default();
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
        if let Some(ns) = process::slice(thread) {
            self.instance.mark(&format!("{MARK}slice {thread} {ns}"))?;
        }
        self.instance
            .mark(&format!("{MARK}{what} {thread} {}", name.trim_end()))
    }

    /// Waits until the process of `end` has ended or a buffer is half full, for at most `time`.
    pub fn wait(&self, end: Option<&OwnedFd>, time: Duration) -> io::Result<Seen> {
        let buffers = self.buffers.iter().map(|it| &it.buffer);
        let buffers = buffers.filter(|it| it.is_there).map(|it| &it.pipe);
        waited(buffers.map(|it| PollFd::new(it, PollFlags::IN)), end, time)
    }

    /// Writes the recording as a `trace.dat`.
    pub fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
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

/// Waits until the process of `end` has ended, for at most `time`.
pub fn wait(end: Option<&OwnedFd>, time: Duration) -> io::Result<Seen> {
    waited(std::iter::empty(), end, time)
}

fn waited<'a>(
    buffers: impl Iterator<Item = PollFd<'a>>,
    end: Option<&'a OwnedFd>,
    time: Duration,
) -> io::Result<Seen> {
    let mut fds: Vec<PollFd<'_>> = buffers.collect();
    let count = fds.len();
    fds.extend(end.map(|end| PollFd::new(end, PollFlags::IN)));
    match poll(&mut fds, Some(&time.try_into().unwrap_or_default())) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let ready = |fds: &[PollFd<'_>]| fds.iter().any(|it| !it.revents().is_empty());
    let (buffers, end) = fds.split_at(count);
    Ok(Seen {
        ended: ready(end),
        half_full: ready(buffers),
    })
}
