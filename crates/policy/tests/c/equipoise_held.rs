//! `scheduler/equipoise/held.h`: tasks that reach the queue of a throttled group just after the group's release, which
//! another CPU begins in between.

use crate::common::compile;
use crate::equipoise_kernel::FOUR_CPUS;
use libloading::Library;

/// Groups 1 and 2 are throttled, and so is 3, which is below 1. Each task is in the group of its number. Only the
/// first two tasks of a queue exist.
const HELD: &str = r#"
    volatile struct tunables tunables = { .slice = 3 * MS, .lag = 6 * MS };
    static struct task_struct task[4];
    static struct task_state state[4];
    static struct scheduler_timer refill_timers[4];
    static struct equipoise_map refill_map = { .type = BPF_MAP_TYPE_ARRAY, .max_entries = 4,
        .stride = sizeof(refill_timers[0]), .values = (void *)refill_timers };
    static u32 started[4];
    static u32 waiting[2], nr_waiting;
    /* The group that another CPU releases while the next task moves; 0: none. */
    static u32 released_meanwhile;

    /* The release finds no task. */
    void released(u32 group) { shares[group].held = 0; }
    static void meanwhile(void)
    {
        if (released_meanwhile)
            released(released_meanwhile);
        released_meanwhile = 0;
    }
    static s64 start_refill_of(void *k, struct bpf_timer *timer, u64 ns, u64 flags)
    {
        started[(struct scheduler_timer *)timer - refill_timers]++;
        return 0;
    }
    static void insert(void *k, struct task_struct *p, u64 dsq, u64 slice, u64 vtime, u64 flags) { meanwhile(); }
    static bool move(void *k, struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq, u64 flags)
    {
        meanwhile();
        return true;
    }
    static struct task_struct *next_waiting(void *k, struct bpf_iter_scx_dsq *it)
    {
        return it->end < nr_waiting ? &task[waiting[it->end++]] : NULL;
    }

    void begin(void)
    {
        begin_kernel(NSEC_PER_SEC);
        kernel.tick_ns = 4 * MS;
        kernel.timer_start = start_refill_of;
        kernel.dispatch_vtime = insert;
        kernel.dispatch_from_dsq = move;
        kernel.iter_dsq_next = next_waiting;
        *(struct equipoise_map **)&refills = &refill_map;
        for (u32 i = 1; i < 4; i++) {
            begin_task(&task[i], i, &allowed);
            task[i].scx.runnable_at = kernel.now / kernel.tick_ns;
            task[i].equipoise_storage[0] = &state[i];
            state[i] = (struct task_state){ .weight = 1024, .share = i };
            shares[i] = (struct share){ .weight = 1024, .held = 1, .parent = i == 3 ? 1 : 0 };
        }
        nr_throttled = 3;
    }
    void released_while_next_moves(u32 group) { released_meanwhile = group; }
    void held_back(u32 i) { equipoise_enqueue(&task[i], 0); }
    void dispatches(void) { check_held(&cpu_states[0]); }
    /* Tasks @a and @b wait in the queue of a cluster, or of a group that is released. */
    void wait_in_turn(u32 a, u32 b)
    {
        waiting[0] = a;
        waiting[1] = b;
        nr_waiting = 2;
    }
    void are_to_run(void) { hold_first(0); }
    void are_released_by(u32 group) { release_held(group); }
    bool is_released_again(u32 group) { return started[group]; }
"#;

struct Held(Library);

impl Held {
    c_fns! {
        fn begin();
        fn released(group: u32);
        fn released_while_next_moves(group: u32);
        fn held_back(task: u32);
        fn dispatches();
        fn wait_in_turn(a: u32, b: u32);
        fn are_to_run();
        fn are_released_by(group: u32);
        fn is_released_again(group: u32) -> bool;
    }
}

fn begin() -> Held {
    let held = Held(compile(&format!("{FOUR_CPUS}{HELD}")));
    held.begin();
    held
}

/// The CPU has not checked the group of the first task when it holds back the second one.
#[test]
fn a_cpu_checks_each_group_for_which_it_held_back_a_task() {
    let held = begin();
    held.held_back(1);
    held.released(1);
    held.held_back(2);
    held.dispatches();
    assert!(held.is_released_again(1));
    assert!(!held.is_released_again(2), "it is still throttled");
}

/// The release of the group above does not find a task in the queue of the group below.
#[test]
fn a_task_below_two_throttled_groups_is_not_lost_between_them() {
    let held = begin();
    held.held_back(3);
    held.released(3);
    held.dispatches();
    assert!(held.is_released_again(3));
}

#[test]
fn each_group_is_checked_whose_task_leaves_a_queue() {
    let held = begin();
    held.wait_in_turn(1, 2);
    held.released_while_next_moves(1);
    held.are_to_run();
    assert!(held.is_released_again(1));
    assert!(!held.is_released_again(2), "it is still throttled");
}

/// Both groups' timers expire at the same time: the task goes to the queue of the group above after that one's release.
#[test]
fn a_task_that_another_group_still_holds_is_not_lost_if_that_one_is_released() {
    let held = begin();
    held.released(3);
    held.wait_in_turn(3, 3);
    held.released_while_next_moves(1);
    held.are_released_by(3);
    assert!(held.is_released_again(1));
}
