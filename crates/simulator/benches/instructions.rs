//! The simulator's work in machine instructions, for each context switch or message operation of hackbench. Unlike
//! time, the number of instructions does not depend on the machine's other load, and depends little on the machine.
//!
//! Each load runs at two lengths under valgrind's callgrind. The difference of the instructions, divided by the
//! difference of the switches or operations, is the cost of one. The rest of the shorter run is the cost of starting up
//! ("boot"). The last column is the time of one in the same way, from the best of a few runs of each length without
//! callgrind. Unlike the instructions, it depends on the machine.
//!
//! `cargo bench -p equipoise-simulator --bench instructions -- NAME...` measures only the loads whose names contain one
//! of the given names.

use machine::Machine;
use machines::{SIZES, large};
use policy::Policy;
use simulator::{Config, Outcome, run};
use std::collections::HashMap;
use std::process::{Command, ExitCode};
use std::time::Instant;
use workload::Workload;
use workload::rtapp::RtApp;

mod machines;

/// The shortest duration of a run, which includes some ticks.
const SHORTEST_NS: u64 = 20_000_000;

/// The number of timed runs of a load.
const TIMES: usize = 3;

#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Switch,
    /// Messages sent and messages received.
    Operation,
}

enum Kind {
    /// Two pairs of tasks per CPU; the tasks of a pair wake each other.
    Pairs,
    /// A hundred pairs of tasks per CPU, each with one runnable task.
    Crowd,
    /// Periodic tasks that keep the CPUs busy for about nine tenths of the time.
    Periodic,
    Hackbench,
}

struct Load {
    name: String,
    machine: Machine,
    kind: Kind,
    policy: &'static str,
    /// The tasks of the load are in a control group.
    grouped: bool,
}

impl Load {
    fn all() -> Vec<Load> {
        let find = |name: &str| Machine::find(name).expect("it is built in");
        let load = |name: &str, on: &str, machine: Machine, kind| Load {
            name: format!("{name} on {on}"),
            machine,
            kind,
            policy: "cfs",
            grouped: false,
        };
        // The runqueues of another scheduler may have another structure.
        let eevdf = |load: Load| Load {
            name: format!("{}, eevdf", load.name),
            policy: "eevdf",
            ..load
        };
        let grouped = |load: Load| Load {
            name: format!("{}, in a group", load.name),
            grouped: true,
            ..load
        };
        let mut loads = vec![
            load("pairs", "smp-8", find("smp-8"), Kind::Pairs),
            load("periodic", "smp-8", find("smp-8"), Kind::Periodic),
            load("hackbench", "tc2", find("tc2"), Kind::Hackbench),
            load("crowd", "smp-8", find("smp-8"), Kind::Crowd),
            eevdf(load("pairs", "smp-8", find("smp-8"), Kind::Pairs)),
            eevdf(load("periodic", "smp-8", find("smp-8"), Kind::Periodic)),
            eevdf(load("hackbench", "tc2", find("tc2"), Kind::Hackbench)),
            eevdf(load("crowd", "smp-8", find("smp-8"), Kind::Crowd)),
            grouped(load("pairs", "smp-8", find("smp-8"), Kind::Pairs)),
            grouped(eevdf(load("pairs", "smp-8", find("smp-8"), Kind::Pairs))),
        ];
        for (packages, cores) in SIZES {
            let machine = large(packages, cores);
            let on = format!("{} CPUs", machine.cpus.len());
            loads.push(load("pairs", &on, machine.clone(), Kind::Pairs));
            loads.push(load("periodic", &on, machine, Kind::Periodic));
        }
        loads
    }

    fn unit(&self) -> Unit {
        match self.kind {
            Kind::Pairs | Kind::Crowd | Kind::Periodic => Unit::Switch,
            Kind::Hackbench => Unit::Operation,
        }
    }

    /// The workload, `length` times as long as the shortest. On most machines its number of
    /// switches grows in proportion.
    fn workload(&self, length: u64) -> Box<dyn Workload> {
        let cpus = self.machine.cpus.len();
        let duration_ns = |on_one_cpu: u64| (on_one_cpu / cpus as u64).max(SHORTEST_NS) * length;
        let group = if self.grouped {
            r#""taskgroup": "/group", "#
        } else {
            ""
        };
        match self.kind {
            Kind::Pairs => rt_app(&pairs(2 * cpus, group), duration_ns(1_000_000_000)),
            Kind::Crowd => rt_app(&pairs(100 * cpus, group), duration_ns(1_000_000_000)),
            Kind::Periodic => {
                // Two busy threads of a core do 1.25 times the work of one.
                let threads = self.machine.siblings(0).count();
                let tasks = if threads == 1 { 3 * cpus } else { 2 * cpus };
                rt_app(&periodic(tasks), duration_ns(8_000_000_000))
            }
            Kind::Hackbench => {
                models::load(&format!("hackbench:loops={}", 10 * length)).expect("it is built in")
            }
        }
    }

    fn units(&self, outcome: &Outcome, length: u64) -> u64 {
        match self.unit() {
            Unit::Switch => outcome.counters.context_switches,
            // Ten groups of 20 senders, which write to 20 receivers each.
            Unit::Operation => 2 * 10 * 20 * 20 * 10 * length,
        }
    }
}

fn rt_app(tasks: &str, duration_ns: u64) -> Box<dyn Workload> {
    let text = format!(r#"{{ "tasks": {{ {tasks} }} }}"#);
    let parsed = RtApp::parse("load", "load", &text, Some(duration_ns));
    Box::new(parsed.unwrap_or_else(|bad| panic!("{bad:?}")))
}

/// `number` pairs of tasks that wake each other; one runs for 20 us while the other sleeps. `group` is their key for a
/// control group, if any.
fn pairs(number: usize, group: &str) -> String {
    let pair = |number| {
        format!(
            r#""a{number}": {{ {group}"loop": -1, "run": 20, "resume": "b{number}", "suspend": "a{number}" }},
               "b{number}": {{ {group}"loop": -1, "suspend": "b{number}", "run": 20, "resume": "a{number}" }}"#
        )
    };
    (0..number).map(pair).collect::<Vec<_>>().join(", ")
}

/// `number` tasks that run for 300 us every ms.
fn periodic(number: usize) -> String {
    format!(
        r#""periodic": {{ "instance": {number}, "loop": -1, "run": 300,
           "timer": {{ "ref": "unique", "period": 1000 }} }}"#
    )
}

/// The cost of one run.
#[derive(Clone, Copy, Default)]
struct Taken {
    units: u64,
    /// The best time of a few runs without callgrind.
    ns: u64,
    instructions: Instructions,
}

#[derive(Clone, Copy, Default)]
struct Instructions {
    total: u64,
    /// The instructions of the scheduler in C, and of the workload's programs.
    scheduler: u64,
    programs: u64,
}

/// Runs the load in the measured process, and prints the number of units and the time.
fn measured(name: &str, length: u64) {
    let loads = Load::all();
    let load = loads.iter().find(|load| load.name == name);
    let load = load.expect("the load of which the measuring process told");
    let workload = load.workload(length);
    let policy = Policy::find(load.policy).expect("it is built in");
    let start = Instant::now();
    let (scheduler, globals) = (policy.object().unwrap(), policy.globals(&load.machine));
    let config = Config::new(&load.machine, &*workload, scheduler, &globals);
    let outcome = run(config).expect("the load runs");
    let ns = start.elapsed().as_nanos();
    println!("{} {ns}", load.units(&outcome, length));
}

fn measure(load: &Load, length: u64) -> Result<Taken, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let own = own.to_str().ok_or("a path that is not UTF-8")?;
    let length = length.to_string();
    let arguments = [own, MEASURED, &load.name, &length];
    let mut taken = Taken {
        ns: u64::MAX,
        ..Taken::default()
    };
    for _ in 0..TIMES {
        let printed = call(&arguments)?;
        let mut numbers = printed.split_whitespace().flat_map(str::parse);
        taken.units = numbers.next().ok_or("no number of units")?;
        taken.ns = taken.ns.min(numbers.next().ok_or("no time")?);
    }
    let profile = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let out = format!("--callgrind-out-file={}", profile.path().display());
    let mut callgrind = vec!["valgrind", "-q", "--tool=callgrind", "--dump-line=no", &out];
    callgrind.extend(arguments);
    call(&callgrind)?;
    let profile = std::fs::read_to_string(profile.path()).map_err(|error| error.to_string())?;
    taken.instructions = instructions(&profile)?;
    Ok(taken)
}

fn call(command: &[&str]) -> Result<String, String> {
    let output = Command::new(command[0])
        .args(&command[1..])
        .output()
        .map_err(|error| {
            let program = command[0];
            format!("{program}: {error}; expected valgrind to be installed (apt install valgrind)")
        })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}\n{said}", command.join(" "), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Adds up callgrind's profile (the "Callgrind Format Specification" of valgrind's manual). Code that belongs to no
/// file is the scheduler, which is loaded from memory. The cost of programs is the inclusive cost of the calls to them.
fn instructions(profile: &str) -> Result<Instructions, String> {
    let mut names = HashMap::new();
    let mut found = Instructions::default();
    let (mut in_scheduler, mut in_kernel, mut calls_program) = (false, false, false);
    let mut lines = profile.lines();
    while let Some(line) = lines.next() {
        if let Some((key, value)) = line.split_once('=') {
            let name = match value.split_once(") ") {
                Some((number, name)) => {
                    // Files and functions are numbered separately; "cfn" counts as "fn", and "cob" as "ob".
                    names.insert((key.trim_start_matches('c').to_owned(), number), name);
                    name
                }
                None => {
                    let number = value.trim_end_matches(')');
                    let key = key.trim_start_matches('c').to_owned();
                    names.get(&(key, number)).copied().unwrap_or(value)
                }
            };
            match key {
                "ob" => in_scheduler = name == "???" || name.contains("memfd:"),
                "fn" => in_kernel = name.contains("simulator::"),
                "cfn" => calls_program = name.contains("workload::Program>::next"),
                "calls" => {
                    let inclusive = cost(lines.next().unwrap_or_default())?;
                    if calls_program && in_kernel {
                        found.programs += inclusive;
                    }
                }
                _ => {}
            }
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            let own = cost(line)?;
            found.total += own;
            if in_scheduler {
                found.scheduler += own;
            }
        }
    }
    Ok(found)
}

/// Returns the cost in a line of the profile: its second column, after the line number.
fn cost(line: &str) -> Result<u64, String> {
    let cost = line.split_whitespace().nth(1).unwrap_or("0");
    cost.parse()
        .map_err(|_| format!("callgrind's profile has `{line}`; expected a cost"))
}

fn report(load: &Load) -> Result<(), String> {
    let (short, long) = (measure(load, 1)?, measure(load, 2)?);
    let units = (long.units - short.units) as f64;
    let each = |of: fn(&Taken) -> u64| (of(&long) as f64 - of(&short) as f64) / units;
    let total = each(|taken| taken.instructions.total);
    let scheduler = each(|taken| taken.instructions.scheduler);
    let programs = each(|taken| taken.instructions.programs);
    let boot = short.instructions.total as f64 - total * short.units as f64;
    println!(
        "{:<28} {:<9} {total:>8.0} {scheduler:>10.0} {:>8.0} {programs:>9.0} {:>8.1} {:>8.0}",
        load.name,
        match load.unit() {
            Unit::Switch => "switch",
            Unit::Operation => "operation",
        },
        total - scheduler - programs,
        boot / 1e6,
        each(|taken| taken.ns),
    );
    Ok(())
}

/// The first argument of the measured process.
const MEASURED: &str = "--measured";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [MEASURED, name, length] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        measured(name, length.parse().expect("a length"));
        return ExitCode::SUCCESS;
    }
    // Cargo adds "--bench".
    let wanted: Vec<_> = arguments
        .iter()
        .filter(|wanted| !wanted.starts_with("--"))
        .collect();
    println!(
        "Instructions a context switch (a message operation of hackbench); boot in millions\n"
    );
    println!(
        "{:<28} {:<9} {:>8} {:>10} {:>8} {:>9} {:>8} {:>8}",
        "load", "each", "all", "scheduler", "kernel", "programs", "boot", "ns"
    );
    for load in Load::all() {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| load.name.contains(*wanted)) {
            continue;
        }
        if let Err(error) = report(&load) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
