//! A USB host controller, and the driver of a network adapter behind it.
//!
//! The controller (`drivers/usb/dwc2`, without descriptor DMA) makes one transfer of an endpoint at a time: the
//! interrupt handler at the end of a transfer starts the next one. The interrupt schedules the tasklet that returns the
//! transfer to its driver (`usb_giveback_urb_bh()`), and the driver schedules a tasklet (`usbnet_bh()`) that passes the
//! packet to the network's softirq. Both tasklets continue until no work is left.

use std::collections::VecDeque;

/// The work of the tasklets: for each transfer, its connection.
#[derive(Default)]
pub struct Usb {
    giveback: VecDeque<u32>,
    usbnet: VecDeque<u32>,
    /// The running tasklet, and the connection whose transfer it handles.
    running: Option<(Tasklet, u32)>,
}

#[derive(Clone, Copy)]
enum Tasklet {
    Giveback,
    Usbnet,
}

/// Tasklets that are scheduled.
#[derive(Clone, Copy, Debug)]
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

    /// Queues a packet of `connection`, whose transfer is over, for the controller's tasklet.
    pub fn transferred(&mut self, connection: u32) {
        self.giveback.push_back(connection);
    }

    /// Completes the transfer of the running tasklet. Returns the connection whose packet then reaches the network's
    /// softirq.
    pub fn finish(&mut self) -> Option<u32> {
        match self.running.take()? {
            (Tasklet::Giveback, connection) => {
                self.usbnet.push_back(connection);
                None
            }
            (Tasklet::Usbnet, connection) => Some(connection),
        }
    }

    /// Continues with the tasklets in `todo`. Returns the connection of the next transfer, or `None` if all transfers
    /// are done. Tasklets run in the order in which they were scheduled. If both are in `todo`, the driver's tasklet is
    /// first, because an earlier turn of the controller's tasklet scheduled it.
    pub fn begin(&mut self, todo: &mut Tasklets) -> Option<u32> {
        self.begin_one(Tasklet::Usbnet, &mut todo.usbnet)
            .or_else(|| self.begin_one(Tasklet::Giveback, &mut todo.giveback))
    }

    /// `tasklet` continues with its next transfer, if the tasklet is `todo`; clears `todo` when no transfer is left.
    fn begin_one(&mut self, tasklet: Tasklet, todo: &mut bool) -> Option<u32> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_passes_both_tasklets_each_in_a_turn_of_its_own() {
        let mut usb = Usb::default();
        usb.transferred(7);
        usb.transferred(8);
        let mut todo = usb.scheduled();
        for connection in [7, 8] {
            assert_eq!(usb.begin(&mut todo), Some(connection));
            assert_eq!(usb.finish(), None);
        }
        // The driver's tasklet was not scheduled when this round began.
        assert_eq!(usb.begin(&mut todo), None);
        assert!(!todo.any() && usb.scheduled().any());
        let mut todo = usb.scheduled();
        for connection in [7, 8] {
            assert_eq!(usb.begin(&mut todo), Some(connection));
            assert_eq!(usb.finish(), Some(connection));
        }
        assert_eq!(usb.begin(&mut todo), None);
        assert!(!usb.scheduled().any());
    }
}
