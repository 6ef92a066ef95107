//! System calls that a compiler does not need. The compiler reads an untrusted source, which may exploit an error in
//! the compiler. Landlock does not restrict networks and signals on older kernels, and does not restrict file modes,
//! keys or open terminals on any kernel.
//!
//! This is a deny-list, because compilers, linkers and the wrappers around them differ in their
//! needs. A refused call fails as on a kernel that lacks the call.

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Is,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, sock_filter,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// Calls that are refused with any arguments, grouped by possible harm.
const REFUSED: &[libc::c_long] = &[
    // These calls reach networks and other processes' sockets. io_uring creates sockets and files without system calls.
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_io_uring_setup,
    // These calls affect other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    // A process that left the compiler's group would outlive it.
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // These calls change, open or watch files in ways that Landlock's rules do not cover.
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_fchown,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_inotify_init1,
    libc::SYS_fanotify_init,
    // These calls create, use or remove objects that outlive the process, and that other processes use: memory,
    // semaphores, messages and keys.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // These calls are for parts of the kernel that no compiler uses.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_fsconfig,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_personality,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_vhangup,
    // The flags of clone3() are in memory, where a filter cannot see them. The C library falls back
    // to clone().
    libc::SYS_clone3,
];

/// More calls that are refused, for the architectures that have them.
#[cfg(target_arch = "x86_64")]
const REFUSED_BESIDES: &[libc::c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_inotify_init,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_kexec_file_load,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_BESIDES: &[libc::c_long] = &[];

/// The first number of the system calls that came after the lists above were made. It is the same on every architecture
/// (fchmodat2(), Linux 6.6, include/uapi/asm-generic/unistd.h). Later calls change files (setxattrat(), file_setattr())
/// and mounts (open_tree_attr()), as the refused ones do. x32's numbers are higher, and their architecture is x86-64's.
const FIRST_UNKNOWN: u32 = 452;

/// The flags with which a clone() makes a namespace.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// The requests of ioctl() for terminals and descriptors (include/uapi/asm-generic/ioctls.h). Others change files that
/// are open for reading (`FS_IOC_SETFLAGS`) and whole file systems (`FIFREEZE`), which Landlock does not restrict.
const REQUESTS: Range<u64> = 0x5400..0x5500;

/// The requests among them that can insert input into a terminal.
const TYPING: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// The commands of fcntl() with which input on a descriptor sends a chosen signal to a chosen process (`F_SETSIG`,
/// `F_SETOWN_EX`: include/uapi/asm-generic/fcntl.h).
const SIGNALS: [libc::c_int; 3] = [libc::F_SETOWN, 10, 15];

/// Makes the filter; `None` on an architecture whose system calls are not known here.
pub fn filter() -> Result<Option<BpfProgram>, BackendError> {
    let Ok(architecture) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(None);
    };
    let always = [REFUSED, REFUSED_BESIDES].concat();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        always.into_iter().map(|call| (call, Vec::new())).collect();
    let when = |argument, operator, value| {
        let condition = SeccompCondition::new(argument, Len::Qword, operator, value)?;
        SeccompRule::new(vec![condition])
    };
    let namespaces = NAMESPACES.map(|flag| flag as u64);
    let namespaces = namespaces.map(|flag| when(0, Is::MaskedEq(flag), flag));
    rules.insert(
        libc::SYS_clone,
        namespaces.into_iter().collect::<Result<_, _>>()?,
    );
    let requests = [
        when(1, Is::Lt, REQUESTS.start),
        when(1, Is::Ge, REQUESTS.end),
    ];
    let typing = TYPING.map(|request| when(1, Is::Eq, request));
    let requests = requests.into_iter().chain(typing);
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    let signals = SIGNALS.map(|command| when(1, Is::MaskedEq(u32::MAX.into()), command as u64));
    rules.insert(
        libc::SYS_fcntl,
        signals.into_iter().collect::<Result<_, _>>()?,
    );
    // Refuse the call if it is about another process.
    rules.insert(libc::SYS_prlimit64, vec![when(0, Is::Ne, 0)?]);

    let refused = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture)?;
    let mut program = without_unknown();
    program.extend(BpfProgram::try_from(filter)?);
    Ok(Some(program))
}

/// Refuses the calls from [`FIRST_UNKNOWN`] on.
fn without_unknown() -> BpfProgram {
    let step = |code: u32, jf: u8, k: u32| sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    vec![
        // The number is the first word of struct seccomp_data (include/uapi/linux/seccomp.h).
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(
            libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
            1,
            FIRST_UNKNOWN,
        ),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
        ),
    ]
}

/// Can [`filter`] be used: does this kernel have seccomp's filters, and does this module know the architecture's calls?
pub fn has_seccomp() -> bool {
    let action = libc::SECCOMP_RET_TRAP;
    // SAFETY: the call only reads `action`.
    let available = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const action,
        )
    };
    available == 0 && TargetArch::try_from(std::env::consts::ARCH).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    /// Executes `act` behind the filter, in a process between fork and exec. The result is an error if `act` fails.
    fn behind(act: fn() -> libc::c_long) -> io::Result<()> {
        let filter = filter().unwrap().unwrap();
        let mut command = Command::new("true");
        let enter = move || {
            seccompiler::apply_filter(&filter).map_err(|_| io::ErrorKind::Other)?;
            match act() {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        };
        // SAFETY: the closure only makes system calls.
        unsafe { command.pre_exec(enter) };
        command.status().map(|status| assert!(status.success()))
    }

    // SAFETY of all: the arguments are valid, and refused calls are not executed.
    #[test]
    #[cfg_attr(miri, ignore)]
    fn system_calls_of_a_compiler_pass() {
        behind(|| {
            unsafe { libc::prlimit(0, libc::RLIMIT_CORE, std::ptr::null(), std::ptr::null_mut()) }
                .into()
        })
        .unwrap();
        behind(|| {
            let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
            if child == 0 {
                unsafe { libc::_exit(0) };
            }
            unsafe { libc::waitpid(child as i32, std::ptr::null_mut(), 0) }.into()
        })
        .unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn other_system_calls_do_not_pass() {
        type Call = (&'static str, fn() -> libc::c_long);
        let refused: [Call; 21] = [
            ("socket", || {
                unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) }.into()
            }),
            ("kill", || unsafe { libc::kill(libc::getppid(), 0) }.into()),
            ("tgkill", || unsafe {
                libc::syscall(libc::SYS_tgkill, libc::getppid(), libc::getppid(), 0)
            }),
            ("F_SETOWN", || {
                unsafe { libc::fcntl(0, libc::F_SETOWN, libc::getppid()) }.into()
            }),
            ("F_SETSIG", || {
                unsafe { libc::fcntl(0, 10, libc::SIGKILL) }.into()
            }),
            ("chmod", || {
                unsafe { libc::chmod(c"/nowhere".as_ptr(), 0o755) }.into()
            }),
            ("fchmodat2", || unsafe {
                libc::syscall(452, -100, c"/nowhere".as_ptr(), 0o755, 0)
            }),
            ("setxattrat", || unsafe {
                libc::syscall(463, -100, c"/nowhere".as_ptr(), 0, 0, 0, 0)
            }),
            ("file_setattr", || unsafe {
                libc::syscall(469, -100, c"/nowhere".as_ptr(), 0, 0, 0)
            }),
            ("shmctl", || {
                unsafe { libc::shmctl(-1, libc::IPC_RMID, std::ptr::null_mut()) }.into()
            }),
            ("semop", || {
                unsafe { libc::semop(-1, std::ptr::null_mut(), 0) }.into()
            }),
            ("msgsnd", || {
                unsafe { libc::msgsnd(-1, std::ptr::null(), 0, 0) }.into()
            }),
            ("mq_unlink", || {
                unsafe { libc::mq_unlink(c"/nowhere".as_ptr()) }.into()
            }),
            ("ptrace", || unsafe {
                libc::syscall(libc::SYS_ptrace, 16, libc::getppid(), 0, 0)
            }),
            ("keyctl", || unsafe {
                libc::syscall(libc::SYS_keyctl, 0, -3, 0)
            }),
            ("unshare", || unsafe { libc::unshare(0) }.into()),
            ("clone", || unsafe {
                libc::syscall(libc::SYS_clone, libc::CLONE_NEWUSER, 0, 0, 0, 0)
            }),
            ("prlimit", || {
                unsafe {
                    libc::prlimit(
                        libc::getppid(),
                        libc::RLIMIT_CORE,
                        std::ptr::null(),
                        std::ptr::null_mut(),
                    )
                }
                .into()
            }),
            ("FS_IOC_SETFLAGS", || {
                unsafe { libc::ioctl(0, libc::FS_IOC_SETFLAGS, std::ptr::null::<u8>()) }.into()
            }),
            ("TIOCSTI", || {
                unsafe { libc::ioctl(0, libc::TIOCSTI, c"x".as_ptr()) }.into()
            }),
            ("TIOCSTI, upper half", || unsafe {
                libc::syscall(libc::SYS_ioctl, 0, libc::TIOCSTI | 1 << 32, c"x".as_ptr())
            }),
        ];
        for (name, call) in refused {
            let error = behind(call).expect_err(name);
            assert_eq!(error.raw_os_error(), Some(libc::ENOSYS), "{name}");
        }
        #[cfg(target_arch = "x86_64")]
        {
            let x32 = || unsafe { libc::syscall(0x4000_0000 | libc::SYS_getpid) };
            assert_eq!(behind(x32).unwrap_err().raw_os_error(), Some(libc::ENOSYS));
        }
    }
}
