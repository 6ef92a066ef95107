//! The kinds of wakeups that the simulated kernel makes: the Linux function that makes each of them, and the flags of
//! the wakeup.
//!
//! Linux announces with `WF_SYNC` that the waker is about to sleep. Schedulers differ in whether the flag counts when
//! the waker exits: `select_task_rq_fair()` tests only the flag in 3.9 and 3.10, but in 6.12 and 7.3 also the waker's
//! `PF_EXITING`, as sched_ext's own selection does.

use crate::abi::layout as abi;
use workload::StreamKind;

/// A row of [`WAKEUPS`].
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The kind of wakeup.
    pub wakeup: Wakeup,
    /// The occasion of the wakeup, for the documentation.
    pub occasion: &'static str,
    /// The function that makes the wakeup in Linux 3.9 and 3.10.
    pub in_3: &'static str,
    /// The function that makes the wakeup in Linux 6.12 and 7.3.
    pub since_6: &'static str,
    /// Whether the wakeup has `WF_SYNC` in all of these versions.
    pub sync: bool,
}

macro_rules! table {
    ($($wakeup:ident, $occasion:literal, $in_3:literal, $since_6:literal, $sync:literal;)*) => {
        /// A kind of wakeup. [`WAKEUPS`] describes each.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Wakeup {
            $($wakeup),*
        }

        /// All kinds, in the order of [`Wakeup`].
        pub const WAKEUPS: &[Row] = &[$(Row {
            wakeup: Wakeup::$wakeup,
            occasion: $occasion,
            in_3: $in_3,
            since_6: $since_6,
            sync: $sync,
        }),*];
    };
}

table! {
    Timer, "a sleep ends", "hrtimer_wakeup()", "hrtimer_wakeup()", false;
    Softirq, "softirqs are left to ksoftirqd", "wakeup_softirqd()", "wakeup_softirqd()", false;
    Futex, "a mutex, condition variable or barrier of user space", "wake_futex()", "wake_up_q()", false;
    ThreadExit, "a thread exits and is joined", "mm_release()", "mm_release()", false;
    ChildExit, "a child exits and is waited for", "__wake_up_parent()", "__wake_up_parent()", true;
    Mutex, "a mutex of the kernel", "__mutex_unlock_slowpath()", "__mutex_unlock_slowpath()", false;
    Rwsem, "an rwsem of the kernel", "__rwsem_do_wake()", "rwsem_mark_wake()", false;
    PipeReader, "data in a pipe", "pipe_write()", "pipe_write()", true;
    PipeWriter, "room in a pipe", "pipe_read()", "pipe_read()", true;
    UnixReader, "data in a Unix socket", "sock_def_readable()", "sock_def_readable()", true;
    UnixWriter, "room in a Unix socket", "unix_write_space()", "unix_write_space()", true;
    TcpReader, "data in a TCP socket", "sock_def_readable()", "sock_def_readable()", true;
    TcpWriter, "room in a TCP socket", "sk_stream_write_space()", "sk_stream_write_space()", false;
    WaitQueue, "an event of a journal (jbd2)", "wake_up()", "wake_up()", false;
    Signal, "a signal", "signal_wake_up_state()", "signal_wake_up_state()", false;
    Recorded, "a wakeup of a recording, which has no flags", "try_to_wake_up()", "try_to_wake_up()", false;
}

impl Wakeup {
    /// The flags of the wakeup.
    #[inline]
    pub const fn flags(self) -> u64 {
        match WAKEUPS[self as usize].sync {
            true => abi::WAKE_SYNC,
            false => 0,
        }
    }

    /// The wakeup of a task that waits for data in a stream.
    #[inline]
    pub const fn of_reader(kind: StreamKind) -> Wakeup {
        match kind {
            StreamKind::Pipe => Wakeup::PipeReader,
            StreamKind::UnixSocket => Wakeup::UnixReader,
            StreamKind::TcpSocket => Wakeup::TcpReader,
            StreamKind::WaitQueue => Wakeup::WaitQueue,
            StreamKind::Futex => Wakeup::Futex,
            StreamKind::Signal => Wakeup::Signal,
            StreamKind::Recorded => Wakeup::Recorded,
        }
    }

    /// The wakeup of a task that waits for room in a stream.
    #[inline]
    pub const fn of_writer(kind: StreamKind) -> Wakeup {
        match kind {
            StreamKind::Pipe => Wakeup::PipeWriter,
            StreamKind::UnixSocket => Wakeup::UnixWriter,
            StreamKind::TcpSocket => Wakeup::TcpWriter,
            _ => Wakeup::of_reader(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_have_this_table() {
        let page = include_str!("../../../../docs/design/simulator.md");
        for row in WAKEUPS {
            let functions = match row.in_3 == row.since_6 {
                true => format!("`{}`", row.in_3),
                false => format!("`{}`; `{}` since 6.12", row.in_3, row.since_6),
            };
            let flags = if row.sync { "`WF_SYNC`" } else { "none" };
            let line = format!("| {} | {functions} | {flags} |", row.occasion);
            assert!(page.lines().any(|other| other == line), "{line}");
        }
    }
}
