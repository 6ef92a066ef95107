//! Measuring: repeated runs over seeds, their statistics, comparisons of schedulers, and the
//! experiments that reproduce published tables.
//!
//! [`hunt()`] searches for loads on which a scheduler does badly.
//! [`measure`] runs [`Case`]s; [`Comparison`] and [`Reproduction`] are the two commands. Only
//! [`Reproduction::cells`] reads a table's published numbers, after the runs.

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

pub use compare::{AtFullSpeed, Comparison};
pub use elsewhere::{Described, Judge, Recipe, Start, work};
pub use experiment::{Average, Block, Column, Experiment, Load, Published, Row, Source, Stat};
pub use findings::{Entry, Finding, Findings, Results};
pub use hunt::{Against, Budget, By, Prey, Question, STOPPED, Victim, hunt};
pub use limit::limit_s;
pub use measure::{Judged, Measure, judged_threads, measures};
pub use metrics::{WASTE, metrics};
pub use peers::{Peer, fetch_sources};
pub use reproduce::{Cell, NO_DIFFERENCE_PCT, ReproducedRow, Reproduction, Summary, groups, sign};
pub use runs::{
    Case, Failure, Measured, Run, Runs, STALL_NS, Stalled, Threads, Watch, explain_until, measure,
    measure_part, trace, trace_run, trace_until,
};
pub use samples::{Open, Pooled, Samples, nearest_rank};
pub use scheduler::Scheduler;
pub use select::select;
pub use stats::{Change, mean_interval, modes, paired_change, pairs_for};
pub use verdict::{GoalVerdict, Judgement, Reason, Standing, Statement, Verdict, counted_work};
