//! `equipoise workload import`.

use crate::cli::{Import, Output};
use crate::error::Error;
use crate::output;
use machine::Machine;
use machine::input;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use workload::import::{self, Imported, Summary};
use workload::recording::Recording;

/// Writes the workload, and says on standard error what became of the trace.
pub fn run(args: Import, output: &Output) -> Result<(), Error> {
    let machine = args.machine.as_deref().map(Machine::find).transpose()?;
    let imported = read(&args.trace, machine.as_ref())?;
    say(&imported.summary);
    let text = text(&imported.recording)?;
    output::write_text(output, &format!("{}.json", stem(&args.trace)), &text)
}

/// What `trace`, a file or `-`, shows.
pub fn read(trace: &Path, machine: Option<&Machine>) -> Result<Imported, Error> {
    let name = input::shown(trace).to_string();
    Ok(match trace == Path::new(input::STDIN) {
        true => import::import(&name, io::stdin().lock(), machine)?,
        false => {
            let file = File::open(trace);
            let file = file.map_err(|error| input::unreadable(trace, "trace", &error))?;
            import::import(&name, BufReader::new(file), machine)?
        }
    })
}

/// What its load is called.
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

/// Says on standard error what became of a trace.
pub fn say(summary: &Summary) {
    eprintln!(
        "{} events in {:.3} s, {} lost; {} threads",
        summary.events,
        summary.span_ns as f64 / 1e9,
        summary.lost,
        summary.threads.len()
    );
    if summary.lost > 0 {
        eprintln!("warning: of what was lost, runs are too long and wakeups missing");
    }
    for note in &summary.notes {
        eprintln!("note: {note}");
    }
}

/// The file of a recording.
pub fn text(recording: &Recording) -> Result<String, Error> {
    let text = serde_json::to_string(recording);
    let text = text.map_err(|error| Error::Write(format!("the recording: {error}")))?;
    Ok(text + "\n")
}
