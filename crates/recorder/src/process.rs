//! Processes to observe, and their threads.

use crate::busy::family;
use crate::wait;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time limit for a process to end after SIGTERM, after which it is killed.
const POLITE: Duration = Duration::from_secs(2);
/// The time limit for a killed process to end.
const DIES: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// A descriptor that becomes readable when process `pid` ends; `None` if there is no such process.
pub fn exit_of(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Ends process `pid`, a child of this process that was not waited for, and its descendants: by SIGTERM and, after
/// [`POLITE`], by SIGKILL.
pub fn end(pid: i32) {
    let mut left: Vec<OwnedFd> = Vec::new();
    for (signal, limit) in [(Signal::TERM, POLITE), (Signal::KILL, DIES)] {
        // Descendants whose parents end would no longer be found.
        left.extend(family(pid).into_iter().filter_map(exit_of));
        for process in &left {
            let _ = pidfd_send_signal(process, signal);
        }
        let began = Instant::now();
        while !left.is_empty() && began.elapsed() < limit {
            left.retain(|it| !wait(Some(it), LOOK).is_ok_and(|seen| seen.ended));
        }
    }
}

/// The ids of the threads of process `pid`.
pub fn threads(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let names = entries.flatten().flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

/// The content of `file` in /proc. The kernel writes the names of threads and the paths of mounts as they are, and cuts
/// names after 15 bytes, so the content need not be UTF-8. Other bytes are replaced.
pub fn text(file: impl AsRef<Path>) -> io::Result<String> {
    let bytes = fs::read(file)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The slice in ns that the fair thread `thread` requests; `None` if it is the default, or if it cannot be found. Linux
/// before 6.12 has no slices, and the default is in debugfs.
pub fn slice(thread: i32) -> Option<u64> {
    let default = fs::read_to_string("/sys/kernel/debug/sched/base_slice_ns").ok()?;
    // SAFETY: all bits of a sched_attr may be 0.
    let mut attr: libc::sched_attr = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes at most the given size.
    let failed = unsafe {
        let size = size_of::<libc::sched_attr>();
        libc::syscall(libc::SYS_sched_getattr, thread, &raw mut attr, size, 0)
    };
    let is_fair = [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&attr.sched_policy.cast_signed());
    let slice = attr.sched_runtime;
    let requested = slice != 0 && default.trim().parse() != Ok(slice);
    (failed == 0 && is_fair && requested).then_some(slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    /// The output of the processes ends only when all of them have ended.
    #[test]
    fn a_process_ends_with_all_that_it_started() {
        for trap in ["trap '' HUP", "trap '' TERM"] {
            let script = format!("{trap}; echo; sleep 777; while :; do sleep 1; done");
            let mut command = Command::new("sh");
            let mut child = command
                .args(["-c", &script])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut out = child.stdout.take().unwrap();
            out.read_exact(&mut [0]).unwrap();
            end(child.id() as i32);
            assert!(child.try_wait().unwrap().is_some(), "{trap}");
            out.read_to_end(&mut Vec::new()).unwrap();
        }
    }
}
