//! Finds the commit of these sources, for `--version`.

use std::process::Command;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    // Without a repository, the version is only the release.
    let Some(commit) = git(&[
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ]) else {
        println!("cargo::rustc-env=EQUIPOISE_VERSION={version}");
        return;
    };
    println!("cargo::rustc-env=EQUIPOISE_VERSION={version} ({commit})");
    // Git writes this file whenever a commit is checked out or made.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.is_empty()).then(|| text.trim().to_owned())
}
