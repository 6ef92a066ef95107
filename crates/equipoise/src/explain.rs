//! `equipoise explain`.

use crate::cli::{Explain, Format, Output};
use crate::error::Error;
use crate::figures;
use crate::interrupt::{self, STOP};
use crate::output::{self, Document, Staged};
use crate::subject;
use crate::{foreign, hunt};
use lab::{Case, Runs, Scheduler};
use machine::input::{self, BadInput};
use report::explain::{
    self, Asked, Both, Chains, Difference, Explanation, Period, Responses, Unexplained, Unknown,
};
use report::{FirstRun, Recorder};
use std::slice;

pub fn run(mut args: Explain, output: &Output) -> Result<(), Error> {
    if args.task.is_empty() {
        args.task.extend(hunt::victim(&args.workload));
    }
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
    if let Some(other) = &args.diff {
        if args.scheduler.is_none() && *other == args.policy {
            return Err(Error::Input(Box::new(BadInput::whole(
                format!("--diff {other}: this is the explained policy itself"),
                "expected a different policy for --diff or for --policy",
            ))));
        }
        let other = foreign::or_policy(None, other, &args.build)?;
        return diff(&args, &case, &other, output);
    }
    let asked = Asked {
        threads: args.task.clone(),
        at: args.at,
        worst: args.worst as usize,
    };
    interrupt::listen();
    let explanation = Explanation::of(&case, &runs, &asked, &STOP)?;
    let mut page = explain::page(&explanation);
    if output.format == Format::Html {
        let named = foreign::options(args.scheduler.as_ref(), &args.policy, &args.build);
        page.figures = figures::of_run(&case, &runs, &of_load(&args), named)?;
    }
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

fn of_load(args: &Explain) -> Vec<String> {
    subject::options(&args.machine, &args.workload, args.cpunodebind.as_deref())
}

/// Shows the same period of a thread under the scheduler of `case` and under `other`.
fn diff(args: &Explain, case: &Case<'_>, other: &Scheduler, output: &Output) -> Result<(), Error> {
    interrupt::listen();
    let runs = args.runs();
    let asked = Asked {
        threads: args.task.clone(),
        at: args.at,
        worst: 1,
    };
    let (first, first_run) = period(case, &runs, &asked, args.at)?;
    let asked = Asked {
        threads: vec![first.response.name.clone()],
        ..asked
    };
    let beside = Case {
        scheduler: other,
        ..*case
    };
    let (second, second_run) = period(&beside, &runs, &asked, Some(first.response.from))?;
    let name = format!(
        "why-{}-{}-{}-{}",
        case.machine.name,
        case.workload.name(),
        first.policy,
        second.policy
    );
    let difference = Difference {
        machine: case.machine,
        workload: case.workload.name(),
        seed: runs.seed,
        at: args.at,
        sides: [first, second],
    };
    let mut page = difference.page();
    page.timelines
        .push(difference.timeline([&first_run, &second_run]));
    let document = Document {
        name: output::file_name(&name),
        json: Box::new(|| difference.json()),
        csv: Box::new(|| report::csv::page(&page)),
        page: page.clone(),
    };
    output::emit(output, &[document], None, Staged::default())
}

/// The period of the requested threads that lost the most time, or the period at the time `near`, with its run.
fn period(
    case: &Case<'_>,
    runs: &Runs,
    asked: &Asked,
    near: Option<u64>,
) -> Result<(Period, FirstRun), Error> {
    let responses = Responses::new(case.machine, asked).picking(near);
    let (_, _, chosen) = explain::observe(case, runs, asked, responses, &STOP)?;
    let none = || {
        let message = format!("--diff: no thread woke up under {}", case.scheduler.name());
        Error::Input(Box::new(BadInput::whole(
            message,
            "expected a workload with a thread that sleeps, or another --task",
        )))
    };
    let response = chosen.picked.ok_or_else(none)?;
    let (waits, chosen) = explain::parts(&response);
    let windows = explain::windows(&waits, &chosen);
    let mut chains = Chains::new(windows, [], case.machine.cpus.len());
    let mut recorder = Recorder::new(case.machine, response.to, 2);
    lab::explain_until(case, runs, &mut Both(&mut chains, &mut recorder), &STOP)?;
    let (chains, _) = chains.finish();
    let scheduler = (case.scheduler.name(), !case.scheduler.is_foreign());
    let period = Period::new(case.machine, scheduler, response, chains).ok_or_else(none)?;
    Ok((period, recorder.finish()))
}

impl From<Unexplained> for Error {
    fn from(why: Unexplained) -> Error {
        match why {
            Unexplained::Run(failure) => failure.into(),
            Unexplained::Thread(unknown) => unknown_thread(&unknown),
        }
    }
}

fn unknown_thread(unknown: &Unknown) -> Error {
    let names = unknown.names.iter().map(String::as_str);
    Error::Input(Box::new(BadInput::whole(
        format!("--task {}: no thread has this name", unknown.thread),
        input::one_of(&unknown.thread, names),
    )))
}
