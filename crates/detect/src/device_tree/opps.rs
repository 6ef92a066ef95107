//! Frequencies, voltages and powers of a device tree's CPUs, and the CPUs that share a clock.

use super::Listed;
use super::fdt::Node;
use crate::found::{Cpu, Found, OppFound};
use machine::CpuMask;
use machine::limits::MICROVOLT;
use std::collections::BTreeMap;

/// Properties that name a clock domain of the firmware: the provider and an index. The cpufreq
/// drivers of Qualcomm, MediaTek and Apple make one policy of the CPUs with the same value
/// (`qcom_get_related_cpus()`, `of_perf_domain_get_sharing_cpumask()`).
const DOMAINS: [&str; 2] = ["qcom,freq-domain", "performance-domains"];

const TABLE: &str = "operating-points-v2";

#[derive(Default)]
pub(super) struct Table {
    pub opps: Vec<OppFound>,
    /// The longest latency of a change, in ns.
    pub latency_ns: Option<u64>,
    /// The frequencies of `turbo-mode` in kHz, which Linux uses only while boost is enabled.
    turbo: Vec<u32>,
    /// Are some of the OPPs only for some chips (`opp-supported-hw`)?
    selected: bool,
    /// Do voltages depend on the chip (`opp-microvolt-NAME`)?
    by_chip: bool,
}

impl Table {
    /// Reads the table of `node`, which is of version 2, or of version 1 (a list of kHz and uV).
    pub fn of(node: &Node, by_handle: &BTreeMap<u32, &Node>) -> Table {
        let coefficient = node.cell("dynamic-power-coefficient").filter(|&it| it > 0);
        let table = node.cell(TABLE).and_then(|handle| by_handle.get(&handle));
        let mut table = match table {
            Some(table) => Table::version_2(table),
            None => Table::version_1(node),
        };
        table.opps.sort_by_key(|opp| opp.khz);
        table.opps.dedup_by_key(|opp| opp.khz);
        let known = table.opps.iter().any(|opp| opp.power_uw.is_some());
        for opp in table.opps.iter_mut().filter(|_| !known) {
            opp.power_uw = coefficient.and_then(|coefficient| power_uw(opp, coefficient));
        }
        table
    }

    fn version_2(node: &Node) -> Table {
        let mut table = Table::default();
        for node in node.children.iter().filter(|node| node.is_available()) {
            // Linux refuses a table if it cannot read one of the frequencies (`_read_opp_key()`).
            let [high, low, ..] = node.cells("opp-hz")[..] else {
                return Table::default();
            };
            let hz = u64::from(high) << 32 | u64::from(low);
            let khz = u32::try_from(hz / 1000).unwrap_or(u32::MAX);
            let latency = node.cell("clock-latency-ns").map(u64::from);
            table.latency_ns = table.latency_ns.max(latency);
            if node.properties.contains_key("turbo-mode") {
                table.turbo.push(khz);
                continue;
            }
            let mut names = node.properties.keys();
            table.selected |= node.properties.contains_key("opp-supported-hw");
            table.by_chip |= names.any(|name| name.starts_with("opp-microvolt-"));
            let microvolt = node.cell("opp-microvolt");
            table.opps.push(OppFound {
                khz,
                // Some trees have numbers of steps or corners in place of voltages.
                microvolt: microvolt.filter(|it| MICROVOLT.contains(it)),
                power_uw: node.cell("opp-microwatt").map(u64::from),
            });
        }
        table
    }

    fn version_1(node: &Node) -> Table {
        let opp = |pair: &[u32]| OppFound {
            khz: pair[0],
            microvolt: Some(pair[1]).filter(|it| MICROVOLT.contains(it)),
            power_uw: None,
        };
        let cells = node.cells("operating-points");
        // Linux refuses a table with half a pair (`_of_add_opp_table_v1()`).
        let pairs = cells.chunks_exact(2);
        let whole = pairs.remainder().is_empty();
        Table {
            opps: pairs.filter(|_| whole).map(opp).collect(),
            latency_ns: node.cell("clock-latency").map(u64::from),
            ..Table::default()
        }
    }
}

/// The energy model's power of `opp` (`dev_pm_opp_calc_power()` in drivers/opp/of.c), in uW: the
/// coefficient times mV squared times MHz, divided by a million.
fn power_uw(opp: &OppFound, coefficient: u32) -> Option<u64> {
    let mv = u64::from(opp.microvolt? / 1000);
    let mhz = u64::from(opp.khz / 1000);
    Some(u64::from(coefficient).saturating_mul(mv * mv * mhz) / 1_000_000)
}

pub(super) fn add(found: &mut Found, listed: &[Listed], by_handle: &BTreeMap<u32, &Node>) {
    let mut tables: BTreeMap<usize, Table> = BTreeMap::new();
    let mut clocks: BTreeMap<(&str, Vec<u32>), CpuMask> = BTreeMap::new();
    for cpu in listed.iter().filter(|cpu| cpu.online) {
        tables.insert(cpu.number, Table::of(cpu.node, by_handle));
        let own = || ("", vec![cpu.number as u32]);
        let clock = clock(cpu.node, by_handle).unwrap_or_else(own);
        clocks.entry(clock).or_default().set(cpu.number);
    }
    report(found, &tables, listed);
    for clock in clocks.values() {
        for number in clock.iter() {
            let table = tables.remove(&number).unwrap_or_default();
            let Some(cpu) = found.cpus.get_mut(&number) else {
                continue;
            };
            cpu.policy = Some(*clock).filter(|clock| !table.opps.is_empty() || clock.count() > 1);
            cpu.opps = table.opps;
            cpu.transition_latency_ns = table.latency_ns;
        }
    }
    share_first(found, listed, by_handle);
    share_power(found);
}

/// The clock that `node` shares with other nodes, as a property that is equal for all these nodes.
fn clock(node: &Node, by_handle: &BTreeMap<u32, &Node>) -> Option<(&'static str, Vec<u32>)> {
    let named = DOMAINS.iter().find_map(|&name| {
        let cells = node.cells(name);
        (!cells.is_empty()).then_some((name, cells))
    });
    let shared = || {
        let handle = node.cell(TABLE)?;
        let table = by_handle.get(&handle)?;
        let shared = table.properties.contains_key("opp-shared");
        shared.then(|| (TABLE, vec![handle]))
    };
    named.or_else(shared)
}

/// If the first CPU's table is of version 1, all CPUs have that table and share its clock; otherwise, if the table is
/// shared, the CPUs that have no table get this table and clock (`dt_cpufreq_early_init()` in
/// drivers/cpufreq/cpufreq-dt.c).
fn share_first(found: &mut Found, listed: &[Listed], by_handle: &BTreeMap<u32, &Node>) {
    let Some(first) = listed.iter().find(|cpu| cpu.online) else {
        return;
    };
    let old = first.node.properties.contains_key("operating-points");
    let shared = clock(first.node, by_handle).is_some_and(|(name, _)| name == TABLE);
    let Some(like) = found.cpus.get(&first.number).cloned() else {
        return;
    };
    if !(old || shared) || like.opps.is_empty() {
        return;
    }
    let takes = |cpu: &Cpu| old || cpu.opps.is_empty();
    let mut cpus: CpuMask = found
        .cpus
        .iter()
        .filter(|(_, cpu)| takes(cpu))
        .map(|(&number, _)| number)
        .collect();
    if cpus.is_empty() {
        return;
    }
    cpus = cpus.or(&like.policy.unwrap_or(CpuMask::one(first.number)));
    for number in cpus.iter() {
        if let Some(cpu) = found.cpus.get_mut(&number) {
            cpu.opps = like.opps.clone();
            cpu.transition_latency_ns = like.transition_latency_ns;
            cpu.policy = Some(cpus);
        }
    }
}

/// Gives the CPUs of a domain of the energy model the power of the domain's first CPU (`dev_pm_opp_of_register_em()`),
/// which alone may have a `dynamic-power-coefficient`.
fn share_power(found: &mut Found) {
    let before = found.cpus.clone();
    for cpu in found.cpus.values_mut() {
        let first = cpu.policy.and_then(|policy| policy.first());
        let Some(first) = first.and_then(|first| before.get(&first)) else {
            continue;
        };
        let unpowered = cpu.opps.iter().all(|opp| opp.power_uw.is_none());
        if unpowered && first.khz() == cpu.khz() {
            cpu.opps = first.opps.clone();
        }
    }
}

/// Reports the facts in the tables that a machine file cannot express.
fn report(found: &mut Found, tables: &BTreeMap<usize, Table>, listed: &[Listed]) {
    let of = |is: &dyn Fn(&Listed, &Table) -> bool| -> CpuMask {
        let online = listed.iter().filter(|cpu| cpu.online);
        let cpus = online.filter(|cpu| tables.get(&cpu.number).is_some_and(|table| is(cpu, table)));
        cpus.map(|cpu| cpu.number).collect()
    };
    let turbo = of(&|_, table| !table.turbo.is_empty());
    let turbo_khz: std::collections::BTreeSet<u32> = tables
        .values()
        .flat_map(|table| &table.turbo)
        .copied()
        .collect();
    let selected = of(&|_, table| table.selected);
    let by_chip = of(&|_, table| table.by_chip);
    let clocked = of(&|cpu, table| {
        table.opps.is_empty()
            && DOMAINS
                .iter()
                .any(|name| cpu.node.properties.contains_key(*name))
    });
    let useless = of(&|cpu, table| {
        let named = |name: &str| cpu.node.properties.contains_key(name);
        table.opps.is_empty()
            && table.turbo.is_empty()
            && (named(TABLE) || named("operating-points"))
    });
    let unpowered = of(&|cpu, table| {
        cpu.node.cell("dynamic-power-coefficient").is_some()
            && !table.opps.iter().any(|opp| opp.power_uw.is_some())
    });
    if !turbo.is_empty() {
        let khz: Vec<String> = turbo_khz.iter().map(u32::to_string).collect();
        found.lose(format!(
            "the frequencies {} kHz of CPUs {turbo} are boosts (turbo-mode), which Linux does not use unless boost is enabled",
            khz.join(", ")
        ));
    }
    for (cpus, of, what) in [
        (
            selected,
            "OPPs of",
            "are for some chips only (opp-supported-hw); all are written",
        ),
        (
            by_chip,
            "voltages of",
            "depend on the chip (opp-microvolt-NAME)",
        ),
        (
            clocked,
            "",
            "have clock domains, but firmware knows their frequencies, which the tree lacks",
        ),
        (
            useless,
            "the OPPs of",
            "are in no table in which each OPP has a frequency",
        ),
        (
            unpowered,
            "",
            "have a dynamic-power-coefficient, but no voltages, so their power is unknown",
        ),
    ] {
        if !cpus.is_empty() {
            found.lose(format!("{of} CPUs {cpus} {what}").trim_start());
        }
    }
}
