//! Loops that spread over caches.

use super::*;

/// New tasks that find no idle CPU spread over the caches, so that with six loops per CPU each loop has had its share
/// after 60 ms, to within a turn.
#[test]
fn new_loops_spread_over_caches() {
    let machine = equal_cpus(2, 8, 250);
    let workload = Script(|| Start {
        tasks: (0..6 * 16)
            .map(|i| task(&i.to_string(), (0..1000).map(|_| run_for(1))))
            .collect(),
        ..Start::default()
    });
    let got = equipoise_cpu_time(&machine, &workload, 1, 60_000 * MS, 0..60 * MS).unwrap();
    for i in 0..6 * 16 {
        let ns = got[&i.to_string()];
        assert!((6 * MS..=16 * MS).contains(&ns), "loop {i} got {ns} ns");
    }
}

/// If one cache has one loop more than the other, all loops take turns in the fuller cache. They also do so after the
/// machine has idled, when each loop would have been due more than a CPU.
#[test]
fn loops_that_start_on_an_idle_machine_share_it() {
    let machine = equal_cpus(4, 2, 250);
    let workload = Script(|| {
        let naps = (0..200).flat_map(|_| [sleep_for(20), run_for(1)]);
        let busy = |i: u32| {
            let ops = [sleep_for(2000)].into_iter();
            task(&i.to_string(), ops.chain((0..2000).map(|_| run_for(1))))
        };
        Start {
            tasks: [task("naps", naps)]
                .into_iter()
                .chain((0..13).map(busy))
                .collect(),
            ..Start::default()
        }
    });
    let window = 2200 * MS..3200 * MS;
    let got = equipoise_cpu_time(&machine, &workload, 1, 60_000 * MS, window).unwrap();
    let each = (0..13).map(|i| got[&i.to_string()] / MS);
    let (least, most) = (each.clone().min().unwrap(), each.max().unwrap());
    assert!(100 * most <= 106 * least, "{least} to {most} ms");
}

/// Where one of many caches has many loops, the CPUs of the other caches, each with a loop of its own, take some of
/// these loops. On such a machine the ticks of different CPUs come at nearly the same time, and a tick that began
/// earlier may take effect later.
#[test]
fn loops_leave_a_crowded_cache() {
    let machine = Machine::find("epyc-2s").unwrap();
    let (all, few) = (machine.all_cpus(), machine.levels[1].spans[0]);
    let loops = 400;
    let workload = Script(move || {
        let bound = |i: u32| {
            let first = Op::SetAffinity(Box::new(if i < 256 { all } else { few }));
            let then = [first, run_for(1), Op::SetAffinity(Box::new(all))].into_iter();
            task(&i.to_string(), then.chain((0..1000).map(|_| run_for(1))))
        };
        Start {
            tasks: (0..loops).map(bound).collect(),
            duration_ns: Some(300 * MS),
            ..Start::default()
        }
    });
    let window = 100 * MS..300 * MS;
    let got = equipoise_cpu_time(&machine, &workload, 1, 60_000 * MS, window).unwrap();
    let least = (0..loops)
        .map(|i| got.get(&i.to_string()).copied().unwrap_or(0))
        .min();
    assert!(least >= Some(60 * MS), "{least:?} ns");
}
