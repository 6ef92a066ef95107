//! A trace of scheduling events: any input is refused with a message or gives a valid recording.
#![no_main]

use trace::import::import;
use workload::recording::Recording;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    if let Ok(imported) = import("FILE", text, None) {
        imported.recording.check().unwrap();
    }
    if let Ok(text) = std::str::from_utf8(text) {
        let _ = Recording::parse("FILE", text);
    }
});
