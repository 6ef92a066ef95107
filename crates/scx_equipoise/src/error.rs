//! What can go wrong, how it is said, and the exit status.

use machine::input::BadInput;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

/// Why the scheduler is not, or no longer, loaded.
#[derive(Debug)]
pub enum Error {
    /// A policy or machine file is wrong: status 2.
    Input(Box<BadInput>),
    /// A setting that a running loader does not take: status 2.
    Request(String),
    /// It cannot be loaded, or it failed: status 1.
    Run(anyhow::Error),
}

impl Error {
    /// Says it on standard error.
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
