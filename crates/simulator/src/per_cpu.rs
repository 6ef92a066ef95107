//! One value for each CPU.

use machine::MAX_CPUS;
use std::ops::{Index, IndexMut};

/// One `T` for each CPU of a machine. There is room for the largest machine, so the bound of an index is a constant,
/// and most functions check an index only once.
pub struct PerCpu<T> {
    all: Box<[T; MAX_CPUS]>,
    len: usize,
}

/// The values of `len` CPUs, which is at least one. The remaining room is filled with the value of the last CPU.
pub fn boxed<T>(len: usize, mut of: impl FnMut(usize) -> T) -> Box<[T; MAX_CPUS]> {
    let all: Box<[T]> = (0..MAX_CPUS).map(|cpu| of(cpu.min(len - 1))).collect();
    let Ok(all) = all.try_into() else {
        unreachable!("there are as many")
    };
    all
}

impl<T> PerCpu<T> {
    pub fn new(len: usize, of: impl FnMut(usize) -> T) -> PerCpu<T> {
        PerCpu {
            all: boxed(len, of),
            len,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The values, in the order of the CPUs.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.all[..self.len].iter()
    }
}

impl<T> Index<usize> for PerCpu<T> {
    type Output = T;

    #[inline]
    fn index(&self, cpu: usize) -> &T {
        debug_assert!(cpu < self.len, "no such CPU");
        &self.all[cpu]
    }
}

impl<T> IndexMut<usize> for PerCpu<T> {
    #[inline]
    fn index_mut(&mut self, cpu: usize) -> &mut T {
        debug_assert!(cpu < self.len, "no such CPU");
        &mut self.all[cpu]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_has_its_own() {
        let mut numbers = PerCpu::new(3, |cpu| cpu);
        numbers[1] = 7;
        assert_eq!(numbers.iter().copied().collect::<Vec<_>>(), [0, 7, 2]);
        assert_eq!(numbers.len(), 3);
    }
}
