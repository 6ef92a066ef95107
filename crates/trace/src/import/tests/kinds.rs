//! One load in the formats of other projects' tools.

use super::*;

fn error(text: &str) -> String {
    let error = import("t.txt", text.as_bytes(), None).err().unwrap();
    error.message().to_owned()
}

/// The events of `story`, each in the form that `form` gives to its task, CPU, flags, time in us, name and fields.
fn written(form: impl Fn([&str; 5], &str) -> String) -> String {
    let line = |line: &str| {
        let (task, rest) = line.split_once(" [").unwrap();
        let (cpu, rest) = rest.split_once("] ").unwrap();
        let (flags, rest) = rest.split_once(" 0.").unwrap();
        let (us, rest) = rest.split_once(": ").unwrap();
        let (name, fields) = rest.split_once(": ").unwrap();
        form([task, cpu, flags, us, name], fields)
    };
    story().lines().map(line).collect()
}

/// The fields in the short form of perf and older trace-cmd, such as `a:10 [120] S ==> b:11 [120]`.
fn short(name: &str, fields: &str) -> String {
    let of = |key: &str| {
        let rest = &fields[fields.find(key).unwrap() + key.len()..];
        rest.split(' ').next().unwrap().to_owned()
    };
    let task = |prefix: &str| {
        let [comm, pid, prio] = ["comm=", "pid=", "prio="].map(|key| of(&format!("{prefix}{key}")));
        format!("{comm}:{pid} [{prio}]")
    };
    match name {
        "sched_switch" => {
            format!(
                "{} {} ==> {}",
                task("prev_"),
                of("prev_state="),
                task("next_")
            )
        }
        _ => format!("{} CPU:000", task("")),
    }
}

/// The fields with the state as a number of Linux 4.14 and later, and without the arrow.
fn raw(fields: &str) -> String {
    let bits = [("=R ==>", "=0"), ("=S ==>", "=1"), ("=X ==>", "=16")];
    bits.iter()
        .fold(fields.to_owned(), |fields, (letter, bits)| {
            fields.replace(letter, bits)
        })
}

#[test]
fn one_load_is_the_same_in_every_form() {
    let expected = of(&story());
    let plain = "# tracer: nop\n".to_owned() + &story();
    let report = written(|[task, cpu, flags, us, name], fields| {
        format!("{task:>16} [{cpu}] {flags} 0.{us}: {name}:         {fields}\n")
    });
    let without_flags = |fields: &dyn Fn(&str, &str) -> String| {
        written(|[task, cpu, _, us, name], text| {
            format!(
                "{task:>16} [{cpu}] 0.{us}: {name}: {}\n",
                fields(name, text)
            )
        })
    };
    let perf = written(|[task, cpu, _, us, name], fields| {
        let (comm, pid) = task.rsplit_once('-').unwrap();
        let fields = short(name, fields);
        format!(
            "{comm:>16} {pid:>5} [{cpu}] 0.{us}:          1 sched:{name}:k: {fields}\n\t  0 [unknown] ([unknown])\n\n"
        )
    });
    let latency = written(|[task, cpu, flags, us, name], fields| {
        let cpu: usize = cpu.parse().unwrap();
        let us: u64 = us.parse().unwrap();
        format!("{task:>12} {cpu:>3}{flags} {us:>6}us!: {name}: {fields}\n")
    });
    let page = format!(
        "<!DOCTYPE html>\n<html><script>{}</script>\n<script class=\"trace-data\" type=\"application/text\">\n\
         PS\n</script><script class=\"trace-data\" type=\"application/text\">\n{plain}  </script></html>\n",
        "x".repeat(crate::read::text::LONGEST_LINE)
    );
    let json = serde_json::json!({"traceEvents": [{"ph": "X"}], "systemTraceEvents": plain});
    for (form, text) in [
        (
            "report",
            format!("version = 7\nCPU 1 is empty\ncpus=2\n{report}"),
        ),
        ("latency format", latency),
        ("page", page),
        ("JSON", json.to_string()),
    ] {
        let read = of(&text);
        assert_eq!(read.recording, expected.recording, "{form}");
        assert_eq!(read.summary.threads, expected.summary.threads, "{form}");
    }
    // These formats have no flags, so the interrupt's wakeup looks like a wakeup by the running thread, but no thread
    // runs here.
    let doubted = of(&without_flags(&|_, fields| fields.to_owned()));
    assert_eq!(doubted.recording.threads, expected.recording.threads);
    for (form, text) in [
        ("report -R", without_flags(&|_, fields| raw(fields))),
        ("short fields", without_flags(&short)),
        ("perf script", perf),
    ] {
        let read = of(&text);
        assert_eq!(read.recording, doubted.recording, "{form}");
        assert_eq!(read.summary.threads, doubted.summary.threads, "{form}");
    }
}

/// There are stack traces, lines of the function tracer, prints of several lines, and names that are not UTF-8 between
/// the events.
#[test]
fn what_is_between_the_events_is_skipped() {
    let between = b"\
        b-11 [000] d..2. 0.000500: <stack trace>\n => __schedule\n => do_idle\n\
        b-11 [000] d..2. 0.000500: kernel_stack:         <stack trace >\n=> schedule (ffffffff8111)\n\
        b-11 [000] d..2. 0.000500: <user stack trace>\n =>  <00007f1b2c3d4e5f>\n\
        b-11 [000] ..... 0.000600: mutex_unlock <-rb_simple_write\n\
        b-11 [000] ..... 0.000600: tracing_mark_write: B|11|one\nmore: words\n\nand [more]\n\
        \xe9t\xe9-12 [001] ..... 0.000600: other_event: x=1\n";
    let story = story();
    let (before, after) = story.split_at(story.find("b-11").unwrap());
    let text = [before.as_bytes(), between, after.as_bytes()].concat();
    let read =
        import("t.txt", &text[..], None).unwrap_or_else(|error| panic!("{}", error.message()));
    assert_eq!(read.recording.threads, of(&story).recording.threads);
    // A call chain may follow an event with fields; other text may not.
    let chain = story.replacen(
        '\n',
        "\n\tffffffff8111 schedule+0x1 ([kernel])\n => do_idle\n",
        1,
    );
    assert_eq!(of(&chain).recording, of(&story).recording);
    let garbled = story.replacen('\n', "\nhello\n", 1);
    assert!(error(&garbled).starts_with("t.txt:2: `hello`"));
}

/// After a thread has exited, another thread gets its pid. Kernels before 4.14 print the state of the former as `x`.
#[test]
fn a_thread_that_exits_is_over() {
    let text = "    a-10 [000] 1.000000: sched_switch: p:1 [120] R ==> a:10 [120]\n\
                a-10 [000] 1.002000: sched_switch: a:10 [120] x ==> swapper/0:0 [120]\n\
                p-1 [001] 1.003000: sched_wakeup_new: a:10 [120] CPU:000\n\
                swapper-0 [000] 1.003010: sched_switch: swapper/0:0 [120] R ==> a:10 [120]\n\
                a-10 [000] 1.005010: sched_switch: a:10 [120] x ==> swapper/0:0 [120]\n";
    let threads = of(text).recording.threads;
    let steps: Vec<_> = threads
        .iter()
        .filter(|it| it.name == "a")
        .map(|it| &*it.steps)
        .collect();
    assert_eq!(
        steps,
        [&[Run(2_000_000)][..], &[Sleep(3_000_000), Run(2_000_000)]]
    );
}

#[test]
fn threads_that_nothing_wakes_are_no_load() {
    let text: String = story()
        .lines()
        .filter(|it| !it.contains("waking"))
        .fold(String::new(), |text, line| text + line + "\n");
    assert!(
        error(&text).contains("the trace has no wakeups"),
        "{}",
        error(&text)
    );
    let busy = "a-1 [000] d..2. 0.1: sched_switch: a:1 [120] R ==> b:2 [120]\n\
                b-2 [000] d..2. 0.2: sched_switch: b:2 [120] R ==> a:1 [120]\n\
                a-1 [000] d..2. 0.3: sched_switch: a:1 [120] R ==> b:2 [120]\n";
    assert_eq!(of(busy).summary.threads.len(), 2);
    let all = of(&story()).recording.threads[0].steps.len();
    let text = story().replace("d.h2. 0.002400: sched_waking", "d.h2. 0.002400: other");
    assert_eq!(of(&text).recording.threads[0].steps.len(), all);
    let steps = &of(&story()).recording.threads[1].steps;
    assert_eq!(**steps, [Wait, Run(1_000_000)]);
    assert!(of(&story()).recording.threads[0].steps.contains(&Wake(1)));
    assert!(
        of(&story()).recording.threads[0]
            .steps
            .contains(&Sleep(2_000_000))
    );
}

#[test]
fn pages_and_json_without_a_trace_are_refused() {
    for (text, says) in [
        (
            "<!DOCTYPE html>\n<html></html>",
            "t.txt: the page has no trace",
        ),
        ("{\"traceEvents\": []}", "t.txt:1: no scheduling events"),
        ("{\n\"systemTraceEvents\": 3}", "t.txt:2: invalid type"),
        (
            "{\"systemTraceEvents\": \"# tracer: nop\\nhello\"}",
            "t.txt: systemTraceEvents:2: `hello`",
        ),
        (
            "<html>\n<script class=\"trace-data\">\n# tracer: nop\nhello\n</script>",
            "t.txt:4: `hello`",
        ),
    ] {
        assert!(error(text).starts_with(says), "{}", error(text));
    }
}

#[test]
fn a_line_without_a_cpu_or_a_usable_time_names_what_is_missing() {
    for (line, says) in [
        ("a 10 1.5: sched:sched_stat_runtime: comm=a", "has no CPU"),
        ("a 10 [000] sched:sched_switch: a:10 [120] S", "has no time"),
        ("a 10 sched:sched_switch: a:10 [120] S", "has no time"),
        (
            "a-10 [000] d..2. 333642316: sched_stat: x=1",
            "has a time without a unit",
        ),
        (
            "a-10 [000] 0: sched_switch: a:10 [120] S",
            "has a time without a unit",
        ),
        (
            "a-10 0d..2. 333: sched_switch: a:10 [120] S",
            "has a time without a unit",
        ),
        (
            "a-10 [99999] 1.5: sched_switch: a:10 [120] S",
            "is not a line of a trace",
        ),
        ("a note: hello", "is not a line of a trace"),
    ] {
        let expected = format!("t.txt:1: `{line}` {says}");
        assert!(error(line).starts_with(&expected), "{}", error(line));
    }
}

#[test]
fn files_that_have_to_be_converted_are_named() {
    for (head, says) in [
        (&b"\x1f\x8b\x08\x08"[..], "compressed by gzip"),
        (b"\x28\xb5\x2f\xfd\x04", "compressed by zstd"),
        (b"\xfd7zXZ\0\0", "compressed by xz"),
        (b"BZh91AY&SY", "compressed by bzip2"),
        (b"\x04\x22\x4d\x18\x64", "compressed by lz4"),
        (b"PK\x03\x04\x14", "a zip archive"),
        (b"TRACE:\n\x78\x9c\xed", "compressed by atrace"),
        (
            b"capturing trace... done\nTRACE:\n\x78\xda",
            "compressed by atrace",
        ),
        (b"PERFILE2h\0", "a perf.data file"),
        (b"\xff\xfe#\0", "UTF-16"),
        (b"\xfe\xff\0#", "UTF-16"),
    ] {
        let error = import("t.gz", head, None).err().unwrap();
        let says = format!("t.gz: the file is {says}");
        assert_eq!(error.message(), says);
        assert!(error.expected().starts_with("expected a trace; "));
    }
    let load = "{\"recording\": 5, \"threads\": []}";
    assert_eq!(error(load), "t.txt:1: the file is a recorded load already");
}

#[test]
fn what_precedes_the_first_event_does_not_hide_it() {
    let expected = of(&story());
    for head in [
        "\u{feff}# tracer: nop\n",
        "\u{feff}",
        "capturing trace... done\nTRACE:\n# tracer: nop\n",
        "{x}-9 [001] ..... 0.000010: other_event: x=1\n",
        " {-9 [001] ..... 0.000010: other_event: x=1\n",
    ] {
        let read = of(&(head.to_owned() + &story()));
        assert_eq!(read.recording, expected.recording, "{head}");
    }
    let page = format!(
        "\u{feff}<html><script class=\"trace-data\"># tracer: nop\n{}",
        story()
    );
    assert_eq!(of(&page).recording, expected.recording);
}
