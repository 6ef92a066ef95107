//! Functions, macros and headers that a scheduler uses and that nothing here defines. The messages say where each of
//! them belongs, and what to add.

use crate::compile::HEADERS;

/// The kernel's functions, by kind. For each kind there is a line with the kind, and then lines with the functions'
/// names.
const LINUX: &str = include_str!("../functions/linux.txt");

/// The functions of scx's library, by file. For each file there is a line with the header and the source, if any, and
/// then indented lines with the functions' names.
const LIBRARY: &str = include_str!("../functions/scx-library.txt");

/// The prefixes of the kernel's functions.
const OF_LINUX: [&str; 2] = ["bpf_", "scx_bpf_"];

/// The folders of scx's own headers.
const OF_SCX: [&str; 2] = ["lib/", "scx/"];

/// Recognises the compiler's and the linker's messages about a function or a header that does not exist.
pub fn message(line: &str) -> Option<String> {
    function(line).or_else(|| header(line))
}

/// Recognises `FILE:LINE[:COLUMN]: ... implicit declaration of function 'NAME'` and the linker's
/// `FILE:LINE: undefined reference to 'NAME'`.
fn function(line: &str) -> Option<String> {
    let undeclared = [
        "implicit declaration of function",
        "call to undeclared function",
    ];
    let is_declared = line.contains("undefined reference to");
    if !is_declared && !undeclared.iter().any(|what| line.contains(what)) {
        return None;
    }
    let name = quoted(line)?;
    let (file, number) = place(line)?;
    Some(format!(
        "{file}:{number}: {name}() {}",
        told(name, is_declared)
    ))
}

/// The message about the function `name`, with its kind and the way to get it.
fn told(name: &str, is_declared: bool) -> String {
    if let Some((header, _)) = HEADERS.iter().find(|(_, text)| calls(text, name))
        && !is_declared
    {
        return format!("is in <{header}>; include it");
    }
    if let Some(kind) = kind_in_linux(name) {
        return format!("is a {kind} of Linux that the simulated kernel does not support");
    }
    if let Some((header, source)) = file_in_library(name) {
        let include = format!("include <{header}>, with its folder as `--include DIR`");
        let add = source.map(|source| format!("add its {source} to the scheduler's files"));
        let parts = [(!is_declared).then_some(include), add];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        return format!("is a function of scx's library; {}", parts.join(", and "));
    }
    match (is_declared, is_constant(name)) {
        _ if OF_LINUX.iter().any(|prefix| name.starts_with(prefix)) => {
            let meant = similar(name).map_or(String::new(), |meant| format!("; did you mean {meant}()?"));
            return format!("is not a function that the simulated kernel supports{meant}");
        }
        (true, _) => "is declared, but not defined; add the file that defines it to the scheduler's files",
        (false, true) => "is a macro that no header defines; add the folder of its header as `--include DIR`",
        (false, false) => {
            "is neither a function of Linux nor of scx's library; if a header declares it, add the header's \
             folder as `--include DIR`"
        }
    }
    .to_owned()
}

/// The function of the headers with the kernel's prefix whose name is most similar to `name`, if any is similar.
fn similar(name: &str) -> Option<&'static str> {
    const LIKE: f64 = 0.8;
    fn rest(name: &str) -> Option<&str> {
        let mut prefixes = OF_LINUX.iter().rev();
        prefixes.find_map(|prefix| name.strip_prefix(prefix))
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = HEADERS.iter().flat_map(|(_, text)| {
        let calls = text.match_indices('(').map(|(at, _)| &text[..at]);
        calls.filter_map(move |before| before.rsplit(|c: char| !is_part(c)).next())
    });
    let own = rest(name)?;
    let rated = words.filter_map(|word| Some((strsim::jaro_winkler(own, rest(word)?), word)));
    let best = rated.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > LIKE).then_some(best.1)
}

/// Recognises the compiler's message about a header that does not exist.
fn header(line: &str) -> Option<String> {
    let (before, after) = line.split_once("fatal error: ")?;
    let name = match after.split_once(": No such file or directory") {
        Some((name, _)) => name,
        None if after.ends_with("file not found") => quoted(after)?,
        None => return None,
    };
    let (file, number) = place(before)?;
    let of = match OF_SCX.iter().any(|folder| name.starts_with(folder)) {
        true => " of scx's headers (bpf_h of its crate scx_cargo)",
        false => "",
    };
    Some(format!(
        "{file}:{number}: no header <{name}>; add the folder{of} as `--include DIR`"
    ))
}

/// The addition to the compiler's message about an unknown constant: what to do if a header defines it.
pub fn constant(line: &str) -> &'static str {
    let unknown = line.contains("undeclared (first use") || line.contains("undeclared identifier");
    match quoted(line) {
        Some(name) if unknown && is_constant(name) => {
            "; if a header defines it, add the header's folder as `--include DIR`"
        }
        _ => "",
    }
}

/// Is `name` in capitals, as macros and enumerators are?
fn is_constant(name: &str) -> bool {
    !name.contains(|c: char| c.is_ascii_lowercase())
}

/// The file and the line number at the beginning of a compiler's message, `FILE:LINE[:COLUMN]: WHAT`, or a linker's,
/// which may begin with the linker's name. The file's name may have colons and numbers.
pub fn place(line: &str) -> Option<(&str, usize)> {
    const WHAT: [&str; 4] = [
        ": error: ",
        ": fatal error: ",
        ": warning: ",
        ": undefined reference",
    ];
    let end = WHAT.iter().filter_map(|what| line.find(what)).min();
    let at = &line[..end.unwrap_or(line.len())];
    let at = at.trim_end_matches([':', ' ']);
    let at = at.split_once("ld: ").map_or(at, |(_, at)| at);
    let numbered = |at: &str| {
        let (file, number) = at.rsplit_once(':')?;
        Some((file.len(), number.parse().ok()?))
    };
    let (length, last) = numbered(at)?;
    // The last number is a column if there is a number before it.
    let (length, number) = numbered(&at[..length]).unwrap_or((length, last));
    Some((&at[..length], number))
}

/// The first quoted word of a compiler's message.
fn quoted(line: &str) -> Option<&str> {
    line.split(['\'', '`', '\u{2018}', '\u{2019}']).nth(1)
}

/// Does `text` have a call or a declaration of the function `name`?
fn calls(text: &str, name: &str) -> bool {
    text.match_indices(&format!("{name}(")).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn kind_in_linux(name: &str) -> Option<&'static str> {
    let mut kind = "";
    for line in LINUX.lines().filter(|line| !line.starts_with('#')) {
        if !line.contains('_') {
            kind = line;
        } else if line.split(' ').any(|function| function == name) {
            return Some(kind);
        }
    }
    None
}

/// The header and the source of the function `name` of scx's library.
fn file_in_library(name: &str) -> Option<(&'static str, Option<&'static str>)> {
    let mut file = ("", None);
    for line in LIBRARY.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix('\t') {
            None => {
                file = line
                    .split_once(' ')
                    .map_or((line, None), |(header, source)| (header, Some(source)));
            }
            Some(names) if names.split(' ').any(|function| function == name) => return Some(file),
            Some(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_function_is_told_by_where_it_belongs() {
        let undeclared = |name: &str| {
            message(&format!(
                "a.c:5:2: error: implicit declaration of function '{name}' [-Wimplicit]"
            ))
            .unwrap()
        };
        let declared =
            |name: &str| message(&format!("a.c:5: undefined reference to `{name}'")).unwrap();
        for (told, expected) in [
            (
                undeclared("bpf_strstr"),
                "bpf_strstr() is a kfunc of Linux that the simulated kernel does not support",
            ),
            (
                undeclared("bpf_redirect"),
                "bpf_redirect() is a helper of Linux that the simulated kernel does not support",
            ),
            (
                undeclared("scx_bpf_of_tomorrow"),
                "scx_bpf_of_tomorrow() is not a function that the simulated kernel supports",
            ),
            (
                undeclared("scx_bpf_dsq_insrt"),
                "scx_bpf_dsq_insrt() is not a function that the simulated kernel supports; did you mean \
                 scx_bpf_dsq_insert()?",
            ),
            (
                undeclared("bpf_timer_init"),
                "bpf_timer_init() is in <bpf/bpf_helpers.h>; include it",
            ),
            (
                undeclared("scx_atq_create"),
                "scx_atq_create() is a function of scx's library; include <lib/atq.h>, with its folder as `--include \
                 DIR`, and add its lib/atq.bpf.c to the scheduler's files",
            ),
            (
                declared("scx_bitmap_pick_any_cpu"),
                "scx_bitmap_pick_any_cpu() is a function of scx's library; add its lib/cpumask.bpf.c to the \
                 scheduler's files",
            ),
            (
                declared("helper_of_mine"),
                "helper_of_mine() is declared, but not defined; add the file that defines it to the scheduler's files",
            ),
            (
                undeclared("FOR_EACH_LAYER"),
                "FOR_EACH_LAYER() is a macro that no header defines; add the folder of its header as `--include DIR`",
            ),
            (
                undeclared("helper_of_mine"),
                "helper_of_mine() is neither a function of Linux nor of scx's library; if a header declares \
                 it, add the header's folder as `--include DIR`",
            ),
        ] {
            assert_eq!(told, format!("a.c:5: {expected}"));
        }
    }

    #[test]
    fn a_missing_header_is_told_with_its_folder() {
        for line in [
            "a.c:1:10: fatal error: lib/atq.h: No such file or directory",
            "a.c:1:10: fatal error: 'lib/atq.h' file not found",
        ] {
            assert_eq!(
                message(line).unwrap(),
                "a.c:1: no header <lib/atq.h>; add the folder of scx's headers (bpf_h of its crate scx_cargo) as \
                 `--include DIR`"
            );
        }
        let own = message("a.c:1:10: fatal error: intf.h: No such file or directory");
        assert_eq!(
            own.unwrap(),
            "a.c:1: no header <intf.h>; add the folder as `--include DIR`"
        );
    }

    #[test]
    fn a_file_s_name_may_look_like_a_place() {
        for (line, file) in [
            ("12:30/a.c:5:2: error: x:7: y", "12:30/a.c"),
            ("12:30/a.c:5: undefined reference to `f'", "12:30/a.c"),
            ("/usr/bin/ld: a.c:5: undefined reference to `f'", "a.c"),
            ("12:30:a.c:5:2", "12:30:a.c"),
        ] {
            assert_eq!(place(line), Some((file, 5)), "{line}");
        }
        assert_eq!(place("cc1: error: x:7: y"), None);
    }

    #[test]
    fn the_kernels_functions_have_a_kind() {
        assert_eq!(kind_in_linux("bpf_cpumask_create"), Some("kfunc"));
        assert_eq!(kind_in_linux("bpf_map_lookup_elem"), Some("helper"));
        assert_eq!(kind_in_linux("kfunc"), None);
        let scx = LIBRARY
            .split_whitespace()
            .filter(|name| name.starts_with("scx_bpf_"));
        assert_eq!(scx.count(), 0);
    }
}
