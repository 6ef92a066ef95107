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

/// The prefixes of commands that the test below does not run, each with the reason. For all of them,
/// the test of mentioned commands checks that their parts exist.
const ELSEWHERE: [(&str, &str); 6] = [
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
];

/// The arguments of `equipoise` if `line` runs it, by its name or with cargo.
fn arguments(line: &str) -> Option<Vec<&str>> {
    let mut words = words(line).into_iter();
    match words.next()? {
        "equipoise" => Some(words.collect()),
        "cargo" if line.starts_with("cargo run ") => {
            Some(words.skip_while(|&word| word != "--").skip(1).collect())
        }
        _ => None,
    }
}

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
            let args = arguments(&line);
            let mut args = args.unwrap_or_else(|| panic!("{name}: {line}: not run by any test"));
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
    assert!(commands >= 7, "{commands} commands");
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

/// The text of the repository's file at `path`.
fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Fails unless `equipoise` has the subcommand and all options of `args`.
fn has_options(args: &[&str]) {
    let args = args.split(|&arg| arg == "--").next().unwrap();
    let is_name = |arg: &&&str| !arg.starts_with(['-', '.']);
    let mut help: Vec<&str> = args.iter().take_while(is_name).copied().collect();
    help.push("--help");
    let output = command(&help).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    for option in args.iter().filter(|arg| arg.starts_with("--")) {
        let option = option.split('=').next().unwrap();
        assert!(text(&output.stdout).contains(option), "no {option}");
    }
}

/// Fails unless the Makefile has the target, and make knows all commands to run for it.
fn has_target(target: &str) {
    assert!(read("Makefile").contains(&format!("\n{target}:")));
    let mut make = std::process::Command::new("make");
    // When make runs this test, its own options are not meant for this make.
    let make = make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    let make = make.args(["--dry-run", target]).current_dir(root());
    match make.output() {
        Ok(output) => assert!(output.status.success(), "{}", text(&output.stderr)),
        Err(error) => eprintln!("skipped: make --dry-run {target}: {error}"),
    }
}

/// Fails unless the script exists and mentions all options of `args`.
fn has_script(script: &str, args: &[&str]) {
    if script.contains(['*', '{']) || root().join(script).is_dir() {
        return;
    }
    let script = read(script);
    for option in args.iter().filter(|arg| arg.starts_with("--")) {
        let option = option.split('=').next().unwrap();
        assert!(script.contains(option), "no {option}");
    }
}

/// Fails unless the loader has all options of `args`. This test cannot run the loader, because its
/// build requires clang.
fn loader_has_options(args: &[&str]) {
    let cli = read("crates/scx_equipoise/src/cli.rs");
    for option in args.iter().filter_map(|arg| arg.strip_prefix("--")) {
        let option = option.split('=').next().unwrap();
        let field = format!(" {}: ", option.replace('-', "_"));
        assert!(cli.contains(&field), "no --{option}");
    }
    if let Some(name) = args.first().filter(|arg| !arg.starts_with('-')) {
        assert!(cli.to_lowercase().contains(&format!(" {name} {{")));
    }
}

/// Fails unless the packages, folders, tests and benchmarks of cargo's `args` exist.
fn has_packages(args: &[&str]) {
    let crates: Vec<PathBuf> = std::fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let args = args.split(|&arg| arg == "--").next().unwrap();
    for pair in args.windows(2) {
        let exists = match pair[0] {
            "-p" => crates.iter().any(|folder| {
                let name = format!("\nname = \"{}\"\n", pair[1]);
                std::fs::read_to_string(folder.join("Cargo.toml"))
                    .is_ok_and(|manifest| manifest.contains(&name))
            }),
            "--path" => root().join(pair[1]).join("Cargo.toml").is_file(),
            "--test" | "--bench" => crates.iter().any(|folder| {
                let path = folder.join(format!("{}es", &pair[0][2..]).replace("testes", "tests"));
                path.join(pair[1]).is_dir() || path.join(format!("{}.rs", pair[1])).is_file()
            }),
            _ => true,
        };
        assert!(exists, "no {} {}", pair[0], pair[1]);
    }
}

/// Every command that a page mentions, even one that no test can run, has the options that the page
/// gives it; scripts, packages and targets exist.
#[test]
fn commands_that_a_page_mentions_exist() {
    let tutorials = std::fs::read_dir(root().join("docs/tutorials")).unwrap();
    let tutorials = tutorials.map(|entry| entry.unwrap().path());
    let recording = root().join("docs/recording.md");
    let mut checked = 0;
    for page in pages().into_iter().chain(tutorials).chain([recording]) {
        let name = page.strip_prefix(root()).unwrap().display();
        for line in mentioned(&std::fs::read_to_string(&page).unwrap()) {
            let line = line.strip_prefix("sudo ").unwrap_or(&line);
            eprintln!("{name}: {line}");
            let words = words(line);
            match words[..] {
                ["equipoise", "help", command_name] => {
                    let output = command(&["help", command_name]).output().unwrap();
                    assert!(output.status.success());
                }
                ["equipoise", ref args @ ..] if !args.is_empty() => has_options(args),
                ["make", target, ..] if !target.starts_with('-') => has_target(target),
                ["cargo", ref args @ ..] if !args.is_empty() => has_packages(args),
                [program, ref args @ ..] if program.ends_with("scx_equipoise") => {
                    loader_has_options(args);
                }
                [script, ref args @ ..]
                    if script.starts_with("vm/") || script.starts_with("tests/") =>
                {
                    has_script(script, args);
                }
                _ => continue,
            }
            checked += 1;
        }
    }
    assert!(checked >= 130, "{checked} commands");
}

/// README's picture is the output of the command next to it.
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
