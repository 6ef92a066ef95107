//! Runs the command and checks its output.
#![allow(dead_code)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The command with `args`, not yet started.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_equipoise"));
    command.args(args).env_remove("CLICOLOR_FORCE");
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

pub fn run(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

/// The command's standard output; it must succeed and print nothing on standard error.
pub fn stdout(args: &[&str]) -> String {
    let output = run(args);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    assert_eq!(stderr, "", "{args:?}");
    text(&output.stdout)
}

pub fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(args)).unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The names of the files in `folder`, sorted.
pub fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The root of the source tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
