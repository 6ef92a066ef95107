//! A copy of a machine's files in an archive, as `hwloc-gather-topology` makes it, or as lscpu's tests contain it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
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
    let tidied = fs::canonicalize(folder).and_then(|folder| tidy(&folder, &folder));
    match done.status.success() {
        true => {
            tidied.map_err(|error| format!("{name}: cannot read the archive's content: {error}"))
        }
        false => {
            let said = String::from_utf8_lossy(&done.stderr);
            let first = said.lines().next().map(str::to_owned);
            let first = first.unwrap_or_else(|| done.status.to_string());
            Err(format!("{name}: not an archive that tar unpacks ({first})"))
        }
    }
}

/// Removes the symbolic links in `below` that lead out of `folder`, an absolute path without links. With a link to
/// `/sys`, an archive would describe this computer. Opens `below` and its folders to this user: the content of a folder
/// without rights can neither be read nor removed.
fn tidy(folder: &Path, below: &Path) -> io::Result<()> {
    fs::set_permissions(below, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(below)? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        let leads_out = || fs::canonicalize(&path).is_ok_and(|to| !to.starts_with(folder));
        if kind.is_dir() {
            tidy(folder, &path)?;
        } else if kind.is_symlink() && leads_out() {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// The folder with the files of a machine, which is `folder` or the only such folder in it. The error says what is wrong.
pub(crate) fn root(folder: &Path) -> Result<PathBuf, String> {
    let has_cpus = |it: &PathBuf| {
        ["sys", ""]
            .iter()
            .any(|sys| it.join(sys).join("devices/system/cpu").is_dir())
    };
    if has_cpus(&folder.to_owned()) {
        return Ok(folder.to_owned());
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(has_cpus).collect();
    match (folders.pop(), folders.len()) {
        (Some(only), 0) => Ok(only),
        (Some(_), others) => Err(format!(
            "the archive has {} machines; expected one, in a folder of its own",
            others + 1
        )),
        (None, _) => Err("no devices/system/cpu in the archive".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_machine_is_found_and_two_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(root(folder.path()).unwrap_err().contains("no devices"));
        for (name, count) in [("a/sys", 1), ("b/sys", 2)] {
            let machine = folder.path().join(name);
            fs::create_dir_all(machine.join("devices/system/cpu")).unwrap();
            match root(folder.path()) {
                Ok(found) => assert_eq!((found, count), (folder.path().join("a"), 1)),
                Err(message) => assert!(count == 2 && message.contains("2 machines"), "{message}"),
            }
        }
        let sys = folder.path().join("a/sys");
        assert_eq!(root(&sys), Ok(sys.clone()));
    }

    #[test]
    fn a_folder_without_rights_can_be_read_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (archive, to) = (folder.path().join("a.tar"), folder.path().join("to"));
        for below in ["closed", "to"] {
            fs::create_dir(folder.path().join(below)).unwrap();
        }
        fs::write(folder.path().join("closed/file"), "x").unwrap();
        let mut pack = Command::new("tar");
        let pack = pack.arg("-cf").arg(&archive).arg("-C").arg(folder.path());
        let packed = pack.args(["--mode=0", "closed"]).status().unwrap();
        assert!(packed.success());
        let whole = fs::read(&archive).unwrap();
        for length in [whole.len(), 2 * 512 + 100] {
            fs::write(&archive, &whole[..length]).unwrap();
            assert_eq!(unpack(&archive, &to).is_ok(), length == whole.len());
            let closed = fs::metadata(to.join("closed")).unwrap();
            assert_eq!(closed.permissions().mode() & 0o777, 0o700);
            fs::remove_dir_all(to.join("closed")).unwrap();
        }
    }
}
