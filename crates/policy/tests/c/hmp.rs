//! Linaro's big.LITTLE MP scheduler, rule by rule, on the tables of an ODROID-XU3 (CPUs 0-3 are slow, 4-7 fast).

use crate::common;
use libloading::Library;
use machine::Machine;
use policy::Policy;

const MS: u64 = 1_000_000;

/// The time of all events, long after boot.
const NOW: u64 = 100_000 * MS;

struct Scheduler(Library);

/// The groups of the fast and of the slow CPUs, which follow a time and three numbers in `struct machine`.
fn groups() -> [u32; 2] {
    let odroid = Machine::find("odroid-xu3").unwrap();
    let globals = Policy::find("linaro-mp").unwrap().globals(&odroid);
    let machine = globals.iter().find(|global| global.symbol == "machine");
    let words: Vec<u32> = machine
        .unwrap()
        .bytes
        .chunks(4)
        .map(|word| u32::from_ne_bytes(word.try_into().unwrap()))
        .collect();
    [words[5], words[6]]
}

impl Scheduler {
    /// The scheduler's code with this packing limit, and all CPUs idle.
    fn new(full_threshold: u32) -> Scheduler {
        let [fast, slow] = groups();
        let library = common::compile_with_tables(
            &format!(
                r#"#include <scx/common.bpf.h>
            #include "linux/cfs/main.bpf.c"
            const volatile struct policy policy = {{ .hmp = HMP_LINARO }};
            volatile struct tunables tunables = {{
                .hmp_up_threshold = 700, .hmp_down_threshold = 256,
                .hmp_full_threshold = {full_threshold}, .hmp_next_up = 4194304, .hmp_next_down = 4194304,
            }};
            const volatile struct machine machine = {{
                .tick_ns = 5000000, .nr_cpus = 8, .asymmetric = true, .fast_group = {fast}, .slow_group = {slow},
            }};
            static struct equipoise_kernel kernel;
            static struct equipoise_map map;
            static cpumask_t all = {{ .bits = {{ 0xff }} }};
            static struct fair_entity ses[9];
            static struct task_struct tasks[9];
            static s32 kicked = -1;
            static struct task_struct *from_pid(void *k, s32 pid) {{ return pid ? &tasks[pid] : NULL; }}
            static s32 iter_new(void *k, struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) {{ return 0; }}
            static struct task_struct *iter_next(void *k, struct bpf_iter_scx_dsq *it) {{ return NULL; }}
            static void iter_destroy(void *k, struct bpf_iter_scx_dsq *it) {{}}
            static void kick(void *k, s32 cpu, u64 flags) {{ kicked = cpu; }}
            void boot(u64 now)
            {{
                kernel.now = now;
                kernel.nr_cpu_ids = 8;
                kernel.task_from_pid = from_pid;
                kernel.iter_dsq_new = iter_new;
                kernel.iter_dsq_next = iter_next;
                kernel.iter_dsq_destroy = iter_destroy;
                kernel.kick_cpu = kick;
                equipoise_kernel = &kernel;
                *(struct equipoise_map **)&entities = &map;
                for (u32 pid = 0; pid < 9; pid++)
                    tasks[pid] = (struct task_struct){{
                        .pid = pid, .cpus_ptr = &all, .equipoise_storage = {{ &ses[pid] }},
                    }};
            }}
            /* Makes a task that last went up and down at these times. */
            void task(u32 pid, u32 ratio, u64 last_up, u64 last_down)
            {{
                ses[pid].design.hmp = (struct hmp_entity){{ last_up, last_down, ratio }};
            }}
            /*
             * Puts @nr tasks on @cpu. @pid is running, and has got @usage of 1024 of the time for which it
             * was runnable.
             */
            void busy(u32 cpu, u32 nr, u32 pid, u32 usage)
            {{
                struct fair_rq *rq = rq_of(cpu);

                rq->nr_running = nr;
                rq->idle = !nr;
                rq->curr.pid = nr ? pid : 0;
                rq->curr.design.hmp.load_avg_ratio = ses[pid].design.hmp.load_avg_ratio;
                rq->design.hmp.load_avg_ratio = nr * ses[pid].design.hmp.load_avg_ratio;
                ses[pid].avg.runnable_sum = LOAD_AVG_MAX;
                ses[pid].avg.running_sum = (u64)LOAD_AVG_MAX * usage / 1024;
            }}
            void load(u32 cpu, u64 ratio) {{ rq_of(cpu)->design.hmp.load_avg_ratio = ratio; }}
            s32 select(u32 pid, u32 prev_cpu, u32 new_cpu)
            {{
                return hmp_select_task_rq(&tasks[pid], prev_cpu, new_cpu, kernel.now);
            }}
            s32 forked(u32 pid, bool kernel_thread)
            {{
                tasks[pid].flags = kernel_thread ? PF_KTHREAD : 0;
                return hmp_select_fork(&tasks[pid], kernel.now);
            }}
            /* Called before each periodic balance. Where did @cpu send its task, if anywhere? */
            s32 balance(u32 cpu)
            {{
                hmp_force_up_migration(kernel.now);
                return rq_of(cpu)->active_balance ? (s32)rq_of(cpu)->push_cpu : -1;
            }}
            s32 called(void) {{ return kicked; }}
            s32 pull(u32 cpu, u32 from)
            {{
                hmp_idle_pull(cpu, kernel.now);
                return rq_of(from)->active_balance ? (s32)rq_of(from)->push_cpu : -1;
            }}"#
            ),
            "linaro-mp",
            "odroid-xu3",
        );
        let scheduler = Scheduler(library);
        scheduler.boot(NOW);
        scheduler
    }

    c_fns! {
        fn boot(now: u64);
        fn task(pid: u32, ratio: u32, last_up: u64, last_down: u64);
        fn busy(cpu: u32, nr: u32, pid: u32, usage: u32);
        fn load(cpu: u32, ratio: u64);
        /// The CPU for a waking task that was on `prev_cpu` and that by the general rules would go to `new_cpu`.
        fn select(pid: u32, prev_cpu: u32, new_cpu: u32) -> i32;
        fn balance(cpu: u32) -> i32;
        fn pull(cpu: u32, from: u32) -> i32;
        fn forked(pid: u32, kernel_thread: bool) -> i32;
        fn called() -> i32;
    }
}

fn is_fast(cpu: i32) -> bool {
    (4..8).contains(&cpu)
}

#[test]
fn a_task_that_wakes_up_above_the_up_threshold_goes_up() {
    let scheduler = Scheduler::new(0);
    scheduler.task(1, 699, 0, 0);
    assert_eq!(scheduler.select(1, 0, 1), 1);
    scheduler.task(1, 700, 0, 0);
    assert!(is_fast(scheduler.select(1, 0, 1)));
    // The task goes only to an idle CPU.
    for cpu in 4..8 {
        scheduler.load(cpu, 1);
    }
    scheduler.task(1, 1023, 0, 0);
    assert_eq!(scheduler.select(1, 0, 1), 1);
}

#[test]
fn a_task_that_wakes_up_below_the_down_threshold_goes_down() {
    let scheduler = Scheduler::new(0);
    scheduler.task(1, 256, 0, 0);
    assert_eq!(scheduler.select(1, 4, 5), 5);
    scheduler.task(1, 255, 0, 0);
    assert!(!is_fast(scheduler.select(1, 4, 5)));
    // In between, no task changes sides, whatever the general rules say.
    scheduler.task(1, 500, 0, 0);
    assert_eq!(scheduler.select(1, 4, 0), 4);
    assert_eq!(scheduler.select(1, 0, 4), 0);
}

#[test]
fn a_task_does_not_move_in_the_same_direction_again_for_4_ms() {
    let delay = 4_194_304;
    let scheduler = Scheduler::new(0);
    for (ago, goes) in [(delay - 1, false), (delay, true)] {
        scheduler.task(1, 1023, NOW - ago, 0);
        assert_eq!(is_fast(scheduler.select(1, 0, 1)), goes, "up {ago}");
        scheduler.task(1, 0, 0, NOW - ago);
        assert_eq!(!is_fast(scheduler.select(1, 4, 5)), goes, "down {ago}");
        // The task may go in the opposite direction.
        scheduler.task(1, 0, NOW - ago, 0);
        assert!(!is_fast(scheduler.select(1, 4, 5)));
    }
}

#[test]
fn small_tasks_are_packed_until_a_slow_cpu_is_full() {
    let (packing, spreading) = (Scheduler::new(650), Scheduler::new(0));
    for scheduler in [&packing, &spreading] {
        scheduler.load(0, 500);
        scheduler.task(1, 150, 0, 0);
    }
    // Under `packing`, CPU 0 would not be full with the task; `spreading` takes an idle CPU.
    assert_eq!(packing.select(1, 4, 4), 0);
    assert_ne!(spreading.select(1, 4, 4), 0);
    packing.load(0, 501);
    packing.task(1, 150, 0, 0);
    assert_eq!(packing.select(1, 4, 4), 1);
    // A task of a slow CPU also goes to the first slow CPU that is not full with it. A heavy task goes to the slow CPU
    // to which no task has moved for the longest time.
    packing.task(1, 150, 0, 0);
    assert_eq!(packing.select(1, 3, 3), 1);
    for cpu in 1..4 {
        packing.load(cpu, 600);
    }
    packing.task(1, 922, NOW, 0);
    assert_eq!(packing.select(1, 3, 3), 2);
}

#[test]
fn a_new_task_starts_on_a_fast_cpu_unless_it_is_the_kernel_s() {
    let scheduler = Scheduler::new(0);
    assert!(is_fast(scheduler.forked(1, false)));
    assert_eq!(scheduler.forked(1, true), -1);
}

#[test]
fn where_all_fast_cpus_are_busy_the_lightest_of_two_goes_down_if_it_starves() {
    let offload = |tasks: u32, usage: u32, idle_fast: bool, busy_slow: bool| {
        let scheduler = Scheduler::new(0);
        for cpu in 4..8 {
            scheduler.task(cpu, 1000, 0, 0);
            scheduler.busy(cpu, 1, cpu, 1024);
        }
        scheduler.busy(4, tasks, 4, usage);
        if idle_fast {
            scheduler.busy(7, 0, 7, 0);
        }
        for cpu in 0..4 {
            scheduler.task(cpu, 100, 0, 0);
            scheduler.busy(cpu, busy_slow.into(), cpu, 1024);
        }
        scheduler.balance(4)
    };
    assert!((0..4).contains(&offload(2, 768, false, false)));
    // The task stays if it runs for more than three quarters of its runnable time, if it is alone, if a fast CPU idles,
    // or if all slow CPUs are busy.
    assert_eq!(offload(2, 780, false, false), -1);
    assert_eq!(offload(1, 500, false, false), -1);
    assert_eq!(offload(2, 500, true, false), -1);
    assert_eq!(offload(2, 500, false, true), -1);
}

#[test]
fn a_heavy_task_that_runs_on_is_fetched_by_an_idle_fast_cpu() {
    for (ratio, goes) in [(699, false), (700, true)] {
        let scheduler = Scheduler::new(0);
        scheduler.task(1, ratio, 0, 0);
        scheduler.busy(1, 1, 1, 1024);
        // The periodic balance of any CPU makes an idle fast CPU pull the task.
        scheduler.balance(1);
        assert_eq!(is_fast(scheduler.called()), goes, "{ratio}");
        // A fast CPU that runs out of work also pulls it by itself, but a slow one does not.
        assert_eq!(scheduler.pull(2, 1), -1);
        assert_eq!(scheduler.pull(5, 1), if goes { 5 } else { -1 }, "{ratio}");
    }
}
