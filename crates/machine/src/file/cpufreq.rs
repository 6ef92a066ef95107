//! Frequencies: OPP tables and cpufreq policies.

use super::reader::{Reader, Result};
use super::topology::Topology;
use super::{CoreFile, CpufreqFile, GovernorFile, MachineFile, SharedBy, Unit};
use crate::input;
use crate::limits::{KHZ, MICROVOLT};
use crate::{CoreType, CpuMask, Cpufreq, Governor, Opp, Preference, Ramp};
use toml::Spanned;

impl Reader<'_> {
    pub(super) fn opps(&self, core: &CoreFile) -> Vec<Opp> {
        let mut opps: Vec<Opp> = Vec::new();
        for opp in &core.opp {
            let khz = self.within(&opp.khz, "khz", KHZ);
            if opps.last().is_some_and(|slower| khz <= slower.khz) {
                self.keep(self.bad::<()>(
                    opp.khz.span(),
                    "this OPP is not faster than the one before it".to_owned(),
                    "expected frequencies that rise from OPP to OPP",
                ));
            }
            let microvolt = opp
                .microvolt
                .as_ref()
                .map(|microvolt| self.within(microvolt, "microvolt", MICROVOLT));
            opps.push(Opp { khz, microvolt });
        }
        opps
    }

    pub(super) fn cpufreq(
        &self,
        machine: &MachineFile,
        topology: &Topology,
        core_types: &[CoreType],
    ) -> Result<Option<Cpufreq>> {
        let scales = machine.core.iter().find(|(_, core)| !core.opp.is_empty());
        let file = match (&machine.cpufreq, scales) {
            (None, None) => return Ok(None),
            (Some(file), Some(_)) => file,
            (None, Some((name, _))) => {
                return self.bad(
                    name.span(),
                    format!(
                        "`{}` has OPPs, but the file does not say how frequencies change",
                        name.get_ref()
                    ),
                    "expected a [cpufreq] section",
                );
            }
            (Some(file), None) => {
                return self.bad(
                    file.span(),
                    "there is a [cpufreq] section, but no core type has OPPs".to_owned(),
                    "expected [[core.NAME.opp]]",
                );
            }
        };
        let file = file.get_ref();
        let policies = self.policies(&file.shared_by, topology)?;
        self.of_one_table(&file.shared_by, &policies, topology, core_types)?;
        let transition_latency_ns = self.cost(&file.transition_latency_us, 1000);
        let rate_limit_ns = match &file.rate_limit_us {
            Some(limit) => self.cost(limit, 1000),
            None => Cpufreq::default_rate_limit_ns(transition_latency_ns),
        };
        Ok(Some(Cpufreq {
            policies,
            transition_latency_ns,
            rate_limit_ns,
            governor: self.governor(file)?,
            ramp: self.ramp(file)?,
        }))
    }

    /// Reads the ramp. The file has both times of a ramp or neither, and only for a processor that sets the
    /// frequencies.
    fn ramp(&self, file: &CpufreqFile) -> Result<Option<Ramp>> {
        let (up, down) = match (&file.ramp_up_us, &file.ramp_down_us) {
            (None, None) => return Ok(None),
            (Some(up), Some(down)) => (up, down),
            (Some(one), None) | (None, Some(one)) => {
                return self.bad(
                    one.span(),
                    "the ramp of frequencies has only one direction".to_owned(),
                    "expected both ramp_up_us and ramp_down_us",
                );
            }
        };
        if file.energy_performance_preference.is_none() {
            return self.bad(
                up.span(),
                "ramp_up_us is given, but the processor does not set frequencies".to_owned(),
                "expected governor = \"hwp\" or \"amd-pstate\"",
            );
        }
        Ok(Some(Ramp {
            up_ns: self.time(up, 1000)?,
            down_ns: self.time(down, 1000)?,
        }))
    }

    /// Reads the governor. A processor that sets the frequencies must have a preference, and no other governor may have
    /// one.
    fn governor(&self, file: &CpufreqFile) -> Result<Governor> {
        let kind = file.governor.as_ref().map(Spanned::get_ref);
        let by_preference = match kind {
            Some(GovernorFile::Hwp) => Governor::Hwp,
            Some(GovernorFile::AmdPstate) => Governor::AmdPstate,
            _ => {
                if let Some(preference) = &file.energy_performance_preference {
                    return self.bad(
                        preference.span(),
                        "there is a preference, but the processor does not set frequencies"
                            .to_owned(),
                        "expected governor = \"hwp\" or \"amd-pstate\"",
                    );
                }
                return Ok(match kind {
                    Some(GovernorFile::Performance) => Governor::Performance,
                    _ => Governor::Schedutil,
                });
            }
        };
        let Some(word) = &file.energy_performance_preference else {
            let governor = file.governor.as_ref().expect("it is one of two");
            return self.bad(
                governor.span(),
                "the processor sets frequencies, but has no preference".to_owned(),
                "expected an energy_performance_preference",
            );
        };
        let found = Preference::ALL
            .iter()
            .find(|(name, _)| name == word.get_ref());
        match found {
            Some((_, preference)) => Ok(by_preference(*preference)),
            None => self.bad(
                word.span(),
                format!("no preference is called `{}`", word.get_ref()),
                input::one_of(word.get_ref(), Preference::ALL.map(|(name, _)| name)),
            ),
        }
    }

    /// The sets of CPUs that share a frequency, sorted by first CPU.
    fn policies(&self, shared_by: &Spanned<SharedBy>, topology: &Topology) -> Result<Vec<CpuMask>> {
        let online = CpuMask::first_n(topology.cpus.len()).without(&topology.offline);
        let mut policies = match shared_by.get_ref() {
            SharedBy::Unit(unit) => of_unit(*unit, topology, &online),
            SharedBy::Lists(lists) => {
                let lists: Result<Vec<CpuMask>> = lists
                    .iter()
                    .map(|list| self.list(list, shared_by.span()))
                    .collect();
                let count = topology.cpus.len();
                let mut left = online;
                let mut policies = Vec::new();
                for list in lists? {
                    if let Some(cpu) = list.first_from(count) {
                        return self.bad(
                            shared_by.span(),
                            format!("there is no CPU {cpu}"),
                            format!("expected CPUs below {count}"),
                        );
                    }
                    let policy = list.and(&online);
                    if !policy.is_subset(&left) {
                        return self.bad(
                            shared_by.span(),
                            format!("CPUs {} are in several lists", policy.without(&left)),
                            "expected each online CPU in one list of `shared_by`",
                        );
                    }
                    left = left.without(&policy);
                    policies.extend((!policy.is_empty()).then_some(policy));
                }
                if !left.is_empty() {
                    return self.bad(
                        shared_by.span(),
                        format!("CPUs {left} are in no list"),
                        "expected each online CPU in one list of `shared_by`",
                    );
                }
                policies
            }
        };
        policies.sort_by_key(CpuMask::first);
        Ok(policies)
    }

    /// Checks that core types that share a clock have the same frequencies, because a policy of Linux has one table of
    /// frequencies.
    fn of_one_table(
        &self,
        shared_by: &Spanned<SharedBy>,
        policies: &[CpuMask],
        topology: &Topology,
        core_types: &[CoreType],
    ) -> Result<()> {
        for policy in policies {
            let mut kinds: Vec<&CoreType> = policy
                .iter()
                .map(|cpu| &core_types[topology.cpus[cpu].core_type])
                .collect();
            kinds.dedup_by_key(|kind| &kind.name);
            let khz = |kind: &CoreType| kind.opps.iter().map(|opp| opp.khz).collect::<Vec<_>>();
            if kinds.iter().any(|kind| khz(kind) != khz(kinds[0])) {
                let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
                return self.bad(
                    shared_by.span(),
                    format!(
                        "CPUs {policy} share a frequency, but are {}",
                        names.join(" and ")
                    ),
                    "expected only core types with the same OPPs to share a frequency",
                );
            }
        }
        Ok(())
    }
}

fn of_unit(unit: Unit, topology: &Topology, online: &CpuMask) -> Vec<CpuMask> {
    let level = |name| topology.levels.iter().find(|found| found.name == name);
    match unit {
        Unit::Core => level("SMT").map(|level| level.spans.clone()),
        Unit::Cluster => Some(topology.clusters.clone()),
        Unit::Package => level("PKG").map(|level| level.spans.clone()),
    }
    // If no core has two threads, each CPU is a core.
    .unwrap_or_else(|| online.iter().map(CpuMask::one).collect())
}

#[cfg(test)]
mod tests {
    use crate::{CpuMask, Cpufreq, Machine, Opp};

    const GOOD: &str = r#"name = "board"
description = "two clusters"
hz = 250

[core.big]
capacity = 1024
speed = { rate = 2.0, of = "a test" }

[[core.big.opp]]
khz = 500_000

[[core.big.opp]]
khz = 2_000_000
microvolt = 1_250_000

[core.little]
capacity = 512
speed = { rate = 1.0, of = "a test" }

[cpufreq]
source = "a test"
shared_by = "cluster"
transition_latency_us = 300

[[package]]

[[package.cluster]]
core = "little"
cpus = "2-3"

[[package.cluster]]
core = "big"
cpus = "0-1"
"#;

    #[test]
    fn policies_are_clusters_and_a_core_without_opps_has_one_speed() {
        let machine = Machine::parse("f.toml", GOOD).unwrap();
        let cpufreq = machine.cpufreq.as_ref().unwrap();
        let spans: Vec<String> = cpufreq.policies.iter().map(CpuMask::to_string).collect();
        assert_eq!(spans, ["0-1", "2-3"]);
        assert_eq!(cpufreq.transition_latency_ns, 300_000);
        assert_eq!(cpufreq.rate_limit_ns, 450_000);
        let (big, little) = (&machine.core_types[0], &machine.core_types[1]);
        assert_eq!((big.nr_opps(), little.nr_opps()), (2, 1));
        assert_eq!((big.at_opp(1024, 0), big.at_opp(1024, 1)), (256, 1024));
        assert_eq!(little.at_opp(512, 0), 512);
        let fastest = Opp {
            khz: 2_000_000,
            microvolt: Some(1_250_000),
        };
        assert_eq!(big.opps[1], fastest);
    }

    #[test]
    fn core_types_with_the_same_frequencies_may_share_a_clock() {
        let same = "[[core.little.opp]]\nkhz = 500_000\n\n[[core.little.opp]]\nkhz = 2_000_000\n\n[cpufreq]";
        let mixed = |lists: &str| {
            let text = GOOD.replace("[cpufreq]", same);
            Machine::parse("f.toml", &text.replace("\"cluster\"", lists))
        };
        for (lists, expected) in [
            ("[\"0-3\"]", vec!["0-3"]),
            ("[\"1-3\", \"0\"]", vec!["0", "1-3"]),
            ("\"package\"", vec!["0-3"]),
        ] {
            let policies = mixed(lists).unwrap().policies();
            let policies: Vec<String> = policies.iter().map(CpuMask::to_string).collect();
            assert_eq!(policies, expected, "{lists}");
        }
        for (lists, says) in [
            ("[\"0-2\"]", "CPUs 3 are in no list"),
            ("[\"0-2\", \"2-3\"]", "CPUs 2 are in several lists"),
        ] {
            let error = mixed(lists).unwrap_err();
            assert!(error.message().contains(says), "{}", error.message());
        }
    }

    #[test]
    fn the_rate_limit_follows_the_transition_latency() {
        assert_eq!(Cpufreq::default_rate_limit_ns(0), 1_000_000);
        assert_eq!(Cpufreq::default_rate_limit_ns(500_000), 750_000);
    }

    #[test]
    fn errors_name_their_line() {
        let opps =
            &GOOD[GOOD.find("[[core.big.opp]]").unwrap()..GOOD.find("[core.little]").unwrap()];
        let cpufreq = &GOOD[GOOD.find("[cpufreq]").unwrap()..GOOD.find("[[package]]").unwrap()];
        for (from, to, at, says) in [
            (
                "khz = 500_000",
                "khz = 500",
                "khz = 500\n",
                "expected 1000 to 10000000",
            ),
            (
                "khz = 2_000_000",
                "khz = 500_000",
                "khz = 500_000\nmicro",
                "rise from OPP to OPP",
            ),
            (
                "microvolt = 1_250_000",
                "microvolt = 1",
                "microvolt",
                "expected 100000 to 5000000",
            ),
            (
                "shared_by = \"cluster\"",
                "shared_by = \"package\"",
                "shared_by",
                "are big and little",
            ),
            (
                "shared_by = \"cluster\"",
                "shared_by = \"board\"",
                "shared_by",
                "`package`",
            ),
            (
                "shared_by = \"cluster\"",
                "shared_by = [\"0-99\"]",
                "shared_by",
                "there is no CPU",
            ),
            (
                "transition_latency_us = 300",
                "",
                "[cpufreq]",
                "transition_latency_us",
            ),
            (opps, "", "[cpufreq]", "expected [[core.NAME.opp]]"),
            (cpufreq, "", "[core.big]", "expected a [cpufreq] section"),
        ] {
            assert_eq!(GOOD.matches(from).count(), 1, "{from}");
            let text = GOOD.replace(from, to);
            let error = Machine::parse("f.toml", &text).unwrap_err();
            let said = format!("{} {}", error.message(), error.expected());
            assert!(said.contains(says), "{said}");
            let line = text[..text.find(at).unwrap()].lines().count() + 1;
            assert!(
                said.starts_with(&format!("f.toml:{line}:")),
                "{line}: {said}"
            );
        }
    }
}
