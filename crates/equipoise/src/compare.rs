//! `equipoise compare`.

use crate::cli::{Build, Compare, Files, Format, Output};
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

/// Runs the schedulers and shows them side by side.
pub fn run(args: Compare, output: &Output) -> Result<(), Error> {
    let load = &args.workload;
    output::check_trace(args.runs.trace.as_deref())?;
    let (machine, workload) = subject::find(&args.machine, load, args.cpunodebind.as_deref())?;
    let mut schedulers = schedulers(&args)?;
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
            &named(&args, &comparison.schedulers),
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

/// Does the command line name no schedulers to compare?
fn is_usual(args: &Compare) -> bool {
    !args.all_policies && args.policies.is_empty() && args.schedulers.is_empty()
}

/// The schedulers to compare: the policies first, then the schedulers in C. If the policies that come with Equipoise
/// are compared, today's Linux is the first one.
fn schedulers(args: &Compare) -> Result<Vec<Scheduler>, Error> {
    let names: Vec<&str> = match args.all_policies {
        true => Policy::usual().chain(Policy::published()).collect(),
        false if is_usual(args) => Policy::usual().collect(),
        false => args.policies.iter().map(String::as_str).collect(),
    };
    let found = |name: &str| Ok(Scheduler::policy_in(name, args.kernel)?);
    let schedulers = names.into_iter().map(found);
    let mut schedulers: Vec<Scheduler> = schedulers.collect::<Result<_, Error>>()?;
    if !args.schedulers.is_empty() {
        foreign::check_cage(args.uncaged)?;
    }
    let mut foreign = foreign::load(&args.schedulers, &args.include, &args.settings, args.kernel)?;
    foreign::tell_apart(&schedulers, &mut foreign, &args.schedulers);
    schedulers.extend(foreign);
    // The scheduler's name distinguishes results and trace files.
    let mut names = HashSet::new();
    if let Some(twice) = schedulers.iter().find(|one| !names.insert(one.name())) {
        return Err(bad(
            format!("two schedulers are called `{}`", twice.name()),
            "expected each policy and each file once".to_owned(),
        ));
    }
    Ok(schedulers)
}

/// For each of `schedulers`, the options by which a command that takes a single scheduler names it.
fn named(args: &Compare, schedulers: &[Scheduler]) -> Vec<Vec<String>> {
    let (policies, in_c) = schedulers.split_at(schedulers.len() - args.schedulers.len());
    let policy = |(nr, policy): (usize, &Scheduler)| {
        let name = args.policies.get(nr).map_or(policy.name(), String::as_str);
        let build = Build {
            kernel: args.kernel,
            ..Build::default()
        };
        foreign::options(None, name, &build)
    };
    let compiled = |(files, one): (&Files, &Scheduler)| {
        // A scheduler that has the name of another one got its file's name, too.
        let name = one.name().split(' ').next();
        let settings = args.settings.iter().filter(|setting| {
            let of = setting.scheduler.as_deref();
            of.map_or(one.has(&setting.variable), |of| Some(of) == name)
        });
        let build = Build {
            include: args.include.clone(),
            kernel: args.kernel,
            settings: settings.cloned().collect(),
            uncaged: args.uncaged,
        };
        foreign::options(Some(files), one.name(), &build)
    };
    let policies = policies.iter().enumerate().map(policy);
    let in_c = args.schedulers.iter().zip(in_c).map(compiled);
    policies.chain(in_c).collect()
}

fn bad(message: String, expected: String) -> Error {
    Error::Input(Box::new(BadInput::whole(message, expected)))
}
