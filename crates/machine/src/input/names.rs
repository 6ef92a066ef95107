//! Expectations for unknown names, with the most similar known name as a suggestion.

/// The expectation for an unknown `name`: the `known` names, with the most similar one as a
/// suggestion.
pub fn one_of<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    one_of_described(name, known.into_iter().map(|known| (known, "")))
}

/// The text `expected` for an unknown `name`, with the most similar of the `known` names as a suggestion.
pub fn suggest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, expected: &str) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match similar(name, &known) {
        Some(meant) if meant != name => format!("did you mean `{meant}`? {expected}"),
        _ => expected.to_owned(),
    }
}

/// The expectation of [`one_of`] for names with descriptions. If no name is similar to `name`, the suggestions are the
/// names whose descriptions have all words of `name`.
pub fn one_of_described<S: AsRef<str>>(
    name: &str,
    known: impl IntoIterator<Item = (impl AsRef<str>, S)>,
) -> String {
    let known: Vec<(_, S)> = known.into_iter().collect();
    let names: Vec<&str> = known.iter().map(|(known, _)| known.as_ref()).collect();
    let expected = format!("expected {}", names.join(", "));
    let meant = match similar(name, &names) {
        Some(meant) => vec![meant],
        None => {
            let about = known.iter().map(|(_, about)| about.as_ref());
            described(name, names.iter().copied().zip(about))
        }
    };
    match meant.join("`, `") {
        none if none.is_empty() => expected,
        meant => format!("did you mean `{meant}`? {expected}"),
    }
}

/// The element of `known` that is similar to `name` and takes the fewest edits. A single letter is similar to nothing.
fn similar<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    /// The similarity that clap requires for its own names. It overlooks short names with omitted letters, such as
    /// `edf` for `eevdf`.
    const LIKE: f64 = 0.7;
    /// The share of the longer name's letters that need no edit.
    const KEPT: f64 = 0.6;
    name.chars().nth(1)?;
    let alike = |one: &&str| {
        strsim::jaro_winkler(name, one) > LIKE || strsim::normalized_levenshtein(name, one) >= KEPT
    };
    let known = known.iter().copied().filter(alike);
    known.min_by_key(|one| strsim::levenshtein(name, one))
}

/// The entries of `known`, each a name and a description, that contain every word of `name`.
fn described<'a>(name: &str, known: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<&'a str> {
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
    let has_all = |about: &str| {
        let about = about.to_lowercase();
        words
            .iter()
            .all(|word| !word.is_empty() && about.contains(word))
    };
    known
        .filter(|(_, about)| has_all(about))
        .map(|(known, _)| known)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_searched_in_the_descriptions() {
        let known = [("kbuild", "A kernel build"), ("mixed", "what a phone does")];
        let expected = |name| one_of_described(name, known);
        assert_eq!(
            expected("kernel-build"),
            "did you mean `kbuild`? expected kbuild, mixed"
        );
        assert_eq!(
            expected("kbuil"),
            "did you mean `kbuild`? expected kbuild, mixed"
        );
        assert_eq!(expected("kernel-panic"), "expected kbuild, mixed");
        assert_eq!(expected(""), "expected kbuild, mixed");
    }

    #[test]
    fn similar_names_are_suggested() {
        let expected = |name| one_of(name, ["tc2", "tc2-smp", "odroid-xu3"]);
        assert_eq!(
            expected("tc3"),
            "did you mean `tc2`? expected tc2, tc2-smp, odroid-xu3"
        );
        assert!(expected("odroid").starts_with("did you mean `odroid-xu3`? "));
        assert!(expected("cray-1").starts_with("expected "));
        assert!(expected("t").starts_with("expected "));
        let policy = one_of("edf", ["eevdf", "eevdf-6.12", "cfs"]);
        assert!(policy.starts_with("did you mean `eevdf`? "), "{policy}");
        let other = |name| suggest(name, ["more", "less"], "expected `more` or `less`, if any");
        assert_eq!(other("expect"), "expected `more` or `less`, if any");
        assert!(other("mor").starts_with("did you mean `more`? expected"));
    }
}
