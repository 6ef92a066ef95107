//! A computation in a process that may only compute.

use crate::process;
use crate::rights::limit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Resource, Signal, WaitOptions, kill_process, waitpid};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The limit on the CPU time of such a process, in s; [`MORE_MEMORY`] is the number of bytes by which its address space
/// may exceed that of this process.
const CPU_S: u64 = 10;
const MORE_MEMORY: u64 = 1 << 30;

/// The wall time after which the process is killed.
const WALL: Duration = Duration::from_secs(25);

/// The reason why there is no answer.
#[derive(Debug)]
pub enum Ended {
    /// The process could not be started, or restricted.
    NotStarted(io::Error),
    /// The process used up its time.
    Late,
    /// The answer of the process is too long.
    TooLong,
    /// The process was killed by this signal (positive), or ended with this status (negative), as after a panic.
    Without(i32),
}

/// Calls `compute` in a process that, from before the call on, may only compute and write its answer of at most
/// `longest` bytes. `compute` sees a copy of this process's memory. `compute` must not use anything that other threads
/// may have locked, except for the allocator.
pub fn apart(longest: usize, compute: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, Ended> {
    within(CPU_S, longest, compute)
}

fn within(cpu_s: u64, longest: usize, compute: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, Ended> {
    let (reads, writes) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|error| Ended::NotStarted(error.into()))?;
    let parent = rustix::process::getpid();
    silence_children();
    // SAFETY: the child does only what is allowed after fork() in a process with threads; the C library's allocator
    // supports fork().
    match unsafe { libc::fork() } {
        -1 => Err(Ended::NotStarted(io::Error::last_os_error())),
        0 => {
            let status = match restrict(parent, &writes, cpu_s) {
                Ok(mut answers) => {
                    let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(compute));
                    match answer.map(|answer| answers.write_all(&answer)) {
                        Ok(Ok(())) => 0,
                        Ok(Err(_)) => 1,
                        Err(_) => PANICKED,
                    }
                }
                Err(_) => NOT_RESTRICTED,
            };
            // SAFETY: `_exit()` has no preconditions.
            unsafe { libc::_exit(status) }
        }
        child => {
            drop(writes);
            let child = Pid::from_raw(child).ok_or(Ended::Late)?;
            let answer = receive(reads, longest);
            if answer.is_err() {
                let _ = kill_process(child, Signal::KILL);
            }
            ended(child, answer)
        }
    }
}

/// The exit status of a process that could not drop its rights; [`PANICKED`] is the status of a process whose
/// computation panicked.
const NOT_RESTRICTED: i32 = 99;
const PANICKED: i32 = 101;

static IN_CHILD: AtomicBool = AtomicBool::new(false);

/// Makes children that panic print nothing from now on, because a backtrace would need files. The child cannot set the
/// hook itself: while another thread panics, the hook is locked, and remains locked in the child.
fn silence_children() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IN_CHILD.load(Ordering::Relaxed) {
                hook(info);
            }
        }));
    });
}

/// Drops all rights. Returns the pipe for the answer, which is closed when the process ends.
fn restrict(parent: Pid, writes: &OwnedFd, cpu_s: u64) -> io::Result<ManuallyDrop<File>> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != Some(parent) {
        return Err(io::ErrorKind::NotFound.into());
    }
    // SAFETY: no other code of this process uses descriptors.
    let answers = unsafe {
        libc::dup2(writes.as_raw_fd(), libc::STDOUT_FILENO);
        libc::close(libc::STDIN_FILENO);
        libc::close(libc::STDERR_FILENO);
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
        File::from_raw_fd(libc::STDOUT_FILENO)
    };
    // A fault must end the process without running a handler.
    for signal in 1..=31 {
        // SAFETY: the default action is valid for every signal for which it can be set.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    IN_CHILD.store(true, Ordering::Relaxed);
    process::prepare_within(|mapped| mapped + MORE_MEMORY)?;
    limit(&(Resource::Cpu, cpu_s))?;
    process::compute()?;
    Ok(ManuallyDrop::new(answers))
}

fn receive(reads: OwnedFd, longest: usize) -> Result<Vec<u8>, Ended> {
    let began = Instant::now();
    let mut reads = File::from(reads);
    let mut answer = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let left = WALL.checked_sub(began.elapsed()).ok_or(Ended::Late)?;
        let left = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&reads, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(Ended::Late),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(Ended::NotStarted(error.into())),
        }
        match reads.read(&mut buffer) {
            Ok(0) => return Ok(answer),
            Ok(length) if answer.len() + length > longest => return Err(Ended::TooLong),
            Ok(length) => answer.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Ended::NotStarted(error)),
        }
    }
}

fn ended(child: Pid, answer: Result<Vec<u8>, Ended>) -> Result<Vec<u8>, Ended> {
    let status = loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => break status,
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Ended::NotStarted(error.into())),
        }
    };
    let answer = answer?;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(0), _) => Ok(answer),
        (Some(NOT_RESTRICTED), _) => Err(Ended::NotStarted(io::Error::other(
            "it cannot be restricted",
        ))),
        (_, Some(libc::SIGXCPU | libc::SIGKILL)) => Err(Ended::Late),
        (_, Some(signal)) => Err(Ended::Without(signal)),
        (status, None) => Err(Ended::Without(-status.unwrap_or(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, mpsc};
    use std::thread;

    #[test]
    #[cfg_attr(miri, ignore)]
    fn a_thread_that_panics_meanwhile_locks_nothing() {
        assert_eq!(apart(100, || b"answer".to_vec()).unwrap(), b"answer");
        let (began, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel();
        let hook = std::panic::take_hook();
        let (began, ends) = (Mutex::new(began), Mutex::new(ends));
        std::panic::set_hook(Box::new(move |info| {
            if thread::current().name() != Some("panics") {
                return hook(info);
            }
            began.lock().unwrap().send(()).unwrap();
            ends.lock().unwrap().recv().unwrap();
        }));
        let panics = thread::Builder::new().name("panics".to_string());
        let panics = panics.spawn(|| panic!("on purpose")).unwrap();
        begins.recv().unwrap();
        assert_eq!(apart(100, || b"answer".to_vec()).unwrap(), b"answer");
        end.send(()).unwrap();
        panics.join().unwrap_err();
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn an_answer_comes_back_and_nothing_else_happens() {
        assert_eq!(apart(100, || b"answer".to_vec()).unwrap(), b"answer");
        let long = apart(1 << 20, || vec![1; 1 << 20]).unwrap();
        assert_eq!(long.len(), 1 << 20);
        assert!(matches!(
            apart(3, || b"answer".to_vec()),
            Err(Ended::TooLong)
        ));
        let opens = apart(9, || {
            std::fs::File::open("/etc/passwd").map_or(Vec::new(), |_| b"opened".to_vec())
        });
        assert!(
            matches!(opens, Err(Ended::Without(libc::SIGSYS))),
            "{opens:?}"
        );
        let panics = apart(9, || panic!("on purpose"));
        assert!(matches!(panics, Err(Ended::Without(-101))), "{panics:?}");
        let hoards = apart(9, || vec![1u8; 3 << 30][..1].to_vec());
        assert!(
            matches!(hoards, Err(Ended::Without(libc::SIGABRT | libc::SIGSYS))),
            "{hoards:?}"
        );
        #[expect(unconditional_recursion)]
        fn deep(n: u64) -> u64 {
            std::hint::black_box(deep(std::hint::black_box(n + 1))) + 1
        }
        let deep = apart(9, || vec![deep(0) as u8]);
        assert!(
            matches!(deep, Err(Ended::Without(libc::SIGSEGV))),
            "{deep:?}"
        );
        let endless = within(1, 9, || {
            loop {
                std::hint::spin_loop()
            }
        });
        assert!(matches!(endless, Err(Ended::Late)), "{endless:?}");
    }
}
