//! The command line, with the options that sched_ext's schedulers have in common.

use crate::group;
use crate::server::Access;
use clap::{Parser, Subcommand, ValueEnum};
use machine::LONGEST_COSTS_S;
use policy::Policy;
use rustix::process::Gid;
use scx_utils::libbpf_clap_opts::LibbpfOpts;

/// scx_equipoise: CPU schedulers for machines whose CPUs differ in speed or are often idle.
///
/// Loads a sched_ext scheduler: `equipoise`, or Linux's fair class with the published designs. The
/// simulator `equipoise` runs the same schedulers unchanged. The machine is read from sysfs:
/// capacities, hardware threads, caches, clusters and NUMA nodes.
///
/// The scheduler is loaded as long as this program runs. SIGINT and SIGTERM end the program, and
/// Linux's own scheduler takes over, as it does if the program is killed. When a CPU goes offline
/// or comes online, or `set` changes a setting that requires it, the scheduler is loaded again.
#[derive(Debug, Parser)]
#[command(
    name = "scx_equipoise",
    max_term_width = 100,
    version,
    disable_version_flag = true,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "\
Exit status: 0 when stopped on request, 1 when the scheduler cannot be loaded or failed, 2 when \
the command line or a file is wrong."
)]
pub struct Opts {
    #[arg(short, long, default_value = "equipoise", help = policy_help())]
    pub policy: String,

    /// Take topology and capacities from a machine file (or the name of a machine that comes with
    /// Equipoise) instead of sysfs; the file must describe as many CPUs as this machine has
    #[arg(short, long)]
    pub machine: Option<String>,

    /// Prefer speed or low power, under `equipoise`; auto follows the platform profile, which
    /// power-profiles-daemon sets
    #[arg(long, value_enum)]
    pub prefer: Option<Prefer>,

    /// Exit debug dump buffer length; 0 is the kernel's default
    #[arg(long, default_value_t = 0)]
    pub exit_dump_len: u32,

    /// Enable stats monitoring with the specified interval, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    pub stats: Option<f64>,

    /// Run in stats monitoring mode with the specified interval, in seconds. No scheduler is loaded
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    pub monitor: Option<f64>,

    /// Load no scheduler, but measure the costs of the callbacks of the sched_ext scheduler that is already loaded, of
    /// whatever project, for this many seconds (10 by default) or until SIGINT, and print them as a section of a
    /// machine file
    #[arg(long, value_name = "SECONDS", value_parser = interval, num_args = 0..=1, default_missing_value = "10")]
    pub costs: Option<f64>,

    /// Also let the members of this group (a name or number) read statistics; without this option,
    /// only root may. Reading statistics makes the kernel measure all BPF programs
    #[arg(long, value_name = "GROUP", value_parser = group::find)]
    pub stats_group: Option<Gid>,

    /// Print each decision of the scheduler to standard output as it is made: task, CPU, reason and
    /// numbers. If there are too many decisions, some are lost, and a message counts them
    #[arg(long)]
    pub explain: bool,

    /// With --explain, print only decisions about this task, given by its name or pid
    #[arg(long, value_name = "NAME", requires = "explain")]
    pub task: Option<String>,

    /// Have the scheduler check its own invariants, and exit with an error if one does not hold
    #[arg(long)]
    pub check: bool,

    /// Enable verbose output, including libbpf details
    #[arg(short, long)]
    pub verbose: bool,

    /// Print scheduler version and exit
    #[arg(short = 'V', long)]
    pub version: bool,

    /// Show descriptions for statistics
    #[arg(long)]
    pub help_stats: bool,

    #[command(flatten, next_help_heading = "Libbpf Options")]
    pub libbpf: LibbpfOpts,

    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Opts {
    /// The users that may read statistics.
    pub fn stats_access(&self) -> Access {
        self.stats_group.map_or(Access::Root, Access::Group)
    }
}

/// The setting `prefer`, or its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Prefer {
    /// High speed
    Performance,
    /// A balance of speed and power
    Balanced,
    /// Low power
    Power,
    /// Follow the platform profile
    Auto,
}

impl Prefer {
    /// The setting's value; `None` for `Auto`.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Prefer::Performance => Some("performance"),
            Prefer::Balanced => Some("balanced"),
            Prefer::Power => Some("power"),
            Prefer::Auto => None,
        }
    }
}

/// Commands for a running scheduler, and descriptions of the command line.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the running scheduler's policy and settings, all or those named
    Get {
        /// Names of settings, or `policy`
        names: Vec<String>,
    },
    /// Change the running scheduler's settings, or its policy; returns when the change is in effect
    Set {
        /// Settings and their values, as in a policy file; `policy=NAME` switches the policy
        #[arg(required = true, value_name = "NAME=VALUE")]
        changes: Vec<String>,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

fn policy_help() -> String {
    let names = Policy::names().collect::<Vec<_>>().join(", ");
    format!("A policy's name ({names}), or the path of a policy file")
}

/// Parses a number of seconds, from a millisecond to a day.
fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=f64::from(LONGEST_COSTS_S)).contains(&seconds) => Ok(seconds),
        _ => Err(format!("expected seconds, 0.001 to {LONGEST_COSTS_S}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Opts::command().debug_assert();
    }

    /// `equipoise trial` measures costs until a turn ends, and therefore asks for the longest time.
    #[test]
    fn costs_are_measured_for_as_long_as_a_trial_asks() {
        let time = LONGEST_COSTS_S.to_string();
        let opts = Opts::try_parse_from(["scx_equipoise", "--costs", time.as_str()]).unwrap();
        assert_eq!(opts.costs, Some(f64::from(LONGEST_COSTS_S)));
    }

    #[test]
    fn intervals_are_positive_and_finite() {
        assert_eq!(interval("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "inf", "nan", "1e9", "x"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
