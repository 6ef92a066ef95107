//! A name from outside, through every writer: nothing that acts on a reader gets through.
#![no_main]

use cage::text::is_safe;
use report::{Page, Style, Table};
use simulator::Event;
use std::sync::LazyLock;
use tempfile::SpooledTempFile;
use trace::write::Kind;

static MACHINE: LazyLock<machine::Machine> =
    LazyLock::new(|| machine::Machine::find("smp-2").expect("it is built in"));

libfuzzer_sys::fuzz_target!(|name: &str| {
    let page = Page {
        title: name.to_owned(),
        notes: vec![name.to_owned()],
        tables: vec![Table {
            title: name.to_owned(),
            header: vec!["name".to_owned(), name.to_owned()],
            text_columns: 2,
            rows: vec![vec![name.into(), name.into()]],
            ..Table::default()
        }],
        remarks: vec![name.to_owned()],
        ..Page::default()
    };
    assert!(is_safe(&report::terminal(&page, Style::default())));
    assert!(is_safe(&report::csv::page(&page)));
    let json = report::json::page(&page);
    assert!(is_safe(&json) && serde_json::from_str::<serde_json::Value>(&json).is_ok());
    let html = report::html(name, &[page]);
    assert!(is_safe(&html));
    let lines = |kind: Kind| {
        let mut bytes = Vec::new();
        let mut writer =
            report::events::writer(kind, &mut bytes, &MACHINE, SpooledTempFile::new(1 << 20));
        let (idle, task) = (("swapper", 0), (name, 10));
        let switch = Event::Switch {
            prev: idle,
            prev_prio: 120,
            prev_runnable: true,
            next: task,
            next_prio: 120,
        };
        writer.event(1_000, 0, switch);
        writer.event(2_000, 0, Event::Printk(name));
        writer.event(3_000, 0, Event::Exit { task, prio: 120 });
        writer.finish().expect("memory takes everything");
        drop(writer);
        bytes
    };
    let text = String::from_utf8(lines(Kind::Text)).expect("it is text");
    assert!(is_safe(&text));
    let events = text
        .lines()
        .filter(|line| line.contains("sched_process_exit:"));
    assert!(
        events.filter(|line| line.contains("pid=10")).count()
            <= 1 + usize::from(name.contains("sched_process_exit")) * 2
    );
    assert!(serde_json::from_slice::<serde_json::Value>(&lines(Kind::Chrome)).is_ok());
    lines(Kind::Perfetto);
    lines(Kind::Dat);
});
