//! The files that rt-app ships, where its package is installed.

use super::*;
use crate::fake::{self, Kernel};
use std::path::{Path, PathBuf};

fn examples(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            examples(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            found.push(path);
        }
    }
}

/// The files of `merge/` are parts of a file, in the grammar that rt-app had before 1.0.
#[test]
fn every_example_of_rt_app_runs() {
    let mut paths = Vec::new();
    examples(Path::new("/usr/share/doc/rt-app/examples"), &mut paths);
    if paths.is_empty() {
        println!("skipped: rt-app's examples are not installed");
        return;
    }
    let mut ran = 0;
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let file = path.display().to_string();
        let workload = RtApp::parse("t", &file, &text, Some(3_000_000_000));
        if file.contains("/merge/") {
            let error = workload.err().expect("a part of a file");
            assert!(error.message().starts_with(&file), "{error}");
            continue;
        }
        let workload = workload.unwrap_or_else(|error| panic!("{error:?}"));
        workload.check(&fake::machine(4)).unwrap();
        let kernel = Kernel::run(&workload, 4);
        assert!(!kernel.runs.is_empty(), "{file} runs nothing");
        for metric in 0..workload.metrics().len() {
            let samples = kernel.recorder.samples(metric);
            assert!(samples.iter().all(|sample| sample.is_finite()), "{file}");
        }
        ran += 1;
    }
    assert!(ran >= 16, "only {ran} examples");
}

#[test]
fn files_of_before_1_0_are_refused_at_their_first_old_key() {
    let Ok(text) = std::fs::read_to_string("/usr/share/doc/rt-app/taskset.json") else {
        println!("skipped: rt-app's examples are not installed");
        return;
    };
    let error = parse(&text).err().unwrap();
    assert_eq!(
        error.message(),
        "t.json:4: unknown key `exec` in task `ThreadA`"
    );
}
