//! Runs the command and checks its output.
#![allow(dead_code)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

macro_rules! has {
    ($text:expr, $part:expr) => {{
        let (text, part) = (&$text, $part);
        assert!(text.contains(part), "{part} is not in {text}");
    }};
}

/// Arguments of the command: a list, or a text in which spaces separate them.
pub trait Args {
    fn words(&self) -> Vec<&str>;
}

impl Args for str {
    fn words(&self) -> Vec<&str> {
        self.split(' ').collect()
    }
}

impl Args for String {
    fn words(&self) -> Vec<&str> {
        self.as_str().words()
    }
}

impl Args for [&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Args for [&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Args for Vec<&str> {
    fn words(&self) -> Vec<&str> {
        self.clone()
    }
}

pub fn words(text: &str) -> Vec<&str> {
    text.words()
}

pub fn command(args: &(impl Args + ?Sized)) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_equipoise"));
    command.args(args.words()).env_remove("CLICOLOR_FORCE");
    command.env("EQUIPOISE_OBJECTS", objects());
    command
}

/// The folder of the schedulers' objects, so that not every process of a test compiles them: the one in
/// `EQUIPOISE_OBJECTS`, otherwise one that is filled here.
pub fn objects() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let given = std::env::var_os("EQUIPOISE_OBJECTS").map(PathBuf::from);
        given.unwrap_or_else(|| {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("objects");
            native::write_own(None, &folder).unwrap_or_else(|error| panic!("{error}"));
            folder
        })
    })
}

pub fn run(args: &(impl Args + ?Sized)) -> Output {
    command(args).output().unwrap()
}

/// The command's standard output; it must succeed and print nothing on standard error.
pub fn stdout(args: &(impl Args + ?Sized)) -> String {
    let output = run(args);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{:?}: {stderr}", args.words());
    assert_eq!(stderr, "", "{:?}", args.words());
    text(&output.stdout)
}

/// The message of a command that fails because of its input.
pub fn run_badly(args: &(impl Args + ?Sized)) -> String {
    let output = run(args);
    let message = text(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(2),
        "{:?}: {message}",
        args.words()
    );
    assert!(output.stdout.is_empty(), "{:?}", args.words());
    message
}

pub fn json(args: &(impl Args + ?Sized)) -> Value {
    serde_json::from_str(&stdout(args)).unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A file with this name and content in a folder of its own, which exists as long as the first value; and its path.
pub fn file(name: &str, content: impl AsRef<[u8]>) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    (folder, path.into_os_string().into_string().unwrap())
}

pub fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/recorded")
        .join(name)
}
