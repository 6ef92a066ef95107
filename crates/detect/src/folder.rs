//! Folders of small files, such as those of sysfs.

use machine::CpuMask;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The size of the largest file that is read, in bytes. The kernel's files have at most a page, except its
/// configuration.
const MOST_BYTES: u64 = 4 << 20;

/// The text in `path`, which must be a regular file, because a copy of a sysfs may contain anything, such as a pipe.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let bytes = cage::read_regular(path, MOST_BYTES)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// `text` without white space around it, and without the zeros with which an archive fills up a file of sysfs, which is
/// shorter than its size says.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\0')
}

#[derive(Clone)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn at(&self, path: impl AsRef<Path>) -> Folder {
        Folder(self.0.join(path))
    }

    /// A file's content without white space around it; `None` if it cannot be read or is empty.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let text = read(&self.0.join(name)).ok()?;
        let text = trim(&text);
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    /// The CPUs of the file `map`, which has a bitmap, or, without a valid bitmap, of `list`, which has a list. Kernels
    /// before 2.6.26 and some copies have only the bitmap. If the two files of an edited copy differ, lscpu and hwloc
    /// also use the bitmap.
    pub(crate) fn cpus(&self, list: &str, map: &str) -> Option<CpuMask> {
        let mapped = self.text(map).and_then(|map| hex_mask(&map));
        mapped.or_else(|| self.text(list)?.parse().ok())
    }

    /// The numbers of the entries whose names are `prefix` and a number, in rising order.
    pub(crate) fn numbered(&self, prefix: &str) -> Vec<usize> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut numbers: Vec<usize> = entries
            .filter_map(|entry| {
                entry
                    .file_name()
                    .to_str()?
                    .strip_prefix(prefix)?
                    .parse()
                    .ok()
            })
            .collect();
        numbers.sort_unstable();
        numbers
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }
}

/// Parses the bitmap format of the kernel and of hwloc: words of 32 bits in hexadecimal, highest first. hwloc writes
/// nothing for a word of zero, and `0xf...f` for an infinite sequence of ones. A single word of any length is a number.
pub(crate) fn hex_mask(text: &str) -> Option<CpuMask> {
    let mut mask = CpuMask::EMPTY;
    let mut words = text.trim().split(',').peekable();
    let endless = words.next_if_eq(&"0xf...f").is_some();
    let words: Vec<&str> = words.collect();
    let long = words.len() == 1;
    for (index, word) in words.iter().rev().enumerate() {
        let word = word.trim_start_matches("0x");
        if word.len() > 8 && !long {
            return None;
        }
        for (digit, hex) in word.bytes().rev().enumerate() {
            let hex = char::from(hex).to_digit(16)?;
            for bit in (0..4).filter(|bit| hex >> bit & 1 == 1) {
                let cpu = index * 32 + digit * 4 + bit;
                (cpu < machine::MAX_CPUS).then(|| mask.set(cpu))?;
            }
        }
    }
    if text.trim().is_empty() {
        return None;
    }
    if endless {
        (32 * words.len()..machine::MAX_CPUS).for_each(|cpu| mask.set(cpu));
    }
    Some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_are_the_kernels() {
        assert_eq!(hex_mask("ff").unwrap().to_string(), "0-7");
        assert_eq!(
            hex_mask("1,00000000,80000001").unwrap().to_string(),
            "0,31,64"
        );
        assert_eq!(hex_mask("0x1,,0x1").unwrap().to_string(), "0,64");
        assert_eq!(hex_mask("0x0").unwrap(), CpuMask::EMPTY);
        assert_eq!(hex_mask("0xf...f,0x7").unwrap().to_string(), "0-2,32-4095");
        assert_eq!(hex_mask("100000000f").unwrap().to_string(), "0-3,36");
        for wrong in ["xyz", "", "1,123456789", "1,g"] {
            assert_eq!(hex_mask(wrong), None, "{wrong}");
        }
    }
}
