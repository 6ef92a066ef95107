//! Bad input: one message with file, line and what was expected; exit status 2; nothing written.

use crate::common::{command, files, root, text};

/// Fails with status 2, nothing on standard output and nothing written, in a folder where `name` has
/// `content`; returns the complaint.
fn complaint(name: &str, content: &str, args: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), content).unwrap();
    let output = command(args)
        .args(["--out", "results"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert_eq!(text(&output.stdout), "", "{args:?}");
    assert_eq!(files(folder.path()), [name], "{args:?}");
    stderr
}

#[test]
fn a_wrong_file_is_named_with_the_line() {
    let machine = std::fs::read_to_string(root().join("machines/tc2.toml")).unwrap();
    let hz = machine.lines().position(|line| line == "hz = 100").unwrap() + 1;
    let machine = machine.replace("\nhz = 100\n", "\nhz = 0\n");
    let experiment =
        std::fs::read_to_string(root().join("experiments/mixed-capacity.toml")).unwrap();
    let policy = experiment
        .lines()
        .position(|line| line.contains("cfs-pelt"))
        .unwrap()
        + 1;
    let experiment = experiment.replace("\"cfs-pelt\"", "\"bfs\"");
    let workload = "{\n  \"tasks\": {\n    \"a\": { \"run\": -1 }\n  }\n}\n";
    let compare = |machine, workload, policy| -> Vec<&str> {
        vec![
            "compare",
            "--machine",
            machine,
            "--workload",
            workload,
            "--policy",
            policy,
        ]
    };
    let cases: Vec<(&str, &str, Vec<&str>, String, &str)> = vec![
        (
            "m.toml",
            &machine,
            vec!["machine", "check", "m.toml"],
            format!("m.toml:{hz}:"),
            "10 to 10000",
        ),
        (
            "m.toml",
            &machine,
            vec!["machine", "show", "m.toml"],
            format!("m.toml:{hz}:"),
            "10 to 10000",
        ),
        (
            "m.toml",
            &machine,
            compare("m.toml", "busy", "cfs"),
            format!("m.toml:{hz}:"),
            "10 to 10000",
        ),
        (
            "m.toml",
            "name = [",
            compare("m.toml", "busy", "cfs"),
            "m.toml:1:".to_owned(),
            "expected",
        ),
        (
            "w.json",
            workload,
            vec!["workload", "check", "w.json"],
            "w.json:3:".to_owned(),
            "expected",
        ),
        (
            "w.json",
            workload,
            compare("tc2", "w.json", "cfs"),
            "w.json:3:".to_owned(),
            "expected",
        ),
        (
            "w.json",
            "{",
            vec!["workload", "check", "w.json"],
            "w.json:1:".to_owned(),
            "expected",
        ),
        (
            "p.toml",
            "nonsense = 1\n",
            vec!["policy", "check", "p.toml"],
            "p.toml:1:".to_owned(),
            "expected",
        ),
        (
            "p.toml",
            "nonsense = 1\n",
            compare("tc2", "busy", "p.toml"),
            "p.toml:1:".to_owned(),
            "expected",
        ),
        (
            "e.toml",
            &experiment,
            vec!["reproduce", "e.toml"],
            format!("e.toml:{policy}:"),
            "cfs",
        ),
    ];
    for (name, content, args, place, expected) in cases {
        let complaint = complaint(name, content, &args);
        assert!(
            complaint.contains(&place),
            "{args:?}: {place} is not in {complaint}"
        );
        assert!(complaint.contains(expected), "{args:?}: {complaint}");
        assert_eq!(complaint.matches(" × ").count(), 1, "{args:?}: {complaint}");
    }
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let compare = |machine, workload, policy| {
        vec![
            "compare",
            "--machine",
            machine,
            "--workload",
            workload,
            "--policy",
            policy,
        ]
    };
    for (args, unknown, known) in [
        (vec!["reproduce", "mixed"], "mixed", "mixed-capacity"),
        (vec!["reproduce", "--rows", "sys?"], "sys?", "sysbench_5t"),
        (vec!["machine", "show", "cray-1"], "cray-1", "tc2-smp"),
        (vec!["workload", "show", "quake"], "quake", "hackbench"),
        (vec!["policy", "show", "bfs"], "bfs", "capacity"),
        (compare("cray-1", "busy", "cfs"), "cray-1", "tc2-smp"),
        (compare("tc2", "quake", "cfs"), "quake", "hackbench"),
        (compare("tc2", "busy", "bfs"), "bfs", "capacity"),
        (compare("tc2", "busy:thread=1", "cfs"), "thread", "threads"),
        (
            compare("no/such.toml", "busy", "cfs"),
            "no/such.toml",
            "expected",
        ),
    ] {
        let complaint = complaint("empty", "", &args);
        assert!(complaint.contains(unknown), "{args:?}: {complaint}");
        assert!(complaint.contains(known), "{args:?}: {complaint}");
    }
}

#[test]
fn a_wrong_command_line_is_explained() {
    let compare = ["compare", "--machine", "tc2", "--workload", "busy"];
    for (more, says) in [
        (vec!["--policy", "cfs", "--runs", "0"], "--runs"),
        (vec!["--policy", "cfs", "--jobs", "0"], "--jobs"),
        (vec!["--policy", "cfs", "--runs", "x"], "--runs"),
        (vec!["--policy", "cfs", "--runs", "4294967295"], "100000"),
        (vec!["--policy", "cfs", "--jobs", "4294967295"], "1024"),
        (vec!["--policy", "cfs", "--format", "xml"], "html"),
        (vec!["--policy", "cfs", "--set", "a=1"], "--scheduler"),
        (vec!["--scheduler", "a.bpf.c", "--set", "a"], "NAME=VALUE"),
        (vec!["--policy", "cfs", "--trace", "trace.data"], ".ftrace"),
        (vec!["--policy", "cfs", "--trace", "no/t.txt"], "a folder"),
        (vec!["--policy", "cfs", "--runs", "-1"], "--runs"),
        (vec!["--policy", "cfs", "--policy", "cfs"], "two schedulers"),
        (vec!["--scheduler", "empty"], "not a C source file"),
    ] {
        let args = [&compare[..], &more].concat();
        let complaint = complaint("empty", "", &args);
        assert!(complaint.contains(says), "{args:?}: {complaint}");
    }
}

#[test]
fn a_scheduler_that_does_not_compile_is_the_compilers_to_explain() {
    let args = [
        "compare",
        "--machine",
        "tc2",
        "--workload",
        "busy",
        "--scheduler",
        "s.bpf.c",
    ];
    let complaint = complaint("s.bpf.c", "int x = ;\n", &args);
    assert!(complaint.contains("s.bpf.c:1"), "{complaint}");
}

#[test]
fn a_node_that_the_machine_does_not_have_is_refused() {
    let mut args = vec!["compare", "--machine", "smp-2x8", "--workload", "busy"];
    args.extend(["--policy", "cfs", "--cpunodebind", "2"]);
    let stderr = complaint("some.file", "", &args);
    assert!(stderr.contains("nodes from 0 to 1"), "{stderr}");
}
