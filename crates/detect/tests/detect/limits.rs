//! Facts that a machine file cannot have are left out, and a warning names them.

use crate::device_tree::{With, node};
use crate::tree::{Cpus, Tree};
use crate::{level, machine};
use dtoolkit::model::DeviceTree;
use machine::Machine;

fn two() -> Cpus<'static> {
    Cpus {
        cpus: "0-1",
        ..Cpus::default()
    }
}

fn sysfs(tree: &Tree) -> (Machine, Vec<String>) {
    machine(detect::sysfs(tree.path()).unwrap())
}

fn khz(machine: &Machine) -> Vec<u32> {
    machine.core_types[0]
        .opps
        .iter()
        .map(|opp| opp.khz)
        .collect()
}

#[test]
fn frequencies_that_no_cpu_has() {
    let no_cpu =
        |khz: &str| format!("left out: the frequencies {khz} kHz of CPUs 0-1, which no CPU has");
    for (given, lists_khz, kept, warning) in [
        // cppc_cpufreq reports 0 if the firmware does not know its lowest frequency.
        (&[0, 2_000_000][..], false, &[2_000_000][..], no_cpu("0")),
        (
            &[0, 1_000_000, 2_000_000],
            true,
            &[1_000_000, 2_000_000],
            no_cpu("0"),
        ),
        (&[0, 0], false, &[], no_cpu("0")),
        (&[800, 2_000], false, &[], no_cpu("800, 2000")),
        (
            &[800_000_000, 2_000_000_000],
            false,
            &[],
            no_cpu("800000000, 2000000000"),
        ),
    ] {
        let cpus = Cpus {
            khz: given,
            lists_khz,
            ..two()
        };
        let (machine, warnings) = sysfs(&Tree::new(2, &[cpus]));
        assert_eq!(khz(&machine), kept);
        assert_eq!(warnings, [warning]);
    }
}

#[test]
fn frequencies_of_a_device_tree_that_are_in_khz() {
    let opp = |hz: u64| node(&format!("opp-{hz}")).with("opp-hz", hz);
    let table = node("opp-table")
        .with("compatible", "operating-points-v2")
        .with("phandle", 1_u32)
        .has(opp(408_000))
        .has(opp(1_000_000_000));
    let cpu = |number: u32, dmips: u32| {
        node(&format!("cpu@{number}"))
            .with("device_type", "cpu")
            .with("operating-points-v2", 1_u32)
            .with("capacity-dmips-mhz", dmips)
    };
    let mut tree = DeviceTree::new();
    tree.root = node("")
        .has(node("cpus").has(cpu(0, 512)).has(cpu(1, 1024)))
        .has(table);
    let (machine, warnings) = machine(detect::device_tree("a.dtb", &tree.to_dtb()).unwrap());
    assert_eq!(khz(&machine), [1_000_000]);
    assert_eq!(machine.cpus[0].capacity, 512);
    assert_eq!(
        warnings,
        ["left out: the frequencies 408 kHz of CPUs 0-1, which no CPU has"]
    );
}

#[test]
fn powers_and_times_that_are_too_large() {
    let cpus = Cpus {
        khz: &[1_000_000, 2_000_000],
        lists_khz: true,
        policies: "0-1",
        idle: &[("C1", 1, 2), ("C6", 3_000_000, 5_000_000)],
        ..two()
    };
    let tree =
        Tree::new(2, &[cpus]).energy("cpu0", "0-1", &[(1_000_000, 1_000), (2_000_000, u64::MAX)]);
    // Without the flag for uW, powers are in mW.
    tree.write("kernel/debug/energy_model/cpu0/flags", "0x0");
    let (machine, warnings) = sysfs(&tree);
    assert!(machine.power.is_none());
    assert_eq!(machine.core_types[0].idle_states.len(), 1);
    assert_eq!(
        warnings,
        [
            "left out: the powers of CPUs 0-1, which exceed 10000 W",
            "left out: the idle states C6, whose times exceed a second",
        ]
    );
}

#[test]
fn idle_states_that_are_too_many_are_not_called_shallow() {
    let names: Vec<String> = (1..=12).map(|number| format!("C{number}")).collect();
    let mut idle: Vec<(&str, u32, u32)> = (1..)
        .zip(&names)
        .map(|(us, name)| (&**name, us, us))
        .collect();
    idle[1] = ("C2", 0, 0);
    let (machine, warnings) = sysfs(&Tree::new(
        2,
        &[Cpus {
            idle: &idle,
            ..two()
        }],
    ));
    assert_eq!(machine.core_types[0].idle_states.len(), 10);
    assert_eq!(
        warnings,
        [
            "left out: the idle states C2, which are not deeper than those before them",
            "left out: the idle states C12, because a CPU has at most 10",
        ]
    );
}

#[test]
fn powers_of_a_device_tree_that_are_too_large() {
    let opp = node("opp")
        .with("opp-hz", 2_000_000_000_u64)
        .with("opp-microvolt", 5_000_000_u32);
    let cpu = node("cpu@0")
        .with("device_type", "cpu")
        .with("operating-points-v2", 1_u32)
        .with("dynamic-power-coefficient", u32::MAX);
    let mut tree = DeviceTree::new();
    tree.root = node("")
        .has(node("cpus").has(cpu))
        .has(node("opp-table").with("phandle", 1_u32).has(opp));
    let (machine, warnings) = machine(detect::device_tree("a.dtb", &tree.to_dtb()).unwrap());
    assert!(machine.power.is_none());
    assert_eq!(
        warnings,
        ["left out: the powers of CPUs 0, which exceed 10000 W"]
    );
}

#[test]
fn cores_that_are_too_large_or_overlap() {
    let cpus = Cpus {
        cpus: "0-15",
        cores: "0-15",
        ..Cpus::default()
    };
    let (all, warnings) = sysfs(&Tree::new(16, &[cpus]));
    assert_eq!(level(&all, "SMT"), "");
    assert_eq!(
        warnings,
        ["left out: the cores of CPUs 0-15, which have more than 8 hardware threads"]
    );
    let pu = |number: u32| {
        format!(
            "<object type=\"PU\" os_index=\"{number}\" cpuset=\"0x{:x}\"/>",
            1 << number
        )
    };
    let xml = format!(
        "<topology version=\"2.0\"><object type=\"Core\" cpuset=\"0x3\">{}{}</object>\
         <object type=\"Core\" cpuset=\"0x6\">{}</object></topology>",
        pu(0),
        pu(1),
        pu(2)
    );
    let (overlapping, warnings) = machine(detect::hwloc("h.xml", &xml).unwrap());
    assert_eq!(level(&overlapping, "SMT"), "1-2");
    assert_eq!(
        warnings,
        ["left out: the cores of CPUs 0, which overlap others"]
    );
}

#[test]
fn frequencies_too_far_apart_for_equal_capacities() {
    let cpu = |number: u32| {
        node(&format!("cpu@{number}"))
            .with("device_type", "cpu")
            .with("operating-points-v2", 1 + number)
    };
    let table = |number: u32, hz: u64| {
        node(&format!("opp-table-{number}"))
            .with("phandle", 1 + number)
            .has(node("opp").with("opp-hz", hz))
    };
    let mut tree = DeviceTree::new();
    tree.root = node("")
        .has(node("cpus").has(cpu(0)).has(cpu(1)))
        .has(table(0, 100_000_000))
        .has(table(1, 1_000_000_000));
    let (_, warnings) = machine(detect::device_tree("a.dtb", &tree.to_dtb()).unwrap());
    assert_eq!(
        warnings,
        [
            "left out: the highest frequencies, which are a factor of 10 or more apart, although capacities are equal"
        ]
    );
}

/// Sixty-four nodes whose distances grow with each bit of the number: six levels above those of cores and caches.
#[test]
fn distances_that_make_too_many_levels() {
    let cpus = Cpus {
        cpus: "0-127",
        cores: &(0..64)
            .map(|node| format!("{node},{} ", node + 64))
            .collect::<String>(),
        ..Cpus::default()
    };
    let distance = |a: usize, b: usize| match (a ^ b).checked_ilog2() {
        None => 10,
        Some(bit) => [12, 20, 30, 60, 61, 100][bit as usize],
    };
    let lists: Vec<String> = (0..64)
        .map(|node| format!("{node},{}", node + 64))
        .collect();
    let rows = (0..64).map(|a| (0..64).map(|b| format!("{} ", distance(a, b))).collect());
    let rows: Vec<String> = rows.collect();
    let nodes: Vec<(&str, &str)> = lists
        .iter()
        .zip(&rows)
        .map(|(list, row)| (&**list, &**row))
        .collect();
    let (machine, warnings) = sysfs(&Tree::new(128, &[cpus]).nodes(&nodes));
    assert_eq!(machine.numa.levels(64), [10, 12, 20, 30, 60, 100]);
    assert_eq!(
        warnings,
        [
            "left out: some distances of nodes, because they make more than 8 levels of CPUs; the file has 60 instead of 61"
        ]
    );
}

#[test]
fn too_many_cpus() {
    let cpus = (0..4097).map(|number| node(&format!("cpu@{number:x}")).with("device_type", "cpu"));
    let mut tree = DeviceTree::new();
    tree.root = node("").has(cpus.fold(node("cpus"), With::has));
    let error = detect::device_tree("a.dtb", &tree.to_dtb()).unwrap_err();
    assert_eq!(
        (error.message(), error.expected()),
        ("a.dtb: 4097 CPUs", "expected at most 4096")
    );
    let xml = "<topology><object type=\"PU\" os_index=\"4096\" cpuset=\"0x1\"/></topology>";
    let error = detect::hwloc("h.xml", xml).unwrap_err();
    assert_eq!(
        (error.message(), error.expected()),
        ("h.xml:1: CPU 4096", "expected CPUs below 4096")
    );
}
