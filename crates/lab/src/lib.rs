//! Measuring: repeated runs over seeds, their statistics, comparisons of schedulers, and the
//! experiments that reproduce published tables.
//!
//! - A [`Case`] is a workload on a machine under a [`Scheduler`]. [`Runs`] has the number of runs of a case and their
//!   seeds; [`measure`] runs cases.
//! - A [`Comparison`] is the command `compare`, whose [`Verdict`] judges each goal; a [`Reproduction`] is
//!   the command `reproduce`. Only [`Reproduction::cells`] reads a table's published numbers, after the runs.
//! - [`hunt()`] searches for loads on which a scheduler does badly.
//!
//! ```no_run
//! use lab::{Comparison, Runs, Scheduler, Watch};
//!
//! let schedulers = vec![Scheduler::policy("eevdf")?, Scheduler::policy("equipoise")?];
//! let runs = Runs { count: 5, seed: 1, jobs: 0, noise: true };
//! let (machine, workload) = (machine::Machine::find("tc2")?, models::load("mixed")?);
//! let comparison = Comparison::run(machine, workload, schedulers, runs, Watch::none())?;
//! println!("{:?}", comparison.findings().verdict.best_for_all());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod compare;
mod elsewhere;
mod experiment;
mod findings;
mod hunt;
mod limit;
mod measure;
mod metrics;
mod parameters;
mod peers;
mod reproduce;
mod runs;
mod samples;
mod scheduler;
mod select;
mod stats;
mod verdict;
mod worker;

pub use compare::{AtFullSpeed, Comparison};
pub use elsewhere::{Described, Judge, Recipe, Start};
pub use experiment::{Average, Block, Column, Experiment, Load, Published, Row, Source, Stat};
pub use findings::{Entry, Finding, Findings, Results};
pub use hunt::{Against, Budget, By, Ground, Prey, Question, STOPPED, Victim, hunt};
pub use limit::limit_s;
pub use measure::{Judged, Measure, judged_threads, measures};
pub use metrics::{WASTE, metrics};
pub use peers::{Peer, fetch_sources};
pub use reproduce::{Cell, NO_DIFFERENCE_PCT, ReproducedRow, Reproduction, Summary, groups, sign};
pub use runs::{
    Case, Failure, Measured, Run, Runs, STALL_NS, Stalled, Threads, Traced, Watch, explain_until,
    measure, measure_part, trace_run, trace_until,
};
pub use samples::{Open, Pooled, Samples, nearest_rank};
pub use scheduler::Scheduler;
pub use select::select;
pub use stats::{Change, mean_interval, modes, paired_change, pairs_for};
pub use verdict::{GoalVerdict, Judgement, Reason, Standing, Statement, Verdict, counted_work};
pub use worker::work;
