//! rt-app's own example files (Debian package rt-app), each under every policy. The examples `*-long.json` are left
//! out: they have the threads of `*-short.json`, for a hundred times as long.

use crate::common::{run, text};
use policy::Policy;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "/usr/share/doc/rt-app/examples";

/// The complete configurations: `merge/` has parts of one.
fn examples(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "merge") {
            examples(&path, found);
            continue;
        }
        let name = path.to_string_lossy();
        if name.ends_with(".json") && !name.ends_with("-long.json") {
            found.push(path);
        }
    }
}

#[test]
fn every_example_runs_under_every_policy() {
    if !Path::new(EXAMPLES).is_dir() {
        eprintln!("skipped: {EXAMPLES} is not there (package rt-app)");
        return;
    }
    let mut files = Vec::new();
    examples(Path::new(EXAMPLES), &mut files);
    assert!(files.len() >= 10, "{files:?}");
    for file in files {
        let file = file.to_str().unwrap();
        let mut args = vec![
            "compare",
            "--machine",
            "tc2",
            "--runs",
            "1",
            "--workload",
            file,
        ];
        args.extend(Policy::names().flat_map(|name| ["--policy", name]));
        let output = run(&args);
        assert!(output.status.success(), "{file}: {}", text(&output.stderr));
    }
}
