//! bodytrack: a pipeline over frames, each a sequence of parallel commands and a serial step.
//!
//! The model follows PARSEC 3.0's bodytrack (`main.cpp`, `TrackingModelPthread.cpp`). The main thread creates a pool of
//! workers. For each frame it loads images and writes the last result; the workers filter the images of four cameras,
//! three times each; and they process the particles, layer by layer. A command starts at a barrier in which the workers
//! sleep. They take units of work from a dispenser under a mutex until no unit is left, and meet the main thread in
//! another barrier. The thread that loads images ahead of time is left out: here the main thread does its work.

use super::{METRICS, SCALE, THREADS, TIME, bound};
use crate::benchmark::{Benchmark, CREATE_WORK, Model, param};
use machine::Machine;
use workload::{Args, BarrierId, CpuBound, Env, MutexId, Op, Param, Program, Start, TaskSpec};

const PARAMS: &[Param] = &[
    THREADS,
    param!(frames: Count(1..=1_000_000) = 4, "frames; simlarge has 4"),
    param!(filters: Count(0..=1_000_000) = 12,
        "the number of image filters in a frame: gradient, row, column, for each of 4 cameras"),
    param!(filter: Us(0..=1_000_000_000_000) = 5_000_000,
        "one image filter, of all threads together, at the reference speed; an assumption, 16 ns for each of 640 x \
         480 pixels"),
    param!(particles: Count(1..=1_000_000) = 7,
        "the number of particle commands in a frame: the 77 parallel commands of simlarge without the filters (619 \
         passes of a barrier by 8 workers: Bienia et al., The PARSEC Benchmark Suite, 2008, table 2)"),
    param!(work: Us(1_000..=1_000_000_000_000) = 14_720_000_000,
        "filters and particles, of all threads together, at the reference speed; calibrated with serial on runs \
         with one and four threads on an ODROID-XU3 (15.88 s and 4.84 s)"),
    param!(serial: Us(0..=1_000_000_000_000) = 1_160_000_000,
        "work of the main thread alone, before each frame and at the end, at the reference speed, with the steps; \
         see work"),
    param!(step: Us(0..=1_000_000_000_000) = 500_000,
        "work of the main thread before each command, at the reference speed; an assumption"),
    SCALE,
];

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "bodytrack",
    description: "PARSEC's bodytrack: frames of parallel commands from a work queue, and serial steps",
    params: PARAMS,
    metrics: METRICS,
    make: |args| Box::new(Bodytrack::new(args)),
};

/// The barrier at which the workers wait for a command, and the barrier at which all threads wait for the command's
/// end.
const COMMAND: BarrierId = 0;
const READY: BarrierId = 1;
/// The mutex that guards the dispenser of units.
const DISPENSER: MutexId = 0;
/// The shared words: the number of units that are left of the command, the work of each in ns, and whether the workers
/// have to exit.
const LEFT: usize = 0;
const UNIT: usize = 1;
const EXIT: usize = 2;

/// The number of units of a filter, which processes 480 rows, 8 at a time, and of a particle command, which processes
/// 4000 particles, 32 at a time.
const FILTER_UNITS: u64 = 60;
const PARTICLE_UNITS: u64 = 125;

struct Bodytrack {
    threads: u64,
    frame: Frame,
    scale: u64,
}

/// The work of a frame, in ns at the reference speed.
#[derive(Clone, Copy)]
struct Frame {
    frames: u64,
    filters: u64,
    filter: u64,
    particles: u64,
    particle: u64,
    /// The serial work before each frame, and at the end, in ns at the reference speed.
    serial: u64,
    /// The main thread's work before each command.
    step: u64,
}

impl Frame {
    fn new(args: &Args) -> Frame {
        let [frames, filters, filter, particles, step, scale] =
            ["frames", "filters", "filter", "particles", "step", "scale"]
                .map(|name| args.get(name));
        let steps = frames * (filters + particles) * step;
        let filtering = frames * filters * filter;
        Frame {
            frames,
            filters,
            filter: filter / scale,
            particles,
            particle: args.get("work").saturating_sub(filtering) / (frames * particles) / scale,
            serial: args.get("serial").saturating_sub(steps) / (frames + 1) / scale,
            step: step / scale,
        }
    }

    fn work(&self) -> u64 {
        self.frames * (self.filters * self.filter + self.particles * self.particle)
    }

    fn alone(&self) -> u64 {
        (self.frames + 1) * self.serial + self.frames * (self.filters + self.particles) * self.step
    }
}

impl Bodytrack {
    fn new(args: &Args) -> Bodytrack {
        Bodytrack {
            threads: args.get("threads"),
            frame: Frame::new(args),
            scale: args.get("scale"),
        }
    }
}

impl Model for Bodytrack {
    fn cpu_bound(&self) -> Option<CpuBound> {
        let (work, serial) = (self.frame.work(), self.frame.alone());
        Some(bound(work, serial, self.threads, self.scale))
    }

    fn start(&self, _machine: &Machine) -> Start {
        let main = Main {
            step: Step::Start,
            to_create: self.threads,
            frame: self.frame,
            frames_left: self.frame.frames,
            command: 0,
            scale: self.scale,
            started: 0,
        };
        let parties = self.threads as u32 + 1;
        Start {
            tasks: vec![TaskSpec::new("bodytrack", main)],
            mutexes: 1,
            barriers: vec![parties, parties],
            shared: vec![0; 3],
            ..Start::default()
        }
    }
}

enum Step {
    Start,
    Create,
    Frame,
    Prepare,
    Command,
    Wait,
    Dismiss,
    Join,
    Report,
}

struct Main {
    step: Step,
    to_create: u64,
    frame: Frame,
    frames_left: u64,
    /// The next command of the current frame.
    command: u64,
    scale: u64,
    started: u64,
}

impl Main {
    /// Makes the units of the next command available.
    fn dispense(&mut self, env: &mut Env) {
        let (units, work) = match self.command < self.frame.filters {
            true => (FILTER_UNITS, self.frame.filter),
            false => (PARTICLE_UNITS, self.frame.particle),
        };
        env.shared[LEFT] = units;
        env.shared[UNIT] = work / units;
        self.command += 1;
    }
}

impl Program for Main {
    fn next(&mut self, env: &mut Env) -> Op {
        match self.step {
            Step::Start => {
                self.started = env.now;
                self.step = Step::Create;
                Op::Run { work: 0 }
            }
            Step::Create if self.to_create > 0 => {
                self.to_create -= 1;
                Op::Fork {
                    child: Box::new(TaskSpec::new("bodytrack", Worker { next: Next::Await })),
                    work: CREATE_WORK,
                }
            }
            Step::Create | Step::Frame => {
                self.step = match self.frames_left {
                    0 => Step::Dismiss,
                    _ => Step::Prepare,
                };
                self.command = 0;
                self.frames_left = self.frames_left.saturating_sub(1);
                Op::Run {
                    work: self.frame.serial,
                }
            }
            Step::Prepare => {
                self.step = Step::Command;
                Op::Run {
                    work: self.frame.step,
                }
            }
            Step::Command => {
                self.dispense(env);
                self.step = Step::Wait;
                Op::Barrier(COMMAND)
            }
            Step::Wait => {
                self.step = match self.command < self.frame.filters + self.frame.particles {
                    true => Step::Prepare,
                    false => Step::Frame,
                };
                Op::Barrier(READY)
            }
            Step::Dismiss => {
                env.shared[EXIT] = 1;
                self.step = Step::Join;
                Op::Barrier(COMMAND)
            }
            Step::Join => {
                self.step = Step::Report;
                Op::Join
            }
            Step::Report => {
                let time = (env.now - self.started) * self.scale;
                env.recorder.record(TIME, time as f64 / 1e9);
                Op::Exit
            }
        }
    }
}

enum Next {
    Await,
    Take,
    Count,
    Compute { any: bool },
}

struct Worker {
    next: Next,
}

impl Program for Worker {
    fn next(&mut self, env: &mut Env) -> Op {
        match self.next {
            Next::Await => {
                self.next = Next::Take;
                Op::Barrier(COMMAND)
            }
            Next::Take if env.shared[EXIT] == 1 => Op::Exit,
            Next::Take => {
                self.next = Next::Count;
                Op::Lock(DISPENSER)
            }
            Next::Count => {
                let any = env.shared[LEFT] > 0;
                env.shared[LEFT] -= u64::from(any);
                self.next = Next::Compute { any };
                Op::Unlock(DISPENSER)
            }
            Next::Compute { any: true } => {
                self.next = Next::Take;
                Op::Run {
                    work: env.shared[UNIT],
                }
            }
            Next::Compute { any: false } => {
                self.next = Next::Await;
                Op::Barrier(READY)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::run_named;

    fn run(text: &str, cpus: usize) -> f64 {
        let kernel = run_named(&format!("bodytrack:{text}"), cpus);
        assert!(kernel.left().is_empty());
        kernel.recorder.samples(TIME)[0]
    }

    #[test]
    fn takes_the_published_time_with_one_and_four_threads() {
        for (threads, published) in [(1, 15.884), (4, 4.84)] {
            let time = run(&format!("threads={threads}"), 4);
            assert!((time / published - 1.0).abs() < 0.02, "{threads}: {time}");
        }
    }

    #[test]
    fn whoever_has_time_takes_the_next_unit() {
        let time = run(
            "threads=7,frames=1,filters=0,particles=10,work=7s,serial=0,step=0",
            7,
        );
        assert!((time - 1.0).abs() < 0.05, "{time}");
    }
}
