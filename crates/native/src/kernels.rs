//! The kernels that can be simulated, and the features of sched_ext that each of them has.
//!
//! [`FEATURES`] is the only table. The header that a scheduler is compiled against ([`Kernel::header`]), the
//! checks of its ops and flags, and the messages follow from it. The table's sources are Linux 6.12.117,
//! 7.2.13 and 7.3.4, and the versions given in tools/sched_ext/include/scx/compat.bpf.h of 7.3.4.

use std::fmt::{self, Write as _};
use std::str::FromStr;

/// A release of Linux: major and minor.
type Release = (u8, u8);

/// The release of Linux to simulate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kernel {
    /// Linux 6.12, the first release with sched_ext.
    V6_12,
    /// Linux 7.3.
    #[default]
    V7_3,
}

impl Kernel {
    /// All kernels, the oldest first.
    pub const ALL: [Kernel; 2] = [Kernel::V6_12, Kernel::V7_3];

    /// The release, such as `7.3`.
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::V6_12 => "6.12",
            Kernel::V7_3 => "7.3",
        }
    }

    const fn release(self) -> Release {
        match self {
            Kernel::V6_12 => (6, 12),
            Kernel::V7_3 => (7, 3),
        }
    }

    /// `LINUX_VERSION_CODE`, with a patch level of 0.
    pub const fn version_code(self) -> u32 {
        let (major, minor) = self.release();
        (major as u32) << 16 | (minor as u32) << 8
    }

    /// Does this kernel have the feature called `name`? True for a name that is not in [`FEATURES`].
    pub fn has(self, name: &str) -> bool {
        find(name).is_none_or(|feature| feature.is_in(self))
    }

    pub(crate) fn of_version_code(code: u32) -> Option<Kernel> {
        let mut all = Kernel::ALL.into_iter();
        all.find(|kernel| kernel.version_code() == code)
    }

    /// The text of `scx/kernel.h` for this kernel.
    pub fn header(self) -> String {
        header(
            &|feature| if feature.is_in(self) { "1" } else { "0" }.into(),
            Some(self),
        )
    }

    /// The features of `kind` that this kernel lacks.
    pub fn lacks(self, kind: Kind) -> impl Iterator<Item = &'static Feature> {
        of(kind).filter(move |feature| !feature.is_in(self))
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kernel {
    type Err = String;

    fn from_str(text: &str) -> Result<Kernel, String> {
        let mut all = Kernel::ALL.into_iter();
        all.find(|kernel| kernel.name() == text)
            .ok_or_else(|| format!("expected {}", Kernel::ALL.map(Kernel::name).join(" or ")))
    }
}

/// The text of `scx/kernel.h` for a scheduler that determines the kernel's features at run time. Equipoise's own
/// schedulers are compiled that way, because compiling them for each kernel would double the build time.
#[cfg(test)]
fn header_of_all() -> String {
    header(&Feature::condition, None)
}

/// The kind of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A function that the kernel gives BPF programs.
    Kfunc,
    /// A kfunc with a fallback in `scx/compat.bpf.h`, as in the kernel's header of this name.
    Compat,
    /// A callback of `struct sched_ext_ops`.
    Op,
    /// A flag of `sched_ext_ops.flags`, by its bit.
    Flag(u32),
    /// Another enumerator. If the kernel lacks it, its value is 0, as in `scx/enums.bpf.h`.
    Enumerator,
    /// A member of one of the kernel's structures.
    Field,
    /// A structure.
    Type,
}

/// A feature of sched_ext that some kernel lacks or deprecates.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// The feature's name in C.
    pub name: &'static str,
    /// The feature's kind.
    pub kind: Kind,
    since: Release,
    until: Until,
}

/// The later history of a feature.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// The newest kernel has the feature.
    Now,
    /// The feature is deprecated from this release on; the text is the replacement.
    Deprecated(Release, &'static str),
    /// The feature was removed in this release; the text is the replacement.
    Removed(Release, &'static str),
    /// This release renamed the feature to this name.
    Renamed(Release, &'static str),
}

impl Feature {
    /// Does `kernel` have the feature?
    pub fn is_in(&self, kernel: Kernel) -> bool {
        let release = kernel.release();
        let gone = match self.until {
            Until::Removed(first, _) | Until::Renamed(first, _) => release >= first,
            Until::Now | Until::Deprecated(..) => false,
        };
        release >= self.since && !gone
    }

    /// The warning about the feature in `kernel`, if it is deprecated there.
    pub fn warning(&self, kernel: Kernel) -> Option<String> {
        match self.until {
            Until::Deprecated(first, instead) if kernel.release() >= first => Some(format!(
                "{} is deprecated in Linux {kernel}; use {instead}",
                self.called()
            )),
            _ => None,
        }
    }

    /// The error message for a kernel that lacks the feature. The message has the release that changed the feature, and
    /// the kernel that has the feature.
    pub fn missing(&self) -> String {
        let has = Kernel::ALL.into_iter().find(|&kernel| self.is_in(kernel));
        let has = has.map_or(String::new(), |kernel| format!("--kernel {kernel}"));
        let called = self.called();
        match self.until {
            Until::Removed((major, minor), instead) => {
                format!("{called} was removed in Linux {major}.{minor}; use {has} or {instead}")
            }
            Until::Renamed((major, minor), instead) => {
                format!("{called} was renamed in Linux {major}.{minor}; use {instead} or {has}")
            }
            Until::Now | Until::Deprecated(..) => {
                let (major, minor) = self.since;
                format!("{called} is new in Linux {major}.{minor}; use {has}")
            }
        }
    }

    fn called(&self) -> String {
        match self.kind {
            Kind::Kfunc | Kind::Compat => format!("{}()", self.name),
            Kind::Op => format!("ops.{}()", self.name),
            _ => self.name.to_owned(),
        }
    }

    /// A C expression that is true at run time if the kernel has the feature.
    #[cfg(test)]
    fn condition(&self) -> String {
        let code = |(major, minor): Release| u32::from(major) << 16 | u32::from(minor) << 8;
        let since = format!("__KERNEL->version_code >= {:#x}", code(self.since));
        match self.until {
            Until::Removed(first, _) | Until::Renamed(first, _) => {
                format!("({since} && __KERNEL->version_code < {:#x})", code(first))
            }
            Until::Now | Until::Deprecated(..) => format!("({since})"),
        }
    }
}

pub fn of(kind: Kind) -> impl Iterator<Item = &'static Feature> {
    FEATURES.iter().filter(move |feature| {
        std::mem::discriminant(&feature.kind) == std::mem::discriminant(&kind)
    })
}

pub fn find(name: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|feature| feature.name == name)
}

/// The text of the header; `has` gives the C expression for the presence of a feature.
fn header(has: &dyn Fn(&Feature) -> String, kernel: Option<Kernel>) -> String {
    let mut text = String::from(
        "/* SPDX-License-Identifier: GPL-2.0-only */\n\
         /* Generated from crates/native/src/kernels.rs: the features of the kernel for which a scheduler is compiled. */\n\
         /* clang-format off */\n\
         #ifndef __SCX_KERNEL_H\n#define __SCX_KERNEL_H\n\n",
    );
    let version = match kernel {
        Some(kernel) => format!("{:#x}", kernel.version_code()),
        None => "__KERNEL->version_code".into(),
    };
    writeln!(text, "#define EQUIPOISE_VERSION_CODE {version}").unwrap();
    let compiled_for = kernel.map_or(0, Kernel::version_code);
    writeln!(text, "#define EQUIPOISE_COMPILED_FOR {compiled_for:#x}").unwrap();
    for feature in FEATURES {
        let Feature { name, kind, .. } = feature;
        let here = has(feature);
        match kind {
            // Fields and types are compared as text, because a macro cannot split `p->field`.
            Kind::Field | Kind::Type | Kind::Op => {}
            _ => writeln!(text, "#define __equipoise_asks_{name} 0, {here},").unwrap(),
        }
        match kind {
            // Without `used`, clang removes arguments, and with them the place of each call.
            Kind::Kfunc if here == "0" => writeln!(
                text,
                "#define __kfunc_{name} __attribute__((noinline, used, error({MARK:?} \" {name}\")))",
            )
            .unwrap(),
            Kind::Kfunc => writeln!(text, "#define __kfunc_{name} inline").unwrap(),
            Kind::Enumerator => {
                let value = if here == "0" { "0" } else { "value" };
                writeln!(text, "#define __enumerator_{name}(value) {value}").unwrap();
            }
            _ => {}
        }
    }
    let lacks = |what: &str, kind: Kind| {
        let each = of(kind).map(|feature| {
            format!(
                " \\\n\t(__equipoise_ends(text, {:?}) && !({})) ||",
                feature.name,
                has(feature)
            )
        });
        format!(
            "#define __equipoise_lacks_{what}(text) ({} \\\n\tfalse)\n",
            each.collect::<String>()
        )
    };
    text.push_str(&lacks("field", Kind::Field));
    text.push_str(&lacks("type", Kind::Type));
    text.push_str("\n#endif /* __SCX_KERNEL_H */\n");
    text
}

/// The prefix of the compiler's message about a call of a missing function; the name follows.
pub const MARK: &str = "equipoise: this kernel lacks";

const fn new(name: &'static str, kind: Kind, since: Release) -> Feature {
    Feature {
        name,
        kind,
        since,
        until: Until::Now,
    }
}

const fn renamed(name: &'static str, since: Release, instead: &'static str) -> Feature {
    Feature {
        name,
        kind: Kind::Kfunc,
        since,
        until: Until::Renamed((6, 13), instead),
    }
}

const fn old(name: &'static str, kind: Kind, until: Until) -> Feature {
    Feature {
        name,
        kind,
        since: (6, 12),
        until,
    }
}

/// The features that some kernel lacks or deprecates. All kernels have everything else that the headers declare.
pub const FEATURES: &[Feature] = &[
    renamed("scx_bpf_dispatch", (6, 12), "scx_bpf_dsq_insert()"),
    renamed(
        "scx_bpf_dispatch_vtime",
        (6, 12),
        "scx_bpf_dsq_insert_vtime()",
    ),
    renamed("scx_bpf_consume", (6, 12), "scx_bpf_dsq_move_to_local()"),
    renamed("scx_bpf_dispatch_from_dsq", (6, 12), "scx_bpf_dsq_move()"),
    renamed(
        "scx_bpf_dispatch_vtime_from_dsq",
        (6, 12),
        "scx_bpf_dsq_move_vtime()",
    ),
    renamed(
        "scx_bpf_dispatch_from_dsq_set_slice",
        (6, 12),
        "scx_bpf_dsq_move_set_slice()",
    ),
    renamed(
        "scx_bpf_dispatch_from_dsq_set_vtime",
        (6, 12),
        "scx_bpf_dsq_move_set_vtime()",
    ),
    old(
        "scx_bpf_cpu_rq",
        Kind::Kfunc,
        Until::Removed(
            (7, 3),
            "bpf_per_cpu_ptr(&runqueues, cpu) or scx_bpf_cpu_curr()",
        ),
    ),
    old(
        "cpu_acquire",
        Kind::Op,
        Until::Deprecated((7, 3), "the sched_switch tracepoint"),
    ),
    old(
        "cpu_release",
        Kind::Op,
        Until::Deprecated((7, 3), "the sched_switch tracepoint, or SCX_ENQ_IMMED"),
    ),
    // Linux 7.2 is the oldest kernel that we know to lack this feature.
    old(
        "SCX_OPS_HAS_CGROUP_WEIGHT",
        Kind::Flag(16),
        Until::Removed((7, 2), "no flag instead"),
    ),
    new("scx_bpf_dsq_insert", Kind::Compat, (6, 13)),
    new("scx_bpf_dsq_insert_vtime", Kind::Compat, (6, 13)),
    new("scx_bpf_dsq_move_to_local", Kind::Compat, (6, 13)),
    new("scx_bpf_dsq_move", Kind::Compat, (6, 13)),
    new("scx_bpf_dsq_move_vtime", Kind::Compat, (6, 13)),
    new("scx_bpf_dsq_move_set_slice", Kind::Compat, (6, 13)),
    new("scx_bpf_dsq_move_set_vtime", Kind::Compat, (6, 13)),
    new("scx_bpf_now", Kind::Compat, (6, 14)),
    new("scx_bpf_events", Kind::Kfunc, (6, 15)),
    new("bpf_cpumask_populate", Kind::Kfunc, (6, 15)),
    new("scx_bpf_nr_node_ids", Kind::Kfunc, (6, 15)),
    new("scx_bpf_cpu_node", Kind::Kfunc, (6, 15)),
    new("scx_bpf_get_idle_cpumask_node", Kind::Kfunc, (6, 15)),
    new("scx_bpf_get_idle_smtmask_node", Kind::Kfunc, (6, 15)),
    new("scx_bpf_pick_idle_cpu_node", Kind::Kfunc, (6, 15)),
    new("scx_bpf_pick_any_cpu_node", Kind::Kfunc, (6, 15)),
    new("scx_bpf_select_cpu_and", Kind::Compat, (6, 16)),
    new("scx_bpf_locked_rq", Kind::Kfunc, (6, 18)),
    new("scx_bpf_cpu_curr", Kind::Kfunc, (6, 18)),
    new("scx_bpf_dsq_peek", Kind::Kfunc, (6, 19)),
    new("scx_bpf_task_set_slice", Kind::Compat, (6, 19)),
    new("scx_bpf_task_set_dsq_vtime", Kind::Compat, (6, 19)),
    new("scx_bpf_reenqueue_local___v2", Kind::Compat, (6, 19)),
    new("scx_bpf_dsq_reenq", Kind::Compat, (7, 1)),
    new("scx_bpf_sub_dispatch", Kind::Compat, (7, 1)),
    new("scx_bpf_tid_to_task", Kind::Kfunc, (7, 2)),
    new("scx_bpf_cpu_to_cid", Kind::Kfunc, (7, 2)),
    new("scx_bpf_cid_to_cpu", Kind::Kfunc, (7, 2)),
    new("scx_bpf_cid_topo", Kind::Kfunc, (7, 2)),
    new("scx_bpf_cid_curr", Kind::Kfunc, (7, 2)),
    new("scx_bpf_task_cid", Kind::Kfunc, (7, 2)),
    new("scx_bpf_this_cid", Kind::Kfunc, (7, 2)),
    new("scx_bpf_nr_cids", Kind::Kfunc, (7, 2)),
    new("scx_bpf_nr_online_cids", Kind::Kfunc, (7, 2)),
    new("scx_bpf_kick_cid", Kind::Kfunc, (7, 2)),
    new("scx_bpf_cidperf_cap", Kind::Kfunc, (7, 2)),
    new("scx_bpf_cidperf_cur", Kind::Kfunc, (7, 2)),
    new("scx_bpf_cidperf_set", Kind::Kfunc, (7, 2)),
    new("scx_bpf_cid_override", Kind::Compat, (7, 2)),
    new("scx_bpf_online_cmask", Kind::Kfunc, (7, 3)),
    new("scx_bpf_sub_grant", Kind::Kfunc, (7, 3)),
    new("scx_bpf_sub_revoke", Kind::Kfunc, (7, 3)),
    new("scx_bpf_sub_caps", Kind::Kfunc, (7, 3)),
    new("scx_bpf_sub_kill_bstr", Kind::Compat, (7, 3)),
    new("cgroup_set_bandwidth", Kind::Op, (6, 17)),
    new("cgroup_set_idle", Kind::Op, (6, 19)),
    new("sub_attach", Kind::Op, (7, 1)),
    new("sub_detach", Kind::Op, (7, 1)),
    new("sub_caps_updated", Kind::Op, (7, 3)),
    new("sub_ecaps_updated", Kind::Op, (7, 3)),
    new("init_cids", Kind::Op, (7, 3)),
    new("SCX_OPS_ENQ_MIGRATION_DISABLED", Kind::Flag(4), (6, 14)),
    new("SCX_OPS_ALLOW_QUEUED_WAKEUP", Kind::Flag(5), (6, 14)),
    new("SCX_OPS_BUILTIN_IDLE_PER_NODE", Kind::Flag(6), (6, 15)),
    new("SCX_OPS_ALWAYS_ENQ_IMMED", Kind::Flag(7), (7, 1)),
    new("SCX_OPS_TID_TO_TASK", Kind::Flag(8), (7, 2)),
    new("SCX_ENQ_IMMED", Kind::Enumerator, (7, 1)),
    new("SCX_ENQ_RESCUE", Kind::Enumerator, (7, 3)),
    new("SCX_DEQ_SCHED_CHANGE", Kind::Enumerator, (7, 1)),
    new("SCX_PICK_IDLE_IN_NODE", Kind::Enumerator, (6, 15)),
    new("SCX_TASK_REENQ_REASON_MASK", Kind::Enumerator, (7, 1)),
    new("SCX_CAP_BASE", Kind::Enumerator, (7, 3)),
    new("SCX_REENQ_ANY", Kind::Enumerator, (7, 1)),
    new("SCX_EV_SELECT_CPU_FALLBACK", Kind::Field, (6, 15)),
    new("exit_cpu", Kind::Field, (7, 2)),
    new("bw_period_us", Kind::Field, (6, 17)),
    new("bw_quota_us", Kind::Field, (6, 17)),
    new("bw_burst_us", Kind::Field, (6, 17)),
    new("sched_idle", Kind::Field, (7, 3)),
    new("scx_bpf_select_cpu_and_args", Kind::Type, (6, 19)),
    new("scx_bpf_dsq_insert_vtime_args", Kind::Type, (6, 19)),
    new("scx_event_stats", Kind::Type, (6, 15)),
    new("scx_cmask", Kind::Type, (7, 2)),
];

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include/scx/kernel.h");

    /// With `EQUIPOISE_WRITE=1`, this test updates the file.
    #[test]
    fn the_header_of_all_kernels_is_what_the_table_makes() {
        if std::env::var_os("EQUIPOISE_WRITE").is_some() {
            std::fs::write(CHECKED_IN, header_of_all()).unwrap();
        }
        let checked_in = std::fs::read_to_string(CHECKED_IN).unwrap();
        assert!(
            checked_in == header_of_all(),
            "{CHECKED_IN} is outdated: EQUIPOISE_WRITE=1 cargo test -p equipoise-native kernels"
        );
    }

    #[test]
    fn a_feature_that_one_kernel_lacks_another_has() {
        for feature in FEATURES {
            let kernels = Kernel::ALL.iter().filter(|kernel| feature.is_in(**kernel));
            assert!([1, 2].contains(&kernels.count()), "{}", feature.name);
            let names = FEATURES.iter().filter(|other| other.name == feature.name);
            assert_eq!(names.count(), 1, "{}", feature.name);
        }
        let cpu_rq = find("scx_bpf_cpu_rq").unwrap();
        assert!(
            cpu_rq.missing().contains("use --kernel 6.12 or"),
            "{}",
            cpu_rq.missing()
        );
        assert!(!cpu_rq.is_in(Kernel::V7_3) && cpu_rq.is_in(Kernel::V6_12));
        assert_eq!("7.3".parse(), Ok(Kernel::V7_3));
        assert_eq!("7.2".parse::<Kernel>(), Err("expected 6.12 or 7.3".into()));
    }
}
