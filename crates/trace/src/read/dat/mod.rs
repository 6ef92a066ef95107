//! `trace.dat`, trace-cmd's file, of version 6 (trace-cmd.dat.v6.5(5)), which `equipoise record`
//! also writes: the formats of the events, and for each CPU the pages of its ring buffer.

mod clock;
mod format;
mod page;

use super::{IN_ORDER, ITS_MACHINE, Sink, goes_back, longest_text as text};
use crate::event::Read;
use clock::{Clock, Options};
use format::Formats;
use machine::input::BadInput;
use page::{Layout, Pages, Record};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The first bytes of the file.
const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Is this a `trace.dat`, judging by its first bytes `head`?
pub fn is(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// Gives `sink` the events of `bytes`, in the order of time.
pub fn each(file: &str, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), Box<BadInput>> {
    let mut input = Input { bytes, at: 0 };
    let read = read(&mut input, sink);
    read.map_err(|wrong| {
        let message = format!("{file}: at byte {}: {}", wrong.at, wrong.message);
        Box::new(BadInput::whole(message, wrong.expected))
    })
}

struct Wrong {
    at: usize,
    message: String,
    expected: &'static str,
}

const TRACE_DAT: &str = "expected a complete trace.dat from trace-cmd or equipoise record";

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn wrong(&self, message: impl Into<String>) -> Wrong {
        Wrong {
            at: self.at,
            message: message.into(),
            expected: TRACE_DAT,
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Wrong> {
        let end = self
            .at
            .checked_add(count)
            .filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| self.wrong("the file ends too early"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Wrong> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn u16(&mut self) -> Result<u16, Wrong> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Wrong> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Wrong> {
        self.array().map(u64::from_le_bytes)
    }

    fn string(&mut self) -> Result<&'a str, Wrong> {
        let left = &self.bytes[self.at..];
        let end = left.iter().position(|&byte| byte == 0);
        let end = end.ok_or_else(|| self.wrong("the file ends too early"))?;
        let text = text(&left[..end]);
        self.at += end + 1;
        Ok(text)
    }

    /// Reads a number, and then as many bytes.
    fn sized(&mut self) -> Result<&'a [u8], Wrong> {
        let size = self.u64()?;
        self.take(usize::try_from(size).unwrap_or(usize::MAX))
    }

    fn expect(&mut self, heading: &'static str) -> Result<(), Wrong> {
        let at = self.at;
        match self.string()? == heading {
            true => Ok(()),
            false => Err(Wrong {
                at,
                message: format!("no `{heading}`"),
                expected: TRACE_DAT,
            }),
        }
    }
}

fn read(input: &mut Input<'_>, sink: &mut Sink<'_>) -> Result<(), Wrong> {
    input.take(MAGIC.len())?;
    let version = input.string()?;
    if version != "6" {
        return Err(Wrong {
            at: MAGIC.len(),
            message: format!("version {version} of trace.dat"),
            expected: "expected version 6; trace-cmd 3 converts other versions with `trace-cmd convert --file-version 6`",
        });
    }
    let [endian, long] = input.array()?;
    if endian != 0 || !matches!(long, 4 | 8) {
        return Err(input.wrong("the file is from a big-endian machine, or damaged"));
    }
    let page_size = input.u32()? as usize;
    input.expect("header_page")?;
    let header = text(input.sized()?);
    let layout = Layout::of(header, page_size).ok_or_else(|| input.wrong("no page layout"))?;
    input.expect("header_event")?;
    input.sized()?;

    let mut formats = Formats::default();
    let systems = read_formats(input, &mut formats).and_then(|()| input.u32())?;
    for _ in 0..systems {
        input.string()?;
        read_formats(input, &mut formats)?;
    }
    // Skip the symbols and the formats of printk.
    for _ in 0..2 {
        let size = input.u32()? as usize;
        input.take(size)?;
    }
    input.sized()?;
    let cpus = input.u32()? as usize;
    let begin = input.at;
    sink(Read::Cpus(cpus)).map_err(|message| Wrong {
        at: begin,
        message,
        expected: ITS_MACHINE,
    })?;
    let mut heading = input.array::<10>()?;
    let mut options = Options::default();
    if &heading == b"options  \0" {
        options = Options::read(input)?;
        heading = input.array()?;
    }
    if &heading != b"flyrecord\0" {
        input.at = begin;
        return Err(input.wrong("the file has no events of its own (a latency trace?)"));
    }
    let mut buffers = Vec::new();
    for _ in 0..cpus {
        let at = input.at;
        let (begin, size) = (input.u64()?, input.u64()?);
        let end = begin.checked_add(size);
        let range = end.filter(|&end| end <= input.bytes.len() as u64);
        let end = range.ok_or(Wrong {
            at,
            message: "the file ends before its events do".to_owned(),
            expected: TRACE_DAT,
        })?;
        let (begin, end) = (begin as usize, end as usize);
        buffers.push(Pages::new(input.bytes, begin..end, layout));
    }
    merge(buffers, &formats, options.clock(input)?, sink)
}

fn read_formats(input: &mut Input<'_>, formats: &mut Formats) -> Result<(), Wrong> {
    for _ in 0..input.u32()? {
        let at = input.at;
        let format = text(input.sized()?);
        formats.add(format).map_err(|message| Wrong {
            at,
            message,
            expected: TRACE_DAT,
        })?;
    }
    Ok(())
}

fn merge(
    mut buffers: Vec<Pages<'_>>,
    formats: &Formats,
    clock: Clock,
    sink: &mut Sink<'_>,
) -> Result<(), Wrong> {
    let mut heads: Vec<Option<Record<'_>>> = vec![None; buffers.len()];
    let mut order = BinaryHeap::new();
    for (cpu, (pages, head)) in buffers.iter_mut().zip(&mut heads).enumerate() {
        *head = pages.next()?;
        order.extend(head.map(|record| Reverse((record.time(), cpu))));
    }
    while let Some(Reverse((_, cpu))) = order.pop() {
        let Some(record) = heads[cpu].take() else {
            continue;
        };
        let wrong = |message: String, expected| Wrong {
            at: record.offset(),
            message,
            expected,
        };
        let read = match record {
            Record::Lost { count, .. } => Read::Lost(count),
            Record::Event { at, bytes, .. } => {
                let event = formats.event(cpu, clock.ns(at), bytes);
                event.ok_or_else(|| {
                    wrong("an event is shorter than its format".to_owned(), TRACE_DAT)
                })?
            }
        };
        if read != Read::Nothing {
            sink(read).map_err(|message| wrong(message, ITS_MACHINE))?;
        }
        heads[cpu] = buffers[cpu].next()?;
        if let Some(next) = heads[cpu]
            && next.time() < record.time()
        {
            return Err(Wrong {
                at: next.offset(),
                message: goes_back(cpu, clock.ns(next.time()), clock.ns(record.time())),
                expected: IN_ORDER,
            });
        }
        order.extend(heads[cpu].map(|record| Reverse((record.time(), cpu))));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
