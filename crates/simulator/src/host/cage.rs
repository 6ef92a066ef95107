//! The cage keeps a foreign scheduler from doing anything to this computer.
//!
//! A scheduler does not need the operating system, but it is native code, which can find the C
//! library even if its symbols are checked. It therefore gets a process of its own, which
//! permanently drops the rights that it will not need. A process that will load a scheduler first
//! calls [`prepare`], which drops the access to files, networks and other processes (Landlock), to
//! the terminal, and to unlimited resources. After the scheduler is loaded and before any of it
//! runs, [`close`] leaves only the system calls for computing, memory, time and two pipes
//! (seccomp). A system call from an instruction that was not there before, that is, from the
//! scheduler itself, is always refused, and reported as its fault ([`fault`](super::fault)).
//!
//! The simulation itself is not protected: the scheduler shares its memory, and may falsify its
//! results.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads, sock_filter,
};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;

/// Offsets in `struct seccomp_data` (include/uapi/linux/seccomp.h).
mod data {
    pub const INSTRUCTION_POINTER: u32 = 8;
}

/// Resource limits of such a process: enough address space and time (24 h) for any simulation, and
/// no core dump.
const LIMITS: [(Resource, u64); 5] = [
    (Resource::As, 8 << 30),
    (Resource::Cpu, 24 * 3600),
    (Resource::Core, 0),
    (Resource::Memlock, 0),
    (Resource::Msgqueue, 0),
];

/// Limits once the scheduler is loaded from an anonymous file.
const LIMITS_WHEN_LOADED: [(Resource, u64); 3] = [
    (Resource::Fsize, 0),
    (Resource::Nofile, 0),
    (Resource::Nproc, 0),
];

/// Calls that are allowed with any arguments: computing, memory, time, and the end.
const ALLOWED: [libc::c_long; 17] = [
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The code in memory before a scheduler was loaded: this program's, and that of its libraries.
static CODE: OnceLock<Vec<Range<u64>>> = OnceLock::new();

/// The names of the kernel features for the cage that are missing here.
pub fn lacks() -> Vec<&'static str> {
    let all = [
        ("Landlock", native::has_landlock()),
        ("seccomp", native::has_seccomp()),
    ];
    let lacking = all.into_iter().filter(|(_, there)| !there);
    lacking.map(|(name, _)| name).collect()
}

/// Drops, for this process and its children, all rights that neither a simulation nor loading a
/// scheduler needs. Call it while the process has one thread. The scheduler that is loaded next
/// closes the cage ([`close`]), so each scheduler needs a process of its own. A missing kernel
/// feature is an error, unless [`native::run_uncaged`] was called.
pub fn prepare() -> io::Result<()> {
    let lacking = lacks();
    if !lacking.is_empty() && !native::is_uncaged() {
        let message = format!("this kernel lacks {}", lacking.join(" and "));
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    let code = code()?;
    // Without it, unprivileged users can use neither.
    rustix::thread::set_no_new_privs(true)?;
    // Fails for a process group leader, which is fine if the group is that of a session.
    if let Err(error) = rustix::process::setsid()
        && rustix::process::getsid(None)? != rustix::process::getpid()
    {
        return Err(error.into());
    }
    LIMITS.iter().try_for_each(limit)?;
    let rules = native::nothing().map_err(io::Error::other)?;
    rules.restrict_self().map_err(io::Error::other)?;
    let _ = CODE.set(code);
    Ok(())
}

/// Lowers a resource limit to `most`, if it is higher.
fn limit(&(resource, most): &(Resource, u64)) -> io::Result<()> {
    let hard = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let most = most.min(hard);
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    Ok(setrlimit(resource, limit)?)
}

/// Call this when the scheduler is loaded and none of it has run. If the process was prepared for
/// it, drops, for all threads of the process, the rights that are no longer needed.
pub fn close() -> io::Result<()> {
    let Some(code) = CODE.get() else {
        return Ok(());
    };
    LIMITS_WHEN_LOADED.iter().try_for_each(limit)?;
    let allowed = allowed(std::process::id()).map_err(io::Error::other)?;
    let enter = || {
        // This filter first: the other forbids adding filters.
        apply_filter_all_threads(&from(code))?;
        match &allowed {
            Some(allowed) => apply_filter_all_threads(allowed),
            None => Ok(()),
        }
    };
    match enter() {
        Err(_) if native::is_uncaged() => Ok(()),
        result => result.map_err(io::Error::other),
    }
}

/// The code in memory now.
fn code() -> io::Result<Vec<Range<u64>>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let ranges = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        let executable = rest.as_bytes().get(2) == Some(&b'x');
        executable.then_some(address(start)?..address(end)?)
    });
    Ok(ranges.collect())
}

/// This computer's architecture, if there are filters for it.
fn architecture() -> Option<TargetArch> {
    std::env::consts::ARCH.try_into().ok()
}

/// The seccomp program that allows [`ALLOWED`], and some more calls with harmless arguments, in the
/// process `pid`. A call by another architecture's numbers (i386's `int $0x80`) ends the process;
/// x32's numbers are not among the allowed ones.
fn allowed(pid: u32) -> Result<Option<BpfProgram>, seccompiler::BackendError> {
    let Some(architecture) = architecture() else {
        return Ok(None);
    };
    let is = |argument: u8, test: Is, value: u64| {
        SeccompCondition::new(argument, Len::Dword, test, value)
    };
    let without = |argument: u8, bits: i32| is(argument, Is::MaskedEq(bits as u64), 0);
    let with = |argument: u8, bits: i32| is(argument, Is::MaskedEq(bits as u64), bits as u64);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|&call| (call, Vec::new())).collect();
    let mut when = |call: libc::c_long, conditions: Vec<SeccompCondition>| {
        let rule = SeccompRule::new(conditions)?;
        rules.entry(call).or_default().push(rule);
        Ok::<(), seccompiler::BackendError>(())
    };
    // Memory that is private and never executable.
    when(
        libc::SYS_mmap,
        vec![
            without(2, libc::PROT_EXEC)?,
            with(3, libc::MAP_ANONYMOUS | libc::MAP_PRIVATE)?,
        ],
    )?;
    when(libc::SYS_mprotect, vec![without(2, libc::PROT_EXEC)?])?;
    when(libc::SYS_mremap, vec![without(3, !libc::MREMAP_MAYMOVE)?])?;
    // To the reader of the results, and of the messages; both may be closed.
    for pipe in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        for call in [libc::SYS_write, libc::SYS_writev] {
            when(call, vec![is(0, Is::Eq, pipe as u64)?])?;
        }
    }
    when(libc::SYS_close, vec![is(0, Is::Gt, 2)?])?;
    when(libc::SYS_close, vec![is(0, Is::Eq, 0)?])?;
    // As the standard library does before it closes a file.
    when(libc::SYS_fcntl, vec![is(1, Is::Eq, libc::F_GETFD as u64)?])?;
    // The watchdog asks one of its threads for its position; abort() ends the process.
    for signal in [libc::SIGXCPU, libc::SIGABRT] {
        when(
            libc::SYS_tgkill,
            vec![is(0, Is::Eq, pid.into())?, is(2, Is::Eq, signal as u64)?],
        )?;
    }
    when(
        libc::SYS_rt_sigaction,
        vec![is(0, Is::Eq, libc::SIGABRT as u64)?],
    )?;
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Trap,
        SeccompAction::Allow,
        architecture,
    )?;
    BpfProgram::try_from(filter).map(Some)
}

/// The seccomp program that allows calls from `code` only.
fn from(code: &[Range<u64>]) -> BpfProgram {
    let load = |offset: u32| op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let give = |action: u32| op(libc::BPF_RET | libc::BPF_K, action);
    let when = |test: u32, value: u64, yes: u8, no: u8| sock_filter {
        code: (libc::BPF_JMP | test | libc::BPF_K) as u16,
        jt: yes,
        jf: no,
        k: value as u32,
    };
    let (equal, at_least) = (libc::BPF_JEQ, libc::BPF_JGE);

    let mut filter = Vec::new();
    // The address of the instruction after the call, in two halves.
    for range in code {
        let (first, last) = (range.start + 1, range.end);
        let high = |address: u64| address >> 32;
        // No mapping of a program or library is as long as 4 GiB, so there are at most two high
        // halves.
        for half in high(first)..=high(last) {
            let from = if half == high(first) { first } else { 0 };
            let to = if half == high(last) {
                last
            } else {
                u64::from(u32::MAX)
            };
            filter.push(load(data::INSTRUCTION_POINTER + 4));
            filter.push(when(equal, half, 0, 4));
            filter.push(load(data::INSTRUCTION_POINTER));
            filter.push(when(at_least, from & 0xffff_ffff, 0, 2));
            filter.push(when(libc::BPF_JGT, to & 0xffff_ffff, 1, 0));
            filter.push(give(libc::SECCOMP_RET_ALLOW));
        }
    }
    filter.push(give(libc::SECCOMP_RET_TRAP));
    filter
}

fn op(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::ptr::{null, null_mut};

    /// The exit status of a child process that executes `act` in a closed cage, or the negative
    /// number of the signal that ended it.
    fn caged(act: impl FnOnce() -> i32) -> i32 {
        // SAFETY: the child does only what is allowed after fork() in a process with threads; the C
        // library's allocator supports fork().
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = match prepare().and_then(|()| close()) {
                Ok(()) => act(),
                Err(_) => 99,
            };
            // SAFETY: always.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        // SAFETY: the call writes only `status`.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        match libc::WIFSIGNALED(status) {
            true => -libc::WTERMSIG(status),
            false => libc::WEXITSTATUS(status),
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn all_system_calls_of_a_simulation_are_allowed() {
        let computes = || {
            let mut numbers = vec![0u8; 64 << 20];
            numbers.resize(128 << 20, 1);
            std::thread::sleep(std::time::Duration::from_millis(1));
            eprint!("");
            (numbers.iter().map(|&byte| u64::from(byte)).sum::<u64>() != 64 << 20).into()
        };
        assert_eq!(caged(computes), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "").unwrap();
        let secret = CString::new(secret.to_str().unwrap()).unwrap();
        let parent = std::process::id() as i32;
        type Call = Box<dyn Fn() -> i64>;
        // SAFETY: none of these calls is executed, and their arguments would be valid.
        macro_rules! calls {
            ($($name:literal: $call:expr),* $(,)?) => {
                [$(($name, Box::new(move || unsafe { $call }.into()) as Call)),*]
            };
        }
        let file = secret.as_ptr().addr();
        let path = move || std::ptr::with_exposed_provenance(file);
        let page = || {
            let (data, kind) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: new memory.
            unsafe { libc::mmap(null_mut(), 4096, data, kind, -1, 0) }
        };
        let calls = calls! {
            "open": libc::open(path(), libc::O_RDONLY),
            "unlink": libc::unlink(path()),
            "chmod": libc::chmod(path(), 0o4755),
            "chown": libc::chown(path(), 1, 1),
            "utimes": libc::utimes(path(), null()),
            "fork": libc::fork(),
            "execl": libc::execl(c"/bin/true".as_ptr(), c"true".as_ptr(), 0),
            "socket": libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0),
            "kill": libc::kill(parent, 0),
            "tgkill": libc::syscall(libc::SYS_tgkill, parent, parent, libc::SIGABRT),
            "ioctl": libc::ioctl(0, libc::TIOCSTI, c"x".as_ptr()),
            "setpriority": libc::setpriority(libc::PRIO_PROCESS, parent as u32, 10),
            "prlimit": libc::prlimit(parent, libc::RLIMIT_CORE, null(), null_mut()),
            "mlockall": libc::mlockall(libc::MCL_CURRENT),
            "shmget": libc::shmget(libc::IPC_PRIVATE, 4096, 0o600),
            "inotify": libc::inotify_init1(0),
            "perf_event": libc::syscall(libc::SYS_perf_event_open, 0, 0, 0, 0, 0),
            "bpf": libc::syscall(libc::SYS_bpf, 0, 0, 0),
            "reboot": libc::syscall(libc::SYS_reboot, 0, 0, 0, 0),
            "sethostname": libc::sethostname(c"x".as_ptr(), 1),
            "mprotect": libc::mprotect(page(), 4096, libc::PROT_READ | libc::PROT_EXEC),
            "dup": libc::dup(1),
            "sigaction": libc::sigaction(libc::SIGSYS, null(), null_mut()),
        };
        for (name, call) in calls {
            let made = || {
                call();
                0
            };
            assert_eq!(caged(made), -libc::SIGSYS, "{name}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    #[cfg(target_arch = "x86_64")]
    fn other_architectures_calls_end_the_process() {
        // SAFETY: getpid() of i386 and of x32, neither of which is executed.
        let old = || unsafe {
            let result: i32;
            std::arch::asm!("int 0x80", inlateout("eax") 20 => result);
            result.min(0)
        };
        assert_eq!(caged(old), -libc::SIGSYS);
        let x32 = || unsafe { libc::syscall(0x4000_0000 | libc::SYS_getpid) }.min(0) as i32;
        assert_eq!(caged(x32), -libc::SIGSYS);
    }
}
