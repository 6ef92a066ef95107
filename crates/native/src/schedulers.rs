//! Which schedulers there are. Shared with build scripts, so it needs the standard library only.

/// The folders of `scheduler/` that have a scheduler, `main.bpf.c`. A new one is its folder and a word here.
pub const SCHEDULERS: &[&str] = &["cfs", "eevdf"];
