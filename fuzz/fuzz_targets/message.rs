//! The messages of a run's process, changed in places or with events in any order: they are refused, or do no harm to
//! their readers, which are the writers of traces, and the observers of `explain` and of pages.
#![no_main]

use lab::Judge;
use report::events::columns::ColumnRecorder;
use report::explain::{self, Asked, Chains, Responses, Waits};
use simulator::{Event, Trace};
use std::sync::LazyLock;
use tempfile::SpooledTempFile;
use trace::write::Kind;

static JUDGE: LazyLock<Judge> = LazyLock::new(Judge::new);

/// All of them at once.
struct All<'a>(Vec<&'a mut dyn Trace>);

impl Trace for All<'_> {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        for trace in &mut self.0 {
            trace.event(now, cpu, event);
        }
    }
}

/// Shows the observers the accepted events of `message`, which they may ask for twice.
fn observe(message: &[u8]) {
    let machine = JUDGE.machine();
    let asked = Asked {
        threads: Vec::new(),
        at: None,
        worst: 3,
    };
    let (mut waits, mut responses) = (Waits::new(&asked), Responses::new(machine, &asked));
    let mut columns = ColumnRecorder::new(machine, true);
    let mut all = All(vec![&mut waits, &mut responses, &mut columns]);
    let _ = JUDGE.judge(message, &mut all);
    let _ = columns.finish();
    waits.end(Some(1_000_000));
    responses.end(Some(1_000_000));
    let Ok((waits, latencies)) = waits.choose(&asked, &["a".to_owned()]) else {
        return;
    };
    let chosen = responses.choose(&["a", "b"]);
    let observed = explain::observed(&chosen.missed);
    let windows = observed.into_iter().flatten();
    let windows = windows.chain(explain::windows(&waits, &chosen)).collect();
    let names = latencies.into_iter().map(|one| one.name);
    let mut chains = Chains::new(windows, names, machine.cpus.len());
    let mut recorder = report::Recorder::new(machine, 10_000_000, 1);
    let _ = JUDGE.judge(message, &mut All(vec![&mut chains, &mut recorder]));
    let _ = (chains.finish(), recorder.finish());
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&first, edits)) = bytes.split_first() else {
        return;
    };
    let kinds = [Kind::Text, Kind::Dat, Kind::Perfetto, Kind::Chrome];
    let mut writer = report::events::writer(
        kinds[usize::from(first >> 2) % 4],
        std::io::sink(),
        JUDGE.machine(),
        SpooledTempFile::new(1 << 20),
    );
    let message = match first % 4 {
        3 => edits.to_vec(),
        2 => JUDGE.forged(edits),
        valid => fuzz::edited(&JUDGE.messages()[usize::from(valid)], edits),
    };
    if JUDGE.judge(&message, &mut *writer).is_ok() {
        writer.finish().expect("a sink takes everything");
    }
    observe(&message);
});
