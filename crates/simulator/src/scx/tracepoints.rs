//! The points where the kernel runs a scheduler's programs at its tracepoints.

use crate::abi::cgroup;
use crate::abi::layout as abi;
use crate::kernel::Kernel;
use crate::kernel::task::TaskPtr;
use crate::scx::call::{call_op, kf};
use std::ptr::null_mut;

/// `sched_switch`: the CPU's runqueue already has its new task.
#[inline]
pub fn sched_switch(
    kernel: &mut Kernel<'_>,
    cpu: usize,
    prev: Option<TaskPtr>,
    next: Option<TaskPtr>,
    prev_runnable: bool,
) {
    if kernel.bpf.instance.tracepoints.sched_switch.is_empty() {
        return;
    }
    let idle = kernel.rq(cpu).idle;
    let pointer = |task: Option<TaskPtr>| task.map_or(idle, TaskPtr::abi);
    let (prev, next) = (pointer(prev), pointer(next));
    let state = match prev_runnable {
        true => abi::TASK_RUNNING,
        false => abi::TASK_INTERRUPTIBLE,
    };
    for index in 0..kernel.bpf.instance.tracepoints.sched_switch.len() {
        let sched_switch = kernel.bpf.instance.tracepoints.sched_switch[index];
        call_op!(
            kernel,
            kf::REST,
            sched_switch,
            prev_runnable,
            prev,
            next,
            state
        );
    }
}

/// `sched_prepare_exec`, of the task that runs.
pub fn sched_prepare_exec(kernel: &mut Kernel<'_>, task: TaskPtr) {
    for index in 0..kernel.bpf.instance.tracepoints.sched_prepare_exec.len() {
        let sched_prepare_exec = kernel.bpf.instance.tracepoints.sched_prepare_exec[index];
        call_op!(kernel, kf::REST, sched_prepare_exec, task.abi(), null_mut());
    }
}

/// `cgroup_attach_task`, of a task that moves itself to `group`. Linux runs the program once the task is back on its
/// runqueue; here it runs before that.
pub fn cgroup_attach_task(kernel: &mut Kernel<'_>, task: TaskPtr, group: *mut abi::Cgroup) {
    if kernel
        .bpf
        .instance
        .tracepoints
        .cgroup_attach_task
        .is_empty()
    {
        return;
    }
    let path = cgroup::path(group);
    for index in 0..kernel.bpf.instance.tracepoints.cgroup_attach_task.len() {
        let cgroup_attach_task = kernel.bpf.instance.tracepoints.cgroup_attach_task[index];
        call_op!(
            kernel,
            kf::REST,
            cgroup_attach_task,
            group,
            path.as_ptr(),
            task.abi(),
            false
        );
    }
}
