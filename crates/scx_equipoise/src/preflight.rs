//! Checks before a scheduler is loaded, and explanations of a refusal by the kernel. Each check gives a sentence,
//! rather than a failed system call.

use crate::libbpf_log;
use anyhow::{Result, anyhow, bail};
use rustix::process::Uid;
use scx_utils::compat;
use std::fs;
use std::path::Path;

/// The first release of Linux with sched_ext.
const OLDEST: (u32, u32) = (6, 12);

#[derive(Debug)]
pub struct Kernel<'a> {
    /// The kernel's release, such as `6.12.9-amd64`.
    pub release: &'a str,
    /// `/sys/kernel/sched_ext`.
    pub sched_ext: &'a Path,
    /// `/sys/kernel/btf/vmlinux`.
    pub btf: &'a Path,
}

/// Checks that `user` may load a scheduler into `kernel` now.
pub fn check(kernel: &Kernel, user: Uid) -> Result<()> {
    let release = kernel.release;
    let Ok(state) = fs::read_to_string(kernel.sched_ext.join("state")) else {
        if version(release).is_some_and(|version| version < OLDEST) {
            bail!("Linux {release} is too old: sched_ext requires Linux 6.12 or later");
        }
        bail!(
            "Linux {release} has no sched_ext: the kernel was built without CONFIG_SCHED_CLASS_EXT; expected \
             Linux 6.12 or later with this option"
        );
    };
    if !kernel.btf.exists() {
        bail!(
            "Linux {release} has no BTF, which BPF schedulers require: expected a kernel \
             built with CONFIG_DEBUG_INFO_BTF"
        );
    }
    if !user.is_root() {
        bail!("loading a scheduler requires root");
    }
    if state.trim() != "disabled" {
        match fs::read_to_string(kernel.sched_ext.join("root/ops")) {
            Ok(name) => bail!("another scheduler is loaded: {}", name.trim()),
            Err(_) => bail!("another scheduler is loaded, or is being unloaded"),
        }
    }
    Ok(())
}

/// Explains why the kernel of this `release` did not load `policy`'s scheduler; `error` is the error of libbpf.
pub fn explain_refusal(error: anyhow::Error, policy: &str, release: &str) -> anyhow::Error {
    let log = match libbpf_log::save() {
        Ok(Some(path)) => format!("the log is in {}", path.display()),
        Ok(None) => "libbpf produced no log".to_owned(),
        Err(error) => format!("the log is lost: {error:#}"),
    };
    let malformed = compat::malformed_scx_kfuncs();
    if !malformed.is_empty() {
        let functions = match malformed.len() {
            1 => format!("1 function of sched_ext wrongly, {}()", malformed[0]),
            more => format!(
                "{more} functions of sched_ext wrongly, such as {}()",
                malformed[0]
            ),
        };
        return anyhow!(
            "the BTF of Linux {release} describes {functions}, so this kernel cannot load any scheduler: it was \
             built with a pahole before 1.26 ({log})"
        );
    }
    anyhow!(
        "Linux {release} refuses the scheduler of policy {policy}: {error:#}; {log}. \
         Please report this with the log"
    )
}

/// The major and minor number of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
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

    fn checked(folder: &TempDir, release: &str, user: Uid) -> Result<()> {
        let kernel = Kernel {
            release,
            sched_ext: folder.path(),
            btf: folder.path(),
        };
        check(&kernel, user)
    }

    fn refusal(folder: &TempDir, release: &str, user: Uid) -> String {
        checked(folder, release, user).unwrap_err().to_string()
    }

    #[test]
    fn root_may_load_where_nothing_is_loaded() {
        checked(&sysfs("disabled\n"), "6.12.9-amd64", Uid::ROOT).unwrap();
    }

    #[test]
    fn a_kernel_without_sched_ext_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let message = refusal(&folder, "6.1.0-49-amd64", Uid::ROOT);
        assert!(message.contains("6.1.0-49-amd64 is too old"), "{message}");
        let message = refusal(&folder, "6.12.117+deb13-amd64", Uid::ROOT);
        assert!(
            message.contains("without CONFIG_SCHED_CLASS_EXT"),
            "{message}"
        );
    }

    #[test]
    fn a_kernel_without_btf_is_refused() {
        let folder = sysfs("disabled\n");
        let missing = folder.path().join("btf");
        let kernel = Kernel {
            release: "7.3.4",
            sched_ext: folder.path(),
            btf: &missing,
        };
        let message = check(&kernel, Uid::ROOT).unwrap_err().to_string();
        assert!(message.contains("CONFIG_DEBUG_INFO_BTF"), "{message}");
    }

    #[test]
    fn others_than_root_are_refused() {
        let folder = sysfs("disabled\n");
        assert!(refusal(&folder, "7.3.4", Uid::from_raw(1000)).contains("root"));
    }

    #[test]
    fn a_loaded_scheduler_is_named() {
        let folder = sysfs("enabled\n");
        assert!(refusal(&folder, "7.3.4", Uid::ROOT).contains("another scheduler"));
        fs::create_dir(folder.path().join("root")).unwrap();
        fs::write(folder.path().join("root/ops"), "simple\n").unwrap();
        assert!(refusal(&folder, "7.3.4", Uid::ROOT).ends_with("is loaded: simple"));
    }
}
