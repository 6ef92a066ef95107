//! `machine|workload|policy list|show|check`, and the output options of every command.

use crate::common::{command, file, files, json, root, run, run_badly, stdout, text, words};
use std::io::Read;
use std::process::Stdio;

#[test]
fn all_listed_names_can_be_shown() {
    for what in ["machine", "workload", "policy"] {
        let list = json(&[what, "list", "--format", "json"]);
        assert_eq!(list["schema"], 2);
        let tables = list["tables"].as_array().unwrap();
        let rows = tables
            .iter()
            .flat_map(|table| table["rows"].as_array().unwrap());
        assert!(rows.clone().next().is_some());
        for row in rows {
            let name = row[0].as_str().unwrap();
            let about = row[1].as_str().unwrap();
            assert!(!about.is_empty(), "{name}");
            assert!(
                stdout(&[what, "show", name]).contains(about),
                "{what} show {name}"
            );
        }
    }
}

#[test]
fn the_list_of_policies_begins_with_linux_and_our_own() {
    let list = json(&["policy", "list", "--format", "json"]);
    let names = |table: &serde_json::Value| -> Vec<String> {
        let rows = table["rows"].as_array().unwrap().iter();
        rows.map(|row| row[0].as_str().unwrap().to_owned())
            .collect()
    };
    let tables = list["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 2);
    let usual = words("eevdf equipoise equipoise-performance equipoise-power");
    assert_eq!(names(&tables[0]), usual);
    assert_eq!(tables[1]["title"], "Published designs and their kernels");
    assert!(names(&tables[1]).contains(&"hperf".to_owned()));
    assert!(names(&tables[1]).contains(&"eevdf-6.12".to_owned()));
}

#[test]
fn the_source_of_a_built_in_file_can_be_changed() {
    for (what, name, path) in [
        ("machine", "rk3588", "machines/rk3588.toml"),
        ("workload", "mixed", "workloads/mixed.json"),
        ("policy", "cfs", "policies/cfs.toml"),
    ] {
        let file = std::fs::read_to_string(root().join(path)).unwrap();
        assert_eq!(stdout(&[what, "show", name, "--source"]), file);
    }
    let message = run_badly(&["workload", "show", "hackbench", "--source"]);
    has!(message, "`hackbench` has no built-in file");
}

#[test]
fn a_list_is_no_picture() {
    let message = run_badly(&["machine", "list", "--format", "svg"]);
    has!(message, "this result has no chart");
}

#[test]
fn policies_that_set_frequencies_say_under_which_governor() {
    let list = stdout(&["policy", "list"]);
    let note = list
        .lines()
        .find(|line| line.contains("only under the governor schedutil"));
    let note = note.expect("policy list has a note");
    assert!(
        note.contains("equipoise,") && note.contains("eevdf,"),
        "{note}"
    );
    assert!(
        !note.contains("cfs-pelt") && !note.contains("hperf"),
        "{note}"
    );
    assert!(stdout(&["policy", "show", "equipoise"]).contains("only under the governor schedutil"));
    assert!(!stdout(&["policy", "show", "cfs"]).contains("only under the governor schedutil"));
}

#[test]
fn the_files_of_the_source_tree_are_well_formed() {
    for (what, folder) in [
        ("machine", "machines"),
        ("workload", "workloads"),
        ("policy", "policies"),
    ] {
        let folder = root().join(folder);
        let names = files(&folder);
        assert!(!names.is_empty());
        let paths: Vec<String> = names
            .iter()
            .map(|name| folder.join(name).to_str().unwrap().to_owned())
            .collect();
        let args: Vec<&str> = [what, "check"]
            .into_iter()
            .chain(paths.iter().map(String::as_str))
            .collect();
        let output = run(&args);
        let (said, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{stderr}");
        assert!(
            stderr.lines().all(|line| line.starts_with("warning: ")),
            "{stderr}"
        );
        assert!(paths.iter().all(|path| said.contains(path)), "{said}");
    }
}

#[test]
fn every_file_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = ["a.toml", "c.toml"].map(|it| folder.path().join(it));
    for file in &wrong {
        std::fs::write(file, "hz = 0").unwrap();
    }
    let good = root().join("machines/tc2.toml");
    let args = [&wrong[0], &good, &wrong[1]].map(|it| it.to_str().unwrap());
    let output = run(&[&["machine", "check"], &args[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("tc2"));
    let said = text(&output.stderr);
    assert!(said.contains("a.toml") && said.contains("c.toml"), "{said}");
}

#[test]
fn results_go_to_a_folder_instead_when_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a/b");
    let out_arg = out.to_str().unwrap();
    for (format, file) in [
        ("table", "tc2.txt"),
        ("json", "tc2.json"),
        ("html", "tc2.html"),
    ] {
        let args = ["machine", "show", "tc2", "--format", format];
        let there = stdout(&args);
        assert_eq!(stdout(&[&args[..], &["--out", out_arg]].concat()), "");
        let written = std::fs::read_to_string(out.join(file)).unwrap();
        assert!(written.contains("cortex-a15"));
        if format != "html" {
            assert_eq!(written, there);
        }
    }
    assert_eq!(files(&out), ["tc2.html", "tc2.json", "tc2.txt"]);
}

#[test]
fn html_is_a_whole_page_without_anything_from_elsewhere() {
    let page = stdout(&["machine", "show", "tc2", "--format", "html"]);
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    for outside in ["<script", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    // More output than a pipe holds: the command is still writing when the reader is gone.
    let names: Vec<String> = std::iter::repeat_n(root().join("machines/tc2.toml"), 2000)
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    let mut child = command(&["machine", "check"])
        .args(names)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let mut some = [0; 10];
    pipe.read_exact(&mut some).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stderr, b"");
    assert!(output.status.success());
}

#[test]
fn help_names_every_command() {
    let help = stdout(&["--help"]);
    for command in [
        "reproduce",
        "compare",
        "machine",
        "workload",
        "policy",
        "--format",
        "--out",
    ] {
        has!(help, command);
    }
    let help = stdout(&["compare", "--help"]);
    for option in [
        "--machine",
        "--workload",
        "--policy",
        "--scheduler",
        "--set",
        "--runs",
        "--seed",
        "--jobs",
        "--trace",
    ] {
        has!(help, option);
    }
}

#[test]
fn a_workload_is_found_by_what_it_is() {
    for (name, meant) in [
        ("kernel-build", "did you mean `kbuild`?"),
        ("phone", "did you mean `mixed`?"),
        ("hackbenhc", "did you mean `hackbench`?"),
    ] {
        let said = run_badly(&["compare", "--machine", "tc2", "--workload", name]);
        has!(said, meant);
    }
}

/// Each of several workloads takes its own parameters, such as `kbuild:jobs=2+busy:duration=2`.
#[test]
fn several_workloads_at_once_have_no_parameters() {
    for name in ["kbuild+busy", "busy:threads=2+kbuild"] {
        let said = stdout(&["workload", "show", name]);
        assert!(
            said.contains("Metrics") && !said.contains("Parameters"),
            "{said}"
        );
    }
}

#[test]
fn a_machine_with_one_cpu_has_one_cpu() {
    let smp_2 = std::fs::read_to_string(root().join("machines/smp-2.toml")).unwrap();
    let (_folder, machine) = file("one.toml", smp_2.replace("\"0-1\"", "\"0\""));
    for action in ["check", "show"] {
        let said = stdout(&["machine", action, &machine]);
        assert!(said.contains("1 CPU") && !said.contains("1 CPUs"), "{said}");
    }
}
