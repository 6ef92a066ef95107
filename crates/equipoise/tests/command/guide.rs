//! The commands of README and the guide, run as their reader types them.

use crate::common::{command, root, text};
use crate::foreign::fifo;
use std::path::{Path, PathBuf};

/// The pieces of `page` between fences: the text behind the first fence, and the lines.
fn blocks(page: &str) -> Vec<(&str, String)> {
    let mut blocks: Vec<(&str, String)> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(_) if inside => inside = false,
            Some(kind) => {
                blocks.push((kind, String::new()));
                inside = true;
            }
            None if inside => {
                let (_, lines) = blocks.last_mut().unwrap();
                lines.push_str(line);
                lines.push('\n');
            }
            None => {}
        }
    }
    blocks
}

/// Follows a tutorial in an empty folder, and returns the number of its commands.
fn follow(name: &str) -> usize {
    let page = root().join("docs/tutorials").join(name);
    let page = std::fs::read_to_string(page).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut commands = 0;
    for (kind, lines) in blocks(&page) {
        if let Some((_, file)) = kind.split_once("file=") {
            std::fs::write(folder.path().join(file), lines).unwrap();
        } else if kind == "console" {
            for typed in lines
                .lines()
                .filter_map(|line| line.strip_prefix("$ equipoise "))
            {
                commands += 1;
                let words: Vec<&str> = typed.split_whitespace().collect();
                let output = command(&words).current_dir(folder.path()).output().unwrap();
                assert!(output.status.success(), "{typed}: {}", text(&output.stderr));
                assert!(!output.stdout.is_empty(), "{typed}");
            }
        }
    }
    commands
}

#[test]
fn a_board_engineer_s_commands_work() {
    assert_eq!(follow("board.md"), 7);
}

#[test]
fn a_laptop_owner_s_commands_work() {
    assert_eq!(follow("laptop.md"), 3);
}

#[test]
fn a_scheduler_developer_s_commands_work() {
    assert_eq!(follow("scheduler.md"), 6);
}

/// mdBook shows the pages that SUMMARY.md names.
#[test]
fn the_guide_names_all_of_its_pages() {
    let docs = root().join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let named: Vec<&str> = summary
        .split("](")
        .skip(1)
        .map(|rest| rest.split_once(')').unwrap().0)
        .collect();
    for page in &named {
        assert!(docs.join(page).is_file(), "{page}");
    }
    for folder in [docs.clone(), docs.join("tutorials"), docs.join("design")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let page = path.strip_prefix(&docs).unwrap();
            let is_page =
                path.extension() == Some("md".as_ref()) && page != Path::new("SUMMARY.md");
            assert!(
                !is_page || named.contains(&page.to_str().unwrap()),
                "{}",
                page.display()
            );
        }
    }
}

/// Runs the commands of docs/recording.md that need neither root nor a real kernel, with the files
/// that the other commands would have written.
#[test]
fn a_recorder_s_commands_work() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in [
        ("machine.toml", "detected.toml"),
        ("sysbench-mutex.dat", "before.dat"),
        ("sysbench-mutex.dat", "after.dat"),
    ] {
        std::fs::copy(fixtures.join(from), folder.path().join(to)).unwrap();
    }
    let page = std::fs::read_to_string(root().join("docs/recording.md")).unwrap();
    let all = blocks(&page);
    let lines = all.iter().flat_map(|(_, lines)| lines.lines());
    let typed: Vec<&str> = lines.filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(typed.len() <= 10, "{typed:?}");
    let mut last = String::new();
    let ours = typed
        .iter()
        .filter_map(|line| line.strip_prefix("equipoise "));
    for typed in ours {
        let words: Vec<&str> = typed.split_whitespace().collect();
        let output = command(&words).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{typed}: {}", text(&output.stderr));
        last = text(&output.stdout).to_owned();
    }
    assert!(
        last.contains("measured") && last.contains("Order"),
        "{last}"
    );
}

/// The words of a command, without quotes, comment and redirection.
fn words(typed: &str) -> Vec<&str> {
    typed
        .split_whitespace()
        .take_while(|word| !word.starts_with(['#', '>']))
        .map(|word| word.trim_matches('\''))
        .collect()
}

/// The commands in the fences of `page`, each on one line.
fn typed(page: &str) -> Vec<String> {
    let blocks = blocks(page);
    let lines = blocks.iter().map(|(_, lines)| lines.replace("\\\n", ""));
    lines
        .flat_map(|lines| {
            let commands = lines.lines().filter_map(|line| line.strip_prefix("$ "));
            commands.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// README and the pages of the guide, except the tutorials and docs/recording.md, which the tests
/// above follow.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![
        root().join("README.md"),
        root().join("ARCHITECTURE.md"),
        root().join("CONTRIBUTING.md"),
        root().join("vm/README.md"),
    ];
    for folder in ["docs", "docs/design"] {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        pages.extend(entries.map(|entry| entry.unwrap().path()));
    }
    pages.retain(|page| {
        page.extension() == Some("md".as_ref()) && !page.ends_with("docs/recording.md")
    });
    pages.sort();
    pages
}

/// The prefixes of commands that the test below does not run, each with the reason.
const ELSEWHERE: [(&str, &str); 7] = [
    (
        "sudo ",
        "requires root, and mostly a real kernel; vm/test runs these",
    ),
    ("cargo ", "builds with this test's own target folder locked"),
    ("make ", "runs this test; CI runs make"),
    ("git ", "fetches over the network"),
    ("pip ", "fetches over the network; tests/python runs it"),
    ("vm/", "starts virtual machines; vm/test runs these"),
    (
        "equipoise machine detect",
        "describes this computer; crates/detect tests it",
    ),
];

/// Each command of a page runs as it stands. Where it does not state a number of runs, two are
/// enough here.
#[test]
fn the_commands_of_every_page_work() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    for (from, to) in [
        ("machines/tc2.toml", "my-board.toml"),
        ("workloads/mixed.json", "my-rt-app.json"),
    ] {
        std::fs::copy(root().join(from), folder.path().join(to)).unwrap();
    }
    let simple = "const volatile bool fifo_sched;";
    file("scx_simple.bpf.c", &fifo("simple", "GPL", simple));
    let mine = "const volatile u64 slice_ns = 20000000;";
    file("scx_mine.bpf.c", &fifo("mine", "GPL", mine));
    let mut commands = 0;
    for page in pages() {
        let name = page.strip_prefix(root()).unwrap().display();
        for line in typed(&std::fs::read_to_string(&page).unwrap()) {
            if ELSEWHERE.iter().any(|(start, _)| line.starts_with(start)) {
                continue;
            }
            let words = words(&line);
            assert_eq!(words[0], "equipoise", "{name}: {line}");
            let mut args = words[1..].to_vec();
            let repeats = ["compare", "reproduce"].contains(&args[0]);
            if repeats && !args.contains(&"--runs") {
                args.extend(["--runs", "2"]);
            }
            let output = command(&args).current_dir(folder.path()).output().unwrap();
            let error = text(&output.stderr);
            assert!(output.status.success(), "{name}: {line}: {error}");
            assert!(!output.stdout.is_empty(), "{name}: {line}");
            commands += 1;
        }
    }
    assert!(commands >= 5, "{commands} commands");
}

/// The code spans of `page`'s running text, and the lines of its fences of shell commands.
fn mentioned(page: &str) -> Vec<String> {
    let (mut prose, mut mentioned, mut fence) = (String::new(), Vec::new(), None);
    for line in page.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(kind), None) => fence = Some(kind),
            (Some(_), Some(_)) => fence = None,
            (None, Some("sh")) => mentioned.push(line.to_owned()),
            (None, Some("console")) => mentioned.extend(line.strip_prefix("$ ").map(str::to_owned)),
            (None, Some(_)) => {}
            (None, None) => prose += &format!("{line} "),
        }
    }
    mentioned.extend(prose.split('`').skip(1).step_by(2).map(str::to_owned));
    mentioned
}

/// Every command that a page mentions, even one that no test can run, has the options that the page
/// gives it; scripts and Makefile targets exist.
#[test]
fn commands_that_a_page_mentions_exist() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let tutorials = std::fs::read_dir(root().join("docs/tutorials")).unwrap();
    let tutorials = tutorials.map(|entry| entry.unwrap().path());
    let recording = root().join("docs/recording.md");
    let mut checked = 0;
    for page in pages().into_iter().chain(tutorials).chain([recording]) {
        let name = page.strip_prefix(root()).unwrap().display();
        for line in mentioned(&std::fs::read_to_string(&page).unwrap()) {
            let line = line.strip_prefix("sudo ").unwrap_or(&line);
            let words = words(line);
            match words[..] {
                ["equipoise", "help", command_name] => {
                    let output = command(&["help", command_name]).output().unwrap();
                    assert!(output.status.success(), "{name}: {line}");
                }
                ["equipoise", ref args @ ..] if !args.is_empty() => {
                    let args = args.split(|&arg| arg == "--").next().unwrap();
                    let is_name = |arg: &&&str| !arg.starts_with(['-', '.']);
                    let mut help: Vec<&str> = args.iter().take_while(is_name).copied().collect();
                    help.push("--help");
                    let output = command(&help).output().unwrap();
                    let error = text(&output.stderr);
                    assert!(output.status.success(), "{name}: {line}: {error}");
                    for option in args.iter().filter(|arg| arg.starts_with("--")) {
                        let option = option.split('=').next().unwrap();
                        let has = text(&output.stdout).contains(option);
                        assert!(has, "{name}: {line}: no {option}");
                    }
                }
                ["make", target, ..] if !target.starts_with('-') => {
                    let has = makefile.contains(&format!("\n{target}:"));
                    assert!(has, "{name}: {line}: no such target");
                }
                [script, ..] if script.starts_with("vm/") || script.starts_with("tests/") => {
                    let is_pattern = script.contains(['*', '{']);
                    let exists = root().join(script).exists();
                    assert!(is_pattern || exists, "{name}: {line}: no such file");
                }
                _ => continue,
            }
            checked += 1;
        }
    }
    assert!(checked >= 100, "{checked} commands");
}

/// README's picture is the output of the command beside it.
#[test]
fn readmes_picture_is_up_to_date() {
    let page = std::fs::read_to_string(root().join("README.md")).unwrap();
    let after = |start: &str| page.split_once(start).unwrap().1;
    let (file, _) = after("](docs/").split_once(".svg)").unwrap();
    let (typed, _) = after("\n`equipoise ").split_once('`').unwrap();
    assert!(typed.ends_with("--format svg"), "{typed}");
    let output = command(&words(typed)).output().unwrap();
    let file = root().join("docs").join(file).with_extension("svg");
    let expected = std::fs::read(&file).unwrap();
    assert!(
        output.stdout == expected,
        "{}: run `equipoise {typed}` and look at the difference",
        file.display()
    );
}
