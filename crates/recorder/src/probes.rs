//! Probes of kernel functions (`Documentation/trace/kprobetrace.rst`). They record the functions that read and write
//! pipes and Unix sockets, with the pipe or socket and the number of bytes, and the functions that set an affinity, or
//! a policy with its slice. The probed fields require Linux 6.9 or later.

use btf_rs::{Btf, Type};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The name of the events' group, which the recorder's pid follows.
const GROUP: &str = "equipoise_";

/// The largest number of threads in a function at a time (`KRETPROBE_MAXACTIVE_MAX`). Calls by more threads are missed.
const MOST_AT_A_TIME: u32 = 4096;

/// A kernel function whose returns are events.
struct Function {
    name: &'static str,
    /// The recorded fields. `PEER` stands for the offset of `unix_sock::peer`.
    fetch: &'static str,
    filter: &'static str,
}

/// The recorded events and their functions. A writer's object is its peer, which reads the bytes. A
/// call that only looks (`MSG_PEEK`) takes no bytes.
const ALL: [(&str, &[Function]); 4] = [
    (
        "pipes",
        &[
            Function {
                name: "pipe_read",
                fetch: "object=iocb->ki_filp->private_data:x64 bytes=$retval:s64",
                filter: "bytes >= 0",
            },
            Function {
                name: "pipe_write",
                fetch: "object=iocb->ki_filp->private_data:x64 bytes=$retval:s64",
                filter: "bytes >= 0",
            },
        ],
    ),
    (
        "Unix sockets",
        &[
            Function {
                name: "unix_stream_recvmsg",
                fetch: "object=sock->sk:x64 bytes=$retval:s64 flags=flags:u32",
                filter: "bytes >= 0 && !(flags & 2)",
            },
            Function {
                name: "unix_stream_sendmsg",
                fetch: "object=+PEER(sock->sk):x64 bytes=$retval:s64",
                filter: "bytes >= 0",
            },
        ],
    ),
    (
        "changes of affinity",
        &[Function {
            name: "sched_setaffinity",
            fetch: "task=pid:s32 cpus=+0(in_mask):x64 result=$retval:s64",
            filter: "result == 0",
        }],
    ),
    (
        "requested slices",
        &[Function {
            name: "__sched_setscheduler",
            fetch: "task=p->pid:s32 policy=attr->sched_policy:s32 runtime=attr->sched_runtime:u64 result=$retval:s64",
            filter: "result == 0",
        }],
    ),
];

/// The number of measurements of a probe's cost; [`BATCH`] is the number of writes and reads in each.
const BATCHES: u64 = 65;
const BATCH: u64 = 16;

/// The probes of this process, which dropping removes. Probes record nothing until an instance
/// enables them.
pub struct Probes {
    tracefs: PathBuf,
    group: String,
    there: Vec<&'static Function>,
    /// Events that cannot be recorded, with the reasons.
    pub refused: Vec<String>,
    /// The additional time of a call with probes, in ns.
    pub cost_ns: u64,
    /// [`Probes::count`] at the start of the recording.
    pub before: [u64; 2],
}

/// The calls that were probed.
#[derive(Clone, Copy)]
pub struct Calls {
    /// The number of probed calls.
    pub seen: u64,
    /// The number of calls missed because of `MOST_AT_A_TIME`.
    pub missed: u64,
    /// The additional time of each call, in ns.
    pub cost_ns: u64,
}

impl Probes {
    /// Defines the probes that this kernel supports. Removes probes that killed recorders have
    /// left.
    pub fn new(tracefs: &Path) -> Probes {
        remove_left(tracefs);
        let mut probes = Probes {
            tracefs: tracefs.to_owned(),
            group: format!("{GROUP}{}", std::process::id()),
            there: Vec::new(),
            refused: Vec::new(),
            cost_ns: 0,
            before: [0; 2],
        };
        for (what, functions) in &ALL {
            let mut all = functions.iter();
            match all.try_for_each(|function| probes.define(function)) {
                Ok(()) => probes.there.extend(functions.iter()),
                Err(error) => probes.refused.push(format!("{what}: {error}")),
            }
        }
        probes
    }

    fn define(&self, function: &Function) -> io::Result<()> {
        let Function { name, fetch, .. } = function;
        let fetch = match fetch.contains("PEER") {
            true => fetch.replace("PEER", &peer()?.to_string()),
            false => (*fetch).to_owned(),
        };
        let group = &self.group;
        // Since Linux 6.15, pipes without a name have their own functions, which the functions of FIFOs call.
        let of_pipe = format!("anon_{name}");
        let symbols = match name.starts_with("pipe_") {
            true => vec![*name, &of_pipe],
            false => vec![*name],
        };
        let mut refused = None;
        for symbol in symbols {
            let line = format!("r{MOST_AT_A_TIME}:{group}/{name} {symbol} {fetch}");
            match define(&self.tracefs, &line) {
                Ok(()) => return Ok(()),
                Err(error) => refused.get_or_insert(error),
            };
        }
        Err(refused.expect("no symbol was taken"))
    }

    /// The events, as in the folder `events`, with the filters for calls of interest.
    pub fn events(&self) -> Vec<(String, &'static str)> {
        let event = |it: &&Function| (format!("{}/{}", self.group, it.name), it.filter);
        self.there.iter().map(event).collect()
    }

    /// The calls since the start of the recording.
    pub fn calls(&self) -> Calls {
        let now = self.count();
        let [seen, missed] = [0, 1].map(|it| now[it].saturating_sub(self.before[it]));
        Calls {
            seen,
            missed,
            cost_ns: self.cost_ns,
        }
    }

    /// The kernel's counts of calls and of missed calls.
    pub fn count(&self) -> [u64; 2] {
        let text = fs::read_to_string(self.tracefs.join("kprobe_profile")).unwrap_or_default();
        let mut all = [0; 2];
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [event, seen, missed] = words[..]
                && self.there.iter().any(|function| function.name == event)
            {
                all[0] += seen.parse().unwrap_or(0);
                all[1] += missed.parse().unwrap_or(0);
            }
        }
        all
    }
}

/// The time of writing a byte to a pipe, or reading it, in ns, which is the median of many measurements.
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

/// Removes probes of recorders that have ended.
pub fn remove_left(tracefs: &Path) {
    let folders = fs::read_dir(tracefs.join("events")).into_iter().flatten();
    for folder in folders.flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(GROUP);
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = define(tracefs, &format!("-:{name}/"));
        }
    }
}

fn define(tracefs: &Path, line: &str) -> io::Result<()> {
    let path = tracefs.join("kprobe_events");
    let named = |error: io::Error| {
        let message = format!("{}: {error}", path.display());
        io::Error::new(error.kind(), message)
    };
    let file = OpenOptions::new().append(true).open(&path);
    file.map_err(named)?
        .write_all(line.as_bytes())
        .map_err(named)
}

/// The offset of `peer` in `unix_sock`, in bytes.
fn peer() -> io::Result<u32> {
    let path = "/sys/kernel/btf/vmlinux";
    let failed = |message: String| io::Error::other(format!("{path}: {message}"));
    let btf = Btf::from_file(path).map_err(|error| failed(error.to_string()))?;
    let types = btf.resolve_types_by_name("unix_sock").unwrap_or_default();
    let mut offsets = types.iter().filter_map(|it| match it {
        Type::Struct(it) => {
            let mut members = it.members.iter();
            let peer =
                members.find(|member| btf.resolve_name(*member).is_ok_and(|it| it == "peer"));
            Some(peer?.bit_offset() / 8)
        }
        _ => None,
    });
    offsets
        .next()
        .ok_or_else(|| failed("no unix_sock with a peer".to_owned()))
}
