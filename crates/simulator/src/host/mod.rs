//! The process that simulates: what a scheduler is doing in it, and what it does when that goes wrong.

pub mod cage;
pub mod calls;
#[cfg(target_arch = "x86_64")]
mod division;
pub mod fault;
