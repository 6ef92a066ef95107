//! Why a scheduler leaves.

use crate::abi::layout as abi;
use std::ffi::CStr;

/// Why the scheduler leaves (`struct scx_exit_info`).
pub struct Exit {
    /// `SCX_EXIT_*`.
    pub kind: u32,
    /// What `scx_bpf_exit()` was given.
    pub code: i64,
    pub message: String,
    /// The CPU that it happened on.
    pub cpu: i32,
}

/// `scx_exit_reason()`.
pub fn reason(kind: u32) -> &'static CStr {
    match kind {
        abi::EXIT_UNREG => c"unregistered from user space",
        abi::EXIT_UNREG_BPF => c"unregistered from BPF",
        abi::EXIT_ERROR => c"runtime error",
        abi::EXIT_ERROR_BPF => c"scx_bpf_error",
        abi::EXIT_ERROR_STALL => c"runnable task stall",
        abi::EXIT_ERROR_REENQ => c"reenqueue limit",
        _ => c"<UNKNOWN>",
    }
}
