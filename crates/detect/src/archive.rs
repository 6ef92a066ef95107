//! A copy of a machine's files in an archive, as `hwloc-gather-topology` makes it, or as lscpu's tests contain it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Patterns of files that detection does not read, which are most files of a large machine: PCI devices, blocks of
/// memory, cpusets.
const UNREAD: [&str; 3] = [
    "--exclude=*/devices/pci*",
    "--exclude=*/node/node*/memory*",
    "--exclude=*/dev/cpuset",
];

/// Unpacks the archive `file` into `folder`. The error says what is wrong.
pub(crate) fn unpack(file: &Path, folder: &Path) -> Result<(), String> {
    let mut tar = Command::new("tar");
    // tar takes a colon for the end of a computer's name, unless a slash comes first.
    tar.arg("-xf").arg(Path::new(".").join(file));
    tar.arg("-C").arg(folder);
    tar.args(["--no-same-owner", "--no-same-permissions"]);
    tar.args(UNREAD);
    // Limit tar, because a small archive may unpack to any size.
    cage::limit(&mut tar);
    let name = file.display();
    let done = tar.stdin(Stdio::null()).output();
    let done = done.map_err(|error| {
        format!("{name}: cannot start tar: {error}; unpack the archive, and give its folder")
    })?;
    match done.status.success() {
        true => fs::canonicalize(folder)
            .and_then(|folder| remove_links_out_of(&folder, &folder))
            .map_err(|error| format!("{name}: cannot read the archive's content: {error}")),
        false => {
            let said = String::from_utf8_lossy(&done.stderr);
            let first = said.lines().next().map(str::to_owned);
            let first = first.unwrap_or_else(|| done.status.to_string());
            Err(format!("{name}: not an archive that tar unpacks ({first})"))
        }
    }
}

/// Removes the symbolic links in `below` that lead out of `folder`, an absolute path without links. With a link to
/// `/sys`, an archive would describe this computer.
fn remove_links_out_of(folder: &Path, below: &Path) -> io::Result<()> {
    for entry in fs::read_dir(below)? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        // A dangling link is read as a missing file.
        let leads_out = || fs::canonicalize(&path).is_ok_and(|to| !to.starts_with(folder));
        if kind.is_dir() {
            remove_links_out_of(folder, &path)?;
        } else if kind.is_symlink() && leads_out() {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// The folder with the files of a machine, which is `folder` or a folder in it.
pub(crate) fn root(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort();
    let mut all = std::iter::once(folder.to_owned()).chain(folders);
    all.find(|it| {
        ["sys", ""]
            .iter()
            .any(|sys| it.join(sys).join("devices/system/cpu").is_dir())
    })
}
