//! Kfuncs that the kernel allows only for the task or the CPU of the current op, and results of ops that it refuses.

use crate::support::*;
use native::Kernel;
use workload::Workload;

const DSQ: u64 = 7;
const TASK: &str = "struct task_struct *p";
const ENQUEUE: &str = "struct task_struct *p, u64 enq_flags";
const DISPATCH: &str = "s32 cpu, struct task_struct *prev";
const INIT_TASK: &str = "struct task_struct *p, struct scx_init_task_args *args";

/// Two tasks that wait for the same CPU, so that the queue has a task when `ops.dispatch()` is called.
fn two() -> impl Workload {
    tasks(|| {
        [
            bound("a", 0, [run_for(1)]),
            bound("b", 0, [run_for(1), sleep_for(1), run_for(1)]),
        ]
    })
}

/// The text and the ops of a scheduler whose `op` of `arguments` begins with `body`.
fn with(op: &str, arguments: &str, body: &str) -> (String, String) {
    let create = format!("return scx_bpf_create_dsq({DSQ}, -1);");
    let insert = format!("scx_bpf_dsq_insert(p, {DSQ}, SCX_SLICE_DFL, enq_flags);");
    let take = format!("scx_bpf_dsq_move_to_local({DSQ});");
    let mut all = vec![
        ("init", "", create.as_str()),
        ("enqueue", ENQUEUE, &insert),
        ("dispatch", DISPATCH, &take),
    ];
    if all.iter().all(|(name, ..)| *name != op) {
        all.push((op, arguments, ""));
    }
    let (mut text, mut ops) = (String::new(), Vec::new());
    for (name, arguments, rest) in all {
        let result = if name.starts_with("init") {
            "s32"
        } else {
            "void"
        };
        let body = if name == op { body } else { "" };
        let arguments = if arguments.is_empty() {
            "void"
        } else {
            arguments
        };
        text += &format!("{result} the_{name}({arguments}) {{ {body} {rest} }}\n");
        ops.push(format!(".{name} = (void *)the_{name}"));
    }
    (text, ops.join(", "))
}

/// The message of the error with which a run under the scheduler of [`with`] ends; `None` if the run succeeds.
fn ends(kernel: Kernel, op: &str, arguments: &str, body: &str) -> Option<String> {
    let (text, ops) = with(op, arguments, body);
    let scheduler = scheduler_in(kernel, &text, &ops).unwrap_or_else(|error| panic!("{error}"));
    match try_run(&machine(2), &two(), &scheduler, &[], None) {
        Ok(_) => None,
        Err(simulator::Error::SchedulerExit { message, .. }) => Some(message),
        Err(error) => panic!("{error}"),
    }
}

fn fails(kernel: Kernel, op: &str, arguments: &str, body: &str) -> String {
    ends(kernel, op, arguments, body).expect(body)
}

#[test]
fn the_control_group_of_another_task_is_unknown() {
    let own = "bpf_cgroup_release(scx_bpf_task_cgroup(p));";
    let queued = "struct task_struct *p;
        bpf_for_each(scx_dsq, p, 7, 0) bpf_cgroup_release(scx_bpf_task_cgroup(p));";
    for kernel in Kernel::ALL {
        for (op, arguments) in [("enqueue", ENQUEUE), ("running", TASK), ("enable", TASK)] {
            assert_eq!(ends(kernel, op, arguments, own), None);
        }
        let message = fails(kernel, "dispatch", DISPATCH, queued);
        assert_eq!(message, "called on a task not being operated on");
    }
    let body = &format!("{own} return 0;");
    let message = fails(Kernel::V7_3, "init_task", INIT_TASK, body);
    assert_eq!(message, "called on a task not being operated on");
    let message = fails(Kernel::V6_12, "init_task", INIT_TASK, body);
    assert_eq!(
        message,
        "kfunc with mask 0x1f called from an operation only allowing 0x0"
    );
}

#[test]
fn a_cpu_is_selected_only_for_a_task_whose_lock_is_held() {
    let other = "bool idle; struct task_struct *other = bpf_task_from_pid(p->pid == 1001 ? 1002 : 1001);
        if (other && scx_bpf_task_cpu(other) != scx_bpf_task_cpu(p)) scx_bpf_select_cpu_dfl(other, 0, 0, &idle);
        if (other) { scx_bpf_select_cpu_and(other, 0, 0, other->cpus_ptr, 0); bpf_task_release(other); }";
    let (text, ops) = with("enqueue", ENQUEUE, "");
    let text = format!(
        "{text} s32 choose(struct task_struct *p, s32 prev_cpu, u64 wake_flags) {{ {other} return prev_cpu; }}"
    );
    let ops = format!("{ops}, .select_cpu = (void *)choose");
    // ops.select_cpu() is not called for a task that is bound to one CPU.
    let free = tasks(|| ["a", "b"].map(|name| task(name, [run_for(1), sleep_for(1), run_for(1)])));
    let scheduler = |kernel| scheduler_in(kernel, &text, &ops).unwrap();
    let (_, message) = exit_of(&machine(2), &free, &scheduler(Kernel::V7_3));
    assert_eq!(message, "called on a task not being operated on");
    assert!(try_run(&machine(2), &free, &scheduler(Kernel::V6_12), &[], None).is_ok());

    let apart = tasks(|| [bound("a", 0, [run_for(1)]), bound("b", 1, [run_for(1)])]);
    let (text, ops) = with("enqueue", ENQUEUE, other);
    let scheduler = scheduler_in(Kernel::V7_3, &text, &ops).unwrap();
    let (_, message) = exit_of(&machine(2), &apart, &scheduler);
    assert!(
        message.starts_with("select_cpu kfunc called cross-task on "),
        "{message}"
    );
}

#[test]
fn linux_7_3_takes_requests_of_frequencies_for_the_locked_cpu_only() {
    let other = "scx_bpf_cpuperf_set(!scx_bpf_task_cpu(p), 512);";
    let own = "scx_bpf_cpuperf_set(scx_bpf_task_cpu(p), 512);";
    let all = "scx_bpf_cpuperf_set(0, 512); scx_bpf_cpuperf_set(1, 512);";
    let message = fails(Kernel::V7_3, "running", TASK, other);
    assert!(message.starts_with("Invalid target CPU "), "{message}");
    assert_eq!(ends(Kernel::V7_3, "running", TASK, own), None);
    assert_eq!(ends(Kernel::V7_3, "init", "", all), None);
    assert_eq!(ends(Kernel::V6_12, "running", TASK, other), None);
}

#[test]
fn results_and_requests_that_the_kernel_refuses() {
    for (op, arguments, body, expected) in [
        (
            "init",
            "",
            "return 5;",
            "ops.init() returned an invalid errno 5",
        ),
        (
            "init",
            "",
            "return -5000;",
            "ops.init() returned an invalid errno -5000",
        ),
        ("init", "", "return -4095;", "ops.init() failed (-4095)"),
        (
            "init_task",
            INIT_TASK,
            "return 1;",
            "ops.init_task() returned an invalid errno 1",
        ),
        (
            "running",
            TASK,
            "scx_bpf_dump(\"x\");",
            "scx_bpf_dump() must only be called from ops.dump() and friends",
        ),
    ] {
        for kernel in Kernel::ALL {
            assert_eq!(fails(kernel, op, arguments, body), expected);
        }
    }
    // Each task but the first is forked after the scheduler has been loaded.
    let disallow = |when: &str| format!("p->scx.disallow = {when}; return 0;");
    for kernel in Kernel::ALL {
        let first = disallow("!args->fork");
        assert_eq!(ends(kernel, "init_task", INIT_TASK, &first), None);
        let expected = "ops.init_task() set task->scx.disallow for a[1001] during fork";
        let expected = (kernel > Kernel::V6_12).then_some(expected);
        let message = ends(kernel, "init_task", INIT_TASK, &disallow("args->fork"));
        assert_eq!(message.as_deref(), expected);
    }
}
