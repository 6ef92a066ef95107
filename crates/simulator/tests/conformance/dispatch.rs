//! The destinations of dispatched tasks, the order of queues, and iteration over a queue.

use crate::support::*;
use native::Object;

/// A scheduler with one queue whose ops.enqueue() is `enqueue`.
fn enqueueing(enqueue: &str) -> Object {
    let text = format!(
        "{FIFO}
        s32 BPF_STRUCT_OPS(select_op, struct task_struct *p, s32 prev_cpu, u64 wake_flags) {{ return prev_cpu; }}
        void BPF_STRUCT_OPS(enqueue_op, struct task_struct *p, u64 enq_flags) {{ {enqueue} }}
        void BPF_STRUCT_OPS(running_op, struct task_struct *p) {{ note(\"running\", p, 0); }}"
    );
    let ops = ".init = (void *)fifo_init, .dispatch = (void *)fifo_dispatch,
        .select_cpu = (void *)select_op, .enqueue = (void *)enqueue_op, .running = (void *)running_op";
    scheduler(&text, ops)
}

/// Four tasks that are queued in this order before any can run on the only CPU.
fn four() -> impl workload::Workload {
    tasks(|| ["a", "b", "c", "d"].map(|name| bound(name, 0, [run_for(1)])))
}

#[test]
fn direct_dispatch_from_enqueue() {
    let workload = tasks(|| [task("a", [run_for(1)])]);
    for (dsq, cpu) in [("SCX_DSQ_LOCAL_ON | 1", 1), ("SCX_DSQ_LOCAL_ON | 2", 2)] {
        let enqueue = format!("scx_bpf_dsq_insert(p, {dsq}, SCX_SLICE_DFL, enq_flags);");
        let ran = run(&machine(3), &workload, &enqueueing(&enqueue));
        assert_eq!(ran.lines()[0].cpu, cpu);
    }
    for dsq in ["SCX_DSQ_LOCAL", "SCX_DSQ_GLOBAL", "SHARED"] {
        let enqueue = format!("scx_bpf_dsq_insert(p, {dsq}, SCX_SLICE_DFL, enq_flags);");
        let ran = run(&machine(1), &four(), &enqueueing(&enqueue));
        assert_eq!(ran.tasks("running"), ["a", "b", "c", "d"], "{dsq}");
    }
}

#[test]
fn a_dispatch_from_select_cpu_goes_to_the_local_queue_of_the_cpu_it_returns() {
    let text = r#"
    s32 BPF_STRUCT_OPS(select, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
    {
        scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, 5000000, 0);
        return 2;
    }
    void BPF_STRUCT_OPS(enqueue, struct task_struct *p, u64 enq_flags)
    {
        note("enqueue", p, 0);
        scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
    }
    void BPF_STRUCT_OPS(running, struct task_struct *p) { note("running", p, p->scx.slice); }
    "#;
    let ops =
        ".select_cpu = (void *)select, .enqueue = (void *)enqueue, .running = (void *)running";
    let workload = tasks(|| [task("a", [run_for(1)])]);
    let ran = run(&machine(4), &workload, &scheduler(text, ops));
    assert_eq!(ran.log(), ["running a"], "ops.enqueue() is not called");
    assert_eq!((ran.lines()[0].cpu, ran.lines()[0].number), (2, 5_000_000));
}

#[test]
fn a_head_insertion_comes_first() {
    let enqueue = "scx_bpf_dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags | SCX_ENQ_HEAD);";
    let ran = run(&machine(1), &four(), &enqueueing(enqueue));
    assert_eq!(ran.tasks("running"), ["d", "c", "b", "a"]);
}

#[test]
fn virtual_time_orders_a_queue_across_its_wraparound() {
    let cases = [
        (["0", "0", "0", "0"], ["a", "b", "c", "d"]),
        (["4", "3", "2", "1"], ["d", "c", "b", "a"]),
        (["-2", "5", "-1", "0"], ["a", "c", "d", "b"]),
        (["3", "-9", "3", "-9"], ["b", "d", "a", "c"]),
    ];
    for (vtimes, expected) in cases {
        let enqueue = format!(
            "s64 vtimes[] = {{ {} }};
            scx_bpf_dsq_insert_vtime(p, SHARED, SCX_SLICE_DFL, vtimes[(p->pid - 1001) & 3], enq_flags);",
            vtimes.join(", ")
        );
        let ran = run(&machine(1), &four(), &enqueueing(&enqueue));
        assert_eq!(ran.tasks("running"), expected, "{vtimes:?}");
    }
}

#[test]
fn a_preempting_dispatch_runs_at_once() {
    let enqueue = "scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL,
        enq_flags | (p->comm[0] == 'b' ? SCX_ENQ_PREEMPT : 0));";
    let workload = tasks(|| {
        [
            bound("a", 0, [run_for(10)]),
            bound("b", 0, [sleep_for(2), run_for(1)]),
        ]
    });
    let ran = run(&machine(1), &workload, &enqueueing(enqueue));
    let at: Vec<_> = ran
        .lines()
        .iter()
        .map(|line| (line.task.clone(), line.at / MS))
        .collect();
    // As soon as `b` is forked, it is queued in front of `a`.
    let expected = [("b", 0), ("a", 0), ("b", 2), ("a", 3)];
    assert_eq!(at, expected.map(|(task, ms)| (task.to_owned(), ms)));
}

#[test]
fn an_infinite_slice_does_not_end() {
    let enqueue = "scx_bpf_dsq_insert(p, SHARED, SCX_SLICE_INF, enq_flags);";
    let workload = tasks(|| ["a", "b"].map(|name| bound(name, 0, [run_for(100)])));
    let ran = run(&machine(1), &workload, &enqueueing(enqueue));
    assert_eq!(ran.tasks("running"), ["a", "b"]);
}

#[test]
fn tasks_are_not_consumed_by_a_cpu_they_may_not_run_on() {
    let enqueue = "scx_bpf_dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
        scx_bpf_kick_cpu(0, 0); scx_bpf_kick_cpu(1, 0);";
    let workload = tasks(|| {
        [
            bound("a", 1, [run_for(5)]),
            bound("b", 1, [run_for(5)]),
            bound("c", 0, [run_for(5)]),
        ]
    });
    let ran = run(&machine(2), &workload, &enqueueing(enqueue));
    let mut cpus: Vec<_> = ran
        .lines()
        .iter()
        .map(|line| (line.task.clone(), line.cpu))
        .collect();
    cpus.sort();
    let expected = [("a", 1), ("b", 1), ("c", 0)];
    assert_eq!(cpus, expected.map(|(task, cpu)| (task.to_owned(), cpu)));
    assert_eq!(
        ran.outcome.simulated_ns,
        10 * MS,
        "c does not wait behind a and b"
    );
}

/// Four tasks wait on SHARED; the first call of ops.dispatch() that sees all of them executes `walk`. Afterwards all
/// tasks are consumed from SHARED and OTHER.
fn walking(walk: &str, vtime: bool) -> Object {
    let insert = match vtime {
        true => "scx_bpf_dsq_insert_vtime(p, SHARED, SCX_SLICE_DFL, p->pid, enq_flags)",
        false => "scx_bpf_dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags)",
    };
    let text = format!(
        r#"
    #define SHARED 0
    #define OTHER 99
    bool walked;
    s32 BPF_STRUCT_OPS_SLEEPABLE(walk_init)
    {{
        return scx_bpf_create_dsq(SHARED, -1) ?: scx_bpf_create_dsq(OTHER, -1);
    }}
    void BPF_STRUCT_OPS(walk_enqueue, struct task_struct *p, u64 enq_flags) {{ {insert}; }}
    void BPF_STRUCT_OPS(walk_dispatch, s32 cpu, struct task_struct *prev)
    {{
        struct task_struct *p;

        if (scx_bpf_dsq_nr_queued(SHARED) == 4 && !walked) {{
            walked = true;
            {walk}
        }}
        if (!scx_bpf_dsq_move_to_local(SHARED))
            scx_bpf_dsq_move_to_local(OTHER);
    }}
    void BPF_STRUCT_OPS(walk_running, struct task_struct *p) {{ note("running", p, 0); }}
    "#
    );
    let ops = ".init = (void *)walk_init, .enqueue = (void *)walk_enqueue,
        .dispatch = (void *)walk_dispatch, .running = (void *)walk_running";
    scheduler(&text, ops)
}

#[test]
fn iterators_go_forwards_and_in_reverse() {
    let walk = r#"
        bpf_for_each(scx_dsq, p, SHARED, 0) note("see", p, 0);
        bpf_for_each(scx_dsq, p, SHARED, SCX_DSQ_ITER_REV) note("rev", p, 0);
        bpf_for_each(scx_dsq, p, 12345, 0) note("none", p, 0);
        bpf_for_each(scx_dsq, p, SHARED, 1) note("none", p, 0);
        bpf_for_each(scx_dsq, p, SCX_DSQ_GLOBAL, 0) note("none", p, 0);
    "#;
    for vtime in [false, true] {
        let ran = run(&machine(1), &four(), &walking(walk, vtime));
        assert_eq!(ran.tasks("see"), ["a", "b", "c", "d"]);
        assert_eq!(ran.tasks("rev"), ["d", "c", "b", "a"]);
        assert!(
            ran.tasks("none").is_empty(),
            "no queue, a bad flag, not a user's queue"
        );
    }
}

#[test]
fn a_task_may_be_moved_while_its_queue_is_walked() {
    for (flags, seen) in [
        ("0", ["a", "b", "c", "d"]),
        ("SCX_DSQ_ITER_REV", ["d", "c", "b", "a"]),
    ] {
        let walk = format!(
            r#"
        bpf_for_each(scx_dsq, p, SHARED, {flags}) {{
            note("see", p, 0);
            if (p->comm[0] == 'b' || p->comm[0] == 'd')
                note("moved", p, scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, OTHER, 0));
        }}"#
        );
        let ran = run(&machine(1), &four(), &walking(&walk, false));
        assert_eq!(ran.tasks("see"), seen);
        assert_eq!(ran.numbers("moved"), [1, 1]);
        let order = if flags == "0" {
            ["a", "c", "b", "d"]
        } else {
            ["a", "c", "d", "b"]
        };
        assert_eq!(ran.tasks("running"), order);
    }
}

#[test]
fn others_than_the_current_task_may_be_moved_as_well() {
    let walk = r#"
        struct task_struct *first = NULL;
        bpf_for_each(scx_dsq, p, SHARED, 0) {
            note("see", p, 0);
            if (!first)
                first = p;
            if (p->comm[0] == 'c')
                note("moved", first, scx_bpf_dsq_move(BPF_FOR_EACH_ITER, first, OTHER, 0));
        }
    "#;
    let ran = run(&machine(1), &four(), &walking(walk, false));
    assert_eq!(ran.tasks("see"), ["a", "b", "c", "d"]);
    assert_eq!(ran.tasks("running"), ["b", "c", "d", "a"]);
}

#[test]
fn a_task_that_was_queued_again_is_neither_seen_nor_moved() {
    let walk = r#"
        bpf_for_each(scx_dsq, p, SHARED, 0) {
            note("see", p, 0);
            scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, 5000 - p->pid);
            scx_bpf_dsq_move_set_slice(BPF_FOR_EACH_ITER, 7000000);
            note("moved", p, scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, SHARED, 0));
            note("slice", p, p->scx.slice);
            note("again", p, scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, SHARED, 0));
        }
    "#;
    let ran = run(&machine(1), &four(), &walking(walk, true));
    assert_eq!(ran.tasks("see"), ["a", "b", "c", "d"]);
    assert_eq!(ran.numbers("moved"), [1; 4]);
    assert_eq!(ran.numbers("again"), [0; 4]);
    assert_eq!(ran.numbers("slice"), [7_000_000; 4]);
    assert_eq!(ran.tasks("running"), ["d", "c", "b", "a"]);
}

#[test]
fn a_timer_moves_a_waiting_task_to_another_cpu() {
    let text = r#"
    #define PARKED 7
    struct holder { struct bpf_timer timer; };
    struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1);
             __type(key, u32); __type(value, struct holder); } timers SEC(".maps");
    static int move(void *map, int *key, struct holder *holder)
    {
        struct task_struct *p;

        bpf_for_each(scx_dsq, p, PARKED, 0)
            scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | 1, 0);
        return 0;
    }
    s32 BPF_STRUCT_OPS_SLEEPABLE(park_init)
    {
        u32 key = 0;
        struct holder *holder = bpf_map_lookup_elem(&timers, &key);

        if (!holder)
            return -ENOENT;
        bpf_timer_init(&holder->timer, &timers, CLOCK_MONOTONIC);
        bpf_timer_set_callback(&holder->timer, move);
        bpf_timer_start(&holder->timer, 5000000, 0);
        return scx_bpf_create_dsq(PARKED, -1);
    }
    s32 BPF_STRUCT_OPS(park_select, struct task_struct *p, s32 prev_cpu, u64 wake_flags) { return 0; }
    void BPF_STRUCT_OPS(park_enqueue, struct task_struct *p, u64 enq_flags)
    {
        scx_bpf_dsq_insert(p, p->comm[0] == 'a' ? PARKED : SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags);
    }
    void BPF_STRUCT_OPS(park_running, struct task_struct *p) { note("running", p, 0); }
    "#;
    let ops = ".init = (void *)park_init, .enqueue = (void *)park_enqueue, .select_cpu = (void *)park_select,
        .running = (void *)park_running";
    let workload = tasks(|| [task("a", [run_for(1)]), bound("z", 0, [run_for(20)])]);
    let ran = run(&machine(2), &workload, &scheduler(text, ops));
    let a = ran
        .lines()
        .into_iter()
        .find(|line| line.task == "a")
        .unwrap();
    assert_eq!((a.cpu, a.at), (1, 5 * MS));
}

/// A scheduler that keeps tasks in a map of its own. Its ops.dispatch() pops one task and executes `dispatch` with it.
fn keeping(dispatch: &str) -> Object {
    let text = format!(
        r#"
    struct {{ __uint(type, BPF_MAP_TYPE_QUEUE); __uint(max_entries, 64); __type(value, s32); }} queue SEC(".maps");
    void BPF_STRUCT_OPS(keep_enqueue, struct task_struct *p, u64 enq_flags)
    {{
        s32 pid = p->pid;

        bpf_map_push_elem(&queue, &pid, 0);
    }}
    void BPF_STRUCT_OPS(keep_dispatch, s32 cpu, struct task_struct *prev)
    {{
        struct task_struct *p;
        s32 pid;

        if (bpf_map_pop_elem(&queue, &pid) || !(p = bpf_task_from_pid(pid)))
            return;
        {dispatch}
        bpf_task_release(p);
    }}
    void BPF_STRUCT_OPS(keep_running, struct task_struct *p) {{ note("running", p, 0); }}
    "#
    );
    let ops = ".enqueue = (void *)keep_enqueue, .dispatch = (void *)keep_dispatch,
        .running = (void *)keep_running, .dispatch_max_batch = 2";
    scheduler(&text, ops)
}

#[test]
fn slots_are_counted_and_dispatches_can_be_cancelled() {
    let dispatch = r#"
        note("slots", NULL, scx_bpf_dispatch_nr_slots());
        scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
        note("slots", NULL, scx_bpf_dispatch_nr_slots());
        scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, 0);
        note("slots", NULL, scx_bpf_dispatch_nr_slots());
        scx_bpf_dispatch_cancel();
        note("slots", NULL, scx_bpf_dispatch_nr_slots());
    "#;
    let ran = run(&machine(1), &four(), &keeping(dispatch));
    assert_eq!(ran.numbers("slots")[..4], [2, 1, 0, 1]);
    assert_eq!(ran.tasks("running"), ["a", "b", "c", "d"]);
}

#[test]
fn a_task_dispatched_twice_from_dispatch_is_dispatched_once() {
    let dispatch = "scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
        scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);";
    let ran = run(&machine(1), &four(), &keeping(dispatch));
    assert_eq!(ran.tasks("running"), ["a", "b", "c", "d"]);
}

#[test]
fn too_many_dispatches_or_cancels_are_errors() {
    let dispatch =
        "for (int i = 0; i < 3; i++) scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);";
    let (reason, message) = exit_of(&machine(1), &four(), &keeping(dispatch));
    assert_eq!(
        (reason.as_str(), message.as_str()),
        ("runtime error", "dispatch buffer overflow")
    );
    let (_, message) = exit_of(&machine(1), &four(), &keeping("scx_bpf_dispatch_cancel();"));
    assert_eq!(message, "dispatch buffer underflow");
}

#[test]
fn dispatch_to_the_local_queue_of_another_cpu_wakes_it() {
    let dispatch = "scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | (p->pid & 1), SCX_SLICE_DFL, 0);";
    let workload = tasks(|| ["a", "b", "c", "d"].map(|name| task(name, [run_for(5)])));
    let ran = run(&machine(2), &workload, &keeping(dispatch));
    for line in ran.lines() {
        let odd = i32::from(line.task == "a" || line.task == "c");
        assert_eq!(line.cpu, odd, "{}", line.task);
    }
    assert_eq!(ran.outcome.simulated_ns, 10 * MS);
}
