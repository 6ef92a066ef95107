//! Fetches the sources of published schedulers: crates by cargo, and the kernel's examples by apt.

use super::{Peer, VARIABLE, sources};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Unpacks Debian's source of a kernel into the current folder.
const FETCH_LINUX: &str = include_str!("../../peers/fetch-linux");

/// The patterns of the schedulers in a kernel's source.
const EXAMPLES: [&str; 2] = ["tools/sched_ext/*", "tools/testing/selftests/sched_ext/*"];

/// The beginning of the name of a kernel's package.
const LINUX: &str = "linux-";

/// Fetches the sources of `peers` that this computer lacks. `say` is called with a line before each download, which may
/// take minutes; cargo and apt print their own errors on standard error. A package is installed completely or not at
/// all. The error has a line for each download that failed.
pub fn fetch_sources(peers: &[Peer], say: &dyn Fn(&str)) -> Result<(), String> {
    let into = sources();
    let packages = peers.iter().flat_map(|peer| peer.packages());
    let missing = packages.filter(|(package, _)| !into.join(package).is_dir());
    let missing: BTreeMap<&str, &str> = missing.collect();
    if missing.is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(&into).map_err(|error| format!("{}: {error}", into.display()))?;
    let (kernels, crates): (Vec<_>, Vec<_>) = missing
        .into_iter()
        .partition(|(package, _)| package.starts_with(LINUX));
    let mut failures = Vec::new();
    if !crates.is_empty() {
        failures.extend(fetch_crates(&crates, &into, say).err());
    }
    for (package, release) in kernels {
        failures.extend(fetch_kernel(package, release, &into, say).err());
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n")),
    }
}

/// Lets cargo download crates, and copies their files in C.
fn fetch_crates(crates: &[(&str, &str)], into: &Path, say: &dyn Fn(&str)) -> Result<(), String> {
    let names: Vec<&str> = crates.iter().map(|(package, _)| *package).collect();
    let names = names.join(", ");
    let failed = |why: &str| {
        format!(
            "{why}; expected cargo and a network, or the crates {names} unpacked in {} (or where {VARIABLE} points)",
            into.display()
        )
    };
    let work = folder_in(into)?;
    let written = std::fs::write(work.path().join("Cargo.toml"), manifest(crates));
    written.map_err(|error| format!("{}: {error}", work.path().display()))?;
    say(&format!(
        "cargo downloads {names} and the crates on which they depend, up to 40 MB"
    ));
    let mut cargo = Command::new("cargo");
    // The target leaves out crates for other systems, which have nothing to do with schedulers.
    cargo.args(["fetch", "--quiet", "--target", "x86_64-unknown-linux-gnu"]);
    match cargo.current_dir(work.path()).status() {
        Ok(status) if status.success() => {}
        Ok(_) => return Err(failed("cargo cannot fetch the sources (see above)")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(failed("cargo, which fetches the sources, is not installed"));
        }
        Err(error) => return Err(failed(&format!("cargo: {error}"))),
    }
    for (package, _) in crates {
        let Some(unpacked) = unpacked(package) else {
            return Err(failed(&format!("cargo has not unpacked {package}")));
        };
        let copied = copy_c(&unpacked, &work.path().join(package));
        copied
            .and_then(|()| put(&work.path().join(package), &into.join(package)))
            .map_err(|error| format!("{}: {error}", into.join(package).display()))?;
    }
    Ok(())
}

/// A manifest that makes cargo fetch exactly these versions. Nothing is compiled. Old versions of cargo can read this
/// edition.
fn manifest(crates: &[(&str, &str)]) -> String {
    let mut text = String::from(
        "[package]\nname = \"schedulers\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
         [lib]\npath = \"none.rs\"\n\n[workspace]\n\n[dependencies]\n",
    );
    for (package, version) in crates {
        let name = package.strip_suffix(version).unwrap_or(package);
        let name = name.trim_end_matches('-');
        writeln!(text, "{name} = \"={version}\"").expect("a string takes all");
    }
    text
}

/// The folder in which cargo has unpacked a crate: `registry/src/REGISTRY/NAME-VERSION` in its home
/// (the Cargo Book, "Cargo Home").
fn unpacked(package: &str) -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?;
    let mut folders = registries.flatten().map(|entry| entry.path().join(package));
    folders.find(|folder| folder.is_dir())
}

/// Copies the files in C below `from`, with their folders.
fn copy_c(from: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_c(&path, &target)?;
        } else if path.extension().is_some_and(|it| it == "c" || it == "h") {
            std::fs::create_dir_all(to)?;
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// Lets apt download Debian's source of the kernel `release`, and unpacks its examples.
fn fetch_kernel(
    package: &str,
    release: &str,
    into: &Path,
    say: &dyn Fn(&str),
) -> Result<(), String> {
    let failed = |why: &str| {
        format!(
            "{why}; expected Debian's apt and a network, or tools/sched_ext of Linux {release} in {}",
            into.join(package).display()
        )
    };
    let work = folder_in(into)?;
    say(&format!(
        "apt downloads the source of Linux {release}, about 160 MB"
    ));
    let mut script = Command::new("sh");
    script
        .args(["-c", FETCH_LINUX, "fetch-linux", release])
        .args(EXAMPLES);
    match script
        .current_dir(work.path())
        .stdin(Stdio::null())
        .status()
    {
        Ok(status) if status.success() => {}
        Ok(_) => {
            return Err(failed(&format!(
                "cannot fetch the examples of Linux {release} (see above)"
            )));
        }
        Err(error) => return Err(failed(&format!("sh: {error}"))),
    }
    let place = into.join(package);
    put(&work.path().join(package), &place).map_err(|error| format!("{}: {error}", place.display()))
}

/// A temporary folder in `into`, from which a finished folder can be renamed.
fn folder_in(into: &Path) -> Result<TempDir, String> {
    tempfile::tempdir_in(into).map_err(|error| format!("{}: {error}", into.display()))
}

/// Gives a complete folder its name, unless another process has been faster.
fn put(made: &Path, place: &Path) -> io::Result<()> {
    match std::fs::rename(made, place) {
        Err(_) if place.is_dir() => Ok(()),
        result => result,
    }
}
