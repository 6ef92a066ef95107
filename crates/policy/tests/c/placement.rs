//! The CPU on which the scheduler wakes a task, on the tables of hikey-6220 (CPUs 0 to 3 and 4 to 7 share caches).

use crate::common;
use libloading::{Library, Symbol};

/// The scheduler's code, with or without the rule that an interrupt's wakeup leaves a task on its CPU.
fn scheduler(wake_affine_idle: u32) -> Library {
    common::compile_with_tables(
        &format!(
            r#"#include <scx/common.bpf.h>
        #include "linux/cfs/main.bpf.c"
        const volatile struct policy policy = {{
            .wake_affine_idle = {wake_affine_idle},
            .load_tracking = LOAD_PELT,
        }};
        const volatile struct machine machine = {{ .tick_ns = 4000000, .nr_cpus = 8 }};
        static struct equipoise_kernel kernel;
        s32 target(u32 this_cpu, u32 prev_cpu, u32 nr_this, u32 nr_prev, bool sync)
        {{
            equipoise_kernel = &kernel;
            rq_of(this_cpu)->nr_running = nr_this;
            rq_of(this_cpu)->idle = !nr_this;
            rq_of(prev_cpu)->nr_running = nr_prev;
            rq_of(prev_cpu)->idle = !nr_prev;
            return wake_affine_idle(this_cpu, prev_cpu, sync);
        }}
        bool pulls(u64 curr, u64 other)
        {{
            equipoise_kernel = &kernel;
            rq_of(0)->curr = (struct running){{ .pid = 1, .weight = 1024, .load = curr }};
            rq_of(0)->runnable_load_avg = curr + other;
            rq_of(1)->runnable_load_avg = 0;
            return wake_affine_weight(0, 1, 0, &(struct waking){{ .load = 1024, .sync = true }});
        }}"#
        ),
        "cfs",
        "hikey-6220",
    )
}

/// `wake_affine_idle()` of Linux 4.17 returns a CPU, or -1 for no answer.
#[test]
fn a_task_woken_by_an_interrupt_stays_on_its_idle_cpu() {
    type Target = unsafe extern "C" fn(u32, u32, u32, u32, bool) -> i32;
    let target = |library: &Library, this, prev, nr_this, nr_prev, sync| {
        let target: Symbol<Target> = unsafe { library.get(b"target") }.unwrap();
        // SAFETY: the C code above defines the function with this type.
        unsafe { target(this, prev, nr_this, nr_prev, sync) }
    };
    let stays = scheduler(1);
    assert_eq!(target(&stays, 0, 1, 0, 0, false), 1);
    assert_eq!(target(&stays, 0, 1, 0, 2, false), 0);
    // The rule does not apply across caches; otherwise all tasks that interrupts wake would move here.
    assert_eq!(target(&stays, 0, 4, 0, 2, false), -1);
    // The waker is alone and about to sleep.
    assert_eq!(target(&stays, 0, 1, 1, 2, true), 0);
    assert_eq!(target(&stays, 0, 1, 1, 2, false), -1);
    assert_eq!(target(&stays, 0, 1, 2, 2, true), -1);
    assert_eq!(target(&scheduler(0), 0, 1, 0, 0, false), -1);
}

/// A waker that is about to sleep has a weight of 1024 and a tracked load of 100, and another task has
/// a load of 500. In Linux 3.12 the weight is subtracted from the runqueue's tracked load, which
/// leaves nothing, so the task is pulled from its idle CPU; in 4.17 the tracked load is subtracted.
#[test]
fn wakers_count_with_their_weight_in_linux_3_12() {
    type Pulls = unsafe extern "C" fn(u64, u64) -> bool;
    for (wake_affine_idle, pulled) in [(0, true), (1, false)] {
        let library = scheduler(wake_affine_idle);
        let pulls: Symbol<Pulls> = unsafe { library.get(b"pulls") }.unwrap();
        // SAFETY: the C code above defines the function with this type.
        assert_eq!(unsafe { pulls(100, 500) }, pulled);
    }
}
