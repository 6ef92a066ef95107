//! The objects that programs share and wait on.

pub mod mutex;
pub mod polling;
pub mod stream;
pub mod sync;
pub mod wait_queue;

use crate::kernel::task::TaskPtr;
use mutex::Mutexes;
use polling::{PollUntil, Pollers};
use stream::Streams;
use sync::{Barriers, Condvars};
use workload::Env;

/// The objects that the programs of a run share.
pub struct Programs {
    pub mutexes: Mutexes,
    /// The names of the first mutexes, for messages.
    pub mutex_names: Vec<String>,
    pub condvars: Condvars,
    pub barriers: Barriers,
    pub streams: Streams,
    /// The tasks that poll in a busy loop.
    pub pollers: Pollers,
    /// The part of the run that programs see.
    pub env: Env,
}

impl Programs {
    /// `mutex` for messages: its name, if it has one.
    pub fn mutex_label(&self, mutex: u32) -> String {
        match self.mutex_names.get(mutex as usize) {
            Some(name) => format!("mutex `{name}`"),
            None => format!("mutex {mutex}"),
        }
    }

    /// Ends the polling of the first task whose polled word has changed.
    pub fn stop_changed(&mut self) -> Option<TaskPtr> {
        let shared = &self.env.shared;
        self.pollers.stop_first(
            |until| matches!(until, PollUntil::Word { word, value } if shared.get(word) != Some(value)),
        )
    }
}
