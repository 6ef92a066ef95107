//! Processes: the memory areas in fork, exec and exit, and children of users.
//!
//! A fork and exit take 0.88 to 1.02 us longer for each area with anonymous memory than for an area without it, in a
//! child with 0 to 1500 siblings on a Xeon of 2024 under Linux 6.18. The difference is twice as large on the machine of
//! AIM7's published figures (`at_speed()`). The time under locks is assumed to be four fifths of that difference: two
//! sections of `vma` and one of `spin`.

use super::spinlocks::{self, Lock};
use super::subtests::Call;
use super::{BIN, Setup, USERS, around, compute, mapped};
use std::sync::Arc;
use workload::{Env, KernelLock, Op, Program, TaskSpec};

/// The number of files that processes map: the users' program, libm, libc, ld.so, the shell and the programs that it
/// starts, and libdl, which stands for the libraries of these programs other than libc.
const FILES: u32 = 6;
const PROGRAM: u32 = 0;
const LIBM: u32 = 1;
const STARTED: u32 = 4;
const LIBDL: u32 = 5;

/// The number of locks: the locks of the files, then the locks of the anonymous memory that users inherit from their
/// parent.
pub const LOCKS: u32 = FILES + 9;

/// The locks of the areas of a user's memory, in address order, as RHEL 6 maps a program with two libraries: the
/// program's text and data; the heap; for each library its text, a gap, relocated data and data; libc's bss; the
/// loader's text between two anonymous mappings of the loader, its relocated data and its data; and the stack. An area
/// of a file to which the process has written is under both locks, and neighbouring areas of a file share the lock of
/// their anonymous memory (`find_mergeable_anon_vma()`).
pub const AREAS: [u32; 25] = [
    PROGRAM, PROGRAM, 6, 7, 1, 1, 1, 8, 1, 8, 2, 2, 2, 9, 2, 9, 10, 11, 3, 12, 3, 13, 3, 13, 14,
];

/// The number of areas that are anonymous, or have been written to.
pub fn anonymous() -> u64 {
    AREAS.iter().filter(|&&lock| lock >= FILES).count() as u64
}

/// The changes of a starting program to the trees of the files that it maps: for its own two areas; for the loader,
/// which the kernel maps as a whole and then trims, and whose data the kernel maps, part of which becomes read-only
/// later; and for two libraries. The loader maps each library as a whole, makes the gap inaccessible, maps the data
/// over the end, and makes a part of the data read-only (fs/binfmt_elf.c; glibc's elf/dl-load.c and dl-reloc.c).
const STARTS: [(u32, TreeChange); 19] = [
    (STARTED, TreeChange::Maps),
    (STARTED, TreeChange::Maps),
    (3, TreeChange::Maps),
    (3, TreeChange::Splits),
    (3, TreeChange::Unmaps),
    (3, TreeChange::Maps),
    (LIBDL, TreeChange::Maps),
    (LIBDL, TreeChange::Splits),
    (LIBDL, TreeChange::Splits),
    (LIBDL, TreeChange::Unmaps),
    (LIBDL, TreeChange::Maps),
    (2, TreeChange::Maps),
    (2, TreeChange::Splits),
    (2, TreeChange::Splits),
    (2, TreeChange::Unmaps),
    (2, TreeChange::Maps),
    (3, TreeChange::Splits),
    (LIBDL, TreeChange::Splits),
    (2, TreeChange::Splits),
];

/// An operation under the lock of an area's tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TreeChange {
    /// A child gets a copy of an area. For a file's mapping, the tree is changed next to the parent's area
    /// (`vma_interval_tree_insert_after()`); for an anonymous area the tree is searched from the root down to the
    /// area's place.
    Copies,
    /// An area is mapped: the tree is searched from the root down to its place.
    Maps,
    /// An area is split: both parts go to their places (`vma_adjust()`, mm/mmap.c).
    Splits,
    /// An area is unmapped, and removed from its place.
    Unmaps,
    /// A copy without later neighbours is unmapped, and removed from its place.
    Drops,
}

impl TreeChange {
    /// The number of nodes of the tree under `lock` that the operation reads and that others have changed, if each user
    /// has its areas in the tree. The nodes were counted by running Linux's algorithms (lib/rbtree.c,
    /// mm/interval_tree.c) on trees of 1100 to 2000 users' areas while 20 to 300 children come and go on 80 CPUs. A
    /// descent passes all equal nodes, 1.7 times the depth of a balanced tree, of which 10 to 13 have changed since its
    /// CPU last saw them; a split meets 18 to 29 changed nodes, a removal 5 to 6. A file's copy is a leaf, so its
    /// insertion meets 2 such nodes, and its removal 1.
    fn nodes(self, lock: u32, users: u64) -> u32 {
        let each = AREAS.iter().filter(|&&other| other == lock).count() as u64;
        let depth = (users * each.max(1)).max(1).ilog2();
        match self {
            TreeChange::Copies if lock < FILES => 2,
            TreeChange::Copies | TreeChange::Maps => depth,
            TreeChange::Splits => 2 * depth,
            TreeChange::Unmaps => 5,
            TreeChange::Drops if lock < FILES => 1,
            TreeChange::Drops => 5,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Image {
    /// AIM7's program, with the memory that all users have inherited.
    Users,
    /// The shell, or a program that it started. The child has anonymous memory of its own, so no other user waits for
    /// the memory's locks.
    Started,
}

impl Image {
    /// The lock that corresponds to a user's `lock`; `None` if no other process shares it.
    fn lock(self, lock: u32) -> Option<u32> {
        match (self, lock) {
            (Image::Users, _) => Some(lock),
            (Image::Started, PROGRAM) => Some(STARTED),
            (Image::Started, LIBM) => Some(LIBDL),
            (Image::Started, _) => Some(lock).filter(|&lock| lock < FILES),
        }
    }
}

/// Walks a process's areas of memory, each under its lock.
pub struct Areas {
    next: usize,
    image: Image,
    fate: Fate,
    /// The rest of the last area.
    rest: Option<Rest>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// A child copies the areas.
    Copied,
    /// A child that has copied the areas unmaps them.
    Dropped,
    /// A starting program maps the areas.
    Started,
    /// The program that has mapped the areas exits.
    Ended,
}

/// The last operation on an area, for which the same lock is taken again.
#[derive(Clone, Copy)]
enum Rest {
    /// A copy is added to a tree of anonymous memory that is the child's own (`anon_vma_fork()`,
    /// mm/rmap.c).
    Links(u32),
    /// The tree is freed. If a task has the lock or waits for it, the lock is first taken once more
    /// (`anon_vma_free()`).
    Frees(u32),
}

impl Areas {
    pub const COPIED: Areas = Areas::new(Image::Users, Fate::Copied);

    const fn new(image: Image, fate: Fate) -> Areas {
        Areas {
            next: 0,
            image,
            fate,
            rest: None,
        }
    }

    /// The next lock, and the operation under it.
    fn step(&mut self) -> Option<(u32, TreeChange)> {
        if self.fate == Fate::Started {
            let step = STARTS.get(self.next).copied();
            self.next += 1;
            return step;
        }
        let left = AREAS[self.next..].iter();
        let (index, lock) = left
            .enumerate()
            .find_map(|(index, &lock)| Some((index, self.image.lock(lock)?)))?;
        self.next += index + 1;
        let change = match self.fate {
            Fate::Copied => TreeChange::Copies,
            Fate::Dropped => TreeChange::Drops,
            _ => TreeChange::Unmaps,
        };
        Some((lock, change))
    }

    /// The op on the next area, or the rest of the op on the last area.
    pub fn next(&mut self, setup: &Setup, env: &mut Env) -> Option<Op> {
        match self.rest.take() {
            Some(Rest::Links(lock)) => return Some(hold(lock, setup, setup.spin, 0, false, env)),
            Some(Rest::Frees(lock)) => return Some(hold(lock, setup, 0, 0, true, env)),
            None => {}
        }
        let (lock, change) = self.step()?;
        self.rest = match change {
            _ if lock < FILES => None,
            TreeChange::Copies => Some(Rest::Links(lock)),
            _ => Some(Rest::Frees(lock)),
        };
        let nodes = change.nodes(lock, env.shared[USERS]);
        Some(hold(lock, setup, setup.vma, nodes, false, env))
    }
}

/// The op that works under the lock of a tree, and reads `nodes` nodes that others have changed. A file's lock and the
/// root of its tree (`i_mmap_mutex` and `i_mmap`) are in two lines; an `anon_vma` is in one line.
fn hold(lock: u32, setup: &Setup, work: u64, nodes: u32, if_locked: bool, env: &mut Env) -> Op {
    let (kind, lines) = match lock < FILES {
        true => (setup.i_mmap, 2),
        false => (KernelLock::Rwsem, 1),
    };
    Op::Hold {
        mutex: mapped(lock),
        work: around(work, env),
        lines,
        nodes,
        kind,
        keeps: false,
        if_locked,
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Starts another program, which computes.
    Exec,
    /// Forks a child, and waits for it.
    Fork(&'static [Act]),
    /// Exits. If neither a user's child nor its descendants start a program, the child computes first.
    Exit,
}

/// `fork_test`'s child.
pub const FORK: &[Act] = &[Act::Exit];
/// `exec_test`'s child executes `true`, a script of AIM7's: the shell, which starts `ls`.
pub const SCRIPT: &[Act] = &[Act::Exec, Act::Fork(COMMAND), Act::Exit];
/// `shell_rtns`'s child calls `system(3)`: another child becomes the shell, which then becomes the shell of the script,
/// which starts `ls` or `sleep`.
pub const SYSTEM: &[Act] = &[Act::Fork(SHELL), Act::Exit];
const SHELL: &[Act] = &[Act::Exec, Act::Exec, Act::Fork(COMMAND), Act::Exit];
const COMMAND: &[Act] = &[Act::Exec, Act::Exit];

fn execs(acts: &[Act]) -> u64 {
    acts.iter()
        .map(|act| match act {
            Act::Exec => 1,
            Act::Fork(child) => execs(child),
            Act::Exit => 0,
        })
        .sum()
}

pub struct Child {
    setup: Arc<Setup>,
    /// The work of each program that is started, or of the only child, in ns.
    work: u64,
    acts: &'static [Act],
    image: Image,
    /// Whether the process still has its parent's program.
    copied: bool,
    areas: Option<Areas>,
    state: ChildState,
}

#[derive(Clone, Copy)]
enum ChildState {
    /// The process has to do the next act.
    Acts,
    /// The process unmaps the areas of its program, to start another.
    Releases,
    /// The process maps the areas of its program.
    Maps,
    /// The process copies the areas of its program for a child.
    Copies(&'static [Act]),
    Waits,
    /// The process takes the spinlocks of the child's fork and exit.
    Lists(&'static [Lock]),
    /// The process unmaps the areas of its program, to exit.
    Exits,
}

impl Child {
    /// A child of a user. The work of the process and its children is `work` in total.
    pub fn new(setup: &Arc<Setup>, work: u64, acts: &'static [Act]) -> Child {
        Child {
            setup: setup.clone(),
            work: work / execs(acts).max(1),
            acts,
            image: Image::Users,
            copied: true,
            areas: None,
            state: match execs(acts) {
                0 => ChildState::Maps,
                _ => ChildState::Acts,
            },
        }
    }

    fn fork(&self, acts: &'static [Act]) -> Child {
        Child {
            setup: self.setup.clone(),
            work: self.work,
            acts,
            image: self.image,
            copied: true,
            areas: None,
            state: ChildState::Acts,
        }
    }

    fn act(&mut self) {
        let [act, rest @ ..] = self.acts else {
            return;
        };
        self.acts = rest;
        let dropped = match self.copied {
            true => Fate::Dropped,
            false => Fate::Ended,
        };
        let (fate, state) = match act {
            Act::Exec => (dropped, ChildState::Releases),
            Act::Exit => (dropped, ChildState::Exits),
            Act::Fork(child) => (Fate::Copied, ChildState::Copies(child)),
        };
        self.areas = Some(Areas::new(self.image, fate));
        self.state = state;
    }
}

impl Program for Child {
    fn next(&mut self, env: &mut Env) -> Op {
        loop {
            if let Some(areas) = &mut self.areas {
                if let Some(op) = areas.next(&self.setup, env) {
                    return op;
                }
                self.areas = None;
            }
            match std::mem::replace(&mut self.state, ChildState::Acts) {
                ChildState::Acts => self.act(),
                ChildState::Releases => {
                    (self.image, self.copied) = (Image::Started, false);
                    self.areas = Some(Areas::new(self.image, Fate::Started));
                    self.state = ChildState::Maps;
                    return Op::Exec { work: 0 };
                }
                ChildState::Maps => return compute(self.work, env),
                ChildState::Copies(acts) => {
                    self.state = ChildState::Waits;
                    return Op::Fork {
                        child: Box::new(TaskSpec::new("child", self.fork(acts))),
                        work: 0,
                    };
                }
                ChildState::Waits => {
                    self.state = ChildState::Lists(spinlocks::of(Call::Fork));
                    return Op::WaitChildren;
                }
                ChildState::Lists([]) => {}
                ChildState::Lists([lock, rest @ ..]) => {
                    self.state = ChildState::Lists(rest);
                    return spinlocks::hold(*lock, BIN, &self.setup, env);
                }
                ChildState::Exits => return Op::Exit,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(image: Image, fate: Fate) -> [usize; FILES as usize] {
        let mut areas = Areas::new(image, fate);
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
            let change = |&(_, change): &(u32, TreeChange)| match change {
                TreeChange::Maps | TreeChange::Splits => 1,
                _ => -1,
            };
            steps.map(change).sum()
        };
        let ended = files(Image::Started, Fate::Ended);
        for (file, &times) in ended.iter().enumerate() {
            assert_eq!(left(file), times as i32, "file {file}");
        }
        for image in [Image::Users, Image::Started] {
            assert_eq!(files(image, Fate::Copied), files(image, Fate::Dropped));
        }
    }

    #[test]
    fn a_descent_meets_as_many_nodes_as_the_tree_is_deep() {
        let (file, anonymous) = (1, FILES);
        assert_eq!(TreeChange::Maps.nodes(file, 1000), 11);
        assert_eq!(TreeChange::Maps.nodes(file, 2000), 12);
        assert_eq!(TreeChange::Copies.nodes(anonymous, 2000), 10);
        assert_eq!(TreeChange::Maps.nodes(STARTED, 0), 0);
        assert!(TreeChange::Copies.nodes(file, 2000) < TreeChange::Maps.nodes(file, 2000));
    }
}
