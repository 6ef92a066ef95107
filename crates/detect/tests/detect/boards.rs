//! What Linux makes of device trees: numbers, frequencies, capacities, idle states, nodes.

use crate::device_tree::{With, node};
use crate::{kinds, level, machine};
use dtoolkit::model::{DeviceTree, DeviceTreeNode};
use machine::Machine;

fn cpu(number: u32, core: &str) -> DeviceTreeNode {
    node(&format!("cpu@{number:x}"))
        .with("device_type", "cpu")
        .with("compatible", core)
        .with("reg", number)
}

fn board(cpus: Vec<DeviceTreeNode>, others: Vec<DeviceTreeNode>) -> (Machine, Vec<String>) {
    let all = node("cpus");
    let all = cpus.into_iter().fold(all, DeviceTreeNode::has);
    let mut tree = DeviceTree::new();
    tree.root = others.into_iter().fold(node("").has(all), With::has);
    machine(detect::device_tree("a.dtb", &tree.to_dtb()).unwrap())
}

fn flag() -> Vec<u8> {
    Vec::new()
}

/// A table whose CPUs share a clock. `opps` has the MHz of each OPP, and whether it is a boost.
fn table(handle: u32, opps: &[(u64, bool)]) -> DeviceTreeNode {
    let table = node(&format!("opp-table-{handle}"))
        .with("compatible", "operating-points-v2")
        .with("opp-shared", flag())
        .with("phandle", handle);
    let opp = |&(mhz, boost): &(u64, bool)| {
        let opp = node(&format!("opp-{mhz}"))
            .with("opp-hz", mhz * 1_000_000)
            .with("opp-microvolt", 900_000_u32);
        match boost {
            true => opp.with("turbo-mode", flag()),
            false => opp,
        }
    };
    opps.iter().map(opp).fold(table, With::has)
}

fn policies(machine: &Machine) -> Vec<String> {
    machine.policies().iter().map(|it| it.to_string()).collect()
}

#[test]
fn long_names_are_read() {
    let usb = node("a-node-whose-name-has-more-than-thirty-one-characters@1000").with(
        "a-property,with-a-name-of-more-than-thirty-one-characters",
        1_u32,
    );
    let (machine, _) = board(vec![cpu(0, "arm,cortex-a53")], vec![usb]);
    assert_eq!(kinds(&machine), ["cortex-a53 1024: 0"]);
}

/// fu540, jh7110 and mpfs have a small hart that cannot run Linux, and that is disabled.
#[test]
fn harts_that_cannot_run_linux_have_no_number() {
    let hart = |number, isa: &str| cpu(number, "riscv").with("riscv,isa", isa);
    let (first, _) = board(
        vec![
            hart(0, "rv64imac").with("status", "disabled"),
            hart(1, "rv64imafdc"),
            hart(2, "rv64imafdc"),
        ],
        vec![],
    );
    assert_eq!((first.cpus.len(), first.offline.count()), (2, 0));
    let hart = |number, extensions: &[u8]| {
        cpu(number, "riscv")
            .with("riscv,isa-base", "rv64i")
            .with("riscv,isa-extensions", extensions.to_vec())
    };
    let (second, _) = board(
        vec![hart(0, b"i\0m\0c\0"), hart(1, b"i\0m\0a\0c\0")],
        vec![],
    );
    assert_eq!(second.cpus.len(), 1);
    // On arm64 a disabled CPU has a number, and a failed CPU has none.
    let (arm, _) = board(
        vec![
            cpu(0, "arm,cortex-a53"),
            cpu(1, "arm,cortex-a53").with("status", "fail-sss"),
            cpu(2, "arm,cortex-a53").with("status", "disabled"),
            cpu(3, "arm,cortex-a53"),
        ],
        vec![],
    );
    assert_eq!(
        (arm.cpus.len(), arm.offline.to_string()),
        (3, "1".to_owned())
    );
}

/// QorIQ boards with spin tables have such CPUs, and so has arm64.
#[test]
fn disabled_cpus_with_a_method_are_started() {
    let waits = |name: &str, method| {
        node(name)
            .with("device_type", "cpu")
            .with("status", "disabled")
            .with("enable-method", method)
    };
    for (name, method) in [("PowerPC,e500mc", "spin-table"), ("cpu", "psci")] {
        let first = node(&format!("{name}@0")).with("device_type", "cpu");
        let (machine, _) = board(vec![first, waits(&format!("{name}@1"), method)], vec![]);
        assert_eq!(machine.all_cpus().to_string(), "0-1", "{name}");
    }
}

/// t4240 has two threads for each node, with consecutive numbers.
#[test]
fn threads_of_powerpc_have_numbers() {
    let core = |number: u32| {
        node(&format!("PowerPC,e6500@{}", 2 * number))
            .with("device_type", "cpu")
            .with("reg", [2 * number, 2 * number + 1])
    };
    let (machine, _) = board(vec![core(0), core(1)], vec![]);
    assert_eq!(level(&machine, "SMT"), "0-1 2-3");
}

/// Linux multiplies by the highest frequency, which each CPU must have.
#[test]
fn work_per_mhz_is_no_capacity() {
    let with = |number, core, dmips: u32| cpu(number, core).with("capacity-dmips-mhz", dmips);
    let cpus = || {
        vec![
            with(0, "arm,cortex-a55", 308),
            with(1, "arm,cortex-a78", 1024),
        ]
    };
    let (unknown, warnings) = board(cpus(), vec![]);
    assert_eq!(kinds(&unknown), ["cortex-a55 308: 0", "cortex-a78 1024: 1"]);
    assert!(
        warnings[0].contains("the tree lacks for CPUs 0-1"),
        "{warnings:?}"
    );
    let [little, big] = <[_; 2]>::try_from(cpus()).unwrap();
    let half = vec![little, big.with("operating-points-v2", 9_u32)];
    let (half, warnings) = board(half, vec![table(9, &[(2_000, false)])]);
    assert_eq!(kinds(&half), ["cortex-a55 308: 0", "cortex-a78 1024: 1"]);
    assert!(
        warnings.iter().any(|it| it.contains("lacks for CPUs 0")),
        "{warnings:?}"
    );
    let one = vec![with(0, "arm,cortex-a55", 308), cpu(1, "arm,cortex-a78")];
    let (one, _) = board(one, vec![]);
    assert_eq!(kinds(&one), ["cortex-a55 1024: 0", "cortex-a78 1024: 1"]);
}

#[test]
fn without_work_per_mhz_capacities_are_equal_and_speeds_are_not() {
    let cpus = vec![
        cpu(0, "arm,cortex-a53").with("operating-points-v2", 8_u32),
        cpu(1, "arm,cortex-a53").with("operating-points-v2", 9_u32),
    ];
    let tables = vec![table(8, &[(1_000, false)]), table(9, &[(1_600, false)])];
    let (machine, warnings) = board(cpus, tables);
    assert_eq!(
        machine
            .cpus
            .iter()
            .map(|cpu| cpu.capacity)
            .collect::<Vec<_>>(),
        [1024, 1024]
    );
    let speeds: Vec<u32> = [0, 1]
        .map(|cpu| machine.core_types[machine.cpus[cpu].core_type].speed)
        .into();
    assert_eq!(speeds, [640 << 10, 1024 << 10]);
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn boosts_do_not_count() {
    let cpus = vec![
        cpu(0, "arm,cortex-a57")
            .with("capacity-dmips-mhz", 1024_u32)
            .with("operating-points-v2", 8_u32),
        cpu(0x100, "arm,cortex-a53")
            .with("capacity-dmips-mhz", 512_u32)
            .with("operating-points-v2", 9_u32),
    ];
    let tables = vec![
        table(8, &[(1_000, false), (2_000, true)]),
        table(9, &[(1_000, false)]),
    ];
    let (machine, warnings) = board(cpus, tables);
    assert_eq!(kinds(&machine), ["cortex-a57 1024: 0", "cortex-a53 512: 1"]);
    assert!(
        warnings[0].contains("2000000 kHz of CPUs 0 are boosts"),
        "{warnings:?}"
    );
}

/// imx6q uses version 1 of the binding: a list of kHz and uV in the node of one CPU or of each CPU.
#[test]
fn the_old_table_of_one_cpu_is_that_of_all() {
    let points = [996_000_u32, 1_250_000, 396_000, 975_000];
    let old = |number| {
        cpu(number, "arm,cortex-a9")
            .with("operating-points", points)
            .with("clock-latency", 61_036_u32)
    };
    for cpus in [vec![old(0), cpu(1, "arm,cortex-a9")], vec![old(0), old(1)]] {
        let (machine, _) = board(cpus, vec![]);
        assert_eq!(policies(&machine), ["0-1"]);
        let opps: Vec<_> = machine.core_types[0]
            .opps
            .iter()
            .map(|opp| (opp.khz, opp.microvolt))
            .collect();
        assert_eq!(opps, [(396_000, Some(975_000)), (996_000, Some(1_250_000))]);
        assert_eq!(machine.cpufreq.unwrap().transition_latency_ns, 62_000);
    }
}

/// Firmware drives Qualcomm's clock domains. Both clusters have the same frequencies.
#[test]
fn clock_domains_of_firmware_are_policies() {
    let of_domain = |number, domain: u32| {
        cpu(number, "arm,cortex-a510")
            .with("qcom,freq-domain", [7_u32, domain])
            .with("operating-points-v2", 9_u32)
    };
    let cpus = vec![
        of_domain(0, 0),
        of_domain(1, 0),
        of_domain(2, 1),
        of_domain(3, 1),
    ];
    let (machine, _) = board(cpus, vec![table(9, &[(1_000, false), (2_000, false)])]);
    assert_eq!(policies(&machine), ["0-1", "2-3"]);
}

/// C V^2 f, as in Linux: 100 * (900 mV)^2 * 1000 MHz / 10^6 = 81000 uW.
#[test]
fn the_power_coefficient_is_an_energy_model() {
    let with = |number| cpu(number, "arm,cortex-a53").with("operating-points-v2", 9_u32);
    let tables = || vec![table(9, &[(500, false), (1_000, false)])];
    let first = with(0).with("dynamic-power-coefficient", 100_u32);
    let (machine, _) = board(vec![first, with(1)], tables());
    let core = &machine.core_types[0];
    let power = core.power.unwrap();
    assert_eq!([0, 1].map(|opp| power.thread_mw(core, opp, 1, 1)), [41, 81]);
    assert_eq!(policies(&machine), ["0-1"]);
    let (unknown, _) = board(vec![with(0), with(1)], tables());
    assert!(unknown.power.is_none());
}

/// As on sm8550, the CPU's first power domain has the states of the CPU, and the domain above has those of a group.
#[test]
fn idle_states_may_be_behind_power_domains() {
    let state = |name: &str, handle: u32| {
        node(name)
            .with("idle-state-name", "another name")
            .with("entry-latency-us", 300_u32)
            .with("exit-latency-us", 500_u32)
            .with("min-residency-us", 3_000_u32)
            .with("phandle", handle)
    };
    let states = node("idle-states").has(state("cpu-sleep-0", 30));
    let groups = node("domain-idle-states").has(state("cluster-sleep-0", 31));
    let psci = node("psci")
        .has(
            node("power-domain-cpu0")
                .with("power-domains", 41_u32)
                .with("domain-idle-states", 30_u32)
                .with("phandle", 40_u32),
        )
        .has(
            node("power-domain-cluster")
                .with("domain-idle-states", 31_u32)
                .with("phandle", 41_u32),
        );
    let first = cpu(0, "arm,cortex-a55").with("power-domains", 40_u32);
    let (machine, warnings) = board(vec![first], vec![states, groups, psci]);
    let states: Vec<_> = machine.core_types[0]
        .idle_states
        .iter()
        .map(|state| (&*state.name, state.min_residency_ns, state.exit_latency_ns))
        .collect();
    assert_eq!(
        states,
        [("WFI", 1_000, 1_000), ("cpu-sleep-0", 3_000_000, 800_000)]
    );
    assert!(
        warnings[0].contains("groups of CPUs (cluster-sleep-0)"),
        "{warnings:?}"
    );
}

#[test]
fn sockets_that_are_nothing_else_are_named() {
    let socket = |number: u32, handle: u32| {
        let cluster = |number: u32| {
            let core = node("core0").with("cpu", handle + number);
            node(&format!("cluster{number}")).has(core)
        };
        node(&format!("socket{number}"))
            .has(cluster(0))
            .has(cluster(1))
    };
    let with = |node_of: fn(u32) -> u32| {
        let cpus = (0..4).map(|number| {
            cpu(number, "arm,cortex-a72")
                .with("phandle", 1 + number)
                .with("numa-node-id", node_of(number))
        });
        let map = node("cpu-map").has(socket(0, 1)).has(socket(1, 3));
        board(cpus.chain([map]).collect(), vec![]).1
    };
    assert!(with(|number| number / 2).is_empty());
    assert_eq!(with(|_| 0), ["left out: the sockets 0-1 2-3"]);
}

#[test]
fn the_level_of_a_cache_is_its_longest_distance() {
    let cache = |name: &str, handle: u32| {
        node(name)
            .with("compatible", "cache")
            .with("phandle", handle)
    };
    let (machine, warnings) = board(
        vec![
            cpu(0, "arm,cortex-a55").with("next-level-cache", 9_u32),
            cpu(1, "arm,cortex-a78").with("next-level-cache", 8_u32),
        ],
        vec![
            cache("l2", 8).with("next-level-cache", 9_u32),
            cache("l3", 9),
        ],
    );
    let caches: Vec<_> = machine
        .caches
        .iter()
        .map(|it| (it.level, it.cpus.to_string()))
        .collect();
    assert_eq!(caches, [(2, "1".to_owned()), (3, "0-1".to_owned())]);
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn tables_and_idle_states_that_linux_refuses_are_named() {
    let state = node("cpu-sleep")
        .with("min-residency-us", 500_u32)
        .with("phandle", 7_u32);
    let good = node("opp-0").with("opp-hz", 500_000_000_u64);
    let opp = node("opp-1").with("opp-hz", 1_000_000_000_u32);
    let table = node("opp-table").with("phandle", 8_u32);
    let table = table.has(good).has(opp);
    let cpus = vec![
        cpu(0, "arm,cortex-a55").with("operating-points-v2", 8_u32),
        cpu(1, "arm,cortex-a55").with("operating-points-v2", 99_u32),
        cpu(2, "arm,cortex-a55").with("operating-points", [1_000_000_u32, 900_000, 500_000]),
        cpu(3, "arm,cortex-a55").with("cpu-idle-states", 7_u32),
    ];
    let (machine, warnings) = board(cpus, vec![node("idle-states").has(state), table]);
    assert!(machine.core_types[0].opps.is_empty());
    assert!(machine.core_types[0].idle_states.is_empty());
    assert_eq!(
        warnings,
        [
            "left out: the OPPs of CPUs 0-2 are in no table in which each OPP has a frequency",
            "left out: the idle states of CPUs 3, because a residency or a latency is missing in cpu-sleep",
        ]
    );
}

fn numa(matrix: Option<Vec<u32>>) -> (Machine, Vec<String>) {
    let map = |matrix: Vec<u32>| {
        let bytes: Vec<u8> = matrix.iter().flat_map(|word| word.to_be_bytes()).collect();
        node("distance-map")
            .with("compatible", "numa-distance-map-v1")
            .with("distance-matrix", bytes)
    };
    let memory = node("memory@0")
        .with("device_type", "memory")
        .with("numa-node-id", 2_u32);
    let others = matrix.map(map).into_iter().chain([memory]).collect();
    let on = |number, node: u32| cpu(number, "arm,cortex-a72").with("numa-node-id", node);
    board(vec![on(0, 0), on(1, 1)], others)
}

#[test]
fn distances_between_nodes_are_read() {
    let (given, warnings) = numa(Some(vec![0, 0, 10, 0, 1, 40, 1, 1, 10]));
    assert_eq!(given.numa.distances, [[10, 40], [40, 10]]);
    assert_eq!(warnings, ["left out: nodes 2 have memory and no CPUs"]);
    let (none, _) = numa(None);
    assert_eq!(
        (level(&none, "NUMA"), none.numa.distances.len()),
        ("0-1".to_owned(), 0)
    );
    // With a wrong distance, Linux has one node.
    let (wrong, warnings) = numa(Some(vec![0, 0, 10, 0, 1, 9]));
    assert_eq!(level(&wrong, "NUMA"), "");
    assert!(
        warnings.iter().any(|it| it.contains("one node")),
        "{warnings:?}"
    );
}
