//! The rights that a process can give up, and the behaviour on a kernel that cannot take these rights away.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetError, Scope,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static UNCAGED: AtomicBool = AtomicBool::new(false);

/// Makes foreign schedulers compile and run from now on even if the kernel lacks protection, with
/// as much protection as the kernel has.
pub fn run_uncaged() {
    UNCAGED.store(true, Ordering::Relaxed);
}

/// Was [`run_uncaged`] called?
pub fn is_uncaged() -> bool {
    UNCAGED.load(Ordering::Relaxed)
}

/// Does this kernel have Landlock?
pub fn has_landlock() -> bool {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create);
    ruleset.is_ok()
}

/// The ruleset of a process that may do nothing with files, networks and other processes, as far as
/// the kernel supports such rules.
pub fn nothing() -> Result<RulesetCreated, RulesetError> {
    let abi = ABI::V6;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()
}

/// Makes all descriptors except the standard ones close when this process executes another program.
pub fn inherit_nothing() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: the call only marks descriptors, and may be made between fork and exec.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The names of the kernel features for the cage that are missing here.
pub fn lacks() -> Vec<&'static str> {
    let all = [
        ("Landlock", has_landlock()),
        ("seccomp", crate::system_calls::has_seccomp()),
    ];
    let lacking = all.into_iter().filter(|(_, there)| !there);
    lacking.map(|(name, _)| name).collect()
}

/// Sets a resource limit, soft and hard, to `most`, or to the hard limit if that is lower.
pub(crate) fn limit(&(resource, most): &(Resource, u64)) -> io::Result<()> {
    let hard = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let most = most.min(hard);
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    Ok(setrlimit(resource, limit)?)
}
