//! The frequencies of CPUs in sysfs: their cpufreq policies, OPPs and rankings.

use crate::folder::Folder;
use crate::found::OppFound;
use machine::CpuMask;
use std::collections::BTreeMap;

/// The maximum number of OPPs if all but the lowest and the highest are assumed, including these two.
const ASSUMED_OPPS: u32 = 8;

/// The folder of each CPU's policy. In a copy without symbolic links, only one of a policy's CPUs has this folder, or
/// no CPU has it.
pub(super) fn folders(all: &Folder, online: &CpuMask) -> BTreeMap<usize, Folder> {
    let own = online
        .iter()
        .map(|cpu| (cpu, all.at(format!("cpu{cpu}/cpufreq"))));
    let mut folders: BTreeMap<usize, Folder> =
        own.filter(|(_, folder)| folder.0.is_dir()).collect();
    if folders.len() == online.count() {
        return folders;
    }
    let named = all.at("cpufreq");
    let policies = named.numbered("policy").into_iter();
    let policies = policies.map(|policy| named.at(format!("policy{policy}")));
    for policy in policies.chain(folders.clone().into_values()) {
        for cpu in related(&policy)
            .into_iter()
            .flat_map(|cpus| cpus.iter().collect::<Vec<_>>())
        {
            folders.entry(cpu).or_insert_with(|| policy.clone());
        }
    }
    folders
}

/// The CPUs of a policy. A policy may list only one CPU as affected; `related_cpus` also has offline CPUs.
pub(super) fn related(cpufreq: &Folder) -> Option<CpuMask> {
    let mut names = ["related_cpus", "affected_cpus"].iter();
    names.find_map(|name| {
        let list = cpufreq.text(name)?;
        let list: Vec<&str> = list.split_whitespace().collect();
        list.join(",").parse().ok()
    })
}

/// The cpufreq driver's ranking of the CPU, by Turbo Boost Max 3.0 of intel_pstate, or by preferred cores of
/// amd-pstate.
pub(super) fn priority(all: &Folder, folder: &Folder, cpufreq: &Folder) -> Option<u32> {
    let driver = cpufreq.text("scaling_driver")?;
    if driver.starts_with("intel_") {
        return folder.number("acpi_cppc/highest_perf");
    }
    let ranks = all.text("amd_pstate/prefcore").as_deref() == Some("enabled");
    cpufreq
        .number("amd_pstate_prefcore_ranking")
        .filter(|_| ranks)
}

/// The user's or the firmware's limit of the frequency, and the highest frequency above it, in kHz.
pub(super) fn limit(cpufreq: &Folder) -> Option<(u32, u32)> {
    let limit = cpufreq.number("scaling_max_freq")?;
    let most = cpufreq.number("cpuinfo_max_freq")?;
    (limit < most).then_some((limit, most))
}

/// The OPPs in rising order, and whether the intermediate OPPs are assumed. Linux uses the frequencies of
/// `scaling_boost_frequencies` only while boost is enabled, and none above `cpuinfo_max_freq`
/// (`cpufreq_frequency_table_cpuinfo()`).
pub(super) fn opps(cpufreq: &Folder, all: &Folder) -> (Vec<OppFound>, bool) {
    let opp = |khz| OppFound {
        khz,
        microvolt: None,
        power_uw: None,
    };
    if let Some(list) = cpufreq.text("scaling_available_frequencies") {
        let enabled = cpufreq
            .text("boost")
            .or_else(|| all.text("cpufreq/boost"))
            .map(|enabled| enabled == "1");
        let most = cpufreq.number("cpuinfo_max_freq").unwrap_or(u32::MAX);
        let boost = cpufreq.text("scaling_boost_frequencies");
        let boost = boost.filter(|_| enabled != Some(false)).unwrap_or_default();
        let boost = boost.split_whitespace().filter(|khz| {
            let khz = khz.parse::<u32>();
            enabled.is_some() || khz.is_ok_and(|khz| khz <= most)
        });
        let all = list.split_whitespace().chain(boost);
        let mut khz: Vec<u32> = all.filter_map(|khz| khz.parse().ok()).collect();
        khz.sort_unstable();
        khz.dedup();
        return (khz.into_iter().map(opp).collect(), false);
    }
    let (Some(least), Some(most)) = (
        cpufreq.number::<u32>("cpuinfo_min_freq"),
        cpufreq.number::<u32>("cpuinfo_max_freq"),
    ) else {
        return (Vec::new(), false);
    };
    if least >= most {
        return (vec![opp(most)], false);
    }
    let mut khz: Vec<u32> = (0..ASSUMED_OPPS)
        .map(|step| {
            let up = u64::from(most - least) * u64::from(step) / u64::from(ASSUMED_OPPS - 1);
            least + up as u32
        })
        .collect();
    khz.dedup();
    (khz.into_iter().map(opp).collect(), true)
}
