//! Published schedulers by name. Their sources are not here: `equipoise scheduler fetch` gets them.

use crate::common::{command, files, run, text};
use lab::Peer;
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

/// Loads that keep few or all CPUs busy, or switch all the time; shorter than their defaults.
const LOADS: [&str; 3] = [
    "mixed:duration=2s",
    "hackbench:groups=1,loops=10",
    "kbuild:jobs=8,objects=10",
];

/// Fails unless `scheduler` runs each of [`LOADS`] on each of `machines`. A test without sources is skipped.
fn runs(scheduler: &str, machines: &[&str]) {
    assert!(Peer::find(scheduler).is_ok(), "{scheduler}");
    for machine in machines {
        for load in LOADS {
            let args = ["compare", "--machine", machine, "--workload", load];
            let output = run(&[&args[..], &["--runs", "1", "--scheduler", scheduler]].concat());
            let stderr = text(&output.stderr);
            if stderr.contains("`equipoise scheduler fetch") {
                eprintln!("skipped: no sources of {scheduler}; run `equipoise scheduler fetch`");
                return;
            }
            assert!(
                output.status.success(),
                "{scheduler} on {machine}, {load}: {stderr}"
            );
        }
    }
}

/// Machines with one and with two CPUs per core, one cache and many, heterogeneous CPUs, and two
/// nodes.
const MACHINES: [&str; 4] = ["tc2", "smp-8", "alder-lake", "epyc-2s"];

macro_rules! published {
    ($($scheduler:ident),* $(,)?) => {
        $(
            #[test]
            fn $scheduler() {
                let scheduler = stringify!($scheduler);
                // scx_pair refuses the five CPUs of tc2.
                runs(scheduler, &MACHINES[usize::from(scheduler == "scx_pair")..]);
            }
        )*

        #[test]
        fn each_published_scheduler_has_a_test() {
            let tested: Vec<&str> = vec![$(stringify!($scheduler)),*];
            assert_eq!(Peer::names().collect::<Vec<_>>(), tested);
        }
    };
}

published! {
    scx_beerland, scx_bpfland, scx_central, scx_chaos, scx_cosmos, scx_cpu0, scx_flash, scx_flatcg, scx_forge,
    scx_lavd, scx_layered, scx_p2dq, scx_pair, scx_pandemonium, scx_qmap, scx_rusty, scx_sdt, scx_simple,
    scx_tickless,
}

#[test]
fn a_refusing_loader_says_why() {
    let args = ["compare", "--machine", "tc2", "--workload", "mixed"];
    let output = run(&[&args[..], &["--runs", "1", "--scheduler", "scx_pair"]].concat());
    let stderr = text(&output.stderr);
    if stderr.contains("`equipoise scheduler fetch") {
        eprintln!("skipped: no sources of scx_pair; run `equipoise scheduler fetch`");
        return;
    }
    has!(stderr, "the machine has 5, expected an even number");
}

#[test]
fn missing_sources_and_unknown_names_are_said() {
    let args = ["compare", "--machine", "tc2", "--workload", "mixed"];
    let with = |name: &str| {
        let mut command = command(&args);
        command.args(["--scheduler", name]);
        command.env("EQUIPOISE_SCHEDULERS", "/no/such/folder");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    let says = with("scx_lavd");
    assert!(
        says.contains("scx_lavd: no sources in /no/such/folder")
            && says.contains("`equipoise scheduler fetch scx_lavd`"),
        "{says}"
    );
    assert!(with("scx_lavdd").contains("scx_lavd"), "{says}");
}

/// Runs `scheduler` with `args`. The only program on its PATH is the script `cargo`, if given;
/// sources are in `folder`.
fn scheduler(args: &[&str], cargo: Option<&str>, folder: &Path) -> Output {
    let programs = tempfile::tempdir().unwrap();
    if let Some(script) = cargo {
        let path = programs.path().join("cargo");
        std::fs::write(&path, format!("#!/bin/sh\nPATH=/usr/bin:/bin\n{script}")).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = command(&[&["scheduler"][..], args].concat());
    command.env("PATH", programs.path());
    command.env("CARGO_HOME", folder.join("cargo"));
    command.env("EQUIPOISE_SCHEDULERS", folder.join("sources"));
    command.output().unwrap()
}

#[test]
fn a_scheduler_is_fetched_once_with_the_crates_that_it_includes() {
    let folder = tempfile::tempdir().unwrap();
    // Takes exact versions and unpacks them as cargo does.
    let cargo = r#"
        [ "$1" = fetch ] || exit 2
        sed -n 's/^\(scx_[a-z]*\) = "=\(.*\)"$/\1-\2/p' Cargo.toml | while read -r crate; do
            into=$CARGO_HOME/registry/src/some-registry/$crate
            mkdir -p "$into/src/bpf" "$into/bpf_h" "$into/empty"
            echo 'int main;' >"$into/src/bpf/main.bpf.c"
            echo 'int lib;' >"$into/bpf_h/lib.h"
            echo 'fn main() {}' >"$into/src/main.rs"
        done"#;
    let fetch = ["fetch", "scx_rusty", "--json"];
    let output = scheduler(&fetch, Some(cargo), folder.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let sources = folder.path().join("sources");
    assert_eq!(files(&sources), ["scx_cargo-1.1.4", "scx_rusty-1.1.4"]);
    assert_eq!(files(&sources.join("scx_rusty-1.1.4")), ["bpf_h", "src"]);
    assert_eq!(files(&sources.join("scx_rusty-1.1.4/src")), ["bpf"]);
    let page: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let place = sources.join("scx_rusty-1.1.4/src/bpf");
    let row = serde_json::json!(["scx_rusty", place]);
    assert_eq!(page["tables"][0]["rows"], serde_json::json!([row]));
    let again = scheduler(&fetch, None, folder.path());
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(again.stdout, output.stdout);
    let list = text(&scheduler(&["list"], None, folder.path()).stdout);
    let of = |name: &str| list.lines().find(|line| line.contains(name)).unwrap();
    assert!(of("scx_rusty").contains("sources"), "{list}");
    assert!(of("scx_lavd").contains("not fetched"), "{list}");
}

#[test]
fn sources_that_cannot_be_fetched_are_an_error_and_leave_nothing() {
    let none = "cargo, which fetches the sources, is not installed; expected cargo and a network, or the crates scx_";
    let offline = "cargo cannot fetch the sources (see above); expected cargo and a network, or";
    let lost = "cargo has not unpacked scx_cargo-1.1.4";
    for (cargo, says) in [
        (None, none),
        (Some("exit 101"), offline),
        (Some("exit 0"), lost),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let output = scheduler(&["fetch", "scx_lavd"], cargo, folder.path());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        has!(stderr, says);
        assert_eq!(text(&output.stdout), "");
        assert!(files(&folder.path().join("sources")).is_empty());
    }
    let folder = tempfile::tempdir().unwrap();
    let output = scheduler(&["fetch", "scx_lavdd"], None, folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("scx_lavd"));
}

#[test]
fn the_kernels_examples_require_debians_tools() {
    let folder = tempfile::tempdir().unwrap();
    let output = scheduler(&["fetch", "scx_simple"], None, folder.path());
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    has!(
        stderr,
        "expected Debian's apt and a network, or tools/sched_ext of Linux 7.3 in"
    );
    assert!(files(&folder.path().join("sources")).is_empty());
}
