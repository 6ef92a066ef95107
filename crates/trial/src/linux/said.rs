//! The output of a program, kept in a file without a name until a message quotes it.

use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, ExitStatus};

/// The number of lines that a message quotes.
const QUOTED: usize = 3;
/// The size in bytes of the end of an output that is read.
const MOST: u64 = 1 << 16;

/// The standard output and error of a program.
pub struct Said(File);

impl Said {
    /// Keeps the output of `command`.
    pub fn by(command: &mut Command) -> io::Result<Said> {
        let file = tempfile::tempfile()?;
        command.stdout(file.try_clone()?).stderr(file.try_clone()?);
        Ok(Said(file))
    }

    /// Frees the space of the output except for its end. An output without end would otherwise fill the folder of
    /// temporary files, which may be memory. A file system without holes keeps the output.
    pub fn forget(&self) {
        let beginning = self
            .0
            .metadata()
            .map_or(0, |it| it.len().saturating_sub(MOST));
        if beginning > MOST {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&self.0, hole, 0, beginning);
        }
    }

    /// The line in which one of scx's loaders says why it ends, if there is one.
    pub fn reason(&self) -> Option<String> {
        let text = self.end().unwrap_or_default();
        reason(&String::from_utf8_lossy(&text))
    }

    /// The last lines, after a colon.
    pub fn last(&self) -> String {
        let text = self.end().unwrap_or_default();
        match quoted(&String::from_utf8_lossy(&text)) {
            said if said.is_empty() => said,
            said => format!(": {said}"),
        }
    }

    fn end(&self) -> io::Result<Vec<u8>> {
        let length = self.0.metadata()?.len();
        let mut text = vec![0; length.min(MOST) as usize];
        // A program that still runs writes at the file's offset, so do not move the offset.
        self.0
            .read_exact_at(&mut text, length.saturating_sub(MOST))?;
        Ok(text)
    }
}

/// The way in which a program ended, such as `with status 1` or `by signal 9`.
pub fn with(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("with status {code}"),
        (None, signal) => format!("by signal {}", signal.unwrap_or(0)),
    }
}

/// The report of scx_utils, which follows the kernel's dump.
fn reason(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim);
    lines.rfind(|it| it.starts_with("EXIT:")).map(str::to_owned)
}

fn quoted(text: &str) -> String {
    // libbpf lists the callbacks that a kernel lacks, which is no error.
    let is_note = |line: &str| line.starts_with("libbpf:") && line.contains("skipping it");
    let lines = text.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|it| !it.is_empty() && !is_note(it)).collect();
    lines[lines.len().saturating_sub(QUOTED)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_quoted_else_the_last_lines() {
        assert_eq!(quoted("a\n\nb\nc\nd\n"), "b; c; d");
        let note =
            "libbpf: struct_ops x: member y not found in kernel, skipping it as it's set to zero";
        assert_eq!(quoted(&format!("a\n{note}\n{note}\n{note}\n")), "a");
        let dump = "DEBUG DUMP\n====\nEXIT: runnable task stall (x[1] failed to run for 30 s)\nError: ended\n";
        assert_eq!(
            reason(dump).as_deref(),
            Some("EXIT: runnable task stall (x[1] failed to run for 30 s)")
        );
        assert_eq!(quoted(""), "");
    }

    #[test]
    fn the_beginning_of_a_long_output_takes_no_space() {
        use std::os::unix::fs::MetadataExt;
        let mut command = Command::new("sh");
        command.args(["-c", "head -c 4194304 /dev/zero; echo; echo end"]);
        let said = Said::by(&mut command).unwrap();
        assert!(command.status().unwrap().success());
        said.forget();
        assert!(said.0.metadata().unwrap().blocks() * 512 <= 4 * MOST);
        assert!(said.last().ends_with("; end"), "{}", said.last().len());
    }

    #[test]
    fn both_outputs_are_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first; echo second >&2"]);
        let said = Said::by(&mut command).unwrap();
        assert!(command.status().unwrap().success());
        assert_eq!(said.last(), ": first; second");
    }

    #[test]
    fn a_program_that_still_writes_loses_nothing() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "i=10000; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done",
        ]);
        let said = Said::by(&mut command).unwrap();
        let mut child = command.spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            said.last();
        }
        let text = String::from_utf8(said.end().unwrap()).unwrap();
        let lines = text.lines().map(str::to_owned);
        assert!(lines.eq((10000..20000).map(|i| i.to_string())));
    }
}
