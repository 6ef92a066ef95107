//! Errors that end a run: of the scheduler, with ext.c's messages, and of the workload.

use crate::support::*;
use native::Object;
use simulator::{Deadlock, Error};
use workload::{Env, Op, Start, TaskSpec};

fn one() -> impl workload::Workload {
    tasks(|| [task("a", [run_for(1)])])
}

/// A scheduler with these functions as its ops.select_cpu() and ops.enqueue().
fn placing(select_cpu: &str, enqueue: &str) -> Object {
    let text = format!(
        "s32 BPF_STRUCT_OPS(place, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
        {{ {select_cpu} }}
        void BPF_STRUCT_OPS(queue, struct task_struct *p, u64 enq_flags) {{ {enqueue} }}"
    );
    scheduler(
        &text,
        ".select_cpu = (void *)place, .enqueue = (void *)queue",
    )
}

const ENQUEUE: &str = "scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);";

fn error(select_cpu: &str, enqueue: &str) -> String {
    let (reason, message) = exit_of(&machine(2), &one(), &placing(select_cpu, enqueue));
    assert_eq!(reason, "runtime error");
    message
}

#[test]
fn errors_of_placement() {
    let cases = [
        (
            "return prev_cpu;",
            "scx_bpf_dsq_insert(p, 0xbad, 1, 0);",
            "non-existent DSQ 0xbad",
        ),
        (
            "return prev_cpu;",
            "scx_bpf_dsq_insert_vtime(p, SCX_DSQ_LOCAL, 1, 1, 0);",
            "cannot use vtime ordering for built-in DSQs",
        ),
        (
            "return prev_cpu;",
            "scx_bpf_dsq_insert_vtime(p, SCX_DSQ_GLOBAL, 1, 1, 0);",
            "cannot use vtime ordering for built-in DSQs",
        ),
        ("return 2;", ENQUEUE, "invalid CPU 2 from ops.select_cpu()"),
        (
            "return prev_cpu;",
            "scx_bpf_dsq_insert(bpf_task_from_pid(1), SCX_DSQ_GLOBAL, 1, 0);",
            "NULL where a task is expected",
        ),
        (
            "return -1;",
            ENQUEUE,
            "invalid CPU -1 from ops.select_cpu()",
        ),
        (
            "scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, 1, 0); scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, 1, 0); return 0;",
            ENQUEUE,
            "a[1001] already direct-dispatched",
        ),
        (
            "return prev_cpu;",
            "scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 7, 1, 0);",
            "invalid CPU 7 in SCX_DSQ_LOCAL_ON dispatch verdict",
        ),
        (
            "return prev_cpu;",
            "scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, 1, 1ULL << 60);",
            "invalid enq_flags 0x1000000000000000",
        ),
        (
            "return prev_cpu;",
            "scx_bpf_dsq_move_to_local(0, 0);",
            "its enqueue() calls scx_bpf_dsq_move_to_local() (allowed in dispatch()), which the kernel's verifier refuses",
        ),
        (
            "return prev_cpu;",
            "scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, 1, SCX_ENQ_IMMED);",
            "SCX_ENQ_IMMED on a non-local DSQ 0x8000000000000001",
        ),
        (
            "scx_bpf_kick_cpu(0, SCX_KICK_IDLE | SCX_KICK_PREEMPT); return prev_cpu;",
            ENQUEUE,
            "PREEMPT/WAIT cannot be used with SCX_KICK_IDLE",
        ),
        (
            "scx_bpf_cpuperf_set(0, 1025); return 0;",
            ENQUEUE,
            "Invalid cpuperf target 1025 for CPU 0",
        ),
    ];
    for (select_cpu, enqueue, message) in cases {
        assert_eq!(error(select_cpu, enqueue), message);
    }
}

#[test]
fn another_task_than_the_one_enqueued_cannot_be_dispatched() {
    let message = error(
        "return prev_cpu;",
        "if (p->pid == 1000) { scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, 1, 0); return; }
        struct task_struct *other = bpf_task_from_pid(1000);
        if (other) scx_bpf_dsq_insert(other, SCX_DSQ_LOCAL, 1, 0);",
    );
    assert_eq!(
        message,
        "scheduling for a[1001] but trying to direct-dispatch sh[1000]"
    );
}

#[test]
fn a_cpu_that_a_task_may_not_run_on_is_an_error() {
    let workload = tasks(|| [bound("a", 1, [run_for(1)])]);
    let enqueue = "scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 0, SCX_SLICE_DFL, 0);";
    let (_, message) = exit_of(&machine(2), &workload, &placing("return 0;", enqueue));
    assert_eq!(
        message,
        "SCX_DSQ_LOCAL[_ON] target CPU 0 not allowed for a[1001]"
    );
}

#[test]
fn queues_of_one_order_only() {
    let text = "s32 BPF_STRUCT_OPS_SLEEPABLE(mix_init) { return scx_bpf_create_dsq(5, -1); }
        void BPF_STRUCT_OPS(mix, struct task_struct *p, u64 enq_flags)
        {
            if (p->pid == 1000) scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
            else if (p->pid & 1) scx_bpf_dsq_insert(p, 5, SCX_SLICE_DFL, 0);
            else scx_bpf_dsq_insert_vtime(p, 5, SCX_SLICE_DFL, 0, 0);
        }";
    let mixed = scheduler(text, ".init = (void *)mix_init, .enqueue = (void *)mix");
    let two = tasks(|| ["a", "b"].map(|name| bound(name, 0, [run_for(1)])));
    let (_, message) = exit_of(&machine(1), &two, &mixed);
    assert_eq!(
        message,
        "DSQ ID 0x0000000000000005 already had FIFO-enqueued tasks"
    );
}

#[test]
fn a_lost_task_is_a_stall() {
    let ops = |timeout| format!(".enqueue = (void *)lose, .timeout_ms = {timeout}");
    let text = "void BPF_STRUCT_OPS(lose, struct task_struct *p, u64 enq_flags)
        { if (p->comm[0] != 'b') scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags); }";
    let workload = tasks(|| ["a", "b"].map(|name| bound(name, 0, [run_for(60_000)])));
    let (reason, message) = exit_of(&machine(1), &workload, &scheduler(text, &ops(5000)));
    assert_eq!(reason, "runnable task stall");
    // The watchdog checks at intervals of half the timeout.
    assert_eq!(message, "b[1002] failed to run for 7.500s");
    let (_, message) = exit_of(&machine(1), &workload, &scheduler(text, &ops(0)));
    assert_eq!(
        message, "b[1002] failed to run for 45.000s",
        "30 s unless it says otherwise"
    );
}

#[test]
fn a_scheduler_that_cannot_start_is_out() {
    let refused = [
        (
            ".flags = SCX_OPS_ENQ_LAST",
            "SCX_OPS_ENQ_LAST requires ops.enqueue() to be implemented",
        ),
        (".flags = 1 << 10", "ops.flags has unknown flags: 0x400"),
        (
            ".timeout_ms = 30001",
            "ops.timeout_ms is 30001; expected at most 30000",
        ),
        (".init = (void *)fail_init", "ops.init() failed (-12)"),
        (
            ".init_task = (void *)fail_init_task",
            "ops.init_task() failed (-12) for sh[1000]",
        ),
    ];
    let text = "s32 BPF_STRUCT_OPS_SLEEPABLE(fail_init) { return -ENOMEM; }
        s32 BPF_STRUCT_OPS_SLEEPABLE(fail_init_task, struct task_struct *p) { return -ENOMEM; }
        void BPF_STRUCT_OPS(on_exit, struct scx_exit_info *ei)
        { bpf_printk(\"%d %lld %s: %s\", ei->kind, ei->exit_code, ei->reason, ei->msg); }";
    for (ops, expected) in refused {
        let ops = format!("{ops}, .exit = (void *)on_exit");
        let scheduler = scheduler(text, &ops);
        let (result, recording) = try_record(&machine(1), &one(), &scheduler, &[]);
        assert!(result.is_err());
        let said = format!("1024 0 runtime error: {expected}");
        assert_eq!(recording.printed, [said], "ops.exit() is told");
    }
}

#[test]
fn the_scheduler_ends_itself_with_a_code_and_a_message() {
    let text = |how: &str| {
        format!(
            "void BPF_STRUCT_OPS(leave, struct task_struct *p) {{ {how} }}
            void BPF_STRUCT_OPS(on_dump, struct scx_dump_ctx *ctx) {{ scx_bpf_dump(\"dumped %d\", ctx->kind); }}
            void BPF_STRUCT_OPS(on_exit, struct scx_exit_info *ei)
            {{ bpf_printk(\"%d %lld %s: %s|%s\", ei->kind, ei->exit_code, ei->reason, ei->msg, ei->dump); }}"
        )
    };
    let ops = ".running = (void *)leave, .dump = (void *)on_dump, .exit = (void *)on_exit";
    let cases = [
        (
            "scx_bpf_exit(7, \"so %s\", \"long\");",
            "65 7 unregistered from BPF: so long|",
            "so long (exit code 7)",
        ),
        (
            "scx_bpf_error(\"bad %d\", 3);",
            "1025 0 scx_bpf_error: bad 3|dumped 1025",
            "bad 3",
        ),
    ];
    for (how, told, shown) in cases {
        let scheduler = scheduler(&text(how), ops);
        let (result, recording) = try_record(&machine(1), &one(), &scheduler, &[]);
        match result {
            Err(Error::SchedulerExit { message, .. }) => assert_eq!(message, shown),
            _ => panic!("it left"),
        }
        assert_eq!(recording.printed, [told]);
    }
}

#[test]
fn a_timer_may_not_dispatch() {
    let text = "struct holder { struct bpf_timer timer; };
        struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1);
                 __type(key, u32); __type(value, struct holder); } timers SEC(\".maps\");
        static int expired(void *map, int *key, struct holder *holder)
        {
            struct task_struct *p = bpf_task_from_pid(1001);
            if (p) scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, 1, 0);
            return 0;
        }
        s32 BPF_STRUCT_OPS_SLEEPABLE(timer_init)
        {
            u32 key = 0;
            struct holder *holder = bpf_map_lookup_elem(&timers, &key);
            bpf_timer_init(&holder->timer, &timers, CLOCK_MONOTONIC);
            bpf_timer_set_callback(&holder->timer, expired);
            return bpf_timer_start(&holder->timer, 500000, 0);
        }";
    let (_, message) = exit_of(
        &machine(1),
        &one(),
        &scheduler(text, ".init = (void *)timer_init"),
    );
    assert_eq!(
        message,
        "its timer_callback() calls scx_bpf_dsq_insert() (allowed in select_cpu(), enqueue() and dispatch()), \
         which the kernel's verifier refuses"
    );
}

#[test]
fn sleepable_kfuncs_are_refused_like_by_the_verifier() {
    let message = error("return prev_cpu;", "scx_bpf_create_dsq(7, -1);");
    assert!(
        message.starts_with(
            "scx_bpf_create_dsq() may sleep, and was called in enqueue(); expected one of init(), "
        ),
        "{message}"
    );
}

#[test]
fn a_queue_is_on_a_node_that_there_is() {
    let text = "s32 BPF_STRUCT_OPS_SLEEPABLE(create)
        {
            s32 far = scx_bpf_create_dsq(7, 3), somewhere = scx_bpf_create_dsq(7, -1);
            return far == -EINVAL && !somewhere && !scx_bpf_create_dsq(8, 0) ? -77 : -1;
        }";
    let scheduler = scheduler(text, ".init = (void *)create");
    let (_, message) = exit_of(&machine(2), &one(), &scheduler);
    assert_eq!(message, "ops.init() failed (-77)");
}

#[test]
fn without_idle_tracking_there_is_no_idle_mask() {
    let text = |call: &str| {
        format!(
            "s32 BPF_STRUCT_OPS(ask, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
            {{ bool idle; {call}; return prev_cpu; }}
            void BPF_STRUCT_OPS(idle_update, s32 cpu, bool idle) {{}}"
        )
    };
    for call in [
        "scx_bpf_pick_idle_cpu(p->cpus_ptr, 0)",
        "scx_bpf_test_and_clear_cpu_idle(0)",
        "scx_bpf_get_idle_cpumask()",
        "scx_bpf_get_idle_smtmask()",
        "scx_bpf_select_cpu_dfl(p, 0, 0, &idle)",
    ] {
        let scheduler = scheduler(
            &text(call),
            ".select_cpu = (void *)ask, .update_idle = (void *)idle_update",
        );
        let (_, message) = exit_of(&machine(2), &one(), &scheduler);
        assert_eq!(message, "built-in idle tracking is disabled", "{call}");
    }
}

fn fails(start: impl Fn() -> Start + Send + Sync) -> Error {
    let plain = scheduler(FIFO, "FIFO_OPS");
    match try_run(&machine(2), &Script(start), &plain, &[], None) {
        Err(error) => error,
        Ok(_) => panic!("nothing went wrong"),
    }
}

#[test]
fn tasks_that_wait_for_each_other_are_a_deadlock() {
    let error = fails(|| Start {
        tasks: vec![
            task("a", [Op::Lock(0), sleep_for(1), Op::Lock(1)]),
            task("b", [Op::Lock(1), sleep_for(1), Op::Lock(0)]),
        ],
        mutexes: 2,
        ..Start::default()
    });
    let Error::Deadlock(Deadlock { waiting, .. }) = &error else {
        panic!("{error}")
    };
    assert_eq!(
        waiting,
        "a[1001] waits for mutex 1, b[1002] waits for mutex 0"
    );
}

#[test]
fn a_duration_ends_what_waits() {
    let start = || Start {
        tasks: vec![task("a", [Op::Lock(0), Op::Wait { cond: 0, mutex: 0 }])],
        mutexes: 1,
        condvars: 1,
        duration_ns: Some(1_000_000),
        ..Start::default()
    };
    let plain = scheduler(FIFO, "FIFO_OPS");
    let ran = try_run(&machine(1), &Script(start), &plain, &[], None).unwrap();
    assert_eq!(ran.outcome.simulated_ns, 1_000_000);
    let deadlock = ran.outcome.deadlock.unwrap();
    assert!(deadlock.at_ns < 100_000, "{deadlock:?}");
    assert_eq!(deadlock.waiting, "a[1001] waits for a condition");
}

#[test]
fn errors_that_a_kernel_would_report_name_the_task() {
    let error = fails(|| Start {
        tasks: vec![task("a", [Op::Unlock(0)])],
        mutexes: 1,
        ..Start::default()
    });
    assert_eq!(
        error.to_string(),
        "task a[1001] at 0 ns: unlocks mutex 0, which it does not hold"
    );
}

#[test]
fn a_program_that_lets_no_time_pass_is_stuck() {
    for endless in [|| Op::Run { work: 0 }, || Op::Yield] {
        let error = fails(move || {
            let spins = TaskSpec::new("spins", move |_: &mut Env| endless());
            Start {
                tasks: vec![spins],
                ..Start::default()
            }
        });
        let message = error.to_string();
        assert!(message.contains("spins[1001]"), "{message}");
        assert!(
            message.contains("operations without time passing"),
            "{message}"
        );
    }
}

#[test]
fn a_run_that_takes_too_long_is_cut_off() {
    let error = fails(|| Start {
        tasks: vec![task("a", [run_for(200_000)])],
        ..Start::default()
    });
    assert_eq!(
        error.to_string(),
        "not finished after 100000000000 ns of simulated time"
    );
}

#[test]
fn a_timer_that_restarts_itself_at_once_is_stopped() {
    let text = "
        struct value { struct bpf_timer timer; };
        struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, u32);
                 __type(value, struct value); } timers SEC(\".maps\");
        static int again(void *map, int *key, struct value *value)
        { return bpf_timer_start(&value->timer, 0, 0); }
        s32 BPF_STRUCT_OPS_SLEEPABLE(start)
        {
            u32 key = 0;
            struct value *value = bpf_map_lookup_elem(&timers, &key);
            if (!value)
                return -ENOENT;
            bpf_timer_init(&value->timer, &timers, CLOCK_MONOTONIC);
            bpf_timer_set_callback(&value->timer, again);
            return bpf_timer_start(&value->timer, 0, 0);
        }";
    let (reason, message) = exit_of(
        &machine(1),
        &one(),
        &scheduler(text, ".init = (void *)start"),
    );
    assert_eq!(reason, "runtime error");
    assert!(
        message.contains("its timers expire more than 20000 times"),
        "{message}"
    );
}

#[test]
fn a_cpu_that_kicks_itself_at_every_switch_is_stopped() {
    let text = "void BPF_STRUCT_OPS(kicks, s32 cpu, struct task_struct *prev)
        { scx_bpf_kick_cpu(cpu, FLAGS); }";
    for flags in ["0", "SCX_KICK_PREEMPT"] {
        let kicks = scheduler(&text.replace("FLAGS", flags), ".dispatch = (void *)kicks");
        let (_, message) = exit_of(&machine(1), &one(), &kicks);
        let expected = "without time passing: CPU 0 calls ops.dispatch() again and again; ";
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_map_that_no_simulation_could_hold_is_refused() {
    let text = "
        struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 0xffffffff);
                 __type(key, u32); __type(value, struct task_struct); } tasks SEC(\".maps\");";
    let scheduler = scheduler(text, ".timeout_ms = 5000");
    let Err(error) = try_run(&machine(1), &one(), &scheduler, &[], None) else {
        panic!("it is loaded");
    };
    assert!(
        error.to_string().contains("map `tasks`: an array of"),
        "{error}"
    );
}

#[test]
fn a_task_that_idle_cpus_do_not_run_is_a_stall_after_three_seconds() {
    let text = "void BPF_STRUCT_OPS(lose, struct task_struct *p, u64 enq_flags)
        { if (p->comm[0] != 'b') scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags); }";
    let lose = scheduler(text, ".enqueue = (void *)lose");
    // The other CPU is busy for a long time, and `b` may not run on it.
    let workload = tasks(|| {
        [
            bound("a", 1, [run_for(60_000)]),
            bound("b", 0, [run_for(1)]),
        ]
    });
    let (reason, message) = exit_of(&machine(2), &workload, &lose);
    assert_eq!(reason, "runnable task stall");
    let waited = message.strip_prefix("1 task was runnable for ");
    let (seconds, rest) = waited.unwrap().split_once('.').unwrap();
    assert!(["3", "4", "5"].contains(&seconds), "{message}");
    let end = " s and not dispatched, while its CPUs idled: b[1002]";
    assert!(rest.ends_with(end), "{message}");
}

/// Only the shell is dispatched, and the run ends before the watchdog checks.
#[test]
fn tasks_that_are_never_dispatched_are_a_stall_in_a_short_run() {
    let lose = scheduler(
        "void BPF_STRUCT_OPS(lose, struct task_struct *p, u64 enq_flags)
        { if (p->comm[0] == 's') scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags); }
        s32 BPF_STRUCT_OPS(stay, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
        { return prev_cpu; }",
        ".enqueue = (void *)lose, .select_cpu = (void *)stay",
    );
    let workload = models::load("mixed:duration=1").unwrap();
    let (reason, message) = exit_of(&machine(2), &*workload, &lose);
    assert_eq!(reason, "runnable task stall");
    assert!(
        message.contains("tasks were runnable for 1.000 s"),
        "{message}"
    );
    assert!(message.contains("and not dispatched"), "{message}");
    assert!(message.contains(": ui[1001], "), "{message}");
}

#[test]
fn a_run_in_which_nothing_is_dispatched_is_a_stall_however_short() {
    let lose = scheduler(
        "void BPF_STRUCT_OPS(lose, struct task_struct *p, u64 enq_flags) {}",
        ".enqueue = (void *)lose",
    );
    let workload = models::load("mixed:duration=100ms").unwrap();
    let (reason, message) = exit_of(&machine(2), &*workload, &lose);
    assert_eq!(reason, "runnable task stall");
    assert_eq!(
        message,
        "1 task was runnable for 0.100 s and not dispatched, while its CPUs idled: sh[1000]"
    );
}

#[test]
fn iterations_of_queues_begin_and_end_once() {
    let walks = |body: &str| {
        let text = format!(
            "s32 BPF_STRUCT_OPS_SLEEPABLE(walk_init) {{ return scx_bpf_create_dsq(5, -1); }}
            void BPF_STRUCT_OPS(walk, struct task_struct *p, u64 enq_flags)
            {{ struct bpf_iter_scx_dsq it = {{}}, other = {{}}; (void)it; (void)other; {body}
               scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags); }}"
        );
        scheduler(&text, ".init = (void *)walk_init, .enqueue = (void *)walk")
    };
    let new = "bpf_iter_scx_dsq_new(&it, 5, 0);";
    let destroy = "bpf_iter_scx_dsq_destroy(&it);";
    for (body, what) in [
        (new.to_owned(), "without releasing"),
        (format!("{new} {new} {destroy}"), "that has already begun"),
        (
            format!("{new} {destroy} {destroy}"),
            "ends an iteration that has not begun",
        ),
        (
            "bpf_iter_scx_dsq_next(&other);".to_owned(),
            "continues an iteration that has not begun",
        ),
    ] {
        let (reason, message) = exit_of(&machine(1), &one(), &walks(&body));
        assert_eq!(reason, "runtime error");
        assert!(message.contains(what), "{body}: {message}");
        assert!(message.contains("verifier refuses"), "{message}");
    }
    // An iterator can be used again after its end, and one for a queue that does not exist ends like any other.
    let twice = format!(
        "{new} {destroy} bpf_iter_scx_dsq_new(&other, 6, 0); bpf_iter_scx_dsq_destroy(&other); {new} {destroy}"
    );
    run(&machine(1), &one(), &walks(&twice));
}

#[test]
fn timers_are_in_maps_and_leave_time_for_tasks() {
    let timers = |count: u32, start: &str| {
        let text = format!(
            "struct holder {{ struct bpf_timer timer; }};
            struct {{ __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, {count}); __type(key, u32);
                     __type(value, struct holder); }} timers SEC(\".maps\");
            struct holder outside;
            static int expired(void *map, int *key, struct holder *holder)
            {{ bpf_timer_start(&holder->timer, 1, 0); return 0; }}
            static void start(struct holder *holder)
            {{
                bpf_timer_init(&holder->timer, &timers, CLOCK_MONOTONIC);
                bpf_timer_set_callback(&holder->timer, expired);
                bpf_timer_start(&holder->timer, 1, 0);
            }}
            s32 BPF_STRUCT_OPS_SLEEPABLE(timer_init)
            {{
                u32 i;
                {start}
                return 0;
            }}"
        );
        scheduler(&text, ".init = (void *)timer_init")
    };
    let all = "for (i = 0; i < 1000; i++) { struct holder *h = bpf_map_lookup_elem(&timers, &i); if (h) start(h); }";
    for (count, start, what) in [
        (
            1,
            "(void)i; start(&outside);",
            "has a timer that is not in a value of its map",
        ),
        (1000, all, "its timers expire more than 20000 times in 1 ms"),
        (1, all, "its timers expire more than 20000 times in 1 ms"),
    ] {
        let (reason, message) = exit_of(&machine(2), &one(), &timers(count, start));
        assert_eq!(reason, "runtime error");
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn an_offline_cpu_is_kicked_in_vain() {
    let mut machine = machine(4);
    machine.offline = machine::CpuMask::one(3);
    let text = "u64 asked;
        void BPF_STRUCT_OPS(queue, struct task_struct *p, u64 enq_flags)
        {
            scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
            scx_bpf_kick_cpu(3, 0);
            scx_bpf_kick_cpu(3, SCX_KICK_PREEMPT);
        }
        void BPF_STRUCT_OPS(look, s32 cpu, struct task_struct *prev)
        { if (cpu == 3) scx_bpf_error(\"asked what an offline CPU runs\"); }";
    let kicks = scheduler(text, ".enqueue = (void *)queue, .dispatch = (void *)look");
    run(&machine, &one(), &kicks);
}
