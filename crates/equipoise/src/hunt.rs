//! `equipoise hunt`.

use crate::cli::{Hunt, Output};
use crate::error::Error;
use crate::foreign;
use crate::interrupt::{self, STOP};
use crate::output::{self, Staged};
use crate::say;
use indicatif::{ProgressBar, ProgressStyle};
use lab::{Against, Budget, By, Ground, Prey, Question, Scheduler, Victim};
use machine::input::{self, BadInput};
use machine::{Machine, counted};
use report::{Page, Table};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The time between two lines about the progress, if there is no progress bar.
const BETWEEN_LINES: Duration = Duration::from_secs(10);
const RUNS: u32 = 10;

pub fn run(args: Hunt, output: &Output) -> Result<(), Error> {
    output::expect_text(output)?;
    let ground = |named: &String| {
        Machine::find(named).map(|machine| Ground {
            machine,
            named: named.clone(),
        })
    };
    let grounds: Vec<Ground> = args.machines.iter().map(ground).collect::<Result<_, _>>()?;
    let scheduler = foreign::or_policy(args.scheduler.as_ref(), &args.policy, &args.build)?;
    let against = against(&args)?;
    check_energy(&args, &grounds)?;
    if args.scheduler.is_none() && args.policy == args.against {
        return Err(bad(
            format!(
                "--against {}: this is the hunted policy itself",
                args.against
            ),
            "expected a different policy for --against or for --policy",
        ));
    }
    let question = Question {
        scheduler: &scheduler,
        against: &against,
        by: args.by,
        realtime: !args.no_realtime.unwrap_or(!args.by.judges_realtime()),
        seed: args.seed,
        noise: !args.noise.exact,
        start: &foreign::start(),
        stop: &STOP,
    };
    if let Some(file) = &args.load {
        return measure(&args, &question, &grounds, file, output);
    }
    // The folder of --out has been checked, and need not exist yet.
    if args.file.is_some() || output.out.is_none() {
        output::check_file(args.file.as_deref().unwrap_or(Path::new("hunt.json")))?;
    }
    interrupt::listen();
    match search(&args, &question, &grounds)? {
        Some(prey) => write(&args, &question, &prey, output)?,
        None => say!(
            "no load found on which {} does worse than {}",
            scheduler.name(),
            args.against
        ),
    }
    interrupt::check()
}

fn search<'a>(
    args: &Hunt,
    question: &Question<'_>,
    grounds: &'a [Ground],
) -> Result<Option<Prey<'a>>, Error> {
    let budget = Budget {
        time: args.seconds,
        batches: args.batches,
    };
    let bar = bar(args.seconds);
    let said = Mutex::new(Instant::now());
    let prey = lab::hunt(question, grounds, budget, &|tried, factor| {
        let message = format!(
            "{tried} loads tried, worst in a few runs: {}",
            times(factor)
        );
        bar.set_position(bar.elapsed().as_secs());
        bar.set_message(message.clone());
        let mut said = said.lock().expect("no other panics with it");
        if bar.is_hidden() && said.elapsed() >= BETWEEN_LINES {
            *said = Instant::now();
            say!("{message}");
        }
    });
    bar.finish_and_clear();
    Ok(prey?)
}

fn write(
    args: &Hunt,
    question: &Question<'_>,
    prey: &Prey<'_>,
    output: &Output,
) -> Result<(), Error> {
    let name = question.scheduler.name();
    let Ground { machine, named } = prey.ground;
    let path = match (&args.file, &output.out) {
        (Some(file), _) => file.clone(),
        (None, folder) => {
            let name = format!("hunt-{}-{name}-{}.json", machine.name, args.by.name());
            let folder = folder.as_deref().unwrap_or(Path::new(""));
            fs::create_dir_all(folder).map_err(|error| Error::write(folder, &error))?;
            let path = folder.join(output::file_name(&name));
            output::free_name(&path, |it| !it.exists())
        }
    };
    let again = again(args, named, &path);
    let victim = question.victim(prey.ground, &prey.rt_app(""))?;
    let what = sentence(name, args, prey.factor, &machine.name, victim.as_ref());
    let why = victim
        .as_ref()
        .map(|victim| why(args, named, &path, victim));
    let comment = format!(
        "{what} Found by `equipoise hunt` with seed {}.\nTo measure it again: {again}{}",
        args.seed,
        why.as_ref()
            .map_or(String::new(), |why| format!("\n{TO_SEE_WHY}{why}"))
    );
    let mut staged = Staged::default();
    staged.add(&path, |out| {
        out.write_all(prey.rt_app(&comment).as_bytes())
            .map_err(|error| Error::write(&path, &error))
    })?;
    staged.commit()?;
    let runs = match prey.searched {
        Some(factor) => format!("{RUNS} runs (a few runs of the search: {})", times(factor)),
        None => "only a few runs, because the hunt was stopped".to_owned(),
    };
    let page = Page {
        title: what,
        notes: vec![format!(
            "{}; {}; {} loads were tried; written to {}",
            counted(prey.threads, "thread", "threads"),
            runs,
            prey.tried,
            path.display()
        )],
        tables: vec![table(name, args, &[(&machine.name, prey.factor)])],
        verdict: victim.iter().map(|victim| said_of(name, victim)).collect(),
        remarks: std::iter::once(format!("again: {again}"))
            .chain(why.map(|why| format!("why: {why}")))
            .collect(),
        ..Page::default()
    };
    output::show(output, "hunt", page)
}

fn measure(
    args: &Hunt,
    question: &Question<'_>,
    grounds: &[Ground],
    file: &Path,
    output: &Output,
) -> Result<(), Error> {
    if matches!(question.against, Against::Limit) {
        return Err(bad(
            "--against limit: the limit of a file is not known".to_owned(),
            "expected the name of a policy",
        ));
    }
    let text = input::read(file, "rt-app file")?;
    let shown = input::shown(file);
    let load = workload::parse("load", &shown, &text, None)?;
    let name = question.scheduler.name();
    let mut factors = Vec::new();
    let (mut verdict, mut remarks) = (Vec::new(), Vec::new());
    for ground in grounds {
        let Ground { machine, named } = ground;
        load.check(machine)?;
        interrupt::listen();
        let factor = question.factor(ground, &text, RUNS, None)?;
        interrupt::check()?;
        let Some(factor) = factor else {
            return Err(bad(
                format!(
                    "{shown}: {} cannot be measured for this load",
                    args.by.name()
                ),
                match args.by {
                    By::Share => {
                        "expected a thread that is not real-time, and computes for 1 % of the time or more"
                    }
                    By::Wait => {
                        "expected a load in which no thread stalls under the policy of --against"
                    }
                    By::Time | By::Energy => {
                        "expected a load that ends by itself under both policies"
                    }
                },
            ));
        };
        if let Some(victim) = question.victim(ground, &text)? {
            verdict.push(said_of(name, &victim));
            remarks.push(format!("why: {}", why(args, named, file, &victim)));
        }
        factors.push((machine.name.as_str(), factor));
    }
    let page = Page {
        title: format!("{name} against {}, {shown}", args.against),
        notes: vec![format!("{RUNS} runs, seed {}", args.seed)],
        verdict,
        tables: vec![table(name, args, &factors)],
        remarks,
        ..Page::default()
    };
    output::show(output, "hunt", page)
}

/// A factor, as in "3.33 times as bad".
fn times(factor: f64) -> String {
    match factor >= lab::STOPPED {
        true => "a stall".to_owned(),
        false => format!("{factor:.2} times as bad"),
    }
}

fn table(name: &str, args: &Hunt, factors: &[(&str, f64)]) -> Table {
    let header = ["machine", "policy", "against", "by", "times as bad"];
    let row = |(machine, factor): &(&str, f64)| {
        vec![
            (*machine).into(),
            name.into(),
            args.against.as_str().into(),
            args.by.name().into(),
            match *factor >= lab::STOPPED {
                true => "stall".into(),
                false => format!("{factor:.2}").into(),
            },
        ]
    };
    Table {
        header: header.map(str::to_owned).to_vec(),
        text_columns: 4,
        rows: factors.iter().map(row).collect(),
        ..Table::default()
    }
}

/// A sentence about the thread that suffers most, in the first run.
fn said_of(name: &str, victim: &Victim) -> String {
    let Victim {
        thread,
        since_ns,
        wait_ns,
        stalls,
    } = victim;
    let since = *since_ns as f64 / 1e9;
    match stalls {
        true => {
            format!("Under {name}, {thread} was runnable and did not run from {since:.2} s on.")
        }
        // The wait is so short that it would be printed as 0.
        false if *wait_ns < 50_000 => format!("Under {name}, {thread} hardly waits for a CPU."),
        false => format!(
            "Under {name}, {thread} waited for {:.1} ms from {since:.3} s on.",
            *wait_ns as f64 / 1e6
        ),
    }
}

/// The beginning of the line in a hunt's file that has the command of [`why`].
const TO_SEE_WHY: &str = "To see why: ";

/// The thread that suffers most, if `workload` is a file that a hunt has written.
pub fn victim(workload: &str) -> Option<String> {
    let text = std::fs::read_to_string(workload).ok()?;
    let line = text.lines().find(|line| line.contains(TO_SEE_WHY))?;
    let (_, after) = line.split_once(" --task ")?;
    after.split_whitespace().next().map(str::to_owned)
}

/// The command that shows why `victim` waited.
fn why(args: &Hunt, machine: &str, path: &Path, victim: &Victim) -> String {
    let at = (victim.since_ns + victim.wait_ns / 2) as f64 / 1e9;
    let (path, seed) = (path.to_string_lossy(), args.seed.to_string());
    let (thread, at) = (&victim.thread, format!("{at:.6}s"));
    let load = ["--workload", &path, "--seed", &seed];
    let wait = ["--task", thread, "--at", &at];
    command(args, "explain", machine, &[load, wait].concat())
}

/// The command that measures the load in `path` again.
fn again(args: &Hunt, machine: &str, path: &Path) -> String {
    let (path, seed) = (path.to_string_lossy(), args.seed.to_string());
    let (by, runs) = (args.by.name(), RUNS.to_string());
    match args.against.as_str() {
        "limit" => {
            let options = ["--workload", &path, "--runs", &runs, "--seed", &seed];
            command(args, "compare", machine, &options)
        }
        against => {
            let other = ["--against", against, "--by", by];
            let load = ["--load", &path, "--seed", &seed];
            command(args, "hunt", machine, &[other, load].concat())
        }
    }
}

/// A command about the hunted scheduler, which a shell can run.
fn command(args: &Hunt, subcommand: &str, machine: &str, options: &[&str]) -> String {
    let mut words = vec!["equipoise", subcommand, "--machine", machine];
    let scheduler = foreign::options(args.scheduler.as_ref(), &args.policy, &args.build);
    words.extend(scheduler.iter().map(String::as_str));
    words.extend(options);
    if args.noise.exact {
        words.push("--exact");
    }
    // Only a NUL cannot be quoted, and no argument of a program has one.
    shlex::try_join(words.iter().copied()).unwrap_or_else(|_| words.join(" "))
}

fn sentence(
    name: &str,
    args: &Hunt,
    factor: f64,
    machine: &str,
    victim: Option<&Victim>,
) -> String {
    if factor >= lab::STOPPED || victim.is_some_and(|victim| victim.stalls) {
        let but = match args.against.as_str() {
            "limit" => String::new(),
            policy => format!(", but none stalls under {policy}"),
        };
        return format!("Threads stall under {name} on {machine}{but}.");
    }
    let against = match args.against.as_str() {
        "limit" => "the shortest possible time".to_owned(),
        policy => format!("under {policy}"),
    };
    match args.by {
        By::Time => format!(
            "The threads take {factor:.2} times as long under {name} as {against} on {machine}."
        ),
        By::Energy => format!(
            "The threads use {factor:.2} times as much energy under {name} as {against} on \
             {machine}."
        ),
        By::Wait => format!(
            "The longest wait is {factor:.2} times as long under {name} as {against} on {machine}."
        ),
        By::Share => format!(
            "Under {name} a thread gets 1/{factor:.2} of the CPU time that it gets {against} on \
             {machine}."
        ),
    }
}

fn against(args: &Hunt) -> Result<Against, Error> {
    match (args.against.as_str(), args.by) {
        ("limit", By::Time) => Ok(Against::Limit),
        ("limit", _) => Err(bad(
            format!(
                "--against limit: there is no limit for --by {}",
                args.by.name()
            ),
            "expected --by time, or the name of a policy",
        )),
        (policy, _) => {
            let policy = Scheduler::policy_in(policy, args.build.kernel)?;
            Ok(Against::Scheduler(Box::new(policy)))
        }
    }
}

fn check_energy(args: &Hunt, grounds: &[Ground]) -> Result<(), Error> {
    let mut machines = grounds.iter().map(|ground| &ground.machine);
    let unknown = machines.find(|machine| machine.power.is_none());
    match unknown.filter(|_| args.by == By::Energy) {
        Some(machine) => Err(bad(
            format!(
                "--by energy: the power of machine `{}` is not known",
                machine.name
            ),
            "expected a machine file with a section [power]",
        )),
        None => Ok(()),
    }
}

fn bad(message: String, expected: &str) -> Error {
    Error::Input(Box::new(BadInput::whole(message, expected)))
}

/// Shows the time and the worst load so far, on a terminal only.
fn bar(time: Duration) -> ProgressBar {
    let bar = ProgressBar::new(time.as_secs());
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} s, {msg}") {
        bar.set_style(style);
    }
    bar
}
