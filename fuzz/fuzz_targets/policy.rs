//! A policy file: refused with a message, or good enough to load a scheduler with.
#![no_main]

use machine::Machine;
use policy::Policy;
use std::sync::LazyLock;

static MACHINE: LazyLock<Machine> = LazyLock::new(|| Machine::find("tc2").unwrap());

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(policy) = Policy::parse("FILE", text) {
        policy.globals(&MACHINE);
    }
});
