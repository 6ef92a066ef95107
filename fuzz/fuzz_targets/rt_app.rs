//! An rt-app file: refused with a message, or good enough to be started where it fits.
#![no_main]

use machine::Machine;
use std::sync::LazyLock;
use workload::Workload;
use workload::rtapp::RtApp;

static MACHINE: LazyLock<Machine> = LazyLock::new(|| Machine::find("tc2").unwrap());

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(workload) = RtApp::parse("name", "FILE", text, None)
        && workload.check(&MACHINE).is_ok()
    {
        workload.start(&MACHINE);
    }
});
