//! Which iterations of dispatch queues (`bpf_iter_scx_dsq`) have begun and not ended, by where C has them. The kernel's
//! verifier follows them; here it is seen when they are used.

use crate::abi::layout::IterDsq;

/// Those of all ops that are being called; they are few.
#[derive(Default)]
pub struct Iterations(Vec<usize>);

fn place(iteration: &IterDsq) -> usize {
    std::ptr::from_ref(iteration).addr()
}

impl Iterations {
    /// One begins. False if one there has begun already.
    pub fn begin(&mut self, iteration: &IterDsq) -> bool {
        let new = !self.has(iteration);
        self.0.push(place(iteration));
        new
    }

    /// Has it begun?
    pub fn has(&self, iteration: &IterDsq) -> bool {
        self.0.iter().rev().any(|&other| other == place(iteration))
    }

    /// It ends. False if it has not begun.
    pub fn end(&mut self, iteration: &IterDsq) -> bool {
        let found = self.0.iter().rposition(|&other| other == place(iteration));
        found.map(|index| self.0.remove(index)).is_some()
    }
}
