//! What programs share and wait for each other with.

pub mod objects;
pub mod polling;

use objects::Objects;
use polling::Spinner;
use workload::{Recorder, Rng};

/// What the programs of a run share.
pub struct Programs {
    pub objects: Objects,
    /// Tasks that poll for something in a busy loop.
    pub spinners: Vec<Spinner>,
    /// Words of memory.
    pub shared: Vec<u64>,
    pub recorder: Recorder,
    pub rng: Rng,
}
