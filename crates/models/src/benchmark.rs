//! Models of benchmark programs: the properties of each before a run, and the workload made of it.

use machine::Machine;
use machine::input::BadInput;
use workload::{Args, CpuBound, Metric, Param, Start, Workload};

/// The work of `pthread_create`, in ns at the reference speed. The value is an assumption; the work is done once per
/// thread.
pub(crate) const CREATE_WORK: u64 = 30_000;

/// A [`Param`] from its row: `threads: Count(1..=64) = 4, "the number of threads"` has the name `threads`, a unit, the
/// values from 1 to 64, and the default 4. Times are in ns.
macro_rules! param {
    ($name:ident: $unit:ident($range:expr) = $default:expr, $help:expr) => {{
        const RANGE: std::ops::RangeInclusive<u64> = $range;
        workload::Param {
            name: stringify!($name),
            unit: workload::Unit::$unit,
            default: $default,
            min: *RANGE.start(),
            max: *RANGE.end(),
            help: $help,
        }
    }};
}

/// A structure with a field for each of a program's parameters, which are given as rows of [`param`].
macro_rules! params {
    (struct $program:ident { $($name:ident: $unit:ident($range:expr) = $default:expr, $help:expr;)* }) => {
        #[derive(Clone, Copy)]
        struct $program {
            $($name: u64,)*
        }

        impl $program {
            const PARAMS: &'static [workload::Param] =
                &[$($crate::benchmark::param!($name: $unit($range) = $default, $help)),*];

            fn new(args: &workload::Args) -> $program {
                $program {
                    $($name: args.get(stringify!($name)),)*
                }
            }
        }
    };
}

pub(crate) use {param, params};

pub(crate) struct Benchmark {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) params: &'static [Param],
    /// The metrics of a run, unless the model has metrics of its own.
    pub(crate) metrics: &'static [Metric],
    pub(crate) make: fn(&Args) -> Box<dyn Model>,
}

/// A program with its parameters; see [`Workload`].
pub(crate) trait Model: Send + Sync {
    /// The metrics of a run with these parameters, if they differ from the default.
    fn metrics(&self) -> Option<&'static [Metric]> {
        None
    }

    fn cpu_bound(&self) -> Option<CpuBound> {
        None
    }

    fn check(&self, _machine: &Machine) -> Result<(), Box<BadInput>> {
        Ok(())
    }

    fn of_run(&self, _run: u32, _count: u32) -> Option<Box<dyn Model>> {
        None
    }

    fn start(&self, machine: &Machine) -> Start;
}

struct Modelled {
    name: String,
    benchmark: &'static Benchmark,
    model: Box<dyn Model>,
}

impl Benchmark {
    /// The workload `name`, with the parameters in `params` (`threads=5,time=8s`).
    pub(crate) fn load(
        &'static self,
        name: &str,
        params: Option<&str>,
    ) -> Result<Box<dyn Workload>, Box<BadInput>> {
        let args = Args::read(self.name, self.params, params)?;
        Ok(Box::new(Modelled {
            name: name.to_owned(),
            benchmark: self,
            model: (self.make)(&args),
        }))
    }
}

impl Workload for Modelled {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        self.benchmark.description
    }

    fn metrics(&self) -> &[Metric] {
        self.model.metrics().unwrap_or(self.benchmark.metrics)
    }

    fn cpu_bound(&self) -> Option<CpuBound> {
        self.model.cpu_bound()
    }

    fn check(&self, machine: &Machine) -> Result<(), Box<BadInput>> {
        self.model.check(machine)
    }

    fn of_run(&self, run: u32, count: u32) -> Option<Box<dyn Workload>> {
        Some(Box::new(Modelled {
            name: self.name.clone(),
            benchmark: self.benchmark,
            model: self.model.of_run(run, count)?,
        }))
    }

    fn start(&self, machine: &Machine) -> Start {
        self.model.start(machine)
    }
}
