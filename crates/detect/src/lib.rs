//! Detects a machine from sysfs, hwloc's XML or a device tree, measures its costs, and writes its
//! machine file.
//!
//! Each source makes a [`Found`]; [`Found::machine_file`] is the same for all.

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
mod nest;
mod preferred;
mod sysfs;
mod text;

pub use calibrate::calibrate;
pub use device_tree::device_tree;
pub use energy::{Counter as EnergyCounter, rapl};
pub use found::Measure;
pub use found::{Cpu, Found, Measured, OppFound};
pub use governor::{Decider, deciders};
pub use hwloc::hwloc;
pub use kernel::tick_hz;
pub use sysfs::{online, possible, sysfs};
pub use text::MachineFile;
