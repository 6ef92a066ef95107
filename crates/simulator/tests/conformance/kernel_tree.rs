//! The kernel tree's example schedulers and selftests, which must behave as their user-space halves
//! expect. This repository does not contain them: `tests/fetch-kernel-examples` gets them.

use crate::support::*;
use native::{Global, Kernel, Object};
use simulator::{Check, Config, Error, Outcome};
use std::path::{Path, PathBuf};
use workload::{Start, TaskSpec, Workload};

/// The source tree of `kernel`, if there is one: `$EQUIPOISE_LINUX_SOURCE` (6.12) or `$EQUIPOISE_LINUX_SOURCE_7_3`, the
/// folder of `tests/fetch-kernel-examples`, or Debian's unpacked linux-source.
fn linux_source(kernel: Kernel) -> Option<PathBuf> {
    let variable = match kernel {
        Kernel::V6_12 => "EQUIPOISE_LINUX_SOURCE",
        Kernel::V7_3 => "EQUIPOISE_LINUX_SOURCE_7_3",
    };
    let given = std::env::var_os(variable).map(PathBuf::from);
    let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.or_else(|| Some(std::env::home_dir()?.join(".cache")));
    let cache = caches.map(|caches| caches.join(format!("equipoise/schedulers/linux-{kernel}")));
    let debian = Some(PathBuf::from(format!("/usr/src/linux-source-{kernel}")));
    [given, cache, debian]
        .into_iter()
        .flatten()
        .find(|tree| tree.join("tools/sched_ext/scx_simple.bpf.c").is_file())
}

/// Compiles `file` of the source tree of `kernel` for that kernel, if there is a tree.
fn from_tree(kernel: Kernel, file: &str) -> Option<Object> {
    let Some(tree) = linux_source(kernel) else {
        eprintln!(
            "skipped: no source of Linux {kernel} for tools/{file}; run tests/fetch-kernel-examples"
        );
        return None;
    };
    let object = Object::compile_all(&[&tree.join("tools").join(file)], &[], kernel);
    Some(object.unwrap_or_else(|error| panic!("{error}")))
}

fn example(kernel: Kernel, name: &str) -> Option<Object> {
    from_tree(kernel, &format!("sched_ext/{name}.bpf.c"))
}

/// Compiles a selftest of Linux 6.12.
fn selftest(name: &str) -> Option<Object> {
    selftest_of(Kernel::V6_12, name)
}

fn selftest_of(kernel: Kernel, name: &str) -> Option<Object> {
    from_tree(kernel, &format!("testing/selftests/sched_ext/{name}.bpf.c"))
}

/// One second of work: spinners, sleepers and a parent that forks.
fn second() -> impl Workload {
    Script(|| {
        let sleeper = || {
            let naps = (0..100).flat_map(|_| [run_for(2), sleep_for(3)]);
            task("sleeper", naps)
        };
        let child = || Op::Fork {
            child: Box::new(task("child", [run_for(1)])),
            work: MS,
        };
        let forks = (0..20).flat_map(move |_| [child(), sleep_for(10)]);
        let mut tasks: Vec<TaskSpec> = (0..5).map(|_| task("spinner", [run_for(500)])).collect();
        tasks.extend((0..5).map(|_| sleeper()));
        tasks.push(task("parent", forks.chain([Op::Join])));
        Start {
            tasks,
            ..Start::default()
        }
    })
}

use workload::Op;

fn go(scheduler: &Object, globals: &[Global], read: &[&str]) -> Result<Outcome, Error> {
    let (machine, workload) = (machine(4), second());
    let config = Config {
        read,
        time_limit_ns: 60_000 * MS,
        ..Config::new(&machine, &workload, scheduler, globals)
    };
    simulator::run_checked(config, Check::INVARIANTS)
}

fn global(symbol: &str, value: u32) -> Global {
    Global {
        symbol: symbol.into(),
        bytes: value.to_ne_bytes().into(),
    }
}

fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

/// Runs `scheduler` until the workload ends, and returns the globals `read` as numbers.
fn passes(scheduler: &Object, globals: &[Global], read: &[&str]) -> Vec<u64> {
    let outcome = go(scheduler, globals, read).unwrap_or_else(|error| panic!("{error}"));
    outcome.read.iter().map(|bytes| number(bytes)).collect()
}

/// The reason and the message with which the run ends.
fn stopped(name: &str, globals: &[Global]) -> Option<(String, String)> {
    stopped_in(Kernel::V6_12, name, globals)
}

fn stopped_in(kernel: Kernel, name: &str, globals: &[Global]) -> Option<(String, String)> {
    match go(&selftest_of(kernel, name)?, globals, &[]) {
        Err(Error::SchedulerExit {
            reason, message, ..
        }) => Some((reason, message)),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn example_schedulers_run() {
    let Some(simple) = example(Kernel::V6_12, "scx_simple") else {
        return;
    };
    let example = |name| example(Kernel::V6_12, name);
    passes(&simple, &[], &[]);
    let fifo = Global {
        symbol: "fifo_sched".into(),
        bytes: vec![1],
    };
    passes(&simple, &[fifo], &[]);
    let counters = ["nr_enqueued", "nr_dispatched"];
    let queued = passes(&example("scx_qmap").unwrap(), &[], &counters);
    assert!(queued[0] > 0 && queued[1] >= queued[0], "{queued:?}");
    let central = example("scx_central").unwrap();
    let ran = passes(
        &central,
        &[],
        &["nr_total", "nr_queued", "nr_lost_pids", "nr_dispatches"],
    );
    assert!(ran[0] > 0 && ran[3] > 0 && ran[2] == 0, "{ran:?}");
    passes(
        &example("scx_flatcg").unwrap(),
        &[global("nr_cpus", 4)],
        &[],
    );
}

/// A variable that a scheduler's loader sets.
fn given(symbol: &str, value: u64, size: usize) -> Global {
    Global {
        symbol: symbol.into(),
        bytes: value.to_ne_bytes()[..size].into(),
    }
}

/// An array with a number for each possible CPU.
fn for_each_cpu(symbol: &str, of: impl Fn(u32) -> u32) -> Global {
    let bytes = (0..machine::MAX_CPUS as u32).flat_map(|cpu| of(cpu).to_ne_bytes());
    Global {
        symbol: symbol.into(),
        bytes: bytes.collect(),
    }
}

/// `SCX_SLICE_DFL`
const SLICE: u64 = 20_000_000;

#[test]
fn example_schedulers_of_today_run() {
    let example = |name| example(Kernel::V7_3, name);
    let Some(simple) = example("scx_simple") else {
        return;
    };
    passes(&simple, &[], &[]);
    passes(&simple, &[given("fifo_sched", 1, 1)], &[]);
    passes(&example("scx_cpu0").unwrap(), &[], &[]);
    let central = passes(
        &example("scx_central").unwrap(),
        &[given("slice_ns", SLICE, 8)],
        &["nr_total", "nr_dispatches", "nr_lost_pids", "nr_timers"],
    );
    assert!(
        central[0] > 0 && central[1] > 0 && central[2] == 0 && central[3] > 0,
        "{central:?}"
    );
    let flatcg = [global("nr_cpus", 4), given("cgrp_slice_ns", SLICE, 8)];
    passes(&example("scx_flatcg").unwrap(), &flatcg, &[]);
    let pair = [
        global("pair_batch_dur_ns", 20_000_000),
        for_each_cpu("pair_cpu", |cpu| cpu ^ 1),
        for_each_cpu("pair_id", |cpu| cpu / 2),
        for_each_cpu("in_pair_idx", |cpu| cpu % 2),
    ];
    let counters = ["nr_total", "nr_dispatched", "nr_missing", "nr_kicks"];
    let pair = passes(&example("scx_pair").unwrap(), &pair, &counters);
    assert!(
        pair[0] > 0 && pair[1] > 0 && pair[1] + pair[2] <= pair[0],
        "{pair:?}"
    );
    let counters = [
        "stat_init",
        "stat_exit",
        "stat_enqueue",
        "stat_select_idle_cpu",
    ];
    let sdt = passes(&example("scx_sdt").unwrap(), &[], &counters);
    // The 32 tasks are eleven tasks, twenty children, and the shell.
    assert!(sdt[..2] == [32, 32] && sdt[2] > 0 && sdt[3] > 0, "{sdt:?}");
}

#[test]
fn the_example_of_everything_of_today_runs() {
    let Some(qmap) = example(Kernel::V7_3, "scx_qmap") else {
        return;
    };
    let plain = [
        given("slice_ns", SLICE, 8),
        given("max_tasks", 100, 4),
        given("round_robin_ns", 200_000_000, 8),
    ];
    passes(&qmap, &plain, &[]);
    for option in ["highpri_boosting", "print_dsqs_and_events", "print_msgs"] {
        let globals = [&plain[..], &[given(option, 1, 1)]].concat();
        passes(&qmap, &globals, &[]);
    }
    // The loader would fill the arrays of the mapping; all zeroes are invalid.
    let shuffled = [
        &plain[..],
        &[
            given("cid_override_mode", 1, 4),
            given("cid_override_nr_shards", 1, 4),
        ],
    ];
    match go(&qmap, &shuffled.concat(), &[]) {
        Err(Error::SchedulerExit { message, .. }) => {
            assert_eq!(message, "cid 0 assigned to multiple cpus");
        }
        other => panic!("{other:?}"),
    }
    let stalled = [&plain[..], &[given("stall_user_nth", 20, 4)]].concat();
    match go(&qmap, &stalled, &[]) {
        Err(Error::SchedulerExit { reason, .. }) => assert_eq!(reason, "runnable task stall"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn selftests_of_today() {
    let selftest = |name: &str| selftest_of(Kernel::V7_3, name);
    if selftest("minimal").is_none() {
        return;
    }
    for name in [
        "create_dsq",
        "maximal",
        "minimal",
        "maybe_null",
        "select_cpu_dispatch",
        "enable_cmask",
        "allowed_cpus",
        "enq_select_cpu",
        "dequeue_iter",
        "dequeue_remote",
        "cyclic_kick_wait",
        "numa",
    ] {
        passes(&selftest(name).unwrap(), &[], &[]);
    }
    let of = |name: &str, symbol: &str| passes(&selftest(name).unwrap(), &[], &[symbol])[0];
    assert_eq!(of("select_cpu_dfl", "saw_local"), 0);
    assert_eq!(of("select_cpu_dfl_nodispatch", "saw_local"), 1);
    assert_eq!(of("select_cpu_vtime", "consumed"), 1);
    let local_on = selftest("dsp_local_on").unwrap();
    passes(&local_on, &[global("nr_cpus", 4)], &[]);
    let read = [
        "dsq_peek_result1",
        "dsq_peek_result2",
        "dsq_peek_result2_expected",
        "successful_peeks",
        "debug_ksym_exists",
    ];
    let peeked = passes(&selftest("peek_dsq").unwrap(), &[], &read);
    assert!(
        peeked[0] == 0 && peeked[1] == peeked[2] && peeked[3] > 0 && peeked[4] == 1,
        "{peeked:?}"
    );
    let counts = ["enqueue_cnt", "dequeue_cnt", "dispatch_dequeue_cnt"];
    for scenario in 0..=6 {
        let dequeue = selftest("dequeue").unwrap();
        let counts = passes(&dequeue, &[global("test_scenario", scenario)], &counts);
        match scenario {
            // These scenarios use a user queue or a BPF queue.
            2 | 5 | 6 => assert!(
                counts[0] > 0 && counts[0] == counts[1],
                "{scenario}: {counts:?}"
            ),
            _ => assert_eq!(counts, [0, 0, 0], "{scenario}"),
        }
    }
    for (name, expected) in [
        ("ddsp_bogus_dsq_fail", "non-existent DSQ 0xcafef00d"),
        (
            "ddsp_vtimelocal_fail",
            "cannot use vtime ordering for built-in DSQs",
        ),
        (
            "enq_last_no_enq_fails",
            "SCX_OPS_ENQ_LAST requires ops.enqueue()",
        ),
        ("select_cpu_dispatch_bad_dsq", "non-existent DSQ 0xcafef00d"),
        ("select_cpu_dispatch_dbl_dsp", "already direct-dispatched"),
    ] {
        let (reason, message) = stopped_in(Kernel::V7_3, name, &[]).unwrap();
        assert_eq!(reason, "runtime error", "{name}");
        assert!(message.contains(expected), "{name}: {message}");
    }
}

#[test]
fn selftests_that_run() {
    if linux_source(Kernel::V6_12).is_none() {
        return drop(selftest("minimal"));
    }
    for name in [
        "create_dsq",
        "maximal",
        "minimal",
        "maybe_null",
        "select_cpu_dispatch",
    ] {
        passes(&selftest(name).unwrap(), &[], &[]);
    }
    let local_on = selftest("dsp_local_on").unwrap();
    passes(&local_on, &[global("nr_cpus", 4)], &[]);
    let of = |name: &str, symbol: &str| passes(&selftest(name).unwrap(), &[], &[symbol])[0];
    assert_eq!(of("select_cpu_dfl", "saw_local"), 0);
    assert_eq!(of("select_cpu_dfl_nodispatch", "saw_local"), 1);
    assert_eq!(of("select_cpu_vtime", "consumed"), 1);
}

#[test]
fn every_task_is_initialised_enabled_disabled_and_exited() {
    let Some(counting) = selftest("init_enable_count") else {
        return;
    };
    let read = [
        "init_task_cnt",
        "init_fork_cnt",
        "init_transition_cnt",
        "exit_task_cnt",
        "enable_cnt",
        "disable_cnt",
    ];
    // The 32 tasks are eleven tasks, twenty children, and the shell, which existed before the scheduler was loaded.
    assert_eq!(passes(&counting, &[], &read)[..3], [32, 31, 1]);
    let ended = passes(&counting, &[], &read);
    // The counters are read when the scheduler has been disabled.
    assert_eq!(ended[3..], [32, 32, 32]);
}

#[test]
fn selftests_that_are_stopped() {
    if linux_source(Kernel::V6_12).is_none() {
        return drop(selftest("minimal"));
    }
    let cases = [
        ("ddsp_bogus_dsq_fail", "non-existent DSQ 0xcafef00d for"),
        (
            "ddsp_vtimelocal_fail",
            "cannot use vtime ordering for built-in DSQs",
        ),
        (
            "enq_last_no_enq_fails",
            "SCX_OPS_ENQ_LAST requires ops.enqueue()",
        ),
        (
            "enq_select_cpu_fails",
            "kfunc with mask 0x8 called from an operation only allowing 0x4",
        ),
        (
            "select_cpu_dispatch_bad_dsq",
            "non-existent DSQ 0xcafef00d for",
        ),
        ("select_cpu_dispatch_dbl_dsp", "already direct-dispatched"),
    ];
    for (name, expected) in cases {
        let (reason, message) = stopped(name, &[]).unwrap();
        assert_eq!(reason, "runtime error", "{name}");
        assert!(message.contains(expected), "{name}: {message}");
    }
    // These are the calls from ops.select_cpu(), .enqueue(), .dispatch(), .enable(), .init_task() and .init().
    for point in 0..6 {
        let (reason, message) = stopped("exit", &[global("exit_point", point)]).unwrap();
        assert_eq!(reason, "unregistered from BPF");
        assert!(message.starts_with(&point.to_string()), "{message}");
    }
}

#[test]
fn features_for_several_schedulers_are_refused_by_name() {
    let Some(tree) = linux_source(Kernel::V6_12) else {
        return drop(selftest("hotplug"));
    };
    let hotplug = Path::new("tools/testing/selftests/sched_ext/hotplug.bpf.c");
    let error = Object::compile_all(&[&tree.join(hotplug)], &[], Kernel::V6_12)
        .unwrap_err()
        .to_string();
    assert!(error.contains("more than one sched_ext_ops"), "{error}");
}
