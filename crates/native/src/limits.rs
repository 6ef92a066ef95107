//! What a compiler may take, as somebody else's scheduler may have it read for ever, or write more than there is room for.

use rustix::process::{Resource, Rlimit, setrlimit};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// CPU time of one pass of the compiler, s. The largest scheduler of the scx crates takes 2 s on a slow computer.
const CPU_S: u64 = 10;

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

/// Which limit the compiler ran into by what it `said`, if any.
pub fn reached(said: &str) -> Option<String> {
    let any = |signs: &[&str]| signs.iter().any(|sign| said.contains(sign));
    if any(&[
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
