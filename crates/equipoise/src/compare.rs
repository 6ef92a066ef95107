//! `equipoise compare`.

use crate::cli::{Compare, Files, Format, Output, Setting};
use crate::error::Error;
use crate::figures::figures;
use crate::interrupt;
use crate::measured;
use crate::output::{self, Document, Staged};
use crate::progress::Progress;
use crate::subject;
use lab::{Comparison, Scheduler};
use machine::input::{self, BadInput};
use policy::Policy;
use report::Shown;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Runs the schedulers and shows them side by side.
pub fn run(args: Compare, output: &Output) -> Result<(), Error> {
    let Some(workload) = &args.workload else {
        return measured::run(&args, output);
    };
    output::check_places(output, args.runs.trace.as_deref())?;
    let (machine, workload) = subject::find(&args.machine, workload, args.cpunodebind.as_deref())?;
    let schedulers = schedulers(&args)?;
    if schedulers.iter().any(Scheduler::is_foreign) {
        let places = output::places(output, args.runs.trace.as_deref());
        simulator::cage(&places).map_err(Error::Cage)?;
    }
    let runs = args.runs.or(None);
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
    let mut page = report::comparison(&comparison, shown);
    if output.format == Format::Html {
        page.figures = figures(&comparison)?;
    }
    let document = Document {
        name: output::file_name(&name),
        page,
        json: report::json::comparison(&comparison),
        csv: report::csv::comparison(&comparison),
    };
    output::emit(output, &[document], None, staged)?;
    interrupt::check()
}

/// The policies, then the schedulers in C. Today's Linux is the first of the policies that come with Equipoise.
fn schedulers(args: &Compare) -> Result<Vec<Scheduler>, Error> {
    let all = args.policies.is_empty() && args.schedulers.is_empty();
    let mut schedulers: Vec<Scheduler> = match all {
        true => Policy::names()
            .map(Scheduler::policy)
            .collect::<Result<_, _>>()?,
        false => args
            .policies
            .iter()
            .map(|policy| Scheduler::policy(policy))
            .collect::<Result<_, _>>()?,
    };
    let mut foreign = foreign(args)?;
    for setting in &args.settings {
        set(&mut foreign, setting)?;
    }
    tell_apart(&schedulers, &mut foreign, &args.schedulers);
    schedulers.extend(foreign);
    // Results and trace files are told apart by it.
    let mut names = HashSet::new();
    if let Some(twice) = schedulers.iter().find(|one| !names.insert(one.name())) {
        return Err(bad(
            format!("two schedulers are called `{}`", twice.name()),
            "expected each policy and each file once".to_owned(),
        ));
    }
    Ok(schedulers)
}

fn foreign(args: &Compare) -> Result<Vec<Scheduler>, Error> {
    let include: Vec<&Path> = args.include.iter().map(PathBuf::as_path).collect();
    let of = |files: &Files| {
        let files: Vec<&Path> = files.0.iter().map(PathBuf::as_path).collect();
        Ok(Scheduler::foreign(&files, &include)?)
    };
    args.schedulers.iter().map(of).collect()
}

/// Sets a variable of the scheduler that the setting names, else of all that have it.
fn set(foreign: &mut [Scheduler], setting: &Setting) -> Result<(), Error> {
    let Setting {
        scheduler,
        variable,
        value,
    } = setting;
    let fits = |one: &Scheduler| match scheduler {
        Some(name) => one.name() == name,
        None => one.has(variable),
    };
    if !foreign.iter().any(fits) {
        let names = || foreign.iter().map(Scheduler::name);
        return Err(match scheduler {
            Some(name) => bad(
                format!("--set {name}:{variable}: no scheduler in C calls itself `{name}`"),
                input::one_of(name, names()),
            ),
            None => bad(
                format!(
                    "--set {variable}: no global variable of {}",
                    names().collect::<Vec<_>>().join(", ")
                ),
                "expected the name of a `const volatile` variable".to_owned(),
            ),
        });
    }
    for one in foreign.iter_mut().filter(|one| fits(one)) {
        one.set(variable, *value)?;
    }
    Ok(())
}

/// Schedulers in C that call themselves as another does are called by their files, too: two versions of one, as a rule.
fn tell_apart(policies: &[Scheduler], foreign: &mut [Scheduler], files: &[Files]) {
    let names: Vec<String> = policies
        .iter()
        .chain(&*foreign)
        .map(|scheduler| scheduler.name().to_owned())
        .collect();
    for (scheduler, files) in foreign.iter_mut().zip(files) {
        let name = scheduler.name();
        if names.iter().filter(|other| *other == name).count() > 1 {
            let renamed = format!("{name} ({})", files.0[0].display());
            scheduler.rename(renamed);
        }
    }
}

fn bad(message: String, expected: String) -> Error {
    Error::Input(Box::new(BadInput::whole(message, expected)))
}
