//! Probes of the kernel's functions that read and write pipes and Unix sockets (`Documentation/trace/kprobetrace.rst`): an
//! event at the end of each call, with the pipe or socket and the bytes.

use btf_rs::{Btf, Type};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What the events' group is called; the recorder's pid follows.
const GROUP: &str = "equipoise_";

/// So many threads at a time may be in a function (`KRETPROBE_MAXACTIVE_MAX`): calls of more are missed.
const MOST_AT_A_TIME: u32 = 4096;

/// What is probed and where in its arguments the object is, `PEER` for the offset of `unix_sock::peer`. A writer's peer is
/// whose bytes are read.
const FUNCTIONS: [(&str, &str); 4] = [
    ("pipe_read", "iocb->ki_filp->private_data"),
    ("pipe_write", "iocb->ki_filp->private_data"),
    ("unix_stream_recvmsg", "sock->sk"),
    ("unix_stream_sendmsg", "+PEER(sock->sk)"),
];

/// How many measurements tell what a probe costs, of how many writes and reads each.
const BATCHES: u64 = 65;
const BATCH: u64 = 16;

/// `MSG_PEEK`: who only looks takes nothing.
const PEEK: u32 = 2;

/// The probes of this process, which are removed when it is dropped. They record nothing until an instance enables them.
pub struct Probes {
    tracefs: PathBuf,
    group: String,
    /// How much longer a call takes with them, ns.
    pub cost_ns: u64,
    /// [`Probes::count`] when recording begins.
    pub before: [u64; 2],
}

/// Calls that were probed.
#[derive(Clone, Copy)]
pub struct Calls {
    pub seen: u64,
    /// There were too many at a time.
    pub missed: u64,
    /// How much longer each took, ns.
    pub cost_ns: u64,
}

impl Probes {
    /// Defines them. Those that killed recorders left are removed.
    pub fn new(tracefs: &Path) -> io::Result<Probes> {
        remove_left(tracefs);
        let probes = Probes {
            tracefs: tracefs.to_owned(),
            group: format!("{GROUP}{}", std::process::id()),
            cost_ns: 0,
            before: [0; 2],
        };
        let peer = format!("+{}", peer()?);
        for (function, object) in FUNCTIONS {
            let flags = match function {
                "unix_stream_recvmsg" => " flags=flags:u32",
                _ => "",
            };
            let object = object.replace("+PEER", &peer);
            define(
                tracefs,
                &format!(
                    "r{MOST_AT_A_TIME}:{}/{function} {function} object={object}:x64 bytes=$retval:s64{flags}",
                    probes.group
                ),
            )?;
        }
        Ok(probes)
    }

    /// The events, as in the folder `events`, and which of them are of interest.
    pub fn events(&self) -> impl Iterator<Item = (String, String)> {
        FUNCTIONS.iter().map(|(function, _)| {
            let filter = match *function {
                "unix_stream_recvmsg" => format!("bytes >= 0 && !(flags & {PEEK})"),
                _ => "bytes >= 0".to_owned(),
            };
            (format!("{}/{function}", self.group), filter)
        })
    }

    /// Since recording began.
    pub fn calls(&self) -> Calls {
        let now = self.count();
        let [seen, missed] = [0, 1].map(|it| now[it].saturating_sub(self.before[it]));
        Calls {
            seen,
            missed,
            cost_ns: self.cost_ns,
        }
    }

    /// How many calls the kernel says there were, and how many of them were missed.
    pub fn count(&self) -> [u64; 2] {
        let text = fs::read_to_string(self.tracefs.join("kprobe_profile")).unwrap_or_default();
        let mut all = [0; 2];
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [event, seen, missed] = words[..]
                && FUNCTIONS.iter().any(|(function, _)| *function == event)
            {
                all[0] += seen.parse().unwrap_or(0);
                all[1] += missed.parse().unwrap_or(0);
            }
        }
        all
    }
}

/// What writing a byte to a pipe or reading it takes, ns: the median of many.
pub fn call_ns() -> io::Result<u64> {
    let (mut reader, mut writer) = io::pipe()?;
    let mut times = Vec::new();
    for _ in 0..BATCHES {
        let since = Instant::now();
        for _ in 0..BATCH {
            writer.write_all(&[0])?;
            reader.read_exact(&mut [0])?;
        }
        times.push(since.elapsed().as_nanos() as u64 / (2 * BATCH));
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

impl Drop for Probes {
    fn drop(&mut self) {
        let _ = define(&self.tracefs, &format!("-:{}/", self.group));
    }
}

/// Those of recorders that are no more.
fn remove_left(tracefs: &Path) {
    let folders = fs::read_dir(tracefs.join("events")).into_iter().flatten();
    for folder in folders.flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(GROUP);
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = define(tracefs, &format!("-:{name}/"));
        }
    }
}

/// Gives the kernel a line about probes.
fn define(tracefs: &Path, line: &str) -> io::Result<()> {
    let path = tracefs.join("kprobe_events");
    let named = |error: io::Error| {
        let message = format!("{}: {error}", path.display());
        io::Error::new(error.kind(), message)
    };
    let file = OpenOptions::new().append(true).open(&path);
    file.map_err(named)?.write_all(line.as_bytes()).map_err(named)
}

/// Where in `unix_sock` its peer is, bytes.
fn peer() -> io::Result<u32> {
    let path = "/sys/kernel/btf/vmlinux";
    let failed = |message: String| io::Error::other(format!("{path}: {message}"));
    let btf = Btf::from_file(path).map_err(|error| failed(error.to_string()))?;
    let types = btf.resolve_types_by_name("unix_sock").unwrap_or_default();
    let mut offsets = types.iter().filter_map(|it| match it {
        Type::Struct(it) => {
            let mut members = it.members.iter();
            let peer = members.find(|member| btf.resolve_name(*member).is_ok_and(|it| it == "peer"));
            Some(peer?.bit_offset() / 8)
        }
        _ => None,
    });
    offsets.next().ok_or_else(|| failed("no unix_sock with a peer".to_owned()))
}
