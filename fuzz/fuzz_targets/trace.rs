//! A trace of scheduling events: refused with a message, or a recording that is one.
#![no_main]

use workload::import::import;
use workload::recording::Recording;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    if let Ok(imported) = import("FILE", text, None) {
        imported.recording.check().unwrap();
    }
    if let Ok(text) = std::str::from_utf8(text) {
        let _ = Recording::parse("FILE", text);
    }
});
