//! Processes to observe, and their threads.

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A descriptor that becomes readable when process `pid` ends; `None` if there is no such process.
pub fn exit_of(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
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
