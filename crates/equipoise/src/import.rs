//! `equipoise workload import`.

use crate::cli::{Import, Output};
use crate::error::Error;
use crate::output;
use crate::say;
use machine::input::{self, BadInput};
use machine::{Machine, counted};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use trace::import::{self, Imported, Summary};
use workload::recording::{Period, Recording};

pub fn run(args: Import, output: &Output) -> Result<(), Error> {
    let machine = args.machine.as_deref().map(Machine::find).transpose()?;
    let imported = read(&args.trace, machine.as_ref(), &args.periods)?;
    let names = imported.summary.threads.iter().map(|did| &did.name);
    let names: Vec<&String> = names.collect();
    if let Some((name, _)) = args.periods.iter().find(|(name, _)| !names.contains(&name)) {
        return Err(Error::Input(Box::new(BadInput::whole(
            format!(
                "--period {name}: no such thread in {}",
                input::shown(&args.trace)
            ),
            "expected the name of a recorded thread",
        ))));
    }
    say(&imported.summary);
    say_periods(&imported.recording);
    let text = text(&imported.recording)?;
    output::write_text(output, &format!("{}.json", stem(&args.trace)), &text)
}

/// Reads the load from `trace`, which is a file or `-`.
pub fn read(
    trace: &Path,
    machine: Option<&Machine>,
    periods: &[import::Set],
) -> Result<Imported, Error> {
    let name = input::shown(trace).to_string();
    Ok(match trace == Path::new(input::STDIN) {
        true => import::import_with(&name, io::stdin().lock(), machine, periods)?,
        false => {
            let unreadable = |error: io::Error| input::unreadable(trace, "trace", &error);
            let mut file = BufReader::new(File::open(trace).map_err(unreadable)?);
            let head = file.fill_buf().map_err(unreadable)?;
            let convert: Option<fn(&Path, &Path) -> Command> = match head {
                head if head.starts_with(VERSION_7) => Some(trace_cmd),
                head if head.starts_with(PERF_DATA) => Some(perf),
                _ => None,
            };
            match convert.map(|convert| converted(trace, convert)) {
                // Without a converter, the error message says how to convert the file.
                Some(Some(converted)) => {
                    import::import_with(&name, BufReader::new(converted), machine, periods)?
                }
                _ => import::import_with(&name, file, machine, periods)?,
            }
        }
    })
}

/// The first bytes of trace-cmd's files since 3.0, which may be compressed.
const VERSION_7: &[u8] = b"\x17\x08\x44tracing7\0";
/// The first bytes of perf's files (`PERF_MAGIC2`).
const PERF_DATA: &[u8] = b"PERFILE2";

/// The command that converts `trace` to trace-cmd's older format, in `file`.
fn trace_cmd(trace: &Path, file: &Path) -> Command {
    let mut command = Command::new("trace-cmd");
    command.args(["convert", "--file-version", "6", "-i"]);
    command.arg(trace).arg("-o").arg(file);
    command
}

fn perf(trace: &Path, file: &Path) -> Command {
    let mut command = Command::new("perf");
    // Without --ns, times are in whole us.
    let fields = "comm,tid,cpu,time,event,trace";
    command.args(["script", "--ns", "--fields", fields, "-i"]);
    command.arg(trace);
    if let Ok(file) = File::create(file) {
        command.stdout(file);
    }
    command
}

/// Converts `trace` to a format that the import reads, if the program of `convert` is installed and succeeds.
fn converted(trace: &Path, convert: fn(&Path, &Path) -> Command) -> Option<File> {
    let folder = tempfile::tempdir().ok()?;
    let file = folder.path().join("trace");
    let mut command = convert(trace, &file);
    let status = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .ok()?;
    status.success().then(|| File::open(&file).ok())?
}

pub fn stem(trace: &Path) -> String {
    match trace == Path::new(input::STDIN) {
        true => "recorded".to_owned(),
        false => trace
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
    }
}

pub fn say(summary: &Summary) {
    say!(
        "{} in {:.3} s, {} lost; {}",
        counted(summary.events, "event", "events"),
        summary.span_ns as f64 / 1e9,
        summary.lost,
        counted(summary.threads.len(), "thread", "threads")
    );
    if summary.lost > 0 {
        say!("warning: because of lost events, runs are too long and wakeups are missing");
    }
    for note in &summary.notes {
        say!("note: {note}");
    }
}

/// Prints the periods that were found, by the threads' names, on standard error.
pub fn say_periods(recording: &Recording) {
    let mut by_name = BTreeMap::new();
    for thread in &recording.threads {
        if let Some(period) = thread.period {
            by_name.entry(&*thread.name).or_insert(period);
        }
    }
    if !by_name.is_empty() {
        let one =
            |(name, period): (&&str, &Period)| format!("{name} {:.2} ms", period.ns as f64 / 1e6);
        let all: Vec<String> = by_name.iter().map(one).collect();
        say!("periods: {}; `workload show` has more", all.join(", "));
    }
}

pub fn text(recording: &Recording) -> Result<String, Error> {
    let text = serde_json::to_string(recording);
    let text = text.map_err(|error| Error::Write(format!("the recording: {error}")))?;
    Ok(text + "\n")
}
