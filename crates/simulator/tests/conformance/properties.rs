//! Properties for random machines and workloads: the invariants hold, all tasks finish, the same inputs give
//! the same run, and concurrent runs do not influence each other.

use crate::case::{Case, case, config};
use crate::support::{MS, Recording, Script, run_for, task};
use machine::Machine;
use native::{Global, Object};
use policy::Policy;
use proptest::prelude::*;
use simulator::{Check, Config, Outcome, Trace};
use std::sync::LazyLock;

/// Weighted virtual time on one queue for all CPUs.
const VTIME: &str = r#"
#define SHARED 0
u64 vtime_now;
static bool before(u64 a, u64 b) { return (s64)(a - b) < 0; }
s32 BPF_STRUCT_OPS_SLEEPABLE(v_init) { return scx_bpf_create_dsq(SHARED, -1); }
s32 BPF_STRUCT_OPS(v_select, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);

	if (idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	return cpu;
}
void BPF_STRUCT_OPS(v_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime;

	if (before(vtime, vtime_now - SCX_SLICE_DFL))
		vtime = vtime_now - SCX_SLICE_DFL;
	scx_bpf_dsq_insert_vtime(p, SHARED, SCX_SLICE_DFL, vtime, enq_flags);
}
void BPF_STRUCT_OPS(v_dispatch, s32 cpu, struct task_struct *prev) { scx_bpf_dsq_move_to_local(SHARED); }
void BPF_STRUCT_OPS(v_running, struct task_struct *p)
{
	if (before(vtime_now, p->scx.dsq_vtime))
		vtime_now = p->scx.dsq_vtime;
}
void BPF_STRUCT_OPS(v_stopping, struct task_struct *p, bool runnable)
{
	p->scx.dsq_vtime += (SCX_SLICE_DFL - p->scx.slice) * 100 / p->scx.weight;
}
void BPF_STRUCT_OPS(v_enable, struct task_struct *p) { p->scx.dsq_vtime = vtime_now; }
"#;
const VTIME_OPS: &str = ".init = (void *)v_init, .select_cpu = (void *)v_select,
	.enqueue = (void *)v_enqueue, .dispatch = (void *)v_dispatch, .running = (void *)v_running,
	.stopping = (void *)v_stopping, .enable = (void *)v_enable";

static GLOBAL_FIFO: LazyLock<Object> =
    LazyLock::new(|| crate::support::scheduler("", ".timeout_ms = 5000"));
static VTIME_SCHEDULER: LazyLock<Object> =
    LazyLock::new(|| crate::support::scheduler(VTIME, VTIME_OPS));

/// The promise of all policies but the packing one, for tasks that may run anywhere. The balancing interval of an idle
/// CPU is at most 2 ms times the number of CPUs of its widest domain (here at most 64), and an idle CPU balances at a
/// tick (at most 10 ms apart).
const BALANCED: Check = Check::work_conserving((2 * 64 + 2 * 10) * MS);
/// Tasks of a packing policy must spread again, which takes another round.
const RESPREAD: Check = Check::work_conserving(2 * (2 * 64 + 2 * 10) * MS);

fn run(
    case: &Case,
    scheduler: &Object,
    globals: &[Global],
    trace: Option<&mut dyn Trace>,
    check: Check,
) -> Result<Outcome, simulator::Error> {
    let workload = case.workload();
    simulator::run_checked(
        Config {
            seed: case.seed,
            time_limit_ns: 600_000_000_000,
            trace: trace.map(|trace| -> &mut dyn Trace { trace }),
            ..Config::new(&case.machine, &*workload, scheduler, globals)
        },
        check,
    )
}

/// Runs twice and records all events.
fn same_twice(
    case: &Case,
    scheduler: &Object,
    globals: &[Global],
    check: Check,
) -> Result<(), TestCaseError> {
    let recorded = || {
        let mut recording = Recording::default();
        let outcome = run(case, scheduler, globals, Some(&mut recording), check);
        outcome.map(|outcome| (format!("{outcome:?}"), recording.text))
    };
    let outcomes = recorded().and_then(|first| Ok((first, recorded()?)));
    match outcomes {
        Ok((first, second)) => prop_assert!(first == second, "two runs differ"),
        Err(error) => return Err(TestCaseError::fail(error.to_string())),
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn runs_end_well_and_repeat_under_a_global_fifo(case in case()) {
        same_twice(&case, &GLOBAL_FIFO, &[], Check::INVARIANTS)?;
    }

    #[test]
    fn runs_end_well_and_repeat_under_virtual_time(case in case()) {
        same_twice(&case, &VTIME_SCHEDULER, &[], Check::INVARIANTS)?;
    }
}

proptest! {
    #![proptest_config(config(32))]

    #[test]
    fn runs_end_well_and_repeat_under_each_policy(case in case()) {
        for name in Policy::names() {
            let policy = Policy::find(name).unwrap();
            same_twice(&case, policy.object().unwrap(), &policy.globals(&case.machine), Check::INVARIANTS)
                .map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
        }
    }

    #[test]
    fn runs_at_the_same_time_do_not_meet(case in case()) {
        let alone = run(&case, &VTIME_SCHEDULER, &[], None, Check::INVARIANTS).map(|outcome| format!("{outcome:?}"));
        let together: Vec<_> = std::thread::scope(|scope| {
            let other = Case { seed: !case.seed, ..case.clone() };
            let threads: Vec<_> = [case.clone(), other, case.clone()]
                .into_iter()
                .map(|case| scope.spawn(move || run(&case, &VTIME_SCHEDULER, &[], None, Check::INVARIANTS)))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let alone = alone.map_err(|error| TestCaseError::fail(error.to_string()))?;
        for index in [0, 2] {
            let outcome = together[index].as_ref().map(|outcome| format!("{outcome:?}"));
            prop_assert_eq!(outcome.ok(), Some(alone.clone()));
        }
    }
}

#[test]
fn no_cpu_stays_idle_beside_two_tasks_that_may_run_on_it() {
    for (machine, loads) in [("smp-8", 6..10), ("tc2", 2..8), ("smp-2x8", 12..20)] {
        let machine = Machine::find(machine).unwrap();
        for (name, tasks) in Policy::names().flat_map(|name| loads.clone().map(move |n| (name, n)))
        {
            // The cpu_power of TC2's two A15s is enough for three tasks, so Linux 3.9's balancing
            // leaves three tasks there; only packing brings them there.
            if name == "powersaving" && machine.name == "tc2" {
                continue;
            }
            let spinner = |index: u64| task("spinner", [run_for(200 + 100 * index)]);
            let workload = Script(move || workload::Start {
                tasks: (0..tasks).map(spinner).collect(),
                ..workload::Start::default()
            });
            let policy = Policy::find(name).unwrap();
            let globals = policy.globals(&machine);
            let config = Config {
                seed: tasks,
                time_limit_ns: 600_000 * MS,
                ..Config::new(&machine, &workload, policy.object().unwrap(), &globals)
            };
            let check = if name == "powersaving" {
                RESPREAD
            } else {
                BALANCED
            };
            if let Err(error) = simulator::run_checked(config, check) {
                panic!("{tasks} tasks on {} under {name}: {error}", machine.name);
            }
        }
    }
}
