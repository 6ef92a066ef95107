//! The guide's commands, as its reader types them.

use crate::common::{command, root, text};
use std::path::Path;

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
/// that the others would have left.
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
