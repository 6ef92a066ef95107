//! Traces that lack events.

use super::*;

/// `count` turns of A and B, and the switches that perf records for A alone: those at which A leaves the CPU.
fn turns(count: u64) -> (String, String) {
    let (mut all, mut of_a) = (String::new(), String::new());
    for turn in 0..count {
        let us = turn * 1000;
        let (there, back) = (switch(0, us, B, "R", A), switch(0, us + 600, A, "R", B));
        all += &(there + &back);
        of_a += &back;
    }
    (all, of_a)
}

#[test]
fn a_trace_of_some_threads_is_refused() {
    let (all, of_a) = turns(20);
    let error = import("t.txt", of_a.as_bytes(), None).err().unwrap();
    let says = "t.txt: at 19 of 20 switches, a thread leaves a CPU on which another thread ran";
    assert!(error.message().starts_with(says), "{}", error.message());
    assert!(error.expected().contains("perf record -a"));
    assert!(
        !of(&all)
            .summary
            .notes
            .iter()
            .any(|it| it.contains("switches"))
    );
}

#[test]
fn a_note_counts_the_switches_that_do_not_fit() {
    let (all, _) = turns(20);
    let cut = all.replacen(&switch(0, 5_000, B, "R", A), "", 1);
    let notes = of(&cut).summary.notes;
    let says = "at 1 of 39 switches, a thread leaves a CPU on which another thread ran";
    assert!(notes.iter().any(|it| it.starts_with(says)), "{notes:?}");
    let notes = of(&("CPU:0 [LOST 1 EVENTS]\n".to_owned() + &cut))
        .summary
        .notes;
    assert!(!notes.iter().any(|it| it.contains("switches")), "{notes:?}");
}

/// After its first lines the trace has the events of CPU 0 only, as from `perf script --cpu 0`. B wakes A on CPU 1.
#[test]
fn a_note_counts_the_sleeps_that_no_event_ends() {
    let turn = |ms: u64| {
        [
            waking(1, 1000 * ms, B, "d..2.", A),
            switch(0, 1000 * ms + 10, IDLE, "R", A),
            switch(0, 1000 * ms + 500, A, "S", IDLE),
        ]
    };
    let turns: String = (1..20).flat_map(turn).collect();
    let all = switch(1, 0, IDLE, "R", B) + &turns;
    let says = |text: &str| {
        let notes = of(text).summary.notes;
        notes.into_iter().find(|it| it.contains("sleeps"))
    };
    assert_eq!(says(&all), None);
    let lines = all.split_inclusive('\n').enumerate();
    let of_cpu_0 = lines.filter(|(number, line)| *number < 6 || line.contains("[000]"));
    let text: String = of_cpu_0.map(|(_, line)| line).collect();
    let note = says(&text).unwrap();
    let expected = "17 of 19 sleeps end without a wakeup";
    assert!(note.starts_with(expected), "{note}");
}

/// The buffer of CPU 1 begins 0.9 s after that of CPU 0, and the first event there is a wakeup.
#[test]
fn events_that_ftrace_has_overwritten_are_lost() {
    let trace = [
        switch(0, 0, IDLE, "R", A),
        waking(1, 900_000, B, "d.h2.", ("c", 12)),
        switch(1, 900_100, B, "S", IDLE),
        switch(0, 950_000, A, "S", IDLE),
    ]
    .concat();
    let heading = |written: u32| {
        format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: 4/{written}   #P:2\n")
    };
    let ran = |summary: &Summary| {
        let b = summary.threads.iter().find(|it| it.name == "b").unwrap();
        b.ran_ns / 1000
    };
    let complete = of(&(heading(4) + &trace));
    assert_eq!(
        (complete.summary.lost, ran(&complete.summary)),
        (0, 900_100)
    );
    let cut = of(&(heading(1004) + &trace));
    assert_eq!((cut.summary.lost, ran(&cut.summary)), (1000, 100));
    let b = cut.recording.threads.iter().find(|it| it.name == "b");
    assert_eq!(b.unwrap().steps, [Sleep(900_000_000), Run(100_000)]);
}

/// ftrace's text has the number of online CPUs, and trace-cmd's heading has the configured number.
#[test]
fn an_offline_cpu_is_one_of_the_machine() {
    let six = Machine::parse(
        "six.toml",
        "name = \"six\"\noffline = \"2-3\"\n[core.any]\n[[package]]\n[[package.cluster]]\ncore = \"any\"\ncpus = \"0-1,4-5\"\n",
    )
    .unwrap();
    let import = |heading: &str| {
        let text = heading.to_owned() + "\n" + &story();
        import("t.txt", text.as_bytes(), Some(&six)).map(drop)
    };
    for heading in ["# #P:4", "cpus=6", "cpus=8"] {
        import(heading).unwrap();
    }
    for heading in ["# #P:6", "# #P:2", "cpus=4"] {
        let error = import(heading).unwrap_err();
        let message = error.message();
        assert!(message.contains("machine `six` has 4 CPUs"), "{message}");
    }
}

#[test]
fn impossible_cpus_are_refused() {
    for cpu in [4096, 2_147_483_647_u32, u32::MAX] {
        let text = format!("a-10 [000] ..... 0.1: cpu_frequency: state=1000 cpu_id={cpu}\n");
        let error = import("t.txt", text.as_bytes(), None).err().unwrap();
        let says =
            format!("t.txt:1: the trace has an event on CPU {cpu}, but a machine has at most");
        assert!(error.message().starts_with(&says), "{}", error.message());
    }
}

#[test]
fn a_frequency_of_zero_is_unknown() {
    let machine = Machine::find("odroid-xu3").unwrap();
    let text = "a-10 [000] ..... 0.000000: cpu_frequency: state=0 cpu_id=0\n".to_owned() + &story();
    let with = import("t.txt", text.as_bytes(), Some(&machine)).unwrap();
    let without = import("t.txt", story().as_bytes(), Some(&machine)).unwrap();
    assert_eq!(with.recording.threads, without.recording.threads);
}

/// `cat trace_pipe` that is killed leaves such a line.
#[test]
fn the_last_line_may_be_cut() {
    let story = story();
    let last = story.trim_end().rfind('\n').unwrap() + 1;
    let expected = of(&story[..last]);
    for cut in [last + 3, last + 30, story.len() - 20] {
        let read = of(&story[..cut]);
        assert_eq!(read.recording, expected.recording, "{}", &story[last..cut]);
    }
    let error = import("t.txt", &story.as_bytes()[..50], None)
        .err()
        .unwrap();
    assert!(
        error.message().starts_with("t.txt:1: "),
        "{}",
        error.message()
    );
    let within = story[..last - 20].to_owned() + "\n" + &story[last..];
    assert!(import("t.txt", within.as_bytes(), None).is_err());
}
