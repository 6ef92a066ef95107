//! The parts of a description that are missing, and what the simulation assumes instead.

use crate::Machine;

impl Machine {
    /// A sentence for each missing fact about power on which joules depend. The list is empty if the power is not
    /// described at all.
    pub fn power_gaps(&self) -> Vec<String> {
        if self.power.is_none() {
            return Vec::new();
        }
        let mut gaps = Vec::new();
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
}
