use super::*;
use crate::event::{Line, Record, State, Task, Tracepoint};
use crate::write::Kind;
use tempfile::SpooledTempFile;

const PAGE: usize = 4096;

fn trace(switches: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut format = Kind::Dat.format(&mut bytes, 1, SpooledTempFile::new(usize::MAX));
    for switch in 0..switches {
        let task = |pid: u64| Task {
            comm: "a",
            pid: pid as i32,
            prio: 120,
        };
        let event = Tracepoint::Switch {
            prev: task(switch),
            state: State::Blocked,
            next: task(switch + 1),
        };
        format.record(Record {
            now: 3_000 * switch,
            cpu: 0,
            current: task(switch),
            event,
        });
    }
    format.finish(0).unwrap();
    drop(format);
    bytes
}

fn times(bytes: &[u8]) -> Result<Vec<u64>, String> {
    let mut times = Vec::new();
    let read = each("t.dat", bytes, &mut |read| {
        if let Read::Event(Line { at, .. }) = read {
            times.push(at);
        }
        Ok(())
    });
    read.map_err(|error| error.message().to_owned())?;
    Ok(times)
}

fn find(bytes: &[u8], text: &[u8]) -> usize {
    let mut windows = bytes.windows(text.len());
    windows.position(|it| it == text).unwrap()
}

/// A trace of three switches with these options, and with the name of the clock after the places of the events.
fn with_options(options: &[(u16, &[u8])], clock: &str) -> Vec<u8> {
    const OPTIONS: &[u8] = b"options  \0";
    let mut bytes = trace(3);
    let begin = bytes.len() - PAGE;
    let encoded = options.iter().flat_map(|(id, data)| {
        let size = data.len() as u32;
        [&id.to_le_bytes()[..], &size.to_le_bytes(), data].concat()
    });
    let encoded: Vec<u8> = encoded.collect();
    let place = find(&bytes, OPTIONS) + OPTIONS.len();
    bytes.splice(place..place, encoded);
    let place = find(&bytes, b"flyrecord\0") + 10 + 16;
    let clock = [&(clock.len() as u64).to_le_bytes(), clock.as_bytes()].concat();
    bytes.splice(place..place + clock.len(), clock);
    // Take the bytes from the padding before the events, so that these stay in their places.
    bytes.drain(begin..bytes.len() - PAGE);
    bytes
}

#[test]
fn times_are_converted_to_ns_or_refused() {
    // A tick is a third of a ns.
    let tsc = [&0x5555_5556_u32.to_le_bytes()[..], &[32, 0, 0, 0], &[0; 8]].concat();
    let (clock, tsc2nsec) = (4, (14, &tsc[..]));
    let third = [0, 1_000, 2_000];
    let ns = [0, 3_000, 6_000];
    for (options, name, expected) in [
        (&[][..], "", ns),
        (&[tsc2nsec], "", third),
        (
            &[(clock, b"local global [mono]\n\0"), (9, b"3.1\0")],
            "",
            ns,
        ),
        (&[(clock, b"local [x86-tsc]\n\0"), tsc2nsec], "", third),
        (&[tsc2nsec, (clock, b"")], "[tsc2nsec]", third),
        (&[(clock, b"[x86-tsc]"), tsc2nsec], "[local]", ns),
    ] {
        assert_eq!(times(&with_options(options, name)), Ok(expected.to_vec()));
    }
    for (options, name, says) in [
        (
            &[(clock, &b"local [counter] perf\0"[..])][..],
            "",
            "`counter`",
        ),
        (&[(clock, b"[x86-tsc]"), (14, &[0; 16])], "", "`x86-tsc`"),
        (&[(clock, b"")], "[uptime]", "`uptime`"),
        (&[(clock, b"[arm-ticks]"), tsc2nsec], "", "`arm-ticks`"),
    ] {
        let error = times(&with_options(options, name)).unwrap_err();
        let says = format!("the clock {says} does not count ns");
        assert!(error.contains(&says), "{says}: {error}");
    }
}

#[test]
fn a_cpu_whose_pages_go_back_is_refused() {
    let mut bytes = trace(100);
    assert_eq!(times(&bytes).map(|times| times.len()), Ok(100));
    let begin = bytes.len() - 2 * PAGE;
    bytes[begin..].rotate_left(PAGE);
    let error = times(&bytes).unwrap_err();
    let (at, says) = (
        begin + PAGE + 16,
        "an event of CPU 0 at 0.000000000 s follows one at 0.000297000 s",
    );
    assert_eq!(error, format!("t.dat: at byte {at}: {says}"));
}
