//! A kernel build: `make -j N vmlinux`.
//!
//! make reads its files, then starts compilers while it has tokens: its own token and those in the jobserver's pipe, to
//! which an object's shell returns a token when it is done. The processes of each object are those of kbuild
//! (scripts/Kbuild.include, rule_cc_o_c of scripts/Makefile.build, and -pipe of arch/x86/Makefile, in Linux 3.9): a
//! shell, which starts the gcc driver, which runs `cc1` and `as` at the same time with a pipe between them. Then the
//! shell starts fixdep, rm and mv, which record the dependencies. When the objects are complete, ld links them, alone.

use crate::benchmark::{Benchmark, Model, param};
use machine::Machine;
use workload::{
    Args, Env, Metric, MetricId, Op, Param, Program, Start, StreamId, StreamKind, TaskSpec,
};

const PARAMS: &[Param] = &[
    param!(jobs: Count(1..=4096) = 8, "make's -j (default 8)"),
    param!(objects: Count(1..=1_000_000) = 2000,
        "files to compile; about as many as in an x86 defconfig of Linux 3.9 (default 2000)"),
    param!(compile: Us(1_000_000..=3_600_000_000_000) = 190_000_000,
        "average work of compiling an object (cc1 and as), at the reference speed; calibrated on 209 s for -j2 on \
         two Xeons E5 under Linux 3.9's balancing (default 190 ms)"),
    param!(serial: S(0..=3_600_000_000_000) = 15_000_000_000,
        "serial work of a single process, at the reference speed: a fifth before the objects (reading makefiles), \
         the rest after (linking, kallsyms); calibrated on 38 s for -j32 beside 209 s for -j2 on two Xeons E5 \
         (default 15s)"),
    param!(io: Us(0..=10_000_000_000) = 2_000_000,
        "the wait for the disk when the source is read, and again when the object is written; an assumption: most \
         is in the page cache (default 2 ms)"),
    param!(footprint: Count(0..=1 << 20) = 256,
        "a compiler's working set between two switches in KiB, which the compiler fetches again after a migration; \
         an assumption: a full second-level cache (default 256)"),
];

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "kbuild",
    description: "a kernel build, make -j N vmlinux: compile jobs under a jobserver, then a serial link",
    params: PARAMS,
    metrics: &[Metric::makespan("time")],
    make: |args| Box::new(Setup::new(args)),
};

const TIME: MetricId = 0;

/// The jobserver's pipe; a byte is a token.
const JOBSERVER: StreamId = 0;

/// The work of compiling an object, relative to the average, in 1/1000. The values are the middles of 32 equal parts of
/// a log-normal distribution with a sigma of 0.8, as build logs show. Half of the objects take less than 0.72 times the
/// average, and one in twenty takes more than 2.7 times. In a build of Linux 7.3 (by the CPU time of 830 compilers),
/// sigma was 0.82, and these factors were 0.79 and 2.5.
const SIZES: [u64; 32] = [
    132, 193, 238, 276, 312, 347, 381, 414, 448, 483, 518, 554, 592, 632, 673, 717, 763, 813, 866,
    923, 986, 1056, 1133, 1220, 1320, 1437, 1577, 1751, 1978, 2299, 2826, 4142,
];

/// The share of `as` in an object's work, in 1/1000; the rest is the share of `cc1`. The share is an assumption.
const AS_SHARE: u64 = 60;
/// The size of a stdio buffer, which is the unit of cc1's writes, and of a pipe buffer, in bytes.
const PIPE_BUFFER: u64 = 4 << 10;
const PIPE_CAPACITY: u64 = 64 << 10;
/// cc1's work between two writes of its output, in ns. The value is an assumption, by which an average object has some
/// 120 KiB of assembly.
const BUFFER_WORK: u64 = 3_000_000;
/// fixdep's work, in ns, of reading the object's headers, of which there are about a hundred, for the settings that
/// they use. The value is an assumption.
const FIXDEP_WORK: u64 = 3_000_000;
/// The work, in ns, of fork and exec in the parent, and of a program's start, including the dynamic linker. Both values
/// are assumptions.
const FORK_WORK: u64 = 150_000;
const EXEC_WORK: u64 = 600_000;
/// The work of make for an object's rules and saved commands, in ns; the value is an assumption.
const MAKE_WORK: u64 = 500_000;

#[derive(Clone, Copy)]
struct Setup {
    jobs: u64,
    objects: u64,
    compile: u64,
    serial: u64,
    io: u64,
    footprint: u64,
}

impl Setup {
    fn new(args: &Args) -> Setup {
        Setup {
            jobs: args.get("jobs"),
            objects: args.get("objects"),
            compile: args.get("compile"),
            serial: args.get("serial"),
            io: args.get("io"),
            footprint: args.get("footprint") << 10,
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
            tasks: vec![program("make", self.footprint, make)],
            streams: std::iter::once(self.jobs)
                .chain((0..self.jobs).map(|_| PIPE_CAPACITY))
                .map(|capacity| StreamKind::Pipe.holding(capacity))
                .collect(),
            // The free pipes, which are the streams after the jobserver's.
            shared: std::iter::once(self.jobs).chain(1..=self.jobs).collect(),
            ..Start::default()
        }
    }
}

fn program(name: &str, footprint: u64, program: impl Program + 'static) -> TaskSpec {
    TaskSpec {
        footprint,
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
    started: u64,
    /// The number of tokens that are left before make has to wait for a token from the pipe.
    tokens: u64,
}

impl Program for Make {
    fn next(&mut self, env: &mut Env) -> Op {
        match self.step {
            MakeStep::Read => {
                self.step = MakeStep::NextObject;
                Op::Run {
                    work: self.setup.serial / 5,
                }
            }
            MakeStep::NextObject if self.started == self.setup.objects => {
                self.step = MakeStep::Finish;
                Op::WaitChildren
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
                let pipe = take_pipe(env);
                fork(
                    "sh",
                    self.setup.footprint,
                    Object::new(&self.setup, size, pipe).shell(),
                )
            }
            MakeStep::Finish => {
                self.step = MakeStep::Link;
                let link = self.setup.serial - self.setup.serial / 5;
                fork("ld", self.setup.footprint, tool(self.setup.io, link))
            }
            MakeStep::Link => {
                self.step = MakeStep::Report;
                Op::WaitChildren
            }
            MakeStep::Report => {
                env.recorder.record(TIME, env.now as f64 / 1e9);
                Op::Exit
            }
        }
    }
}

struct Script(std::vec::IntoIter<Op>);

impl Program for Script {
    fn next(&mut self, _env: &mut Env) -> Op {
        self.0.next().unwrap_or(Op::Exit)
    }
}

fn fork(name: &str, footprint: u64, program: impl Program + 'static) -> Op {
    Op::Fork {
        child: Box::new(self::program(name, footprint, program)),
        work: FORK_WORK,
    }
}

/// A program that reads a file, computes, and writes a file.
fn tool(io: u64, work: u64) -> Script {
    let disk = || (io > 0).then_some(Op::Sleep { ns: io });
    let ops = [Some(Op::Exec { work: EXEC_WORK }), disk()]
        .into_iter()
        .chain([Some(Op::Run { work }), disk()]);
    Script(ops.flatten().collect::<Vec<_>>().into_iter())
}

#[derive(Clone, Copy)]
struct Object {
    cc1: u64,
    assembler: u64,
    io: u64,
    footprint: u64,
    pipe: StreamId,
    /// The amount of data that passes through the pipe, in [`PIPE_BUFFER`]s.
    buffers: u64,
}

impl Object {
    fn new(setup: &Setup, size: u64, pipe: StreamId) -> Object {
        let work = setup.compile * size / 1000;
        let assembler = work * AS_SHARE / 1000;
        let cc1 = work - assembler;
        Object {
            cc1,
            assembler,
            io: setup.io,
            footprint: setup.footprint,
            pipe,
            buffers: (cc1 / 2 / BUFFER_WORK).max(1),
        }
    }

    /// The shell that executes make's rule: it runs gcc, rewrites the dependencies, and returns the
    /// token.
    fn shell(self) -> impl Program {
        let mut ops = vec![
            Op::Exec { work: EXEC_WORK },
            fork("gcc", self.footprint, self.gcc()),
            Op::WaitChildren,
        ];
        for (name, work) in [("fixdep", FIXDEP_WORK), ("rm", 0), ("mv", 0)] {
            ops.extend([fork(name, self.footprint, tool(0, work)), Op::WaitChildren]);
        }
        let (mut ops, mut done) = (ops.into_iter(), false);
        move |env: &mut Env| {
            if let Some(op) = ops.next() {
                return op;
            }
            if std::mem::replace(&mut done, true) {
                return Op::Exit;
            }
            give_pipe_back(env, self.pipe);
            Op::Write {
                stream: JOBSERVER,
                bytes: 1,
                work: 0,
            }
        }
    }

    /// gcc, the driver, which runs `cc1` and `as` at the same time.
    fn gcc(self) -> Script {
        let ops = vec![
            Op::Exec { work: EXEC_WORK },
            fork("cc1", self.footprint, self.compiler()),
            fork("as", self.footprint, self.assembler()),
            Op::WaitChildren,
        ];
        Script(ops.into_iter())
    }

    /// cc1, which parses and optimizes, then writes one function after another.
    fn compiler(self) -> Script {
        let work = (self.cc1 - self.cc1 / 2) / self.buffers;
        let write = |_| Op::Write {
            stream: self.pipe,
            bytes: PIPE_BUFFER,
            work,
        };
        let read = (self.io > 0).then_some(Op::Sleep { ns: self.io });
        let ops: Vec<Op> = std::iter::once(Op::Exec { work: EXEC_WORK })
            .chain(read)
            .chain([Op::Run { work: self.cc1 / 2 }])
            .chain((0..self.buffers).map(write))
            .collect();
        Script(ops.into_iter())
    }

    /// `as`, which reads and assembles its input while the input arrives, then writes the object.
    fn assembler(self) -> Script {
        let read = |_| Op::Read {
            stream: self.pipe,
            bytes: PIPE_BUFFER,
            work: self.assembler / self.buffers,
        };
        let write = (self.io > 0).then_some(Op::Sleep { ns: self.io });
        let ops: Vec<Op> = std::iter::once(Op::Exec { work: EXEC_WORK })
            .chain((0..self.buffers).map(read))
            .chain(write)
            .collect();
        Script(ops.into_iter())
    }
}

/// Takes a free pipe. The shared words are the number of free pipes, then their indices.
fn take_pipe(env: &mut Env) -> StreamId {
    env.shared[0] -= 1;
    env.shared[1 + env.shared[0] as usize] as StreamId
}

fn give_pipe_back(env: &mut Env, pipe: StreamId) {
    let position = env.shared[0] as usize;
    env.shared[1 + position] = pipe.into();
    env.shared[0] += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Kernel, run_named};

    fn run(params: &str, cpus: usize) -> Kernel {
        run_named(&format!("kbuild:{params}"), cpus)
    }

    fn count(kernel: &Kernel, name: &str) -> usize {
        kernel.tasks.iter().filter(|(task, _)| task == name).count()
    }

    #[test]
    fn every_object_is_compiled_and_assembled_and_they_are_linked_once() {
        let kernel = run("jobs=3,objects=40,compile=20ms,serial=10ms", 2);
        let names = ["make", "sh", "gcc", "cc1", "as", "fixdep", "mv", "ld"];
        let counts = names.map(|name| count(&kernel, name));
        assert_eq!(counts, [1, 40, 40, 40, 40, 40, 40, 1]);
        assert!(kernel.tasks.iter().all(|(_, exited)| *exited));
        // All tokens are returned, including make's own; the reads of cc1's output balance its
        // writes.
        assert_eq!(kernel.writes - kernel.reads, 3);
        assert!(kernel.writes > 2 * 40);
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
        for jobs in [1, 2, 4] {
            let best = 1.0 + 400.0 * 0.0282 / jobs as f64;
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
