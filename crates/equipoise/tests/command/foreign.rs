//! Foreign schedulers: the command names their faults, and they cannot harm anything else.

use crate::common::{command, file, run, text, words};
use std::path::PathBuf;
use tempfile::TempDir;

/// A scheduler whose `ops.enqueue()` executes `body`, with `globals` before it.
pub struct Scheduler {
    _folder: TempDir,
    file: PathBuf,
}

impl Scheduler {
    pub fn new(globals: &str, body: &str) -> Scheduler {
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

    pub fn file(&self) -> &std::path::Path {
        &self.file
    }

    /// The command fails with `status` and one message that contains all of `parts`, and prints
    /// nothing else.
    #[track_caller]
    pub fn fails(&self, status: i32, parts: &[&str]) {
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

pub const LINE: &str = "faulty.bpf.c:6";

#[test]
fn what_a_scheduler_lacks_is_named_with_what_to_add() {
    for (globals, body, told) in [
        (
            "",
            "bpf_strstr(p->comm, \"make\");",
            "bpf_strstr() is a kfunc of Linux that the simulated kernel does not support",
        ),
        (
            "",
            "scx_atq_insert(0, 0);",
            "scx_atq_insert() is a function of scx's library; include <lib/atq.h>, with its folder as `--include DIR`, \
             and add its lib/atq.bpf.c to the scheduler's files",
        ),
        (
            "int scx_atq_nr_queued(void *atq);",
            "sink = scx_atq_nr_queued(0);",
            "scx_atq_nr_queued() is a function of scx's library; add its lib/atq.bpf.c to the scheduler's files",
        ),
        (
            "",
            "FOR_EACH_LAYER(0);",
            "FOR_EACH_LAYER() is a macro that no header defines; add the folder of its header as `--include DIR`",
        ),
        (
            "",
            "sink = MAX_LAYERS;",
            "; if a header defines it, add the header's folder as `--include DIR`",
        ),
    ] {
        let told = match told.starts_with(';') {
            true => told.to_owned(),
            false => format!("{LINE}: {told}"),
        };
        Scheduler::new(globals, body).fails(2, &[&told]);
    }
    Scheduler::new("#include <lib/atq.h>", "").fails(
        2,
        &["faulty.bpf.c:4: no header <lib/atq.h>; add the folder of scx's headers (bpf_h of its crate scx_cargo)"],
    );
}

#[test]
fn a_division_has_the_result_that_bpf_gives_it() {
    let source = fifo_with(
        r#"
volatile u64 one = 1, zero;
volatile s64 least = (s64)(1ULL << 63);
volatile u32 narrow_one = 1, narrow_zero;
volatile s32 narrow_least = (s32)(1U << 31);
static void today(struct task_struct *p, u64 enq_flags)
{
    s64 minus_one = -(s64)one;
    s32 narrow_minus_one = -(s32)narrow_one;
    // In each place the compiler cannot replace the division by a comparison.
    volatile u64 plain[] = { one / zero, one % zero };
    volatile s64 by_zero[] = { least / (s64)zero, least % (s64)zero };
    volatile s64 by_minus_one[] = { least / minus_one, least % minus_one };
    volatile u32 narrow[] = { narrow_one / narrow_zero, narrow_one % narrow_zero };
    volatile s32 narrow_by_zero[] = { narrow_least / (s32)narrow_zero, narrow_least % (s32)narrow_zero };
    volatile s32 narrow_by_minus_one[] = { narrow_least / narrow_minus_one, narrow_least % narrow_minus_one };

    if (plain[0] != 0 || plain[1] != 1 || by_zero[0] != 0 || by_zero[1] != least)
        scx_bpf_error("by zero");
    if (by_minus_one[0] != least || by_minus_one[1] != 0)
        scx_bpf_error("by -1");
    if (narrow[0] != 0 || narrow[1] != 1 || narrow_by_zero[0] != 0 || narrow_by_zero[1] != narrow_least)
        scx_bpf_error("narrow by zero");
    if (narrow_by_minus_one[0] != narrow_least || narrow_by_minus_one[1] != 0)
        scx_bpf_error("narrow by -1");
}
"#,
    );
    let output = compare(&[("a.bpf.c", &source)], &["--scheduler", "a.bpf.c"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_wild_pointer_and_an_endless_recursion_are_reported_with_their_line() {
    let wild = Scheduler::new("", "\tsink = *(volatile u64 *)one;");
    wild.fails(3, &["its enqueue()", LINE, "accessed an invalid address"]);
    let deep = Scheduler::new(
        "\n__noinline u64 deep(u64 n) { volatile u64 frame[1000] = {}; return deep(n + frame[5]) + \
         frame[6]; }",
        "\tsink = deep(one);",
    );
    // The stack's address decides where in the function the fault occurs, so the whole function is
    // on line 5.
    deep.fails(
        3,
        &[
            "its enqueue()",
            "faulty.bpf.c:5",
            "accessed an invalid address",
        ],
    );
}

#[test]
fn a_call_without_end_is_reported_with_its_line() {
    let endless = Scheduler::new("", "\twhile (zero == 0);");
    endless.fails(3, &["its enqueue()", LINE, "did not return"]);
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
        faulty.fails(3, &["scheduler `faulty`", LINE, "made a system call"]);
    }
}

#[test]
fn code_that_runs_at_load_time_is_refused() {
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

/// A scheduler with one queue, called `name`, which declares the licence `license`, with `global` before
/// it.
pub fn fifo(name: &str, license: &str, global: &str) -> String {
    format!(
        r#"#include <scx/common.bpf.h>
char _license[] SEC("license") = "{license}";
const volatile u64 slice = 20000000;
{global}
s32 BPF_STRUCT_OPS_SLEEPABLE(fifo_init) {{ return scx_bpf_create_dsq(0, -1); }}
void BPF_STRUCT_OPS(fifo_enqueue, struct task_struct *p, u64 enq_flags) {{
    scx_bpf_dsq_insert(p, 0, slice, enq_flags);
}}
void BPF_STRUCT_OPS(fifo_dispatch, s32 cpu, struct task_struct *prev) {{
    scx_bpf_dsq_move_to_local(0);
}}
SCX_OPS_DEFINE(fifo_ops, .enqueue = (void *)fifo_enqueue, .dispatch = (void *)fifo_dispatch,
    .init = (void *)fifo_init, .name = "{name}");
"#
    )
}

pub fn compare(files: &[(&str, &str)], args: &[&str]) -> std::process::Output {
    compare_on("tc2-smp", files, args)
}

fn compare_on(machine: &str, files: &[(&str, &str)], args: &[&str]) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let workload = [
        "compare",
        "--machine",
        machine,
        "--workload",
        "busy:threads=4,duration=300ms",
    ];
    command(&workload)
        .args(["--runs", "1", "--format", "json"])
        .args(args)
        .current_dir(folder.path())
        .output()
        .unwrap()
}

pub fn switches(output: &std::process::Output) -> Vec<(String, f64)> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let counters = result["counters"].as_array().unwrap();
    let of = |entry: &serde_json::Value| {
        let name = entry["policy"].as_str().unwrap().to_owned();
        (name, entry["context_switches"].as_f64().unwrap())
    };
    counters.iter().map(of).collect()
}

#[test]
fn schedulers_are_named_by_their_ops_and_set_one_by_one() {
    let (one, two) = (fifo("one", "GPL", ""), fifo("two", "GPL", ""));
    let files = [("a/main.bpf.c", &*one), ("b/main.bpf.c", &*two)];
    let schedulers = ["--scheduler", "a/main.bpf.c", "--scheduler", "b/main.bpf.c"];
    let set = ["--set", "slice=95000000", "--set", "two:slice=5000000"];
    let found = switches(&compare(&files, &[&schedulers[..], &set].concat()));
    assert_eq!((&*found[0].0, &*found[1].0), ("one", "two"));
    assert!(found[1].1 > 3.0 * found[0].1, "{found:?}");
    let files = [("a/main.bpf.c", &*one), ("b/main.bpf.c", &*one)];
    let found = switches(&compare(&files, &schedulers));
    assert_eq!(found[0].0, "one (a/main.bpf.c)");
    assert_eq!(found[1].0, "one (b/main.bpf.c)");
}

#[test]
fn a_scheduler_has_several_files_and_folders_of_headers() {
    let main = fifo(
        "parts",
        "GPL",
        "#include \"part.h\"\nu64 other(void) { return part(); }",
    );
    let part = "#include <scx/common.bpf.h>\n#include \"part.h\"\n\
                char _license[] SEC(\"license\") = \"GPL\";\nu64 part(void) { return scx_bpf_nr_cpu_ids(); }\n";
    let files = [
        ("main.bpf.c", &*main),
        ("part.bpf.c", part),
        ("include/part.h", "u64 part(void);\n"),
    ];
    let args = words("--scheduler main.bpf.c,part.bpf.c --include include");
    let found = switches(&compare(&files, &args));
    assert_eq!(found[0].0, "parts");
    let missing = compare(
        &files,
        &["--scheduler", "main.bpf.c", "--include", "include"],
    );
    let says = text(&missing.stderr);
    has!(says, "part() is declared, but not defined");
}

#[test]
fn a_folder_of_headers_must_exist() {
    let main = fifo("main", "GPL", "");
    let files = [("main.bpf.c", &*main)];
    for none in ["no/such/folder", "main.bpf.c"] {
        let args = ["--scheduler", "main.bpf.c", "--include", none];
        let output = compare(&files, &args);
        let says = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{says}");
        has!(says, &format!("--include {none}: no such folder"));
    }
}

#[test]
fn the_compiler_may_be_several_words() {
    let source = fifo("words", "GPL", "#ifndef WORD\n#error no word\n#endif");
    let (_elsewhere, wrapped) = file("wrapped", "exec cc -DWORD \"$@\"\n");
    let (_folder, file) = file("words.bpf.c", source);
    let with = |compiler: &str| {
        let args = words("compare --machine tc2 --workload busy:duration=1ms --runs 1");
        let mut command = command(&args);
        command.arg("--scheduler").arg(&file).env("CC", compiler);
        command.output().unwrap()
    };
    let output = with("cc -DWORD -O1");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let says = text(&with("cc  -O1").stderr);
    has!(says, "no word");
    let output = with(&format!("sh {wrapped}"));
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// The scheduler runs the shell, whose name begins with `s`, and forgets all other tasks.
#[test]
fn tasks_that_are_never_dispatched_are_an_error_with_their_names() {
    let lose = r#"#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
s32 BPF_STRUCT_OPS(lose_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
    return prev_cpu;
}
void BPF_STRUCT_OPS(lose_enqueue, struct task_struct *p, u64 enq_flags)
{
    if (p->comm[0] == 's')
        scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}
SCX_OPS_DEFINE(lose_ops, .select_cpu = (void *)lose_select_cpu, .enqueue = (void *)lose_enqueue, .name = "lose");
"#;
    for duration in ["500ms", "5"] {
        let (_folder, file) = file("lose.bpf.c", lose);
        let workload = format!("mixed:duration={duration}");
        let mut args = vec!["compare", "--machine", "smp-2", "--workload", &workload];
        args.extend(["--scheduler", &file, "--runs", "1"]);
        let output = run(&args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        for words in ["tasks were runnable for ", " s and not dispatched, ", "ui["] {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn schedulers_that_linux_refuses_are_refused() {
    let refused = |source: &str, args: &[&str], parts: &[&str]| {
        let args = [&["--scheduler", "a.bpf.c"], args].concat();
        let output = compare(&[("a.bpf.c", source)], &args);
        let says = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{says}");
        for part in parts {
            assert!(says.contains(part), "{part} is not in {says}");
        }
    };
    refused(
        &fifo("a", "Proprietary", ""),
        &[],
        &["a.bpf.c: its licence is `Proprietary`"],
    );
    let none = fifo("a", "GPL", "").replace("char _license", "char SEC(\".data\") text");
    refused(
        &none.replace(" SEC(\"license\")", ""),
        &[],
        &["a.bpf.c: it has no licence"],
    );
    refused(&fifo("a-b", "GPL", ""), &[], &["ops.name `a-b` has `-`"]);
    refused(&fifo("", "GPL", ""), &[], &["ops.name is empty"]);
    refused(
        &fifo(&"a".repeat(128), "GPL", ""),
        &[],
        &["ops.name has 128 characters"],
    );
    let counts = fifo("a", "GPL", "u64 counter = 1;");
    refused(
        &counts,
        &["--set", "counter=1"],
        &["`counter` is not `const volatile`"],
    );
    refused(
        &counts,
        &["--set", "conter=1"],
        &["not a global variable of a"],
    );
    // The variables that Equipoise's own headers define are only `const`, too.
    let constant = fifo(
        "a",
        "GPL",
        "const volatile u64 own = 1; const u64 fixed = 1;",
    );
    refused(
        &constant,
        &["--set", "fixed=2"],
        &["`fixed` is not `const volatile`; the compiler has replaced it"],
    );
    refused(&constant, &["--set", "owns=2"], &["expected own, slice"]);
    refused(
        &counts,
        &["--set", "b:slice=1"],
        &["no scheduler in C has the name `b`"],
    );
}

/// Uses the interfaces that today's schedulers use; on Linux 6.12 the compatibility headers replace some.
const TODAY: &str = r#"
#include <scx/percpu.bpf.h>
#include <lib/pmu.h>
extern unsigned CONFIG_HZ __kconfig;
u64 peeked, picked, weighed;
static void today(struct task_struct *p, u64 enq_flags)
{
    struct task_struct *first = __COMPAT_scx_bpf_dsq_peek(0);
    struct task_struct *curr = __COMPAT_scx_bpf_cpu_curr(scx_bpf_task_cpu(p));
    s32 cpu = scx_bpf_task_cpu(p);

    if (__COMPAT_is_enq_cpu_selected(enq_flags) && cpu >= (s32)__COMPAT_scx_bpf_nr_node_ids())
        picked++;
    // tc2-smp: two CPUs with one cache, 100 ticks a second.
    if (CONFIG_HZ != 100 || cpu_llc_id(1) != 0 || cpu_llc_id(2) != -1)
        scx_bpf_error("%u ticks a second, LLC %d", CONFIG_HZ, cpu_llc_id(1));
    peeked += first && curr && __COMPAT_scx_bpf_cpu_node(cpu) == 0;
    weighed += scale_by_task_weight(p, 100) == scale_by_task_weight_inverse(p, 100);
    // Later kernels require SCX_OPS_BUILTIN_IDLE_PER_NODE for it.
    if (!bpf_ksym_exists(scx_bpf_get_idle_cpumask_node))
        scx_bpf_put_cpumask(__COMPAT_scx_bpf_get_idle_cpumask_node(0));
    // The kernel counts utime and stime in whole ticks.
    if (p->utime % (1000000000ULL / CONFIG_HZ) || (p->se.sum_exec_runtime > 100000000 && !p->utime))
        scx_bpf_error("%llu ns, by the tick %llu", p->se.sum_exec_runtime, p->utime + p->stime);
    if (time_delta(1, 2) || time_delta(2, 1) != 1 || !scx_pmu_install(1))
        scx_bpf_error("no time before another, and no counters");
    scx_bpf_task_set_slice(p, slice);
    scx_bpf_task_set_dsq_vtime(p, scx_bpf_now());
}
s32 BPF_STRUCT_OPS(fifo_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
    s32 cpu;

    if (__COMPAT_HAS_scx_bpf_select_cpu_and != (LINUX_KERNEL_VERSION >= KERNEL_VERSION(6, 16, 0)))
        scx_bpf_error("Linux has scx_bpf_select_cpu_and() from 6.16 on");
    cpu = scx_bpf_select_cpu_and(p, prev_cpu, wake_flags, p->cpus_ptr, 0);
    return cpu < 0 ? prev_cpu : cpu;
}
"#;

/// [`fifo()`] that calls `today(p, enq_flags)` of `global` whenever it enqueues.
pub fn fifo_with(global: &str) -> String {
    fifo("today", "GPL", global).replace(
        "    scx_bpf_dsq_insert(p",
        "    today(p, enq_flags);\n    scx_bpf_dsq_insert(p",
    )
}

#[test]
fn functions_that_today_s_schedulers_call_exist() {
    let source = fifo_with(TODAY);
    for kernel in ["6.12", "7.3"] {
        let args = ["--scheduler", "a.bpf.c", "--kernel", kernel];
        let found = switches(&compare(&[("a.bpf.c", &source)], &args));
        assert!(found[0].1 > 10.0, "{kernel}: {found:?}");
    }
}

#[test]
fn missing_features_are_named_with_the_kernel_that_has_them() {
    let old = fifo("old", "GPL", "u32 seen;").replace(
        "    scx_bpf_dsq_insert(p",
        "    seen += scx_bpf_cpu_rq(0)->nr_running;\n    scx_bpf_dsq_insert(p",
    );
    let output = compare(&[("old.bpf.c", &old)], &["--scheduler", "old.bpf.c"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("old.bpf.c:")
            && stderr.contains("scx_bpf_cpu_rq() was removed in Linux 7.3"),
        "{stderr}"
    );
    let args = ["--scheduler", "old.bpf.c", "--kernel", "6.12"];
    let output = compare(&[("old.bpf.c", &old)], &args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let wrong = compare(
        &[("old.bpf.c", &old)],
        &["--scheduler", "old.bpf.c", "--kernel", "7.2"],
    );
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        text(&wrong.stderr).contains("6.12 or 7.3"),
        "{}",
        text(&wrong.stderr)
    );
}

#[test]
fn deprecated_ops_get_one_warning() {
    let release =
        "void BPF_STRUCT_OPS(fifo_release, s32 cpu, struct scx_cpu_release_args *args) {}";
    let source = fifo("a", "GPL", release)
        .replace(".name =", ".cpu_release = (void *)fifo_release, .name =");
    let output = compare(&[("a.bpf.c", &source)], &["--scheduler", "a.bpf.c"]);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let warning = "scheduler `a`: ops.cpu_release() is deprecated in Linux 7.3";
    assert_eq!(stderr.matches(warning).count(), 1, "{stderr}");
    let args = ["--scheduler", "a.bpf.c", "--kernel", "6.12"];
    let output = compare(&[("a.bpf.c", &source)], &args);
    assert!(!text(&output.stderr).contains("deprecated"));
}

#[test]
fn policies_run_in_both_kernels() {
    let of = |kernel| {
        let args = [
            "--policy",
            "equipoise",
            "--policy",
            "eevdf",
            "--kernel",
            kernel,
        ];
        let output = compare(&[], &args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert_eq!(of("6.12"), of("7.3"));
}

#[test]
fn a_last_level_cache_may_have_several_clusters() {
    // alder-lake: CPUs 20 to 23 are a module of E cores, and share their L3 with all others.
    let source = fifo_with(
        r#"
#include <scx/percpu.bpf.h>
static void today(struct task_struct *p, u64 enq_flags)
{
    if (cpu_llc_id(23) != 0)
        scx_bpf_error("LLC %d", cpu_llc_id(23));
}
"#,
    );
    let output = compare_on(
        "alder-lake",
        &[("a.bpf.c", &source)],
        &["--scheduler", "a.bpf.c"],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Events come in many messages, and wait in a file until the output before them is written.
#[test]
fn its_trace_is_written_wherever_one_wants_it() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let scheduler = folder.path().join("a.bpf.c");
    std::fs::write(&scheduler, fifo("fifo", "GPL", "")).unwrap();
    for name in ["t.dat", "t.txt", "t.pftrace"] {
        let trace = folder.path().join(name);
        let load = ["--machine", "smp-2", "--workload", "pipeline:duration=5"];
        let output = command(&["compare", "--runs", "1"])
            .args(load)
            .args(["--scheduler".as_ref(), scheduler.as_os_str()])
            .args(["--trace".as_ref(), trace.as_os_str()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(std::fs::metadata(trace).unwrap().len() > 1 << 17, "{name}");
    }
}
