//! Errors, their messages and the exit status.

use crate::interrupt;
use machine::input::BadInput;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

/// Prints a line on standard error, as `eprintln!` does, but escapes control sequences, because the line may have
/// names from outside.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {
        $crate::error::say_styled(&cage::text::lines(&format!($($words)*)))
    };
}

/// Prints a line on standard error that may have colours. Text from outside must have been escaped before. The exit
/// status also reports an error, so a command goes on if the line cannot be written.
pub fn say_styled(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

const FOREIGN: u8 = 3;

const MISSED: u8 = 4;

#[derive(Debug)]
pub enum Error {
    /// The command line or a file is wrong: status 2.
    Input(Box<BadInput>),
    /// A simulation failed: status 1, or 3 if a scheduler in C is at fault.
    Run(Box<lab::Failure>),
    /// The results cannot be written, or a recording, a measurement or a trial failed: status 1.
    Write(String),
    /// Sources cannot be fetched: status 1. The text has a line for each failure: one for all crates, and one for each
    /// kernel.
    Fetch(String),
    /// The command was asked to stop, and has shown the complete results: status 130.
    Stopped,
    /// The recorded command failed with this status.
    Command(i32),
    /// `validate` found missed bounds: status 4. The text is the message, unless the first line of the output has it.
    Missed(Option<String>),
    /// The kernel cannot isolate a foreign scheduler, so the scheduler does not run: status 2.
    Cage(String),
}

impl Error {
    pub fn write(path: &Path, error: &io::Error) -> Error {
        Error::Write(format!("{}: {error}", path.display()))
    }

    pub fn report(self) -> ExitCode {
        match self {
            Error::Input(bad) => {
                say_styled(&bad.render(io::stderr().is_terminal()));
                ExitCode::from(2)
            }
            Error::Run(failure) => {
                match failure.error {
                    // The message names the scheduler, and omits the number of the run, which means
                    // nothing to the user.
                    simulator::Error::Fault(ref message) => say!("error: {message}"),
                    _ => say!("error: {failure}"),
                }
                match failure.foreign {
                    true => ExitCode::from(FOREIGN),
                    false => ExitCode::FAILURE,
                }
            }
            Error::Write(message) => {
                say!("error: {message}");
                ExitCode::FAILURE
            }
            Error::Fetch(messages) => {
                for message in messages.lines() {
                    say!("error: {message}");
                }
                ExitCode::FAILURE
            }
            Error::Stopped => ExitCode::from(interrupt::STATUS),
            Error::Command(status) => {
                say!("warning: the command ended with status {status}");
                ExitCode::from(u8::try_from(status).unwrap_or(1))
            }
            Error::Missed(message) => {
                if let Some(message) = message {
                    say!("{message}");
                }
                ExitCode::from(MISSED)
            }
            Error::Cage(lacking) => {
                say!(
                    "error: this kernel lacks {lacking}, which protects your files from a scheduler in C; \
                     expected Linux 5.13 or later with Landlock and seccomp enabled. --uncaged runs the \
                     scheduler anyway"
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
