//! The head of a `trace.dat`, which is the same for events of the simulated kernel and of Linux.

/// Everything in a `trace.dat` of version 6 before the events (trace-cmd.dat.v6.5(5)), from the
/// kernel's tracefs.
pub struct Head {
    /// Are the events, and then also the head, in big endian?
    pub big_endian: bool,
    /// The size of a `long` in bytes.
    pub long: u8,
    /// The size of a page of events in bytes.
    pub page: usize,
    /// `events/header_page`
    pub header_page: Vec<u8>,
    /// `events/header_event`
    pub header_event: Vec<u8>,
    /// The formats of ftrace's own events.
    pub ftrace: Vec<Vec<u8>>,
    /// The other systems' names, and their events' formats.
    pub systems: Vec<(String, Vec<Vec<u8>>)>,
    /// The content of `saved_cmdlines`: the names of tasks by pid, each on a line.
    pub comms: Vec<u8>,
}

impl Head {
    /// The bytes of the head up to the first page, given the number of pages of each CPU. The pages
    /// follow CPU by CPU.
    #[must_use]
    pub fn bytes(&self, pages: &[usize]) -> Vec<u8> {
        let mut out = Out {
            bytes: b"\x17\x08\x44tracing6\0".to_vec(),
            big_endian: self.big_endian,
        };
        out.bytes.extend([u8::from(self.big_endian), self.long]);
        out.u32(self.page);
        for (name, text) in [
            ("header_page", &self.header_page),
            ("header_event", &self.header_event),
        ] {
            out.name(name);
            out.sized(text);
        }
        out.formats(&self.ftrace);
        out.u32(self.systems.len());
        for (name, formats) in &self.systems {
            out.name(name);
            out.formats(formats);
        }
        // There are no symbols and no formats of printk.
        out.bytes.extend([0; 8]);
        out.sized(&self.comms);
        out.u32(pages.len());
        // An empty list of options may be left out by the format's rules, but `trace-cmd convert` fails without one.
        out.bytes.extend_from_slice(b"options  \0\0\0");
        out.name("flyrecord");
        let begin = (out.bytes.len() + 16 * pages.len()).next_multiple_of(self.page);
        let mut at = begin;
        for count in pages {
            let size = count * self.page;
            out.u64(at);
            out.u64(size);
            at += size;
        }
        out.bytes.resize(begin, 0);
        out.bytes
    }
}

struct Out {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Out {
    fn u32(&mut self, number: usize) {
        let number = number as u32;
        self.bytes.extend(match self.big_endian {
            true => number.to_be_bytes(),
            false => number.to_le_bytes(),
        });
    }

    fn u64(&mut self, number: usize) {
        let number = number as u64;
        self.bytes.extend(match self.big_endian {
            true => number.to_be_bytes(),
            false => number.to_le_bytes(),
        });
    }

    fn name(&mut self, name: &str) {
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
    }

    fn sized(&mut self, text: &[u8]) {
        self.u64(text.len());
        self.bytes.extend_from_slice(text);
    }

    fn formats(&mut self, formats: &[Vec<u8>]) {
        self.u32(formats.len());
        for format in formats {
            self.sized(format);
        }
    }
}
