//! Temporary folders that do not remain, however their process ends.

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, fstat, openat, stat};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use tempfile::TempDir;

/// The beginning of their names. It says what the folders are for, so that no folder of the user's has such a name:
/// `/tmp/equipoise-main` may be a checkout.
const PREFIX: &str = ".equipoise-temporary-";

/// A temporary folder, removed when it is dropped. If its process is killed, the next folder's process removes it:
/// its owner holds a lock on it, which ends with the process.
#[derive(Debug)]
pub struct Folder {
    folder: TempDir,
    _lock: OwnedFd,
}

impl Folder {
    /// A new folder, which only this user can read. Removes the folders that processes of this user have left
    /// when they ended.
    pub fn new() -> io::Result<Folder> {
        Folder::new_in(&std::env::temp_dir())
    }

    fn new_in(parent: &Path) -> io::Result<Folder> {
        remove_left(parent);
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            // Another process may have mistaken it for a folder that was left behind, and removed
            // it.
            if let Some(lock) = lock(folder.path()) {
                return Ok(Folder {
                    folder,
                    _lock: lock,
                });
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// The lock of the folder at `path`, if it is this user's, no process has the lock, and the folder is still there.
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
            // A folder that cannot be removed stays.
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
        // As a process that is killed: the lock is gone, the folder is not.
        let _ = left.folder.keep();
        drop(left._lock);
        let next = Folder::new_in(parent.path()).unwrap();
        // A process that another test forks has the lock for a moment, too.
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
