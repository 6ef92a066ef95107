//! An experiment file, which names machines, workloads and policies: refused with a message, or
//! valid. No source of a published scheduler is there.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = lab::Experiment::parse("FILE", text, None, &|_| Ok(Err("no sources".into())));
});
