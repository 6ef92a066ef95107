//! Tests that a trace that is read has the events that were written, in each format that has a reader.

use crate::event::{Line, Read};
use crate::write::Kind;
use crate::{DEFAULT_PRIO, Record, Stage, State, Task, Tracepoint, read};
use proptest::prelude::*;
use tempfile::SpooledTempFile;

const CPUS: usize = 3;

/// An event that owns its names, and the time since the previous event, in ns.
#[derive(Clone, Debug)]
struct Made {
    delta: u64,
    cpu: usize,
    kind: usize,
    names: [String; 2],
    pids: [i32; 2],
    prios: [i32; 2],
    number: u32,
    other_cpu: usize,
    state: State,
}

prop_compose! {
    fn made()(
        // Events of one CPU may have the same time, and their distance may need more bits than an event of trace.dat
        // usually has.
        delta in prop_oneof![0..3_u64, 1..2_000_000_u64, 1_u64 << 27..1 << 33],
        cpu in 0..CPUS,
        kind in 0..8_usize,
        names in prop::array::uniform2("[a-zA-Z0-9_:./<>\\[\\]()-]{1,15}"),
        pids in prop::array::uniform2(1..i32::MAX),
        prios in prop::array::uniform2(-1..140),
        number in 0..i32::MAX as u32,
        other_cpu in 0..CPUS,
        state in prop::sample::select(vec![State::Runnable, State::Blocked, State::Dead]),
    ) -> Made {
        Made { delta, cpu, kind, names, pids, prios, number, other_cpu, state }
    }
}

impl Made {
    fn event(&self) -> Tracepoint<'_> {
        let task = |index: usize| Task {
            comm: &self.names[index],
            pid: self.pids[index],
            prio: self.prios[index],
        };
        let (cpu, target_cpu) = (self.cpu, Some(self.other_cpu));
        let woken = |stage| Tracepoint::Wakeup {
            stage,
            task: task(0),
            target_cpu,
        };
        match self.kind {
            0 | 1 => Tracepoint::Switch {
                prev: task(0),
                state: self.state,
                next: task(1),
            },
            2 => woken(Stage::Woken),
            3 => woken(Stage::New),
            4 => Tracepoint::Fork {
                parent: Task {
                    prio: DEFAULT_PRIO,
                    ..task(0)
                },
                child: Task {
                    prio: DEFAULT_PRIO,
                    ..task(1)
                },
            },
            5 => Tracepoint::Frequency {
                cpu,
                khz: self.number,
            },
            6 => Tracepoint::Mark(&self.names[0]),
            _ => Tracepoint::Exit(task(0)),
        }
    }
}

/// The events of `made` with their times and CPUs, in the order of time and, at the same time, of CPUs.
fn lines(made: &[Made]) -> Vec<Line<'_>> {
    let mut at = 0;
    let mut lines: Vec<Line<'_>> = made
        .iter()
        .map(|it| {
            at += it.delta;
            Line {
                cpu: it.cpu,
                at,
                interrupt: false,
                event: it.event(),
            }
        })
        .collect();
    lines.sort_by_key(|line| (line.at, line.cpu));
    lines
}

fn written(lines: &[Line<'_>], kind: Kind) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut format = kind.format(&mut bytes, CPUS, SpooledTempFile::new(usize::MAX));
    for line in lines {
        format.record(Record {
            now: line.at,
            cpu: line.cpu,
            current: Task {
                comm: "running",
                pid: 7,
                prio: DEFAULT_PRIO,
            },
            event: line.event,
        });
    }
    format.finish(0).unwrap();
    drop(format);
    bytes
}

proptest! {
    #[test]
    fn each_event_that_is_written_is_read(made in prop::collection::vec(made(), 0..300)) {
        let lines = lines(&made);
        let expected: Vec<String> = lines
            .iter()
            .filter(|line| !matches!(line.event, Tracepoint::Exit(_)))
            .map(|line| format!("{line:?}"))
            .collect();
        for kind in [Kind::Text, Kind::Dat, Kind::Perfetto] {
            let bytes = written(&lines, kind);
            let mut got = Vec::new();
            read::each("t", &bytes[..], &mut |read| {
                match read {
                    Read::Event(line) if line.event != Tracepoint::Other => got.push(format!("{line:?}")),
                    Read::Cpus(cpus) | Read::Online(cpus) => assert_eq!(cpus, CPUS),
                    Read::Lost(_) => return Err("lost".to_owned()),
                    Read::Event(_) | Read::Nothing => {}
                }
                Ok(())
            })
            .map_err(|error| TestCaseError::fail(format!("{kind:?}: {}", error.message())))?;
            prop_assert_eq!(&got, &expected, "{:?}", kind);
        }
    }
}
