//! The flattened format of device trees.
//!
//! This module reads the format itself because no maintained crate reads Linux's trees. dtoolkit refuses names of more
//! than 31 characters, a limit that neither dtc nor Linux enforces and that a quarter of Linux's trees exceed; other
//! crates are unmaintained or panic on wrong offsets.

use std::collections::BTreeMap;

/// The first word of a blob (Devicetree Specification 0.4, section 5.2).
const MAGIC: u32 = 0xd00d_feed;
/// The oldest version of the format that this reader knows (`FDT_FIRST_SUPPORTED_VERSION` of libfdt), and the newest
/// version.
const OLDEST: u32 = 16;
const NEWEST: u32 = 17;
/// The deepest tree that Linux unflattens (`FDT_MAX_DEPTH` in drivers/of/fdt.c).
const DEEPEST: usize = 64;

const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROP: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;

#[derive(Default)]
pub(super) struct Node {
    pub name: String,
    pub properties: BTreeMap<String, Vec<u8>>,
    pub children: Vec<Node>,
}

impl Node {
    /// The root of `blob`. The error says what is wrong with the blob.
    pub fn root(blob: &[u8]) -> Result<Node, String> {
        let header = |index: usize| word(blob, 4 * index);
        if header(0) != Some(MAGIC) {
            return Err("this is not a device tree blob".to_owned());
        }
        let short = || "it is shorter than its header says".to_owned();
        let blob = header(1).and_then(|size| blob.get(..size as usize));
        let blob = blob.ok_or_else(short)?;
        match (header(5), header(6)) {
            (Some(version), Some(compatible)) if version >= OLDEST && compatible <= NEWEST => {}
            _ => return Err("its version of the format is not supported".to_owned()),
        }
        let (structure, strings) = (header(2), header(3));
        let strings = strings.and_then(|at| blob.get(at as usize..));
        Reader {
            blob,
            at: structure.ok_or_else(short)? as usize,
            strings: strings.ok_or_else(short)?,
        }
        .tree()
    }

    /// The big-endian words of 32 bits in the property `name`.
    pub fn cells(&self, name: &str) -> Vec<u32> {
        let value = self.properties.get(name);
        let words = value.map(|value| value.chunks_exact(4));
        let word = |bytes: &[u8]| word(bytes, 0).unwrap_or(0);
        words.into_iter().flatten().map(word).collect()
    }

    pub fn cell(&self, name: &str) -> Option<u32> {
        self.cells(name).first().copied()
    }

    /// The strings of the list in the property `name`.
    pub fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        let value = self.properties.get(name).into_iter();
        let parts = value.flat_map(|value| value.split(|&byte| byte == 0));
        parts.filter_map(|part| {
            std::str::from_utf8(part)
                .ok()
                .filter(|text| !text.is_empty())
        })
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts(name).next()
    }

    /// Is `compatible` in the node's list (`of_device_is_compatible()`)?
    pub fn is(&self, compatible: &str) -> bool {
        self.texts("compatible").any(|text| text == compatible)
    }

    /// May the kernel use the device (`of_device_is_available()`)?
    pub fn is_available(&self) -> bool {
        matches!(self.text("status"), None | Some("okay" | "ok"))
    }

    pub fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The node's name without the address, which is the kernel's `name`.
    pub fn base_name(&self) -> &str {
        self.name.split('@').next().unwrap_or(&self.name)
    }

    pub fn phandle(&self) -> Option<u32> {
        self.cell("phandle").or_else(|| self.cell("linux,phandle"))
    }

    pub fn all(&self) -> Vec<&Node> {
        let mut all = vec![self];
        let mut next = 0;
        while let Some(&node) = all.get(next) {
            all.extend(&node.children);
            next += 1;
        }
        all
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn string(bytes: &[u8], at: usize) -> Option<&str> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

struct Reader<'a> {
    blob: &'a [u8],
    at: usize,
    strings: &'a [u8],
}

impl Reader<'_> {
    fn word(&mut self) -> Option<u32> {
        let word = word(self.blob, self.at)?;
        self.at += 4;
        Some(word)
    }

    /// Skips `length` bytes and the padding up to the next word.
    fn skip(&mut self, length: usize) -> Option<()> {
        self.at = self.at.checked_add(length)?.checked_next_multiple_of(4)?;
        Some(())
    }

    fn property(&mut self) -> Option<(String, Vec<u8>)> {
        let (length, name) = (self.word()? as usize, self.word()? as usize);
        let value = self.blob.get(self.at..self.at.checked_add(length)?)?;
        let property = (string(self.strings, name)?.to_owned(), value.to_vec());
        self.skip(length)?;
        Some(property)
    }

    fn tree(mut self) -> Result<Node, String> {
        let mut open: Vec<Node> = Vec::new();
        let mut root = None;
        loop {
            let start = self.at;
            let token = self.word();
            let read = match token {
                Some(BEGIN_NODE) if open.len() < DEEPEST && root.is_none() => self.begin(&mut open),
                Some(PROP) => self.property().and_then(|(name, value)| {
                    let node = open.last_mut()?;
                    node.properties.entry(name).or_insert(value);
                    Some(())
                }),
                Some(END_NODE) => open.pop().map(|node| match open.last_mut() {
                    Some(parent) => parent.children.push(node),
                    None => root = Some(node),
                }),
                Some(NOP) => Some(()),
                Some(END) if open.is_empty() => {
                    return root.ok_or_else(|| "it has no root node".to_owned());
                }
                _ => None,
            };
            if read.is_none() {
                return Err(format!("its structure is wrong at byte {start}"));
            }
        }
    }

    fn begin(&mut self, open: &mut Vec<Node>) -> Option<()> {
        let name = string(self.blob, self.at)?.to_owned();
        self.skip(name.len() + 1)?;
        open.push(Node {
            name,
            ..Node::default()
        });
        Some(())
    }
}
