//! Schedulers from a folder of objects (`EQUIPOISE_OBJECTS`).

use crate::common::{command, objects, text};
use std::path::Path;

const COMPARE: &[&str] = &[
    "compare",
    "--machine",
    "smp-2",
    "--workload",
    "busy:duration=1ms",
    "--policy",
    "eevdf",
    "--policy",
    "equipoise",
];
const EXPLAIN: &[&str] = &[
    "explain",
    "--machine",
    "smp-2",
    "--workload",
    "busy:duration=1ms",
    "--policy",
    "equipoise",
];

fn run(args: &[&str], folder: &Path) -> (Option<i32>, String) {
    let mut command = command(args);
    let output = command.env("EQUIPOISE_OBJECTS", folder).output().unwrap();
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_missing_or_damaged_object_is_named_in_one_message() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path();
    let copy = |name: &str| std::fs::copy(objects().join(name), folder.join(name)).unwrap();
    let complains = |args: &[&str], status, object: &str, what: &str| {
        let (code, message) = run(args, folder);
        assert_eq!(code, Some(status), "{message}");
        let place = folder.join(object);
        let place = place.to_str().unwrap();
        for part in ["EQUIPOISE_OBJECTS", place, what, "`make objects`"] {
            assert_eq!(message.matches(part).count(), 1, "{part}: {message}");
        }
    };

    complains(COMPARE, 2, "eevdf.so", "No such file");
    copy("eevdf.so");
    std::fs::write(folder.join("equipoise.so"), "").unwrap();
    complains(COMPARE, 2, "equipoise.so", "unreadable");
    copy("equipoise.so");
    assert_eq!(run(COMPARE, folder), (Some(0), String::new()));

    complains(EXPLAIN, 1, "equipoise.explaining.so", "No such file");
    copy("equipoise.explaining.so");
    assert_eq!(run(EXPLAIN, folder), (Some(0), String::new()));
}
