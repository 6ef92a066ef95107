//! Streams: pipes, and the two directions of sockets.

use crate::kernel::task::TaskPtr;
use crate::program::wait_queue::WaitQueue;
use workload::StreamKind;

pub struct Streams(Vec<Stream>);

struct Stream {
    kind: StreamKind,
    capacity: u64,
    used: u64,
    readers: WaitQueue,
    writers: WaitQueue,
}

/// The result of writing to a stream, or reading from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    Done,
    /// The task waits among the stream's writers or readers.
    Waits,
    /// The request exceeds what the stream can ever hold, which is an error of the program.
    TooLarge {
        capacity: u64,
    },
}

impl Streams {
    pub fn new(streams: &[workload::Stream]) -> Streams {
        let stream = |&workload::Stream { kind, capacity }: &_| Stream {
            kind,
            capacity,
            used: 0,
            readers: WaitQueue::default(),
            writers: WaitQueue::default(),
        };
        Streams(streams.iter().map(stream).collect())
    }

    pub fn kind(&self, stream: u32) -> StreamKind {
        self.0[stream as usize].kind
    }

    /// The bytes in `stream`, and its capacity.
    pub fn level(&self, stream: u32) -> (u64, u64) {
        let state = &self.0[stream as usize];
        (state.used, state.capacity)
    }

    /// Puts bytes into the stream, whose readers then have to be woken, or queues the task for room, unless the stream
    /// could never hold the bytes.
    #[inline]
    pub fn put(&mut self, task: TaskPtr, stream: u32, bytes: u64) -> Transfer {
        let state = &mut self.0[stream as usize];
        let capacity = state.capacity;
        if bytes > capacity {
            return Transfer::TooLarge { capacity };
        }
        if state.used + bytes > capacity {
            state.writers.push(task);
            return Transfer::Waits;
        }
        state.used += bytes;
        Transfer::Done
    }

    /// Takes bytes from the stream, or queues the task for them.
    #[inline]
    pub fn take(&mut self, task: TaskPtr, stream: u32, bytes: u64) -> Transfer {
        let state = &mut self.0[stream as usize];
        let capacity = state.capacity;
        if bytes > capacity {
            return Transfer::TooLarge { capacity };
        }
        if state.used < bytes {
            state.readers.push(task);
            return Transfer::Waits;
        }
        state.used -= bytes;
        Transfer::Done
    }

    /// Do writers have to be woken after a read? All streams follow the rule of Unix sockets, whose writers are woken
    /// once at most a quarter is in use (`unix_writable()`, net/unix/af_unix.c).
    #[inline]
    pub fn is_writable(&self, stream: u32) -> bool {
        let state = &self.0[stream as usize];
        state.used * 4 <= state.capacity
    }

    /// Removes bytes that the network has sent. Returns whether writers have to be woken: TCP wakes them once at most
    /// two thirds are in use (`sk_stream_is_writeable()`, include/net/sock.h).
    pub fn sent(&mut self, stream: u32, bytes: u64) -> bool {
        let state = &mut self.0[stream as usize];
        state.used -= bytes;
        state.used * 3 <= state.capacity * 2
    }

    /// Adds to the stream, which has room, the bytes that the network has received. The caller has to wake the stream's
    /// readers.
    pub fn received(&mut self, stream: u32, bytes: u64) {
        self.0[stream as usize].used += bytes;
    }

    /// Removes and returns the next task that waits for bytes, in order of arrival.
    #[inline]
    pub fn next_reader(&mut self, stream: u32) -> Option<TaskPtr> {
        self.0[stream as usize].readers.pop()
    }

    /// Removes and returns the next task that waits for room.
    #[inline]
    pub fn next_writer(&mut self, stream: u32) -> Option<TaskPtr> {
        self.0[stream as usize].writers.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::task::idle_tasks;

    #[test]
    fn a_stream_holds_no_more_than_its_capacity() {
        let tasks = idle_tasks(2);
        let (reader, writer) = (tasks[0], tasks[1]);
        let mut streams = Streams::new(&[StreamKind::Pipe.holding(100)]);
        assert_eq!(streams.take(reader, 0, 10), Transfer::Waits);
        assert_eq!(streams.put(writer, 0, 90), Transfer::Done);
        assert_eq!(streams.next_reader(0), Some(reader));
        assert_eq!(streams.next_reader(0), None);
        assert_eq!(streams.put(writer, 0, 11), Transfer::Waits);
        assert_eq!(streams.level(0), (90, 100));
        let too_large = Transfer::TooLarge { capacity: 100 };
        assert_eq!(streams.put(writer, 0, 101), too_large);
        assert_eq!(streams.take(reader, 0, 101), too_large);
    }

    #[test]
    fn writers_are_woken_at_a_quarter_and_by_the_network_at_two_thirds() {
        let tasks = idle_tasks(1);
        let mut streams = Streams::new(&[StreamKind::UnixSocket.holding(120)]);
        assert_eq!(streams.put(tasks[0], 0, 120), Transfer::Done);
        assert!(!streams.sent(0, 39));
        assert!(streams.sent(0, 1), "80 of 120");
        assert_eq!(streams.take(tasks[0], 0, 49), Transfer::Done);
        assert!(!streams.is_writable(0));
        assert_eq!(streams.take(tasks[0], 0, 1), Transfer::Done);
        assert!(streams.is_writable(0), "30 of 120");
    }
}
