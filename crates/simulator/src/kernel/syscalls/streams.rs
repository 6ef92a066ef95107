//! System calls on streams: pipes, sockets and connections.

use super::Step;
use crate::kernel::Kernel;
use crate::kernel::task::{Continuation, TaskPtr};
use crate::kernel::wakeups::Wakeup;
use crate::program::stream::Transfer;

impl Kernel<'_> {
    /// Puts bytes into the stream, or waits for room there.
    #[inline(always)]
    pub(super) fn write(&mut self, cpu: usize, task: TaskPtr, stream: u32, bytes: u64) -> Step {
        match self.programs.streams.put(task, stream, bytes) {
            Transfer::Done => {
                self.wake_readers(stream);
                self.stream_changed(stream);
                Step::Go
            }
            Transfer::Waits => {
                task.continuation
                    .set(Continuation::WriteReady { stream, bytes });
                self.sleep(cpu, task, "room in a stream")
            }
            Transfer::TooLarge { capacity } => {
                self.too_large(task, ("writes", "to"), bytes, capacity);
                Step::Go
            }
        }
    }

    #[cold]
    fn too_large(&mut self, task: TaskPtr, (does, to): (&str, &str), bytes: u64, capacity: u64) {
        self.task_error(
            task,
            format_args!("{does} {bytes} bytes at once {to} a stream that holds {capacity}"),
        );
    }

    /// Takes bytes from the stream, which costs `work`, or waits for bytes.
    #[inline]
    pub(super) fn read(
        &mut self,
        cpu: usize,
        task: TaskPtr,
        stream: u32,
        bytes: u64,
        work: u64,
    ) -> Step {
        match self.programs.streams.take(task, stream, bytes) {
            Transfer::Done => self.stream_changed(stream),
            Transfer::Waits => {
                task.continuation.set(Continuation::Read {
                    stream,
                    bytes,
                    work,
                });
                self.goes(cpu, task);
                return self.sleep(cpu, task, "bytes in a stream");
            }
            Transfer::TooLarge { capacity } => {
                self.too_large(task, ("reads", "from"), bytes, capacity)
            }
        }
        self.compute(task, work, false, Continuation::ReadDone { stream })
    }

    /// Wakes all readers of the stream, because bytes have arrived.
    #[inline]
    fn wake_readers(&mut self, stream: u32) {
        while let Some(reader) = self.programs.streams.next_reader(stream) {
            let wakeup = Wakeup::of_reader(self.programs.streams.kind(stream));
            self.wake(reader, wakeup);
        }
    }

    /// Wakes all writers of the stream, because it has room.
    #[inline]
    pub(super) fn wake_writers(&mut self, stream: u32) {
        while let Some(writer) = self.programs.streams.next_writer(stream) {
            let wakeup = Wakeup::of_writer(self.programs.streams.kind(stream));
            self.wake(writer, wakeup);
        }
    }

    /// Removes from the stream the bytes that the network has sent.
    pub fn sent(&mut self, stream: u32, bytes: u64) {
        if self.programs.streams.sent(stream, bytes) {
            self.wake_writers(stream);
        }
    }

    /// Adds to the stream the bytes that the network has received.
    pub fn received(&mut self, stream: u32, bytes: u64) {
        self.programs.streams.received(stream, bytes);
        self.wake_readers(stream);
    }
}
