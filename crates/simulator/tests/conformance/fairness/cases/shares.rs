//! Control groups whose threads nap, and threads that become heavier at once.

use super::*;
use crate::fairness::load::Got;
use workload::ControlGroup;

/// The share of each thread on `cpus` equal CPUs in 4 s. The number beside each thread is its control group; all groups
/// have equal weights.
fn in_groups(cpus: usize, threads: Vec<(u32, Thread)>) -> Vec<Got> {
    let groups = threads.iter().map(|(group, _)| group + 1).max().unwrap();
    let load = Load {
        groups: (0..groups)
            .map(|group| ControlGroup::new(group.to_string(), None))
            .collect(),
        threads: threads
            .into_iter()
            .map(|(group, thread)| Thread {
                group: Some(group),
                ..thread
            })
            .collect(),
    };
    run_load(
        "equipoise",
        &equal_cpus(cpus, 1, 250),
        &load,
        1,
        0..4000 * MS,
    )
    .unwrap()
}

fn sum(got: &[Got]) -> f64 {
    got.iter().map(|got| got.share).sum()
}

/// Threads of a group that sleep with a debt count as if they competed, so they count in their group, too: eight of
/// them took 1.5 of two CPUs from the loops of a group of the same weight.
#[test]
fn a_group_of_threads_that_nap_gets_no_more_than_its_share() {
    let nap = thread(Does::Nap {
        run: MS / 2,
        sleep: 3 * MS / 2,
    });
    let mut threads = vec![(0, nap); 8];
    threads.extend(vec![(1, thread(Does::Spin)); 4]);
    let got = in_groups(2, threads);
    assert!((0.9..1.1).contains(&sum(&got[8..])), "{got:?}");
}

/// A heavy thread that runs for 4 % of the time cannot use its weight. If it counted in full, the other loops of its
/// group would get a fifth less than they are due.
#[test]
fn a_heavy_thread_that_naps_costs_its_group_little() {
    let heavy = Thread {
        nice: -15,
        ..thread(Does::Period {
            run: MS / 5,
            period: 5 * MS,
        })
    };
    let loops = |group| vec![(group, thread(Does::Spin)); 2];
    let got = in_groups(2, [vec![(0, heavy)], loops(0), loops(1)].concat());
    assert!((0.95..1.05).contains(&sum(&got[..3])), "{got:?}");
}

/// When the threads on all CPUs become heavier at once, none of them may keep its CPU because it is heavier than
/// others were before: a thread of short runs missed 12 % of its periods, under EEVDF 9 %.
#[test]
fn a_thread_of_short_runs_stays_in_time_beside_threads_that_wake_up_together() {
    let together = Thread {
        nice: -5,
        ..thread(Does::Nap {
            run: 20 * MS,
            sleep: 100 * MS,
        })
    };
    let requests = thread(Does::Period {
        run: MS / 2,
        period: 4 * MS,
    });
    let threads = [
        vec![requests],
        vec![together; 8],
        vec![thread(Does::Spin); 8],
    ];
    let load = Load::from(threads.concat());
    let got = run_load("equipoise", &equal_cpus(8, 1, 250), &load, 1, 0..4000 * MS).unwrap();
    assert!(got[0].missed * 50 < got[0].periods, "{:?}", got[0]);
}
