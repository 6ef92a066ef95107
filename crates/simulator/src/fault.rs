//! A native scheduler that divides by zero. BPF defines the result (0), and so does arm64; x86 stops
//! the process.

/// For a command's `main()`: a scheduler's division by zero ends the process with a message and exit
/// status 1 instead of a bare SIGFPE. (The simulation cannot go on: its state is in the middle of a
/// callback.)
pub fn report_division_by_zero() {
    extern "C" fn divided(_signal: libc::c_int) {
        const MESSAGE: &[u8] = b"a scheduler divided by zero, which BPF allows (the result is 0) \
            and this machine does not; expected a test of the divisor\n";
        // SAFETY: both may be called in a signal handler.
        unsafe {
            libc::write(2, MESSAGE.as_ptr().cast(), MESSAGE.len());
            libc::_exit(1);
        }
    }
    // SAFETY: the handler is of the type that SIGFPE's disposition takes and calls nothing that a
    // signal handler may not.
    unsafe { libc::signal(libc::SIGFPE, divided as *const () as libc::sighandler_t) };
}
