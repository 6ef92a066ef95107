//! The options of the subcommands.

use super::values::{
    Files, Measured, Setting, by, files, interval, limit, measured, period, setting, span, time,
};
use clap::{Args, Subcommand, ValueEnum};
use lab::By;
use native::Kernel;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// All runs stay in memory until the last one has finished; more runs would not fit.
const MAX_RUNS: i64 = 100_000;
/// Each job is a thread, and hardly any computer has more CPUs than this.
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
    /// Number of simulations at a time [default: the number of CPUs]; does not affect results
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

/// The option for runs without noise.
#[derive(Args)]
#[command(next_help_heading = "Runs")]
pub struct Noise {
    /// Leave out the noise of a real machine. A load without random elements then has one sequence of events, and a
    /// small change of the load may change results by more than their confidence intervals say
    #[arg(long)]
    pub exact: bool,
}

/// The search compares each wait with every event.
const MAX_WAITS: i64 = 100;

/// The number of runs if neither the command line nor the experiment gives one.
const DEFAULT_RUNS: u32 = 20;

impl Explain {
    /// The options of a run of `compare`; the explained run is the first.
    pub fn runs(&self) -> lab::Runs {
        lab::Runs {
            count: DEFAULT_RUNS,
            seed: self.seed,
            jobs: 1,
            noise: !self.noise.exact,
        }
    }
}

impl Runs {
    /// The number of runs on the command line, or `usual` if there is none. The runs have no noise.
    pub fn or(&self, usual: Option<u32>) -> lab::Runs {
        lab::Runs {
            count: self.runs.or(usual).unwrap_or(DEFAULT_RUNS),
            seed: self.seed,
            jobs: self.jobs.unwrap_or(0) as usize,
            noise: false,
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
    /// Run only 1/N of each workload that can be shortened (PARSEC's), and estimate the time of the whole
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
    /// or the path of an rt-app file or a recorded load
    #[arg(short, long, value_name = "WORKLOAD")]
    pub workload: String,
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
    /// Set a `const volatile` variable of the schedulers in C, as their loader would: in the
    /// scheduler called NAME, or without NAME in all that have the variable
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
    #[command(flatten)]
    pub noise: Noise,
}

#[derive(Args)]
pub struct Validate {
    /// The machine on which the traces were recorded: its name (see `machine list`), or the path of
    /// its file
    #[arg(short, long, value_name = "MACHINE")]
    pub machine: String,
    /// The traces, each recorded under the kernel's own scheduler, or under POLICY, which may also be a
    /// scheduler in C
    #[arg(value_name = "[POLICY|FILE.bpf.c=]TRACE", required = true, value_parser = measured)]
    pub traces: Vec<Measured>,
    /// Simulate this release of Linux, which decides what sched_ext offers and how it behaves
    #[arg(long, value_name = "6.12|7.3", default_value_t = Kernel::default(), value_parser = str::parse::<Kernel>)]
    pub kernel: Kernel,
    /// Run schedulers in C even if this kernel cannot isolate them (it lacks Landlock or seccomp)
    #[arg(long)]
    pub uncaged: bool,
    /// The seed of the simulation
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
}

/// The simulated kernel, and the options for compiling a single scheduler, which `--scheduler` names.
#[derive(Args, Default)]
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
    /// A workload's name with its parameters, or the path of an rt-app file or a recorded load
    #[arg(short, long, value_name = "WORKLOAD")]
    pub workload: String,
    /// Run the workload only on the CPUs of these NUMA nodes, such as `0-3`, like numactl
    #[arg(long, value_name = "NODES")]
    pub cpunodebind: Option<String>,
    /// A policy's name (see `policy list`), which may be followed by settings, or the path of a policy file
    #[arg(short, long, value_name = "POLICY", default_value = "equipoise")]
    pub policy: String,
    /// Explain a sched_ext scheduler in C instead of a policy, as for `compare`; separate several files with commas.
    /// Such a scheduler reports no decisions; the trace shows which threads ran, which waited and which CPUs idled
    #[arg(long, value_name = "FILE.bpf.c[,FILE...]", value_parser = files, conflicts_with = "policy")]
    pub scheduler: Option<Files>,
    #[command(flatten)]
    pub build: Build,
    /// Threads to explain, by name (`ui`, or one instance of several, `ui-0`) or pid [default: the
    /// threads whose latencies judge the workload, else all]
    #[arg(long, value_name = "THREAD")]
    pub task: Vec<String>,
    /// Show the same period of a thread, from its wakeup until it sleeps, under this policy next to
    /// the explained one: the period that lost most time, or the period at --at
    #[arg(long, value_name = "POLICY", conflicts_with = "worst")]
    pub diff: Option<String>,
    /// Explain the waits at this time, such as 1.204s or 1204ms, instead of the longest waits
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub at: Option<u64>,
    /// Number of waits and of slow runs to show
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
    #[command(flatten)]
    pub noise: Noise,
}

#[derive(Args)]
pub struct Hunt {
    /// A machine's name (see `machine list`), or the path of a machine file; if there are several,
    /// the hunt also chooses the machine
    #[arg(short = 'm', long = "machine", value_name = "MACHINE", required = true)]
    pub machines: Vec<String>,
    /// The policy for which to find a bad load
    #[arg(short, long, value_name = "POLICY", default_value = "equipoise")]
    pub policy: String,
    /// Hunt a sched_ext scheduler in C instead of a policy, as for `compare`; separate several files with commas
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
    /// Try no real-time threads (or, with =false, try them): they take CPUs from other threads under every policy, so
    /// their placement can hide a policy's own flaws [default for --by wait and --by share: true]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub no_realtime: Option<bool>,
    /// Duration of the hunt
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = limit, allow_negative_numbers = true)]
    pub seconds: Duration,
    /// Try this many batches of 32 loads instead of as many as there is time for; every hunt with the same seed then
    /// finds the same load
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
    /// The file to write [default: hunt-MACHINE-POLICY-BY.json, in the folder of --out]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub noise: Noise,
}

/// A goal by which schedulers are judged.
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
    /// Refresh interval in seconds
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

#[derive(Subcommand)]
pub enum SchedulerAction {
    /// List the names, and show which sources are on this computer
    List,
    /// Download sources: crates with cargo, and the kernel's examples with Debian's apt
    Fetch {
        /// The schedulers [default: all]
        #[arg(value_name = "SCHEDULER")]
        schedulers: Vec<String>,
    },
}

#[derive(Args)]
pub struct Detect {
    /// A copy of another machine's /sys, as a folder or an archive, or its /proc/cpuinfo
    #[arg(long, value_name = "PATH", conflicts_with_all = ["hwloc", "dtb"])]
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
    /// Measure the costs while events are recorded, which makes each event more expensive; use
    /// these costs to replay a recording
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
    /// Also record pipes, Unix sockets, affinities and requested slices, with kernel probes, which
    /// slow the load down. Do not use it in guests emulated by QEMU before 8.1, where Linux may crash
    #[arg(long)]
    pub pipes: bool,
    /// Also record futex calls: the workload then has the mutexes that threads waited for. This
    /// slows all system calls down
    #[arg(long)]
    pub futexes: bool,
    /// Size of the kernel's buffer for each CPU in MiB
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub buffer: u32,
    /// The command to run: it and all that it starts are the load
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["pid", "all"])]
    pub command: Vec<OsString>,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Trial {
    #[command(subcommand)]
    pub action: Option<TrialAction>,
    /// A scheduler to compare with the kernel's own: one of Equipoise's policies (`policy list`), with or without
    /// settings, or a sched_ext loader with its options, such as 'scx_bpfland -s 5000'; `eevdf` is the kernel's own
    /// [default: the installed ones]
    #[arg(long = "scheduler", value_name = "NAME|COMMAND")]
    pub schedulers: Vec<String>,
    /// Number of blocks, in each of which every scheduler has a turn [default: 10, or 100 with --until-decided]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: Option<u32>,
    /// End as soon as the verdict on every scheduler is decided, after --rounds blocks at the latest. The chance of a
    /// wrong statement stays below 5 %
    #[arg(long)]
    pub until_decided: bool,
    /// Run no command, but watch this computer's own activity for this time in each turn, such as 20s
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with_all = ["command", "load"])]
    pub watch: Option<Duration>,
    /// Play this rt-app file with rt-app instead of running a command
    #[arg(long = "workload", value_name = "FILE", conflicts_with = "command")]
    pub load: Option<PathBuf>,
    /// Read frame times from this log of MangoHud, or from the newest log in this folder
    #[arg(long, value_name = "FILE|DIR")]
    pub frames: Option<PathBuf>,
    /// Record the kernel's scheduling events, for latencies and periods: every turn completely, nothing, or (auto) as
    /// much of every turn as costs at most 1 % of the load's CPU time
    #[arg(long, value_enum, default_value = "auto")]
    pub record: RecordTurns,
    /// Simulate the recorded load under the same schedulers, on this machine with its measured costs, and show the
    /// predictions beside the measurements
    #[arg(long)]
    pub predict: bool,
    /// After the trial, simulate the recorded load under `equipoise` with one changed setting at a time, of those that a
    /// loaded scheduler can change, and measure the best setting beside the defaults in the same number of blocks
    #[arg(long)]
    pub tune: bool,
    /// Write the trial to FILE, to keep or to send: all samples, the machine, its kernel's configuration, the
    /// recorded load and the page. The command line and the names of threads are replaced
    #[arg(long, value_name = "FILE.tar.zst")]
    pub bundle: Option<PathBuf>,
    /// Keep the command line and the names of threads in the bundle
    #[arg(long, requires = "bundle")]
    pub names: bool,
    /// Timeout for loading a scheduler in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = limit)]
    pub load_limit: Duration,
    /// The seed of the order in the blocks [default: from the clock]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Judge by this goal
    #[arg(long, value_enum)]
    pub goal: Option<Goal>,
    /// Show all measures, not only the deciding ones
    #[arg(long)]
    pub all: bool,
    /// The command to run in each turn; it has to run until its work is done
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["watch", "load"])]
    pub command: Vec<OsString>,
}

#[derive(Subcommand)]
pub enum TrialAction {
    /// Show bundles of trials: one as the trial showed it, several as one table
    Show {
        /// The bundles
        #[arg(required = true, value_name = "FILE.tar.zst")]
        files: Vec<PathBuf>,
        /// Judge by this goal
        #[arg(long, value_enum)]
        goal: Option<Goal>,
        /// Show all measures, not only the deciding ones
        #[arg(long)]
        all: bool,
    },
}

/// The turns that are recorded.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RecordTurns {
    /// As much of every turn as costs at most 1 % of the load's CPU time
    Auto,
    /// Every turn completely
    Always,
    /// Nothing
    Never,
}

impl From<RecordTurns> for trial::linux::Record {
    fn from(record: RecordTurns) -> trial::linux::Record {
        match record {
            RecordTurns::Auto => trial::linux::Record::Auto,
            RecordTurns::Always => trial::linux::Record::Always,
            RecordTurns::Never => trial::linux::Record::Never,
        }
    }
}

#[derive(Args)]
pub struct Import {
    /// A trace.dat of `equipoise record` or trace-cmd, a trace of Perfetto, or the text of ftrace, `trace-cmd report`,
    /// or `perf script` after `perf sched record`. It needs the events sched_switch and sched_waking (or sched_wakeup),
    /// and, if tasks start, sched_wakeup_new and sched_process_fork
    pub trace: PathBuf,
    /// The machine that the trace was recorded on, by name or file: computing time is scaled from
    /// it to other machines
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// Set the period of the threads called THREAD, such as `ui=16.67ms`, or `ui=none` if they have
    /// no deadlines [default: what their wakeups show; see `workload show`]
    #[arg(long = "period", value_name = "THREAD=TIME|none", value_parser = period)]
    pub periods: Vec<trace::import::Set>,
}

#[derive(Subcommand)]
pub enum Catalog {
    /// List the names, each with a one-line description
    List,
    /// Show everything about NAME
    Show {
        /// A name, or the path of a file
        name: String,
        /// Print the file itself, so that you can change a copy
        #[arg(long)]
        source: bool,
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
