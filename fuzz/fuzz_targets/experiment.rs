//! An experiment file, which names machines, workloads and policies: refused with a message, or
//! valid.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = lab::Experiment::parse("FILE", text);
});
