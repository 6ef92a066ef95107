//! The CPU on which the scheduler's C wakes a task: its own code, compiled and called on the tables
//! of hikey-6220, whose CPUs 0 to 3 and 4 to 7 share caches.

use crate::common;
use libloading::{Library, Symbol};

/// The scheduler's code, with or without the rule that an interrupt's wakeup leaves a task on its
/// CPU.
fn scheduler(wake_affine_idle: u32) -> Library {
    common::compile_with_tables(
        &format!(
            r#"#include <scx/common.bpf.h>
        #include "linux/cfs/main.bpf.c"
        const volatile struct policy policy = {{ .wake_affine_idle = {wake_affine_idle} }};
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
        }}"#
        ),
        "cfs",
        "hikey-6220",
    )
}

/// `wake_affine_idle()` of Linux 4.17: a CPU, or -1 for no answer.
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
    // The rule does not apply across caches, because the tasks of all interrupts would move here.
    assert_eq!(target(&stays, 0, 4, 0, 2, false), -1);
    // The waker is alone and about to sleep.
    assert_eq!(target(&stays, 0, 1, 1, 2, true), 0);
    assert_eq!(target(&stays, 0, 1, 1, 2, false), -1);
    assert_eq!(target(&stays, 0, 1, 2, 2, true), -1);
    assert_eq!(target(&scheduler(0), 0, 1, 0, 0, false), -1);
}
