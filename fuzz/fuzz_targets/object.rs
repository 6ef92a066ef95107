//! A compiled scheduler: ELF and DWARF that no compiler made are refused with a message.
#![no_main]

use native::Object;

libfuzzer_sys::fuzz_target!(|image: &[u8]| {
    if let Ok(object) = Object::parse("FILE", image.to_vec()) {
        let _ = object.image(&[]);
        object.line(object.ops());
    }
});
