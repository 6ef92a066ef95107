//! README and every page of docs have the output and the pictures that their commands produce. With
//! EQUIPOISE_DOCS set (`make docs`), the tests write them into the pages instead.
//!
//! A fence `console` has commands after `$ `. Lines below a command are its output in a terminal of 100
//! columns. `console` may be followed by the part of the output that is shown: `parts=2-3`, its second and
//! third part (a blank line ends a part), and `lines=8`, its first eight lines. `…` stands for lines that are
//! left out. A block with `file=NAME` is written to this file, in the folder in which the page's commands
//! run.
//!
//! A comment `<!-- picture: equipoise ... --format svg -->` above an image has the command that draws it. A
//! comment `<!-- terminal` names commands, one a line, with the same options in front: the image is a picture
//! of a terminal after these commands.

use crate::common::{command, root, text};
use crate::foreign::fifo;
use crate::guide::{arguments, words};
use crate::machines::write_sysfs;
use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS: &str = "100";
const GAP: &str = "…\n";

pub fn renews() -> bool {
    std::env::var_os("EQUIPOISE_DOCS").is_some()
}

/// Fails unless `path` has the text `made`, or writes it.
#[track_caller]
pub fn documented(path: &Path, made: &str) {
    let found = fs::read_to_string(path).unwrap_or_default();
    if found == made {
        return;
    }
    if renews() {
        return fs::write(path, made).unwrap();
    }
    let line = found.lines().zip(made.lines()).position(|(a, b)| a != b);
    let line = line.unwrap_or(found.lines().count().min(made.lines().count()));
    panic!(
        "{}:{}: run `make docs` and look at the difference\n page: {}\n made: {}",
        path.display(),
        line + 1,
        found.lines().nth(line).unwrap_or("(end)"),
        made.lines().nth(line).unwrap_or("(end)"),
    );
}

/// Every page of docs, and those of other folders that name commands.
pub fn pages() -> Vec<PathBuf> {
    let top = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "vm/README.md",
    ];
    let mut pages: Vec<PathBuf> = top.iter().map(|name| root().join(name)).collect();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension() == Some("md".as_ref()) {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// The prefixes of commands that no page's test runs, each with the reason. For all of them, the test of
/// mentioned commands checks that their parts exist.
const ELSEWHERE: [(&str, &str); 9] = [
    (
        "sudo ",
        "requires root and a real kernel; vm/in-guest/guide runs these lines",
    ),
    (
        "cargo install ",
        "changes the user's home; vm/test builds the command",
    ),
    (
        "cargo build -",
        "builds with this test's own target folder locked; vm/test builds the loader",
    ),
    ("make ", "runs this test; tests/pristine runs `make test`"),
    ("git ", "fetches over the network"),
    ("pip ", "fetches over the network; tests/python runs it"),
    ("tests/", "fetches over the network"),
    (
        "packaging/",
        "installs the tools that it needs; tests/package runs it",
    ),
    (
        "equipoise trial ",
        "requires a terminal and a kernel; vm/in-guest/guide runs it",
    ),
];

#[derive(Clone, Copy, Default)]
struct Shown {
    parts: Option<(usize, usize)>,
    lines: Option<usize>,
}

impl Shown {
    /// From options such as `parts=2-3,lines=8`.
    fn new(options: &str) -> Shown {
        let mut shown = Shown::default();
        for option in options.split(',').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("parts", range)) => {
                    let (first, last) = range.split_once('-').unwrap_or((range, range));
                    shown.parts = Some((first.parse().unwrap(), last.parse().unwrap()));
                }
                Some(("lines", count)) => shown.lines = Some(count.parse().unwrap()),
                _ => panic!("unknown option of a block: {option}"),
            }
        }
        shown
    }

    fn of(&self, output: &str) -> String {
        let parts: Vec<&str> = output.trim_end_matches('\n').split("\n\n").collect();
        let (first, last) = self.parts.unwrap_or((1, parts.len()));
        let last = last.min(parts.len());
        assert!(
            first <= last,
            "the output has {} parts: {output}",
            parts.len()
        );
        let chosen = parts[first - 1..last].join("\n\n");
        let lines: Vec<&str> = chosen.lines().collect();
        let count = self.lines.unwrap_or(lines.len()).min(lines.len());
        let mut shown = String::new();
        if first > 1 {
            shown += GAP;
        }
        for line in &lines[..count] {
            shown += line;
            shown.push('\n');
        }
        if last < parts.len() || count < lines.len() {
            shown += GAP;
        }
        shown
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    for (from, to) in [
        (root().join("machines/tc2.toml"), "my-board.toml"),
        (root().join("workloads/mixed.json"), "my-rt-app.json"),
        (recorded.join("machine.toml"), "detected.toml"),
        (recorded.join("sysbench-mutex.dat"), "before.dat"),
        (recorded.join("sysbench-mutex.dat"), "after.dat"),
    ] {
        fs::copy(from, folder.path().join(to)).unwrap();
    }
    write_sysfs(&folder.path().join("my-board/sys"));
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    file(
        "scx_simple.bpf.c",
        &fifo("simple", "GPL", "const volatile bool fifo_sched;"),
    );
    file(
        "scx_mine.bpf.c",
        &fifo("mine", "GPL", "const volatile u64 slice_ns = 20000000;"),
    );
    folder
}

/// Standard output of the command `typed` in `folder`; with `colours` as a terminal gets it.
fn output(typed: &str, folder: &Path, more: &[&str], colours: bool) -> String {
    let args = arguments(typed).unwrap_or_else(|| panic!("{typed}: not run by any test"));
    let args = [&args[..], more].concat();
    let mut command = command(&args);
    command.current_dir(folder).env("COLUMNS", COLUMNS);
    if colours {
        command.env("CLICOLOR_FORCE", "1");
    }
    let output = command.output().unwrap();
    let error = text(&output.stderr);
    // The last command of docs/recording.md shows a recording that misses its bounds.
    let is_judged = args[0] == "validate" && output.status.code() == Some(4);
    assert!(output.status.success() || is_judged, "{typed}: {error}");
    let says = !output.stdout.is_empty() || args.contains(&"--out");
    assert!(says, "{typed}: {error}");
    text(&output.stdout)
}

struct Renewed {
    page: String,
    commands: usize,
}

/// Runs the commands of `page`, in order, in a folder of its own.
fn renewed(page: &str) -> Renewed {
    let folder = folder();
    let mut made = String::new();
    let mut commands = 0;
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        made += &format!("{line}\n");
        if let Some(comment) = line.strip_prefix("<!-- ") {
            let mut comment = comment.to_owned();
            while !comment.ends_with("-->") {
                let next = lines.next().expect("the end of a comment");
                made += &format!("{next}\n");
                comment += &format!("\n{next}");
            }
            let image = lines.peek().copied().unwrap_or_default();
            commands += draw(
                comment.trim_end_matches("-->").trim_end(),
                image,
                folder.path(),
            );
            continue;
        }
        let Some(kind) = line.strip_prefix("```") else {
            continue;
        };
        let mut block = String::new();
        for line in lines.by_ref().take_while(|line| *line != "```") {
            block += &format!("{line}\n");
        }
        if let Some((_, file)) = kind.split_once("file=") {
            fs::write(folder.path().join(file), &block).unwrap();
        } else if let Some(options) = kind.strip_prefix("console") {
            let shown = Shown::new(options.trim_start_matches(','));
            let (console, count) = console(&block, shown, folder.path());
            (block, commands) = (console, commands + count);
        }
        made += &format!("{block}```\n");
    }
    Renewed {
        page: made,
        commands,
    }
}

/// The lines of a block `console` with the output of its commands below them, and their number.
fn console(block: &str, shown: Shown, folder: &Path) -> (String, usize) {
    let (mut made, mut commands) = (String::new(), 0);
    let mut lines = block.lines().peekable();
    while let Some(line) = lines.next() {
        made += &format!("{line}\n");
        let Some(typed) = line.strip_prefix("$ ") else {
            panic!("not a command in a block of commands: {line}");
        };
        let mut typed = typed.to_owned();
        while let Some(begun) = typed.strip_suffix('\\') {
            let next = lines.next().expect("the rest of a command");
            made += &format!("{next}\n");
            typed = format!("{begun} {}", next.trim());
        }
        let mut has_output = false;
        while lines.next_if(|line| !line.starts_with("$ ")).is_some() {
            has_output = true;
        }
        if ELSEWHERE.iter().any(|(start, _)| typed.starts_with(start)) {
            assert!(!has_output, "{typed}: no test makes its output");
            continue;
        }
        commands += 1;
        // Without output, it is enough that the command works.
        let repeats = ["compare", "reproduce"]
            .iter()
            .any(|name| typed.contains(name));
        let more: &[&str] = match !has_output && repeats && !typed.contains("--runs") {
            true => &["--runs", "2"],
            false => &[],
        };
        let output = output(&typed, folder, more, false);
        if let Some((_, file)) = typed.split_once(" > ") {
            let file = words(file)[0];
            fs::write(folder.join(file), &output).unwrap();
        } else if has_output {
            made += &shown.of(&output);
        }
    }
    (made, commands)
}

/// Draws the picture that `comment` describes and the line `image` shows; returns the number of commands.
fn draw(comment: &str, image: &str, folder: &Path) -> usize {
    let is_picture = comment.strip_prefix("picture: ");
    let is_terminal = comment.strip_prefix("terminal\n");
    if is_picture.is_none() && is_terminal.is_none() {
        return 0;
    }
    let (_, file) = image.split_once("](").expect("an image below the comment");
    let name = file.split(')').next().unwrap().rsplit('/').next().unwrap();
    let file = root().join("docs").join(name);
    if let Some(typed) = is_picture {
        documented(&file, &output(typed, folder, &[], false));
        return 1;
    }
    let mut screen = String::new();
    let mut commands = 0;
    for line in is_terminal.unwrap().lines() {
        let (options, typed) = line.split_once(": ").expect("OPTIONS: COMMAND");
        let options = if options == "all" { "" } else { options };
        let output = output(typed, folder, &[], true);
        screen += &format!("\u{1b}[1;32m$\u{1b}[0m \u{1b}[1m{typed}\u{1b}[0m\n");
        screen += &Shown::new(options).of(&output);
        screen.push('\n');
        commands += 1;
    }
    documented(&file, &terminal(screen.trim_end()));
    commands
}

fn terminal(screen: &str) -> String {
    let drawn = anstyle_svg::Term::new().render_svg(screen);
    let after = |name: &str| {
        let (_, rest) = drawn.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once("px\"").unwrap().0.to_owned()
    };
    // Without a view box, a picture in a narrow column is cut instead of scaled.
    let view = format!(
        "<svg viewBox=\"0 0 {} {}\" ",
        after("width"),
        after("height")
    );
    format!("{}\n", drawn.trim_end().replacen("<svg ", &view, 1))
}

#[test]
fn pages_have_what_the_commands_print() {
    let pages = pages();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut commands = 0;
        loop {
            let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(path) = pages.get(index) else {
                return commands;
            };
            let page = fs::read_to_string(path).unwrap();
            let renewed = renewed(&page);
            documented(path, &renewed.page);
            commands += renewed.commands;
        }
    };
    let commands: usize = std::thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.map(|worker| worker.join().unwrap()).iter().sum()
    });
    assert!(commands >= 50, "{commands} commands");
}

#[test]
fn a_part_of_an_output_says_where_something_is_left_out() {
    let output = "a\n\nb\nc\nd\n\ne\n";
    for (options, shown) in [
        ("", output),
        ("parts=1", "a\n…\n"),
        ("parts=2", "…\nb\nc\nd\n…\n"),
        ("parts=2-3", "…\nb\nc\nd\n\ne\n"),
        ("parts=2,lines=2", "…\nb\nc\n…\n"),
        ("lines=3", "a\n\nb\n…\n"),
    ] {
        assert_eq!(Shown::new(options).of(output), shown, "{options}");
    }
}

#[test]
fn a_wrong_block_is_renewed() {
    let page =
        "text\n\n```console,parts=1,lines=1\n$ equipoise machine show tc2\nwrong\n```\n\nmore\n";
    let renewed = renewed(page);
    assert_eq!(renewed.commands, 1);
    assert!(
        renewed
            .page
            .starts_with("text\n\n```console,parts=1,lines=1\n$ equipoise machine show tc2\ntc2"),
        "{}",
        renewed.page
    );
    assert!(
        renewed.page.ends_with("…\n```\n\nmore\n"),
        "{}",
        renewed.page
    );
}
