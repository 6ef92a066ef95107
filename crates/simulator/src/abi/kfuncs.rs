//! The kfuncs that the scheduler calls: the functions behind `struct equipoise_kernel`, in its
//! order. Each checks its arguments and context as the kernel does, and does its work through
//! [`Kernel`].

use crate::abi::args::{Bytes, ForEach, FromC, Numbers};
use crate::abi::layout::{
    self as abi, BpfTimer, Cgroup, CidTopo, EventStats, IterDsq, Map, Rq, TaskStruct,
};
use crate::abi::maps::MapVariable;
use crate::abi::objects::{release, zeroed};
use crate::abi::timers;
use crate::events::What;
use crate::kernel::Kernel;
use crate::kernel::task::TaskPtr;
use crate::scx::call::{call, kf};
use crate::scx::dsq::{Dsq, OnDsq};
use crate::scx::verdict::{Given, Refused};
use crate::{EXPLAINED_NUMBERS, Event};
use machine::CpuMask;
use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Defines the functions that C calls, and their table. A function that only some ops may call
/// gives its group, its C name and its return value for other ops, if any: `[kf::GROUP = "NAME",
/// else VALUE]`.
macro_rules! kfuncs {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($kernel:ident $(, $argument:ident: $type:ty)*) $(-> $result:ty)?
            $([$mask:path = $called:literal $(, else $refused:expr)?])? $body:block
    )*) => {
        /// `struct equipoise_kernel`'s functions.
        #[repr(C)]
        pub struct Kfuncs {
            $($name: unsafe extern "C" fn(*mut c_void $(, <$type as FromC>::C)*) $(-> $result)?,)*
        }

        /// The functions of this kernel.
        pub const KFUNCS: Kfuncs = Kfuncs { $($name),* };

        $(
            $(#[$doc])*
            #[allow(clippy::unused_unit)]
            unsafe extern "C" fn $name(
                kernel: *mut c_void
                $(, $argument: <$type as FromC>::C)*
            ) $(-> $result)? {
                // SAFETY: C calls this through the table, and only while it is being called:
                // `kernel` is the pointer that `Kernel::lend()` stored for that call. The caller
                // does not use its own reference during the call, so this is the only one in use.
                // The arguments have the types that `native`'s headers declare: tasks, maps, masks
                // and texts that the scheduler received or owns. The objects live until the
                // scheduler's call ends (`Maps::forget_removed()` keeps those that the kernel frees
                // during the call), and C, which waits for this function to return, does not use
                // them. A pointer that C may pass as NULL is an `Option` or is checked before it is
                // followed. There is no verifier, so the scheduler itself must pass what it
                // declares: a wrong pointer has the effect that it has in any program
                // (`host::fault`).
                let ($kernel, ($($argument,)*)) = unsafe {
                    (&mut *kernel.cast::<Kernel<'_>>(), ($(<$type as FromC>::from_c($argument),)*))
                };
                $(if !allowed($kernel, $mask, $called) {
                    return $($refused)?;
                })?
                $body
            }
        )*
    };
}

/// `scx_kf_allowed()` or, in Linux 7.3, `scx_kfunc_context_filter()`: may the current op call this group of kfuncs?
#[inline]
fn allowed(kernel: &mut Kernel<'_>, group: u32, called: &str) -> bool {
    let allowed = kernel.scx.context.mask & group & kernel.scx.kf_bits != 0;
    if !allowed {
        not_allowed(kernel, group, called);
    }
    allowed
}

#[cold]
fn not_allowed(kernel: &mut Kernel<'_>, group: u32, called: &str) {
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

/// The task that C passed. NULL stops the scheduler; the kernel's verifier would have refused it.
fn given(kernel: &mut Kernel<'_>, task: Option<TaskPtr>) -> Option<TaskPtr> {
    if task.is_none() {
        kernel.scheduler_error("NULL where a task is expected");
    }
    task
}

/// `check_builtin_idle_enabled()`.
fn tracks_idle(kernel: &mut Kernel<'_>) -> bool {
    let enabled = kernel.scx.idle_masks.enabled;
    if !enabled {
        kernel.scheduler_error("built-in idle tracking is disabled");
    }
    enabled
}

/// The NUMA node of `cpu`.
fn node_of(kernel: &Kernel<'_>, cpu: usize) -> i32 {
    let nodes = kernel.machine.nodes();
    nodes
        .iter()
        .position(|span| span.contains(cpu))
        .unwrap_or(0) as i32
}

/// `validate_node()`: the CPUs of `node`, or an errno after a scheduler error. Unlike Linux, it does not require
/// SCX_OPS_BUILTIN_IDLE_PER_NODE, which loaders set and a scheduler without its loader lacks.
fn valid_node(kernel: &mut Kernel<'_>, node: i32) -> Result<CpuMask, i32> {
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

fn per_node(kernel: &Kernel<'_>) -> bool {
    kernel.scx.ops.flags & abi::OPS_BUILTIN_IDLE_PER_NODE != 0
}

/// Kfuncs without a node argument are errors under SCX_OPS_BUILTIN_IDLE_PER_NODE.
fn flat(kernel: &mut Kernel<'_>) -> bool {
    let flat = !per_node(kernel);
    if !flat {
        kernel.scheduler_error("per-node idle tracking is enabled");
    }
    flat
}

/// `scx_dispatch_preamble()`, `scx_dsq_insert_preamble()`.
#[inline]
fn may_dispatch(
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
fn may_enqueue(kernel: &mut Kernel<'_>, dsq_id: u64, flags: &mut u64) -> bool {
    const NEW: u64 = abi::ENQ_IMMED | abi::ENQ_RESCUE;
    let always = kernel.scx.ops.flags & abi::OPS_ALWAYS_ENQ_IMMED != 0;
    if *flags & (abi::ENQ_INTERNAL | NEW) == 0 && !always {
        return true;
    }
    may_enqueue_with(kernel, dsq_id, flags, always)
}

#[cold]
fn may_enqueue_with(kernel: &mut Kernel<'_>, dsq_id: u64, flags: &mut u64, always: bool) -> bool {
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
fn invalid_flags(kernel: &mut Kernel<'_>, flags: u64) {
    kernel.scheduler_error(format_args!("invalid enq_flags {flags:#x}"));
}

fn commit(kernel: &mut Kernel<'_>, task: TaskPtr, dsq_id: u64, given: Given, flags: u64) {
    if !kernel.scx.is_7_3() {
        given.apply(task, flags & abi::ENQ_DSQ_PRIQ != 0);
    }
    if let Err(refused) = kernel.scx.verdicts.commit(task, dsq_id, flags, given) {
        not_committed(kernel, task, &refused);
    }
}

#[cold]
fn not_committed(kernel: &mut Kernel<'_>, task: TaskPtr, refused: &Refused) {
    kernel.scheduler_error(refused.message(task));
}

/// `find_user_dsq()`.
fn user_dsq<'k>(kernel: &'k mut Kernel<'_>, id: u64) -> Option<&'k mut Dsq> {
    let on = kernel.scx.dsqs.find(id)?;
    Some(kernel.scx.dsqs.get_mut(on))
}

#[cold]
fn invalid_dsq(kernel: &mut Kernel<'_>, id: u64) {
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

/// May the current op use kfuncs that sleep? The kernel's verifier checks whether the program is
/// sleepable.
fn may_sleep(kernel: &mut Kernel<'_>, kfunc: &str) -> bool {
    let op = kernel.calls.call().map_or("", |call| call.op);
    let sleepable = SLEEPABLE.contains(&op);
    if !sleepable {
        kernel.scheduler_error(format_args!(
            "{kfunc}() in {op}(): it may sleep; expected one of {}()",
            SLEEPABLE.join("(), ")
        ));
    }
    sleepable
}

/// The CPU whose runqueue lock the current op holds, if any.
fn locked_cpu(kernel: &Kernel<'_>) -> Option<usize> {
    let (mask, cpu) = (kernel.scx.context.mask, kernel.scx.context.subject as usize);
    let unlocked = mask & kf::UNLOCKED != 0 || mask == kf::SELECT_CPU || mask == kf::DUMP;
    (!unlocked && cpu < kernel.cpus.len()).then_some(cpu)
}

/// The value returned to C: 0, or a negative errno.
fn status(result: Result<(), i32>) -> i64 {
    result.map_or_else(|errno| -i64::from(errno), |()| 0)
}

kfuncs! {
    fn create_dsq(kernel, id: u64, node: i32) -> i32 {
        let is_node = |node| usize::try_from(node).is_ok_and(|node| node < kernel.machine.nodes().len().max(1));
        if id & abi::DSQ_BUILTIN != 0 || (node != abi::NUMA_NO_NODE && !is_node(node)) {
            return -abi::EINVAL;
        }
        if !may_sleep(kernel, "scx_bpf_create_dsq")
            || kernel.scx.is_7_3() && !allowed(kernel, kf::CREATES, "scx_bpf_create_dsq")
        {
            return -abi::EINVAL;
        }
        match kernel.scx.dsqs.create(id) {
            true => 0,
            false => -abi::EEXIST,
        }
    }

    fn destroy_dsq(kernel, id: u64) {
        if let Err(nr) = kernel.scx.dsqs.destroy(id) {
            kernel.scheduler_error(format_args!(
                "attempting to destroy in-use dsq {id:#018x} (nr={nr})"
            ));
        }
    }

    fn dsq_nr_queued(kernel, id: u64) -> i32 {
        if id == abi::DSQ_LOCAL {
            return kernel.scx.dsqs.local(kernel.this_cpu()).len() as i32;
        }
        if id & abi::DSQ_LOCAL_ON == abi::DSQ_LOCAL_ON {
            let cpu = (id & abi::DSQ_LOCAL_CPU_MASK) as i32;
            let cpu = kernel.cpu_from_c(cpu, "in scx_bpf_dsq_nr_queued()");
            return cpu.map_or(-abi::ENOENT, |cpu| kernel.scx.dsqs.local(cpu).len() as i32);
        }
        user_dsq(kernel, id).map_or(-abi::ENOENT, |dsq| dsq.len() as i32)
    }

    fn select_cpu_dfl(
        kernel,
        task: Option<TaskPtr>,
        prev: i32,
        wake_flags: u64,
        is_idle: &mut MaybeUninit<bool>
    ) -> i32 {
        is_idle.write(false);
        if !tracks_idle(kernel)
            || !allowed(kernel, kf::SELECTS, "scx_bpf_select_cpu_dfl")
            || !kernel.cpu_valid(prev, "in scx_bpf_select_cpu_dfl()")
        {
            return prev;
        }
        let Some(task) = given(kernel, task) else {
            return prev;
        };
        let (cpu, idle) = kernel.select_cpu_dfl(task, prev as usize, wake_flags);
        is_idle.write(idle);
        cpu as i32
    }

    fn select_cpu_and(
        kernel,
        task: Option<TaskPtr>,
        prev: i32,
        wake_flags: u64,
        among: CpuMask,
        flags: u64
    ) -> i32 [kf::SELECTS = "scx_bpf_select_cpu_and", else -abi::EBUSY] {
        if !kernel.cpu_valid(prev, "in scx_bpf_select_cpu_and()") {
            return -abi::EINVAL;
        }
        if !tracks_idle(kernel) {
            return -abi::EBUSY;
        }
        let Some(task) = given(kernel, task) else {
            return -abi::EINVAL;
        };
        let cpu = kernel.select_cpu_and(task, prev as usize, wake_flags, &among, flags);
        cpu.map_or(-abi::EBUSY, |cpu| cpu as i32)
    }

    fn dispatch(kernel, task: Option<TaskPtr>, dsq_id: u64, slice: u64, flags: u64)
        [kf::INSERTS = "scx_bpf_dsq_insert"]
    {
        let mut flags = flags;
        if let Some(task) = may_dispatch(kernel, task, dsq_id, &mut flags) {
            commit(kernel, task, dsq_id, Given { slice, vtime: 0 }, flags);
        }
    }

    fn dispatch_vtime(
        kernel,
        task: Option<TaskPtr>,
        dsq_id: u64,
        slice: u64,
        vtime: u64,
        flags: u64
    ) [kf::INSERTS = "scx_bpf_dsq_insert_vtime"] {
        let mut flags = flags;
        if let Some(task) = may_dispatch(kernel, task, dsq_id, &mut flags) {
            commit(kernel, task, dsq_id, Given { slice, vtime }, flags | abi::ENQ_DSQ_PRIQ);
        }
    }

    fn dispatch_nr_slots(kernel) -> u32
        [kf::DISPATCHES = "scx_bpf_dispatch_nr_slots", else 0]
    {
        kernel.scx.verdicts.slots() as u32
    }

    fn dispatch_cancel(kernel) [kf::DISPATCHES = "scx_bpf_dispatch_cancel"] {
        if !kernel.scx.verdicts.cancel() {
            kernel.scheduler_error("dispatch buffer underflow");
        }
    }

    fn consume(kernel, dsq_id: u64, flags: u64) -> bool
        [kf::DISPATCHES = "scx_bpf_dsq_move_to_local", else false]
    {
        let mut flags = flags;
        if !may_enqueue(kernel, abi::DSQ_LOCAL, &mut flags) {
            return false;
        }
        kernel.flush_dispatches();
        let Some(on) = kernel.scx.dsqs.find(dsq_id) else {
            invalid_dsq(kernel, dsq_id);
            return false;
        };
        if kernel.scx.dsqs.get(on).is_empty() || !kernel.consume(kernel.this_cpu(), on, flags) {
            return false;
        }
        kernel.scx.verdicts.nr_tasks += 1;
        true
    }

    /// There are no sub-schedulers to dispatch to.
    fn sub_dispatch(_kernel) -> bool [kf::DISPATCHES = "scx_bpf_sub_dispatch", else false] {
        false
    }

    fn dispatch_from_dsq(
        kernel,
        it: &mut IterDsq,
        task: Option<TaskPtr>,
        dsq_id: u64,
        flags: u64
    ) -> bool {
        if !kernel.bpf.iterations.has(it) {
            kernel.verifier_error("moves a task in an iteration of a dispatch queue that it has not begun");
            return false;
        }
        let set = it.flags & (abi::ITER_HAS_SLICE | abi::ITER_HAS_VTIME);
        it.flags &= !set;
        // Linux 6.12 allows it in any context without a runqueue lock.
        let unlocked = !kernel.scx.is_7_3() && kernel.scx.context.mask & kf::BITS_6_12 == 0;
        if !unlocked && !allowed(kernel, kf::MOVES, "scx_bpf_dsq_move") {
            return false;
        }
        let (mut vetted, vtime) = (flags & !abi::ENQ_DSQ_PRIQ, flags & abi::ENQ_DSQ_PRIQ);
        if !may_enqueue(kernel, dsq_id, &mut vetted) {
            return false;
        }
        let flags = vetted | vtime;
        let Some(task) = given(kernel, task) else {
            return false;
        };
        let Some(source) = kernel.scx.dsqs.find(it.dsq_id) else {
            return false;
        };
        let since = |dsq: &Dsq| {
            let index = dsq.position(task)?;
            dsq.get(index).map(|queued| queued.sequence)
        };
        // The task may have left the queue and returned since the iteration began.
        if task.dsq.get() != source
            || since(kernel.scx.dsqs.get(source)).is_none_or(|since| since > it.end)
        {
            return false;
        }
        if set & abi::ITER_HAS_VTIME != 0 {
            task.abi.scx.dsq_vtime.set(it.vtime);
        }
        if set & abi::ITER_HAS_SLICE != 0 {
            task.abi.scx.slice.set(it.slice);
        }
        let dsq = kernel.find_dsq_here(task, dsq_id);
        kernel.move_between(task, dsq, flags);
        true
    }

    fn reenqueue_local(kernel) -> u32 [kf::REENQUEUES = "scx_bpf_reenqueue_local", else 0] {
        kernel.reenqueue_local(kernel.this_cpu())
    }

    fn dsq_reenq(kernel, dsq_id: u64, flags: u64) {
        if flags & !abi::REENQ_ANY != 0 {
            return kernel.scheduler_error(format_args!("invalid SCX_REENQ flags {flags:#x}"));
        }
        let here = locked_cpu(kernel).unwrap_or(kernel.this_cpu());
        let on = if dsq_id == abi::DSQ_LOCAL {
            Some(OnDsq::local(here))
        } else if dsq_id & abi::DSQ_LOCAL_ON == abi::DSQ_LOCAL_ON {
            let cpu = (dsq_id & abi::DSQ_LOCAL_CPU_MASK) as i32;
            kernel.cpu_from_c(cpu, "in SCX_DSQ_LOCAL_ON dispatch verdict").map(OnDsq::local)
        } else if dsq_id & abi::DSQ_BUILTIN != 0 {
            kernel.scheduler_error(format_args!("DSQ {dsq_id:#x} not allowed for reenq"));
            None
        } else {
            let found = kernel.scx.dsqs.find(dsq_id);
            if found.is_none() {
                kernel.scheduler_error(format_args!("non-existent DSQ {dsq_id:#x}"));
            }
            found
        };
        if let Some(on) = on {
            kernel.scx.reenqueues.ask(on, abi::REENQ_ANY);
        }
    }

    fn dsq_peek(kernel, dsq_id: u64) -> *mut TaskStruct {
        if dsq_id & abi::DSQ_BUILTIN != 0 {
            kernel.scheduler_error(format_args!("peek disallowed on builtin DSQ {dsq_id:#x}"));
            return null_mut();
        }
        let Some(on) = kernel.scx.dsqs.find(dsq_id) else {
            kernel.scheduler_error(format_args!("peek on non-existent DSQ {dsq_id:#x}"));
            return null_mut();
        };
        let Some(task) = kernel.scx.dsqs.get(on).first() else {
            return null_mut();
        };
        kernel.read_task(task);
        task.abi()
    }

    fn kick_cpu(kernel, cpu: i32, flags: u64) {
        if !kernel.cpu_valid(cpu, "in scx_bpf_kick_cpu()") {
            return;
        }
        let cpu = cpu as usize;
        let may_idle = kernel.cpus[cpu].curr.is_none() || kernel.scx.rqs[cpu].in_balance;
        if let Err(message) = kernel.scx.kicks.ask(cpu, flags, may_idle) {
            kernel.scheduler_error(message);
        }
    }

    fn iter_dsq_new(kernel, it: &mut MaybeUninit<IterDsq>, dsq_id: u64, flags: u64) -> i32 {
        let it = it.write(IterDsq {
            dsq_id: abi::DSQ_INVALID,
            flags: 0,
            queue: OnDsq::NONE,
            iteration: 0,
            end: 0,
            slice: 0,
            vtime: 0,
        });
        // A failed iteration must be ended, too.
        if !kernel.bpf.iterations.begin(it) {
            kernel.verifier_error("begins an iteration of a dispatch queue that it has not ended");
        }
        kernel.bpf.table_mut().held.references += 1;
        let found = kernel.scx.dsqs.find(dsq_id);
        if let Some(on) = found {
            kernel.lock_dsq(on);
        }
        if flags & !abi::ITER_REV != 0 {
            return -abi::EINVAL;
        }
        let Some(queue) = found else {
            return -abi::ENOENT;
        };
        let dsq = kernel.scx.dsqs.get_mut(queue);
        it.dsq_id = dsq_id;
        it.queue = queue;
        it.iteration = dsq.open(flags & abi::ITER_REV != 0) as u32;
        it.end = dsq.sequence();
        0
    }

    fn iter_dsq_next(kernel, it: &mut IterDsq) -> *mut TaskStruct {
        if !kernel.bpf.iterations.has(it) {
            kernel.verifier_error("continues an iteration of a dispatch queue that it has not begun");
            return null_mut();
        }
        let dsq = kernel.scx.dsqs.iterated(it.queue);
        let Some(task) = dsq.and_then(|dsq| dsq.next(it.iteration as usize)) else {
            return null_mut();
        };
        kernel.read_task(task);
        task.abi()
    }

    fn iter_dsq_destroy(kernel, it: &mut IterDsq) {
        if !kernel.bpf.iterations.end(it) {
            return kernel.verifier_error("ends an iteration of a dispatch queue that it has not begun");
        }
        kernel.bpf.table_mut().held.references -= 1;
        if let Some(dsq) = kernel.scx.dsqs.iterated(it.queue) {
            dsq.close(it.iteration as usize);
        }
    }

    fn lock_rqs(kernel, a: u32, b: u32) {
        kernel.lock_rqs([a as usize, b as usize]);
    }

    fn unlock_rqs(kernel) {
        kernel.unlock_rqs();
    }

    fn exit(kernel, code: i64, message: &CStr) {
        let message = message.to_string_lossy().into_owned();
        kernel.scheduler_exit(abi::EXIT_UNREG_BPF, code, message);
    }

    fn error(kernel, message: &CStr) {
        let message = message.to_string_lossy().into_owned();
        kernel.scheduler_exit(abi::EXIT_ERROR_BPF, 0, message);
    }

    fn dump(kernel, line: &CStr) {
        kernel.scx.dump.push_str(&line.to_string_lossy());
    }

    fn printk(kernel, line: &CStr) {
        if kernel.trace.is_some() {
            let line = cage::text::one_line(&line.to_string_lossy());
            kernel.traced(kernel.this_cpu(), Event::Printk(&line));
        }
    }

    /// `scx_bpf_cpuperf_cap()` (0) and `scx_bpf_cpuperf_cur()` (1).
    fn cpuperf(kernel, cpu: i32, what: u32) -> u32 {
        if !kernel.cpu_valid(cpu, "in scx_bpf_cpuperf_*()") {
            return abi::CPUPERF_ONE;
        }
        match what {
            0 => kernel.hw.cpufreq.cap(cpu as usize),
            _ => kernel.hw.cores.cpuperf_cur(cpu as usize),
        }
    }

    fn cpuperf_set(kernel, cpu: i32, perf: u32) {
        if perf > abi::CPUPERF_ONE {
            return kernel.scheduler_error(format_args!("Invalid cpuperf target {perf} for CPU {cpu}"));
        }
        if kernel.cpu_valid(cpu, "in scx_bpf_cpuperf_set()") {
            kernel.set_cpuperf(cpu as usize, perf);
        }
    }

    fn cpumask(kernel, which: u32) -> *const CpuMask {
        static NONE: CpuMask = CpuMask::EMPTY;
        if which >= 2 && !(flat(kernel) && tracks_idle(kernel)) {
            return &raw const NONE;
        }
        kernel.scx.idle_masks.for_c(which)
    }

    fn cpu_node(kernel, cpu: i32) -> i32 {
        match kernel.cpu_valid(cpu, "in scx_bpf_cpu_node()") {
            true => node_of(kernel, cpu as usize),
            false => abi::NUMA_NO_NODE,
        }
    }

    fn node_cpumask(kernel, node: i32, smt: bool) -> *const CpuMask {
        match valid_node(kernel, node) {
            Ok(span) => kernel.scx.idle_masks.of_node(&span, smt),
            Err(_) => kernel.scx.idle_masks.of_node(&CpuMask::EMPTY, smt),
        }
    }

    fn pick_cpu_node(kernel, allowed: CpuMask, node: i32, flags: u64, idle_only: bool) -> i32 {
        let span = match valid_node(kernel, node) {
            Ok(span) => span,
            Err(errno) => return -errno,
        };
        let (this, in_node) = (kernel.this_cpu(), flags & abi::PICK_IDLE_IN_NODE != 0);
        let masks = &mut kernel.scx.idle_masks;
        let mut cpu = masks.pick_idle_cpu(this, &allowed.and(&span), flags);
        if !in_node {
            cpu = cpu.or_else(|| masks.pick_idle_cpu(this, &allowed, flags));
        }
        kernel.claimed(cpu);
        if !idle_only {
            let among = if in_node { span } else { kernel.machine.all_cpus() };
            cpu = cpu.or_else(|| kernel.scx.idle_masks.any_distribute(this, &among, &allowed));
        }
        cpu.map_or(-abi::EBUSY, |cpu| cpu as i32)
    }

    fn test_and_clear_cpu_idle(kernel, cpu: i32) -> bool {
        tracks_idle(kernel)
            && kernel.cpu_valid(cpu, "in scx_bpf_test_and_clear_cpu_idle()")
            && kernel.claim_idle(cpu as usize)
    }

    fn pick_cpu(kernel, allowed: CpuMask, flags: u64, idle_only: bool) -> i32 {
        if !flat(kernel) {
            return -abi::EBUSY;
        }
        let this = kernel.this_cpu();
        let all = kernel.machine.all_cpus();
        // Without built-in tracking any CPU will do, unless an idle one is required.
        let tracked = match idle_only {
            true => tracks_idle(kernel),
            false => kernel.scx.idle_masks.enabled,
        };
        let masks = &mut kernel.scx.idle_masks;
        let mut cpu = None;
        if tracked {
            cpu = masks.pick_idle_cpu(this, &allowed, flags);
            kernel.claimed(cpu);
        }
        if !idle_only {
            let masks = &mut kernel.scx.idle_masks;
            cpu = cpu.or_else(|| masks.any_distribute(this, &all, &allowed));
        }
        cpu.map_or(-abi::EBUSY, |cpu| cpu as i32)
    }

    fn any_distribute(kernel, a: CpuMask, b: CpuMask) -> u32 {
        let (this, none) = (kernel.this_cpu(), kernel.cpus.len());
        let cpu = kernel.scx.idle_masks.any_distribute(this, &a, &b);
        cpu.unwrap_or(none) as u32
    }

    fn task_from_pid(kernel, pid: i32) -> *mut TaskStruct {
        kernel.task(pid).map_or(null_mut(), TaskPtr::abi)
    }

    fn tid_to_task(kernel, tid: u64) -> *mut TaskStruct {
        if kernel.scx.ops.flags & abi::OPS_TID_TO_TASK == 0 {
            kernel.scheduler_error("scx_bpf_tid_to_task() called without SCX_OPS_TID_TO_TASK");
            return null_mut();
        }
        let pid = i32::try_from(tid).unwrap_or(-1);
        kernel.task(pid).map_or(null_mut(), TaskPtr::abi)
    }

    fn locked_rq(kernel) -> *mut Rq {
        match locked_cpu(kernel) {
            Some(cpu) => &raw mut *kernel.rq(cpu),
            None => {
                kernel.scheduler_error("accessing rq without holding rq lock");
                null_mut()
            }
        }
    }

    fn cpu_of_cid(kernel, cid: i32) -> i32 {
        kernel.cpu_of_cid(cid).map_or(-abi::EINVAL, |cpu| cpu as i32)
    }

    fn cid_of_cpu(kernel, cpu: i32) -> i32 {
        match kernel.cpu_valid(cpu, "in a kfunc") {
            true => kernel.scx.cids.of_cpu(cpu as usize),
            false => -abi::EINVAL,
        }
    }

    fn cid_topo(kernel, cid: i32, out: &mut MaybeUninit<CidTopo>) {
        let known = kernel.cpu_of_cid(cid).is_some();
        out.write(kernel.scx.cids.topology(if known { cid as usize } else { 0 }));
    }

    fn cid_override(
        kernel,
        cpu_to_cid: Numbers,
        nr_cpus: u32,
        shard_start: Numbers,
        nr_shards: u32
    ) [kf::OVERRIDES = "scx_bpf_cid_override"] {
        let nr_shards = nr_shards.min(kernel.cpus.len() as u32 + 1);
        if nr_cpus as usize > kernel.cpus.len() {
            return kernel.scheduler_error(format_args!(
                "scx_bpf_cid_override: cpu_to_cid expected {} entries, got {nr_cpus}",
                kernel.cpus.len()
            ));
        }
        let (cpus, shards) = (cpu_to_cid.first(nr_cpus), shard_start.first(nr_shards));
        if let Err(message) = kernel.scx.cids.replace(cpus, shards) {
            kernel.scheduler_error(message);
        }
    }

    fn events(kernel, out: &mut MaybeUninit<EventStats>) {
        out.write(kernel.scx.events);
    }

    fn cpu_only(kernel, called: &CStr) {
        let called = called.to_string_lossy().into_owned();
        kernel.verifier_error(&format!("calls {called}() in a cid-form scheduler"));
    }

    fn cgroup(kernel, id: u64) -> *mut Cgroup {
        kernel.bpf.groups.find(id)
    }

    fn storage_get(
        _kernel,
        map: &Map,
        slot: &Cell<*mut c_void>,
        init: Bytes,
        _flags: u64
    ) -> *mut c_void {
        let storage = zeroed(map.value_size as usize);
        if storage.is_null() {
            return storage;
        }
        init.copy_to(map, storage.cast());
        slot.set(storage);
        storage
    }

    fn storage_delete(_kernel, _map: &Map, slot: &Cell<*mut c_void>) {
        release(slot.replace(null_mut()));
    }

    fn map_lookup(kernel, map: &Map, key: Bytes) -> *mut u8 {
        kernel.bpf.instance.maps.lookup(map, key.key(map))
    }

    fn map_update(kernel, map: &Map, key: Bytes, value: Bytes, flags: u64) -> i64 {
        let (cpu, maps) = (kernel.this_cpu(), &mut kernel.bpf.instance.maps);
        status(maps.update(map, cpu, key.key(map), value.value(map), flags))
    }

    fn map_delete(kernel, map: &Map, key: Bytes) -> i64 {
        status(kernel.bpf.instance.maps.delete(map, key.key(map)))
    }

    fn map_push(kernel, map: &Map, value: Bytes, flags: u64) -> i64 {
        status(kernel.bpf.instance.maps.push(map, value.value(map), flags))
    }

    fn map_pop(kernel, map: &Map, value: Bytes, stay: bool) -> i64 {
        status(kernel.bpf.instance.maps.pop(map, value.value(map), stay))
    }

    /// Calls back for each entry until a callback returns a value other than 0.
    fn map_for_each(
        kernel,
        map: &Map,
        variable: MapVariable,
        callback: ForEach,
        context: *mut c_void
    ) -> i64 {
        let cpu = kernel.this_cpu();
        let entries = match kernel.bpf.instance.maps.entries(map, cpu) {
            Ok(entries) => entries,
            Err(errno) => return -i64::from(errno),
        };
        let mut seen = 0;
        for (mut key, value) in entries {
            seen += 1;
            if call!(kernel, callback, variable.0, key.as_mut_ptr(), value, context) != 0 {
                break;
            }
        }
        seen
    }

    fn timer_init(kernel, timer: &mut BpfTimer, map: MapVariable, _clock: u64) -> i64 {
        let address = std::ptr::from_ref(timer).addr();
        if kernel.bpf.instance.maps.entry_around(map.map(), address).is_none() {
            kernel.verifier_error("has a timer that is not in a value of its map");
            return -i64::from(abi::EINVAL);
        }
        status(kernel.bpf.timers.init(timer, map))
    }

    fn timer_set_callback(
        kernel,
        timer: &mut BpfTimer,
        callback: Option<timers::Callback>
    ) -> i64 {
        let context = kernel.scx.context.mask;
        status(kernel.bpf.timers.set_callback(timer, callback, context))
    }

    fn timer_start(kernel, timer: &mut BpfTimer, ns: u64, flags: u64) -> i64 {
        let (cpu, now) = (kernel.this_cpu(), kernel.now());
        let started = kernel.bpf.timers.start(timer, cpu, now, ns, flags);
        status(started.map(|(at, expiry)| kernel.events.push(at, What::BpfTimer(expiry))))
    }

    /// Returns 1 if it was running, as `hrtimer_cancel()` does.
    fn timer_cancel(kernel, timer: &mut BpfTimer) -> i64 {
        match kernel.bpf.timers.cancel(timer) {
            Ok(running) => running.into(),
            Err(errno) => -i64::from(errno),
        }
    }

    fn alloc(kernel, size: u64) -> *mut c_void {
        kernel.bpf.instance.objects.alloc(size as usize)
    }

    /// `bpf_refcount_acquire()`.
    fn keep(kernel, object: *mut c_void) {
        if !kernel.bpf.instance.objects.keep(object) {
            kernel.verifier_error("uses an object that does not exist, or no longer exists");
        }
    }

    fn free(kernel, object: *mut c_void) {
        if !kernel.bpf.instance.objects.free(object) {
            kernel.verifier_error("releases an object that does not exist, or no longer exists");
        }
    }

    fn random(kernel) -> u32 {
        kernel.rng.bits() as u32
    }

    /// `sd_llc_id`: the first of the CPUs that share `cpu`'s last-level cache; -1 if there is no such CPU.
    fn llc_id(kernel, cpu: i32) -> i32 {
        let Ok(cpu) = usize::try_from(cpu) else {
            return -1;
        };
        let caches = kernel.machine.last_level_caches();
        let cache = caches.iter().find(|span| span.contains(cpu));
        cache.and_then(CpuMask::first).map_or(-1, |first| first as i32)
    }

    /// The time that `cpu` has not been idle (`/proc/stat`), for a loader's part. 0 if there is no such CPU.
    fn busy_ns(kernel, cpu: i32) -> u64 {
        let known = (cpu as u32 as usize) < kernel.machine.cpus.len();
        let now = kernel.now();
        if known { kernel.cpus[cpu as usize].busy_until(now) } else { 0 }
    }

    /// The scheduler records a decision and its reason.
    fn explain(kernel, decision: u32, pid: i32, cpu: i32, numbers: &[i64; EXPLAINED_NUMBERS]) {
        if kernel.trace.is_none() {
            return;
        }
        let task = kernel.task(pid);
        let event = Event::Decision {
            decision,
            task: task.as_ref().map(|task| (&*task.name, pid)),
            waited_for: task.as_ref().map_or("nothing", |task| task.waits_for.get()),
            cpu: usize::try_from(cpu).ok(),
            numbers,
        };
        kernel.traced(kernel.this_cpu(), event);
    }
}
