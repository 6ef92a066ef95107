use super::*;
use serde::Deserialize;

#[test]
fn unexpected_is_one_word() {
    let split = split_expected;
    assert_eq!(split("unexpected key or value"), None);
    assert_eq!(
        split("unexpected `=`, expected a key"),
        Some(("unexpected `=`, ", "a key"))
    );
}

#[test]
fn a_key_of_the_whole_file_below_a_table_is_misplaced() {
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors matter")]
    struct Whole {
        name: String,
        runs: Option<u32>,
        load: std::collections::BTreeMap<String, String>,
    }
    for (line, expected) in [
        ("runs = 5", "expected `runs` before the file's first table"),
        ("name = 5", "expected a string"),
        ("walks = 5", "expected a string"),
    ] {
        let text = format!("name = \"a\"\n[load]\n{line}\n");
        let error = from_toml::<Whole>("f", &text).unwrap_err();
        assert_eq!(error.expected(), expected, "{line}");
    }
}

#[test]
fn endless_files_are_not_read_to_the_end() {
    let error = read_bytes(Path::new("/dev/zero"), "machine file").unwrap_err();
    assert_eq!(error.message(), "/dev/zero: longer than 256 MiB");
}

#[test]
fn the_end_of_a_text_can_be_pointed_at() {
    for text in ["a = [", "a = [\n", "a = \"\u{e9}", ""] {
        let bad = BadInput::at(
            "f",
            text,
            text.len()..text.len(),
            "unfinished",
            "expected more",
        );
        assert!(bad.message().starts_with("f:1: "), "{}", bad.message());
        let shown = bad.render(false);
        assert!(shown.contains("expected more"), "{shown}");
    }
}

#[test]
fn an_endless_line_is_not_shown() {
    let text = format!("\n{}x", " ".repeat(100_000));
    let bad = BadInput::at("f", &text, 50_000..50_001, "a blank", "expected more");
    let shown = bad.render(false);
    assert!(shown.contains("f:2: a blank"), "{shown}");
    assert!(shown.contains("expected more"), "{shown}");
    assert!(shown.len() < 200, "{shown}");
}

#[test]
fn a_line_is_shown_without_byte_order_mark_and_carriage_returns() {
    let text = "\u{feff}a = 1\r\nbb = x\r\n";
    let at = text.find('x').unwrap();
    let bad = BadInput::at("f.toml", text, at..at + 1, "no number", "expected a number");
    assert_eq!(
        bad.render(false),
        "error: f.toml:2: no number\n \
         --> f.toml:2:6\n  |\n2 | bb = x\n  |      ^ expected a number"
    );
}

#[test]
fn the_line_is_shown_with_a_mark_under_what_is_wrong() {
    let bad = BadInput::at(
        "f.toml",
        "a = 1\nbb = x\n",
        11..12,
        "no number",
        "expected a number",
    );
    assert_eq!(
        bad.render(false),
        "error: f.toml:2: no number\n \
         --> f.toml:2:6\n  |\n2 | bb = x\n  |      ^ expected a number"
    );
    let bad = BadInput::whole("soc.tml: not found", "expected a file");
    assert_eq!(
        bad.render(false),
        "error: soc.tml: not found\n |\n = help: expected a file"
    );
}

#[test]
fn toml_errors_say_what_was_expected() {
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(rename = "number")]
        _number: u32,
        #[serde(default, rename = "list")]
        _list: Vec<u32>,
    }
    for (text, line, message, expected) in [
        ("number = 1\nnumer = 2\n", 2, "numer", "number"),
        (
            "\nnumber = \"1\"\n",
            2,
            "invalid type",
            "expected a whole number from 0 to 4294967295",
        ),
        ("number = [1]\n", 1, "a list", "expected a whole number"),
        (
            "number = 1\n[list]\n",
            2,
            "a table",
            "expected a list of tables, each of which begins with `[[NAME]]`",
        ),
        (
            "number = 18446744073709551616\n",
            1,
            "integer `18446744073709551616`",
            "a whole number",
        ),
        ("", 1, "missing field", "expected `number`"),
    ] {
        let bad = from_toml::<File>("f", text).unwrap_err();
        assert!(
            bad.message().starts_with(&format!("f:{line}: ")),
            "{}",
            bad.message()
        );
        assert!(bad.message().contains(message), "{}", bad.message());
        assert!(bad.expected().contains(expected), "{}", bad.expected());
    }
}

#[test]
fn all_errors_of_a_file_are_shown_at_once() {
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Core {
        #[serde(rename = "speed")]
        _speed: u32,
    }
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(rename = "hz")]
        _hz: u32,
        #[serde(rename = "core")]
        _core: Vec<Core>,
    }
    let lines = |text: &str| -> Vec<String> {
        let bad = from_toml::<File>("f", text).unwrap_err();
        let shown = bad.render(false);
        let errors = shown
            .lines()
            .filter_map(|line| line.strip_prefix("error: f:"));
        errors
            .map(|line| line.split(':').next().unwrap().to_owned())
            .collect()
    };
    let unfit = "hz = \"a\"\ncolour = 1\n[[core]]\nspeed = 1\n[[core]]\nspeed = 2\nsped = 3\n";
    assert_eq!(lines(unfit), ["1", "2", "7"]);
    let syntax = "hz = = 1\n[[core]]\nspeed = 1\n[[core]\nspeed 2\n";
    assert_eq!(lines(syntax), ["1", "4", "5"]);
    // Keys and values on other lines are reported, unless a table's head is wrong, as in `syntax`.
    let both = "hz = = 1\ncolour = 1\n[[core]]\nspeed = 1\ncolour 2\n[[core]]\nspeed = \"x\"\n";
    assert_eq!(lines(both), ["1", "2", "5"]);
    let list = "hz = [1,\n2\n[[core]]\nspeed = \"x\"\n";
    assert!(lines(list).len() <= 2, "{:?}", lines(list));
    assert_eq!(lines("[[core]]\nspeed = 1\n").len(), 1);
}
