//! `equipoise compare`.

use crate::cli::{Build, Compare, Format, Output};
use crate::error::Error;
use crate::figures::figures;
use crate::foreign;
use crate::interrupt;
use crate::output::{self, Document, Staged};
use crate::progress::Progress;
use crate::subject;
use lab::{Comparison, Scheduler};
use machine::input::BadInput;
use policy::Policy;
use report::Shown;
use std::collections::HashSet;

pub fn run(args: Compare, output: &Output) -> Result<(), Error> {
    let load = &args.workload;
    output::check_trace(args.runs.trace.as_deref())?;
    let (machine, workload) = subject::find(&args.machine, load, args.cpunodebind.as_deref())?;
    let (mut schedulers, named) = schedulers(&args)?;
    let recipe = subject::recipe(&args.machine, load, args.cpunodebind.as_deref());
    foreign::send_elsewhere(&mut schedulers, &recipe);
    let runs = lab::Runs {
        noise: !args.noise.exact,
        ..args.runs.or(None)
    };
    let progress = Progress::new(schedulers.len() * runs.count as usize);
    interrupt::listen();
    let comparison =
        progress.watch(|watch| Comparison::run(machine, workload, schedulers, runs, watch))?;
    drop(progress);
    if comparison.runs.count == 0 {
        return interrupt::check();
    }
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
    let name = format!("{}-{}", comparison.machine.name, comparison.workload.name());
    let shown = Shown {
        goal: args.goal.map(Into::into),
        all: args.all,
    };
    let findings = comparison.findings();
    let mut page = report::comparison(&findings, shown);
    if is_usual(&args) {
        let count = Policy::published().count();
        page.remarks.push(format!(
            "--all-policies adds {count} published designs and their kernels; --policy NAME names the policies to compare."
        ));
    }
    if output.format == Format::Html {
        page.figures = figures(
            &comparison,
            &subject::options(&args.machine, load, args.cpunodebind.as_deref()),
            &named,
        )?;
    }
    let document = Document {
        name: output::file_name(&name),
        page,
        json: Box::new(|| report::json::comparison(&findings)),
        csv: Box::new(|| report::csv::comparison(&findings)),
    };
    output::emit(output, &[document], None, staged)?;
    interrupt::check()
}

fn is_usual(args: &Compare) -> bool {
    !args.all_policies && args.policies.is_empty() && args.schedulers.is_empty()
}

/// The schedulers to compare, and for each of them the options by which a command that takes a single scheduler names
/// it. The policies are first, then the schedulers in C. If the policies that come with Equipoise are compared, today's
/// Linux is the first one.
fn schedulers(args: &Compare) -> Result<(Vec<Scheduler>, Vec<Vec<String>>), Error> {
    let names: Vec<&str> = match args.all_policies {
        true => Policy::usual().chain(Policy::published()).collect(),
        false if is_usual(args) => Policy::usual().collect(),
        false => args.policies.iter().map(String::as_str).collect(),
    };
    let build = Build {
        kernel: args.kernel,
        ..Build::default()
    };
    let policy = |name: &&str| {
        let options = foreign::options(None, name, &build);
        Ok((Scheduler::policy_in(name, args.kernel)?, options))
    };
    let policies = names.iter().map(policy);
    let mut all: Vec<_> = policies.collect::<Result<_, Error>>()?;
    if !args.schedulers.is_empty() {
        foreign::check_cage(args.uncaged)?;
    }
    let loaded = foreign::load(&args.schedulers, &args.include, &args.settings, args.kernel)?;
    for (one, files) in loaded.into_iter().zip(&args.schedulers) {
        let build = Build {
            include: args.include.clone(),
            kernel: args.kernel,
            settings: one.settings,
            uncaged: args.uncaged,
        };
        let options = foreign::options(Some(files), one.scheduler.name(), &build);
        all.push((one.scheduler, options));
    }
    let (mut schedulers, named): (Vec<Scheduler>, _) = all.into_iter().unzip();
    foreign::tell_apart(&mut schedulers, &args.schedulers);
    let mut names = HashSet::new();
    if let Some(twice) = schedulers.iter().find(|one| !names.insert(one.name())) {
        return Err(bad(
            format!("two schedulers are called `{}`", twice.name()),
            "expected each policy and each file once".to_owned(),
        ));
    }
    Ok((schedulers, named))
}

fn bad(message: String, expected: String) -> Error {
    Error::Input(Box::new(BadInput::whole(message, expected)))
}
