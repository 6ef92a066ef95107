//! The schedulers. Build scripts include this file, too, so the file uses only the standard library.

/// The schedulers: the name of each, and the folder in `scheduler/` with its `main.bpf.c`. To add one, add its folder
/// and a line here. The schedulers below `linux/` represent Linux's fair class.
pub const SCHEDULERS: &[(&str, &str)] = &[
    ("cfs", "linux/cfs"),
    ("eevdf", "linux/eevdf"),
    ("equipoise", "equipoise"),
];
