//! Kfuncs on dispatch queues.

use super::checks::{
    allowed, commit, given, invalid_dsq, locked_cpu, may_dispatch, may_enqueue, may_select,
    may_sleep, tracks_idle, user_dsq,
};
use crate::abi::args::FromC;
use crate::abi::layout::{self as abi, IterDsq, TaskStruct};
use crate::kernel::Kernel;
use crate::kernel::task::TaskPtr;
use crate::scx::call::kf;
use crate::scx::dsq::{Dsq, NotBegun, OnDsq};
use crate::scx::verdict::Given;
use machine::CpuMask;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

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
        let Some(task) = given(kernel, task).filter(|task| may_select(kernel, *task)) else {
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
        let Some(task) = given(kernel, task).filter(|task| may_select(kernel, *task)) else {
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
        if !kernel.scx.dsqs.iterations.has(it) {
            kernel.verifier_error("moves a task in an iteration that has not begun (bpf_for_each(scx_dsq))");
            return false;
        }
        let set = it.flags & (abi::ITER_HAS_SLICE | abi::ITER_HAS_VTIME);
        it.flags &= !set;
        // Linux 6.12 allows this kfunc in any context without a runqueue lock.
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
        let (reverse, is_valid) = (flags & abi::ITER_REV != 0, flags & !abi::ITER_REV == 0);
        let found = kernel.scx.dsqs.find(dsq_id);
        if let Some(on) = found {
            kernel.lock_dsq(on);
        }
        let queue = found.filter(|_| is_valid);
        let it = it.write(IterDsq {
            dsq_id: if queue.is_some() { dsq_id } else { abi::DSQ_INVALID },
            ..IterDsq::default()
        });
        // A failed iteration must be ended, too.
        if !kernel.scx.dsqs.iterate(it, queue.unwrap_or(OnDsq::NONE), reverse) {
            kernel.verifier_error("begins an iteration that has already begun (bpf_for_each(scx_dsq))");
        }
        kernel.bpf.table_mut().held.references += 1;
        match (queue, is_valid) {
            (Some(_), _) => 0,
            (None, true) => -abi::ENOENT,
            (None, false) => -abi::EINVAL,
        }
    }

    fn iter_dsq_next(kernel, it: &mut IterDsq) -> *mut TaskStruct {
        match kernel.scx.dsqs.next(it) {
            Ok(Some(task)) => {
                kernel.read_task(task);
                task.abi()
            }
            Ok(None) => null_mut(),
            Err(NotBegun) => {
                kernel.verifier_error("continues an iteration that has not begun (bpf_for_each(scx_dsq))");
                null_mut()
            }
        }
    }

    fn iter_dsq_destroy(kernel, it: &mut IterDsq) {
        match kernel.scx.dsqs.iterations.end(it) {
            true => kernel.bpf.table_mut().held.references -= 1,
            false => kernel.verifier_error("ends an iteration that has not begun (bpf_for_each(scx_dsq))"),
        }
    }
}
