//! libbpf's messages while it loads a scheduler. If the verifier refuses a program, the messages
//! contain megabytes of the verifier's log, which belong in a file and not on a terminal.

use anyhow::{Context, Result};
use libbpf_rs::PrintLevel;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

/// The size of the largest log that is kept, in bytes. The beginning of a longer log is dropped, because the verifier's
/// verdict is at the end.
const MOST_KEPT: usize = 16 << 20;

static KEPT: Mutex<String> = Mutex::new(String::new());

/// Keeps libbpf's warnings from now on; if `verbose` is set, also prints all of libbpf's messages.
pub fn keep(verbose: bool) {
    let callback = if verbose {
        keep_and_print
    } else {
        keep_quietly
    };
    let level = match verbose {
        true => PrintLevel::Debug,
        false => PrintLevel::Warn,
    };
    libbpf_rs::set_print(Some((level, callback)));
}

/// Drops the messages, because the scheduler is loaded.
pub fn forget() {
    *kept() = String::new();
}

/// Writes the messages to a new file, and returns its path. `None` if there are no messages.
pub fn save() -> Result<Option<PathBuf>> {
    let text = std::mem::take(&mut *kept());
    if text.is_empty() {
        return Ok(None);
    }
    let mut file = tempfile::Builder::new()
        .prefix("scx_equipoise-")
        .suffix(".log")
        .tempfile()
        .context("cannot make a file for the verifier's log")?;
    file.write_all(text.as_bytes())
        .context("cannot write the verifier's log")?;
    Ok(Some(file.into_temp_path().keep()?))
}

fn kept() -> MutexGuard<'static, String> {
    KEPT.lock().expect("no holder panics")
}

fn keep_quietly(_: PrintLevel, text: String) {
    append(&mut kept(), &text);
}

fn keep_and_print(level: PrintLevel, text: String) {
    eprint!("{text}");
    if matches!(level, PrintLevel::Warn) {
        keep_quietly(level, text);
    }
}

/// Appends `text`, and drops the excess from the front.
fn append(kept: &mut String, text: &str) {
    kept.push_str(text);
    if kept.len() > MOST_KEPT {
        let surplus = kept.len() - MOST_KEPT;
        kept.drain(..kept.ceil_char_boundary(surplus));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_log_is_kept() {
        let mut kept = String::new();
        append(&mut kept, &"ä".repeat(MOST_KEPT / 2));
        append(&mut kept, "verdict");
        assert!(kept.len() <= MOST_KEPT && kept.ends_with("verdict"));
        assert!(kept.starts_with('ä'));
    }

    #[test]
    fn libbpf_s_messages_about_a_failure_are_in_a_file() {
        assert_eq!(save().unwrap(), None);
        keep_quietly(PrintLevel::Warn, "R1 !read_ok\n".to_owned());
        let path = save().unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "R1 !read_ok\n");
        assert_eq!(save().unwrap(), None);
        std::fs::remove_file(path).unwrap();
    }
}
