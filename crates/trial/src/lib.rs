//! Which scheduler suits this computer and this load? A trial runs a command under the kernel's own
//! scheduler and under sched_ext schedulers in turn, and judges them as a comparison in the simulated
//! kernel is judged ([`lab::Verdict`]).
//!
//! [`run`] decides what runs when. It reaches the machine through [`Kernel`], so that tests of its order, its stopping
//! and its handling of failures need no real kernel; [`linux::Linux`] is the real one.
//!
//! - A [`Plan`] says what is tried and for how long; an [`Outcome`] has the turns.
//! - A [`bundle::Bundle`] keeps all of a trial in a file, which [`bundle::Bundle::read`] opens elsewhere:
//!
//! ```no_run
//! let bundle = trial::bundle::Bundle::read("office.trial".as_ref())?;
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
