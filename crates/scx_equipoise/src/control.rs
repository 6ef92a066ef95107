//! `scx_equipoise get` and `set`: every user can read a loaded scheduler's settings, and root can
//! change them.
//!
//! The loader listens on a Unix socket; a client sends a line of JSON and reads a line of JSON. A change of tunables
//! takes effect at once. For any other change, or if a CPU goes offline or comes online, the loader loads the scheduler
//! again. Until the scheduler is loaded, tasks run under Linux's own scheduler.

use crate::error::Error;
use crate::server::{self, Access, Answer, Service, Socket};
use anyhow::{Context, Result, anyhow};
use machine::input;
use policy::Policy;
use serde::{Deserialize, Serialize};
use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};

/// The folder of the socket if systemd has not started the loader.
const FOLDER: &str = "/run/scx_equipoise";

#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub enum Request {
    /// A request for the settings with these names, or for all settings if there are no names.
    Get(Vec<String>),
    /// A request for changes, each of which is `NAME=VALUE`; `policy` is a name, too.
    Set(Vec<String>),
}

#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
enum Reply {
    Done(String),
    /// The request is wrong: status 2.
    Wrong(String),
    /// The request failed: status 1.
    Failed(String),
}

/// Requests to the loader while a scheduler is loaded.
#[derive(Debug)]
pub struct Control {
    shutdown: AtomicBool,
    state: Mutex<State>,
    /// The channel that signals a change; one message is enough.
    news: (
        crossbeam::channel::Sender<()>,
        crossbeam::channel::Receiver<()>,
    ),
}

#[derive(Debug)]
struct State {
    /// The policy of the scheduler that was attached last.
    policy: Policy,
    /// A requested change, and the channel to its client.
    asked: Option<(Policy, Sender<Reply>)>,
    /// The client that requested the policy that is being loaded.
    waiting: Option<Sender<Reply>>,
}

impl State {
    /// Does a change wait that needs no reload?
    fn asks_for_tuning(&self) -> bool {
        let asked = self.asked.as_ref();
        asked.is_some_and(|(policy, _)| policy.is_tuned(&self.policy))
    }

    /// Takes the requested policy. The client that requested it waits until the policy is in effect.
    fn take(&mut self) -> Option<Policy> {
        let (policy, client) = self.asked.take()?;
        self.waiting = Some(client);
        Some(policy)
    }
}

impl Control {
    pub fn new(policy: Policy) -> Control {
        Control {
            shutdown: AtomicBool::new(false),
            state: Mutex::new(State {
                policy,
                asked: None,
                waiting: None,
            }),
            news: crossbeam::channel::bounded(1),
        }
    }

    /// Asks the scheduler to exit without a successor.
    pub fn shut_down(&self) {
        self.shutdown.store(true, Ordering::Relaxed);
        self.tell();
    }

    /// The channel that has a message when [`Control::wants_it_gone`] may have become true, or when
    /// [`Control::next_tuning`] has a policy.
    pub fn news(&self) -> &crossbeam::channel::Receiver<()> {
        &self.news.1
    }

    fn tell(&self) {
        let _ = self.news.0.try_send(());
    }

    pub fn is_shut_down(&self) -> bool {
        self.shutdown.load(Ordering::Relaxed)
    }

    /// Must the scheduler exit, without a successor or for another policy?
    pub fn wants_it_gone(&self) -> bool {
        let state = self.state();
        self.is_shut_down() || (state.asked.is_some() && !state.asks_for_tuning())
    }

    /// The policy that has to be loaded next.
    pub fn next_policy(&self) -> Policy {
        let mut state = self.state();
        state.take().unwrap_or_else(|| state.policy.clone())
    }

    /// The policy to which only tunables must change while the scheduler runs. Call [`Control::attached`] when the
    /// change is done.
    pub fn next_tuning(&self) -> Option<Policy> {
        let mut state = self.state();
        match state.asks_for_tuning() {
            true => state.take(),
            false => None,
        }
    }

    /// Notifies the client that `policy` is in effect.
    pub fn attached(&self, policy: &Policy) {
        let mut state = self.state();
        state.policy = policy.clone();
        if let Some(client) = state.waiting.take() {
            let _ = client.send(Reply::Done(String::new()));
        }
    }

    /// Records that a policy could not be loaded. Returns whether a client had requested the policy. The client then
    /// gets the error, and the previous policy is loaded again.
    pub fn failed(&self, error: &anyhow::Error) -> bool {
        match self.state().waiting.take() {
            Some(client) => {
                let _ = client.send(Reply::Failed(format!("{error:#}")));
                true
            }
            None => false,
        }
    }

    /// Changes the policy as if root had requested it. Returns false if another change is under
    /// way.
    pub fn change(&self, change: &str) -> bool {
        match self.answer(Request::Set(vec![change.to_owned()]), true) {
            Ok(Reply::Failed(_)) => false,
            Ok(Reply::Wrong(message)) => {
                log::warn!("{change}: {message}");
                true
            }
            // `Done` means that nothing had to change. Otherwise, the log will have the result.
            Ok(Reply::Done(_)) | Err(_) => true,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// The answer, or the channel that will have it.
    fn answer(&self, request: Request, is_root: bool) -> Result<Reply, Receiver<Reply>> {
        let mut state = self.state();
        match request {
            Request::Get(names) => Ok(get(&state.policy, &names)),
            Request::Set(_) if !is_root => {
                let message = "changing a scheduler requires root";
                Ok(Reply::Failed(message.to_owned()))
            }
            Request::Set(_) if state.asked.is_some() || state.waiting.is_some() => Ok(
                Reply::Failed("another change is under way; try again".to_owned()),
            ),
            Request::Set(changes) => match changed(&state.policy, &changes) {
                Ok(policy) if policy == state.policy => Ok(Reply::Done(String::new())),
                Ok(policy) => {
                    let (sender, receiver) = channel();
                    state.asked = Some((policy, sender));
                    self.tell();
                    Err(receiver)
                }
                Err(message) => Ok(Reply::Wrong(message)),
            },
        }
    }

    /// Answers requests as long as the socket exists.
    pub fn serve(self: &Arc<Control>) -> Result<Socket> {
        self.serve_at(&path())
    }

    pub fn serve_at(self: &Arc<Control>, path: &Path) -> Result<Socket> {
        server::serve(path, Access::All, self.clone())
    }
}

impl Service for Arc<Control> {
    type Memory = ();

    fn reply(&mut self, (): &mut (), is_root: bool, line: &[u8]) -> Result<Answer> {
        match Control::answer(self, serde_json::from_slice(line)?, is_root) {
            Ok(reply) => Ok(Answer::Now(server::line(&reply)?)),
            // At most one thread waits: other changes are refused until this one is done.
            Err(later) => Ok(Answer::Later(Box::new(move || {
                server::line(&later.recv()?)
            }))),
        }
    }
}

/// The path of the socket, in the folder that systemd made for the service or, without one, in [`FOLDER`]. Clients look
/// for the socket in [`FOLDER`].
fn path() -> PathBuf {
    path_in(env::var_os("RUNTIME_DIRECTORY").as_deref())
}

/// Finds the path in `folders`. The variable lists all of the service's folders, in an order that systemd chooses.
fn path_in(folders: Option<&OsStr>) -> PathBuf {
    let mut folders = folders.into_iter().flat_map(env::split_paths);
    let own = folders.find(|folder| folder.file_name() == Path::new(FOLDER).file_name());
    own.unwrap_or_else(|| FOLDER.into()).join("control")
}

/// The settings `names` as lines of `NAME = VALUE`, as in a policy file.
fn get(policy: &Policy, names: &[String]) -> Reply {
    let head = [("policy", &*policy.name), ("scheduler", policy.scheduler)];
    let head = head.map(|(name, value)| (name, format!("{value:?}")));
    let settings = policy.settings.list();
    let settings = settings.map(|(setting, value)| (&*setting.key, setting.toml(value)));
    let all: Vec<_> = head.into_iter().chain(settings).collect();
    let unknown = names
        .iter()
        .find(|name| all.iter().all(|(key, _)| key != name));
    if let Some(unknown) = unknown {
        let known = all.iter().map(|&(key, _)| key);
        return Reply::Wrong(format!(
            "unknown setting `{unknown}`: {}",
            input::one_of(unknown, known)
        ));
    }
    let asked = all
        .iter()
        .filter(|(key, _)| names.is_empty() || names.iter().any(|name| name == key));
    Reply::Done(
        asked
            .map(|(key, value)| format!("{key} = {value}\n"))
            .collect(),
    )
}

/// Makes the `changes` to `policy`. The error is a message.
fn changed(policy: &Policy, changes: &[String]) -> Result<Policy, String> {
    let (names, settings): (Vec<&str>, Vec<&str>) = changes
        .iter()
        .map(String::as_str)
        .partition(|change| change.starts_with("policy="));
    let named = names.last().map(|change| &change["policy=".len()..]);
    let message =
        |bad: Box<machine::input::BadInput>| format!("{}; {}", bad.message(), bad.expected());
    let policy = named
        .map_or_else(|| Ok(policy.clone()), Policy::find)
        .map_err(message)?;
    if settings.is_empty() {
        return Ok(policy);
    }
    policy.with(settings.into_iter()).map_err(message)
}

/// Sends `request` as a client, and returns the loader's answer.
pub fn ask(request: &Request) -> Result<String, Error> {
    ask_at(&path(), request)
}

pub fn ask_at(path: &Path, request: &Request) -> Result<String, Error> {
    let mut stream = server::connect(path)?;
    let sent = stream.write_all(&server::line(request)?);
    sent.context("scx_equipoise accepts no connections")?;
    let mut line = String::new();
    let answered = BufReader::new(stream).read_line(&mut line);
    answered.context("scx_equipoise does not answer")?;
    let reply = serde_json::from_str(&line).context("scx_equipoise ended without an answer")?;
    match reply {
        Reply::Done(text) => Ok(text),
        Reply::Wrong(message) => Err(Error::Request(message)),
        Reply::Failed(message) => Err(Error::Run(anyhow!(message))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> Arc<Control> {
        Arc::new(Control::new(Policy::find("capacity").unwrap()))
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn all_may_read() {
        let reply = control().answer(Request::Get(words("policy misfit")), false);
        let expected = "policy = \"capacity\"\nmisfit = true\n".to_owned();
        assert_eq!(reply.unwrap(), Reply::Done(expected));
        let reply = control().answer(Request::Get(words("misfti")), false);
        assert!(matches!(reply, Ok(Reply::Wrong(message)) if message.contains("`misfti`")));
    }

    #[test]
    fn root_alone_may_change() {
        let control = control();
        let set = || Request::Set(words("misfit=false"));
        assert!(matches!(control.answer(set(), false), Ok(Reply::Failed(_))));
        assert!(!control.wants_it_gone() && control.news().is_empty());
        assert!(control.answer(set(), true).is_err());
        assert!(control.wants_it_gone() && !control.news().is_empty());
        let next = control.next_policy();
        assert_eq!(next.name, "capacity:misfit=false");
        assert!(!control.wants_it_gone());
    }

    #[test]
    fn an_answer_comes_when_the_change_is_in_effect() {
        let control = control();
        let later = control.answer(Request::Set(words("policy=cfs misfit=false")), true);
        let later = later.unwrap_err();
        let next = control.next_policy();
        assert!(later.try_recv().is_err());
        let second = control.answer(Request::Set(words("misfit=true")), true);
        assert!(matches!(second, Ok(Reply::Failed(message)) if message.contains("under way")));
        control.attached(&next);
        assert_eq!(later.recv().unwrap(), Reply::Done(String::new()));
        assert_eq!(control.next_policy().name, "cfs");
    }

    #[test]
    fn its_own_folder_has_the_socket() {
        let path = |folders: &str| path_in(Some(folders.as_ref()));
        let expected = Path::new("/run/scx_equipoise/control");
        assert_eq!(path("/run/scx/root:/run/scx_equipoise"), expected);
        assert_eq!(path("/run/scx/root"), expected);
        assert_eq!(path_in(None), expected);
        let user = path("/run/user/0/scx_equipoise:/run/user/0/scx/root");
        assert_eq!(user, Path::new("/run/user/0/scx_equipoise/control"));
    }

    #[test]
    fn tunables_change_in_a_running_scheduler() {
        let control = control();
        let set = |change: &str| control.answer(Request::Set(words(change)), true);
        let later = set("sched_nr_migrate=8").unwrap_err();
        assert!(!control.wants_it_gone());
        let tuned = control.next_tuning().unwrap();
        assert_eq!(tuned.settings.get("sched_nr_migrate"), Some(8));
        control.attached(&tuned);
        assert_eq!(later.recv().unwrap(), Reply::Done(String::new()));
        let _later = set("sched_nr_migrate=9 misfit=false").unwrap_err();
        assert!(control.wants_it_gone() && control.next_tuning().is_none());
    }

    #[test]
    fn a_policy_that_cannot_be_loaded_leaves_the_previous_one() {
        let control = control();
        assert!(!control.failed(&anyhow!("nobody asked")));
        let later = control
            .answer(Request::Set(words("policy=cfs")), true)
            .unwrap_err();
        control.next_policy();
        assert!(control.failed(&anyhow!("no")));
        assert_eq!(later.recv().unwrap(), Reply::Failed("no".to_owned()));
        assert_eq!(control.next_policy().name, "capacity");
    }

    #[test]
    fn a_mistake_changes_nothing() {
        let control = control();
        for wrong in ["policy=o1", "misfit=1", "no_such=1", "misfit"] {
            let reply = control.answer(Request::Set(words(wrong)), true);
            assert!(matches!(reply, Ok(Reply::Wrong(_))), "{wrong}");
        }
        assert!(!control.wants_it_gone());
    }

    #[test]
    fn a_client_asks_over_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let get = Request::Get(words("policy"));
        assert!(matches!(ask_at(&path, &get), Err(Error::Run(_))));
        let socket = control().serve_at(&path).unwrap();
        server::connect(&path)
            .unwrap()
            .write_all(b"nonsense\n")
            .unwrap();
        assert_eq!(ask_at(&path, &get).unwrap(), "policy = \"capacity\"\n");
        drop(socket);
        assert!(!path.exists());
    }
}
