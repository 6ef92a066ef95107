//! Groups of users.

use rustix::process::Gid;
use std::ffi::CString;

/// Finds the group by its name or number.
pub fn find(name: &str) -> Result<Gid, String> {
    // The number that means "no change" to chown(2) is not the number of a group.
    if let Some(gid) = name.parse().ok().filter(|&gid| gid != u32::MAX) {
        return Ok(Gid::from_raw(gid));
    }
    let unknown = || "expected the name or number of a group".to_owned();
    let name = CString::new(name).map_err(|_| unknown())?;
    // SAFETY: `name` ends with a zero. The result is valid until the next call, and no other thread calls this
    // function.
    let entry = unsafe { libc::getgrnam(name.as_ptr()).as_ref() };
    entry
        .map(|entry| Gid::from_raw(entry.gr_gid))
        .ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_and_numbers() {
        assert_eq!(find("root"), Ok(Gid::ROOT));
        assert_eq!(find("27"), Ok(Gid::from_raw(27)));
        for wrong in ["no such group", "", "-1", "4294967295", "a\0b"] {
            assert!(find(wrong).is_err(), "{wrong}");
        }
    }
}
