use super::*;
use crate::recording::Step::{self, Fork, Run, Sleep, Wait, Wake};

/// The load of `lines`, on a machine of two alike CPUs that nobody described.
fn of(lines: &str) -> Imported {
    import("t.txt", lines.as_bytes(), None).unwrap_or_else(|error| panic!("{}", error.message()))
}

fn switch(cpu: usize, us: u64, prev: (&str, i32), state: &str, next: (&str, i32)) -> String {
    format!(
        "{}-{} [00{cpu}] d..2. 0.{us:06}: sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> \
         next_comm={} next_pid={} next_prio=120\n",
        prev.0, prev.1, prev.0, prev.1, next.0, next.1
    )
}

fn waking(cpu: usize, us: u64, by: (&str, i32), flags: &str, task: (&str, i32)) -> String {
    format!(
        "{}-{} [00{cpu}] {flags} 0.{us:06}: sched_waking: comm={} pid={} prio=120 target_cpu=000\n",
        by.0, by.1, task.0, task.1
    )
}

const IDLE: (&str, i32) = ("swapper/0", 0);
const A: (&str, i32) = ("a", 10);
const B: (&str, i32) = ("b", 11);

/// A runs, wakes B on the way, and sleeps until a timer; B runs when A has gone.
fn story() -> String {
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
fn runs_sleeps_and_who_wakes_whom() {
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
fn who_is_interrupted_wakes_nobody() {
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
    // 700 of 1400 MHz, without what the kernel's part takes: the switch to B, and ticks.
    let costs = machine.core_types[machine.cpus[0].core_type].costs;
    let ns = 1_000_000 - 2 * costs.context_switch_ns;
    let ticks = ns * 2 * costs.tick_ns * u64::from(machine.hz) / 1_000_000_000;
    let expected = machine::work_in(ns - ticks, little) / 2;
    assert!(work.abs_diff(expected) <= 1, "{work} {expected}");
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
fn what_was_lost_is_counted() {
    let text = story() + "CPU:0 [LOST 12 EVENTS]\n";
    assert_eq!(of(&text).summary.lost, 12);
}

#[test]
fn what_is_no_trace_is_one_message_with_its_line() {
    for (text, says) in [
        (
            "# tracer: nop\nhello world\n".to_owned(),
            "t.txt:2: `hello world` is no line",
        ),
        (
            story() + "b-11 [000] d..2. 0.9: sched_switch: prev_comm=b pre",
            "t.txt:8: ",
        ),
        (String::new(), "t.txt: no event"),
        ("{\"traceEvents\":[]}".to_owned(), "t.txt:1: "),
        (waking(0, 1, A, "d..2.", B), "t.txt: no sched_switch"),
        (
            "x".repeat(text::LONGEST_LINE + 1),
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

/// Without flags a thread that timers wake up on idle CPUs is not believed to wait for whom they interrupt.
#[test]
fn without_flags_there_is_doubt() {
    let text = story().replace("d.h2.", ".....").replace("d..2.", ".....");
    let both = of(&text);
    // A has slept alone; B never has, and waits for A.
    assert_eq!(both.recording.threads[1].steps[0], Wait);
    assert!(
        both.summary.notes[0].contains("does not tell interrupts: 0 wakeups"),
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

/// A timer that always comes while the same thread runs, which runs more often than it comes.
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
