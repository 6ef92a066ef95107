//! `equipoise completions` and `equipoise man`, made from the description of the command line.

use crate::cli::{Cli, Output};
use crate::error::Error;
use crate::output::{self, Staged};
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::{self, Write};

const NAME: &str = "equipoise";

/// Prints the completions for `shell` to standard output.
pub fn completions(shell: Shell) -> Result<(), Error> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

/// Prints the manual page of the command to standard output, or writes it and the pages of all
/// subcommands to the output folder.
pub fn pages(output: &Output) -> Result<(), Error> {
    let mut command = Cli::command().name(NAME);
    command.build();
    let Some(folder) = &output.out else {
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = page(&command, &mut text);
        return output::print(&String::from_utf8_lossy(&text));
    };
    std::fs::create_dir_all(folder).map_err(|error| Error::write(folder, &error))?;
    let mut staged = Staged::default();
    let subcommands = command
        .get_subcommands()
        .filter(|one| one.get_name() != "help");
    for command in std::iter::once(&command).chain(subcommands) {
        // `equipoise-compare`, as build() has named it.
        let name = command.get_display_name().unwrap_or(NAME);
        let path = folder.join(format!("{name}.1"));
        staged.add(&path, |mut out| {
            page(command, &mut out).map_err(|error| Error::write(&path, &error))
        })?;
    }
    staged.commit()
}

fn page(command: &clap::Command, out: &mut impl Write) -> io::Result<()> {
    clap_mangen::Man::new(command.clone()).render(out)
}
