//! Habits that users expect of a command today.

use crate::common::{command, files, root, run, run_badly, stdout, text, words};
use std::io::Write;
use std::process::Stdio;

#[test]
fn alone_it_says_what_to_try_first() {
    let says = stdout(&[]);
    let examples: Vec<Vec<&str>> = says
        .lines()
        .filter_map(|line| line.strip_prefix("  equipoise "))
        .map(|args| args.split("  ").next().unwrap())
        .map(|args| args.split_whitespace().collect())
        .collect();
    assert!(examples.len() > 2, "{says}");
    for mut args in examples {
        if args[0] == "compare" {
            args.extend(["--runs", "1"]);
        }
        stdout(&args);
    }
}

#[test]
fn each_subcommand_has_an_example() {
    for name in [
        "compare",
        "reproduce",
        "machine",
        "workload",
        "policy",
        "completions",
        "man",
    ] {
        let help = stdout(&["help", name]);
        assert!(
            help.contains("Examples:\n  # ") && help.contains(&format!("\n  equipoise {name}")),
            "{help}"
        );
    }
}

#[test]
fn the_version_has_the_commit() {
    let version = stdout(&["--version"]);
    let release = format!("equipoise {}", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(&release), "{version}");
    let commit = std::process::Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output();
    // A release's sources have no commit.
    if let Ok(commit) = commit
        && commit.status.success()
    {
        let built = version.trim_start_matches(&release).trim();
        assert!(
            built.len() > 12 && built.starts_with('(') && built.ends_with(')'),
            "{version}"
        );
    }
}

#[test]
fn completions_and_manual_pages_know_every_option() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&["completions", shell]);
        let names = ["odroid-xu3", "heavy-and-light", "newidle-limit"];
        for option in ["goal", "cpunodebind", "reproduce"]
            .into_iter()
            .chain(names)
        {
            assert!(script.contains(option), "{shell}: {option}");
        }
    }
    assert!(stdout(&["man"]).contains(".TH equipoise 1"));
    let folder = tempfile::tempdir().unwrap();
    stdout(&["man", "--out", folder.path().to_str().unwrap()]);
    let pages = files(folder.path());
    assert!(
        pages.contains(&"equipoise-compare.1".to_owned()),
        "{pages:?}"
    );
    for nested in ["machine-show", "workload-import", "policy-check"] {
        let name = format!("equipoise-{nested}.1");
        assert!(pages.contains(&name), "{pages:?}");
    }
    let nested = std::fs::read_to_string(folder.path().join("equipoise-policy-check.1")).unwrap();
    for argument in ["FILE", "strict"] {
        has!(nested, argument);
    }
    let page = std::fs::read_to_string(folder.path().join("equipoise-compare.1")).unwrap();
    assert!(
        page.contains("cpunodebind") && page.contains("equipoise\\-compare"),
        "{page}"
    );
}

#[test]
fn similar_names_are_suggested() {
    let compare = |machine, workload, policy| {
        let args = [
            "compare",
            "--machine",
            machine,
            "--workload",
            workload,
            "--policy",
            policy,
        ];
        run_badly(&args)
    };
    for (says, meant) in [
        (compare("tc3", "mixed", "cfs"), "tc2"),
        (compare("tc2", "mixd", "cfs"), "mixed"),
        (compare("tc2", "hackbensh", "cfs"), "hackbench"),
        (compare("tc2", "mixed", "capasity"), "capacity"),
        (compare("tc2", "busy:thread=2", "cfs"), "threads"),
        (compare("tc2", "mixed", "cfs:misfti=true"), "misfit"),
        (
            text(&run(&["reproduce", "mixed-capcity"]).stderr),
            "mixed-capacity",
        ),
    ] {
        has!(says, &format!("did you mean `{meant}`?"));
    }
}

#[test]
fn similar_names_are_suggested_in_files_and_options() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let machine = std::fs::read_to_string(root().join("machines/sm8250.toml")).unwrap();
    let governed = std::fs::read_to_string(root().join("machines/alder-lake.toml")).unwrap();
    let governor = governed.replace("governor = \"hwp\"", "governor = \"schedutl\"");
    assert_ne!(governed, governor);
    for (wrong, meant) in [
        (machine.replace("\nhz =", "\nhzz ="), "hz"),
        (machine.replacen("capacity =", "capacty =", 1), "capacity"),
        (governor, "schedutil"),
    ] {
        let says = run_badly(&["machine", "check", &file("m.toml", &wrong)]);
        has!(says, &format!("did you mean `{meant}`?"));
    }
    for (wrong, meant) in [
        (r#"{ "taks": {} }"#, "tasks"),
        (
            r#"{ "tasks": { "a": { "prioritty": 3, "run": 1 } } }"#,
            "priority",
        ),
        (
            r#"{ "tasks": { "a": { "policy": "SCHED_FIF", "run": 1 } } }"#,
            "SCHED_FIFO",
        ),
        (
            r#"{ "tasks": { "a": { "phases": { "p": { "lop": 3, "run": 1 } } } } }"#,
            "loop",
        ),
        (
            r#"{ "tasks": { "a": { "timer": { "ref": "u", "perod": 9 } } } }"#,
            "period",
        ),
        (
            r#"{ "tasks": { "a": { "run": 1 } }, "global": { "durration": 3 } }"#,
            "duration",
        ),
        (
            r#"{ "tasks": { "a": { "run": 1 } }, "timeline": [ { "onlin": true } ] }"#,
            "online",
        ),
        (
            r#"{ "tasks": { "a": { "run": 1 } }, "taskgroups": { "/a": { "cpu.wight": 3 } } }"#,
            "cpu.weight",
        ),
    ] {
        let says = run_badly(&["workload", "check", &file("l.json", wrong)]);
        has!(says, &format!("did you mean `{meant}`?"));
    }
    let source = |call: &str| {
        format!(
            "#include <scx/common.bpf.h>\nchar _license[] SEC(\"license\") = \"GPL\";\n\
             const volatile u64 slice_ns = 1000000;\n\
             void BPF_STRUCT_OPS(own_enqueue, struct task_struct *p, u64 enq_flags)\n\
             {{ {call}(p, SCX_DSQ_GLOBAL, slice_ns, enq_flags); }}\n\
             SCX_OPS_DEFINE(own_ops, .enqueue = (void *)own_enqueue, .name = \"own\");\n"
        )
    };
    let compare = ["compare", "-m", "smp-2", "-w", "busy"];
    let right = file("own.bpf.c", &source("scx_bpf_dsq_insert"));
    let wrong = file("wrong.bpf.c", &source("scx_bpf_dsq_insrt"));
    for (more, meant) in [
        (
            &["--scheduler", &*right, "--set", "slic_ns=3"][..],
            "`slice_ns`?",
        ),
        (&["--scheduler", &*wrong], "scx_bpf_dsq_insert()?"),
        (&["-p", "equipoise:prefer=performnce"], "`performance`?"),
        (
            &["-p", "eevdf", "--runs", "1", "--trace", "t.perfeto-trace"],
            "`.perfetto-trace`?",
        ),
    ] {
        let output = run(&[&compare[..], more].concat());
        let says = text(&output.stderr);
        assert!(
            !output.status.success() && says.contains(&format!("did you mean {meant}")),
            "{says}"
        );
    }
}

fn with_input(args: &[&str], input: &str) -> std::process::Output {
    let mut child = command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_dash_is_standard_input() {
    let load = r#"{ "tasks": { "piped": { "loop": 3, "run": 1000, "sleep": 1000 } } }"#;
    let args = words("compare --machine tc2 --workload - --policy cfs --all");
    let output = with_input(&args, load);
    let table = text(&output.stdout);
    assert!(
        table.contains("stdin on tc2") && table.contains("piped/run"),
        "{table}"
    );

    let machine = std::fs::read_to_string(crate::common::root().join("machines/tc2.toml")).unwrap();
    let output = with_input(&["machine", "check", "-"], &machine);
    assert!(
        text(&output.stdout).contains("machine tc2"),
        "{}",
        text(&output.stderr)
    );
    let output = with_input(&["workload", "check", "-"], "{");
    assert!(
        text(&output.stderr).contains("<stdin>:1:"),
        "{}",
        text(&output.stderr)
    );
    let output = with_input(&["policy", "check", "-"], "nonsense = 1\n");
    assert!(
        text(&output.stderr).contains("<stdin>:1:"),
        "{}",
        text(&output.stderr)
    );

    let args = words("compare --machine - --workload - --policy cfs");
    let output = with_input(&args, &machine);
    assert_eq!(output.status.code(), Some(2));
    let says = text(&output.stderr);
    has!(says, "standard input has already been read");
}

#[test]
fn short_options_mean_the_same() {
    let long = words("compare --machine smp-2 --workload busy:duration=10ms");
    let long = stdout(
        &[
            &long[..],
            &["--policy", "cfs", "--runs", "2", "--format", "json"],
        ]
        .concat(),
    );
    let short = words("compare -m smp-2 -w busy:duration=10ms -p cfs --runs 2 --json");
    assert_eq!(stdout(&short), long);
    let output = run(&["machine", "list", "--json", "--format", "csv"]);
    assert_eq!(output.status.code(), Some(2));
}
