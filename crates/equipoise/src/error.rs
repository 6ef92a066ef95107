//! What can go wrong, how it is said, and the exit status.

use crate::interrupt;
use machine::input::BadInput;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

/// The exit status after a scheduler in C has failed.
const FOREIGN: u8 = 3;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub enum Error {
    /// The command line or a file is wrong: status 2.
    Input(Box<BadInput>),
    /// A simulation failed: status 1, or 3 if the scheduler was in C, whose failure it is.
    Run(Box<lab::Failure>),
    /// The results cannot be written: status 1.
    Write(String),
    /// It was asked to stop, and has shown what there was: status 130.
    Stopped,
    /// A command that was recorded failed so: its status.
    Command(i32),
    /// The kernel lacks what would keep somebody else's scheduler from harm, so it is not run: status 2.
    Cage(String),
}

impl Error {
    /// For `path`, which cannot be written.
    pub fn write(path: &Path, error: &io::Error) -> Error {
        Error::Write(format!("{}: {error}", path.display()))
    }

    /// Says it on standard error.
    pub fn report(self) -> ExitCode {
        match self {
            Error::Input(bad) => {
                eprintln!("{}", bad.render(io::stderr().is_terminal()));
                ExitCode::from(2)
            }
            Error::Run(failure) => {
                match failure.error {
                    // It names the scheduler, and which run it was means nothing.
                    simulator::Error::Fault(ref message) => eprintln!("error: {message}"),
                    _ => eprintln!("error: {failure}"),
                }
                match failure.foreign {
                    true => ExitCode::from(FOREIGN),
                    false => ExitCode::FAILURE,
                }
            }
            Error::Write(message) => {
                eprintln!("error: {message}");
                ExitCode::FAILURE
            }
            Error::Stopped => ExitCode::from(interrupt::STATUS),
            Error::Command(status) => {
                eprintln!("warning: the command ended with status {status}");
                ExitCode::from(u8::try_from(status).unwrap_or(1))
            }
            Error::Cage(lacking) => {
                eprintln!(
                    "error: this kernel lacks {lacking}, which keeps a scheduler in C from what is yours; expected \
                     Linux 5.13 or later with both enabled. To run it all the same: --uncaged"
                );
                ExitCode::from(2)
            }
        }
    }
}

impl From<Box<BadInput>> for Error {
    fn from(bad: Box<BadInput>) -> Error {
        Error::Input(bad)
    }
}

impl From<Box<lab::Failure>> for Error {
    fn from(failure: Box<lab::Failure>) -> Error {
        match failure.error {
            simulator::Error::Stopped => Error::Stopped,
            _ => Error::Run(failure),
        }
    }
}
