//! The control of a machine's frequencies: its cpufreq drivers, governors and preferences.

use crate::folder::Folder;
use machine::{Governor, Preference};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The control of a CPU's frequency.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decider {
    driver: String,
    governor: String,
    /// `energy_performance_preference`, which exists only if the processor is able to choose its frequency.
    preference: Option<String>,
}

/// Writes the usual name, such as `hwp, balance_performance`, or the governor's name.
impl fmt::Display for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.governor(), &self.preference) {
            (Some(governor), Some(preference)) if self.is_in_active_mode() => {
                write!(f, "{}, {preference}", governor.kind())
            }
            _ if self.is_in_active_mode() => write!(f, "{}, {}", self.driver, self.governor),
            _ => f.write_str(&self.governor),
        }
    }
}

impl Decider {
    pub(crate) fn read(cpufreq: &Folder) -> Option<Decider> {
        Some(Decider {
            governor: cpufreq.text("scaling_governor")?,
            driver: cpufreq.text("scaling_driver").unwrap_or_default(),
            preference: cpufreq.text("energy_performance_preference"),
        })
    }

    /// Does the driver decide without a cpufreq governor? Drivers have these names in their active modes, which
    /// `/sys/devices/system/cpu/{intel_pstate,amd_pstate}/status` also shows. In other modes, their names are
    /// intel_cpufreq and amd-pstate.
    fn is_in_active_mode(&self) -> bool {
        ["intel_pstate", "amd-pstate-epp"].contains(&&*self.driver)
    }

    /// Does the frequency follow a scheduler's requests (`scx_bpf_cpuperf_set()`)?
    pub fn follows_requests(&self) -> bool {
        self.governor() == Some(Governor::Schedutil)
    }

    /// The governor's name in machine files; `None` for a governor that is not modelled.
    pub(crate) fn governor(&self) -> Option<Governor> {
        let preference = || self.preference.as_deref().map(nearest);
        match &*self.driver {
            // Without HWP there is no preference, and the driver chooses frequencies by its own rules.
            "intel_pstate" => preference().map(Governor::Hwp),
            "amd-pstate-epp" => preference().map(Governor::AmdPstate),
            _ => match &*self.governor {
                "schedutil" => Some(Governor::Schedutil),
                "performance" => Some(Governor::Performance),
                _ => None,
            },
        }
    }

    /// A warning about the information that [`Decider::governor`] loses.
    fn warning(&self) -> Option<String> {
        match (self.governor(), &self.preference) {
            (None, _) => Some(format!(
                "{self} chooses the frequencies, which is not modelled; the default governor, schedutil, is used"
            )),
            (Some(Governor::Hwp(taken) | Governor::AmdPstate(taken)), Some(preference))
                if taken.name() != preference =>
            {
                Some(format!(
                    "energy_performance_preference is {preference}; {} is used",
                    taken.name()
                ))
            }
            _ => None,
        }
    }
}

/// The preference that the kernel calls `word`. A number from 0 to 255 counts as the name that Linux has for the number
/// (`intel_pstate_get_energy_pref_index()` in drivers/cpufreq/intel_pstate.c); any other word (`default`) counts as the
/// preference of most firmware.
fn nearest(word: &str) -> Preference {
    let named = Preference::ALL.iter().find(|(name, _)| *name == word);
    match (named, word.parse::<u8>()) {
        (Some((_, preference)), _) => *preference,
        (None, Ok(0)) => Preference::Performance,
        (None, Ok(1..=0x80)) => Preference::BalancePerformance,
        (None, Ok(0x81..=0xc0)) => Preference::BalancePower,
        (None, Ok(_)) => Preference::Power,
        (None, Err(_)) => Preference::BalancePerformance,
    }
}

/// The frequency control of most of these CPUs, and warnings about settings that a machine file cannot express.
pub(crate) fn most<'a>(
    deciders: impl Iterator<Item = &'a Decider>,
) -> (Option<Governor>, Vec<String>) {
    let mut counts: BTreeMap<&Decider, usize> = BTreeMap::new();
    for decider in deciders {
        *counts.entry(decider).or_default() += 1;
    }
    let Some((most, _)) = counts.iter().rev().max_by_key(|(_, count)| **count) else {
        return (None, Vec::new());
    };
    let mut warnings: Vec<String> = most.warning().into_iter().collect();
    if counts.len() > 1 {
        let names: Vec<String> = counts.keys().map(ToString::to_string).collect();
        warnings.push(format!(
            "the CPUs have different governors ({}); {most} is used for all",
            names.join("; ")
        ));
    }
    (most.governor(), warnings)
}

/// The controls of the CPUs' frequencies, without duplicates, from the sysfs at `root`; empty if frequencies
/// never change.
pub fn deciders(root: &Path) -> Vec<Decider> {
    let all = Folder(root.join("devices/system/cpu/cpufreq"));
    let mut deciders: Vec<Decider> = all
        .numbered("policy")
        .into_iter()
        .filter_map(|policy| Decider::read(&all.at(format!("policy{policy}"))))
        .collect();
    deciders.sort();
    deciders.dedup();
    deciders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decider(driver: &str, governor: &str, preference: Option<&str>) -> Decider {
        Decider {
            driver: driver.to_owned(),
            governor: governor.to_owned(),
            preference: preference.map(str::to_owned),
        }
    }

    #[test]
    fn the_decider_is_the_governor_or_a_driver_in_its_active_mode() {
        for (driver, governor, preference, expected, shown) in [
            (
                "intel_pstate",
                "powersave",
                Some("balance_performance"),
                Some(Governor::Hwp(Preference::BalancePerformance)),
                "hwp, balance_performance",
            ),
            (
                "amd-pstate-epp",
                "performance",
                Some("performance"),
                Some(Governor::AmdPstate(Preference::Performance)),
                "amd-pstate, performance",
            ),
            (
                "intel_pstate",
                "powersave",
                None,
                None,
                "intel_pstate, powersave",
            ),
            (
                "intel_cpufreq",
                "schedutil",
                None,
                Some(Governor::Schedutil),
                "schedutil",
            ),
            (
                "cppc_cpufreq",
                "performance",
                None,
                Some(Governor::Performance),
                "performance",
            ),
            ("cpufreq-dt", "ondemand", None, None, "ondemand"),
        ] {
            let decider = decider(driver, governor, preference);
            assert_eq!(decider.governor(), expected, "{driver}");
            assert_eq!(decider.to_string(), shown);
            assert_eq!(
                decider.follows_requests(),
                expected == Some(Governor::Schedutil)
            );
            assert_eq!(decider.warning().is_some(), expected.is_none());
        }
    }

    #[test]
    fn a_preference_that_has_no_word_is_the_nearest_that_has() {
        for (word, name) in [
            ("power", "power"),
            ("0", "performance"),
            ("100", "balance_performance"),
            ("128", "balance_performance"),
            ("170", "balance_power"),
            ("255", "power"),
            ("default", "balance_performance"),
        ] {
            assert_eq!(nearest(word).name(), name, "{word}");
        }
        let warning = decider("intel_pstate", "powersave", Some("100")).warning();
        assert_eq!(
            warning.as_deref(),
            Some("energy_performance_preference is 100; balance_performance is used")
        );
    }

    #[test]
    fn where_cpus_differ_most_of_them_count() {
        let one = decider("intel_pstate", "powersave", Some("power"));
        let other = decider("intel_pstate", "powersave", Some("balance_power"));
        let (governor, warnings) = most([&one, &other, &one].into_iter());
        assert_eq!(governor, Some(Governor::Hwp(Preference::Power)));
        assert_eq!(warnings.len(), 1);
        assert!(
            warnings[0].contains("hwp, balance_power; hwp, power"),
            "{warnings:?}"
        );
        assert_eq!(most([].into_iter()), (None, Vec::new()));
    }
}
