//! Damaged files of each TOML format that users write: each file is either still valid or refused with a message that
//! names the file; parsing never panics.

use lab::Experiment;
use machine::Machine;
use machine::input::BadInput;
use policy::Policy;
use proptest::prelude::*;
use std::path::Path;

fn texts(folder: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(folder);
    let mut texts: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    texts.sort();
    texts
}

/// One of the texts, with a part replaced by a plausible or malicious mistake.
fn damaged(folder: &str) -> impl Strategy<Value = String> + use<> {
    let slips = prop_oneof![
        Just(String::new()),
        Just("-1".into()),
        Just("0".into()),
        Just("1e400".into()),
        Just("99999999999999999999".into()),
        Just("[[".into()),
        Just("= {".into()),
        Just("\"0-5000\"".into()),
        Just("\u{fffd}\n\0".into()),
        "[a-z_]{1,9} = [0-9]{1,4}\n",
        any::<String>(),
    ];
    (
        prop::sample::select(texts(folder)),
        any::<(prop::sample::Index, u8)>(),
        slips,
    )
        .prop_map(|(text, (at, length), slip)| {
            let ends: Vec<usize> = text.char_indices().map(|(index, _)| index).collect();
            let from = at.index(ends.len());
            let to = (from + usize::from(length) / 16).min(ends.len() - 1);
            format!("{}{slip}{}", &text[..ends[from]], &text[ends[to]..])
        })
}

fn names_the_file<T>(result: Result<T, Box<BadInput>>) -> Option<T> {
    result
        .map_err(|error| assert!(error.message().starts_with("FILE"), "{}", error.message()))
        .ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn machines(text in damaged("machines")) {
        if let Some(machine) = names_the_file(Machine::parse("FILE", &text)) {
            // A scheduler can run on every accepted machine.
            Policy::find("cfs").unwrap().globals(&machine);
        }
    }

    #[test]
    fn policies(text in damaged("policies")) {
        if let Some(policy) = names_the_file(Policy::parse("FILE", &text)) {
            policy.globals(&Machine::find("tc2").unwrap());
        }
    }

    #[test]
    fn experiments(text in damaged("experiments")) {
        // The error may be in a file that this file names.
        let without = |_| Ok(Err("no published scheduler here".to_owned()));
        let _ = Experiment::parse("FILE", &text, None, &without);
    }
}
