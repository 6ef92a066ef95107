mod kinds;
mod lacks;
mod locks;
mod streams;

use super::*;
use workload::recording::Step::{self, Fork, Run, Sleep, Wait, Wake};

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

/// A runs, wakes B, and sleeps until a timer expires; B runs while A sleeps.
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

/// A has the priority of a real-time thread that waits for its mutex, also when it runs for the last time.
#[test]
fn a_priority_that_was_inherited_is_none_of_the_thread_s() {
    let boosted = |text: String| text.replace("next_prio=120", "next_prio=49");
    let text = [
        boosted(switch(0, 0, IDLE, "R", A)),
        switch(0, 100, A, "R", B),
        switch(0, 200, B, "S", A),
        switch(0, 500, A, "S", IDLE),
        waking(0, 600, IDLE, "d.h2.", A),
        boosted(switch(0, 600, IDLE, "R", A)),
        switch(0, 700, A, "X", IDLE),
    ]
    .concat();
    let threads = of(&text).recording.threads;
    assert_eq!((threads[0].nice, threads[0].fifo), (0, None));
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
    // B ran at 700 of 1400 MHz. Ticks and the switch to the next thread are the kernel's part of the time.
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
            .contains("t.txt:1: the trace has an event on CPU 9, but machine `odroid-xu3` has 8"),
        "{}",
        error.message()
    );
}

#[test]
fn lost_events_are_counted() {
    let text = story() + "CPU:0 [LOST 12 EVENTS]\n";
    assert_eq!(of(&text).summary.lost, 12);
    // The sum of the two halves would overflow to 0.
    let half = format!("CPU:0 [LOST {} EVENTS]\n", 1_u64 << 63);
    let text = story() + &half + &half;
    assert_eq!(of(&text).summary.lost, u64::MAX);
    let half = format!("# entries-in-buffer/entries-written: 0/{}\n", 1_u64 << 63);
    let text = half.repeat(2) + &story();
    assert_eq!(of(&text).summary.lost, u64::MAX);
}

#[test]
fn a_file_that_is_no_trace_is_one_message_with_its_line() {
    for (text, says) in [
        (
            "# tracer: nop\nhello world\n".to_owned(),
            "t.txt:2: `hello world` is not a line",
        ),
        (
            story() + "b-11 [000] d..2. 0.9: sched_switch: prev_comm=b pre\n",
            "t.txt:8: ",
        ),
        (String::new(), "t.txt: no scheduling event"),
        ("{\"traceEvents\":[]}".to_owned(), "t.txt:1: "),
        (waking(0, 1, A, "d..2.", B), "t.txt: no sched_switch"),
        (
            "x".repeat(crate::read::text::LONGEST_LINE + 1),
            "t.txt:1: a line is too long",
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
    // A has slept while no other thread ran. B has never slept like this, so it waits for A.
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

/// A timer always expires while the same thread runs, although this thread runs more often than the timer expires.
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

#[test]
fn a_switch_to_another_cpu_is_a_migration() {
    let story = story().replace("[000] d..2. 0.002410", "[001] d..2. 0.002410");
    let story = story.replace("[000] d..2. 0.002500", "[001] d..2. 0.002500");
    let threads = of(&story).summary.threads;
    assert_eq!([threads[0].migrations, threads[1].migrations], [1, 0]);
}

/// `cat per_cpu/cpu*/trace` prints one CPU after the other.
#[test]
fn events_of_several_cpus_are_sorted_by_time() {
    let story = story().replace("[000] d..2. 0.0024", "[001] d..2. 0.0024");
    let story = story.replace("[000] d..2. 0.0025", "[001] d..2. 0.0025");
    let (first, last): (Vec<&str>, _) = story.lines().partition(|line| line.contains("[001]"));
    let by_cpu = [first, last].concat().join("\n");
    let (expected, sorted) = (of(&story), of(&by_cpu));
    assert_eq!(sorted.recording, expected.recording);
    assert_eq!(sorted.summary, expected.summary);
}

#[test]
fn a_cpu_whose_time_goes_back_is_refused() {
    let ahead = story().replace("0.000400", "9999.0");
    for (text, says) in [
        (
            story() + &story(),
            "t.txt:8: an event of CPU 0 at 0.000100000 s follows one at 0.002500000 s in line 7",
        ),
        (
            ahead,
            "t.txt:4: an event of CPU 0 at 0.001400000 s follows one at 9999.000000000 s in line 3",
        ),
    ] {
        let error = import("t.txt", text.as_bytes(), None).err().unwrap();
        assert_eq!(error.message(), says);
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
