//! A native scheduler that does what ends its process: divides by zero (BPF defines the result, 0; x86
//! has none), uses a pointer that it did not check or recurses without end (the kernel's verifier
//! refuses such a scheduler).

use libc::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, c_int};

/// For a command's `main()`: a scheduler's fault ends the process with a message and exit status 1
/// instead of a bare signal. (The simulation cannot go on: its state is in the middle of a callback.)
pub fn report_scheduler_faults() {
    for signal in [SIGFPE, SIGSEGV, SIGBUS, SIGILL] {
        // SAFETY: all zeroes is a sigaction. The handler is of the type that one without SA_SIGINFO
        // has, and calls nothing that a signal handler may not. SA_ONSTACK: it runs on the alternate
        // stack that the standard library gives each thread, as the thread's own may be what is full.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = report as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

extern "C" fn report(signal: c_int) {
    let message: &[u8] = match signal {
        SIGFPE => {
            b"error: a scheduler divided by zero, which BPF allows (the result is 0) and this \
            machine does not; expected a test of the divisor\n"
        }
        SIGILL => {
            b"error: a scheduler ran into an instruction that is none, as after \
            __builtin_unreachable(); expected code that is never reached\n"
        }
        _ => {
            b"error: a scheduler used memory that is not there, which the kernel's verifier refuses; \
            expected a test of each pointer that may be NULL, indices within bounds and no recursion\n"
        }
    };
    // SAFETY: both may be called in a signal handler.
    unsafe {
        libc::write(2, message.as_ptr().cast(), message.len());
        libc::_exit(1);
    }
}
