//! Machines, workloads and schedulers for the tests, and their results.

use machine::{CoreType, Cpu, CpuMask, Level, Machine};
use native::{Global, Kernel, Object};
use policy::Policy;
use simulator::{Check, Config, Error, Event, Outcome, Trace};
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;
use workload::{Env, Metric, Op, Program, SchedPolicy, Start, TaskSpec, Workload};

pub const MS: u64 = 1_000_000;

/// `cpus` equal CPUs in one cluster, with 250 ticks a second and a kernel without costs.
pub fn machine(cpus: usize) -> Machine {
    let span = vec![CpuMask::first_n(cpus)];
    Machine {
        name: "test".into(),
        description: "a machine without costs".into(),
        hz: 250,
        cpus: vec![
            Cpu {
                core_type: 0,
                capacity: 1024
            };
            cpus
        ],
        core_types: vec![CoreType {
            name: "core".into(),
            speed: 1 << 20,
            smt_throughput: 1 << 20,
            ..CoreType::default()
        }],
        levels: vec![Level {
            name: "MC",
            spans: span,
        }],
        ..Machine::default()
    }
}

/// The levels of a machine of two CPUs, each with its own cache.
pub fn two_caches() -> Vec<Level> {
    vec![
        Level {
            name: "MC",
            spans: vec![CpuMask::one(0), CpuMask::one(1)],
        },
        Level {
            name: "PKG",
            spans: vec![CpuMask::first_n(2)],
        },
    ]
}

/// Like [`machine`], with two threads a core: CPUs 0 and 1, 2 and 3, and so on.
pub fn smt_machine(cores: usize) -> Machine {
    let mut machine = machine(2 * cores);
    let spans = (0..cores)
        .map(|core| CpuMask::one(2 * core).or(&CpuMask::one(2 * core + 1)))
        .collect();
    machine.levels.insert(0, Level { name: "SMT", spans });
    machine
}

pub struct Script<F>(pub F);

impl<F: Fn() -> Start + Send + Sync> Workload for Script<F> {
    fn name(&self) -> &str {
        "script"
    }
    fn description(&self) -> &str {
        "tasks of a test"
    }
    fn metrics(&self) -> &[Metric] {
        &[]
    }
    fn start(&self, _machine: &Machine) -> Start {
        (self.0)()
    }
}

/// A workload of the tasks that `tasks` makes.
pub fn tasks<const N: usize>(
    tasks: impl Fn() -> [TaskSpec; N] + Send + Sync,
) -> Script<impl Fn() -> Start + Send + Sync> {
    Script(move || Start {
        tasks: tasks().into(),
        ..Start::default()
    })
}

/// A program that executes `ops`, then exits.
pub fn play(ops: impl IntoIterator<Item = Op> + 'static) -> impl Program {
    let mut ops = ops.into_iter().collect::<Vec<_>>().into_iter();
    move |_: &mut Env| ops.next().unwrap_or(Op::Exit)
}

pub fn task(name: &str, ops: impl IntoIterator<Item = Op> + 'static) -> TaskSpec {
    TaskSpec::new(name, play(ops))
}

/// Like [`task`], bound to one CPU.
pub fn bound(name: &str, cpu: usize, ops: impl IntoIterator<Item = Op> + 'static) -> TaskSpec {
    TaskSpec {
        affinity: Some(CpuMask::one(cpu)),
        timer_slack_ns: Some(0),
        ..task(name, ops)
    }
}

/// Like [`bound`], with the FIFO policy.
pub fn fifo(name: &str, cpu: usize, ops: impl IntoIterator<Item = Op> + 'static) -> TaskSpec {
    TaskSpec {
        policy: SchedPolicy::Fifo { priority: 50 },
        ..bound(name, cpu, ops)
    }
}

pub fn run_for(ms: u64) -> Op {
    Op::Run { work: ms * MS }
}

pub fn sleep_for(ms: u64) -> Op {
    Op::Sleep { ns: ms * MS }
}

/// The start of each scheduler: `note(what, p, number)` writes a line that [`Ran::lines`] returns.
/// Only tasks of the workload are recorded, and not the shell that starts them.
const PROLOGUE: &str = r#"
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
struct line { char what[16]; char comm[16]; s64 number; u64 at; s32 cpu; s32 pid; };
struct line lines[4096];
u32 nr_lines;
static void write_line(const char *what, struct task_struct *p, s64 number)
{
	struct line *line = &lines[nr_lines & 4095];

	if (p && p->pid == 1000)
		return;
	nr_lines++;
	__builtin_strncpy(line->what, what, 15);
	if (p)
		__builtin_memcpy(line->comm, p->comm, 16);
	line->number = number;
	line->at = bpf_ktime_get_ns();
	line->cpu = bpf_get_smp_processor_id();
	line->pid = p ? p->pid : 0;
}
#define note(what, p, number) write_line(what, p, number)
"#;

/// The ops of a scheduler for tests that do not test the scheduler: one FIFO for all tasks.
pub const FIFO: &str = r#"
#define SHARED 0
s32 BPF_STRUCT_OPS_SLEEPABLE(fifo_init) { return scx_bpf_create_dsq(SHARED, -1); }
void BPF_STRUCT_OPS(fifo_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED, SCX_SLICE_DFL, enq_flags);
}
void BPF_STRUCT_OPS(fifo_dispatch, s32 cpu, struct task_struct *prev) { scx_bpf_dsq_move_to_local(SHARED); }
#define FIFO_OPS .init = (void *)fifo_init, .enqueue = (void *)fifo_enqueue, .dispatch = (void *)fifo_dispatch
"#;

/// Compiles a scheduler: the prologue, then `text`, whose ops are `ops`.
pub fn scheduler(text: &str, ops: &str) -> Object {
    scheduler_in(Kernel::default(), text, ops).unwrap_or_else(|error| panic!("{error}"))
}

/// Like [`scheduler`], for `kernel`, which may lack a feature.
pub fn scheduler_in(kernel: Kernel, text: &str, ops: &str) -> Result<Object, native::Error> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("test.bpf.c");
    let text = format!("{PROLOGUE}{text}\nSCX_OPS_DEFINE(test_ops, {ops}, .name = \"test\");\n");
    std::fs::write(&source, text).unwrap();
    Object::compile_all(&[&source], &[], kernel)
}

#[derive(Clone, Debug)]
pub struct Line {
    pub what: String,
    pub task: String,
    pub number: i64,
    pub at: u64,
    pub cpu: i32,
}

pub struct Ran {
    pub outcome: Outcome,
}

impl Ran {
    /// Returns all lines that the scheduler noted.
    pub fn lines(&self) -> Vec<Line> {
        let count = u32::from_ne_bytes(self.outcome.read[1][..].try_into().unwrap()) as usize;
        assert!(count <= 4096, "the log is full");
        let text = |bytes: &[u8]| {
            let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(16);
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        self.outcome.read[0]
            .chunks(56)
            .take(count)
            .map(|line| Line {
                what: text(&line[..16]),
                task: text(&line[16..32]),
                number: i64::from_ne_bytes(line[32..40].try_into().unwrap()),
                at: u64::from_ne_bytes(line[40..48].try_into().unwrap()),
                cpu: i32::from_ne_bytes(line[48..52].try_into().unwrap()),
            })
            .collect()
    }

    /// `what task` of each line.
    pub fn log(&self) -> Vec<String> {
        let say = |line: Line| format!("{} {}", line.what, line.task).trim_end().to_owned();
        self.lines().into_iter().map(say).collect()
    }

    /// The numbers of the lines with `what`.
    pub fn numbers(&self, what: &str) -> Vec<i64> {
        let lines = self.lines().into_iter();
        lines
            .filter(|line| line.what == what)
            .map(|line| line.number)
            .collect()
    }

    /// The tasks of the lines with `what`.
    pub fn tasks(&self, what: &str) -> Vec<String> {
        let lines = self.lines().into_iter();
        lines
            .filter(|line| line.what == what)
            .map(|line| line.task)
            .collect()
    }
}

pub fn try_run<'a>(
    machine: &'a Machine,
    workload: &'a dyn Workload,
    scheduler: &'a Object,
    globals: &'a [Global],
    trace: Option<&'a mut dyn Trace>,
) -> Result<Ran, Error> {
    let config = Config {
        read: &["lines", "nr_lines"],
        time_limit_ns: 100_000 * MS,
        trace,
        ..Config::new(machine, workload, scheduler, globals)
    };
    let outcome = simulator::run_checked(config, Check::INVARIANTS)?;
    Ok(Ran { outcome })
}

/// Like [`try_run`]; the run must succeed.
pub fn run(machine: &Machine, workload: &dyn Workload, scheduler: &Object) -> Ran {
    try_run(machine, workload, scheduler, &[], None).unwrap_or_else(|error| panic!("{error}"))
}

/// Like [`try_run`], with the run's events.
pub fn try_record(
    machine: &Machine,
    workload: &dyn Workload,
    scheduler: &Object,
    globals: &[Global],
) -> (Result<Ran, Error>, Recording) {
    let mut recording = Recording::default();
    let ran = try_run(machine, workload, scheduler, globals, Some(&mut recording));
    (ran, recording)
}

/// Like [`run`], with the run's events.
pub fn record(machine: &Machine, workload: &dyn Workload, scheduler: &Object) -> (Ran, Recording) {
    let (ran, recording) = try_record(machine, workload, scheduler, &[]);
    (ran.unwrap_or_else(|error| panic!("{error}")), recording)
}

/// Runs `workload` on `machine` under the policy called `policy`. The run must succeed.
pub fn simulate(
    machine: &Machine,
    policy: &str,
    workload: &dyn Workload,
    seed: u64,
    trace: &mut dyn Trace,
) -> Outcome {
    run_policy(policy, machine, workload, seed, 100_000 * MS, Some(trace))
        .unwrap_or_else(|error| panic!("{error}"))
}

pub fn exit_of(machine: &Machine, workload: &dyn Workload, scheduler: &Object) -> (String, String) {
    match try_run(machine, workload, scheduler, &[], None) {
        Err(Error::SchedulerExit {
            reason, message, ..
        }) => (reason, message),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("nothing went wrong"),
    }
}

/// Keeps a run's events, as text.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Recording {
    pub text: String,
    /// The output of bpf_printk().
    pub printed: Vec<String>,
}

impl Recording {
    /// The times when the tasks exited, in ns, by name.
    pub fn ends(&self) -> Vec<(String, u64)> {
        let exit = |line: &str| {
            let at = line.split_once(' ')?.0.parse().ok()?;
            let name = line.split_once("Exit { task: (\"")?.1.split('"').next()?;
            Some((name.to_owned(), at))
        };
        self.text.lines().filter_map(exit).collect()
    }
}

impl Trace for Recording {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        writeln!(self.text, "{now} {cpu} {event:?}").unwrap();
        if let Event::Printk(line) = event {
            self.printed.push(line.to_owned());
        }
    }
}

/// CPU time in a window of time, in ns, by task.
pub struct CpuTime {
    window: Range<u64>,
    on: HashMap<usize, (String, u64)>,
    of: HashMap<String, u64>,
}

impl CpuTime {
    /// `task` ran from `since` to `now`.
    fn count(&mut self, task: String, since: u64, now: u64) {
        let Range { start, end } = self.window;
        let ran = now.clamp(start, end) - since.clamp(start, end);
        *self.of.entry(task).or_default() += ran;
    }
}

impl Trace for CpuTime {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        let Event::Switch { next, .. } = event else {
            return;
        };
        let last = self.on.insert(cpu, (next.0.to_owned(), now));
        if let Some((task, since)) = last {
            self.count(task, since, now);
        }
    }
}

/// The outcome under the policy `name`. Invariants are checked.
pub fn run_policy(
    name: &str,
    machine: &Machine,
    workload: &dyn Workload,
    seed: u64,
    time_limit_ns: u64,
    trace: Option<&mut dyn Trace>,
) -> Result<Outcome, Error> {
    run_checked(
        name,
        machine,
        workload,
        seed,
        time_limit_ns,
        trace,
        Some(Check::INVARIANTS),
    )
}

/// Like [`run_policy`], with another check or none. The policies of `equipoise` always check their own invariants.
pub fn run_checked(
    name: &str,
    machine: &Machine,
    workload: &dyn Workload,
    seed: u64,
    time_limit_ns: u64,
    trace: Option<&mut dyn Trace>,
    check: Option<Check>,
) -> Result<Outcome, Error> {
    let policy = Policy::find(name).unwrap();
    let mut globals = policy.globals(machine);
    if name.starts_with("equipoise") {
        globals.push(Global {
            symbol: "checks".into(),
            bytes: vec![1],
        });
    }
    let config = Config {
        seed,
        time_limit_ns,
        trace: trace.map(|trace| trace as &mut dyn Trace),
        ..Config::new(machine, workload, policy.object().unwrap(), &globals)
    };
    match check {
        Some(check) => simulator::run_checked(config, check),
        None => simulator::run(config),
    }
}

/// The CPU time that each task gets under `equipoise` in the `window`, in ns. Invariants are checked.
pub fn equipoise_cpu_time(
    machine: &Machine,
    workload: &dyn Workload,
    seed: u64,
    time_limit_ns: u64,
    window: Range<u64>,
) -> Result<HashMap<String, u64>, Error> {
    cpu_time_under("equipoise", machine, workload, seed, time_limit_ns, window)
}

/// Like [`equipoise_cpu_time`], under `policy`.
pub fn cpu_time_under(
    policy: &str,
    machine: &Machine,
    workload: &dyn Workload,
    seed: u64,
    time_limit_ns: u64,
    window: Range<u64>,
) -> Result<HashMap<String, u64>, Error> {
    let mut times = CpuTime {
        window,
        on: HashMap::new(),
        of: HashMap::new(),
    };
    let outcome = run_policy(
        policy,
        machine,
        workload,
        seed,
        time_limit_ns,
        Some(&mut times),
    )?;
    // A task may run to the end without another switch.
    for (_, (task, since)) in std::mem::take(&mut times.on) {
        times.count(task, since, outcome.simulated_ns);
    }
    Ok(times.of)
}

/// The speed of each CPU at its highest frequency, relative to the fastest.
pub fn speeds(machine: &Machine) -> Vec<f64> {
    let speed = |cpu: &machine::Cpu| machine.core_types[cpu.core_type].speed;
    let relative = |cpu| f64::from(speed(cpu)) / f64::from(1 << 20);
    machine.cpus.iter().map(relative).collect()
}
