//! What programs share and wait for each other with.

pub mod mutex;
pub mod polling;
pub mod stream;
pub mod sync;

use mutex::Mutexes;
use polling::Pollers;
use stream::Streams;
use sync::{Barriers, Condvars};
use workload::{Recorder, Rng};

/// What the programs of a run share.
pub struct Programs {
    pub mutexes: Mutexes,
    pub condvars: Condvars,
    pub barriers: Barriers,
    pub streams: Streams,
    /// Tasks that poll for something in a busy loop.
    pub pollers: Pollers,
    /// Words of memory.
    pub shared: Vec<u64>,
    pub recorder: Recorder,
    pub rng: Rng,
}
