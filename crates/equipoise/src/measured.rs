//! `equipoise compare --measured`: what was recorded in a real kernel, beside what the simulated one makes of it.

use crate::cli::{Compare, Measured, Output};
use crate::error::Error;
use crate::interrupt::{self, STOP};
use crate::{import, output};
use lab::{Case, Scheduler};
use machine::Machine;
use report::measured::Pair;
use report::trace::Kind;
use workload::import::Summary;
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
    let name = import::stem(&args.measured[0].trace);
    let replay = Replay::new(&name, first.recording.clone());
    let mut pairs = Vec::new();
    for (measured, imported) in args.measured.iter().zip(traces) {
        let simulated = simulate(&machine, &replay, measured, args)?;
        pairs.push(Pair {
            policy: measured.policy.clone(),
            measured: imported.summary,
            simulated,
        });
    }
    let page = report::measured::measured(&name, &machine.name, &pairs);
    output::show(output, &output::file_name(&name), page)
}

/// What the replay's threads get under the scheduler that the trace was recorded under.
fn simulate(
    machine: &Machine,
    replay: &Replay,
    measured: &Measured,
    args: &Compare,
) -> Result<Summary, Error> {
    let scheduler = Scheduler::policy(&measured.policy)?;
    let case = Case {
        machine,
        workload: replay,
        scheduler: &scheduler,
    };
    let mut bytes = Vec::new();
    let mut writer = Kind::Dat.writer(&mut bytes, machine);
    lab::trace_until(&case, &args.runs.or(Some(1)), writer.as_mut(), &STOP)?;
    let written = writer.finish();
    drop(writer);
    written.map_err(|error| Error::Write(format!("the simulated trace: {error}")))?;
    Ok(workload::import::simulated(&bytes, machine)?)
}
