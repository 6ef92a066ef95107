//! `equipoise`: which CPU scheduler suits this machine and this load?
//!
//! `cli.rs` and `cli/` have the options, and most other files have one subcommand each. A subcommand finds the machine,
//! the workload and the schedulers, lets the crate `lab` or `trial` measure them, and passes the result to `output.rs`,
//! which writes files completely or not at all. `error.rs` prints the message of an error and has the exit status; bad
//! input ends the command before anything is written.
//!
//! ```text
//! equipoise compare --machine rk3588 --workload game --policy eevdf --policy equipoise
//! ```

// Text from outside reaches a terminal only through `say!`, which escapes control sequences, and through `output`, which
// checks in debug builds that they have been escaped.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod catalog;
mod cli;
mod compare;
mod detect;
mod error;
mod explain;
mod figures;
mod foreign;
mod hunt;
mod import;
mod interrupt;
mod manual;
mod output;
mod progress;
mod record;
mod reproduce;
mod stdout;
mod subject;
mod top;
mod trial;
mod validate;

use clap::Parser;
use cli::{Cli, Command, FIRST_STEPS, MachineAction, WorkloadAction};
use error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;

fn main() -> ExitCode {
    if foreign::is_worker() {
        return ExitCode::from(lab::work());
    }
    if ::trial::guard::is_guard() {
        return ::trial::guard::main();
    }
    let Cli {
        command,
        mut output,
    } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => error.exit(),
        // clap's own exit() ignores that help could not be written.
        Err(help) => {
            return finished(output::written(
                help.print().and_then(|()| io::stdout().flush()),
            ));
        }
    };
    if output.json {
        output.format = cli::Format::Json;
    }
    let Some(command) = command else {
        return finished(output::print(FIRST_STEPS));
    };
    // The standard output of `record` is that of the recorded command.
    if !matches!(command, Command::Record(_))
        && let Err(error) = output::check_place(&output)
    {
        return error.report();
    }
    let result = match command {
        Command::Reproduce(args) => reproduce::run(args, &output),
        Command::Compare(args) => compare::run(args, &output),
        Command::Explain(args) => explain::run(args, &output),
        Command::Validate(args) => validate::run(&args, &output),
        Command::Hunt(args) => hunt::run(args, &output),
        Command::Record(args) => record::run(&args),
        Command::Trial(args) => trial::run(args, &output),
        Command::Machine { action } => match action {
            MachineAction::Catalog(action) => catalog::machine(action, &output),
            MachineAction::Detect(args) => detect::run(args, &output),
            MachineAction::Calibrate(args) => detect::calibrate(&args, &output),
        },
        Command::Workload { action } => match action {
            WorkloadAction::Catalog(action) => catalog::workload(action, &output),
            WorkloadAction::Import(args) => import::run(args, &output),
        },
        Command::Policy { action } => catalog::policy(action, &output),
        Command::Scheduler { action } => catalog::scheduler(action, &output),
        Command::Top(args) => top::run(args, &output),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man => manual::pages(&output),
    };
    finished(result)
}

fn finished(result: Result<(), Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}
