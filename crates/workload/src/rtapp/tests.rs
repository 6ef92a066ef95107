//! Whole files: which ones run, which are refused and on which line; and parsing never panics.

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
