//! Runs random loads on random machines under every policy, and checks the simulation's invariants after each event,
//! until a limit of time or cases (`make soak`). Prints the amount of work at the end. A failing case is made as small
//! as possible and saved, with the seed that finds it again.

use clap::Parser;
use policy::Policy;
use proptest::test_runner::{RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use simulator::{Check, Config, Counters};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use workload::arbitrary::rt_app_json;

#[path = "../tests/conformance/case.rs"]
mod case;

use case::{Case, case, config};

/// Run random loads on random machines under every policy, and check invariants
#[derive(Parser)]
struct Args {
    /// Begin no case after this many hours.
    #[arg(long, default_value_t = 1.0)]
    hours: f64,
    /// Run at most this many cases.
    #[arg(long, default_value_t = u64::MAX)]
    cases: u64,
    /// Make the first case from this seed, and each further case from the next number.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Run this many threads [default: one for each CPU].
    #[arg(long)]
    jobs: Option<usize>,
    /// Write failing cases to this folder.
    #[arg(long, default_value = concat!(env!("CARGO_TARGET_TMPDIR"), "/soak"))]
    out: PathBuf,
    /// Cargo passes this to a benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The work done so far.
#[derive(Default)]
struct Done {
    cases: AtomicU64,
    runs: AtomicU64,
    events: AtomicU64,
    failures: AtomicU64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.unwrap_or(cpus);
    let end = Instant::now() + Duration::from_secs_f64(args.hours * 3600.0);
    let done = Done::default();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= args.cases || Instant::now() >= end {
                        return;
                    }
                    soak(args.seed.wrapping_add(number), &args.out, &done);
                }
            });
        }
    });
    let Done {
        cases,
        runs,
        events,
        failures,
    } = done;
    let failures = failures.into_inner();
    println!(
        "{} machines with a load each, {} runs, {} events: {failures} failed",
        cases.into_inner(),
        runs.into_inner(),
        events.into_inner(),
    );
    ExitCode::from(u8::from(failures != 0))
}

/// Runs the case of `seed` under every policy. A failing case is written to `out`.
fn soak(seed: u64, out: &Path, done: &Done) {
    done.cases.fetch_add(1, Ordering::Relaxed);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config(1), rng);
    let failed = runner.run(&case(), |case| {
        Policy::names().try_for_each(|name| {
            let events = run(&case, name)
                .map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
            done.runs.fetch_add(1, Ordering::Relaxed);
            done.events.fetch_add(events, Ordering::Relaxed);
            Ok(())
        })
    });
    if let Err(failed) = failed {
        done.failures.fetch_add(1, Ordering::Relaxed);
        let text = match &failed {
            TestError::Fail(reason, case) => describe(seed, reason.message(), case),
            TestError::Abort(reason) => format!("seed {seed}: {reason}\n"),
        };
        let file = out.join(format!("{seed}.txt"));
        match std::fs::create_dir_all(out).and_then(|()| std::fs::write(&file, &text)) {
            Ok(()) => eprintln!(
                "{}: {}",
                file.display(),
                text.lines().next().unwrap_or_default()
            ),
            Err(error) => eprintln!("{}: {error}\n{text}", file.display()),
        }
    }
}

fn describe(seed: u64, reason: &str, case: &Case) -> String {
    format!(
        "seed {seed}: {reason}\n\nAgain: make soak SOAK=\"--cases 1 --seed {seed}\"\n\nThe load:\n{}\n\nThe machine:\n{:#?}\n",
        rt_app_json(case.workload_seed, case.tasks, &case.machine.all_cpus()),
        case.machine
    )
}

/// Runs `case` under the policy `name`. Returns the number of events.
fn run(case: &Case, name: &str) -> Result<u64, String> {
    let policy = Policy::find(name).map_err(|bad| bad.to_string())?;
    let workload = case.workload();
    let (scheduler, globals) = (policy.object().unwrap(), policy.globals(&case.machine));
    let config = Config {
        seed: case.seed,
        time_limit_ns: 600_000_000_000,
        ..Config::new(&case.machine, &*workload, scheduler, &globals)
    };
    let outcome =
        simulator::run_checked(config, Check::INVARIANTS).map_err(|error| error.to_string())?;
    Ok(events(&outcome.counters))
}

fn events(counters: &Counters) -> u64 {
    counters.context_switches
        + counters.migrations
        + counters.wakeups
        + counters.ticks
        + counters.forks
        + counters.frequency_transitions
        + counters.dl_throttled
}
