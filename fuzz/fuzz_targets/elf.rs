//! A compiled scheduler that has been changed in places, so that its parts are valid: it is refused with a message, or its
//! description can be of it.
#![no_main]

use native::Object;
use std::sync::LazyLock;

static IMAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let object = Object::own("cfs").expect("it compiles");
    object.bytes().to_vec()
});

libfuzzer_sys::fuzz_target!(|edits: &[u8]| {
    let image = fuzz::edited(&IMAGE, edits);
    if let Ok(object) = Object::parse("FILE", image.clone()) {
        let _ = object.image(&[]);
        let names: Vec<&str> = object.constants().map(|(name, _)| name).collect();
        assert!(names.iter().all(|name| cage::text::is_plain(name)));
        let again = Object::described("FILE", image, object.description().clone());
        assert!(again.is_ok());
    }
});
