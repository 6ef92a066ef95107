//! The network adapter, and the interrupts of its packets.
//!
//! A connection is a stream with a link at its other end. Packets pass the link one after another; then they wait for
//! the adapter's interrupts. A single hard interrupt for all waiting packets raises the softirq. The softirq handles up
//! to 64 packets at a time, and continues (as NAPI does) until no packet waits, or for as long as a softirq may
//! ([`crate::kernel::softirq`]). On USB there is one interrupt for each packet, which reaches the softirq through
//! tasklets ([`crate::hw::usb`]). Transmitted data leaves the stream when its softirq completes, and received data
//! enters it then. The other end always keeps up, and sends as long as there is room. One CPU handles all interrupts
//! and softirqs.

use crate::clock::Jiffies;
use crate::hw::usb::{Tasklets, Usb};
use machine::Driver;
use std::collections::VecDeque;
use workload::{Direction, StreamId};

/// The largest number of packets that a poll handles (`NAPI_POLL_WEIGHT`).
const WEIGHT: u64 = 64;
/// The budget of the network's softirq, in packets and ns (`netdev_budget`, `netdev_budget_usecs`). The softirq ends
/// when the budget is used up, because other softirqs may be pending.
const BUDGET: u64 = 300;
const BUDGET_NS: u64 = 2_000_000;

/// A network adapter with its connections.
pub struct Network {
    adapter: machine::Network,
    connections: Vec<Connection>,
    net_rx: NetRx,
    usb: Usb,
}

/// The network's softirq.
#[derive(Default)]
struct NetRx {
    /// Connections to poll, in turn.
    poll_list: VecDeque<u32>,
    /// The number of packets that the current poll has handled.
    polled: u64,
    /// The number of packets until the softirq ends, and the latest time of its end, in jiffies.
    budget: u64,
    time_limit: u64,
}

/// A stream that is a connection.
struct Connection {
    stream: StreamId,
    direction: Direction,
    /// Whether a packet is on the link.
    on_link: bool,
    /// The number of packets that have passed the link, but have not entered or left the stream's buffer.
    passed: u64,
    /// The number of packets that wait for the softirq.
    waiting: u64,
    /// The number of packets that the softirq is handling.
    handled: u64,
    /// Whether the connection is on a poll list, so that its packets raise no interrupt.
    polling: bool,
}

impl Connection {
    /// Adds a packet that waits for the softirq. Returns whether the packet raises an interrupt, because the connection
    /// is not polled.
    fn packet_waits(&mut self) -> bool {
        self.waiting += 1;
        !std::mem::replace(&mut self.polling, true)
    }
}

/// The result of a softirq: bytes that a stream gets, or loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handled {
    pub connection: u32,
    pub stream: StreamId,
    pub direction: Direction,
    pub bytes: u64,
}

impl Network {
    /// The model of `adapter` with these connections.
    pub fn new(adapter: machine::Network, connections: Vec<(StreamId, Direction)>) -> Network {
        let connection = |(stream, direction)| Connection {
            stream,
            direction,
            on_link: false,
            passed: 0,
            waiting: 0,
            handled: 0,
            polling: false,
        };
        Network {
            adapter,
            connections: connections.into_iter().map(connection).collect(),
            net_rx: NetRx::default(),
            usb: Usb::default(),
        }
    }

    /// The CPU that handles the adapter's interrupts.
    pub fn irq_cpu(&self) -> usize {
        self.adapter.irq_cpu
    }

    /// The duration of a hard interrupt, in ns at the highest frequency.
    pub fn irq_ns(&self) -> u64 {
        self.adapter.irq_ns
    }

    pub fn nr_connections(&self) -> u32 {
        self.connections.len() as u32
    }

    pub fn stream(&self, connection: u32) -> StreamId {
        self.connections[connection as usize].stream
    }

    /// Are packets under way, which may wake a task?
    pub fn is_active(&self) -> bool {
        self.connections
            .iter()
            .any(|connection| connection.on_link || connection.passed > 0)
    }

    /// Puts the next packet of `connection` on the link, if there is one and the link is free, given the bytes in its
    /// stream and the stream's capacity. Returns the time, in ns, when the packet has passed the link.
    pub fn send(&mut self, connection: u32, level: (u64, u64), now: u64) -> Option<u64> {
        let connection = &mut self.connections[connection as usize];
        let packet = self.adapter.packet_bytes;
        let under_way = connection.passed * packet;
        let (used, capacity) = level;
        let more = match connection.direction {
            Direction::Transmit => used >= under_way + packet,
            Direction::Receive => used + under_way + packet <= capacity,
        };
        if connection.on_link || !more {
            return None;
        }
        connection.on_link = true;
        Some(now + self.adapter.packet_ns())
    }

    /// [`Network::send`] for all connections of `stream`. Returns the connections that send, with the times.
    pub fn send_from(
        &mut self,
        stream: StreamId,
        level: (u64, u64),
        now: u64,
    ) -> impl Iterator<Item = (u32, u64)> {
        (0..self.nr_connections()).filter_map(move |connection| {
            let is_of_stream = self.stream(connection) == stream;
            let at = is_of_stream.then(|| self.send(connection, level, now))?;
            Some((connection, at?))
        })
    }

    /// Records that a packet of `connection` has passed the link. Returns whether the adapter raises an interrupt.
    pub fn packet_passed(&mut self, connection: u32) -> bool {
        let connection = &mut self.connections[connection as usize];
        connection.passed += 1;
        match self.adapter.driver {
            Driver::Napi => {
                connection.on_link = false;
                connection.packet_waits()
            }
            Driver::Usbnet => true,
        }
    }

    /// Completes the handler of the interrupt for `connection`, which has raised a softirq.
    pub fn interrupt_done(&mut self, connection: u32) {
        match self.adapter.driver {
            Driver::Napi => self.net_rx.poll_list.push_back(connection),
            Driver::Usbnet => {
                self.connections[connection as usize].on_link = false;
                self.usb.transferred(connection);
            }
        }
    }

    /// The duration of the softirq for a packet, or of each tasklet before it, in ns at the highest frequency.
    fn packet_stage_ns(&self, connection: u32) -> u64 {
        let packet_ns = match self.connections[connection as usize].direction {
            Direction::Transmit => self.adapter.tx_packet_ns,
            Direction::Receive => self.adapter.rx_packet_ns,
        };
        match self.adapter.driver {
            Driver::Napi => packet_ns,
            Driver::Usbnet => packet_ns / 3,
        }
    }

    pub fn net_rx_pending(&self) -> bool {
        !self.net_rx.poll_list.is_empty()
    }

    /// Begins the network's softirq: `net_rx_action()`.
    pub fn begin_net_rx(&mut self, now: Jiffies) {
        self.net_rx.budget = BUDGET;
        self.net_rx.time_limit = now.after(BUDGET_NS);
    }

    /// Completes the current part of the softirq. Call this before the softirq continues.
    pub fn packets_handled(&mut self) -> Option<Handled> {
        let index = *self.net_rx.poll_list.front()?;
        let connection = &mut self.connections[index as usize];
        let packets = std::mem::take(&mut connection.handled);
        connection.passed -= packets;
        (packets > 0).then(|| Handled {
            connection: index,
            stream: connection.stream,
            direction: connection.direction,
            bytes: packets * self.adapter.packet_bytes,
        })
    }

    /// Continues the softirq with the next packets. Returns their duration in ns at the highest frequency, or `None` if
    /// no packet waits or the budget is used up.
    pub fn net_rx(&mut self, now: Jiffies) -> Option<u64> {
        while let Some(&index) = self.net_rx.poll_list.front() {
            let connection = &mut self.connections[index as usize];
            let net_rx = &mut self.net_rx;
            let next = connection.waiting.min(WEIGHT - net_rx.polled);
            if next > 0 {
                connection.waiting -= next;
                connection.handled = next;
                net_rx.polled += next;
                return Some(next * self.packet_stage_ns(index));
            }
            // A connection whose poll did not use up its weight has no packets left, and may interrupt again. Any other
            // connection is polled again after the others.
            net_rx.poll_list.pop_front();
            connection.polling = net_rx.polled == WEIGHT;
            if connection.polling {
                net_rx.poll_list.push_back(index);
            }
            let polled = std::mem::take(&mut net_rx.polled);
            net_rx.budget = net_rx.budget.saturating_sub(polled);
            if net_rx.budget == 0 || now.reached(net_rx.time_limit) {
                return None;
            }
        }
        None
    }

    /// The tasklets of the driver that are scheduled.
    pub fn tasklets(&self) -> Tasklets {
        self.usb.scheduled()
    }

    /// `tasklet_action()`: completes the current part, and continues with the tasklets in `todo`. Returns the duration
    /// of the next part in ns at the highest frequency, or `None` if all of these tasklets are done.
    pub fn tasklet(&mut self, todo: &mut Tasklets) -> Option<u64> {
        if let Some(connection) = self.usb.finish() {
            self.netif_rx(connection);
        }
        let connection = self.usb.begin(todo)?;
        Some(self.packet_stage_ns(connection))
    }

    /// Queues a packet for the network's softirq, and raises the softirq if necessary: `netif_rx()`.
    fn netif_rx(&mut self, connection: u32) {
        if self.connections[connection as usize].packet_waits() {
            self.net_rx.poll_list.push_back(connection);
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Packets of 1000 bytes that take 1 ms on the link, 10 us in an interrupt and 30 us in softirqs.
    pub fn network(driver: Driver, connections: Vec<(StreamId, Direction)>) -> Network {
        let adapter = machine::Network {
            driver,
            link_kbit: 8_000,
            packet_bytes: 1000,
            irq_cpu: 1,
            irq_ns: 10_000,
            tx_packet_ns: 30_000,
            rx_packet_ns: 30_000,
        };
        Network::new(adapter, connections)
    }

    const NOW: fn() -> Jiffies = || Jiffies::at(0, 1_000_000, 0);

    #[test]
    fn a_packet_is_sent_while_there_is_something_to_send_and_the_link_is_free() {
        let mut network = network(Driver::Napi, vec![(0, Direction::Transmit)]);
        assert_eq!(network.send(0, (999, 5000), 0), None);
        assert!(!network.is_active());
        assert_eq!(network.send(0, (2500, 5000), 7), Some(1_000_007));
        assert_eq!(network.send(0, (2500, 5000), 8), None);
        assert!(network.packet_passed(0));
        // Packets that have passed are in the buffer until the softirq has handled them.
        assert_eq!(network.send(0, (1999, 5000), 1_000_007), None);
        assert_eq!(network.send(0, (2500, 5000), 1_000_007), Some(2_000_007));
        assert!(network.is_active());
    }

    #[test]
    fn a_packet_is_received_while_there_is_room() {
        let mut network = network(Driver::Napi, vec![(0, Direction::Receive)]);
        assert_eq!(network.send(0, (1001, 2000), 0), None);
        assert_eq!(network.send(0, (1000, 2000), 0), Some(1_000_000));
        assert!(network.packet_passed(0));
        assert_eq!(network.send(0, (1000, 2000), 1_000_000), None);
    }

    #[test]
    fn a_poll_handles_64_packets_then_it_is_the_others_turn() {
        let streams = vec![(5, Direction::Receive), (6, Direction::Transmit)];
        let mut network = network(Driver::Napi, streams);
        for connection in [0, 1] {
            let interrupts = (0..70).filter(|_| network.packet_passed(connection));
            // There is one interrupt for any number of waiting packets.
            assert_eq!(interrupts.count(), 1);
        }
        network.interrupt_done(0);
        network.interrupt_done(1);
        network.begin_net_rx(NOW());
        let mut handled = Vec::new();
        while let Some(ns) = network.net_rx(NOW()) {
            let done = network.packets_handled().unwrap();
            assert_eq!(ns, done.bytes / 1000 * 30_000);
            handled.push((done.stream, done.bytes / 1000));
        }
        assert_eq!(handled, [(5, 64), (6, 64), (5, 6), (6, 6)]);
        assert!(!network.is_active() && !network.net_rx_pending());
        assert!(network.packet_passed(0));
    }

    #[test]
    fn the_softirq_has_a_budget_of_packets_and_of_time() {
        let mut network = network(Driver::Napi, vec![(0, Direction::Receive)]);
        for _ in 0..1000 {
            network.packet_passed(0);
        }
        network.interrupt_done(0);
        network.begin_net_rx(NOW());
        let mut packets = 0;
        while network.net_rx(NOW()).is_some() {
            packets += network.packets_handled().unwrap().bytes / 1000;
        }
        // The fifth poll exhausts the budget of 300.
        assert_eq!(packets, 5 * 64);
        network.begin_net_rx(NOW());
        let later = Jiffies::at(2_000_000, 1_000_000, 0);
        assert!(network.net_rx(later).is_some());
        assert_eq!(network.packets_handled().unwrap().bytes, 64_000);
        assert_eq!(network.net_rx(later), None);
        assert!(network.net_rx_pending());
    }
}
