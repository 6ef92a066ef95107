//! A kernel build: `make -j N vmlinux`.
//!
//! make reads its files, then starts compilers while it has tokens: its own and those in the jobserver's
//! pipe, of which a compiler's parent gives one back when it is done. Each object takes the gcc driver,
//! which runs cc1 and then as, each a process of its own; all read from and write to a disk. When the
//! objects are there, ld links them, alone.

use crate::benchmark::{Benchmark, Model};
use crate::params::{Args, Param, Unit};
use crate::{Better, Env, Metric, MetricId, Op, Program, Start, StreamId, TaskSpec};
use machine::Machine;

const PARAMS: &[Param] = &[
    Param {
        name: "jobs",
        unit: Unit::Count,
        default: 8,
        min: 1,
        max: 4096,
        help: "make's -j (default 8)",
    },
    Param {
        name: "objects",
        unit: Unit::Count,
        default: 2000,
        min: 1,
        max: 1_000_000,
        help: "files to compile: about those of an x86 defconfig of Linux 3.9 (default 2000)",
    },
    Param {
        name: "compile",
        unit: Unit::Microseconds,
        default: 190_000_000,
        min: 1_000_000,
        max: 3_600_000_000_000,
        help: "work of compiling an object, on average, cc1 and as, at the reference speed; calibrated on \
               209 s for -j2 on two Xeons E5 (default 190 ms)",
    },
    Param {
        name: "serial",
        unit: Unit::Seconds,
        default: 13_000_000_000,
        min: 0,
        max: 3_600_000_000_000,
        help: "work of what only one process does, at the reference speed: a fifth before the objects \
               (reading makefiles), the rest after (linking, kallsyms); calibrated on 122 s for -j4 \
               beside 209 s for -j2 on two Xeons E5 (default 13 s)",
    },
    Param {
        name: "io",
        unit: Unit::Microseconds,
        default: 2_000_000,
        min: 0,
        max: 10_000_000_000,
        help: "how long reading the source and writing the object wait for the disk, each; an assumption: \
               most is in the page cache (default 2 ms)",
    },
];

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "kbuild",
    description: "make -j N vmlinux: compile jobs under a jobserver, then a serial link",
    params: PARAMS,
    metrics: &[Metric::new("time", "s", Better::Lower)],
    make: |args| Box::new(Setup::new(args)),
};

const TIME: MetricId = 0;

/// The jobserver's pipe; a byte is a token.
const JOBSERVER: StreamId = 0;

/// What compiling an object takes, of the average, in 1/1000: the middles of 32 equal parts of a
/// log-normal distribution with a sigma of 0.8, as build logs show it: half of the objects take less than
/// 0.72 of the average, one in twenty 2.7 times that.
const SIZES: [u64; 32] = [
    132, 193, 238, 276, 312, 347, 381, 414, 448, 483, 518, 554, 592, 632, 673, 717, 763, 813, 866,
    923, 986, 1056, 1133, 1220, 1320, 1437, 1577, 1751, 1978, 2299, 2826, 4142,
];

/// Of an object's work, what as does; the rest is cc1's. In 1/1000; an assumption.
const AS_SHARE: u64 = 60;
/// fork and exec in the parent, and the start of a program, dynamic linker included; ns. Assumptions.
const FORK_WORK: u64 = 150_000;
const EXEC_WORK: u64 = 600_000;
/// What make does for an object: its rules, the commands it has saved; ns. An assumption.
const MAKE_WORK: u64 = 500_000;
/// What a compiler works on between two switches, bytes: a second-level cache of 256 KiB, full.
const FOOTPRINT: u64 = 256 << 10;

#[derive(Clone, Copy)]
struct Setup {
    jobs: u64,
    objects: u64,
    compile: u64,
    serial: u64,
    io: u64,
}

impl Setup {
    fn new(args: &Args) -> Setup {
        Setup {
            jobs: args.get("jobs"),
            objects: args.get("objects"),
            compile: args.get("compile"),
            serial: args.get("serial"),
            io: args.get("io"),
        }
    }
}

impl Model for Setup {
    fn start(&self, _machine: &Machine) -> Start {
        let make = Make {
            step: MakeStep::Read,
            setup: *self,
            started: 0,
            tokens: self.jobs,
        };
        Start {
            tasks: vec![compiler("make", make)],
            streams: vec![self.jobs],
            ..Start::default()
        }
    }
}

fn compiler(name: &str, program: impl Program + 'static) -> TaskSpec {
    TaskSpec {
        footprint: FOOTPRINT,
        ..TaskSpec::new(name, program)
    }
}

enum MakeStep {
    Read,
    NextObject,
    Prepare,
    Start,
    Finish,
    Link,
    Report,
}

struct Make {
    step: MakeStep,
    setup: Setup,
    /// Objects so far.
    started: u64,
    /// Those that are left before it has to wait for one from the pipe.
    tokens: u64,
}

impl Program for Make {
    fn next(&mut self, env: &mut Env<'_>) -> Op {
        match self.step {
            MakeStep::Read => {
                self.step = MakeStep::NextObject;
                Op::Run {
                    work: self.setup.serial / 5,
                }
            }
            MakeStep::NextObject if self.started == self.setup.objects => {
                self.step = MakeStep::Finish;
                Op::Join
            }
            MakeStep::NextObject if self.tokens > 0 => {
                self.tokens -= 1;
                self.step = MakeStep::Start;
                Op::Run { work: MAKE_WORK }
            }
            MakeStep::NextObject => {
                self.step = MakeStep::Prepare;
                Op::Read {
                    stream: JOBSERVER,
                    bytes: 1,
                    work: 0,
                }
            }
            MakeStep::Prepare => {
                self.step = MakeStep::Start;
                Op::Run { work: MAKE_WORK }
            }
            MakeStep::Start => {
                self.step = MakeStep::NextObject;
                self.started += 1;
                let size = SIZES[env.rng.below(SIZES.len() as u64) as usize];
                let driver = Driver {
                    step: DriverStep::Exec,
                    work: self.setup.compile * size / 1000,
                    io: self.setup.io,
                };
                Op::Fork {
                    child: Box::new(compiler("gcc", driver)),
                    work: FORK_WORK,
                }
            }
            MakeStep::Finish => {
                self.step = MakeStep::Link;
                let link = self.setup.serial - self.setup.serial / 5;
                let ld = Tool::new(self.setup.io, link);
                Op::Fork {
                    child: Box::new(compiler("ld", ld)),
                    work: FORK_WORK,
                }
            }
            MakeStep::Link => {
                self.step = MakeStep::Report;
                Op::Join
            }
            MakeStep::Report => {
                env.recorder.record(TIME, env.now as f64 / 1e9);
                Op::Exit
            }
        }
    }
}

enum DriverStep {
    Exec,
    Compile,
    WaitCompile,
    Assemble,
    WaitAssemble,
    GiveBack,
    Exit,
}

/// gcc, which runs the others, and the shell that runs it.
struct Driver {
    step: DriverStep,
    work: u64,
    io: u64,
}

impl Driver {
    fn run(&self, name: &str, work: u64) -> Op {
        Op::Fork {
            child: Box::new(compiler(name, Tool::new(self.io, work))),
            work: FORK_WORK,
        }
    }
}

impl Program for Driver {
    fn next(&mut self, _env: &mut Env<'_>) -> Op {
        match self.step {
            DriverStep::Exec => {
                self.step = DriverStep::Compile;
                Op::Exec { work: EXEC_WORK }
            }
            DriverStep::Compile => {
                self.step = DriverStep::WaitCompile;
                self.run("cc1", self.work - self.work * AS_SHARE / 1000)
            }
            DriverStep::WaitCompile => {
                self.step = DriverStep::Assemble;
                Op::Join
            }
            DriverStep::Assemble => {
                self.step = DriverStep::WaitAssemble;
                self.run("as", self.work * AS_SHARE / 1000)
            }
            DriverStep::WaitAssemble => {
                self.step = DriverStep::GiveBack;
                Op::Join
            }
            DriverStep::GiveBack => {
                self.step = DriverStep::Exit;
                Op::Write {
                    stream: JOBSERVER,
                    bytes: 1,
                    work: 0,
                }
            }
            DriverStep::Exit => Op::Exit,
        }
    }
}

enum ToolStep {
    Exec,
    Read,
    Compute,
    Write,
    Exit,
}

/// A program that reads a file, computes, and writes one: cc1, as, ld.
struct Tool {
    step: ToolStep,
    io: u64,
    work: u64,
}

impl Tool {
    fn new(io: u64, work: u64) -> Tool {
        Tool {
            step: ToolStep::Exec,
            io,
            work,
        }
    }

    fn disk(&self) -> Op {
        Op::Sleep { ns: self.io }
    }
}

impl Program for Tool {
    fn next(&mut self, _env: &mut Env<'_>) -> Op {
        match self.step {
            ToolStep::Exec => {
                self.step = ToolStep::Read;
                Op::Exec { work: EXEC_WORK }
            }
            ToolStep::Read => {
                self.step = ToolStep::Compute;
                self.disk()
            }
            ToolStep::Compute => {
                self.step = ToolStep::Write;
                Op::Run { work: self.work }
            }
            ToolStep::Write => {
                self.step = ToolStep::Exit;
                self.disk()
            }
            ToolStep::Exit => Op::Exit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Kernel;

    fn run(params: &str, cpus: usize) -> Kernel {
        Kernel::load(&format!("kbuild:{params}"), cpus)
    }

    fn count(kernel: &Kernel, name: &str) -> usize {
        kernel.tasks.iter().filter(|(task, _)| task == name).count()
    }

    #[test]
    fn every_object_is_compiled_and_assembled_and_they_are_linked_once() {
        let kernel = run("jobs=3,objects=40,compile=2ms,serial=10ms", 2);
        let counts = ["make", "gcc", "cc1", "as", "ld"].map(|name| count(&kernel, name));
        assert_eq!(counts, [1, 40, 40, 40, 1]);
        assert!(kernel.tasks.iter().all(|(_, exited)| *exited));
        // Tokens come back, and the first ones were make's.
        assert_eq!(kernel.writes, 40);
        assert_eq!(kernel.reads, 37);
    }

    #[test]
    fn time_is_serial_work_and_objects_over_jobs() {
        let time = |jobs: u64| {
            let kernel = run(
                &format!("jobs={jobs},objects=400,compile=20ms,serial=1,io=0"),
                8,
            );
            kernel.recorder.samples(TIME)[0]
        };
        // 20 ms and four times exec and fork, an object.
        for jobs in [1, 2, 4] {
            let best = 1.0 + 400.0 * 0.0215 / jobs as f64;
            let time = time(jobs);
            assert!(
                time > best * 0.9 && time < best * 1.2,
                "{jobs}: {time} {best}"
            );
        }
    }

    #[test]
    fn sizes_average_to_one() {
        assert_eq!(SIZES.iter().sum::<u64>(), 1000 * SIZES.len() as u64);
        assert!(SIZES.is_sorted());
    }
}
