//! The network adapter: what its link, its interrupts and its softirq let through, and whose time it is.

use crate::support::*;
use machine::{Machine, Network};
use workload::{Direction, Op, Start};

/// Packets of 1000 bytes that take 1 ms on the link, and so long in the softirq of CPU 1.
fn networked(packet_ns: u64) -> Machine {
    Machine {
        network: Some(Network {
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
            streams: vec![10_000],
            connections: vec![(0, direction)],
            ..Start::default()
        }
    })
}

fn time_and_irq(packet_ns: u64, direction: Direction) -> (u64, u64) {
    let ran = run(
        &networked(packet_ns),
        &hundred(direction),
        &scheduler(FIFO, "FIFO_OPS"),
    );
    let counters = &ran.outcome.counters;
    assert_eq!(counters.irq_ns[0], 0);
    (ran.outcome.simulated_ns, counters.irq_ns[1])
}

#[test]
fn a_quick_softirq_leaves_the_link_as_the_limit() {
    let (time, irq) = time_and_irq(100_000, Direction::Receive);
    assert!((100 * MS..102 * MS).contains(&time), "{time}");
    // Each packet is handled before the next comes: an interrupt and its softirq.
    assert!(irq.abs_diff(100 * 110_000) <= 2 * 110_000, "{irq}");
    // The task writes ten, and as many as there is room for each time that two thirds of ten are left: four
    // after 4, 8, ... sent. The last two of the hundred follow the 92nd.
    let (time, _) = time_and_irq(100_000, Direction::Transmit);
    assert!((92 * MS..94 * MS).contains(&time), "{time}");
}

#[test]
fn a_slow_softirq_is_the_limit() {
    let (time, irq) = time_and_irq(2_000_000, Direction::Receive);
    assert!((200 * MS..212 * MS).contains(&time), "{time}");
    // One interrupt starts it all, as packets wait all the time. A poll of 64 is the least that a softirq does, and
    // that is more than its time: the rest is ksoftirqd's.
    assert_eq!(irq, 64 * 2 * MS + 10_000);
}

/// Packets come every 10 us to a task of CPU 0, for half a second, and a task is to compute for 100 ms on the CPU
/// of their interrupts, where each takes `packet_ns` of softirq: when it is done, and what interrupts took. ns
fn flooded(packet_ns: u64) -> (u64, u64) {
    let mut machine = networked(packet_ns);
    machine.network.as_mut().unwrap().link_kbit = 800_000;
    let (stream, bytes, work) = (0, 1000, 1000);
    let read = move || Op::Read {
        stream,
        bytes,
        work,
    };
    let workload = Script(move || Start {
        tasks: vec![
            bound("reads", 0, (0..100_000).map(|_| read()).collect::<Vec<_>>()),
            bound("computes", 1, vec![run_for(100)]),
        ],
        streams: vec![100_000],
        connections: vec![(0, Direction::Receive)],
        duration_ns: Some(500 * MS),
        ..Start::default()
    });
    let mut trace = Recording::default();
    let ran = try_run(
        &machine,
        &workload,
        &scheduler(FIFO, "FIFO_OPS"),
        &[],
        Some(&mut trace),
    )
    .unwrap();
    let mut exits = trace.text.lines().filter(|line| line.contains("Exit"));
    let exit = exits.find(|line| line.contains("computes")).unwrap();
    let done = exit.split(' ').next().unwrap().parse().unwrap();
    (done, ran.outcome.counters.irq_ns[1])
}

#[test]
fn a_flood_of_packets_leaves_time_for_tasks() {
    // Too much: ksoftirqd and the task share the CPU.
    let (done, irq) = flooded(15_000);
    assert!((150 * MS..250 * MS).contains(&done), "{done}");
    assert!(irq < 50 * MS, "{irq}");
    // An interrupt of 10 us and the two packets that came by then, and so every 20 us: interrupts do it all.
    let (done, irq) = flooded(2_000);
    assert!(done.abs_diff(100 * MS * 20 / 6) < 10 * MS, "{done}");
    assert!(irq.abs_diff(500 * MS * 14 / 20) < 10 * MS, "{irq}");
}
