//! The spinlocks of Linux 3.10 that a subtest's calls take, and that users of different directories, or even file
//! systems, share. The locks were counted in the kernel's source, for files on ext4.

use super::subtests::Call;
use super::{Setup, around, root};
use workload::{Env, KernelLock, MutexId, Op};

use Lock::{Directory, InodeHash, Inodes, Labels, Lru, Tasks};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// The directory's `d_lock`, which protects its user count (`lockref` came with 3.12), and its
    /// children.
    Directory,
    /// `inode_hash_lock`, which protects the table of all inodes by number.
    InodeHash,
    /// `inode_sb_list_lock`, one lock for the lists of inodes of all file systems.
    Inodes,
    /// `dcache_lru_lock`, one lock for the lists of unused names of all file systems (until 3.12).
    Lru,
    /// `mb_cache_spinlock`, which protects blocks of extended attributes that inodes share. SELinux's labels are in
    /// such blocks if inodes have no room for them. The labels are assumed to be there, because HP fixed this lock for
    /// AIM7 (Linux commit 1f3e55fe02d1).
    Labels,
    /// `tasklist_lock`, taken for writing, which protects the list of all processes.
    Tasks,
}

/// The locks that exist only once.
const SHARED: [Lock; 5] = [InodeHash, Inodes, Lru, Labels, Tasks];

/// The number of locks apart from the directories'.
const GLOBAL: u32 = SHARED.len() as u32;

impl Lock {
    /// The mutex that represents this lock, if `directory` represents the directory's `i_mutex`.
    fn id(self, directory: MutexId, setup: &Setup) -> MutexId {
        let first = root(setup.filesystems);
        match SHARED.iter().position(|&lock| lock == self) {
            Some(index) => first + index as u32,
            None => first + GLOBAL + directory,
        }
    }

    /// The number of cache lines that change under the lock: the lock's own line, and the lines of neighbours in the
    /// lists that it protects.
    fn lines(self) -> u32 {
        match self {
            Directory | InodeHash => 1,
            // The lines of the list's head and of a neighbour change, too; labels and processes are also in a second
            // list.
            Inodes | Lru => 3,
            Labels | Tasks => 5,
        }
    }
}

/// All spinlocks of `call`. A new file's name and inode take the places of those of a removed file. The directory's
/// lock is taken when the use of the directory begins and ends, and when the directory gets or loses a child. Blocks of
/// labels are looked up or taken, and released. A process is listed on fork, reported to its parent on exit, and
/// removed from the list when the parent has waited.
pub fn of(call: Call) -> &'static [Lock] {
    match call {
        Call::Entry | Call::Search | Call::Fifo => &[
            Directory, InodeHash, Inodes, Labels, Labels, Directory, Directory, Lru,
        ],
        Call::Link => &[Directory, Directory, Directory, Lru],
        Call::Open | Call::List => &[Directory, Directory],
        Call::Fork | Call::Script | Call::System => &[Tasks, Tasks, Tasks],
        Call::Sync | Call::Sleep => &[],
    }
}

/// The number of these locks, from the first on, that `call` takes under the directory's mutex when it creates a file
/// or a name. The call takes the other locks afterwards. A call that removes a file takes all of them afterwards,
/// because an inode is freed when its last user is gone.
pub fn inside(call: Call) -> usize {
    match call {
        Call::Entry | Call::Search | Call::Fifo => 5,
        Call::Link => 1,
        _ => 0,
    }
}

pub fn hold(lock: Lock, directory: MutexId, setup: &Setup, env: &mut Env) -> Op {
    Op::Hold {
        mutex: lock.id(directory, setup),
        work: around(setup.spin, env),
        lines: lock.lines(),
        nodes: 0,
        kind: KernelLock::Spinlock,
        keeps: false,
        if_locked: false,
    }
}

pub fn count(filesystems: u32) -> u32 {
    GLOBAL + root(filesystems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aim7::mutexes;
    use std::collections::HashSet;
    use workload::Args;

    #[test]
    fn each_directory_and_what_all_share_has_its_lock() {
        let args = Args::read("aim7", crate::aim7::PARAMS, None).unwrap();
        let setup = Setup::new(0, &args);
        let directories = root(setup.filesystems);
        let shared = SHARED.iter().map(|lock| lock.id(0, &setup));
        let own = (0..directories).map(|directory| Directory.id(directory, &setup));
        let ids: HashSet<MutexId> = shared.chain(own).collect();
        assert_eq!(ids.len() as u32, count(setup.filesystems));
        assert!(ids.iter().all(|&id| id >= directories));
        assert!(
            ids.iter()
                .all(|&id| (id as usize) < mutexes(setup.filesystems))
        );
    }

    #[test]
    fn inner_locks_are_part_of_all_locks() {
        for call in [
            Call::Entry,
            Call::Search,
            Call::Fifo,
            Call::Link,
            Call::Open,
            Call::Fork,
        ] {
            assert!(inside(call) < of(call).len(), "{call:?}");
        }
    }
}
