//! Machines whose descriptions are odd or incomplete.

use crate::tree::{Cpus, Tree};
use crate::{kinds, level, machine};
use std::path::{Path, PathBuf};

fn plain(cpus: &str) -> Cpus<'_> {
    Cpus {
        cpus,
        ..Cpus::default()
    }
}

#[test]
fn a_machine_that_says_nothing_is_alike_cpus() {
    let (machine, _) = machine(detect::sysfs(Tree::new(4, &[plain("0-3")]).path()).unwrap());
    assert_eq!(kinds(&machine), ["core 1024: 0-3"]);
    assert_eq!(level(&machine, "MC"), "0-3");
    assert!(machine.cpufreq.is_none());
}

#[test]
fn cpus_that_are_offline_are_left_out() {
    let smt = Cpus {
        cores: "0-1 2-3",
        ..plain("0,2-3")
    };
    let (machine, _) = machine(detect::sysfs(Tree::new(6, &[smt]).path()).unwrap());
    assert_eq!(machine.offline.to_string(), "1,4-5");
    assert_eq!(machine.all_cpus().to_string(), "0,2-3");
    assert_eq!(level(&machine, "SMT"), "2-3");
}

/// Linux on ia64 writes an empty mask for a cache of one core. An edited copy may have a list and a bitmap that differ:
/// the bitmap is what lscpu and hwloc read.
#[test]
fn the_bitmap_of_a_cache_counts_unless_it_is_empty() {
    let l3 = Cpus {
        l3: "0-1 2-3",
        l3_size: "4M",
        ..plain("0-3")
    };
    for (map, spans) in [("00000000", ""), ("0000000f", "0-3"), ("", "0-1 2-3")] {
        let tree = Tree::new(4, &[l3]);
        for cpu in 0..4 {
            let cache = format!("devices/system/cpu/cpu{cpu}/cache/index2");
            tree.write(format!("{cache}/shared_cpu_map"), map);
        }
        let (machine, _) = machine(detect::sysfs(tree.path()).unwrap());
        assert_eq!(level(&machine, "MC"), spans, "{map}");
    }
}

pub const WITHOUT_POWER: &str =
    "left out: power, which is in kernel/debug/energy_model, readable by root";

#[test]
fn measures_that_contradict_each_other_are_named() {
    let a = Cpus {
        capacity: Some(1024),
        khz: &[1_000_000, 2_000_000],
        ..plain("0-1")
    };
    let b = Cpus {
        capacity: Some(800),
        khz: &[1_000_000, 3_000_000],
        ..plain("2-3")
    };
    let (machine, warnings) = machine(detect::sysfs(Tree::new(4, &[a, b]).path()).unwrap());
    assert_eq!(
        kinds(&machine),
        ["core-1024 1024: 0-1", "core-800 800: 2-3"]
    );
    assert!(
        warnings
            .iter()
            .any(|it| it.contains("CPU 0 is faster than CPU 2 by cpu_capacity and slower by")),
        "{warnings:?}"
    );
    assert!(
        warnings.iter().any(|it| it == WITHOUT_POWER),
        "{warnings:?}"
    );
}

#[test]
fn a_measure_of_only_some_cpus_is_not_used() {
    let a = Cpus {
        highest_perf: Some(50),
        ..plain("0-1")
    };
    let (machine, warnings) =
        machine(detect::sysfs(Tree::new(4, &[a, plain("2-3")]).path()).unwrap());
    assert_eq!(kinds(&machine), ["core 1024: 0-3"]);
    assert!(
        warnings[0].contains("known for only 2 of 4 CPUs"),
        "{warnings:?}"
    );
}

#[test]
fn distances_that_the_format_cannot_say_are_the_nearest_that_it_can() {
    let four = || Tree::new(4, &[plain("0-3")]);
    let ring = four().nodes(&[
        ("0", "10 20 20 30"),
        ("1", "20 10 30 20"),
        ("2", "20 30 10 20"),
        ("3", "30 20 20 10"),
    ]);
    let (found, warnings) = machine(detect::sysfs(ring.path()).unwrap());
    let row = |at: u32| (0..4).map(|to| if to == at { 10 } else { 20 }).collect();
    let rows: Vec<Vec<u32>> = (0..4).map(row).collect();
    assert_eq!(found.numa.distances, rows);
    let says = "no nested groups; the largest nested distances that do not exceed them are written: 2 of 6 \
                pairs of nodes are nearer, such as 20 instead of 30";
    assert!(warnings[0].contains(says), "{warnings:?}");
    // hip07-d05.dts of Linux 6.12.
    let chips = four().nodes(&[
        ("0", "10 15 20 25"),
        ("1", "15 10 25 30"),
        ("2", "20 25 10 15"),
        ("3", "25 30 15 10"),
    ]);
    let (found, _) = machine(detect::sysfs(chips.path()).unwrap());
    assert_eq!(
        found.numa.distances,
        [
            [10, 15, 20, 20],
            [15, 10, 20, 20],
            [20, 20, 10, 15],
            [20, 20, 15, 10]
        ]
    );
    let uneven = four().nodes(&[("0-1", "10 20"), ("2-3", "21 10")]);
    let (found, warnings) = machine(detect::sysfs(uneven.path()).unwrap());
    assert_eq!(found.numa.distances, [[10, 21], [21, 10]]);
    assert!(warnings[0].contains("differ by direction"), "{warnings:?}");
}

#[test]
fn a_cache_across_nodes_is_one_in_each() {
    let shared = Cpus {
        l3: "0-3",
        l3_size: "16M",
        ..plain("0-3")
    };
    let tree = Tree::new(4, &[shared]).nodes(&[("0-1", "10 20"), ("2-3", "20 10")]);
    let (machine, warnings) = machine(detect::sysfs(tree.path()).unwrap());
    assert_eq!(level(&machine, "MC"), "0-1 2-3");
    assert!(warnings[0].contains("spans several nodes"), "{warnings:?}");
}

fn edited(cpus: Cpus<'_>, edit: impl Fn(&Tree)) -> (machine::Machine, Vec<String>) {
    let tree = Tree::new(4, &[cpus]);
    edit(&tree);
    machine(detect::sysfs(tree.path()).unwrap())
}

#[test]
fn sets_of_cpus_that_are_unreadable_or_contradict_each_other_are_named() {
    let smt = Cpus {
        cores: "0-1 2-3",
        clusters: "0-3",
        ..plain("0-3")
    };
    let topology = |cpu: usize| format!("devices/system/cpu/cpu{cpu}/topology");
    let core_of_3 = |list: &'static str| {
        edited(smt, |tree| {
            tree.write(topology(3) + "/core_cpus_list", list)
        })
    };
    let (machine, warnings) = core_of_3("3");
    assert_eq!(
        warnings,
        ["left out: core_cpus_list of CPUs 2, which contradicts those of other CPUs"]
    );
    assert_eq!(level(&machine, "SMT"), "0-1");
    let (machine, warnings) = core_of_3("foo");
    assert_eq!(
        warnings,
        ["left out: core_cpus_list of CPUs 3, which is not a list of CPUs"]
    );
    assert_eq!(level(&machine, "SMT"), "0-1 2-3");
    let (machine, warnings) = core_of_3("0-1");
    assert_eq!(
        warnings,
        ["left out: core_cpus_list of CPUs 2-3, which contradicts those of other CPUs"]
    );
    assert_eq!(level(&machine, "SMT"), "0-1");
    let (_, warnings) = edited(smt, |tree| {
        tree.write(topology(0) + "/cluster_cpus_list", "0");
    });
    assert_eq!(
        warnings,
        ["left out: cluster_cpus_list of CPUs 1-3, which contradicts those of other CPUs"]
    );
    let (machine, warnings) = edited(smt, |tree| {
        tree.write(topology(3) + "/core_cpus_list", "foo");
        tree.write(topology(3) + "/thread_siblings_list", "2-3");
    });
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(level(&machine, "SMT"), "0-1 2-3");
}

#[test]
fn caches_that_overlap_are_left_out() {
    let shared = Cpus {
        l2: "0-1 2-3",
        l2_size: "1M",
        l3: "0-3",
        l3_size: "4M",
        ..plain("0-3")
    };
    let (_, warnings) = edited(shared, |_| {});
    assert!(warnings.is_empty(), "{warnings:?}");
    let (machine, warnings) = edited(shared, |tree| {
        tree.write(
            "devices/system/cpu/cpu2/cache/index2/shared_cpu_list",
            "1-3",
        );
    });
    assert_eq!(
        warnings,
        ["left out: the L2 of CPUs 2-3, whose shared_cpu_list contradicts those of other CPUs"]
    );
    assert_eq!(level(&machine, "CLS"), "0-1");
    let crossed = Cpus {
        l3: "0,2 1,3",
        ..shared
    };
    let (_, warnings) = edited(crossed, |_| {});
    assert_eq!(
        warnings,
        [
            "left out: the L2 of CPUs 0-1, the L2 of CPUs 2-3, the L3 of CPUs 0,2, the L3 of CPUs 1,3, which overlap"
        ]
    );
    assert_eq!(level(&machine, "MC"), "0-3");
    let (_, warnings) = edited(shared, |tree| {
        tree.write(
            "devices/system/cpu/cpu2/cache/index3/shared_cpu_list",
            "none",
        );
    });
    assert_eq!(
        warnings,
        ["left out: caches of CPUs 2, whose shared_cpu_list is not a list of CPUs"]
    );
}

#[test]
fn a_cpu_in_several_nodes_is_named() {
    let tree = Tree::new(4, &[plain("0-3")]).nodes(&[("0-2", "10 20"), ("2-3", "20 10")]);
    let (machine, warnings) = machine(detect::sysfs(tree.path()).unwrap());
    assert_eq!(
        warnings,
        ["CPUs 2 are in several NUMA nodes, so one node is used for all CPUs"]
    );
    assert!(machine.numa.distances.is_empty());
}

#[test]
fn a_folder_that_is_no_sysfs_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = detect::sysfs(folder.path()).unwrap_err();
    assert!(error.contains("expected the folders cpu0"), "{error}");
    let error = detect::sysfs(folder.path().join("none").as_path()).unwrap_err();
    assert!(error.contains("none"), "{error}");
    let file = folder.path().join("x.tar");
    std::fs::write(&file, "no archive\n").unwrap();
    let error = detect::sysfs(&file).unwrap_err();
    assert!(error.contains("not an archive that tar unpacks"), "{error}");
}

/// The archives of lscpu's tests and of hwloc-gather-topology have a folder with `sys` and `proc`.
#[test]
fn an_archive_is_a_folder() {
    let smt = Cpus {
        cores: "0-1 2-3",
        ..plain("0-3")
    };
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::new(4, &[smt]);
    std::fs::create_dir(folder.path().join("host")).unwrap();
    let status = std::process::Command::new("cp")
        .arg("-r")
        .arg(tree.path())
        .arg(folder.path().join("host/sys"))
        .status();
    assert!(status.unwrap().success());
    let archive = folder.path().join("host.tar.gz");
    let mut tar = std::process::Command::new("tar");
    let tar = tar
        .arg("-czf")
        .arg(&archive)
        .arg("-C")
        .arg(folder.path())
        .arg("host");
    assert!(tar.status().unwrap().success());
    let (machine, _) = machine(detect::sysfs(&archive).unwrap());
    assert_eq!(level(&machine, "SMT"), "0-1 2-3");
}

#[test]
fn a_cpuinfo_has_cores_and_packages() {
    let entry = |cpu: usize| {
        format!(
            "processor\t: {cpu}\nmodel name\t: A model\nphysical id\t: {}\ncore id\t\t: {}\n\n",
            cpu / 2 % 2,
            cpu % 2
        )
    };
    let text: String = (0..8).map(entry).collect();
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("cpuinfo");
    std::fs::write(&alone, &text).unwrap();
    let beside = Tree::new(8, &[]);
    let sys = folder.path().join("sys");
    std::fs::create_dir(folder.path().join("proc")).unwrap();
    std::fs::write(folder.path().join("proc/cpuinfo"), &text).unwrap();
    std::fs::rename(beside.path().join("devices"), sys.with_file_name("devices")).unwrap();
    std::fs::create_dir(&sys).unwrap();
    std::fs::rename(sys.with_file_name("devices"), sys.join("devices")).unwrap();
    std::fs::write(sys.join("devices/system/cpu/online"), "0-7\n").unwrap();
    for path in [alone.as_path(), folder.path()] {
        let (machine, _) = machine(detect::sysfs(path).unwrap());
        assert_eq!(
            level(&machine, "SMT"),
            "0,4 1,5 2,6 3,7",
            "{}",
            path.display()
        );
        assert_eq!(
            level(&machine, "MC"),
            "0-1,4-5 2-3,6-7",
            "{}",
            path.display()
        );
    }
}

/// On sparc64, the kernel shows only the sizes of caches.
#[test]
fn a_cpu_may_have_the_size_of_its_cache() {
    let tree = Tree::new(2, &[plain("0-1")]);
    for cpu in 0..2 {
        let folder = format!("devices/system/cpu/cpu{cpu}");
        std::fs::remove_dir_all(tree.path().join(&folder).join("cache")).unwrap();
        tree.write(format!("{folder}/l2_cache_size"), 1 << 20);
    }
    let (machine, _) = machine(detect::sysfs(tree.path()).unwrap());
    let sizes: Vec<_> = machine
        .caches
        .iter()
        .map(|it| (it.level, it.size_kib))
        .collect();
    assert_eq!(sizes, [(2, Some(1024)); 2]);
}

#[test]
fn threads_of_a_core_that_differ_are_named() {
    let fast = Cpus {
        capacity: Some(1024),
        cores: "0-1",
        ..plain("0")
    };
    let slow = Cpus {
        capacity: Some(512),
        cpus: "1",
        ..fast
    };
    let (machine, warnings) = machine(detect::sysfs(Tree::new(2, &[fast, slow]).path()).unwrap());
    assert_eq!(level(&machine, "SMT"), "");
    assert!(
        warnings
            .iter()
            .any(|it| it.contains("the cores 0-1, whose threads differ")),
        "{warnings:?}"
    );
}

#[test]
fn names_are_only_text() {
    let tree = Tree::new(1, &[plain("0")]);
    tree.write("class/dmi/id/product_name", "a \"board\" \\ with\ttabs");
    let (machine, _) = machine(detect::sysfs(tree.path()).unwrap());
    assert_eq!(machine.description, "a \"board\" \\ with tabs");
}

#[test]
fn a_name_in_a_note_ends_no_comment() {
    let cpus = Cpus {
        idle: &[("C6", 100, 200), ("C1\r\u{1}", 1, 2)],
        ..plain("0")
    };
    let tree = Tree::new(1, &[cpus]);
    let (machine, warnings) = machine(detect::sysfs(tree.path()).unwrap());
    assert_eq!(machine.core_types[0].idle_states.len(), 1);
    assert!(warnings[0].contains("the idle states C1"), "{warnings:?}");
}

#[test]
fn a_boost_counts_while_it_is_enabled() {
    let all = Cpus {
        khz: &[1_000_000, 2_000_000],
        lists_khz: true,
        ..plain("0-1")
    };
    let highest = |boost: Option<&str>, most: u32| {
        let tree = Tree::new(2, &[all]);
        for cpu in 0..2 {
            let folder = format!("devices/system/cpu/cpu{cpu}/cpufreq");
            tree.write(format!("{folder}/scaling_boost_frequencies"), "2500000");
            tree.write(format!("{folder}/cpuinfo_max_freq"), most);
        }
        if let Some(boost) = boost {
            tree.write("devices/system/cpu/cpufreq/boost", boost);
        }
        let (machine, _) = machine(detect::sysfs(tree.path()).unwrap());
        machine.core_types[0].opps.last().unwrap().khz
    };
    assert_eq!(highest(Some("0"), 2_000_000), 2_000_000);
    assert_eq!(highest(Some("1"), 2_500_000), 2_500_000);
    assert_eq!(highest(None, 2_000_000), 2_000_000);
    assert_eq!(highest(None, 2_500_000), 2_500_000);
}

#[test]
fn two_core_types_may_share_a_clock() {
    let big = Cpus {
        policies: "0-3",
        khz: &[500_000, 1_000_000, 2_000_000],
        lists_khz: true,
        midr: Some(0x412f_d4d0),
        ..plain("0-1")
    };
    let little = Cpus {
        cpus: "2-3",
        midr: Some(0x412f_d470),
        ..big
    };
    let other = Cpus {
        policies: "4-5",
        ..Cpus { cpus: "4-5", ..big }
    };
    let policies = |groups: &[Cpus], count| {
        let (machine, warnings) = machine(detect::sysfs(Tree::new(count, groups).path()).unwrap());
        assert!(warnings.is_empty(), "{warnings:?}");
        let policies = machine.policies();
        policies.iter().map(|it| it.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(policies(&[big, little], 4), ["0-3"]);
    assert_eq!(policies(&[big, little, other], 6), ["0-3", "4-5"]);
}

/// Kernels before 2.6.26 and some copies have bitmaps alone.
#[test]
fn bitmaps_are_read_where_lists_are_missing() {
    let tree = Tree::new(4, &[plain("0-3")]);
    for (cpu, mask) in ["5", "a", "5", "a"].into_iter().enumerate() {
        let topology = format!("devices/system/cpu/cpu{cpu}/topology");
        std::fs::remove_file(tree.path().join(&topology).join("core_cpus_list")).unwrap();
        tree.write(format!("{topology}/thread_siblings"), mask);
    }
    let (found, _) = machine(detect::sysfs(tree.path()).unwrap());
    assert_eq!(level(&found, "SMT"), "0,2 1,3");
    for cpu in 0..4 {
        let topology = format!("devices/system/cpu/cpu{cpu}/topology");
        tree.write(format!("{topology}/core_cpus"), "f");
    }
    let (found, _) = machine(detect::sysfs(tree.path()).unwrap());
    assert_eq!(level(&found, "SMT"), "0-3");
}

#[test]
fn each_cpu_says_whether_it_is_online_if_no_list_does() {
    let tree = Tree::new(4, &[plain("0-3")]);
    std::fs::remove_file(tree.path().join("devices/system/cpu/online")).unwrap();
    for (cpu, online) in [(1, 1), (2, 0), (3, 1)] {
        tree.write(format!("devices/system/cpu/cpu{cpu}/online"), online);
    }
    let (found, _) = machine(detect::sysfs(tree.path()).unwrap());
    assert_eq!(found.all_cpus().to_string(), "0-1,3");
    assert_eq!(found.offline.to_string(), "2");
}

/// As on s390, each socket has three CPUs, and each book has two sockets.
#[test]
fn without_caches_the_cpus_of_a_socket_belong_together() {
    let tree = Tree::new(12, &[plain("0-11")]);
    for cpu in 0..12 {
        let topology = format!("devices/system/cpu/cpu{cpu}/topology");
        let span = |of: usize| format!("{}-{}", cpu / of * of, cpu / of * of + of - 1);
        tree.write(format!("{topology}/core_siblings_list"), span(3));
        tree.write(format!("{topology}/book_siblings_list"), span(6));
    }
    let (found, warnings) = machine(detect::sysfs(tree.path()).unwrap());
    assert_eq!(level(&found, "MC"), "0-2 3-5 6-8 9-11");
    assert_eq!(warnings, ["left out: the books 0-5 6-11"]);
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| {
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    };
    paths.flat_map(of).collect()
}

#[test]
fn no_value_in_a_file_is_too_much() {
    let kind = |cpus, khz| Cpus {
        cores: "0-1 2-3",
        l2: "0-1 2-3",
        l2_size: "1280K",
        l3: "0-3",
        l3_size: "16M",
        clusters: "0-1 2-3",
        khz,
        capacity: Some(512),
        highest_perf: Some(100),
        driver: "cpufreq-dt",
        governor: "schedutil",
        ranking: Some(100),
        idle: &[("C1", 1, 2), ("C6", 100, 200)],
        midr: Some(0x410f_d0c0),
        ..plain(cpus)
    };
    let kinds = [
        kind("0-1", &[1_000_000, 2_000_000]),
        kind("2-3", &[500_000, 1_000_000]),
    ];
    let tree = Tree::new(4, &kinds);
    let all = files(tree.path());
    assert!(all.len() > 60);
    for file in all {
        let right = std::fs::read(&file).unwrap();
        for odd in [
            "0",
            "1",
            "-1",
            "2000000000",
            "4294967295",
            "9223372036854775807",
            "18446744073709551615",
            "0-4294967295",
            "16777215G",
            "",
        ] {
            std::fs::write(&file, odd).unwrap();
            if let Ok(found) = detect::sysfs(tree.path()) {
                machine(found);
            }
        }
        std::fs::write(&file, right).unwrap();
    }
}
