//! The command line.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use lab::By;
use native::Kernel;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Which CPU load balancing suits this machine and this load?
///
/// Runs schedulers for Linux's sched_ext in a simulated kernel, on any machine you can describe, and
/// shows how they compare: times, latencies, and what the scheduler did. The same seed gives the same
/// result, to the last nanosecond.
#[derive(Parser)]
#[command(
    version = env!("EQUIPOISE_VERSION"),
    max_term_width = 100,
    after_help = "\
Examples:
  equipoise reproduce mixed-capacity
  equipoise compare --machine tc2 --workload hackbench --policy cfs --policy capacity
  equipoise compare --machine my-board.toml --workload my-rt-app.json --policy cfs --scheduler my.bpf.c
  equipoise compare --machine tc2 --workload mixed --policy capacity --runs 1 --trace trace.txt
  equipoise machine show tc2

A file's name may be - for standard input, once. Ctrl-C shows the results so far.

Exit status: 0 on success, 1 when a simulation failed, 2 when the command line or a file is \
wrong, 3 when a scheduler in C failed, 4 when `compare --measured` missed a bound, 130 when it was stopped."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub output: Output,
}

/// The commands to try first.
pub const FIRST_STEPS: &str = "\
equipoise: which CPU load balancing suits this machine and this load?

Try one of these; each takes seconds.

  equipoise compare --machine tc2 --workload mixed
      a phone's load on a big.LITTLE board: today's Linux and our policies, and the best of them for each goal

  equipoise compare --machine snb-laptop --workload audio --policy eevdf --policy equipoise
      a laptop that plays audio: today's Linux beside our scheduler, with joules

  equipoise machine list        equipoise workload list        equipoise policy list
      lists the built-in ones; `show NAME` prints one, and a path to your own file can replace a name

  equipoise help compare
      all options, with examples
";

#[derive(Subcommand)]
pub enum Command {
    /// Run published experiments: their tables next to the simulated ones
    #[command(after_help = "\
Examples:
  equipoise reproduce                                       all tables; takes hours
  equipoise reproduce mixed-capacity --rows 'sysbench_*'    some rows of one table
  equipoise reproduce hperf-hmp --scale 10 --format csv     a tenth of PARSEC's work, for a spreadsheet")]
    Reproduce(Reproduce),
    /// Run a workload on a machine under several schedulers: which is best for what, and by how much
    #[command(after_help = "\
Examples:
  equipoise compare --machine tc2 --workload mixed                             today's Linux and our policies
  equipoise compare --machine tc2 --workload mixed --all-policies              also the published designs
  equipoise compare --machine tc2 --workload mixed --goal latency --runs 50    judged by latency alone
  equipoise compare --machine my-board.toml --workload my-rt-app.json --policy eevdf --policy capacity
  equipoise compare --machine tc2 --workload hackbench --all                   all measures
  equipoise compare --machine tc2 --workload hackbench --format csv            run by run, for R or pandas
  equipoise compare --machine smp-8 --workload busy+audio --policy capacity:misfit=false
  equipoise compare --machine smp-8 --workload mixed --scheduler scx_simple.bpf.c --set simple:fifo_sched=true
  equipoise compare --machine mine.toml --measured eevdf=a.dat --measured equipoise=b.dat   judges a simulation
  generate-load | equipoise compare --machine tc2 --workload - --policy eevdf")]
    Compare(Compare),
    /// Explain why threads wait for a CPU or run slowly: the scheduler's decisions, and the numbers
    /// behind them
    #[command(after_help = "\
Examples:
  equipoise explain --machine tc2 --workload mixed --policy eevdf             the longest waits
  equipoise explain --machine tc2 --workload mixed --task ui --worst 5
  equipoise explain --machine tc2 --workload mixed --task ui --at 1.204s      why it waited then
  equipoise explain --machine tc2 --workload mixed --policy eevdf --diff equipoise   side by side
  equipoise explain --machine tc2 --workload mixed --scheduler scx_simple.bpf.c
  equipoise explain --machine my-board.toml --workload my-rt-app.json --format json

The run is the first one of `compare` with the same seed. For a picture of all decisions: compare \
--trace t.perfetto-trace")]
    Explain(Explain),
    /// Search for the load on which a policy does worst compared with another, and write it as an
    /// rt-app file
    #[command(after_help = "\
Examples:
  equipoise hunt --machine tc2 --policy cfs --against capacity --by time
  equipoise hunt --machine tc2 --machine smp-8 --by wait --seconds 60       on either machine
  equipoise hunt --machine smp-8 --scheduler my.bpf.c --by share
  equipoise hunt --machine tc2 --by share --load hunt-tc2-share.json        only measure this load

Ctrl-C writes the worst load so far.")]
    Hunt(Hunt),
    /// Record the scheduling of this computer's kernel, as a trace or a workload
    #[command(after_help = "\
Examples:
  sudo equipoise record -- make -j4                     trace.dat, as trace-cmd writes it
  sudo equipoise record --output build.json -- make -j4      a workload recorded on this computer
  sudo equipoise record --pid 4711 --seconds 10
  sudo equipoise record --all --seconds 5 --output all.dat

It requires root or a writable tracefs, in which it makes an instance of its own. Ctrl-C ends it \
and writes the recording.")]
    Record(Record),
    /// The machines that can be simulated, and this computer
    #[command(after_help = "\
Examples:
  equipoise machine list
  equipoise machine show tc2
  equipoise machine check my-board.toml
  equipoise machine detect > mine.toml         this computer, from its descriptions
  equipoise machine calibrate > mine.toml      and with measured costs")]
    Machine {
        #[command(subcommand)]
        action: MachineAction,
    },
    /// The workloads: benchmark models, rt-app files and recorded loads
    #[command(after_help = "\
Examples:
  equipoise workload list
  equipoise workload show hackbench        its parameters and metrics
  equipoise workload check my-rt-app.json
  equipoise workload import --machine mine.toml trace.txt > recorded.json")]
    Workload {
        #[command(subcommand)]
        action: WorkloadAction,
    },
    /// The policies: today's Linux, our own, and published designs
    #[command(after_help = "\
Examples:
  equipoise policy list
  equipoise policy show capacity           its settings and their meaning
  equipoise policy check my-policy.toml")]
    Policy {
        #[command(subcommand)]
        action: Catalog,
    },
    /// Show the activity of this computer's CPUs, threads and scheduler
    #[command(after_help = "\
Examples:
  equipoise top
  equipoise top --once --format json       for scripts

While scx_equipoise runs, the scheduler's activity, its costs and the energy are shown to root and other users
with access to them; for another sched_ext scheduler, the events that Linux counts from 6.15 on. ? shows the keys.")]
    Top(Top),
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  equipoise completions bash > ~/.local/share/bash-completion/completions/equipoise
  equipoise completions fish > ~/.config/fish/completions/equipoise.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or with --out write those of all subcommands
    #[command(after_help = "\
Examples:
  equipoise man | man -l -
  equipoise man --out ~/.local/share/man/man1")]
    Man,
}

/// The options that every command takes.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// How to write results
    #[arg(long, global = true, value_enum, default_value = "table")]
    pub format: Format,
    /// The same as `--format json`
    #[arg(long, global = true, conflicts_with = "format")]
    pub json: bool,
    /// Write results to files in this folder, not to standard output
    #[arg(long, global = true, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for a terminal
    Table,
    /// JSON for programs; versioned
    Json,
    /// Comma-separated values: for `compare`, a line for each measure, policy and run
    Csv,
    /// A self-contained HTML page with charts
    Html,
    /// The page's charts as one SVG picture
    Svg,
}

/// All runs stay in memory until the last one has finished; more runs would not fit.
const MAX_RUNS: i64 = 100_000;
/// Each job is a thread; hardly any computer has as many CPUs.
const MAX_JOBS: i64 = 1024;

/// The options for the number of runs.
#[derive(Args)]
#[command(next_help_heading = "Runs")]
pub struct Runs {
    /// Number of runs of each workload under each scheduler, each with a different seed
    /// [default: 20, or the experiment's number]
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=MAX_RUNS)
    )]
    pub runs: Option<u32>,
    /// The seed from which all runs' seeds derive; run i has the same seed under every scheduler
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// Number of simulations at a time [default: the number of CPUs]; has no influence on results
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=MAX_JOBS)
    )]
    pub jobs: Option<u32>,
    /// Write the scheduling events of the first run to FILE: ftrace text (.txt, .ftrace), trace-cmd's and
    /// LISA's trace.dat (.dat), Perfetto's protobuf (.perfetto-trace) or Chrome's JSON (.json). With several
    /// schedulers or rows, one file each: FILE.NAME.txt
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// The search compares each wait with every event.
const MAX_WAITS: i64 = 100;

/// The number of runs where neither the command line nor the experiment gives one.
const DEFAULT_RUNS: u32 = 20;

impl Explain {
    /// The options of a run of `compare`; the explained run is the first.
    pub fn runs(&self) -> lab::Runs {
        lab::Runs {
            count: DEFAULT_RUNS,
            seed: self.seed,
            jobs: 1,
        }
    }
}

impl Runs {
    /// The number on the command line; without one, `usual`.
    pub fn or(&self, usual: Option<u32>) -> lab::Runs {
        lab::Runs {
            count: self.runs.or(usual).unwrap_or(DEFAULT_RUNS),
            seed: self.seed,
            jobs: self.jobs.unwrap_or(0) as usize,
        }
    }
}

#[derive(Args)]
pub struct Reproduce {
    /// Names, or paths of experiment files [default: all that come with Equipoise]
    #[arg(value_name = "EXPERIMENT")]
    pub experiments: Vec<String>,
    /// Run only the rows whose name matches, such as `sysbench_*`
    #[arg(long, value_name = "GLOB")]
    pub rows: Option<glob::Pattern>,
    /// Shorten the workloads that can be shortened (PARSEC's) N times, and estimate the time of the
    /// whole
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    pub scale: Option<u32>,
    #[command(flatten)]
    pub runs: Runs,
}

#[derive(Args)]
pub struct Compare {
    /// A machine's name (see `machine list`), or the path of a machine file
    #[arg(short, long, value_name = "MACHINE")]
    pub machine: String,
    /// A workload's name with its parameters, such as `sysbench-cpu:threads=5` (see `workload list`),
    /// or the path of an rt-app JSON file
    #[arg(
        short,
        long,
        value_name = "WORKLOAD",
        required_unless_present = "measured"
    )]
    pub workload: Option<String>,
    /// Instead of a workload: a trace that was recorded on this machine under the kernel's own
    /// scheduler, or under POLICY (which may also be a scheduler in C). The first trace's load is
    /// simulated under the scheduler of each trace, and measurement and simulation are shown side
    /// by side, each figure with its bound and PASS or FAIL. The exit status is 4 if one fails
    #[arg(
        long,
        value_name = "[POLICY|FILE.bpf.c=]TRACE",
        value_parser = measured,
        conflicts_with_all = ["workload", "policies", "all_policies", "schedulers", "cpunodebind", "goal", "trace"]
    )]
    pub measured: Vec<Measured>,
    /// Run the workload only on the CPUs of these NUMA nodes, such as `0-3`, like numactl; the
    /// other nodes stay idle
    #[arg(long, value_name = "NODES")]
    pub cpunodebind: Option<String>,
    /// A policy's name (see `policy list`), which may be followed by settings as in
    /// `cfs:newidle_limit_ns=5000000`, or the path of a policy file; the first is the baseline
    /// [default: eevdf, equipoise, equipoise-performance and equipoise-power, without schedulers in C]
    #[arg(short = 'p', long = "policy", value_name = "POLICY")]
    pub policies: Vec<String>,
    /// Compare all policies that come with Equipoise, including the published designs
    #[arg(long, conflicts_with = "policies")]
    pub all_policies: bool,
    /// A sched_ext scheduler in C to compile with $CC and run alongside the policies, or the name of
    /// a published one, such as scx_lavd; separate several files of one scheduler with commas
    #[arg(long = "scheduler", value_name = "FILE.bpf.c[,FILE...]", value_parser = files)]
    pub schedulers: Vec<Files>,
    /// A folder with headers for the schedulers in C
    #[arg(long, value_name = "DIR", requires = "schedulers")]
    pub include: Vec<PathBuf>,
    /// Simulate this release of Linux, which decides what sched_ext offers and how it behaves
    #[arg(long, value_name = "6.12|7.3", default_value_t = Kernel::default(), value_parser = str::parse::<Kernel>)]
    pub kernel: Kernel,
    /// Set a `const volatile` variable of the schedulers in C, as their loader would: of the
    /// scheduler called NAME, else of all that have the variable
    #[arg(long = "set", value_name = "[NAME:]VAR=VALUE", requires = "schedulers", value_parser = setting)]
    pub settings: Vec<Setting>,
    /// Run schedulers in C even if this kernel cannot isolate them (it lacks Landlock or seccomp)
    #[arg(long)]
    pub uncaged: bool,
    /// Judge by this goal: the verdict and the table show it, and its price in other goals
    #[arg(long, value_enum)]
    pub goal: Option<Goal>,
    /// Show all measures, not only the deciding ones
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub runs: Runs,
}

/// The options for compiling a single scheduler, which `--scheduler` names.
#[derive(Args)]
pub struct Build {
    /// A folder with headers for the scheduler in C
    #[arg(long, value_name = "DIR", requires = "scheduler")]
    pub include: Vec<PathBuf>,
    /// Simulate this release of Linux, which decides what sched_ext offers and how it behaves
    #[arg(long, value_name = "6.12|7.3", default_value_t = Kernel::default(), value_parser = str::parse::<Kernel>)]
    pub kernel: Kernel,
    /// Set a `const volatile` variable of the scheduler in C, as its loader would
    #[arg(long = "set", value_name = "[NAME:]VAR=VALUE", requires = "scheduler", value_parser = setting)]
    pub settings: Vec<Setting>,
    /// Run schedulers in C even if this kernel cannot isolate them (it lacks Landlock or seccomp)
    #[arg(long, requires = "scheduler")]
    pub uncaged: bool,
}

#[derive(Args)]
pub struct Explain {
    /// A machine's name (see `machine list`), or the path of a machine file
    #[arg(short, long, value_name = "MACHINE")]
    pub machine: String,
    /// A workload's name with its parameters, or the path of an rt-app JSON file
    #[arg(short, long, value_name = "WORKLOAD")]
    pub workload: String,
    /// Run the workload only on the CPUs of these NUMA nodes, such as `0-3`, like numactl
    #[arg(long, value_name = "NODES")]
    pub cpunodebind: Option<String>,
    /// A policy's name (see `policy list`), which may be followed by settings, or the path of a policy file
    #[arg(short, long, value_name = "POLICY", default_value = "equipoise")]
    pub policy: String,
    /// Instead of a policy: a sched_ext scheduler in C, as for `compare`; separate several files
    /// with commas. It reports no decisions; the trace shows which threads ran, which waited and
    /// which CPUs idled
    #[arg(long, value_name = "FILE.bpf.c[,FILE...]", value_parser = files, conflicts_with = "policy")]
    pub scheduler: Option<Files>,
    #[command(flatten)]
    pub build: Build,
    /// Threads to explain, by name (`ui`, or one instance of several, `ui-0`) or pid [default: the
    /// threads whose latencies judge the workload, else all]
    #[arg(long, value_name = "THREAD")]
    pub task: Vec<String>,
    /// Show the same period of a thread, from its wakeup until it sleeps, under this policy next to
    /// the other one: the period that lost most time, or the one at --at
    #[arg(long, value_name = "POLICY", conflicts_with = "worst")]
    pub diff: Option<String>,
    /// Explain the waits at this time, such as 1.204s or 1204ms, instead of the longest waits
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub at: Option<u64>,
    /// Number of waits to show, and of slow runs
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=MAX_WAITS)
    )]
    pub worst: u32,
    /// The seed from which the run's seed derives, as for `compare`
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
}

#[derive(Args)]
pub struct Hunt {
    /// A machine's name (see `machine list`), or the path of a machine file; of several, the hunt also
    /// chooses the machine
    #[arg(short = 'm', long = "machine", value_name = "MACHINE", required = true)]
    pub machines: Vec<String>,
    /// The policy for which to find a bad load
    #[arg(short, long, value_name = "POLICY", default_value = "equipoise")]
    pub policy: String,
    /// Instead of a policy: a sched_ext scheduler in C, as for `compare`; separate several files with
    /// commas
    #[arg(long, value_name = "FILE.bpf.c[,FILE...]", value_parser = files, conflicts_with = "policy")]
    pub scheduler: Option<Files>,
    #[command(flatten)]
    pub build: Build,
    /// The policy to compare with, or `limit`: the shortest time that the machine allows (--by time)
    #[arg(long, value_name = "POLICY|limit", default_value = "eevdf")]
    pub against: String,
    /// The measure by which a policy is worse
    #[arg(long, value_parser = by(), default_value = "time")]
    pub by: By,
    /// Try no real-time threads: they take CPUs from other threads whatever the policy, so their placement
    /// can hide a policy's own flaws
    #[arg(long)]
    pub no_realtime: bool,
    /// The time for the hunt
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = limit, allow_negative_numbers = true)]
    pub seconds: Duration,
    /// Try this many batches of 32 loads instead of as many as there is time for; the same load is then
    /// found each time
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=MAX_RUNS)
    )]
    pub batches: Option<u32>,
    /// Measure this rt-app file instead of searching
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seconds", "batches", "file"])]
    pub load: Option<PathBuf>,
    /// The seed from which the loads and the runs derive
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// The file to write [default: hunt-MACHINE-POLICY-BY.json]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Parses the name of a measure of `hunt`; help lists all of them.
fn by() -> impl TypedValueParser<Value = By> {
    let about = |by| match by {
        By::Share => "The CPU time of a thread that gets less than it is entitled to",
        By::Wait => {
            "The longest time for which a thread waits for a CPU; real-time threads do not count"
        }
        By::Time => "The time until all threads have ended",
        By::Energy => "The energy until all threads have ended",
    };
    let value = |by: By| PossibleValue::new(by.name()).help(about(by));
    PossibleValuesParser::new(By::ALL.map(value)).try_map(|name| {
        let mut all = By::ALL.into_iter();
        all.find(|by| by.name() == name).ok_or("an unknown measure")
    })
}

/// A goal of load balancing.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Goal {
    /// Low latency: short responses, and few missed periods
    Latency,
    /// High throughput
    Throughput,
    /// Low energy use
    Energy,
    /// Equal progress of equal threads
    Fairness,
}

impl From<Goal> for workload::Goal {
    fn from(goal: Goal) -> workload::Goal {
        match goal {
            Goal::Latency => workload::Goal::Latency,
            Goal::Throughput => workload::Goal::Throughput,
            Goal::Energy => workload::Goal::Energy,
            Goal::Fairness => workload::Goal::Fairness,
        }
    }
}

#[derive(Args)]
pub struct Top {
    /// Refresh interval, s
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// Print one interval and exit
    #[arg(long)]
    pub once: bool,
    /// The folder that holds proc, sys and run
    #[arg(long, value_name = "DIR", hide = true)]
    pub root: Option<PathBuf>,
}

#[derive(Subcommand)]
pub enum MachineAction {
    #[command(flatten)]
    Catalog(Catalog),
    /// Write the machine file of this computer, or of another one from its description
    Detect(Detect),
    /// Write this computer's machine file with measured costs of kernel operations; nothing else
    /// should run
    Calibrate(Calibrate),
}

#[derive(Args)]
pub struct Detect {
    /// A copy of another machine's /sys
    #[arg(long, value_name = "DIR", conflicts_with_all = ["hwloc", "dtb"])]
    pub sysfs: Option<PathBuf>,
    /// hwloc's XML of another machine, as `lstopo machine.xml` writes it
    #[arg(long, value_name = "FILE", conflicts_with = "dtb")]
    pub hwloc: Option<PathBuf>,
    /// A device tree blob, such as /sys/firmware/fdt
    #[arg(long, value_name = "FILE")]
    pub dtb: Option<PathBuf>,
    /// The machine's name
    #[arg(long, default_value = "detected")]
    pub name: String,
}

#[derive(Args)]
pub struct Calibrate {
    /// Measure the costs while `equipoise record` records, which makes each event more
    /// expensive: for replaying a recording
    #[arg(long)]
    pub traced: bool,
    /// Measure even if other processes keep this computer busy, which makes the costs too large
    #[arg(long)]
    pub force: bool,
    /// The machine's name
    #[arg(long, default_value = "detected")]
    pub name: String,
}

#[derive(Subcommand)]
pub enum WorkloadAction {
    #[command(flatten)]
    Catalog(Catalog),
    /// Convert a trace of scheduling events to a workload
    Import(Import),
}

#[derive(Args)]
pub struct Record {
    /// Record this process, its descendants and all that they start, until the process ends
    #[arg(long, value_name = "PID", conflicts_with_all = ["all", "command"])]
    pub pid: Option<i32>,
    /// Record all processes, until Ctrl-C or for the time of --seconds
    #[arg(long, conflicts_with = "command")]
    pub all: bool,
    /// Stop after this time
    #[arg(long, value_name = "SECONDS", value_parser = limit, allow_negative_numbers = true)]
    pub seconds: Option<Duration>,
    /// The output file: trace-cmd's trace (.dat) or a workload (.json)
    #[arg(long, value_name = "FILE", default_value = "trace.dat")]
    pub output: PathBuf,
    /// For a workload: the machine of this computer, by name or file [default: the machine that
    /// `machine detect` finds]
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// Also record pipes, Unix sockets and affinities, with kernel probes, which slow the load
    /// down. Not for guests emulated by QEMU before 8.1: Linux may crash there
    #[arg(long)]
    pub pipes: bool,
    /// Also record futex calls: the workload then has the mutexes that threads waited for. This
    /// slows all system calls down
    #[arg(long)]
    pub futexes: bool,
    /// The size of the kernel's buffer, MiB for each CPU
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub buffer: u32,
    /// The command to run: it and all that it starts are the load
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["pid", "all"])]
    pub command: Vec<OsString>,
}

#[derive(Args)]
pub struct Import {
    /// A trace.dat of `equipoise record` or trace-cmd, Perfetto's, ftrace's text, `trace-cmd report`'s, or that of `perf
    /// script` after `perf sched record`; with the events sched_switch and sched_waking (or sched_wakeup), and
    /// sched_wakeup_new and sched_process_fork if tasks start
    pub trace: PathBuf,
    /// The machine that the trace was recorded on, by name or file: computing time is scaled from
    /// it to other machines
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// Set the period of the threads called THREAD, such as `ui=16.67ms`, or `ui=none` if they have
    /// no deadlines [default: what their wakeups show; see `workload show`]
    #[arg(long = "period", value_name = "THREAD=TIME|none", value_parser = period)]
    pub periods: Vec<workload::import::Set>,
}

#[derive(Subcommand)]
pub enum Catalog {
    /// List the names, with a line about each
    List,
    /// Show everything about one
    Show {
        /// A name, or the path of a file
        name: String,
    },
    /// Check that files are well-formed
    Check {
        /// The files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Fail if there are warnings
        #[arg(long)]
        strict: bool,
    },
}

/// The files of a scheduler in C, at least one.
#[derive(Clone, Debug)]
pub struct Files(pub Vec<PathBuf>);

/// A trace, and the scheduler under which it was recorded.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The policy, or the file of a scheduler in C.
    pub policy: String,
    /// The file of the trace.
    pub trace: PathBuf,
}

/// A value for a variable of a scheduler in C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The scheduler's own name, if the setting is for one scheduler alone.
    pub scheduler: Option<String>,
    /// The variable.
    pub variable: String,
    /// Its value.
    pub value: i64,
}

/// A time since the start, ns. The text is in s, or has a suffix.
fn time(text: &str) -> Result<u64, String> {
    workload::nanoseconds(text, 1e9).ok_or_else(|| {
        "expected a time since the start, such as 1.204s, 1204ms or 1204000us".to_owned()
    })
}

/// The period of the threads with a certain name, ns, or none.
fn period(text: &str) -> Result<workload::import::Set, String> {
    let expected =
        || format!("expected THREAD=TIME or THREAD=none, such as ui=16.67ms, found `{text}`");
    let (name, period) = text.rsplit_once('=').ok_or_else(expected)?;
    let period = match period {
        "none" => None,
        time => Some(
            workload::nanoseconds(time, 1e9)
                .filter(|&ns| ns > 0)
                .ok_or_else(expected)?,
        ),
    };
    Ok((name.to_owned(), period))
}

/// The refresh interval.
fn interval(text: &str) -> Result<Duration, String> {
    seconds(text, 0.1..=3600.0, "expected seconds from 0.1 to 3600")
}

/// The longest time to record.
fn limit(text: &str) -> Result<Duration, String> {
    let expected = "expected a number of seconds, such as 10 or 0.5";
    seconds(text, 0.001..=1e6, expected)
}

fn seconds(text: &str, range: RangeInclusive<f64>, expected: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| range.contains(seconds));
    let duration = seconds.map(Duration::from_secs_f64);
    duration.ok_or_else(|| expected.to_owned())
}

/// Paths separated by commas, or one path that contains commas.
fn files(text: &str) -> Result<Files, String> {
    let whole = PathBuf::from(text);
    if whole.exists() {
        return Ok(Files(vec![whole]));
    }
    let files: Vec<PathBuf> = text.split(',').map(PathBuf::from).collect();
    match files.iter().any(|file| file.as_os_str().is_empty()) {
        true => Err(format!("expected FILE,FILE..., found `{text}`")),
        false => Ok(Files(files)),
    }
}

/// Parses `[POLICY|FILE.bpf.c=]TRACE`; Linux's own scheduler is `eevdf`.
fn measured(text: &str) -> Result<Measured, String> {
    let (policy, trace) = match text.rsplit_once('=') {
        Some(parts) if !PathBuf::from(text).exists() => parts,
        _ => ("eevdf", text),
    };
    Ok(Measured {
        policy: policy.to_owned(),
        trace: trace.into(),
    })
}

/// Parses `[NAME:]VAR=VALUE`; the value is a decimal or 0x number, or true or false.
fn setting(text: &str) -> Result<Setting, String> {
    let expected =
        || format!("expected VAR=VALUE or NAME:VAR=VALUE with an integer value, found `{text}`");
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    let (scheduler, variable) = match name.split_once(':') {
        Some((scheduler, variable)) => (Some(scheduler), variable),
        None => (None, name),
    };
    if variable.is_empty() || scheduler == Some("") {
        return Err(expected());
    }
    let value = match value {
        "true" => Some(1),
        "false" => Some(0),
        _ => match value.strip_prefix("0x") {
            // A number may have all 64 bits of an unsigned variable; the bytes are the same.
            Some(hex) => u64::from_str_radix(hex, 16).ok().map(u64::cast_signed),
            None => value.parse().ok(),
        },
    };
    Ok(Setting {
        scheduler: scheduler.map(str::to_owned),
        variable: variable.to_owned(),
        value: value.ok_or_else(expected)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_have_units() {
        for (text, ns) in [
            ("1.204s", 1_204_000_000),
            ("1.204", 1_204_000_000),
            ("20us", 20_000),
        ] {
            assert_eq!(time(text), Ok(ns));
        }
        for wrong in ["", "s", "-1s", "nan", "1h"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn periods_are_times_or_none() {
        assert_eq!(
            period("ui=16.67ms"),
            Ok(("ui".to_owned(), Some(16_670_000)))
        );
        assert_eq!(period("a=b=none"), Ok(("a=b".to_owned(), None)));
        for wrong in ["ui", "ui=", "ui=0", "ui=-1ms"] {
            assert!(period(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_are_integers() {
        for (text, scheduler, variable, value) in [
            ("a=1", None, "a", 1),
            ("a=-0", None, "a", 0),
            ("slice_ns=0x10", None, "slice_ns", 16),
            ("simple:fifo=true", Some("simple"), "fifo", 1),
        ] {
            let wanted = Setting {
                scheduler: scheduler.map(str::to_owned),
                variable: variable.to_owned(),
                value,
            };
            assert_eq!(setting(text), Ok(wanted));
        }
        for wrong in ["a", "=1", "a=", "a=1.5", "a=0x", "a=b=1", ":a=1", "a:=1"] {
            assert!(setting(wrong).is_err(), "{wrong}");
        }
    }
}
