//! The order of turns, and the result after each kind of failure, on a machine that only records calls.

use super::*;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

/// A machine with faults at some calls of `turn`, counted from 0.
#[derive(Default)]
struct Fake {
    loaded: Option<String>,
    calls: Vec<String>,
    faults: HashMap<usize, Fault>,
    turns: usize,
    /// The numbers of the disturbed blocks, where repeated blocks count, too.
    disturbed: HashSet<usize>,
    blocks: usize,
    /// The time of a turn under each scheduler, in ns.
    times: HashMap<String, u64>,
    cannot_load: Option<String>,
    cannot_unload: bool,
}

impl Kernel for Fake {
    fn load(&mut self, scheduler: &Scheduler) -> Result<(), Fault> {
        assert_eq!(self.loaded, None, "two schedulers at a time");
        if self.cannot_load.as_ref() == Some(&scheduler.name) {
            return Err(Fault::Scheduler("it does not load".to_owned()));
        }
        self.loaded = Some(scheduler.name.clone());
        Ok(())
    }

    fn turn(&mut self) -> Result<Turn, Fault> {
        let name = self.loaded.clone().expect("a scheduler is loaded");
        self.turns += 1;
        if let Some(fault) = self.faults.remove(&(self.turns - 1)) {
            return Err(fault);
        }
        let elapsed_ns = self.times.get(&name).copied().unwrap_or(1000);
        self.calls.push(name);
        Ok(Turn {
            elapsed_ns,
            is_timed: true,
            ..Turn::default()
        })
    }

    fn unload(&mut self) -> Result<(), Fault> {
        self.loaded = None;
        match self.cannot_unload {
            true => Err(Fault::System("it stays".to_owned())),
            false => Ok(()),
        }
    }

    fn disturbance(&mut self) -> Option<String> {
        self.blocks += 1;
        self.disturbed
            .contains(&(self.blocks - 1))
            .then(|| "hot".to_owned())
    }
}

fn plan(schedulers: usize, rounds: u32, seed: u64) -> Plan {
    let scheduler = |nr: usize| Scheduler {
        name: nr.to_string(),
        loader: (nr > 0).then(Vec::new),
    };
    Plan {
        schedulers: (0..schedulers).map(scheduler).collect(),
        rounds,
        until_decided: false,
        seed,
    }
}

fn tried(fake: &mut Fake, plan: &Plan) -> Outcome {
    run(fake, plan, &mut |_| ())
}

proptest! {
    #[test]
    fn every_block_has_every_scheduler_once(schedulers in 1usize..6, rounds in 0u32..12, seed: u64) {
        let mut fake = Fake::default();
        for nr in 0..schedulers {
            fake.times.insert(nr.to_string(), 100 + nr as u64);
        }
        let outcome = tried(&mut fake, &plan(schedulers, rounds, seed));
        prop_assert_eq!(outcome.blocks.len(), rounds as usize);
        let blocks = if rounds == 0 { 0 } else { rounds as usize + 1 };
        prop_assert_eq!(fake.calls.len(), schedulers * blocks);
        for block in fake.calls.chunks(schedulers) {
            let all: HashSet<&String> = block.iter().collect();
            prop_assert_eq!(all.len(), schedulers);
        }
        for block in &outcome.blocks {
            let times: Vec<u64> = block.iter().map(|turn| turn.elapsed_ns).collect();
            prop_assert_eq!(times, (100..100 + schedulers as u64).collect::<Vec<_>>());
        }
        prop_assert_eq!(fake.loaded, None);
    }

    /// After any failure at any time, every reported block is complete, and the kernel's own scheduler runs at
    /// the end.
    #[test]
    fn any_failure_leaves_complete_blocks(
        at in prop::collection::hash_map(0usize..40, 0u8..4, 0..4),
        seed: u64,
    ) {
        let fault = |kind: u8| match kind {
            0 => Fault::Scheduler("a stall".to_owned()),
            1 => Fault::Command("status 1".to_owned()),
            2 => Fault::System("no memory".to_owned()),
            _ => Fault::Stopped,
        };
        let mut fake = Fake {
            faults: at.into_iter().map(|(turn, kind)| (turn, fault(kind))).collect(),
            ..Fake::default()
        };
        let outcome = tried(&mut fake, &plan(4, 8, seed));
        prop_assert_eq!(&fake.loaded, &None);
        for block in &outcome.blocks {
            prop_assert_eq!(block.len(), outcome.schedulers.len());
        }
        prop_assert_eq!(outcome.schedulers.len() + outcome.removed.len(), 4);
        prop_assert!(outcome.ended.is_some() || outcome.blocks.len() == 8);
    }
}

#[test]
fn the_order_is_random() {
    let mut fake = Fake::default();
    tried(&mut fake, &plan(2, 999, 1));
    let first = fake.calls.chunks(2).filter(|block| block[0] == "0").count();
    // The bounds are 4 standard deviations of 1000 tosses of a coin.
    assert!((437..=563).contains(&first), "{first}");
    let mut again = Fake::default();
    tried(&mut again, &plan(2, 999, 1));
    assert_eq!(fake.calls, again.calls);
}

#[test]
fn the_first_block_is_dropped() {
    let mut fake = Fake::default();
    let mut told = Vec::new();
    let outcome = run(&mut fake, &plan(2, 3, 1), &mut |so_far| {
        told.push(so_far.blocks.len())
    });
    assert_eq!((outcome.blocks.len(), fake.turns), (3, 8));
    assert_eq!(told, [0, 1, 2, 3]);
    assert_eq!(outcome.dropped_ns, 1000);
}

#[test]
fn a_failed_scheduler_is_named_and_the_others_go_on() {
    let mut fake = Fake {
        cannot_load: Some("1".to_owned()),
        ..Fake::default()
    };
    let outcome = tried(&mut fake, &plan(3, 2, 1));
    assert_eq!(outcome.schedulers, [0, 2]);
    assert_eq!(outcome.removed[0].scheduler, 1);
    assert_eq!(outcome.removed[0].why, "it does not load");
    assert_eq!(outcome.blocks.len(), 2);
    assert_eq!(outcome.ended, None);
}

#[test]
fn without_a_scheduler_to_compare_the_trial_ends() {
    let mut fake = Fake {
        cannot_load: Some("1".to_owned()),
        ..Fake::default()
    };
    let outcome = tried(&mut fake, &plan(2, 5, 1));
    assert_eq!(fake.turns, 1);
    assert!(matches!(outcome.ended, Some(Fault::System(_))));
}

#[test]
fn a_disturbed_block_is_repeated_but_not_for_ever() {
    let mut fake = Fake {
        disturbed: [0, 1].into(),
        ..Fake::default()
    };
    let outcome = tried(&mut fake, &plan(2, 3, 1));
    assert_eq!((outcome.blocks.len(), fake.turns), (3, 2 * 6));
    assert_eq!(outcome.repeated, ["hot", "hot"]);
    let mut fake = Fake {
        disturbed: (0..1000).collect(),
        ..Fake::default()
    };
    let outcome = tried(&mut fake, &plan(2, 3, 1));
    assert_eq!(outcome.blocks.len(), 3);
    assert_eq!(fake.turns, 2 + 2 * 3 * (1 + MOST_REPEATS as usize));
    assert_eq!(outcome.repeated.len(), 3 * MOST_REPEATS as usize);
}

#[test]
fn nothing_is_loaded_after_a_failed_unload() {
    let mut fake = Fake {
        cannot_unload: true,
        ..Fake::default()
    };
    let outcome = tried(&mut fake, &plan(2, 3, 1));
    assert_eq!(fake.turns, 1);
    assert_eq!(outcome.ended, Some(Fault::System("it stays".to_owned())));
}

#[test]
fn a_decided_trial_ends() {
    let mut fake = Fake::default();
    fake.times.insert("1".to_owned(), 1300);
    let plan = Plan {
        until_decided: true,
        ..plan(2, 100, 1)
    };
    let outcome = tried(&mut fake, &plan);
    let blocks = outcome.blocks.len();
    assert!((6..20).contains(&blocks), "{blocks}");
}
