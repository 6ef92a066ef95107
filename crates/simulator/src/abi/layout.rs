//! The structures of the C side, mirrored field by field from `native`'s `include/vmlinux.h` and
//! `include/simulated.h` (the structures marked `[abi]` there). [`check`] compares the layouts when an object is
//! loaded.

mod enums;

pub use enums::*;

use machine::CpuMask;
use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::mem::{offset_of, size_of};

/// `EQUIPOISE_MAX_STORAGES`.
pub const MAX_STORAGES: usize = 8;
/// `EQUIPOISE_MAX_LEVELS`.
pub const MAX_LEVELS: usize = 16;

#[repr(C)]
#[derive(Default)]
pub struct ThreadInfo {
    pub flags: Cell<u64>,
    pub cpu: Cell<u32>,
}

#[repr(C)]
#[derive(Default)]
pub struct LoadWeight {
    pub weight: Cell<u64>,
    pub inv_weight: Cell<u32>,
}

#[repr(C)]
#[derive(Default)]
pub struct SchedEntity {
    pub exec_start: Cell<u64>,
    pub sum_exec_runtime: Cell<u64>,
    pub prev_sum_exec_runtime: Cell<u64>,
    pub load: LoadWeight,
    /// The slice that a fair task requests, in ns; set only for fair tasks.
    pub slice: Cell<u64>,
    pub custom_slice: Cell<u8>,
}

#[repr(C)]
#[derive(Default)]
pub struct SchedExtEntity {
    pub slice: Cell<u64>,
    pub dsq_vtime: Cell<u64>,
    pub weight: Cell<u32>,
    pub flags: Cell<u32>,
    pub sticky_cpu: Cell<i32>,
    pub holding_cpu: Cell<i32>,
    pub core_sched_at: Cell<u64>,
    pub disallow: Cell<bool>,
    /// The unit is jiffies.
    pub runnable_at: Cell<u64>,
    pub tid: Cell<u64>,
    pub ddsp_dsq_id: u64,
    pub ddsp_enq_flags: u64,
}

/// A marker: the field after it begins a cache line.
#[repr(C, align(64))]
#[derive(Default)]
pub struct CacheLine;

/// The default is all zero; [`TaskStruct::new`] makes a task.
#[repr(C)]
#[derive(Default)]
pub struct TaskStruct {
    pub wake_cpu: Cell<i32>,
    pub recent_used_cpu: Cell<i32>,
    pub wakee_flips: Cell<u32>,
    pub static_prio: Cell<i32>,
    pub normal_prio: Cell<i32>,
    pub rt_priority: Cell<u32>,
    pub exit_state: Cell<i32>,
    pub tgid: Cell<i32>,
    pub migration_disabled: Cell<u16>,
    pub sched_class: Cell<*const c_void>,
    pub mm: Cell<*const MmStruct>,
    pub real_parent: Cell<*mut TaskStruct>,
    pub parent: Cell<*mut TaskStruct>,
    pub group_leader: Cell<*mut TaskStruct>,
    pub start_time: Cell<u64>,
    pub comm: Cell<[u8; 16]>,
    pub cgroups: Cell<*mut CssSet>,
    pub nvcsw: Cell<u64>,
    pub nivcsw: Cell<u64>,
    /// User time in ns, counted by the tick, as with CONFIG_TICK_CPU_ACCOUNTING. No task is in the kernel for long, so
    /// system time is 0.
    pub utime: Cell<u64>,
    pub stime: Cell<u64>,
    pub prio: Cell<i32>,
    pub policy: Cell<u32>,
    pub cpus_mask: Cell<CpuMask>,
    // Each switch reads the fields from here on and the first fields of `kernel::task::Task`, so they start at a cache
    // line.
    pub line: CacheLine,
    pub thread_info: ThreadInfo,
    pub state: Cell<u32>,
    pub flags: Cell<u32>,
    pub on_cpu: Cell<i32>,
    pub on_rq: Cell<i32>,
    pub nr_cpus_allowed: Cell<i32>,
    pub pid: Cell<i32>,
    pub cpus_ptr: Cell<*const CpuMask>,
    pub se: SchedEntity,
    pub scx: SchedExtEntity,
    pub storage: Cell<[*mut c_void; MAX_STORAGES]>,
    pub sched_task_group: Cell<*mut TaskGroup>,
    pub real_cred: *const Cred,
    pub mempolicy: *const c_void,
    pub thread_pid: *const c_void,
    pub signal: Cell<*const SignalStruct>,
    pub thread_node: [*const c_void; 2],
}

/// The session of a task: `struct signal_struct`, of which a scheduler reads only the autogroup.
#[repr(C)]
pub struct SignalStruct {
    pub thread_head: [*const c_void; 2],
    pub pids: [*const c_void; 4],
    pub autogroup: *const Autogroup,
}

/// `struct autogroup` (kernel/sched/autogroup.h).
#[repr(C)]
pub struct Autogroup {
    pub id: u64,
}

/// The memory of a process. A scheduler can only compare its address with that of another process's memory.
#[repr(C)]
pub struct MmStruct {
    pub id: Cell<u64>,
}

/// The user and the group of a task: the real and the effective IDs.
#[repr(C)]
pub struct Cred {
    pub uid: u32,
    pub gid: u32,
    pub euid: u32,
    pub egid: u32,
}

/// The user of every task.
pub static ROOT: Cred = Cred {
    uid: 0,
    gid: 0,
    euid: 0,
    egid: 0,
};

#[repr(C)]
pub struct DispatchQ {
    pub nr: u32,
    pub id: u64,
}

#[repr(C)]
pub struct ScxRq {
    pub local_dsq: DispatchQ,
    pub nr_running: u32,
    pub cpu_released: bool,
}

#[repr(C)]
pub struct RtRq {
    pub rt_nr_running: u32,
}

#[repr(C)]
pub struct DlRq {
    pub dl_nr_running: u32,
    /// The bandwidth of the class's active tasks, in units of 1/2^20 of the CPU.
    pub running_bw: u64,
}

/// The fields of a runqueue that a scheduler may read (`scx_bpf_cpu_rq()`). The first cache line
/// has the members that change often.
#[repr(C, align(64))]
pub struct Rq {
    pub nr_running: u32,
    pub cpu: i32,
    pub curr: *mut TaskStruct,
    pub clock: u64,
    /// `clock` less the time of interrupts, in ns.
    pub clock_task: u64,
    pub idle: *mut TaskStruct,
    pub scx: ScxRq,
    /// NULL, because there is no stop class.
    pub stop: *mut TaskStruct,
    pub rt: RtRq,
    pub dl: DlRq,
}

const _: () = assert!(offset_of!(TaskStruct, thread_info) % 64 == 0);
const _: () = assert!(offset_of!(Rq, stop) == 64);

#[repr(C)]
pub struct ExitInfo {
    pub kind: u32,
    pub exit_code: i64,
    pub reason: *const c_char,
    pub bt: *const u64,
    pub bt_len: u32,
    pub msg: *const c_char,
    pub dump: *const c_char,
    pub exit_cpu: i32,
    pub flags: u64,
}

#[repr(C)]
pub struct InitTaskArgs {
    pub fork: bool,
    pub cgroup: *mut Cgroup,
}

#[repr(C)]
pub struct ExitTaskArgs {
    pub cancelled: bool,
}

#[repr(C)]
pub struct CgroupInitArgs {
    pub weight: u32,
    pub bw_period_us: u64,
    pub bw_quota_us: u64,
    pub bw_burst_us: u64,
    pub sched_idle: bool,
}

#[repr(C)]
pub struct EnableArgs {
    pub cmask_arena_addr: u64,
}

/// `struct scx_cid_topo`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CidTopo {
    pub core_cid: i32,
    pub core_idx: i32,
    pub llc_cid: i32,
    pub llc_idx: i32,
    pub node_cid: i32,
    pub node_idx: i32,
    pub shard_cid: i32,
    pub shard_idx: i32,
}

/// `struct scx_event_stats`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct EventStats {
    pub select_cpu_fallback: i64,
    pub dispatch_local_dsq_offline: i64,
    pub dispatch_keep_last: i64,
    pub enq_skip_exiting: i64,
    pub enq_skip_migration_disabled: i64,
    pub reenq_immed: i64,
    pub reenq_repeat: i64,
    pub refill_slice_dfl: i64,
    /// Counters of events that cannot happen here.
    pub others: [i64; 13],
}

#[repr(C)]
pub struct CpuReleaseArgs {
    pub reason: u32,
    pub task: *mut TaskStruct,
}

#[repr(C)]
pub struct DumpCtx {
    pub kind: u32,
    pub exit_code: i64,
    pub reason: *const c_char,
    pub at_ns: u64,
    pub at_jiffies: u64,
}

#[repr(C)]
pub struct KernfsNode {
    pub id: u64,
    pub name: *const c_char,
}

/// `struct cgroup_subsys_state`.
#[repr(C)]
pub struct Css {
    pub cgroup: *mut Cgroup,
    pub parent: *mut Css,
    /// The first group below this one, and the next sibling of this one.
    pub child: *mut Css,
    pub sibling: *mut Css,
}

/// `struct task_group`.
#[repr(C)]
pub struct TaskGroup {
    pub css: Css,
    pub weight: u32,
}

#[repr(C)]
pub struct Cgroup {
    pub self_css: Css,
    pub kn: *mut KernfsNode,
    pub level: i32,
    pub cpu_css: *mut TaskGroup,
    pub storage: [*mut c_void; MAX_STORAGES],
    pub ancestors: [*mut Cgroup; MAX_LEVELS],
}

#[repr(C)]
pub struct CssSet {
    pub dfl_cgrp: *mut Cgroup,
}

#[repr(C)]
pub struct BpfTimer {
    pub id: u64,
    pub reserved: u64,
}

#[derive(Default)]
#[repr(C)]
pub struct IterDsq {
    pub dsq_id: u64,
    pub flags: u64,
    /// The number of the latest insertion when the iteration began.
    pub end: u64,
    pub slice: u64,
    pub vtime: u64,
}

/// `EQUIPOISE_ITER_HAS_SLICE`.
pub const ITER_HAS_SLICE: u64 = 1 << 30;
/// `EQUIPOISE_ITER_HAS_VTIME`.
pub const ITER_HAS_VTIME: u64 = 1 << 31;
pub const ITER_REV: u64 = 1 << 16;

#[repr(C)]
pub struct Map {
    pub kind: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub stride: u32,
    pub max_entries: u32,
    pub storage: u32,
    pub index: u32,
    pub values: *mut u8,
}

type Task = *mut TaskStruct;

/// `SCX_OPS_NAME_LEN`.
pub const NAME_LEN: usize = 128;

/// `struct sched_ext_ops`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ops {
    pub select_cpu: Option<unsafe extern "C" fn(Task, i32, u64) -> i32>,
    pub enqueue: Option<unsafe extern "C" fn(Task, u64)>,
    pub dequeue: Option<unsafe extern "C" fn(Task, u64)>,
    pub dispatch: Option<unsafe extern "C" fn(i32, Task)>,
    pub tick: Option<unsafe extern "C" fn(Task)>,
    pub runnable: Option<unsafe extern "C" fn(Task, u64)>,
    pub running: Option<unsafe extern "C" fn(Task)>,
    pub stopping: Option<unsafe extern "C" fn(Task, bool)>,
    pub quiescent: Option<unsafe extern "C" fn(Task, u64)>,
    pub yield_: Option<unsafe extern "C" fn(Task, Task) -> bool>,
    pub core_sched_before: Option<unsafe extern "C" fn(Task, Task) -> bool>,
    pub set_weight: Option<unsafe extern "C" fn(Task, u32)>,
    pub set_cpumask: Option<unsafe extern "C" fn(Task, *const c_void)>,
    pub update_idle: Option<unsafe extern "C" fn(i32, bool)>,
    pub init_task: Option<unsafe extern "C" fn(Task, *mut InitTaskArgs) -> i32>,
    pub exit_task: Option<unsafe extern "C" fn(Task, *mut ExitTaskArgs)>,
    /// Only the op of a cid-form scheduler declares these arguments; the `set_cpumask` op of such a scheduler gets a
    /// `scx_cmask`.
    pub enable: Option<unsafe extern "C" fn(Task, *mut EnableArgs)>,
    pub disable: Option<unsafe extern "C" fn(Task)>,
    pub dump: Option<unsafe extern "C" fn(*mut DumpCtx)>,
    pub dump_cpu: Option<unsafe extern "C" fn(*mut DumpCtx, i32, bool)>,
    pub dump_task: Option<unsafe extern "C" fn(*mut DumpCtx, Task)>,
    pub cgroup_init: Option<unsafe extern "C" fn(*mut Cgroup, *mut CgroupInitArgs) -> i32>,
    pub cgroup_exit: Option<unsafe extern "C" fn(*mut Cgroup)>,
    pub cgroup_prep_move: Option<unsafe extern "C" fn(Task, *mut Cgroup, *mut Cgroup) -> i32>,
    pub cgroup_move: Option<unsafe extern "C" fn(Task, *mut Cgroup, *mut Cgroup)>,
    pub cgroup_cancel_move: Option<unsafe extern "C" fn(Task, *mut Cgroup, *mut Cgroup)>,
    pub cgroup_set_weight: Option<unsafe extern "C" fn(*mut Cgroup, u32)>,
    pub cgroup_set_bandwidth: Option<unsafe extern "C" fn(*mut Cgroup, u64, u64, u64)>,
    pub cgroup_set_idle: Option<unsafe extern "C" fn(*mut Cgroup, bool)>,
    pub sub_attach: Option<unsafe extern "C" fn(*mut c_void) -> i32>,
    pub sub_detach: Option<unsafe extern "C" fn(*mut c_void)>,
    pub sub_caps_updated: Option<unsafe extern "C" fn(*const c_void, u64)>,
    pub sub_ecaps_updated: Option<unsafe extern "C" fn(i32, u64, u64)>,
    pub cpu_online: Option<unsafe extern "C" fn(i32)>,
    pub cpu_offline: Option<unsafe extern "C" fn(i32)>,
    pub init_cids: Option<unsafe extern "C" fn() -> i32>,
    pub init: Option<unsafe extern "C" fn() -> i32>,
    pub exit: Option<unsafe extern "C" fn(*mut ExitInfo)>,
    pub dispatch_max_batch: u32,
    pub flags: u64,
    pub timeout_ms: u32,
    pub exit_dump_len: u32,
    pub hotplug_seq: u64,
    pub cid_shard_size: u32,
    pub rescue_bandwidth_ppt: u32,
    pub rescue_quantum_us: u32,
    pub sub_cgroup_id: u64,
    pub name: [u8; NAME_LEN],
    pub cpu_acquire: Option<unsafe extern "C" fn(i32, *mut c_void)>,
    pub cpu_release: Option<unsafe extern "C" fn(i32, *mut CpuReleaseArgs)>,
}

/// `sizeof(struct sched_ext_ops_cid)`.
pub const OPS_CID_LEN: usize = offset_of!(Ops, cpu_acquire);

impl Ops {
    /// The ops of no scheduler: no op, and no flag.
    // SAFETY: all zeroes are a valid value: absent functions, numbers and an empty name.
    pub const NONE: Ops = unsafe { std::mem::zeroed() };

    pub fn name(&self) -> String {
        let name = self.name.split(|&byte| byte == 0).next();
        String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
    }
}

/// `EQUIPOISE_GLOBAL_LINES`.
pub const GLOBAL_LINES: usize = 4;

/// `struct equipoise_line`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Line {
    /// The number of writes to the line.
    pub version: u32,
    /// The cost for the next writer, in ns, if other CPUs have read the line since the last write.
    pub shared_ns: u32,
    /// The CPU that last wrote the line.
    pub writer: u32,
}

/// `struct equipoise_memory`.
#[repr(C)]
pub struct Memory {
    pub lines: *mut Line,
    pub seen: *mut u32,
    pub line_ns: *const u32,
    pub node: *const u16,
    pub nr_lines: u32,
    pub nr_nodes: u32,
    pub cached_ns: u32,
    pub pad: u32,
}

/// The references and locks that the current op holds, which are moved and compared as one word.
#[derive(Clone, Copy, Default, PartialEq)]
#[repr(C, align(8))]
pub struct Held {
    pub references: i32,
    pub locks: i32,
}

/// `struct equipoise_kernel`: the data that the C side reads of the kernel, and the functions that
/// it calls.
#[repr(C)]
pub struct Table<Kfuncs> {
    pub now: u64,
    pub cpu: i32,
    pub nr_cpu_ids: u32,
    pub tick_ns: u64,
    pub current: Task,
    pub kernel: *mut c_void,
    pub rqs: *mut Rq,
    pub spent: u64,
    pub memory: *mut Memory,
    pub held: Held,
    /// `LINUX_VERSION_CODE`.
    pub version_code: u32,
    /// Is the scheduler in cid form?
    pub cid_form: u32,
    pub nr_node_ids: u32,
    /// The interrupt context of the running code: 0, [`HARDIRQ_OFFSET`] or [`SOFTIRQ_OFFSET`].
    pub preempt_count: u32,
    pub cpu_to_cid: *const i32,
    pub cid_to_cpu: *const i32,
    pub cpufreq_pressure: *const u64,
    pub kfuncs: Kfuncs,
}

/// Sizes and offsets in the order of `equipoise_abi[]`.
fn layout<Kfuncs>() -> [usize; 39] {
    [
        size_of::<Table<Kfuncs>>(),
        offset_of!(Table<Kfuncs>, memory),
        size_of::<Line>(),
        size_of::<Memory>(),
        GLOBAL_LINES,
        crate::EXPLAINED_NUMBERS,
        size_of::<Map>(),
        offset_of!(Map, values),
        size_of::<TaskStruct>(),
        offset_of!(TaskStruct, se),
        offset_of!(TaskStruct, scx),
        offset_of!(TaskStruct, policy),
        offset_of!(TaskStruct, cpus_mask),
        offset_of!(TaskStruct, pid),
        offset_of!(TaskStruct, comm),
        offset_of!(TaskStruct, storage),
        size_of::<SchedExtEntity>(),
        size_of::<Rq>(),
        offset_of!(Rq, rt),
        offset_of!(Rq, dl),
        offset_of!(Rq, scx),
        size_of::<Ops>(),
        offset_of!(Ops, init),
        offset_of!(Ops, dispatch_max_batch),
        offset_of!(Ops, name),
        offset_of!(Ops, cpu_release),
        offset_of!(Ops, init_cids),
        offset_of!(Ops, name),
        size_of::<ExitInfo>(),
        size_of::<EventStats>(),
        size_of::<CidTopo>(),
        size_of::<CgroupInitArgs>(),
        size_of::<InitTaskArgs>(),
        size_of::<CpuReleaseArgs>(),
        size_of::<DumpCtx>(),
        size_of::<BpfTimer>(),
        size_of::<IterDsq>(),
        size_of::<Cgroup>(),
        offset_of!(Cgroup, storage),
    ]
}

/// Do the C side's layouts, as `equipoise_abi[]` gives them, agree with this file's?
pub fn check<Kfuncs>(c: &[u32]) -> bool {
    c.iter().map(|&value| value as usize).eq(layout::<Kfuncs>())
}
