//! Values of vmlinux.h's enumerations that the kernel acts on.

pub const SLICE_DFL: u64 = 20_000_000;
pub const SLICE_INF: u64 = u64::MAX;
pub const DSQ_BUILTIN: u64 = 1 << 63;
pub const DSQ_INVALID: u64 = DSQ_BUILTIN;
pub const DSQ_GLOBAL: u64 = DSQ_BUILTIN | 1;
pub const DSQ_LOCAL: u64 = DSQ_BUILTIN | 2;
pub const DSQ_LOCAL_ON: u64 = DSQ_BUILTIN | 1 << 62;
pub const DSQ_LOCAL_CPU_MASK: u64 = 0xffff_ffff;
pub const TASK_QUEUED: u32 = 1;
pub const TASK_DEQD_FOR_SLEEP: u32 = 1 << 3;
pub const TASK_REENQ_REASON_MASK: u32 = 7 << 12;
pub const TASK_REENQ_KFUNC: u32 = 1 << 12;
pub const TASK_REENQ_IMMED: u32 = 2 << 12;
pub const TASK_REENQ_PREEMPTED: u32 = 3 << 12;
pub const REENQ_ANY: u64 = 1;
pub const OPS_KEEP_BUILTIN_IDLE: u64 = 1;
pub const OPS_ENQ_LAST: u64 = 1 << 1;
pub const OPS_ENQ_EXITING: u64 = 1 << 2;
pub const OPS_BUILTIN_IDLE_PER_NODE: u64 = 1 << 6;
pub const OPS_ALWAYS_ENQ_IMMED: u64 = 1 << 7;
pub const OPS_TID_TO_TASK: u64 = 1 << 8;
pub const WAKE_FORK: u64 = 0x04;
pub const WAKE_TTWU: u64 = 0x08;
pub const WAKE_SYNC: u64 = 0x10;
pub const ENQ_WAKEUP: u64 = 0x01;
pub const ENQ_HEAD: u64 = 0x10;
pub const ENQ_CPU_SELECTED: u64 = 1 << 10;
pub const ENQ_PREEMPT: u64 = 1 << 32;
pub const ENQ_IMMED: u64 = 1 << 33;
pub const ENQ_RESCUE: u64 = 1 << 34;
pub const ENQ_REENQ: u64 = 1 << 40;
pub const ENQ_LAST: u64 = 1 << 41;
pub const ENQ_INTERNAL: u64 = 0xff << 56;
pub const ENQ_DSQ_PRIQ: u64 = 1 << 57;
pub const DEQ_SLEEP: u64 = 0x01;
pub const DEQ_SCHED_CHANGE: u64 = 1 << 33;
/// `DEQUEUE_SAVE` and `ENQUEUE_RESTORE`: the task is dequeued only to be changed.
pub const DEQ_SAVE: u64 = 0x02;
pub const ENQ_RESTORE: u64 = 0x02;
pub const PICK_IDLE_CORE: u64 = 1;
pub const PICK_IDLE_IN_NODE: u64 = 1 << 1;
pub const KICK_IDLE: u64 = 1;
pub const KICK_PREEMPT: u64 = 1 << 1;
pub const KICK_WAIT: u64 = 1 << 2;
pub const CPUPERF_ONE: u32 = 1024;
pub const PREEMPT_RT: u32 = 0;
pub const PREEMPT_DL: u32 = 1;
pub const CLOCK_REALTIME: u64 = 0;
pub const CLOCK_MONOTONIC: u64 = 1;
pub const CLOCK_BOOTTIME: u64 = 7;
pub const TIMER_ABS: u64 = 1;
pub const TIMER_CPU_PIN: u64 = 2;
pub const PF_EXITING: u32 = 4;
pub const PF_KTHREAD: u32 = 0x0020_0000;
/// `preempt_count` in a hard interrupt's handler.
pub const HARDIRQ_OFFSET: u32 = 0x1_0000;
/// `preempt_count` in a softirq's handler.
pub const SOFTIRQ_OFFSET: u32 = 0x100;
pub const PF_IDLE: u32 = 2;
pub const TASK_RUNNING: u32 = 0;
pub const TASK_INTERRUPTIBLE: u32 = 1;
pub const TASK_DEAD: u32 = 0x80;
pub const TASK_NEW: u32 = 0x800;

pub const EXIT_UNREG: u32 = 64;
pub const EXIT_UNREG_BPF: u32 = 65;
pub const EXIT_UNREG_KERN: u32 = 66;
pub const EXIT_ERROR: u32 = 1024;
pub const EXIT_ERROR_BPF: u32 = 1025;
pub const EXIT_ERROR_STALL: u32 = 1026;
pub const EXIT_ERROR_REENQ: u32 = 1027;
pub const ECODE_RSN_HOTPLUG: u64 = 1 << 32;
pub const ECODE_ACT_RESTART: u64 = 1 << 48;
/// `SCX_EFLAG_INITIALIZED`.
pub const EFLAG_INITIALIZED: u64 = 1;

pub const NUMA_NO_NODE: i32 = -1;

pub const ENOENT: i32 = 2;
pub const E2BIG: i32 = 7;
pub const ENOMEM: i32 = 12;
pub const EBUSY: i32 = 16;
pub const EDEADLK: i32 = 35;
pub const EEXIST: i32 = 17;
pub const EINVAL: i32 = 22;
