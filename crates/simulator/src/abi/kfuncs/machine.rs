//! Kfuncs on CPUs, tasks, control groups and messages.

use super::checks::{
    allowed, flat, given, is_subject, locked_cpu, node_of, tracks_idle, valid_node,
};
use crate::Event;
use crate::abi::args::{FromC, Numbers};
use crate::abi::layout::{self as abi, Cgroup, CidTopo, EventStats, Rq, TaskStruct};
use crate::kernel::Kernel;
use crate::kernel::task::TaskPtr;
use crate::scx::call::kf;
use machine::CpuMask;
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

kfuncs! {
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
        let op = kernel.calls.call().map_or("", |call| call.op);
        if !["dump", "dump_cpu", "dump_task"].contains(&op) {
            return kernel.scheduler_error("scx_bpf_dump() must only be called from ops.dump() and friends");
        }
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

    fn cpuperf_set(kernel, cpu: i32, perf: u32, of_any_cpu: bool) {
        if perf > abi::CPUPERF_ONE {
            return kernel.scheduler_error(format_args!("Invalid cpuperf target {perf} for CPU {cpu}"));
        }
        if !kernel.cpu_valid(cpu, "in scx_bpf_cpuperf_set()") {
            return;
        }
        // Linux 7.3 locks the runqueue of `cpu`, which an op that has locked another runqueue must not do.
        let is_locked = |locked: usize| locked == cpu as usize;
        if kernel.scx.is_7_3() && !of_any_cpu && !locked_cpu(kernel).is_none_or(is_locked) {
            return kernel.scheduler_error(format_args!("Invalid target CPU {cpu}"));
        }
        kernel.set_cpuperf(cpu as usize, perf);
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
        // Without built-in tracking of idle CPUs, any CPU will do unless an idle one is required.
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

    /// `scx_bpf_task_cgroup()`: the root group after an error.
    fn task_cgroup(kernel, task: Option<TaskPtr>) -> *mut Cgroup {
        match given(kernel, task).filter(|task| is_subject(kernel, *task)) {
            Some(task) => kernel.bpf.groups.of(task.abi.cgroups.get()),
            None => kernel.bpf.groups.group(0),
        }
    }
}
