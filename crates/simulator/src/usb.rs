//! A USB host controller, and a network adapter behind it.
//!
//! The controller (`drivers/usb/dwc2`, without descriptor DMA) has one transfer of an endpoint at a time: the handler of
//! the interrupt at its end lets the next one begin. It schedules the tasklet that gives the transfer back to
//! its driver (`usb_giveback_urb_bh()`), and the driver one of its own (`usbnet_bh()`) that hands the packet to
//! the network's softirq. Both tasklets go on until nothing is left for them.

use crate::kernel::Kernel;
use std::collections::VecDeque;

/// What the tasklets of one CPU have to do: connections, one entry a transfer.
#[derive(Default)]
pub struct Usb {
    giveback: VecDeque<u32>,
    usbnet: VecDeque<u32>,
    /// The transfer that is given back just now, and the one that the driver is at.
    given_back: Option<u32>,
    handled: Option<u32>,
}

/// Tasklets that are scheduled.
#[derive(Clone, Copy)]
pub struct Tasklets {
    giveback: bool,
    usbnet: bool,
}

impl Tasklets {
    pub fn any(self) -> bool {
        self.giveback || self.usbnet
    }
}

impl Usb {
    pub fn scheduled(&self) -> Tasklets {
        Tasklets {
            giveback: !self.giveback.is_empty(),
            usbnet: !self.usbnet.is_empty(),
        }
    }

    /// The transfer of a packet of `connection` is over.
    pub fn transferred(&mut self, connection: usize) {
        self.giveback.push_back(connection as u32);
    }
}

impl Kernel<'_> {
    /// `tasklet_action()`: is done with what it was at, and goes on with those of the tasklets that are `todo`. Returns
    /// what the next part takes, ns at the highest frequency, or `None`: these are done.
    pub fn tasklet(&mut self, cpu: usize, todo: &mut Tasklets) -> Option<u64> {
        let usb = &mut self.cpus[cpu].usb;
        if let Some(connection) = usb.given_back.take() {
            usb.usbnet.push_back(connection);
        }
        if let Some(connection) = usb.handled.take() {
            self.netif_rx(cpu, connection as usize);
        }
        let usb = &mut self.cpus[cpu].usb;
        let mut connection = None;
        // In the order in which they were scheduled, as the controller's is what schedules the driver's.
        if todo.usbnet {
            connection = usb.usbnet.pop_front();
            usb.handled = connection;
            todo.usbnet = connection.is_some();
        }
        if connection.is_none() && todo.giveback {
            connection = usb.giveback.pop_front();
            usb.given_back = connection;
            todo.giveback = connection.is_some();
        }
        connection.map(|connection| self.packet_stage_ns(connection as usize))
    }
}
