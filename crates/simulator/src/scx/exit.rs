//! Reasons for a scheduler's exit.

use crate::abi::layout as abi;
use std::ffi::CStr;

/// The reason for the scheduler's exit (`struct scx_exit_info`).
pub struct Exit {
    /// `SCX_EXIT_*`.
    pub kind: u32,
    /// The exit code: the argument of `scx_bpf_exit()`, or the code of an exit for hotplug.
    pub code: i64,
    pub message: String,
    /// The CPU on which the exit happened.
    pub cpu: i32,
}

/// `scx_exit_reason()`.
pub fn reason(kind: u32) -> &'static CStr {
    match kind {
        abi::EXIT_UNREG => c"unregistered from user space",
        abi::EXIT_UNREG_BPF => c"unregistered from BPF",
        abi::EXIT_UNREG_KERN => c"unregistered from the main kernel",
        abi::EXIT_ERROR => c"runtime error",
        abi::EXIT_ERROR_BPF => c"scx_bpf_error",
        abi::EXIT_ERROR_STALL => c"runnable task stall",
        abi::EXIT_ERROR_REENQ => c"reenqueue limit",
        _ => c"<UNKNOWN>",
    }
}
