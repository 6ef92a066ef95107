//! The scheduler's costs: the kernel's own count of each BPF program's calls and time.

use anyhow::{Context, Result};
use libbpf_rs::Object;
use libbpf_rs::libbpf_sys::{
    BPF_STATS_RUN_TIME, bpf_enable_stats, bpf_prog_get_info_by_fd, bpf_prog_info,
};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Calls of one callback, and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub calls: u64,
    /// Of all calls.
    pub ns: u64,
}

impl Cost {
    /// The calls and the time that were added since the cost was `then`.
    pub fn since(self, then: Cost) -> Cost {
        Cost {
            calls: self.calls - then.calls,
            ns: self.ns - then.ns,
        }
    }
}

/// A measurement: while this value exists, the kernel measures all BPF programs (`BPF_ENABLE_STATS`), which costs two
/// readings of the clock for each call.
#[derive(Debug)]
pub struct Measuring {
    _enabled: OwnedFd,
}

impl Measuring {
    pub fn start() -> Result<Measuring> {
        // SAFETY: no pointers are passed, and the returned descriptor is ours.
        let fd = unsafe { bpf_enable_stats(BPF_STATS_RUN_TIME) };
        if fd < 0 {
            let error = std::io::Error::from_raw_os_error(-fd);
            return Err(error).context("cannot measure BPF programs");
        }
        // SAFETY: the descriptor is ours.
        let _enabled = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Measuring { _enabled })
    }

    /// A value for tests, which may run without the right to use BPF.
    #[cfg(test)]
    pub fn nothing() -> Measuring {
        let _enabled = std::fs::File::open("/dev/null").unwrap().into();
        Measuring { _enabled }
    }
}

/// The cost so far of each program in `object`, by its name without `equipoise_`, which for a callback is
/// that in `struct sched_ext_ops`. A timer's function is not a separate program, so it is not included.
pub fn callbacks(object: &Object) -> Result<BTreeMap<String, Cost>> {
    let mut costs = BTreeMap::new();
    // The kernel has no numbers for a program that was not loaded.
    for program in object.progs().filter(|program| program.autoload()) {
        let name = program.name().to_string_lossy();
        let Some(callback) = name.strip_prefix("equipoise_") else {
            continue;
        };
        let mut info = bpf_prog_info::default();
        let mut len = size_of_val(&info) as u32;
        // SAFETY: `len` is the length of `info`, which requests no arrays.
        let status =
            unsafe { bpf_prog_get_info_by_fd(program.as_fd().as_raw_fd(), &mut info, &mut len) };
        if status != 0 {
            let error = std::io::Error::from_raw_os_error(-status);
            return Err(error).with_context(|| format!("cannot read the cost of {name}"));
        }
        let cost = Cost {
            calls: info.run_cnt,
            ns: info.run_time_ns,
        };
        costs.insert(callback.to_owned(), cost);
    }
    Ok(costs)
}
