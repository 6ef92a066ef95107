//! Files that are not descriptions of a machine, a load or a policy, but that another command or option takes.

use super::{BadInput, read_bytes, shown, utf8, with_article};
use std::path::Path;

/// As [`read`], for a description of a machine, a load or a policy. The error about a file that another command or
/// option takes names it.
pub fn description(path: &Path, what: &str) -> Result<String, Box<BadInput>> {
    let file = shown(path);
    let is_sysfs = |sys: &str| path.join(sys).join("devices/system/cpu").is_dir();
    let (bytes, other) = match ["", "sys"].into_iter().any(is_sysfs) {
        true => {
            let reads = "`equipoise machine detect --sysfs FOLDER` reads this folder";
            (Vec::new(), Some(("a copy of /sys", reads)))
        }
        false => {
            let bytes = read_bytes(path, what)?;
            let other = other_kind(&file, &bytes);
            (bytes, other)
        }
    };
    let Some((kind, reads)) = other else {
        return utf8(&file, bytes, what);
    };
    let what = with_article(what);
    Err(Box::new(BadInput::whole(
        format!("{file}: this is {kind}, not {what}"),
        format!("expected {what}; {reads}"),
    )))
}

/// The kind of a file that is no description, and the command or option that takes it.
fn other_kind(file: &str, bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let bytes = bytes.trim_ascii_start();
    let is = |starts: &[&[u8]]| starts.iter().any(|start| bytes.starts_with(start));
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(8192)]);
    let has = |words: &[&str]| words.iter().any(|word| head.contains(word));
    if is(&[b"\xd0\x0d\xfe\xed"]) {
        let reads = "`equipoise machine detect --dtb FILE` reads this file";
        return Some(("a device tree", reads));
    }
    if is(&[b"/dts-v1/"]) || file.ends_with(".dts") {
        let reads =
            "compile this file with `dtc`; `equipoise machine detect --dtb FILE` reads the result";
        return Some(("the source of a device tree", reads));
    }
    if is(&[b"<?xml", b"<topology"]) {
        return Some((
            "XML",
            "`equipoise machine detect --hwloc FILE` reads that of `lstopo`",
        ));
    }
    let text = ["sched_switch: ", "sched_waking: ", "sched_wakeup: "];
    if is(&[b"\x17\x08\x44tracing", b"PERFILE2", b"# tracer: "]) || (has(&text) && !is(&[b"{"])) {
        let reads = "`equipoise workload import FILE` makes a load of a trace";
        return Some(("a trace", reads));
    }
    file.ends_with(".c")
        .then_some(("a scheduler in C", "`--scheduler FILE` takes this file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_kinds_are_named() {
        let ftrace = b"a 1 [000] 1.5: sched:sched_switch: a:1 [120] S ==> b:2 [120]";
        for (name, content, option) in [
            ("board.x", &b"\xd0\x0d\xfe\xed\0"[..], "--dtb"),
            ("board.x", b"<?xml version=\"1.0\"?>", "--hwloc"),
            ("board.dts", b"// A board", "`dtc`"),
            ("board.x", b"\n/dts-v1/;", "`dtc`"),
            ("t.dat", b"\x17\x08\x44tracing6", "workload import"),
            ("t.txt", b"# tracer: nop\n", "workload import"),
            ("t.txt", ftrace, "workload import"),
            ("mine.bpf.c", b"#include <scx/common.bpf.h>", "--scheduler"),
        ] {
            let (_, reads) = other_kind(name, content).unwrap();
            assert!(reads.contains(option), "{name}: {reads}");
        }
        let json = br#"{"tasks": {"a": {"comment": "sched_switch: "}}}"#;
        for (name, content) in [("a.json", &json[..]), ("a.toml", b"name = \xff")] {
            assert_eq!(other_kind(name, content), None, "{name}");
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("sys/devices/system/cpu")).unwrap();
        let bad = description(folder.path(), "machine file").unwrap_err();
        let message = bad.message();
        assert!(
            message.ends_with(": this is a copy of /sys, not a machine file"),
            "{message}"
        );
        assert!(bad.expected().contains("--sysfs"), "{}", bad.expected());
    }
}
