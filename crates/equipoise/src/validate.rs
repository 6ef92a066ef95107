//! `equipoise validate`: shows a recording from a real kernel alongside its simulation,
//! and judges the simulation.

use crate::cli::{Format, Output, Validate};
use crate::error::Error;
use crate::interrupt::{self, STOP};
use crate::{foreign, import, output};
use lab::{Case, Described, Recipe, Runs, Scheduler};
use machine::Machine;
use native::Kernel;
use report::measured::Pair;
use std::path::Path;
use tempfile::SpooledTempFile;
use trace::write::Kind;
use workload::recording::Replay;

/// Executes `equipoise validate`. The load comes from the first trace, and is simulated under the scheduler of each
/// trace.
pub fn run(args: &Validate, output: &Output) -> Result<(), Error> {
    let machine = Machine::find(&args.machine)?;
    interrupt::listen();
    let mut traces = Vec::new();
    for measured in &args.traces {
        let imported = import::read(&measured.trace, Some(&machine), &[])?;
        traces.push(imported);
    }
    let Some(first) = traces.first() else {
        unreachable!("the command line has a trace")
    };
    if args.traces.iter().any(|one| is_foreign(&one.policy)) {
        foreign::check_cage(args.uncaged)?;
    }
    let mut schedulers = Vec::new();
    for measured in &args.traces {
        schedulers.push(scheduler(&measured.policy, args.kernel)?);
    }
    let name = import::stem(&args.traces[0].trace);
    let replay = Replay::new(&name, first.recording.clone());
    let recipe = Recipe {
        machine: Described::Named(args.machine.clone()),
        workload: Described::Text {
            name: name.clone(),
            file: name.clone(),
            text: import::text(&first.recording)?,
            params: None,
        },
        nodes: None,
    };
    foreign::send_elsewhere(&mut schedulers, &recipe);
    let mut pairs = Vec::new();
    for (scheduler, imported) in schedulers.iter().zip(traces) {
        let case = Case {
            machine: &machine,
            workload: &replay,
            scheduler,
        };
        let bytes = simulate(&case, args)?;
        pairs.push(Pair {
            policy: scheduler.name().to_owned(),
            measured: imported.summary,
            simulated: trace::import::simulated(&bytes, &machine)?,
        });
    }
    let outcome = report::measured::measured(&name, &machine.name, &pairs);
    let title = outcome.page.title.clone();
    output::show(output, &output::file_name(&name), outcome.page)?;
    match outcome.passes {
        true => Ok(()),
        false if output.format == Format::Table && output.out.is_none() => Err(Error::Missed(None)),
        false => Err(Error::Missed(Some(title))),
    }
}

fn is_foreign(name_or_file: &str) -> bool {
    name_or_file.ends_with(".bpf.c")
}

fn scheduler(name_or_file: &str, kernel: Kernel) -> Result<Scheduler, Error> {
    match is_foreign(name_or_file) {
        true => foreign::one(&[Path::new(name_or_file)], &[], kernel),
        false => Ok(Scheduler::policy_in(name_or_file, kernel)?),
    }
}

/// Replays the load of `case`, and returns the `trace.dat`, which stays in memory.
fn simulate(case: &Case, args: &Validate) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut writer = report::events::writer(
        Kind::Dat,
        &mut bytes,
        case.machine,
        SpooledTempFile::new(usize::MAX),
    );
    let runs = Runs {
        count: 1,
        seed: args.seed,
        jobs: 1,
        // The recording already has the noise of its machine.
        noise: false,
    };
    lab::trace_until(case, &runs, writer.as_mut(), &STOP)?;
    let finished = writer.finish();
    finished.map_err(|error| Error::Write(format!("the simulated trace: {error}")))?;
    drop(writer);
    Ok(bytes)
}
