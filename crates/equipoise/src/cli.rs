//! The command line.

mod options;
mod values;

pub use options::Build;
pub use options::{
    Calibrate, Catalog, Compare, Detect, Explain, Hunt, Import, MachineAction, Record, Reproduce,
    SchedulerAction, Top, Trial, TrialAction, Validate, WorkloadAction,
};
pub use values::{Files, Setting};

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Which CPU scheduler suits this machine and this load?
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
  # Run a published experiment
  equipoise reproduce mixed-capacity

  # Compare two policies under a benchmark on a simulated board
  equipoise compare -m tc2 -w hackbench -p cfs -p capacity

  # Compare your scheduler with another one on your machine under your load
  equipoise compare -m my-board.toml -w my-rt-app.json \\
      -p eevdf --scheduler my.bpf.c

  # Write the events of a run, for Perfetto
  equipoise compare -m tc2 -w mixed -p capacity --runs 1 \\
      --trace t.perfetto-trace

  # Describe a machine
  equipoise machine show tc2

The file name - is standard input, once. Ctrl-C shows the results so far.

Exit status:
  0    success
  1    any other failure, such as that of a simulation
  2    the command line or a file is wrong
  3    a scheduler in C failed
  4    `validate` found that the simulation misses a bound
  130  stopped"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub output: Output,
}

/// The commands to try first.
pub const FIRST_STEPS: &str = "\
equipoise: finds the CPU scheduler that suits your machine and your load, and tells you why

Try one of these; each takes seconds.

  equipoise compare --machine rk3588 --workload game
      a game on a board with four fast and four slow cores: the best policy for each goal, and its price

  equipoise explain --machine rk3588 --workload game --policy eevdf
      why frames are late there under Linux's own scheduler

  equipoise machine list        equipoise workload list        equipoise policy list
      list the built-in machines, loads and policies; `show NAME` prints one, and the path of your own
      file can replace a name

  equipoise help compare
      all options, with examples
";

#[derive(Subcommand)]
pub enum Command {
    /// Run published experiments, and print the published tables next to the simulated ones
    #[command(after_help = "\
Examples:
  # Run all tables, which takes hours
  equipoise reproduce

  # Run some rows of one table
  equipoise reproduce mixed-capacity --rows 'sysbench_*'

  # Run a tenth of PARSEC's work, for a spreadsheet
  equipoise reproduce hperf-hmp --scale 10 --format csv")]
    Reproduce(Reproduce),
    /// Compare schedulers for a workload on a machine: show which is best for each goal, and by how much
    #[command(after_help = "\
Examples:
  # Compare today's Linux and our policies
  equipoise compare -m tc2 -w mixed

  # Add the published designs
  equipoise compare -m tc2 -w mixed --all-policies

  # Judge by latency alone, over more runs
  equipoise compare -m tc2 -w mixed --goal latency --runs 50

  # Compare two policies on your machine under your load
  equipoise compare -m my-board.toml -w my-rt-app.json -p eevdf -p capacity

  # Show all measures
  equipoise compare -m tc2 -w hackbench --all

  # Write each run, for R or pandas
  equipoise compare -m tc2 -w hackbench --format csv

  # Run two loads at once under a changed policy
  equipoise compare -m smp-8 -w busy+audio -p capacity:misfit=false

  # Compile a scheduler in C, and set one of its variables
  equipoise compare -m smp-8 -w mixed --scheduler scx_simple.bpf.c \\
      --set simple:fifo_sched=true

  # Read the load from standard input
  generate-load | equipoise compare -m tc2 -w - -p eevdf")]
    Compare(Compare),
    /// Judge a simulation by traces of a real machine: each figure passes or fails by its bound
    ///
    /// The load of the first trace is simulated under the scheduler of each trace. The exit status is 4 if
    /// a bound is missed.
    #[command(after_help = "\
Examples:
  # Judge the simulation of a load that was recorded under Linux's scheduler
  equipoise validate -m mine.toml before.dat

  # Judge it for another scheduler, too
  equipoise validate -m mine.toml eevdf=before.dat equipoise=after.dat

  # Judge it for a scheduler in C
  equipoise validate -m mine.toml before.dat scx_simple.bpf.c=simple.dat")]
    Validate(Validate),
    /// Explain why threads wait for a CPU or run slowly: the scheduler's decisions, and the numbers
    /// behind them
    #[command(after_help = "\
Examples:
  # Explain the longest waits
  equipoise explain -m tc2 -w mixed -p eevdf

  # Explain the five longest waits of a thread
  equipoise explain -m tc2 -w mixed --task ui --worst 5

  # Explain why it waited at a certain time
  equipoise explain -m tc2 -w mixed --task ui --at 1.204s

  # Show the same period under two policies
  equipoise explain -m tc2 -w mixed -p eevdf --diff equipoise

  # Explain the waits under a scheduler in C
  equipoise explain -m tc2 -w mixed --scheduler scx_simple.bpf.c

  # Write the explanation for a program
  equipoise explain -m my-board.toml -w my-rt-app.json --json

The run is the first one of `compare` with the same seed. For a picture of all
decisions: compare --trace t.perfetto-trace")]
    Explain(Explain),
    /// Search for the load on which a policy does worst compared with another, and write it as an
    /// rt-app file
    #[command(after_help = "\
Examples:
  # Search for the load on which cfs takes longest, compared with capacity
  equipoise hunt -m tc2 -p cfs --against capacity --by time

  # Search on two machines for a minute for the longest wait
  equipoise hunt -m tc2 -m smp-8 --by wait --seconds 60

  # Search for the load on which a scheduler in C is least fair
  equipoise hunt -m smp-8 --scheduler my.bpf.c --by share

  # Measure a load instead of searching
  equipoise hunt -m tc2 --by share --load hunt-tc2-share.json

Ctrl-C writes the worst load so far.")]
    Hunt(Hunt),
    /// Record the scheduling of this computer's kernel, as a trace or a workload
    #[command(after_help = "\
Examples:
  # Record a command in trace.dat, as trace-cmd does
  sudo equipoise record -- make -j4

  # Record a command as a workload
  sudo equipoise record --output build.json -- make -j4

  # Record a process for ten seconds
  sudo equipoise record --pid 4711 --seconds 10

  # Record all processes
  sudo equipoise record --all --seconds 5 --output all.dat

Recording requires root or a writable tracefs, where it makes an instance of
its own. Ctrl-C ends it and writes the recording.")]
    Record(Record),
    /// Run a command under this kernel's own scheduler and sched_ext schedulers in turn, and show which is best
    #[command(after_help = "\
Examples:
  # Compare the installed schedulers for a build
  sudo equipoise trial -- sh -c 'make clean && make -j8'

  # Compare two of them, over more blocks
  sudo equipoise trial --scheduler equipoise \\
      --scheduler 'scx_bpfland -s 5000' --rounds 20 -- ./benchmark

  # Measure until the comparison is decided
  sudo equipoise trial --scheduler equipoise --until-decided -- ./benchmark

  # Watch a running game, 20 s under each scheduler in turn
  sudo equipoise trial --watch 20s --frames ~/mangohud

  # Show the simulator's predictions beside the measurements, and keep both
  sudo equipoise trial --predict --bundle build.tar.zst \\
      -- sh -c 'make clean && make -j8'

  # Show trials of several machines
  equipoise trial show *.tar.zst

  # See how much results vary by chance: the same scheduler twice
  sudo equipoise trial --scheduler eevdf --scheduler eevdf -- ./benchmark

However a trial ends, even by SIGKILL, the kernel's own scheduler runs
afterwards. Ctrl-C shows the results of the complete blocks.")]
    Trial(Trial),
    /// List, show and check the machines that can be simulated, and describe this computer
    #[command(after_help = "\
Examples:
  # List the machines
  equipoise machine list

  # Describe one of them
  equipoise machine show tc2

  # Check a machine file
  equipoise machine check my-board.toml

  # Describe this computer from its kernel's files
  equipoise machine detect --name mine > mine.toml

  # Measure its costs, too
  equipoise machine calibrate > mine.toml")]
    Machine {
        #[command(subcommand)]
        action: MachineAction,
    },
    /// List, show, check and import workloads: benchmark models, rt-app files and recorded loads
    #[command(after_help = "\
Examples:
  # List the workloads
  equipoise workload list

  # Show the parameters and metrics of one
  equipoise workload show hackbench

  # Check an rt-app file
  equipoise workload check my-rt-app.json

  # Make a load from a trace
  equipoise workload import --machine mine.toml trace.txt > recorded.json")]
    Workload {
        #[command(subcommand)]
        action: WorkloadAction,
    },
    /// List, show and check policies: today's Linux, our own, and published designs
    #[command(after_help = "\
Examples:
  # List the policies
  equipoise policy list

  # Show the settings of one, and their meaning
  equipoise policy show capacity

  # Check a policy file
  equipoise policy check my-policy.toml")]
    Policy {
        #[command(subcommand)]
        action: Catalog,
    },
    /// List and fetch the published sched_ext schedulers, whose sources are not part of Equipoise
    #[command(after_help = "\
Examples:
  # List them
  equipoise scheduler list

  # Download the sources of one
  equipoise scheduler fetch scx_lavd

  # Compare it with Linux's own scheduler
  equipoise compare -m smp-8 -w mixed -p eevdf --scheduler scx_lavd

Sources go to ~/.cache/equipoise/schedulers, or to the folder that the variable
EQUIPOISE_SCHEDULERS names.")]
    Scheduler {
        #[command(subcommand)]
        action: SchedulerAction,
    },
    /// Show the activity of this computer's CPUs, threads and scheduler
    #[command(after_help = "\
Examples:
  # Watch this computer
  equipoise top

  # Measure one interval, for a script
  equipoise top --once --json

While scx_equipoise runs, root and other users with access to its statistics
see the scheduler's activity, costs and energy. For another sched_ext
scheduler, all users see the events that Linux counts from 6.15 on.
? shows the keys.")]
    Top(Top),
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  # Complete options and names in bash
  equipoise completions bash \\
      > ~/.local/share/bash-completion/completions/equipoise

  # Complete them in fish
  equipoise completions fish > ~/.config/fish/completions/equipoise.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write the pages of all subcommands with --out
    #[command(after_help = "\
Examples:
  # Read the manual page
  equipoise man | man -l -

  # Write the pages of all subcommands
  equipoise man --out ~/.local/share/man/man1")]
    Man,
}

/// The options that every command takes.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// Format of the results
    #[arg(long, global = true, value_enum, default_value = "table")]
    pub format: Format,
    /// Short for `--format json`
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn examples_are_commands_with_a_comment_above() {
        let mut checked = 0;
        let root = Cli::command();
        let all = std::iter::once(&root).chain(root.get_subcommands());
        for command in all {
            let Some(help) = command.get_after_help() else {
                continue;
            };
            let help = help.to_string();
            let lines: Vec<&str> = help.lines().collect();
            assert!(lines.iter().all(|line| line.len() < 80), "{help}");
            for (nr, line) in lines.iter().enumerate() {
                if line.starts_with("  equipoise ") || line.starts_with("  sudo ") {
                    checked += 1;
                    assert!(lines[nr - 1].starts_with("  # "), "{line}");
                }
            }
        }
        assert!(checked > 40, "{checked}");
    }
}
