use super::*;
use std::time::Duration;

#[test]
fn order_and_error_do_not_depend_on_the_jobs() {
    let slow = |index: usize| thread::sleep(Duration::from_micros(997 * index as u64 % 1000));
    let squares = |count| (0..count).map(|index| index * index).collect::<Vec<_>>();
    for jobs in [1, 2, 7] {
        let all = in_order(100, jobs, |index| {
            slow(index);
            Ok::<_, usize>(Some(index * index))
        });
        assert_eq!(all, Ok(squares(100)));
        let error = in_order(100, jobs, |index| {
            slow(index);
            if index % 30 == 29 {
                Err(index)
            } else {
                Ok(Some(()))
            }
        });
        assert_eq!(error, Err(29));
        let stopped = in_order(100, jobs, |index| {
            slow(index);
            Ok::<_, usize>((index < 40).then_some(index * index))
        });
        assert_eq!(stopped, Ok(squares(40)));
    }
}

#[test]
fn a_stopped_experiment_has_the_same_number_of_runs_of_every_case() {
    let machine = Machine::find("tc2").unwrap();
    let workload = models::load("busy:duration=1ms").unwrap();
    let schedulers = ["cfs", "capacity"].map(|name| Scheduler::policy(name).unwrap());
    let cases = schedulers.each_ref().map(|scheduler| Case {
        machine: &machine,
        workload: workload.as_ref(),
        scheduler,
    });
    let runs = Runs {
        count: 100_000,
        seed: 1,
        jobs: 2,
        noise: false,
    };
    let (stop, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
    let done = || {
        if begun.fetch_add(1, Ordering::Relaxed) >= 20 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let watch = Watch {
        done: &done,
        stop: &stop,
    };
    let measured = measure(&cases, &runs, watch).unwrap();
    assert_eq!(measured[0].runs.len(), measured[1].runs.len());
    assert!((9..=11).contains(&measured[0].runs.len()));
}

#[test]
fn seeds_are_a_fixed_sequence_without_repetition() {
    let runs = Runs {
        count: 1000,
        seed: 1234567,
        jobs: 0,
        noise: false,
    };
    // Reference outputs of splitmix64 for this seed.
    assert_eq!(runs.seed_of(0), 6457827717110365317);
    assert_eq!(runs.seed_of(1), 3203168211198807973);
    let mut seeds: Vec<u64> = (0..1000).map(|run| runs.seed_of(run)).collect();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 1000);
}
