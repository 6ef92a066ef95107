//! Bad input: one message with file, line and what was expected; exit status 2; nothing written.

use crate::common::{command, file, files, objects, root, run_badly, text, words};

fn compare<'a>(machine: &'a str, workload: &'a str, policy: &'a str) -> Vec<&'a str> {
    vec!["compare", "-m", machine, "-w", workload, "-p", policy]
}

/// Runs the command in a folder where `name` has `content`; it must fail with status 2, print
/// nothing on standard output and write no file. Returns the message.
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
        assert_eq!(
            complaint.matches("error: ").count(),
            1,
            "{args:?}: {complaint}"
        );
    }
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
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
fn a_load_has_the_same_name_in_every_message() {
    let wrong = r#"{ "tasks": { "a": { "run": -1 } } }"#;
    for args in ["workload check w.json", "compare -m tc2 -p cfs -w w.json"] {
        let message = complaint("w.json", wrong, &words(args));
        has!(message, "error: w.json:1: ");
        assert!(!message.contains("./w.json"), "{args}: {message}");
    }
}

#[test]
fn a_folder_is_not_an_unknown_name() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("mine")).unwrap();
    for args in [
        "compare -m mine -w busy -p cfs",
        "compare -m tc2 -w mine -p cfs",
        "compare -m tc2 -w busy -p mine",
    ] {
        let output = command(args).current_dir(folder.path()).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args}: {stderr}");
        has!(stderr, "mine: Is a directory");
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
        (vec!["--scheduler", "a.bpf.c", "--set", "a"], "VAR=VALUE"),
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
    let args = words("compare --machine tc2 --workload busy --scheduler s.bpf.c");
    let complaint = complaint("s.bpf.c", "int x = ;\n", &args);
    has!(complaint, "s.bpf.c:1");
}

#[test]
fn a_node_that_the_machine_does_not_have_is_refused() {
    let mut args = vec!["compare", "--machine", "smp-2x8", "--workload", "busy"];
    args.extend(["--policy", "cfs", "--cpunodebind", "2"]);
    let stderr = complaint("some.file", "", &args);
    has!(stderr, "`2` is not a node of smp-2x8");
    has!(stderr, "nodes from 0 to 1");
    *args.last_mut().unwrap() = "1,2";
    let stderr = complaint("some.file", "", &args);
    has!(stderr, "`1,2` are not nodes of smp-2x8");
}

/// `cpus` of a file for a machine with CPUs 0 to 4.
const BOUND: &str = r#"{
  "tasks": { "t": {
    "cpus": [CPUS],
    "loop": 1, "run": 10
  } }
}"#;

#[test]
fn loads_that_do_not_suit_the_machine_or_never_end_are_errors_with_a_line() {
    let mut args = vec!["compare", "--machine", "tc2", "--policy", "cfs"];
    args.extend(["--workload", "w.json"]);
    let bound = complaint("w.json", &BOUND.replace("CPUS", "2, 7"), &args);
    has!(bound, "w.json:3: a task is bound to CPUs 2,7");
    let bound = complaint("w.json", &BOUND.replace("CPUS", "7"), &args);
    has!(
        bound,
        "a task is bound to CPU 7, but machine `tc2` has CPUs 0-4"
    );
    let empty = complaint("w.json", &BOUND.replace("CPUS", ""), &args);
    has!(empty, "w.json:3: `cpus` is an empty array");
    let long = r#"{ "global": {
        "duration": 1000000000 }, "tasks": { "t": { "loop": -1, "run": 10 } } }"#;
    let long = complaint("w.json", long, &args);
    has!(long, "w.json:2: `duration`");
}

/// Tasks that loop forever have a default duration, which does not hide their deadlock.
#[test]
fn a_deadlock_names_its_mutexes() {
    for times in [1, -1] {
        let task = |first: &str, second: &str| {
            format!(
                r#"{{ "loop": {times}, "lock1": "{first}", "sleep": 1000, "lock2": "{second}",
                     "unlock2": "{second}", "unlock1": "{first}" }}"#
            )
        };
        let text_of = format!(
            r#"{{ "tasks": {{ "a": {}, "b": {} }} }}"#,
            task("left", "right"),
            task("right", "left")
        );
        let (_folder, file) = file("w.json", text_of);
        let mut args = vec!["compare", "--machine", "tc2", "--policy", "cfs"];
        args.extend(["--workload", &file]);
        let output = command(&args).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        for part in [
            "deadlock",
            "waits for mutex `left`",
            "waits for mutex `right`",
        ] {
            assert!(stderr.contains(part), "{part} is not in {stderr}");
        }
    }
}

#[test]
fn a_file_that_is_not_utf_8_is_named_with_the_line() {
    let folder = tempfile::tempdir().unwrap();
    for (name, args, expected) in [
        ("m.toml", ["machine", "check"], "a machine file"),
        ("w.json", ["workload", "check"], "an rt-app JSON file"),
        ("p.toml", ["policy", "check"], "a policy file"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, b"\n\n\xff = 1").unwrap();
        let message = run_badly(&[args[0], args[1], path.to_str().unwrap()]);
        has!(message, &format!("{name}:3: not UTF-8"));
        has!(message, &format!("expected {expected}"));
    }
}

const BUSY: [&str; 9] = [
    "compare",
    "--machine",
    "tc2",
    "--policy",
    "cfs",
    "--runs",
    "1",
    "--workload",
    "busy:duration=0.01",
];

#[test]
fn a_message_that_goes_nowhere_changes_nothing() {
    let full = || std::fs::File::create("/dev/full").unwrap();
    for help in ["--help", "--version"] {
        let output = command(&[help]).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{help}");
        has!(text(&output.stderr), "No space left on device");
    }
    let args = ["machine", "show", "nothing"];
    let status = command(&args).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(2));
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.txt");
    let traced = ["--policy", "eevdf", "--trace", trace.to_str().unwrap()];
    let output = command(&[&BUSY[..], &traced].concat())
        .stderr(full())
        .output()
        .unwrap();
    assert!(output.status.success());
    has!(text(&output.stdout), "busy:duration=0.01 on tc2");
    assert_eq!(files(folder.path()).len(), 2);
}

#[test]
fn output_that_goes_nowhere_is_an_error() {
    let mut closed = command(&BUSY);
    // SAFETY: the call closes a descriptor of the new process.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut closed, || {
            libc::close(1);
            Ok(())
        });
    }
    let output = closed.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("standard output is closed"));
    let mut args = BUSY.to_vec();
    args[8] = "busy:duration=3600,threads=512";
    let output = command(&args).args(["--out", "/proc/self"]).output();
    let output = output.unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    has!(stderr, "/proc/self");
    let (_folder, file) = file("results", "");
    let message = run_badly(&["machine", "list", "--out", &file]);
    has!(message, "results: not a folder");
}

#[test]
fn without_threads_one_does_it_all() {
    let folder = tempfile::tempdir().unwrap();
    // The copies are in a folder where a user other than root can read them. Another process makes the
    // copies: otherwise a test that starts a process at this moment would inherit the file open for
    // writing, and running it would fail.
    let program = folder.path().join("equipoise");
    let copied = std::process::Command::new("cp")
        .args(["-r", env!("CARGO_BIN_EXE_equipoise")])
        .args([objects(), folder.path()])
        .status();
    assert!(copied.unwrap().success());
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let mut alone = std::process::Command::new(&program);
    alone.args(BUSY).current_dir("/");
    alone.env(
        "EQUIPOISE_OBJECTS",
        folder.path().join(objects().file_name().unwrap()),
    );
    // SAFETY: these calls may be made after fork(). The process changes its user, because root is
    // exempt from the limit.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut alone, || {
            let one = libc::rlimit {
                rlim_cur: 1,
                rlim_max: 1,
            };
            libc::setrlimit(libc::RLIMIT_NPROC, &raw const one);
            if libc::getuid() == 0 {
                libc::setgid(65534);
                libc::setuid(65534);
            }
            Ok(())
        });
    }
    let output = alone.output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(text(&output.stdout).contains("work"));
}

#[test]
fn all_errors_of_a_machine_file_come_at_once_with_their_lines() {
    let machine = std::fs::read_to_string(root().join("machines/smp-2.toml")).unwrap();
    let line_of = |part: &str| {
        machine
            .lines()
            .position(|line| line.starts_with(part))
            .unwrap()
            + 1
    };
    let wrong = [
        ("hz = ", "hz = 5"),
        ("capacity = ", "capacity = 0"),
        ("wakeup_ns = ", "wakeup_ns = 5_000_000_000"),
    ];
    let mut text_of = machine.clone();
    for (key, bad) in wrong {
        let line = machine.lines().nth(line_of(key) - 1).unwrap();
        text_of = text_of.replacen(line, bad, 1);
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("m.toml"), text_of).unwrap();
    let check = |args: &[&str]| command(args).current_dir(folder.path()).output().unwrap();
    let output = check(&["machine", "check", "m.toml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for (key, _) in wrong {
        assert!(
            said.contains(&format!("m.toml:{}:", line_of(key))),
            "{key}: {said}"
        );
    }
    assert_eq!(said.matches("error: ").count(), wrong.len(), "{said}");
}

#[test]
fn gaps_of_a_machine_file_are_warnings_and_errors_if_strict() {
    let folder = tempfile::tempdir().unwrap();
    let file = "name = \"m\"\n[core.big]\n[[package]]\n[[package.cluster]]\ncore = \"big\"\ncpus = \"0-1\"\n";
    std::fs::write(folder.path().join("m.toml"), file).unwrap();
    let check = |args: &[&str]| command(args).current_dir(folder.path()).output().unwrap();
    let output = check(&["machine", "check", "m.toml"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    has!(said, "warning: m.toml: big has no idle states");
    let output = check(&["machine", "check", "--strict", "m.toml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    has!(said, "2 warnings");
    let output = check(&["machine", "show", "m.tml"]);
    let said = text(&output.stderr);
    has!(said, "m.tml: No such file");
}

#[test]
fn a_file_of_another_kind_is_named() {
    let root = crate::common::root();
    for (kind, file, says) in [
        (
            "machine",
            "tests/loads/first-cpu-in-mask.json",
            "is a workload file, not a machine file",
        ),
        (
            "workload",
            "machines/tc2.toml",
            "is a machine file, not a workload file",
        ),
        (
            "policy",
            "machines/tc2.toml",
            "is a machine file, not a policy file",
        ),
    ] {
        let file = root.join(file);
        let message = run_badly(&[kind, "check", file.to_str().unwrap()]);
        has!(message, says);
    }
}

#[test]
fn shown_defaults_can_be_typed() {
    let said = crate::common::stdout(&["workload", "show", "cyclictest"]);
    let line = said
        .lines()
        .find(|line| line.starts_with(" duration "))
        .unwrap();
    assert_eq!(line.split_whitespace().nth(1), Some("10s"), "{said}");
    crate::common::stdout(&["workload", "show", "cyclictest:duration=10s"]);
}
