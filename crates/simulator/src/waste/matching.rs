//! The largest number of waiting tasks that CPUs could run at the same time.

use machine::CpuMask;

/// A maximum matching of waiting tasks, by group, to CPUs, which grows by a CPU at a time.
pub struct Matching<'a> {
    groups: &'a [(CpuMask, usize)],
    /// For each group, the CPUs that are matched to its tasks.
    taken: Vec<Vec<usize>>,
}

impl<'a> Matching<'a> {
    pub fn new(groups: &'a [(CpuMask, usize)]) -> Matching<'a> {
        Matching {
            groups,
            taken: vec![Vec::new(); groups.len()],
        }
    }

    /// Finds a task for `cpu` in addition to the tasks that are matched already. Skips the groups in `seen`, which have
    /// been tried.
    fn add(&mut self, cpu: usize, seen: &mut [bool]) -> bool {
        for group in 0..self.groups.len() {
            let (allowed, waiting) = &self.groups[group];
            if seen[group] || !allowed.contains(cpu) {
                continue;
            }
            seen[group] = true;
            if self.taken[group].len() < *waiting {
                self.taken[group].push(cpu);
                return true;
            }
            for index in 0..self.taken[group].len() {
                if self.add(self.taken[group][index], seen) {
                    self.taken[group][index] = cpu;
                    return true;
                }
            }
        }
        false
    }

    /// Finds tasks for as many of `cpus` as possible. Returns the number of CPUs that get a task.
    pub fn add_all(&mut self, cpus: &CpuMask) -> usize {
        let groups = self.groups.len();
        cpus.iter()
            .filter(|&cpu| self.add(cpu, &mut vec![false; groups]))
            .count()
    }

    /// The CPUs each of which could take one more task, if no other CPU did.
    pub fn wanted(&self) -> CpuMask {
        let is_short = |group: usize| self.taken[group].len() < self.groups[group].1;
        let mut open: Vec<bool> = (0..self.groups.len()).map(is_short).collect();
        let union = |open: &[bool]| {
            let groups = self.groups.iter().zip(open).filter(|(_, open)| **open);
            groups.fold(CpuMask::EMPTY, |all, ((allowed, _), _)| all.or(allowed))
        };
        loop {
            let wanted = union(&open);
            let opens = |group: usize| {
                let mut cpus = self.taken[group].iter();
                !open[group] && cpus.any(|&cpu| wanted.contains(cpu))
            };
            match (0..self.groups.len()).find(|&group| opens(group)) {
                Some(group) => open[group] = true,
                None => return wanted,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The largest number of tasks that CPUs can run at once, found by trying each task on each CPU.
    fn most(tasks: &[CpuMask], cpus: &CpuMask) -> usize {
        let Some((first, others)) = tasks.split_first() else {
            return 0;
        };
        let on = |cpu: usize| 1 + most(others, &cpus.without(&CpuMask::one(cpu)));
        let with = first.and(cpus).iter().map(on).max().unwrap_or(0);
        with.max(most(others, cpus))
    }

    fn mask(bits: u8) -> CpuMask {
        (0..5).filter(|bit| bits & (1 << bit) != 0).collect()
    }

    proptest! {
        #[test]
        fn a_matching_is_a_largest_one(
            tasks in prop::collection::vec((1..32u8, 1..3usize), 0..4),
            first in 0..32u8,
            more in 0..32u8,
        ) {
            let groups: Vec<_> = tasks.iter().map(|&(bits, count)| (mask(bits), count)).collect();
            let each: Vec<CpuMask> = groups
                .iter()
                .flat_map(|&(allowed, count)| std::iter::repeat_n(allowed, count))
                .collect();
            let (first, more) = (mask(first), mask(more & !first));
            let mut matching = Matching::new(&groups);
            let found = matching.add_all(&first);
            prop_assert_eq!(found, most(&each, &first));
            let wanted = matching.wanted();
            for cpu in more.iter() {
                let with = most(&each, &first.or(&CpuMask::one(cpu)));
                prop_assert_eq!(wanted.contains(cpu), with > found, "CPU {}", cpu);
            }
            let all = found + matching.add_all(&more.and(&wanted));
            prop_assert_eq!(all, most(&each, &first.or(&more)));
        }
    }
}
