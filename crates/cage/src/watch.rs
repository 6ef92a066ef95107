//! Notices from outside that a process makes no progress. Nothing in that process, neither a thread nor the handler of a
//! signal, has a part in it.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU64};
use std::time::Duration;

/// The interval between two samples.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The limit of a call's CPU time, which is usually microseconds, and of its samples. Samples are counted, not time, which
/// passes for a stopped process, too. A call on a busy computer waits for a CPU, but not for as long.
const MOST_TIME: Duration = Duration::from_secs(5);
const MOST_LOOKS: u32 = 150;

/// The samples after the first warning in which the process may report where it is.
const MOST_LOOKS_TO_REPORT: u32 = 25;

/// The progress that a process shows: which call of a scheduler is being executed. The process writes it, and so can a
/// hostile scheduler, which can thereby look like one that makes calls without end. The limit on CPU time remains.
#[derive(Debug, Default)]
pub struct Progress {
    /// Not null during a call. The address is the process's own.
    pub op: AtomicPtr<()>,
    /// Counts the calls that began.
    pub calls: AtomicU64,
}

impl Progress {
    /// In memory that this process shares with those that it will fork. It is never freed.
    pub fn shared() -> io::Result<&'static Progress> {
        let (data, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // SAFETY: new memory; all zeroes is a Progress.
        unsafe {
            let page = libc::mmap(
                std::ptr::null_mut(),
                size_of::<Progress>(),
                data,
                kind,
                -1,
                0,
            );
            match page {
                libc::MAP_FAILED => Err(io::Error::last_os_error()),
                page => Ok(&*page.cast::<Progress>()),
            }
        }
    }

    /// For the next process.
    pub fn reset(&self) {
        self.op.store(std::ptr::null_mut(), Relaxed);
        self.calls.store(0, Relaxed);
    }
}

/// The result of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The process makes progress.
    Fine,
    /// A call does not return; the process may now report where it is.
    Late,
    /// It has not reported that.
    Lost,
}

/// The samples of a process.
pub struct Watch<'a> {
    progress: &'a Progress,
    /// The call in the last sample.
    call: u64,
    /// The process's CPU time at the first sample of that call.
    since: Duration,
    /// The samples of that call.
    samples: u32,
    /// The samples since it was late.
    late: u32,
}

impl Watch<'_> {
    /// Of a process that shows its `progress`.
    pub fn new(progress: &Progress) -> Watch<'_> {
        Watch {
            progress,
            call: 0,
            since: Duration::ZERO,
            samples: 0,
            late: 0,
        }
    }

    /// Takes a sample: the process has used `time`. If `is_heard` is false, it may be waiting for the reader of its results,
    /// which may be slow, and the sample counts only for its CPU time.
    pub fn sample(&mut self, time: Duration, is_heard: bool) -> Verdict {
        let call = self.progress.calls.load(Relaxed);
        let inside = !self.progress.op.load(Relaxed).is_null();
        if self.late > 0 {
            self.late += 1;
        } else if !inside || call != self.call || self.samples == 0 {
            (self.call, self.since) = (call, time);
            self.samples = inside.into();
        } else {
            self.samples += u32::from(is_heard);
            let late = time.saturating_sub(self.since) > MOST_TIME || self.samples > MOST_LOOKS;
            self.late = late.into();
        }
        match self.late {
            0 => Verdict::Fine,
            late if late <= MOST_LOOKS_TO_REPORT => Verdict::Late,
            _ => Verdict::Lost,
        }
    }
}

/// The CPU time of the process `pid`, a child.
pub fn cpu_time(pid: libc::pid_t) -> Duration {
    let mut clock = 0;
    // SAFETY: all zeroes is a timespec; the calls write only to the variables.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        if libc::clock_getcpuclockid(pid, &raw mut clock) != 0
            || libc::clock_gettime(clock, &raw mut time) != 0
        {
            return Duration::ZERO;
        }
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_does_not_end_is_noticed() {
        let progress = Progress::default();
        let begin = || {
            progress.op.store(std::ptr::dangling_mut(), Relaxed);
            progress.calls.fetch_add(1, Relaxed);
        };
        let mut watch = Watch::new(&progress);
        let mut time = Duration::ZERO;
        let mut sample = |passed: u64, is_heard| {
            time += Duration::from_secs(passed);
            watch.sample(time, is_heard)
        };
        // A thousand calls of 4 s each, then a simulation without calls.
        for _ in 0..1000 {
            begin();
            assert_eq!(sample(4, true), Verdict::Fine);
        }
        progress.op.store(std::ptr::null_mut(), Relaxed);
        assert_eq!(sample(1000, true), Verdict::Fine);
        // A call that waits for the reader of the results.
        begin();
        for _ in 0..1000 {
            assert_eq!(sample(0, false), Verdict::Fine);
        }
        // It uses up its CPU time, and does not report.
        assert_eq!(sample(6, false), Verdict::Late);
        let late = (0..)
            .take_while(|_| sample(0, true) == Verdict::Late)
            .count();
        assert_eq!(late as u32, MOST_LOOKS_TO_REPORT - 1);

        let mut watch = Watch::new(&progress);
        // A call that waits for something else.
        let fine = (0..)
            .take_while(|_| watch.sample(time, true) == Verdict::Fine)
            .count();
        assert_eq!(fine as u32, MOST_LOOKS);
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn a_child_s_progress_and_time_are_seen() {
        let progress = Progress::shared().unwrap();
        // SAFETY: the child makes no calls that are not allowed after fork().
        let child = unsafe { libc::fork() };
        if child == 0 {
            progress.calls.store(7, Relaxed);
            loop {
                std::hint::spin_loop();
            }
        }
        while progress.calls.load(Relaxed) != 7 || cpu_time(child) < Duration::from_millis(20) {
            std::thread::yield_now();
        }
        // SAFETY: it is this process's child.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        progress.reset();
        assert_eq!(progress.calls.load(Relaxed), 0);
    }
}
