//! The simulator's speed, in context switches per second of one core (criterion's "elements"). The loads are hackbench
//! on TC2 under each policy, and hackbench on machines of increasing size.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use machine::{Machine, Memory};
use machines::{SIZES, large};
use policy::Policy;
use simulator::{Config, Outcome, run};
use std::hint::black_box;
use workload::Workload;

mod machines;

fn simulate(machine: &Machine, workload: &dyn Workload, policy: &Policy) -> Outcome {
    let scheduler = policy.object().expect("it is built in");
    let globals = policy.globals(machine);
    run(Config::new(machine, workload, scheduler, &globals)).expect("hackbench runs")
}

fn bench(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: impl Into<String>,
    machine: &Machine,
    workload: &str,
    policy: &str,
) {
    let workload = models::load(workload).expect("it is built in");
    let policy = Policy::find(policy).expect("it is built in");
    let switches = simulate(machine, &*workload, &policy)
        .counters
        .context_switches;
    group.throughput(Throughput::Elements(switches));
    group.bench_function(name, |bencher| {
        bencher.iter(|| black_box(simulate(machine, &*workload, &policy)));
    });
}

fn policies(criterion: &mut Criterion) {
    let machine = Machine::find("tc2").expect("it is built in");
    let mut group = criterion.benchmark_group("hackbench on tc2");
    group.sample_size(20);
    for policy in Policy::names() {
        bench(&mut group, policy, &machine, "hackbench", policy);
    }
}

/// The costs of cache lines and locks of `hp-8s-80c-ht`, with equal distances between all packages.
fn memory(packages: usize) -> Memory {
    let hp = Machine::find("hp-8s-80c-ht").expect("it is built in");
    let hp = hp.numa.memory.expect("it describes its memory");
    let (near, far) = (hp.line_ns[0][0], hp.line_ns[0][2]);
    let line = |a, b| if a == b { near } else { far };
    let line_ns = (0..packages).map(|a| (0..packages).map(|b| line(a, b)).collect());
    Memory {
        line_ns: line_ns.collect(),
        ..hp
    }
}

/// Measures machines of all sizes, with twenty tasks per CPU and about the same number of messages on every machine.
fn sizes(criterion: &mut Criterion, name: &str, memory: impl Fn(usize) -> Option<Memory>) {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10);
    for (packages, cores) in SIZES {
        let mut machine = large(packages, cores);
        machine.numa.memory = memory(packages);
        let cpus = machine.cpus.len();
        let workload = format!("hackbench:groups={},loops={}", cpus / 2, 5 * 1024 / cpus);
        bench(&mut group, cpus.to_string(), &machine, &workload, "cfs");
    }
}

fn free_memory(criterion: &mut Criterion) {
    sizes(criterion, "hackbench by CPUs", |_| None);
}

fn shared_memory(criterion: &mut Criterion) {
    sizes(
        criterion,
        "hackbench by CPUs, shared memory costs",
        |packages| Some(memory(packages)),
    );
}

criterion_group!(benches, policies, free_memory, shared_memory);
criterion_main!(benches);
