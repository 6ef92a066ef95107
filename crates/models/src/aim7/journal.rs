//! ext4's journal (jbd2): the handles in which tasks change a file system, which wait while a transaction
//! closes, and a thread for each file system that commits transactions.
//!
//! A transaction that is to be committed is closed first (`T_LOCKED`): no handle can start until the open ones have
//! ended, and the thread runs to open the next transaction. Then the thread writes the blocks that the handles have
//! changed, and tasks that want to change these again wait until the blocks are written (`BJ_Shadow`). The source is
//! fs/jbd2 of Linux 3.10: `start_this_handle()`, `do_get_write_access()`, `jbd2_journal_commit_transaction()`.
//! Checkpoints, which a journal of this size needs once in some fifty commits, and the writes of a file's data, each
//! with a handle of its own, are not modelled.

use super::{STREAMS as FIRST, USERS, WORDS as BEFORE};
use workload::{Env, Op, Program, StreamId};

/// A file system's streams. A byte in a stream wakes a task that waits for the event.
#[derive(Clone, Copy)]
enum Stream {
    /// A request (`j_wait_commit`).
    Request,
    /// The end of the last open handle (`j_wait_updates`).
    Updates,
    /// The next transaction (`j_wait_transaction_locked`).
    Unlocked,
    /// The end of writing (`BH_Unshadow`).
    Unshadowed,
    /// The commit of an even transaction, and of an odd one (`j_wait_done_commit`).
    Even,
    Odd,
}

pub const STREAMS: usize = 6;

/// A file system's shared words.
#[derive(Clone, Copy)]
enum Word {
    /// The number of the open transaction.
    Open,
    /// Whether the transaction's commit has been requested.
    Requested,
    /// Whether the thread waits for a request.
    Asleep,
    /// Whether the transaction is closed.
    Locked,
    /// The number of the transaction's open handles (`t_updates`).
    Updates,
    /// The number of blocks that the open handles may change (`t_outstanding_credits`).
    Reserved,
    /// Whether some handle has changed blocks in the transaction.
    Changed,
    /// Whether the thread waits for the end of the open handles.
    AwaitsUpdates,
    /// The number of tasks that wait for the next transaction.
    Waiters,
    /// Whether the thread writes the blocks of the last transaction.
    Shadow,
    /// The number of tasks that wait for the end of that writing.
    ShadowWaiters,
    /// The number of tasks that wait for the commit of an even transaction, and of an odd one.
    EvenWaiters,
    OddWaiters,
    /// Whether all users have exited.
    Stopped,
}

pub const WORDS: usize = 14;

#[derive(Clone, Copy)]
struct FileSystem(u32);

impl FileSystem {
    fn word(self, word: Word, env: &mut Env) -> &mut u64 {
        &mut env.shared[BEFORE + WORDS * self.0 as usize + word as usize]
    }

    fn is(self, word: Word, env: &mut Env) -> bool {
        *self.word(word, env) > 0
    }

    fn stream(self, stream: Stream) -> StreamId {
        FIRST + STREAMS as u32 * self.0 + stream as u32
    }

    fn wait(self, stream: Stream) -> Op {
        Op::Read {
            stream: self.stream(stream),
            bytes: 1,
            work: 0,
        }
    }

    /// The op that wakes all tasks that `word` counts, if there are any. The count becomes 0.
    fn wake_all(self, stream: Stream, word: Word, env: &mut Env) -> Option<Op> {
        let waiters = std::mem::take(self.word(word, env));
        (waiters > 0).then(|| Op::Write {
            stream: self.stream(stream),
            bytes: waiters,
            work: 0,
        })
    }

    /// Requests the commit of the open transaction. Returns the op that wakes the journal's thread, if it sleeps.
    fn request(self, env: &mut Env) -> Option<Op> {
        *self.word(Word::Requested, env) = 1;
        self.wake_all(Stream::Request, Word::Asleep, env)
    }

    fn committed(transaction: u64) -> (Stream, Word) {
        match transaction & 1 {
            0 => (Stream::Even, Word::EvenWaiters),
            _ => (Stream::Odd, Word::OddWaiters),
        }
    }
}

/// The numbers of blocks of handles (fs/ext4/ext4_jbd2.h, namei.c and inode.c of Linux 3.10, with extents and without
/// quotas).
pub mod credits {
    const DATA: u64 = 27 + 6 - 2;
    const INDEX: u64 = 8;
    pub const CREATE: u64 = DATA + INDEX + 3;
    pub const LINK: u64 = DATA + INDEX;
    pub const UNLINK: u64 = DATA;
    /// The blocks for freeing the inode of a file without allocated blocks.
    pub const EVICT: u64 = DATA + 2 + 3;
    /// The blocks for writing an inode.
    pub const INODE: u64 = 2;
}

/// The maximum number of blocks of a transaction: a quarter of HP's journals of 4 MB (`j_max_transaction_buffers`).
const MOST: u64 = 1024 / 4;

/// A handle that changes a file system's metadata.
pub struct Handle {
    filesystem: u32,
    credits: u64,
    /// Whether the handle is counted in the open transaction.
    started: bool,
}

impl Handle {
    pub fn new(filesystem: u32, credits: u64) -> Handle {
        Handle {
            filesystem,
            credits,
            started: false,
        }
    }

    /// The next op before the handle may change blocks, which wakes the journal's thread or waits; `None` when the
    /// handle may change them.
    pub fn begin(&mut self, env: &mut Env) -> Option<Op> {
        let fs = FileSystem(self.filesystem);
        if !self.started {
            let all = *fs.word(Word::Reserved, env) + self.credits;
            if all > MOST && !fs.is(Word::Requested, env) {
                // The thread is awake, or is woken before the handle waits.
                if let Some(op) = fs.request(env) {
                    return Some(op);
                }
            }
            if all > MOST || fs.is(Word::Locked, env) {
                *fs.word(Word::Waiters, env) += 1;
                return Some(fs.wait(Stream::Unlocked));
            }
            *fs.word(Word::Updates, env) += 1;
            *fs.word(Word::Reserved, env) = all;
            self.started = true;
        }
        if fs.is(Word::Shadow, env) {
            *fs.word(Word::ShadowWaiters, env) += 1;
            return Some(fs.wait(Stream::Unshadowed));
        }
        *fs.word(Word::Changed, env) = 1;
        None
    }

    /// Ends the handle. Returns the op that wakes the journal's thread, if it waits for this handle.
    pub fn end(self, env: &mut Env) -> Option<Op> {
        let fs = FileSystem(self.filesystem);
        *fs.word(Word::Reserved, env) -= self.credits;
        *fs.word(Word::Updates, env) -= 1;
        if fs.is(Word::Updates, env) {
            return None;
        }
        fs.wake_all(Stream::Updates, Word::AwaitsUpdates, env)
    }
}

/// Requests a commit for a writer's data. Returns the op that wakes the journal's thread, if it sleeps, and the op that
/// waits for the commit.
pub fn sync(filesystem: u32, env: &mut Env) -> (Option<Op>, Op) {
    let fs = FileSystem(filesystem);
    let (stream, waiters) = FileSystem::committed(*fs.word(Word::Open, env));
    *fs.word(waiters, env) += 1;
    (fs.request(env), fs.wait(stream))
}

/// Tells the journal's thread to exit once there is no request. Returns the op that wakes the thread, if it sleeps.
pub fn stop(filesystem: u32, env: &mut Env) -> Option<Op> {
    let fs = FileSystem(filesystem);
    *fs.word(Word::Stopped, env) = 1;
    fs.wake_all(Stream::Request, Word::Asleep, env)
}

/// The journal's thread (`kjournald2()`).
pub struct Journal {
    fs: FileSystem,
    filesystems: u32,
    /// The work per block of a commit, in ns.
    block: u64,
    state: JournalState,
}

enum JournalState {
    /// The thread looks for a request.
    Looks,
    /// The thread has closed the transaction.
    Locks,
    /// The thread has to open the next transaction.
    Writes,
    /// The thread has to write the blocks of this transaction.
    Written(u64),
    /// The thread wakes all tasks that wait for the transaction.
    Commits(u64),
}

impl Journal {
    pub fn new(filesystem: u32, filesystems: u32, block: u64) -> Journal {
        Journal {
            fs: FileSystem(filesystem),
            filesystems,
            block,
            state: JournalState::Looks,
        }
    }

    /// The number of blocks of a commit: a directory, the bitmap of inodes, the descriptor of their group, the super
    /// block, the inodes of the users of the file system (16 to a block), a descriptor and the commit record. If no
    /// handle has changed blocks, only the last two are written.
    fn blocks(&self, env: &mut Env) -> u64 {
        let changed = std::mem::take(self.fs.word(Word::Changed, env)) > 0;
        let users = env.shared[USERS] / u64::from(self.filesystems);
        let inodes = users.div_ceil(16);
        2 + if changed { 4 + inodes } else { 0 }
    }
}

impl Program for Journal {
    fn next(&mut self, env: &mut Env) -> Op {
        let fs = self.fs;
        loop {
            match self.state {
                JournalState::Looks => {
                    if fs.is(Word::Requested, env) {
                        *fs.word(Word::Locked, env) = 1;
                        self.state = JournalState::Locks;
                    } else if fs.is(Word::Stopped, env) {
                        return Op::Exit;
                    } else {
                        *fs.word(Word::Asleep, env) = 1;
                        return fs.wait(Stream::Request);
                    }
                }
                JournalState::Locks => {
                    self.state = JournalState::Writes;
                    if fs.is(Word::Updates, env) {
                        *fs.word(Word::AwaitsUpdates, env) = 1;
                        return fs.wait(Stream::Updates);
                    }
                }
                JournalState::Writes => {
                    let open = fs.word(Word::Open, env);
                    let transaction = *open;
                    *open += 1;
                    *fs.word(Word::Requested, env) = 0;
                    *fs.word(Word::Locked, env) = 0;
                    *fs.word(Word::Shadow, env) = 1;
                    self.state = JournalState::Written(transaction);
                    if let Some(op) = fs.wake_all(Stream::Unlocked, Word::Waiters, env) {
                        return op;
                    }
                }
                JournalState::Written(transaction) => {
                    self.state = JournalState::Commits(transaction);
                    let blocks = self.blocks(env);
                    return Op::Run {
                        work: blocks * self.block,
                    };
                }
                JournalState::Commits(transaction) => {
                    *fs.word(Word::Shadow, env) = 0;
                    if let Some(op) = fs.wake_all(Stream::Unshadowed, Word::ShadowWaiters, env) {
                        return op;
                    }
                    self.state = JournalState::Looks;
                    let (stream, waiters) = FileSystem::committed(transaction);
                    if let Some(op) = fs.wake_all(stream, waiters, env) {
                        return op;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env() -> Env {
        Env::new(vec![0; BEFORE + 2 * WORDS], 1, &[])
    }

    fn shown(op: Op) -> (Option<usize>, u64) {
        let of = |stream: StreamId| Some(stream as usize - FIRST as usize - STREAMS);
        match op {
            Op::Read { stream, .. } => (of(stream), 0),
            Op::Write { stream, bytes, .. } => (of(stream), bytes),
            Op::Run { work } => (None, work),
            _ => panic!("neither waits nor wakes nor works"),
        }
    }

    fn waits(stream: Stream) -> (Option<usize>, u64) {
        wakes(stream, 0)
    }

    fn wakes(stream: Stream, count: u64) -> (Option<usize>, u64) {
        (Some(stream as usize), count)
    }

    #[test]
    fn a_commit_is_for_all_that_wait() {
        let (mut env, mut journal) = (env(), Journal::new(1, 2, 10));
        assert_eq!(shown(journal.next(&mut env)), waits(Stream::Request));
        let (asks, first) = sync(1, &mut env);
        assert_eq!(asks.map(shown), Some(wakes(Stream::Request, 1)));
        let (asks, second) = sync(1, &mut env);
        assert_eq!(asks.map(shown), None, "it has been woken");
        for writer in [first, second] {
            assert_eq!(shown(writer), waits(Stream::Even));
        }
        assert_eq!(shown(journal.next(&mut env)), (None, 20), "no changes");
        let (_, late) = sync(1, &mut env);
        assert_eq!(shown(late), waits(Stream::Odd));
        assert_eq!(shown(journal.next(&mut env)), wakes(Stream::Even, 2));
        assert_eq!(shown(journal.next(&mut env)), (None, 20));
        assert_eq!(shown(journal.next(&mut env)), wakes(Stream::Odd, 1));
        assert_eq!(shown(journal.next(&mut env)), waits(Stream::Request));
    }

    #[test]
    fn no_handle_starts_while_a_transaction_closes_or_changes_blocks_that_are_written() {
        let (mut env, mut journal) = (env(), Journal::new(1, 2, 10));
        let (mut open, mut late) = (Handle::new(1, 5), Handle::new(1, 5));
        assert!(open.begin(&mut env).is_none());
        sync(1, &mut env);
        assert_eq!(shown(journal.next(&mut env)), waits(Stream::Updates));
        assert_eq!(
            late.begin(&mut env).map(shown),
            Some(waits(Stream::Unlocked))
        );
        assert_eq!(
            open.end(&mut env).map(shown),
            Some(wakes(Stream::Updates, 1))
        );
        assert_eq!(shown(journal.next(&mut env)), wakes(Stream::Unlocked, 1));
        assert_eq!(
            late.begin(&mut env).map(shown),
            Some(waits(Stream::Unshadowed))
        );
        assert_eq!(shown(journal.next(&mut env)), (None, 60), "changes");
        assert_eq!(shown(journal.next(&mut env)), wakes(Stream::Unshadowed, 1));
        assert!(late.begin(&mut env).is_none());
        assert_eq!(shown(journal.next(&mut env)), wakes(Stream::Even, 1));
        assert!(late.end(&mut env).is_none(), "no one waits for it");
    }

    #[test]
    fn a_full_transaction_is_committed() {
        let (mut env, mut journal) = (env(), Journal::new(1, 2, 10));
        assert_eq!(shown(journal.next(&mut env)), waits(Stream::Request));
        let mut open = Vec::new();
        for _ in 0..MOST / credits::CREATE {
            let mut handle = Handle::new(1, credits::CREATE);
            assert!(handle.begin(&mut env).is_none());
            open.push(handle);
        }
        let mut late = Handle::new(1, credits::CREATE);
        assert_eq!(
            late.begin(&mut env).map(shown),
            Some(wakes(Stream::Request, 1))
        );
        assert_eq!(
            late.begin(&mut env).map(shown),
            Some(waits(Stream::Unlocked))
        );
        assert_eq!(shown(journal.next(&mut env)), waits(Stream::Updates));
        let last = open.pop().unwrap();
        assert!(
            open.into_iter()
                .all(|handle| handle.end(&mut env).is_none())
        );
        assert!(last.end(&mut env).is_some());
        assert_eq!(shown(journal.next(&mut env)), wakes(Stream::Unlocked, 1));
    }
}
