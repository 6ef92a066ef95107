//! `equipoise record`: records the kernel's scheduler while a command runs, as a `trace.dat` or
//! directly as a workload.

use crate::cli::Record;
use crate::error::Error;
use crate::import;
use crate::interrupt::{self, STOP};
use crate::output::{self, Staged};
use crate::say;
use ::trial::host::numbered;
use machine::input::BadInput;
use machine::{Machine, counted};
use recorder::busy::{self, Watch};
use recorder::{Events, Instance, Options, Recorder, exit_of, threads};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use trace::import::MOST_OTHERS_PCT;

/// The longest time between two checks of whether to stop. Each check takes a CPU from the load.
const LOOK: Duration = Duration::from_millis(200);
/// The time of the first check for other load.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// Records, and writes the recording, even after Ctrl-C.
pub fn run(args: &Record) -> Result<(), Error> {
    let workload = for_workload(args)?;
    output::check_file(&args.output)?;
    let cannot = |error: io::Error| {
        let root = match rustix::process::geteuid().is_root() {
            true => "",
            false => " (this requires root, or a writable tracefs)",
        };
        Error::Write(format!("cannot record: {error}{root}"))
    };
    // Preparations may take a while, and after a signal their files must be removed.
    interrupt::listen_to_end();
    let folder = args.output.parent().filter(|it| *it != Path::new(""));
    let options = Options {
        buffer_kib: args.buffer.saturating_mul(1024),
        events: Events::All,
        pipes: args.pipes,
        futexes: args.futexes,
        folder: folder.unwrap_or(Path::new(".")),
    };
    let mut recorder = Recorder::new(&options).map_err(cannot)?;
    let status = record(&mut recorder, args)?;
    let lost = recorder.instance.lost();
    say_calls(&recorder.instance);
    let mut staged = Staged::default();
    let mut bytes = Vec::new();
    staged.add(&args.output, |out| match &workload {
        None => recorder
            .write(out)
            .map_err(|it| Error::write(&args.output, &it)),
        Some(machine) => {
            recorder.write(&mut bytes).map_err(cannot)?;
            let name = args.output.display().to_string();
            let imported = trace::import::import(&name, &bytes[..], Some(machine));
            let imported = imported.or_else(|error| {
                keep(&args.output, &bytes)?;
                Err(Error::Input(error))
            })?;
            import::say(&imported.summary);
            import::say_periods(&imported.recording);
            let text = import::text(&imported.recording)?;
            out.write_all(text.as_bytes())
                .map_err(|it| Error::write(&args.output, &it))
        }
    })?;
    drop(recorder);
    staged.commit()?;
    let size = fs::metadata(&args.output).map_or(0, |file| file.len());
    say!(
        "{}: {:.1} MB, {} lost",
        args.output.display(),
        size as f64 / 1e6,
        counted(lost, "event", "events")
    );
    if lost > 0 {
        say!(
            "warning: because of lost events, runs are too long and wakeups are missing; try --buffer"
        );
    }
    match status {
        0 => Ok(()),
        _ => Err(Error::Command(status)),
    }
}

/// Writes the trace of a recording that is no workload to a new file beside `workload`.
fn keep(workload: &Path, trace: &[u8]) -> Result<(), Error> {
    let file = output::free_name(&workload.with_extension("dat"), |it| !it.exists());
    fs::write(&file, trace).map_err(|error| Error::write(&file, &error))?;
    say!("written: {}, the trace of the recording", file.display());
    Ok(())
}

/// The machine for an output that is a workload; `None` for a trace. The name of the output decides.
fn for_workload(args: &Record) -> Result<Option<Machine>, Error> {
    match args.output.extension().and_then(|it| it.to_str()) {
        Some("dat") if args.machine.is_some() => Err(bad(
            format!(
                "--machine does not apply to {}, which is a trace",
                args.output.display()
            ),
            "expected --output FILE.json for a workload; for a trace, give --machine to `workload import`",
        )),
        Some("dat") => Ok(None),
        Some("json") => machine(args).map(Some),
        _ => Err(bad(
            format!("{}: unknown kind of recording", args.output.display()),
            &output::one_of_extensions(
                &args.output,
                [".dat", ".json"],
                ".dat (trace-cmd's trace) or .json (a workload)",
            ),
        )),
    }
}

fn say_calls(instance: &Instance) {
    let Some((calls, refused)) = instance.calls() else {
        return;
    };
    for what in refused {
        say!("note: without {what}");
    }
    if calls.seen > 0 {
        say!(
            "{} calls on pipes and sockets were probed; each took about {} ns longer, and this time counts as \
             the threads' work",
            calls.seen,
            calls.cost_ns
        );
    }
    if calls.missed > 0 {
        let missed = counted(calls.missed, "more call", "more calls");
        say!("warning: the probes missed {missed}");
    }
}

fn machine(args: &Record) -> Result<Machine, Error> {
    let found = crate::detect::this()?.machine_file("detected");
    let this = Machine::parse("detected.toml", &found.text)?;
    let Some(name) = &args.machine else {
        return Ok(this);
    };
    let machine = Machine::find(name)?;
    let least = this.cpus.len();
    // The machine may have CPUs that are offline here.
    let most = numbered(Path::new("/sys/devices/system/cpu"), "cpu").len();
    match (least..=most.max(least)).contains(&machine.cpus.len()) {
        true => Ok(machine),
        false => Err(bad(
            format!(
                "machine `{}` has {}, but this computer has {least}",
                machine.name,
                counted(machine.cpus.len(), "CPU", "CPUs")
            ),
            "expected the machine of this computer, which --output FILE.json without --machine detects",
        )),
    }
}

/// Records until the recorded process ends, or the user ends it. Returns the command's status, or 0 without a command.
fn record(recorder: &mut Recorder, args: &Record) -> Result<i32, Error> {
    let failed = |error: io::Error| Error::Write(format!("cannot record: {error}"));
    let watch = Watch::begin().filter(|_| !args.all);
    recorder.begin().map_err(failed)?;
    let mut command = None;
    let end = match args.pid {
        Some(pid) => {
            let end = exit_of(pid).ok_or_else(|| {
                bad(
                    format!("--pid {pid}: no such process"),
                    "expected the pid of a running process",
                )
            })?;
            for thread in busy::family(pid).into_iter().flat_map(threads) {
                recorder.mark("load", thread).map_err(failed)?;
            }
            Some(end)
        }
        None if args.all => None,
        None => {
            let child = start(&args.command)?;
            recorder.mark("load", child.id() as i32).map_err(failed)?;
            let end = exit_of(child.id() as i32);
            command = Some(child);
            end
        }
    };
    let since = Instant::now();
    let limit = args.seconds;
    let load = args
        .pid
        .or(command.as_ref().map(|child: &Child| child.id() as i32));
    let (mut is_busy, mut next_look) = (false, FIRST_LOOK);
    loop {
        let seen = recorder.wait(end.as_ref(), LOOK).map_err(failed)?;
        let over = limit.is_some_and(|limit| since.elapsed() >= limit);
        let ends = seen.ended || over || STOP.load(Ordering::Relaxed);
        if !is_busy && (ends || since.elapsed() >= next_look) {
            // Such a check takes a CPU from the load, so the time between two of them doubles.
            next_look *= 2;
            is_busy = watch.as_ref().is_some_and(|watch| warns(watch, load));
        }
        if ends {
            break;
        }
        // Reading pages also takes a CPU from the load, so read only when a buffer is half full.
        if seen.half_full {
            recorder.drain(false).map_err(failed)?;
        }
    }
    recorder.end().map_err(failed)?;
    finish(command).map_err(failed)
}

/// Warns if processes outside the recorded `load` use enough CPU time for `validate` to
/// fail.
fn warns(watch: &Watch, load: Option<i32>) -> bool {
    let Some(others) = watch.others(load) else {
        return false;
    };
    let is_busy = others.pct + others.stolen_pct > MOST_OTHERS_PCT;
    if is_busy {
        say!(
            "warning: this computer is busy: {}; the load waits for this other work in the recording, but not \
             in a replay",
            others.words()
        );
    }
    is_busy
}

fn start(command: &[OsString]) -> Result<Child, Error> {
    let (program, arguments) = command.split_first().unwrap_or_else(|| {
        unreachable!("the command line has a command, where it has neither --pid nor --all")
    });
    Command::new(program)
        .args(arguments)
        .spawn()
        .map_err(|error| {
            bad(
                format!("{}: {error}", program.display()),
                "expected a command that can be run",
            )
        })
}

/// Returns the command's status, as a shell numbers it. Ends a command that still runs, and returns 0 for it.
fn finish(command: Option<Child>) -> io::Result<i32> {
    let Some(mut child) = command else {
        return Ok(0);
    };
    if child.try_wait()?.is_none() {
        recorder::end(child.id() as i32);
        child.wait()?;
        return Ok(0);
    }
    Ok(cage::shell_status(child.wait()?))
}

fn bad(message: String, expected: &str) -> Error {
    Error::Input(Box::new(BadInput::whole(message, expected)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_is_no_workload_is_kept_in_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("x.json");
        let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
        keep(&output, b"first").unwrap();
        keep(&output, b"second").unwrap();
        assert_eq!(
            [read("x.dat"), read("x.2.dat")],
            [b"first".to_vec(), b"second".to_vec()]
        );
    }

    #[test]
    fn a_command_that_still_runs_is_ended_and_has_no_status() {
        let script = "trap '' TERM; echo; while :; do sleep 1; done";
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        assert_eq!(finish(Some(child)).unwrap(), 0);
    }

    #[test]
    fn a_killed_command_has_the_status_that_a_shell_reports() {
        for (script, expected) in [("kill -9 $$", 128 + 9), ("exit 7", 7), ("exit 0", 0)] {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            child.wait().unwrap();
            assert_eq!(finish(Some(child)).unwrap(), expected, "{script}");
        }
    }
}
