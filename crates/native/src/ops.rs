//! Checks the members of a scheduler's `struct sched_ext_ops` against its kernel.

use crate::kernels::{self, Feature, Kind};
use crate::{Error, Kernel, Object};

/// The members of `struct sched_ext_ops` that some kernel lacks or deprecates, with their offsets in bytes.
const MEMBERS: [(&str, usize); 9] = [
    ("cgroup_set_bandwidth", 27 * 8),
    ("cgroup_set_idle", 28 * 8),
    ("sub_attach", 29 * 8),
    ("sub_detach", 30 * 8),
    ("sub_caps_updated", 31 * 8),
    ("sub_ecaps_updated", 32 * 8),
    ("init_cids", 35 * 8),
    ("cpu_acquire", CPU_ACQUIRE),
    ("cpu_release", CPU_ACQUIRE + 8),
];

/// The offset of `flags`.
const FLAGS: usize = 38 * 8 + 8;

/// The offset of `cpu_acquire`, which follows `name`.
const CPU_ACQUIRE: usize = FLAGS + 48 + 128;

/// The flags that all kernels have.
const FLAGS_OF_ALL: u64 = 0xf;

/// `SCX_OPS_SWITCH_PARTIAL`
const SWITCH_PARTIAL: u64 = 1 << 3;

/// Fails if `object`, compiled from `source`, uses ops or flags that its kernel lacks.
pub(crate) fn check(source: &str, object: &Object) -> Result<(), Error> {
    let kernel = object.kernel();
    let mut missing: Vec<String> = implemented(object)
        .filter(|feature| !feature.is_in(kernel))
        .map(Feature::missing)
        .collect();
    let flags = object.ops_number(FLAGS);
    missing.extend(
        kernel
            .lacks(Kind::Flag(0))
            .filter_map(|feature| match feature.kind {
                Kind::Flag(bit) if flags >> bit & 1 != 0 => Some(feature.missing()),
                _ => None,
            }),
    );
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error(
            missing
                .iter()
                .map(|what| format!("{source}: {what}"))
                .collect::<Vec<_>>()
                .join("\n"),
        )),
    }
}

/// The members in [`MEMBERS`] that `object` sets.
fn implemented(object: &Object) -> impl Iterator<Item = &'static Feature> {
    let members = MEMBERS.into_iter().filter(|&(_, offset)| {
        // The structure of a scheduler in cid form ends before cpu_acquire.
        (offset < CPU_ACQUIRE || !object.is_cid_form()) && object.ops_has(offset)
    });
    members.filter_map(|(name, _)| kernels::find(name))
}

impl Object {
    /// A warning for each deprecated op that the scheduler implements, for each global variable that may outlive the
    /// task that it points to, and for each flag, program and value of the configuration that the simulated kernel
    /// lacks.
    pub fn warnings(&self) -> Vec<String> {
        let deprecated = implemented(self).filter_map(|feature| feature.warning(self.kernel()));
        let pointers = self.task_pointers().iter().map(|name| {
            format!(
                "`{name}` points to a task; unless it is a __kptr, Linux's verifier refuses to read through \
                 it, and the simulator does not notice a read after the task's end"
            )
        });
        let idle = self.idle_programs().iter().map(|program| {
            format!("{program} does not run; the simulated kernel runs programs in struct_ops and tp_btf only")
        });
        let partial = self.ops_number(FLAGS) & SWITCH_PARTIAL != 0;
        let partial = partial.then(|| {
            "SCX_OPS_SWITCH_PARTIAL has no effect: here the scheduler gets all tasks; in Linux it would get only \
             those with the policy SCHED_EXT"
                .to_owned()
        });
        let configs = self.unknown_configs().iter();
        let configs = configs.map(|name| {
            format!(
                "`{name}` reads as 0 (not set), because the simulated kernel has no value for it"
            )
        });
        deprecated
            .chain(partial)
            .chain(pointers)
            .chain(idle)
            .chain(configs)
            .collect()
    }

    /// Is this a scheduler in cid form (`SCX_OPS_CID_DEFINE()`)?
    pub fn is_cid_form(&self) -> bool {
        self.variable("equipoise_cid_form").is_some()
    }
}

impl Kernel {
    /// All flags of `sched_ext_ops.flags` in this kernel.
    pub fn ops_flags(self) -> u64 {
        kernels::of(Kind::Flag(0))
            .filter(|feature| feature.is_in(self))
            .fold(FLAGS_OF_ALL, |flags, feature| match feature.kind {
                Kind::Flag(bit) => flags | 1 << bit,
                _ => flags,
            })
    }
}
