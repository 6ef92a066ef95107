//! Bundles of trials: written to a file, and shown.

use super::predict::Predictor;
use super::tune;
use crate::cli::Output;
use crate::error::Error;
use crate::output::{self, Staged};
use ::trial::bundle::{Bundle, More};
use ::trial::{Measured, Outcome};
use lab::Results;
use machine::input::BadInput;
use report::{Cell, Page, Shown, Table, Tone};
use std::path::{Path, PathBuf};
use trace::import::import;

/// Returns an error unless `file` can be written and its name is that of a bundle.
pub fn check_bundle(file: &Path) -> Result<(), Error> {
    match file.to_string_lossy().ends_with(".tar.zst") {
        true => output::check_file(file),
        false => Err(Error::Input(Box::new(BadInput::whole(
            format!("--bundle {}: unknown kind of file", file.display()),
            "expected a name that ends in .tar.zst",
        )))),
    }
}

/// Writes the bundle to a file that does not have its final name yet. `trace` is a recorded turn, and `predictor` has
/// measured the machine's costs.
pub fn stage(
    file: &Path,
    bundle: &Bundle,
    trace: Option<&[u8]>,
    predictor: Option<&Predictor>,
    names: bool,
) -> Result<Staged, Error> {
    let (machine, recording) = match predictor {
        Some(it) => (it.machine_file().to_owned(), trace.map(|of| it.load(of))),
        None => {
            let found = crate::detect::this()?.machine_file("detected");
            let load = |of| Ok(import("the recording", of, None)?.recording);
            (found.text, trace.map(load))
        }
    };
    let recording = recording.and_then(Result::ok);
    let shown = Shown {
        goal: None,
        all: true,
    };
    let more = More {
        machine: Some(machine),
        recording: recording.as_ref(),
        page: report::html("trial", &[page(bundle, shown)]),
    };
    let bytes = bundle.write(&more, names);
    let mut staged = Staged::default();
    staged.add(file, |out| {
        let written = bytes.and_then(|bytes| out.write_all(&bytes));
        written.map_err(|error| Error::write(file, &error))
    })?;
    Ok(staged)
}

/// Shows one bundle as its trial, or several bundles as one table.
pub fn bundles(files: &[PathBuf], shown: Shown, output: &Output) -> Result<(), Error> {
    let read = files.iter().map(|file| Bundle::read(file));
    let bundles: Vec<Bundle> = read.collect::<Result<_, _>>()?;
    let page = match bundles.as_slice() {
        [one] => page(one, shown),
        several => together(several, shown),
    };
    output::show(output, "trials", page)
}

fn page(bundle: &Bundle, shown: Shown) -> Page {
    let Bundle {
        about,
        plan,
        outcome,
        tuning,
        ..
    } = bundle;
    let mut page = ::trial::page(about, plan, outcome, &Measured::new(outcome), shown);
    if let Some(tuning) = tuning {
        tune::add(&mut page, about, tuning, shown);
    }
    page
}

/// A table with a row for each trial and scheduler, and a column for each goal.
fn together(bundles: &[Bundle], shown: Shown) -> Page {
    let goals = [
        workload::Goal::Throughput,
        workload::Goal::Latency,
        workload::Goal::Energy,
    ];
    let goals: Vec<_> = goals
        .into_iter()
        .filter(|goal| shown.goal.is_none_or(|one| one == *goal))
        .collect();
    let mut rows = Vec::new();
    for bundle in bundles {
        let measured = Measured::new(&bundle.outcome);
        let names = super::names(&bundle.plan, &bundle.outcome);
        let results = Results::new(names, &measured.measures, &measured.runs);
        for scheduler in 1..results.schedulers.len() {
            let cell = |goal: &workload::Goal| change(&results, *goal, scheduler);
            let mut row: Vec<Cell> = vec![
                bundle.about.machine.clone().into(),
                bundle.about.load.clone().into(),
                results.schedulers[scheduler].into(),
                bundle.outcome.blocks.len().to_string().into(),
            ];
            row.extend(goals.iter().map(cell));
            rows.push(row);
        }
        rows.extend(failures(bundle, &bundle.outcome, goals.len()));
    }
    let mut header = ["machine", "load", "scheduler", "blocks"]
        .map(str::to_owned)
        .to_vec();
    header.extend(
        goals
            .iter()
            .map(|goal| report::json::goal_name(*goal).to_owned()),
    );
    Page {
        title: format!("{} trials", bundles.len()),
        tables: vec![Table {
            title: "Changes".to_owned(),
            header,
            text_columns: 3,
            rows,
            ..Table::default()
        }],
        remarks: vec![
            "Each change is relative to the kernel's own scheduler on the same machine, in time, latency or energy, \
             with its 95 % confidence interval."
                .to_owned(),
        ],
        ..Page::default()
    }
}

fn change(results: &Results<'_>, goal: workload::Goal, scheduler: usize) -> Cell {
    let verdict = results.verdict.of(goal);
    let Some((verdict, change)) = verdict.and_then(|it| Some((it, it.change(0, scheduler)?)))
    else {
        return Cell::new("-", Tone::Dim);
    };
    report::change(
        Some(change),
        verdict.is_better(scheduler, 0),
        verdict.is_better(0, scheduler),
    )
}

fn failures(bundle: &Bundle, outcome: &Outcome, goals: usize) -> Vec<Vec<Cell>> {
    let row = |removed: &::trial::Removed| {
        let name = bundle.plan.schedulers[removed.scheduler].name.clone();
        let mut row: Vec<Cell> = vec![
            bundle.about.machine.clone().into(),
            bundle.about.load.clone().into(),
            format!("{name}: {}", removed.why).into(),
            Cell::new("failed", Tone::Worse),
        ];
        row.extend((0..goals).map(|_| Cell::new("-", Tone::Dim)));
        row
    };
    outcome.removed.iter().map(row).collect()
}
