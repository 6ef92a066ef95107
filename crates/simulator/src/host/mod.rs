//! The simulating process: what a scheduler does in it, and what happens when it fails.

pub mod cage;
pub mod calls;
#[cfg(target_arch = "x86_64")]
mod division;
pub mod fault;
