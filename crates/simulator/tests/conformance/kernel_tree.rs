//! The kernel tree's example schedulers and selftests, which must behave as their user-space halves
//! expect. They are the kernel's and not kept here: `tests/fetch-kernel-examples` gets them.

use crate::support::*;
use native::{Global, Object};
use simulator::{Check, Config, Error, Outcome};
use std::path::{Path, PathBuf};
use workload::{Start, TaskSpec, Workload};

/// A kernel source tree, or why there is none: `$EQUIPOISE_LINUX_SOURCE`, what
/// `tests/fetch-kernel-examples` made, or what Debian's linux-source-6.12 unpacks to.
fn linux_source() -> Option<PathBuf> {
    let given = std::env::var_os("EQUIPOISE_LINUX_SOURCE").map(PathBuf::from);
    let cache = std::env::home_dir().map(|home| home.join(".cache/equipoise/linux-6.12"));
    let debian = Some(PathBuf::from("/usr/src/linux-source-6.12"));
    [given, cache, debian]
        .into_iter()
        .flatten()
        .find(|tree| tree.join("tools/sched_ext/scx_simple.bpf.c").is_file())
}

/// Compiles `file` of the kernel tree, if there is a tree.
fn from_tree(file: &str) -> Option<Object> {
    let Some(tree) = linux_source() else {
        eprintln!(
            "skipped: no Linux source for tools/{file}; set EQUIPOISE_LINUX_SOURCE or run tests/fetch-kernel-examples"
        );
        return None;
    };
    let object = Object::compile(&tree.join("tools").join(file));
    Some(object.unwrap_or_else(|error| panic!("{error}")))
}

fn example(name: &str) -> Option<Object> {
    from_tree(&format!("sched_ext/{name}.bpf.c"))
}

fn selftest(name: &str) -> Option<Object> {
    from_tree(&format!("testing/selftests/sched_ext/{name}.bpf.c"))
}

/// A second of life: spinners, sleepers and a parent that forks.
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
    let config = Config {
        machine: &machine(4),
        workload: &second(),
        scheduler,
        globals,
        read,
        seed: 1,
        time_limit_ns: 60_000 * MS,
        trace: None,
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

/// Runs to its end; the globals `read` as numbers.
fn passes(scheduler: &Object, globals: &[Global], read: &[&str]) -> Vec<u64> {
    let outcome = go(scheduler, globals, read).unwrap_or_else(|error| panic!("{error}"));
    outcome.read.iter().map(|bytes| number(bytes)).collect()
}

/// Is stopped; for which reason and with which message.
fn stopped(name: &str, globals: &[Global]) -> Option<(String, String)> {
    match go(&selftest(name)?, globals, &[]) {
        Err(Error::SchedulerExit {
            reason, message, ..
        }) => Some((reason, message)),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn example_schedulers_run() {
    let Some(simple) = example("scx_simple") else {
        return;
    };
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

#[test]
fn selftests_that_run() {
    if linux_source().is_none() {
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
    // Eleven tasks, twenty children, and the shell, which was there before.
    assert_eq!(passes(&counting, &[], &read)[..3], [32, 31, 1]);
    let ended = passes(&counting, &[], &read);
    // The counters are read when the scheduler has been disabled.
    assert_eq!(ended[3..], [32, 32, 32]);
}

#[test]
fn selftests_that_are_stopped() {
    if linux_source().is_none() {
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
    // From ops.select_cpu(), .enqueue(), .dispatch(), .enable(), .init_task(), .init().
    for point in 0..6 {
        let (reason, message) = stopped("exit", &[global("exit_point", point)]).unwrap();
        assert_eq!(reason, "unregistered from BPF");
        assert!(message.starts_with(&point.to_string()), "{message}");
    }
}

#[test]
fn what_needs_more_than_one_scheduler_is_refused_by_name() {
    let Some(tree) = linux_source() else {
        return drop(selftest("hotplug"));
    };
    let hotplug = Path::new("tools/testing/selftests/sched_ext/hotplug.bpf.c");
    let error = Object::compile(&tree.join(hotplug))
        .unwrap_err()
        .to_string();
    assert!(error.contains("more than one sched_ext_ops"), "{error}");
}
