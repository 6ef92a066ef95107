//! What the scheduler calls: the functions behind `struct equipoise_kernel`. Each checks its
//! arguments and context as the kernel does, and does its work through [`Kernel`].

use crate::Event;
use crate::abi::layout::{self as abi, BpfTimer, Cgroup, IterDsq, Map, Rq, Table, TaskStruct};
use crate::class::ext::{DirectTask, Dispatch, kf};
use crate::kernel::Kernel;
use crate::kernel::task::{OnDsq, TaskPtr};
use crate::scx::dsq::Dsq;
use machine::CpuMask;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

/// The table for a machine of `nr_cpus`. The kernel itself is filled in by [`Kernel::lend`].
pub fn table(nr_cpus: usize, tick_ns: u64, rqs: *mut Rq) -> Table {
    Table {
        now: 0,
        cpu: 0,
        nr_cpu_ids: nr_cpus as u32,
        tick_ns,
        current: null_mut(),
        kernel: null_mut(),
        rqs,
        spent: 0,
        memory: null_mut(),
        create_dsq,
        destroy_dsq,
        dsq_nr_queued,
        select_cpu_dfl,
        dispatch,
        dispatch_vtime,
        dispatch_nr_slots,
        dispatch_cancel,
        consume,
        dispatch_from_dsq,
        reenqueue_local,
        kick_cpu,
        iter_dsq_new,
        iter_dsq_next,
        iter_dsq_destroy,
        lock_rqs,
        unlock_rqs,
        exit,
        error,
        dump,
        printk,
        cpuperf,
        cpuperf_set,
        cpumask,
        test_and_clear_cpu_idle,
        pick_cpu,
        any_distribute,
        task_from_pid,
        cgroup,
        storage_get,
        storage_delete,
        map_lookup,
        map_update,
        map_delete,
        map_push,
        map_pop,
        map_for_each,
        timer_init,
        timer_set_callback,
        timer_start,
        timer_cancel,
        alloc,
        free,
        random,
    }
}

/// The kernel that a call comes back to.
///
/// # Safety
/// `k` is what [`Kernel::lend`] put into the table for the op that is being called, and this is the
/// only reference made of it while the function runs.
unsafe fn kernel<'a>(k: *mut c_void) -> &'a mut Kernel<'a> {
    unsafe { &mut *k.cast::<Kernel<'a>>() }
}

/// The task `p`. Without one the scheduler is stopped; the kernel's verifier would not have let it in.
///
/// # Safety
/// `p` is a task that the scheduler was given, or null.
unsafe fn task(kernel: &mut Kernel<'_>, p: *mut TaskStruct) -> Option<TaskPtr> {
    let task = unsafe { TaskPtr::from_abi(p) };
    if task.is_none() {
        kernel.scheduler_error("NULL where a task is expected".into());
    }
    task
}

unsafe fn text(text: *const c_char) -> String {
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

impl Kernel<'_> {
    /// `scx_kf_allowed()`: may the op that is being called use this kind of kfunc?
    fn allowed(&mut self, mask: u32) -> bool {
        let allowed = self.scx.kf_mask & mask != 0;
        if !allowed {
            let only = self.scx.kf_mask;
            self.scheduler_error(format!(
                "kfunc with mask {mask:#x} called from an operation only allowing {only:#x}"
            ));
        }
        allowed
    }

    /// `scx_dispatch_commit()`.
    fn dispatch(&mut self, task: TaskPtr, dsq_id: u64, slice: u64, flags: u64) {
        if slice != 0 {
            task.abi.scx.slice.set(slice);
        } else if task.abi.scx.slice.get() == 0 {
            task.abi.scx.slice.set(1);
        }
        match self.scx.direct_task {
            DirectTask::None => {
                if self.scx.dispatches.len() >= self.scx.max_dispatches {
                    return self.scheduler_error("dispatch buffer overflow".into());
                }
                self.scx.dispatches.push(Dispatch {
                    task,
                    qseq: task.qseq.get(),
                    dsq_id,
                    enq_flags: flags,
                });
            }
            DirectTask::Task(expected) if expected == task => {
                self.scx.direct_task = DirectTask::Done;
                task.direct_dsq.set(dsq_id);
                task.direct_flags.set(flags);
            }
            DirectTask::Task(expected) => self.scheduler_error(format!(
                "scheduling for {} but trying to direct-dispatch {}",
                expected.label(),
                task.label()
            )),
            DirectTask::Done => {
                self.scheduler_error(format!("{} already direct-dispatched", task.label()))
            }
        }
    }

    /// `scx_dispatch_preamble()`.
    fn may_dispatch(&mut self, flags: u64) -> bool {
        if !self.allowed(kf::ENQUEUE | kf::DISPATCH) {
            return false;
        }
        if flags & abi::ENQ_INTERNAL != 0 {
            self.scheduler_error(format!("invalid enq_flags {flags:#x}"));
            return false;
        }
        true
    }

    /// `find_user_dsq()`.
    fn user_dsq(&mut self, id: u64) -> Option<&mut Dsq> {
        let index = self.scx.user_dsqs.find(id)?;
        Some(self.scx.user_dsqs.get_mut(index))
    }
}

// Each of these is called from C through the table: `k` and the pointers are as the scheduler was
// given them, or to objects of its own of the type that the header says.

unsafe extern "C" fn create_dsq(k: *mut c_void, id: u64, _node: i32) -> i32 {
    let kernel = unsafe { kernel(k) };
    if id & abi::DSQ_BUILTIN != 0 {
        return -abi::EINVAL;
    }
    if kernel.scx.user_dsqs.create(id) {
        0
    } else {
        -abi::EEXIST
    }
}

unsafe extern "C" fn destroy_dsq(k: *mut c_void, id: u64) {
    let kernel = unsafe { kernel(k) };
    let Some(index) = kernel.scx.user_dsqs.find(id) else {
        return;
    };
    if !kernel.scx.user_dsqs.get(index).is_empty() {
        let nr = kernel.scx.user_dsqs.get(index).len();
        return kernel.scheduler_error(format!(
            "attempting to destroy in-use dsq {id:#018x} (nr={nr})"
        ));
    }
    kernel.scx.user_dsqs.destroy(id);
}

unsafe extern "C" fn dsq_nr_queued(k: *mut c_void, id: u64) -> i32 {
    let kernel = unsafe { kernel(k) };
    if id == abi::DSQ_LOCAL {
        return kernel.cpus[kernel.this_cpu()].local.len() as i32;
    }
    if id & abi::DSQ_LOCAL_ON == abi::DSQ_LOCAL_ON {
        let cpu = (id & abi::DSQ_LOCAL_CPU_MASK) as i32;
        if kernel.cpu_valid(cpu, "in scx_bpf_dsq_nr_queued()") {
            return kernel.cpus[cpu as usize].local.len() as i32;
        }
        return -abi::ENOENT;
    }
    kernel
        .user_dsq(id)
        .map_or(-abi::ENOENT, |dsq| dsq.len() as i32)
}

unsafe extern "C" fn select_cpu_dfl(
    k: *mut c_void,
    p: *mut TaskStruct,
    prev: i32,
    wake_flags: u64,
    is_idle: *mut bool,
) -> i32 {
    let kernel = unsafe { kernel(k) };
    let (cpu, idle) = if !kernel.scx.idle_masks.enabled {
        kernel.scheduler_error("built-in idle tracking is disabled".into());
        (prev, false)
    } else if !kernel.allowed(kf::SELECT_CPU)
        || !kernel.cpu_valid(prev, "in scx_bpf_select_cpu_dfl()")
    {
        (prev, false)
    } else if let Some(task) = unsafe { task(kernel, p) } {
        let (cpu, idle) = kernel.select_cpu_dfl(task, prev as usize, wake_flags);
        (cpu as i32, idle)
    } else {
        (prev, false)
    };
    unsafe { is_idle.write(idle) };
    cpu
}

unsafe extern "C" fn dispatch(
    k: *mut c_void,
    p: *mut TaskStruct,
    dsq_id: u64,
    slice: u64,
    flags: u64,
) {
    let kernel = unsafe { kernel(k) };
    if kernel.may_dispatch(flags)
        && let Some(task) = unsafe { task(kernel, p) }
    {
        kernel.dispatch(task, dsq_id, slice, flags);
    }
}

unsafe extern "C" fn dispatch_vtime(
    k: *mut c_void,
    p: *mut TaskStruct,
    dsq_id: u64,
    slice: u64,
    vtime: u64,
    flags: u64,
) {
    let kernel = unsafe { kernel(k) };
    if kernel.may_dispatch(flags)
        && let Some(task) = unsafe { task(kernel, p) }
    {
        task.abi.scx.dsq_vtime.set(vtime);
        kernel.dispatch(task, dsq_id, slice, flags | abi::ENQ_DSQ_PRIQ);
    }
}

unsafe extern "C" fn dispatch_nr_slots(k: *mut c_void) -> u32 {
    let kernel = unsafe { kernel(k) };
    if kernel.allowed(kf::DISPATCH) {
        (kernel.scx.max_dispatches - kernel.scx.dispatches.len()) as u32
    } else {
        0
    }
}

unsafe extern "C" fn dispatch_cancel(k: *mut c_void) {
    let kernel = unsafe { kernel(k) };
    if kernel.allowed(kf::DISPATCH) && kernel.scx.dispatches.pop().is_none() {
        kernel.scheduler_error("dispatch buffer underflow".into());
    }
}

unsafe extern "C" fn consume(k: *mut c_void, dsq_id: u64) -> bool {
    let kernel = unsafe { kernel(k) };
    if !kernel.allowed(kf::DISPATCH) {
        return false;
    }
    if !kernel.scx.dispatches.is_empty() {
        kernel.flush_dispatches();
    }
    let Some(index) = kernel.scx.user_dsqs.find(dsq_id) else {
        kernel.scheduler_error(format!("invalid DSQ ID {dsq_id:#018x}"));
        return false;
    };
    let cpu = kernel.this_cpu();
    if kernel.scx.user_dsqs.get(index).is_empty() || !kernel.consume(cpu, OnDsq::User(index)) {
        return false;
    }
    kernel.scx.dispatched += 1;
    true
}

unsafe extern "C" fn dispatch_from_dsq(
    k: *mut c_void,
    it: *mut IterDsq,
    p: *mut TaskStruct,
    dsq_id: u64,
    flags: u64,
) -> bool {
    let (kernel, it) = unsafe { (kernel(k), &mut *it) };
    let set = it.flags & (abi::ITER_HAS_SLICE | abi::ITER_HAS_VTIME);
    it.flags &= !set;
    if kernel.scx.kf_mask != kf::UNLOCKED && !kernel.allowed(kf::DISPATCH) {
        return false;
    }
    let Some(task) = (unsafe { task(kernel, p) }) else {
        return false;
    };
    let Some(source) = kernel.scx.user_dsqs.find(it.dsq_id) else {
        return false;
    };
    let since = |dsq: &Dsq| {
        let index = dsq.position(task)?;
        dsq.get(index).map(|queued| queued.sequence)
    };
    // It may have left the queue and come back since the iteration began.
    if task.dsq.get() != OnDsq::User(source)
        || since(kernel.scx.user_dsqs.get(source)).is_none_or(|since| since > it.end)
    {
        return false;
    }
    if set & abi::ITER_HAS_VTIME != 0 {
        task.abi.scx.dsq_vtime.set(it.vtime);
    }
    if set & abi::ITER_HAS_SLICE != 0 {
        task.abi.scx.slice.set(it.slice);
    }
    // A local queue without a CPU is that of the CPU that runs this.
    let dsq = if dsq_id == abi::DSQ_LOCAL {
        OnDsq::Local(kernel.this_cpu() as u32)
    } else {
        kernel.find_dsq_for_dispatch(task, dsq_id)
    };
    kernel.move_between(task, dsq, flags);
    true
}

unsafe extern "C" fn reenqueue_local(k: *mut c_void) -> u32 {
    let kernel = unsafe { kernel(k) };
    if kernel.allowed(kf::CPU_RELEASE) {
        kernel.reenqueue_local(kernel.this_cpu())
    } else {
        0
    }
}

unsafe extern "C" fn kick_cpu(k: *mut c_void, cpu: i32, flags: u64) {
    let kernel = unsafe { kernel(k) };
    if !kernel.cpu_valid(cpu, "in scx_bpf_kick_cpu()") {
        return;
    }
    if flags & abi::KICK_IDLE != 0 && flags & (abi::KICK_PREEMPT | abi::KICK_WAIT) != 0 {
        return kernel.scheduler_error("PREEMPT/WAIT cannot be used with SCX_KICK_IDLE".into());
    }
    let target = &kernel.cpus[cpu as usize];
    // can_skip_idle_kick()
    if flags & abi::KICK_IDLE == 0 || target.curr.is_none() || target.in_balance {
        kernel.scx.kicks.push((cpu as u32, flags));
    }
}

unsafe extern "C" fn iter_dsq_new(
    k: *mut c_void,
    it: *mut IterDsq,
    dsq_id: u64,
    flags: u64,
) -> i32 {
    let kernel = unsafe { kernel(k) };
    let mut new = IterDsq {
        dsq_id: abi::DSQ_INVALID,
        flags: 0,
        cursor: 0,
        end: 0,
        slice: 0,
        vtime: 0,
    };
    if let Some(index) = kernel.scx.user_dsqs.find(dsq_id) {
        kernel.lock_dsq(OnDsq::User(index));
    }
    let result = if flags & !abi::ITER_REV != 0 {
        -abi::EINVAL
    } else if let Some(dsq) = kernel.user_dsq(dsq_id) {
        new.dsq_id = dsq_id;
        new.cursor = dsq.open(flags & abi::ITER_REV != 0) as u64;
        new.end = dsq.sequence();
        0
    } else {
        -abi::ENOENT
    };
    unsafe { it.write(new) };
    result
}

unsafe extern "C" fn iter_dsq_next(k: *mut c_void, it: *mut IterDsq) -> *mut TaskStruct {
    let (kernel, it) = unsafe { (kernel(k), &*it) };
    let next = kernel
        .user_dsq(it.dsq_id)
        .and_then(|dsq| dsq.next(it.cursor as usize));
    if let Some(task) = next {
        kernel.read_task(task);
    }
    next.map_or(null_mut(), TaskPtr::abi)
}

unsafe extern "C" fn iter_dsq_destroy(k: *mut c_void, it: *mut IterDsq) {
    let (kernel, it) = unsafe { (kernel(k), &*it) };
    if let Some(dsq) = kernel.user_dsq(it.dsq_id) {
        dsq.close(it.cursor as usize);
    }
}

unsafe extern "C" fn lock_rqs(k: *mut c_void, a: u32, b: u32) {
    unsafe { kernel(k) }.lock_rqs([a as usize, b as usize]);
}

unsafe extern "C" fn unlock_rqs(k: *mut c_void) {
    unsafe { kernel(k) }.unlock_rqs();
}

unsafe extern "C" fn exit(k: *mut c_void, code: i64, message: *const c_char) {
    let kernel = unsafe { kernel(k) };
    kernel.scheduler_exit(abi::EXIT_UNREG_BPF, code, unsafe { text(message) });
}

unsafe extern "C" fn error(k: *mut c_void, message: *const c_char) {
    let kernel = unsafe { kernel(k) };
    kernel.scheduler_exit(abi::EXIT_ERROR_BPF, 0, unsafe { text(message) });
}

unsafe extern "C" fn dump(k: *mut c_void, line: *const c_char) {
    let kernel = unsafe { kernel(k) };
    kernel.scx.dump.push_str(&unsafe { text(line) });
}

unsafe extern "C" fn printk(k: *mut c_void, line: *const c_char) {
    let kernel = unsafe { kernel(k) };
    if kernel.trace.is_some() {
        let cpu = kernel.this_cpu();
        kernel.traced(cpu, Event::Printk(unsafe { text(line) }.trim_end()));
    }
}

/// `scx_bpf_cpuperf_cap()` (0) and `scx_bpf_cpuperf_cur()` (1).
unsafe extern "C" fn cpuperf(k: *mut c_void, cpu: i32, what: u32) -> u32 {
    let kernel = unsafe { kernel(k) };
    if !kernel.cpu_valid(cpu, "in scx_bpf_cpuperf_*()") {
        return abi::CPUPERF_ONE;
    }
    match what {
        0 => kernel.hw.cpufreq.cap(cpu as usize),
        _ => kernel.hw.cores.cpuperf_cur(cpu as usize),
    }
}

unsafe extern "C" fn cpuperf_set(k: *mut c_void, cpu: i32, perf: u32) {
    let kernel = unsafe { kernel(k) };
    if perf > abi::CPUPERF_ONE {
        return kernel.scheduler_error(format!("Invalid cpuperf target {perf} for CPU {cpu}"));
    }
    if kernel.cpu_valid(cpu, "in scx_bpf_cpuperf_set()") {
        kernel.set_cpuperf(cpu as usize, perf);
    }
}

unsafe extern "C" fn cpumask(k: *mut c_void, which: u32) -> *const CpuMask {
    let kernel = unsafe { kernel(k) };
    if which >= 2 && !kernel.scx.idle_masks.enabled {
        kernel.scheduler_error("built-in idle tracking is disabled".into());
        static NONE: CpuMask = CpuMask::EMPTY;
        return &raw const NONE;
    }
    let masks = &kernel.scx.idle_masks;
    match which {
        0 | 1 => &raw const masks.online,
        2 => &raw const masks.cpus,
        _ if masks.has_smt() => &raw const masks.cores,
        _ => &raw const masks.cpus,
    }
}

unsafe extern "C" fn test_and_clear_cpu_idle(k: *mut c_void, cpu: i32) -> bool {
    let kernel = unsafe { kernel(k) };
    if !kernel.scx.idle_masks.enabled {
        kernel.scheduler_error("built-in idle tracking is disabled".into());
        return false;
    }
    kernel.cpu_valid(cpu, "in scx_bpf_test_and_clear_cpu_idle()")
        && kernel.scx.idle_masks.claim(cpu as usize)
}

unsafe extern "C" fn pick_cpu(
    k: *mut c_void,
    allowed: *const CpuMask,
    flags: u64,
    idle_only: bool,
) -> i32 {
    let (kernel, allowed) = unsafe { (kernel(k), *allowed) };
    if kernel.scx.idle_masks.enabled {
        if let Some(cpu) = kernel.pick_idle_cpu(&allowed, flags) {
            return cpu as i32;
        }
    } else if idle_only {
        kernel.scheduler_error("built-in idle tracking is disabled".into());
    }
    if idle_only {
        return -abi::EBUSY;
    }
    let all = kernel.machine.all_cpus();
    kernel
        .any_distribute(&all, &allowed)
        .map_or(-abi::EBUSY, |cpu| cpu as i32)
}

unsafe extern "C" fn any_distribute(k: *mut c_void, a: *const CpuMask, b: *const CpuMask) -> u32 {
    let (kernel, a, b) = unsafe { (kernel(k), *a, *b) };
    let none = kernel.cpus.len();
    kernel.any_distribute(&a, &b).unwrap_or(none) as u32
}

unsafe extern "C" fn task_from_pid(k: *mut c_void, pid: i32) -> *mut TaskStruct {
    unsafe { kernel(k) }
        .task(pid)
        .map_or(null_mut(), TaskPtr::abi)
}

unsafe extern "C" fn cgroup(k: *mut c_void, id: u64) -> *mut Cgroup {
    unsafe { kernel(k) }.bpf.root_cgroup.find(id)
}

unsafe extern "C" fn storage_get(
    _k: *mut c_void,
    map: *mut Map,
    slot: *mut *mut c_void,
    init: *const c_void,
    _flags: u64,
) -> *mut c_void {
    unsafe {
        let size = (*map).value_size as usize;
        let storage = zeroed(size);
        if !init.is_null() {
            storage.cast::<u8>().copy_from(init.cast(), size);
        }
        slot.write(storage);
        storage
    }
}

unsafe extern "C" fn storage_delete(_k: *mut c_void, _map: *mut Map, slot: *mut *mut c_void) {
    release(unsafe { slot.replace(null_mut()) });
}

unsafe extern "C" fn map_lookup(k: *mut c_void, map: *mut Map, key: *const u8) -> *mut u8 {
    unsafe { kernel(k).map_lookup(&*map, key) }
}

unsafe extern "C" fn map_update(
    k: *mut c_void,
    map: *mut Map,
    key: *const u8,
    value: *const u8,
    flags: u64,
) -> i64 {
    unsafe { kernel(k).map_update(&*map, key, value, flags) }
}

unsafe extern "C" fn map_delete(k: *mut c_void, map: *mut Map, key: *const u8) -> i64 {
    unsafe { kernel(k).map_delete(&*map, key) }
}

unsafe extern "C" fn map_push(k: *mut c_void, map: *mut Map, value: *const u8, flags: u64) -> i64 {
    unsafe { kernel(k).map_push(&*map, value, flags) }
}

unsafe extern "C" fn map_pop(k: *mut c_void, map: *mut Map, value: *mut u8, keep: bool) -> i64 {
    unsafe { kernel(k).map_pop(&*map, value, keep) }
}

unsafe extern "C" fn map_for_each(
    k: *mut c_void,
    map: *mut Map,
    variable: *mut c_void,
    callback: *mut c_void,
    context: *mut c_void,
) -> i64 {
    unsafe { kernel(k).map_for_each(&*map, variable, callback, context) }
}

unsafe extern "C" fn timer_init(
    k: *mut c_void,
    timer: *mut BpfTimer,
    map: *mut c_void,
    _clock: u64,
) -> i64 {
    unsafe { kernel(k) }.timer_init(timer, map)
}

unsafe extern "C" fn timer_set_callback(
    k: *mut c_void,
    timer: *mut BpfTimer,
    callback: *mut c_void,
) -> i64 {
    unsafe { kernel(k) }.timer_set_callback(timer, callback)
}

unsafe extern "C" fn timer_start(k: *mut c_void, timer: *mut BpfTimer, ns: u64, flags: u64) -> i64 {
    unsafe { kernel(k) }.timer_start(timer, ns, flags)
}

unsafe extern "C" fn timer_cancel(k: *mut c_void, timer: *mut BpfTimer) -> i64 {
    unsafe { kernel(k) }.timer_cancel(timer)
}

unsafe extern "C" fn alloc(k: *mut c_void, size: u64) -> *mut c_void {
    let object = zeroed(size as usize);
    unsafe { kernel(k) }.bpf.instance.allocated.insert(object);
    object
}

unsafe extern "C" fn free(k: *mut c_void, object: *mut c_void) {
    if unsafe { kernel(k) }.bpf.instance.allocated.remove(&object) {
        release(object);
    }
}

unsafe extern "C" fn random(k: *mut c_void) -> u32 {
    unsafe { kernel(k) }.rng.bits() as u32
}

/// In front of each allocation: its size, and alignment for what follows.
const HEADER: usize = 16;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size + HEADER, HEADER).expect("an object's size fits")
}

/// Memory for the scheduler, of zeroes.
fn zeroed(size: usize) -> *mut c_void {
    // SAFETY: the layout is not empty; the size is kept for release().
    unsafe {
        let block = alloc_zeroed(layout(size)).cast::<usize>();
        assert!(!block.is_null(), "out of memory");
        block.write(size);
        block.cast::<u8>().add(HEADER).cast()
    }
}

/// Gives back what [`zeroed`] gave; nothing for null.
pub fn release(object: *mut c_void) {
    if !object.is_null() {
        // SAFETY: from zeroed(), with the size in front.
        unsafe {
            let block = object.cast::<u8>().sub(HEADER);
            dealloc(block, layout(block.cast::<usize>().read()));
        }
    }
}
