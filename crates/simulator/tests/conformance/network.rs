//! The network adapter: the throughput of its link, of interrupts and of softirqs, and the tasks
//! that lose time to these.

use crate::support::*;
use machine::{Driver, Machine, Network};
use simulator::{Deadlock, Error};
use workload::{Direction, Op, Start, StreamKind, Workload};

/// Packets of 1000 bytes that take 1 ms on the link, and `packet_ns` in the softirqs of CPU 1.
fn networked(driver: Driver, packet_ns: u64) -> Machine {
    Machine {
        network: Some(Network {
            driver,
            link_kbit: 8_000,
            packet_bytes: 1000,
            irq_cpu: 1,
            irq_ns: 10_000,
            tx_packet_ns: packet_ns,
            rx_packet_ns: packet_ns,
        }),
        ..machine(2)
    }
}

/// Moves 100 packets, one at a time, over a connection that holds ten.
fn hundred(direction: Direction) -> Script<impl Fn() -> Start + Send + Sync> {
    Script(move || {
        let (stream, bytes, work) = (0, 1000, 1000);
        let op = move || match direction {
            Direction::Transmit => Op::Write {
                stream,
                bytes,
                work,
            },
            Direction::Receive => Op::Read {
                stream,
                bytes,
                work,
            },
        };
        let ops: Vec<Op> = (0..100).map(|_| op()).collect();
        Start {
            tasks: vec![bound("a", 0, ops)],
            streams: vec![StreamKind::TcpSocket.holding(10_000)],
            connections: vec![(0, direction)],
            ..Start::default()
        }
    })
}

/// A task of CPU 0 reads `packets` packets, one at a time, from a connection that holds `capacity`
/// bytes, while another task does `compute` on CPU 1.
fn received_beside(packets: usize, capacity: u64, compute: Op) -> Start {
    let read = || Op::Read {
        stream: 0,
        bytes: 1000,
        work: 1000,
    };
    Start {
        tasks: vec![
            bound("reads", 0, (0..packets).map(|_| read()).collect::<Vec<_>>()),
            bound("computes", 1, vec![compute]),
        ],
        streams: vec![StreamKind::TcpSocket.holding(capacity)],
        connections: vec![(0, Direction::Receive)],
        ..Start::default()
    }
}

fn time_and_irq(machine: &Machine, direction: Direction) -> (u64, u64) {
    let ran = run(machine, &hundred(direction), &scheduler(FIFO, "FIFO_OPS"));
    let counters = &ran.outcome.counters;
    assert_eq!(counters.irq_ns[0], 0);
    (ran.outcome.simulated_ns, counters.irq_ns[1])
}

fn traced(machine: &Machine, workload: &impl Workload) -> (Ran, Recording) {
    record(machine, workload, &scheduler(FIFO, "FIFO_OPS"))
}

/// The time when the task called `name` ended, in ns.
fn exit_of(trace: &Recording, name: &str) -> u64 {
    let mut exits = trace.text.lines().filter(|line| line.contains("Exit"));
    let exit = exits.find(|line| line.contains(name)).unwrap();
    exit.split(' ').next().unwrap().parse().unwrap()
}

/// A kernel thread that waits for work takes no part in a deadlock.
#[test]
fn ksoftirqd_is_not_in_a_deadlock() {
    let workload = Script(|| Start {
        tasks: vec![task("a", [Op::Lock(0), Op::Wait { cond: 0, mutex: 0 }])],
        mutexes: 1,
        condvars: 1,
        streams: vec![StreamKind::TcpSocket.holding(10_000)],
        connections: vec![(0, Direction::Transmit)],
        ..Start::default()
    });
    let (machine, fifo) = (
        networked(Driver::Napi, 100_000),
        scheduler(FIFO, "FIFO_OPS"),
    );
    let Err(Error::Deadlock(Deadlock { waiting, .. })) =
        try_run(&machine, &workload, &fifo, &[], None)
    else {
        panic!("the run has no deadlock");
    };
    assert!(waiting.contains("waits for a condition"), "{waiting}");
    assert!(!waiting.contains("ksoftirqd"), "{waiting}");
}

#[test]
fn a_quick_softirq_leaves_the_link_as_the_limit() {
    let machine = networked(Driver::Napi, 100_000);
    let (time, irq) = time_and_irq(&machine, Direction::Receive);
    assert!((100 * MS..102 * MS).contains(&time), "{time}");
    // Each packet is handled before the next comes: an interrupt and its softirq.
    assert!(irq.abs_diff(100 * 110_000) <= 2 * 110_000, "{irq}");
    // The task writes ten packets. Whenever at most two thirds of them are left, it writes as many as there is room
    // for: four after 4, 8, ... packets have been sent. The last two of the hundred follow the 92nd.
    let (time, _) = time_and_irq(&machine, Direction::Transmit);
    assert!((92 * MS..94 * MS).contains(&time), "{time}");
}

#[test]
fn a_slow_softirq_is_the_limit() {
    let machine = networked(Driver::Napi, 2_000_000);
    let (time, irq) = time_and_irq(&machine, Direction::Receive);
    assert!((200 * MS..212 * MS).contains(&time), "{time}");
    // One interrupt is enough, because packets wait all the time. The softirq's first poll handles 64 packets, which
    // exceeds the time limit, so ksoftirqd does the rest.
    assert_eq!(irq, 64 * 2 * MS + 10_000);
}

#[test]
fn a_transfer_waits_for_the_interrupt_of_the_last() {
    let machine = networked(Driver::Usbnet, 90_000);
    // The softirqs of one packet complete while the next one is on the bus.
    let (time, irq) = time_and_irq(&machine, Direction::Receive);
    let cycle = MS + 10_000;
    assert!((100 * cycle..101 * cycle).contains(&time), "{time}");
    assert!(irq.abs_diff(100 * 100_000) <= 2 * 100_000, "{irq}");
    // As with an adapter whose link continues by itself, the last packets are written after the 92nd has been sent.
    let (time, _) = time_and_irq(&machine, Direction::Transmit);
    assert!((92 * cycle..93 * cycle).contains(&time), "{time}");
}

#[test]
fn interrupts_hold_up_the_softirqs_that_they_come_into() {
    // A packet for the task of CPU 0 arrives after 1 ms and takes 6 ms in the softirq of CPU 1, which has a
    // tick every 4 ms because a task computes there.
    let mut machine = networked(Driver::Napi, 6_000_000);
    machine.core_types[0].costs.tick_ns = 50_000;
    let workload = Script(|| received_beside(1, 1000, run_for(20)));
    let (_, trace) = traced(&machine, &workload);
    let at = exit_of(&trace, "reads");
    let done = MS + 10_000 + 6 * MS;
    assert!((done + 50_000..done + 110_000).contains(&at), "{at}");
}

/// For half a second, packets for a task of CPU 0 arrive every 10 us, or as soon as the interrupts of earlier packets
/// are over. Meanwhile a task computes for 100 ms on the CPU of the interrupts, where each packet takes `packet_ns` of
/// softirq. Returns the time when the task ended, and the interrupts' time, in ns.
fn flooded(driver: Driver, packet_ns: u64) -> (u64, u64) {
    let mut machine = networked(driver, packet_ns);
    machine.network.as_mut().unwrap().link_kbit = 800_000;
    let workload = Script(|| Start {
        duration_ns: Some(500 * MS),
        ..received_beside(100_000, 100_000, run_for(100))
    });
    let (ran, trace) = traced(&machine, &workload);
    (exit_of(&trace, "computes"), ran.outcome.counters.irq_ns[1])
}

#[test]
fn a_flood_of_packets_leaves_time_for_tasks() {
    // There are too many packets: ksoftirqd and the task share the CPU.
    let (done, irq) = flooded(Driver::Napi, 15_000);
    assert!((150 * MS..250 * MS).contains(&done), "{done}");
    assert!(irq < 50 * MS, "{irq}");
    // Every 20 us there are an interrupt of 10 us and the two packets that have arrived by then, so
    // interrupts handle all packets.
    let (done, irq) = flooded(Driver::Napi, 2_000);
    assert!(done.abs_diff(100 * MS * 20 / 6) < 10 * MS, "{done}");
    assert!(irq.abs_diff(500 * MS * 14 / 20) < 10 * MS, "{irq}");
}

#[test]
fn tasklets_are_left_to_the_daemon() {
    // The softirqs of a packet take longer than the interval to the next one. After ten rounds they are left
    // to ksoftirqd, and so are all others as long as it is runnable. While the task computes, each 70 us
    // consist of 10 for an interrupt, 30 for the daemon and 30 for the task; afterwards a packet takes 40 us.
    let (done, irq) = flooded(Driver::Usbnet, 30_000);
    let expected = 100 * MS * 70 / 30;
    // The tasks take turns of 20 ms.
    assert!(done.abs_diff(expected) < 25 * MS, "{done}");
    let expected = expected * 10 / 70 + (500 * MS - expected) * 10 / 40;
    assert!(irq.abs_diff(expected) < 8 * MS, "{irq}");
    // Interrupts handle all packets while they can: they need 14 us of 20.
    let (done, irq) = flooded(Driver::Usbnet, 4_000);
    assert!(irq.abs_diff(500 * MS * 14 / 20) < 10 * MS, "{irq}");
    assert!(done.abs_diff(100 * MS * 20 / 6) < 10 * MS, "{done}");
}

#[test]
fn a_kernel_thread_is_known_from_its_beginning_and_a_process_has_memory_of_its_own() {
    let text = format!(
        "{FIFO}
        s32 BPF_STRUCT_OPS(know, struct task_struct *p, struct scx_init_task_args *args)
        {{
            if (p->flags & PF_KTHREAD)
                note(\"kernel\", p, !p->mm);
            else
                note(\"process\", p, p->mm ? p->mm->id : 0);
            return 0;
        }}"
    );
    let scheduler = scheduler(&text, "FIFO_OPS, .init_task = (void *)know");
    let machine = networked(Driver::Napi, 100_000);
    let workload = Script(|| received_beside(1, 1000, run_for(1)));
    let ran = run(&machine, &workload, &scheduler);
    assert_eq!(ran.numbers("kernel"), [1]);
    let processes = ran.numbers("process");
    assert!(
        matches!(processes[..], [a, b] if a > 0 && b > 0 && a != b),
        "{processes:?}"
    );
}
