//! Errors, their messages and the exit status.

use machine::input::BadInput;
use miette::{MietteHandlerOpts, Report};
use std::io::{self, IsTerminal};
use std::process::ExitCode;

/// The reason why the scheduler is not, or no longer, loaded.
#[derive(Debug)]
pub enum Error {
    /// A policy or machine file is wrong: status 2.
    Input(Box<BadInput>),
    /// A setting that a running loader refuses: status 2.
    Request(String),
    /// Loading failed, or the scheduler failed: status 1.
    Run(anyhow::Error),
}

impl Error {
    /// Prints the message on standard error.
    pub fn report(self) -> ExitCode {
        match self {
            Error::Input(bad) => {
                // Lines are broken for a terminal only; a program looks for the whole message.
                let wrap = io::stderr().is_terminal();
                // This fails only if a hook is set already, and none is set before this.
                let _ = miette::set_hook(Box::new(move |_| {
                    Box::new(MietteHandlerOpts::new().wrap_lines(wrap).build())
                }));
                eprintln!("{:?}", Report::new(*bad));
                ExitCode::from(2)
            }
            Error::Request(message) => {
                eprintln!("error: {message}");
                ExitCode::from(2)
            }
            Error::Run(error) => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
        }
    }
}

impl From<Box<BadInput>> for Error {
    fn from(bad: Box<BadInput>) -> Error {
        Error::Input(bad)
    }
}

impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Error {
        Error::Run(error)
    }
}
