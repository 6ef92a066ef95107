//! The simulating process: what its scheduler does now, and the handling of the scheduler's faults.

pub mod calls;
#[cfg(target_arch = "x86_64")]
mod division;
pub mod fault;
