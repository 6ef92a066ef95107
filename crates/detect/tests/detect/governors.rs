//! The governor, from a copy of a machine's `/sys`: drivers that decide by themselves, and their passive modes.

use crate::machine;
use crate::tree::{Cpus, Tree};

/// `scaling_driver`, `scaling_governor` and `energy_performance_preference`, empty where there is no such file; the
/// driver's `status` file and its text; the governor of the machine file; the start of a warning about it.
type Row = (
    [&'static str; 3],
    Option<(&'static str, &'static str)>,
    &'static str,
    Option<&'static str>,
);

const ACTIVE_INTEL: Option<(&str, &str)> = Some(("intel_pstate", "active"));
const PASSIVE_INTEL: Option<(&str, &str)> = Some(("intel_pstate", "passive"));

#[test]
fn the_governor_is_the_one_that_decides() {
    let amd = |status| Some(("amd_pstate", status));
    let rows: [Row; 16] = [
        // Intel with HWP, as it ships; with the governor `performance` the driver sets the preference.
        (
            ["intel_pstate", "powersave", "balance_performance"],
            ACTIVE_INTEL,
            "hwp, balance_performance",
            None,
        ),
        (
            ["intel_pstate", "powersave", "balance_power"],
            ACTIVE_INTEL,
            "hwp, balance_power",
            None,
        ),
        (
            ["intel_pstate", "performance", "performance"],
            ACTIVE_INTEL,
            "hwp, performance",
            None,
        ),
        // Without HWP the driver's own rules decide, which are not modelled.
        (
            ["intel_pstate", "powersave", ""],
            ACTIVE_INTEL,
            "schedutil",
            Some("intel_pstate, powersave chooses the frequencies"),
        ),
        // intel_pstate=passive: a cpufreq governor decides, whether the processor has HWP or not.
        (
            ["intel_cpufreq", "schedutil", "balance_performance"],
            PASSIVE_INTEL,
            "schedutil",
            None,
        ),
        (
            ["intel_cpufreq", "performance", ""],
            PASSIVE_INTEL,
            "performance",
            None,
        ),
        (
            ["intel_cpufreq", "conservative", ""],
            PASSIVE_INTEL,
            "schedutil",
            Some("conservative chooses the frequencies"),
        ),
        // AMD's three modes, and a machine whose firmware has no CPPC.
        (
            ["amd-pstate-epp", "powersave", "balance_performance"],
            amd("active"),
            "amd-pstate, balance_performance",
            None,
        ),
        (
            ["amd-pstate-epp", "performance", "performance"],
            amd("active"),
            "amd-pstate, performance",
            None,
        ),
        (
            ["amd-pstate-epp", "powersave", "170"],
            amd("active"),
            "amd-pstate, balance_power",
            Some("energy_performance_preference is 170"),
        ),
        (
            ["amd-pstate", "schedutil", ""],
            amd("passive"),
            "schedutil",
            None,
        ),
        (
            ["amd-pstate", "schedutil", ""],
            amd("guided"),
            "schedutil",
            None,
        ),
        (
            ["acpi-cpufreq", "schedutil", ""],
            amd("disable"),
            "schedutil",
            None,
        ),
        // A server or a board.
        (
            ["cppc_cpufreq", "performance", ""],
            None,
            "performance",
            None,
        ),
        (
            ["cpufreq-dt", "ondemand", ""],
            None,
            "schedutil",
            Some("ondemand chooses the frequencies"),
        ),
        (["cpufreq-dt", "", ""], None, "schedutil", None),
    ];
    for ([driver, governor, preference], status, expected, warning) in rows {
        let cpus = Cpus {
            cpus: "0-3",
            khz: &[400_000, 4_000_000],
            driver,
            governor,
            preference,
            ..Cpus::default()
        };
        let tree = Tree::new(4, &[cpus]);
        if let Some((name, text)) = status {
            tree.write(format!("devices/system/cpu/{name}/status"), text);
        }
        let found = detect::sysfs(tree.path()).unwrap();
        let (machine, warnings) = machine(found);
        let cpufreq = machine.cpufreq.expect("frequencies");
        let row = format!("{driver}, {governor}, {preference}: {warnings:?}");
        assert_eq!(cpufreq.governor.to_string(), expected, "{row}");
        let about = |text: &String| warning.is_some_and(|start| text.starts_with(start));
        assert_eq!(warnings.iter().any(about), warning.is_some(), "{row}");
        let said = |text: &&String| text.contains("chooses") || text.contains("preference");
        assert_eq!(
            warnings.iter().filter(said).count(),
            warning.iter().count(),
            "{row}"
        );
    }
}
