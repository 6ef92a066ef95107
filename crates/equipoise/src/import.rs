//! `equipoise workload import`.

use crate::cli::{Import, Output};
use crate::error::Error;
use crate::output;
use machine::Machine;
use machine::input;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use workload::import;

/// Writes the workload, and says on standard error what became of the trace.
pub fn run(args: Import, output: &Output) -> Result<(), Error> {
    let machine = args.machine.as_deref().map(Machine::find).transpose()?;
    let unreadable = |error| input::unreadable(&args.trace, "trace", &error);
    let name = input::shown(&args.trace).to_string();
    let imported = match args.trace == Path::new(input::STDIN) {
        true => import::import(&name, io::stdin().lock(), machine.as_ref())?,
        false => {
            let trace = File::open(&args.trace).map_err(unreadable)?;
            import::import(&name, BufReader::new(trace), machine.as_ref())?
        }
    };
    let summary = &imported.summary;
    eprintln!(
        "{} events in {:.3} s, {} lost; {} threads",
        summary.events,
        summary.span_ns as f64 / 1e9,
        summary.lost,
        imported.recording.threads.len()
    );
    if summary.lost > 0 {
        eprintln!("warning: of what was lost, runs are too long and wakeups missing");
    }
    for note in &summary.notes {
        eprintln!("note: {note}");
    }
    let text = serde_json::to_string(&imported.recording)
        .map_err(|error| Error::Write(format!("the recording: {error}")))?;
    let stem = match args.trace == Path::new(input::STDIN) {
        true => "recorded".into(),
        false => args.trace.file_stem().unwrap_or_default().to_string_lossy(),
    };
    output::write_text(output, &format!("{stem}.json"), &(text + "\n"))
}
