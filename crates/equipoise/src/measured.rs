//! `equipoise compare --measured`: what was recorded in a real kernel, beside what the simulated one makes of it.

use crate::cli::{Compare, Output};
use crate::error::Error;
use crate::interrupt::{self, STOP};
use crate::{import, output};
use lab::{Case, Scheduler};
use machine::Machine;
use report::measured::Pair;
use report::trace::{Kind, Writer};
use std::path::Path;
use workload::recording::Replay;

/// The load is what the first trace shows; it is simulated under each trace's scheduler.
pub fn run(args: &Compare, output: &Output) -> Result<(), Error> {
    output::check_places(output, None)?;
    let machine = Machine::find(&args.machine)?;
    interrupt::listen();
    let mut traces = Vec::new();
    for measured in &args.measured {
        traces.push(import::read(&measured.trace, Some(&machine))?);
    }
    let Some(first) = traces.first() else {
        unreachable!("the command line has a trace")
    };
    let mut schedulers = Vec::new();
    for measured in &args.measured {
        schedulers.push(scheduler(&measured.policy)?);
    }
    let name = import::stem(&args.measured[0].trace);
    let replay = Replay::new(&name, first.recording.clone());
    // Each has a temporary file, which the cage would not let it have.
    let mut written = vec![Vec::new(); schedulers.len()];
    let writers = written.iter_mut();
    let writers: Vec<_> = writers
        .map(|bytes| Kind::Dat.writer(bytes, &machine))
        .collect();
    if schedulers.iter().any(Scheduler::is_foreign) {
        simulator::cage(&output::places(output, None)).map_err(Error::Cage)?;
    }
    for (scheduler, writer) in schedulers.iter().zip(writers) {
        let case = Case {
            machine: &machine,
            workload: &replay,
            scheduler,
        };
        simulate(&case, writer, args)?;
    }
    let mut pairs = Vec::new();
    for ((scheduler, imported), bytes) in schedulers.iter().zip(traces).zip(written) {
        pairs.push(Pair {
            policy: scheduler.name().to_owned(),
            measured: imported.summary,
            simulated: workload::import::simulated(&bytes, &machine)?,
        });
    }
    let page = report::measured::measured(&name, &machine.name, &pairs);
    output::show(output, &output::file_name(&name), page)
}

/// A policy, or a scheduler in C.
fn scheduler(name_or_file: &str) -> Result<Scheduler, Error> {
    Ok(match name_or_file.ends_with(".bpf.c") {
        true => Scheduler::foreign(&[Path::new(name_or_file)], &[])?,
        false => Scheduler::policy(name_or_file)?,
    })
}

/// Writes the trace of a replay.
fn simulate(case: &Case, mut writer: Box<dyn Writer + '_>, args: &Compare) -> Result<(), Error> {
    lab::trace_until(case, &args.runs.or(Some(1)), writer.as_mut(), &STOP)?;
    let finished = writer.finish();
    finished.map_err(|error| Error::Write(format!("the simulated trace: {error}")))
}
