//! The simulating process: the limits on a scheduler in it, and the handling of the scheduler's
//! faults.

pub mod cage;
pub mod calls;
#[cfg(target_arch = "x86_64")]
mod division;
pub mod fault;
