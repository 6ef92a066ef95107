//! Files in folders to which other users may write.

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, renameat, unlinkat,
};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

/// The content of `path`, if it is a regular file of at most `most` bytes. Opening it does not block.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    content(openat(CWD, path, flags, Mode::empty())?, most)
}

fn content(file: OwnedFd, most: u64) -> io::Result<Vec<u8>> {
    if !is(&fstat(&file)?, FileType::RegularFile) {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    File::from(file).take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!("it has more than {most} bytes"))),
        false => Ok(bytes),
    }
}

fn is(found: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(found.st_mode) == kind
}

/// The rights of other users to change something.
const OTHERS: Mode = Mode::WGRP.union(Mode::WOTH);

/// A folder that belongs to this process's user, as do the folders above it up to the base, and that no other user can
/// change. This user thus wrote the content of the folder.
#[derive(Debug)]
pub struct Checked(OwnedFd);

impl Checked {
    /// The folder `below` (relative) in `base`, made if it is missing. It is an error if `base` belongs to another user
    /// or is writable by all users, or if a folder below it belongs to another user, is writable by others, or is a
    /// link.
    pub fn make(base: &Path, below: &Path) -> io::Result<Checked> {
        std::fs::create_dir_all(base)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // The base, which the user has named, may be a link. It may also be shared with a group, because no other
        // member can make folders below it that belong to this user.
        let mut folder = checked(openat(CWD, base, flags, Mode::empty())?, Mode::WOTH)?;
        for part in below.components() {
            let Component::Normal(part) = part else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            match mkdirat(&folder, part, Mode::RWXU) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let flags = flags | OFlags::NOFOLLOW;
            folder = checked(openat(&folder, part, flags, Mode::empty())?, OTHERS)?;
        }
        Ok(Checked(folder))
    }

    /// The content of the file `name`, of at most `most` bytes, and the open file. The file must be a regular file of
    /// this user that no other user can change.
    pub fn read(&self, name: &str, most: u64) -> io::Result<(Vec<u8>, File)> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = checked(openat(&self.0, name, flags, Mode::empty())?, OTHERS)?;
        let again = file.try_clone()?;
        Ok((content(file, most)?, again.into()))
    }

    /// Writes `content` to the file `name`, atomically.
    pub fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        use std::io::Write as _;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let new = format!("{name}.{}.new", std::process::id());
        // Remove a file that an earlier process with this number left.
        let _ = unlinkat(&self.0, &new, AtFlags::empty());
        let mut file = File::from(openat(&self.0, &new, flags, Mode::RUSR | Mode::WUSR)?);
        let written = file
            .write_all(content)
            .and_then(|()| Ok(renameat(&self.0, &new, &self.0, name)?));
        if written.is_err() {
            let _ = unlinkat(&self.0, &new, AtFlags::empty());
        }
        written
    }

    /// The names of the files in the folder, with the times in ns of their last changes, which are the times when they
    /// were written or used.
    pub fn files(&self) -> io::Result<Vec<(i128, String)>> {
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            let Ok(stat) = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if is(&stat, FileType::RegularFile) {
                let time = i128::from(stat.st_mtime) * 1_000_000_000 + stat.st_mtime_nsec as i128;
                found.push((time, name.to_owned()));
            }
        }
        Ok(found)
    }

    /// Removes the file `name`.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }
}

/// Returns `opened` if it belongs to this user and no other user has the `rights` to change it.
fn checked(opened: OwnedFd, rights: Mode) -> io::Result<OwnedFd> {
    let found = fstat(&opened)?;
    let is_own = found.st_uid == rustix::process::geteuid().as_raw();
    match is_own && !Mode::from_raw_mode(found.st_mode).intersects(rights) {
        true => Ok(opened),
        false => Err(io::Error::other("another user can change it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn fifo(path: &Path) {
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn only_a_regular_file_of_bounded_size_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "12345").unwrap();
        fifo(&path("pipe"));
        symlink("/dev/zero", path("zeroes")).unwrap();
        assert_eq!(read_regular(&path("file"), 5).unwrap(), b"12345");
        assert!(read_regular(&path("file"), 4).is_err());
        for other in ["pipe", "zeroes", ".", "absent"] {
            assert!(read_regular(&path(other), 5).is_err(), "{other}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn a_checked_folder_has_only_what_its_user_put_there() {
        let base = tempfile::tempdir().unwrap();
        let below = Path::new("a/b");
        let folder = Checked::make(base.path(), below).unwrap();
        folder.write("x", b"content").unwrap();
        assert_eq!(folder.read("x", 100).unwrap().0, b"content");
        assert!(folder.read("x", 3).is_err());
        let path = |name: &str| base.path().join(below).join(name);
        fifo(&path("pipe"));
        symlink(path("x"), path("link")).unwrap();
        std::fs::write(path("open"), "").unwrap();
        std::fs::set_permissions(path("open"), Permissions::from_mode(0o666)).unwrap();
        for other in ["pipe", "link", "open", "absent", "."] {
            assert!(folder.read(other, 100).is_err(), "{other}");
        }
        let files = folder.files().unwrap();
        assert_eq!(files.len(), 2);
        folder.remove("x").unwrap();
        assert!(folder.read("x", 100).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn a_folder_that_others_can_change_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let make = || Checked::make(base.path(), Path::new("a/b"));
        make().unwrap();
        let mode = |name: &str, mode: u32| {
            std::fs::set_permissions(base.path().join(name), Permissions::from_mode(mode)).unwrap();
        };
        for name in ["", "a", "a/b"] {
            mode(name, 0o777);
            assert!(make().is_err(), "{name}");
            mode(name, 0o700);
            make().unwrap();
        }
        std::fs::rename(base.path().join("a"), base.path().join("c")).unwrap();
        symlink("c", base.path().join("a")).unwrap();
        assert!(make().is_err());
    }
}
