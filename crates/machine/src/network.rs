//! The network adapter.

use serde::Deserialize;

/// The path of an adapter's packets to its CPU and the network's softirq.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// The adapter sends and receives without the CPU. An interrupt starts a poll, and the next interrupt comes only
    /// when no packet waits any more (NAPI).
    #[default]
    Napi,
    /// An adapter on USB, as driven by Linux's `drivers/net/usb/usbnet.c` behind `drivers/usb/dwc2`: each packet is a
    /// transfer of its own with its own interrupt, whose handler starts the next transfer. The remaining work is done
    /// in two tasklets, one of the host controller and one of the driver, and then in the network's softirq. Each of
    /// these three parts is assumed to take a third of a packet's softirq time.
    Usbnet,
}

/// A network adapter: the capacity of its link, and the interrupt costs of its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The path of the adapter's packets to their CPU.
    pub driver: Driver,
    /// The capacity of the link in one direction, in kbit of payload per second.
    pub link_kbit: u64,
    /// The payload of a packet, in bytes.
    pub packet_bytes: u64,
    /// The CPU that handles the adapter's interrupts.
    pub irq_cpu: usize,
    /// The time of a hard interrupt, in ns at the CPU's highest frequency.
    pub irq_ns: u64,
    /// The softirq time of a sent packet (the packet's completion, and its part of an acknowledgement), in ns at the
    /// CPU's highest frequency.
    pub tx_packet_ns: u64,
    /// The softirq time of a received packet, in ns at the CPU's highest frequency.
    pub rx_packet_ns: u64,
}

impl Network {
    /// The time of a packet on the link, in ns.
    pub fn packet_ns(&self) -> u64 {
        self.packet_bytes * 8 * 1_000_000 / self.link_kbit
    }
}
