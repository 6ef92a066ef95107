//! The network adapter.

use serde::Deserialize;

/// The path of an adapter's packets to its CPU and the network's softirq.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// The link continues by itself. An interrupt starts a poll, and the next interrupt comes only
    /// when no packet waits any more (NAPI).
    #[default]
    Napi,
    /// An adapter on USB, as driven by Linux's `drivers/net/usb/usbnet.c` behind
    /// `drivers/usb/dwc2`: each packet is a transfer of its own with its own interrupt, whose
    /// handler starts the next one. The remaining work is done in two tasklets, the host
    /// controller's and the driver's, and then in the network's softirq. Each is assumed to take a
    /// third of a packet's softirq time.
    Usbnet,
}

/// A network adapter: the capacity of its link, and the interrupt costs of its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The path of its packets to their CPU.
    pub driver: Driver,
    /// The capacity of the link in one direction, kbit of payload per second.
    pub link_kbit: u64,
    /// Payload of a packet, bytes.
    pub packet_bytes: u64,
    /// The CPU that handles its interrupts.
    pub irq_cpu: usize,
    /// A hard interrupt, ns at the CPU's highest frequency.
    pub irq_ns: u64,
    /// Softirq time of a sent packet (its completion, and its part of an acknowledgement), and of a
    /// received one, ns at the CPU's highest frequency.
    pub tx_packet_ns: u64,
    /// See `tx_packet_ns`.
    pub rx_packet_ns: u64,
}

impl Network {
    /// The time of a packet on the link, ns.
    pub fn packet_ns(&self) -> u64 {
        self.packet_bytes * 8 * 1_000_000 / self.link_kbit
    }
}
