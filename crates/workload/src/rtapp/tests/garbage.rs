//! Parsing any text ends with a workload or a message.

use super::*;
use crate::fake;
use proptest::prelude::*;

/// JSON that consists of the grammar's own words and is mostly wrong.
fn json() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "tasks",
        "global",
        "phases",
        "loop",
        "instance",
        "run",
        "runtime",
        "sleep",
        "timer",
        "ref",
        "period",
        "mode",
        "mutex",
        "lock",
        "unlock",
        "wait",
        "sync",
        "signal",
        "barrier",
        "suspend",
        "resume",
        "fork",
        "yield",
        "cpus",
        "policy",
        "priority",
        "dl-runtime",
        "duration",
        "a",
        "b",
    ]);
    let leaf = prop_oneof![
        (-3..2000i64).prop_map(|number| number.to_string()),
        prop::sample::select(vec![
            "\"a\"",
            "\"b\"",
            "\"unique\"",
            "\"SCHED_FIFO\"",
            "\"SCHED_DEADLINE\"",
            "true",
            "null",
            "[0]",
            "1e9",
            "\"\"",
        ])
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        let entry = (key.clone(), inner).prop_map(|(key, value)| format!("\"{key}\": {value}"));
        prop::collection::vec(entry, 0..6)
            .prop_map(|entries| format!("{{ {} }}", entries.join(", ")))
    })
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text: String) {
        let _ = parse(&text);
    }

    #[test]
    fn any_json_is_read_or_refused(text in json()) {
        let _ = parse(&text);
        let _ = parse(&format!("{{ \"tasks\": {text} }}"));
        if let Ok(workload) = parse(&format!("{{ \"tasks\": {{ \"a\": {text}, \"b\": {{ \"loop\": 2, \"run\": 10 }} }} }}")) {
            workload.start(&fake::machine(1));
        }
    }

    #[test]
    fn any_change_of_a_byte_is_read_or_refused(seed: u64, place: prop::sample::Index, byte: u8) {
        let mut text = crate::arbitrary::rt_app_json(seed, 3, &machine::CpuMask::first_n(2)).into_bytes();
        let place = place.index(text.len());
        text[place] = byte;
        if let Ok(text) = String::from_utf8(text) {
            let _ = parse(&text);
        }
    }
}
