//! `equipoise reproduce`.

use crate::cli::{Format, Output, Reproduce};
use crate::error::Error;
use crate::foreign;
use crate::interrupt;
use crate::output::{self, All, Document, Staged};
use crate::progress::Progress;
use crate::say;
use lab::{Case, Experiment, Reproduction};

pub fn run(args: Reproduce, output: &Output) -> Result<(), Error> {
    output::check_trace(args.runs.trace.as_deref())?;
    let start = foreign::start();
    let experiments = lab::select(&args.experiments, args.rows.as_ref(), args.scale, &start)?;
    // The other formats contain the remarks.
    if output.format == Format::Csv {
        for sentence in experiments
            .iter()
            .flat_map(|experiment| &experiment.left_out)
        {
            say!("equipoise: warning: {sentence}");
        }
    }
    let runs = |experiment: &Experiment| args.runs.or(experiment.runs);
    let count: usize = experiments
        .iter()
        .map(|experiment| experiment.cases().len() * runs(experiment).count as usize)
        .sum();
    // All experiments take hours, in which nothing else is printed if standard error is not a terminal.
    if args.experiments.is_empty() {
        let all: Vec<&str> = experiments.iter().map(|it| it.name.as_str()).collect();
        say!(
            "equipoise: {count} runs of the experiments {}",
            all.join(", ")
        );
    }
    let progress = Progress::new(count);
    interrupt::listen();
    let mut reproductions: Vec<Reproduction> = experiments
        .into_iter()
        .map(|experiment| {
            let runs = runs(&experiment);
            progress.watch(|watch| Reproduction::run(experiment, runs, watch))
        })
        .collect::<Result<_, _>>()?;
    drop(progress);
    reproductions.retain(|reproduction| reproduction.runs.count > 0);
    if reproductions.is_empty() {
        return interrupt::check();
    }
    let staged = match &args.runs.trace {
        Some(file) => {
            let several = reproductions.len() > 1;
            let cases: Vec<_> = reproductions
                .iter()
                .flat_map(|reproduction| named_cases(&reproduction.experiment, several))
                .collect();
            output::trace(file, &cases, &args.runs.or(None))?
        }
        None => Staged::default(),
    };
    let documents: Vec<Document<'_>> = reproductions
        .iter()
        .map(|reproduction| Document {
            name: output::file_name(&reproduction.experiment.name),
            page: report::reproduction(reproduction),
            json: Box::new(|| report::json::reproductions(std::slice::from_ref(reproduction))),
            csv: Box::new(|| report::csv::reproductions(std::slice::from_ref(reproduction))),
        })
        .collect();
    let all = All {
        json: Box::new(|| report::json::reproductions(&reproductions)),
        csv: Box::new(|| report::csv::reproductions(&reproductions)),
    };
    output::emit(output, &documents, Some(all), staged)?;
    interrupt::check()
}

/// The cases of `experiment`, named after block, row and column and, if there are `several` experiments, after the
/// experiment.
fn named_cases(experiment: &Experiment, several: bool) -> Vec<(String, Case<'_>)> {
    let of = match several {
        true => format!("{}.", experiment.name),
        false => String::new(),
    };
    let of = of.as_str();
    let names = experiment.loads().into_iter().flat_map(|(block, row)| {
        experiment.columns_of(block).flat_map(move |column| {
            let name = format!("{of}{}.{}.{}", block.name, row.name, column.name);
            column
                .schedulers()
                .map(move |scheduler| match column.against {
                    Some(_) => format!("{name}.{}", scheduler.name()),
                    None => name.clone(),
                })
        })
    });
    names.zip(experiment.cases()).collect()
}
