//! Machines on the market, from the information that their makers and kernels publish.

use crate::tree::{Cpus, Tree};
use crate::{kinds, level, machine};

/// Intel Core i9-12900K: 8 P cores of two threads, 8 E cores in two modules. CPU numbers, caches and
/// frequencies as `lscpu -e` shows them on Linux, and Intel's ARK (5.2 GHz is Turbo Boost Max 3.0's for two
/// cores, 5.1 the others', 3.9 the E cores'). Kernels before 6.12 report a cpu_capacity of 1024 for all CPUs.
fn alder_lake(capacity: Option<u32>) -> Tree {
    let p = Cpus {
        cpus: "0-15",
        cores: "0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15",
        l2_size: "1280K",
        l3: "0-23",
        l3_size: "30M",
        khz: &[800_000, 5_100_000],
        capacity,
        highest_perf: Some(66),
        driver: "intel_pstate",
        governor: "powersave",
        preference: "balance_performance",
        // intel_idle's adl_cstates.
        idle: &[
            ("POLL", 0, 0),
            ("C1E", 2, 4),
            ("C6", 220, 600),
            ("C8", 280, 800),
            ("C10", 680, 2000),
        ],
        ..Cpus::default()
    };
    let favoured = Cpus {
        cpus: "8-11",
        khz: &[800_000, 5_200_000],
        highest_perf: Some(68),
        ..p
    };
    let e = Cpus {
        cpus: "16-23",
        cores: "",
        l2: "16-19 20-23",
        l2_size: "2M",
        khz: &[800_000, 3_900_000],
        highest_perf: Some(40),
        ..p
    };
    Tree::new(24, &[p, favoured, e])
        .pmu("cpu_core", "0-15")
        .pmu("cpu_atom", "16-23")
        .nodes(&[("0-23", "10")])
}

#[test]
fn alder_lake_has_two_kinds_of_core_under_one_cache() {
    let (machine, warnings) = machine(detect::sysfs(alder_lake(Some(1024)).path()).unwrap());
    assert_eq!(
        level(&machine, "SMT"),
        "0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15"
    );
    assert_eq!(level(&machine, "MC"), "0-23");
    assert!(
        level(&machine, "CLS").ends_with("16-19 20-23"),
        "{}",
        level(&machine, "CLS")
    );
    assert_eq!(
        kinds(&machine),
        [
            "p-core-993 993: 0-7,12-15",
            "p-core-1024 1024: 8-11",
            "e-core 602: 16-23"
        ]
    );
    assert_eq!(machine.siblings(9).to_string(), "8-9");
    assert_eq!(
        machine
            .caches
            .iter()
            .filter(|cache| cache.level == 2)
            .count(),
        10
    );
    let cpufreq = machine.cpufreq.unwrap();
    assert_eq!(
        (cpufreq.policies.len(), cpufreq.policies[0].to_string()),
        (16, "0-1".to_owned())
    );
    assert_eq!(cpufreq.governor.to_string(), "hwp, balance_performance");
    let states: Vec<&str> = machine.core_types[0]
        .idle_states
        .iter()
        .map(|state| &*state.name)
        .collect();
    assert_eq!(states, ["C1E", "C6", "C8", "C10"]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("cpu_capacity is the same for all CPUs"),
        "{warnings:?}"
    );
}

/// ITMT ranks the CPUs like this. Without hardware threads (as in Lunar Lake) the kernel reports capacities instead.
#[test]
fn a_hybrid_with_hardware_threads_has_preferred_cpus() {
    let (ranked, _) = machine(detect::sysfs(alder_lake(Some(1024)).path()).unwrap());
    let of = |cpu: usize| ranked.priorities[cpu];
    assert_eq!([of(0), of(9), of(15), of(16)], [66, 68, 66, 40]);

    let core = |cpus, perf, khz| Cpus {
        cpus,
        khz,
        highest_perf: Some(perf),
        driver: "intel_pstate",
        ..Cpus::default()
    };
    let p = core("0-3", 72, &[400_000, 4_800_000]);
    let e = core("4-7", 45, &[400_000, 3_700_000]);
    let tree = Tree::new(8, &[p, e]);
    let tree = tree.pmu("cpu_core", "0-3").pmu("cpu_atom", "4-7");
    let (capacities, _) = machine(detect::sysfs(tree.path()).unwrap());
    assert_eq!(capacities.priorities, [0; 0]);
}

/// AMD Ryzen 9 7950X3D: two dies of eight cores, the first with 96 MiB of L3, the second, which is clocked higher, with
/// 32 MiB. Threads are numbered after all cores. `highest_perf` ranks the preferred cores.
#[test]
fn two_dies_with_unlike_caches() {
    let pairs: Vec<String> = (0..16)
        .map(|core| format!("{core},{}", core + 16))
        .collect();
    let cores = pairs.join(" ");
    let die = |cpus, khz, perf| Cpus {
        cpus,
        cores: &cores,
        l2_size: "1M",
        l3: "0-7,16-23 8-15,24-31",
        l3_size: "32M",
        khz,
        highest_perf: Some(perf),
        driver: "amd-pstate-epp",
        ranking: Some(perf),
        ..Cpus::default()
    };
    let with_cache = Cpus {
        l3_size: "96M",
        ..die("0-7,16-23", &[400_000, 5_250_000], 166)
    };
    let fast = die("8-15,24-31", &[400_000, 5_750_000], 231);
    let ranked = Cpus {
        cpus: "12-15,28-31",
        highest_perf: Some(196),
        ranking: Some(196),
        ..fast
    };
    let tree = Tree::new(32, &[with_cache, fast, ranked]);
    tree.write("devices/system/cpu/amd_pstate/prefcore", "enabled");
    let (machine, warnings) = machine(detect::sysfs(tree.path()).unwrap());
    assert_eq!(level(&machine, "MC"), "0-7,16-23 8-15,24-31");
    assert_eq!(level(&machine, "SMT"), cores);
    assert_eq!(
        kinds(&machine),
        ["core-934 934: 0-7,16-23", "core-1024 1024: 8-15,24-31"]
    );
    let sizes: Vec<_> = machine
        .caches
        .iter()
        .filter(|cache| cache.level == 3)
        .map(|cache| cache.size_kib)
        .collect();
    assert_eq!(sizes, [Some(96 << 10), Some(32 << 10)]);
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("a ranking of CPUs")),
        "{warnings:?}"
    );
    let of = |cpu: usize| machine.priorities[cpu];
    assert_eq!([of(0), of(8), of(12), of(31)], [166, 231, 196, 196]);

    tree.write("devices/system/cpu/amd_pstate/prefcore", "disabled");
    let (unranked, _) = crate::machine(detect::sysfs(tree.path()).unwrap());
    assert_eq!(unranked.priorities, [0; 0]);
}

/// Rockchip RK3588: rk3588-base.dtsi and rk3588-opp.dtsi of Linux 6.12. Three clock domains, a DSU with 3 MiB of L3.
fn rk3588() -> Tree {
    let little = Cpus {
        cpus: "0-3",
        l2_size: "128K",
        l3: "0-7",
        l3_size: "3M",
        clusters: "0-3 4-5 6-7",
        policies: "0-3 4-5 6-7",
        khz: &[1_008_000, 1_200_000, 1_416_000, 1_608_000, 1_800_000],
        lists_khz: true,
        capacity: Some(398),
        idle: &[("WFI", 1, 1), ("cpu-sleep", 220, 1000)],
        midr: Some(0x412f_d050),
        ..Cpus::default()
    };
    let big = Cpus {
        cpus: "4-7",
        l2_size: "512K",
        khz: &[
            1_200_000, 1_416_000, 1_608_000, 1_800_000, 2_016_000, 2_208_000, 2_400_000,
        ],
        capacity: Some(1024),
        midr: Some(0x414f_d0b0),
        ..little
    };
    Tree::new(8, &[little, big])
}

#[test]
fn rk3588_has_three_clocks_and_one_cache() {
    let (machine, warnings) = machine(detect::sysfs(rk3588().path()).unwrap());
    assert_eq!(
        kinds(&machine),
        ["cortex-a55 398: 0-3", "cortex-a76 1024: 4-7"]
    );
    assert_eq!(level(&machine, "MC"), "0-7");
    let policies: Vec<String> = machine
        .policies()
        .iter()
        .map(|policy| policy.to_string())
        .collect();
    assert_eq!(policies, ["0-3", "4-5", "6-7"]);
    assert_eq!(
        machine.core_types[0].opps.len() + machine.core_types[1].opps.len(),
        12
    );
    assert_eq!(
        machine.core_types[0].idle_states[1].min_residency_ns,
        1_000_000
    );
    assert_eq!(warnings, [crate::odd::WITHOUT_POWER]);
}

#[test]
fn the_energy_model_says_what_cores_draw() {
    let little: Vec<(u32, u64)> = [1_008, 1_200, 1_416, 1_608, 1_800]
        .map(|mhz| (mhz * 1000, u64::from(mhz) * 100))
        .into();
    // The highest OPP takes 2 W at 2.4 GHz and 1 V; the lowest has half the frequency and half the voltage.
    let big = [
        (1_200_000, 250_000),
        (1_416_000, 400_000),
        (1_608_000, 600_000),
        (1_800_000, 900_000),
        (2_016_000, 1_200_000),
        (2_208_000, 1_600_000),
        (2_400_000, 2_000_000),
    ];
    let tree = rk3588()
        .energy("cpu0", "0-3", &little)
        .energy("cpu4", "4-7", &big);
    let (machine, _) = machine(detect::sysfs(tree.path()).unwrap());
    let core = machine
        .core_types
        .iter()
        .find(|core| core.name == "cortex-a76")
        .unwrap();
    let power = core.power.unwrap();
    assert_eq!(core.opps[0].microvolt, Some(500_000));
    let mw: Vec<u32> = (0..7).map(|opp| power.thread_mw(core, opp, 1, 1)).collect();
    let given = big.map(|(_, uw)| (uw / 1000) as u32);
    assert!(
        mw.iter()
            .zip(given)
            .all(|(mw, given)| mw.abs_diff(given) <= 1),
        "{mw:?}"
    );
    let (machine, _) =
        crate::machine(detect::sysfs(rk3588().energy("cpu4", "4-7", &big).path()).unwrap());
    assert!(machine.power.is_none());
}

/// Two sockets of AMD EPYC 7763, as `lscpu` shows them: 64 cores and 8 L3 each, two threads, NPS1, distance 32.
#[test]
fn two_sockets_with_sixteen_caches() {
    let pairs: Vec<String> = (0..128)
        .map(|core| format!("{core},{}", core + 128))
        .collect();
    let dies: Vec<String> = (0..16)
        .map(|die| {
            format!(
                "{}-{},{}-{}",
                die * 8,
                die * 8 + 7,
                die * 8 + 128,
                die * 8 + 135
            )
        })
        .collect();
    let all = Cpus {
        cpus: "0-255",
        cores: &pairs.join(" "),
        l2_size: "512K",
        l3: &dies.join(" "),
        l3_size: "32M",
        khz: &[1_500_000, 2_000_000, 2_450_000],
        lists_khz: true,
        ..Cpus::default()
    };
    let tree =
        Tree::new(256, &[all]).nodes(&[("0-63,128-191", "10 32"), ("64-127,192-255", "32 10")]);
    let (machine, warnings) = machine(detect::sysfs(tree.path()).unwrap());
    assert_eq!(level(&machine, "MC"), dies.join(" "));
    assert_eq!(level(&machine, "PKG"), "0-63,128-191 64-127,192-255");
    assert_eq!(level(&machine, "NUMA"), "0-255");
    assert_eq!(machine.numa.distances, [[10, 32], [32, 10]]);
    assert_eq!(
        (machine.siblings(255).to_string(), machine.core_types.len()),
        ("127,255".to_owned(), 1)
    );
    assert!(warnings.is_empty(), "{warnings:?}");
}

/// NVIDIA Grace: 72 Neoverse V2 with 1 MiB of L2 each and 114 MiB of L3, one node with CPUs, and one node without CPUs
/// for the GPU's memory, as `numactl --hardware` shows a GH200.
#[test]
fn a_node_without_cpus_is_no_package() {
    let all = Cpus {
        cpus: "0-71",
        l2_size: "1M",
        l3: "0-71",
        l3_size: "114M",
        khz: &[81_000, 3_339_000],
        capacity: Some(1024),
        midr: Some(0x410f_d4f0),
        ..Cpus::default()
    };
    let tree = Tree::new(72, &[all]).nodes(&[("0-71", "10 80"), ("", "80 10")]);
    let (machine, warnings) = machine(detect::sysfs(tree.path()).unwrap());
    assert_eq!(kinds(&machine), ["neoverse-v2 1024: 0-71"]);
    assert_eq!(
        (level(&machine, "MC"), machine.nodes().len()),
        ("0-71".to_owned(), 1)
    );
    assert_eq!(
        warnings,
        ["left out: nodes 1 have memory and no CPUs that are online"]
    );
}

/// Google Pixel 6: 4 Cortex-A55, 2 A76 and 2 X1, capacities as its kernel's device tree has them (gs101.dtsi: 250, 620
/// and 1024), three clock domains. No cache is described.
#[test]
fn a_phone_without_caches_in_sysfs() {
    let little = Cpus {
        cpus: "0-3",
        clusters: "0-3 4-5 6-7",
        policies: "0-3 4-5 6-7",
        khz: &[300_000, 1_803_000],
        lists_khz: true,
        capacity: Some(250),
        midr: Some(0x412f_d050),
        ..Cpus::default()
    };
    let middle = Cpus {
        cpus: "4-5",
        khz: &[400_000, 2_253_000],
        capacity: Some(620),
        midr: Some(0x414f_d0b0),
        ..little
    };
    let prime = Cpus {
        cpus: "6-7",
        khz: &[500_000, 2_802_000],
        capacity: Some(1024),
        midr: Some(0x411f_d440),
        ..little
    };
    let (machine, warnings) =
        machine(detect::sysfs(Tree::new(8, &[little, middle, prime]).path()).unwrap());
    assert_eq!(
        kinds(&machine),
        [
            "cortex-a55 250: 0-3",
            "cortex-a76 620: 4-5",
            "cortex-x1 1024: 6-7"
        ]
    );
    assert_eq!(level(&machine, "MC"), "0-3 4-5 6-7");
    assert_eq!(machine.policies().len(), 3);
    assert_eq!(warnings, [crate::odd::WITHOUT_POWER]);
}
