//! `validate`: a recording beside its replay.

use crate::common::{file, recorded, run, run_badly, stdout, text, words};

#[test]
fn a_recording_without_wakeups_is_not_judged() {
    let switch = |at: &str, prev: &str, state: &str, next: &str| {
        format!(
            "a-10 [000] d..2 {at}: sched_switch: prev_comm={prev} prev_prio=120 prev_state={state} ==> \
             next_comm={next} next_prio=120\n"
        )
    };
    let (idle, a) = ("swapper/0 prev_pid=0", "a prev_pid=10");
    let (to_idle, to_a) = ("swapper/0 next_pid=0", "a next_pid=10");
    let text = [
        switch("1.000000", idle, "R", to_a),
        switch("1.002000", a, "S", to_idle),
        switch("1.004000", idle, "R", to_a),
        switch("1.006000", a, "S", to_idle),
    ];
    let (_folder, trace) = file("switches.txt", text.concat());
    let measured = format!("eevdf={trace}");
    let says = run_badly(&["validate", "--machine", "smp-2", &measured]);
    has!(says, "threads sleep, but the trace has no wakeups");
}

#[test]
fn a_recording_of_another_machine_is_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["t.txt", "t.dat"] {
        let trace = folder.path().join(name);
        let trace = trace.to_str().unwrap();
        let args = words("compare -m smp-8 -w mixed:duration=1 -p eevdf --runs 1");
        stdout(&[&args[..], &["--exact", "--trace", trace]].concat());
        // A trace.dat may be of a machine that is configured for more CPUs than it has.
        let on_2 = match name {
            "t.dat" => "the trace has an event on CPU",
            _ => "recorded on 8 CPUs",
        };
        for (machine, reason, cpus) in [("smp-2", on_2, 2), ("smp-2x8", "recorded on 8 CPUs", 16)] {
            let says = run_badly(&["validate", "-m", machine, trace]);
            assert!(
                says.contains(reason) && says.contains(&format!("has {cpus}")),
                "{says}"
            );
        }
        let output = run(&["validate", "-m", "smp-8", trace]);
        assert!(text(&output.stdout).contains("bounds"), "{name}");
    }
}

/// The recorded load waited for a thread outside it. The replay, without that thread, takes a
/// hundredth of the time, so the first line and the exit status say that the load is not the same.
#[test]
fn a_replay_unlike_its_recording_fails() {
    let mut lines = vec![
        "equipoise-9 [001] ..... 0.000050: tracing_mark_write: equipoise record: load 10 work"
            .to_owned(),
    ];
    let switch = |ms: u64, [(prev, prev_pid), (next, next_pid)]: [(&str, u32); 2]| {
        format!(
            "{prev}-{prev_pid} [000] d..2. {}.{:03}100: sched_switch: prev_comm={prev} prev_pid={prev_pid} \
             prev_prio=120 prev_state=R ==> next_comm={next} next_pid={next_pid} next_prio=120",
            ms / 1000,
            ms % 1000
        )
    };
    lines.push(
        "hog-20 [000] d..2. 0.000090: sched_wakeup: comm=work pid=10 prio=120 target_cpu=000"
            .to_owned(),
    );
    for round in 0..10 {
        let (hog, work) = (("hog", 20), ("work", 10));
        lines.push(switch(100 * round, [hog, work]));
        lines.push(switch(100 * round + 1, [work, hog]));
    }
    let (_folder, trace) = file("crowded.txt", lines.join("\n") + "\n");
    let args = ["validate", "--machine", "smp-2", &trace];
    let output = run(&args);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(4), "{shown}");
    let first = shown.lines().next().unwrap();
    let says = "FAIL: crowded on smp-2: 3 of 6 bounds are missed: makespan -98.9 % (bound: 10 %); switches";
    assert!(first.starts_with(says), "{first}");
    has!(shown, "hog 891.0 ms");
    // A reader of JSON finds the line on standard error.
    let output = run(&[&args[..], &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(text(&output.stderr).trim_end(), first);
}

/// A trace that was recorded under a scheduler in C is shown alongside its simulation, under the
/// scheduler's name.
#[test]
fn a_trace_may_be_of_a_scheduler_in_c() {
    let [machine, trace] = ["machine.toml", "sysbench-mutex.dat"].map(recorded);
    let trace = trace.to_str().unwrap();
    let show = |enqueue: &str| {
        let text = format!(
            r#"#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
void BPF_STRUCT_OPS(queue_enqueue, struct task_struct *p, u64 enq_flags) {{
    {enqueue}
}}
SCX_OPS_DEFINE(queue_ops, .enqueue = (void *)queue_enqueue, .name = "queue");
"#
        );
        let (_folder, source) = file("queue.bpf.c", text);
        let second = format!("{source}={trace}");
        let machine = machine.to_str().unwrap();
        run(&["validate", "--machine", machine, trace, &second])
    };
    let output = show("scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);");
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in [
        "queue\n",
        "queue: run time by thread",
        "Order",
        "eevdf < queue",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let output = show("scx_bpf_error(\"of the second\");");
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("of the second"));
}
