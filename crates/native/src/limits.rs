//! What a compiler may take, as somebody else's scheduler may have it read for ever, or write more than there is room for.

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, setrlimit};
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// CPU time of one pass of the compiler, s. The largest scheduler of the scx crates takes 2 s on a slow computer.
const CPU_S: u64 = 6;

/// Time of one pass by the clock, as it may wait for what never comes.
const WALL: Duration = Duration::from_secs(60);

/// How often it is seen whether it is done.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What it says, bytes: of more nobody reads the end.
const SAID: u64 = 1 << 20;

/// A file that it writes, bytes.
const FILE: u64 = 256 << 20;

/// Address space, bytes.
const MEMORY: u64 = 4 << 30;

/// Keeps what `command` starts within the limits.
pub fn set(command: &mut Command) {
    let limit = || {
        let limits = [
            (Resource::Cpu, CPU_S),
            (Resource::Fsize, FILE),
            (Resource::As, MEMORY),
            // Whom a limit kills leaves nothing behind.
            (Resource::Core, 0),
        ];
        for (resource, most) in limits {
            let rlimit = Rlimit {
                current: Some(most),
                // A second after the signal that says why comes the one that does not.
                maximum: Some(most + u64::from(resource == Resource::Cpu)),
            };
            setrlimit(resource, rlimit)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls and nothing else.
    unsafe { command.pre_exec(limit) };
}

/// Runs `command`, the leader of a process group, to its end, and its group with it if that takes too long.
pub fn finish(command: &mut Command) -> io::Result<Output> {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let group = Pid::from_child(&child);
    let mut errors = child.stderr.take().expect("it is piped");
    let reader = thread::spawn(move || {
        let mut said = Vec::new();
        // What cannot be read was not said.
        let _ = (&mut errors).take(SAID).read_to_end(&mut said);
        let _ = io::copy(&mut errors, &mut io::sink());
        said
    });
    let began = Instant::now();
    let mut late = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > WALL && !late {
            late = true;
            // Fails only if it has ended just now.
            let _ = kill_process_group(group, Signal::KILL);
        }
        thread::sleep(LOOK_EVERY);
    };
    let mut stderr = reader.join().unwrap_or_default();
    if late {
        stderr.extend_from_slice(LATE.as_bytes());
    }
    Ok(Output {
        status,
        stdout: Vec::new(),
        stderr,
    })
}

/// What is added to what a compiler said that was ended.
const LATE: &str = "\nequipoise: time is up\n";

/// Which limit the compiler ran into by what it `said`, if any.
pub fn reached(said: &str) -> Option<String> {
    let any = |signs: &[&str]| signs.iter().any(|sign| said.contains(sign));
    if any(&[LATE]) {
        let most = WALL.as_secs();
        Some(format!(
            "takes the compiler more than {most} s; expected less, and no pipes among its headers"
        ))
    } else if any(&[
        "CPU time limit exceeded",
        "SIGXCPU",
        "Killed signal",
        "SIGKILL",
    ]) {
        Some(format!(
            "takes the compiler more than {CPU_S} s; expected less"
        ))
    } else if any(&["File size limit exceeded", "SIGXFSZ", "File too large"]) {
        let most = FILE >> 20;
        Some(format!(
            "has the compiler write more than {most} MiB; expected less, or maps"
        ))
    } else if any(&[
        "out of memory",
        "emory exhausted",
        "annot allocate memory",
        "bad_alloc",
    ]) {
        let most = MEMORY >> 30;
        Some(format!(
            "takes the compiler more than {most} GiB of memory; expected less"
        ))
    } else {
        None
    }
}
