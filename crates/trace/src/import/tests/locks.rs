//! Mutexes, from calls of futex(2).

use super::*;

fn futex(cpu: usize, us: u64, by: (&str, i32), address: u64, waits: bool) -> String {
    let (operation, value) = if waits { (0x80, 2) } else { (0x81, 1) };
    format!(
        "{}-{} [00{cpu}] ..... 0.{us:06}: sys_enter: NR 202 ({address:x}, {operation:x}, {value:x}, 0, 0, 0)\n",
        by.0, by.1
    )
}

/// A has a mutex when B requests it; B later releases it, too.
fn contended() -> String {
    [
        "r-9 [001] ..... 0.000050: tracing_mark_write: equipoise record: futex 202\n".to_owned(),
        switch(0, 100, IDLE, "R", A),
        switch(1, 100, IDLE, "R", B),
        futex(1, 200, B, 0x7f00, true),
        switch(1, 200, B, "S", IDLE),
        futex(0, 300, A, 0x7f00, false),
        waking(0, 310, A, "d..2.", B),
        switch(1, 320, IDLE, "R", B),
        futex(1, 420, B, 0x7f00, false),
        switch(0, 500, A, "X", IDLE),
        switch(1, 520, B, "X", IDLE),
    ]
    .concat()
}

#[test]
fn a_thread_that_waits_for_a_mutex_takes_it() {
    use Step::{Lock, Unlock};
    let recording = of(&contended()).recording;
    assert_eq!((recording.mutexes, recording.check()), (1, Ok(())));
    let [a, b] = ["a", "b"].map(|name| {
        let mut threads = recording.threads.iter();
        &threads.find(|it| it.name == name).unwrap().steps[..]
    });
    let us = 1_000;
    assert_eq!(
        a,
        [
            Lock(0),
            Run(200 * us),
            Run(10 * us),
            Unlock(0),
            Run(190 * us)
        ]
    );
    assert_eq!(
        b,
        [
            Run(100 * us),
            Lock(0),
            Run(100 * us),
            Unlock(0),
            Run(100 * us)
        ]
    );
}

/// A sleeps while it holds the mutex for which B waits. Later, A wakes B for another reason while B holds the mutex.
#[test]
fn whoever_has_a_mutex_may_sleep() {
    use Step::{Lock, Sleep, Unlock};
    let text = contended().replace(
        &futex(0, 300, A, 0x7f00, false),
        &[
            switch(0, 220, A, "D", IDLE),
            waking(0, 250, IDLE, "d.h2.", A),
            switch(0, 260, IDLE, "R", A),
            futex(0, 300, A, 0x7f00, false),
        ]
        .concat(),
    );
    let text = text.replace(
        &futex(1, 420, B, 0x7f00, false),
        &[
            switch(1, 340, B, "D", IDLE),
            waking(0, 400, A, "d..2.", B),
            switch(1, 410, IDLE, "R", B),
            futex(1, 420, B, 0x7f00, false),
        ]
        .concat(),
    );
    let recording = of(&text).recording;
    assert_eq!((recording.mutexes, recording.check()), (1, Ok(())));
    let kinds = |name: &str| -> String {
        let mut threads = recording.threads.iter();
        let steps = threads.find(|it| it.name == name).unwrap().steps.iter();
        let letter = |step: &Step| match step {
            Lock(0) => Some('l'),
            Unlock(0) => Some('u'),
            Sleep(_) => Some('s'),
            Run(_) => None,
            _ => Some('?'),
        };
        steps.filter_map(letter).collect()
    };
    assert_eq!((&*kinds("a"), &*kinds("b")), ("lsu", "lsu"));
}

/// A mutex remains wakeups if a thread holds it together with another mutex, if a thread waits for
/// it in another way, or if the call has another number.
#[test]
fn futexes_that_may_not_be_mutexes_are_wakeups() {
    let beside = contended().replace(
        &futex(1, 420, B, 0x7f00, false),
        &[
            futex(1, 400, B, 0x7e00, true),
            futex(1, 410, B, 0x7e00, false),
            futex(1, 420, B, 0x7f00, false),
        ]
        .concat(),
    );
    let condition = contended().replace(", 80, 2,", ", 80, 7,");
    let unmarked = contended().replace("futex 202", "futex 98");
    for (text, noted) in [(beside, true), (condition, false), (unmarked, false)] {
        let imported = of(&text);
        let recording = imported.recording;
        assert_eq!(recording.mutexes, 0);
        let does = |it: Step| {
            recording
                .threads
                .iter()
                .any(|thread| thread.steps.contains(&it))
        };
        assert!(does(Wait), "{recording:?}");
        let notes = imported.summary.notes.join("; ");
        assert_eq!(
            notes.contains("2 of 2 mutexes are replayed"),
            noted,
            "{notes}"
        );
    }
}
