//! A native scheduler that does what ends its process: divides by zero (BPF defines the result, 0; x86
//! has none), uses a pointer that it did not check, or recurses or loops without end (the kernel's
//! verifier refuses such a scheduler).

use crate::host::calls::{self, Call, Patience};
use libc::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, c_int};
use std::time::Duration;

/// How often the schedulers are looked at, and how often in a row the same call may be met: ten
/// seconds for what takes microseconds. Looks are counted, not time, which passes for a stopped
/// process too.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOKS: u32 = 100;

/// For a command's `main()`: a scheduler's fault ends the process with a message and exit status 1
/// instead of a bare signal, and so does a call that does not end. (The simulation cannot go on: its
/// state is in the middle of a callback.)
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
    std::thread::spawn(|| {
        let mut patience = Patience::new(LOOKS);
        loop {
            std::thread::sleep(LOOK_EVERY);
            patience.sample(&calls::everywhere(), |call| {
                end(
                    Some(call),
                    "did not return, which the kernel's verifier refuses; expected loops with an end",
                )
            });
        }
    });
}

extern "C" fn report(signal: c_int) {
    let what = match signal {
        SIGFPE => {
            "divided by zero, which BPF allows (the result is 0) and this machine does not; expected \
             a test of the divisor"
        }
        SIGILL => {
            "ran into an instruction that is none, as after __builtin_unreachable(); expected code \
             that is never reached"
        }
        _ => {
            "used memory that is not there, which the kernel's verifier refuses; expected a test of \
             each pointer that may be NULL, indices within bounds and no recursion"
        }
    };
    calls::here(|call| end(call.as_ref(), what));
}

/// Says what the scheduler did, and ends the process. May be called in a signal handler: it neither
/// allocates nor locks.
fn end(call: Option<&Call<'_>>, what: &str) -> ! {
    let write = |text: &str| {
        // SAFETY: may be called in a signal handler.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    };
    write("error: ");
    match call {
        Some(call) => {
            write("scheduler `");
            write(call.scheduler);
            write("`: its ");
            write(call.op);
            write("() ");
        }
        None => write("a scheduler "),
    }
    write(what);
    write("\n");
    // SAFETY: may be called in a signal handler.
    unsafe { libc::_exit(1) }
}
