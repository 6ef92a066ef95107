//! Finds the scheduler that suits this computer and this load. A trial runs a command under the kernel's own scheduler
//! and under sched_ext schedulers in turn, and judges the schedulers as a comparison in the simulated kernel is judged
//! ([`lab::Verdict`]).
//!
//! [`run`] decides which scheduler runs when. It reaches the machine through [`Kernel`], so that tests of the order, of
//! the end of a trial and of the handling of failures need no real kernel; [`linux::Linux`] is the real kernel.
//!
//! - A [`Plan`] has the schedulers and the number of turns; an [`Outcome`] has the turns.
//! - A [`bundle::Bundle`] keeps all of a trial in a file, which [`bundle::Bundle::read`] opens on any computer:
//!
//! ```no_run
//! let bundle = trial::bundle::Bundle::read("office.tar.zst".as_ref())?;
//! println!("{} blocks", bundle.outcome.blocks.len());
//! # Ok::<(), Box<machine::input::BadInput>>(())
//! ```

mod blocks;
pub mod bundle;
pub mod frames;
pub mod guard;
pub mod host;
pub mod linux;
mod measures;
mod page;
mod power;
mod schedulers;
mod sequential;
mod turn;

pub use blocks::{Fault, Kernel, Outcome, Plan, Removed, run};
pub use measures::Measured;
pub use page::{About, page};
pub use schedulers::{BASELINE, Scheduler, find, installed, named};
pub use sequential::{Decision, Sequence};
pub use turn::{Recorded, Thread, Turn};
