//! Machines of any size.

use machine::{CpuMask, Level, Machine};

/// The sizes, from 8 to 4096 CPUs: packages, and cores in each.
pub const SIZES: [(usize, usize); 5] = [(1, 4), (2, 8), (8, 10), (16, 32), (32, 64)];

/// `smt-4` with the given numbers of packages, and of cores in each.
pub fn large(packages: usize, cores: usize) -> Machine {
    let mut machine = Machine::find("smt-4").expect("it is built in");
    let all = packages * cores;
    let core = |core: usize| CpuMask::one(core).or(&CpuMask::one(core + all));
    let package = |package: usize| {
        (package * cores..(package + 1) * cores)
            .map(core)
            .fold(CpuMask::EMPTY, |span, core| span.or(&core))
    };
    let level = |name, spans| Level { name, spans };
    machine.cpus = vec![machine.cpus[0].clone(); 2 * all];
    machine.levels = vec![
        level("SMT", (0..all).map(core).collect()),
        level("PKG", (0..packages).map(package).collect()),
        level("NUMA", vec![machine.all_cpus()]),
    ];
    machine
}
