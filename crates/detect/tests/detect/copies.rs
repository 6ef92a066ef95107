//! Copies of a sysfs that lack files, and settings of the running kernel.

use crate::tree::{Cpus, Tree};
use crate::{kinds, machine};

fn two() -> Cpus<'static> {
    Cpus {
        cpus: "0-1",
        ..Cpus::default()
    }
}

#[test]
fn the_list_of_online_cpus_is_read_or_refused() {
    let tree = Tree::new(4, &[two()]);
    let with = |online: &str| {
        tree.write("devices/system/cpu/online", online);
        detect::sysfs(tree.path())
    };
    let (found, _) = machine(with("0,2\n\0\0\0").unwrap());
    assert_eq!(found.all_cpus().to_string(), "0,2");
    for wrong in ["0-x", "0-8191"] {
        let error = with(wrong).unwrap_err();
        assert!(error.contains("cpu/online: expected a CPU list"), "{error}");
    }
}

#[test]
fn without_symbolic_links_a_policy_names_its_cpus() {
    let cpus = |cpus, khz| Cpus {
        cpus,
        policies: cpus,
        khz,
        ..Cpus::default()
    };
    let little = cpus("0-1", &[500_000, 1_000_000]);
    let big = cpus("2-3", &[500_000, 2_000_000]);
    let whole = Tree::new(4, &[little, big]);
    let expected = machine(detect::sysfs(whole.path()).unwrap());
    let all = |tree: &Tree| tree.path().join("devices/system/cpu");
    for only_policies in [false, true] {
        let tree = Tree::new(4, &[little, big]);
        for (first, second) in [(0, 1), (2, 3)] {
            let own = |cpu: usize| all(&tree).join(format!("cpu{cpu}/cpufreq"));
            std::fs::remove_dir_all(own(second)).unwrap();
            if only_policies {
                std::fs::create_dir_all(all(&tree).join("cpufreq")).unwrap();
                let policy = all(&tree).join(format!("cpufreq/policy{first}"));
                std::fs::rename(own(first), policy).unwrap();
            }
        }
        let found = machine(detect::sysfs(tree.path()).unwrap());
        assert_eq!(format!("{:?}", found.0), format!("{:?}", expected.0));
        assert_eq!(found.1, expected.1);
    }
}

#[test]
fn disabled_idle_states_are_not_entered() {
    let cpus = Cpus {
        idle: &[
            ("POLL", 0, 0),
            ("C1", 1, 2),
            ("C1E", 2, 4),
            ("C6", 100, 200),
        ],
        ..two()
    };
    let tree = Tree::new(2, &[cpus]);
    for cpu in 0..2 {
        for (state, disabled) in [0, 0, 1, 0].into_iter().enumerate() {
            let state = format!("devices/system/cpu/cpu{cpu}/cpuidle/state{state}");
            tree.write(format!("{state}/disable"), disabled);
        }
    }
    let (found, warnings) = machine(detect::sysfs(tree.path()).unwrap());
    let states = found.core_types[0].idle_states.iter();
    let names: Vec<&str> = states.map(|state| &*state.name).collect();
    assert_eq!(names, ["C1", "C6"]);
    assert_eq!(
        warnings,
        ["left out: the idle states C1E, which are disabled"]
    );
}

#[test]
fn settings_of_the_running_kernel_are_left_out_with_a_warning() {
    let cpus = Cpus {
        idle: &[("POLL", 0, 0), ("C1", 1, 2), ("C6", 100, 200)],
        khz: &[1_000_000, 3_000_000],
        ..two()
    };
    let tree = Tree::new(2, &[cpus]);
    for cpu in 0..2 {
        let cpu = tree.path().join(format!("devices/system/cpu/cpu{cpu}"));
        std::fs::remove_file(cpu.join("cpuidle/state2/residency")).unwrap();
        std::fs::write(cpu.join("cpufreq/scaling_max_freq"), "2000000").unwrap();
    }
    tree.write("devices/system/cpu/isolated", "1");
    tree.write("devices/system/cpu/nohz_full", "0-1");
    let (_, warnings) = machine(detect::sysfs(tree.path()).unwrap());
    for left_out in [
        "the idle states C6, whose residency or latency sysfs lacks",
        "CPUs 1 are isolated: Linux balances no load there",
        "CPUs 0-1 have no tick while they run one task",
        "the limit of CPUs 0-1 to 2000000 kHz (scaling_max_freq), below 3000000 kHz (cpuinfo_max_freq)",
    ] {
        let warning = format!("left out: {left_out}");
        assert!(warnings.contains(&warning), "{warning}: {warnings:?}");
    }
}

#[test]
fn a_cpuinfo_of_arm_has_kinds() {
    let entry = |cpu: usize, part: &str| {
        format!("processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU part\t: {part}\n\n")
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cpuinfo");
    std::fs::write(&file, entry(0, "0xd05") + &entry(1, "0xd0b")).unwrap();
    let (found, warnings) = machine(detect::sysfs(&file).unwrap());
    assert_eq!(kinds(&found), ["cortex-a55 1024: 0", "cortex-a76 1024: 1"]);
    assert_eq!(
        warnings,
        ["no data on the CPUs' speeds, so all CPUs count as equal"]
    );
}

#[test]
fn a_pipe_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let writer = {
        let pipe = pipe.clone();
        std::thread::spawn(move || std::fs::write(pipe, "processor\t: 0\nCPU part\t: 0xd05\n"))
    };
    let (found, _) = machine(detect::sysfs(&pipe).unwrap());
    writer.join().unwrap().unwrap();
    assert_eq!(found.cpus.len(), 1);
}

/// Before Linux 3.19, arm64 had the kind of core once, after the last CPU.
#[test]
fn a_kind_of_core_after_the_last_cpu_is_that_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cpuinfo");
    let kind = "Features\t: fp\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\n";
    for between in ["", "BogoMIPS\t: 38.40\n\n"] {
        let cpu = |cpu: usize| format!("processor\t: {cpu}\n{between}");
        let cpus: String = (0..4).map(cpu).collect();
        std::fs::write(&file, format!("Processor\t: AArch64\n{cpus}{kind}")).unwrap();
        let (found, _) = machine(detect::sysfs(&file).unwrap());
        assert_eq!(kinds(&found), ["cortex-a53 1024: 0-3"]);
    }
    let power: String = (0..4)
        .map(|cpu| format!("processor\t: {cpu}\ncpu\t: POWER9\n\n"))
        .collect();
    std::fs::write(&file, power).unwrap();
    let (_, warnings) = machine(detect::sysfs(&file).unwrap());
    assert!(
        warnings[0].contains("neither cores nor kinds"),
        "{warnings:?}"
    );
}

/// 32-bit Arm has no MIDR in sysfs.
#[test]
fn a_cpuinfo_beside_a_sysfs_has_kinds() {
    let folder = tempfile::tempdir().unwrap();
    let entry = |cpu: usize| {
        let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        let topology = folder.path().join(topology);
        std::fs::create_dir_all(&topology).unwrap();
        std::fs::write(topology.join("core_id"), cpu.to_string()).unwrap();
        let part = if cpu < 2 { "0xd03" } else { "0xd09" };
        format!("processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU part\t: {part}\n\n")
    };
    let text: String = (0..4).map(entry).collect();
    std::fs::create_dir(folder.path().join("proc")).unwrap();
    std::fs::write(folder.path().join("proc/cpuinfo"), text).unwrap();
    let (found, _) = machine(detect::sysfs(folder.path()).unwrap());
    assert_eq!(
        kinds(&found),
        ["cortex-a53 1024: 0-1", "cortex-a73 1024: 2-3"]
    );
}

#[test]
fn links_out_of_an_archive_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, content) = (folder.path().join("a.tar"), folder.path().join("content"));
    let elsewhere = Tree::new(4, &[two()]);
    elsewhere.write("khz", 2_000_000);
    let pack = || {
        let mut tar = std::process::Command::new("tar");
        let tar = tar
            .arg("-cf")
            .arg(&archive)
            .arg("-C")
            .arg(&content)
            .arg(".");
        assert!(tar.status().unwrap().success());
        detect::sysfs(&archive)
    };
    let link = |to: &std::path::Path, from: &str| {
        let from = content.join(from);
        std::fs::create_dir_all(from.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, from).unwrap();
    };
    link(elsewhere.path(), "sys");
    let error = pack().unwrap_err();
    assert!(
        error.contains("no devices/system/cpu in the archive"),
        "{error}"
    );
    std::fs::remove_file(content.join("sys")).unwrap();
    link(
        &elsewhere.path().join("khz"),
        "sys/devices/system/cpu/policy/cpuinfo_min_freq",
    );
    link(
        &elsewhere.path().join("khz"),
        "sys/devices/system/cpu/policy/cpuinfo_max_freq",
    );
    link("../policy".as_ref(), "sys/devices/system/cpu/cpu0/cpufreq");
    let khz = || {
        let (found, _) = machine(pack().unwrap());
        found.core_types[0].opps.last().map(|opp| opp.khz)
    };
    assert_eq!(khz(), None);
    for file in ["cpuinfo_min_freq", "cpuinfo_max_freq"] {
        let file = content.join("sys/devices/system/cpu/policy").join(file);
        std::fs::remove_file(&file).unwrap();
        std::fs::write(file, "1000000").unwrap();
    }
    assert_eq!(khz(), Some(1_000_000));
}
