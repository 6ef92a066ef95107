//! What a worker and whoever asks it say to each other: a length of four bytes, and a value in postcard's format, of which
//! nothing is ever run.

use machine::Machine;
use machine::input::{self, BadInput};
use native::{Global, Object, one_line};
use serde::{Deserialize, Serialize};
use simulator::{Error, Outcome};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use workload::Workload;

/// What a machine and a workload are made of, so that another process can make the same.
#[derive(Clone, Serialize, Deserialize)]
pub struct Recipe {
    /// The machine.
    pub machine: Described,
    /// The workload.
    pub workload: Described,
    /// The NUMA nodes that the workload is kept to, if any.
    pub nodes: Option<String>,
}

/// A machine or a workload.
#[derive(Clone, Serialize, Deserialize)]
pub enum Described {
    /// By its name or path, as the command line has it.
    Named(String),
    /// By a text.
    Text {
        /// What it is called.
        name: String,
        /// What messages call the text.
        file: String,
        /// The text.
        text: String,
        /// A workload's parameters.
        params: Option<String>,
    },
}

impl Recipe {
    /// The files among what was read so far that names in it are of.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = input::kept();
        files.retain(|(path, _)| {
            [&self.machine, &self.workload]
                .iter()
                .any(|described| match described {
                    Described::Named(name) => name.contains(&*path.to_string_lossy()),
                    Described::Text { .. } => false,
                })
        });
        files
    }

    /// The machine and the workload.
    pub fn make(&self) -> Result<(Machine, Box<dyn Workload>), Box<BadInput>> {
        let machine = match &self.machine {
            Described::Named(name) => Machine::find(name)?,
            Described::Text { file, text, .. } => Machine::parse(file, text)?,
        };
        let mut load = match &self.workload {
            Described::Named(name) => workload::load(name)?,
            Described::Text {
                name,
                file,
                text,
                params,
            } => workload::parse(name, file, text, params.as_deref())?,
        };
        if let Some(nodes) = &self.nodes {
            load = workload::bind(load, nodes);
        }
        Ok((machine, load))
    }
}

/// What a worker is for.
#[derive(Serialize, Deserialize)]
pub struct Job {
    pub recipe: Recipe,
    /// Files that were read to make what the recipe describes, as they were then.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    pub scheduler: String,
    pub image: Vec<u8>,
    pub globals: Vec<(String, Vec<u8>)>,
    pub uncaged: bool,
}

impl Job {
    pub fn new(recipe: &Recipe, scheduler: &str, object: &Object, globals: &[Global]) -> Job {
        let globals = globals
            .iter()
            .map(|global| (global.symbol.clone(), global.bytes.clone()));
        Job {
            recipe: recipe.clone(),
            files: recipe.files(),
            scheduler: scheduler.to_owned(),
            image: object.bytes().to_owned(),
            globals: globals.collect(),
            uncaged: native::is_uncaged(),
        }
    }
}

/// Which run.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Request {
    pub run: u32,
    pub count: u32,
    pub seed: u64,
    /// Are its events to be told?
    pub traced: bool,
}

/// What comes of a run: events, and how it ended.
#[derive(Serialize, Deserialize)]
pub enum Reply<'a> {
    /// Time, CPU and event each, one after another.
    Events(&'a [u8]),
    Done(Box<Outcome>),
    Failed(Failed),
}

/// A [`simulator::Error`].
#[derive(Serialize, Deserialize)]
pub enum Failed {
    SchedulerExit {
        at_ns: u64,
        reason: String,
        message: String,
    },
    Deadlock {
        at_ns: u64,
        waiting: String,
    },
    Task {
        task: String,
        at_ns: u64,
        message: String,
    },
    TimeLimit {
        limit_ns: u64,
    },
    Invariant {
        at_ns: u64,
        message: String,
    },
    Other(String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        match error {
            Error::SchedulerExit {
                at_ns,
                reason,
                message,
            } => Failed::SchedulerExit {
                at_ns,
                reason,
                message,
            },
            Error::Deadlock { at_ns, waiting } => Failed::Deadlock { at_ns, waiting },
            Error::Task {
                task,
                at_ns,
                message,
            } => Failed::Task {
                task,
                at_ns,
                message,
            },
            Error::TimeLimit { limit_ns } => Failed::TimeLimit { limit_ns },
            Error::Invariant { at_ns, message } => Failed::Invariant { at_ns, message },
            other @ (Error::Stopped | Error::Fault(_) | Error::Object(_)) => {
                Failed::Other(other.to_string())
            }
        }
    }
}

impl From<Failed> for Error {
    /// Of texts what can be shown.
    fn from(failed: Failed) -> Error {
        match failed {
            Failed::SchedulerExit {
                at_ns,
                reason,
                message,
            } => Error::SchedulerExit {
                at_ns,
                reason: shown(&reason),
                message: shown(&message),
            },
            Failed::Deadlock { at_ns, waiting } => Error::Deadlock {
                at_ns,
                waiting: shown(&waiting),
            },
            Failed::Task {
                task,
                at_ns,
                message,
            } => Error::Task {
                task: shown(&task),
                at_ns,
                message: shown(&message),
            },
            Failed::TimeLimit { limit_ns } => Error::TimeLimit { limit_ns },
            Failed::Invariant { at_ns, message } => Error::Invariant {
                at_ns,
                message: shown(&message),
            },
            Failed::Other(message) => Error::Object(native::Error(shown(&message))),
        }
    }
}

/// The longest text that is shown, characters: `SCX_EXIT_MSG_LEN`.
const LONGEST_SHOWN: usize = 1024;

fn shown(text: &str) -> String {
    one_line(text).chars().take(LONGEST_SHOWN).collect()
}

/// `value` as a message.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("memory takes whatever is written to it")
}

/// The value that `message` is, if it is one and no more.
pub fn decode<'a, T: Deserialize<'a>>(message: &'a [u8]) -> Option<T> {
    match postcard::take_from_bytes(message) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

/// Sends `message` with its length.
pub fn send(to: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(message)
}

/// The next message; `None` at the end.
pub fn receive(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let mut message = vec![0; u32::from_le_bytes(length) as usize];
    from.read_exact(&mut message)?;
    Ok(Some(message))
}
