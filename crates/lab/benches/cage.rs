//! The cost of running a scheduler in C in a process without privileges, compared with a run in
//! this process: CPU time of this process and its children, and wall time, as medians over pairs of
//! runs. `--pairs N` measures N pairs of each load (default: 15).

use lab::{Comparison, Described, Recipe, Runs, Scheduler, Start, Watch};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The argument that makes this program a worker of itself.
const WORKER: &str = "--simulate-elsewhere";

const MACHINE: &str = "tc2";

/// A very short load, which shows the cost of a process, and a load that takes seconds.
const LOADS: [&str; 2] = ["busy:duration=10ms", "hackbench:groups=4,loops=10000"];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == WORKER) {
        return ExitCode::from(lab::work());
    }
    let pairs = words.iter().position(|word| word == "--pairs");
    let pairs = pairs.map_or(15, |at| words[at + 1].parse().expect("--pairs: a number"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decisions/slices.bpf.c");
    let inside = Scheduler::foreign(&[&file], &[]).expect("it compiles");
    for load in LOADS {
        let recipe = Recipe {
            machine: Described::Named(MACHINE.to_owned()),
            workload: Described::Named(load.to_owned()),
            nodes: None,
        };
        let mut taken = Vec::new();
        for pair in 0..=pairs {
            let of_inside = run(inside.clone(), &recipe);
            let mut outside = inside.clone();
            outside.run_elsewhere(&recipe, &start());
            let of_outside = run(outside, &recipe);
            // The first run fills caches.
            if pair > 0 {
                taken.push((of_inside, of_outside));
            }
        }
        println!("{load} on {MACHINE}, {pairs} pairs, medians:");
        for (what, of) in [("CPU time", cpu as fn(&Taken) -> f64), ("time", wall)] {
            let inside = median(taken.iter().map(|(inside, _)| of(inside)));
            let more = median(
                taken
                    .iter()
                    .map(|(inside, outside)| of(outside) - of(inside)),
            );
            println!(
                "  {what}: {inside:.1} ms in this process, {more:+.1} ms ({:+.1} %) in its own",
                100.0 * more / inside
            );
        }
    }
    ExitCode::SUCCESS
}

fn start() -> Start {
    Arc::new(|| {
        let mut command = Command::new("/proc/self/exe");
        command.arg(WORKER).env_clear();
        command
    })
}

struct Taken {
    cpu: Duration,
    wall: Duration,
}

fn cpu(taken: &Taken) -> f64 {
    1e3 * taken.cpu.as_secs_f64()
}

fn wall(taken: &Taken) -> f64 {
    1e3 * taken.wall.as_secs_f64()
}

/// The cost of a run, from the machine's description to the end of its process.
fn run(scheduler: Scheduler, recipe: &Recipe) -> Taken {
    let (began, cpu) = (Instant::now(), used());
    let (machine, workload) = recipe.make().expect("it is built in");
    let runs = Runs {
        count: 1,
        seed: 1,
        jobs: 1,
        noise: false,
    };
    let done = Comparison::run(machine, workload, vec![scheduler], runs, Watch::none());
    drop(done.expect("it runs"));
    Taken {
        cpu: used() - cpu,
        wall: began.elapsed(),
    }
}

/// CPU time of this process and of the children that have ended.
fn used() -> Duration {
    let of = |target| {
        // SAFETY: the structure has only numbers, for which zeroes are valid; the call writes them.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(target, &raw mut usage);
            usage
        };
        [usage.ru_utime, usage.ru_stime].map(|time| {
            Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
        })
    };
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .into_iter()
        .flat_map(of)
        .sum()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
