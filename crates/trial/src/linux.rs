//! The real machine: Linux with sched_ext, its loaders, and the load.

mod callbacks;
mod kmsg;
mod load;
pub(crate) mod loader;
mod record;
mod said;
mod windows;

pub use callbacks::{SchedulerCosts, wakeup_and_switch};
pub use load::{Frames, Load};
pub use record::{Cost, Record};

use crate::guard::Guard;
use crate::host::{self, Conditions, Kinds};
use crate::power::Reading;
use crate::{Fault, Kernel, Scheduler, Turn};
use callbacks::Meter;
use load::Running;
use loader::Loader;
use machine::input::BadInput;
use record::{Recording, TurnRecorder};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time between loading and the turn, in which the kernel moves tasks to the scheduler.
const SETTLE: Duration = Duration::from_millis(200);
/// The longest time between two checks of whether the turn has to end.
const LOOK: Duration = Duration::from_millis(200);

/// The load, and the options of its measurement.
pub struct Options {
    /// The load.
    pub load: Load,
    /// The log of frame times, or a folder of such logs.
    pub frames: Option<PathBuf>,
    /// The turns to record.
    pub record: Record,
    /// Should a recording be kept that can be replayed?
    pub keeps: bool,
    /// The time limit for loading a scheduler.
    pub load_limit: Duration,
}

impl Options {
    /// Returns an error if a turn could have no result.
    fn check(&self) -> Result<(), Box<BadInput>> {
        let is_command = matches!(self.load, Load::Command(_));
        if let Some(frames) = &self.frames {
            return Frames::check(frames, is_command);
        }
        let energy = || Reading::now(Path::new("/sys")).since(&Reading::now(Path::new("/sys")));
        match is_command || !matches!(self.record, Record::Never) || energy().is_some() {
            true => Ok(()),
            false => Err(Box::new(BadInput::whole(
                "--watch with --record never measures nothing on this computer, which has no counters of energy",
                "expected --frames FILE, or --record auto",
            ))),
        }
    }
}

/// This computer's kernel.
pub struct Linux {
    // Fields are dropped in this order, so the guard comes after the fields whose groups it removes.
    loader: Option<Loader>,
    scheduler: String,
    options: Options,
    frames: Option<Frames>,
    recording: Recording,
    meter: Option<Meter>,
    is_warm: bool,
    conditions: Conditions,
    kinds: Kinds,
    stop: &'static AtomicBool,
    guard: Guard,
}

impl Linux {
    /// Prepares the trial of `schedulers`, which ends when `stop` is true. It is an error if a sched_ext scheduler is
    /// loaded, or if this process cannot load those of `schedulers`, make a control group, or record.
    pub fn new(
        options: Options,
        schedulers: &[Scheduler],
        stop: &'static AtomicBool,
    ) -> Result<Linux, Box<BadInput>> {
        options.check()?;
        let loads = schedulers.iter().any(|it| it.loader.is_some());
        check(&sched_ext(), loads, rustix::process::geteuid().is_root())?;
        let cannot = |what: &str, error: io::Error| {
            let expected = match error.kind() {
                io::ErrorKind::PermissionDenied => "expected root privileges on this computer",
                _ => "expected a kernel with control groups and tracefs",
            };
            Box::new(BadInput::whole(format!("cannot {what}: {error}"), expected))
        };
        let guard = Guard::new(loads).map_err(|it| cannot("make a control group", it))?;
        let recording =
            Recording::new(options.record, options.keeps).map_err(|it| cannot("record", it))?;
        let sys = Path::new("/sys");
        Ok(Linux {
            loader: None,
            scheduler: String::new(),
            frames: options.frames.clone().map(Frames::new),
            meter: None,
            is_warm: false,
            options,
            recording,
            conditions: Conditions::now(sys),
            kinds: Kinds::of(sys),
            stop,
            guard,
        })
    }

    /// The conditions at the start of the current block.
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// The cost of recording; `None` if nothing was recorded.
    pub fn cost(&self) -> Option<&Cost> {
        self.recording.cost()
    }

    /// The `trace.dat` of a turn under the kernel's own scheduler, if one was recorded.
    pub fn trace(&self) -> Option<&[u8]> {
        self.recording.kept.as_deref()
    }

    /// Makes `program`, which is scx_equipoise, measure the schedulers' costs in the first block. `host_cpus` is the
    /// number of the host's CPUs that execute the CPUs of a virtual machine, if the host has fewer.
    pub fn measure_costs(&mut self, program: PathBuf, host_cpus: Option<u32>) {
        self.meter = Some(Meter::new(program, host_cpus));
    }

    /// The costs of the schedulers, by name; empty if they were not measured.
    pub fn scheduler_costs(&self) -> BTreeMap<String, SchedulerCosts> {
        self.meter.iter().flat_map(|it| it.found.clone()).collect()
    }

    /// Measures the loaded scheduler's costs in the first block: before the turn, when `ended` is `None`, without a
    /// load; and then until the turn has ended. A scheduler whose costs cannot be measured has no costs.
    fn meter(&mut self, ended: Option<&Turn>) {
        let Some(meter) = self.meter.as_mut().filter(|_| !self.is_warm) else {
            return;
        };
        let measured = match ended {
            None => meter.loaded(&self.guard),
            Some(turn) => {
                let busy: u64 = turn.busy_ns.values().sum();
                let busy = busy as f64 / turn.elapsed_ns.max(1) as f64;
                meter.ended(&self.scheduler, busy)
            }
        };
        let _ = measured;
    }

    fn check(&mut self) -> Result<(), Fault> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Fault::Stopped);
        }
        if self.guard.is_gone() {
            return Err(Fault::System(
                "the guard of the trial was killed".to_owned(),
            ));
        }
        match &mut self.loader {
            Some(loader) => loader.check().map_err(Fault::Scheduler),
            None => check_unloaded(&sched_ext()),
        }
    }

    fn wait(
        &mut self,
        running: &mut Running,
        recorder: &mut Option<TurnRecorder>,
    ) -> Result<(), Fault> {
        let failed = |error: io::Error| Fault::System(format!("cannot wait for the load: {error}"));
        let began = Instant::now();
        loop {
            let left = running.limit.map(|it| it.saturating_sub(began.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(());
            }
            let time = left.map_or(LOOK, |it| it.min(LOOK));
            let exit = running.exit.as_ref();
            let ended = match recorder {
                Some(recorder) => recorder
                    .step(|| [running.threads(), self.others()])
                    .and_then(|next| recorder.wait(exit, time.min(next))),
                None => recorder::wait(exit, time).map(|seen| seen.ended),
            };
            if ended.map_err(failed)? {
                return Ok(());
            }
            running.forget();
            self.check()?;
        }
    }

    /// The loader's threads, which are not part of the load, even if the load consists of all processes.
    fn others(&self) -> Vec<i32> {
        let loader = self.loader.iter();
        loader.flat_map(|it| recorder::threads(it.pid())).collect()
    }

    fn measure(&mut self) -> Result<Turn, Fault> {
        let system = |error: io::Error| Fault::System(error.to_string());
        let sys = Path::new("/sys");
        let mut recorder = self
            .recording
            .recorder(self.loader.is_none())
            .map_err(system)?;
        if let Some(frames) = &mut self.frames {
            frames.begin();
        }
        let busy = || {
            self.kinds
                .busy_ns(&fs::read_to_string("/proc/stat").unwrap_or_default())
        };
        let (busy_before, energy_before) = (busy(), Reading::now(sys));
        if let Some(recorder) = &mut recorder {
            recorder.begin(&self.others()).map_err(system)?;
        }
        let mut running = self.options.load.start(&self.guard, recorder.as_ref())?;
        let waited = self.wait(&mut running, &mut recorder);
        let waited = waited.and_then(|()| self.check());
        let ended = running.end(waited.is_ok());
        if let Some(recorder) = &mut recorder {
            recorder.end().map_err(system)?;
        }
        waited?;
        // Ctrl-C may have ended the command.
        let mut turn = ended.or_else(|fault| self.check().and(Err(fault)))?;
        turn.cpus = online();
        turn.energy_uj = Reading::now(sys).since(&energy_before);
        turn.khz = host::khz(sys);
        let busy = self
            .kinds
            .busy_ns(&fs::read_to_string("/proc/stat").unwrap_or_default());
        for (kind, ns) in busy {
            let before = busy_before.get(&kind).copied().unwrap_or(0);
            turn.busy_ns.insert(kind, ns.saturating_sub(before));
        }
        turn.others_pct = turn.cpu_ns.map(|own| others_pct(&turn, own));
        if let Some(frames) = &mut self.frames {
            turn.frames_ms = frames.end().map_err(|it| Fault::Command(it.to_string()))?;
        }
        if let Some(recorder) = recorder {
            self.recording.read(recorder, &mut turn).map_err(system)?;
        }
        Ok(turn)
    }
}

/// The share of the CPUs' time in % that processes other than the load took. A difference below zero, which is possible
/// because /proc/stat counts ticks, counts as 0.
fn others_pct(turn: &Turn, own_ns: u64) -> f64 {
    let busy: u64 = turn.busy_ns.values().sum();
    let all = turn.elapsed_ns.max(1) as f64 * f64::from(turn.cpus.max(1));
    100.0 * busy.saturating_sub(own_ns) as f64 / all
}

impl Kernel for Linux {
    fn load(&mut self, scheduler: &Scheduler) -> Result<(), Fault> {
        self.scheduler.clone_from(&scheduler.name);
        if let Some(command) = &scheduler.loader {
            // A scheduler that is already there would seem to be the loader's.
            check_unloaded(&sched_ext())?;
            let part = self.guard.part("loader");
            let part = part.map_err(|error| Fault::System(error.to_string()))?;
            self.loader = Some(Loader::start(part, command, sched_ext())?);
            let began = Instant::now();
            loop {
                self.check()?;
                let Some(loader) = &mut self.loader else {
                    break;
                };
                if loader.is_loaded() {
                    break;
                }
                if began.elapsed() > self.options.load_limit {
                    let seconds = self.options.load_limit.as_secs();
                    return Err(Fault::Scheduler(format!(
                        "it was not loaded after {seconds} s{}",
                        loader.why()
                    )));
                }
                sleep(Duration::from_millis(5));
            }
        }
        sleep(SETTLE);
        if self.loader.is_some() {
            self.meter(None);
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<Turn, Fault> {
        let turn = self.measure()?;
        self.meter(Some(&turn));
        Ok(turn)
    }

    fn unload(&mut self) -> Result<(), Fault> {
        if let Some(meter) = &mut self.meter {
            meter.unloads();
        }
        match self.loader.take() {
            Some(loader) => loader.end(),
            None => Ok(()),
        }
    }

    fn is_warm(&mut self) {
        self.is_warm = true;
        self.recording.end_block();
        self.conditions = Conditions::now(Path::new("/sys"));
    }

    fn disturbance(&mut self) -> Option<String> {
        let now = Conditions::now(Path::new("/sys"));
        self.recording.end_block();
        let why = now.disturbed_since(&self.conditions);
        self.conditions = now;
        why
    }
}

/// The number of online CPUs, including those that this process may not use.
fn online() -> u32 {
    detect::online(Path::new("/sys")).map_or(0, |cpus| cpus.count() as u32)
}

/// The folder in which the kernel shows its sched_ext scheduler.
pub(crate) fn sched_ext() -> PathBuf {
    PathBuf::from("/sys/kernel/sched_ext")
}

/// The name of the sched_ext scheduler that the kernel runs, if any.
fn loaded(sched_ext: &Path) -> Option<String> {
    let is_loaded = !matches!(&*loader::state(sched_ext), "" | "disabled");
    let name = || fs::read_to_string(sched_ext.join("root/ops")).unwrap_or_default();
    is_loaded.then(|| name().trim().to_owned())
}

/// Returns an error if the kernel does not run its own scheduler, because a service or another trial has loaded one.
fn check_unloaded(sched_ext: &Path) -> Result<(), Fault> {
    loaded(sched_ext).map_or(Ok(()), |name| {
        Err(Fault::System(format!(
            "another program has loaded the sched_ext scheduler {name}"
        )))
    })
}

/// Returns an error if the kernel does not run its own scheduler or, for a trial that `loads` schedulers, if they
/// cannot be loaded.
fn check(sched_ext: &Path, loads: bool, is_root: bool) -> Result<(), Box<BadInput>> {
    let bad = |message: &str, expected: &str| {
        Err(Box::new(BadInput::whole(message.to_owned(), expected)))
    };
    if loads && loader::state(sched_ext).is_empty() {
        return bad(
            "this kernel has no sched_ext",
            "expected Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT",
        );
    }
    if loads && !is_root {
        return bad(
            "a trial loads schedulers into the kernel, which requires root",
            "expected `sudo equipoise trial ...`",
        );
    }
    if let Some(name) = loaded(sched_ext) {
        return bad(
            &format!("the sched_ext scheduler {name} is loaded"),
            "expected the kernel's own scheduler; stop the loader, or its service (`systemctl stop scx scx_loader scx_equipoise`)",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trial may run under `taskset`; /proc/stat has the time of all CPUs all the same.
    #[test]
    fn cpus_that_this_process_may_not_use_count() {
        let before = online();
        let pinned = std::thread::spawn(|| {
            let mut here = rustix::thread::CpuSet::new();
            here.set(rustix::thread::sched_getcpu());
            rustix::thread::sched_setaffinity(None, &here).unwrap();
            online()
        });
        assert_eq!(pinned.join().unwrap(), before);
    }

    #[test]
    fn what_prevents_a_trial_is_one_message() {
        let folder = tempfile::tempdir().unwrap();
        let of = |loads, is_root| check(folder.path(), loads, is_root);
        let message = |is_root| of(true, is_root).unwrap_err().render(false);
        assert!(message(true).contains("this kernel has no sched_ext"));
        of(false, false).unwrap();
        fs::write(folder.path().join("state"), "disabled\n").unwrap();
        assert!(message(false).contains("requires root"));
        of(true, true).unwrap();
        check_unloaded(folder.path()).unwrap();
        fs::write(folder.path().join("state"), "enabled\n").unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        fs::write(folder.path().join("root/ops"), "lavd\n").unwrap();
        assert!(message(true).contains("the sched_ext scheduler lavd is loaded"));
        assert!(of(false, true).is_err());
        let during =
            Fault::System("another program has loaded the sched_ext scheduler lavd".to_owned());
        assert_eq!(check_unloaded(folder.path()), Err(during));
    }
}
