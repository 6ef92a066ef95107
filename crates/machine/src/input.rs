//! Bad input: one message with the file, the line and what was expected. The crates that read a user's files share this
//! module.

use crate::words::with_article;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use cage::text::{lines, plain};
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use thiserror::Error;

pub use kind::description;
pub use names::{one_of, one_of_described, suggest};

mod kind;
mod names;

/// The longest line that is shown. A longer line was probably written by a program, and would bury the message.
const LONGEST_SHOWN: usize = 1000;

/// A byte order mark, with which some editors begin a file.
pub const BOM: char = '\u{feff}';

/// An error in the user's input.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct BadInput {
    message: String,
    expected: String,
    place: Option<Place>,
    /// Further errors of the same file, in the order of their places.
    more: Vec<BadInput>,
}

#[derive(Debug)]
struct Place {
    file: String,
    text: String,
    bytes: Range<usize>,
}

impl Place {
    /// The bytes `at` of `text` as they are shown: without a byte order mark, and with line feeds instead of CRLF.
    fn shown(file: &str, text: &str, at: Range<usize>) -> Place {
        let mark = if text.starts_with(BOM) {
            BOM.len_utf8()
        } else {
            0
        };
        let shown = |byte: usize| {
            let before = &text.as_bytes()[..byte];
            let crlf = before.windows(2).filter(|two| two == b"\r\n").count();
            (byte - crlf).saturating_sub(mark)
        };
        Place {
            file: file.to_owned(),
            text: text[mark..].replace("\r\n", "\n"),
            bytes: shown(at.start)..shown(at.end),
        }
    }
}

impl BadInput {
    /// An error in the bytes `at` of `text`, the content of `file`: `message` says what is wrong,
    /// and `expected` what was expected in its place.
    pub fn at(
        file: &str,
        text: &str,
        at: Range<usize>,
        message: impl Into<String>,
        expected: impl Into<String>,
    ) -> BadInput {
        // At the end of the text there is no character to mark, so mark the last one.
        let last = text.char_indices().next_back().map_or(0, |(last, _)| last);
        let start = at.start.min(last);
        let line = text.as_bytes()[..start]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count()
            + 1;
        let message = format!("{file}:{line}: {}", message.into());
        let shown = text.lines().nth(line - 1).unwrap_or_default().len();
        if !(1..=LONGEST_SHOWN).contains(&shown) {
            return BadInput::whole(message, expected);
        }
        BadInput {
            message,
            expected: expected.into(),
            place: Some(Place::shown(
                file,
                text,
                start..at.end.clamp(start, text.len()),
            )),
            more: Vec::new(),
        }
    }

    /// An error without a place in a text, such as a missing file or an unknown name.
    pub fn whole(message: impl Into<String>, expected: impl Into<String>) -> BadInput {
        BadInput {
            message: message.into(),
            expected: expected.into(),
            place: None,
            more: Vec::new(),
        }
    }

    /// Combines several errors of one file into one, in the file's order, with each message once.
    /// `None` without errors.
    pub fn all(errors: Vec<BadInput>) -> Option<BadInput> {
        let mut errors = errors;
        let at = |error: &BadInput| error.place.as_ref().map_or(0, |place| place.bytes.start);
        errors.sort_by_key(at);
        errors.dedup_by(|second, first| second.message == first.message);
        let mut errors = errors.into_iter();
        let mut first = errors.next()?;
        first.more.extend(errors);
        Some(first)
    }

    /// The message without details, on one line: the file, the line, and what is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The expected input.
    pub fn expected(&self) -> &str {
        &self.expected
    }

    /// The message, the line with a mark under the error, and the expectation, with colors if `styled`.
    pub fn render(&self, styled: bool) -> String {
        let all = [self].into_iter().chain(&self.more);
        let all: Vec<String> = all.map(|error| error.render_one(styled)).collect();
        all.join("\n\n")
    }

    fn render_one(&self, styled: bool) -> String {
        let renderer = match styled {
            true => Renderer::styled(),
            false => Renderer::plain(),
        };
        let (message, expected) = (lines(&self.message), lines(&self.expected));
        let title = Level::ERROR.primary_title(&*message);
        let file = self.place.as_ref().map_or("", |place| &place.file);
        let file = plain(file);
        let report = match &self.place {
            // In a line with escapes the mark would be in the wrong place, so show the line only if the file needs no
            // escapes.
            Some(place) if matches!(lines(&place.text), Cow::Borrowed(_)) => {
                let wrong = AnnotationKind::Primary
                    .span(place.bytes.clone())
                    .label(&*expected);
                let line = Snippet::source(&place.text).path(&*file);
                title.element(line.annotation(wrong))
            }
            _ => title.element(Level::HELP.message(&*expected)),
        };
        renderer.render(&[report])
    }
}

/// The path that stands for standard input.
pub const STDIN: &str = "-";

/// The name of `path` in messages.
pub fn shown(path: &Path) -> String {
    match path == Path::new(STDIN) {
        true => "<stdin>".to_owned(),
        false => path.display().to_string(),
    }
}

/// The content of `path`, or of standard input if `path` is `-`, which can be read once. The error names the file and
/// the reason.
pub fn read(path: &Path, what: &str) -> Result<String, Box<BadInput>> {
    utf8(&shown(path), read_bytes(path, what)?, what)
}

/// The text of `bytes`, the content of `file`.
pub fn utf8(file: &str, bytes: Vec<u8>, what: &str) -> Result<String, Box<BadInput>> {
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
        Box::new(BadInput::whole(
            format!("{file}:{line}: not UTF-8"),
            format!("expected {} in UTF-8", with_article(what)),
        ))
    })
}

/// The bytes of `path`, which may be a binary file; otherwise as [`read`].
pub fn read_bytes(path: &Path, what: &str) -> Result<Vec<u8>, Box<BadInput>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let mut files = files();
    if let Some((_, bytes)) = files.given.iter().find(|(given, _)| given == path) {
        return Ok(bytes.clone());
    }
    let bytes = match path == Path::new(STDIN) {
        false => File::open(path).and_then(to_end),
        true if TAKEN.swap(true, Ordering::Relaxed) => {
            Err(io::Error::other("standard input has already been read"))
        }
        true => to_end(io::stdin()),
    };
    let bytes = bytes.map_err(|error| unreadable(path, what, &error))?;
    files.kept.retain(|(kept, _)| kept != path);
    files.kept.push((path.to_owned(), bytes.clone()));
    Ok(bytes)
}

/// The size limit of files in bytes. No machine or load is that large, but a device such as `/dev/zero` never ends.
const MOST_BYTES: u64 = 256 << 20;

fn to_end(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MOST_BYTES {
        true => Err(io::Error::other(format!(
            "longer than {} MiB",
            MOST_BYTES >> 20
        ))),
        false => Ok(bytes),
    }
}

type Texts = Vec<(PathBuf, Vec<u8>)>;

struct Files {
    kept: Texts,
    given: Texts,
}

fn files() -> MutexGuard<'static, Files> {
    static FILES: Mutex<Files> = Mutex::new(Files {
        kept: Vec::new(),
        given: Vec::new(),
    });
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The files read so far, for another process that has to read the same contents ([`give`]).
pub fn kept() -> Vec<(PathBuf, Vec<u8>)> {
    files().kept.clone()
}

/// Makes reading these paths return these contents from now on.
pub fn give(given: Vec<(PathBuf, Vec<u8>)>) {
    files().given = given;
}

/// The error for `path`, a `what` that cannot be read.
pub fn unreadable(path: &Path, what: &str, error: &std::io::Error) -> Box<BadInput> {
    Box::new(BadInput::whole(
        format!("{}: {error}", shown(path)),
        format!("expected a readable {what}"),
    ))
}

/// The largest number of errors of a file that are shown.
const MOST_ERRORS: usize = 3;

/// Parses `text`, the content of `file`, as TOML. Reports up to [`MOST_ERRORS`] errors, each with its place in `text`:
/// the first syntax error of each line and, on the other lines, unknown keys and values of the wrong type, unless a
/// table's head is wrong.
pub fn from_toml<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Box<BadInput>> {
    let first = match toml::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let (_, syntax) = toml::de::DeTable::parse_recoverable(text);
    let mut left = text.as_bytes().to_vec();
    let errors = match syntax.is_empty() {
        true => unfit::<T>(&mut left, vec![first]),
        false => {
            let errors = of_each_line(text, syntax);
            match errors.iter().all(|error| clear(&mut left, error)) {
                true => unfit::<T>(&mut left, errors),
                false => errors,
            }
        }
    };
    let errors = errors.iter().map(|error| {
        let bad = bad_toml(file, text, error);
        match misplaced::<T>(text, error) {
            Some(expected) => BadInput { expected, ..bad },
            None => bad,
        }
    });
    let all = BadInput::all(errors.collect());
    Err(Box::new(all.expect("there is at least one error")))
}

/// Where the key of the error belongs, if it is a key of the whole file that stands below a table's head.
fn misplaced<T: DeserializeOwned>(text: &str, error: &toml::de::Error) -> Option<String> {
    let start = error.span()?.start.min(text.len());
    let before = text.get(..start)?;
    let at = before.rfind('\n')? + 1;
    let line = text.get(at..)?.lines().next()?;
    let (key, _) = line.split_once('=')?;
    let mut heads = text[..at].lines().map(str::trim_start);
    // Alone, a key of the whole file is wrong only because other keys are missing.
    let alone = toml::from_str::<T>(line).err();
    let fits = alone.is_none_or(|error| error.message().starts_with("missing field"));
    (heads.any(|line| line.starts_with('[')) && fits)
        .then(|| format!("expected `{}` before the file's first table", key.trim()))
}

fn of_each_line(text: &str, errors: Vec<toml::de::Error>) -> Vec<toml::de::Error> {
    let line = |error: &toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        text.as_bytes()[..at]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count()
    };
    let mut errors = errors;
    errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
    errors.dedup_by_key(|error| line(error));
    errors.truncate(MOST_ERRORS);
    errors
}

/// Adds the errors of keys and values in `left` to `errors`; `left` is the text, in which the lines with syntax errors
/// are empty. The line of each error is emptied, and the text is read again. Missing keys are not reported, because
/// they may be on an emptied line.
fn unfit<T: DeserializeOwned>(
    left: &mut [u8],
    errors: Vec<toml::de::Error>,
) -> Vec<toml::de::Error> {
    let mut errors = errors;
    while errors.len() < MOST_ERRORS && errors.last().is_some_and(|error| clear(left, error)) {
        let read = std::str::from_utf8(left).map(toml::from_str::<T>);
        match read {
            Ok(Err(error)) if is_about_line(&error) => errors.push(error),
            _ => break,
        }
    }
    errors
}

/// Empties the line of the error, unless it is a table's head, without which the table's keys would
/// belong to another table.
fn clear(left: &mut [u8], error: &toml::de::Error) -> bool {
    let Some(span) = error.span() else {
        return false;
    };
    let start = span.start.min(left.len());
    let begin = left[..start].iter().rposition(|&byte| byte == b'\n');
    let end = left[start..].iter().position(|&byte| byte == b'\n');
    let line = begin.map_or(0, |at| at + 1)..end.map_or(left.len(), |at| start + at);
    if left[line.clone()].trim_ascii_start().starts_with(b"[") {
        return false;
    }
    left[line].fill(b' ');
    true
}

/// Is the error in a single line, and not caused by something that other lines lack?
fn is_about_line(error: &toml::de::Error) -> bool {
    [
        "unknown field",
        "unknown variant",
        "invalid type",
        "invalid value",
    ]
    .iter()
    .any(|kind| error.message().starts_with(kind))
}

fn bad_toml(file: &str, text: &str, error: &toml::de::Error) -> BadInput {
    // serde and the TOML parser put their expectation after the word "expected".
    let (message, expected) = match split_expected(error.message()) {
        Some((message, expected)) => {
            let message = message.trim_end_matches([',', ' ', '\n', ':']);
            let head = head(text, error).unwrap_or_default();
            (
                in_words(message),
                format!("expected {}", expected_in_words(message, expected, head)),
            )
        }
        None => match error.message().strip_prefix("missing field ") {
            Some(field) => (error.message().to_owned(), format!("expected {field} here")),
            None => (error.message().to_owned(), "expected valid TOML".to_owned()),
        },
    };
    let unknown = ["unknown field `", "unknown variant `"];
    let mut names = unknown.iter().filter_map(|what| message.strip_prefix(what));
    let expected = match names.next().and_then(|name| name.strip_suffix('`')) {
        Some(name) => suggest(name, expected.split('`').skip(1).step_by(2), &expected),
        None => expected,
    };
    let message = match message.as_str() {
        "" => "this does not fit here",
        message => message,
    };
    let at = error.span().unwrap_or(0..0);
    BadInput::at(file, text, at, message, expected)
}

fn head<'a>(text: &'a str, error: &toml::de::Error) -> Option<&'a str> {
    let before = text.get(..error.span()?.start)?;
    let line = text[before.rfind('\n').map_or(0, |at| at + 1)..]
        .lines()
        .next()?
        .trim_start();
    line.starts_with('[').then_some(line)
}

/// serde's message about a value of the wrong type, with TOML's names of types.
fn in_words(message: &str) -> String {
    match message {
        "invalid type: map" => "this is a table".to_owned(),
        "invalid type: sequence" => "this is a list".to_owned(),
        // TOML's integers have different limits than serde's integers.
        _ => message
            .strip_suffix(" as i128")
            .unwrap_or(message)
            .to_owned(),
    }
}

/// The `expected` type in words, where Rust's name means little to a reader of TOML. `head` is the line, if it is the
/// head of a table: a file may have `[package]` instead of `[[package]]`, or the reverse.
fn expected_in_words<'a>(message: &str, expected: &'a str, head: &str) -> &'a str {
    match expected {
        "a sequence" if message == "invalid type: map" && !head.is_empty() => {
            "a list of tables, each of which begins with `[[NAME]]`"
        }
        _ if message == "invalid type: map" && head.starts_with("[[") => {
            "one table, which begins with `[NAME]`"
        }
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "a table",
        _ => expected,
    }
}

/// Splits `message` at its first "expected " that is not part of "unexpected ".
fn split_expected(message: &str) -> Option<(&str, &str)> {
    let mut found = message.match_indices("expected ");
    let (at, word) =
        found.find(|&(at, _)| !message[..at].ends_with(|c: char| c.is_alphanumeric()))?;
    Some((&message[..at], &message[at + word.len()..]))
}

#[cfg(test)]
mod tests;
