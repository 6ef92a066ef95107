//! Tests with whole files: some run, some are refused with a message about a line, and parsing never panics.

use super::*;

mod examples;
mod garbage;
mod refused;
mod remarks;
mod runs;
mod timeline;

fn parse(text: &str) -> Result<RtApp, Box<BadInput>> {
    RtApp::parse("t", "t.json", text, None)
}

/// Each row of `table` has line 2 of a file, which `read` reads; the beginning of the message about it; and a part
/// of what is expected there.
#[track_caller]
fn all_refused(read: impl Fn(&str) -> Result<RtApp, Box<BadInput>>, table: &str) {
    for row in table.trim().lines() {
        let [line, message, expected] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("not three cells: {row}");
        };
        let Err(error) = read(line) else {
            panic!("accepted: {line}");
        };
        let wanted = format!("t.json:2: {message}");
        assert!(error.message().starts_with(&wanted), "{}", error.message());
        assert!(error.expected().contains(expected), "{}", error.expected());
    }
}
