//! The parts of a description that are missing, and what the simulation assumes instead.

use crate::{CoreType, Machine};

impl Machine {
    /// A sentence for each missing fact about power on which joules depend. The list is empty if the power is not
    /// described at all.
    pub fn power_gaps(&self) -> Vec<String> {
        let Some(power) = &self.power else {
            return Vec::new();
        };
        let mut gaps = Vec::new();
        let idle = |core: &CoreType| core.idle_states.iter().any(|state| state.power_mw > 0);
        let fixed = |core: &CoreType| core.power.as_ref().is_some_and(|it| it.static_mw > 0);
        let parts = [
            power.rest_mw,
            power.package.active_mw,
            power.cluster.active_mw,
        ];
        if !self.core_types.iter().any(|core| idle(core) || fixed(core)) && parts == [0; 3] {
            gaps.push(
                "only the dynamic power of busy cores is known, so all other power counts as 0"
                    .to_owned(),
            );
        }
        for core in &self.core_types {
            let name = &core.name;
            if core.idle_states.is_empty() {
                gaps.push(format!(
                    "{name} has no idle states, so an idle core draws its static power"
                ));
            }
            if core.opps.iter().any(|opp| opp.microvolt.is_none()) {
                gaps.push(format!(
                    "{name} has OPPs without voltages, so its voltage is assumed to be constant"
                ));
            }
        }
        gaps
    }

    /// A sentence for each missing fact.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = self.power_gaps();
        for core in &self.core_types {
            let name = &core.name;
            if core.idle_states.is_empty() && self.power.is_none() {
                gaps.push(format!(
                    "{name} has no idle states, so an idle CPU wakes up at once"
                ));
            }
            if !core.usual_costs.is_empty() {
                let costs = core.usual_costs.join(", ");
                gaps.push(format!("{name} has typical values for costs: {costs}"));
            }
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_facts_are_named_by_core_type() {
        let file = "name = \"m\"\n[core.big]\n[[package]]\n[[package.cluster]]\ncore = \"big\"\ncpus = \"0-1\"\n";
        let machine = Machine::parse("m.toml", file).unwrap();
        let gaps = machine.gaps();
        assert_eq!(gaps.len(), 2, "{gaps:?}");
        assert!(gaps[0].contains("big has no idle states"), "{gaps:?}");
        assert!(gaps[1].contains("context_switch_ns"), "{gaps:?}");
        assert!(machine.power_gaps().is_empty());
    }

    #[test]
    fn power_of_busy_cores_alone_is_a_gap() {
        let file = "name = \"m\"\n[core.big]\n[core.big.power]\nsource = \"s\"\ndynamic_mw = 900\nstatic_mw = 0\n\
            [power]\nsource = \"s\"\nrest_mw = 0\n\
            [[package]]\n[[package.cluster]]\ncore = \"big\"\ncpus = \"0-1\"\n";
        let gap = "only the dynamic power";
        let gaps = |file: &str| Machine::parse("m.toml", file).unwrap().power_gaps();
        assert!(gaps(file)[0].starts_with(gap), "{:?}", gaps(file));
        let known = gaps(&file.replace("rest_mw = 0", "rest_mw = 800"));
        assert!(!known.iter().any(|it| it.starts_with(gap)), "{known:?}");
    }
}
