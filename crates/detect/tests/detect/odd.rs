//! Machines whose descriptions are odd or incomplete.

use crate::tree::{Cpus, Tree};
use crate::{kinds, level, machine};

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
fn a_governor_that_is_not_modelled_is_left_out_with_a_note() {
    let governed = |governor| Cpus {
        khz: &[1_000_000, 2_000_000],
        driver: "cpufreq-dt",
        governor,
        ..plain("0-1")
    };
    for (governor, expected, notes) in [
        ("performance", "performance", 0),
        ("schedutil", "schedutil", 0),
        ("ondemand", "schedutil", 1),
        // A copy of sysfs that lacks this file.
        ("", "schedutil", 0),
    ] {
        let tree = Tree::new(2, &[governed(governor)]);
        let (machine, warnings) = machine(detect::sysfs(tree.path()).unwrap());
        assert_eq!(machine.cpufreq.unwrap().governor.to_string(), expected);
        let about = |warning: &&String| warning.contains("ondemand");
        assert_eq!(warnings.iter().filter(about).count(), notes, "{warnings:?}");
    }
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
        warnings[0].contains("CPU 0 is faster than CPU 2 by cpu_capacity and slower by"),
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
fn distances_that_the_format_cannot_say_are_left_out() {
    let four = || Tree::new(4, &[plain("0-3")]);
    let ring = four().nodes(&[
        ("0", "10 20 20 30"),
        ("1", "20 10 30 20"),
        ("2", "20 30 10 20"),
        ("3", "30 20 20 10"),
    ]);
    let (found, warnings) = machine(detect::sysfs(ring.path()).unwrap());
    assert!(found.numa.distances.is_empty());
    assert!(warnings[0].contains("form no groups"), "{warnings:?}");
    let uneven = four().nodes(&[("0-1", "10 20"), ("2-3", "21 10")]);
    let (found, warnings) = machine(detect::sysfs(uneven.path()).unwrap());
    assert_eq!(found.numa.distances, [[10, 21], [21, 10]]);
    assert!(warnings[0].contains("differ by direction"), "{warnings:?}");
}

#[test]
fn a_cache_across_nodes_is_one_in_each() {
    // A virtual machine whose caches do not match its nodes.
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

#[test]
fn a_folder_that_is_no_sysfs_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = detect::sysfs(folder.path()).unwrap_err();
    assert!(error.contains("expected the folders cpu0"), "{error}");
    let error = detect::sysfs(folder.path().join("none").as_path()).unwrap_err();
    assert!(error.contains("none"), "{error}");
}

#[test]
fn names_are_only_text() {
    let tree = Tree::new(1, &[plain("0")]);
    tree.write("class/dmi/id/product_name", "a \"board\" \\ with\ttabs");
    let (machine, _) = machine(detect::sysfs(tree.path()).unwrap());
    assert_eq!(machine.description, "a \"board\" \\ with\ttabs");
}
