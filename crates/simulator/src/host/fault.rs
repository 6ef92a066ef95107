//! Handles the faults of a native scheduler that would end its process, such as use of an unchecked pointer, a system
//! call, recursion, or a loop without end. The kernel's verifier would refuse such a scheduler.
//!
//! This module only reports faults. The limits on the process's rights and its time are enforced outside of it
//! ([`cage`]).

use crate::host::calls::{self, CallRecord};
use cage::Progress;
use libc::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP, SIGXCPU, c_int};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

/// The exit status of a process whose scheduler is at fault.
pub const STATUS: c_int = 3;

/// The scheduler of this process, for messages before it is loaded.
static SCHEDULER: OnceLock<String> = OnceLock::new();

/// Lets a fault of `scheduler` end this process, which runs one simulation, with a message on standard error and exit
/// status [`STATUS`] instead of a bare signal. (The simulation cannot continue: its state is in the middle of a
/// callback.) The process that watches `progress` may request the message with SIGXCPU.
pub fn report_scheduler_faults(scheduler: &str, progress: &'static Progress) {
    let _ = SCHEDULER.set(scheduler.to_owned());
    calls::show(progress);
    #[cfg(target_arch = "x86_64")]
    super::division::prepare();
    for signal in [SIGFPE, SIGSEGV, SIGBUS, SIGILL, SIGSYS, SIGTRAP, SIGXCPU] {
        // SAFETY: all zeroes is a sigaction. The handler has the type of a handler with SA_SIGINFO, and calls only
        // functions that a signal handler may call. SA_ONSTACK: it runs on the alternate stack that the standard
        // library gives each thread, because the thread's own stack may be full.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = report as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
    // If no thread can be started, messages about faults have no source line.
    let (begins, begun) = mpsc::channel();
    let writes = std::thread::Builder::new().spawn(move || {
        // Fails only if the receiver is gone.
        let _ = begins.send(());
        loop {
            wait(0, None);
            if let Some(fault) = Fault::reported() {
                fault.end(true);
            }
        }
    });
    if writes.is_ok() {
        // The thread now has all it needs, whatever rights are dropped next.
        let _ = begun.recv();
    }
}

/// Waits until [`REPORTED`] is no longer `value`, for at most the time `most`; may return early. A signal handler may
/// call this function, and so may a process that can neither sleep nor poll.
fn wait(value: u32, most: Option<Duration>) {
    let most = most.map(|most| libc::timespec {
        tv_sec: most.as_secs() as libc::time_t,
        tv_nsec: most.subsec_nanos().into(),
    });
    let most = most.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the call reads the arguments.
    unsafe { libc::syscall(libc::SYS_futex, REPORTED.as_ptr(), operation, value, most) };
}

/// Wakes the threads that wait for [`REPORTED`].
fn wake() {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the call uses the address only.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            REPORTED.as_ptr(),
            operation,
            libc::c_int::MAX,
        )
    };
}

/// The findings of a signal handler, for the thread that writes the message: finding a line takes more stack than
/// a handler has.
struct Fault {
    signal: c_int,
    address: usize,
    record: *const CallRecord,
}

/// The signal of the first fault; threads with further faults wait for the end of the process.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static RECORD: AtomicPtr<CallRecord> = AtomicPtr::new(null_mut());
/// 1 once there is a fault.
static REPORTED: AtomicU32 = AtomicU32::new(0);

/// The time to wait for the thread that finds the line. That thread may wait for the allocator's lock, which the faulty
/// thread may hold.
const WAIT_FOR_LINE: Duration = Duration::from_secs(2);

extern "C" fn report(signal: c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the argument is the thread's context.
    let context = unsafe { &mut *context.cast() };
    let mut address = instruction_pointer(context);
    // A breakpoint is reported with the address after its instruction.
    if cfg!(target_arch = "x86_64") && signal == SIGTRAP {
        address -= 1;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the record is null, or that of this thread's simulation; the scheduler's code was executed.
    if signal == SIGFPE
        && unsafe { calls::record().as_ref() }
            .and_then(CallRecord::call)
            .is_some_and(|call| call.is_at(address))
        && unsafe { super::division::divide(context) }
    {
        return;
    }
    let first = SIGNAL.compare_exchange(0, signal, Acquire, Relaxed).is_ok();
    let fault = Fault {
        signal,
        address,
        record: calls::record(),
    };
    if first {
        ADDRESS.store(address, Relaxed);
        RECORD.store(fault.record.cast_mut(), Relaxed);
        REPORTED.store(1, Release);
        wake();
    }
    wait(1, Some(WAIT_FOR_LINE));
    fault.end(false)
}

#[cfg(target_arch = "x86_64")]
fn instruction_pointer(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize
}

#[cfg(target_arch = "aarch64")]
fn instruction_pointer(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.pc as usize
}

impl Fault {
    fn reported() -> Option<Fault> {
        (REPORTED.load(Acquire) == 1).then(|| Fault {
            signal: SIGNAL.load(Relaxed),
            address: ADDRESS.load(Relaxed),
            record: RECORD.load(Relaxed),
        })
    }

    fn what(&self) -> &'static str {
        match self.signal {
            SIGFPE => "made a division that BPF does not have; expected numbers of 32 or 64 bits",
            SIGILL => {
                "ran into an invalid instruction, as after __builtin_unreachable(); expected code \
                 that is never reached"
            }
            SIGSYS => {
                "made a system call, which a BPF program cannot do; expected functions of sched_ext and BPF"
            }
            SIGTRAP => "reached a breakpoint, which BPF does not have; expected code without any",
            SIGXCPU => {
                "did not return, which the kernel's verifier refuses; expected loops with an end of their own, or with \
                 can_loop or cond_break"
            }
            _ => {
                "accessed an invalid address, which the kernel's verifier refuses; expected a test of \
                 each pointer that may be NULL, indices within bounds and no recursion (also valid addresses for \
                 bpf_probe_read_kernel() and in arenas, where only Linux survives invalid ones)"
            }
        }
    }

    /// Reports the scheduler's fault, and ends the process. Without `find_line` a signal handler may call this
    /// function, which then neither allocates nor locks.
    fn end(&self, find_line: bool) -> ! {
        let write = |text: &str| {
            // SAFETY: the function may be called in a signal handler.
            unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        };
        // SAFETY: the pointer is null, or that of the simulation in the middle of a call, which does not return.
        let call = unsafe { self.record.as_ref() }.and_then(CallRecord::call);
        let line = call
            .as_ref()
            .and_then(|call| find_line.then(|| call.line(self.address))?);
        match call {
            Some(call) => {
                write("scheduler `");
                write(call.scheduler);
                write("`: its ");
                write(call.op);
                write("() ");
            }
            None => {
                write("scheduler `");
                write(SCHEDULER.get().map_or("", String::as_str));
                write("`: it ");
            }
        }
        if let Some(line) = line {
            write("(");
            write(&line);
            write(") ");
        }
        write(self.what());
        // Before there is a record, only the code of the scheduler's object runs.
        if self.record.is_null() {
            write("; this happened while it was loaded");
        }
        write("\n");
        // SAFETY: the function may be called in a signal handler.
        unsafe { libc::_exit(STATUS) }
    }
}
