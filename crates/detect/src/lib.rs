//! Detects a machine from sysfs, hwloc's XML or a device tree, measures its costs, and writes its
//! machine file.
//!
//! - [`sysfs()`], [`hwloc()`] and [`device_tree()`] make a [`Found`] from their sources; [`calibrate()`] measures the
//!   costs of this computer's kernel ([`Measured`]).
//! - [`Found::machine_file`] makes the [`MachineFile`], the same way for all sources.
//! - A [`Decider`] says what controls a CPU's frequency.
//!
//! ```no_run
//! let found = detect::sysfs("/sys".as_ref())?;
//! println!("{} CPUs", found.cpus.len());
//! let file = found.machine_file("mine");
//! std::fs::write("mine.toml", file.text)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod archive;
mod calibrate;
mod capacity;
mod cpuinfo;
mod device_tree;
mod energy;
mod folder;
mod found;
mod governor;
mod hwloc;
mod kernel;
mod kind;
mod limits;
mod nest;
mod preferred;
mod sysfs;
mod text;

pub use calibrate::{calibrate, wakeup_and_switch};
pub use device_tree::device_tree;
pub use energy::{Counter as EnergyCounter, rapl};
pub use found::Measure;
pub use found::{Cpu, Found, Measured, OppFound};
pub use governor::{Decider, deciders};
pub use hwloc::hwloc;
pub use kernel::tick_hz;
pub use sysfs::{online, possible, sysfs};
pub use text::MachineFile;
