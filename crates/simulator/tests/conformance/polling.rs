//! Busy loops that poll, condition variables whose waiters move to the mutex's queue, and the kernel's locks.

use crate::support::*;
use machine::{CpuMask, Level, Machine};
use std::sync::{Arc, Mutex};
use workload::{Env, KernelLock, Op, SchedPolicy, Start, StreamKind, TaskSpec, Workload};

type Times = Arc<Mutex<Vec<(&'static str, u64)>>>;

/// Executes `ops`, then records the time.
fn noting(name: &'static str, cpu: usize, times: &Times, ops: Vec<Op>) -> TaskSpec {
    let (times, mut ops) = (times.clone(), ops.into_iter());
    let program = move |env: &mut Env| {
        ops.next().unwrap_or_else(|| {
            times.lock().unwrap().push((name, env.now));
            Op::Exit
        })
    };
    TaskSpec {
        timer_slack_ns: Some(0),
        affinity: Some(CpuMask::one(cpu)),
        ..TaskSpec::new(name, program)
    }
}

/// Runs the tasks of `tasks`; returns the times when they ended, in order.
fn done(
    machine: &Machine,
    tasks: impl Fn(&Times) -> Vec<TaskSpec> + Send + Sync,
) -> Vec<(&'static str, u64)> {
    let times = Times::default();
    ran(machine, || tasks(&times));
    times.lock().unwrap().clone()
}

/// The tasks of `tasks`, which share a lock, a condition variable, a stream and a word.
fn script(tasks: impl Fn() -> Vec<TaskSpec> + Send + Sync) -> impl Workload {
    Script(move || Start {
        tasks: tasks(),
        mutexes: 1,
        condvars: 1,
        streams: vec![StreamKind::Futex.holding(1)],
        shared: vec![0],
        ..Start::default()
    })
}

/// Runs the tasks of `tasks` under a FIFO scheduler.
fn ran(machine: &Machine, tasks: impl Fn() -> Vec<TaskSpec> + Send + Sync) -> Ran {
    run(machine, &script(tasks), &scheduler(FIFO, "FIFO_OPS"))
}

fn poll(ms: u64) -> Op {
    Op::SpinWhile {
        word: 0,
        value: 0,
        work: ms * MS,
    }
}

/// Writes the word after `ms` ms.
fn writer(times: &Times, ms: u64) -> TaskSpec {
    let times = times.clone();
    let mut ops = vec![run_for(ms)].into_iter();
    TaskSpec::new("writer", move |env: &mut Env| {
        ops.next().unwrap_or_else(|| {
            env.shared[0] = 1;
            times.lock().unwrap().push(("writer", env.now));
            Op::Exit
        })
    })
}

#[test]
fn polling_ends_when_the_word_is_written_or_time_is_up() {
    let times = done(&machine(4), |times| {
        vec![
            noting("long", 1, times, vec![poll(50)]),
            noting("short", 2, times, vec![poll(2)]),
            writer(times, 5),
        ]
    });
    let names: Vec<_> = times.iter().map(|&(name, _)| name).collect();
    assert_eq!(names, ["short", "writer", "long"]);
    assert!(times[0].1 < 3 * MS, "{times:?}");
    assert!(times[2].1 - times[1].1 < MS / 100, "{times:?}");
}

#[test]
fn a_preempted_poller_notices_when_it_runs_again() {
    // Both threads are bound to CPU 1. The word is written while the other thread has the CPU for a slice.
    let times = done(&machine(2), |times| {
        vec![
            noting("poller", 1, times, vec![poll(1000)]),
            noting("other", 1, times, vec![run_for(60)]),
            writer(times, 30),
        ]
    });
    let poller = times.iter().find(|(name, _)| *name == "poller").unwrap();
    assert!(poller.1 < 100 * MS, "{times:?}");
}

#[test]
fn one_of_those_that_poll_for_a_mutex_has_it_at_a_time() {
    let critical = |ms| vec![Op::SpinLock(0), run_for(ms), Op::Unlock(0)];
    let times = done(&machine(4), |times| {
        (0..3)
            .map(|cpu| noting(["a", "b", "c"][cpu], cpu, times, critical(4)))
            .collect()
    });
    let at: Vec<_> = times.iter().map(|&(_, at)| at).collect();
    assert_eq!(at.len(), 3);
    for (turn, at) in (1..).zip(at) {
        assert!(
            (turn * 4 * MS..(turn * 4 + 1) * MS).contains(&at),
            "{times:?}"
        );
    }
}

#[test]
fn waiters_that_move_to_their_mutex_wake_one_another() {
    // Each thread holds the mutex for 2 ms after its wakeup.
    let waiter = || {
        vec![
            Op::Lock(0),
            Op::Wait { cond: 0, mutex: 0 },
            run_for(2),
            Op::Unlock(0),
        ]
    };
    for broadcast in [|| Op::BroadcastRequeue(0), || Op::Broadcast(0)] {
        let times = done(&machine(4), |times| {
            let wake = vec![
                sleep_for(10),
                Op::Lock(0),
                broadcast(),
                run_for(1),
                Op::Unlock(0),
            ];
            let mut tasks: Vec<_> = (0..3)
                .map(|cpu| noting(["a", "b", "c"][cpu], cpu, times, waiter()))
                .collect();
            tasks.push(noting("waker", 3, times, wake));
            tasks
        });
        let at: Vec<_> = times.iter().map(|&(_, at)| at / MS).collect();
        assert_eq!(at, [11, 13, 15, 17], "{times:?}");
    }
}

/// Holds the kernel's lock for `ms` ms, and uses these numbers of cache lines and of nodes of a tree under it.
fn held(kind: KernelLock, ms: u64, lines: u32, nodes: u32) -> Op {
    Op::Hold {
        mutex: 0,
        work: ms * MS,
        lines,
        nodes,
        kind,
        keeps: false,
        if_locked: false,
    }
}

fn hold(ms: u64) -> Op {
    held(KernelLock::Rwsem, ms, 1, 0)
}

/// Does the same as [`hold`], but polls first.
fn spin(ms: u64) -> Op {
    held(KernelLock::Mutex, ms, 1, 0)
}

#[test]
fn waiters_get_a_kernel_lock_in_turn() {
    let times = done(&machine(4), |times| {
        vec![
            noting("a", 0, times, vec![hold(10), run_for(100)]),
            noting("b", 1, times, vec![run_for(1), hold(10)]),
            noting("c", 2, times, vec![run_for(2), hold(10)]),
        ]
    });
    let at: Vec<_> = times.iter().map(|&(name, at)| (name, at / MS)).collect();
    assert_eq!(at, [("b", 20), ("c", 30), ("a", 110)]);
}

#[test]
fn data_under_a_lock_come_from_the_last_holder() {
    let held = |lines| held(KernelLock::Rwsem, 1, lines, 0);
    let second = |cpu, lines| {
        let times = done(&Machine::find("hp-8s-80c").unwrap(), |times| {
            let later = vec![sleep_for(10), held(lines)];
            vec![
                noting("a", 0, times, vec![held(lines)]),
                noting("b", cpu, times, later),
            ]
        });
        times[1].1
    };
    assert_eq!(second(79, 101) - second(79, 1), 100 * 580);
    assert_eq!(second(1, 101) - second(1, 1), 100 * 60);
    assert_eq!(second(0, 101), second(0, 1));
}

#[test]
fn nodes_of_a_tree_come_from_the_previous_holders_of_its_lock() {
    let held = |nodes| held(KernelLock::Rwsem, 1, 0, nodes);
    let third = |nodes| {
        let times = done(&Machine::find("hp-8s-80c").unwrap(), |times| {
            vec![
                noting("a", 0, times, vec![held(0)]),
                noting("b", 79, times, vec![sleep_for(10), held(0)]),
                noting("c", 10, times, vec![sleep_for(20), held(nodes)]),
            ]
        });
        times[2].1
    };
    assert_eq!(third(1) - third(0), 580);
    assert_eq!(third(2) - third(0), 580 + 300);
    // No other thread has held the mutex.
    assert_eq!(third(9), third(2));
}

#[test]
fn tasks_that_queue_for_a_lock_wait_for_its_own_spinlock() {
    // All tasks arrive at once and sleep. The time that a task spends on the spinlock grows with the number of tasks
    // before it.
    let spent = |waiters: usize| {
        let hp = Machine::find("hp-8s-80c").unwrap();
        let workload = script(|| {
            let times = Times::default();
            let waiter = |cpu| noting("waiter", cpu, &times, vec![sleep_for(1), hold(1)]);
            let mut tasks = vec![noting("holder", 0, &times, vec![hold(10)])];
            tasks.extend((1..=waiters).map(waiter));
            tasks
        });
        // The policy is in the kernel's own class, because sched_ext's queues would be contended, too.
        let outcome = run_policy("cfs-3.10", &hp, &workload, 1, 60_000 * MS, None);
        outcome.unwrap().counters.memory_ns
    };
    let (few, more, most) = (spent(3), spent(6), spent(9));
    assert!(most - more > more - few + 1000, "{few} {more} {most}");
}

#[test]
fn a_task_that_polls_for_a_lock_is_not_preempted_at_its_turn() {
    let hp = Machine::find("hp-8s-80c").unwrap();
    let with = |wakes_at| {
        done(&hp, |times| {
            let urgent = vec![Op::SleepUntil { at: wakes_at }, run_for(1)];
            vec![
                noting("a", 0, times, vec![spin(10)]),
                noting("b", 79, times, vec![run_for(1), spin(10)]),
                TaskSpec {
                    policy: SchedPolicy::Fifo { priority: 1 },
                    ..noting("urgent", 79, times, urgent)
                },
            ]
        })
    };
    let released = with(50 * MS)[0];
    assert_eq!(released.0, "a");
    // The lock's cache line is in transit.
    let times = with(released.1 + 100);
    let at: Vec<_> = times.iter().map(|&(name, at)| (name, at / MS)).collect();
    assert_eq!(at, [("a", 10), ("urgent", 21), ("b", 21)], "{times:?}");
}

#[test]
fn only_the_first_that_polls_for_a_mutex_stops_for_a_more_urgent_task() {
    // At 5 ms `urgent` wakes up on the CPU of `b`, which is the first that polls, or on that of `c`, the second.
    let with = |cpu| {
        let times = done(&machine(4), |times| {
            let urgent = vec![Op::SleepUntil { at: 5 * MS }, run_for(1)];
            vec![
                noting("a", 0, times, vec![spin(10), run_for(90)]),
                noting("b", 1, times, vec![run_for(1), spin(10)]),
                noting("c", 2, times, vec![run_for(2), spin(10)]),
                TaskSpec {
                    policy: SchedPolicy::Fifo { priority: 1 },
                    ..noting("urgent", cpu, times, urgent)
                },
            ]
        });
        times.iter().find(|(name, _)| *name == "urgent").unwrap().1 / MS
    };
    assert_eq!(with(1), 6);
    // `c` becomes the first at 10 ms.
    assert_eq!(with(2), 11);
}

#[test]
fn a_task_that_finds_an_rwsem_taken_tries_again_before_it_sleeps() {
    // Nine tasks arrive at once, some time before the release, and wait for the rwsem's own spinlock.
    let wakeups = |before: u64| {
        let hp = Machine::find("hp-8s-80c").unwrap();
        let ran = ran(&hp, || {
            let times = Times::default();
            let at = |at, op| vec![Op::SleepUntil { at }, op];
            let waiter = |cpu| noting("waiter", cpu, &times, at(11 * MS - before, hold(1)));
            let mut tasks = vec![noting("holder", 0, &times, at(10 * MS, hold(1)))];
            tasks.extend((10..19).map(waiter));
            tasks
        });
        ran.outcome.counters.wakeups
    };
    // All nine tasks sleep and are woken in turn, or one finds the rwsem released before it sleeps.
    assert_eq!(wakeups(MS / 2) - wakeups(100), 1);
}

#[test]
fn a_lock_may_be_taken_only_if_others_need_it() {
    let freed = || Op::Hold {
        mutex: 0,
        work: 10 * MS,
        lines: 1,
        nodes: 0,
        kind: KernelLock::Rwsem,
        keeps: false,
        if_locked: true,
    };
    let with = |other: fn(u64) -> Op| {
        let times = done(&machine(4), |times| {
            vec![
                noting("a", 0, times, vec![sleep_for(1), freed()]),
                noting("b", 1, times, vec![other(5)]),
            ]
        });
        times.iter().find(|(name, _)| *name == "a").unwrap().1 / MS
    };
    assert_eq!(with(run_for), 1);
    assert_eq!(with(hold), 15);
}

fn keep(ms: u64) -> Op {
    Op::Hold {
        mutex: 0,
        work: ms * MS,
        lines: 1,
        nodes: 0,
        kind: KernelLock::Mutex,
        keeps: true,
        if_locked: false,
    }
}

#[test]
fn a_lock_is_kept_until_it_is_released() {
    let times = done(&machine(4), |times| {
        let kept = vec![keep(10), run_for(10), Op::Release(0), run_for(10)];
        vec![
            noting("a", 0, times, kept),
            noting("b", 1, times, vec![run_for(1), hold(5)]),
        ]
    });
    let at: Vec<_> = times.iter().map(|&(name, at)| (name, at / MS)).collect();
    assert_eq!(at, [("b", 25), ("a", 30)]);
}

#[test]
fn no_task_polls_for_a_lock_whose_holder_sleeps() {
    let read = || Op::Read {
        stream: 0,
        bytes: 1,
        work: 0,
    };
    let write = || Op::Write {
        stream: 0,
        bytes: 1,
        work: 0,
    };
    // b polls on CPU 1 until a sleeps at 10 ms, then c runs there.
    let times = done(&machine(4), |times| {
        let kept = vec![keep(10), read(), run_for(10), Op::Release(0)];
        vec![
            noting("a", 0, times, kept),
            noting("b", 1, times, vec![run_for(1), spin(10)]),
            noting("c", 1, times, vec![run_for(30)]),
            noting("writer", 2, times, vec![sleep_for(60), write()]),
        ]
    });
    let at: Vec<_> = times.iter().map(|&(name, at)| (name, at / MS)).collect();
    assert_eq!(at, [("c", 40), ("writer", 60), ("a", 70), ("b", 80)]);
}

#[test]
fn the_holder_of_a_kept_lock_leaves_its_cpu_only_where_the_kernel_allows_it() {
    let urgent = |times: &Times, ops| TaskSpec {
        policy: SchedPolicy::Fifo { priority: 1 },
        ..noting("urgent", 0, times, ops)
    };
    let with = |point: fn() -> Op| {
        let times = done(&machine(2), |times| {
            let kept = vec![keep(10), point(), run_for(10), Op::Release(0)];
            vec![
                noting("works", 0, times, kept),
                noting("waits", 1, times, vec![run_for(1), spin(10)]),
                urgent(times, vec![sleep_for(5), run_for(30)]),
            ]
        });
        let at: Vec<_> = times.iter().map(|&(name, at)| (name, at / MS)).collect();
        at
    };
    assert_eq!(
        with(|| Op::CondResched),
        [("urgent", 40), ("works", 50), ("waits", 60)]
    );
    assert_eq!(
        with(|| run_for(0)),
        [("waits", 30), ("urgent", 50), ("works", 50)]
    );
}

#[test]
fn a_spinlock_is_waited_for_in_turn_where_memory_costs_something() {
    let spin = |ms| held(KernelLock::Spinlock, ms, 3, 0);
    let of = |machine: &Machine| -> Vec<_> {
        let times = done(machine, |times| {
            vec![
                noting("a", 0, times, vec![spin(3), run_for(9)]),
                noting("b", 1, times, vec![run_for(1), spin(3)]),
                noting("c", 2, times, vec![run_for(2), spin(3)]),
            ]
        });
        times.iter().map(|&(name, at)| (name, at / MS)).collect()
    };
    let hp = Machine::find("hp-8s-80c").unwrap();
    assert_eq!(of(&hp), [("b", 6), ("c", 9), ("a", 12)]);
    assert_eq!(of(&machine(4)), [("b", 4), ("c", 5), ("a", 12)]);
}

#[test]
fn a_running_task_takes_a_kernel_lock_before_a_sleeping_waiter() {
    // `c` waits behind `b`, which stays first although `a` was faster.
    let times = done(&machine(4), |times| {
        vec![
            noting("a", 0, times, vec![hold(10), hold(10), run_for(100)]),
            noting("b", 1, times, vec![run_for(1), hold(10)]),
            noting("c", 2, times, vec![run_for(2), hold(10)]),
        ]
    });
    let at: Vec<_> = times.iter().map(|&(name, at)| (name, at / MS)).collect();
    assert_eq!(at, [("b", 30), ("c", 40), ("a", 120)]);
}

#[test]
fn the_holder_of_a_kernel_spinlock_is_not_preempted() {
    let urgent = |times: &Times, ops| TaskSpec {
        policy: SchedPolicy::Fifo { priority: 1 },
        ..noting("urgent", 0, times, ops)
    };
    let after = |op: fn(u64) -> Op| {
        let times = done(&machine(1), |times| {
            vec![
                noting("works", 0, times, vec![op(20)]),
                urgent(times, vec![sleep_for(5)]),
            ]
        });
        times[0]
    };
    let (first, at) = after(run_for);
    assert!(first == "urgent" && at < 6 * MS);
    let (_, at) = after(hold);
    assert!(at >= 20 * MS, "{at}");
}

#[test]
fn a_polling_waiter_gets_a_kernel_lock_before_a_sleeping_one() {
    // A wakeup takes time in this test.
    let times = done(&Machine::find("hp-8s-80c").unwrap(), |times| {
        vec![
            noting("a", 0, times, vec![hold(10)]),
            noting("b", 1, times, vec![run_for(1), hold(10)]),
            noting("c", 2, times, vec![run_for(2), spin(10)]),
            noting("d", 3, times, vec![run_for(3), spin(10)]),
        ]
    });
    let at: Vec<_> = times.iter().map(|&(name, at)| (name, at / MS)).collect();
    assert_eq!(at, [("a", 10), ("c", 20), ("d", 30), ("b", 40)]);
}

#[test]
fn a_polling_waiter_sleeps_when_other_tasks_want_the_cpu() {
    // b polls on CPU 1 until its slice ends, then c runs there and ends before the lock is free.
    let times = done(&machine(2), |times| {
        vec![
            noting("a", 0, times, vec![hold(100)]),
            noting("b", 1, times, vec![run_for(1), spin(10)]),
            noting("c", 1, times, vec![run_for(60)]),
        ]
    });
    let at: Vec<_> = times.iter().map(|&(name, at)| (name, at / MS)).collect();
    let (c, rest) = at.split_first().unwrap();
    assert!(c.0 == "c" && (60..95).contains(&c.1), "{at:?}");
    assert_eq!(rest, [("a", 100), ("b", 110)]);
}

#[test]
fn a_mutex_brings_two_cache_lines_from_its_last_holder() {
    let mut clusters = machine(4);
    clusters.core_types[0].costs.refill_near_ns = 10;
    clusters.core_types[0].costs.refill_far_ns = 100;
    clusters.levels[0].spans = vec![CpuMask::first_n(2), (2..4).collect()];
    clusters.levels.push(Level {
        name: "PKG",
        spans: vec![CpuMask::first_n(4)],
    });
    for (cpu, lines) in [(0, 0), (1, 2 * 10), (2, 2 * 100)] {
        let times = done(&clusters, |times| {
            let first = vec![Op::Lock(0), Op::Unlock(0)];
            let then = vec![sleep_for(5), Op::Lock(0), Op::Unlock(0)];
            vec![
                noting("first", 0, times, first),
                noting("then", cpu, times, then),
            ]
        });
        assert_eq!(times[1].1 - 5 * MS, lines, "{times:?}");
    }
}
