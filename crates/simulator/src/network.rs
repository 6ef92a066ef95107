//! The network adapter, and the interrupts that its packets make.
//!
//! A connection is a stream with a link at its other end. A packet takes its time on the link, one after
//! the other; then it waits for the adapter's interrupts. The hard interrupt, one for however many wait,
//! starts the softirq, which goes on (as NAPI does) until none waits, up to 64 at a time. What is
//! transmitted leaves the stream when its softirq is done, what is received comes into it then. The other
//! end always keeps up, and sends as long as there is room. There is no ksoftirqd: all of it is interrupt
//! time.

use crate::events::What;
use crate::kernel::Kernel;
use workload::{Direction, StreamId};

/// Packets that a poll handles at most (`NAPI_POLL_WEIGHT`).
const WEIGHT: u64 = 64;

/// A stream that is a connection.
pub struct Connection {
    stream: StreamId,
    direction: Direction,
    /// A packet is on the link.
    on_link: bool,
    /// Packets that wait for the softirq.
    waiting: u64,
    /// Packets that the softirq is at; `polling` also before it has any.
    polled: u64,
    polling: bool,
}

impl Connection {
    pub fn all(connections: Vec<(StreamId, Direction)>) -> Vec<Connection> {
        let connection = |(stream, direction)| Connection {
            stream,
            direction,
            on_link: false,
            waiting: 0,
            polled: 0,
            polling: false,
        };
        connections.into_iter().map(connection).collect()
    }
}

impl Kernel<'_> {
    /// The connections begin: senders to this machine have something to send.
    pub fn start_connections(&mut self) {
        for index in 0..self.connections.len() {
            self.use_link(index);
        }
    }

    /// Packets are under way, which may wake a task.
    pub fn network_is_active(&self) -> bool {
        self.connections
            .iter()
            .any(|connection| connection.on_link || connection.polling)
    }

    /// Something was written to `stream` or read from it.
    #[inline]
    pub fn stream_changed(&mut self, stream: StreamId) {
        if self.connections.is_empty() {
            return;
        }
        for index in 0..self.connections.len() {
            if self.connections[index].stream == stream {
                self.use_link(index);
            }
        }
    }

    /// Puts the next packet on the link, if there is one and the link is free.
    fn use_link(&mut self, index: usize) {
        let Some(network) = &self.machine.network else {
            return;
        };
        let connection = &self.connections[index];
        if connection.on_link {
            return;
        }
        let (used, capacity) = self.objects.stream_level(connection.stream);
        let under_way = (connection.waiting + connection.polled) * network.packet_bytes;
        let more = match connection.direction {
            Direction::Transmit => used >= under_way + network.packet_bytes,
            Direction::Receive => used + under_way + network.packet_bytes <= capacity,
        };
        if more {
            let at = self.now() + network.packet_ns();
            self.connections[index].on_link = true;
            let connection = index as u32;
            self.events.push(at, What::Packet { connection });
        }
    }

    /// A packet has passed the link.
    pub fn packet_passed(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.on_link = false;
        connection.waiting += 1;
        let raise = !connection.polling;
        self.use_link(index);
        if raise {
            self.network_interrupt(index);
        }
    }

    fn network_interrupt(&mut self, index: usize) {
        let Some(network) = &self.machine.network else {
            return;
        };
        let (cpu, irq_ns) = (network.irq_cpu, network.irq_ns);
        self.connections[index].polling = true;
        let mut at = self.now() + self.kernel_time(cpu, irq_ns);
        if self.cpus[cpu].curr.is_none() {
            at += self.cpus[cpu].idle_exit_ns(self.now());
            self.cpus[cpu].idle_since = at;
        }
        let connection = index as u32;
        self.events.push(at, What::Softirq { connection });
        self.enter(cpu);
        self.charge_irq(cpu, irq_ns);
        self.leave(cpu);
    }

    /// The softirq is done with the packets that it was at, and takes the next, if any.
    pub fn network_softirq(&mut self, index: usize) {
        let Some(network) = &self.machine.network else {
            return;
        };
        let (cpu, packet_bytes) = (network.irq_cpu, network.packet_bytes);
        let connection = &mut self.connections[index];
        let (stream, direction) = (connection.stream, connection.direction);
        let done = std::mem::take(&mut connection.polled);
        let packet_ns = match direction {
            Direction::Transmit => network.tx_packet_ns,
            Direction::Receive => network.rx_packet_ns,
        };
        self.enter(cpu);
        if done > 0 {
            match direction {
                Direction::Transmit => self.sent(stream, done * packet_bytes),
                Direction::Receive => self.received(stream, done * packet_bytes),
            }
            self.use_link(index);
        }
        let connection = &mut self.connections[index];
        let next = connection.waiting.min(WEIGHT);
        connection.waiting -= next;
        connection.polled = next;
        connection.polling = next > 0;
        if next > 0 {
            let at = self.now() + self.kernel_time(cpu, next * packet_ns);
            let connection = index as u32;
            self.events.push(at, What::Softirq { connection });
            self.charge_irq(cpu, next * packet_ns);
            if self.cpus[cpu].curr.is_none() {
                self.cpus[cpu].idle_since = at;
            }
        }
        self.leave(cpu);
    }
}
