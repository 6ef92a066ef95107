//! The kernel's reason for unloading a sched_ext scheduler, from its log.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// The size in bytes of the longest record of the log (PRINTK_MESSAGE_MAX in kernel/printk/internal.h).
const LONGEST: usize = 2048;
/// The reason that the kernel logs when a loader ends.
const LOADER_ENDED: &str = "unregistered from user space";

/// The kernel's log since a scheduler's loader was started.
pub struct Log {
    /// `None` if this process may not read the log.
    file: Option<File>,
    text: String,
}

impl Log {
    pub fn from_now() -> Log {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let opened = options.open("/dev/kmsg").and_then(|mut log| {
            log.seek(SeekFrom::End(0))?;
            Ok(log)
        });
        Log {
            file: opened.ok(),
            text: String::new(),
        }
    }

    /// The reason why the kernel has unloaded the scheduler, if it has logged one.
    pub fn reason(&mut self) -> Option<String> {
        let mut record = [0; LONGEST];
        let file = self.file.as_mut()?;
        loop {
            // Each read returns one record. The log is a ring, so a record may be gone (EPIPE).
            match file.read(&mut record) {
                Ok(0) => break,
                Ok(size) => self.text += &String::from_utf8_lossy(&record[..size]),
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(_) => break,
            }
        }
        reason(&self.text)
    }
}

/// The last reason in records of /dev/kmsg (Documentation/ABI/testing/dev-kmsg), in the form of scx's loaders: the kind
/// of the reason, and what happened in parentheses.
fn reason(records: &str) -> Option<String> {
    let said = |line: &'_ str| Some(line.split_once(";sched_ext: ")?.1.to_owned());
    let lines: Vec<String> = records.lines().filter_map(said).collect();
    let at = lines.iter().rposition(|it| it.contains(" disabled ("))?;
    let kind = lines[at].split_once(" disabled (")?.1.trim_end_matches(')');
    let what = lines.get(at + 1).and_then(|it| it.split_once(": "));
    match what {
        _ if kind == LOADER_ENDED => None,
        Some((_, what)) => Some(format!("{kind} ({what})")),
        None => Some(kind.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_that_of_the_last_scheduler() {
        let loaded = "6,480,76428772,-;sched_ext: BPF scheduler \"mine\" enabled\n";
        assert_eq!(reason(loaded), None);
        let ended = "6,481,76692570,-;sched_ext: BPF scheduler \"mine\" disabled (unregistered from user space)\n";
        assert_eq!(reason(ended), None);
        let failed = format!(
            "{loaded}3,481,76692570,-;sched_ext: BPF scheduler \"mine\" disabled (runtime error)\n SUBSYSTEM=x\n\
             3,482,76692648,-;sched_ext: mine: DSQ ID 0x0 already had PRIQ-enqueued tasks\n\
             4,483,76692752,-;   scx_vexit+0x6d/0xa0\n"
        );
        let expected = "runtime error (DSQ ID 0x0 already had PRIQ-enqueued tasks)";
        assert_eq!(reason(&failed).as_deref(), Some(expected));
        assert_eq!(
            reason(&failed[..failed.len() / 2]).as_deref(),
            Some("runtime error")
        );
    }
}
