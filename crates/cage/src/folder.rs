//! Temporary folders that are removed, however their process ends.

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, fstat, openat, stat};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use tempfile::TempDir;

/// The beginning of temporary folders' names. It says what the folders are for, so that it differs from the names of
/// the user's own folders: `/tmp/equipoise-main` may be a checkout.
const PREFIX: &str = ".equipoise-temporary-";

/// A temporary folder, which is removed when it is dropped. The folder's owner holds a lock on it, which ends with the
/// owner's process. If the process is killed, the next process that makes such a folder removes this one.
#[derive(Debug)]
pub struct Folder {
    folder: TempDir,
    _lock: OwnedFd,
}

impl Folder {
    /// Makes a folder that only this user can read. Removes the folders that ended processes of this user have left
    /// behind.
    pub fn new() -> io::Result<Folder> {
        Folder::new_in(&std::env::temp_dir())
    }

    fn new_in(parent: &Path) -> io::Result<Folder> {
        remove_left(parent);
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            // Another process may have mistaken the new folder for one that was left behind, and removed it.
            if let Some(lock) = lock(folder.path()) {
                return Ok(Folder {
                    folder,
                    _lock: lock,
                });
            }
        }
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Takes the lock of the folder at `path`, if the folder belongs to this user and still exists, and if no process has
/// the lock.
fn lock(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = openat(CWD, path, flags, Mode::empty()).ok()?;
    let found = fstat(&folder).ok()?;
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return None;
    }
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    let still = stat(path).ok()?;
    ((still.st_dev, still.st_ino) == (found.st_dev, found.st_ino)).then_some(folder)
}

/// Removes the folders in `parent` whose processes have ended.
fn remove_left(parent: &Path) {
    for entry in parent.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && let Some(_lock) = lock(&entry.path())
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore)]
    fn a_folder_that_a_process_left_is_removed_by_the_next_and_no_other() {
        let parent = tempfile::tempdir().unwrap();
        let left = Folder::new_in(parent.path()).unwrap();
        let (path, used) = (
            left.path().to_owned(),
            Folder::new_in(parent.path()).unwrap(),
        );
        std::fs::write(path.join("file"), "").unwrap();
        let link = parent.path().join(format!("{PREFIX}link"));
        std::os::unix::fs::symlink(used.path(), &link).unwrap();
        let checkout = parent.path().join("equipoise-main");
        std::fs::create_dir(&checkout).unwrap();
        // As after a killed process, release the lock but keep the folder.
        let _ = left.folder.keep();
        drop(left._lock);
        let next = Folder::new_in(parent.path()).unwrap();
        // A process that another test forks also has the lock for a moment.
        for _ in 0..1000 {
            if !path.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
            remove_left(parent.path());
        }
        assert!(!path.exists());
        assert!(used.path().exists() && next.path().exists() && link.exists());
        assert!(checkout.exists());
    }
}
