//! `equipoise trial`: this computer's own load under the schedulers of its kernel, in turn.

mod predict;
mod show;
mod tune;

use crate::cli::{Output, Trial, TrialAction};
use crate::error::Error;
use crate::interrupt::{self, STOP};
use crate::output::{self, Staged};
use crate::say;
use ::trial::bundle::{Bundle, Tuning};
use ::trial::linux::{Linux, Load, Options, SchedulerCosts};
use ::trial::{About, Fault, Measured, Outcome, Plan, Scheduler};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use lab::Results;
use machine::counted;
use machine::input::{self, BadInput};
use recorder::busy::Watch;
use report::{Page, Shown};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The default number of blocks; [`MOST_ROUNDS`] is the default number with --until-decided.
const ROUNDS: u32 = 10;
const MOST_ROUNDS: u32 = 100;
/// The time for which other load is observed before the first block.
const IDLE: Duration = Duration::from_secs(1);
/// The number of CPUs kept busy by other processes above which a warning is given.
const MOST_OTHERS_CPUS: f64 = 0.2;
const MOST_STOLEN_PCT: f64 = 5.0;

pub fn run(mut args: Trial, output: &Output) -> Result<(), Error> {
    match args.action.take() {
        Some(TrialAction::Show { files, goal, all }) => {
            let goal = goal.map(Into::into);
            show::bundles(&files, Shown { goal, all }, output)
        }
        None => measure(&args, output),
    }
}

/// Runs the trial, and shows its results, even if the trial ended early.
fn measure(args: &Trial, output: &Output) -> Result<(), Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let itself = std::env::current_exe().ok();
    let beside = itself.as_deref().and_then(Path::parent);
    let find = |program: &str| ::trial::find(program, beside, &path);
    let plan = plan(args, schedulers(args, &path, &find)?);
    let (load, name) = load(args, &find)?;
    let watches = matches!(load, Load::Watch(_));
    if let Some(file) = &args.bundle {
        show::check_bundle(file)?;
    }
    interrupt::listen();
    let mut kernel = Linux::new(options(args, load), &plan.schedulers, &STOP)?;
    let before = kernel.conditions().clone();
    for warning in before.warnings().into_iter().chain(busy(watches)) {
        say!("warning: {warning}");
    }
    let predictor = predictor(args, &plan, &mut kernel, &find)?;
    let outcome = blocks(&mut kernel, &plan, args.watch);
    let about = About {
        load: name,
        machine: computer(),
        conditions: before.notes(),
        cost: kernel.cost().cloned(),
    };
    let trace = kernel.trace().map(<[u8]>::to_vec);
    let costs = kernel.scheduler_costs();
    drop(kernel);
    let measured = Measured::new(&outcome);
    let shown = Shown {
        goal: args.goal.map(Into::into),
        all: args.all,
    };
    let mut page = ::trial::page(&about, &plan, &outcome, &measured, shown);
    let done = Done {
        plan: &plan,
        about: &about,
        outcome: &outcome,
        measured: &measured,
        trace,
        costs,
    };
    // The results are shown even if one of the following steps fails.
    let mut tuning = None;
    let simulator = predictor.as_ref();
    let simulated = simulate(&mut page, args, &find, simulator, &done, &mut tuning);
    if let Some(tuning) = &tuning {
        tune::add(&mut page, &about, tuning, shown);
    }
    let (staged, bundled) = match bundle(args, simulator, &done, tuning.as_ref()) {
        Ok(staged) => (staged, Ok(())),
        Err(error) => (Staged::default(), Err(error)),
    };
    output::show_with(output, "trial", page, staged)?;
    if let Some(file) = args.bundle.as_ref().filter(|_| bundled.is_ok()) {
        say!("written: {}", file.display());
    }
    ended(outcome.ended).and(simulated).and(bundled)
}

/// Measures this computer for predictions and tuning, if the command line asks for them.
fn predictor(
    args: &Trial,
    plan: &Plan,
    kernel: &mut Linux,
    find: &dyn Fn(&str) -> Option<PathBuf>,
) -> Result<Option<predict::Predictor>, Error> {
    if !args.predict && !args.tune {
        return Ok(None);
    }
    let predictor = predict::Predictor::new(plan)?;
    if let Some(program) = find("scx_equipoise") {
        kernel.measure_costs(program, predictor.host_cpus);
    }
    Ok(Some(predictor))
}

struct Done<'a> {
    plan: &'a Plan,
    about: &'a About,
    outcome: &'a Outcome,
    measured: &'a Measured,
    /// A recorded turn under the kernel's own scheduler, if there is one.
    trace: Option<Vec<u8>>,
    costs: BTreeMap<String, SchedulerCosts>,
}

/// Adds predictions to the `page` of the trial, and puts the results of tuning into `tuning`, if the command line asks
/// for them.
fn simulate(
    page: &mut Page,
    args: &Trial,
    find: &dyn Fn(&str) -> Option<PathBuf>,
    predictor: Option<&predict::Predictor>,
    done: &Done<'_>,
    tuning: &mut Option<Tuning>,
) -> Result<(), Error> {
    let Done {
        plan,
        outcome,
        measured,
        ..
    } = *done;
    let Some(predictor) = predictor.filter(|_| !outcome.blocks.is_empty()) else {
        return Ok(());
    };
    let trace = done.trace.as_deref();
    if args.predict {
        let results = Results::new(names(plan, outcome), &measured.measures, &measured.runs);
        predictor.add(page, trace, &results, outcome, &done.costs)?;
    }
    let Some(trace) = trace.filter(|_| args.tune) else {
        return Ok(());
    };
    let tuned = tuning.insert(tune::tune(predictor, trace, args.watch.is_some())?);
    let Some(best) = &tuned.best else {
        return Ok(());
    };
    let (plan, outcome) = beside_defaults(args, plan, find, best)?;
    let fault = outcome.ended.clone();
    tuned.measured = Some((plan, outcome));
    ended(fault)
}

/// The bundle, if the command line asks for one, in a file that does not have its final name yet.
fn bundle(
    args: &Trial,
    predictor: Option<&predict::Predictor>,
    done: &Done<'_>,
    tuning: Option<&Tuning>,
) -> Result<Staged, Error> {
    let Some(file) = &args.bundle else {
        return Ok(Staged::default());
    };
    let bundle = Bundle::new(done.about, done.plan, done.outcome, tuning, args.names);
    show::stage(file, &bundle, done.trace.as_deref(), predictor, args.names)
}

fn options(args: &Trial, load: Load) -> Options {
    Options {
        load,
        frames: args.frames.clone(),
        record: args.record.into(),
        keeps: args.predict || args.tune || args.bundle.is_some(),
        load_limit: args.load_limit,
    }
}

/// Runs the trial, and shows which block runs: as a bar or, if standard error is not a terminal, as a line for each.
fn blocks(kernel: &mut Linux, plan: &Plan, watch: Option<Duration>) -> Outcome {
    let count = plan.rounds + 1;
    let most = if plan.until_decided { "at most " } else { "" };
    let turns = plan.schedulers.len() as u32;
    let about = watch.map(|time| {
        let all = HumanDuration(time * turns * count);
        format!(" of {} s: {most}about {all}", time.as_secs_f64())
    });
    let turns = counted(turns as usize, "turn", "turns");
    let about = about.unwrap_or_default();
    say!("{most}{count} blocks, the first of which is dropped, of {turns}{about}");
    let bar = ProgressBar::new(count.into());
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {msg}") {
        bar.set_style(style);
    }
    let began = Instant::now();
    let next = |done: u32| {
        let mut says = format!("block {} of {most}{count}", done + 1);
        if done > 0 && !plan.until_decided {
            let left = began.elapsed() * (count - done) / done;
            says += &format!(", about {} left", HumanDuration(left));
        }
        if bar.is_hidden() && done < count {
            say!("{says}");
        }
        bar.set_position(done.into());
        bar.set_message(says);
    };
    next(0);
    let outcome = ::trial::run(kernel, plan, &mut |it| next(it.blocks.len() as u32 + 1));
    bar.finish_and_clear();
    outcome
}

/// Measures the policy `best` beside the policy that it extends, in a trial like that of `plan`.
fn beside_defaults(
    args: &Trial,
    plan: &Plan,
    find: &dyn Fn(&str) -> Option<PathBuf>,
    best: &str,
) -> Result<(Plan, Outcome), Error> {
    let schedulers = [tune::TUNED, best].map(|it| Scheduler::parse(it, find));
    let plan = Plan {
        schedulers: schedulers.into_iter().collect::<Result<_, _>>()?,
        ..plan.clone()
    };
    let (load, _) = load(args, find)?;
    let mut kernel = Linux::new(options(args, load), &plan.schedulers, &STOP)?;
    let outcome = blocks(&mut kernel, &plan, args.watch);
    Ok((plan, outcome))
}

fn plan(args: &Trial, schedulers: Vec<Scheduler>) -> Plan {
    let rounds = match args.until_decided {
        true => MOST_ROUNDS,
        false => ROUNDS,
    };
    Plan {
        schedulers,
        rounds: args.rounds.unwrap_or(rounds),
        until_decided: args.until_decided,
        seed: args.seed.unwrap_or_else(clock),
    }
}

/// The names of the schedulers that had a turn in every block.
fn names<'a>(plan: &'a Plan, outcome: &Outcome) -> Vec<&'a str> {
    let schedulers = outcome.schedulers.iter();
    schedulers.map(|&it| &*plan.schedulers[it].name).collect()
}

fn ended(fault: Option<Fault>) -> Result<(), Error> {
    match fault {
        None => Ok(()),
        Some(Fault::Stopped) => Err(Error::Stopped),
        Some(Fault::Command(why) | Fault::System(why) | Fault::Scheduler(why)) => {
            Err(Error::Write(format!("the trial ended early: {why}")))
        }
    }
}

/// The schedulers that the command line names or, if it names none, the installed ones.
fn schedulers(
    args: &Trial,
    path: &[PathBuf],
    find: &dyn Fn(&str) -> Option<PathBuf>,
) -> Result<Vec<Scheduler>, Error> {
    let parsed = args.schedulers.iter().map(|it| Scheduler::parse(it, find));
    let mut schedulers: Vec<Scheduler> = parsed.collect::<Result<_, _>>()?;
    if args.schedulers.is_empty() {
        schedulers = ::trial::installed(path, find);
        if schedulers.is_empty() {
            return Err(bad(
                "no sched_ext scheduler is installed".to_owned(),
                "expected scx_equipoise beside this program or on PATH, or --scheduler with a loader",
            ));
        }
    }
    Ok(::trial::named(schedulers))
}

/// The load, and the name of the load.
fn load(args: &Trial, find: &dyn Fn(&str) -> Option<PathBuf>) -> Result<(Load, String), Error> {
    if let Some(time) = args.watch {
        let name = format!("this computer's load for {} s", time.as_secs_f64());
        return Ok((Load::Watch(time), name));
    }
    let command: Vec<OsString> = match &args.load {
        Some(file) => {
            // A file that cannot be read is reported before anything is loaded.
            input::read(file, "rt-app file")?;
            vec!["rt-app".into(), file.into()]
        }
        None => args.command.clone(),
    };
    let program = command[0].to_string_lossy().into_owned();
    if find(&program).is_none() {
        let expected = match &args.load {
            Some(_) => "expected rt-app to be installed, which plays the file",
            None => "expected a command that can be run",
        };
        return Err(bad(format!("no program `{program}`"), expected));
    }
    let words: Vec<String> = command
        .iter()
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    Ok((Load::Command(command), words.join(" ")))
}

/// A warning if other processes keep this computer busy. If the trial `watches`, their activity is the load, so there is
/// no warning.
fn busy(watches: bool) -> Option<String> {
    let watch = Watch::begin().filter(|_| !watches)?;
    sleep(IDLE);
    let others = watch.others(None)?;
    let is_busy = others.cpus > MOST_OTHERS_CPUS || others.stolen_pct > MOST_STOLEN_PCT;
    is_busy.then(|| {
        format!(
            "this computer is busy: {}; a trial then takes more blocks to find a difference than on an idle computer",
            others.words()
        )
    })
}

fn clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |now| now.as_micros() as u64 % 1_000_000)
}

/// This computer's CPU or board, and kernel, in words.
fn computer() -> String {
    let files = [
        "/proc/cpuinfo",
        "/sys/firmware/devicetree/base/model",
        "/proc/sys/kernel/osrelease",
    ];
    named(files.map(|file| std::fs::read_to_string(file).unwrap_or_default()))
}

/// The name of the computer with this cpuinfo, which has no name of the CPU on 64-bit Arm and RISC-V; with this board
/// in its device tree, if any; and with this kernel.
fn named([cpus, board, release]: [String; 3]) -> String {
    let mut lines = cpus.lines().filter_map(|line| line.split_once(':'));
    let model = lines.find(|(key, _)| key.trim() == "model name");
    let names = [
        model.map_or("", |(_, name)| name.trim()),
        board.trim_end_matches('\0').trim(),
    ];
    let name = names.into_iter().find(|it| !it.is_empty());
    format!(
        "{}, Linux {}",
        name.unwrap_or("this computer"),
        release.trim()
    )
}

fn bad(message: String, expected: &str) -> Error {
    Error::Input(Box::new(BadInput::whole(message, expected)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_whose_cpus_have_no_name_differ() {
        let name = |cpus: &str, board: &str| named([cpus, board, "6.12.9\n"].map(str::to_owned));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n";
        let laptop = "processor\t: 0\nmodel name\t: A CPU @ 3 GHz\n";
        assert_eq!(name(laptop, ""), "A CPU @ 3 GHz, Linux 6.12.9");
        assert_eq!(name(arm, "Radxa ROCK 5B\0"), "Radxa ROCK 5B, Linux 6.12.9");
        assert_eq!(name(arm, ""), "this computer, Linux 6.12.9");
    }
}
