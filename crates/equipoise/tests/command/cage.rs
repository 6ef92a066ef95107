//! A foreign scheduler runs in a process without rights; `tests/misbehave` has schedulers that try
//! to use them.

use crate::common::{command, file, text, words};
use crate::foreign::{Scheduler, compare, fifo, switches};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

fn below(parent: u32) -> Vec<u32> {
    let folders = fs::read_dir("/proc").unwrap().flatten();
    let parent_of = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.split(' ').nth(1)?.parse().ok()
    };
    let pids: Vec<u32> = folders
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    let children: Vec<u32> = pids
        .into_iter()
        .filter(|&pid| parent_of(pid) == Some(parent))
        .collect();
    let deeper = children.iter().flat_map(|&child| below(child));
    deeper.chain(children.clone()).collect()
}

fn running() -> (Scheduler, Child) {
    let endless = Scheduler::new("", "\twhile (zero == 0);");
    let args = ["compare", "--machine", "tc2", "--runs", "1"];
    let child = command(&args)
        .args(["--workload", "hackbench:groups=1,loops=10", "--scheduler"])
        .arg(endless.file())
        .env("SECRET", "swordfish")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (endless, child)
}

fn eventually<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "nothing was found in 30 s"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn line(status: &str, name: &str) -> String {
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_default().trim().to_owned()
}

#[test]
fn its_process_has_nothing() {
    let (_scheduler, mut child) = running();
    // There are two seccomp filters: one from before the scheduler was loaded, and one from after.
    let caged = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        (line(&status, "Seccomp_filters") == "2").then_some((*pid, status))
    };
    let (pid, status) = eventually(|| below(child.id()).iter().find_map(caged));
    let file = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
    assert_eq!(line(&status, "NoNewPrivs"), "1");
    assert_eq!(fs::read(file("environ")).unwrap(), b"");
    let stat = fs::read_to_string(file("stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!(fields[4], "0");
    let own = fs::read_to_string("/proc/self/stat").unwrap();
    assert_ne!(
        Some(fields[3]),
        own.rsplit_once(") ").unwrap().1.split(' ').nth(3)
    );
    for entry in fs::read_dir(file("fd")).unwrap().flatten() {
        let leads = fs::read_link(entry.path()).unwrap();
        let leads = leads.to_str().unwrap();
        assert!(
            leads.starts_with("pipe:") || leads.contains("memfd:scheduler"),
            "{leads}"
        );
    }
    let limits = fs::read_to_string(file("limits")).unwrap();
    for name in [
        "Max file size",
        "Max core file size",
        "Max open files",
        "Max processes",
    ] {
        let limit = limits.lines().find_map(|line| line.strip_prefix(name));
        let most: Vec<&str> = limit.unwrap().split_whitespace().take(2).collect();
        assert_eq!(most, ["0", "0"], "{name}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_worker_ends_with_the_process_that_started_it() {
    let (_scheduler, mut child) = running();
    let all = eventually(|| Some(below(child.id())).filter(|all| all.len() == 2));
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
    eventually(|| all.iter().all(gone).then_some(()));
}

#[test]
fn results_do_not_depend_on_the_number_of_processes() {
    let source = fifo("fifo", "GPL", "");
    let files = [("a.bpf.c", &*source)];
    let output = compare(&files, &["--scheduler", "a.bpf.c"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let again = compare(&files, &["--scheduler", "a.bpf.c", "--jobs", "1"]);
    assert_eq!(output.stdout, again.stdout);
}

/// Simulates a kernel without `call`: the call fails with ENOSYS.
fn lacking(call: libc::c_long, more: &[&str]) -> std::process::Output {
    let (_folder, file) = file("a.bpf.c", fifo("fifo", "GPL", ""));
    let args = words("compare --machine tc2-smp --runs 1 --workload");
    let mut command = command(&args);
    command
        .args(["busy:duration=10ms", "--scheduler"])
        .arg(&file)
        .args(more);
    let lacks = move || {
        let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        let refuse = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
        let mut filter = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            step(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                0,
                1,
                call as u32,
            ),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, refuse),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_mut_ptr(),
        };
        // SAFETY: the call reads `program`, which lives as long.
        match unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            )
        } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the function only makes system calls.
    unsafe { command.pre_exec(lacks) };
    command.output().unwrap()
}

#[test]
fn missing_protection_is_reported_once_and_requires_uncaged() {
    for (call, name) in [
        (libc::SYS_landlock_create_ruleset, "Landlock"),
        (libc::SYS_seccomp, "seccomp"),
    ] {
        let output = lacking(call, &[]);
        let says = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{says}");
        has!(says, &format!("this kernel lacks {name}"));
        has!(says, "--uncaged");
        let output = lacking(call, &["--uncaged"]);
        let says = text(&output.stderr);
        assert!(output.status.success(), "{says}");
        assert_eq!(says.matches(name).count(), 1, "{says}");
        assert!(says.starts_with("warning: "), "{says}");
    }
}

#[test]
fn the_compiler_reads_headers_and_nothing_else() {
    let (_folder, outside) = file("secret.h", "swordfish\n");
    for way in [
        format!("#include \"{outside}\""),
        format!("asm(\".incbin \\\"{outside}\\\"\");"),
        "#include \"/proc/self/environ\"".to_owned(),
    ] {
        let output = compare(
            &[("a.bpf.c", &fifo("a", "GPL", &way))],
            &["--scheduler", "a.bpf.c"],
        );
        let says = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{way}: {says}");
        has!(says, "a.bpf.c");
        assert!(!says.contains("swordfish"), "{says}");
    }
    let source = fifo("a", "GPL", "#include \"here.h\"\n#include <there.h>");
    let files = [
        ("a.bpf.c", &*source),
        ("here.h", "int here;\n"),
        ("include/there.h", "int there;\n"),
    ];
    let output = compare(&files, &["--scheduler", "a.bpf.c", "--include", "include"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn write_program(file: &Path, does: &str) {
    fs::write(file, format!("#!/bin/sh\n{does}\n")).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Landlock lets a process change the modes of files that it may not read.
#[test]
fn the_compiler_changes_no_modes() {
    let folder = tempfile::tempdir().unwrap();
    let (source, compiler, victim) = (
        folder.path().join("a.bpf.c"),
        folder.path().join("bin/cc"),
        folder.path().join("victim"),
    );
    fs::create_dir(folder.path().join("bin")).unwrap();
    fs::write(&source, fifo("fifo", "GPL", "")).unwrap();
    fs::write(&victim, "").unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o644)).unwrap();
    let tries = format!(
        "chmod 4777 {} && echo done\necho tried >&2\nexit 1",
        victim.display()
    );
    write_program(&compiler, &tries);
    let args = ["compare", "--machine", "tc2-smp", "--runs", "1"];
    let output = command(&args)
        .args(["--workload", "busy:duration=10ms", "--scheduler"])
        .arg(&source)
        .env("CC", &compiler)
        .output()
        .unwrap();
    let says = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{says}");
    has!(says, "tried");
    let mode = fs::metadata(&victim).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o644, "{says}");
}

/// If `cc` fails, clang is tried, but not after `cc` has reached a limit: the time of both would add up.
#[test]
fn a_compiler_that_reaches_a_limit_is_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let (source, programs) = (folder.path().join("a.bpf.c"), folder.path().join("bin"));
    fs::write(&source, fifo("fifo", "GPL", "")).unwrap();
    fs::create_dir(&programs).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|folder| folder.join("cc"));
    let real = real.into_iter().find(|path| path.is_file()).unwrap();
    let program = |name: &str, does: &str| write_program(&programs.join(name), does);
    program("clang", &format!("exec {} \"$@\"", real.display()));
    let run = || {
        let folders = std::iter::once(programs.clone()).chain(std::env::split_paths(&path));
        let args = ["compare", "--machine", "tc2-smp", "--runs", "1"];
        let output = command(&args)
            .args(["--workload", "busy:duration=10ms", "--scheduler"])
            .arg(&source)
            .env_remove("CC")
            .env("PATH", std::env::join_paths(folders).unwrap())
            .output()
            .unwrap();
        (output.status.code(), text(&output.stderr).to_owned())
    };
    program("cc", "echo CPU time limit exceeded >&2; exit 1");
    let (code, says) = run();
    assert_eq!(code, Some(2), "{says}");
    has!(says, "s of CPU time; expected less");
    program("cc", "echo error: not for me >&2; exit 1");
    let (code, says) = run();
    assert_eq!(code, Some(0), "{says}");
}

#[test]
fn a_file_is_no_option_of_the_compiler_s() {
    let source = fifo("a", "GPL", "");
    for name in ["-x.bpf.c", "@x.bpf.c"] {
        let scheduler = format!("--scheduler={name}");
        let output = compare(&[(name, &source)], &[&scheduler]);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    }
}

#[test]
fn output_of_a_scheduler_is_shown_and_not_interpreted() {
    let shouts = Scheduler::new("", "\tscx_bpf_error(\"\\033[2Jone\\nerror: two\");");
    shouts.fails(3, &["scx_bpf_error: \\u{1b}[2Jone\\nerror: two"]);
}

#[test]
fn a_loader_s_part_runs_in_the_cage_and_sets_constants() {
    let source = fifo("fifo", "GPL", "");
    let loader = "#include <equipoise/loader.h>
LOADER_TIMER(later) { (void)map, (void)key; return later_start(1000000, 0); }
LOADER() { loader_set(slice, 1000000); return later_start(1000000, 0); }";
    let part = format!("{source}{loader}\n");
    let files = [("a.bpf.c", &*source), ("b.bpf.c", &*part)];
    let of = |args: &[&str]| switches(&compare(&files, args));
    let set = of(&["--scheduler", "b.bpf.c"]);
    assert_eq!(
        set,
        of(&["--scheduler", "a.bpf.c", "--set", "slice=1000000"])
    );
    assert_ne!(set, of(&["--scheduler", "a.bpf.c"]));
}
