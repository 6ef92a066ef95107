//! The iterations of dispatch queues (`bpf_iter_scx_dsq`) that have begun and not ended, by their addresses in C. The
//! kernel's verifier tracks iterations; here they are checked when they are used.

use crate::abi::layout::IterDsq;
use crate::scx::dsq::OnDsq;

/// The iterations of all ops in progress, the innermost last. There are few iterations at a time.
#[derive(Default)]
pub struct Iterations(Vec<Iteration>);

/// An iteration and its position: the next task is at `gap`, or before it in reverse. Tasks may come and go before and
/// behind this place.
pub struct Iteration {
    /// The iteration's address in C.
    place: usize,
    /// The queue; [`OnDsq::NONE`] if the iteration could not begin.
    pub on: OnDsq,
    pub reverse: bool,
    pub gap: usize,
    /// The number of the latest insertion when the iteration began.
    pub end: u64,
}

#[inline]
fn place(iteration: &IterDsq) -> usize {
    std::ptr::from_ref(iteration).addr()
}

impl Iterations {
    /// Begins an iteration over `on`, at `gap`. Returns false if an iteration at this address has begun already.
    #[inline]
    pub fn begin(&mut self, iteration: &IterDsq, on: OnDsq, reverse: bool, gap: usize) -> bool {
        let new = self.0.is_empty() || !self.has(iteration);
        self.0.push(Iteration {
            place: place(iteration),
            on,
            reverse,
            gap,
            end: iteration.end,
        });
        new
    }

    /// The iteration, if it has begun. Usually it is the innermost iteration.
    #[inline]
    pub fn get(&mut self, iteration: &IterDsq) -> Option<&mut Iteration> {
        let place = place(iteration);
        match self.0.last() {
            Some(last) if last.place == place => self.0.last_mut(),
            _ => self.0.iter_mut().rev().find(|other| other.place == place),
        }
    }

    #[inline(never)]
    pub fn has(&mut self, iteration: &IterDsq) -> bool {
        self.get(iteration).is_some()
    }

    /// Ends an iteration. Returns false if it has not begun.
    #[inline]
    pub fn end(&mut self, iteration: &IterDsq) -> bool {
        let place = place(iteration);
        if self.0.pop_if(|last| last.place == place).is_some() {
            return true;
        }
        self.end_outer(place)
    }

    #[cold]
    fn end_outer(&mut self, place: usize) -> bool {
        let found = self.0.iter().rposition(|other| other.place == place);
        found.map(|index| self.0.remove(index)).is_some()
    }

    /// Keeps iterations between the same tasks when a task comes to `on` at `index` (`by` is 1) or leaves it (-1).
    #[inline(always)]
    pub fn shift(&mut self, on: OnDsq, index: usize, by: isize) {
        if !self.0.is_empty() {
            self.shift_those_over(on, index, by);
        }
    }

    #[inline(never)]
    fn shift_those_over(&mut self, on: OnDsq, index: usize, by: isize) {
        for iteration in &mut self.0 {
            if iteration.on == on && index < iteration.gap {
                iteration.gap = iteration.gap.checked_add_signed(by).unwrap();
            }
        }
    }
}
