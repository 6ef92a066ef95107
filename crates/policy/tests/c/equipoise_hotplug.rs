//! `scheduler/equipoise` while a CPU comes online that was offline when the scheduler was loaded.

use crate::common::compile;
use crate::equipoise_kernel::FOUR_CPUS;
use libloading::Library;

/// CPU 3 was offline. Task 3 may run there only, as the CPU's hotplug thread; the others may run on all CPUs.
const HOTPLUG: &str = r#"
    volatile struct tunables tunables = { .slice = 3 * MS, .lag = 6 * MS, .preempt_after = MS, .unfairness = 5 * MS,
        .sync_burst = MS / 20, .prefer = PREFER_BALANCED };
    static struct task_struct task[4];
    static struct task_state state[4];
    static cpumask_t pinned;

    static s32 create(void *k, u64 dsq, s32 node) { return 0; }
    static void insert(void *k, struct task_struct *p, u64 dsq, u64 slice, u64 vtime, u64 flags)
    {
        first[dsq] = *p;
        queued[dsq]++;
    }
    static bool consume(void *k, u64 dsq, u64 flags)
    {
        return queued[dsq] && bpf_cpumask_test_cpu(kernel.cpu, first[dsq].cpus_ptr) && queued[dsq]--;
    }

    s32 begin(void)
    {
        begin_kernel(NSEC_PER_SEC);
        kernel.create_dsq = create;
        kernel.dispatch_vtime = insert;
        kernel.consume = consume;
        pinned.bits[0] = 8;
        for (u32 cpu = 0; cpu < 3; cpu++)
            cpu_levels[cpu] = (struct cpu_levels){ .online = true, .power_orig = 1024, .thread_speed = 1024 };
        for (u32 i = 0; i < 4; i++) {
            begin_task(&task[i], i + 1, i == 3 ? &pinned : &allowed);
            task[i].nr_cpus_allowed = i == 3 ? 1 : 4;
            task[i].equipoise_storage[0] = &state[i];
            state[i] = (struct task_state){ .weight = 1024, .recent_at = kernel.now };
            note_affinity(&task[i], task[i].cpus_ptr);
            cores[i] = (struct rq){ .cpu = i };
        }
        return init_clusters();
    }
    void waits(u32 i, u32 cpu)
    {
        kernel.cpu = task[i].thread_info.cpu = cpu;
        clear_idle(cpu);
        equipoise_enqueue(&task[i], 0);
    }
    u32 dispatches(u32 cpu)
    {
        u32 before = 0, after = 0;

        kernel.cpu = cpu;
        for (u32 dsq = 0; dsq < QUEUES; dsq++)
            before += queued[dsq];
        equipoise_dispatch(cpu, NULL);
        for (u32 dsq = 0; dsq < QUEUES; dsq++)
            after += queued[dsq];
        return before - after;
    }
    bool still_waits_there(u32 i)
    {
        for (u32 dsq = 0; dsq < QUEUES; dsq++)
            if (queued[dsq] && first[dsq].pid == task[i].pid)
                return true;
        return false;
    }
    void gets_task(u32 cpu) { clear_idle(cpu); }
    bool idles(u32 cpu) { return has_bit(cluster_of(cpu)->idle, cpu_at(cpu)->slot); }
    void goes_idle(u32 cpu) { equipoise_update_idle(cpu, true); }
"#;

struct Hotplug(Library);

impl Hotplug {
    c_fns! {
        fn begin() -> i32;
        fn waits(task: u32, cpu: u32);
        fn dispatches(cpu: u32) -> u32;
        fn still_waits_there(task: u32) -> bool;
        fn gets_task(cpu: u32);
        fn idles(cpu: u32) -> bool;
        fn goes_idle(cpu: u32);
    }
}

fn begin() -> Hotplug {
    let hotplug = Hotplug(compile(&format!("{FOUR_CPUS}{HOTPLUG}")));
    assert_eq!(hotplug.begin(), 0);
    hotplug
}

/// If the new CPU took only tasks that wait for other CPUs, the thread would wait until the kernel's watchdog ended the
/// scheduler.
#[test]
fn the_hotplug_thread_of_a_new_cpu_runs() {
    let hotplug = begin();
    hotplug.waits(0, 0);
    hotplug.waits(3, 3);
    assert!(hotplug.still_waits_there(3));
    assert_eq!(hotplug.dispatches(3), 1);
    assert!(!hotplug.still_waits_there(3));
}

/// The new CPU is not taken for the first CPU of the first cluster.
#[test]
fn a_busy_cpu_is_not_idle_because_a_new_one_is() {
    let hotplug = begin();
    hotplug.gets_task(0);
    hotplug.goes_idle(3);
    assert!(hotplug.idles(3) && !hotplug.idles(0));
}
