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
    /// The tasklet that is running, and its transfer.
    running: Option<(Tasklet, u32)>,
}

#[derive(Clone, Copy)]
enum Tasklet {
    Giveback,
    Usbnet,
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

    /// `tasklet` goes on with its next transfer, if it is `todo`, which it is no more when none is left.
    fn begin(&mut self, tasklet: Tasklet, todo: &mut bool) -> Option<u32> {
        let transfers = match tasklet {
            Tasklet::Giveback => &mut self.giveback,
            Tasklet::Usbnet => &mut self.usbnet,
        };
        let connection = if *todo { transfers.pop_front() } else { None };
        *todo = connection.is_some();
        self.running = connection.map(|connection| (tasklet, connection));
        connection
    }
}

impl Kernel<'_> {
    /// `tasklet_action()`: is done with what it was at, and goes on with those of the tasklets that are `todo`. Returns
    /// what the next part takes, ns at the highest frequency, or `None`: these are done.
    pub fn tasklet(&mut self, cpu: usize, todo: &mut Tasklets) -> Option<u64> {
        let usb = &mut self.cpus[cpu].usb;
        match usb.running.take() {
            Some((Tasklet::Giveback, connection)) => usb.usbnet.push_back(connection),
            Some((Tasklet::Usbnet, connection)) => self.netif_rx(cpu, connection as usize),
            None => {}
        }
        let usb = &mut self.cpus[cpu].usb;
        // In the order in which they were scheduled, as the controller's is what schedules the driver's.
        let connection = usb
            .begin(Tasklet::Usbnet, &mut todo.usbnet)
            .or_else(|| usb.begin(Tasklet::Giveback, &mut todo.giveback));
        connection.map(|connection| self.packet_stage_ns(connection as usize))
    }
}
