//! Processes: the memory areas in fork, exec and exit, and children of users.

use super::{Setup, USERS, around, compute, mapped};
use crate::{Env, KernelLock, Op, Program};
use std::sync::Arc;

/// Files that processes map: the users' program, libm, libc, ld.so, and the children's program.
const FILES: u32 = 5;
const PROGRAM: u32 = 0;
const STARTED: u32 = 4;

/// Their locks, then those of the anonymous memory that users inherit from their parent.
pub const LOCKS: u32 = FILES + 9;

/// The locks of the areas of a user's memory, in address order, as RHEL 6 maps a program with two
/// libraries: text and data; heap; for each library text, a gap, relocated data and data; libc's
/// bss, two mappings of the loader; and the stack. An area of a file that the process has written
/// to is under both locks, and neighbours of one file share the anonymous memory's
/// (`find_mergeable_anon_vma()`).
pub const AREAS: [u32; 25] = [
    PROGRAM, PROGRAM, 5, 6, 1, 1, 1, 7, 1, 7, 2, 2, 2, 8, 2, 8, 9, 10, 3, 11, 3, 12, 3, 12, 13,
];

/// The number of areas that are anonymous, or have been written to.
pub fn anonymous() -> u64 {
    AREAS.iter().filter(|&&lock| lock >= FILES).count() as u64
}

/// The changes of a starting program to the trees of the files that it maps: of its own two areas;
/// of the loader, which the kernel maps as a whole, then trims, and whose data it maps, part of
/// which becomes read-only later; and the same for two libraries. The loader maps each as a whole,
/// makes the gap inaccessible, maps the data over its end, and makes a part of that read-only
/// (fs/binfmt_elf.c; glibc's elf/dl-load.c and dl-reloc.c).
const STARTS: [(u32, Change); 19] = [
    (STARTED, Change::Maps),
    (STARTED, Change::Maps),
    (3, Change::Maps),
    (3, Change::Splits),
    (3, Change::Unmaps),
    (3, Change::Maps),
    (1, Change::Maps),
    (1, Change::Splits),
    (1, Change::Splits),
    (1, Change::Unmaps),
    (1, Change::Maps),
    (2, Change::Maps),
    (2, Change::Splits),
    (2, Change::Splits),
    (2, Change::Unmaps),
    (2, Change::Maps),
    (3, Change::Splits),
    (1, Change::Splits),
    (2, Change::Splits),
];

/// An operation under the lock of an area's tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// A child gets a copy. A file's mapping goes next to its parent's
    /// (`vma_interval_tree_insert_after()`), an anonymous one from the root down to its place.
    Copies,
    /// It is mapped, from the root down to its place.
    Maps,
    /// It is split: both parts go to their places (`vma_adjust()`, mm/mmap.c).
    Splits,
    /// It is unmapped, and removed from its place.
    Unmaps,
    /// A copy without later neighbours is unmapped.
    Drops,
}

impl Change {
    /// How many nodes of the tree under `lock` are read that others have changed, if each user has
    /// its areas there. Counted by running Linux's algorithms (lib/rbtree.c, mm/interval_tree.c) on
    /// trees of 1100 to 2000 users' areas while 20 to 300 children come and go on 80 CPUs: a
    /// descent passes all equal nodes, 1.7 times the depth of a balanced tree, of which 10 to 13
    /// have changed since its CPU last saw them; a split meets 18 to 29, a removal 5 to 6. A file's
    /// copy is a leaf: inserting it meets 2, removing it 1.
    fn nodes(self, lock: u32, users: u64) -> u32 {
        let each = AREAS.iter().filter(|&&other| other == lock).count() as u64;
        let depth = (users * each.max(1)).max(1).ilog2();
        match self {
            Change::Copies if lock < FILES => 2,
            Change::Copies | Change::Maps => depth,
            Change::Splits => 2 * depth,
            Change::Unmaps => 5,
            Change::Drops if lock < FILES => 1,
            Change::Drops => 5,
        }
    }
}

/// Walks a process's areas of memory, each under its lock.
pub struct Areas {
    next: usize,
    of: Of,
    /// The lock under which a copy still has to be added to the child's own tree of anonymous
    /// memory.
    links: Option<u32>,
}

/// The owner of the areas, and their fate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// A user's areas, which its child copies.
    Parent,
    /// A child's areas, which it unmaps.
    Child,
    /// The areas of a starting program. Its anonymous memory is its own.
    Start,
    /// The areas of a program that exits.
    End,
}

impl Areas {
    /// The areas of a user, for a child.
    pub const COPIED: Areas = Areas::new(Of::Parent);

    const fn new(of: Of) -> Areas {
        Areas {
            next: 0,
            of,
            links: None,
        }
    }

    /// The next lock, and the operation under it.
    fn step(&mut self) -> Option<(u32, Change)> {
        if self.of == Of::Start {
            let step = STARTS.get(self.next).copied();
            self.next += 1;
            return step;
        }
        let ends = self.of == Of::End;
        let left = &AREAS[self.next..];
        let skipped = left.iter().position(|&lock| !ends || lock < FILES)?;
        self.next += skipped + 1;
        Some(match (self.of, left[skipped]) {
            (Of::Parent, lock) => (lock, Change::Copies),
            (Of::End, PROGRAM) => (STARTED, Change::Unmaps),
            (Of::End, lock) => (lock, Change::Unmaps),
            (_, lock) => (lock, Change::Drops),
        })
    }

    /// The next area, or the rest of the last one: anonymous memory that a child gets is put into
    /// the trees of all owners under their lock, and then, under that lock again, into a tree of
    /// the child's own, which is empty (`anon_vma_fork()`, mm/rmap.c).
    pub fn next(&mut self, setup: &Setup, env: &mut Env) -> Option<Op> {
        if let Some(lock) = self.links.take() {
            return Some(hold(lock, setup.spin, 0, env));
        }
        let (lock, change) = self.step()?;
        self.links = (lock >= FILES && change == Change::Copies).then_some(lock);
        let nodes = change.nodes(lock, env.shared[USERS]);
        Some(hold(lock, setup.vma, nodes, env))
    }
}

/// Works under the lock of a tree, and reads `nodes` nodes that others have changed. A file's lock
/// is accompanied by the tree's root (`i_mmap_mutex` and `i_mmap`), in another line; an `anon_vma`
/// is one line.
fn hold(lock: u32, work: u64, nodes: u32, env: &mut Env) -> Op {
    let (kind, lines) = match lock < FILES {
        true => (KernelLock::Mutex, 2),
        false => (KernelLock::Rwsem, 1),
    };
    Op::Hold {
        mutex: mapped(lock),
        work: around(work, env),
        lines,
        nodes,
        kind,
        keeps: false,
    }
}

/// A child process: optionally starts another program, computes and exits.
pub struct Child {
    setup: Arc<Setup>,
    /// ns
    work: u64,
    areas: Areas,
    doing: Doing,
}

enum Doing {
    /// Unmaps the areas of its parent's program.
    Releases,
    /// Maps the areas of its own program.
    Maps,
    Computes,
    Exits,
}

impl Child {
    pub fn new(setup: &Arc<Setup>, work: u64, exec: bool) -> Child {
        Child {
            setup: setup.clone(),
            work,
            areas: Areas::new(Of::Child),
            doing: match exec {
                true => Doing::Releases,
                false => Doing::Computes,
            },
        }
    }
}

impl Program for Child {
    fn next(&mut self, env: &mut Env) -> Op {
        if let Doing::Computes = self.doing {
            self.doing = Doing::Exits;
            return compute(self.work, env);
        }
        if let Some(op) = self.areas.next(&self.setup, env) {
            return op;
        }
        match self.doing {
            Doing::Releases => {
                self.areas = Areas::new(Of::Start);
                self.doing = Doing::Maps;
                Op::Exec { work: 0 }
            }
            Doing::Maps => {
                self.areas = Areas::new(Of::End);
                self.doing = Doing::Exits;
                compute(self.work, env)
            }
            Doing::Computes | Doing::Exits => Op::Exit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many times each of the files' locks is taken.
    fn files(mut areas: Areas) -> [usize; FILES as usize] {
        let mut times = [0; FILES as usize];
        while let Some((lock, _)) = areas.step() {
            if lock < FILES {
                times[lock as usize] += 1;
            }
        }
        times
    }

    #[test]
    fn a_program_gives_up_what_it_has_mapped() {
        let left = |file: usize| -> i32 {
            let steps = STARTS.iter().filter(|&&(lock, _)| lock as usize == file);
            let change = |&(_, change): &(u32, Change)| match change {
                Change::Maps | Change::Splits => 1,
                _ => -1,
            };
            steps.map(change).sum()
        };
        let ended = files(Areas::new(Of::End));
        for (file, &times) in ended.iter().enumerate() {
            assert_eq!(left(file), times as i32, "file {file}");
        }
        assert_eq!(files(Areas::new(Of::Parent)), files(Areas::new(Of::Child)));
    }

    #[test]
    fn a_descent_meets_as_many_nodes_as_the_tree_is_deep() {
        let (file, anonymous) = (1, FILES);
        assert_eq!(Change::Maps.nodes(file, 1000), 11);
        assert_eq!(Change::Maps.nodes(file, 2000), 12);
        assert_eq!(Change::Copies.nodes(anonymous, 2000), 10);
        assert_eq!(Change::Maps.nodes(STARTED, 0), 0);
        assert!(Change::Copies.nodes(file, 2000) < Change::Maps.nodes(file, 2000));
    }
}
