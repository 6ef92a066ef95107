//! Standard output that is not there: before `main()` runs, the standard library puts `/dev/null` in the place of a
//! standard stream that is closed (`>&-`), and what is written to it would be lost in silence.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Called by the C library before the standard library looks.
// SAFETY: functions of this section take no arguments that this one would read wrong, and it calls nothing that
// needs more than the C library.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: reads the flags of a descriptor, if there is one.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags < 0, Ordering::Relaxed);
}

/// Was it closed when the program began?
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
