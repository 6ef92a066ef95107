//! The flags of wakeups, and how schedulers treat a wakeup whose waker exits.

use crate::support::*;
use machine::CpuMask;
use simulator::{WAKEUPS, Wakeup};
use workload::{KernelLock, Op, Start, Stream, StreamKind, TaskSpec};

/// Records whether each wakeup of a task is synchronous.
const FLAGS: &str = r#"
s32 BPF_STRUCT_OPS(flags_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool idle;

	if (wake_flags & SCX_WAKE_TTWU)
		note("woken", p, !!(wake_flags & SCX_WAKE_SYNC));
	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
}
"#;

/// The tasks of a wakeup: `woken` is woken by `waker`, if it has one.
fn start(woken: Vec<Op>, waker: Vec<Op>, stream: Stream) -> Start {
    Start {
        tasks: vec![task("woken", woken), task("waker", waker)],
        mutexes: 1,
        streams: vec![stream, StreamKind::Futex.holding(1)],
        ..Start::default()
    }
}

fn read(stream: u32) -> Op {
    Op::Read {
        stream,
        bytes: 1,
        work: 0,
    }
}

fn write(stream: u32) -> Op {
    Op::Write {
        stream,
        bytes: 1,
        work: 0,
    }
}

fn fork(child: TaskSpec) -> Op {
    Op::Fork {
        child: Box::new(child),
        work: 0,
    }
}

/// `woken` waits for data, which `waker` writes.
fn reader(kind: StreamKind) -> Start {
    start(vec![read(0)], vec![run_for(2), write(0)], kind.holding(1))
}

/// `woken` waits for room, which `waker` makes.
fn writer(kind: StreamKind) -> Start {
    start(
        vec![write(0), write(0)],
        vec![run_for(2), read(0)],
        kind.holding(1),
    )
}

/// `woken` waits for a lock of the kernel, whose holder sleeps and then releases it.
fn kernel_lock(kind: KernelLock) -> Start {
    let hold = |keeps| Op::Hold {
        mutex: 0,
        work: 0,
        lines: 0,
        nodes: 0,
        kind,
        keeps,
        if_locked: false,
    };
    let mut start = start(
        vec![run_for(1), hold(false)],
        vec![hold(true), read(1), Op::Release(0)],
        StreamKind::Pipe.holding(1),
    );
    start.tasks.push(task("writer", [run_for(5), write(1)]));
    start
}

/// A load with such a wakeup of the task `woken`.
fn load(wakeup: Wakeup) -> Start {
    let none = StreamKind::Pipe.holding(1);
    let child = || fork(task("waker", [run_for(2)]));
    match wakeup {
        Wakeup::Timer => start(vec![sleep_for(1)], vec![], none),
        Wakeup::Softirq => unreachable!("ksoftirqd has one CPU"),
        Wakeup::Futex => {
            let waker = vec![Op::Lock(0), run_for(5), Op::Unlock(0)];
            start(vec![run_for(1), Op::Lock(0), Op::Unlock(0)], waker, none)
        }
        Wakeup::ThreadExit => start(vec![child(), Op::Join], vec![], none),
        Wakeup::ChildExit => start(vec![child(), Op::WaitChildren], vec![], none),
        Wakeup::Mutex => kernel_lock(KernelLock::Mutex),
        Wakeup::Rwsem => kernel_lock(KernelLock::Rwsem),
        Wakeup::PipeReader => reader(StreamKind::Pipe),
        Wakeup::PipeWriter => writer(StreamKind::Pipe),
        Wakeup::UnixReader => reader(StreamKind::UnixSocket),
        Wakeup::UnixWriter => writer(StreamKind::UnixSocket),
        Wakeup::TcpReader => reader(StreamKind::TcpSocket),
        Wakeup::TcpWriter => writer(StreamKind::TcpSocket),
        Wakeup::WaitQueue => reader(StreamKind::WaitQueue),
        Wakeup::Signal => reader(StreamKind::Signal),
        Wakeup::Recorded => reader(StreamKind::Recorded),
    }
}

/// The kernel functions that set the flag are the same in all versions that the table names; this was checked in the
/// sources of 3.10 and 6.12.
#[test]
fn each_kind_of_wakeup_has_the_flags_of_linux() {
    let ops = "FIFO_OPS, .select_cpu = (void *)flags_select_cpu";
    let scheduler = scheduler(&format!("{FIFO}{FLAGS}"), ops);
    let expected = [
        (Wakeup::Timer, 0),
        (Wakeup::Futex, 0),
        (Wakeup::ThreadExit, 0),
        (Wakeup::ChildExit, 1),
        (Wakeup::Mutex, 0),
        (Wakeup::Rwsem, 0),
        (Wakeup::PipeReader, 1),
        (Wakeup::PipeWriter, 1),
        (Wakeup::UnixReader, 1),
        (Wakeup::UnixWriter, 1),
        (Wakeup::TcpReader, 1),
        (Wakeup::TcpWriter, 0),
        (Wakeup::WaitQueue, 0),
        (Wakeup::Signal, 0),
        (Wakeup::Recorded, 0),
    ];
    // The remaining row is that of ksoftirqd, which may run only on one CPU, so the kernel does not ask a scheduler.
    assert_eq!(expected.len() + 1, WAKEUPS.len());
    for (wakeup, sync) in expected {
        let ran = run(&machine(4), &Script(|| load(wakeup)), &scheduler);
        let lines = ran.lines().into_iter();
        let flags: Vec<i64> = lines
            .filter(|line| line.what == "woken" && line.task == "woken")
            .map(|line| line.number)
            .collect();
        assert_eq!(flags, [sync], "{wakeup:?}");
    }
}

#[test]
fn each_exit_of_a_child_wakes_its_parent_and_the_last_exit_of_a_thread_does() {
    let ops = "FIFO_OPS, .select_cpu = (void *)flags_select_cpu";
    let scheduler = scheduler(&format!("{FIFO}{FLAGS}"), ops);
    let wakeups = |threads: bool| {
        let child = |ms| fork(task("child", [run_for(ms)]));
        let load = tasks(move || {
            let wait = if threads { Op::Join } else { Op::WaitChildren };
            [task("woken", [child(2), child(4), wait])]
        });
        run(&machine(4), &load, &scheduler).tasks("woken").len()
    };
    assert_eq!(wakeups(false), 2);
    assert_eq!(wakeups(true), 1);
}

/// The CPU on which a process runs after it has waited for a child. The parent last ran on CPU 0,
/// where a loop has run since; the child exits on CPU 1.
fn parents_cpu(policy: &str) -> u64 {
    let workload = Script(|| {
        let child = bound("child", 1, [run_for(200)]);
        let parent = [
            Op::SetAffinity(Box::new(CpuMask::one(0))),
            run_for(50),
            fork(child),
            Op::SetAffinity(Box::new(CpuMask::first_n(2))),
            Op::WaitChildren,
            run_for(2),
        ];
        Start {
            tasks: vec![task("parent", parent), bound("loop", 0, [run_for(400)])],
            ..Start::default()
        }
    });
    let mut machine = machine(2);
    machine.levels = two_caches();
    let mut trace = Recording::default();
    simulate(&machine, policy, &workload, 1, &mut trace);
    let mut wakeups = trace.text.lines().filter(|line| {
        line.contains("Wakeup") && line.contains("(\"parent\"") && line.contains("new: false")
    });
    let last = wakeups.next_back().unwrap();
    let target = last.split("target_cpu: ").nth(1).unwrap();
    target.split(',').next().unwrap().parse().unwrap()
}

#[test]
fn a_waker_that_exits_makes_room_in_linux_3_and_not_since_it_looks_at_the_flag_of_exiting() {
    assert_eq!(parents_cpu("cfs"), 1);
    assert_eq!(parents_cpu("cfs-3.10"), 1);
    assert_eq!(parents_cpu("eevdf-6.12"), 0);
    assert_eq!(parents_cpu("eevdf"), 0);
}
