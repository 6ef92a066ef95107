//! The two runs of an explanation, with their observers.

use super::chain::{Chain, Chains};
use super::item::windows;
use super::missed::{MissedPeriod, observed};
use super::response::{Chosen, Missed, Responses};
use super::wait::{Asked, Latencies, Unknown, Wait, Waits};
use super::{Explanation, Subject};
use lab::{Case, Failure, Runs};
use simulator::{Event, Trace};
use std::sync::atomic::AtomicBool;

/// The reason why there is no explanation.
#[derive(Debug)]
pub enum Unexplained {
    /// A run failed, or was stopped.
    Run(Box<Failure>),
    /// No thread has a requested name.
    Thread(Unknown),
}

impl From<Box<Failure>> for Unexplained {
    fn from(failure: Box<Failure>) -> Unexplained {
        Unexplained::Run(failure)
    }
}

/// Passes the events of a run to two observers.
pub struct Both<'a>(pub &'a mut dyn Trace, pub &'a mut dyn Trace);

impl Trace for Both<'_> {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        self.0.event(now, cpu, event);
        self.1.event(now, cpu, event);
    }
}

/// Makes the first run of `case`. Returns the waits to explain, the latencies of the threads, and the responses of
/// these threads that `responses` chooses.
pub fn observe(
    case: &Case<'_>,
    runs: &Runs,
    asked: &Asked,
    mut responses: Responses<'_>,
    stop: &AtomicBool,
) -> Result<(Vec<Wait>, Vec<Latencies>, Chosen), Unexplained> {
    let mut waits = Waits::new(asked);
    lab::trace_until(case, runs, &mut Both(&mut waits, &mut responses), stop)?;
    let end = case.workload.start(case.machine).duration_ns;
    waits.end(end);
    responses.end(end);
    let usual = lab::judged_threads(case.workload);
    let (waits, latencies) = waits.choose(asked, &usual).map_err(Unexplained::Thread)?;
    let names: Vec<&str> = latencies.iter().map(|one| one.name.as_str()).collect();
    let chosen = responses.choose(&names);
    Ok((waits, latencies, chosen))
}

/// The events of `missed` periods, from another run of `case`.
pub fn missed_periods(
    case: &Case<'_>,
    runs: &Runs,
    missed: Vec<Missed>,
    stop: &AtomicBool,
) -> Result<Vec<MissedPeriod>, Box<Failure>> {
    let observed = observed(&missed);
    let windows = observed.iter().flatten().cloned().collect();
    let mut chains = Chains::new(windows, [], case.machine.cpus.len());
    lab::explain_until(case, runs, &mut chains, stop)?;
    let (chains, _) = chains.finish();
    Ok(with_chains(
        case,
        missed,
        &observed,
        &mut chains.into_iter(),
    ))
}

/// Combines each of `missed` with its chains. `chains` has one chain for each window that was observed for a period, in
/// the order of the periods.
fn with_chains(
    case: &Case<'_>,
    missed: Vec<Missed>,
    observed: &[Vec<(Wait, Subject)>],
    chains: &mut impl Iterator<Item = Chain>,
) -> Vec<MissedPeriod> {
    let scheduler = (case.scheduler.name(), !case.scheduler.is_foreign());
    let missed = missed.into_iter().zip(observed);
    let with = missed.filter_map(|(missed, observed)| {
        let chains = chains.by_ref().take(observed.len()).collect();
        MissedPeriod::new(case.machine, scheduler, missed, chains)
    });
    with.collect()
}

impl<'a> Explanation<'a> {
    /// Explains what `asked` requests about the first run of `case`. Fails soon after `stop` becomes true.
    pub fn of(
        case: &Case<'a>,
        runs: &Runs,
        asked: &Asked,
        stop: &AtomicBool,
    ) -> Result<Explanation<'a>, Unexplained> {
        let (machine, scheduler) = (case.machine, case.scheduler);
        let responses = Responses::new(machine, asked);
        let (waits, latencies, mut chosen) = observe(case, runs, asked, responses, stop)?;
        let periods = std::mem::take(&mut chosen.missed);
        let responses = periods.iter().map(|it| &it.response).chain(&chosen.slow);
        let shown: Vec<(u64, u64)> = (waits.iter().map(|it| (it.from, it.to)))
            .chain(responses.map(|it| (it.from, it.to)))
            .collect();
        let is_shown = |at: &u64| shown.iter().any(|(from, to)| (from..=to).contains(&at));
        let missed = asked.at.filter(|at| !is_shown(at));
        let threads = latencies.iter().map(|latencies| latencies.name.clone());
        let of_periods = observed(&periods);
        let observed = of_periods.iter().flatten().cloned();
        let windows = observed.chain(windows(&waits, &chosen)).collect();
        let mut chains = Chains::new(windows, threads, machine.cpus.len());
        let deadlock = lab::explain_until(case, runs, &mut chains, stop)?;
        let (chains, counted) = chains.finish();
        let mut chains = chains.into_iter();
        let periods = with_chains(case, periods, &of_periods, &mut chains);
        let waits: Vec<Chain> = chains.by_ref().take(waits.len()).collect();
        Ok(Explanation {
            machine,
            workload: case.workload.name(),
            policy: scheduler.name(),
            decisions: !scheduler.is_foreign(),
            seed: runs.seed,
            missed: missed.filter(|_| !waits.is_empty()),
            end: chosen.end,
            deadlock,
            latencies,
            periods,
            waits,
            slow: chosen.slow.into_iter().zip(chains.by_ref()).collect(),
            late: chosen.late.into_iter().zip(chains).collect(),
            totals: chosen.totals,
            counted,
        })
    }
}
