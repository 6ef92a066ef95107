//! The network adapter.

use serde::Deserialize;

/// How an adapter's packets get to its CPU and on to the network's softirq.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// The link goes on by itself. An interrupt starts a poll, and no other comes until no packet waits (NAPI).
    #[default]
    Napi,
    /// An adapter on USB, as Linux's `drivers/net/usb/usbnet.c` works it behind `drivers/usb/dwc2`: each packet is a
    /// transfer of its own with its own interrupt, whose handler lets the next one begin. What is left to do is done
    /// in two tasklets, the host controller's and the driver's, and then in the network's softirq. Each is taken
    /// to have a third of a packet's softirq time, an assumption.
    Usbnet,
}

/// A network adapter: what its link carries, and what its packets cost in interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// How its packets get to their CPU.
    pub driver: Driver,
    /// What the link carries at most one way, kbit of payload a second.
    pub link_kbit: u64,
    /// Payload of a packet, bytes.
    pub packet_bytes: u64,
    /// The CPU that handles its interrupts.
    pub irq_cpu: usize,
    /// A hard interrupt, ns at the CPU's highest frequency.
    pub irq_ns: u64,
    /// Time in softirqs of a packet that was sent (its completion, and its part of an acknowledgement), and of
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
