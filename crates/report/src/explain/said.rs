//! The messages of a scheduler in C about a thread, by `bpf_printk()`.

/// The length of a task's `comm`, without the final NUL.
const COMM_LEN: usize = 15;
/// The largest number of lines kept for one wait.
pub const MOST_SAID: usize = 20;

/// Does `line` contain the thread's name, as in `comm`, or its pid as a word?
pub fn is_about(line: &str, name: &str, pid: i32) -> bool {
    // The `comm` may end within a letter, which the line then has as U+FFFD.
    let comm = String::from_utf8_lossy(&name.as_bytes()[..name.len().min(COMM_LEN)]);
    has_word(line, &comm) || has_word(line, &pid.to_string())
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "-_".contains(c);
    line.match_indices(word).any(|(at, _)| {
        let after = &line[at + word.len()..];
        !line[..at].ends_with(is_part) && !after.starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_named_by_a_whole_word() {
        for (line, is) in [
            ("ui: vtime -1000", true),
            ("vtime of 1003=5", true),
            ("enqueue(ui)", true),
            ("ui-0 goes", false),
            ("build", false),
            ("10030", false),
            ("", false),
        ] {
            assert_eq!(is_about(line, "ui", 1003), is, "{line}");
        }
        assert!(is_about(
            "a-long-name-of- waits",
            "a-long-name-of-a-thread",
            7
        ));
    }

    #[test]
    fn a_name_may_be_cut_within_a_letter() {
        let name = "длинноеимя";
        let line = [&name.as_bytes()[..COMM_LEN], b" queues on CPU 1"].concat();
        let line = String::from_utf8_lossy(&line);
        assert!(is_about(&line, name, 7), "{line}");
        assert!(!is_about(&line, "длинная", 7), "{line}");
    }
}
