//! A progress bar on standard error, on a terminal only, for commands that take longer than a
//! second.

use crate::interrupt::STOP;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::Watch;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(1);

pub struct Progress {
    bar: ProgressBar,
    began: Instant,
}

impl Progress {
    pub fn new(runs: usize) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {eta} left") {
            bar.set_style(style);
        }
        Progress {
            bar,
            began: Instant::now(),
        }
    }

    /// Calls `what` and counts the runs that it makes; Ctrl-C stops them.
    pub fn watch<R>(&self, what: impl FnOnce(Watch<'_>) -> R) -> R {
        what(Watch {
            done: &|| self.done(),
            stop: &STOP,
        })
    }

    fn done(&self) {
        if self.bar.is_hidden() && self.began.elapsed() > PATIENCE {
            // The bar stays hidden if standard error is not a terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
