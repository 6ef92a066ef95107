//! `equipoise completions` and `equipoise man`, made from the description of the command line.

use crate::cli::{Cli, Output};
use crate::error::Error;
use crate::output::{self, Staged};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use lab::{Experiment, Peer};
use machine::Machine;
use policy::Policy;
use std::io::{self, Write};

const NAME: &str = "equipoise";

/// Prints the completions for `shell` to standard output: options, and the names of machines, loads, policies
/// and experiments. If no name fits, bash completes files.
pub fn completions(shell: Shell) -> Result<(), Error> {
    let mut text = Vec::new();
    let mut command = with_names(Cli::command(), &[]);
    clap_complete::generate(shell, &mut command, NAME, &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

/// `command`, where the arguments that are names accept only the built-in ones; `shown` are the names that `show`
/// accepts.
fn with_names(command: Command, shown: &[&'static str]) -> Command {
    let machines: Vec<&'static str> = Machine::names().collect();
    let loads: Vec<&'static str> = models::builtin().map(|(name, _)| name).collect();
    let policies: Vec<&'static str> = Policy::names().collect();
    let experiments: Vec<&'static str> = Experiment::names().collect();
    let schedulers: Vec<&'static str> = Peer::names().collect();
    let shown = match command.get_name() {
        "machine" => &machines,
        "workload" => &loads,
        "policy" => &policies,
        _ => shown,
    };
    let named = |arg: Arg| {
        let names: &[&'static str] = match arg.get_id().as_str() {
            "machine" | "machines" => &machines,
            "workload" => &loads,
            "policy" | "policies" | "against" | "diff" => &policies,
            "experiments" => &experiments,
            "schedulers" => &schedulers,
            "name" if arg.is_positional() => shown,
            _ => return arg,
        };
        arg.value_parser(PossibleValuesParser::new(names))
    };
    command
        .mut_args(named)
        .mut_subcommands(|command| with_names(command, shown))
}

/// Prints the manual page of the command to standard output, or writes it and the pages of all
/// subcommands to the output folder.
pub fn pages(output: &Output) -> Result<(), Error> {
    let mut command = Cli::command().name(NAME).disable_help_subcommand(true);
    // Help for a subcommand has no page to refer to.
    command = command.mut_subcommands(|one| one.disable_help_subcommand(true));
    command.build();
    let Some(folder) = &output.out else {
        let mut text = Vec::new();
        let _ = page(&command, &mut text);
        return output::print(&String::from_utf8_lossy(&text));
    };
    std::fs::create_dir_all(folder).map_err(|error| Error::write(folder, &error))?;
    let mut staged = Staged::default();
    for command in all(&command) {
        // The name is `equipoise-machine-show`, as build() has set it.
        let name = command.get_display_name().unwrap_or(NAME);
        let path = folder.join(format!("{name}.1"));
        staged.add(&path, |mut out| {
            page(command, &mut out).map_err(|error| Error::write(&path, &error))
        })?;
    }
    staged.commit()
}

fn all(command: &Command) -> Vec<&Command> {
    let subcommands = command
        .get_subcommands()
        .filter(|one| one.get_name() != "help");
    std::iter::once(command)
        .chain(subcommands.flat_map(all))
        .collect()
}

fn page(command: &Command, out: &mut impl Write) -> io::Result<()> {
    let mut page = Vec::new();
    let source = format!("{NAME} {}", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command.clone())
        .source(source)
        .manual("Equipoise")
        .render(&mut page)?;
    // In every command, the text after the options begins with examples.
    let page = String::from_utf8_lossy(&page).replace(".SH EXTRA\n", ".SH EXAMPLES\n");
    out.write_all(page.as_bytes())
}
