//! Detects from outside that a process makes no progress. Nothing in that process takes part in the detection, neither
//! a thread nor a signal handler.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU64};
use std::time::Duration;

/// The interval between two samples.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The limit on the total CPU time of intervals between samples whose calls are long, that is, take more than
/// [`LONG_CALL`] on average; a call usually takes microseconds.
const MOST_TIME: Duration = Duration::from_secs(5);
const LONG_CALL: Duration = Duration::from_millis(10);

/// The limit on the number of samples in one call, and in a process that does nothing. The limit is not a time, because
/// time also passes for a stopped process. On a busy computer a process waits for a CPU, but not for that many samples.
const MOST_LOOKS: u32 = 150;

/// The number of samples after the first warning in which the process may report the place in its code.
const MOST_LOOKS_TO_REPORT: u32 = 25;

/// The progress that a process shows, which is the scheduler's call that is being executed. The process writes the
/// progress. A hostile scheduler can write it, too, and so look like a scheduler that makes calls without end. The
/// limit on CPU time still applies.
#[derive(Debug, Default)]
pub struct Progress {
    /// The called function during a call, otherwise null. The address is only valid in the process itself.
    pub op: AtomicPtr<()>,
    /// The number of calls that began.
    pub calls: AtomicU64,
}

impl Progress {
    /// New progress in memory that is shared with the processes that this process will fork. The memory is never freed.
    pub fn shared() -> io::Result<&'static Progress> {
        let (data, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // SAFETY: the call only maps new memory; a Progress may be all zeroes.
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

    /// Resets the progress for the next process.
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
    /// The process is idle, or its calls take too long; it may now report the place in its code.
    Late,
    /// The process has not reported the place in its code.
    Lost,
}

/// The samples of a process.
pub struct Watch<'a> {
    progress: &'a Progress,
    /// The calls and the CPU time at the last sample.
    calls: u64,
    time: Duration,
    /// The total CPU time of the intervals whose calls are long.
    long: Duration,
    /// The number of samples in the current call, or since the process was last active.
    samples: u32,
    /// The number of samples since the process was found to be late.
    late: u32,
}

impl Watch<'_> {
    /// The samples of a process that shows its `progress`.
    pub fn new(progress: &Progress) -> Watch<'_> {
        Watch {
            progress,
            calls: 0,
            time: Duration::ZERO,
            long: Duration::ZERO,
            samples: 0,
            late: 0,
        }
    }

    /// Takes a sample of the process, which has used `time` of CPU time. If `is_heard` is false, the process may be
    /// waiting for a slow reader of its results, and the sample counts only for CPU time.
    pub fn sample(&mut self, time: Duration, is_heard: bool) -> Verdict {
        let calls = self.progress.calls.load(Relaxed);
        let inside = !self.progress.op.load(Relaxed).is_null();
        let made = calls.wrapping_sub(self.calls);
        let used = time.saturating_sub(self.time);
        // Calls are long if a sample falls into a call and the mean time of the calls made is long. A sample rarely
        // falls into a call that takes microseconds.
        let are_long =
            inside && LONG_CALL.saturating_mul(made.try_into().unwrap_or(u32::MAX)) < used;
        let goes_on = inside && made == 0 || used.is_zero();
        (self.calls, self.time) = (calls, time);
        if self.late > 0 {
            self.late += 1;
        } else {
            self.samples = if goes_on {
                self.samples + u32::from(is_heard)
            } else {
                0
            };
            self.long += if are_long { used } else { Duration::ZERO };
            let late = self.long > MOST_TIME || self.samples >= MOST_LOOKS;
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

    /// Samples of a process whose CPU time the test decides.
    struct Sampled<'a> {
        watch: Watch<'a>,
        time: Duration,
    }

    impl Sampled<'_> {
        fn of(progress: &Progress) -> Sampled<'_> {
            Sampled {
                watch: Watch::new(progress),
                time: Duration::ZERO,
            }
        }

        /// The number of samples, each after `ms` of CPU time and `calls` calls, until the process is late; at most
        /// 1,000.
        fn until_late(&mut self, ms: u64, calls: u64, is_heard: bool) -> u32 {
            let late = (0..1000).find(|_| {
                self.time += Duration::from_millis(ms);
                self.watch.progress.calls.fetch_add(calls, Relaxed);
                self.watch.sample(self.time, is_heard) != Verdict::Fine
            });
            late.unwrap_or(1000)
        }
    }

    fn progress(inside: bool) -> Progress {
        let progress = Progress::default();
        if inside {
            progress.op.store(std::ptr::dangling_mut(), Relaxed);
        }
        progress
    }

    #[test]
    fn a_simulation_is_not_late() {
        assert_eq!(Sampled::of(&progress(true)).until_late(100, 20, true), 1000);
        assert_eq!(Sampled::of(&progress(false)).until_late(100, 0, true), 1000);
        assert_eq!(Sampled::of(&progress(true)).until_late(0, 0, false), 1000);
        assert_eq!(Sampled::of(&progress(false)).until_late(0, 0, false), 1000);
    }

    #[test]
    fn a_call_that_does_not_end_is_late_and_so_are_many_long_ones() {
        for calls in [0, 1, 5] {
            let progress = progress(true);
            let mut sampled = Sampled::of(&progress);
            let late = sampled.until_late(100, calls, false);
            assert!((49..=51).contains(&late), "{calls}: {late}");
            let rest = (0..)
                .take_while(|_| sampled.watch.sample(sampled.time, true) == Verdict::Late)
                .count();
            assert_eq!(rest as u32, MOST_LOOKS_TO_REPORT - 1);
        }
    }

    #[test]
    fn a_process_that_waits_is_late() {
        // The process waits in a single call, in each of many calls, or (according to itself) outside of calls.
        for (inside, ms) in [(true, 0), (true, 1), (false, 0)] {
            let late = Sampled::of(&progress(inside)).until_late(ms, 0, true);
            assert!((MOST_LOOKS - 2..=MOST_LOOKS).contains(&late), "{late}");
        }
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
        // SAFETY: the process is this one's child.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        progress.reset();
        assert_eq!(progress.calls.load(Relaxed), 0);
    }
}
