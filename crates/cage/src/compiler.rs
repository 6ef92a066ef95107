//! Restricts the compiler of a foreign source, which could make the compiler open any file
//! (`#include`, `.incbin`) and print the content in messages. The restricted compiler reads only
//! its own files and the scheduler's headers, writes only to a folder of its own, has no network
//! and no terminal, and has a time limit.

use crate::rights::{has_landlock, inherit_nothing, is_uncaged, nothing};
use crate::{limits, supervisor, system_calls};
use landlock::{
    ABI, Access as _, AccessFs, PathBeneath, PathFd, RulesetCreated, RulesetCreatedAttr as _,
    RulesetError,
};
use rustix::process::Pid;
use seccompiler::BpfProgram;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

/// The places of compilers, linkers, their libraries and the C library's headers.
const OF_COMPILERS: [&str; 23] = [
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/libx32",
    "/usr/local/bin",
    "/usr/local/include",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/local/libexec",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/nix/store",
    "/gnu/store",
];

/// The folders of the prefix of a compiler that is installed outside the system's folders.
const OF_A_PREFIX: [&str; 5] = ["include", "lib", "lib32", "lib64", "libexec"];

/// The folders that show that a compiler is installed in a prefix.
const OF_AN_INSTALLATION: [&str; 4] = ["lib/gcc", "lib64/gcc", "lib/clang", "lib64/clang"];

/// A device that compilers also read and write.
const NULL: &str = "/dev/null";

/// The extensions of headers and sources that a scheduler includes from its own folder.
const HEADERS: [&str; 5] = ["h", "c", "inc", "def", "bpf"];

/// The largest number of files that a scheduler may include from its own folder; [`MOST_DEPTH`] is the largest depth of
/// a file below the source. A source in a home directory must not cause a walk through all of the directory.
const MOST_HEADERS: usize = 4096;
const MOST_DEPTH: usize = 4;

/// The files that a compiler may read and write, and the system calls that it may make.
pub struct Files {
    rules: Option<RulesetCreated>,
    calls: Option<Arc<BpfProgram>>,
    work: PathBuf,
    until: Instant,
}

impl Files {
    /// The files that `compiler`, the words of a command, needs for `sources` with headers in the folders `include`.
    /// The compiler writes only to the folder `work`, and ends at `until` at the latest. A kernel without Landlock or
    /// seccomp is an error, unless [`run_uncaged`](crate::run_uncaged) was called.
    pub fn of(
        compiler: &[OsString],
        sources: &[&Path],
        include: &[&Path],
        work: &Path,
        until: Instant,
    ) -> Result<Files, String> {
        let failed = |error: RulesetError| format!("the compiler's cage: {error}");
        let rules = match has_landlock() {
            true => Some(rules(compiler, sources, include, work).map_err(failed)?),
            false if is_uncaged() => None,
            false => {
                return Err("this kernel lacks Landlock, which protects this computer's files from a scheduler in C".to_owned());
            }
        };
        let calls = match system_calls::has_seccomp() {
            true => {
                system_calls::filter().map_err(|error| format!("the compiler's cage: {error}"))?
            }
            false if is_uncaged() => None,
            false => {
                return Err("this kernel lacks seccomp, which keeps a compiler off this computer's networks".to_owned());
            }
        };
        Ok(Files {
            rules,
            calls: calls.map(Arc::new),
            work: work.to_owned(),
            until,
        })
    }

    /// Restricts the processes of `command` to these files, and limits their time and memory. All these processes end
    /// with this process.
    pub fn confine(&self, command: &mut Command) {
        limits::set(command);
        // Disable the compiler's cache, which would be in another folder.
        command
            .env("TMPDIR", &self.work)
            .env("CCACHE_DISABLE", "1")
            .stdin(std::process::Stdio::null());
        let rules = self.rules.as_ref().map(RulesetCreated::try_clone);
        let calls = self.calls.clone();
        let parent = Pid::from_raw(std::process::id() as i32);
        let left = self.until.saturating_duration_since(Instant::now());
        let enter = move || {
            // The processes have no terminal.
            rustix::process::setsid()?;
            supervisor::start(parent, left)?;
            inherit_nothing()?;
            if let Some(rules) = &rules {
                let rules = rules
                    .as_ref()
                    .map_err(|_| io::ErrorKind::PermissionDenied)?;
                rules
                    .try_clone()?
                    .restrict_self()
                    .map_err(|_| io::ErrorKind::PermissionDenied)?;
            }
            if let Some(calls) = &calls {
                let entered = seccompiler::apply_filter(calls);
                entered.map_err(|_| io::ErrorKind::PermissionDenied)?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec the closure only makes system calls and copies a few words.
        unsafe { command.pre_exec(enter) };
    }
}

fn rules(
    compiler: &[OsString],
    sources: &[&Path],
    include: &[&Path],
    work: &Path,
) -> Result<RulesetCreated, RulesetError> {
    let abi = ABI::V6;
    let all = AccessFs::from_all(abi);
    let read = AccessFs::from_read(abi);
    let read_file = AccessFs::ReadFile | AccessFs::Execute;
    let mut rules = nothing()?;
    // A missing file needs no rule, because nothing can read it.
    let mut add = |path: &Path, access| -> Result<(), RulesetError> {
        if let Ok(opened) = PathFd::new(path) {
            let access = match path.is_dir() {
                true => access,
                false => access & AccessFs::from_file(abi),
            };
            (&mut rules).add_rule(PathBeneath::new(opened, access))?;
        }
        Ok(())
    };
    for path in OF_COMPILERS.iter().map(Path::new) {
        add(path, read)?;
    }
    // Several words may be programs, as in `ccache gcc`.
    for path in compiler.iter().flat_map(|word| of_prefix(word)) {
        add(&path, read)?;
    }
    add(Path::new(NULL), AccessFs::ReadFile | AccessFs::WriteFile)?;
    for folder in include {
        add(folder, read)?;
    }
    for source in sources {
        add(source, read_file)?;
        let mut found = Vec::new();
        headers(folder_of(source), MOST_DEPTH, &mut found);
        for header in found {
            add(&header, read_file)?;
        }
    }
    add(work, all)?;
    Ok(rules)
}

/// The files of a `compiler` outside the usual folders: the compiler itself, and the folders of the prefix in which it
/// is installed. A folder that contains only a program with a compiler's name stays closed, because it may be a user's
/// home.
fn of_prefix(compiler: &OsStr) -> Vec<PathBuf> {
    let found = match compiler.as_bytes().contains(&b'/') {
        true => Some(PathBuf::from(compiler)).filter(|path| path.is_file()),
        false => std::env::var_os("PATH").and_then(|path| {
            std::env::split_paths(&path)
                .map(|folder| folder.join(compiler))
                .find(|path| path.is_file())
        }),
    };
    let Some(found) = found else {
        return Vec::new();
    };
    let real = found.canonicalize().unwrap_or_else(|_| found.clone());
    let mut files = vec![found.clone(), real.clone()];
    for program in [found, real] {
        let folder = folder_of(&program);
        let Some(prefix) = folder.parent().filter(|_| folder.ends_with("bin")) else {
            continue;
        };
        if OF_AN_INSTALLATION
            .iter()
            .any(|part| prefix.join(part).is_dir())
        {
            files.push(folder.to_owned());
            files.extend(OF_A_PREFIX.iter().map(|part| prefix.join(part)));
        }
    }
    files
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Finds the files in `folder` and its subfolders that a source may include. Links are not followed, because their
/// targets may be anything.
fn headers(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let mut below = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (Ok(kind), path) = (entry.file_type(), entry.path()) else {
            continue;
        };
        let hidden = entry.file_name().as_bytes().first() == Some(&b'.');
        let extension = path.extension().and_then(OsStr::to_str);
        if found.len() == MOST_HEADERS {
            return;
        } else if kind.is_file() && extension.is_some_and(|it| HEADERS.contains(&it)) {
            found.push(path);
        } else if kind.is_dir() && !hidden {
            below.push(path);
        }
    }
    if depth > 1 {
        below.sort();
        below
            .iter()
            .for_each(|folder| headers(folder, depth - 1, found));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_opens_its_installation_and_not_the_folder_that_it_is_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
        for name in [
            "home/cc",
            "home/bin/cc",
            "home/lib/secret",
            "opt/bin/cc",
            "opt/lib/gcc/libgcc.a",
        ] {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), "").unwrap();
        }
        for compiler in ["home/cc", "home/bin/cc"].map(path) {
            let opened = of_prefix(compiler.as_os_str());
            assert_eq!(opened, [compiler.clone(), compiler]);
        }
        let installed = of_prefix(path("opt/bin/cc").as_os_str());
        for part in ["opt/bin", "opt/lib", "opt/include"].map(path) {
            assert!(installed.contains(&part), "{part:?}");
        }
    }

    #[test]
    fn headers_are_found_below_the_source_and_not_behind_links() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a.h", "below/b.h", ".hidden/c.h", "secret", "other/d.h"] {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), "").unwrap();
        }
        let source = path("below");
        std::os::unix::fs::symlink(path("secret"), source.join("link.h")).unwrap();
        std::os::unix::fs::symlink(path("other"), source.join("link")).unwrap();
        let mut found = Vec::new();
        headers(folder.path(), MOST_DEPTH, &mut found);
        found.sort();
        assert_eq!(found, ["a.h", "below/b.h", "other/d.h"].map(path));
    }
}
