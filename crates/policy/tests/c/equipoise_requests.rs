//! `scheduler/equipoise`: requests that reach a CPU after the task that they ask for has stopped there.

use crate::common::compile;
use crate::equipoise_kernel::FOUR_CPUS;
use libloading::Library;

/// CPUs 0 and 1 are faster than 2 and 3. Only the first task of each queue exists.
const LATE: &str = r#"
    volatile struct tunables tunables = { .slice = 3 * MS, .lag = 6 * MS, .preempt_after = MS, .unfairness = 5 * MS,
        .sync_burst = MS / 20, .prefer = PREFER_BALANCED };
    static struct task_struct task;
    static struct task_state state;

    static s32 create(void *k, u64 dsq, s32 node) { return 0; }
    static bool consume(void *k, u64 dsq, u64 flags) { return queued[dsq] && queued[dsq]--; }

    s32 begin(void)
    {
        begin_kernel(NSEC_PER_SEC);
        kernel.create_dsq = create;
        kernel.consume = consume;
        for (u32 cpu = 0; cpu < 4; cpu++) {
            cpu_levels[cpu] = (struct cpu_levels){ .online = true, .power_orig = cpu < 2 ? 1024 : 512,
                                                  .thread_speed = 1024, .llc_id = cpu < 2 ? 0 : 2 };
            cores[cpu] = (struct rq){ .cpu = cpu };
        }
        begin_task(&task, 7, &allowed);
        task.equipoise_storage[0] = &state;
        state = (struct task_state){ .weight = 1024, .recent_at = kernel.now };
        return init_clusters();
    }
    /* A task goes to sleep on @cpu while CPU 0, which runs task 9, asks for it. Then @cpu finds nothing to run. */
    void sleeps_while_asked(u32 cpu)
    {
        kernel.cpu = cpu;
        clear_idle(cpu);
        task.thread_info.cpu = cpu;
        equipoise_stopping(&task, false);
        post_request(&cpu_states[cpu].request, make_request(REQUEST_SWAP, 0, task.pid, 9));
        equipoise_dispatch(cpu, &task);
        equipoise_update_idle(cpu, true);
    }
    /* @cpu is claimed for a task that another CPU takes first. */
    void is_claimed_in_vain(u32 cpu)
    {
        kernel.cpu = cpu;
        clear_idle(cpu);
        equipoise_dispatch(cpu, NULL);
    }
    bool idles(u32 cpu) { return has_bit(cluster_of(cpu)->idle, cpu_at(cpu)->slot); }
    /* A task waits in the queue of CPU 0's cluster: does the idle @cpu take it? */
    bool takes_from_fast(u32 cpu)
    {
        u64 dsq = cluster_dsq(cpu_at(0)->cluster);

        begin_task(&first[dsq], 100, &allowed);
        queued[dsq] = 1;
        somebody_waits(cpu_at(0)->cluster);
        kernel.cpu = cpu;
        equipoise_dispatch(cpu, NULL);
        return !queued[dsq];
    }
"#;

struct Late(Library);

impl Late {
    c_fns! {
        fn begin() -> i32;
        fn sleeps_while_asked(cpu: u32);
        fn is_claimed_in_vain(cpu: u32);
        fn idles(cpu: u32) -> bool;
        fn takes_from_fast(cpu: u32) -> bool;
    }
}

fn begin() -> Late {
    let late = Late(compile(&format!("{FOUR_CPUS}{LATE}")));
    assert_eq!(late.begin(), 0);
    late.sleeps_while_asked(2);
    assert!(late.idles(2));
    late
}

#[test]
fn a_cpu_that_was_asked_for_a_sleeping_task_takes_other_tasks() {
    assert!(begin().takes_from_fast(2));
}

#[test]
fn a_cpu_that_was_asked_for_a_sleeping_task_stays_idle() {
    let late = begin();
    late.is_claimed_in_vain(2);
    assert!(late.idles(2));
}
