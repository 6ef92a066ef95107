//! When the scheduler's C finds a domain imbalanced, and how much it would move: its own code, compiled
//! and called on the tables of TC2, against what Linux 3.9's rules say.

mod common;

use libloading::{Library, Symbol};

/// `enum balance_idle`
const NOT_IDLE: u32 = 0;
const IDLE: u32 = 1;
const NEWLY_IDLE: u32 = 2;

/// TC2's package level, above its two clusters.
const PKG: u32 = 1;

/// What `ask` answers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answer {
    /// First CPU of the busiest group, or -1.
    busiest: i32,
    /// The CPU to pull from, or -1.
    queue: i32,
    /// Load to move.
    imbalance: i64,
    /// Is it for this CPU to balance?
    balance: i32,
}

struct Scheduler(Library);

impl Scheduler {
    /// The scheduler's code under `policy` on TC2, with so many busy loops of nice 0 on each CPU.
    fn new(policy: &str, tasks: [u32; 5]) -> Scheduler {
        let switch = u32::from(policy == "capacity");
        let tracking = u32::from(policy != "cfs");
        let library = common::compile_with_tables(
            &format!(
                r#"#include <scx/common.bpf.h>
            #include "cfs/main.bpf.c"
            const volatile struct policy policy = {{
                .load_tracking = {tracking}, .misfit = {switch}, .idle_pull = {switch},
            }};
            const volatile struct machine machine = {{ .tick_ns = 10000000, .nr_cpus = 5 }};
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
            void ask(u32 cpu, u32 level, u32 idle, struct answer *answer)
            {{
                struct balance_env *env = this_balance_env();
                s32 group;

                *env = (struct balance_env){{ .cpu = cpu, .dst_cpu = cpu, .level = level, .idle = idle, .balance = true }};
                group = find_busiest_group(env);
                answer->busiest = group < 0 ? -1 : (s32)nth_cpu(group_at(group), 0);
                answer->queue = group < 0 ? -1 : find_busiest_queue(env, group);
                answer->imbalance = env->imbalance;
                answer->balance = env->balance;
            }}"#
            ),
            policy,
            "tc2",
        );
        let set_tasks: Symbol<unsafe extern "C" fn(u32, u32)> =
            unsafe { library.get(b"set_tasks") }.unwrap();
        (0..5)
            .zip(tasks)
            .for_each(|(cpu, nr)| unsafe { set_tasks(cpu, nr) });
        Scheduler(library)
    }

    /// `cpu` balances its domain at `level`.
    fn ask(&self, cpu: u32, level: u32, idle: u32) -> Answer {
        type Ask = unsafe extern "C" fn(u32, u32, u32, *mut Answer);
        let ask: Symbol<Ask> = unsafe { self.0.get(b"ask") }.unwrap();
        let mut answer = Answer::default();
        unsafe { ask(cpu, level, idle, &mut answer) };
        answer
    }
}

const BALANCED: Answer = Answer {
    busiest: -1,
    queue: -1,
    imbalance: 0,
    balance: 1,
};

/// 2 x 1441 is a capacity of 3 tasks, 3 x 606 one of 2: an idle A7 leaves three tasks on two A15s alone.
#[test]
fn five_tasks_are_balanced_with_three_on_two_a15() {
    for policy in ["cfs", "cfs-pelt"] {
        let scheduler = Scheduler::new(policy, [2, 1, 1, 1, 0]);
        for idle in [IDLE, NEWLY_IDLE] {
            assert_eq!(scheduler.ask(4, PKG, idle), BALANCED, "{policy}");
        }
    }
}

/// With four on the A15s one of them has to go. The loads per power are 4096 / 2882 and 1024 / 1818 (in
/// units of 1024: 1455 and 576), 1115 on average; what may move is
/// min(min(1455 - 1115, 1024 * 1024 / 2882) * 2882, (1115 - 576) * 1818) / 1024 = 956, less than a task of
/// 1024, and as 1455 - 576 is more than a task's 363 it is worth moving one.
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

/// Five tasks on five CPUs: an idle A7 pulls from the A15s if capacities do not matter.
#[test]
fn an_idle_cpu_pulls_whatever_the_capacities() {
    let scheduler = Scheduler::new("capacity", [2, 1, 1, 1, 0]);
    for idle in [IDLE, NEWLY_IDLE] {
        let answer = scheduler.ask(4, PKG, idle);
        assert_eq!((answer.busiest, answer.queue), (0, 0));
        assert!(answer.imbalance > 0);
    }
    // A busy CPU does not.
    assert_eq!(scheduler.ask(2, PKG, NOT_IDLE).busiest, -1);
}

/// One busy loop on an A7, both A15s idle: only a policy that looks for misfits sees a reason to act.
#[test]
fn a_heavy_task_on_an_a7_is_a_misfit() {
    let tasks = [0, 0, 1, 0, 0];
    assert_eq!(
        Scheduler::new("cfs-pelt", tasks).ask(0, PKG, IDLE),
        BALANCED
    );
    let answer = Scheduler::new("capacity", tasks).ask(0, PKG, IDLE);
    assert_eq!((answer.busiest, answer.queue, answer.balance), (2, 2, 1));
    // The other way round it is where it belongs.
    assert_eq!(
        Scheduler::new("capacity", [1, 0, 0, 0, 0]).ask(2, PKG, IDLE),
        BALANCED
    );
}

/// Two tasks on one of two like CPUs: one of them moves.
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
