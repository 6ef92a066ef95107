//! Device tree blobs.

use crate::{kinds, level, machine};
use dtoolkit::ToPropertyValue;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};

/// Names may be longer than dtoolkit's limit.
pub fn node(name: &str) -> DeviceTreeNode {
    DeviceTreeNode::new_unchecked(name)
}

pub trait With {
    fn with(self, name: &str, value: impl ToPropertyValue) -> Self;
    fn has(self, child: DeviceTreeNode) -> Self;
}

impl With for DeviceTreeNode {
    fn with(mut self, name: &str, value: impl ToPropertyValue) -> Self {
        self.add_property(DeviceTreeProperty::new_unchecked(name, value));
        self
    }
    fn has(mut self, child: DeviceTreeNode) -> Self {
        self.add_child(child);
        self
    }
}

/// The machine of rk3399.dtsi and rk3399-opp.dtsi in Linux 6.12, with some of its OPPs: four Cortex-A53 with
/// 485 DMIPS per MHz and two A72 with 1024. Each cluster has its own L2 and clock, and the same idle states.
fn rk3399() -> Vec<u8> {
    let cpu = |number: u32, core: &str, dmips: u32, table: u32, cache: u32| {
        let unit = if number < 4 {
            number
        } else {
            0x100 + number - 4
        };
        node(&format!("cpu@{unit:x}"))
            .with("device_type", "cpu")
            .with("compatible", core)
            .with("reg", [0, unit])
            .with("capacity-dmips-mhz", dmips)
            .with("operating-points-v2", table)
            .with("cpu-idle-states", [30_u32, 31])
            .with("next-level-cache", cache)
            .with("phandle", 1 + number)
    };
    let core = |number: u32, cpu: u32| node(&format!("core{number}")).with("cpu", 1 + cpu);
    let map = node("cpu-map")
        .has((0..4).fold(node("cluster0"), |cluster, cpu| cluster.has(core(cpu, cpu))))
        .has((4..6).fold(node("cluster1"), |cluster, cpu| {
            cluster.has(core(cpu - 4, cpu))
        }));
    let state = |name: &str, handle: u32, [entry, exit, residency]: [u32; 3]| {
        node(name)
            .with("compatible", "arm,idle-state")
            .with("entry-latency-us", entry)
            .with("exit-latency-us", exit)
            .with("min-residency-us", residency)
            .with("phandle", handle)
    };
    let states = node("idle-states")
        .has(state("cpu-sleep", 30, [120, 250, 900]))
        .has(state("cluster-sleep", 31, [400, 500, 2000]));
    let cache = |number: u32, handle: u32, bytes: u32| {
        node(&format!("l2-cache-cluster{number}"))
            .with("compatible", "cache")
            .with("cache-level", 2_u32)
            .with("cache-size", bytes)
            .with("phandle", handle)
    };
    let mut cpus = node("cpus").has(map).has(states);
    for number in 0..4 {
        cpus.add_child(cpu(number, "arm,cortex-a53", 485, 20, 40));
    }
    for number in 4..6 {
        cpus.add_child(cpu(number, "arm,cortex-a72", 1024, 21, 41));
    }
    cpus.add_child(cache(0, 40, 512 << 10));
    cpus.add_child(cache(1, 41, 1024 << 10));
    let table = |name: &str, handle: u32, opps: &[(u64, u32)]| {
        let table = node(name)
            .with("compatible", "operating-points-v2")
            .with("opp-shared", Vec::<u8>::new())
            .with("phandle", handle);
        opps.iter()
            .enumerate()
            .fold(table, |table, (number, &(hz, microvolt))| {
                table.has(
                    node(&format!("opp{number:02}"))
                        .with("opp-hz", hz)
                        .with("opp-microvolt", [microvolt, microvolt, 1_250_000])
                        .with("clock-latency-ns", 40_000_u32),
                )
            })
    };
    let mut tree = DeviceTree::new();
    tree.root = node("")
        .with("model", "A board")
        .has(cpus)
        .has(table(
            "opp-table-0",
            20,
            &[(408_000_000, 825_000), (1_416_000_000, 1_125_000)],
        ))
        .has(table(
            "opp-table-1",
            21,
            &[(408_000_000, 825_000), (1_800_000_000, 1_200_000)],
        ));
    tree.to_dtb()
}

#[test]
fn a_board_of_two_clusters() {
    let (machine, warnings) = machine(detect::device_tree("a.dtb", &rk3399()).unwrap());
    assert_eq!(
        kinds(&machine),
        ["cortex-a53 381: 0-3", "cortex-a72 1024: 4-5"]
    );
    assert_eq!(level(&machine, "MC"), "0-3 4-5");
    let policies: Vec<String> = machine
        .policies()
        .iter()
        .map(|policy| policy.to_string())
        .collect();
    assert_eq!(policies, ["0-3", "4-5"]);
    let big = machine
        .core_types
        .iter()
        .find(|core| core.name == "cortex-a72")
        .unwrap();
    let opps: Vec<_> = big
        .opps
        .iter()
        .map(|opp| (opp.khz, opp.microvolt.unwrap()))
        .collect();
    assert_eq!(opps, [(408_000, 825_000), (1_800_000, 1_200_000)]);
    let states: Vec<_> = big
        .idle_states
        .iter()
        .map(|state| (state.min_residency_ns, state.exit_latency_ns))
        .collect();
    assert_eq!(
        states,
        [(1_000, 1_000), (900_000, 370_000), (2_000_000, 900_000)]
    );
    assert_eq!(machine.cpufreq.unwrap().transition_latency_ns, 40_000);
    assert_eq!(
        (machine.description.as_str(), warnings.len()),
        ("A board", 0)
    );
}

#[test]
fn a_file_that_is_no_device_tree_is_refused() {
    let blob = rk3399();
    for wrong in [&b""[..], b"garbage", &blob[..blob.len() / 2], &blob[..40]] {
        let error = detect::device_tree("a.dtb", wrong).unwrap_err();
        assert!(
            error.message().starts_with("a.dtb: "),
            "{}",
            error.message()
        );
    }
    for source in ["/dts-v1/;\n/ { };", "#include \"rk3588.dtsi\"\n"] {
        let error = detect::device_tree("a.dts", source.as_bytes()).unwrap_err();
        assert!(error.expected().contains("`dtc "), "{}", error.expected());
    }
    let error = detect::device_tree("a.dtb", &DeviceTree::new().to_dtb()).unwrap_err();
    assert!(error.message().contains("no CPU"), "{}", error.message());
}

#[test]
fn an_overlay_is_no_machine() {
    let mut tree = DeviceTree::new();
    tree.root = node("").has(node("fragment@0").has(node("__overlay__")));
    let error = detect::device_tree("a.dtbo", &tree.to_dtb()).unwrap_err();
    assert!(error.message().contains("overlay"), "{}", error.message());
    assert!(
        error.expected().contains("`fdtoverlay "),
        "{}",
        error.expected()
    );
}

#[test]
fn no_word_of_a_tree_is_too_much() {
    let blob = rk3399();
    for at in (0..blob.len() - 4).step_by(4) {
        for odd in [0_u32, 1, 2, 20, 0x7fff_ffff, u32::MAX] {
            let mut odd_blob = blob.clone();
            odd_blob[at..at + 4].copy_from_slice(&odd.to_be_bytes());
            if let Ok(found) = detect::device_tree("a.dtb", &odd_blob) {
                machine(found);
            }
        }
    }
}

#[test]
fn garbage_is_survived() {
    let blob = rk3399();
    let mut seed = 1_u64;
    for _ in 0..500 {
        let mut garbled = blob.clone();
        for _ in 0..4 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (seed >> 33) as usize % garbled.len();
            garbled[at] = (seed >> 24) as u8;
        }
        if let Ok(found) = detect::device_tree("a.dtb", &garbled) {
            machine(found);
        }
    }
}
