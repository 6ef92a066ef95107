//! Idle states of a device tree's CPUs.

use super::Listed;
use super::fdt::Node;
use crate::found::Found;
use machine::{CpuMask, IdleState};
use std::collections::{BTreeMap, BTreeSet};

/// The latency of the state that Linux adds before the tree's states (`psci_idle_init_cpu()`,
/// `sbi_cpuidle_init_cpu()`, `qcom_spm` and others).
const WFI_NS: u64 = 1_000;

pub(super) fn add(found: &mut Found, listed: &[Listed], by_handle: &BTreeMap<u32, &Node>) {
    let (mut incomplete, mut without) = (BTreeSet::new(), CpuMask::EMPTY);
    for cpu in listed {
        let Some(of_cpu) = found.cpus.get_mut(&cpu.number) else {
            continue;
        };
        let nodes = (0..).map_while(|index| state(cpu.node, index, by_handle));
        let nodes = nodes.filter(|node| node.is_available());
        let (mut states, mut lacking) = (Vec::new(), Vec::new());
        for node in nodes {
            match idle_state(node) {
                Some(state) => states.push(state),
                None => lacking.push(node.base_name()),
            }
        }
        // If a state lacks a time, Linux uses none of the CPU's states (`dt_init_idle_driver()`).
        if !lacking.is_empty() {
            incomplete.extend(lacking);
            without.set(cpu.number);
            continue;
        }
        if !states.is_empty() {
            let wfi = IdleState {
                name: "WFI".to_owned(),
                min_residency_ns: WFI_NS,
                exit_latency_ns: WFI_NS,
                ..IdleState::default()
            };
            states.insert(0, wfi);
        }
        of_cpu.idle_states = states;
    }
    if !incomplete.is_empty() {
        let names: Vec<&str> = incomplete.into_iter().collect();
        found.lose(format!(
            "the idle states of CPUs {without}, because a residency or a latency is missing in {}",
            names.join(", ")
        ));
    }
    let groups = of_groups(listed, by_handle);
    if !groups.is_empty() {
        let names: Vec<&str> = groups.into_iter().collect();
        found.lose(format!(
            "idle states of groups of CPUs ({}): a machine file has them only with their powers",
            names.join(", ")
        ));
    }
}

/// The node of state `index` (`of_get_cpu_state_node()` in drivers/of/cpu.c). It is in the list of the CPU's first
/// power domain or, if that domain has no list, in the CPU's own list.
fn state<'a>(cpu: &Node, index: usize, by_handle: &BTreeMap<u32, &'a Node>) -> Option<&'a Node> {
    let find = |node: &Node, list: &str| {
        let handle = node.cells(list).get(index).copied()?;
        by_handle.get(&handle).copied()
    };
    domain(cpu, by_handle)
        .and_then(|domain| find(domain, "domain-idle-states"))
        .or_else(|| find(cpu, "cpu-idle-states"))
}

fn domain<'a>(node: &Node, by_handle: &BTreeMap<u32, &'a Node>) -> Option<&'a Node> {
    by_handle.get(&node.cell("power-domains")?).copied()
}

/// The names of the states of domains above those of CPUs, such as a cluster's domain.
fn of_groups<'a>(listed: &[Listed], by_handle: &BTreeMap<u32, &'a Node>) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for cpu in listed {
        let mut above = domain(cpu.node, by_handle).and_then(|own| domain(own, by_handle));
        // A tree has few levels of domains; a limit also ends a circle of domains.
        for _ in 0..8 {
            let Some(group) = above else { break };
            let states = group.cells("domain-idle-states");
            let states = states.iter().filter_map(|handle| by_handle.get(handle));
            names.extend(states.map(|state| state.base_name()));
            above = domain(group, by_handle);
        }
    }
    names
}

/// An idle state (`init_state_node()` in drivers/cpuidle/dt_idle_states.c); `None` if a time is missing.
fn idle_state(node: &Node) -> Option<IdleState> {
    let ns = |name: &str| node.cell(name).map(|us| u64::from(us) * 1000);
    // The kernel takes the wakeup latency, or, if there is none, the sum of the entry and the exit latency.
    let both = || Some(ns("entry-latency-us")? + ns("exit-latency-us")?);
    Some(IdleState {
        name: node.base_name().to_owned(),
        min_residency_ns: ns("min-residency-us")?,
        exit_latency_ns: ns("wakeup-latency-us").or_else(both)?,
        ..IdleState::default()
    })
}
