//! The schedulers. Shared with build scripts, so it needs the standard library only.

/// The folders of `scheduler/` with a scheduler, `main.bpf.c`. To add one, add its folder and a
/// word here.
pub const SCHEDULERS: &[&str] = &["cfs", "eevdf", "equipoise"];
