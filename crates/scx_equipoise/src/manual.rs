//! Completions and the manual page, made from the description of the command line.

use crate::NAME;
use crate::cli::Opts;
use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use std::io::{self, Write};

pub fn completions(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Opts::command(), NAME, &mut text);
    Ok(io::stdout().write_all(&text)?)
}

pub fn page() -> Result<()> {
    Ok(io::stdout().write_all(text()?.as_bytes())?)
}

/// The text of the manual page. A daemon for root belongs to section 8. The page must not refer to pages of
/// subcommands, which do not exist.
fn text() -> Result<String> {
    let command = Opts::command().about("loads Equipoise's schedulers into Linux");
    let mut page = Vec::new();
    Man::new(command.clone()).section("8").render(&mut page)?;
    let names = command.get_subcommands().map(clap::Command::get_name);
    Ok(names.fold(String::from_utf8(page)?, |page, name| {
        page.replace(&format!("{NAME}\\-{name}(8)"), &format!("{NAME} {name}"))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_of_section_8_and_describes_the_commands() {
        let text = text().unwrap();
        assert!(text.contains(".TH scx_equipoise 8"), "{text}");
        assert!(!text.contains("(8)"), "{text}");
        for command in Opts::command().get_subcommands() {
            let about = command.get_about().unwrap().to_string();
            let about = about.split(['\'', ';']).next().unwrap();
            assert!(text.contains(about), "{about} is not in {text}");
        }
    }
}
