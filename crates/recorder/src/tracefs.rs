//! Recording with an instance of the kernel's tracefs, which does not disturb the tracing of
//! others.

use crate::probes::{self, Calls, Probes};
use crate::process::text;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use trace::write::dat_head::Head;

/// The name of the instance, which the recorder's pid follows.
const INSTANCE: &str = "equipoise-";

/// The recorded events, in the folder `events`, in three lists. Only the events of the first list are required. The
/// first two lists have the events of [`Events::Waits`].
const NEEDED: [&str; 2] = ["sched/sched_waking", "sched/sched_switch"];
const STARTS: [&str; 2] = ["sched/sched_process_fork", "sched/sched_wakeup_new"];
const WANTED: [&str; 6] = [
    "sched/sched_wakeup",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
    "sched/sched_migrate_task",
    "power/cpu_frequency",
    "power/cpu_idle",
];

/// The events to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// All events that the simulator's replay of a load uses.
    All,
    /// The starts of threads, and the switches and wakeups from which their waits follow.
    Waits,
}

/// Finds the folder where tracefs is mounted. It is an error if this process has other pids than events have.
fn mounted() -> io::Result<PathBuf> {
    check_pids(Path::new("/proc/self/ns/pid"))?;
    let mounts = text("/proc/mounts")?;
    let place = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next()? == "tracefs").then(|| PathBuf::from(place))
    });
    place.ok_or_else(|| {
        let message = "no tracefs is mounted; try `mount -t tracefs nodev /sys/kernel/tracing`";
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}

/// The inode of the first pid namespace (`PROC_PID_INIT_INO` in the kernel's include/linux/proc_ns.h).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Returns an error if `namespace`, a link to a process's pid namespace, is not the first namespace, whose pids events
/// and instances have. In another one, marks would name other threads, and the recorders of the host would seem to have
/// ended.
fn check_pids(namespace: &Path) -> io::Result<()> {
    match fs::read_link(namespace) {
        Ok(own) if own != Path::new(FIRST_NAMESPACE) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this process is in a container with its own pids, which the kernel's events lack; run it outside, or \
             with the host's pids (`docker run --pid=host`)",
        )),
        _ => Ok(()),
    }
}

/// Removes the instance of process `pid`, which is about to end or has not been waited for, and the instances
/// and probes that killed recorders have left. It is an error if an instance still has a reader.
pub fn sweep(pid: u32) -> io::Result<()> {
    let tracefs = mounted()?;
    probes::remove_left(&tracefs);
    let instances = tracefs.join("instances");
    let own = instances.join(format!("{INSTANCE}{pid}"));
    if own.exists() {
        remove(&own);
    }
    sweep_in(&instances)?;
    match own.exists() {
        true => Err(io::ErrorKind::ResourceBusy.into()),
        false => Ok(()),
    }
}

fn sweep_in(instances: &Path) -> io::Result<()> {
    for left in fs::read_dir(instances)?.flatten() {
        let name = left.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(INSTANCE);
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&left.path());
        }
    }
    Ok(())
}

/// An instance that records until it is dropped. Dropping the instance removes it from tracefs.
pub struct Instance {
    tracefs: PathBuf,
    folder: PathBuf,
    events: Vec<String>,
    probes: Option<Probes>,
    marker: Option<File>,
    /// The size of a page of the buffers, in bytes.
    pub page: usize,
}

impl Instance {
    /// Makes an instance that is ready to record into a buffer of `buffer_kb` KiB for each CPU, with calls of futex(2)
    /// if `futexes` is set, and with probes if `probes` is set. Removes instances that killed recorders have left.
    pub fn new(
        buffer_kb: u32,
        events: Events,
        futexes: bool,
        probes: bool,
    ) -> io::Result<Instance> {
        let tracefs = mounted()?;
        let instances = tracefs.join("instances");
        sweep_in(&instances)?;
        let folder = instances.join(format!("{INSTANCE}{}", std::process::id()));
        let page = page_size(&tracefs)?;
        fs::create_dir(&folder)?;
        let mut instance = Instance {
            tracefs,
            folder,
            events: Vec::new(),
            probes: None,
            marker: None,
            page,
        };
        instance.write("tracing_on", "0")?;
        // All CPUs share this clock.
        instance.write("trace_clock", "mono")?;
        instance.write("buffer_size_kb", &buffer_kb.to_string())?;
        // A reader wakes up when half of a buffer is full; older kernels wake it up sooner.
        let _ = instance.write("buffer_percent", "50");
        for event in NEEDED {
            instance.enable(event)?;
        }
        let wanted: &[&str] = match events {
            Events::All => &WANTED,
            Events::Waits => &[],
        };
        for event in STARTS.iter().chain(wanted) {
            let _ = instance.enable(event);
        }
        let marker = instance.folder.join("trace_marker");
        let opened = OpenOptions::new().write(true).open(&marker);
        instance.marker = Some(opened.map_err(|it| named(&marker, &it))?);
        let without = probes.then(probes::call_ns).transpose()?;
        if futexes {
            instance.enable_futexes()?;
        }
        if let Some(without) = without {
            instance.probes = Some(instance.probe(without)?);
        }
        Ok(instance)
    }

    fn enable(&mut self, event: &str) -> io::Result<()> {
        self.write(&format!("events/{event}/enable"), "1")?;
        self.events.push(event.to_owned());
        Ok(())
    }

    /// Makes the instance also record calls of futex(2), which slows down all system calls.
    fn enable_futexes(&mut self) -> io::Result<()> {
        let event = "raw_syscalls/sys_enter";
        let filter = format!("id == {}", libc::SYS_futex);
        self.write(&format!("events/{event}/filter"), &filter)?;
        self.enable(event)
    }

    /// Adds probes of calls, which take `without` ns without probes.
    fn probe(&mut self, without: u64) -> io::Result<Probes> {
        let mut probes = Probes::new(&self.tracefs);
        for (event, filter) in probes.events() {
            let filtered = self.write(&format!("events/{event}/filter"), filter);
            if let Err(error) = filtered.and_then(|()| self.enable(&event)) {
                probes.refused.push(format!("{event}: {error}"));
            }
        }
        self.switch(true)?;
        probes.cost_ns = probes::call_ns()?.saturating_sub(without);
        self.switch(false)?;
        // Clear the buffers, because the recording begins later.
        fs::write(self.folder.join("trace"), "")?;
        probes.before = probes.count();
        Ok(probes)
    }

    /// The number of probed calls, and the probes that failed; `None` without probes.
    pub fn calls(&self) -> Option<(Calls, &[String])> {
        let probes = self.probes.as_ref()?;
        Some((probes.calls(), &probes.refused))
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let path = self.folder.join(file);
        let mut file = OpenOptions::new()
            .write(true)
            .open(&path)
            .map_err(|it| named(&path, &it))?;
        file.write_all(text.as_bytes())
            .map_err(|it| named(&path, &it))
    }

    /// Starts or stops recording.
    pub fn switch(&self, on: bool) -> io::Result<()> {
        self.write("tracing_on", if on { "1" } else { "0" })
    }

    /// Enables or disables the frequent events, which cost the kernel time even while it records nothing. For each
    /// change the kernel modifies its code and interrupts all CPUs, so the rare events stay enabled.
    pub fn switch_events(&self, on: bool) -> io::Result<()> {
        let value = if on { "1" } else { "0" };
        let mut events = NEEDED.iter();
        events.try_for_each(|event| self.write(&format!("events/{event}/enable"), value))
    }

    /// Writes `text` among the events.
    pub fn mark(&self, text: &str) -> io::Result<()> {
        match &self.marker {
            Some(marker) => (&*marker).write_all(text.as_bytes()),
            None => Ok(()),
        }
    }

    /// The buffers of the CPUs, by number.
    pub fn buffers(&self) -> io::Result<Vec<Buffer>> {
        let mut buffers = Vec::new();
        for entry in fs::read_dir(self.folder.join("per_cpu"))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(cpu) = name.strip_prefix("cpu").and_then(|cpu| cpu.parse().ok()) else {
                continue;
            };
            let path = entry.path().join("trace_pipe_raw");
            let mut options = OpenOptions::new();
            let pipe = options
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(&path);
            let mut pipe = pipe.map_err(|it| named(&path, &it))?;
            let mut page = vec![0; self.page];
            // The instance does not record yet, so this read takes no event.
            let is_there = !pipe.read(&mut page).is_err_and(|it| lacks_buffer(&it));
            buffers.push(Buffer {
                cpu,
                pipe,
                is_there,
                page,
            });
        }
        buffers.sort_by_key(|buffer| buffer.cpu);
        Ok(buffers)
    }

    /// The number of events that were lost because a buffer was full.
    pub fn lost(&self) -> u64 {
        let stats = |cpu: fs::DirEntry| fs::read_to_string(cpu.path().join("stats")).ok();
        let cpus = fs::read_dir(self.folder.join("per_cpu"));
        let texts = cpus.into_iter().flatten().flatten().filter_map(stats);
        texts
            .map(|text| {
                let of = |key: &str| {
                    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
                    line.trim().parse::<u64>().ok()
                };
                of("overrun:").unwrap_or(0) + of("dropped events:").unwrap_or(0)
            })
            .sum()
    }

    /// The head of a `trace.dat` of this recording.
    pub fn head(&self) -> io::Result<Head> {
        let read = |file: &str| {
            let path = self.tracefs.join(file);
            read_whole(&path).map_err(|it| named(&path, &it))
        };
        let format = |event: &str| read(&format!("events/{event}/format"));
        fn system(event: &str) -> &str {
            event.split('/').next().unwrap_or_default()
        }
        let mut systems: Vec<&str> = self.events.iter().map(|event| system(event)).collect();
        systems.dedup();
        let formats = |name: &str| {
            let events = self.events.iter().filter(|event| system(event) == name);
            events.map(|event| format(event)).collect::<io::Result<_>>()
        };
        Ok(Head {
            big_endian: cfg!(target_endian = "big"),
            long: size_of::<libc::c_long>() as u8,
            page: self.page,
            header_page: read("events/header_page")?,
            header_event: read("events/header_event")?,
            ftrace: vec![format("ftrace/print")?],
            systems: systems
                .into_iter()
                .map(|name| Ok((name.to_owned(), formats(name)?)))
                .collect::<io::Result<_>>()?,
            comms: read("saved_cmdlines").unwrap_or_default(),
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // An instance with an open file cannot be removed.
        self.marker = None;
        remove(&self.folder);
    }
}

/// Removes an instance, unless it still has a reader.
fn remove(folder: &Path) {
    for file in ["tracing_on", "events/enable"] {
        let _ = fs::write(folder.join(file), "0");
    }
    let _ = fs::remove_dir(folder);
}

/// The content of `path`. Some files of tracefs give nothing after the first read.
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; 1 << 16];
    let first = file.read(&mut bytes)?;
    bytes.truncate(first);
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The size in bytes of a page of a ring buffer, which is a page of memory and differs between kernels.
fn page_size(tracefs: &Path) -> io::Result<usize> {
    let path = tracefs.join("events/header_page");
    let header = String::from_utf8_lossy(&read_whole(&path)?).into_owned();
    let data = header.lines().find(|line| line.contains(" data;"));
    let number = |key: &str| {
        let (_, rest) = data?.split_once(key)?;
        rest.split(';').next()?.parse::<usize>().ok()
    };
    let size = number("offset:").zip(number("size:"));
    let size = size.map(|(offset, size)| offset + size);
    size.filter(|&size| size >= 4096).ok_or_else(|| {
        let message = format!("{}: no page layout", path.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The recording of a CPU.
pub struct Buffer {
    pub cpu: usize,
    pub pipe: File,
    /// Did the kernel have a buffer for the CPU at the beginning? poll(2) of the pipe of a CPU without a buffer returns
    /// at once.
    pub is_there: bool,
    page: Vec<u8>,
}

/// Does `error` say that the kernel has no buffer for a CPU? A tracing instance has a folder for each possible CPU, but
/// buffers only for the CPUs that have been online since the instance was made.
fn lacks_buffer(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

impl Buffer {
    /// Moves pages to `out` until the buffer is empty or, unless `all` is set, a page is less than half full. Returns
    /// the number of pages.
    pub fn drain(&mut self, all: bool, out: &mut impl Write) -> io::Result<u64> {
        let page = &mut self.page;
        let mut pages = 0;
        loop {
            match self.pipe.read(page) {
                Ok(0) => return Ok(pages),
                Ok(count) => {
                    page[count..].fill(0);
                    out.write_all(page)?;
                    pages += 1;
                    // The page's length. The highest bits of this word are flags.
                    let length =
                        u32::from_ne_bytes([page[8], page[9], page[10], page[11]]) << 4 >> 4;
                    if !all && (length as usize) < page.len() / 2 {
                        return Ok(pages);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock || lacks_buffer(&error) => {
                    return Ok(pages);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_pids_of_the_first_namespace_only() {
        let folder = tempfile::tempdir().unwrap();
        let link = |name: &str, to: &str| {
            let link = folder.path().join(name);
            std::os::unix::fs::symlink(to, &link).unwrap();
            check_pids(&link)
        };
        link("host", FIRST_NAMESPACE).unwrap();
        let error = link("container", "pid:[4026532281]").unwrap_err();
        assert!(error.to_string().contains("container"), "{error}");
        check_pids(&folder.path().join("none")).unwrap();
    }
}
