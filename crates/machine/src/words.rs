//! Counts and nouns in words.

use std::fmt::Display;

/// A count with its noun: `1 one` or, for another count, `3 more`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(
    count: N,
    one: &str,
    more: &str,
) -> String {
    format!("{count} {}", if count == N::from(1) { one } else { more })
}

/// `what` with its article, which depends on how the first letter is spoken.
pub(crate) fn with_article(what: &str) -> String {
    let is_vowel = what.starts_with(['a', 'e', 'i', 'o', 'u']) || what.starts_with("rt-app");
    format!("{} {what}", if is_vowel { "an" } else { "a" })
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn only_one_is_singular() {
        let threads = |count: u64| counted(count, "thread is", "threads are");
        assert_eq!(
            [0, 1, 2].map(threads),
            ["0 threads are", "1 thread is", "2 threads are"]
        );
    }
}
