//! Placement and balancing of `eevdf` against Linux 6.12's rules: the scheduler's own C, compiled
//! and called on the tables of a machine, with a given number of tasks on each CPU.

use crate::common;
use libloading::{Library, Symbol};
use machine::Machine;

/// `enum balance_idle`
const NOT_IDLE: u32 = 0;
const IDLE: u32 = 1;

/// `enum migrates`
const LOAD: u32 = 0;
const UTIL: u32 = 1;
const TASK: u32 = 2;
const MISFIT: u32 = 3;

/// `enum group_kind`
const HAS_SPARE: u32 = 0;
const FULLY_BUSY: u32 = 1;
const MISFIT_TASK: u32 = 2;
const SMT_BALANCE: u32 = 3;
const ASYM_PACKING: u32 = 4;
const OVERLOADED: u32 = 6;

/// The result of `ask`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answer {
    /// The first CPU of the busiest group, or -1.
    busiest: i32,
    /// The CPU to pull from, or -1.
    queue: i32,
    imbalance: i64,
    migrates: u32,
    /// Does this CPU balance?
    balances: u32,
}

struct Scheduler(Library);

impl Scheduler {
    /// The scheduler's code on `machine`, with all CPUs idle.
    fn new(machine: &str) -> Scheduler {
        let cpus = Machine::find(machine).unwrap().cpus.len();
        let asymmetric = u32::from(machine == "tc2");
        let code = format!(
            r#"#include <scx/common.bpf.h>
            #include "linux/eevdf/main.bpf.c"
            const volatile struct policy policy = {{ .scale_rt_capacity = RT_CAPACITY_PELT }};
            const volatile struct machine machine = {{
                .tick_ns = 1000000, .nr_cpus = {cpus}, .asymmetric = {asymmetric},
            }};
            static struct rq rqs[{cpus}];
            static u32 cpuperf(void *k, s32 cpu, u32 what)
            {{
                return what == EQUIPOISE_CPUPERF_CAP ? power_orig_of(cpu) : 1024;
            }}
            static struct task_struct waker;
            static struct equipoise_kernel kernel = {{
                .nr_cpu_ids = {cpus}, .rqs = rqs, .cpuperf = cpuperf, .current = &waker,
            }};
            static struct equipoise_map map;
            static struct cpumask all;
            static struct task_struct task = {{ .pid = 1, .cpus_ptr = &all }};
            static struct fair_entity entity;

            void start(void)
            {{
                equipoise_kernel = &kernel;
                __builtin_memset(&all, 0xff, sizeof(all));
                *(struct equipoise_map **)&entities = &map;
                task.equipoise_storage[0] = &entity;
                for (u32 cpu = 0; cpu < {cpus}; cpu++) {{
                    init_rq(cpu, 0);
                    init_groups(cpu);
                    init_cpu_util(cpu, 0);
                    llc_of(cpu)->nr_idle_scan = levels_of(cpu)->llc_weight;
                    llc_of(cpu)->has_idle_cores = true;
                }}
            }}
            /* Gives @cpu @nr tasks, which together use @util of 1024 of the largest CPU. */
            void set(u32 cpu, u32 nr, u64 util)
            {{
                struct fair_rq *rq = rq_of(cpu);

                rq->nr_running = nr;
                rq->idle = !nr;
                rq->curr.pid = nr;
                rq->queue.load_weight = rq->avg.load_avg = nr * 1024;
                rq->avg.runnable_avg = nr * 1024;
                rq->avg.util_avg = util;
            }}
            void set_misfit(u32 cpu, u64 load) {{ rq_of(cpu)->misfit_task_load = load; }}
            struct answer {{ s32 busiest, queue; s64 imbalance; u32 migrates, balances; }};
            struct answer ask(u32 cpu, u32 level, u32 idle)
            {{
                struct balance_env *env = this_balance_env();
                struct answer answer;
                s32 group;

                *env = (struct balance_env){{ .cpu = cpu, .dst_cpu = cpu, .level = level, .idle = idle,
                                             .local_group = local_group_of(cpu, level) }};
                answer.balances = should_we_balance(env);
                group = find_busiest_group(env);
                answer.busiest = group < 0 ? -1 : (s32)nth_cpu(group_at(group), 0);
                answer.queue = group < 0 ? -1 : find_busiest_queue(env, group);
                answer.imbalance = env->imbalance;
                answer.migrates = env->migration_type;
                return answer;
            }}
            /* The kind of @cpu's group at @level, as @from sees it. */
            u32 kind(u32 from, u32 cpu, u32 level)
            {{
                struct balance_env *env = this_balance_env();

                *env = (struct balance_env){{ .cpu = from, .dst_cpu = from, .level = level, .idle = LB_IDLE,
                                             .local_group = local_group_of(from, level) }};
                update_sg_lb_stats(env, local_group_of(cpu, level), false);
                return env->sgs.type;
            }}
            /* Should the task that runs on @src_cpu move to @cpu, which is idle? */
            s32 active(u32 cpu, u32 src_cpu, u32 level)
            {{
                struct balance_env *env = this_balance_env();

                *env = (struct balance_env){{ .cpu = cpu, .dst_cpu = cpu, .src_cpu = src_cpu, .level = level,
                                             .idle = LB_IDLE, .migration_type = MIGRATE_TASK }};
                return need_active_balance(env);
            }}
            /* Does @cpu kick @idle, whose tick has stopped? */
            s32 kicks(u32 cpu, u32 idle)
            {{
                nohz_stop_tick(idle);
                return preferred_cpu_idles(cpu);
            }}
            s32 near(u32 prev_cpu, u32 target, u64 util)
            {{
                entity = (struct fair_entity){{ .avg.util_avg = util }};
                entity.recent_used_cpu = prev_cpu;
                return select_idle_sibling(&task, prev_cpu, target);
            }}
            s32 by_idle(u32 this_cpu, u32 prev_cpu, bool sync) {{ return wake_affine_idle(this_cpu, prev_cpu, sync); }}
            s32 fork_on(u32 cpu)
            {{
                kernel.cpu = cpu;
                entity = (struct fair_entity){{}};
                return select_idlest_cpu(&task, cpu, cpu, SD_BALANCE_FORK);
            }}
            /* The task may use these two CPUs only. */
            void allow(u32 a, u32 b)
            {{
                __builtin_memset(&all, 0, sizeof(all));
                all.bits[a / 64] |= 1ULL << a % 64;
                all.bits[b / 64] |= 1ULL << b % 64;
            }}
            u32 scan(u32 cpu, u64 util)
            {{
                struct balance_env *env = this_balance_env();

                *env = (struct balance_env){{ .cpu = cpu, .level = 0, .idle = LB_NOT_IDLE,
                                             .sum_util = util * levels_of(cpu)->llc_weight }};
                update_idle_cpu_scan(env);
                return llc_of(cpu)->nr_idle_scan;
            }}"#
        );
        let scheduler = Scheduler(common::compile_with_tables(&code, "eevdf", machine));
        scheduler.start();
        scheduler
    }

    /// Puts these numbers of tasks on the CPUs; the tasks use all of a CPU's time.
    fn busy(machine: &str, tasks: &[u32]) -> Scheduler {
        let scheduler = Scheduler::new(machine);
        let full = |cpu: u32| {
            if machine == "tc2" && cpu > 1 {
                430
            } else {
                1024
            }
        };
        for (cpu, &nr) in (0..).zip(tasks) {
            scheduler.set(cpu, nr, if nr > 0 { full(cpu) } else { 0 });
        }
        scheduler
    }

    c_fns! {
        fn start();
        fn set(cpu: u32, nr: u32, util: u64);
        fn set_misfit(cpu: u32, load: u64);
        /// `cpu` balances its domain at `level`.
        fn ask(cpu: u32, level: u32, idle: u32) -> Answer;
    }

    fn call(&self, name: &str, numbers: [u64; 3]) -> i32 {
        let call: Symbol<unsafe extern "C" fn(u64, u64, u64) -> i32> =
            unsafe { self.0.get(name.as_bytes()) }.unwrap();
        unsafe { call(numbers[0], numbers[1], numbers[2]) }
    }
}

/// TC2's package level, above its two clusters.
const PKG: u32 = 1;

#[test]
fn groups_are_of_the_kind_that_their_tasks_make_them() {
    for (tasks, expected) in [
        ([0, 0, 1, 1, 0], HAS_SPARE),
        ([0, 0, 1, 1, 1], FULLY_BUSY),
        ([0, 0, 2, 1, 1], OVERLOADED),
    ] {
        let scheduler = Scheduler::busy("tc2", &tasks);
        assert_eq!(
            scheduler.call("kind", [0, 2, PKG.into()]),
            expected as i32,
            "{tasks:?}"
        );
    }
    let scheduler = Scheduler::busy("tc2", &[0, 0, 1, 0, 0]);
    scheduler.set_misfit(2, 1024);
    assert_eq!(
        scheduler.call("kind", [0, 2, PKG.into()]),
        MISFIT_TASK as i32
    );
}

/// The room is measured in utilization, because the caches differ.
#[test]
fn an_idle_cluster_takes_from_an_overloaded_one_what_fits() {
    let answer = Scheduler::busy("tc2", &[0, 0, 2, 1, 1]).ask(0, PKG, IDLE);
    assert_eq!((answer.busiest, answer.queue, answer.balances), (2, 2, 1));
    assert_eq!((answer.migrates, answer.imbalance), (UTIL, 2048));
}

#[test]
fn an_idle_cpu_takes_a_task_that_waits_beside_it() {
    let answer = Scheduler::busy("tc2", &[2, 0, 0, 0, 0]).ask(1, 0, IDLE);
    assert_eq!((answer.busiest, answer.queue), (0, 0));
    assert_eq!((answer.migrates, answer.imbalance), (TASK, 1));
    // A lone task stays.
    assert_eq!(
        Scheduler::busy("tc2", &[1, 0, 0, 0, 0])
            .ask(1, 0, IDLE)
            .busiest,
        -1
    );
}

#[test]
fn a_misfit_is_taken_by_a_larger_cpu_alone() {
    let tc2 = Scheduler::busy("tc2", &[0, 0, 1, 0, 0]);
    tc2.set_misfit(2, 1024);
    let answer = tc2.ask(0, PKG, IDLE);
    assert_eq!(
        (answer.queue, answer.migrates, answer.imbalance),
        (2, MISFIT, 1)
    );
    assert_eq!(tc2.ask(3, 0, IDLE).busiest, -1);
}

#[test]
fn a_smaller_cpu_takes_only_what_waits() {
    assert_eq!(
        Scheduler::busy("tc2", &[1, 1, 0, 0, 0])
            .ask(2, PKG, IDLE)
            .busiest,
        -1
    );
    assert_eq!(
        Scheduler::busy("tc2", &[2, 1, 0, 0, 0])
            .ask(2, PKG, IDLE)
            .queue,
        0
    );
}

/// If both groups are overloaded, load moves towards the average, provided that the busiest group has 17 % more.
#[test]
fn among_overloaded_groups_load_is_evened_out() {
    let tasks = |first: u32| [[first; 8], [4; 8]].concat();
    let answer = Scheduler::busy("smp-2x8", &tasks(8)).ask(8, PKG, NOT_IDLE);
    assert_eq!((answer.busiest, answer.migrates), (0, LOAD));
    // The average of 8 and 4 per CPU is 6.
    assert_eq!(answer.imbalance, 2 * 8 * 1024);
    let scheduler = Scheduler::busy("smp-2x8", &[[4; 8], [4; 8]].concat());
    assert_eq!(scheduler.ask(8, PKG, NOT_IDLE).busiest, -1);
}

#[test]
fn one_cpu_balances_for_its_group() {
    let tc2 = Scheduler::busy("tc2", &[2, 2, 1, 0, 0]);
    let balances = [2, 3, 4].map(|cpu| tc2.ask(cpu, PKG, IDLE).balances);
    assert_eq!(balances, [0, 1, 0]);
    let tc2 = Scheduler::busy("tc2", &[2, 2, 1, 1, 1]);
    let balances = [2, 3, 4].map(|cpu| tc2.ask(cpu, PKG, NOT_IDLE).balances);
    assert_eq!(balances, [1, 0, 0]);
}

#[test]
fn an_idle_core_takes_one_of_two_threads() {
    let smt = Scheduler::new("smt-4");
    let siblings = Machine::find("smt-4").unwrap().siblings(0);
    siblings.iter().for_each(|cpu| smt.set(cpu as u32, 1, 1024));
    let other = (0..8).find(|&cpu| !siblings.contains(cpu)).unwrap();
    let answer = smt.ask(other as u32, 1, IDLE);
    assert_eq!(
        (answer.busiest, answer.migrates, answer.imbalance),
        (0, TASK, 1)
    );
}

#[test]
fn a_wakeup_goes_where_it_is_idle() {
    let smp = Scheduler::busy("smp-8", &[1, 1, 1, 0, 1, 0, 1, 1]);
    // The search takes the target if it is idle, then the last CPU, and then the next idle CPU after the target.
    assert_eq!(smp.call("near", [0, 3, 100]), 3);
    assert_eq!(smp.call("near", [5, 1, 100]), 5);
    assert_eq!(smp.call("near", [0, 4, 100]), 5);
    assert_eq!(smp.call("near", [0, 6, 100]), 3);
    // An interrupt on an idle CPU does not pull a task from the task's own idle CPU. A synchronous waker that runs
    // alone pulls a task from a busy CPU.
    assert_eq!(smp.call("by_idle", [3, 5, 0]), 5);
    assert_eq!(smp.call("by_idle", [3, 0, 0]), 3);
    assert_eq!(smp.call("by_idle", [0, 1, 1]), 0);
    assert_eq!(smp.call("by_idle", [0, 1, 0]), -1);
}

#[test]
fn a_heavy_task_does_not_wake_up_on_a_small_cpu() {
    let tc2 = Scheduler::busy("tc2", &[1, 0, 0, 0, 0]);
    assert_eq!(tc2.call("near", [2, 2, 800]), 1);
    assert_eq!(tc2.call("near", [2, 2, 100]), 2);
}

/// `SIS_UTIL`.
#[test]
fn the_search_for_an_idle_cpu_is_as_long_as_there_is_hope() {
    let smp = Scheduler::new("smp-8");
    let scans = [0, 256, 512, 768, 876, 1024].map(|util| smp.call("scan", [0, util, 0]));
    assert_eq!(scans, [8, 7, 5, 1, 0, 0]);
}

#[test]
fn a_child_begins_where_there_is_most_room() {
    let numa = Scheduler::busy("smp-2x8", &[[1; 8], [0; 8]].concat());
    assert!(numa.call("fork_on", [0, 0, 0]) >= 8);
    let tc2 = Scheduler::busy("tc2", &[0, 1, 1, 1, 1]);
    assert_eq!(tc2.call("fork_on", [3, 0, 0]), 0);
}

/// A node with a busy CPU keeps a child, although the other node is idle, but not if the child may use only the busy CPU
/// there.
#[test]
fn a_child_leaves_a_node_whose_only_allowed_cpu_is_busy() {
    let other = Machine::find("emr-2s").unwrap().nodes()[1];
    let numa = Scheduler::busy("emr-2s", &[1]);
    let leaves = || other.contains(numa.call("fork_on", [0, 0, 0]) as usize);
    assert!(!leaves());
    numa.call("allow", [0, other.first().unwrap() as u64, 0]);
    assert!(leaves());
}

/// The level of all CPUs of alder-lake: its P cores are CPUs 0 to 15, of which 8 to 11 are preferred, and its E cores
/// are CPUs 16 to 23.
const ALL: u32 = 1;

/// The machine alder-lake, with a task on each of these CPUs.
fn alder_lake(busy: &[u32]) -> Scheduler {
    let scheduler = Scheduler::new("alder-lake");
    busy.iter().for_each(|&cpu| scheduler.set(cpu, 1, 1024));
    scheduler
}

/// An idle CPU takes even a lone task from a CPU of lower priority, unless the other thread of its core is busy.
#[test]
fn a_preferred_core_takes_what_runs_on_others() {
    for (cpu, busy, expected) in [
        (0, &[16][..], 16),
        (8, &[0], 0),
        (8, &[0, 16], 16),
        (16, &[20], -1),
        (0, &[8], -1),
        (16, &[0], -1),
        // The core's other thread is busy.
        (9, &[8, 16], -1),
    ] {
        let scheduler = alder_lake(busy);
        let answer = scheduler.ask(cpu, ALL, IDLE);
        assert_eq!(answer.queue, expected, "{cpu} of {busy:?}");
        if expected >= 0 {
            assert_eq!((answer.migrates, answer.imbalance), (TASK, 1));
            let src = expected as u64;
            assert_eq!(scheduler.call("active", [cpu.into(), src, ALL.into()]), 1);
            assert_eq!(
                scheduler.call("kind", [cpu.into(), src, ALL.into()]),
                ASYM_PACKING as i32
            );
        }
        assert_eq!(scheduler.ask(cpu, ALL, NOT_IDLE).queue, -1);
    }
}

#[test]
fn an_e_core_helps_a_p_core_with_two_busy_threads() {
    let both = alder_lake(&[0, 1]);
    assert_eq!(both.call("kind", [16, 0, ALL.into()]), SMT_BALANCE as i32);
    let answer = both.ask(16, ALL, IDLE);
    assert_eq!(
        (answer.queue, answer.migrates, answer.imbalance),
        (0, TASK, 1)
    );
    assert_eq!(both.call("active", [16, 0, ALL.into()]), 1);
    assert_eq!(alder_lake(&[0]).call("active", [16, 0, ALL.into()]), 0);
}

#[test]
fn a_tick_kicks_a_preferred_core() {
    assert_eq!(alder_lake(&[16]).call("kicks", [16, 0, 0]), 1);
    assert_eq!(alder_lake(&[0]).call("kicks", [0, 8, 0]), 1);
    assert_eq!(alder_lake(&[8]).call("kicks", [8, 0, 0]), 0);
    assert_eq!(alder_lake(&[16, 1]).call("kicks", [16, 0, 0]), 0);
    assert_eq!(Scheduler::busy("smp-8", &[1]).call("kicks", [0, 1, 0]), 0);
}
