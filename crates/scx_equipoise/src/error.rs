//! Errors, their messages and the exit status.

use machine::input::BadInput;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

/// The reason why a command failed.
#[derive(Debug)]
pub enum Error {
    /// A policy or machine file is wrong: status 2.
    Input(Box<BadInput>),
    /// A setting that a running loader refuses: status 2.
    Request(String),
    /// Anything else, such as a scheduler that cannot be loaded or failed: status 1.
    Run(anyhow::Error),
}

impl Error {
    pub fn report(self) -> ExitCode {
        match self {
            Error::Input(bad) => {
                eprintln!("{}", bad.render(io::stderr().is_terminal()));
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
