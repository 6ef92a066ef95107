//! Detects a closed standard output. Before `main()` runs, the standard library puts `/dev/null` in the place of a
//! closed standard stream (`>&-`), and all output would be lost silently.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// The C library calls this function before the standard library checks the streams.
// SAFETY: this function ignores the arguments that functions of this section get, and calls only
// functions that need nothing but the C library.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: the call only reads the flags of a descriptor, which need not exist.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags < 0, Ordering::Relaxed);
}

pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
