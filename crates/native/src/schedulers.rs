//! The schedulers. Shared with build scripts, so it needs the standard library only.

/// The schedulers: name, and folder of `scheduler/` with its `main.bpf.c`. To add one, add its
/// folder and a line here. Those below `linux/` stand for Linux's fair class.
pub const SCHEDULERS: &[(&str, &str)] = &[
    ("cfs", "linux/cfs"),
    ("eevdf", "linux/eevdf"),
    ("equipoise", "equipoise"),
];
