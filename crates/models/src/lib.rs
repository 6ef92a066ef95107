//! Models of benchmarks and other programs as workloads, and the catalog that finds a workload by name.
//!
//! A model is a [`workload::Workload`] whose tasks do what the program's threads do: the same computing, waiting and
//! waking, with parameters whose sources are named beside them. [`builtin`] lists the names, and [`parameters`] lists
//! the parameters of one workload. [`load`] makes a workload from a name, with or without parameters, or from the path
//! of an rt-app file or a recording:
//!
//! ```
//! let workload = models::load("sysbench-cpu:threads=2,time=1s+busy:threads=1,nice=5")?;
//! let machine = machine::Machine::find("smp-8")?;
//! assert_eq!(workload.start(&machine).tasks.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To add a benchmark, write a file with a `Benchmark` (its parameters and metrics) and a `Model` (the tasks that it
//! starts), and add a line to the table in `catalog.rs`.

pub use catalog::{builtin, load, load_file, parameters, parts, source};

mod aim7;
mod antutu;
mod benchmark;
mod busy;
mod catalog;
mod cyclictest;
mod fork_chain;
mod hackbench;
mod iperf;
mod kbuild;
mod oltp;
mod parsec;
mod request_response;
mod schbench;
mod specjbb;
mod spin_barrier;
mod sysbench;

/// The kernel of this crate's tests.
#[cfg(test)]
mod fake {
    pub use workload::fake::Kernel;

    /// Runs, on `cpus` CPUs, the workload that [`crate::load`] finds.
    pub fn run_named(workload: &str, cpus: usize) -> Kernel {
        Kernel::run(&*crate::load(workload).unwrap(), cpus)
    }
}
