use super::replay::{BY_NAME, MAKESPAN};
use super::*;
use crate::fake::Kernel;
use crate::{Env, Op, SchedPolicy, Workload};

const MS: u64 = 1_000_000;

fn thread(name: &str, steps: &[Step]) -> Thread {
    Thread {
        name: name.to_owned(),
        nice: 0,
        fifo: None,
        period: None,
        steps: steps.to_vec(),
    }
}

fn recording() -> Recording {
    use Step::{Fork, Run, Sleep, Wait, Wake};
    Recording {
        recording: VERSION,
        description: "a test".to_owned(),
        streams: vec![],
        mutexes: 0,
        threads: vec![
            thread(
                "main",
                &[Run(MS), Fork(1), Sleep(5 * MS), Wake(2), Wake(2), Run(MS)],
            ),
            thread("child", &[Run(3 * MS), Wake(2)]),
            thread("waiter", &[Wait, Run(MS), Wait, Wait, Run(MS)]),
        ],
    }
}

#[test]
fn threads_wait_for_each_other_as_they_did() {
    let workload = Replay::new("r", recording());
    let kernel = Kernel::run(&workload, 4);
    assert!(kernel.left().is_empty(), "{:?}", kernel.left());
    let makespan = kernel.recorder.samples(MAKESPAN);
    assert!((makespan[0] - 0.007).abs() < 1e-4, "{makespan:?}");
    let names: Vec<&str> = workload
        .metrics()
        .iter()
        .map(|metric| &*metric.name)
        .collect();
    assert_eq!(
        names,
        [
            "makespan",
            "latency",
            "child/latency",
            "main/latency",
            "waiter/latency"
        ]
    );
    assert_eq!(kernel.recorder.samples(BY_NAME + 1).len(), 1);
}

#[test]
fn a_file_is_what_was_written() {
    let text = serde_json::to_string(&recording()).unwrap();
    assert!(is_recording(&text));
    let read = Recording::parse("r.json", &text).unwrap();
    assert_eq!(read.threads[2].steps, recording().threads[2].steps);
}

/// For all CPUs, the first files of version 2 had a mask with all bits set.
#[test]
fn all_cpus_are_no_mask() {
    let step = |text: &str| serde_json::from_str::<Step>(text).unwrap();
    let anywhere = Step::Cpus(None);
    assert_eq!(
        serde_json::to_string(&anywhere).unwrap(),
        r#"{"cpus":null}"#
    );
    assert_eq!(step(r#"{"cpus": null}"#), anywhere);
    assert_eq!(step(r#"{"cpus": 18446744073709551615}"#), anywhere);
    assert_eq!(step(r#"{"cpus": 2}"#), Step::Cpus(Some(2)));
}

/// A recording may be replayed on a machine that lacks its CPUs, or whose CPUs are offline.
#[test]
fn a_binding_that_the_machine_cannot_keep_is_noted() {
    let mut machine = crate::fake::machine(4);
    machine.offline = machine::CpuMask::one(2);
    let run = |mask: u64| {
        let mut recording = recording();
        recording.threads = vec![thread("a", &[Step::Cpus(Some(mask))])];
        let replay = Replay::new("r", recording);
        let mut task = replay.start(&machine).tasks.remove(0);
        let mut env = Env::new(Vec::new(), 1, &[]);
        let Op::SetAffinity(cpus) = task.program.next(&mut env) else {
            panic!("no affinity")
        };
        (cpus.to_string(), replay.notes_on(&machine))
    };
    assert_eq!(run(0b1100), ("3".to_owned(), vec![]));
    for (mask, names) in [
        (1 << 6, "CPUs 6, none of which fake has online"),
        (1 << 2, "CPUs 2, none"),
        (0, "CPUs beyond the first 64"),
    ] {
        let (cpus, notes) = run(mask);
        assert_eq!(cpus, "0-1,3");
        assert!(notes[0].contains(names), "{notes:?}");
    }
}

/// A job of 2 ms is released every 5 ms, and a sleep within the job does not begin another one. One job computes for 7
/// ms and misses its period.
#[test]
fn a_period_has_misses() {
    use Step::{Release, Run, Sleep, Until};
    let mut steps = vec![];
    for period in 1..=10 {
        if period == 5 {
            continue;
        }
        let long = if period == 4 { 5 * MS } else { 0 };
        steps.extend([
            Until(period * 5 * MS),
            Release,
            Run(MS),
            Sleep(MS / 2),
            Run(MS + long),
        ]);
    }
    let mut recording = recording();
    recording.threads = vec![thread("frame", &steps)];
    let names = |recording: &Recording| {
        let metrics = Replay::new("r", recording.clone()).metrics().to_vec();
        metrics
            .into_iter()
            .map(|it| it.name.into_owned())
            .collect::<Vec<_>>()
    };
    assert!(!names(&recording).contains(&"frame/missed".to_owned()));
    recording.threads[0].period = Some(Period {
        ns: 5 * MS,
        confidence: Some(100),
        woken_by: None,
    });
    assert_eq!(recording.check(), Ok(()));
    let place = |name: &str| names(&recording).iter().position(|it| it == name).unwrap();
    let (response, missed) = (place("frame/response"), place("frame/missed"));
    let kernel = Kernel::run(&Replay::new("r", recording.clone()), 1);
    let responses = kernel.recorder.samples(response);
    assert_eq!(responses.len(), 9);
    assert!((responses[0] - 2500.0).abs() < 200.0, "{responses:?}");
    assert!((responses[3] - 7500.0).abs() < 200.0, "{responses:?}");
    let mut shares = vec![0.0; 10];
    shares[3] = 100.0;
    assert_eq!(kernel.recorder.samples(missed), shares);
    recording.threads[0].period = Some(Period {
        ns: 0,
        confidence: Some(100),
        woken_by: None,
    });
    assert!(recording.check().unwrap_err().contains("period"));
}

#[test]
fn a_mutex_is_had_by_one() {
    use Step::{Lock, Run, Sleep, Unlock};
    let mut recording = recording();
    recording.mutexes = 1;
    let steps = [Lock(0), Run(2 * MS), Unlock(0)];
    recording.threads = vec![
        thread("a", &steps),
        thread("b", &[&[Sleep(MS)], &steps[..]].concat()),
    ];
    assert_eq!(recording.check(), Ok(()));
    let kernel = Kernel::run(&Replay::new("r", recording.clone()), 4);
    let makespan = kernel.recorder.samples(MAKESPAN);
    assert!((makespan[0] - 0.004).abs() < 1e-4, "{makespan:?}");

    for (wrong, says) in [
        (&[Lock(1), Unlock(1)][..], "mutex 1, which does not exist"),
        (&[Lock(0), Lock(0)], "takes mutex 0, which it already holds"),
        (&[Unlock(0)], "releases mutex 0, which it does not hold"),
        (&[Lock(0)], "takes a mutex that it never releases"),
    ] {
        recording.threads[0].steps = wrong.to_vec();
        let error = recording.check().unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn errors_are_reported() {
    let good = serde_json::to_string_pretty(&recording()).unwrap();
    for (from, to, says) in [
        ("\"recording\": 5", "\"recording\": 6", "r.json: version 6"),
        ("\"fork\": 1", "\"fork\": 7", "names thread 7"),
        ("\"fork\": 1", "\"spoon\": 1", "r.json:12: "),
        (
            "\"name\": \"child\"",
            "\"name\": \"child\", \"nice\": 20",
            "thread 1 has an invalid priority",
        ),
    ] {
        assert_eq!(good.matches(from).count(), 1, "{from}");
        let error = Recording::parse("r.json", &good.replace(from, to)).unwrap_err();
        assert!(error.message().contains(says), "{}", error.message());
    }
    assert!(
        Recording::parse("r.json", &good[..good.len() / 2])
            .unwrap_err()
            .message()
            .starts_with("r.json:")
    );
    assert!(!is_recording("{ \"tasks\" : {} }"));
}

#[track_caller]
fn refused(threads: &[&[Step]], mutexes: u32) -> String {
    let threads = threads.iter().map(|steps| thread("t", steps));
    let recording = Recording {
        mutexes,
        threads: threads.collect(),
        ..recording()
    };
    let text = serde_json::to_string(&recording).unwrap();
    let error = Recording::parse("r.json", &text).unwrap_err();
    error.message().to_owned()
}

#[test]
fn steps_that_could_never_end_are_refused() {
    use Step::{Fork, Run, Sleep, Until, Wait, Wake};
    let day = 86_400_000_000_000;
    for step in [Run(u64::MAX), Sleep(u64::MAX), Until(day + 1)] {
        let says = "thread 0 has a step of";
        assert!(refused(&[&[step]], 0).contains(says), "{step:?}");
    }
    for (threads, says) in [
        (
            &[&[Run(1)][..], &[Fork(2)], &[Fork(1)]][..],
            "thread 1 never begins: thread 2 starts it",
        ),
        (
            &[&[Run(1)], &[Fork(1), Fork(2)], &[Run(1)]],
            "thread 1 never begins: thread 1 starts it",
        ),
        (&[&[Fork(0)]], "thread 0 never begins"),
        (
            &[&[Wait, Wait], &[Wake(0)]],
            "thread 0 has more waits (2) than wakeups (1)",
        ),
    ] {
        let error = refused(threads, 0);
        assert!(
            error.starts_with("r.json: ") && error.contains(says),
            "{error}"
        );
    }
    let error = refused(&[&[Run(1)]], u32::MAX);
    assert!(error.contains("4294967295 mutexes"), "{error}");
    let mut longest = recording();
    longest.threads.push(thread("t", &[Run(day)]));
    assert_eq!(longest.check(), Ok(()));
}

/// `jq -S` sorts the keys.
#[test]
fn the_order_of_keys_does_not_matter() {
    let text = serde_json::to_string(&recording()).unwrap();
    let rest = text.strip_prefix("{\"recording\":5,").unwrap();
    let sorted = format!("{{{},\"recording\":5}}", rest.strip_suffix('}').unwrap());
    assert!(is_recording(&sorted));
    assert_eq!(Recording::parse("r.json", &sorted).unwrap(), recording());
    assert!(!is_recording("{\"tasks\": {\"recording\": {\"run\": 1}}}"));
}

#[test]
fn slices_are_requested() {
    use Step::{Run, Slice};
    let mut recording = recording();
    recording.threads = vec![thread(
        "main",
        &[Slice(200_000), Run(MS), Slice(0), Run(MS)],
    )];
    recording.threads[0].nice = 3;
    let kernel = Kernel::run(&Replay::new("r", recording.clone()), 4);
    let policy = |slice_ns| {
        let policy = SchedPolicy::Normal { nice: 3, slice_ns };
        ("main".to_owned(), policy)
    };
    assert_eq!(kernel.policies, [policy(200_000), policy(0)]);
    recording.threads[0].steps.push(Slice(1));
    let wrong = recording.check().unwrap_err();
    assert!(
        wrong.contains("thread 0 requests a slice of 1 ns"),
        "{wrong}"
    );
}
