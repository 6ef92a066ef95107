//! What somebody else's scheduler may do to this computer: nothing.
//!
//! A scheduler has no business with the operating system, but it is native code and could call it. So the
//! process gives up, for good, what a simulation does not need: files outside the folders that results go
//! to (Landlock), and programs, processes, sockets and other processes' memory (seccomp). A system call
//! from an instruction that was not there before, that is, from the scheduler itself, is refused whichever
//! it is, and reported as its fault ([`fault`](super::fault)).
//!
//! What is not protected is the simulation: the scheduler shares its memory, and may falsify its results.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError,
};
use libc::sock_filter;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Where `struct seccomp_data` (include/uapi/linux/seccomp.h) has what is asked of it.
mod data {
    pub const NR: u32 = 0;
    pub const INSTRUCTION_POINTER: u32 = 8;
    pub const FIRST_ARGUMENT: u32 = 16;
}

/// Refused wherever they are called from. What else could harm someone goes through a file's name, which is
/// Landlock's.
const REFUSED: [libc::c_long; 14] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kill,
    libc::SYS_mount,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_keyctl,
    libc::SYS_io_uring_setup,
];

/// Gives up, for the rest of the process, what a simulation does not need. To be called once all input is
/// read and compiled, before a scheduler is loaded; files can then be made in the folders `writable` alone.
/// A kernel without Landlock leaves files as they are; one without seccomp is an error.
pub fn cage<P: AsRef<Path>>(writable: &[P]) -> io::Result<()> {
    // Without it neither is to be had for those who are not root.
    rustix::thread::set_no_new_privs(true)?;
    let code = code()?;
    restrict_files(writable).map_err(io::Error::other)?;
    restrict_calls(&code)
}

fn restrict_files<P: AsRef<Path>>(writable: &[P]) -> Result<(), RulesetError> {
    let abi = ABI::V4;
    let all = AccessFs::from_all(abi);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .handle_access(AccessNet::from_all(abi))?
        .create()?;
    for folder in writable {
        // One that is not there cannot be written to either.
        if let Ok(folder) = PathFd::new(folder) {
            ruleset = ruleset.add_rule(PathBeneath::new(folder, all))?;
        }
    }
    ruleset.restrict_self().map(drop)
}

/// Where code is in memory now: this program's, and that of the libraries it came with.
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

fn restrict_calls(code: &[Range<u64>]) -> io::Result<()> {
    let filter = filter(code);
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: `program` is what the call reads, and lives as long. TSYNC: all threads, also those of before.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The seccomp program: system calls from `code` but not those [`REFUSED`], threads but not processes.
fn filter(code: &[Range<u64>]) -> Vec<sock_filter> {
    let load = |offset: u32| op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let give = |action: u32| op(libc::BPF_RET | libc::BPF_K, action);
    let when = |test: u32, value: u64, yes: u8, no: u8| sock_filter {
        code: (libc::BPF_JMP | test | libc::BPF_K) as u16,
        jt: yes,
        jf: no,
        k: value as u32,
    };
    let (equal, at_least) = (libc::BPF_JEQ, libc::BPF_JGE);

    let mut filter = vec![load(data::NR)];
    for call in REFUSED {
        filter.push(when(equal, call as u64, 0, 1));
        filter.push(give(libc::SECCOMP_RET_TRAP));
    }
    // A filter cannot see clone3()'s flags, which are in memory; where the kernel has no such call, the C
    // library takes clone().
    filter.push(when(equal, libc::SYS_clone3 as u64, 0, 1));
    filter.push(give(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32));
    #[cfg(target_arch = "x86_64")]
    for call in [libc::SYS_fork, libc::SYS_vfork] {
        filter.push(when(equal, call as u64, 0, 1));
        filter.push(give(libc::SECCOMP_RET_TRAP));
    }
    filter.push(when(equal, libc::SYS_clone as u64, 0, 3));
    filter.push(load(data::FIRST_ARGUMENT));
    filter.push(when(libc::BPF_JSET, libc::CLONE_THREAD as u64, 1, 0));
    filter.push(give(libc::SECCOMP_RET_TRAP));
    // The instruction that follows the call's, in two halves.
    for range in code {
        let (first, last) = (range.start + 1, range.end);
        let high = |address: u64| address >> 32;
        // No mapping of a program or library is as long as 4 GiB: at most two highs.
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

    /// What a child process ends with that does `act` in a cage which lets it write to `folder`: its exit status, or
    /// the signal that ended it as a negative number.
    fn caged(folder: &Path, act: impl FnOnce() -> i32) -> i32 {
        // SAFETY: the child does what may be done after fork() in a process with threads, with the C library's
        // allocator, which sees to it.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = match cage(&[folder]) {
                Ok(()) => act(),
                Err(_) => 99,
            };
            // SAFETY: always.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        // SAFETY: `status` is written.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        match libc::WIFSIGNALED(status) {
            true => -libc::WTERMSIG(status),
            false => libc::WEXITSTATUS(status),
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn results_can_be_written_and_nothing_else() {
        let (results, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = other.path().join("secret");
        std::fs::write(&secret, "").unwrap();
        let to_results = || {
            std::fs::write(results.path().join("a"), "b")
                .is_err()
                .into()
        };
        assert_eq!(caged(results.path(), to_results), 0);
        let elsewhere = || {
            let (write, read) = (
                std::fs::write(other.path().join("a"), "b"),
                std::fs::read(&secret),
            );
            (write.is_ok() || read.is_ok()).into()
        };
        assert_eq!(caged(results.path(), elsewhere), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn threads_can_be_started_and_programs_and_sockets_cannot() {
        let folder = tempfile::tempdir().unwrap();
        let thread = || std::thread::spawn(|| 3).join().unwrap();
        assert_eq!(caged(folder.path(), thread), 3);
        // SAFETY: what they do is refused.
        let fork = || unsafe { libc::fork() };
        assert_eq!(caged(folder.path(), fork), -libc::SIGSYS);
        let socket = || unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
        assert_eq!(caged(folder.path(), socket), -libc::SIGSYS);
        let program = || unsafe { libc::execl(c"/bin/true".as_ptr(), c"true".as_ptr(), 0) };
        assert_eq!(caged(folder.path(), program), -libc::SIGSYS);
    }
}
