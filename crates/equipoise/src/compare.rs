//! `equipoise compare`.

use crate::cli::{Compare, Output};
use crate::error::Error;
use crate::output::{self, Document, Staged};
use crate::progress::Progress;
use lab::{Comparison, Scheduler};
use machine::Machine;

/// Runs the schedulers and shows them side by side.
pub fn run(args: Compare, output: &Output) -> Result<(), Error> {
    if let Some(file) = &args.runs.trace {
        output::trace_kind(file)?;
    }
    let machine = Machine::find(&args.machine)?;
    let workload = workload::load(&args.workload)?;
    let schedulers = schedulers(&args)?;
    let runs = lab::Runs::from(&args.runs);
    let progress = Progress::new(schedulers.len() * runs.count as usize);
    let comparison = Comparison::run(machine, workload, schedulers, runs, &|| progress.done())?;
    drop(progress);
    let staged = match &args.runs.trace {
        Some(file) => {
            let names = comparison
                .schedulers
                .iter()
                .map(|scheduler| scheduler.name().to_owned());
            let cases: Vec<_> = names.zip(comparison.cases()).collect();
            output::trace(file, &cases, &runs)?
        }
        None => Staged::default(),
    };
    let json = report::json::comparison(&comparison);
    let name = format!("{}-{}", comparison.machine.name, comparison.workload.name());
    let document = Document {
        name: output::file_name(&name),
        page: report::comparison(&comparison),
        json: json.clone(),
    };
    output::emit(output, &[document], &json, staged)
}

/// The policies, then the schedulers in C.
fn schedulers(args: &Compare) -> Result<Vec<Scheduler>, Error> {
    let mut schedulers = Vec::new();
    for policy in &args.policies {
        schedulers.push(Scheduler::policy(policy)?);
    }
    for source in &args.schedulers {
        schedulers.push(Scheduler::foreign(source, &args.settings)?);
    }
    Ok(schedulers)
}
