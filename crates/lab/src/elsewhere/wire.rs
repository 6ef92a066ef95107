//! The messages between a worker and its client: each is a length of four bytes and a value in postcard's format, which
//! contains no code.

use cage::text::one_line;
use machine::Machine;
use machine::input::{self, BadInput};
use native::{Description, Global, Object};
use serde::{Deserialize, Serialize};
use simulator::{Error, Outcome};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use workload::Workload;

/// The descriptions of a machine and a workload, from which another process can build them.
#[derive(Clone, Serialize, Deserialize)]
pub struct Recipe {
    /// The machine.
    pub machine: Described,
    /// The workload.
    pub workload: Described,
    /// The NUMA nodes to which the workload is bound, if any.
    pub nodes: Option<String>,
}

/// A machine or a workload.
#[derive(Clone, Serialize, Deserialize)]
pub enum Described {
    /// A machine or workload that is given by its name or path, as on the command line.
    Named(String),
    /// A machine or workload that is given by a text.
    Text {
        /// The name of the machine or workload.
        name: String,
        /// The name of the text in messages.
        file: String,
        /// The text.
        text: String,
        /// The parameters of a workload.
        params: Option<String>,
    },
    /// Several workloads that run at once.
    Together {
        /// The name of all these workloads together.
        name: String,
        /// The workloads.
        parts: Vec<Described>,
    },
}

impl Described {
    fn machine(&self) -> Result<Machine, Box<BadInput>> {
        match self {
            Described::Named(name) => Machine::find(name),
            Described::Text { file, text, .. } => Machine::parse(file, text),
            Described::Together { name, .. } => Err(Box::new(BadInput::whole(
                format!("`{name}` is several workloads"),
                "expected a machine",
            ))),
        }
    }

    pub(crate) fn workload(&self) -> Result<Box<dyn Workload>, Box<BadInput>> {
        match self {
            Described::Named(name) => models::load(name),
            Described::Text {
                name,
                file,
                text,
                params,
            } => workload::parse(name, file, text, params.as_deref()),
            Described::Together { name, parts } => {
                let parts = parts.iter().map(Described::workload);
                Ok(workload::together(name, parts.collect::<Result<_, _>>()?))
            }
        }
    }

    pub(crate) fn bound(&self, nodes: Option<&str>) -> Result<Box<dyn Workload>, Box<BadInput>> {
        let load = self.workload()?;
        Ok(match nodes {
            Some(nodes) => workload::bind(load, nodes),
            None => load,
        })
    }

    /// Is `path` among the files that the description names?
    fn names(&self, path: &str) -> bool {
        match self {
            Described::Named(name) => name.contains(path),
            Described::Text { .. } => false,
            Described::Together { parts, .. } => parts.iter().any(|part| part.names(path)),
        }
    }
}

impl Recipe {
    /// The files that were read to follow names in the text.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = input::kept();
        files.retain(|(path, _)| {
            let path = path.to_string_lossy();
            self.machine.names(&path) || self.workload.names(&path)
        });
        files
    }

    /// The machine and the workload.
    pub fn make(&self) -> Result<(Machine, Box<dyn Workload>), Box<BadInput>> {
        Ok((
            self.machine.machine()?,
            self.workload.bound(self.nodes.as_deref())?,
        ))
    }
}

#[derive(Serialize, Deserialize)]
pub struct Job {
    pub recipe: Recipe,
    /// The files that were read to build the recipe's machine and workload, with their content.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    pub scheduler: String,
    pub image: Vec<u8>,
    /// The client's description of the image, which a worker does not read.
    pub description: Description,
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
            description: object.description().clone(),
            globals: globals.collect(),
            uncaged: cage::is_uncaged(),
        }
    }
}

/// The longest simulated time. A run that simulates a whole day is stuck.
pub const TIME_LIMIT_NS: u64 = 24 * 3600 * 1_000_000_000;

/// A request for a run.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Request {
    pub run: u32,
    pub count: u32,
    pub seed: u64,
    /// Should the run report its events?
    pub traced: bool,
    /// Do the run's threads have noise?
    pub noise: bool,
}

/// A report of a run: events, or the run's end.
#[derive(Serialize, Deserialize)]
pub enum Reply<'a> {
    /// Events, one after another, each with its time and CPU.
    Events(&'a [u8]),
    Done(Box<Outcome>),
    Failed(Error),
}

/// A reported `error`, with texts that are safe for a terminal. Only the client decides that a run is stopped or faulty.
pub fn safe(mut error: Error) -> Error {
    let texts = match &mut error {
        Error::SchedulerExit {
            reason, message, ..
        } => vec![reason, message],
        Error::Task { task, message, .. } => vec![task, message],
        Error::Deadlock(simulator::Deadlock { waiting: text, .. })
        | Error::Hotplug { message: text, .. }
        | Error::Invariant { message: text, .. }
        | Error::Object(native::Error(text)) => vec![text],
        Error::TimeLimit { .. } => Vec::new(),
        Error::Stopped | Error::Fault(_) => {
            return Error::Object(native::Error(shown(&error.to_string())));
        }
    };
    for text in texts {
        *text = shown(text);
    }
    error
}

/// The longest text that is shown, in characters: `SCX_EXIT_MSG_LEN`.
const LONGEST_SHOWN: usize = 1024;

fn shown(text: &str) -> String {
    one_line(text).chars().take(LONGEST_SHOWN).collect()
}

pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("writing to memory does not fail")
}

/// Decodes the value in `message`, if the message consists of exactly one value.
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

/// Receives the next message; `None` at the end.
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
