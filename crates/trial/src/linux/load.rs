//! The load of a turn: a command, or the computer's own activity.

use super::record::TurnRecorder;
use super::said::{Said, with};
use crate::guard::{Guard, Part};
use crate::{Fault, Turn, frames};
use machine::input::BadInput;

use recorder::exit_of;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The largest log of frame times that is read, in bytes.
const LONGEST_LOG: u64 = 1 << 30;

/// The time within which the trial notices a signal that it and the command receive.
const NOTICES: Duration = Duration::from_millis(100);

/// The load of each turn.
#[derive(Clone, Debug)]
pub enum Load {
    /// Runs this command to its end.
    Command(Vec<OsString>),
    /// Watches the computer's own activity for this time.
    Watch(Duration),
}

pub struct Running {
    /// A descriptor that becomes readable when the command ends; `None` if there is no command.
    pub exit: Option<OwnedFd>,
    /// The time of the turn; `None` if there is a command.
    pub limit: Option<Duration>,
    command: Option<(Child, Part, Said)>,
    began: Instant,
    switches: u64,
}

impl Load {
    /// Starts the load. The recording counts the command as the load.
    pub fn start(&self, guard: &Guard, recorder: Option<&TurnRecorder>) -> Result<Running, Fault> {
        let words = match self {
            Load::Watch(time) => {
                return Ok(Running {
                    exit: None,
                    limit: Some(*time),
                    command: None,
                    began: Instant::now(),
                    switches: 0,
                });
            }
            Load::Command(words) => words,
        };
        let system = |error: io::Error| Fault::System(error.to_string());
        let part = guard.part("command").map_err(system)?;
        let mut command = command(words);
        let said = Said::by(&mut command).map_err(system)?;
        let switches = switches();
        let began = Instant::now();
        let child = part.spawn(&mut command);
        let child =
            child.map_err(|error| Fault::Command(format!("{}: {error}", words[0].display())))?;
        let pid = child.id() as i32;
        if let Some(recorder) = recorder {
            recorder.mark_load(pid).map_err(system)?;
        }
        Ok(Running {
            exit: exit_of(pid),
            limit: None,
            command: Some((child, part, said)),
            began,
            switches,
        })
    }
}

/// The command of a turn. It has no input, because the first turn would read all of the trial's own input, and leave
/// the other turns another load.
fn command(words: &[OsString]) -> Command {
    let (program, options) = words
        .split_first()
        .unwrap_or_else(|| unreachable!("the command line has a command"));
    let mut command = Command::new(program);
    command.args(options).stdin(Stdio::null());
    command
}

impl Running {
    /// Frees the space of the command's output, which is not shown.
    pub fn forget(&self) {
        if let Some((_, _, said)) = &self.command {
            said.forget();
        }
    }

    /// The threads of the command and of all that it started.
    pub fn threads(&self) -> Vec<i32> {
        let part = self.command.as_ref().map(|(_, part, _)| part);
        part.map_or_else(Vec::new, Part::threads)
    }

    /// Ends the load, and all processes that its command left behind. If the load `has_ended` by itself, its command
    /// must have succeeded.
    pub fn end(self, has_ended: bool) -> Result<Turn, Fault> {
        let elapsed_ns = self.began.elapsed().as_nanos() as u64;
        let mut turn = Turn {
            elapsed_ns,
            ..Turn::default()
        };
        let Some((mut child, part, said)) = self.command else {
            return Ok(turn);
        };
        let system = |error: io::Error| Fault::System(error.to_string());
        if has_ended {
            let is_inside = part.has(child.id() as i32);
            let status = child.wait().map_err(system)?;
            // Ctrl-C reaches both the command and the trial, whose thread for signals may notice it later.
            if status.signal() == Some(libc::SIGINT) {
                sleep(NOTICES);
            }
            if !status.success() {
                return Err(Fault::Command(format!(
                    "the command ended {}{}",
                    with(status),
                    said.last()
                )));
            }
            turn.is_timed = true;
            // A command that has left its control group is not counted there.
            let us = |file, line, key| {
                let us = part.number(file, line, key).filter(|_| is_inside);
                us.map(|us| 1000 * us)
            };
            turn.cpu_ns = us("cpu.stat", "usage_usec", "usage_usec");
            turn.waited_ns = us("cpu.pressure", "some", "total");
            turn.switches = Some(switches().saturating_sub(self.switches));
        }
        part.kill().map_err(system)?;
        let _ = child.wait();
        Ok(turn)
    }
}

/// The context switches of all ended processes for which this process has waited, and of the processes for which these
/// processes have waited.
fn switches() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes to `usage`, which is valid, and zeroes are valid as well.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    (usage.ru_nvcsw + usage.ru_nivcsw) as u64
}

/// A log of frame times, or a folder of logs.
pub struct Frames {
    place: PathBuf,
    /// The state of each log at the start of the turn.
    before: HashMap<PathBuf, State>,
}

impl Frames {
    /// The frame times of the log at `place`, or of the newest log in that folder.
    pub fn new(place: PathBuf) -> Frames {
        Frames {
            place,
            before: HashMap::new(),
        }
    }

    /// Notes the state of the logs when a turn begins.
    pub fn begin(&mut self) {
        let logs = match self.place.is_dir() {
            true => logs(&self.place),
            false => vec![self.place.clone()],
        };
        let state = |log: PathBuf| Some((state(&log)?, log));
        let states = logs.into_iter().filter_map(state);
        self.before = states.map(|(state, log)| (log, state)).collect();
    }

    /// Returns an error if the log at `place` cannot have the frames of a turn. A command may write a log that does not
    /// exist yet.
    pub fn check(place: &Path, is_command: bool) -> Result<(), Box<BadInput>> {
        let folder = place.parent().filter(|it| *it != Path::new(""));
        let is_new = is_command && folder.is_none_or(Path::is_dir) && !place.exists();
        let is_empty = state(place).is_some_and(|it| it.length == 0);
        match is_new || is_empty || place.is_dir() {
            true => Ok(()),
            false => read(place, u64::MAX).map(|_| ()),
        }
    }

    /// The frame times of the turn in ms: the frame times added to the log, which are all of them if the log is new. It
    /// is an error if there are none.
    pub fn end(&mut self) -> Result<Vec<f64>, Box<BadInput>> {
        let file = match self.place.is_dir() {
            true => self.newest(),
            false => Some(self.place.clone()),
        };
        let mut frames = file
            .as_ref()
            .map_or(Ok(Vec::new()), |it| read(it, u64::MAX))?;
        if let Some(file) = file
            && let Some(before) = self.before.get(&file)
            && before.is_start_of(&file)
        {
            // Before the game has written the names of the columns, there are no frames.
            let earlier = read(&file, before.length).map_or(0, |it| it.len());
            frames.drain(..earlier.min(frames.len()));
        }
        match frames.is_empty() {
            false => Ok(frames),
            true => Err(Box::new(BadInput::whole(
                format!("{}: no new frame times in a turn", self.place.display()),
                "expected a log that is written during each turn (MangoHud: autostart_log, output_folder)",
            ))),
        }
    }

    /// The log that was written last, of those that have changed during the turn. Whether a log has changed does not
    /// follow from its time, because a clock may be set, and some file systems round times down to two seconds.
    fn newest(&self) -> Option<PathBuf> {
        let logs = logs(&self.place).into_iter();
        let changed = logs.filter(|log| match state(log) {
            // The game has not written the names of the columns yet.
            Some(state) if state.length == 0 => false,
            state => state.as_ref() != self.before.get(log),
        });
        changed.max_by_key(|log| fs::metadata(log).and_then(|it| it.modified()).ok())
    }
}

/// The state of a log.
#[derive(Debug, PartialEq)]
struct State {
    inode: u64,
    /// The length in bytes.
    length: u64,
    /// The last bytes, at most [`END`].
    end: Vec<u8>,
}

/// The number of bytes by which a log that was continued is told from a log that was written anew: some frames.
const END: u64 = 256;

impl State {
    /// Has `log`, which was in this state, only been continued?
    fn is_start_of(&self, log: &Path) -> bool {
        let found = fs::metadata(log).is_ok_and(|it| it.ino() == self.inode);
        found && end(log, self.length).is_some_and(|it| it == self.end)
    }
}

fn state(log: &Path) -> Option<State> {
    let found = fs::metadata(log).ok().filter(fs::Metadata::is_file)?;
    let length = found.len();
    Some(State {
        inode: found.ino(),
        length,
        end: end(log, length)?,
    })
}

/// The last bytes of the first `length` bytes of `log`.
fn end(log: &Path, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length.min(END) as usize];
    let log = fs::File::open(log).ok()?;
    log.read_exact_at(&mut bytes, length - length.min(END))
        .ok()?;
    Some(bytes)
}

fn read(file: &Path, length: u64) -> Result<Vec<f64>, Box<BadInput>> {
    let name = file.display().to_string();
    let bytes = cage::read_regular(file, LONGEST_LOG).map_err(|error| {
        Box::new(BadInput::whole(
            format!("{name}: {error}"),
            "expected a log of frame times",
        ))
    })?;
    frames::read(&name, bytes.as_slice().take(length))
}

/// The logs in `folder`. MangoHud's summaries are not logs.
fn logs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let log = |entry: fs::DirEntry| {
        let path = entry.path();
        let is_log = path.extension().is_some_and(|it| it == "csv")
            && !path.file_stem()?.to_string_lossy().ends_with("_summary");
        is_log.then_some(path)
    };
    entries.filter_map(log).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io::{Seek, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn no_turn_reads_the_input_of_the_trial() {
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(b"numbers to sort").unwrap();
        input.rewind().unwrap();
        // SAFETY: no other test uses the standard input.
        assert_eq!(unsafe { libc::dup2(input.as_raw_fd(), 0) }, 0);
        let mut command = command(&["cat".into()]);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        assert_eq!(child.wait_with_output().unwrap().stdout, b"");
    }

    fn has_no_frames(frames: &mut Frames) {
        let error = frames.end().unwrap_err().to_string();
        assert!(error.contains("no new frame"), "{error}");
    }

    #[test]
    fn the_frames_of_a_turn_are_those_that_it_added() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log.csv");
        fs::write(&log, "fps,frametime\n60,16\n60,17\n").unwrap();
        let mut frames = Frames::new(log.clone());
        frames.begin();
        fs::write(&log, "fps,frametime\n60,16\n60,17\n50,20\n").unwrap();
        assert_eq!(frames.end().unwrap(), [20.0]);
        // A log that is written anew in each turn has only frames of the turn.
        frames.begin();
        fs::write(&log, "fps,frametime\n60,11\n60,12\n50,21\n40,25\n").unwrap();
        assert_eq!(frames.end().unwrap(), [11.0, 12.0, 21.0, 25.0]);
        // A log that has ended gives no turn any frames.
        frames.begin();
        has_no_frames(&mut frames);
        frames.begin();
        fs::remove_file(&log).unwrap();
        fs::write(folder.path().join("keeps-the-inode"), "").unwrap();
        fs::write(&log, "fps,frametime\n40,25\n").unwrap();
        assert_eq!(frames.end().unwrap(), [25.0]);
    }

    #[test]
    fn the_newest_log_of_a_folder_counts() {
        let folder = tempfile::tempdir().unwrap();
        let mut frames = Frames::new(folder.path().to_owned());
        has_no_frames(&mut frames);
        fs::write(folder.path().join("game.csv"), "fps,frametime\n40,25\n").unwrap();
        fs::write(folder.path().join("game_summary.csv"), "0.1% Min FPS\n3\n").unwrap();
        fs::write(folder.path().join("begun.csv"), "").unwrap();
        assert_eq!(frames.end().unwrap(), [25.0]);
    }

    #[test]
    fn the_name_of_a_log_need_not_be_text() {
        let folder = tempfile::tempdir().unwrap();
        let name = OsStr::from_bytes(b"M\xfcnchen.csv");
        fs::write(folder.path().join(name), "fps,frametime\n40,25\n").unwrap();
        let mut frames = Frames::new(folder.path().to_owned());
        assert_eq!(frames.end().unwrap(), [25.0]);
    }

    /// MangoHud writes one log from the start of the game to its end, which is many turns.
    #[test]
    fn a_log_that_grows_in_a_folder_gives_each_turn_its_own_frames() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("game.csv");
        fs::write(&log, "fps,frametime\n60,16\n60,17\n").unwrap();
        let mut frames = Frames::new(folder.path().to_owned());
        for (added, expected) in [
            ("50,20\n40,25\n3", vec![20.0, 25.0]),
            ("0,33\n", vec![33.0]),
        ] {
            frames.begin();
            let mut file = fs::OpenOptions::new().append(true).open(&log).unwrap();
            file.write_all(added.as_bytes()).unwrap();
            assert_eq!(frames.end().unwrap(), expected);
        }
        frames.begin();
        fs::remove_file(&log).unwrap();
        fs::write(folder.path().join("again.csv"), "fps,frametime\n40,11\n").unwrap();
        assert_eq!(frames.end().unwrap(), [11.0]);
    }

    #[test]
    fn the_clock_does_not_say_which_log_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = File::create(folder.path().join(name)).unwrap();
            (&file).write_all(text.as_bytes()).unwrap();
            file
        };
        write("old.csv", "fps,frametime\n60,16\n");
        let mut frames = Frames::new(folder.path().to_owned());
        frames.begin();
        let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        let new = write("new.csv", "fps,frametime\n40,25\n");
        new.set_modified(hour_ago).unwrap();
        assert_eq!(frames.end().unwrap(), [25.0]);
    }
}
