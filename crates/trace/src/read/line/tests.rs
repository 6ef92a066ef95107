use super::*;
use crate::event::DEFAULT_PRIO;

fn event_of(line: &str) -> Line<'_> {
    match read(line) {
        Ok(Read::Event(line)) => line,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn one_switch_in_every_way_of_writing_it() {
    let expected = Tracepoint::Switch {
        prev: Task {
            comm: "my task",
            pid: 17,
            prio: 120,
        },
        state: State::Blocked,
        next: Task {
            comm: "swapper/1",
            pid: 0,
            prio: 120,
        },
    };
    for line in [
        "         my task-17      [001] d..2.    12.000345: sched_switch: prev_comm=my task prev_pid=17 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120",
        "         my task-17    (     16) [001] d..2 12.000345: sched_switch: prev_comm=my task prev_pid=17 prev_prio=120 prev_state=D ==> next_comm=swapper/1 next_pid=0 next_prio=120",
        "         my task-17    [001]    12.000345: sched_switch:         my task:17 [120] S ==> swapper/1:0 [120]",
        "my task    17 [001]    12.000345:       sched:sched_switch: my task:17 [120] S ==> swapper/1:0 [120]",
        "my task    16/17 [001]    12.000345000: sched:sched_switch: prev_comm=my task prev_pid=17 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120",
    ] {
        let read = event_of(line);
        assert_eq!(
            (read.cpu, read.at, read.interrupt),
            (1, 12_000_345_000, false),
            "{line}"
        );
        assert_eq!(read.event, expected, "{line}");
    }
}

#[test]
fn wakeups_and_their_context() {
    let task = Task {
        comm: "a-b:c",
        pid: 9,
        prio: 98,
    };
    let wakeup = |stage, target_cpu| Tracepoint::Wakeup {
        stage,
        task,
        target_cpu,
    };
    let line = "  <idle>-0  [003] dNh5. 1.5: sched_waking: comm=a-b:c pid=9 prio=98 target_cpu=003";
    let read = event_of(line);
    assert_eq!(
        (read.interrupt, read.event),
        (true, wakeup(Stage::Waking, Some(3)))
    );
    let line = "swapper 0 [003] 1.500000000: sched:sched_wakeup: a-b:c:9 [98] success=1 CPU:003";
    let read = event_of(line);
    assert_eq!(
        (read.interrupt, read.at, read.event),
        (false, 1_500_000_000, wakeup(Stage::Woken, None))
    );
    let line =
        "sh-7 [000] .... 1.5: sched_process_fork: comm=sh pid=7 child_comm=ls -l child_pid=8";
    let child = Task {
        comm: "ls -l",
        pid: 8,
        prio: DEFAULT_PRIO,
    };
    let parent = Task {
        comm: "sh",
        pid: 7,
        prio: DEFAULT_PRIO,
    };
    assert_eq!(event_of(line).event, Tracepoint::Fork { parent, child });
    let line = "<idle>-0 [000] .... 1.5: cpu_frequency: state=1200000 cpu_id=2";
    assert_eq!(
        event_of(line).event,
        Tracepoint::Frequency {
            cpu: 2,
            khz: 1_200_000
        }
    );
}

#[test]
fn a_name_may_have_an_equals_sign() {
    let line =
        "a pid=1-77 [000] d.... 1.5: sched_waking: comm=a pid=1 pid=77 prio=120 target_cpu=000";
    let task = Task {
        comm: "a pid=1",
        pid: 77,
        prio: 120,
    };
    let expected = Tracepoint::Wakeup {
        stage: Stage::Waking,
        task,
        target_cpu: Some(0),
    };
    assert_eq!(event_of(line).event, expected);
    let line = "a-7 [000] d.... 1.5: sched_switch: prev_comm=a prev_pid=1 prev_pid=7 prev_prio=120 prev_state=S \
                ==> next_comm=b prev_prio=9 next_pid=8 next_prio=98";
    let task = |comm, pid, prio| Task { comm, pid, prio };
    let expected = Tracepoint::Switch {
        prev: task("a prev_pid=1", 7, 120),
        state: State::Blocked,
        next: task("b prev_prio=9", 8, 98),
    };
    assert_eq!(event_of(line).event, expected);
    for line in [
        "a-1 [000] 1.0: sched_wakeup: comm=b success=0 pid=8 prio=98 target_cpu=000",
        "a 1 [000] 1.0: sched:sched_wakeup: b success=0:8 [98] CPU:000",
    ] {
        let Tracepoint::Wakeup { task: woken, .. } = event_of(line).event else {
            panic!("{line}: {:?}", event_of(line).event)
        };
        assert_eq!(woken, task("b success=0", 8, 98), "{line}");
    }
}

#[test]
fn irrelevant_lines_are_skipped() {
    for line in [
        "",
        "# tracer: nop",
        "CPU 1 is empty",
        "version = 7",
        "Average wakeup latency: 203.930 usecs",
        "Maximum Latency: 7969.306 usecs at timestamp: 0.009070",
        "PERF_RECORD_FINISHED_ROUND",
    ] {
        assert_eq!(read(line), Ok(Read::Nothing), "{line}");
    }
    assert_eq!(read("#          #P:8"), Ok(Read::Online(8)));
    assert_eq!(read("cpus=2"), Ok(Read::Cpus(2)));
    assert_eq!(read("CPU:2 [LOST 12 EVENTS]"), Ok(Read::Lost(12)));
    assert_eq!(read("CPU:2 [7 EVENTS DROPPED]"), Ok(Read::Lost(7)));
    assert_eq!(
        read("perf 1 [000] 1.0: PERF_RECORD_LOST lost 5"),
        Ok(Read::Lost(5))
    );
    for line in [
        "hello",
        "a-1 [000] .... x: y: z",
        "a-1 [9999] .... 1.0: y: z",
        "a-1 [000] 1.0: sched_switch: prev_comm=a prev",
    ] {
        assert!(read(line).is_err(), "{line}");
    }
    for line in [
        "\tffffffff8111 schedule+0x1 ([kernel])",
        "\t               0 [unknown] ([unknown])",
        " => __schedule",
        "=> schedule (ffffffff8111)",
    ] {
        assert_eq!(read(line), Err(Wrong::Shape), "{line}");
        assert!(is_in_call_chain(line), "{line}");
    }
    assert!(!is_in_call_chain("hello"));
}

#[test]
fn the_name_of_a_thread_does_not_hide_an_event() {
    for comm in [
        "[001] 1.0: x",
        "#work",
        "version",
        "version = 6",
        "cpus=3",
        "CPU:1 LOST",
        "CPU 1",
    ] {
        for head in ["-9 [000] d..2. 1.5: ", "    9 [000] 1.5:  sched:"] {
            let line = format!(
                "{comm}{head}sched_switch: prev_comm={comm} prev_pid=9 prev_prio=120 prev_state=S ==> \
                 next_comm=swapper/0 next_pid=0 next_prio=120"
            );
            let Tracepoint::Switch { prev, .. } = event_of(&line).event else {
                panic!("{line}")
            };
            assert_eq!(prev.comm, comm, "{line}");
        }
    }
}

#[test]
fn states_are_letters_or_bits() {
    for (text, expected) in [
        ("R", State::Runnable),
        ("R+", State::Runnable),
        ("S", State::Blocked),
        ("D|K", State::Blocked),
        ("I", State::Blocked),
        ("Z", State::Dead),
        ("x", State::Dead),
        ("0", State::Runnable),
        ("256", State::Runnable),
        ("0x100", State::Runnable),
        ("1", State::Blocked),
        ("0x402", State::Blocked),
        ("16", State::Dead),
        ("64", State::Dead),
        ("0x1 (1)", State::Blocked),
        ("0x10 (16)", State::Dead),
        ("0x100 (256)", State::Runnable),
    ] {
        assert_eq!(state(text), Some(expected), "{text}");
    }
    for neither in [" ", "0xx", "?"] {
        assert_eq!(state(neither), None, "{neither}");
    }
}

#[test]
fn what_is_around_an_event_does_not_hide_it() {
    let fields = "comm=w[1] pid=9 prio=98 target_cpu=003";
    for (line, at, interrupt) in [
        (
            "w[1]-9 [003] d..2. 1.5: sched_waking: ",
            1_500_000_000,
            false,
        ),
        (
            "w[1] 9 [003] 1.5: 1 sched:sched_waking:k: ",
            1_500_000_000,
            false,
        ),
        (
            "w 9 [003] 1.5: sched:sched_waking/call-graph=no/: ",
            1_500_000_000,
            false,
        ),
        (
            "w-9 [003] d...2.. 1.5: sched_waking: ",
            1_500_000_000,
            false,
        ),
        ("w-9 [003] dN.h3.. 1.5: sched_waking: ", 1_500_000_000, true),
        (
            "w-9 [003] d..2. 1.500000: (+12) sched_waking: ",
            1_500_000_000,
            false,
        ),
        ("     w-9   3dN.h2.. 14us : sched_waking: ", 14_000, true),
        ("     w-9   3b..2. 14us : sched_waking: ", 14_000, false),
        (
            "  <idle>-0       3dNh2   14us : sched_waking: ",
            14_000,
            true,
        ),
        (
            "    bash-1994    3d..2  103us+: sched_waking: ",
            103_000,
            false,
        ),
        (
            "    bash-1994    3d..2. 12.000345: sched_waking: ",
            12_000_345_000,
            false,
        ),
    ] {
        let line = line.to_owned() + fields;
        let read = event_of(&line);
        assert_eq!(
            (read.cpu, read.at, read.interrupt),
            (3, at, interrupt),
            "{line}"
        );
        let Tracepoint::Wakeup { task, .. } = read.event else {
            panic!("{line}: {:?}", read.event)
        };
        assert_eq!((task.comm, task.pid), ("w[1]", 9), "{line}");
    }
    for line in [
        "a-1 [000] d..2 1.0: <stack trace>",
        "a-1 [000] d..2 1.0: mutex_unlock <-rb_simple_write",
        "a-1 [000] 1.0: sched_wakeup: comm=a pid=10 prio=120 success=0 target_cpu=0",
        "a 1 [000] 1.0: sched:sched_wakeup: a:10 [120] success=0 CPU:000",
    ] {
        assert_eq!(event_of(line).event, Tracepoint::Other, "{line}");
    }
}
