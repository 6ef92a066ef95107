//! Checks whether this machine's governors follow the frequency requests of a policy.

use detect::Decider;
use policy::Policy;

/// The warning if `policy` sets frequencies and some of the machine's `deciders` ignore them; `None` otherwise, or if
/// frequencies never change.
pub fn warning(policy: &Policy, deciders: &[Decider]) -> Option<String> {
    let ignoring: Vec<String> = deciders
        .iter()
        .filter(|decider| !decider.follows_requests())
        .map(ToString::to_string)
        .collect();
    if !policy.sets_frequencies() || ignoring.is_empty() {
        return None;
    }
    Some(format!(
        "the frequencies that policy {} sets have no effect under this machine's governor ({}): \
         only schedutil follows them",
        policy.name,
        ignoring.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn sysfs(root: &Path, driver: &str, governors: &[&str]) {
        for (number, governor) in governors.iter().enumerate() {
            let folder = root.join(format!("devices/system/cpu/cpufreq/policy{number}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("scaling_driver"), driver).unwrap();
            std::fs::write(folder.join("scaling_governor"), governor).unwrap();
        }
    }

    #[test]
    fn a_governor_that_ignores_a_policys_frequencies_is_named() {
        for (driver, governors, expected) in [
            ("acpi-cpufreq", &["schedutil", "schedutil"][..], None),
            (
                "intel_pstate",
                &["powersave"],
                Some("(intel_pstate, powersave)"),
            ),
            (
                "acpi-cpufreq",
                &["performance", "ondemand"],
                Some("(ondemand; performance)"),
            ),
            ("", &[], None),
        ] {
            let root = tempfile::tempdir().unwrap();
            sysfs(root.path(), driver, governors);
            let deciders = detect::deciders(root.path());
            let said = warning(&Policy::find("equipoise").unwrap(), &deciders);
            match expected {
                Some(name) => assert!(
                    said.as_ref().is_some_and(|said| said.contains(name)),
                    "{said:?}"
                ),
                None => assert_eq!(said, None),
            }
            assert_eq!(warning(&Policy::find("cfs").unwrap(), &deciders), None);
        }
    }
}
