//! Foreign schedulers in C, as the command line names them.

use crate::cli::{Build, Files, Setting};
use crate::error::Error;
use crate::say;
use lab::{Peer, Recipe, Scheduler, Start};
use machine::input::{self, BadInput};
use native::Kernel;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice;
use std::sync::Arc;

/// The argument that makes this program a worker of itself ([`lab::work`]).
const WORKER: &str = "--simulate-elsewhere";

/// The path of this program, even after its file has been replaced.
const ITSELF: &str = "/proc/self/exe";

pub fn is_worker() -> bool {
    std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == WORKER)
}

/// Reports the features that the kernel lacks for isolating a scheduler in C, as an error or, if `uncaged`, as a
/// warning.
pub fn check_cage(uncaged: bool) -> Result<(), Error> {
    let lacking = cage::lacks();
    if uncaged {
        cage::run_uncaged();
    }
    match lacking.join(" and ") {
        nothing if nothing.is_empty() => Ok(()),
        what if uncaged => {
            say!(
                "warning: this kernel lacks {what}: a scheduler in C keeps the rights that this protection would take \
                 away, such as access to your files or system calls"
            );
            Ok(())
        }
        what => Err(Error::Cage(what)),
    }
}

/// The scheduler in C that `files` names or, without `files`, the policy.
pub fn or_policy(files: Option<&Files>, policy: &str, build: &Build) -> Result<Scheduler, Error> {
    let Some(files) = files else {
        return Ok(Scheduler::policy_in(policy, build.kernel)?);
    };
    check_cage(build.uncaged)?;
    let files = slice::from_ref(files);
    let loaded = load(files, &build.include, &build.settings, build.kernel)?;
    let one = loaded.into_iter().next();
    Ok(one.expect("one for each list of files").scheduler)
}

/// The options of a command line that name the scheduler of [`or_policy`] with these arguments.
pub fn options(files: Option<&Files>, policy: &str, build: &Build) -> Vec<String> {
    let mut options = match files {
        Some(files) => {
            let files: Vec<String> = files.0.iter().map(|file| input::shown(file)).collect();
            vec!["--scheduler".to_owned(), files.join(",")]
        }
        None => vec!["--policy".to_owned(), policy.to_owned()],
    };
    let mut add = |name: &str, value: String| options.extend([name.to_owned(), value]);
    for folder in &build.include {
        add("--include", folder.to_string_lossy().into_owned());
    }
    for setting in &build.settings {
        add("--set", setting.to_string());
    }
    if build.kernel != Kernel::default() {
        add("--kernel", build.kernel.to_string());
    }
    if build.uncaged {
        options.push("--uncaged".to_owned());
    }
    options
}

/// Makes the schedulers in C among `schedulers` run in processes of their own, on the machine and
/// load of `recipe`.
pub fn send_elsewhere(schedulers: &mut [Scheduler], recipe: &Recipe) {
    for scheduler in schedulers {
        scheduler.run_elsewhere(recipe, &start());
    }
}

pub fn start() -> Start {
    Arc::new(|| {
        let mut command = Command::new(ITSELF);
        command.arg0("equipoise").arg(WORKER).env_clear();
        command
    })
}

/// A scheduler in C, with those settings of the command line that are the scheduler's.
pub struct Loaded {
    pub scheduler: Scheduler,
    pub settings: Vec<Setting>,
}

/// Compiles each of `files` for `kernel`, with headers from `include`, and sets the variables in `settings`. Prints a
/// warning for each deprecated feature.
pub fn load(
    files: &[Files],
    include: &[PathBuf],
    settings: &[Setting],
    kernel: Kernel,
) -> Result<Vec<Loaded>, Error> {
    // A compiler ignores a folder that does not exist.
    if let Some(folder) = include.iter().find(|folder| !folder.is_dir()) {
        return Err(bad(
            format!("--include {}: no such folder", folder.display()),
            "expected a folder with headers".to_owned(),
        ));
    }
    let include: Vec<&Path> = include.iter().map(PathBuf::as_path).collect();
    let of = |files: &Files| {
        if let Some(peer) = peer(&files.0)? {
            return Ok(warned(peer.load(&include, kernel)?));
        }
        let files: Vec<&Path> = files.0.iter().map(PathBuf::as_path).collect();
        one(&files, &include, kernel)
    };
    let alone = |scheduler| Loaded {
        scheduler,
        settings: Vec::new(),
    };
    let loaded = files.iter().map(|files| of(files).map(alone));
    let mut foreign = loaded.collect::<Result<Vec<_>, Error>>()?;
    for setting in settings {
        set(&mut foreign, setting)?;
    }
    Ok(foreign)
}

/// The published scheduler that `files` names; `None` if `files` are files.
fn peer(files: &[PathBuf]) -> Result<Option<Peer>, Error> {
    let [name] = files else {
        return Ok(None);
    };
    let Some(name) = name
        .to_str()
        .filter(|_| !name.exists() && name.extension().is_none())
    else {
        return Ok(None);
    };
    match Peer::find(name) {
        Ok(peer) => Ok(Some(peer)),
        Err(error) => Err(bad(
            format!("`{name}`: neither a file nor a published scheduler has this name"),
            error.expected().to_owned(),
        )),
    }
}

pub fn one(files: &[&Path], include: &[&Path], kernel: Kernel) -> Result<Scheduler, Error> {
    Ok(warned(Scheduler::foreign_in(files, include, kernel)?))
}

fn warned(scheduler: Scheduler) -> Scheduler {
    for warning in scheduler.warnings() {
        say!(
            "equipoise: warning: scheduler `{}`: {warning}",
            scheduler.name()
        );
    }
    scheduler
}

/// Sets a variable of the scheduler that the setting names or, if it names none, of all schedulers that have the
/// variable.
fn set(foreign: &mut [Loaded], setting: &Setting) -> Result<(), Error> {
    let Setting {
        scheduler,
        variable,
        value,
    } = setting;
    let fits = |one: &Scheduler| match scheduler {
        Some(name) => one.name() == name,
        None => one.has(variable),
    };
    let schedulers = || foreign.iter().map(|one| &one.scheduler);
    if !schedulers().any(fits) {
        let names = || schedulers().map(Scheduler::name);
        return Err(match scheduler {
            Some(name) => bad(
                format!("--set {name}:{variable}: no scheduler in C has the name `{name}`"),
                input::one_of(name, names()),
            ),
            None => bad(
                format!(
                    "--set {variable}: not a global variable of {}",
                    names().collect::<Vec<_>>().join(", ")
                ),
                match schedulers()
                    .flat_map(Scheduler::settable)
                    .collect::<BTreeSet<_>>()
                {
                    none if none.is_empty() => {
                        "expected a scheduler with `const volatile` variables".to_owned()
                    }
                    variables => input::one_of(variable, variables),
                },
            ),
        });
    }
    for one in foreign.iter_mut().filter(|one| fits(&one.scheduler)) {
        one.scheduler.set(variable, *value)?;
        one.settings.push(setting.clone());
    }
    Ok(())
}

/// Adds its file's name to the name of each scheduler in C that has the same name as another scheduler. Such schedulers
/// are usually two versions of one scheduler. The last schedulers are those in C, whose files are `files`.
pub fn tell_apart(schedulers: &mut [Scheduler], files: &[Files]) {
    let name = |scheduler: &Scheduler| scheduler.name().to_owned();
    let names: Vec<String> = schedulers.iter().map(name).collect();
    let policies = schedulers.len() - files.len();
    for (scheduler, files) in schedulers[policies..].iter_mut().zip(files) {
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
