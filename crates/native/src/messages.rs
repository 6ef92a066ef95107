//! Messages made of the output of the compiler and the linker about a scheduler.

use crate::compile::HEADERS;
use crate::missing::{self, place};
use crate::{description, kernels};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;

/// Makes one message of `said`, the compiler's output about `source`. If that names functions that the simulated kernel
/// lacks, or missing headers, the message is about these alone, in whatever form the compiler or the linker reported
/// them.
pub fn explain(source: &str, said: &str) -> String {
    let said = &*with_places_of_use(&cage::text::lines(said));
    let mut told = HashSet::new();
    let lacking = said.lines().filter_map(lacking_function);
    // Each function gets one message, with the function's first call.
    let lacking = lacking.filter(|(name, _)| told.insert(*name));
    let mut unsupported: Vec<String> = lacking.map(|(_, message)| message).collect();
    unsupported.extend(said.lines().filter_map(missing::message));
    unsupported.dedup();
    if !unsupported.is_empty() {
        return unsupported.join("\n");
    }
    if let Some(limit) = cage::reached(said) {
        return format!("{source}: {limit}");
    }
    if CRASHED.iter().any(|what| said.contains(what)) {
        return format!(
            "{source}: the compiler crashed; set CC to another compiler, such as gcc 12 or later, or clang 16 or later"
        );
    }
    if let Some(name) = said.lines().find_map(defined_twice) {
        return format!(
            "{source}: `{name}` is defined in more than one of the files; expected the files of one scheduler"
        );
    }
    if TOO_FAR.iter().any(|what| said.contains(what)) {
        return description::too_much_memory(source).0;
    }
    // The compiler only reports that the linker failed; the cause is in the linker's own lines.
    let failed =
        |line: &str| line.starts_with("collect2:") || line.contains("linker command failed");
    let linker = said
        .lines()
        .filter_map(|line| Some(line.split_once("ld: ")?.1));
    let compiler = said
        .lines()
        .filter(|line| line.contains("error:") && !failed(line));
    let errors: Vec<String> = compiler
        .chain(linker)
        .take(5)
        .map(|line| match line.contains(".c:") || line.contains(".h:") {
            true => format!("{line}{}", missing::constant(line)),
            false => format!("{source}: {line}"),
        })
        .collect();
    if errors.is_empty() {
        return format!("{source}: {}", said.trim());
    }
    let errors = errors.join("\n");
    // A `#line` gives the source another name, and a message of cc1 has no name.
    let name = Path::new(source).file_name().and_then(OsStr::to_str);
    match name.is_none_or(|name| errors.contains(name)) {
        true => errors,
        false => format!("{source}: {errors}"),
    }
}

/// `said`, in which an error in a macro of the simulated kernel's headers has the place where the scheduler uses the
/// macro. gcc adds that place as a note; clang begins with it.
fn with_places_of_use(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let placed = lines.iter().enumerate().map(|(index, line)| {
        let Some((at, what)) = line.split_once(": error: ") else {
            return (*line).to_owned();
        };
        let is_ours = place(at).is_some_and(|(file, _)| is_header(file));
        let notes = lines[index + 1..].iter();
        let notes = notes.take_while(|line| !line.contains(": error: "));
        let uses = notes.filter_map(|line| line.split_once(": note: in expansion of macro"));
        match uses.last().filter(|_| is_ours) {
            Some((use_at, _)) => format!("{use_at}: error: {what}"),
            None => (*line).to_owned(),
        }
    });
    placed.collect::<Vec<_>>().join("\n")
}

fn is_header(path: &str) -> bool {
    let mut headers = HEADERS.iter();
    headers.any(|(header, _)| Path::new(path).ends_with(header))
}

/// gcc and clang print these texts if they crash, as clang 14 does on scx_lavd.
const CRASHED: [&str; 2] = ["internal compiler error", "clang frontend command failed"];

/// Linkers print these texts if an instruction cannot reach a variable, because the variables in between take
/// gigabytes.
const TOO_FAR: [&str; 3] = [
    "failed to convert GOTPCREL relocation",
    "relocation truncated to fit",
    "out of range: ",
];

/// Recognises the compiler's message about a call of a function that the kernel lacks ([`Kernel::header`]).
fn lacking_function(line: &str) -> Option<(&'static str, String)> {
    let (_, name) = line.split_once(kernels::MARK)?;
    let name = name
        .trim_start()
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let feature = kernels::find(name.into_iter().next()?)?;
    let (file, number) = place(line)?;
    let message = format!("{file}:{number}: {}", feature.missing());
    Some((feature.name, message))
}

/// Recognises the linker's "multiple definition of `NAME'" and "duplicate symbol: NAME".
fn defined_twice(line: &str) -> Option<&str> {
    match line.split_once("multiple definition of ") {
        Some((_, name)) => name.split(['`', '\'', '"']).nth(1),
        None => Some(line.split_once("duplicate symbol: ")?.1.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_names_the_source() {
        for (said, explained) in [
            (
                "other.c:1:2: error: one",
                "d/x.bpf.c: other.c:1:2: error: one",
            ),
            ("d/x.bpf.c:1:2: error: one", "d/x.bpf.c:1:2: error: one"),
            (
                "cc1: fatal error: p.h: no",
                "d/x.bpf.c: cc1: fatal error: p.h: no",
            ),
        ] {
            assert_eq!(explain("d/x.bpf.c", said), explained);
        }
    }

    #[test]
    fn an_error_in_a_macro_of_the_headers_has_the_line_of_its_use() {
        let said = "x.bpf.c: In function 'f':\n\
            /tmp/h/bpf/bpf_helpers.h:9:2: error: implicit declaration of function 'bpf_iter_task_new'; did you mean x\n    \
            9 |  bpf_iter_##type##_new(\n\
            /tmp/h/scx/common.bpf.h:7:1: note: in expansion of macro 'bpf_for_each'\n\
            x.bpf.c:5:3: note: in expansion of macro 'all'\n\
            x.bpf.c:6:1: error: other\n\
            own.h:7:1: error: third\n\
            x.bpf.c:8:1: note: in expansion of macro 'own'";
        assert_eq!(
            explain("x.bpf.c", said),
            "x.bpf.c:5: bpf_iter_task_new() is a kfunc of Linux that the simulated kernel does not support"
        );
        let placed = with_places_of_use(said);
        assert!(
            placed.contains("\nx.bpf.c:6:1: error: other\nown.h:7:1: error: third\n"),
            "{placed}"
        );
    }

    #[test]
    fn a_compiler_that_crashes_is_to_be_replaced() {
        let said = "clang: error: clang frontend command failed with exit code 139 (use -v to see invocation)";
        assert_eq!(
            explain("x.bpf.c", said),
            "x.bpf.c: the compiler crashed; set CC to another compiler, such as gcc 12 or later, or clang 16 or later"
        );
    }
}
