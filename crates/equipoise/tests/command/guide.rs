//! README and the pages of docs: their links lead somewhere, and the commands that they mention exist.

use crate::common::{command, root, text};
use crate::printed::pages;
use std::path::{Path, PathBuf};

#[test]
fn the_book_names_all_of_its_pages() {
    let docs = root().join("docs");
    let summary = read("docs/SUMMARY.md");
    let named: Vec<PathBuf> = targets(&summary).map(|page| docs.join(page)).collect();
    for page in &named {
        assert!(page.is_file(), "{}", page.display());
    }
    for page in pages().iter().filter(|page| page.starts_with(&docs)) {
        let is_named = named.contains(page) || page.ends_with("SUMMARY.md");
        assert!(is_named, "{}: not in SUMMARY.md", page.display());
    }
}

const LONGEST: usize = 250;

#[test]
fn no_page_is_too_long() {
    for page in pages() {
        let lines = std::fs::read_to_string(&page).unwrap().lines().count();
        assert!(lines <= LONGEST, "{}: {lines} lines", page.display());
    }
    let lines = read("README.md").lines().count();
    assert!((70..=90).contains(&lines), "README.md: {lines} lines");
}

/// The targets of the links and images of `page`, outside of fences.
fn targets(page: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    let lines = page.lines().filter(move |line| {
        let fence = line.starts_with("```");
        inside ^= fence;
        !fence && !inside
    });
    let spans = lines.flat_map(|line| line.split("](").skip(1));
    spans
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter_map(|line| {
        let text = line.trim_start_matches('#');
        (text.len() < line.len() && text.starts_with(' ')).then(|| text.trim())
    });
    let anchor = |text: &str| -> String {
        let kept = text
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// Links lead to files and headings that exist, and links of the book stay in the book: source files have no page
/// there, so a page names them without a link.
#[test]
fn links_lead_somewhere() {
    let mut checked = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let name = page.strip_prefix(root()).unwrap().display();
        for target in targets(&text).filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            assert!(path.exists(), "{name}: {target} does not exist");
            let path = path.canonicalize().unwrap();
            let docs = root().join("docs").canonicalize().unwrap();
            let leaves = page.starts_with(root().join("docs")) && !path.starts_with(docs);
            // docs/machine-format.md is a file of its crate.
            let is_linked = path.ends_with("machine-format.md");
            assert!(!leaves || is_linked, "{name}: {target} leaves the book");
            if !anchor.is_empty() {
                let found = anchors(&std::fs::read_to_string(&path).unwrap());
                assert!(
                    found.iter().any(|it| it == anchor),
                    "{name}: no heading for {target}"
                );
            }
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked} links");
}

/// The words of a command, without quotes, comment and redirection.
pub fn words(typed: &str) -> Vec<&str> {
    typed
        .split_whitespace()
        .take_while(|word| !word.starts_with(['#', '>']))
        .map(|word| word.trim_matches('\''))
        .collect()
}

/// The arguments of `equipoise` if `line` runs it, by its name or with cargo.
pub fn arguments(line: &str) -> Option<Vec<&str>> {
    let mut words = words(line).into_iter();
    match words.next()? {
        "equipoise" => Some(words.collect()),
        "cargo" if line.starts_with("cargo run ") => {
            Some(words.skip_while(|&word| word != "--").skip(1).collect())
        }
        _ => None,
    }
}

/// The code spans of `page`'s running text, and the lines of its fences of shell commands.
fn mentioned(page: &str) -> Vec<String> {
    let (mut prose, mut mentioned, mut fence) = (String::new(), Vec::new(), None);
    for line in page.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(kind), None) => fence = Some(kind),
            (Some(_), Some(_)) => fence = None,
            (None, Some("sh")) => mentioned.push(line.to_owned()),
            (None, Some(kind)) if kind.starts_with("console") => {
                mentioned.extend(line.strip_prefix("$ ").map(str::to_owned));
            }
            (None, Some(_)) => {}
            (None, None) => prose += &format!("{line} "),
        }
    }
    mentioned.extend(prose.split('`').skip(1).step_by(2).map(str::to_owned));
    mentioned
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

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
    mentions(&read(script), args);
}

/// Fails unless the module of `tools/` exists, and it or those that it uses mention all options of `args`.
fn has_tool(module: &str, args: &[&str]) {
    let own = read(format!("{}.py", module.replace('.', "/")));
    mentions(
        &[own, read("tools/guest.py"), read("tools/mutants.py")].concat(),
        args,
    );
}

fn mentions(text: &str, args: &[&str]) {
    for option in args
        .iter()
        .filter(|arg| arg.starts_with("--") && **arg != "--help")
    {
        let option = option.split('=').next().unwrap();
        assert!(text.contains(option), "no {option}");
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
    let mut checked = 0;
    for page in pages() {
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
                ["python3", "-m", module, ref args @ ..] | [module, ref args @ ..]
                    if module.starts_with("tools.") && module != "tools.NAME" =>
                {
                    has_tool(module, args);
                }
                _ => continue,
            }
            checked += 1;
        }
    }
    assert!(checked >= 130, "{checked} commands");
}
