//! ftrace's text within a page of Android's systrace, or within Chrome's JSON.

use super::{Sink, text};
use machine::input::BadInput;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The start of the element of a page that has the text.
const SCRIPT: &str = "class=\"trace-data\"";

pub fn is_page(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&head[..head.len().min(256)]);
    let head = head.trim_start().to_ascii_lowercase();
    head.starts_with("<!doctype html") || head.starts_with("<html")
}

/// Is this the beginning of a JSON object? A thread's name may begin with a brace, too.
pub fn is_json(head: &[u8]) -> bool {
    let inside = head.trim_ascii_start().strip_prefix(b"{");
    inside.is_some_and(|it| matches!(it.trim_ascii_start().first(), None | Some(b'"' | b'}')))
}

pub fn each_of_page(file: &str, page: &[u8], sink: &mut Sink<'_>) -> Result<(), Box<BadInput>> {
    let page = String::from_utf8_lossy(page);
    let (mut lines, mut found) = (text::Lines::new(file), false);
    for (at, _) in page.match_indices(SCRIPT) {
        let Some(start) = page[at..].find('>').map(|end| at + end + 1) else {
            break;
        };
        let end = page[start..].find("</script>");
        let inside = &page[start..end.map_or(page.len(), |end| start + end)];
        // Other elements have data of other kinds, such as the list of processes.
        if !inside.trim_start().starts_with("# tracer") {
            continue;
        }
        found = true;
        let line = page[..start].matches('\n').count() as u64 + 1;
        lines.add(line, inside.as_bytes())?;
    }
    match found {
        true => lines.pass(sink),
        false => Err(Box::new(BadInput::whole(
            format!("{file}: the page has no trace"),
            "expected the page of systrace, which has ftrace's text in a <script class=\"trace-data\">",
        ))),
    }
}

/// The object form of Chrome's trace event format.
#[derive(Deserialize)]
struct Chrome {
    #[serde(rename = "systemTraceEvents")]
    system: Option<String>,
    /// The version of a recorded load, which is not a trace.
    recording: Option<IgnoredAny>,
}

pub fn each_of_json(file: &str, json: &[u8], sink: &mut Sink<'_>) -> Result<(), Box<BadInput>> {
    const EXPECTED: &str =
        "expected Chrome's trace of the system, whose \"systemTraceEvents\" is ftrace's text";
    let bad = |line: usize, message: String, expected: &str| {
        Box::new(BadInput::whole(
            format!("{file}:{line}: {message}"),
            expected,
        ))
    };
    let chrome: Chrome = serde_json::from_slice(json)
        .map_err(|error| bad(error.line(), error.to_string(), EXPECTED))?;
    let text = chrome.system.ok_or_else(|| match chrome.recording {
        Some(_) => bad(
            1,
            "the file is a recorded load already".to_owned(),
            "expected a trace; `--workload FILE` runs a recorded load",
        ),
        None => bad(1, "no scheduling events".to_owned(), EXPECTED),
    })?;
    let file = format!("{file}: systemTraceEvents");
    let mut lines = text::Lines::new(&file);
    lines.add(1, text.as_bytes())?;
    lines.pass(sink)
}
