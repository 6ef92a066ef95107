//! `equipoise machine|workload|policy list|show|check` and `equipoise scheduler list|fetch`.

use crate::cli::{Catalog, Output, SchedulerAction};
use crate::error::Error;
use crate::output;
use crate::say;
use lab::Peer;
use machine::input::BadInput;
use machine::{Machine, counted};
use policy::Policy;
use report::{Page, Table};
use std::path::PathBuf;
use workload::recording::{Recording, Step, Thread};
use workload::{Better, Param, Workload};

pub fn machine(action: Catalog, output: &Output) -> Result<(), Error> {
    match action {
        Catalog::List => {
            let machines =
                Machine::names().map(|name| Ok((name, Machine::find(name)?.description)));
            list(
                "machines",
                &[("", machines.collect::<Result<_, Error>>()?)],
                Vec::new(),
                output,
            )
        }
        Catalog::Show { name, source: true } => {
            let is_builtin = Machine::names().any(|machine| machine == name);
            let (_, text) = Machine::source(&name)?;
            source(output, &name, "toml", is_builtin.then_some(&text))
        }
        Catalog::Show { name, .. } => {
            let machine = Machine::find(&name)?;
            output::show(output, &machine.name, report::machine(&machine))
        }
        Catalog::Check { files, strict } => check("machine", &files, output, |file| {
            let machine = Machine::load(file.as_ref())?;
            let gaps = machine.gaps();
            let gaps = gaps.iter().map(|gap| format!("{file}: {gap}"));
            let warnings: Vec<String> = machine.warnings.iter().cloned().chain(gaps).collect();
            for warning in &warnings {
                say!("warning: {warning}");
            }
            if strict && !warnings.is_empty() {
                let count = counted(warnings.len(), "warning", "warnings");
                return Err(Box::new(BadInput::whole(
                    format!("{file}: {count}, and --strict is set"),
                    "expected a description without warnings",
                )));
            }
            Ok(format!(
                "machine {}, {}",
                machine.name,
                counted(machine.all_cpus().count(), "CPU", "CPUs")
            ))
        }),
    }
}

pub fn workload(action: Catalog, output: &Output) -> Result<(), Error> {
    match action {
        Catalog::List => list(
            "workloads",
            &[("", models::builtin().collect())],
            Vec::new(),
            output,
        ),
        Catalog::Show { name, source: true } => {
            source(output, &name, "json", models::source(&name))
        }
        Catalog::Show { name, .. } => {
            let workload = models::load(&name)?;
            let page = workload_page(&name, workload.as_ref());
            output::show(output, &output::file_name(&name), page)
        }
        Catalog::Check { files, .. } => check("workload", &files, output, |file| {
            let workload = models::load_file(file.as_ref(), None)?;
            Ok(format!(
                "workload {}: {}",
                workload.name(),
                workload.description()
            ))
        }),
    }
}

/// The note about frequencies: only kernel/sched/cpufreq_schedutil.c reads the value of `scx_bpf_cpuperf_set()`.
const SCHEDUTIL_ALONE: &str = "these take effect only under the governor schedutil";

pub fn policy(action: Catalog, output: &Output) -> Result<(), Error> {
    match action {
        Catalog::List => {
            let mut set = Vec::new();
            let mut described = |name: &'static str| {
                let policy = Policy::find(name)?;
                if policy.sets_frequencies() {
                    set.push(name);
                }
                Ok((name, policy.description))
            };
            let usual = Policy::usual().map(&mut described);
            let usual = usual.collect::<Result<_, Error>>()?;
            let published = Policy::published().map(&mut described);
            let published = published.collect::<Result<_, Error>>()?;
            let note = format!("{} set frequencies; {SCHEDUTIL_ALONE}", set.join(", "));
            let tables = [
                ("", usual),
                ("Published designs and their kernels", published),
            ];
            list("policies", &tables, vec![note], output)
        }
        Catalog::Show { name, source: true } => {
            source(output, &name, "toml", Policy::source(&name))
        }
        Catalog::Show { name, .. } => {
            let policy = Policy::find(&name)?;
            output::show(output, &policy.name, policy_page(&policy))
        }
        Catalog::Check { files, .. } => check("policy", &files, output, |file| {
            let policy = Policy::load(file.as_ref())?;
            Ok(format!("policy {}: {}", policy.name, policy.description))
        }),
    }
}

pub fn scheduler(action: SchedulerAction, output: &Output) -> Result<(), Error> {
    let peers: Result<Vec<Peer>, _> = match &action {
        SchedulerAction::Fetch { schedulers } if !schedulers.is_empty() => {
            schedulers.iter().map(|name| Peer::find(name)).collect()
        }
        _ => Peer::names().map(Peer::find).collect(),
    };
    let peers = peers?;
    if matches!(action, SchedulerAction::Fetch { .. }) {
        lab::fetch_sources(&peers, &|line| say!("{line}")).map_err(Error::Fetch)?;
    }
    let rows = peers.iter().map(|peer| {
        let sources = match peer.missing() {
            None => peer.folder().display().to_string(),
            Some(_) => "not fetched".to_owned(),
        };
        vec![peer.name().into(), sources.into()]
    });
    let page = Page {
        title: "schedulers".to_owned(),
        tables: vec![table("", &["name", "sources"], rows.collect())],
        ..Page::default()
    };
    output::show(output, "schedulers", page)
}

/// Prints the file of the built-in `name`, which is `text`.
fn source(
    output: &Output,
    name: &str,
    extension: &str,
    text: Option<impl AsRef<str>>,
) -> Result<(), Error> {
    match text {
        Some(text) => output::write_text(output, &format!("{name}.{extension}"), text.as_ref()),
        None => Err(Error::Input(Box::new(BadInput::whole(
            format!("--source: `{name}` has no built-in file"),
            "expected a built-in name that is not a program's model",
        )))),
    }
}

/// Shows a table for each title: the names, each with a one-line description.
fn list(
    what: &str,
    tables: &[(&str, Vec<(&str, String)>)],
    notes: Vec<String>,
    output: &Output,
) -> Result<(), Error> {
    let row = |(name, about): &(&str, String)| vec![(*name).into(), about.as_str().into()];
    let tables = tables.iter().map(|(title, entries)| {
        let rows = entries.iter().map(row).collect();
        table(title, &["name", "description"], rows)
    });
    let page = Page {
        title: what.to_owned(),
        notes,
        tables: tables.collect(),
        ..Page::default()
    };
    output::show(output, what, page)
}

/// Shows a row for each file that is well-formed, and an error for each other file.
fn check(
    kind: &str,
    files: &[PathBuf],
    output: &Output,
    read: impl Fn(&str) -> Result<String, Box<BadInput>>,
) -> Result<(), Error> {
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    for file in files {
        let file = file.to_string_lossy();
        match read(&file) {
            Ok(found) => rows.push(vec![file.as_ref().into(), found.into()]),
            Err(error) => errors.push(other_kind(kind, &file).unwrap_or(error)),
        }
    }
    let page = Page {
        title: "well-formed".to_owned(),
        tables: vec![table("", &["file", "what"], rows)],
        ..Page::default()
    };
    let last = errors.pop();
    if last.is_none() || !page.tables[0].rows.is_empty() {
        output::show(output, "check", page)?;
    }
    for error in errors {
        Error::Input(error).report();
    }
    last.map_or(Ok(()), |error| Err(error.into()))
}

/// The error about a file that is not of this `kind`, but is a well-formed file of another kind.
fn other_kind(kind: &str, file: &str) -> Option<Box<BadInput>> {
    let is_other = |&other: &&str| {
        other != kind
            && match other {
                "machine" => Machine::load(file.as_ref()).is_ok(),
                "policy" => Policy::load(file.as_ref()).is_ok(),
                _ => file.contains(['/', '.']) && models::load(file).is_ok(),
            }
    };
    let other = ["machine", "policy", "workload"]
        .into_iter()
        .find(is_other)?;
    Some(Box::new(BadInput::whole(
        format!("{file} is a {other} file, not a {kind} file"),
        format!("expected a {kind} file; `equipoise {other} check` reads this file"),
    )))
}

/// The duration that the load states, if any. A load that does not fit the machine `smp-8` states no duration.
fn duration(workload: &dyn Workload) -> Option<String> {
    let machine = Machine::find("smp-8").ok()?;
    workload.check(&machine).ok()?;
    let ns = workload.start(&machine).duration_ns?;
    Some(format!("ends after {} s", ns as f64 / 1e9))
}

fn workload_page(name: &str, workload: &dyn Workload) -> Page {
    let metrics = workload.metrics().iter().map(|metric| {
        let better = match metric.better {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neither => "-",
        };
        vec![
            (&*metric.name).into(),
            metric.unit.name().into(),
            better.into(),
        ]
    });
    let base = name.split(':').next().unwrap_or(name);
    let params: &[Param] = match workload.recording().is_some() || models::parts(name).len() > 1 {
        // A recording has no parameters, and each of several loads has its own.
        true => &[],
        false => models::parameters(base),
    };
    let params = params.iter().map(|param| {
        vec![
            param.name.into(),
            param.show(param.default).into(),
            param.help.into(),
        ]
    });
    let periods = workload.recording().and_then(periods);
    let mut tables: Vec<Table> = periods.into_iter().collect();
    tables.extend([
        table("Metrics", &["metric", "unit", "better"], metrics.collect()),
        table(
            "Parameters",
            &["name", "default", "meaning"],
            params.collect(),
        ),
    ]);
    tables.retain(|table| !table.rows.is_empty());
    Page {
        title: format!("{}: {}", workload.name(), workload.description()),
        notes: duration(workload)
            .into_iter()
            .chain(workload.notes())
            .collect(),
        tables,
        ..Page::default()
    }
}

/// The table of the periods of a recording's threads, which determine the periods that are missed.
fn periods(recording: &Recording) -> Option<Table> {
    let row = |thread: &Thread| {
        let period = thread.period?;
        let waker = period.woken_by.and_then(|it| recording.threads.get(it));
        let begun = |step: &&Step| matches!(step, Step::Release);
        Some(vec![
            (&*thread.name).into(),
            format!("{:.3}", period.ns as f64 / 1e6).into(),
            format!("{:.1}", 1e9 / period.ns as f64).into(),
            thread.steps.iter().filter(begun).count().to_string().into(),
            period
                .confidence
                .map_or("set".to_owned(), |it| format!("{it} %"))
                .into(),
            waker.map_or("a timer", |waker| &waker.name).into(),
        ])
    };
    let mut rows: Vec<Vec<report::Cell>> = recording.threads.iter().filter_map(row).collect();
    rows.sort_by(|a, b| a[0].text.cmp(&b[0].text));
    let header = ["thread", "ms", "Hz", "wakeups", "confidence", "woken by"];
    (!rows.is_empty()).then(|| Table {
        text_columns: 1,
        ..table("Periods", &header, rows)
    })
}

fn policy_page(policy: &Policy) -> Page {
    let rows = policy.settings.list().map(|(setting, value)| {
        let value = setting.show(value);
        vec![(&*setting.key).into(), value.into(), setting.meaning.into()]
    });
    Page {
        title: format!("{}: {}", policy.name, policy.description),
        notes: match policy.sets_frequencies() {
            true => vec![format!("It sets frequencies; {SCHEDUTIL_ALONE}")],
            false => Vec::new(),
        },
        tables: vec![table(
            "Settings",
            &["name", "value", "meaning"],
            rows.collect(),
        )],
        ..Page::default()
    }
}

fn table(title: &str, header: &[&str], rows: Vec<Vec<report::Cell>>) -> Table {
    Table {
        title: title.to_owned(),
        header: header.iter().map(|name| name.to_string()).collect(),
        text_columns: header.len(),
        rows,
        ..Table::default()
    }
}
