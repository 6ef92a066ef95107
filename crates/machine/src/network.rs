//! The network adapter.

/// A network adapter: what its link carries, and what its packets cost in interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// What the link carries at most one way, kbit of payload a second.
    pub link_kbit: u64,
    /// Payload of a packet, bytes.
    pub packet_bytes: u64,
    /// The CPU that handles its interrupts.
    pub irq_cpu: usize,
    /// A hard interrupt, ns at the CPU's highest frequency.
    pub irq_ns: u64,
    /// Softirq time of a packet that was sent (its completion, and its part of an acknowledgement), and of
    /// one that was received, ns at the CPU's highest frequency.
    pub tx_packet_ns: u64,
    /// See `tx_packet_ns`.
    pub rx_packet_ns: u64,
}

impl Network {
    /// How long a packet is on the link, ns.
    pub fn packet_ns(&self) -> u64 {
        self.packet_bytes * 8 * 1_000_000 / self.link_kbit
    }
}
