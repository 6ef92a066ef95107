//! A process between this one and a compiler, which ends all of the compiler's processes when the compiler is done,
//! when the compiler's time is up, or when this process has ended, even by SIGKILL. The passes are processes
//! that the compiler starts, and the kernel's signal at the death of a parent would reach only the compiler itself.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, set_child_subreaper,
};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

/// The exit status of a supervisor that has killed a compiler whose time was up.
pub const LATE: i32 = 124;

/// Forks, and returns in the new process, which leads a process group. The old process supervises the new process until
/// the new one ends, until `wall` has passed, or until `client`, the old process's parent, has ended. This function may
/// be used between fork and exec, because it only makes system calls.
pub fn start(client: Option<Pid>, wall: Duration) -> io::Result<()> {
    let client = client.ok_or(io::ErrorKind::NotFound)?;
    let client_ends = pidfd_open(client, PidfdFlags::empty())?;
    // If the client has ended, its number may belong to another process.
    if rustix::process::getppid() != Some(client) {
        return Err(io::ErrorKind::NotFound.into());
    }
    set_child_subreaper(Some(rustix::process::getpid()))?;
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(rustix::process::setpgid(None, None)?),
        child => {
            let status = supervise(child, &client_ends, wall);
            // SAFETY: `_exit()` has no preconditions.
            unsafe { libc::_exit(status) }
        }
    }
}

/// Waits for the end of supervision. Returns the status with which to end, in a shell's numbering.
fn supervise(child: libc::pid_t, client_ends: &OwnedFd, wall: Duration) -> i32 {
    let Some(group) = Pid::from_raw(child) else {
        return 1;
    };
    // The child makes the same call, because either process may come first.
    let _ = rustix::process::setpgid(Some(group), Some(group));
    let Ok(child_ends) = pidfd_open(group, PidfdFlags::empty()) else {
        let _ = kill_process_group(group, Signal::KILL);
        return 1;
    };
    close_all_but(client_ends.as_raw_fd(), child_ends.as_raw_fd());
    let wall = Timespec {
        tv_sec: wall.as_secs() as i64,
        tv_nsec: wall.subsec_nanos().into(),
    };
    let mut both = [
        PollFd::new(&child_ends, PollFlags::IN),
        PollFd::new(client_ends, PollFlags::IN),
    ];
    // Nothing interrupts the wait, because the process handles no signal.
    let late = matches!(poll(&mut both, Some(&wall)), Ok(0));
    let ended = !both[0].revents().is_empty();
    let mut status = 0;
    if ended {
        // SAFETY: the call writes only `status`.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
    }
    let _ = kill_process_group(group, Signal::KILL);
    match (ended, late) {
        (true, _) => shell_status(ExitStatus::from_raw(status)),
        (false, true) => LATE,
        (false, false) => 128 + libc::SIGKILL,
    }
}

/// An exit status in a shell's numbering: 128 and the signal's number for a process that a signal ended.
pub fn shell_status(status: ExitStatus) -> i32 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).unwrap_or(-1)
}

/// Closes all descriptors except `a` and `b`. One of the others is the pipe of the compiler's messages, whose reader
/// waits until all writers have closed it.
fn close_all_but(a: i32, b: i32) {
    let (low, high) = (a.min(b) as u32, a.max(b) as u32);
    let ranges = [
        (0, low.checked_sub(1)),
        (low + 1, high.checked_sub(1)),
        (high + 1, Some(u32::MAX)),
    ];
    for (first, last) in ranges {
        if let Some(last) = last.filter(|&last| first <= last) {
            // SAFETY: this process uses no other descriptors.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}
