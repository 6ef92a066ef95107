//! Published schedulers by name. Their sources are not here: `tests/fetch-schedulers` gets them.

use crate::common::{command, run, text};
use std::collections::BTreeMap;

/// The names in `peers/peers.toml`, with the folder of each.
fn peers() -> BTreeMap<String, String> {
    let list = include_str!("../../peers/peers.toml");
    let list: toml::Table = toml::from_str(list).unwrap();
    let folder = |entry: &toml::Value| entry["folder"].as_str().unwrap().to_owned();
    list.iter()
        .map(|(name, entry)| (name.clone(), folder(entry)))
        .collect()
}

/// Does `scheduler` run `workload` on `machine`? `None` if its sources are missing.
fn runs(scheduler: &str, machine: &str, workload: &str) -> Option<Result<(), String>> {
    let args = ["compare", "--machine", machine, "--workload", workload];
    let output = run(&[&args[..], &["--runs", "1", "--scheduler", scheduler]].concat());
    let stderr = text(&output.stderr);
    if stderr.contains("tests/fetch-schedulers fetches") {
        eprintln!("skipped: no sources of {scheduler}; run tests/fetch-schedulers");
        return None;
    }
    Some(match output.status.success() {
        true => Ok(()),
        false => Err(format!("{scheduler} on {machine}, {workload}: {stderr}")),
    })
}

#[test]
fn published_schedulers_run_where_their_sources_are() {
    for scheduler in peers().keys() {
        // scx_pair refuses an odd number of CPUs.
        let machine = if scheduler == "scx_pair" {
            "smp-8"
        } else {
            "tc2"
        };
        let result = runs(scheduler, machine, "hackbench:groups=1,loops=10");
        assert!(!matches!(result, Some(Err(_))), "{result:?}");
    }
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
