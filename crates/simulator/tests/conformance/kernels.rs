//! Differences between the kernels that can be simulated.

use crate::support::*;
use machine::{CpuMask, Level};
use native::{Kernel, Object};

fn in_kernel(kernel: Kernel, text: &str, ops: &str) -> Object {
    scheduler_in(kernel, text, ops).unwrap_or_else(|error| panic!("{error}"))
}

/// The message that refuses the scheduler, without the file's name.
fn refused(kernel: Kernel, text: &str, ops: &str) -> String {
    let error = scheduler_in(kernel, text, ops).unwrap_err().to_string();
    error
        .replace('\n', " ")
        .split_once("test.bpf.c:")
        .unwrap()
        .1
        .to_owned()
}

fn one() -> impl workload::Workload {
    tasks(|| [task("a", [run_for(1)])])
}

/// A scheduler whose ops.enqueue() executes `body` and then inserts the task.
fn enqueuing(body: &str) -> String {
    format!(
        "void BPF_STRUCT_OPS(queue, struct task_struct *p, u64 enq_flags)
        {{ {body}; scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags); }}"
    )
}
const ENQUEUE: &str = ".enqueue = (void *)queue";

#[test]
fn a_missing_feature_is_named_with_the_kernel_that_has_it() {
    let cpu_rq = enqueuing("struct rq *rq = scx_bpf_cpu_rq(0); if (rq) rq_seen = rq->nr_running");
    let cpu_rq = format!("u32 rq_seen;\n{cpu_rq}");
    in_kernel(Kernel::V6_12, &cpu_rq, ENQUEUE);
    let message = refused(Kernel::V7_3, &cpu_rq, ENQUEUE);
    assert!(
        message.ends_with(
            ": scx_bpf_cpu_rq() was removed in Linux 7.3; use --kernel 6.12 or \
             bpf_per_cpu_ptr(&runqueues, cpu) or scx_bpf_cpu_curr()"
        ),
        "{message}"
    );
    let twice = enqueuing("scx_bpf_dispatch(p, 0, 1, 0); scx_bpf_dispatch(p, 1, 1, 0)");
    let message = refused(Kernel::V7_3, &twice, ENQUEUE);
    assert_eq!(
        message.matches("scx_bpf_dispatch()").count(),
        1,
        "{message}"
    );
    assert!(
        message.contains("use scx_bpf_dsq_insert() or --kernel 6.12"),
        "{message}"
    );
    let peek = enqueuing("if (scx_bpf_dsq_peek(0)) return");
    let message = refused(Kernel::V6_12, &peek, ENQUEUE);
    assert!(
        message.ends_with(": scx_bpf_dsq_peek() is new in Linux 6.19; use --kernel 7.3"),
        "{message}"
    );
}

#[test]
fn ops_and_flags_that_a_kernel_lacks_are_refused() {
    let text = "void BPF_STRUCT_OPS(idle, struct cgroup *cgrp, bool idle) {}";
    let op = ".cgroup_set_idle = (void *)idle";
    in_kernel(Kernel::V7_3, text, op);
    let message = refused(Kernel::V6_12, text, op);
    assert_eq!(
        message,
        " ops.cgroup_set_idle() is new in Linux 6.19; use --kernel 7.3"
    );
    let flags = ".flags = SCX_OPS_TID_TO_TASK | SCX_OPS_ENQ_EXITING";
    in_kernel(Kernel::V7_3, "", flags);
    let message = refused(Kernel::V6_12, "", flags);
    assert_eq!(
        message,
        " SCX_OPS_TID_TO_TASK is new in Linux 7.2; use --kernel 7.3"
    );
    let weight = ".flags = SCX_OPS_HAS_CGROUP_WEIGHT";
    in_kernel(Kernel::V6_12, "", weight);
    let message = refused(Kernel::V7_3, "", weight);
    assert!(
        message.contains("SCX_OPS_HAS_CGROUP_WEIGHT was removed"),
        "{message}"
    );
}

#[test]
fn deprecated_ops_get_a_warning_in_kernels_that_deprecate_them() {
    let text = "void BPF_STRUCT_OPS(release, s32 cpu, struct scx_cpu_release_args *args) {}";
    let op = ".cpu_release = (void *)release";
    assert!(in_kernel(Kernel::V6_12, text, op).warnings().is_empty());
    let warnings = in_kernel(Kernel::V7_3, text, op).warnings();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("ops.cpu_release() is deprecated in Linux 7.3; use "),
        "{warnings:?}"
    );
    assert!(
        in_kernel(Kernel::V7_3, "", ".timeout_ms = 1000")
            .warnings()
            .is_empty()
    );
}

#[test]
fn a_scheduler_that_asks_is_told_what_its_kernel_has() {
    let asks = "
        struct asks { u32 peek, insert, cpu_rq, immed, exit_cpu, args, version, own; } found;
        extern int unknown_function(int) __ksym __weak;
        s32 BPF_STRUCT_OPS_SLEEPABLE(asks_init)
        {
            struct scx_exit_info *ei = NULL;

            found.peek = bpf_ksym_exists(scx_bpf_dsq_peek);
            found.insert = bpf_ksym_exists(scx_bpf_dsq_insert);
            found.cpu_rq = bpf_ksym_exists(scx_bpf_cpu_rq);
            found.immed = bpf_core_enum_value_exists(enum scx_enq_flags, SCX_ENQ_IMMED)
                && SCX_ENQ_IMMED && __COMPAT_ENUM_OR_ZERO(u64, SCX_ENQ_IMMED) == 1ULL << 33;
            found.exit_cpu = bpf_core_field_exists(ei->exit_cpu);
            found.args = bpf_core_type_exists(struct scx_bpf_select_cpu_and_args);
            found.version = LINUX_KERNEL_VERSION >= KERNEL_VERSION(7, 1, 0);
            found.own = bpf_ksym_exists(bpf_map_lookup_elem) && bpf_core_field_exists(ei->kind);
            /* A guarded call compiles in every kernel. */
            if (bpf_ksym_exists(scx_bpf_cpu_rq) && scx_bpf_cpu_rq(0)->cpu)
                return -1;
            if (bpf_ksym_exists(scx_bpf_cpu_curr) && !scx_bpf_cpu_curr(0))
                return -1;
            return 0;
        }";
    let expected = [
        (Kernel::V6_12, [0, 0, 1, 0, 0, 0, 0, 1]),
        (Kernel::V7_3, [1, 1, 0, 1, 1, 1, 1, 1]),
    ];
    for (kernel, expected) in expected {
        let scheduler = in_kernel(kernel, asks, ".init = (void *)asks_init");
        let (machine, workload) = (machine(1), one());
        let config = simulator::Config {
            read: &["found"],
            time_limit_ns: 1000 * MS,
            ..simulator::Config::new(&machine, &workload, &scheduler, &[])
        };
        let found = simulator::run(config)
            .unwrap_or_else(|error| panic!("{error}"))
            .read;
        let found: Vec<u32> = found[0]
            .chunks(4)
            .map(|word| u32::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(found, expected, "{kernel}");
    }
}

/// Linux 6.12 checks at run time which op calls a kfunc; the verifier of 7.3 does so at load time.
#[test]
fn kfuncs_are_for_some_ops_alone() {
    let idle = enqueuing("bool idle; scx_bpf_select_cpu_dfl(p, 0, 0, &idle)");
    run(
        &machine(2),
        &one(),
        &in_kernel(Kernel::V7_3, &idle, ENQUEUE),
    );
    let (_, message) = exit_of(
        &machine(2),
        &one(),
        &in_kernel(Kernel::V6_12, &idle, ENQUEUE),
    );
    assert_eq!(
        message,
        "kfunc with mask 0x8 called from an operation only allowing 0x4"
    );
    let ran = |call| format!("void BPF_STRUCT_OPS(ran, struct task_struct *p) {{ {call}; }}");
    for (kernel, call, expected) in [
        (
            Kernel::V6_12,
            "scx_bpf_reenqueue_local()",
            "kfunc with mask 0x1 called from an operation only allowing 0x10",
        ),
        (
            Kernel::V7_3,
            "scx_bpf_dispatch_cancel()",
            "its running() calls scx_bpf_dispatch_cancel() (allowed in dispatch()), which the kernel's verifier refuses",
        ),
    ] {
        let scheduler = in_kernel(kernel, &ran(call), ".running = (void *)ran");
        assert_eq!(exit_of(&machine(1), &one(), &scheduler).1, expected);
    }
    // Linux 6.19 and later allow the call everywhere.
    let again = in_kernel(
        Kernel::V7_3,
        &ran("scx_bpf_reenqueue_local()"),
        ".running = (void *)ran",
    );
    run(&machine(1), &one(), &again);
    let nowhere = in_kernel(
        Kernel::V6_12,
        &enqueuing("scx_bpf_dsq_insert(p, 0xbad, 1, 0); return"),
        ENQUEUE,
    );
    let (_, message) = exit_of(&machine(1), &one(), &nowhere);
    assert_eq!(message, "non-existent DSQ 0xbad for sh[1000]");
}

const TIMER: &str = "struct holder { struct bpf_timer timer; };
    struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1);
             __type(key, u32); __type(value, struct holder); } timers SEC(\".maps\");
    static int expired(void *map, int *key, struct holder *holder)
    {
        struct task_struct *p;
        bpf_for_each(scx_dsq, p, 0, 0)
            scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | 0, 0);
        return 0;
    }
    static void start(bool sets)
    {
        u32 key = 0;
        struct holder *holder = bpf_map_lookup_elem(&timers, &key);
        if (sets) {
            bpf_timer_init(&holder->timer, &timers, CLOCK_MONOTONIC);
            bpf_timer_set_callback(&holder->timer, expired);
        }
        bpf_timer_start(&holder->timer, 500000, 0);
    }
    s32 BPF_STRUCT_OPS_SLEEPABLE(timer_init) { start(sets_in_init); return scx_bpf_create_dsq(0, -1); }
    void BPF_STRUCT_OPS(timer_enqueue, struct task_struct *p, u64 enq_flags)
    {
        if (p->pid == 1000)
            scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, 0);
        else
            scx_bpf_dsq_insert(p, 0, SCX_SLICE_DFL, enq_flags);
        if (!sets_in_init && p->pid != 1000)
            start(true);
    }";

/// Since Linux 7.2 a timer's callback has the rights of the program that set it.
#[test]
fn a_timers_callback_has_the_rights_of_the_one_that_set_it() {
    for (kernel, sets_in_init, refused) in [
        (Kernel::V7_3, true, false),
        (Kernel::V7_3, false, true),
        (Kernel::V6_12, false, false),
    ] {
        let text = format!("#define sets_in_init {sets_in_init}\n{TIMER}");
        let ops = ".init = (void *)timer_init, .enqueue = (void *)timer_enqueue";
        let scheduler = in_kernel(kernel, &text, ops);
        match try_run(&machine(1), &one(), &scheduler, &[], None) {
            Ok(_) => assert!(!refused),
            Err(error) => assert!(
                refused
                    && error
                        .to_string()
                        .contains("its timer_callback() calls scx_bpf_dsq_move()"),
                "{kernel}: {error}"
            ),
        }
    }
}

/// Linux 7.3 calls ops.dequeue() for every task that leaves the scheduler's custody.
#[test]
fn the_scheduler_is_told_when_a_task_leaves_it() {
    let text = format!(
        "{FIFO}
        void BPF_STRUCT_OPS(left, struct task_struct *p, u64 deq_flags) {{ note(\"dequeue\", p, deq_flags >> 32); }}
        void BPF_STRUCT_OPS(ran, struct task_struct *p) {{ note(\"running\", p, 0); }}"
    );
    let ops = "FIFO_OPS, .dequeue = (void *)left, .running = (void *)ran";
    let ran = run(&machine(1), &one(), &in_kernel(Kernel::V7_3, &text, ops));
    assert_eq!(ran.log(), ["dequeue a", "running a"]);
    let ran = run(&machine(1), &one(), &in_kernel(Kernel::V6_12, &text, ops));
    assert_eq!(ran.log(), ["running a"]);
}

/// Linux 7.3 applies a verdict's slice when it inserts the task.
#[test]
fn a_verdict_takes_its_slice_along() {
    let text = "void BPF_STRUCT_OPS(queue, struct task_struct *p, u64 enq_flags)
        {
            scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, 5000000, enq_flags);
            note(\"slice\", p, p->scx.slice);
        }
        void BPF_STRUCT_OPS(ran, struct task_struct *p) { note(\"ran\", p, p->scx.slice); }";
    let ops = ".enqueue = (void *)queue, .running = (void *)ran";
    let of = |kernel| {
        let ran = run(&machine(1), &one(), &in_kernel(kernel, text, ops));
        (ran.numbers("slice")[0], ran.numbers("ran")[0])
    };
    assert_eq!(of(Kernel::V6_12), (5_000_000, 5_000_000));
    assert_eq!(of(Kernel::V7_3), (20_000_000, 5_000_000));
}

/// SCX_ENQ_IMMED: a task that cannot run immediately goes back to the scheduler.
#[test]
fn a_task_that_is_to_run_at_once_does_not_wait() {
    let text = "s32 BPF_STRUCT_OPS_SLEEPABLE(immed_init) { return scx_bpf_create_dsq(0, -1); }
        void BPF_STRUCT_OPS(queue, struct task_struct *p, u64 enq_flags)
        {
            u32 reason = (p->scx.flags & SCX_TASK_REENQ_REASON_MASK) >> SCX_TASK_REENQ_REASON_SHIFT;

            if (enq_flags & SCX_ENQ_REENQ) {
                note(\"back\", p, reason);
                scx_bpf_dsq_insert(p, 0, SCX_SLICE_DFL, enq_flags);
            } else {
                scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags | SCX_ENQ_IMMED);
            }
        }
        void BPF_STRUCT_OPS(fetch, s32 cpu, struct task_struct *prev) { scx_bpf_dsq_move_to_local(0, 0); }";
    let ops = ".init = (void *)immed_init, .enqueue = (void *)queue, .dispatch = (void *)fetch";
    let two = || {
        tasks(|| {
            [
                bound("a", 0, [run_for(3)]),
                bound("b", 0, [sleep_for(1), run_for(1)]),
            ]
        })
    };
    let ran = run(&machine(1), &two(), &in_kernel(Kernel::V7_3, text, ops));
    // SCX_TASK_REENQ_IMMED
    assert!(ran.tasks("back").contains(&"b".to_owned()));
    assert!(ran.numbers("back").iter().all(|&reason| reason == 2));
    // Linux 6.12 lacks the flag.
    let ran = run(&machine(1), &two(), &in_kernel(Kernel::V6_12, text, ops));
    assert!(ran.tasks("back").is_empty());
    // A scheduler that inserts such a task again and again is stopped.
    let insists = text.replace(
        "scx_bpf_dsq_insert(p, 0, SCX_SLICE_DFL, enq_flags);\n",
        "scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, SCX_ENQ_IMMED);\n",
    );
    let (reason, message) = exit_of(&machine(1), &two(), &in_kernel(Kernel::V7_3, &insists, ops));
    assert_eq!(reason, "reenqueue limit");
    assert!(
        message.ends_with("reenqueued 257 times without running"),
        "{message}"
    );
}

/// Since Linux 6.19 any op may reenqueue the tasks of the local queue.
#[test]
fn local_tasks_go_back_from_anywhere() {
    let text = "
        void BPF_STRUCT_OPS(queue, struct task_struct *p, u64 enq_flags)
        {
            if (enq_flags & SCX_ENQ_REENQ)
                note(\"back\", p, (p->scx.flags & SCX_TASK_REENQ_REASON_MASK) >> SCX_TASK_REENQ_REASON_SHIFT);
            scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags);
        }
        void BPF_STRUCT_OPS(tick, struct task_struct *p)
        {
            if (scx_bpf_reenqueue_local_from_anywhere())
                scx_bpf_error(\"too old\");
        }";
    let ops = ".enqueue = (void *)queue, .tick = (void *)tick";
    let workload = || tasks(|| [bound("a", 0, [run_for(5)]), bound("b", 0, [run_for(1)])]);
    let ran = run(
        &machine(1),
        &workload(),
        &in_kernel(Kernel::V7_3, text, ops),
    );
    // SCX_TASK_REENQ_KFUNC
    assert_eq!(
        (ran.tasks("back")[0].as_str(), ran.numbers("back")[0]),
        ("b", 1)
    );
    let (_, message) = exit_of(
        &machine(1),
        &workload(),
        &in_kernel(Kernel::V6_12, text, ops),
    );
    assert_eq!(message, "too old");
}

#[test]
fn the_locked_runqueue_is_the_ops() {
    let text = "
        void BPF_STRUCT_OPS(ran, struct task_struct *p) { note(\"rq\", p, scx_bpf_locked_rq()->cpu); }
        s32 BPF_STRUCT_OPS(choose, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
        {
            if (asks)
                scx_bpf_locked_rq();
            return prev_cpu;
        }";
    let ops = ".running = (void *)ran, .select_cpu = (void *)choose";
    let on_1 = || {
        tasks(|| {
            [
                bound("a", 1, [run_for(1)]),
                task("b", [run_for(1), sleep_for(1)]),
            ]
        })
    };
    let text = |asks| format!("#define asks {asks}\n{text}");
    let ran = run(&machine(2), &on_1(), &scheduler(&text(false), ops));
    let of_a = ran.lines().into_iter().filter(|line| line.task == "a");
    assert!(of_a.map(|line| line.number).all(|cpu| cpu == 1));
    let (_, message) = exit_of(&machine(2), &on_1(), &scheduler(&text(true), ops));
    assert_eq!(message, "accessing rq without holding rq lock");
}

/// A cid-form scheduler gets and returns cids, which ops.init_cids() may reassign.
#[test]
fn a_scheduler_may_know_cpus_by_cid() {
    let text = "
        s32 BPF_STRUCT_OPS_SLEEPABLE(cid_cids)
        {
            s32 cids[4] = { 3, 2, 1, 0 }, shards[3] = { 0, 2, 2 };

            if (overrides)
                scx_bpf_cid_override(cids, 4, shards, bad ? 3 : 2);
            return 0;
        }
        s32 BPF_STRUCT_OPS(cid_select, struct task_struct *p, s32 prev_cid, u64 wake_flags)
        {
            scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
            return p->pid == 1000 ? prev_cid : 3;
        }
        void BPF_STRUCT_OPS(cid_ran, struct task_struct *p)
        {
            struct scx_cid_topo topo;

            scx_bpf_cid_topo(scx_bpf_this_cid(), &topo);
            note(\"cid\", p, scx_bpf_this_cid());
            note(\"shard\", p, topo.shard_cid);
            if (scx_bpf_cid_to_cpu(scx_bpf_task_cid(p)) != bpf_get_smp_processor_id() || scx_bpf_nr_cids() != 4)
                scx_bpf_error(\"no such CPU\");
            if (kicks)
                scx_bpf_kick_cpu(0, 0);
        }
        void BPF_STRUCT_OPS(cid_mask, struct task_struct *p, const struct scx_cmask *mask)
        {
            note(\"mask\", p, cmask_weight(mask) * 10 + cmask_first_set(mask));
        }
        SCX_OPS_CID_DEFINE(cid_ops, .init_cids = (void *)cid_cids, .select_cid = (void *)cid_select,
                           .running = (void *)cid_ran, .set_cmask = (void *)cid_mask, .name = \"cid\");
        #undef SCX_OPS_DEFINE
        #define SCX_OPS_DEFINE(...)\n";
    let with = |overrides: bool, bad: bool, kicks: bool| {
        let define =
            format!("#define overrides {overrides}\n#define bad {bad}\n#define kicks {kicks}\n");
        scheduler(&format!("{define}{text}"), "")
    };
    let workload = || tasks(|| [task("a", [run_for(1)]), bound("b", 0, [run_for(1)])]);
    let ran = run(&machine(4), &workload(), &with(false, false, false));
    let numbers = |ran: &Ran, what: &str, task: &str| -> Vec<i64> {
        let lines = ran.lines().into_iter();
        let lines = lines.filter(|line| line.what == what && line.task == task);
        lines.map(|line| line.number).collect()
    };
    assert_eq!(numbers(&ran, "cid", "a"), [3]);
    assert_eq!(
        (numbers(&ran, "mask", "a"), numbers(&ran, "mask", "b")),
        (vec![40], vec![10])
    );
    let ran = run(&machine(4), &workload(), &with(true, false, false));
    let a = ran
        .lines()
        .into_iter()
        .find(|line| line.what == "cid" && line.task == "a")
        .unwrap();
    assert_eq!((a.number, a.cpu), (3, 0));
    assert_eq!(
        (numbers(&ran, "shard", "a"), numbers(&ran, "mask", "b")),
        (vec![2], vec![13])
    );
    let (_, message) = exit_of(&machine(4), &workload(), &with(true, true, false));
    assert!(
        message.starts_with("scx_bpf_cid_override: shard_start"),
        "{message}"
    );
    let (_, message) = exit_of(&machine(4), &workload(), &with(false, false, true));
    assert_eq!(
        message,
        "its running() calls scx_bpf_kick_cpu() in a cid-form scheduler, which the kernel's verifier refuses"
    );
}

/// SCX_OPS_BUILTIN_IDLE_PER_NODE enables idle masks for each NUMA node.
#[test]
fn nodes_have_idle_masks_of_their_own() {
    let text = "
        s32 BPF_STRUCT_OPS(choose, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
        {
            s32 node = p->pid == 1001, cpu = scx_bpf_pick_idle_cpu_node(p->cpus_ptr, node, SCX_PICK_IDLE_IN_NODE);
            const struct cpumask *idle = scx_bpf_get_idle_cpumask_node(1);

            if (p->pid != 1000) {
                note(\"node\", p, scx_bpf_cpu_node(cpu));
                note(\"idle\", p, bpf_cpumask_weight(idle) * 10 + bpf_cpumask_first(idle));
            }
            scx_bpf_put_idle_cpumask(idle);
            scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
            if (flat)
                scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
            return cpu < 0 ? prev_cpu : cpu;
        }";
    let mut machine = machine(4);
    let spans = [[0, 1], [2, 3]].map(|cpus| cpus.iter().copied().collect::<CpuMask>());
    machine.levels.push(Level {
        name: "PKG",
        spans: spans.into(),
    });
    let ops = ".select_cpu = (void *)choose, .flags = SCX_OPS_BUILTIN_IDLE_PER_NODE";
    let with = |flat| scheduler(&format!("#define flat {flat}\n{text}"), ops);
    let two = || tasks(|| [task("a", [run_for(1)]), task("b", [run_for(1)])]);
    let ran = run(&machine, &two(), &with(false));
    assert_eq!(ran.numbers("node"), [1, 0]);
    assert!(ran.numbers("idle")[0] / 10 <= 1 && ran.numbers("idle")[1] / 10 <= 2);
    let (_, message) = exit_of(&machine, &two(), &with(true));
    assert_eq!(message, "per-node idle tracking is enabled");
}
