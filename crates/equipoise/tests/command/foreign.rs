//! Somebody else's scheduler: what it does to itself is its fault and named, and it does nothing to anything else.

use crate::common::{run, text};
use std::path::PathBuf;
use tempfile::TempDir;

/// A scheduler whose `ops.enqueue()` does `body`, with `globals` before it.
struct Scheduler {
    _folder: TempDir,
    file: PathBuf,
}

impl Scheduler {
    fn new(globals: &str, body: &str) -> Scheduler {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("faulty.bpf.c");
        let text = format!(
            r#"#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
volatile u64 sink, one = 1, zero;
{globals}
void BPF_STRUCT_OPS(faulty_enqueue, struct task_struct *p, u64 enq_flags) {{
{body}
}}
SCX_OPS_DEFINE(faulty_ops, .enqueue = (void *)faulty_enqueue, .name = "faulty");
"#
        );
        std::fs::write(&file, text).unwrap();
        Scheduler {
            _folder: folder,
            file,
        }
    }

    /// The command fails with `status` and one message with all of `parts`, and prints nothing else.
    #[track_caller]
    fn fails(&self, status: i32, parts: &[&str]) {
        let workload = "hackbench:groups=1,loops=10";
        let mut args = vec!["compare", "--machine", "tc2", "--workload", workload];
        args.extend(["--scheduler", self.file.to_str().unwrap()]);
        let output = run(&args);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{stderr}");
        assert_eq!(text(&output.stdout), "");
        for part in parts {
            assert!(stderr.contains(part), "{part} is not in {stderr}");
        }
    }
}

/// The line of `body`.
const LINE: &str = "faulty.bpf.c:6";

#[test]
#[cfg(target_arch = "x86_64")]
fn a_division_without_result_is_reported_with_its_line() {
    for division in ["one / zero", "(s64)(one << 63) / -(s64)one"] {
        let faulty = Scheduler::new("", &format!("\tsink = {division};"));
        faulty.fails(
            1,
            &["scheduler `faulty`", "its enqueue()", LINE, "divided by"],
        );
    }
}

#[test]
fn a_wild_pointer_and_an_endless_recursion_are_reported_with_their_line() {
    let wild = Scheduler::new("", "\tsink = *(volatile u64 *)one;");
    wild.fails(1, &["its enqueue()", LINE, "memory that is not there"]);
    let deep = Scheduler::new(
        "",
        "\tvolatile u64 frame[1000] = {}; faulty_enqueue(p, enq_flags); sink = frame[5];",
    );
    // Where it needs its stack, at its beginning.
    deep.fails(
        1,
        &[
            "its enqueue()",
            "faulty.bpf.c:5",
            "memory that is not there",
        ],
    );
}

#[test]
fn a_call_without_end_is_reported_with_its_line() {
    let endless = Scheduler::new("", "\twhile (zero == 0);");
    endless.fails(1, &["its enqueue()", LINE, "did not return"]);
}

/// `number(a, b, c)` by the instruction itself, as the C library's functions are refused when it is compiled.
#[cfg(target_arch = "x86_64")]
fn system_call(number: libc::c_long, arguments: [&str; 3]) -> String {
    let [a, b, c] = arguments;
    format!(
        "\tsink = ({{ s64 result; asm volatile(\"syscall\" : \"=a\"(result) : \"a\"({number}ULL), \"D\"({a}), \
         \"S\"({b}), \"d\"({c}) : \"rcx\", \"r11\", \"memory\"); result; }});"
    )
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_system_call_is_reported_and_not_made() {
    let calls = [
        system_call(libc::SYS_exit_group, ["0L", "0L", "0L"]),
        system_call(libc::SYS_fork, ["0L", "0L", "0L"]),
        system_call(libc::SYS_write, ["1L", "\"hello\"", "5L"]),
        system_call(libc::SYS_getpid, ["0L", "0L", "0L"]),
    ];
    for call in calls {
        let faulty = Scheduler::new("", &call);
        faulty.fails(1, &["scheduler `faulty`", LINE, "made a system call"]);
    }
}

#[test]
fn what_runs_when_it_is_loaded_is_refused() {
    let constructor = "__attribute__((constructor)) static void start(void) { while (zero == 0); }";
    let faulty = Scheduler::new(constructor, "");
    faulty.fails(2, &["faulty.bpf.c", "constructor"]);
    let ifunc = "static void nothing(void) {}\nstatic void *choose(void) { return nothing; }\n\
                 void either(void) __attribute__((ifunc(\"choose\")));";
    let faulty = Scheduler::new(ifunc, "\teither();");
    faulty.fails(2, &["faulty.bpf.c", "ifunc"]);
}

#[test]
fn globals_of_gigabytes_are_refused() {
    for gib in [2, 8] {
        let globals = format!("char much[{gib}ULL << 30];");
        let faulty = Scheduler::new(&globals, "\tmuch[one] = 1;");
        faulty.fails(2, &["faulty.bpf.c", "more than 1 GiB"]);
    }
}
