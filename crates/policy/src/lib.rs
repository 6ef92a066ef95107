//! Policies: the configuration of the schedulers in `scheduler/`. A policy consists of data, namely switches and
//! numbers for the same code. Presets are in `policies/`, and your own files can extend them.
//!
//! This crate is also the user space half of the scheduler: it builds the sched domains of a machine ([`Domains`]) and
//! sets the scheduler's global variables ([`Policy::globals`]), which are the same in the simulated kernel and in BPF.
//!
//! - A [`Policy`] is found by its name or file; its [`Settings`] are described by [`Setting`]s.
//! - A [`Decision`] is a decision that a scheduler records with its reason; [`Counters`] are the numbers of the
//!   scheduler's actions.
//!
//! ```
//! let policy = policy::Policy::find("equipoise")?;
//! let machine = machine::Machine::find("rk3588")?;
//! assert!(policy.domains(&machine).of(0).count() >= 1);
//! assert!(policy.globals(&machine).iter().any(|global| global.symbol == "tunables"));
//! # Ok::<(), Box<machine::input::BadInput>>(())
//! ```

mod builtin;
mod counters;
mod decisions;
mod domains;
mod file;
mod layout;
mod settings;

pub use counters::{Counter, CounterRow, Counters};
pub use decisions::{About, Decided, Decision, DecisionRow, Explained, Number, time};
pub use domains::{Domain, Domains, Flags, Linux};
pub use settings::{Choice, Kind, Setting, Settings};

use machine::Machine;
use native::{Global, Kernel, Object};
use std::borrow::Cow;

/// A complete policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The name that `--policy` takes.
    pub name: String,
    /// A description of one line.
    pub description: String,
    /// The policy's scheduler, one of [`native::SCHEDULERS`].
    pub scheduler: &'static str,
    /// The switches and numbers in that scheduler's tables.
    pub settings: Settings,
}

impl Policy {
    /// The policy's scheduler, for the newest simulated kernel.
    pub fn object(&self) -> Result<&'static Object, native::Error> {
        self.object_in(Kernel::default())
    }

    /// The policy's scheduler, for this simulated kernel.
    pub fn object_in(&self, kernel: Kernel) -> Result<&'static Object, native::Error> {
        Object::own_in(self.scheduler, kernel)
    }

    /// As [`Policy::object_in`], with a scheduler that records its decisions and their reasons ([`Decision`]).
    /// Recording costs real time, but no simulated time.
    pub fn explaining_object_in(&self, kernel: Kernel) -> Result<&'static Object, native::Error> {
        Object::explaining_in(self.scheduler, kernel)
    }

    /// The sched domains of `machine` for the scheduler.
    pub fn domains(&self, machine: &Machine) -> Domains {
        Domains::new(&self.after_hotplug(machine), Linux::of(self.scheduler))
    }

    /// The scheduler's global variables for this policy on `machine`.
    pub fn globals(&self, machine: &Machine) -> Vec<Global> {
        let machine = self.after_hotplug(machine);
        layout::globals(&self.settings, &machine, Linux::of(self.scheduler))
    }

    /// `machine` with the levels from which the policy's kernel makes domains. With the switch
    /// `missing_domains`, no domain above a node exists once the domains have been rebuilt.
    fn after_hotplug<'a>(&self, machine: &'a Machine) -> Cow<'a, Machine> {
        if !machine.rebuilt || self.settings.get("missing_domains") != Some(1) {
            return Cow::Borrowed(machine);
        }
        let mut machine = machine.clone();
        machine.levels.retain(|level| level.name != "NUMA");
        Cow::Owned(machine)
    }

    /// The variables that may change while the scheduler runs.
    pub fn tunables(&self, machine: &Machine) -> Global {
        layout::tunables(&self.settings, machine.cpus.len())
    }

    /// Does this policy differ from `other` only in tunables, so that a running scheduler can change from one policy to
    /// the other?
    pub fn is_tuned(&self, other: &Policy) -> bool {
        let fixed = |policy: &Policy| -> Vec<u64> {
            let fixed = policy.settings.list().filter(|(setting, _)| !setting.live);
            fixed.map(|(_, value)| value).collect()
        };
        self.scheduler == other.scheduler && fixed(self) == fixed(other)
    }

    /// Does this policy set frequencies (`scx_bpf_cpuperf_set()`)? Requests take effect only under schedutil.
    pub fn sets_frequencies(&self) -> bool {
        self.settings.get("frequency") == Some(1)
    }

    /// Does this policy set frequencies, and does the governor of `machine` follow requests?
    pub fn asks_for_frequencies(&self, machine: &Machine) -> bool {
        self.sets_frequencies() && layout::scales(machine)
    }
}
