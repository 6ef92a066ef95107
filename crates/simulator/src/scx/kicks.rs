//! Kicks (`scx_bpf_kick_cpu()`) that are requested and not yet sent, because the requesting code completes first.

use crate::abi::layout as abi;
use std::collections::VecDeque;

/// A request to a CPU to reschedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kick {
    pub cpu: u32,
    /// `SCX_KICK_*`.
    flags: u64,
}

/// The kicks requested by the running code, in order.
#[derive(Default)]
pub struct Kicks(VecDeque<Kick>);

impl Kicks {
    /// Requests a kick of `cpu`. A kick for an idle CPU is dropped unless `may_idle` (`can_skip_idle_kick()`). The
    /// error is the message of a scheduler error.
    pub fn ask(&mut self, cpu: usize, flags: u64, may_idle: bool) -> Result<(), &'static str> {
        let kick = Kick {
            cpu: cpu as u32,
            flags,
        };
        if kick.is_for_idle() && flags & (abi::KICK_PREEMPT | abi::KICK_WAIT) != 0 {
            return Err("PREEMPT/WAIT cannot be used with SCX_KICK_IDLE");
        }
        if may_idle || !kick.is_for_idle() {
            self.0.push_back(kick);
        }
        Ok(())
    }

    /// Requests a kick of `cpu`, whatever it runs.
    pub fn resched(&mut self, cpu: usize) {
        self.0.push_back(Kick {
            cpu: cpu as u32,
            flags: 0,
        });
    }

    /// Removes and returns the next kick to send.
    #[inline]
    pub fn next(&mut self) -> Option<Kick> {
        match self.0.is_empty() {
            true => None,
            false => self.0.pop_front(),
        }
    }
}

impl Kick {
    /// Is the kick void if its CPU is busy?
    pub fn is_for_idle(self) -> bool {
        self.flags & abi::KICK_IDLE != 0
    }

    /// Does the kick end the slice of the running task?
    pub fn preempts(self) -> bool {
        self.flags & abi::KICK_PREEMPT != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kicks_are_sent_in_order_and_those_for_idle_cpus_only_if_they_may_idle() {
        let mut kicks = Kicks::default();
        assert_eq!(kicks.ask(2, abi::KICK_PREEMPT, false), Ok(()));
        assert_eq!(kicks.ask(1, abi::KICK_IDLE, false), Ok(()));
        assert_eq!(kicks.ask(0, abi::KICK_IDLE, true), Ok(()));
        assert!(kicks.ask(0, abi::KICK_IDLE | abi::KICK_WAIT, true).is_err());
        let sent: Vec<_> = std::iter::from_fn(|| kicks.next())
            .map(|kick| (kick.cpu, kick.is_for_idle(), kick.preempts()))
            .collect();
        assert_eq!(sent, [(2, false, true), (0, true, false)]);
    }
}
