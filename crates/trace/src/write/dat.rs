//! `trace.dat`, trace-cmd's file (version 6, as in trace-cmd.dat.v6.5(5)): the formats of the
//! events, and for each CPU the pages of its ring buffer.

use super::Format;
use super::dat_head::Head;
use crate::event::{Record, Tracepoint};
use crate::table::{Field, Kind, Row, Type};
use crate::values::{Value, comm};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use tempfile::SpooledTempFile;

const PAGE: usize = 4096;
/// The size in bytes of the head of a page, which has the page's time and length.
const PAGE_HEADER: usize = 16;
/// The number of bits, of 32, for an event's time in ns since the previous event; the other bits have the event's
/// length or kind.
const DELTA_BITS: u32 = 27;
const TIME_EXTEND: u32 = 30;

/// The number of the first kind of event. Only `print` has ftrace's own number.
const FIRST_ID: u16 = 300;
const PRINT_ID: u16 = 5;

fn id_of(kind: Kind) -> u16 {
    match kind {
        Kind::Mark => PRINT_ID,
        kind => FIRST_ID + kind as u16,
    }
}

/// The first fields of all events, each with its declaration, the size in bytes, and whether the field is signed.
const COMMON: [(&str, usize, bool); 4] = [
    ("unsigned short common_type", 2, false),
    ("unsigned char common_flags", 1, false),
    ("unsigned char common_preempt_count", 1, false),
    ("int common_pid", 4, true),
];

/// The aligned offset of a field of `size` bytes in an event, after `end` bytes of other fields.
fn place(size: usize, end: usize) -> usize {
    match size {
        2 | 4 | 8 => end.next_multiple_of(size),
        _ => end,
    }
}

/// The text of the file `format` in the folder of an event in tracefs.
fn format_of(kind: Kind) -> String {
    let Row { name, fields, .. } = kind.row();
    let mut text = format!("name: {name}\nID: {}\nformat:\n", id_of(kind));
    let common = COMMON.map(|(declaration, size, signed)| (declaration.to_owned(), size, signed));
    let own = fields.iter().map(|field| {
        let kind = field.kind;
        (field.declaration(), kind.size(), kind.is_signed())
    });
    let mut end = 0;
    for (index, (declaration, size, signed)) in common.into_iter().chain(own).enumerate() {
        if index == COMMON.len() {
            text.push('\n');
        }
        let offset = place(size, end);
        text.push_str(&format!(
            "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{};\n",
            u8::from(signed)
        ));
        end = offset + size;
    }
    let mut print = String::new();
    for (index, field) in fields.iter().enumerate() {
        print.push_str(if index > 0 { field.before } else { "" });
        print.push_str(&field.conversion());
    }
    let arguments: Vec<String> = fields.iter().map(Field::argument).collect();
    text + &format!("\nprint fmt: \"{print}\", {}\n", arguments.join(", "))
}

fn encode(record: &Record<'_>, kind: Kind, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&id_of(kind).to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&record.current.pid.to_le_bytes());
    record.event.values(record.cpu, &mut |field, value| {
        let size = field.kind.size();
        out.resize(place(size, out.len()), 0);
        let mut int = |value: i64| out.extend_from_slice(&value.to_le_bytes()[..size]);
        match (value, field.kind) {
            (Value::Int(number), _) => int(number),
            (Value::State(state), _) => int(state.bits()),
            (Value::Text(text), Type::Rest) => {
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(b"\n\0");
            }
            (Value::Text(text), Type::Place) => {
                let begin = out.len() + size;
                let place = ((text.len() as u32 + 1) << 16) | begin as u32;
                out.extend_from_slice(&place.to_le_bytes());
                out.extend_from_slice(text.as_bytes());
                out.push(0);
            }
            (Value::Text(text), _) => {
                let end = out.len() + size;
                let most = text.len().min(size - 1);
                out.extend_from_slice(&text.as_bytes()[..most]);
                out.resize(end, 0);
            }
        }
    });
}

/// The current page of a CPU, and the numbers of the full pages.
struct Buffer {
    page: Vec<u8>,
    last: u64,
    /// The full pages, by their numbers in the spool.
    full: Vec<u64>,
}

/// Writes the file. The pages of all CPUs wait in the spool until the end, because the file is
/// ordered by CPU.
pub(crate) struct Dat<W> {
    out: W,
    cpus: Vec<Buffer>,
    spool: io::Result<BufWriter<SpooledTempFile>>,
    spooled: u64,
    comms: BTreeMap<i32, String>,
    event: Vec<u8>,
}

impl<W: Write> Dat<W> {
    pub fn new(out: W, cpus: usize, spool: SpooledTempFile) -> Dat<W> {
        let buffer = || Buffer {
            page: Vec::with_capacity(PAGE),
            last: 0,
            full: Vec::new(),
        };
        Dat {
            out,
            cpus: std::iter::repeat_with(buffer).take(cpus).collect(),
            spool: Ok(BufWriter::new(spool)),
            spooled: 0,
            comms: BTreeMap::new(),
            event: Vec::new(),
        }
    }

    fn append(&mut self, cpu: usize, now: u64) {
        let buffer = &mut self.cpus[cpu];
        self.event.resize(self.event.len().next_multiple_of(4), 0);
        // The largest size includes the length, possibly twice, and a time that takes more bits.
        let most = self.event.len() + 4 + 4 + 8;
        if !buffer.page.is_empty() && buffer.page.len() + most > PAGE {
            flush(buffer, &mut self.spool, &mut self.spooled);
        }
        if buffer.page.is_empty() {
            buffer.page.extend_from_slice(&now.to_le_bytes());
            buffer.page.extend_from_slice(&[0; 8]);
            buffer.last = now;
        }
        let mut put = |word: u32| buffer.page.extend_from_slice(&word.to_le_bytes());
        let mut delta = now - buffer.last;
        if delta >> DELTA_BITS > 0 {
            put(TIME_EXTEND | ((delta as u32) << 5));
            put((delta >> DELTA_BITS) as u32);
            delta = 0;
        }
        let words = (self.event.len() / 4) as u32;
        match words {
            ..=28 => put(words | (delta as u32) << 5),
            _ => {
                put((delta as u32) << 5);
                put(self.event.len() as u32 + 4);
            }
        }
        buffer.page.extend_from_slice(&self.event);
        buffer.last = now;
    }

    fn write(&mut self) -> io::Result<()> {
        for buffer in &mut self.cpus {
            if !buffer.page.is_empty() {
                flush(buffer, &mut self.spool, &mut self.spooled);
            }
        }
        let spool = std::mem::replace(&mut self.spool, Err(io::ErrorKind::Other.into()))?;
        let mut spool = spool.into_inner().map_err(io::IntoInnerError::into_error)?;
        let pages: Vec<usize> = self.cpus.iter().map(|buffer| buffer.full.len()).collect();
        self.out.write_all(&head(&self.comms).bytes(&pages))?;
        let mut page = [0; PAGE];
        for number in self.cpus.iter().flat_map(|buffer| &buffer.full) {
            spool.seek(SeekFrom::Start(number * PAGE as u64))?;
            spool.read_exact(&mut page)?;
            self.out.write_all(&page)?;
        }
        self.out.flush()
    }
}

fn flush(
    buffer: &mut Buffer,
    spool: &mut io::Result<BufWriter<SpooledTempFile>>,
    spooled: &mut u64,
) {
    let length = (buffer.page.len() - PAGE_HEADER) as u64;
    buffer.page[8..PAGE_HEADER].copy_from_slice(&length.to_le_bytes());
    buffer.page.resize(PAGE, 0);
    if let Ok(file) = spool
        && let Err(error) = file.write_all(&buffer.page)
    {
        *spool = Err(error);
    }
    buffer.page.clear();
    buffer.full.push(*spooled);
    *spooled += 1;
}

/// The head as Linux's tracefs would have it.
fn head(comms: &BTreeMap<i32, String>) -> Head {
    let header_page = format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:{PAGE_HEADER};\tsize:{};\tsigned:1;\n",
        PAGE - PAGE_HEADER
    );
    let header_event = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
                        \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\
                        \ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
    let mut systems: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
    let kinds = Kind::ALL.iter().copied().filter(|kind| kind.is_written());
    for kind in kinds.filter(|&kind| kind != Kind::Mark) {
        let formats = systems.entry(kind.row().system).or_default();
        formats.push(format_of(kind).into_bytes());
    }
    let lines: String = comms
        .iter()
        .map(|(pid, comm)| format!("{pid} {comm}\n"))
        .collect();
    Head {
        big_endian: false,
        long: 8,
        page: PAGE,
        header_page: header_page.into_bytes(),
        header_event: header_event.as_bytes().to_vec(),
        ftrace: vec![format_of(Kind::Mark).into_bytes()],
        systems: systems
            .into_iter()
            .map(|(name, formats)| (name.to_owned(), formats))
            .collect(),
        comms: lines.into_bytes(),
    }
}

impl<W: Write> Format for Dat<W> {
    fn record(&mut self, record: Record<'_>) {
        let Some(kind) = record.event.kind() else {
            return;
        };
        if let Tracepoint::Switch { next, .. } = record.event
            && next.pid != 0
            && !self.comms.contains_key(&next.pid)
        {
            self.comms.insert(next.pid, comm(next.comm).into_owned());
        }
        encode(&record, kind, &mut self.event);
        self.append(record.cpu, record.now);
    }

    fn finish(&mut self, _: u64) -> io::Result<()> {
        self.write()
    }
}
