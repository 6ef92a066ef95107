//! The network adapter, and the interrupts that its packets make.
//!
//! A connection is a stream with a link at its other end. A packet takes its time on the link, one after
//! the other; then it waits for the adapter's interrupts. The hard interrupt, one for however many wait,
//! raises the softirq, which goes on (as NAPI does) until none waits, up to 64 at a time, and for as long as a
//! softirq may ([`crate::kernel::softirq`]). On USB there is one for each packet, which gets to the softirq by way of tasklets
//! ([`crate::hw::usb`]). What is transmitted leaves the stream when its softirq is done, what is received comes into
//! it then. The other end always keeps up, and sends as long as there is room.

use crate::events::What;
use crate::kernel::Kernel;
use machine::Driver;
use std::collections::VecDeque;
use workload::{Direction, StreamId};

/// Packets that a poll handles at most (`NAPI_POLL_WEIGHT`).
const WEIGHT: u64 = 64;
/// Packets after which the softirq ends, or ns (`netdev_budget`, `netdev_budget_usecs`): others may be pending.
const BUDGET: u64 = 300;
const BUDGET_NS: u64 = 2_000_000;

/// The network's softirq on one CPU.
#[derive(Default)]
pub struct NetRx {
    /// Connections to poll, in turn.
    poll_list: VecDeque<u32>,
    /// Packets of the poll so far.
    polled: u64,
    /// Packets until it ends, and when it does, jiffies.
    budget: u64,
    time_limit: u64,
}

/// A stream that is a connection.
pub struct Connection {
    stream: StreamId,
    direction: Direction,
    /// A packet is on the link.
    on_link: bool,
    /// Packets that have passed it, and are not in the stream's buffer yet or no more.
    passed: u64,
    /// Of these, packets that wait for the softirq.
    waiting: u64,
    /// Packets that the softirq is at.
    handled: u64,
    /// It is on a poll list, and interrupts no more.
    polling: bool,
}

impl Connection {
    /// One more packet waits for the softirq. Is that to be told, as it is not polling?
    fn packet_waits(&mut self) -> bool {
        self.waiting += 1;
        !std::mem::replace(&mut self.polling, true)
    }

    pub fn all(connections: Vec<(StreamId, Direction)>) -> Vec<Connection> {
        let connection = |(stream, direction)| Connection {
            stream,
            direction,
            on_link: false,
            passed: 0,
            waiting: 0,
            handled: 0,
            polling: false,
        };
        connections.into_iter().map(connection).collect()
    }
}

impl Kernel<'_> {
    /// The connections begin: senders to this machine have something to send.
    pub fn start_connections(&mut self) {
        let network = self.machine.network.as_ref();
        if let Some(network) = network.filter(|_| !self.hw.connections.is_empty()) {
            self.start_ksoftirqd(network.irq_cpu);
        }
        for index in 0..self.hw.connections.len() {
            self.use_link(index);
        }
    }

    /// Packets are under way, which may wake a task.
    pub fn network_is_active(&self) -> bool {
        self.hw
            .connections
            .iter()
            .any(|connection| connection.on_link || connection.passed > 0)
    }

    /// Something was written to `stream` or read from it.
    #[inline]
    pub fn stream_changed(&mut self, stream: StreamId) {
        if self.hw.connections.is_empty() {
            return;
        }
        for index in 0..self.hw.connections.len() {
            if self.hw.connections[index].stream == stream {
                self.use_link(index);
            }
        }
    }

    /// Puts the next packet on the link, if there is one and the link is free.
    fn use_link(&mut self, index: usize) {
        let Some(network) = &self.machine.network else {
            return;
        };
        let connection = &self.hw.connections[index];
        if connection.on_link {
            return;
        }
        let (used, capacity) = self.programs.streams.level(connection.stream);
        let under_way = connection.passed * network.packet_bytes;
        let more = match connection.direction {
            Direction::Transmit => used >= under_way + network.packet_bytes,
            Direction::Receive => used + under_way + network.packet_bytes <= capacity,
        };
        if more {
            let at = self.now() + network.packet_ns();
            self.hw.connections[index].on_link = true;
            let connection = index as u32;
            self.events.push(at, What::Packet { connection });
        }
    }

    /// A packet has passed the link.
    pub fn packet_passed(&mut self, index: usize) {
        let Some(network) = &self.machine.network else {
            return;
        };
        let connection = &mut self.hw.connections[index];
        connection.passed += 1;
        match network.driver {
            Driver::Napi => {
                connection.on_link = false;
                let raise = connection.packet_waits();
                self.use_link(index);
                if raise {
                    self.network_interrupt(index);
                }
            }
            Driver::Usbnet => self.network_interrupt(index),
        }
    }

    fn network_interrupt(&mut self, index: usize) {
        let Some(network) = &self.machine.network else {
            return;
        };
        let (cpu, irq_ns) = (network.irq_cpu, network.irq_ns);
        let mut at = self.now() + self.cpus[cpu].kernel_time(irq_ns);
        if self.cpus[cpu].curr.is_none() {
            at += self.idle_exit_ns(cpu);
            self.cpus[cpu].idle_since = self.cpus[cpu].idle_since.max(at);
        }
        let connection = index as u32;
        self.events.push(at, What::NetworkInterrupt { connection });
        self.enter(cpu);
        self.charge_irq(cpu, irq_ns);
        self.leave(cpu);
    }

    /// Its handler is done.
    pub fn network_interrupt_done(&mut self, index: usize) {
        let Some(network) = &self.machine.network else {
            return;
        };
        let cpu = network.irq_cpu;
        match network.driver {
            Driver::Napi => self.cpus[cpu].net_rx.poll_list.push_back(index as u32),
            Driver::Usbnet => {
                self.hw.connections[index].on_link = false;
                self.use_link(index);
                self.cpus[cpu].usb.transferred(index);
            }
        }
        self.irq_exit(cpu);
    }

    /// A packet for the network's softirq, which is raised unless it was: `netif_rx()`.
    pub fn netif_rx(&mut self, cpu: usize, index: usize) {
        if self.hw.connections[index].packet_waits() {
            self.cpus[cpu].net_rx.poll_list.push_back(index as u32);
        }
    }

    /// What the softirq takes for a packet, or the tasklets before it, ns at the highest frequency.
    pub fn packet_stage_ns(&self, index: usize) -> u64 {
        let Some(network) = &self.machine.network else {
            return 0;
        };
        let packet_ns = match self.hw.connections[index].direction {
            Direction::Transmit => network.tx_packet_ns,
            Direction::Receive => network.rx_packet_ns,
        };
        match network.driver {
            Driver::Napi => packet_ns,
            Driver::Usbnet => packet_ns / 3,
        }
    }

    /// Connections wait to be polled on `cpu`.
    pub fn net_rx_pending(&self, cpu: usize) -> bool {
        !self.cpus[cpu].net_rx.poll_list.is_empty()
    }

    /// The network's softirq begins: `net_rx_action()`.
    pub fn begin_net_rx(&mut self, cpu: usize) {
        let time_limit = self.jiffies() + self.to_jiffies(BUDGET_NS);
        let net_rx = &mut self.cpus[cpu].net_rx;
        net_rx.budget = BUDGET;
        net_rx.time_limit = time_limit;
    }

    /// It is done with the packets that it was at. Returns what the next take, ns at the highest frequency, or `None`:
    /// none waits, or these are enough for now.
    pub fn net_rx(&mut self, cpu: usize) -> Option<u64> {
        while let Some(&index) = self.cpus[cpu].net_rx.poll_list.front() {
            let index = index as usize;
            self.packets_handled(index);
            let connection = &mut self.hw.connections[index];
            let net_rx = &mut self.cpus[cpu].net_rx;
            let next = connection.waiting.min(WEIGHT - net_rx.polled);
            if next > 0 {
                connection.waiting -= next;
                connection.handled = next;
                net_rx.polled += next;
                return Some(next * self.packet_stage_ns(index));
            }
            // One that has no more may interrupt again; else it is its turn again after the others.
            net_rx.poll_list.pop_front();
            connection.polling = net_rx.polled == WEIGHT;
            if connection.polling {
                net_rx.poll_list.push_back(index as u32);
            }
            net_rx.budget = net_rx
                .budget
                .saturating_sub(std::mem::take(&mut net_rx.polled));
            if net_rx.budget == 0 || self.jiffies() >= self.cpus[cpu].net_rx.time_limit {
                return None;
            }
        }
        None
    }

    /// The stream has what the softirq has done with its packets, which may wake a task.
    fn packets_handled(&mut self, index: usize) {
        let connection = &mut self.hw.connections[index];
        let packets = std::mem::take(&mut connection.handled);
        connection.passed -= packets;
        let (stream, direction) = (connection.stream, connection.direction);
        let Some(network) = self.machine.network.as_ref().filter(|_| packets > 0) else {
            return;
        };
        let bytes = packets * network.packet_bytes;
        match direction {
            Direction::Transmit => self.sent(stream, bytes),
            Direction::Receive => self.received(stream, bytes),
        }
        self.use_link(index);
    }
}
