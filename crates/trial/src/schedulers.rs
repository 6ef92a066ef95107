//! The schedulers of a trial, as the command line names them.

use machine::input::BadInput;
use policy::Policy;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The name of the kernel's own scheduler, which is the baseline.
pub const BASELINE: &str = "eevdf";
/// The loader of Equipoise's policies.
const LOADER: &str = "scx_equipoise";
/// Programs called `scx_*` that load no scheduler: the D-Bus service of scx, its client, its monitor and its
/// statistics.
const NO_LOADERS: [&str; 4] = ["scx_loader", "scx_ctl", "scx_top", "scx_stats"];

/// A scheduler of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduler {
    /// The scheduler's name in tables.
    pub name: String,
    /// The command that loads the scheduler, and unloads it when the command ends; `None` for the kernel's own
    /// scheduler.
    #[serde(skip)]
    pub loader: Option<Vec<OsString>>,
}

impl Scheduler {
    /// The kernel's own scheduler.
    pub fn own() -> Scheduler {
        Scheduler {
            name: BASELINE.to_owned(),
            loader: None,
        }
    }

    /// The scheduler's name in the simulator: the name of a policy with its settings, or of a published scheduler,
    /// whose options are not simulated.
    pub fn simulated(&self) -> &str {
        self.name.split(' ').next().unwrap_or_default()
    }

    /// The scheduler called `text`: `eevdf` (the kernel's own), one of Equipoise's policies with or without settings, a
    /// policy file, or the command line of a loader. `find` returns the path of a program. It is an error if the policy
    /// or the program does not exist.
    pub fn parse(
        text: &str,
        find: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Result<Scheduler, Box<BadInput>> {
        if text == BASELINE {
            return Ok(Scheduler::own());
        }
        let bad = |message: String| {
            Box::new(BadInput::whole(
                format!("--scheduler {text}: {message}"),
                "expected eevdf, one of Equipoise's policies (`equipoise policy list`), or a loader and its options, such as 'scx_bpfland -s 5000'",
            ))
        };
        let name = text.split(':').next().unwrap_or_default();
        let is_policy = Policy::usual()
            .chain(Policy::published())
            .any(|it| it == name);
        if is_policy || text.ends_with(".toml") {
            Policy::find(text)?;
            let loader = find(LOADER).ok_or_else(|| {
                bad(format!(
                    "{LOADER}, which loads it, is neither beside this program nor on PATH"
                ))
            })?;
            return Ok(Scheduler {
                name: text.to_owned(),
                loader: Some(vec![loader.into(), "--policy".into(), text.into()]),
            });
        }
        let words = shlex::split(text).filter(|words| !words.is_empty());
        let mut words = words
            .ok_or_else(|| bad("not a command line".to_owned()))?
            .into_iter();
        let program = words.next().unwrap_or_default();
        if program.ends_with(".bpf.c") || program.ends_with(".bpf.o") {
            return Err(bad(
                "a kernel runs it only with a program that loads it; in a checkout, `vm/build-scheduler FILE.bpf.c` makes one".to_owned(),
            ));
        }
        let path = find(&program).ok_or_else(|| bad(format!("no program `{program}`")))?;
        // The name of a loader does not depend on its folder.
        let name = match program.rsplit_once('/') {
            Some((folder, _)) => text
                .trim_start()
                .trim_start_matches(folder)
                .trim_start_matches('/'),
            None => text,
        };
        Ok(Scheduler {
            name: name.to_owned(),
            loader: Some(
                std::iter::once(path.into())
                    .chain(words.map(OsString::from))
                    .collect(),
            ),
        })
    }
}

/// The schedulers to compare. The baseline comes first, and is added if it is missing. A scheduler that occurs twice
/// gets a number, so that a trial can compare a scheduler with itself.
pub fn named(mut schedulers: Vec<Scheduler>) -> Vec<Scheduler> {
    match schedulers.iter().position(|it| it.loader.is_none()) {
        Some(first) => schedulers[..=first].rotate_right(1),
        None => schedulers.insert(0, Scheduler::own()),
    }
    let mut seen: HashMap<String, u32> = HashMap::new();
    for scheduler in &mut schedulers {
        let count = seen.entry(scheduler.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            scheduler.name = format!("{} #{count}", scheduler.name);
        }
    }
    schedulers
}

/// The installed schedulers: Equipoise's default policy if its loader is found, and the other `scx_*` loaders in
/// `folders`.
pub fn installed(folders: &[PathBuf], find: &dyn Fn(&str) -> Option<PathBuf>) -> Vec<Scheduler> {
    let entries = folders.iter().filter_map(|folder| folder.read_dir().ok());
    let names = entries.flatten().flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    names.retain(|it| it.starts_with("scx_") && it != LOADER && !NO_LOADERS.contains(&&**it));
    names.sort();
    names.dedup();
    let own = find(LOADER).map(|_| "equipoise".to_owned());
    let parsed = own
        .into_iter()
        .chain(names)
        .map(|it| Scheduler::parse(&it, find));
    parsed.filter_map(Result::ok).collect()
}

/// Finds a program. A path is used as it is; a name is searched beside this program, and then on `path`.
pub fn find(program: &str, beside: Option<&Path>, path: &[PathBuf]) -> Option<PathBuf> {
    let is_program = |it: &PathBuf| {
        let found = it.metadata();
        found.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(is_program);
    }
    let folders = beside.into_iter().chain(path.iter().map(PathBuf::as_path));
    folders.map(|it| it.join(program)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(program: &str) -> Option<PathBuf> {
        let known = ["scx_equipoise", "scx_bpfland", "scx_lavd", "scx_loader"];
        known
            .contains(&program)
            .then(|| Path::new("/bin").join(program))
    }

    fn words(scheduler: &Scheduler) -> Vec<&str> {
        let loader = scheduler.loader.iter().flatten();
        loader.map(|word| word.to_str().unwrap()).collect()
    }

    #[test]
    fn a_scheduler_is_the_kernels_own_a_policy_or_a_command() {
        let parse = |text: &str| Scheduler::parse(text, &there).unwrap();
        assert_eq!(parse("eevdf"), Scheduler::own());
        let policy = parse("equipoise:prefer=power");
        assert_eq!(
            words(&policy),
            ["/bin/scx_equipoise", "--policy", "equipoise:prefer=power"]
        );
        let command = parse("scx_bpfland -s '5 000'");
        assert_eq!(words(&command), ["/bin/scx_bpfland", "-s", "5 000"]);
        assert_eq!(command.name, "scx_bpfland -s '5 000'");
        let anywhere = |program: &str| Some(PathBuf::from(program));
        let elsewhere = Scheduler::parse("/opt/x/scx_own --fast", &anywhere).unwrap();
        assert_eq!(elsewhere.name, "scx_own --fast");
    }

    #[test]
    fn a_wrong_name_is_one_message() {
        let message = |text: &str, find| Scheduler::parse(text, find).unwrap_err().render(false);
        assert!(message("scx_nothing", &there).contains("no program `scx_nothing`"));
        assert!(message("'", &there).contains("not a command line"));
        assert!(message("", &there).contains("not a command line"));
        assert!(message("equipoise:nothing=1", &there).contains("nothing"));
        let anywhere = |program: &str| Some(PathBuf::from(program));
        for source in ["mine.bpf.c", "/tmp/mine.bpf.o --fast"] {
            assert!(message(source, &anywhere).contains("vm/build-scheduler"));
        }
        assert!(message("equipoise", &|_| None).contains("scx_equipoise, which loads it"));
    }

    #[test]
    fn the_baseline_is_first_and_twice_the_same_is_two() {
        let parse = |text: &str| Scheduler::parse(text, &there).unwrap();
        let names = |texts: &[&str]| -> Vec<String> {
            let all = named(texts.iter().map(|it| parse(it)).collect());
            all.into_iter().map(|it| it.name).collect()
        };
        assert_eq!(names(&["scx_lavd"]), ["eevdf", "scx_lavd"]);
        assert_eq!(
            names(&["scx_lavd", "equipoise", "eevdf"]),
            ["eevdf", "scx_lavd", "equipoise"]
        );
        assert_eq!(names(&["eevdf", "eevdf"]), ["eevdf", "eevdf #2"]);
        assert_eq!(names(&[]), ["eevdf"]);
    }

    #[test]
    fn a_file_that_cannot_be_executed_is_no_program() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("scx_mine");
        std::fs::write(&file, "").unwrap();
        let found = |program: &str| find(program, Some(folder.path()), &[]);
        let path = file.to_str().unwrap();
        assert_eq!([found("scx_mine"), found(path)], [None, None]);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(
            [found("scx_mine"), found(path)],
            [Some(file.clone()), Some(file.clone())]
        );
    }

    #[test]
    fn installed_schedulers_are_loaders() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["scx_lavd", "scx_loader", "scx_equipoise", "ls"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = installed(&[folder.path().to_owned()], &there);
        let names: Vec<&str> = found.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["equipoise", "scx_lavd"]);
    }
}
