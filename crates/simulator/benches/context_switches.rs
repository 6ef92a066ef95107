//! How fast the simulator is: hackbench on TC2 under each policy, in context switches a second of one
//! core (criterion's "elements").

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use machine::Machine;
use native::Object;
use policy::Policy;
use simulator::{Config, Outcome, run};
use std::hint::black_box;
use workload::Workload;

fn simulate(machine: &Machine, workload: &dyn Workload, policy: &Policy) -> Outcome {
    let config = Config {
        machine,
        workload,
        scheduler: Object::equipoise(),
        globals: &policy.globals(machine),
        read: &[],
        seed: 1,
        time_limit_ns: u64::MAX,
        trace: None,
    };
    run(config).expect("hackbench runs")
}

fn hackbench(criterion: &mut Criterion) {
    let machine = Machine::find("tc2").expect("it is built in");
    let workload = workload::load("hackbench").expect("it is built in");
    let mut group = criterion.benchmark_group("hackbench on tc2");
    group.sample_size(20);
    for name in Policy::names() {
        let policy = Policy::find(name).expect("it is built in");
        let switches = simulate(&machine, &*workload, &policy)
            .counters
            .context_switches;
        group.throughput(Throughput::Elements(switches));
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(simulate(&machine, &*workload, &policy)));
        });
    }
    group.finish();
}

criterion_group!(benches, hackbench);
criterion_main!(benches);
