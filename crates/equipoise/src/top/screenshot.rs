//! The screens of docs/top.md and docs/top-wide.md, drawn from a folder with a computer's /proc and /sys. The computers
//! are an invented board, and a guest under Linux 7.3.4 (recorded.json).

use super::draw::draw;
use super::sample::{Computer, Watch};
use super::screen::State;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The number of refreshes before a screen is taken.
const STEPS: u64 = 13;

/// A thread of the computer: its number and name; its CPU time in percent of a CPU; turns per
/// second; the mean wait in us; migrations per second; its CPU.
type Loads = (u32, &'static str, u64, u64, u64, u64, usize);

const THREADS: [Loads; 7] = [
    (812, "RenderThread", 71, 240, 180, 2, 4),
    (811, "game:main", 48, 120, 95, 1, 5),
    (640, "surfaceflinger", 12, 180, 60, 3, 1),
    (1703, "cc1plus", 96, 25, 5_400, 0, 6),
    (1704, "cc1plus", 94, 25, 6_100, 0, 7),
    (301, "kworker/u16:2", 3, 310, 22, 14, 0),
    (655, "audio", 2, 200, 41, 0, 2),
];

/// A board of four little CPUs with a capacity of 446 and four big ones.
struct Board {
    root: tempfile::TempDir,
    has_schedstat: bool,
}

fn drawn(computer: &Computer, state: &State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, computer, state)).unwrap();
    let buffer = terminal.backend().buffer();
    let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
    let lines = cells.chunks(usize::from(width));
    lines
        .map(|line| format!("{}\n", line.concat().trim_end()))
        .collect()
}

impl Board {
    fn new() -> Board {
        let board = Board {
            root: tempfile::tempdir().unwrap(),
            has_schedstat: true,
        };
        let cpus = "sys/devices/system/cpu";
        board.file(&format!("{cpus}/online"), "0-7\n");
        for cpu in 0..8 {
            let folder = format!("{cpus}/cpu{cpu}");
            let (capacity, package) = if cpu < 4 { (446, 0) } else { (1024, 1) };
            board.file(&format!("{folder}/cpu_capacity"), &format!("{capacity}\n"));
            let first = cpu / 4 * 4;
            let list = format!("{first}-{}\n", first + 3);
            board.file(&format!("{folder}/topology/cluster_cpus_list"), &list);
            board.file(&format!("{folder}/topology/package_cpus_list"), "0-7\n");
            board.file(
                &format!("{folder}/topology/cluster_id"),
                &format!("{package}\n"),
            );
        }
        board.at(0);
        board
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn at(&self, second: u64) {
        let (mut stat, mut schedstat) = (String::new(), String::new());
        for cpu in 0..8_u64 {
            let busy: u64 = (1..=second)
                .map(|second| {
                    let phase = (second * 7 + cpu * 5) % 24;
                    let swing = if phase < 12 { phase } else { 24 - phase };
                    if cpu < 4 {
                        8 + swing * 3
                    } else {
                        52 + swing * 4
                    }
                })
                .sum();
            let idle = second * 100 - busy;
            stat += &format!("cpu{cpu} {busy} 0 0 {idle} 0 0 0 0 0 0\n");
            let waited = second * 20_000_000 * (cpu + 1);
            schedstat += &format!("cpu{cpu} 0 0 0 0 0 0 0 {waited} {}\n", second * 400);
            let mhz = if cpu < 4 { 1_400 } else { 2_000 } - 100 * ((cpu + second) % 4);
            let cpufreq = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
            self.file(
                &format!("{cpufreq}/scaling_cur_freq"),
                &format!("{}\n", mhz * 1000),
            );
        }
        self.file("proc/stat", &stat);
        if self.has_schedstat {
            self.file("proc/schedstat", &schedstat);
        }
        for (tid, name, percent, turns, wait_us, migrations, cpu) in THREADS {
            let folder = format!("proc/{tid}/task/{tid}");
            // utime is the 14th field, processor the 39th: proc_pid_stat(5).
            let zeros = |fields: usize| vec!["0"; fields].join(" ");
            let (between, after) = (zeros(10), zeros(23));
            let ticks = second * percent;
            let text = format!("{tid} ({name}) S {between} {ticks} 0 {after} {cpu} 0\n");
            self.file(&format!("{folder}/stat"), &text);
            if self.has_schedstat {
                let turns = second * turns;
                let ran = second * percent * 10_000_000;
                let waited = (turns + turns / second.max(1) * (second / 4) * 3) * wait_us * 1000;
                self.file(
                    &format!("{folder}/schedstat"),
                    &format!("{ran} {waited} {turns}\n"),
                );
            }
            let sched = format!("se.nr_migrations    :    {}\n", second * migrations);
            self.file(&format!("{folder}/sched"), &sched);
        }
    }

    /// The screen after [`STEPS`] refreshes, which are one second apart.
    fn screen(&self, width: u16, height: u16, change: impl FnOnce(&mut State)) -> String {
        let mut watch = Watch::begin(Computer::at(self.root.path()).unwrap()).unwrap();
        let second = Duration::from_secs(1);
        let mut state = State::new(second);
        for step in 1..=STEPS {
            self.at(step);
            state.show(watch.next_after(second));
        }
        change(&mut state);
        drawn(&watch.computer, &state, width, height)
    }

    /// Answers as scx_equipoise does, with `counted` as its statistics.
    fn serve(&self, counted: &Value) {
        self.file("sys/kernel/sched_ext/root/ops", "equipoise\n");
        let answers = [
            (
                "run/scx_equipoise/control",
                json!({ "Done": "policy = \"equipoise\"\n" }),
            ),
            (
                "run/scx/root/stats",
                json!({ "errno": 0, "args": { "resp": counted } }),
            ),
        ];
        for (name, answer) in answers {
            let path = self.root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let listener = UnixListener::bind(path).unwrap();
            thread::spawn(move || {
                for client in listener.incoming().flatten() {
                    for _ in BufReader::new(&client).lines().map_while(Result::ok) {
                        let _ = writeln!(&client, "{answer}");
                    }
                }
            });
        }
    }
}

/// Checks that docs/top.md, or docs/top-wide.md for a wide screen, has `screen` after the comment `<!-- NAME -->`. With
/// EQUIPOISE_DOCS set (`make docs`), writes `screen` there instead.
#[track_caller]
fn documented(name: &str, screen: &str) {
    let page = match name.ends_with("200x60") {
        true => "../../docs/top-wide.md",
        false => "../../docs/top.md",
    };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = fs::read_to_string(&page).unwrap();
    let start = format!("<!-- {name} -->\n\n```text\n");
    let (before, rest) = text.split_once(&start).expect("the screen's comment");
    let (shown, after) = rest.split_once("```").unwrap();
    if std::env::var_os("EQUIPOISE_DOCS").is_some() {
        fs::write(&page, format!("{before}{start}{screen}```{after}")).unwrap();
    } else {
        assert_eq!(shown, screen, "{name}: `make docs` writes the page");
    }
}

/// A recorded thread: pid, tid, name, ticks, CPU, ns run, ns waited, turns, migrations.
type RecordedThread = (u32, u32, String, u64, usize, u64, u64, u64, u64);

/// A refresh in the guest: the counts of the kernel that `top` reads.
#[derive(serde::Deserialize)]
struct Recorded {
    /// The time since the first refresh.
    ms: u64,
    /// For each CPU, the fields of its line in /proc/stat; `schedstat` has the last fields of its line in
    /// /proc/schedstat.
    stat: Vec<String>,
    schedstat: Vec<String>,
    threads: Vec<RecordedThread>,
    /// The lines of /sys/kernel/sched_ext/root/events.
    events: Vec<String>,
}

/// The screens of the guest's samples, in both sizes.
fn recorded(name: &str, ops: Option<&str>, counted: Option<Value>) -> [String; 2] {
    let all: std::collections::BTreeMap<String, Vec<Recorded>> =
        serde_json::from_str(include_str!("recorded.json")).unwrap();
    let steps = &all[name];
    let root = tempfile::tempdir().unwrap();
    let board = Board {
        root,
        has_schedstat: true,
    };
    board.file("sys/devices/system/cpu/online", "0-3\n");
    for cpu in 0..4 {
        let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        board.file(&format!("{topology}/package_cpus_list"), "0-3\n");
        board.file(
            &format!("{topology}/thread_siblings_list"),
            &format!("{cpu}\n"),
        );
    }
    let show = |step: &Recorded| {
        let numbered = |list: &[String], between: &str| -> String {
            let lines = list.iter().enumerate();
            lines
                .map(|(cpu, text)| format!("cpu{cpu} {between}{text}\n"))
                .collect()
        };
        board.file("proc/stat", &numbered(&step.stat, ""));
        board.file("proc/schedstat", &numbered(&step.schedstat, "0 0 0 0 0 0 "));
        for (pid, tid, name, ticks, cpu, ran, waited, turns, migrations) in &step.threads {
            let folder = format!("proc/{pid}/task/{tid}");
            let zeros = |fields: usize| vec!["0"; fields].join(" ");
            let (between, after) = (zeros(10), zeros(23));
            let text = format!("{tid} ({name}) S {between} {ticks} 0 {after} {cpu} 0\n");
            board.file(&format!("{folder}/stat"), &text);
            board.file(
                &format!("{folder}/schedstat"),
                &format!("{ran} {waited} {turns}\n"),
            );
            board.file(
                &format!("{folder}/sched"),
                &format!("se.nr_migrations : {migrations}\n"),
            );
        }
        if ops.is_some() {
            board.file("sys/kernel/sched_ext/root/events", &step.events.join("\n"));
        }
    };
    let state = if ops.is_some() { "enabled" } else { "disabled" };
    board.file("sys/kernel/sched_ext/state", &format!("{state}\n"));
    if let Some(ops) = ops {
        board.file("sys/kernel/sched_ext/root/ops", &format!("{ops}\n"));
    }
    if let Some(counted) = counted {
        board.serve(&counted);
    }
    show(&steps[0]);
    let mut watch = Watch::begin(Computer::at(board.root.path()).unwrap()).unwrap();
    let mut state = State::new(Duration::from_secs(10));
    for (step, before) in steps[1..].iter().zip(steps) {
        show(step);
        state.show(watch.next_after(Duration::from_millis(step.ms - before.ms)));
    }
    [(80, 24), (200, 60)].map(|(width, height)| drawn(&watch.computer, &state, width, height))
}

#[test]
fn recorded_in_a_guest_without_a_scheduler() {
    let [small, large] = recorded("none", None, None);
    documented("Linux's own, 80x24", &small);
    documented("Linux's own, 200x60", &large);
}

#[test]
fn recorded_in_a_guest_with_equipoise() {
    // The counts of scx_equipoise were recorded for one second; the screen shows an interval of 22.8 s.
    let count = |in_a_second: u64| (in_a_second * 228 + 5) / 10;
    let callback = |calls: u64, ns: f64| json!({ "calls": count(calls), "ns_per_call": ns });
    let counted = json!({
        "pulled": count(1), "idle_hits": count(31), "queue_waits": count(11),
        "wakeup_preemptions": count(6), "energy_uj": {},
        "callbacks": {
            "dispatch": callback(67, 14636.0),
            "enqueue": callback(9, 28754.0),
            "select_cpu": callback(39, 16180.0),
            "stopping": callback(41, 5656.0),
            "tick": callback(220, 6871.0),
            "update_idle": callback(64, 2947.0),
        },
    });
    let [small, large] = recorded("equipoise", Some("equipoise"), Some(counted));
    documented("scx_equipoise, 80x24", &small);
    documented("scx_equipoise, 200x60", &large);
}

#[test]
fn recorded_in_a_guest_with_scx_simple() {
    let [small, large] = recorded("simple", Some("simple"), None);
    documented("scx_simple, 80x24", &small);
    documented("scx_simple, 200x60", &large);
}

#[test]
fn with_equipoise_in_24_lines() {
    let board = Board::new();
    board.serve(&json!({}));
    documented("with equipoise, 80x24", &board.screen(80, 24, |_| {}));
}

#[test]
fn with_equipoise_in_60_lines() {
    let board = Board::new();
    board.serve(&json!({
        "pulled": 31, "newidle_calls": 870, "newidle_pulled": 112, "misfit_moves": 2,
        "idle_hits": 1030, "waker_hits": 44, "queue_waits": 260, "wakeup_preemptions": 71,
        "energy_uj": { "package-0": 3_120_000 },
        "callbacks": {
            "select_cpu": { "calls": 1100, "ns_per_call": 410.0 },
            "dispatch": { "calls": 2600, "ns_per_call": 280.0 },
        },
    }));
    let screen = board.screen(200, 60, |_| {});
    for expected in [
        "Waking or new tasks that got an idle CPU",
        "1030.0",
        "select_cpu(), 410 ns per call, 0.05 % of a CPU",
        "3.12 W",
    ] {
        assert!(screen.contains(expected), "{expected}: {screen}");
    }
    assert!(!screen.contains("no decisions"), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 200));
}

#[test]
fn with_another_scheduler() {
    let board = Board::new();
    board.file("sys/kernel/sched_ext/root/ops", "simple\n");
    let old = board.screen(80, 24, |state| state.shows_scheduler = true);
    assert!(old.starts_with("scx_simple, 8 CPUs"), "{old}");
    assert!(
        old.contains("sched_ext counts events from Linux 6.15 on"),
        "{old}"
    );

    let event = |number: u64| {
        let text = format!("SCX_EV_SELECT_CPU_FALLBACK 0\nSCX_EV_REFILL_SLICE_DFL {number}\n");
        board.file("sys/kernel/sched_ext/root/events", &text);
    };
    event(40);
    let mut watch = Watch::begin(Computer::at(board.root.path()).unwrap()).unwrap();
    event(65);
    let interval = watch.next_after(Duration::from_secs(1));
    assert_eq!(interval.events["SCX_EV_REFILL_SLICE_DFL"], 25.0);
    assert!(interval.missing.is_empty(), "{:?}", interval.missing);
}

#[test]
fn without_a_scheduler() {
    let board = Board {
        has_schedstat: false,
        ..Board::new()
    };
    for file in ["proc/schedstat", "sys/kernel/sched_ext"] {
        let _ = fs::remove_file(board.root.path().join(file));
    }
    for (tid, ..) in THREADS {
        let _ = fs::remove_file(
            board
                .root
                .path()
                .join(format!("proc/{tid}/task/{tid}/schedstat")),
        );
    }
    documented(
        "without a scheduler, help",
        &board.screen(80, 24, |state| {
            state.shows_help = true;
        }),
    );
}

#[test]
fn many_cpus_are_a_block_each() {
    let board = Board::new();
    let online = "sys/devices/system/cpu/online";
    board.file(online, "0-127\n");
    let stat: String = (0..128).map(|cpu| format!("cpu{cpu} 1 0 0 1\n")).collect();
    for cpu in 8..128 {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}");
        board.file(&format!("{folder}/cpu_capacity"), "1024\n");
    }
    board.file("proc/stat", &stat);
    let mut watch = Watch::begin(Computer::at(board.root.path()).unwrap()).unwrap();
    board.file("proc/stat", &stat.replace(" 1 0 0 1", " 3 0 0 3"));
    let mut state = State::new(Duration::from_secs(1));
    state.show(watch.next_after(Duration::from_secs(1)));
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal
        .draw(|frame| draw(frame, &watch.computer, &state))
        .unwrap();
    let screen = terminal.backend().to_string();
    assert_eq!(screen.matches('▅').count(), 128, "{screen}");
    assert!(screen.contains("thread "), "{screen}");
}
