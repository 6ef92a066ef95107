//! Published schedulers by name. Their sources are not here: `tests/fetch-schedulers` gets them.

use crate::common::{command, run, text};
use lab::Peer;

/// Loads that keep few or all CPUs busy, or switch all the time; shorter than their defaults.
const LOADS: [&str; 3] = [
    "mixed:duration=2s",
    "hackbench:groups=1,loops=10",
    "kbuild:jobs=8,objects=10",
];

/// Does `scheduler` run each of [`LOADS`] on each of `machines`? A test without sources is skipped.
fn runs(scheduler: &str, machines: &[&str]) {
    assert!(Peer::find(scheduler).is_ok(), "{scheduler}");
    for machine in machines {
        for load in LOADS {
            let args = ["compare", "--machine", machine, "--workload", load];
            let output = run(&[&args[..], &["--runs", "1", "--scheduler", scheduler]].concat());
            let stderr = text(&output.stderr);
            if stderr.contains("tests/fetch-schedulers fetches") {
                eprintln!("skipped: no sources of {scheduler}; run tests/fetch-schedulers");
                return;
            }
            assert!(
                output.status.success(),
                "{scheduler} on {machine}, {load}: {stderr}"
            );
        }
    }
}

/// One CPU per core and two, one cache and many, heterogeneous CPUs, two nodes.
const MACHINES: [&str; 4] = ["tc2", "smp-8", "alder-lake", "epyc-2s"];

/// A test for each published scheduler.
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
    if stderr.contains("tests/fetch-schedulers fetches") {
        eprintln!("skipped: no sources of scx_pair; run tests/fetch-schedulers");
        return;
    }
    assert!(
        stderr.contains("the machine has 5, expected an even number"),
        "{stderr}"
    );
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
            && says.contains("fetch-schedulers"),
        "{says}"
    );
    assert!(with("scx_lavdd").contains("scx_lavd"), "{says}");
}
