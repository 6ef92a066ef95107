//! The life of a scheduler: open, configure, load, attach, watch, detach. This file is compiled
//! once for each scheduler; see schedulers.rs.

use crate::cli::Opts;
use crate::control::Control;
use crate::cost;
use crate::explain;
use crate::globals;
use crate::governor;
use crate::host;
use crate::libbpf_log;
use crate::limits;
use crate::preflight;
use crate::schedulers::Next;
use crate::stats::{self, Totals};
use anyhow::{Context, Result};
use crossbeam::select;
use libbpf_rs::libbpf_sys::bpf_map__set_autoattach;
use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{AsRawLibbpf, Link, OpenObject};
use machine::{CpuMask, Machine};
use native::Global;
use policy::{Counters, Explained, Policy};
use super::skeleton::{BpfSkel, BpfSkelBuilder, OpenBpfSkel};
use scx_utils::{
    compat, scx_ops_attach, scx_ops_load, scx_ops_open, try_set_rlimit_infinity, uei_exited, uei_report,
};
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The interval of checks of whether the scheduler is still loaded, which is long enough to let a CPU
/// sleep. If the scheduler has exited, tasks run under Linux's own scheduler until the next check.
const WATCH: Duration = Duration::from_secs(4);
/// The interval at which reported decisions are fetched; [`BUFFER_BYTES`] is the size of their buffer.
const LISTEN: Duration = Duration::from_millis(10);
const BUFFER_BYTES: u32 = 4 << 20;

/// The wakeup granularity in ns from which hackbench switched no more often than under Linux's own
/// scheduler (`vm/in-guest/storm`).
const CALM: u64 = 10_000_000;

/// Loads the scheduler and runs it until it exits; see [`crate::schedulers::Run`].
pub fn run(
    opts: &Opts,
    policy: &Policy,
    machine: &Machine,
    online: CpuMask,
    object: &mut MaybeUninit<OpenObject>,
    control: &Control,
) -> Result<Next> {
    let scheduler = Scheduler::load(opts, policy, machine, online, object)?;
    control.attached(policy);
    scheduler.run(machine, control)
}

/// Does this kernel have the field? A kernel without the structure lacks the field, too.
fn has_field(structure: &str, field: &str) -> bool {
    compat::struct_has_field(structure, field).unwrap_or(false)
}

/// Adapts the ops to the kernel's control groups. A kernel may be built without them, and a kernel before 6.18 requires
/// a flag for weights. Evaluates to the limits that the scheduler enforces. This is a macro because the type of `ops`
/// is that of the skeleton.
macro_rules! fit_cgroups {
    ($ops:expr) => {{
        // Linux has these ops from 6.17 and 6.19 on; from 7.3 on, it also reports limits that were set earlier.
        if !has_field("sched_ext_ops", "cgroup_set_bandwidth") {
            $ops.cgroup_set_bandwidth = std::ptr::null_mut();
        }
        if !has_field("sched_ext_ops", "cgroup_set_idle") || !has_field("scx_cgroup_init_args", "sched_idle") {
            $ops.cgroup_set_idle = std::ptr::null_mut();
        }
        if !has_field("sched_ext_ops", "cgroup_set_weight") {
            $ops.cgroup_init = std::ptr::null_mut();
            $ops.cgroup_exit = std::ptr::null_mut();
            $ops.cgroup_move = std::ptr::null_mut();
            $ops.cgroup_set_weight = std::ptr::null_mut();
        } else if !$ops.cgroup_set_weight.is_null() {
            $ops.flags |= compat::read_enum("scx_ops_flags", "SCX_OPS_HAS_CGROUP_WEIGHT").unwrap_or(0);
        }
        limits::Kept {
            bandwidth: !$ops.cgroup_set_bandwidth.is_null(),
            idle: !$ops.cgroup_set_idle.is_null(),
        }
    }};
}

/// The prefix of programs that only a scheduler that requests frequencies needs.
const FREQUENCY_PROGRAMS: &str = "equipoise_frequency_";

/// The variable that says whether requesting a frequency takes a lock
/// (scheduler/signals/frequency.bpf.h).
const ASKING_LOCKS: &str = "asking_locks";

/// The variable that makes a scheduler check its invariants (scheduler/equipoise/place.h).
const CHECKS: &str = "checks";

/// The variable of schedulers whose program at `sched_switch` can do what `ops.cpu_release()` does.
const RELEASED_BY_SWITCH: &str = "released_by_switch";

/// May a program empty a CPU's local queue wherever it runs, as in Linux 6.19 and later?
fn reenqueues_anywhere() -> Result<bool> {
    Ok(compat::ksym_exists("scx_bpf_dsq_reenq")? || compat::ksym_exists("scx_bpf_reenqueue_local___v2")?)
}

struct Scheduler<'object> {
    skeleton: BpfSkel<'object>,
    link: Link,
    stats: stats::Server,
    online: CpuMask,
    /// Whether the scheduler reports decisions; `task` is the task whose decisions are printed.
    explains: bool,
    explained_task: Option<String>,
}

impl<'object> Scheduler<'object> {
    /// Loads and attaches the scheduler for `policy` on `machine`.
    fn load(
        opts: &Opts,
        policy: &Policy,
        machine: &Machine,
        online: CpuMask,
        object: &'object mut MaybeUninit<OpenObject>,
    ) -> Result<Scheduler<'object>> {
        try_set_rlimit_infinity();
        let builder = BpfSkelBuilder::default();
        let open_opts = opts.libbpf.clone().into_bpf_open_opts();
        let mut skeleton = scx_ops_open!(builder, object, equipoise_ops, open_opts)?;
        skeleton.struct_ops.equipoise_ops_mut().exit_dump_len = opts.exit_dump_len;
        // A scheduler that lacks these programs is not changed.
        let ops = skeleton.struct_ops.equipoise_ops_mut();
        let kept = fit_cgroups!(ops);
        limits::warn(Path::new("/sys/fs/cgroup"), kept);
        // scx_ops_attach!() attaches the ops. If libbpf attached everything, it would warn about
        // them.
        let ops = skeleton.maps.equipoise_ops.as_libbpf_object();
        // SAFETY: the map is the object's, which is alive.
        unsafe { bpf_map__set_autoattach(ops.as_ptr(), false) };
        let mut values = policy.globals(machine);
        values.push(globals::switched_on(ASKING_LOCKS));
        if reenqueues_anywhere()? && globals::has(skeleton.open_object_mut(), RELEASED_BY_SWITCH)? {
            skeleton.struct_ops.equipoise_ops_mut().cpu_release = std::ptr::null_mut();
            values.push(globals::switched_on(RELEASED_BY_SWITCH));
        }
        if opts.check && globals::has(skeleton.open_object_mut(), CHECKS)? {
            values.push(globals::switched_on(CHECKS));
        }
        if opts.explain {
            values.push(globals::switched_on(Explained::SWITCH));
            skeleton.maps.explanations.set_max_entries(BUFFER_BYTES)?;
        }
        globals::set(skeleton.open_object_mut(), &values)?;

        if !policy.asks_for_frequencies(machine) {
            leave_out(&mut skeleton, FREQUENCY_PROGRAMS);
        }

        let loaded = scx_ops_load!(skeleton, equipoise_ops, uei);
        let refused = |error| preflight::explain_refusal(error, &policy.name, &host::kernel_release());
        let mut skeleton = loaded.map_err(refused)?;
        let link = scx_ops_attach!(skeleton, equipoise_ops)?;
        libbpf_log::forget();
        let stats = stats::Server::start(opts.stats_access())?;
        log::info!("policy {} on {} CPUs", policy.name, online.count());
        if let Some(warning) = governor::warning(policy, &detect::deciders(Path::new("/sys"))) {
            log::warn!("{warning}");
        }
        if policy.settings.get("sched_wakeup_granularity_ns").is_some_and(|ns| ns < CALM) {
            log::info!(
                "this policy preempts by the rule of Linux 3.9, which may switch at every message between \
                 tasks; sched_wakeup_granularity_ns=10000000 prevents that"
            );
        }
        for domain in &policy.domains(machine).domains {
            log::info!("{domain}");
        }
        Ok(Scheduler {
            skeleton,
            link,
            stats,
            online,
            explains: opts.explain,
            explained_task: opts.task.clone(),
        })
    }

    /// Serves statistics until the scheduler exits or must exit. Returns an error if the scheduler failed.
    fn run(mut self, machine: &Machine, control: &Control) -> Result<Next> {
        // The kernel reports CPUs that go online or offline after the scheduler was opened. A CPU
        // that was about to go offline at that time may still have counted as online.
        let moved_on = host::online()? != self.online;
        let (answers, requests) = self.stats.channels();
        let explanations = match self.explains {
            true => Some(explain::printer(&self.skeleton.maps.explanations, self.explained_task.clone())?),
            false => None,
        };
        let wait = if self.explains { LISTEN } else { WATCH };
        let mut lost = 0;
        while !moved_on && !control.wants_it_gone() && !uei_exited!(&self.skeleton, uei) {
            if let Some(policy) = control.next_tuning() {
                self.tune(&policy.tunables(machine))?;
                log::info!("policy {}", policy.name);
                control.attached(&policy);
            }
            if let Some(explanations) = &explanations {
                explanations.consume().context("cannot read the scheduler's decisions")?;
                explain::warn_of_lost(&mut lost, self.explanations_lost());
            }
            select! {
                recv(requests) -> request => {
                    request?;
                    answers.send(self.totals()?)?;
                }
                recv(control.news()) -> _ => {}
                default(wait) => {}
            }
        }
        // Detaches the scheduler, and waits until it is unloaded.
        drop(self.link);
        if let Some(explanations) = &explanations {
            explanations.consume().context("cannot read the scheduler's decisions")?;
        }
        let info = uei_report!(&self.skeleton, uei)?;
        Ok(if moved_on || control.wants_it_gone() || info.should_restart() {
            Next::Restart
        } else {
            Next::Stop
        })
    }

    /// Changes the tunables while the scheduler runs, a word at a time.
    fn tune(&mut self, tunables: &Global) -> Result<()> {
        let bss = self.skeleton.maps.bss_data.as_mut().context("the scheduler has no variables")?;
        // SAFETY: each tunable has 64 bits (scheduler/policy.bpf.h).
        let words = unsafe { globals::words(&mut bss.tunables) };
        anyhow::ensure!(size_of_val(words) == tunables.bytes.len(), "the scheduler has other tunables");
        for (word, bytes) in words.iter().zip(tunables.bytes.as_chunks().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        Ok(())
    }

    fn explanations_lost(&self) -> u64 {
        self.skeleton.maps.bss_data.as_ref().map_or(0, |bss| bss.explanations_lost)
    }

    fn totals(&self) -> Result<Totals> {
        let bss = self.skeleton.maps.bss_data.as_ref();
        let counters = &bss.context("the scheduler has no variables")?.counters;
        // SAFETY: these are plain integers in memory that the kernel keeps mapped. The bytes may
        // change while they are read, one aligned word at a time.
        let bytes = unsafe {
            std::slice::from_raw_parts(counters.as_ptr().cast::<u8>(), size_of_val(counters))
        };
        Ok(Totals {
            counters: Counters::from_bytes(bytes).context("unknown counters")?,
            callbacks: cost::callbacks(self.skeleton.object())?,
            energy: detect::rapl(Path::new("/sys")),
        })
    }
}

/// Excludes the programs whose names begin with `prefix` from loading. None of them may be an op:
/// the ops would keep its program loaded.
fn leave_out(skeleton: &mut OpenBpfSkel<'_>, prefix: &str) {
    for mut program in skeleton.open_object_mut().progs_mut() {
        if program.name().to_string_lossy().starts_with(prefix) {
            program.set_autoload(false);
        }
    }
}
