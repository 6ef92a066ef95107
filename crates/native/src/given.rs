//! Declarations that Linux gives a scheduler: kfuncs (`__ksym`), and values of the kernel's configuration
//! (`__kconfig`). The headers define kfuncs as functions of each file that includes scx/common.bpf.h. A file may also
//! declare them itself, as published schedulers and a generated vmlinux.h do; such a file is linked with a file that
//! defines the kfuncs for all files.

use crate::description::UNKNOWN_CONFIGS;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The limit in bytes on the length of a file that is searched. A generated vmlinux.h is longer, but declares no
/// configuration values.
const LONGEST: u64 = 1 << 20;

/// The maximum number of headers that are searched in a folder, which may be a folder of downloads.
const MOST: usize = 1000;

/// The beginning of a file that defines the functions of the headers for other files. After it come the [`DEFINITIONS`]
/// of functions that the headers have only as macros.
const KFUNCS: &str =
    "#define static\n#define inline\n#include <scx/common.bpf.h>\n#undef static\n#undef inline\n";

/// Linux 7.1 added an argument to the first function; schedulers that declare both versions call the second one
/// `___v2`.
const DEFINITIONS: &str = "#undef scx_bpf_dsq_move_to_local
bool scx_bpf_dsq_move_to_local(u64 dsq_id) { return __equipoise_move_to_local(dsq_id, 0); }
bool scx_bpf_dsq_move_to_local___v2(u64 dsq_id, u64 enq_flags) { return __equipoise_move_to_local(dsq_id, enq_flags); }
";

/// The kfuncs and configuration values that the files of a scheduler declare.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    kfuncs: bool,
    includes_common: bool,
    /// The values' names, and whether the scheduler requires each of them: it does if a source declares the value, and
    /// not as `__weak`. (A file beside a source is perhaps not included.)
    configs: BTreeMap<String, bool>,
}

/// The value of the configuration that the simulated kernel sets, the tick rate.
const CONFIG_HZ: &str = "CONFIG_HZ";

impl Given {
    /// Reads `sources`, and the files beside them and in the folders `include` that they may include.
    pub fn of(sources: &[&Path], include: &[&Path]) -> Given {
        let mut given = Given::default();
        let read = |path: &Path| cage::read_regular(path, LONGEST).ok();
        let beside = sources.iter().filter_map(|path| path.parent());
        let folders: BTreeSet<&Path> = beside.chain(include.iter().copied()).collect();
        for folder in folders {
            let folder = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            };
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let headers = entries.map(|entry| entry.path());
            let is_included = |path: &PathBuf| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.ends_with(".h") || name.ends_with(".bpf.c")
            };
            let headers = headers.filter(is_included).take(MOST);
            for text in headers.filter_map(|path| read(&path)) {
                given.add(&String::from_utf8_lossy(&text), false);
            }
        }
        for text in sources.iter().filter_map(|path| read(path)) {
            given.add(&String::from_utf8_lossy(&text), true);
        }
        given
    }

    fn add(&mut self, text: &str, is_source: bool) {
        let text = &*without_comments(text);
        if is_source {
            self.kfuncs |= text.contains("__ksym");
            self.includes_common |= text.contains("common.bpf.h");
        }
        for line in text.split(';').filter(|line| line.contains("__kconfig")) {
            let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let names = words.filter(|word| word.starts_with("CONFIG_"));
            let is_required = is_source && !line.contains("__weak");
            for name in names {
                *self.configs.entry(name.to_owned()).or_default() |= is_required;
            }
        }
    }

    /// A source that defines what is declared; `None` if there is nothing to define. Without `all`, it defines no kfuncs
    /// if a source names a `common.bpf.h`, which may define them.
    pub fn source(&self, all: bool) -> Option<String> {
        let kfuncs = self.kfuncs && (all || !self.includes_common);
        if !kfuncs && self.configs.is_empty() {
            return None;
        }
        let mut text = String::new();
        if kfuncs {
            text += KFUNCS;
            text += DEFINITIONS;
        }
        // A declaration of any integer type reads the lower bytes. When the simulated kernel loads the object, it sets
        // the value that it knows; the others are not set (`n`). Linux refuses a scheduler that requires a value that
        // is not set.
        for (name, is_required) in &self.configs {
            let section = match *is_required && name != CONFIG_HZ {
                true => format!(" __attribute__((section(\"{UNKNOWN_CONFIGS}\")))"),
                false => String::new(),
            };
            text += &format!("unsigned long long {name}{section};\n");
        }
        Some(text)
    }

    /// Can the file that [`Given::source`] makes define a function that another file defines, too?
    pub fn may_repeat(&self) -> bool {
        self.kfuncs
    }
}

/// `text` in C with a blank in place of each comment, which may have a declaration that is not in use.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, shown) = match first {
            _ if rest.starts_with("/*") => {
                (rest[2..].find("*/").map_or(rest.len(), |at| at + 4), " ")
            }
            _ if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), " "),
            '"' => {
                let length = quoted(rest);
                (length, &rest[..length])
            }
            first => (first.len_utf8(), &rest[..first.len_utf8()]),
        };
        kept += shown;
        rest = &rest[length..];
    }
    kept
}

/// The length of the string with which `text` begins, in bytes.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|&(_, c)| {
        let ends = c == '\n' || c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_found_in_sources_and_headers() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(
            path("own.h"),
            "extern bool CONFIG_A __kconfig __weak;\nint CONFIG_B;\n",
        )
        .unwrap();
        std::fs::write(
            path("x.bpf.c"),
            "extern unsigned\nlong CONFIG_HZ __kconfig;\n",
        )
        .unwrap();
        let given = Given::of(&[&path("x.bpf.c")], &[]);
        let text = given.source(true).unwrap();
        assert_eq!(
            text,
            "unsigned long long CONFIG_A;\nunsigned long long CONFIG_HZ;\n"
        );
        let required = |text: &str| {
            std::fs::write(path("y.bpf.c"), text).unwrap();
            let given = Given::of(&[&path("y.bpf.c")], &[]).source(true).unwrap();
            given.contains("CONFIG_A __attribute__((section(")
        };
        assert!(required("extern int CONFIG_A __kconfig;\n"));
        assert!(required(
            "char s[] = \"/*\\\"//\";extern int CONFIG_A __kconfig;\n"
        ));
        for comment in [
            "// extern int CONFIG_A __kconfig;\n",
            "/* extern int CONFIG_A __kconfig;\n*/",
        ] {
            assert!(!required(comment), "{comment}");
        }
        assert!(!required("extern int CONFIG_A __kconfig __weak;\n"));
        std::fs::write(path("own.h"), "extern int CONFIG_A __kconfig;\n").unwrap();
        assert!(!required("int CONFIG_B;\n"));
        std::fs::remove_file(path("y.bpf.c")).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("y.c"), "#include <x.bpf.c>\n").unwrap();
        let given = Given::of(&[&elsewhere.path().join("y.c")], &[folder.path()]);
        assert_eq!(given.source(true).unwrap(), text);
        std::fs::remove_file(path("own.h")).unwrap();
        std::fs::write(
            path("x.bpf.c"),
            "#include <scx/common.bpf.h>\nextern int f(int) __ksym;\n",
        )
        .unwrap();
        let given = Given::of(&[&path("x.bpf.c")], &[]);
        assert_eq!(given.source(false), None);
        assert!(given.source(true).unwrap().starts_with(KFUNCS));
    }
}
