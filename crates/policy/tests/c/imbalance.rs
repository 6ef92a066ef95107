//! The scheduler's detection of imbalance, and the load that it would move, compared with Linux 3.9's rules: its own
//! code is compiled, and called on the tables of TC2.

use crate::common;
use libloading::{Library, Symbol};

/// `enum balance_idle`
const NOT_IDLE: u32 = 0;
const IDLE: u32 = 1;
const NEWLY_IDLE: u32 = 2;

/// TC2's package level, above its two clusters.
const PKG: u32 = 1;

/// The result of `ask`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answer {
    /// The first CPU of the busiest group, or -1.
    busiest: i32,
    /// The CPU to pull from, or -1.
    queue: i32,
    /// The load to move.
    imbalance: i64,
    /// Does this CPU balance?
    balance: i32,
}

struct Scheduler(Library);

impl Scheduler {
    /// The scheduler's code under `policy` on TC2, with this number of busy loops of nice 0 on each CPU.
    fn new(policy: &str, tasks: [u32; 5]) -> Scheduler {
        let switch = u32::from(policy == "capacity");
        let later = u32::from(policy == "cfs-3.10");
        let tracking = u32::from(!policy.starts_with("cfs-3.10") && policy != "cfs");
        let library = common::compile_with_tables(
            &format!(
                r#"#include <scx/common.bpf.h>
            #include "linux/cfs/main.bpf.c"
            const volatile struct policy policy = {{
                .load_tracking = {tracking}, .misfit = {switch}, .idle_pull = {switch},
                .affinity_first = {later}, .newidle_for_itself = {later},
            }};
            const volatile struct machine machine = {{ .tick_ns = 10000000, .nr_cpus = 5, .max_power = 1441 }};
            static struct equipoise_kernel kernel;
            void set_tasks(u32 cpu, u32 nr)
            {{
                struct fair_rq *rq;

                equipoise_kernel = &kernel;
                rq = rq_of(cpu);
                rq->nr_running = nr;
                rq->idle = !nr;
                rq->load_weight = rq->runnable_load_avg = nr * 1024;
                for (u32 i = 0; i < CPU_LOAD_IDX_MAX; i++)
                    rq->cpu_load[i] = nr * 1024;
            }}
            struct answer {{ s32 busiest, queue; s64 imbalance; s32 balance; }};
            struct answer ask(u32 cpu, u32 level, u32 idle)
            {{
                struct balance_env *env = this_balance_env();
                struct answer answer;
                s32 group;

                *env = (struct balance_env){{ .cpu = cpu, .dst_cpu = cpu, .level = level, .idle = idle, .balance = true }};
                group = find_busiest_group(env);
                answer.busiest = group < 0 ? -1 : (s32)nth_cpu(group_at(group), 0);
                answer.queue = group < 0 ? -1 : find_busiest_queue(env, group);
                answer.imbalance = env->imbalance;
                answer.balance = env->balance;
                return answer;
            }}
            void set_load(u32 cpu, u64 load) {{ rq_of(cpu)->load_weight = rq_of(cpu)->runnable_load_avg = load; }}
            void set_power(u32 cpu, u32 power) {{ levels_of(cpu)->power = power; }}
            u32 imbalance_pct(u32 cpu, u32 level) {{ return domain_of(cpu, level)->imbalance_pct; }}
            /* The tick of @cpu, while other CPUs are idle and have no tick. */
            bool kicks(u32 cpu)
            {{
                nohz.nr_cpus = 1;
                for (u32 other = 0; other < 5; other++)
                    rq_of(other)->tick_stopped = other != cpu;
                return nohz_kick_needed(cpu, 0);
            }}
            /* @dst could move nothing from @src @failed times in a row. */
            bool asks_for_running(u32 src, u32 dst, u32 failed)
            {{
                struct balance_env env = {{ .cpu = dst, .dst_cpu = dst, .src_cpu = src, .level = 1, .idle = LB_IDLE }};

                domain_state_of(dst, 1)->nr_balance_failed = failed;
                return need_active_balance(&env);
            }}
            u32 cache_nice_tries(u32 cpu, u32 level) {{ return domain_of(cpu, level)->cache_nice_tries; }}
            bool moves(u32 idle, s64 imbalance, u64 load)
            {{
                struct balance_env env = {{ .level = 1, .idle = idle, .imbalance = imbalance }};

                return !too_heavy(&env, load);
            }}
            /*
             * The flags after CPU @cpu, with no imbalance left, has considered a task that may use only
             * @allowed.
             */
            u32 looks_at(u32 cpu, u32 idle, u32 allowed)
            {{
                struct balance_env env = {{
                    .cpu = cpu, .dst_cpu = cpu, .src_cpu = 4, .level = 1, .idle = idle, .flags = LBF_ALL_PINNED,
                }};
                cpumask_t cpus = {{ .bits = {{ 1 << allowed }} }};
                struct fair_entity se = {{ .weight = 1024, .load_avg_contrib = 1024 }};
                struct task_struct task = {{ .cpus_ptr = &cpus, .equipoise_storage = {{ &se }} }};
                static struct equipoise_map map;

                *(struct equipoise_map **)&entities = &map;
                can_migrate_task(&task, &env, 0);
                return env.flags;
            }}"#
            ),
            policy,
            "tc2",
        );
        let scheduler = Scheduler(library);
        for (cpu, nr) in (0..).zip(tasks) {
            scheduler.set_tasks(cpu, nr);
        }
        scheduler
    }

    c_fns! {
        fn set_tasks(cpu: u32, nr: u32);
        /// `cpu` balances its domain at `level`.
        fn ask(cpu: u32, level: u32, idle: u32) -> Answer;
        /// The tasks of `cpu` have this load.
        fn set_load(cpu: u32, load: u64);
        /// `cpu` has this cpu_power.
        fn set_power(cpu: u32, power: u32);
        /// The flags LBF_* after `cpu`, with no imbalance left, has considered a task that may use only CPU `allowed`.
        fn looks_at(cpu: u32, idle: u32, allowed: u32) -> u32;
        /// Is a task of this load light enough for the imbalance?
        fn moves(idle: u32, imbalance: i64, load: u64) -> bool;
        /// Does the tick of `cpu`, which has a task, make an idle CPU balance?
        fn kicks(cpu: u32) -> bool;
        /// Does `dst`, which failed to move tasks from `src` this often, request its running task?
        fn asks_for_running(src: u32, dst: u32, failed: u32) -> bool;
    }

    /// A number of the package's domain, which must be equal on all CPUs.
    fn package(&self, what: &str) -> u32 {
        let number: Symbol<unsafe extern "C" fn(u32, u32) -> u32> =
            unsafe { self.0.get(what.as_bytes()) }.unwrap();
        unsafe { number(0, PKG) }
    }
}

const BALANCED: Answer = Answer {
    busiest: -1,
    queue: -1,
    imbalance: 0,
    balance: 1,
};

/// 2 x 1441 is a capacity of three tasks, and 3 x 606 is one of two. So an idle A7 does not take any of three tasks on
/// two A15s.
#[test]
fn five_tasks_are_balanced_with_three_on_two_a15() {
    for policy in ["cfs", "cfs-pelt"] {
        let scheduler = Scheduler::new(policy, [2, 1, 1, 1, 0]);
        for idle in [IDLE, NEWLY_IDLE] {
            assert_eq!(scheduler.ask(4, PKG, idle), BALANCED, "{policy}");
        }
    }
}

/// If the A15s have four tasks, one of them has to move. The loads per power are 4096 / 2882 and 1024 / 1818 (in units
/// of 1024: 1455 and 576), 1115 on average. The load that may move is min(min(1455 - 1115, 1024 * 1024 / 2882) * 2882,
/// (1115 - 576) * 1818) / 1024 = 956, less than a task of 1024; as 1455 - 576 is more than a task's 363, moving one is
/// worthwhile.
#[test]
fn a_fourth_task_on_two_a15_is_pulled() {
    let scheduler = Scheduler::new("cfs", [2, 2, 1, 0, 0]);
    let expected = Answer {
        busiest: 0,
        queue: 0,
        imbalance: 1024,
        balance: 1,
    };
    assert_eq!(scheduler.ask(3, PKG, IDLE), expected);
    // The second idle CPU of the group leaves it to the first, unless it is newly idle.
    assert_eq!(scheduler.ask(4, PKG, IDLE).balance, 0);
    assert_eq!(scheduler.ask(4, PKG, NEWLY_IDLE), expected);
}

#[test]
fn an_idle_cpu_pulls_whatever_the_capacities() {
    let scheduler = Scheduler::new("capacity", [2, 1, 1, 1, 0]);
    for idle in [IDLE, NEWLY_IDLE] {
        let answer = scheduler.ask(4, PKG, idle);
        assert_eq!((answer.busiest, answer.queue), (0, 0));
        assert!(answer.imbalance > 0);
    }
    // A busy CPU does not pull.
    assert_eq!(scheduler.ask(2, PKG, NOT_IDLE).busiest, -1);
}

#[test]
fn a_heavy_task_on_an_a7_is_a_misfit() {
    let tasks = [0, 0, 1, 0, 0];
    assert_eq!(
        Scheduler::new("cfs-pelt", tasks).ask(0, PKG, IDLE),
        BALANCED
    );
    let answer = Scheduler::new("capacity", tasks).ask(0, PKG, IDLE);
    assert_eq!((answer.busiest, answer.queue, answer.balance), (2, 2, 1));
    // In the opposite case, the loop is already on a fast CPU.
    assert_eq!(
        Scheduler::new("capacity", [1, 0, 0, 0, 0]).ask(2, PKG, IDLE),
        BALANCED
    );
}

/// nohz_kick_needed(): "load contrib is higher than cpu capacity".
#[test]
fn a_task_too_heavy_for_its_cpu_kicks_an_idle_one() {
    let tasks = [0, 0, 1, 0, 0];
    assert!(!Scheduler::new("cfs-pelt", tasks).kicks(2));
    let scheduler = Scheduler::new("capacity", tasks);
    assert!(scheduler.kicks(2));
    scheduler.set_load(2, 607);
    assert!(scheduler.kicks(2));
    // An A7 has a capacity of 606.
    scheduler.set_load(2, 606);
    assert!(!scheduler.kicks(2));
    // The heaviest task fits an A15.
    assert!(!Scheduler::new("capacity", [1, 0, 0, 0, 0]).kicks(0));
    // A task that is too heavy for all CPUs kicks only if a better CPU exists.
    let pct = scheduler.package("imbalance_pct");
    scheduler.set_load(2, 2000);
    for (power, kicks) in [(144_100 / pct, true), (144_100 / pct + 1, false)] {
        scheduler.set_power(2, power);
        assert_eq!(scheduler.kicks(2), kicks, "{power}");
    }
}

/// need_active_balance(): a better CPU asks at once. Other CPUs ask after more than cache_nice_tries + 2 failures, as
/// in 3.9.
#[test]
fn a_better_cpu_asks_for_the_running_task_at_once() {
    let tasks = [0, 0, 1, 0, 0];
    let (cfs, capacity) = (
        Scheduler::new("cfs-pelt", tasks),
        Scheduler::new("capacity", tasks),
    );
    let tries = capacity.package("cache_nice_tries") + 2;
    assert!(capacity.asks_for_running(2, 0, 0));
    for (scheduler, src, dst) in [(&cfs, 2, 0), (&capacity, 0, 2), (&capacity, 2, 3)] {
        assert!(!scheduler.asks_for_running(src, dst, tries));
        assert!(scheduler.asks_for_running(src, dst, tries + 1));
    }
}

#[test]
fn a_cpu_is_better_beyond_the_imbalance_pct() {
    let scheduler = Scheduler::new("capacity", [0, 0, 1, 0, 0]);
    let pct = scheduler.package("imbalance_pct");
    for (power, better) in [(8 * pct, false), (8 * pct + 1, true)] {
        scheduler.set_power(2, 800);
        scheduler.set_power(0, power);
        assert_eq!(scheduler.asks_for_running(2, 0, 0), better, "{power}");
        let expected = if better { (2, 2) } else { (-1, -1) };
        let answer = scheduler.ask(0, PKG, IDLE);
        assert_eq!((answer.busiest, answer.queue), expected, "{power}");
    }
}

/// move_tasks(): half of a task's load may not exceed the imbalance, unless the CPU is idle and the policy has the
/// patches.
#[test]
fn an_idle_cpu_takes_a_task_however_heavy() {
    for policy in ["cfs", "cfs-pelt", "capacity"] {
        let scheduler = Scheduler::new(policy, [0; 5]);
        for idle in [NOT_IDLE, IDLE, NEWLY_IDLE] {
            assert!(scheduler.moves(idle, 500, 1001), "{policy} {idle}");
            let any = policy == "capacity" && idle != NOT_IDLE;
            assert_eq!(scheduler.moves(idle, 500, 1002), any, "{policy} {idle}");
        }
    }
}

/// can_migrate_task() of 3.9 and 3.10. In 3.10, a CPU that runs out of work pulls tasks only for itself, and tasks that
/// are too heavy do not count as pinned.
#[test]
fn linux_3_10_asks_for_affinity_first_and_pulls_for_itself() {
    const ALL_PINNED: u32 = 1;
    let (old, new) = (
        Scheduler::new("cfs", [0; 5]),
        Scheduler::new("cfs-3.10", [0; 5]),
    );
    // The task may move, but is too heavy.
    assert_eq!(old.looks_at(0, IDLE, 0), ALL_PINNED);
    assert_eq!(new.looks_at(0, IDLE, 0), 0);
    // The task may use only another CPU of the group. That CPU is tried next, unless the balancing
    // CPU has run out of work.
    const SOME_PINNED: u32 = 2;
    assert_eq!(new.looks_at(0, IDLE, 1), ALL_PINNED | SOME_PINNED);
    assert_eq!(new.looks_at(0, NEWLY_IDLE, 1), ALL_PINNED);
    // The task may use none of these CPUs.
    assert_eq!(new.looks_at(0, IDLE, 3), ALL_PINNED);
}

#[test]
fn siblings_share() {
    let answer = Scheduler::new("cfs", [2, 0, 0, 0, 0]).ask(1, 0, NEWLY_IDLE);
    assert_eq!(
        answer,
        Answer {
            busiest: 0,
            queue: 0,
            imbalance: 1024,
            balance: 1
        }
    );
}
