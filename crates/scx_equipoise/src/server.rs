//! A server on a Unix socket: a client sends a line and reads a line, any number of times.
//!
//! Any user may connect to a socket of the loader, so one thread serves all clients, within limits: on the length of a
//! line, on the time for a line, and on each user's connections, requests and bytes. If a user has too many
//! connections, the server does not refuse new ones, but closes a connection that has sent a part of a line or, if
//! there is none, the connection that has been silent for longest. The server reads from a new client once, so that a
//! whole line in one piece is answered, whatever other clients send. If connections arrive too fast, they are served in
//! batches.
//!
//! The process that serves the socket holds a lock beside it, so that a second process neither removes nor replaces the
//! socket.

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FlockOperation, Gid, Mode, OFlags, Uid, chown, flock, openat};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown, sockopt::socket_peercred};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The time limit for a client's line, and for a client to read a late answer. The time for the
/// first line counts from the connection, and the time for each other line from the first byte of
/// that line.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// The longest line, in bytes. A request to change every setting is much shorter.
const LONGEST: usize = 16 << 10;

/// The limit on the connections of all users; [`MOST_OF_A_USER`] is the limit for each user. Each connection is an open
/// file, of which a process may often have only 1,024, and may hold a line in memory.
const MOST: usize = 256;
const MOST_OF_A_USER: usize = 64;

/// The limit on a user's requests in a `SECOND`. Root may send more.
const MOST_REQUESTS: u32 = 100;

/// The limit on the pieces that a user sends in a `SECOND`, not counting the first piece of each line.
const MOST_PIECES: u32 = 100;

const THREAD: &str = "socket";

/// The size of a piece, which is the number of bytes read at a time. A request is usually shorter.
const PIECE: usize = 1024;

/// The largest number of connections that are accepted at a time. After [`MANY`] or more, the next connections wait for
/// [`PACE`], so a flood of connections is accepted at 1,600 per second at most. Further connections wait in the
/// system's queue, which is short, or for a place in that queue, so each of a thousand clients waits for less than a
/// second.
const AT_ONCE: usize = 16;
const MANY: usize = 4;
const QUEUE: i32 = 128;
const PACE: Duration = Duration::from_millis(10);
const SECOND: Duration = Duration::from_secs(1);

pub trait Service: Send + 'static {
    /// The state that the server keeps for a client between two requests.
    type Memory: Default;

    /// Returns the answer to `line`. An error ends the connection.
    fn reply(&mut self, memory: &mut Self::Memory, is_root: bool, line: &[u8]) -> Result<Answer>;
}

/// The line that a client receives.
pub enum Answer {
    Now(Vec<u8>),
    /// The last line of the connection, which comes from a thread that may have to wait. The
    /// service limits the number of these threads.
    Later(Box<dyn FnOnce() -> Result<Vec<u8>> + Send>),
}

pub fn line(message: &impl serde::Serialize) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    All,
    Root,
    /// Root and the members of a group.
    Group(Gid),
}

/// A socket that is served as long as this value exists.
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    file: Option<(u64, u64)>,
    /// The lock, which is held as long as this value exists.
    _lock: OwnedFd,
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Another program may have put its own file in this place.
        if self.file.is_some() && identity(&self.path) == self.file {
            let _ = fs::remove_file(&self.path);
        }
        // The thread notices the end of its listener, and ends.
        let _ = shutdown(&self.listener, Shutdown::Both);
    }
}

/// Starts a thread that serves `path`; makes the folder of `path` if it is missing.
pub fn serve(path: &Path, access: Access, service: impl Service) -> Result<Socket> {
    let failed = || format!("cannot listen on {}", path.display());
    let lock = lock(path).with_context(failed)?;
    let listener = listen(path, access).with_context(failed)?;
    let socket = Socket {
        listener: listener.try_clone()?,
        path: path.to_owned(),
        file: identity(path),
        _lock: lock,
    };
    let server = thread::Builder::new().name(THREAD.to_owned());
    server.spawn(move || Server::new(listener, service).run())?;
    Ok(socket)
}

/// Makes the folder of `path` if it is missing, and takes the lock of the socket `path`, which is a file beside it that
/// is never removed. It is an error if another process has the lock.
fn lock(path: &Path) -> Result<OwnedFd> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        // Clients must be able to enter the folder, and other users must not write to it.
        let mut folders = fs::DirBuilder::new();
        folders.recursive(true).mode(0o755).create(folder)?;
        fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(
        CWD,
        &name,
        flags | OFlags::NONBLOCK,
        Mode::RUSR | Mode::WUSR,
    )?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::AGAIN) => Err(anyhow!("another scx_equipoise is running")),
        Err(error) => Err(error.into()),
    }
}

/// Listens on `path`, whose lock this process has.
fn listen(path: &Path, access: Access) -> io::Result<UnixListener> {
    // A killed loader may have left its socket behind.
    let _ = fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    rustix::net::listen(&listener, QUEUE)?;
    listener.set_nonblocking(true)?;
    let mode = match access {
        Access::All => 0o666,
        Access::Root => 0o600,
        Access::Group(group) => {
            chown(path, None, Some(group))?;
            0o660
        }
    };
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(listener)
}

pub fn connect(path: &Path) -> Result<UnixStream> {
    UnixStream::connect(path).map_err(|error| {
        let absent = matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused
        );
        if absent {
            anyhow!(
                "no scx_equipoise is running: no socket at {}",
                path.display()
            )
        } else {
            anyhow!(error).context(format!("cannot connect to {}", path.display()))
        }
    })
}

struct Server<S: Service> {
    listener: UnixListener,
    service: S,
    clients: Vec<Client<S::Memory>>,
    /// The requests of the users whose clients have sent something in the last second.
    rates: BTreeMap<u32, Rate>,
}

/// The requests of a user in a second.
struct Rate {
    /// The time when the second began.
    began: Instant,
    /// The number of lines; `pieces` is the number of pieces beyond the first piece of each line.
    requests: u32,
    pieces: u32,
}

struct Client<M> {
    stream: UnixStream,
    user: Uid,
    /// The part of the line that has been received.
    line: Vec<u8>,
    /// The deadline of the line; `None` between two lines.
    deadline: Option<Instant>,
    /// The time of the connection, or of the last whole line.
    active: Instant,
    memory: M,
}

impl<S: Service> Server<S> {
    fn new(listener: UnixListener, service: S) -> Server<S> {
        Server {
            listener,
            service,
            clients: Vec::new(),
            rates: BTreeMap::new(),
        }
    }

    fn run(mut self) {
        loop {
            match self.turn() {
                Ok(Some(accepted)) if accepted >= MANY => thread::sleep(PACE),
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => {
                    // The limit on open files or the memory is exhausted, which may be temporary.
                    log::debug!("a socket of the loader: {error}");
                    thread::sleep(Duration::from_millis(10));
                }
            }
        }
    }

    /// Waits for clients, and serves the clients that are ready. Returns the number of new clients, or `None` at the
    /// end.
    fn turn(&mut self) -> io::Result<Option<usize>> {
        let now = Instant::now();
        self.forget(now);
        let may_send: Vec<usize> = (0..self.clients.len())
            .filter(|&index| self.may_send(&self.clients[index]))
            .collect();
        let mut polled = vec![PollFd::new(&self.listener, PollFlags::IN)];
        polled.extend(
            may_send
                .iter()
                .map(|&index| PollFd::new(&self.clients[index].stream, PollFlags::IN)),
        );
        let timeout = self.next_deadline().map(|deadline| {
            Timespec::try_from(deadline.saturating_duration_since(now)).expect("a second at most")
        });
        match poll(&mut polled, timeout.as_ref()) {
            Err(Errno::INTR) => return Ok(Some(0)),
            result => result?,
        };
        let ends = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        let listener = polled[0].revents();
        let ready: Vec<usize> = may_send
            .into_iter()
            .zip(&polled[1..])
            .filter(|(_, polled)| !polled.revents().is_empty())
            .map(|(index, _)| index)
            .collect();
        if listener.intersects(ends) {
            return Ok(None);
        }
        // Go backwards, because the last client takes the place of a client that ends.
        for index in ready.into_iter().rev() {
            self.read(index);
        }
        match listener.contains(PollFlags::IN) {
            true => self.accept().map(Some),
            false => Ok(Some(0)),
        }
    }

    /// Ends connections whose lines are late, and forgets the rates of seconds that have passed.
    fn forget(&mut self, now: Instant) {
        self.clients
            .retain(|client| client.deadline.is_none_or(|deadline| deadline > now));
        self.rates
            .retain(|_, rate| now.duration_since(rate.began) < SECOND);
    }

    /// The next time at which a line is late or a user may send again.
    fn next_deadline(&self) -> Option<Instant> {
        let lines = self.clients.iter().filter_map(|client| client.deadline);
        let rates = self.rates.values().map(|rate| rate.began + SECOND);
        lines.chain(rates).min()
    }

    fn may_send(&self, client: &Client<S::Memory>) -> bool {
        let Some(rate) = self.rates.get(&client.user.as_raw()) else {
            return true;
        };
        let may_request = client.user.is_root() || rate.requests < MOST_REQUESTS;
        may_request && (client.line.is_empty() || rate.pieces < MOST_PIECES)
    }

    fn rate(&mut self, user: Uid) -> &mut Rate {
        self.rates.entry(user.as_raw()).or_insert_with(|| Rate {
            began: Instant::now(),
            requests: 0,
            pieces: 0,
        })
    }

    /// Accepts waiting connections and reads from them, but only so many that existing connections do not wait for
    /// long. Returns the number of accepted connections.
    fn accept(&mut self) -> io::Result<usize> {
        for accepted in 0..AT_ONCE {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let stream = match accept_with(&self.listener, flags) {
                Ok(stream) => UnixStream::from(stream),
                Err(Errno::AGAIN) => return Ok(accepted),
                Err(error) => return Err(error.into()),
            };
            let user = socket_peercred(&stream)?.uid;
            let now = Instant::now();
            self.clients.push(Client {
                stream,
                user,
                line: Vec::new(),
                deadline: Some(now + PATIENCE),
                active: now,
                memory: S::Memory::default(),
            });
            // The line of a new connection has often already arrived, and is answered before the user's other
            // connections can displace this one.
            let newest = self.clients.len() - 1;
            if self.may_send(&self.clients[newest]) {
                self.read(newest);
            }
            // A user that has sent too many pieces may not send more.
            match self.clients.get(newest) {
                Some(client) if client.line.is_empty() || self.may_send(client) => {}
                _ => {
                    self.clients.truncate(newest);
                    continue;
                }
            }
            let of_user = self.clients.iter().filter(|client| client.user == user);
            if of_user.count() > MOST_OF_A_USER {
                self.drop_least(|client| client.user == user);
            } else if self.clients.len() > MOST {
                self.drop_least(|client| !client.user.is_root());
            }
        }
        Ok(AT_ONCE)
    }

    /// Drops the least valuable client, which is a client with a part of a line or, if there is none, the client that
    /// has been silent for longest.
    fn drop_least(&mut self, among: impl Fn(&Client<S::Memory>) -> bool) {
        let clients = self.clients.iter().enumerate();
        let of_them = clients.filter(|(_, client)| among(client));
        let worth = |client: &Client<S::Memory>| (client.line.is_empty(), client.active);
        if let Some((index, _)) = of_them.min_by_key(|(_, client)| worth(client)) {
            self.clients.swap_remove(index);
        }
    }

    fn read(&mut self, index: usize) {
        let goes_on = self.talk(index).unwrap_or_else(|error| {
            log::debug!("a client of the loader: {error:#}");
            false
        });
        if !goes_on {
            self.clients.swap_remove(index);
        }
    }

    /// Reads from the client, and answers if the line is complete. Returns false if the connection ends or a thread
    /// answers, which ends the connection afterwards.
    fn talk(&mut self, index: usize) -> Result<bool> {
        let (user, is_first) = (
            self.clients[index].user,
            self.clients[index].line.is_empty(),
        );
        if !is_first {
            self.rate(user).pieces += 1;
        }
        let Some(line) = self.clients[index].read_line()? else {
            return Ok(true);
        };
        self.rate(user).requests += 1;
        let client = &mut self.clients[index];
        let is_root = client.user.is_root();
        match self.service.reply(&mut client.memory, is_root, &line)? {
            // The socket of a client that has read the last answer has room for this answer.
            Answer::Now(line) => {
                (&client.stream).write_all(&line)?;
                Ok(true)
            }
            Answer::Later(wait) => {
                let stream = client.stream.try_clone()?;
                thread::Builder::new().spawn(move || answer_late(&stream, wait))?;
                Ok(false)
            }
        }
    }
}

impl<M> Client<M> {
    /// The client's line, once it is complete. An error ends the connection.
    fn read_line(&mut self) -> Result<Option<Vec<u8>>> {
        let mut part = [0; PIECE];
        let read = match self.stream.read(&mut part) {
            Ok(0) => return Err(anyhow!("it has closed the connection")),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let now = Instant::now();
        self.deadline.get_or_insert(now + PATIENCE);
        self.line.extend_from_slice(&part[..read]);
        if self.line.len() > LONGEST {
            return Err(anyhow!("a line has more than {LONGEST} bytes"));
        }
        match self.line.iter().position(|&byte| byte == b'\n') {
            None => Ok(None),
            Some(end) if end + 1 < self.line.len() => Err(anyhow!(
                "a line arrived before the previous line was answered"
            )),
            Some(_) => {
                self.deadline = None;
                self.active = now;
                Ok(Some(std::mem::take(&mut self.line)))
            }
        }
    }
}

fn answer_late(stream: &UnixStream, wait: Box<dyn FnOnce() -> Result<Vec<u8>> + Send>) {
    let answered = wait().and_then(|line| {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut stream = stream;
        Ok(stream.write_all(&line)?)
    });
    if let Err(error) = answered {
        log::debug!("a client of the loader: {error:#}");
    }
}

#[cfg(test)]
mod tests;
