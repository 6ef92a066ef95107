//! Tests of the sockets' server.

use super::*;
use crate::control::{self, Control, Request};
use crate::stats;
use policy::Policy;
use rustix::process::{Resource, getrlimit, setrlimit};
use scx_stats::StatsClient;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Counting;

impl Service for Counting {
    type Memory = u32;

    fn reply(&mut self, count: &mut u32, _: bool, line: &[u8]) -> Result<Answer> {
        *count += 1;
        let count = *count;
        match line {
            b"late\n" => Ok(Answer::Later(Box::new(move || super::line(&count)))),
            b"end\n" => Err(anyhow!("as it wishes")),
            _ => Ok(Answer::Now(super::line(&count)?)),
        }
    }
}

struct Place {
    folder: tempfile::TempDir,
    _socket: Socket,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let _socket = serve(&folder.path().join("s"), Access::All, Counting).unwrap();
    Place { folder, _socket }
}

impl Place {
    fn connect(&self) -> UnixStream {
        connect(&self.folder.path().join("s")).unwrap()
    }
}

/// The server's answer to `line`; `None` if the server closes the connection.
fn ask(stream: &UnixStream, line: &[u8]) -> Option<String> {
    let mut sending = stream;
    let _ = sending.write_all(line);
    let mut answer = String::new();
    let read = BufReader::new(stream).read_line(&mut answer);
    read.is_ok_and(|bytes| bytes > 0)
        .then(|| answer.trim_end().to_owned())
}

#[test]
fn a_client_asks_as_often_as_it_likes_and_has_a_memory_of_its_own() {
    let place = place();
    let (first, second) = (place.connect(), place.connect());
    for expected in ["1", "2", "3"] {
        assert_eq!(ask(&first, b"now\n").as_deref(), Some(expected));
    }
    assert_eq!(ask(&second, b"late\n").as_deref(), Some("1"));
    assert_eq!(ask(&second, b"now\n"), None);
    assert_eq!(ask(&first, b"end\n"), None);
}

#[test]
fn a_long_line_and_two_at_a_time_end_the_connection() {
    let place = place();
    let longest = [vec![b'x'; LONGEST - 1], vec![b'\n']].concat();
    assert!(ask(&place.connect(), &longest).is_some());
    assert_eq!(ask(&place.connect(), &vec![b'x'; LONGEST + 1]), None);
    assert_eq!(ask(&place.connect(), b"now\nnow\n"), None);
}

#[test]
fn a_line_has_a_second() {
    let place = place();
    let client = place.connect();
    let began = Instant::now();
    assert_eq!(ask(&client, b"begun"), None);
    assert!(began.elapsed() >= PATIENCE / 2);
    let client = place.connect();
    assert!(ask(&client, b"now\n").is_some());
    thread::sleep(2 * PATIENCE);
    assert_eq!(ask(&client, b"now\n").as_deref(), Some("2"));
}

#[test]
fn a_user_has_so_many_connections_and_keeps_the_latest() {
    let place = place();
    let clients: Vec<UnixStream> = (0..MOST_OF_A_USER + 2)
        .map(|_| {
            let client = place.connect();
            assert!(ask(&client, b"now\n").is_some());
            client
        })
        .collect();
    let answered = clients.iter().map(|client| ask(client, b"now\n").is_some());
    let expected = (0..clients.len()).map(|index| index >= 2);
    assert!(answered.eq(expected));
}

/// This test runs without the server's thread, because the tests may run as root, which has no limit.
#[test]
fn a_user_may_send_so_often_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let listener = listen(&folder.path().join("s"), Access::Root).unwrap();
    let mut server = Server::new(listener, Counting);
    let client = |user: u32, line: &[u8]| Client {
        stream: UnixStream::pair().unwrap().0,
        user: Uid::from_raw(user),
        line: line.to_vec(),
        deadline: None,
        active: Instant::now(),
        memory: 0,
    };
    let began = Instant::now();
    let rate = |requests, pieces| Rate {
        began,
        requests,
        pieces,
    };
    let user = client(1000, b"");
    server.rates.insert(1000, rate(MOST_REQUESTS - 1, 0));
    assert!(server.may_send(&user));
    server.rates.insert(1000, rate(MOST_REQUESTS, 0));
    server.rates.insert(0, rate(MOST_REQUESTS, 0));
    assert!(!server.may_send(&user) && server.may_send(&client(0, b"")));
    assert!(server.may_send(&client(1001, b"")));
    assert_eq!(server.next_deadline(), Some(began + SECOND));
    // No client may send more, so the server waits until the current second is over.
    assert_eq!(server.turn().unwrap(), Some(0));
    assert!(began.elapsed() >= SECOND);
    server.forget(Instant::now());
    assert!(server.may_send(&user));
    // A user, even root, that has sent many bytes that are no line may send no more such bytes, but may send lines.
    for of in [0, 1000] {
        server.rates.insert(of, rate(0, MOST_PIECES));
        assert!(!server.may_send(&client(of, b"junk")) && server.may_send(&client(of, b"")));
    }
}

#[test]
fn a_second_server_leaves_the_first_one_s_socket_alone() {
    let place = place();
    let path = place.folder.path().join("s");
    let answers = || ask(&place.connect(), b"now\n").is_some();
    for _ in 0..100 {
        let error = serve(&path, Access::All, Counting).err().unwrap();
        assert!(format!("{error:#}").contains("another scx_equipoise is running"));
        assert!(answers());
    }
    fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    drop(place._socket);
    assert!(path.exists());
    drop(other);
    drop(serve(&path, Access::All, Counting).unwrap());
    assert!(!path.exists());
}

#[test]
fn folders_do_not_depend_on_the_umask() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scx/root/s");
    let before = rustix::process::umask(Mode::empty());
    let socket = serve(&path, Access::All, Counting);
    rustix::process::umask(before);
    socket.unwrap();
    for name in ["scx", "scx/root"] {
        let mode = fs::metadata(folder.path().join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o755, "{name}");
    }
}

fn of_servers() -> f64 {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    let stats = threads.filter_map(|it| fs::read_to_string(it.path().join("stat")).ok());
    let of = stats.filter(|stat| stat.contains(&format!("({THREAD})")));
    let ticks = of.map(|stat| {
        let rest = stat.rsplit_once(") ").unwrap().1;
        let times = rest.split(' ').skip(11).take(2);
        times.map(|it| it.parse::<f64>().unwrap()).sum::<f64>()
    });
    ticks.sum::<f64>() / 100.0
}

fn flood(path: &Path, is_over: &AtomicBool) {
    let junk = [b'x'; LONGEST];
    while !is_over.load(Ordering::Relaxed) {
        if let Ok(mut client) = UnixStream::connect(path) {
            let _ = client.set_nonblocking(true);
            let _ = client.write(&junk);
        }
        thread::sleep(SECOND / 1000);
    }
}

#[test]
fn junk_from_many_connections_keeps_nobody_waiting() {
    let place = place();
    let path = place.folder.path().join("s");
    let before = resident();
    let is_over = AtomicBool::new(false);
    let (mut longest, mut answered, mut share) = (Duration::ZERO, 0, 0.0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| flood(&path, &is_over));
        }
        let (start, cpu) = (Instant::now(), of_servers());
        for _ in 0..60 {
            thread::sleep(SECOND / 20);
            let began = Instant::now();
            answered += usize::from(ask(&place.connect(), b"now\n").is_some());
            longest = longest.max(began.elapsed());
        }
        share = (of_servers() - cpu) / start.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
    });
    let grown = resident().saturating_sub(before);
    println!("{:.1} % of a CPU, {grown} KiB, {longest:?}", 100.0 * share);
    assert_eq!(answered, 60);
    assert!(longest < SECOND, "{longest:?}");
    assert!(grown < 64 << 10, "{grown} KiB");
}

#[test]
fn the_socket_is_for_whom_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("of/us/s");
    let group = rustix::process::getgid();
    for (access, mode) in [
        (Access::All, 0o666),
        (Access::Root, 0o600),
        (Access::Group(group), 0o660),
    ] {
        let socket = serve(&path, access, Counting).unwrap();
        let found = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode, "{access:?}");
        drop(socket);
        assert!(connect(&path).is_err());
    }
}

fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse().unwrap()
}

/// Sends a byte a second to each of `paths` over 1,000 connections, and connects again when
/// they end.
fn drip(paths: &[&Path], is_over: &AtomicBool) {
    let mut clients: Vec<(&Path, Option<UnixStream>)> = (0..1000)
        .flat_map(|_| paths.iter().map(|&path| (path, None)))
        .collect();
    while !is_over.load(Ordering::Relaxed) {
        let round = Instant::now();
        for (path, client) in &mut clients {
            let sent = client
                .as_mut()
                .is_some_and(|client| client.write_all(b"{").is_ok());
            if !sent {
                *client = connect(path).ok();
            }
        }
        thread::sleep(SECOND.saturating_sub(round.elapsed()));
    }
}

#[test]
fn a_thousand_slow_clients_of_both_sockets_keep_nobody_waiting() {
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let paths = ["control", "stats"].map(|name| folder.path().join(name));
    let [at_control, at_stats] = paths.each_ref().map(|path| path.as_path());
    let control = Arc::new(Control::new(Policy::find("capacity").unwrap()));
    let _control = control.serve_at(at_control).unwrap();
    let _stats = stats::Server::start_at(at_stats, Access::All).unwrap();

    let before = resident();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| drip(&[at_control, at_stats], &is_over));
        let mut longest = Duration::ZERO;
        for _ in 0..30 {
            thread::sleep(SECOND / 10);
            let began = Instant::now();
            let policy = Request::Get(vec!["policy".to_owned()]);
            let answer = control::ask_at(at_control, &policy).unwrap();
            assert_eq!(answer, "policy = \"capacity\"\n");
            let client = StatsClient::new().set_path(at_stats).connect(None);
            client
                .unwrap()
                .request::<Value>("stats_meta", vec![])
                .unwrap();
            longest = longest.max(began.elapsed());
        }
        let grown = resident().saturating_sub(before);
        is_over.store(true, Ordering::Relaxed);
        assert!(longest < SECOND, "{longest:?}");
        assert!(grown < 64 << 10, "{grown} KiB");
    });
}
