//! Somebody else's schedulers, in C, as the command line names them.

use crate::cli::{Files, Setting};
use crate::error::Error;
use lab::Scheduler;
use machine::input::{self, BadInput};
use native::Kernel;
use std::path::{Path, PathBuf};

/// Compiles each of `files` for `kernel`, with headers from `include`, and sets the variables in `settings`. Prints a
/// warning for each deprecated feature.
pub fn load(
    files: &[Files],
    include: &[PathBuf],
    settings: &[Setting],
    kernel: Kernel,
) -> Result<Vec<Scheduler>, Error> {
    let include: Vec<&Path> = include.iter().map(PathBuf::as_path).collect();
    let of = |files: &Files| {
        let files: Vec<&Path> = files.0.iter().map(PathBuf::as_path).collect();
        one(&files, &include, kernel)
    };
    let mut foreign = files.iter().map(of).collect::<Result<Vec<_>, _>>()?;
    for setting in settings {
        set(&mut foreign, setting)?;
    }
    Ok(foreign)
}

/// Compiles one scheduler from `files` and prints a warning for each deprecated feature that it uses.
pub fn one(files: &[&Path], include: &[&Path], kernel: Kernel) -> Result<Scheduler, Error> {
    let scheduler = Scheduler::foreign_in(files, include, kernel)?;
    for warning in scheduler.warnings() {
        eprintln!(
            "equipoise: warning: scheduler `{}`: {warning}",
            scheduler.name()
        );
    }
    Ok(scheduler)
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
pub fn tell_apart(policies: &[Scheduler], foreign: &mut [Scheduler], files: &[Files]) {
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
