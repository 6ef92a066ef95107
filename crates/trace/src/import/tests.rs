use super::*;
use workload::recording::Step::{self, Fork, Run, Sleep, Wait, Wake};

/// The load of `lines`, on a machine of two equal CPUs without a description.
pub(super) fn of(lines: &str) -> Imported {
    import("t.txt", lines.as_bytes(), None).unwrap_or_else(|error| panic!("{}", error.message()))
}

pub(super) fn switch(
    cpu: usize,
    us: u64,
    prev: (&str, i32),
    state: &str,
    next: (&str, i32),
) -> String {
    format!(
        "{}-{} [00{cpu}] d..2. 0.{us:06}: sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> \
         next_comm={} next_pid={} next_prio=120\n",
        prev.0, prev.1, prev.0, prev.1, next.0, next.1
    )
}

pub(super) fn waking(
    cpu: usize,
    us: u64,
    by: (&str, i32),
    flags: &str,
    task: (&str, i32),
) -> String {
    format!(
        "{}-{} [00{cpu}] {flags} 0.{us:06}: sched_waking: comm={} pid={} prio=120 target_cpu=000\n",
        by.0, by.1, task.0, task.1
    )
}

pub(super) const IDLE: (&str, i32) = ("swapper/0", 0);
pub(super) const A: (&str, i32) = ("a", 10);
pub(super) const B: (&str, i32) = ("b", 11);

/// A runs, wakes B, and sleeps until a timer; B runs when A sleeps.
pub(super) fn story() -> String {
    [
        switch(0, 100, IDLE, "R", A),
        waking(0, 300, A, "d..2.", B),
        switch(0, 400, A, "S", B),
        switch(0, 1_400, B, "S", IDLE),
        waking(0, 2_400, IDLE, "d.h2.", A),
        switch(0, 2_410, IDLE, "R", A),
        switch(0, 2_500, A, "X", IDLE),
    ]
    .concat()
}

#[test]
fn runs_sleeps_and_wakeups() {
    let imported = of(&story());
    let threads = &imported.recording.threads;
    let us = 1_000;
    assert_eq!(
        threads[0].steps,
        [
            Run(200 * us),
            Wake(1),
            Run(100 * us),
            Sleep(2_000 * us),
            Run(90 * us)
        ]
    );
    assert_eq!(threads[1].steps, [Wait, Run(1_000 * us)]);
    let summary = &imported.summary;
    assert_eq!((summary.events, summary.switches, summary.lost), (7, 5, 0));
    let ran: Vec<u64> = summary.threads.iter().map(|it| it.ran_ns).collect();
    assert_eq!(ran, [390 * us, 1_000 * us]);
    assert_eq!(summary.threads[0].latencies_ns, [10 * us]);
    assert_eq!(summary.span_ns, 2_400 * us);
}

#[test]
fn an_interrupted_thread_is_not_the_waker() {
    let by_timer = story().replace("[000] d..2. 0.000300", "[000] d.h2. 0.000300");
    let threads = of(&by_timer).recording.threads;
    assert_eq!(threads[0].steps[0], Run(300_000));
    assert_eq!(threads[1].steps[0], Sleep(200_000));
}

#[test]
fn children_are_started_by_their_parents() {
    let fork = "a-10 [000] ..... 0.000200: sched_process_fork: comm=a pid=10 child_comm=b child_pid=11\n\
                a-10 [000] d..2. 0.000210: sched_wakeup_new: comm=b pid=11 prio=125 target_cpu=001\n";
    let text = [
        &switch(0, 100, IDLE, "R", A),
        fork,
        &switch(1, 220, IDLE, "R", B).replace("next_prio=120", "next_prio=125"),
        &switch(0, 2_300, A, "X", IDLE),
        &switch(1, 2_420, B, "X", IDLE),
    ]
    .map(|text| text.to_owned())
    .concat();
    let threads = of(&text).recording.threads;
    assert_eq!(threads[0].steps, [Run(100_000), Fork(1), Run(2_100_000)]);
    assert_eq!(
        (threads[1].steps.as_slice(), threads[1].nice),
        (&[Run(2_200_000)][..], 5)
    );
}

#[test]
fn work_is_by_the_speed_of_the_cpu() {
    let machine = Machine::find("odroid-xu3").unwrap();
    let little = machine.core_types[machine.cpus[0].core_type].speed;
    let text =
        "a-10 [000] ..... 0.000000: cpu_frequency: state=700000 cpu_id=0\n".to_owned() + &story();
    let imported = import("t.txt", text.as_bytes(), Some(&machine)).unwrap();
    let Run(work) = imported.recording.threads[1].steps[1] else {
        panic!("expected B to run")
    };
    // B ran at 700 of 1400 MHz. Ticks, and the switch to the next thread, are the kernel's part.
    let costs = machine.core_types[machine.cpus[0].core_type].costs;
    let ns = 1_000_000;
    let ticks = ns * 2 * costs.tick_ns * u64::from(machine.hz) / 1_000_000_000;
    let end = 2 * costs.context_switch_ns;
    let expected = machine::work_in(ns - ticks - end, little) / 2;
    assert!(work.abs_diff(expected) <= 2, "{work} {expected}");
    let beyond = switch(9, 1, IDLE, "R", A);
    let error = import("t.txt", beyond.as_bytes(), Some(&machine))
        .err()
        .unwrap();
    assert!(
        error
            .message()
            .contains("t.txt:1: CPU 9, and odroid-xu3 has 8"),
        "{}",
        error.message()
    );
}

#[test]
fn lost_events_are_counted() {
    let text = story() + "CPU:0 [LOST 12 EVENTS]\n";
    assert_eq!(of(&text).summary.lost, 12);
}

#[test]
fn a_file_that_is_no_trace_is_one_message_with_its_line() {
    for (text, says) in [
        (
            "# tracer: nop\nhello world\n".to_owned(),
            "t.txt:2: `hello world` is not a line",
        ),
        (
            story() + "b-11 [000] d..2. 0.9: sched_switch: prev_comm=b pre",
            "t.txt:8: ",
        ),
        (String::new(), "t.txt: no scheduling event"),
        ("{\"traceEvents\":[]}".to_owned(), "t.txt:1: "),
        (waking(0, 1, A, "d..2.", B), "t.txt: no sched_switch"),
        (
            "x".repeat(crate::read::text::LONGEST_LINE + 1),
            "t.txt:1: a line without end",
        ),
    ] {
        let error = import("t.txt", text.as_bytes(), None).err().unwrap();
        assert!(
            error.message().starts_with(says),
            "{says}: {}",
            error.message()
        );
    }
    assert!(import("t.txt", &b"\xff\xfe"[..], None).is_err());
}

/// Without flags, a thread that timers wake on idle CPUs is not believed to wait for the
/// interrupted thread.
#[test]
fn without_flags_there_is_doubt() {
    let text = story().replace("d.h2.", ".....").replace("d..2.", ".....");
    let both = of(&text);
    // A has slept while no other thread ran. B has never done so, and waits for A.
    assert_eq!(both.recording.threads[1].steps[0], Wait);
    assert!(
        both.summary.notes[0].contains("no interrupt flags: 0 wakeups"),
        "{:?}",
        both.summary.notes
    );
    let again = [
        waking(0, 2_450, A, ".....", B),
        switch(0, 2_500, A, "S", B),
        switch(0, 2_600, B, "S", IDLE),
        waking(0, 2_700, IDLE, ".....", B),
        switch(0, 2_710, IDLE, "R", B),
        switch(0, 2_800, B, "S", IDLE),
    ]
    .concat();
    let text = text
        .lines()
        .take(6)
        .map(|line| format!("{line}\n"))
        .collect::<String>()
        + &again;
    let doubted = of(&text).recording.threads;
    assert!(!doubted[1].steps.contains(&Wait), "{:?}", doubted[1].steps);
    assert!(!doubted[0].steps.iter().any(|step| matches!(step, Wake(_))));
}

#[test]
fn a_period_is_kept_whatever_happens() {
    let late = [0, 40, 10, 90, 20, 0];
    let text: String = (0..6)
        .map(|period| {
            let at = 10_000 * period + late[period as usize];
            [
                waking(0, at, IDLE, "d.h2.", A),
                switch(0, at + 5, IDLE, "R", A),
                switch(0, at + 3_000, A, "S", IDLE),
            ]
            .concat()
        })
        .collect();
    let steps = &of(&text).recording.threads[0].steps;
    let until = |ms: u64, us: u64| Step::Until((ms * 1000 + us) * 1000);
    assert_eq!([steps[2], steps[4]], [until(10, 40), until(20, 10)]);
}

/// A timer that always expires while the same thread runs, although the thread runs more often than
/// the timer expires.
#[test]
fn without_flags_a_period_is_a_timer() {
    let text: String = (0..24)
        .map(|tick| {
            let at = 10_000 * tick;
            let woken = match tick % 4 {
                0 => waking(0, at + 50, A, ".....", B),
                _ => String::new(),
            };
            [
                waking(0, at, IDLE, ".....", A),
                switch(0, at + 5, IDLE, "R", A),
                woken,
                switch(0, at + 1_000, A, "S", B),
                switch(0, at + 2_000, B, "S", IDLE),
            ]
            .concat()
        })
        .collect();
    let threads = of(&text).recording.threads;
    let b = threads.iter().find(|thread| thread.name == "b").unwrap();
    assert!(!b.steps.contains(&Wait), "{:?}", b.steps);
}

fn moved(cpu: usize, us: u64, by: (&str, i32), event: &str, bytes: i64) -> String {
    format!(
        "{}-{} [00{cpu}] ..... 0.{us:06}: {event}: (vfs_read+0x1/0x2 <- {event}) object=0xffff8000 bytes={bytes}\n",
        by.0, by.1
    )
}

/// B sleeps for A's first bytes, and finds the second ones already there.
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

/// The event of the wakeup comes while B is about to sleep on another CPU, and A's call is over when
/// B runs again.
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
fn a_switch_to_another_cpu_is_a_migration() {
    let story = story().replace("[000] d..2. 0.002410", "[001] d..2. 0.002410");
    let story = story.replace("[000] d..2. 0.002500", "[001] d..2. 0.002500");
    let threads = of(&story).summary.threads;
    assert_eq!([threads[0].migrations, threads[1].migrations], [1, 0]);
}

/// These bytes come from a thread outside the trace.
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
    assert!(imported.summary.notes[0].contains("1 of the load's 1 pipes and sockets are replayed"));
}

/// Remarks about streams concern only streams that the load uses.
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
        notes(A).contains("1 of the load's 1 pipes and sockets are replayed"),
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

/// A call of futex(2) for the word at `address`: a wait for a mutex, or a wakeup.
fn futex(cpu: usize, us: u64, by: (&str, i32), address: u64, waits: bool) -> String {
    let (operation, value) = if waits { (0x80, 2) } else { (0x81, 1) };
    format!(
        "{}-{} [00{cpu}] ..... 0.{us:06}: sys_enter: NR 202 ({address:x}, {operation:x}, {value:x}, 0, 0, 0)\n",
        by.0, by.1
    )
}

/// A has a mutex when B requests it; B releases it later.
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

/// A sleeps while it holds the mutex that B waits for, and A wakes B for another reason while B
/// holds it.
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

/// If the mutex is held together with another, if a thread waits for it in another way, or if the
/// call has another number, it remains wakeups.
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

#[test]
fn affinities_are_steps() {
    let set = "a-10 [000] ..... 0.000350: sched_setaffinity: (x <- y) task=0 cpus=0x1 result=0\n\
               a-10 [000] ..... 0.000360: sched_setaffinity: (x <- y) task=11 cpus=0x3 result=0\n";
    let other = switch(1, 390, IDLE, "R", ("c", 12));
    let text = story().replace(
        &switch(0, 400, A, "S", B),
        &(set.to_owned() + &other + &switch(0, 400, A, "S", B)),
    );
    let threads = of(&text).recording.threads;
    let cpus = |name: &str| {
        let thread = threads.iter().find(|thread| thread.name == name).unwrap();
        let mut steps = thread.steps.iter();
        steps.find(|step| matches!(step, Step::Cpus(_))).copied()
    };
    assert_eq!(cpus("a"), Some(Step::Cpus(Some(1))));
    assert_eq!(cpus("b"), Some(Step::Cpus(None)));
}

/// Only fair policies have slices, the kernel bounds them, children inherit them, and a request for the
/// same slice is no step.
#[test]
fn requested_slices_are_steps() {
    let set = |us: u64, pid: i32, policy: i32, ns: u64| {
        format!(
            "a-10 [000] ..... 0.{us:06}: __sched_setscheduler: (x <- y) task={pid} policy={policy} runtime={ns} result=0\n"
        )
    };
    let requests = [
        set(350, 10, 0, 200_000),
        set(351, 10, -1, 200_000),
        set(352, 10, 6, 1_000_000),
        set(353, 11, 3, 10),
        "a-10 [000] ..... 0.000354: sched_process_fork: comm=a pid=10 child_comm=a child_pid=12\n"
            .to_owned(),
        set(355, 12, 0, 200_000),
        set(356, 12, 0, 0),
        switch(1, 390, IDLE, "R", ("c", 12)),
        switch(1, 395, ("c", 12), "X", IDLE),
        switch(0, 400, A, "S", B),
    ];
    let text = story().replace(&switch(0, 400, A, "S", B), &requests.concat());
    // Without the mark, a thread that starts another at once would count as a shell.
    let mark = |what: &str| format!("r-9 [000] ..... 0.000090: tracing_mark_write: {MARK}{what}\n");
    let text = mark("load 10 a") + &mark("load 11 b") + &text;
    let slices = |text: &str, name: &str| {
        let threads = of(text).recording.threads;
        let thread = threads.iter().find(|thread| thread.name == name).unwrap();
        let slice = |step: &Step| match *step {
            Step::Slice(ns) => Some(ns),
            _ => None,
        };
        thread.steps.iter().filter_map(slice).collect::<Vec<_>>()
    };
    assert_eq!(slices(&text, "a"), [200_000]);
    assert_eq!(slices(&text, "b"), [100_000]);
    assert_eq!(slices(&text, "c"), [200_000, 0]);
    let marked = mark("slice 10 3000000") + &text;
    assert_eq!(slices(&marked, "a"), [3_000_000, 200_000]);
}
