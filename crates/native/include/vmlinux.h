/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's types as a sched_ext scheduler sees them, for the simulated kernel. Only members
 * that schedulers may rely on are here: using an absent member, which the simulation does not
 * maintain, is a compile error with its line.
 *
 * crates/simulator/src/abi/layout.rs mirrors the structures marked [abi]; equipoise_abi in
 * simulated.h lets it check sizes and offsets when an object is loaded.
 */
#ifndef __EQUIPOISE_VMLINUX_H
#define __EQUIPOISE_VMLINUX_H

/*
 * Skips a generated vmlinux.h beside a scheduler, which has this guard and other types. given.rs handles the kfuncs
 * that it declares.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__
#endif

#include <scx/kernel.h>

/* Headers shared with the loader test this macro. */
#ifndef __BPF__
#define __BPF__ 1
#endif

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __s8 s8;
typedef __u8 u8;
typedef __s16 s16;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef u8 uint8_t;
typedef u16 uint16_t;
typedef u32 uint32_t;
typedef u64 uint64_t;
typedef u64 __attribute__((may_alias)) __u64_alias_t;
typedef int pid_t;
typedef unsigned int uint;
typedef unsigned long size_t;
typedef long ssize_t;
typedef _Bool bool;
typedef struct {
	int counter;
} atomic_t;

enum { false = 0, true = 1 };

#ifndef NULL
#define NULL ((void *)0)
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
#ifndef container_of
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#endif

/* Members that only the kernel writes. A test that plays the kernel defines __ro as nothing. */
#ifndef __ro
#define __ro const
#endif

/* The largest number of CPUs of any machine; machine::MAX_CPUS. */
#define EQUIPOISE_MAX_CPUS 4096
/* The largest number of task-storage and cgroup-storage maps of one scheduler. */
#define EQUIPOISE_MAX_STORAGES 8
/* The largest number of levels of control groups, including the root's. */
#define EQUIPOISE_MAX_LEVELS 16

#define TASK_COMM_LEN 16
#define MAX_RT_PRIO 100
#define MAX_PRIO 140
#define DEFAULT_PRIO 120

/* [abi] */
struct cpumask {
	unsigned long bits[EQUIPOISE_MAX_CPUS / 64];
};
typedef struct cpumask cpumask_t;
typedef struct cpumask *cpumask_var_t;

/* A mask that the scheduler owns: reference-counted, with a cpumask as its first member. */
struct bpf_cpumask {
	cpumask_t cpumask;
	s32 usage;
};

struct list_head {
	struct list_head *next, *prev;
};

struct kernfs_node {
	u64 id;
	const char *name;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
	/* Fields of the simulated kernel: the first child of the group, and its next sibling. */
	struct cgroup_subsys_state *equipoise_child;
	struct cgroup_subsys_state *equipoise_sibling;
};

enum cgroup_subsys_id { cpu_cgrp_id, CGROUP_SUBSYS_COUNT };

struct cgroup {
	__ro struct cgroup_subsys_state self;
	struct kernfs_node *__ro kn;
	__ro int level;
	/* The cpu controller's entry is the first member of a struct task_group. */
	struct cgroup_subsys_state *__ro subsys[CGROUP_SUBSYS_COUNT];
	void *storage[EQUIPOISE_MAX_STORAGES];
	/* The ancestors by level, down to the group itself. */
	struct cgroup *__ro ancestors[EQUIPOISE_MAX_LEVELS];
};

struct scx_task_group {
	u32 weight;
};

struct task_group {
	struct cgroup_subsys_state css;
	struct scx_task_group scx;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

typedef struct {
	void *lock;
} class_rcu_t;

struct mm_struct {
	u64 id;
};

struct thread_info {
	unsigned long flags;
	u32 cpu;
};

/* The user of every task is root. */
typedef struct {
	u32 val;
} kuid_t;
typedef struct {
	u32 val;
} kgid_t;

struct cred {
	kuid_t uid;
	kgid_t gid;
	kuid_t euid;
	kgid_t egid;
};

enum {
	MPOL_DEFAULT,
	MPOL_PREFERRED,
	MPOL_BIND,
	MPOL_INTERLEAVE,
	MPOL_LOCAL,
	MPOL_PREFERRED_MANY,
};

typedef struct {
	unsigned long bits[1];
} nodemask_t;

struct mempolicy {
	unsigned short mode;
	unsigned short flags;
	nodemask_t nodes;
	int home_node;
};

enum pid_type { PIDTYPE_PID, PIDTYPE_TGID, PIDTYPE_PGID, PIDTYPE_SID, PIDTYPE_MAX };

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
	unsigned int level;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct signal_struct {
	struct list_head thread_head;
	struct pid *pids[PIDTYPE_MAX];
	struct autogroup *autogroup;
};

struct autogroup {
	unsigned long id;
};

/* The first fields that a program at a tracepoint of ftrace gets. */
struct trace_entry {
	unsigned short type;
	unsigned char flags;
	unsigned char preempt_count;
	int pid;
};

struct cpufreq_cpuinfo {
	unsigned int max_freq;
	unsigned int min_freq;
};

struct cpufreq_policy {
	struct cpufreq_cpuinfo cpuinfo;
	unsigned int min;
	unsigned int max;
	unsigned int cur;
};

/* The simulated kernel has no such per-CPU variables: their addresses are null. */
extern struct cpufreq_policy *cpufreq_cpu_data __attribute__((weak, visibility("hidden")));
extern const unsigned long hw_pressure __attribute__((weak, visibility("hidden")));

/* A task's scheduling class can be compared, but not examined. */
struct sched_class;

struct load_weight {
	unsigned long weight;
	u32 inv_weight;
};

/* [abi] */
struct sched_entity {
	u64 exec_start;
	u64 sum_exec_runtime;
	u64 prev_sum_exec_runtime;
	struct load_weight load;
	u64 slice;
	unsigned char custom_slice;
};

/* Members that a scheduler may write to (bpf_scx_btf_struct_access()) are not __ro. [abi] */
struct sched_ext_entity {
	u64 slice;
	u64 dsq_vtime;
	__ro u32 weight;
	__ro u32 flags;
	__ro s32 sticky_cpu;
	__ro s32 holding_cpu;
	__ro u64 core_sched_at;
	bool disallow;
	__ro unsigned long runnable_at;
	__ro u64 tid;
	/* SCX_DSQ_INVALID and 0: the simulated kernel keeps a pending direct dispatch elsewhere. */
	__ro u64 ddsp_dsq_id;
	__ro u64 ddsp_enq_flags;
};

/* [abi] */
struct task_struct {
	__ro int wake_cpu;
	__ro int recent_used_cpu;
	__ro unsigned int wakee_flips;
	__ro int static_prio;
	__ro int normal_prio;
	__ro unsigned int rt_priority;
	__ro int exit_state;
	__ro pid_t tgid;
	__ro unsigned short migration_disabled;
	const struct sched_class *__ro sched_class;
	struct mm_struct *__ro mm;
	struct task_struct *__ro real_parent;
	struct task_struct *__ro parent;
	struct task_struct *__ro group_leader;
	__ro u64 start_time;
	__ro char comm[TASK_COMM_LEN];
	struct css_set *__ro cgroups;
	__ro unsigned long nvcsw;
	__ro unsigned long nivcsw;
	__ro u64 utime;
	__ro u64 stime;
	__ro int prio;
	__ro unsigned int policy;
	__ro cpumask_t cpus_mask;
	/* The following members, which each switch reads, begin at a cache line. */
	__ro struct thread_info thread_info __attribute__((aligned(64)));
	__ro unsigned int __state;
	__ro unsigned int flags;
	__ro int on_cpu;
	__ro int on_rq;
	__ro int nr_cpus_allowed;
	__ro pid_t pid;
	const cpumask_t *__ro cpus_ptr;
	__ro struct sched_entity se;
	struct sched_ext_entity scx;
	void *equipoise_storage[EQUIPOISE_MAX_STORAGES];
	/* Most schedulers do not use these members, so they come last. */
	struct task_group *__ro sched_task_group;
	const struct cred *__ro real_cred;
	/*
	 * NULL, because no task has a memory policy or is in a namespace of its own; signal is NULL for a task in
	 * no session.
	 */
	struct mempolicy *__ro mempolicy;
	struct pid *__ro thread_pid;
	struct signal_struct *__ro signal;
	__ro struct list_head thread_node;
};

/* [abi] */
struct scx_dispatch_q {
	u32 nr;
	u64 id;
};

/* [abi] */
struct scx_rq {
	struct scx_dispatch_q local_dsq;
	u32 nr_running;
	bool cpu_released;
};

/* [abi] */
struct rt_rq {
	unsigned int rt_nr_running;
};

/* [abi] */
struct dl_rq {
	unsigned int dl_nr_running;
	u64 running_bw;
};

/* [abi] */
struct rq {
	__ro unsigned int nr_running;
	__ro int cpu;
	struct task_struct *__ro curr;
	__ro u64 clock;
	__ro u64 clock_task;
	struct task_struct *__ro idle;
	__ro struct scx_rq scx;
	struct task_struct *__ro stop;
	__ro struct rt_rq rt;
	__ro struct dl_rq dl;
} __attribute__((aligned(64)));

/* Scheduling policies, include/uapi/linux/sched.h */
#define SCHED_NORMAL 0
#define SCHED_FIFO 1
#define SCHED_RR 2
#define SCHED_BATCH 3
#define SCHED_IDLE 5
#define SCHED_DEADLINE 6
#define SCHED_EXT 7

#define TASK_RUNNING 0x00000000
#define TASK_INTERRUPTIBLE 0x00000001
#define TASK_DEAD 0x00000080
#define TASK_NEW 0x00000800

#define PF_IDLE 0x00000002
#define PF_FORKNOEXEC 0x00000040

/*
 * sched_ext's constants: include/linux/sched/ext.h and kernel/sched/ext.c of Linux 6.12, with the additions up to
 * 7.3.
 */
enum scx_public_consts {
	SCX_OPS_NAME_LEN = 128,
	SCX_SLICE_DFL = 20 * 1000000,
	SCX_SLICE_BYPASS = 5 * 1000000,
};
#define SCX_SLICE_INF 0xffffffffffffffffULL

enum scx_consts {
	SCX_DSP_DFL_MAX_BATCH = 32,
	SCX_DSP_MAX_LOOPS = 32,
	SCX_WATCHDOG_MAX_TIMEOUT = 30 * 1000,
	SCX_EXIT_BT_LEN = 64,
	SCX_EXIT_MSG_LEN = 1024,
	SCX_EXIT_DUMP_DFL_LEN = 32768,
	SCX_CPUPERF_ONE = 1024,
	SCX_OPS_TASK_ITER_BATCH = 32,
	SCX_REENQ_MAX_REPEAT = 256,
	SCX_SUB_MAX_DEPTH = 4,
};

#define SCX_DSQ_FLAG_BUILTIN (1ULL << 63)
#define SCX_DSQ_FLAG_LOCAL_ON (1ULL << 62)
#define SCX_DSQ_INVALID (SCX_DSQ_FLAG_BUILTIN | 0)
#define SCX_DSQ_GLOBAL (SCX_DSQ_FLAG_BUILTIN | 1)
#define SCX_DSQ_LOCAL (SCX_DSQ_FLAG_BUILTIN | 2)
#define SCX_DSQ_LOCAL_ON (SCX_DSQ_FLAG_BUILTIN | SCX_DSQ_FLAG_LOCAL_ON)
#define SCX_DSQ_LOCAL_CPU_MASK 0xffffffffULL

enum scx_ent_flags {
	SCX_TASK_QUEUED = 1 << 0,
	SCX_TASK_RESET_RUNNABLE_AT = 1 << 2,
	SCX_TASK_DEQD_FOR_SLEEP = 1 << 3,
	SCX_TASK_STATE_SHIFT = 8,
	SCX_TASK_STATE_BITS = 2,
	SCX_TASK_STATE_MASK = 3 << 8,
	SCX_TASK_REENQ_REASON_SHIFT = 12,
	SCX_TASK_REENQ_REASON_BITS = 3,
	SCX_TASK_REENQ_REASON_MASK = __enumerator_SCX_TASK_REENQ_REASON_MASK(7 << 12),
	SCX_TASK_REENQ_NONE = 0 << 12,
	SCX_TASK_REENQ_KFUNC = 1 << 12,
	SCX_TASK_REENQ_IMMED = 2 << 12,
	SCX_TASK_REENQ_PREEMPTED = 3 << 12,
	SCX_TASK_REENQ_CAP = 4 << 12,
	SCX_TASK_CURSOR = 1 << 31,
};

enum scx_ops_flags {
	SCX_OPS_KEEP_BUILTIN_IDLE = 1 << 0,
	SCX_OPS_ENQ_LAST = 1 << 1,
	SCX_OPS_ENQ_EXITING = 1 << 2,
	SCX_OPS_SWITCH_PARTIAL = 1 << 3,
	SCX_OPS_ENQ_MIGRATION_DISABLED = 1 << 4,
	SCX_OPS_ALLOW_QUEUED_WAKEUP = 1 << 5,
	SCX_OPS_BUILTIN_IDLE_PER_NODE = 1 << 6,
	SCX_OPS_ALWAYS_ENQ_IMMED = 1 << 7,
	SCX_OPS_TID_TO_TASK = 1 << 8,
	SCX_OPS_HAS_CGROUP_WEIGHT = 1 << 16,
};

enum scx_wake_flags {
	SCX_WAKE_FORK = 0x04,
	SCX_WAKE_TTWU = 0x08,
	SCX_WAKE_SYNC = 0x10,
};

#define SCX_ENQ_WAKEUP 0x01ULL
#define SCX_ENQ_HEAD 0x10ULL
#define SCX_ENQ_CPU_SELECTED (1ULL << 10)
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_ENQ_REENQ (1ULL << 40)
#define SCX_ENQ_LAST (1ULL << 41)
#define SCX_ENQ_CLEAR_OPSS (1ULL << 56)
#define SCX_ENQ_DSQ_PRIQ (1ULL << 57)

#define SCX_DEQ_SLEEP 0x01ULL
#define SCX_DEQ_CORE_SCHED_EXEC (1ULL << 32)

/* If the kernel lacks one of these flags, its value is 0, as in scx's enums.bpf.h. */
enum scx_enq_flags {
	SCX_ENQ_IMMED = __enumerator_SCX_ENQ_IMMED(1ULL << 33),
	SCX_ENQ_RESCUE = __enumerator_SCX_ENQ_RESCUE(1ULL << 34),
};

enum scx_deq_flags {
	SCX_DEQ_SCHED_CHANGE = __enumerator_SCX_DEQ_SCHED_CHANGE(1ULL << 33),
};

enum scx_reenq_flags {
	SCX_REENQ_ANY = __enumerator_SCX_REENQ_ANY(1ULL << 0),
};

enum scx_pick_idle_cpu_flags {
	SCX_PICK_IDLE_CORE = 1 << 0,
	SCX_PICK_IDLE_IN_NODE = __enumerator_SCX_PICK_IDLE_IN_NODE(1 << 1),
};

/* The capabilities of a sub-scheduler on a CPU. The root's scheduler has all of them. */
enum scx_cap_flags {
	SCX_CAP_ENQ_IMMED = 1 << 0,
	SCX_CAP_ENQ = 1 << 1,
	SCX_CAP_PREEMPT = 1 << 2,
	SCX_CAP_PERF = 1 << 3,
	SCX_CAP_BASE = __enumerator_SCX_CAP_BASE(1 << 0),
};

enum scx_kick_flags {
	SCX_KICK_IDLE = 1 << 0,
	SCX_KICK_PREEMPT = 1 << 1,
	SCX_KICK_WAIT = 1 << 2,
};

enum scx_dsq_iter_flags {
	SCX_DSQ_ITER_REV = 1 << 16,
};

enum scx_exit_kind {
	SCX_EXIT_NONE,
	SCX_EXIT_DONE,
	SCX_EXIT_UNREG = 64,
	SCX_EXIT_UNREG_BPF,
	SCX_EXIT_UNREG_KERN,
	SCX_EXIT_SYSRQ,
	SCX_EXIT_PARENT,
	SCX_EXIT_PARENT_KILL,
	SCX_EXIT_ERROR = 1024,
	SCX_EXIT_ERROR_BPF,
	SCX_EXIT_ERROR_STALL,
	SCX_EXIT_ERROR_REENQ,
	SCX_EXIT_ERROR_RESCUE,
};

#define SCX_ECODE_RSN_HOTPLUG (1ULL << 32)
#define SCX_ECODE_ACT_RESTART (1ULL << 48)

enum scx_cpu_preempt_reason {
	SCX_CPU_PREEMPT_RT,
	SCX_CPU_PREEMPT_DL,
	SCX_CPU_PREEMPT_STOP,
	SCX_CPU_PREEMPT_UNKNOWN,
};

/* [abi] */
struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	unsigned long *bt;
	u32 bt_len;
	char *msg;
	char *dump;
	s32 exit_cpu;
	u64 flags;
};

/* [abi] */
struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
};

/* [abi] */
struct scx_exit_task_args {
	bool cancelled;
};

/* [abi] */
struct scx_cgroup_init_args {
	u32 weight;
	u64 bw_period_us;
	u64 bw_quota_us;
	u64 bw_burst_us;
	bool sched_idle;
};

struct scx_cpu_acquire_args {
};

/* [abi] */
struct scx_cpu_release_args {
	enum scx_cpu_preempt_reason reason;
	struct task_struct *task;
};

struct scx_dump_ctx {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	u64 at_ns;
	u64 at_jiffies;
};

struct sched_ext_ops;

/* Arguments of sub-scheduler callbacks, which are never called here. */
struct scx_sub_attach_args {
	struct sched_ext_ops *ops;
	char *cgroup_path;
};

struct scx_sub_detach_args {
	struct sched_ext_ops *ops;
	char *cgroup_path;
};

/*
 * A set of cids: CPUs numbered by topology. It covers @nr_cids from @base on; bits[0] begins at the multiple of 64
 * at or below @base.
 */
struct scx_cmask {
	u32 base;
	u32 nr_cids;
	u32 alloc_words;
	u64 bits[];
};

/* [abi] */
struct scx_cid_topo {
	s32 core_cid;
	s32 core_idx;
	s32 llc_cid;
	s32 llc_idx;
	s32 node_cid;
	s32 node_idx;
	s32 shard_cid;
	s32 shard_idx;
};

/* [abi] */
struct scx_enable_args {
	u64 cmask_arena_addr;
};

/* Event counters. Most of these events cannot happen here; their counters stay 0. [abi] */
struct scx_event_stats {
	s64 SCX_EV_SELECT_CPU_FALLBACK;
	s64 SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE;
	s64 SCX_EV_DISPATCH_KEEP_LAST;
	s64 SCX_EV_ENQ_SKIP_EXITING;
	s64 SCX_EV_ENQ_SKIP_MIGRATION_DISABLED;
	s64 SCX_EV_REENQ_IMMED;
	s64 SCX_EV_REENQ_REPEAT;
	s64 SCX_EV_REFILL_SLICE_DFL;
	s64 SCX_EV_SLICE_CLAMPED;
	s64 SCX_EV_SLICE_DENIED;
	s64 SCX_EV_BYPASS_DURATION;
	s64 SCX_EV_BYPASS_DISPATCH;
	s64 SCX_EV_BYPASS_ACTIVATE;
	s64 SCX_EV_INSERT_NOT_OWNED;
	s64 SCX_EV_SUB_BYPASS_DISPATCH;
	s64 SCX_EV_SUB_FORCED_ADMIT;
	s64 SCX_EV_SUB_PREEMPT_DENIED;
	s64 SCX_EV_SUB_KICK_DENIED;
	s64 SCX_EV_SUB_REENQ_DENIED;
	s64 SCX_EV_SUB_CIDPERF_DENIED;
	s64 SCX_EV_SUB_RESCUE;
};

struct scx_bpf_select_cpu_and_args {
	s32 prev_cpu;
	u64 wake_flags;
	u64 flags;
};

struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

/* The members are in Linux 7.3's order. [abi] */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	bool (*core_sched_before)(struct task_struct *a, struct task_struct *b);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);
	void (*update_idle)(s32 cpu, bool idle);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	void (*dump)(struct scx_dump_ctx *ctx);
	void (*dump_cpu)(struct scx_dump_ctx *ctx, s32 cpu, bool idle);
	void (*dump_task)(struct scx_dump_ctx *ctx, struct task_struct *p);
	s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	s32 (*cgroup_prep_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_cancel_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_set_weight)(struct cgroup *cgrp, u32 weight);
	void (*cgroup_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us);
	void (*cgroup_set_idle)(struct cgroup *cgrp, bool idle);
	s32 (*sub_attach)(struct scx_sub_attach_args *args);
	void (*sub_detach)(struct scx_sub_detach_args *args);
	void (*sub_caps_updated)(const struct scx_cmask *cmask, u64 caps);
	void (*sub_ecaps_updated)(s32 cid, u64 before, u64 after);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init_cids)(void);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	u64 hotplug_seq;
	u32 cid_shard_size;
	u32 rescue_bandwidth_ppt;
	u32 rescue_quantum_us;
	u64 sub_cgroup_id;
	char name[SCX_OPS_NAME_LEN];
	void (*cpu_acquire)(s32 cpu, struct scx_cpu_acquire_args *args);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
};

/* The cid form. Members have the same offsets as in struct sched_ext_ops. */
struct sched_ext_ops_cid {
	s32 (*select_cid)(struct task_struct *p, s32 prev_cid, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cid, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	bool (*core_sched_before)(struct task_struct *a, struct task_struct *b);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cmask)(struct task_struct *p, const struct scx_cmask *cmask);
	void (*update_idle)(s32 cid, bool idle);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p, struct scx_enable_args *args);
	void (*disable)(struct task_struct *p);
	void (*dump)(struct scx_dump_ctx *ctx);
	void (*dump_cid)(struct scx_dump_ctx *ctx, s32 cid, bool idle);
	void (*dump_task)(struct scx_dump_ctx *ctx, struct task_struct *p);
	s32 (*cpuctl_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cpuctl_exit)(struct cgroup *cgrp);
	s32 (*cpuctl_prep_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cpuctl_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cpuctl_cancel_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cpuctl_set_weight)(struct cgroup *cgrp, u32 weight);
	void (*cpuctl_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us);
	void (*cpuctl_set_idle)(struct cgroup *cgrp, bool idle);
	s32 (*sub_attach)(struct scx_sub_attach_args *args);
	void (*sub_detach)(struct scx_sub_detach_args *args);
	void (*sub_caps_updated)(const struct scx_cmask *cmask, u64 caps);
	void (*sub_ecaps_updated)(s32 cid, u64 before, u64 after);
	void (*cid_online)(s32 cid);
	void (*cid_offline)(s32 cid);
	s32 (*init_cids)(void);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	u64 hotplug_seq;
	u32 cid_shard_size;
	u32 rescue_bandwidth_ppt;
	u32 rescue_quantum_us;
	u64 sub_cgroup_id;
	char name[SCX_OPS_NAME_LEN];
};

/*
 * BPF's own types: map types and flags of include/uapi/linux/bpf.h. The simulated kernel names the map types that
 * it lacks (abi/maps.rs).
 */
enum bpf_map_type {
	BPF_MAP_TYPE_UNSPEC,
	BPF_MAP_TYPE_HASH,
	BPF_MAP_TYPE_ARRAY,
	BPF_MAP_TYPE_PROG_ARRAY,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY,
	BPF_MAP_TYPE_PERCPU_HASH,
	BPF_MAP_TYPE_PERCPU_ARRAY,
	BPF_MAP_TYPE_STACK_TRACE,
	BPF_MAP_TYPE_CGROUP_ARRAY,
	BPF_MAP_TYPE_LRU_HASH,
	BPF_MAP_TYPE_LRU_PERCPU_HASH,
	BPF_MAP_TYPE_LPM_TRIE,
	BPF_MAP_TYPE_ARRAY_OF_MAPS,
	BPF_MAP_TYPE_HASH_OF_MAPS,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_STACK,
	BPF_MAP_TYPE_STRUCT_OPS = 26,
	BPF_MAP_TYPE_RINGBUF,
	BPF_MAP_TYPE_INODE_STORAGE,
	BPF_MAP_TYPE_TASK_STORAGE,
	BPF_MAP_TYPE_BLOOM_FILTER,
	BPF_MAP_TYPE_USER_RINGBUF,
	BPF_MAP_TYPE_CGRP_STORAGE,
	BPF_MAP_TYPE_ARENA,
};

enum { BPF_ANY, BPF_NOEXIST, BPF_EXIST, BPF_F_LOCK = 4 };

#define BPF_F_NO_PREALLOC (1U << 0)
#define BPF_F_MMAPABLE (1U << 10)
#define BPF_LOCAL_STORAGE_GET_F_CREATE (1ULL << 0)
#define BPF_F_TIMER_ABS (1ULL << 0)
#define BPF_F_TIMER_CPU_PIN (1ULL << 1)
#define BPF_MAX_LOOPS (8 * 1024 * 1024)
#define CLOCK_MONOTONIC 1

/* [abi] */
struct bpf_timer {
	u64 id;
	u64 reserved;
};

struct bpf_spin_lock {
	u32 val;
};

struct bpf_res_spin_lock {
	u32 val;
};

struct bpf_iter_num {
	int cur;
	int end;
};

struct bpf_iter_bits {
	const u64 *words;
	u32 nr_bits;
	int bit;
};

struct bpf_refcount {
	u32 __opaque[1];
};

struct bpf_rb_node {
	u64 __opaque[4];
};

struct bpf_rb_root {
	u64 __opaque[2];
};

struct bpf_list_node {
	u64 __opaque[3];
};

struct bpf_list_head {
	u64 __opaque[2];
};

enum bpf_cgroup_iter_order {
	BPF_CGROUP_ITER_ORDER_UNSPEC,
	BPF_CGROUP_ITER_SELF_ONLY,
	BPF_CGROUP_ITER_DESCENDANTS_PRE,
	BPF_CGROUP_ITER_DESCENDANTS_POST,
	BPF_CGROUP_ITER_ANCESTORS_UP,
};

struct bpf_iter_css {
	struct cgroup_subsys_state *start;
	struct cgroup_subsys_state *last;
	u32 flags;
	bool ended;
};

/* [abi] */
struct bpf_iter_scx_dsq {
	u64 dsq_id;
	u64 flags;
	u64 end;
	u64 slice;
	u64 vtime;
};

#endif /* __EQUIPOISE_VMLINUX_H */
