//! A process for the code of a stranger, and its rights before that code is present, while it is loaded, and when it
//! runs.
//!
//! A scheduler does not need the operating system. But a scheduler is native code. Even if its symbols are checked, it
//! can find the C library, and even if the object is checked, its code may run while the dynamic loader loads the
//! object. A stranger's code therefore gets a process of its own, which permanently drops its rights in three steps,
//! each before it handles the next input that may be hostile:
//!
//! 1. [`prepare`], in a process that will read or load a stranger's object: no files, networks or other processes
//!    (Landlock), no terminal, and limited resources.
//! 2. [`load`], before the first byte of the object is mapped: only the system calls for computing, memory, time and
//!    two pipes (seccomp), and those of the dynamic loader, which opens a file for reading (Landlock allows only an
//!    anonymous file), reads it and maps it. A system call from an instruction that was not mapped before, and so is
//!    part of the object, is always refused, and reported as the object's fault.
//! 3. [`close`], before the first of the object's functions is called on purpose: no system calls of the dynamic
//!    loader.
//!
//! Code that runs in step 2 could prevent step 3, so step 2 allows no call by which a process can change anything
//! except itself.

use crate::rights::{is_uncaged, lacks, limit, nothing};
use rustix::process::Resource;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Is,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
    sock_filter,
};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;

/// Offsets in `struct seccomp_data` (include/uapi/linux/seccomp.h).
mod data {
    pub const INSTRUCTION_POINTER: u32 = 8;
}

/// The limit on the address space of a simulation, in bytes, which is enough for any simulation.
const MOST_MEMORY: u64 = 8 << 30;

/// Resource limits of such a process: 24 h of CPU time, which is enough for any simulation; no core dump, no locked
/// memory and no message queues.
const LIMITS: [(Resource, u64); 4] = [
    (Resource::Cpu, 24 * 3600),
    (Resource::Core, 0),
    (Resource::Memlock, 0),
    (Resource::Msgqueue, 0),
];

/// The limits after the object has been copied to an anonymous file.
const LIMITS_OF_LOADING: [(Resource, u64); 2] = [(Resource::Fsize, 0), (Resource::Nproc, 0)];

/// The limit after the object has been loaded.
const LIMIT_WHEN_LOADED: (Resource, u64) = (Resource::Nofile, 0);

/// Calls that are allowed with any arguments: computing, memory, time, and the end of the process. No call is needed to
/// end a thread, because no thread ends by itself.
const ALLOWED: [libc::c_long; 12] = [
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_restart_syscall,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_exit_group,
];

/// The allowed advice to madvise(2). It is the advice of the C library's allocator, including `MADV_HUGEPAGE` if
/// `$GLIBC_TUNABLES` asks for that, and of AddressSanitizer's allocator, with which tests run. Other advice by root can
/// take pages out of the computer's use (`MADV_HWPOISON`).
const ADVICE: [libc::c_int; 5] = [
    libc::MADV_DONTNEED,
    libc::MADV_FREE,
    libc::MADV_HUGEPAGE,
    libc::MADV_NOHUGEPAGE,
    libc::MADV_DONTDUMP,
];

/// The futex operations of mutexes, condition variables and parked threads. Other operations can raise the priority of
/// a given process (`FUTEX_LOCK_PI`).
const FUTEXES: [libc::c_int; 3] = [libc::FUTEX_WAIT, libc::FUTEX_WAKE, libc::FUTEX_WAIT_BITSET];

const FUTEX_FLAGS: libc::c_int = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;

/// Flags that new memory must not have: memory that is never swapped, which root may take beyond its limit, and huge
/// pages, which the computer reserves for some programs.
const SCARCE: libc::c_int = libc::MAP_LOCKED | libc::MAP_HUGETLB;

/// More calls that are allowed with any arguments while the dynamic loader works. None of them changes anything outside
/// the process.
const OF_LOADING: [libc::c_long; 6] = [
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_mprotect,
    libc::SYS_close,
];

/// The places in memory of the code that was there before a stranger's object was loaded, which is the code of this
/// program and its libraries.
static CODE: OnceLock<Vec<Range<u64>>> = OnceLock::new();

/// Drops, for this process and its children, all rights that neither a simulation nor loading a scheduler needs. Call
/// this while the process has one thread. Each scheduler needs a process of its own, which [`load`] and [`close`]
/// restrict further. A missing kernel feature is an error, unless [`run_uncaged`](crate::run_uncaged) was called.
pub fn prepare() -> io::Result<()> {
    prepare_within(|_| MOST_MEMORY)
}

/// Prepares as [`prepare`] does, with a limit on the address space, in bytes, that follows from the size of the mapped
/// memory.
pub(crate) fn prepare_within(memory: impl FnOnce(u64) -> u64) -> io::Result<()> {
    let lacking = lacks();
    if !lacking.is_empty() && !is_uncaged() {
        let message = format!("this kernel lacks {}", lacking.join(" and "));
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    let (code, mapped) = code()?;
    // Without this flag, unprivileged users can use neither Landlock nor seccomp.
    rustix::thread::set_no_new_privs(true)?;
    // The call fails for the leader of a process group. That does no harm if the leader already has a session of its
    // own.
    if let Err(error) = rustix::process::setsid()
        && rustix::process::getsid(None)? != rustix::process::getpid()
    {
        return Err(error.into());
    }
    LIMITS.iter().try_for_each(limit)?;
    limit(&(Resource::As, memory(mapped)))?;
    let rules = nothing().map_err(io::Error::other)?;
    rules.restrict_self().map_err(io::Error::other)?;
    let _ = CODE.set(code);
    Ok(())
}

/// Drops all rights that neither the dynamic loader nor a simulation needs, for all threads of the process, if the
/// process was prepared. Call this when the object is in an anonymous file, and before the dynamic loader opens that
/// file.
pub fn load() -> io::Result<()> {
    only(|rules| {
        rules.simulation()?;
        rules.loading()
    })
}

/// Drops rights as [`load`] and [`close`] do, for a process that loads nothing.
pub(crate) fn compute() -> io::Result<()> {
    limit(&LIMIT_WHEN_LOADED)?;
    only(Rules::simulation)
}

/// Leaves this program's code only the system calls that `allow` allows, or all on an architecture whose system calls
/// are not known here, and leaves other code no system calls. Does nothing if the process was not prepared.
fn only(allow: impl FnOnce(&mut Rules) -> Result<(), BackendError>) -> io::Result<()> {
    let Some(code) = CODE.get() else {
        return Ok(());
    };
    LIMITS_OF_LOADING.iter().try_for_each(limit)?;
    let allowed = program(allow).map_err(io::Error::other)?;
    let all = || vec![op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW)];
    enter(&[from(code), allowed.unwrap_or_else(all)].concat())
}

/// Drops the rights that are no longer needed, for all threads of the process, if the process was prepared. Call this
/// when the object is loaded, and before its functions are called.
pub fn close() -> io::Result<()> {
    if CODE.get().is_none() {
        return Ok(());
    }
    limit(&LIMIT_WHEN_LOADED)?;
    match program(Rules::simulation).map_err(io::Error::other)? {
        Some(allowed) => enter(&allowed),
        None => Ok(()),
    }
}

fn enter(program: &BpfProgram) -> io::Result<()> {
    match apply_filter_all_threads(program) {
        Err(_) if is_uncaged() => Ok(()),
        result => result.map_err(io::Error::other),
    }
}

/// The places of the code in memory, and the size of all mapped memory, in bytes.
fn code() -> io::Result<(Vec<Range<u64>>, u64)> {
    // The names of files need not be UTF-8.
    let maps = std::fs::read("/proc/self/maps")?;
    let maps = String::from_utf8_lossy(&maps);
    let mut size = 0;
    let ranges = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        let range = address(start)?..address(end)?;
        size += range.end - range.start;
        (rest.as_bytes().get(2) == Some(&b'x')).then_some(range)
    });
    let ranges = ranges.collect();
    Ok((ranges, size))
}

/// This computer's architecture, if there are filters for it.
fn architecture() -> Option<TargetArch> {
    std::env::consts::ARCH.try_into().ok()
}

#[derive(Default)]
struct Rules(BTreeMap<i64, Vec<SeccompRule>>);

fn is(argument: u8, test: Is, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, Len::Dword, test, value)
}

fn equals(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    is(argument, Is::Eq, value)
}

fn without(argument: u8, bits: i32) -> Result<SeccompCondition, BackendError> {
    is(argument, Is::MaskedEq(bits as u64), 0)
}

fn with(argument: u8, bits: i32) -> Result<SeccompCondition, BackendError> {
    is(argument, Is::MaskedEq(bits as u64), bits as u64)
}

impl Rules {
    fn always(&mut self, calls: &[libc::c_long]) {
        self.0.extend(calls.iter().map(|&call| (call, Vec::new())));
    }

    /// Allows `call` if its arguments satisfy all of `conditions`, unless it is allowed with any arguments.
    fn when(
        &mut self,
        call: libc::c_long,
        conditions: Vec<SeccompCondition>,
    ) -> Result<(), BackendError> {
        let rule = SeccompRule::new(conditions)?;
        match self.0.get_mut(&call) {
            Some(rules) if rules.is_empty() => {}
            Some(rules) => rules.push(rule),
            None => drop(self.0.insert(call, vec![rule])),
        }
        Ok(())
    }

    fn simulation(&mut self) -> Result<(), BackendError> {
        self.always(&ALLOWED);
        // Memory that is private and never executable.
        let new = libc::MAP_ANONYMOUS | libc::MAP_PRIVATE;
        let data = without(2, libc::PROT_EXEC)?;
        let memory = vec![data, with(3, new)?, without(3, SCARCE)?];
        self.when(libc::SYS_mmap, memory)?;
        for advice in ADVICE {
            self.when(libc::SYS_madvise, vec![equals(2, advice as u64)?])?;
        }
        let operation = !FUTEX_FLAGS as u32;
        for futex in FUTEXES {
            let of = is(1, Is::MaskedEq(operation.into()), futex as u64)?;
            self.when(libc::SYS_futex, vec![of])?;
        }
        self.when(libc::SYS_mprotect, vec![without(2, libc::PROT_EXEC)?])?;
        self.when(libc::SYS_mremap, vec![without(3, !libc::MREMAP_MAYMOVE)?])?;
        // Allow writes to the readers of the results and of the messages. Both pipes may be closed.
        for pipe in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            for call in [libc::SYS_write, libc::SYS_writev] {
                self.when(call, vec![equals(0, pipe as u64)?])?;
            }
        }
        self.when(libc::SYS_close, vec![is(0, Is::Gt, 2)?])?;
        self.when(libc::SYS_close, vec![equals(0, 0)?])?;
        // The standard library makes this call before it closes a file.
        self.when(libc::SYS_fcntl, vec![equals(1, libc::F_GETFD as u64)?])?;
        // abort() ends the process by a signal to itself.
        let pid = std::process::id();
        let abort = vec![equals(0, pid.into())?, equals(2, libc::SIGABRT as u64)?];
        self.when(libc::SYS_tgkill, abort)?;
        self.when(
            libc::SYS_rt_sigaction,
            vec![equals(0, libc::SIGABRT as u64)?],
        )
    }

    /// Adds the system calls that the dynamic loader makes, and those that [`close`] makes after it.
    fn loading(&mut self) -> Result<(), BackendError> {
        self.always(&OF_LOADING);
        let read_only = libc::O_RDONLY | libc::O_CLOEXEC;
        self.when(libc::SYS_openat, vec![equals(2, read_only as u64)?])?;
        let private = vec![with(3, libc::MAP_PRIVATE)?, without(3, SCARCE)?];
        self.when(libc::SYS_mmap, private)?;
        let limit = vec![equals(0, 0)?, equals(1, libc::RLIMIT_NOFILE.into())?];
        self.when(libc::SYS_prlimit64, limit)?;
        let add = vec![
            equals(0, libc::SECCOMP_SET_MODE_FILTER.into())?,
            equals(1, libc::SECCOMP_FILTER_FLAG_TSYNC)?,
        ];
        self.when(libc::SYS_seccomp, add)?;
        self.when(
            libc::SYS_prctl,
            vec![equals(0, libc::PR_SET_NO_NEW_PRIVS as u64)?],
        )
    }
}

/// The seccomp program with the rules that `add` adds; `None` on an architecture whose system calls are not known here.
/// A call by another architecture's numbers (i386's `int $0x80`) ends the process; x32's numbers are not among the
/// allowed ones.
fn program(
    add: impl FnOnce(&mut Rules) -> Result<(), BackendError>,
) -> Result<Option<BpfProgram>, BackendError> {
    let Some(architecture) = architecture() else {
        return Ok(None);
    };
    let mut rules = Rules::default();
    add(&mut rules)?;
    let filter = SeccompFilter::new(
        rules.0,
        SeccompAction::Trap,
        SeccompAction::Allow,
        architecture,
    )?;
    BpfProgram::try_from(filter).map(Some)
}

/// The beginning of a seccomp program, which refuses calls that are not from `code`. For calls from `code` the program
/// continues.
fn from(code: &[Range<u64>]) -> BpfProgram {
    let load = |offset: u32| op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let when = |test: u32, value: u64, yes: u8, no: u8| sock_filter {
        code: (libc::BPF_JMP | test | libc::BPF_K) as u16,
        jt: yes,
        jf: no,
        k: value as u32,
    };
    let (equal, at_least) = (libc::BPF_JEQ, libc::BPF_JGE);

    let mut filter = Vec::new();
    let mut ends = Vec::new();
    // The filter reads the address of the instruction after the call in two halves.
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
            ends.push(filter.len());
            filter.push(op(libc::BPF_JMP | libc::BPF_JA, 0));
        }
    }
    filter.push(op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_TRAP));
    for end in ends {
        filter[end].k = (filter.len() - end - 1) as u32;
    }
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
        in_process(
            || prepare().and_then(|()| load()).and_then(|()| close()),
            act,
        )
    }

    fn while_loading(act: impl FnOnce() -> i32) -> i32 {
        in_process(|| prepare().and_then(|()| load()), act)
    }

    fn in_process(enter: impl FnOnce() -> io::Result<()>, act: impl FnOnce() -> i32) -> i32 {
        // SAFETY: the child does only what is allowed after fork() in a process with threads; the C
        // library's allocator supports fork().
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = match enter() {
                Ok(()) => act(),
                Err(_) => 99,
            };
            // SAFETY: `_exit()` has no preconditions.
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
        // SAFETY: the cage refuses these calls; those that it allows while an object is loaded have valid arguments.
        macro_rules! calls {
            ($($name:literal: $call:expr),* $(,)?) => {
                [$(($name, Box::new(move || unsafe { $call }.into()) as Call)),*]
            };
        }
        let file = secret.as_ptr().addr();
        let path = move || std::ptr::with_exposed_provenance(file);
        let page = || {
            let (data, kind) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: the call only maps new memory.
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
            "mmap of locked memory": libc::mmap(null_mut(), 4096, libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_LOCKED, -1, 0).addr() as i64,
            "mmap of huge pages": libc::mmap(null_mut(), 4096, libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB, -1, 0).addr() as i64,
            "madvise": libc::madvise(page(), 4096, libc::MADV_HWPOISON),
            "futex": libc::syscall(libc::SYS_futex, page(), libc::FUTEX_LOCK_PI, 0, 0, 0, 0),
            "shmget": libc::shmget(libc::IPC_PRIVATE, 4096, 0o600),
            "inotify": libc::inotify_init1(0),
            "perf_event": libc::syscall(libc::SYS_perf_event_open, 0, 0, 0, 0, 0),
            "bpf": libc::syscall(libc::SYS_bpf, 0, 0, 0),
            "reboot": libc::syscall(libc::SYS_reboot, 0, 0, 0, 0),
            "sethostname": libc::sethostname(c"x".as_ptr(), 1),
            "mprotect": libc::mprotect(page(), 4096, libc::PROT_READ | libc::PROT_EXEC),
            "dup": libc::dup(1),
            "sigaction": libc::sigaction(libc::SIGSYS, null(), null_mut()),
            "exit": libc::syscall(libc::SYS_exit, 0),
            "nanosleep": libc::usleep(1),
            "setrlimit": libc::prlimit(0, libc::RLIMIT_CPU, null(), null_mut()),
            "write to a file": libc::syscall(libc::SYS_pwrite64, 3, path(), 1, 0),
            "openat2": libc::syscall(libc::SYS_openat2, 0, path(), null::<u8>(), 0),
            "open to write": libc::open(path(), libc::O_RDWR | libc::O_CLOEXEC),
            "listener": libc::syscall(libc::SYS_seccomp, 1, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER, 0),
        };
        let of_loading = ["mprotect"];
        for (name, call) in calls {
            let made = || {
                call();
                0
            };
            assert_eq!(caged(made), -libc::SIGSYS, "{name}");
            let status = if of_loading.contains(&name) {
                0
            } else {
                -libc::SIGSYS
            };
            assert_eq!(while_loading(made), status, "{name}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn the_dynamic_loader_opens_an_anonymous_file_and_no_other() {
        use std::io::Write as _;
        use std::os::fd::AsRawFd as _;
        let opened = |path: &str| {
            let path = CString::new(path).unwrap();
            let flags = libc::O_RDONLY | libc::O_CLOEXEC;
            // SAFETY: the path is text.
            let opens = || unsafe { libc::open(path.as_ptr(), flags).clamp(-1, 0) + 1 };
            while_loading(opens)
        };
        let file = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        std::fs::File::from(file.try_clone().unwrap())
            .write_all(b"x")
            .unwrap();
        assert_eq!(opened(&format!("/proc/self/fd/{}", file.as_raw_fd())), 1);
        for other in [
            "/etc/passwd",
            "/proc/self/mem",
            "/dev/null",
            "/",
            "/proc/self/maps",
        ] {
            assert_eq!(opened(other), 0, "{other}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn a_program_s_path_need_not_be_utf_8() {
        use std::os::fd::AsRawFd as _;
        use std::os::unix::ffi::OsStrExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff"));
        std::fs::write(&path, [0; 4096]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let mapped = || {
            let (data, kind) = (libc::PROT_READ, libc::MAP_PRIVATE);
            // SAFETY: the call only maps new memory.
            let page = unsafe { libc::mmap(null_mut(), 4096, data, kind, file.as_raw_fd(), 0) };
            i32::from(page == libc::MAP_FAILED || prepare().is_err())
        };
        assert_eq!(in_process(|| Ok(()), mapped), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn memory_is_not_executable_once_the_object_is_loaded() {
        let map = || {
            let (data, kind) = (libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: the call only maps new memory.
            i32::from(
                unsafe { libc::mmap(null_mut(), 4096, data, kind, -1, 0) } == libc::MAP_FAILED,
            )
        };
        assert_eq!(while_loading(map), 0);
        assert_eq!(caged(map), -libc::SIGSYS);
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
