//! The order of a trial: blocks in which every scheduler has one turn, in random order.
//!
//! A computer becomes warmer, its caches fill and its batteries drain, so a later turn runs under other conditions.
//! Within a block the conditions are similar and, because of the random order, their remaining drift favours no
//! scheduler (randomized block design: Fisher, The Design of Experiments, 1935). The first block is dropped, because it
//! fills caches and begins with the temperature and the frequencies of an idle computer.

use crate::{Scheduler, Sequence, Turn};
use serde::{Deserialize, Serialize};
use workload::Rng;

/// The largest number of times in a row that a disturbed block is repeated.
const MOST_REPEATS: u32 = 3;

/// The schedulers, and the number of turns of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The schedulers, the first of which is the baseline.
    pub schedulers: Vec<Scheduler>,
    /// The number of blocks that count or, with [`Plan::until_decided`], the limit of that number.
    pub rounds: u32,
    /// Does the trial end as soon as the verdict on every scheduler is decided?
    pub until_decided: bool,
    /// The seed of the random order.
    pub seed: u64,
}

/// The machine: a kernel with sched_ext, and the load.
pub trait Kernel {
    /// Loads a sched_ext scheduler; does nothing for the kernel's own scheduler.
    fn load(&mut self, scheduler: &Scheduler) -> Result<(), Fault>;
    /// Runs the load once under the loaded scheduler.
    fn turn(&mut self) -> Result<Turn, Fault>;
    /// Unloads the scheduler. The error is a [`Fault::System`] if the kernel's own scheduler does not run afterwards.
    fn unload(&mut self) -> Result<(), Fault>;
    /// Notes that the first block is over, and that the following blocks count.
    fn is_warm(&mut self) {}
    /// The reason, if any, why the turns since the previous call of this function or of [`Kernel::is_warm`] cannot be
    /// compared, such as thermal throttling.
    fn disturbance(&mut self) -> Option<String> {
        None
    }
}

/// The reason why a turn has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The scheduler did not load, the kernel unloaded it, or its loader ended.
    Scheduler(String),
    /// The command failed.
    Command(String),
    /// The computer does not allow the turn.
    System(String),
    /// The user ends the trial.
    Stopped,
}

/// A scheduler that has no further turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// The index of the scheduler in [`Plan::schedulers`].
    pub scheduler: usize,
    /// The number of the block; 0 is the dropped block.
    pub block: u32,
    /// The reason for the removal.
    pub why: String,
}

/// The result of a trial, even if the trial ended early.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The schedulers that had a turn in every block, as indices.
    pub schedulers: Vec<usize>,
    /// For each complete block, the turns of [`Outcome::schedulers`].
    pub blocks: Vec<Vec<Turn>>,
    /// The schedulers that failed.
    pub removed: Vec<Removed>,
    /// The reasons why blocks were repeated.
    pub repeated: Vec<String>,
    /// The largest [`Turn::work_ns`] of the dropped block.
    #[serde(default)]
    pub dropped_ns: u64,
    /// The reason why the trial ended before its last block.
    pub ended: Option<Fault>,
}

/// Runs the trial, and returns the complete blocks. Afterwards, the kernel's own scheduler runs, unless another one
/// could not be unloaded. `told` is called with the results so far after the dropped block and after each block that counts.
pub fn run(kernel: &mut dyn Kernel, plan: &Plan, told: &mut dyn FnMut(&Outcome)) -> Outcome {
    let mut trial = Trial {
        outcome: Outcome {
            schedulers: (0..plan.schedulers.len()).collect(),
            ..Outcome::default()
        },
        rng: Rng::new(plan.seed),
        kernel,
        plan,
    };
    let (mut is_warm, mut repeats) = (false, 0);
    while trial.outcome.ended.is_none() && (trial.outcome.blocks.len() as u32) < plan.rounds {
        let number = trial.outcome.blocks.len() as u32 + u32::from(is_warm);
        let block = match trial.block(number) {
            Ok(block) => block,
            Err(fault) => {
                trial.outcome.ended = Some(fault);
                break;
            }
        };
        if trial.outcome.schedulers.len() < 2 && plan.schedulers.len() > 1 {
            let nothing = "no scheduler is left to compare with".to_owned();
            trial.outcome.ended = Some(Fault::System(nothing));
            break;
        }
        if !std::mem::replace(&mut is_warm, true) {
            let work = block.iter().map(Turn::work_ns);
            trial.outcome.dropped_ns = work.max().unwrap_or(0);
            trial.kernel.is_warm();
            told(&trial.outcome);
            continue;
        }
        if let Some(why) = trial.kernel.disturbance()
            && repeats < MOST_REPEATS
        {
            trial.outcome.repeated.push(why);
            repeats += 1;
            continue;
        }
        repeats = 0;
        trial.outcome.blocks.push(block);
        told(&trial.outcome);
        if plan.until_decided && Sequence::of(&trial.outcome).is_some_and(|it| it.is_over()) {
            break;
        }
    }
    trial.outcome
}

struct Trial<'a> {
    kernel: &'a mut dyn Kernel,
    plan: &'a Plan,
    rng: Rng,
    outcome: Outcome,
}

impl Trial<'_> {
    /// Runs a turn for each remaining scheduler, in random order. Returns the turns in the order of the schedulers.
    fn block(&mut self, number: u32) -> Result<Vec<Turn>, Fault> {
        let mut order = self.outcome.schedulers.clone();
        shuffle(&mut order, &mut self.rng);
        let mut turns: Vec<(usize, Turn)> = Vec::new();
        for scheduler in order {
            match self.turn(scheduler) {
                Ok(turn) => turns.push((scheduler, turn)),
                Err(Fault::Scheduler(why)) if scheduler > 0 => self.remove(scheduler, number, why),
                Err(fault) => return Err(fault),
            }
        }
        turns.sort_by_key(|(scheduler, _)| *scheduler);
        Ok(turns.into_iter().map(|(_, turn)| turn).collect())
    }

    fn turn(&mut self, scheduler: usize) -> Result<Turn, Fault> {
        let loaded = self.kernel.load(&self.plan.schedulers[scheduler]);
        let turn = loaded.and_then(|()| self.kernel.turn());
        // The kernel's own scheduler must run again, even after a failure.
        let unloaded = self.kernel.unload();
        match (turn, unloaded) {
            (_, Err(fault @ Fault::System(_))) => Err(fault),
            (Ok(turn), unloaded) => unloaded.map(|()| turn),
            (Err(fault), _) => Err(fault),
        }
    }

    fn remove(&mut self, scheduler: usize, block: u32, why: String) {
        if let Some(at) = self
            .outcome
            .schedulers
            .iter()
            .position(|&it| it == scheduler)
        {
            self.outcome.schedulers.remove(at);
            for block in &mut self.outcome.blocks {
                block.remove(at);
            }
        }
        self.outcome.removed.push(Removed {
            scheduler,
            block,
            why,
        });
    }
}

/// Shuffles `items`, so that every order is equally likely (Fisher and Yates).
fn shuffle(items: &mut [usize], rng: &mut Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests;
