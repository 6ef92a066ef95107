//! Sets of CPUs.

use std::fmt;
use std::str::FromStr;

/// The largest number of CPUs of a machine; every static table of CPUs in the project has this capacity.
pub const MAX_CPUS: usize = 4096;

const WORDS: usize = MAX_CPUS / 64;

/// A set of CPU numbers, laid out as the kernel's `struct cpumask` for `NR_CPUS` = [`MAX_CPUS`]:
/// an array of 64-bit words, lowest CPU in the lowest bit.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct CpuMask {
    bits: [u64; WORDS],
}

impl Default for CpuMask {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl CpuMask {
    /// The empty set.
    pub const EMPTY: CpuMask = CpuMask { bits: [0; WORDS] };

    /// The CPUs `0..count`.
    pub fn first_n(count: usize) -> CpuMask {
        (0..count).collect()
    }

    /// The set with `cpu` alone.
    pub fn one(cpu: usize) -> CpuMask {
        std::iter::once(cpu).collect()
    }

    /// The set as bytes, with the lowest CPU in the lowest bit of the first byte.
    pub fn to_bytes(&self) -> [u8; MAX_CPUS / 8] {
        let mut bytes = [0; MAX_CPUS / 8];
        for (word, place) in self.bits.iter().zip(bytes.chunks_exact_mut(8)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The set with these bits; `None` if there are more or fewer than [`MAX_CPUS`].
    pub fn from_bytes(bytes: &[u8]) -> Option<CpuMask> {
        let bytes: &[u8; MAX_CPUS / 8] = bytes.try_into().ok()?;
        let mut bits = [0; WORDS];
        for (word, place) in bits.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*place);
        }
        Some(CpuMask { bits })
    }

    /// Adds `cpu`.
    #[inline]
    pub fn set(&mut self, cpu: usize) {
        self.bits[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Removes `cpu`.
    #[inline]
    pub fn clear(&mut self, cpu: usize) {
        self.bits[cpu / 64] &= !(1 << (cpu % 64));
    }

    /// Is `cpu` in the set?
    #[inline]
    pub fn contains(&self, cpu: usize) -> bool {
        cpu < MAX_CPUS && self.bits[cpu / 64] & (1 << (cpu % 64)) != 0
    }

    /// The number of CPUs in the set.
    pub fn count(&self) -> usize {
        self.bits
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Is the set empty?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|&word| word == 0)
    }

    /// The lowest CPU of the set.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        self.first_from(0)
    }

    /// The lowest CPU of the set that is at least `start`.
    #[inline]
    pub fn first_from(&self, start: usize) -> Option<usize> {
        if start >= MAX_CPUS {
            return None;
        }
        let mut index = start / 64;
        let mut word = self.bits[index] & (!0 << (start % 64));
        loop {
            if word != 0 {
                return Some(index * 64 + word.trailing_zeros() as usize);
            }
            index += 1;
            if index == WORDS {
                return None;
            }
            word = self.bits[index];
        }
    }

    /// The CPUs that are in both sets.
    #[inline]
    pub fn and(&self, other: &CpuMask) -> CpuMask {
        CpuMask {
            bits: std::array::from_fn(|i| self.bits[i] & other.bits[i]),
        }
    }

    /// The CPUs that are in either set.
    #[inline]
    pub fn or(&self, other: &CpuMask) -> CpuMask {
        CpuMask {
            bits: std::array::from_fn(|i| self.bits[i] | other.bits[i]),
        }
    }

    /// The CPUs of this set that are not in `other`.
    #[inline]
    pub fn without(&self, other: &CpuMask) -> CpuMask {
        CpuMask {
            bits: std::array::from_fn(|i| self.bits[i] & !other.bits[i]),
        }
    }

    /// Do the sets share a CPU?
    #[inline]
    pub fn intersects(&self, other: &CpuMask) -> bool {
        self.bits.iter().zip(&other.bits).any(|(a, b)| a & b != 0)
    }

    /// Is every CPU of this set in `other`?
    pub fn is_subset(&self, other: &CpuMask) -> bool {
        self.without(other).is_empty()
    }

    /// The CPUs of the set, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let cpu = self.first_from(next)?;
            next = cpu + 1;
            Some(cpu)
        })
    }
}

impl FromIterator<usize> for CpuMask {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuMask {
        let mut mask = CpuMask::EMPTY;
        for cpu in cpus {
            mask.set(cpu);
        }
        mask
    }
}

/// Writes the kernel's list format: `0-3,8`.
impl fmt::Display for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut next = 0;
        let mut comma = "";
        while let Some(first) = self.first_from(next) {
            let last = (first..MAX_CPUS)
                .take_while(|&cpu| self.contains(cpu))
                .last()
                .unwrap_or(first);
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
            comma = ",";
            next = last + 1;
        }
        Ok(())
    }
}

impl fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuMask({self})")
    }
}

/// Reads the kernel's list format (`0-3,8`). The error says what was expected.
impl FromStr for CpuMask {
    type Err = String;

    fn from_str(list: &str) -> Result<CpuMask, String> {
        let number = |text: &str| -> Result<usize, String> {
            match text.trim().parse() {
                Ok(cpu) if cpu < MAX_CPUS => Ok(cpu),
                _ => Err(format!(
                    "expected a CPU list such as 0-3,8 with CPUs below {MAX_CPUS}, found `{list}`"
                )),
            }
        };
        let mut mask = CpuMask::EMPTY;
        for range in list.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!(
                    "expected a rising range in a CPU list, found `{range}`"
                ));
            }
            (first..=last).for_each(|cpu| mask.set(cpu));
        }
        Ok(mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_format_round_trips() {
        for list in ["0", "0-3,8", "5,7,9-63,64-4095"] {
            let mask: CpuMask = list.parse().unwrap();
            assert_eq!(mask, mask.to_string().parse().unwrap());
        }
        assert!("3-1".parse::<CpuMask>().is_err());
        assert!(MAX_CPUS.to_string().parse::<CpuMask>().is_err());
        assert!("x".parse::<CpuMask>().is_err());
    }

    #[test]
    fn walks_across_words() {
        let mask: CpuMask = [3, 64, MAX_CPUS - 1].into_iter().collect();
        assert_eq!(mask.iter().collect::<Vec<_>>(), [3, 64, MAX_CPUS - 1]);
        assert_eq!(mask.first_from(4), Some(64));
        assert_eq!(mask.first_from(MAX_CPUS), None);
        assert_eq!(mask.count(), 3);
    }
}
