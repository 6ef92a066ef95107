//! Limits on a compiler, which a foreign scheduler could make read endlessly, or fill the disk.

use crate::supervisor;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The limit on the CPU time of one pass of the compiler, in s. The largest scheduler takes 2 s on a slow computer, 6 s
/// beside a dozen other programs, and more than 12 s in a virtual machine whose host is busy.
const CPU_S: u64 = 30;

/// The limit on the wall time of all passes for one file, because a pass may wait for input that never comes. Other
/// programs share the CPUs: one pass took 25 s in a virtual machine beside ten busy programs.
const WALL: Duration = Duration::from_secs(45);

/// The time by which the compiler of a scheduler with this number of `files` must be done, if it
/// starts now.
pub fn deadline(files: usize) -> Instant {
    Instant::now() + WALL.saturating_mul(files.try_into().unwrap_or(u32::MAX))
}

/// The limit on the size of the compiler's messages, in bytes. The end of longer messages is of no use.
const SAID: u64 = 1 << 20;

/// The limit on the size of a file that the compiler writes, in bytes.
const FILE: u64 = 256 << 20;

/// The limit on the address space, in bytes.
const MEMORY: u64 = 4 << 30;

/// Sets the limits of CPU time, memory and files for the processes of `command`. The limits hold for each process by
/// itself.
pub fn set(command: &mut Command) {
    let limit = || {
        let limits = [
            (Resource::Cpu, CPU_S),
            (Resource::Fsize, FILE),
            (Resource::As, MEMORY),
            // A process that a limit kills must leave no core dump.
            (Resource::Core, 0),
        ];
        for (resource, most) in limits {
            // The kernel sends SIGKILL a second after the signal that shows the limit.
            let maximum = most + u64::from(resource == Resource::Cpu);
            // Only root can exceed the hard limit of this process.
            let maximum = maximum.min(getrlimit(resource).maximum.unwrap_or(u64::MAX));
            let rlimit = Rlimit {
                current: Some(most.min(maximum)),
                maximum: Some(maximum),
            };
            setrlimit(resource, rlimit)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls.
    unsafe { command.pre_exec(limit) };
}

/// Runs `command`, which [`Files::confine`](crate::Files::confine) has restricted, to its end.
pub fn finish(command: &mut Command) -> io::Result<Output> {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut errors = child.stderr.take().expect("it is piped");
    let mut stderr = Vec::new();
    // Unreadable output counts as no output.
    let _ = (&mut errors).take(SAID).read_to_end(&mut stderr);
    let _ = io::copy(&mut errors, &mut io::sink());
    let mut stderr = without_excerpts(&stderr);
    let status = child.wait()?;
    if status.code() == Some(supervisor::LATE) {
        stderr.extend_from_slice(format!("\n{LATE}\n").as_bytes());
    }
    Ok(Output {
        status,
        stdout: Vec::new(),
        stderr,
    })
}

/// The messages `said` without the lines of the source that compilers quote below them, because a source may contain
/// the text of any message.
fn without_excerpts(said: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = said.split_inclusive(|&byte| byte == b'\n').collect();
    // gcc and clang begin such a line with its number, if any, and a bar. clang before 17 adds nothing to the source.
    let has_bar = |line: &[u8]| {
        let first = line.iter().find(|byte| !b" 0123456789".contains(byte));
        first == Some(&b'|')
    };
    let is_marks =
        |line: &[u8]| line.contains(&b'^') && line.iter().all(|byte| b" \t^~\r\n".contains(byte));
    let kept = lines.iter().enumerate().filter(|&(index, line)| {
        let is_marked = lines.get(index + 1).is_some_and(|next| is_marks(next));
        !(has_bar(line) || is_marks(line) || is_marked)
    });
    kept.flat_map(|(_, line)| line.iter().copied()).collect()
}

/// The line that is appended to the output of a compiler that was killed at the time limit.
const LATE: &str = "equipoise: time is up";

/// The limit that the compiler exceeded according to its output `said`, if any.
pub fn reached(said: &str) -> Option<String> {
    let any = |signs: &[&str]| signs.iter().any(|sign| said.contains(sign));
    if said.lines().any(|line| line == LATE) {
        let most = WALL.as_secs();
        Some(format!(
            "the compiler takes more than {most} s for a file; expected less time, and no pipes among the \
             file's headers"
        ))
    } else if any(&[
        "CPU time limit exceeded",
        "SIGXCPU",
        "Killed signal",
        "SIGKILL",
    ]) {
        Some(format!(
            "the compiler takes more than {CPU_S} s of CPU time; expected less"
        ))
    } else if any(&["File size limit exceeded", "SIGXFSZ", "File too large"]) {
        let most = FILE >> 20;
        Some(format!(
            "the compiler writes more than {most} MiB; expected less, or maps"
        ))
    } else if any(&[
        "out of memory",
        "emory exhausted",
        "annot allocate memory",
        "bad_alloc",
    ]) {
        let most = MEMORY >> 30;
        Some(format!(
            "the compiler needs more than {most} GiB of memory; expected less"
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_no_lines_of_the_source() {
        let error = "x.c:5:2: error: expected ';'\n";
        for excerpt in [
            "    5 |  f(\"out of memory\")\n      |     ^~~~\n",
            "12345 |  f(\"out of memory\")\n      |     ^~~~\n      |     ;\n",
            "\tf(\"out of memory\")\n\t   ^~~~\n",
        ] {
            let kept = without_excerpts(format!("{error}{excerpt}{error}").as_bytes());
            assert_eq!(String::from_utf8_lossy(&kept), error.repeat(2), "{excerpt}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn a_user_s_lower_hard_limits_stay() {
        let lower = || {
            for (resource, most) in [(Resource::Cpu, CPU_S / 2), (Resource::As, MEMORY / 2)] {
                let rlimit = Rlimit {
                    current: Some(most),
                    maximum: Some(most),
                };
                setrlimit(resource, rlimit)?;
            }
            // Root may raise its hard limits.
            match rustix::process::geteuid().is_root() {
                // SAFETY: the process has one thread.
                true if unsafe { libc::setuid(65534) } != 0 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "ulimit -t; ulimit -v"]);
        // SAFETY: between fork and exec the closure only makes system calls.
        unsafe { command.pre_exec(lower) };
        set(&mut command);
        let output = command.output().unwrap();
        let expected = format!("{}\n{}\n", CPU_S / 2, MEMORY >> 11);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}
