//! A machine as hwloc's XML or a device tree describes it: refused with a message, or a valid machine file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let found = match std::str::from_utf8(bytes) {
        Ok(text) => detect::hwloc("FILE", text),
        Err(_) => detect::device_tree("FILE", bytes),
    };
    if let Ok(found) = found {
        let file = found.machine_file("found");
        machine::Machine::parse("FILE", &file.text).expect("a machine file that is valid");
    }
});
