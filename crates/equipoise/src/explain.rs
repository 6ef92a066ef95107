//! `equipoise explain`.

use crate::cli::{Explain, Output};
use crate::error::Error;
use crate::foreign;
use crate::interrupt::{self, STOP};
use crate::output::{self, Document, Staged};
use crate::subject;
use lab::Case;
use machine::input::{self, BadInput};
use report::explain::{self, Asked, Chain, Chains, Explanation, Responses, Waits};
use simulator::{Event, Trace};
use std::slice;
use workload::{Goal, Role, Workload};

/// Shows why threads of the first run waited.
pub fn run(args: Explain, output: &Output) -> Result<(), Error> {
    output::check_places(output, None)?;
    let (machine, workload) =
        subject::find(&args.machine, &args.workload, args.cpunodebind.as_deref())?;
    let mut scheduler = foreign::or_policy(args.scheduler.as_ref(), &args.policy, &args.build)?;
    let recipe = subject::recipe(&args.machine, &args.workload, args.cpunodebind.as_deref());
    foreign::send_elsewhere(slice::from_mut(&mut scheduler), &recipe);
    let case = Case {
        machine: &machine,
        workload: &*workload,
        scheduler: &scheduler,
    };
    let runs = args.runs();
    let asked = Asked {
        threads: args.task.clone(),
        at: args.at,
        worst: args.worst as usize,
    };
    interrupt::listen();
    let mut waits = Waits::new(&asked);
    let mut responses = Responses::new(&machine, &asked);
    lab::trace_until(&case, &runs, &mut Both(&mut waits, &mut responses), &STOP)?;
    let (waits, latencies) = waits
        .choose(&asked, &judged(&*workload))
        .map_err(|unknown| unknown_thread(&unknown))?;
    let missed = asked
        .at
        .filter(|at| !waits.iter().any(|wait| (wait.from..=wait.to).contains(at)));
    let names: Vec<&str> = latencies.iter().map(|one| one.name.as_str()).collect();
    let chosen = responses.choose(&names);
    let threads = latencies.iter().map(|latencies| latencies.name.clone());
    let windows = explain::windows(&waits, &chosen);
    let mut chains = Chains::new(windows, threads, machine.cpus.len());
    lab::explain_until(&case, &runs, &mut chains, &STOP)?;
    let (chains, counted) = chains.finish();
    let mut chains = chains.into_iter();
    let waits: Vec<Chain> = chains.by_ref().take(waits.len()).collect();
    let explanation = Explanation {
        machine: &machine,
        workload: workload.name(),
        policy: scheduler.name(),
        decisions: !scheduler.is_foreign(),
        seed: runs.seed,
        missed: missed.filter(|_| !waits.is_empty()),
        latencies,
        waits,
        slow: chosen.slow.into_iter().zip(chains.by_ref()).collect(),
        late: chosen.late.into_iter().zip(chains).collect(),
        totals: chosen.totals,
        counted,
    };
    let page = explain::page(&explanation);
    let name = format!(
        "why-{}-{}-{}",
        machine.name,
        workload.name(),
        scheduler.name()
    );
    let document = Document {
        name: output::file_name(&name),
        json: Box::new(|| explain::json(&explanation)),
        csv: Box::new(|| report::csv::page(&page)),
        page: page.clone(),
    };
    output::emit(output, &[document], None, Staged::default())
}

/// Two observers of the same run.
struct Both<'a>(&'a mut dyn Trace, &'a mut dyn Trace);

impl Trace for Both<'_> {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        self.0.event(now, cpu, event);
        self.1.event(now, cpu, event);
    }
}

/// The threads whose latencies judge the workload.
fn judged(workload: &dyn Workload) -> Vec<String> {
    let metrics = workload.metrics();
    let latency = metrics
        .iter()
        .filter(|metric| metric.role == Role::Decides(Goal::Latency));
    let named =
        latency.filter_map(|metric| metric.pool.as_ref().unwrap_or(&metric.name).split_once('/'));
    let mut names: Vec<String> = named.map(|(thread, _)| thread.to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

fn unknown_thread(unknown: &explain::Unknown) -> Error {
    let names = unknown.names.iter().map(String::as_str);
    Error::Input(Box::new(BadInput::whole(
        format!("--task {}: no thread has this name", unknown.thread),
        input::one_of(&unknown.thread, names),
    )))
}
