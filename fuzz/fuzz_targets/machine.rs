//! A machine file: refused with a message, or good enough to run a scheduler on.
#![no_main]

use machine::Machine;
use policy::Policy;
use std::sync::LazyLock;

static POLICY: LazyLock<Policy> = LazyLock::new(|| Policy::find("cfs").unwrap());

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(machine) = Machine::parse("FILE", text) {
        POLICY.globals(&machine);
    }
});
