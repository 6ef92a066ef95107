//! The schedulers. Shared with build scripts, so it needs the standard library only.

/// The schedulers: the name of each, and its folder in `scheduler/` with its `main.bpf.c`. To add a
/// scheduler, add its folder and a line here.
pub const SCHEDULERS: &[(&str, &str)] = &[
    ("cfs", "linux/cfs"),
    ("eevdf", "linux/eevdf"),
    ("equipoise", "equipoise"),
];
