//! The schedulers. Shared with build scripts, so it needs the standard library only.

/// The schedulers: name, and folder of `scheduler/` with its `main.bpf.c`. To add one, add its
/// folder and a line here. The schedulers below `linux/` represent Linux's fair class.
pub const SCHEDULERS: &[(&str, &str)] = &[
    ("cfs", "linux/cfs"),
    ("eevdf", "linux/eevdf"),
    ("equipoise", "equipoise"),
];
