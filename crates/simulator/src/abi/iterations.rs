//! The iterations of dispatch queues (`bpf_iter_scx_dsq`) that have begun and not ended, by their
//! addresses in C. The kernel's verifier tracks them; here they are checked when they are used.

use crate::abi::layout::IterDsq;

/// The iterations of all ops in progress; they are few.
#[derive(Default)]
pub struct Iterations(Vec<usize>);

fn place(iteration: &IterDsq) -> usize {
    std::ptr::from_ref(iteration).addr()
}

impl Iterations {
    /// Begins an iteration. False if one at this address has begun already.
    pub fn begin(&mut self, iteration: &IterDsq) -> bool {
        let new = !self.has(iteration);
        self.0.push(place(iteration));
        new
    }

    /// Has it begun?
    pub fn has(&self, iteration: &IterDsq) -> bool {
        self.0.iter().rev().any(|&other| other == place(iteration))
    }

    /// Ends an iteration. False if it has not begun.
    pub fn end(&mut self, iteration: &IterDsq) -> bool {
        let found = self.0.iter().rposition(|&other| other == place(iteration));
        found.map(|index| self.0.remove(index)).is_some()
    }
}
