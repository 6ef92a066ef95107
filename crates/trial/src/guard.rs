//! Makes sure that a trial leaves nothing behind, however it ends.
//!
//! The loader and the command run in a control group of the trial. The guard, another process of this program, holds
//! one end of a pipe whose other end only the trial has. When the trial ends, even by SIGKILL, the pipe closes; the
//! guard then kills the group (`cgroup.kill`, since Linux 5.14), removes it, and removes the recorder's instance. When
//! a loader ends, the kernel unloads its scheduler, because the loader holds the only reference to the BPF link. A
//! scheduler without a link is unloaded by the kernel at the guard's request (`loader::unload()`). An orderly end takes
//! the same path, so no second path needs tests. The loader and the command also ask the kernel for SIGKILL at the
//! death of the trial, in case both the trial and the guard are killed.

use crate::linux::{loader, sched_ext};
use std::fs::{self, OpenOptions};
use std::io::{self, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The environment variable that has the group's folder, and that makes this program a guard.
const VARIABLE: &str = "EQUIPOISE_TRIAL_GUARD";
/// The environment variable that is set if the trial loads schedulers.
const LOADS: &str = "EQUIPOISE_TRIAL_LOADS";
/// The time limit for the end of killed processes, whose memory the kernel may be writing to disk.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time limit for a killed trial to close its files.
const CLOSES: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(2);

/// Is this process a guard?
pub fn is_guard() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// The guard's main function: waits for the end of the trial and cleans up.
pub fn main() -> ExitCode {
    let group = PathBuf::from(std::env::var_os(VARIABLE).unwrap_or_default());
    // Ends when the last copy of the other end is closed.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    let is_removed = remove(&group).is_ok();
    let is_unloaded = std::env::var_os(LOADS).is_none() || loader::unload(&sched_ext()).is_ok();
    // The trial may be a zombie, and may still close its files.
    let name = group.to_string_lossy();
    let trial = name.rsplit('-').next().and_then(|it| it.parse().ok());
    if let Some(trial) = trial {
        let _ = while_busy(CLOSES, || recorder::sweep(trial));
    }
    match is_removed && is_unloaded {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// A trial's control group, and the guard that removes it.
pub struct Guard {
    /// The group's folder.
    pub group: PathBuf,
    pipe: Option<PipeWriter>,
    child: Child,
}

impl Guard {
    /// Makes the group below this process's own group. No controller is enabled for the new group, so the group does
    /// not change the shares of CPU time. If the trial `loads` schedulers, the guard also unloads the last one.
    pub fn new(loads: bool) -> io::Result<Guard> {
        let group = own_group()?.join(format!("equipoise-trial-{}", std::process::id()));
        fs::create_dir(&group).map_err(|error| named(&group, &error))?;
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new("/proc/self/exe");
        command
            .env(VARIABLE, &group)
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if loads {
            command.env(LOADS, "1");
        }
        // SAFETY: setsid(2) is safe after a fork. Signals of the terminal do not reach the guard.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                Ok(())
            });
        }
        let child = command.spawn().inspect_err(|_| {
            let _ = fs::remove_dir(&group);
        })?;
        Ok(Guard {
            group,
            pipe: Some(writer),
            child,
        })
    }

    /// Makes a group below the trial's group, for one process and all processes that it starts.
    pub fn part(&self, name: &str) -> io::Result<Part> {
        let folder = self.group.join(name);
        fs::create_dir(&folder).map_err(|error| named(&folder, &error))?;
        Ok(Part { folder })
    }

    /// Has the guard been killed?
    pub fn is_gone(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.pipe.take();
        let _ = self.child.wait();
        let _ = remove(&self.group);
    }
}

/// A part of the trial's group.
pub struct Part {
    pub(crate) folder: PathBuf,
}

impl Part {
    /// Starts `command` in this group. The command is killed when this process ends.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let procs = self.folder.join("cgroup.procs");
        let mut procs = OpenOptions::new().write(true).open(procs)?;
        let parent = std::process::id() as i32;
        // SAFETY: only system calls are made after the fork.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() != parent {
                    return Err(io::Error::other("the trial has ended"));
                }
                procs.write_all(b"0")
            });
        }
        command.spawn()
    }

    /// A number in a file of the group, by its line and key, such as `usage_usec` in `cpu.stat`, or `some` and `total`
    /// in `cpu.pressure`.
    pub fn number(&self, file: &str, line: &str, key: &str) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(file)).ok()?;
        number(&text, line, key)
    }

    /// Is process `pid` in this group or a group below, or has it ended there without having been waited for?
    pub fn has(&self, pid: i32) -> bool {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        is_below(&groups, &self.folder)
    }

    /// The threads in this group and in the groups below.
    pub fn threads(&self) -> Vec<i32> {
        threads(&self.folder)
    }

    /// Kills all processes that still run in this group, and waits for their end.
    pub fn kill(&self) -> io::Result<()> {
        kill(&self.folder)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = remove(&self.folder);
    }
}

/// The number after `key` and a blank or `=`, in the line of `text` that begins with `line`.
fn number(text: &str, line: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|it| it.split(' ').next() == Some(line))?;
    let rest = &line[line.find(key)? + key.len()..];
    let digits = rest.trim_start_matches([' ', '=']).split(' ').next()?;
    digits.parse().ok()
}

/// Is a process with these `groups`, the text of its file `cgroup`, in the group of `folder` or a group below?
fn is_below(groups: &str, folder: &Path) -> bool {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let mut above = own.into_iter().flat_map(|it| Path::new(it).ancestors());
    above.any(|it| it != Path::new("") && folder.ends_with(it))
}

fn threads(group: &Path) -> Vec<i32> {
    let own = fs::read_to_string(group.join("cgroup.threads")).unwrap_or_default();
    let below = fs::read_dir(group).into_iter().flatten().flatten();
    let below = below.filter(|it| it.file_type().is_ok_and(|it| it.is_dir()));
    let own = own.lines().filter_map(|line| line.parse().ok());
    own.chain(below.flat_map(|it| threads(&it.path())))
        .collect()
}

fn own_group() -> io::Result<PathBuf> {
    let none = || {
        io::Error::new(
            io::ErrorKind::NotFound,
            "no cgroup2 is mounted; try `mount -t cgroup2 none /sys/fs/cgroup`",
        )
    };
    let mounts = recorder::text("/proc/mounts")?;
    let mounted = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(place))
    });
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    Ok(mounted.ok_or_else(none)?.join(own.ok_or_else(none)?))
}

/// Kills the processes of a group and of the groups below, and removes all of these groups.
fn remove(group: &Path) -> io::Result<()> {
    if !group.exists() {
        return Ok(());
    }
    kill(group)?;
    let below = fs::read_dir(group)?.flatten();
    for folder in below.filter(|it| it.file_type().is_ok_and(|it| it.is_dir())) {
        remove(&folder.path())?;
    }
    match while_busy(PATIENCE, || fs::remove_dir(group)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Repeats `remove` while what it removes is busy, for at most `limit`. No other error ends by itself: without tracefs,
/// for example, there is no instance to remove.
fn while_busy(limit: Duration, mut remove: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match remove() {
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && began.elapsed() < limit =>
            {
                sleep(LOOK);
            }
            result => return result,
        }
    }
}

fn kill(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.kill"), "1")?;
    let began = Instant::now();
    while number(
        &fs::read_to_string(group.join("cgroup.events"))?,
        "populated",
        "populated",
    ) != Some(0)
    {
        if began.elapsed() > PATIENCE {
            return Err(io::Error::other("killed processes do not end"));
        }
        sleep(LOOK);
    }
    Ok(())
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls [`while_busy`] with a removal that fails `times` times with this kind of error. Returns the number of
    /// calls, and whether the last call succeeded.
    fn removed(times: u32, kind: io::ErrorKind, limit: Duration) -> (u32, bool) {
        let mut calls = 0;
        let result = while_busy(limit, || {
            calls += 1;
            match calls > times {
                true => Ok(()),
                false => Err(kind.into()),
            }
        });
        (calls, result.is_ok())
    }

    #[test]
    fn only_a_busy_folder_is_tried_again() {
        let (missing, busy) = (io::ErrorKind::NotFound, io::ErrorKind::ResourceBusy);
        assert_eq!(removed(3, missing, PATIENCE), (1, false));
        assert_eq!(removed(3, busy, PATIENCE), (4, true));
        assert_eq!(removed(3, busy, Duration::ZERO), (1, false));
    }

    #[test]
    fn a_process_that_left_the_group_is_not_below_it() {
        let folder = Path::new("/sys/fs/cgroup/user.slice/equipoise-trial-7/command");
        let is_below = |group: &str| is_below(&format!("1:cpu:/\n0::{group}\n"), folder);
        assert!(is_below("/user.slice/equipoise-trial-7/command"));
        assert!(is_below(
            "/user.slice/equipoise-trial-7/command/own (deleted)"
        ));
        for elsewhere in ["/", "/user.slice", "/system.slice/docker-7.scope"] {
            assert!(!is_below(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn numbers_of_a_groups_files() {
        let stat = "usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n";
        assert_eq!(number(stat, "usage_usec", "usage_usec"), Some(1234));
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=0.00 total=5\n";
        assert_eq!(number(pressure, "some", "total"), Some(77));
        assert_eq!(number(pressure, "none", "total"), None);
        assert_eq!(
            number("populated 1\nfrozen 0\n", "populated", "populated"),
            Some(1)
        );
    }
}
