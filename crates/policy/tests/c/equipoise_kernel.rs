//! The kernel around `scheduler/equipoise` on four CPUs, in C.

/// The start of a program that has a `begin()` of its own. Only the first task of each queue exists; the virtual time
/// of tasks is the clock's.
pub const FOUR_CPUS: &str = r#"#include <scx/common.bpf.h>
    #include "equipoise/main.bpf.c"
    #define MS 1000000LL
    #define CLOCK (100 * NSEC_PER_SEC)
    const volatile struct machine machine = { .tick_ns = 4 * MS, .nr_cpus = 4 };
    static struct rq cores[4];
    static cpumask_t allowed;
    static struct equipoise_map map;
    static struct scheduler_timer timers[4];
    static struct equipoise_map timer_map = { .type = BPF_MAP_TYPE_ARRAY, .max_entries = 4, .stride = sizeof(timers[0]),
        .values = (void *)timers };
    #define QUEUES (MAX_CLUSTERS + 2 * MAX_CPUS + HELD_QUEUES)
    static struct task_struct first[QUEUES];
    static s32 queued[QUEUES];
    static u32 kicks[4];
    static u64 timer_ns[4];

    static s32 nr_queued(void *k, u64 dsq) { return queued[dsq]; }
    static s32 iterate(void *k, struct bpf_iter_scx_dsq *it, u64 dsq, u64 flags)
    {
        *it = (struct bpf_iter_scx_dsq){ .dsq_id = dsq };
        return 0;
    }
    static struct task_struct *next(void *k, struct bpf_iter_scx_dsq *it)
    {
        return it->end++ || !queued[it->dsq_id] ? NULL : &first[it->dsq_id];
    }
    static void ends(void *k, struct bpf_iter_scx_dsq *it) { }
    static u32 perf(void *k, s32 cpu, u32 what) { return 1024; }
    static void kick(void *k, s32 cpu, u64 flags) { kicks[cpu]++; }
    static s64 start(void *k, struct bpf_timer *timer, u64 ns, u64 flags)
    {
        timer_ns[(struct scheduler_timer *)timer - timers] = ns;
        return 0;
    }
    static u32 reenqueue(void *k) { return 0; }
    static u32 random(void *k) { return 0; }
    static struct equipoise_kernel kernel = { .nr_cpu_ids = 4, .rqs = cores, .dsq_nr_queued = nr_queued,
        .iter_dsq_new = iterate, .iter_dsq_next = next, .iter_dsq_destroy = ends, .cpuperf = perf, .kick_cpu = kick,
        .reenqueue_local = reenqueue, .random = random, .timer_start = start };

    static void begin_kernel(u64 now)
    {
        equipoise_kernel = &kernel;
        kernel.now = now;
        allowed.bits[0] = 15;
        *(struct equipoise_map **)&tasks = &map;
        *(struct equipoise_map **)&turn_timers = &timer_map;
    }

    static void begin_task(struct task_struct *p, s32 pid, cpumask_t *mask)
    {
        *p = (struct task_struct){ .pid = pid, .tgid = pid, .prio = 120, .static_prio = 120, .nr_cpus_allowed = 4,
            .cpus_ptr = mask, .real_parent = p, .scx = { .dsq_vtime = CLOCK, .slice = SLICE_MAX } };
    }
"#;
