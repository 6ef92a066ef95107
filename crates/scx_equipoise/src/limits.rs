//! Limits on control groups that the kernel's fair class enforces but this scheduler does not.
//!
//! The kernel applies `cpu.max` and `cpu.idle` only to tasks of the fair class. `equipoise` enforces them if the kernel
//! reports them, which Linux does from 6.17 (`cpu.max`) and 7.3 (`cpu.idle`) on. Without enforcement, a container with
//! a CPU limit becomes unlimited. The loader therefore names the groups whose limits have no effect.

use machine::counted;
use std::fs;
use std::path::Path;

/// The largest number of limits that are named; further limits are only counted.
const NAMED: usize = 5;

/// The limits that the scheduler enforces on this kernel.
#[derive(Clone, Copy)]
pub struct Kept {
    pub bandwidth: bool,
    pub idle: bool,
}

/// Warns about the groups whose limits will not be enforced, below `root`, where version 2 of control groups is
/// mounted.
pub fn warn(root: &Path, kept: Kept) {
    let mut found = Vec::new();
    look(root, root, kept, &mut found);
    let more = found.len().saturating_sub(NAMED);
    for what in found.iter().take(NAMED) {
        log::warn!("{what} is not enforced while this scheduler runs");
    }
    if more > 0 {
        let limits = counted(
            more,
            "more limit of a control group is",
            "more limits of control groups are",
        );
        log::warn!("{limits} not enforced");
    }
}

fn look(root: &Path, folder: &Path, kept: Kept, found: &mut Vec<String>) {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let group = Path::new("/").join(folder.strip_prefix(root).unwrap_or(folder));
    if !kept.bandwidth
        && let Some(percent) = bandwidth(&read("cpu.max"))
    {
        found.push(format!(
            "cpu.max of {} ({percent:.0} % of a CPU)",
            group.display()
        ));
    }
    if !kept.idle && read("cpu.idle").trim() == "1" {
        found.push(format!("cpu.idle of {}", group.display()));
    }
    let mut below: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        // Groups are folders. Do not follow links, which could lead to a loop.
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    below.sort();
    for group in below {
        look(root, &group, kept, found);
    }
}

/// The quota of a `cpu.max` in per cent of the period; `None` without a limit.
fn bandwidth(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let (quota, period): (f64, f64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (period > 0.0).then(|| 100.0 * quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_with_limits_are_named() {
        let root = tempfile::tempdir().unwrap();
        for (group, max, idle) in [
            ("free", "max 100000\n", "0\n"),
            ("limited", "20000 100000\n", "0\n"),
            ("limited/idle", "max 100000\n", "1\n"),
        ] {
            let folder = root.path().join(group);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("cpu.max"), max).unwrap();
            fs::write(folder.join("cpu.idle"), idle).unwrap();
        }
        let (max, idle) = (
            "cpu.max of /limited (20 % of a CPU)",
            "cpu.idle of /limited/idle",
        );
        for (kept, expected) in [
            ((false, false), &[max, idle][..]),
            ((true, false), &[idle]),
            ((false, true), &[max]),
            ((true, true), &[]),
        ] {
            let mut found = Vec::new();
            let (bandwidth, idle) = kept;
            look(
                root.path(),
                root.path(),
                Kept { bandwidth, idle },
                &mut found,
            );
            assert_eq!(found, expected, "{kept:?}");
        }
    }

    #[test]
    fn a_quota_is_a_part_of_its_period() {
        assert_eq!(bandwidth("max 100000"), None);
        assert_eq!(bandwidth("150000 100000"), Some(150.0));
        assert_eq!(bandwidth(""), None);
    }
}
