//! What must hold before a scheduler can be loaded, said in words rather than by a failing system call.

use anyhow::{Result, bail};
use rustix::process::Uid;
use std::fs;
use std::path::Path;

/// `sched_ext` is `/sys/kernel/sched_ext`, `user` who runs this.
pub fn check(sched_ext: &Path, user: Uid) -> Result<()> {
    let Ok(state) = fs::read_to_string(sched_ext.join("state")) else {
        bail!(
            "this kernel has no sched_ext: expected Linux 6.12 or later, built with \
             CONFIG_SCHED_CLASS_EXT"
        );
    };
    if !user.is_root() {
        bail!("expected to be run as root: loading a scheduler takes its privileges");
    }
    if state.trim() != "disabled" {
        // Which may have left in the meantime.
        match fs::read_to_string(sched_ext.join("root/ops")) {
            Ok(name) => bail!("another scheduler is loaded: {}", name.trim()),
            Err(_) => bail!("another scheduler is loaded, or is just leaving"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn sysfs(state: &str) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("state"), state).unwrap();
        folder
    }

    fn refusal(folder: &TempDir, user: Uid) -> String {
        check(folder.path(), user).unwrap_err().to_string()
    }

    #[test]
    fn root_may_load_where_nothing_is_loaded() {
        check(sysfs("disabled\n").path(), Uid::ROOT).unwrap();
    }

    #[test]
    fn a_kernel_without_sched_ext_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(refusal(&folder, Uid::ROOT).contains("no sched_ext"));
    }

    #[test]
    fn others_than_root_are_refused() {
        let folder = sysfs("disabled\n");
        assert!(refusal(&folder, Uid::from_raw(1000)).contains("root"));
    }

    #[test]
    fn a_loaded_scheduler_is_named() {
        let folder = sysfs("enabled\n");
        assert!(refusal(&folder, Uid::ROOT).contains("another scheduler"));
        fs::create_dir(folder.path().join("root")).unwrap();
        fs::write(folder.path().join("root/ops"), "simple\n").unwrap();
        assert!(refusal(&folder, Uid::ROOT).ends_with("is loaded: simple"));
    }
}
