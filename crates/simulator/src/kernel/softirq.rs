//! Softirqs: work that interrupts leave for later, and the daemon that does this work when there is too much of it.
//!
//! The rules are those of `kernel/softirq.c` of Linux 4.17. At its end an interrupt handles pending softirqs, including
//! new ones, until 2 ms by the tick's clock or ten rounds are over, or a task needs the CPU. If work is left then, it
//! wakes the CPU's `ksoftirqd`, a normal task. As long as that task is runnable, interrupts leave softirqs to it,
//! including tasklets (which interrupts have handled at once since 4.18-rc6: "Mark HI and TASKLET softirq synchronous",
//! 2018-07-17). Softirqs in an interrupt are a part of the interrupt's time, and only further interrupts can run then.
//! Softirqs in the daemon are a part of the daemon's time, and it gives up the CPU between two rounds.

use crate::clock::Jiffies;
use crate::hw::network::Network;
use crate::hw::usb::Tasklets;
use crate::kernel::task::TaskPtr;

/// The limits of one handling of softirqs: the time in ns (`MAX_SOFTIRQ_TIME`), and the number of rounds
/// (`MAX_SOFTIRQ_RESTART`).
const MAX_TIME_NS: u64 = 2_000_000;
const MAX_RESTART: u32 = 10;

/// The softirqs of the network's CPU, the only one that has any.
#[derive(Default)]
pub struct Softirqs {
    /// `ksoftirqd`, once there is a network.
    pub daemon: Option<TaskPtr>,
    /// The state of the handling of softirqs, if they are being handled.
    round: Option<Round>,
    /// The CPU whose interrupt is handling softirqs, if one is.
    interrupted: Option<usize>,
    /// The time for which interrupts have delayed the current part, in ns.
    held_up: u64,
}

/// Softirqs that are raised.
#[derive(Clone, Copy)]
struct Pending {
    net_rx: bool,
    tasklets: Tasklets,
}

impl Pending {
    /// `local_softirq_pending()`.
    fn of(network: &Network) -> Pending {
        Pending {
            net_rx: network.net_rx_pending(),
            tasklets: network.tasklets(),
        }
    }

    fn any(self) -> bool {
        self.net_rx || self.tasklets.any()
    }

    /// Begins the next part, in the order of the softirqs. Returns its duration in ns at the highest frequency.
    fn next(&mut self, network: &mut Network, now: Jiffies) -> Option<u64> {
        if self.net_rx {
            let part = network.net_rx(now);
            self.net_rx = part.is_some();
            if part.is_some() {
                return part;
            }
        }
        network.tasklet(&mut self.tasklets)
    }
}

#[derive(Clone, Copy)]
struct Round {
    /// The softirqs left to handle.
    todo: Pending,
    /// The end of the time limit, in jiffies.
    end: u64,
    /// The remaining rounds.
    restarts: u32,
}

impl Softirqs {
    /// Is an interrupt of `cpu` handling softirqs? Then the CPU is not preempted.
    #[inline]
    pub fn in_interrupt(&self, cpu: usize) -> bool {
        self.interrupted == Some(cpu)
    }

    /// Delays the softirqs that an interrupt of `ns` on `cpu` interrupts.
    #[inline]
    pub fn hold_up(&mut self, cpu: usize, ns: u64) {
        if self.in_interrupt(cpu) {
            self.held_up += ns;
        }
    }

    /// Returns the time for which the current part was delayed since the last call, in ns.
    pub fn take_held_up(&mut self) -> u64 {
        std::mem::take(&mut self.held_up)
    }

    /// May an interrupt that raised softirqs handle them at its end? An interrupt that arrived during softirqs leaves
    /// new ones to the interrupted code.
    pub fn begin_at_irq_exit(&self) -> bool {
        let left_to_daemon = self.daemon.is_some_and(|daemon| daemon.on_rq.get());
        self.round.is_none() && !left_to_daemon
    }

    /// Are softirqs being handled or pending?
    pub fn are_pending(&self, network: &Network) -> bool {
        self.round.is_some() || Pending::of(network).any()
    }

    /// `__do_softirq()`: begins softirqs, or continues them after a completed part, in an interrupt of CPU
    /// `interrupted` or, without one, in the daemon. Returns the duration of the next part in ns at the highest
    /// frequency, or `None` if no work is left or a limit is reached.
    pub fn handle(
        &mut self,
        network: &mut Network,
        interrupted: Option<usize>,
        now: Jiffies,
        need_resched: bool,
    ) -> Option<u64> {
        let mut round = match self.round.take() {
            Some(round) => round,
            None => {
                self.interrupted = interrupted;
                network.begin_net_rx(now);
                Round {
                    todo: Pending::of(network),
                    end: now.after(MAX_TIME_NS),
                    restarts: MAX_RESTART,
                }
            }
        };
        loop {
            let part = round.todo.next(network, now);
            if part.is_some() {
                self.round = Some(round);
                return part;
            }
            round.todo = Pending::of(network);
            round.restarts -= 1;
            let enough = now.reached(round.end) || round.restarts == 0;
            if !round.todo.any() || enough || need_resched {
                self.interrupted = None;
                return None;
            }
            network.begin_net_rx(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw::network::tests::network;
    use machine::Driver;
    use workload::Direction;

    const TICK: u64 = 1_000_000;

    /// The state after this number of packets over USB, at the end of the last packet's interrupt.
    fn transferred(packets: usize) -> (Softirqs, Network) {
        let mut network = network(Driver::Usbnet, vec![(0, Direction::Receive)]);
        for _ in 0..packets {
            assert!(network.packet_passed(0));
            network.interrupt_done(0);
        }
        (Softirqs::default(), network)
    }

    /// Handles softirqs at `now`, in ns, in an interrupt of CPU 1; returns the times of the parts, in ns.
    fn handle(
        softirqs: &mut Softirqs,
        network: &mut Network,
        now: u64,
        need_resched: bool,
    ) -> Vec<u64> {
        let now = Jiffies::at(now, TICK, 0);
        let next = || {
            network.packets_handled();
            softirqs.handle(network, Some(1), now, need_resched)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_packet_over_usb_takes_three_rounds() {
        let (mut softirqs, mut network) = transferred(1);
        assert!(softirqs.begin_at_irq_exit());
        let now = Jiffies::at(0, TICK, 0);
        let part = softirqs.handle(&mut network, Some(1), now, false);
        assert_eq!(part, Some(10_000));
        assert!(softirqs.in_interrupt(1) && !softirqs.in_interrupt(0));
        assert!(!softirqs.begin_at_irq_exit());
        softirqs.hold_up(0, 5);
        softirqs.hold_up(1, 7);
        assert_eq!((softirqs.take_held_up(), softirqs.take_held_up()), (7, 0));
        let rest = handle(&mut softirqs, &mut network, 0, false);
        assert_eq!(rest, [10_000, 10_000]);
        assert!(!softirqs.in_interrupt(1) && !softirqs.are_pending(&network));
    }

    #[test]
    fn it_is_enough_once_somebody_is_to_run() {
        let (mut softirqs, mut network) = transferred(2);
        let parts = handle(&mut softirqs, &mut network, 0, true);
        assert_eq!(parts, [10_000, 10_000]);
        assert!(softirqs.are_pending(&network) && !softirqs.in_interrupt(1));
    }

    #[test]
    fn it_is_enough_after_two_milliseconds() {
        let (mut softirqs, mut network) = transferred(1);
        let start = Jiffies::at(0, TICK, 0);
        assert!(
            softirqs
                .handle(&mut network, Some(1), start, false)
                .is_some()
        );
        assert!(handle(&mut softirqs, &mut network, 2 * TICK, false).is_empty());
        assert!(softirqs.are_pending(&network));
    }

    #[test]
    fn in_the_daemon_no_interrupt_handles_them() {
        let (mut softirqs, mut network) = transferred(1);
        let now = Jiffies::at(0, TICK, 0);
        assert!(softirqs.handle(&mut network, None, now, false).is_some());
        assert!(!softirqs.in_interrupt(1));
    }
}
