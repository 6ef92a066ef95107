//! Bytes in pipes and sockets.

use super::*;

fn moved(cpu: usize, us: u64, by: (&str, i32), event: &str, bytes: i64) -> String {
    format!(
        "{}-{} [00{cpu}] ..... 0.{us:06}: {event}: (vfs_read+0x1/0x2 <- {event}) object=0xffff8000 bytes={bytes}\n",
        by.0, by.1
    )
}

/// B sleeps until A writes its first bytes, and finds the second ones already written.
fn pipe() -> String {
    [
        switch(0, 100, IDLE, "R", B),
        switch(0, 110, B, "S", A),
        waking(0, 200, A, "d..2.", B),
        moved(0, 201, A, "pipe_write", 4),
        moved(0, 300, A, "pipe_write", 6),
        switch(0, 400, A, "S", B),
        moved(0, 410, B, "pipe_read", 4),
        moved(0, 420, B, "pipe_read", 6),
        switch(0, 500, B, "X", IDLE),
        waking(0, 600, IDLE, "d.h2.", A),
        switch(0, 610, IDLE, "R", A),
        switch(0, 700, A, "X", IDLE),
    ]
    .concat()
}

#[test]
fn a_wakeup_in_a_call_is_a_read_that_waits() {
    let recording = of(&pipe()).recording;
    assert_eq!(recording.streams, [65_536]);
    let us = 1_000;
    let [b, a] = [0, 1].map(|thread: usize| &recording.threads[thread].steps);
    let read = |bytes| Step::Read(0, bytes);
    let write = |bytes| Step::Write(0, bytes);
    assert_eq!(
        b[..],
        [
            Run(10 * us),
            read(4),
            Run(10 * us),
            Run(10 * us),
            read(6),
            Run(80 * us)
        ]
    );
    assert_eq!(
        a[..6],
        [
            Run(90 * us),
            write(4),
            Run(us),
            Run(99 * us),
            write(6),
            Run(100 * us)
        ]
    );
    assert!(recording.check().is_ok());
}

/// The event of the wakeup comes while B is about to sleep on another CPU, and A's call has ended when B runs again.
#[test]
fn a_wakeup_before_the_sleep_belongs_to_its_call() {
    let text = [
        switch(0, 100, IDLE, "R", B),
        switch(1, 100, IDLE, "R", A),
        waking(1, 105, A, "d..2.", B),
        switch(0, 110, B, "S", IDLE),
        moved(1, 112, A, "pipe_write", 4),
        switch(0, 130, IDLE, "R", B),
        moved(0, 140, B, "pipe_read", 4),
        switch(0, 200, B, "X", IDLE),
        switch(1, 300, A, "X", IDLE),
    ]
    .concat();
    let imported = of(&text);
    let us = 1_000;
    let [b, a] = [0, 1].map(|thread: usize| &imported.recording.threads[thread].steps);
    assert_eq!(
        b[..],
        [Run(10 * us), Step::Read(0, 4), Run(10 * us), Run(60 * us)]
    );
    assert_eq!(a[..2], [Run(5 * us), Step::Write(0, 4)]);
    assert!(!a.iter().any(|step| matches!(step, Wake(_))), "{a:?}");
    // The thread waited from the time when it went to sleep until it ran.
    assert_eq!(imported.summary.threads[0].latencies_ns, [20 * us - 1]);
}

#[test]
fn bytes_that_were_never_written_leave_the_wakeups() {
    let more = pipe().replace(
        &moved(0, 410, B, "pipe_read", 4),
        &moved(0, 410, B, "pipe_read", 400),
    );
    let imported = of(&more);
    assert!(imported.recording.streams.is_empty());
    assert!(imported.recording.threads[0].steps.contains(&Wait));
    assert!(imported.recording.threads[1].steps.contains(&Wake(0)));
    assert!(imported.summary.notes[0].contains("1 of the load's 1 pipes and sockets is replayed"));
}

#[test]
fn the_streams_of_others_are_not_counted() {
    let c = ("c", 12);
    let notes = |load: (&str, i32)| {
        let text = format!(
            "{}-{} [001] ..... 0.000050: tracing_mark_write: equipoise record: load {} {}\n{}{}{}",
            "record",
            13,
            load.1,
            load.0,
            switch(1, 60, IDLE, "R", c),
            pipe(),
            switch(1, 800, c, "X", IDLE)
        );
        of(&text).summary.notes.join("; ")
    };
    assert!(
        notes(A).contains("1 of the load's 1 pipes and sockets is replayed"),
        "{}",
        notes(A)
    );
    assert!(!notes(c).contains("sockets"), "{}", notes(c));
}

/// The second writer has written a part, and sleeps until the reader has made room.
#[test]
fn a_full_pipe_holds_what_it_held() {
    let text = [
        switch(0, 100, IDLE, "R", A),
        moved(0, 200, A, "pipe_write", 100),
        switch(0, 300, A, "S", B),
        waking(0, 400, B, "d..2.", A),
        moved(0, 401, B, "pipe_read", 130),
        switch(0, 500, B, "S", A),
        waking(0, 550, A, "d..2.", B),
        moved(0, 600, A, "pipe_write", 50),
        switch(0, 700, A, "X", B),
        moved(0, 710, B, "pipe_read", 20),
        switch(0, 800, B, "X", IDLE),
    ]
    .concat();
    let recording = of(&text).recording;
    assert_eq!(recording.streams, [130]);
    let steps = |thread: usize, write: bool| -> Vec<u64> {
        let steps = recording.threads[thread].steps.iter();
        steps
            .filter_map(|step| match *step {
                Step::Read(0, bytes) if !write => Some(bytes),
                Step::Write(0, bytes) if write => Some(bytes),
                _ => None,
            })
            .collect()
    };
    assert_eq!(
        (steps(0, true), steps(1, false)),
        (vec![100, 30, 20], vec![130, 20])
    );
    assert!(!recording.threads.iter().any(|it| it.steps.contains(&Wait)));
}
