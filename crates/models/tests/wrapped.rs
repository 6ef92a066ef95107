//! Tests of joined, bound and noisy workloads on models.

use machine::Machine;
use models::load;
use workload::fake::{self, Kernel};
use workload::{Env, Op, TaskSpec, Workload, bind, with_noise};

#[test]
fn each_measures_what_it_measures_alone() {
    let [one, two] = [
        "sysbench-cpu:requests=3,request=5ms",
        "hackbench:groups=1,loops=5",
    ];
    let both = load(&format!("{one}+{two}+{one}")).unwrap();
    let names: Vec<&str> = both.metrics().iter().map(|m| &*m.name).collect();
    assert_eq!(names[1], format!("{one}/request_latency"));
    let run = |name: &str| {
        let workload = load(name).unwrap();
        let kernel = Kernel::run(&*workload, 64);
        (0..workload.metrics().len())
            .map(|metric| kernel.recorder.samples(metric).len())
            .collect::<Vec<_>>()
    };
    let alone = [run(one), run(two), run(one)].concat();
    let kernel = Kernel::run(&*both, 64);
    let together: Vec<usize> = (0..both.metrics().len())
        .map(|metric| kernel.recorder.samples(metric).len())
        .collect();
    assert_eq!(together, alone);
}

#[test]
fn groups_of_the_same_path_are_one() {
    let both = load("busy:group=/a/b,weight=50+busy:group=/a+busy:group=/a/b").unwrap();
    let groups = both.start(&fake::machine(4)).groups;
    let seen: Vec<_> = groups
        .iter()
        .map(|group| (&*group.name, group.parent, group.weight))
        .collect();
    assert_eq!(seen, [("a", None, 100), ("b", Some(0), 50)]);
}

/// A quota counts even if another load has already given its group a weight.
#[test]
fn loads_set_their_group_together() {
    for both in [
        "busy:group=/a,weight=50+busy:group=/a,quota=2",
        "busy:group=/a,quota=2+busy:group=/a,weight=50",
    ] {
        let groups = load(both).unwrap().start(&fake::machine(4)).groups;
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].weight, 50, "{both}");
        let quota_us = groups[0].max.map(|max| max.quota_us);
        assert_eq!(quota_us, Some(200_000), "{both}");
    }
}

#[test]
fn the_shortest_duration_ends_all() {
    let both = load("mixed:duration=3+spinners:duration=2").unwrap();
    let start = both.start(&fake::machine(4));
    assert_eq!(start.duration_ns, Some(2_000_000_000));
}

#[test]
fn a_part_that_is_wrong_is_named() {
    let error = load("mixed+no-such-thing").err().unwrap();
    assert!(error.message().contains("no-such-thing"), "{error}");
    assert!(load("mixed+").is_err());
}

#[test]
fn first_tasks_are_bound_unless_they_choose() {
    let machine = Machine::find("smp-2x8").unwrap();
    let cpus = machine.nodes()[1];
    for name in ["hackbench", "rt-and-fair"] {
        let free = load(name).unwrap().start(&machine).tasks;
        let bound = bind(load(name).unwrap(), "1");
        assert!(bound.check(&machine).is_ok());
        let bound = bound.start(&machine).tasks;
        assert_eq!(free.len(), bound.len());
        for (free, bound) in free.iter().zip(&bound) {
            assert_eq!(bound.affinity, Some(free.affinity.unwrap_or(cpus)));
        }
    }
}

#[test]
fn bindings_outside_the_nodes_are_noted() {
    let machine = Machine::find("smp-2x8").unwrap();
    let notes = |cpus: &str| {
        let load = load(&format!("mixed:cpus={cpus}")).unwrap();
        bind(load, "1").notes_on(&machine)
    };
    assert!(notes("8-9").is_empty());
    for cpus in ["0-1", "0-8"] {
        let says = notes(cpus);
        let note = format!("bound to CPUs {cpus}. They run there, also outside node 1.");
        assert!(says[0].ends_with(&note), "{says:?}");
    }
}

fn affinities(mut task: TaskSpec, env: &mut Env, asked: &mut Vec<String>) {
    loop {
        match task.program.next(env) {
            Op::SetAffinity(cpus) => asked.push(cpus.to_string()),
            Op::Fork { child, .. } => affinities(*child, env, asked),
            Op::Exit => return,
            _ => {}
        }
    }
}

/// rt-app's default is the affinity with which it begins.
#[test]
fn a_phase_without_cpus_stays_on_the_nodes() {
    let json = r#"{ "tasks": {
        "a": { "loop": 1, "phases": { "one": { "cpus": [0, 9], "run": 10 }, "any": { "fork": "b", "run": 10 } } },
        "b": { "instance": 0, "loop": 1, "phases": { "one": { "cpus": [9], "run": 10 }, "any": { "run": 10 } } } } }"#;
    let machine = Machine::find("smp-2x8").unwrap();
    let load = bind(workload::parse("t", "t.json", json, None).unwrap(), "1");
    assert!(load.check(&machine).is_ok());
    let start = load.start(&machine);
    let mut env = Env::new(start.shared, 1, load.metrics());
    let mut asked = Vec::new();
    for task in start.tasks {
        affinities(task, &mut env, &mut asked);
    }
    assert_eq!(asked, ["0,9", "8-15", "9", "8-15"]);
}

fn end(name: &str, seed: Option<u64>) -> u64 {
    let workload = load(name).unwrap();
    match seed {
        Some(seed) => Kernel::run(&with_noise(&*workload, seed), 4).now,
        None => Kernel::run(&*workload, 4).now,
    }
}

#[test]
fn runs_differ_by_the_seed_only_and_by_little() {
    for name in [
        "sysbench-cpu:requests=200,threads=4",
        "hackbench:groups=1,loops=20",
    ] {
        let exact = end(name, None);
        let noisy: Vec<u64> = (0..5).map(|seed| end(name, Some(seed))).collect();
        assert!(
            noisy.windows(2).all(|two| two[0] != two[1]),
            "{name}: {noisy:?}"
        );
        for (seed, &ns) in noisy.iter().enumerate() {
            assert_eq!(ns, end(name, Some(seed as u64)));
            let most = exact + 1_000_000 + exact / 50 + 202_000;
            assert!(ns > exact && ns < most, "{name}: {ns}, exactly {exact}");
        }
    }
}

#[test]
fn a_changed_workload_keeps_the_properties_of_the_workload() {
    let of = |name: &str| -> [Box<dyn Workload>; 3] {
        let both = format!("{name}+busy");
        [
            load(name).unwrap(),
            load(&both).unwrap(),
            bind(load(name).unwrap(), "1"),
        ]
    };
    for limited in of("busy:group=/app,quota=0.5") {
        assert!(limited.limits_groups());
        assert!(with_noise(&*limited, 1).limits_groups());
    }
    let [alone, together, bound] = of("aim7-short:users=10,users_max=100,jobs=1,part=100");
    for varied in [alone, together] {
        let end = |run| Kernel::run(&*varied.of_run(run, 2).unwrap(), 64).now;
        assert!(end(0) < end(1));
    }
    let machine = Machine::find("smp-2x8").unwrap();
    let tasks = bound.of_run(0, 2).unwrap().start(&machine).tasks;
    assert_eq!(tasks[0].affinity, Some(machine.nodes()[1]));
    for same in of("hackbench") {
        assert!(same.of_run(0, 2).is_none());
    }
    let whole = load("sysbench-cpu:requests=1").unwrap();
    assert!(with_noise(&*whole, 1).cpu_bound().is_some());
    assert!(bind(whole, "1").cpu_bound().is_none());
}
