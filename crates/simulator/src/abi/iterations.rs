//! The iterations of dispatch queues (`bpf_iter_scx_dsq`) that have begun and not ended, by their
//! addresses in C. The kernel's verifier tracks them; here they are checked when they are used.

use crate::abi::layout::IterDsq;

/// The iterations of all ops in progress; they are few.
#[derive(Default)]
pub struct Iterations(Vec<usize>);

#[inline]
fn place(iteration: &IterDsq) -> usize {
    std::ptr::from_ref(iteration).addr()
}

impl Iterations {
    /// Begins an iteration. False if one at this address has begun already.
    #[inline]
    pub fn begin(&mut self, iteration: &IterDsq) -> bool {
        let new = self.0.is_empty() || !self.has(iteration);
        self.0.push(place(iteration));
        new
    }

    /// Has it begun? Usually it is the innermost.
    #[inline]
    pub fn has(&self, iteration: &IterDsq) -> bool {
        self.is_innermost(iteration) || self.0.contains(&place(iteration))
    }

    /// Ends an iteration. False if it has not begun.
    #[inline]
    pub fn end(&mut self, iteration: &IterDsq) -> bool {
        if self.is_innermost(iteration) {
            self.0.pop();
            return true;
        }
        self.end_outer(iteration)
    }

    #[inline]
    fn is_innermost(&self, iteration: &IterDsq) -> bool {
        self.0.last() == Some(&place(iteration))
    }

    #[cold]
    fn end_outer(&mut self, iteration: &IterDsq) -> bool {
        let found = self.0.iter().rposition(|&other| other == place(iteration));
        found.map(|index| self.0.remove(index)).is_some()
    }
}
