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
    // The task writes ten, and as many as there is room for each time that a quarter of ten is left: two
    // after 8, 16, ... sent. The last two of the hundred follow the 96th.
    let (time, _) = time_and_irq(100_000, Direction::Transmit);
    assert!((96 * MS..98 * MS).contains(&time), "{time}");
}

#[test]
fn a_slow_softirq_is_the_limit() {
    let (time, irq) = time_and_irq(2_000_000, Direction::Receive);
    assert!((200 * MS..212 * MS).contains(&time), "{time}");
    // One interrupt starts it all, as packets wait all the time.
    assert!(time - irq < 4 * MS, "{time} {irq}");
}
