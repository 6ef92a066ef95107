//! A stranger's file does not reach other files or processes, and does not act on the readers of results.

use crate::common::{command, text, words};
use crate::foreign::fifo;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

fn slow() -> String {
    let doubled = (1..18).map(|n| format!("#define m{n} m{} m{}\n", n - 1, n - 1));
    let doubled: String = doubled.collect();
    let macros = format!("volatile long x;\n#define m0 x++;\n{doubled}void f(void) {{ m17 m17 }}");
    fifo("slow", "GPL", &macros)
}

/// The number of processes with `word` in their command lines.
fn with(word: &str) -> usize {
    let folders = fs::read_dir("/proc").unwrap().flatten();
    let lines = folders.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(word))
        .count()
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn compare(file: &Path, temporary: &Path) -> std::process::Command {
    let mut command = command("compare --machine tc2-smp --runs 1 --workload");
    command
        .args(["busy:duration=10ms", "--scheduler"])
        .arg(file);
    command.env("TMPDIR", temporary).stdin(Stdio::null());
    command
}

#[test]
fn a_killed_command_leaves_no_compiler_and_the_next_one_removes_its_folders() {
    let folder = tempfile::tempdir().unwrap();
    let (file, quick, temporary) = (
        folder.path().join("slow.bpf.c"),
        folder.path().join("quick.bpf.c"),
        folder.path().join("tmp"),
    );
    fs::create_dir(&temporary).unwrap();
    fs::write(&file, slow()).unwrap();
    fs::write(&quick, fifo("fifo", "GPL", "")).unwrap();
    let word = temporary.to_str().unwrap();
    let left = || fs::read_dir(&temporary).unwrap().count();
    for signal in [libc::SIGKILL, libc::SIGTERM] {
        let mut child = compare(&file, &temporary)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("no compiler", || with(word) >= 2);
        // SAFETY: the process is this one's child.
        unsafe { libc::kill(child.id() as i32, signal) };
        child.wait().unwrap();
        eventually("a compiler is left", || with(word) == 0);
        assert!(left() > 0);
        let output = compare(&quick, &temporary).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(left(), 0);
    }
}

#[test]
fn a_compiler_beside_the_source_opens_no_folder_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("secret"), "swordfish").unwrap();
    fs::write(path("cc"), "#!/bin/sh\nexec cc \"$@\"\n").unwrap();
    fs::set_permissions(path("cc"), fs::Permissions::from_mode(0o755)).unwrap();
    let steals = "asm(\".globl stolen\\nstolen: .incbin \\\"secret\\\"\\n.byte 0\");";
    let run = |globals: &str| {
        fs::write(path("a.bpf.c"), fifo("a", "GPL", globals)).unwrap();
        let output = compare(Path::new("a.bpf.c"), folder.path())
            .current_dir(folder.path())
            .env("CC", "./cc")
            .output()
            .unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, says) = run("");
    assert_eq!(code, Some(0), "{says}");
    let (code, says) = run(steals);
    assert_eq!(code, Some(2), "{says}");
}

/// A thread's name that would act on a terminal, end an element, a line and a cell, and reverse the following text.
const NAME: &str = "=x\\n evil-66 [000] .....     0.000000001: sched_switch: \\u001b]0;x\\u0007</script><b>\\u202e\\u2066";

fn is_plain(shown: &str) -> bool {
    let acts = |c: char| c.is_control() && c != '\n' && c != '\t';
    !shown.contains(acts) && !shown.contains(['\u{202e}', '\u{2066}'])
}

#[test]
fn a_thread_s_name_acts_on_no_reader() {
    let folder = tempfile::tempdir().unwrap();
    let load = folder.path().join("\u{1b}[31m\u{202e}load.json");
    let task = "{\"loop\": 3, \"run\": 10, \"sleep\": 10}";
    let load_text =
        format!("{{\"tasks\": {{\"{NAME}\": {task}}}, \"global\": {{\"duration\": 1}}}}");
    fs::write(&load, load_text).unwrap();
    let run = |more: &[&str]| -> Output {
        let args = words("compare --machine tc2 --runs 1 --policy eevdf");
        let mut command = command(&args);
        command.arg("--workload").arg(&load).args(more);
        command.output().unwrap()
    };
    for format in ["table", "json", "csv", "html", "svg"] {
        let output = run(&["--format", format]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let shown = text(&output.stdout);
        assert!(
            is_plain(&shown) && is_plain(&text(&output.stderr)),
            "{format}"
        );
        assert!(
            !shown.contains("</script><b>") || !matches!(format, "html" | "svg"),
            "{format}"
        );
        let formula = |cell: &str| cell.starts_with("=x") || cell.starts_with("\"=x");
        let is_formula = format == "csv" && shown.split([',', '\n']).any(formula);
        assert!(!is_formula, "{format}");
    }
    let trace = folder.path().join("trace.txt");
    let output = run(&["--trace", trace.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let traced = fs::read_to_string(&trace).unwrap();
    assert!(is_plain(&traced));
    assert!(
        !traced
            .lines()
            .any(|line| line.trim_start().starts_with("evil-66"))
    );
    let mut diff = command("explain --machine tc2 --policy eevdf --diff cfs --format json");
    let output = diff.arg("--workload").arg(&load).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(is_plain(&text(&output.stdout)));
    let output = run(&["--scheduler", "\u{1b}[2J\u{202e}absent"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(is_plain(&text(&output.stderr)), "{}", text(&output.stderr));
}

/// The page gives the command that explains a missed period of a thread.
#[test]
fn a_thread_s_name_is_one_word_of_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let load = folder.path().join("load.json");
    let task = "{\"loop\": 3, \"run\": 10, \"timer\": {\"ref\": \"t\", \"period\": 1000}}";
    let load_text =
        format!("{{\"tasks\": {{\"ui; x\": {task}}}, \"global\": {{\"duration\": 1}}}}");
    fs::write(&load, load_text).unwrap();
    let mut command = command("compare --machine tc2 --runs 1 --policy eevdf --format html");
    let output = command.arg("--workload").arg(&load).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = text(&output.stdout);
    assert!(page.contains("\"'ui; x'\""), "{page}");
}
