//! The messages of a run's process: as it sends them, but changed in places, are refused or do no harm to a trace's writers.
#![no_main]

use lab::Judge;
use report::trace::Kind;
use std::sync::LazyLock;
use tempfile::SpooledTempFile;

static JUDGE: LazyLock<Judge> = LazyLock::new(Judge::new);
static MACHINE: LazyLock<machine::Machine> =
    LazyLock::new(|| machine::Machine::find("tc2").expect("it is built in"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&first, edits)) = bytes.split_first() else {
        return;
    };
    let kinds = [Kind::Text, Kind::Dat, Kind::Perfetto, Kind::Chrome];
    let mut writer = kinds[usize::from(first >> 2) % 4].writer(
        std::io::sink(),
        &MACHINE,
        SpooledTempFile::new(1 << 20),
    );
    let messages = JUDGE.messages();
    let message = match messages.get(usize::from(first) % 4) {
        Some(message) => fuzz::edited(message, edits),
        None => edits.to_vec(),
    };
    if JUDGE.judge(&message, &mut *writer).is_ok() {
        writer.finish().expect("a sink takes everything");
    }
});
