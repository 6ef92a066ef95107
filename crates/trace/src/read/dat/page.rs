//! The pages of a CPU's ring buffer (the kernel's `include/linux/ring_buffer.h`).

use super::{TRACE_DAT, Wrong};
use std::ops::Range;

/// The number of bits for an event's length or kind. The other bits of the event's first 32 bits have the time since
/// the previous event, in ticks of the file's clock.
const TYPE_BITS: u32 = 5;
const DELTA_BITS: u32 = 27;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// `RB_MISSED_EVENTS`: events were lost before this page. `RB_MISSED_STORED`: the number of lost
/// events is stored after the page's events.
const MISSED: u32 = 1 << 31;
const MISSED_STORED: u32 = 1 << 30;

#[derive(Clone, Copy)]
pub struct Layout {
    page: usize,
    commit: usize,
    data: usize,
}

impl Layout {
    /// The layout from `header_page` of tracefs, for pages of `page` bytes.
    pub fn of(header: &str, page: usize) -> Option<Layout> {
        let offset = |name: &str| {
            let line = header.lines().find(|line| line.contains(name))?;
            let (_, rest) = line.split_once("offset:")?;
            rest.split(';').next()?.parse().ok()
        };
        let layout = Layout {
            page,
            commit: offset(" commit;")?,
            data: offset(" data;")?,
        };
        let fits = layout.commit >= 8 && layout.commit + 4 <= layout.data && layout.data < page;
        fits.then_some(layout)
    }
}

/// A record in a page, and its offset in the file.
#[derive(Clone, Copy)]
pub enum Record<'a> {
    Event {
        /// The time, in ticks of the file's clock.
        at: u64,
        offset: usize,
        bytes: &'a [u8],
    },
    /// This number of events is missing.
    Lost { at: u64, offset: usize, count: u64 },
}

impl Record<'_> {
    pub fn time(&self) -> u64 {
        match *self {
            Record::Event { at, .. } | Record::Lost { at, .. } => at,
        }
    }

    pub fn offset(&self) -> usize {
        match *self {
            Record::Event { offset, .. } | Record::Lost { offset, .. } => offset,
        }
    }
}

/// The pages of a CPU, one after another.
pub struct Pages<'a> {
    file: &'a [u8],
    layout: Layout,
    left: Range<usize>,
    events: Range<usize>,
    now: u64,
}

impl<'a> Pages<'a> {
    pub fn new(file: &'a [u8], pages: Range<usize>, layout: Layout) -> Pages<'a> {
        Pages {
            file,
            layout,
            left: pages,
            events: 0..0,
            now: 0,
        }
    }

    fn u32(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.file[at..at + 4]);
        u32::from_le_bytes(bytes)
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from(self.u32(at)) | u64::from(self.u32(at + 4)) << 32
    }

    pub fn next(&mut self) -> Result<Option<Record<'a>>, Wrong> {
        loop {
            if self.events.is_empty() {
                if self.left.len() < self.layout.page {
                    return Ok(None);
                }
                if let Some(lost) = self.begin()? {
                    return Ok(Some(lost));
                }
                continue;
            }
            if let Some(event) = self.event()? {
                return Ok(Some(event));
            }
        }
    }

    /// Begins a page; returns the events lost before it.
    fn begin(&mut self) -> Result<Option<Record<'a>>, Wrong> {
        let offset = self.left.start;
        let end = offset + self.layout.page;
        self.left.start = end;
        self.now = self.u64(offset);
        let commit = self.u32(offset + self.layout.commit);
        let first = offset + self.layout.data;
        let last = first + (commit & !(MISSED | MISSED_STORED)) as usize;
        if last > end {
            return Err(wrong(offset, "a page's content exceeds the page's size"));
        }
        self.events = first..last;
        let stored = commit & MISSED_STORED != 0 && last + 8 <= end;
        Ok((commit & MISSED != 0).then(|| Record::Lost {
            at: self.now,
            offset,
            count: if stored { self.u64(last) } else { 1 },
        }))
    }

    /// The next event of the page; `None` if the next entry is padding or only a time.
    fn event(&mut self) -> Result<Option<Record<'a>>, Wrong> {
        let offset = self.events.start;
        let too_long = || wrong(offset, "an event is longer than its page");
        let room = self.events.len();
        if room < 4 {
            return Err(too_long());
        }
        let head = self.u32(offset);
        let (kind, delta) = (head & ((1 << TYPE_BITS) - 1), u64::from(head >> TYPE_BITS));
        let has_word = matches!(kind, 0 | PADDING..=TIME_STAMP);
        if has_word && room < 8 {
            return Err(too_long());
        }
        let word = if has_word { self.u32(offset + 4) } else { 0 };
        let (body, length) = match kind {
            PADDING if delta == 0 => {
                self.events.start = self.events.end;
                return Ok(None);
            }
            PADDING => (4, word as usize),
            TIME_EXTEND | TIME_STAMP => (8, 0),
            // The length includes the word that holds it.
            0 => (8, (word as usize).saturating_sub(4)),
            words => (4, 4 * words as usize),
        };
        let end = body + length;
        if end > room {
            return Err(too_long());
        }
        self.events.start += end;
        match kind {
            TIME_STAMP => {
                // The highest bits of the time are unchanged.
                let low = u64::from(word) << DELTA_BITS | delta;
                let high = DELTA_BITS + u32::BITS;
                self.now = self.now >> high << high | low;
                return Ok(None);
            }
            TIME_EXTEND => self.now += u64::from(word) << DELTA_BITS | delta,
            _ => self.now += delta,
        }
        Ok(match kind {
            TIME_EXTEND | PADDING => None,
            _ => Some(Record::Event {
                at: self.now,
                offset,
                bytes: &self.file[offset + body..offset + end],
            }),
        })
    }
}

fn wrong(at: usize, message: &str) -> Wrong {
    Wrong {
        at,
        message: message.to_owned(),
        expected: TRACE_DAT,
    }
}
