//! The checks of kfuncs' arguments and context, as the kernel makes them.

use crate::abi::layout as abi;
use crate::kernel::Kernel;
use crate::kernel::task::TaskPtr;
use crate::scx::call::{Context, kf};
use crate::scx::dsq::Dsq;
use crate::scx::verdict::{Given, Refused};
use machine::CpuMask;

/// `scx_kf_allowed()` or, in Linux 7.3, `scx_kfunc_context_filter()`: may the current op call this group of kfuncs?
#[inline]
pub fn allowed(kernel: &mut Kernel<'_>, group: u32, called: &str) -> bool {
    let allowed = kernel.scx.context.mask & group & kernel.scx.kf_bits != 0;
    if !allowed {
        not_allowed(kernel, group, called);
    }
    allowed
}

#[cold]
pub fn not_allowed(kernel: &mut Kernel<'_>, group: u32, called: &str) {
    if kernel.scx.is_7_3() {
        let allowed = match group {
            kf::INSERTS => "select_cpu(), enqueue() and dispatch()",
            kf::DISPATCHES => "dispatch()",
            kf::MOVES => "dispatch() and where no runqueue is locked",
            kf::SELECTS => "select_cpu(), enqueue() and where no runqueue is locked",
            kf::REENQUEUES => "cpu_release()",
            kf::OVERRIDES => "init_cids()",
            _ => "ops that lock no runqueue",
        };
        return kernel.verifier_error(&format!("calls {called}() (allowed in {allowed})"));
    }
    let (mask, only) = (
        group & kf::BITS_6_12,
        kernel.scx.context.mask & kf::BITS_6_12,
    );
    kernel.scheduler_error(format_args!(
        "kfunc with mask {mask:#x} called from an operation only allowing {only:#x}"
    ));
}

/// Returns the task that C passed. NULL stops the scheduler; the kernel's verifier would have refused it.
pub fn given(kernel: &mut Kernel<'_>, task: Option<TaskPtr>) -> Option<TaskPtr> {
    if task.is_none() {
        kernel.scheduler_error("NULL where a task is expected");
    }
    task
}

/// `check_builtin_idle_enabled()`.
pub fn tracks_idle(kernel: &mut Kernel<'_>) -> bool {
    let enabled = kernel.scx.idle_masks.enabled;
    if !enabled {
        kernel.scheduler_error("built-in idle tracking is disabled");
    }
    enabled
}

/// The NUMA node of `cpu`.
pub fn node_of(kernel: &Kernel<'_>, cpu: usize) -> i32 {
    let nodes = kernel.machine.nodes();
    nodes
        .iter()
        .position(|span| span.contains(cpu))
        .unwrap_or(0) as i32
}

/// `validate_node()`: the CPUs of `node`, or an errno, which follows a scheduler error unless `node` is `NUMA_NO_NODE`.
/// Unlike Linux, this function does not require SCX_OPS_BUILTIN_IDLE_PER_NODE, which loaders set and a scheduler
/// without its loader lacks.
pub fn valid_node(kernel: &mut Kernel<'_>, node: i32) -> Result<CpuMask, i32> {
    if !tracks_idle(kernel) {
        return Err(abi::EBUSY);
    }
    if node == abi::NUMA_NO_NODE {
        return Err(abi::ENOENT);
    }
    let nodes = kernel.machine.nodes();
    let span = match usize::try_from(node) {
        Ok(0) if nodes.is_empty() => Some(kernel.machine.all_cpus()),
        Ok(node) => nodes.get(node).copied(),
        Err(_) => None,
    };
    span.ok_or_else(|| {
        kernel.scheduler_error(format_args!("invalid node {node}"));
        abi::EINVAL
    })
}

pub fn per_node(kernel: &Kernel<'_>) -> bool {
    kernel.scx.ops.flags & abi::OPS_BUILTIN_IDLE_PER_NODE != 0
}

/// Returns false after a scheduler error if a kfunc without a node argument is called under
/// SCX_OPS_BUILTIN_IDLE_PER_NODE.
pub fn flat(kernel: &mut Kernel<'_>) -> bool {
    let flat = !per_node(kernel);
    if !flat {
        kernel.scheduler_error("per-node idle tracking is enabled");
    }
    flat
}

/// `scx_dispatch_preamble()`, `scx_dsq_insert_preamble()`.
#[inline]
pub fn may_dispatch(
    kernel: &mut Kernel<'_>,
    task: Option<TaskPtr>,
    dsq_id: u64,
    flags: &mut u64,
) -> Option<TaskPtr> {
    if !may_enqueue(kernel, dsq_id, flags) {
        return None;
    }
    given(kernel, task)
}

/// `scx_vet_enq_flags()`: checks flags for an insertion into `dsq_id`, and adds those that ops.flags implies.
#[inline]
pub fn may_enqueue(kernel: &mut Kernel<'_>, dsq_id: u64, flags: &mut u64) -> bool {
    const NEW: u64 = abi::ENQ_IMMED | abi::ENQ_RESCUE;
    let always = kernel.scx.ops.flags & abi::OPS_ALWAYS_ENQ_IMMED != 0;
    if *flags & (abi::ENQ_INTERNAL | NEW) == 0 && !always {
        return true;
    }
    may_enqueue_with(kernel, dsq_id, flags, always)
}

#[cold]
pub fn may_enqueue_with(
    kernel: &mut Kernel<'_>,
    dsq_id: u64,
    flags: &mut u64,
    always: bool,
) -> bool {
    if *flags & abi::ENQ_INTERNAL != 0 {
        invalid_flags(kernel, *flags);
        return false;
    }
    if !kernel.scx.is_7_3() {
        return true;
    }
    let local = dsq_id == abi::DSQ_LOCAL || dsq_id & abi::DSQ_LOCAL_ON == abi::DSQ_LOCAL_ON;
    let named = [
        (abi::ENQ_IMMED, "SCX_ENQ_IMMED"),
        (abi::ENQ_RESCUE, "SCX_ENQ_RESCUE"),
    ];
    for (flag, name) in named {
        if *flags & flag != 0 && !local {
            kernel.scheduler_error(format_args!("{name} on a non-local DSQ {dsq_id:#x}"));
            return false;
        }
    }
    if always && local {
        *flags |= abi::ENQ_IMMED;
    }
    // Rescue concerns sub-schedulers only.
    *flags &= !abi::ENQ_RESCUE;
    true
}

#[cold]
pub fn invalid_flags(kernel: &mut Kernel<'_>, flags: u64) {
    kernel.scheduler_error(format_args!("invalid enq_flags {flags:#x}"));
}

pub fn commit(kernel: &mut Kernel<'_>, task: TaskPtr, dsq_id: u64, given: Given, flags: u64) {
    if !kernel.scx.is_7_3() {
        given.apply(task, flags & abi::ENQ_DSQ_PRIQ != 0);
    }
    if let Err(refused) = kernel.scx.verdicts.commit(task, dsq_id, flags, given) {
        not_committed(kernel, task, &refused);
    }
}

#[cold]
pub fn not_committed(kernel: &mut Kernel<'_>, task: TaskPtr, refused: &Refused) {
    kernel.scheduler_error(refused.message(task));
}

/// `find_user_dsq()`.
pub fn user_dsq<'k>(kernel: &'k mut Kernel<'_>, id: u64) -> Option<&'k mut Dsq> {
    let on = kernel.scx.dsqs.find(id)?;
    Some(kernel.scx.dsqs.get_mut(on))
}

#[cold]
pub fn invalid_dsq(kernel: &mut Kernel<'_>, id: u64) {
    kernel.scheduler_error(format_args!("invalid DSQ ID {id:#018x}"));
}

/// The ops that a sleepable program may implement (`bpf_scx_check_member()`).
const SLEEPABLE: [&str; 8] = [
    "init",
    "init_task",
    "exit",
    "cpu_online",
    "cpu_offline",
    "cgroup_init",
    "cgroup_exit",
    "cgroup_prep_move",
];

/// May the current op use kfuncs that sleep? The kernel's verifier checks whether the program is sleepable.
pub fn may_sleep(kernel: &mut Kernel<'_>, kfunc: &str) -> bool {
    let op = kernel.calls.call().map_or("", |call| call.op);
    let sleepable = SLEEPABLE.contains(&op);
    if !sleepable {
        kernel.scheduler_error(format_args!(
            "{kfunc}() may sleep, and was called in {op}(); expected one of {}()",
            SLEEPABLE.join("(), ")
        ));
    }
    sleepable
}

/// The CPU whose runqueue lock the current op holds, if any.
pub fn locked_cpu(kernel: &Kernel<'_>) -> Option<usize> {
    let Context {
        mask,
        subject,
        task,
    } = kernel.scx.context;
    let unlocked = mask & kf::UNLOCKED != 0 || mask == kf::SELECT_CPU || mask == kf::DUMP;
    // An op for a CPU gets a cid in cid form.
    let cpu = match task.is_null() && kernel.scx.cids.form {
        true => kernel.scx.cids.cpu(subject as i32)?,
        false => subject as usize,
    };
    (!unlocked && cpu < kernel.cpus.len()).then_some(cpu)
}

/// `scx_kf_arg_task_ok()` or, in Linux 6.12, `scx_kf_allowed_on_arg_tasks()`: is `task` a subject of the current op?
pub fn is_subject(kernel: &mut Kernel<'_>, task: TaskPtr) -> bool {
    const ON_TASKS_6_12: u32 = kf::REST | kf::SELECT_CPU | kf::DISPATCH | kf::CPU_RELEASE;
    if !kernel.scx.is_7_3() && !allowed(kernel, ON_TASKS_6_12, "scx_bpf_task_cgroup") {
        return false;
    }
    let Context {
        mask, task: of_op, ..
    } = kernel.scx.context;
    let is_subject = of_op == task.abi() && mask & kf::UNLOCKED == 0;
    if !is_subject {
        kernel.scheduler_error("called on a task not being operated on");
    }
    is_subject
}

/// The check of `select_cpu_from_kfunc()` in Linux 7.3: is a lock held that protects `task`?
pub fn may_select(kernel: &mut Kernel<'_>, task: TaskPtr) -> bool {
    if !kernel.scx.is_7_3() {
        return true;
    }
    if kernel.scx.context.mask == kf::SELECT_CPU {
        return is_subject(kernel, task);
    }
    let may = locked_cpu(kernel).is_none_or(|cpu| cpu == task.cpu());
    if !may {
        kernel.scheduler_error(format_args!(
            "select_cpu kfunc called cross-task on {}",
            task.label()
        ));
    }
    may
}

/// The value returned to C: 0, or a negative errno.
pub fn status(result: Result<(), i32>) -> i64 {
    result.map_or_else(|errno| -i64::from(errno), |()| 0)
}
