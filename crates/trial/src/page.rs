//! The page of a trial: the page of a comparison, with remarks on the measurement.

use crate::linux::Cost;
use crate::measures::figures;
use crate::{Decision, Fault, Measured, Outcome, Plan, Removed, Sequence, Turn};
use lab::Results;
use machine::counted;
use report::{Page, Shown, Told};
use serde::{Deserialize, Serialize};

/// The differences, in %, for which the page gives the number of blocks that are needed to find them.
const DIFFERENCES_PCT: [f64; 3] = [1.0, 2.0, 5.0];

/// The largest number of blocks that the page names. A trial of more blocks takes too long.
const MOST_BLOCKS: usize = 1000;

/// The work of the dropped block, in multiples of the most work of a later turn, from which the later turns count as
/// turns without work. Cold caches make less of a difference.
const LESS_WORK: u64 = 3;

/// The words of a page about a trial, apart from the results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The load, as the user named it.
    pub load: String,
    /// The computer and its kernel.
    pub machine: String,
    /// Sentences about the conditions.
    pub conditions: Vec<String>,
    /// The cost of recording.
    pub cost: Option<Cost>,
}

/// The page of the complete blocks; `measured` has the measures of the same `outcome`.
pub fn page(
    about: &About,
    plan: &Plan,
    outcome: &Outcome,
    measured: &Measured,
    shown: Shown,
) -> Page {
    let name = |index: usize| plan.schedulers[index].name.as_str();
    let names = outcome.schedulers.iter().map(|&it| name(it)).collect();
    let results = Results::new(names, &measured.measures, &measured.runs);
    let sequence = plan.until_decided.then(|| Sequence::of(outcome)).flatten();
    let mut turns = outcome.blocks.iter().flatten();
    let told = Told {
        pairs: "the turns of each block",
        time: turns.all(|it| it.recorded.is_some()).then_some("s"),
        remarks: cost(about)
            .into_iter()
            .chain(blocks_needed(&results, outcome))
            .chain(sequence.is_some().then(|| UNADJUSTED.to_owned()))
            .collect(),
    };
    let mut page = report::results(&results, shown, told);
    if results.runs() == 0 {
        page.tables.clear();
        page.remarks.clear();
    }
    let removed = outcome
        .removed
        .iter()
        .map(|it| removal(it, name(it.scheduler)));
    Page {
        title: format!("{} on {}", about.load, about.machine),
        notes: std::iter::once(number_of_blocks(plan, outcome))
            .chain(about.conditions.iter().cloned())
            .chain(repetitions(&outcome.repeated))
            .chain(page.notes)
            .collect(),
        verdict: removed
            .chain(work_done_before(outcome))
            .chain(match &sequence {
                Some(sequence) => decisions(sequence, &results.schedulers),
                None if results.runs() == 0 => vec!["No verdict: no block is complete.".to_owned()],
                None if results.runs() == 1 && results.schedulers.len() > 1 => {
                    vec![ONE_BLOCK.to_owned()]
                }
                None => page.verdict,
            })
            .collect(),
        ..page
    }
}

/// The remark that the intervals in the tables differ from those of the verdict.
const UNADJUSTED: &str = "The intervals in the tables are those of a trial whose number of blocks was fixed \
                          beforehand; the intervals of the verdict hold after any number of blocks.";

/// The verdict after a single block.
const ONE_BLOCK: &str =
    "No verdict: one block cannot show which differences are significant. Use --rounds 5 or more.";

fn number_of_blocks(plan: &Plan, outcome: &Outcome) -> String {
    let count = outcome.blocks.len();
    let why = match &outcome.ended {
        None => None,
        Some(Fault::Stopped) => Some("stopped"),
        Some(Fault::Command(why) | Fault::System(why) | Fault::Scheduler(why)) => Some(&**why),
    };
    let blocks = match why {
        None => counted(count, "block", "blocks"),
        Some(why) => format!("{count} of {} blocks ({why})", plan.rounds),
    };
    format!(
        "{blocks}, each with a turn of every scheduler in random order, seed {}, after a first block that is dropped",
        plan.seed
    )
}

fn removal(removed: &Removed, name: &str) -> String {
    let when = match removed.block {
        0 => "in the first block, which is dropped".to_owned(),
        block => format!("in block {block}"),
    };
    format!("{name} failed {when}, and is left out: {}.", removed.why)
}

/// A warning if the work was done in the dropped block, such as by `make`, which then finds nothing to do.
fn work_done_before(outcome: &Outcome) -> Option<String> {
    let turns = outcome.blocks.iter().flatten();
    let most = turns.map(Turn::work_ns).max()?;
    (outcome.dropped_ns > LESS_WORK * most).then(|| {
        format!(
            "A turn of the first block took {:.3} s of CPU time, and no later turn more than {:.3} s. The command must do the same \
             work each time: sh -c 'make clean && make' instead of make.",
            outcome.dropped_ns as f64 / 1e9,
            most as f64 / 1e9
        )
    })
}

fn repetitions(repeated: &[String]) -> Option<String> {
    let first = repeated.first()?;
    Some(match repeated.len() {
        1 => format!("a block was repeated, because {first}"),
        count => format!("{count} blocks were repeated, the first because {first}"),
    })
}

fn cost(about: &About) -> Option<String> {
    let cost = about.cost.as_ref()?;
    if cost.is_too_much {
        let why = match cost.event_ns > 0.0 {
            true => {
                "even a short window in each turn could cost more than 1 % of the little CPU time that the load takes"
            }
            false => "this computer is too noisy to measure the cost of an event",
        };
        return Some(format!(
            "recording: {why}, so at least one block was not recorded and has no latencies. --record always records every block."
        ));
    }
    let share = match cost.share_pct < 100.0 {
        true => format!(
            "{:.2} % of each turn was recorded, in windows at random times, and sums are estimates; ",
            cost.share_pct
        ),
        false => String::new(),
    };
    Some(format!(
        "recording: {share}an event took about {:.0} ns; all events and the recorder's own work took at most \
         {:.2} % of the load's CPU time in a turn.",
        cost.event_ns, cost.most_pct
    ))
}

/// The number of blocks that are needed to find differences, computed for the scheduler that varies most.
fn blocks_needed(results: &Results<'_>, outcome: &Outcome) -> Option<String> {
    let turns = || outcome.blocks.iter().flatten();
    let has = |of: fn(&Turn) -> Option<f64>| turns().all(|it| of(it).is_some_and(|it| it > 0.0));
    let figure = figures().iter().find(|it| has(it.of))?;
    let log = |turn: &Turn| (figure.of)(turn).unwrap_or(f64::NAN).ln();
    let needed = |pct: f64| {
        let of = |scheduler: usize| {
            let pairs = outcome.blocks.iter();
            let differences = pairs.map(|block| log(&block[scheduler]) - log(&block[0]));
            lab::pairs_for(&differences.collect::<Vec<f64>>(), (pct / 100.0).ln_1p())
        };
        (1..results.schedulers.len()).filter_map(of).max()
    };
    let needed: Vec<usize> = DIFFERENCES_PCT
        .iter()
        .filter_map(|&pct| needed(pct))
        .collect();
    let [one, two, five] = needed[..] else {
        return None;
    };
    let more = one.saturating_sub(results.runs());
    let blocks = |count: usize| match count {
        0..=MOST_BLOCKS => counted(count, "block", "blocks"),
        _ => format!("more than {MOST_BLOCKS} blocks"),
    };
    let say = format!(
        "{}: by its variation here, a difference of 1 % is significant with a chance of 80 % in {}, \
         a difference of 2 % in {}, and a difference of 5 % in {}",
        figure.name,
        blocks(one),
        blocks(two),
        blocks(five)
    );
    if one > MOST_BLOCKS {
        return Some(format!("{say}: the load varies too much here."));
    }
    Some(
        match results.verdict.goals.iter().any(|it| it.tells_apart()) || more == 0 {
            true => say + ".",
            false => format!(
                "{say}; this trial has {} blocks, and {more} more {} for 1 %.",
                results.runs(),
                if more == 1 { "suffices" } else { "suffice" }
            ),
        },
    )
}

/// The verdict of a sequential test.
fn decisions(sequence: &Sequence, names: &[&str]) -> Vec<String> {
    let base = names.first().copied().unwrap_or_default();
    let line = |decision: &Decision| {
        let name = names[decision.scheduler];
        let (low, high) = decision.interval_pct;
        let interval = format!("{low:+.1} to {high:+.1} %");
        let figure = sequence.figure;
        if !decision.is_decided {
            let bounds = match low.is_finite() && high.is_finite() {
                true => format!("the change under {name} is {interval}"),
                false => format!("the change under {name} has no bounds yet"),
            };
            return format!("{figure}: {name} and {base} are undecided; {bounds}.");
        }
        match (low > 0.0, high < 0.0) {
            (true, _) => format!("{figure}: {name} is worse than {base}: {interval}."),
            (_, true) => format!("{figure}: {name} is better than {base}: {interval}."),
            _ => format!("{figure}: {name} and {base} differ by less than 1 %: {interval}."),
        }
    };
    let mut lines: Vec<String> = sequence.decisions.iter().map(line).collect();
    lines.push("The chance that any of these statements is wrong is at most 5 %, however often the trial was looked at.".to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scheduler;

    fn plan(until_decided: bool) -> Plan {
        let named = |name: &str| Scheduler {
            name: name.to_owned(),
            loader: None,
        };
        Plan {
            schedulers: ["eevdf", "fast", "broken"].map(named).to_vec(),
            rounds: 10,
            until_decided,
            seed: 7,
        }
    }

    fn outcome(times: &[[u64; 2]]) -> Outcome {
        let turn = |&ms: &u64| Turn {
            elapsed_ns: ms * 1_000_000,
            is_timed: true,
            ..Turn::default()
        };
        Outcome {
            schedulers: vec![0, 1],
            blocks: times
                .iter()
                .map(|pair| pair.iter().map(turn).collect())
                .collect(),
            removed: vec![Removed {
                scheduler: 2,
                block: 1,
                why: "the kernel unloaded it: EXIT: runnable task stall".to_owned(),
            }],
            ended: Some(Fault::Stopped),
            ..Outcome::default()
        }
    }

    fn shown(plan: &Plan, outcome: &Outcome) -> Page {
        let measured = Measured::new(outcome);
        page(
            &About::default(),
            plan,
            outcome,
            &measured,
            Shown::default(),
        )
    }

    const FASTER: [[u64; 2]; 8] = [
        [1000, 800],
        [1010, 812],
        [1020, 815],
        [990, 795],
        [1000, 801],
        [1005, 806],
        [1003, 800],
        [1011, 809],
    ];

    #[test]
    fn a_failed_scheduler_is_reported_by_name_before_the_verdict() {
        let page = shown(&plan(false), &outcome(&FASTER));
        let first = "broken failed in block 1, and is left out: the kernel unloaded it: EXIT: runnable task stall.";
        assert_eq!(page.verdict[0], first);
        assert!(
            page.verdict[1].starts_with("Throughput: fast is best: 19.9 "),
            "{:?}",
            page.verdict
        );
        assert!(
            page.notes[0]
                .starts_with("8 of 10 blocks (stopped), each with a turn of every scheduler"),
            "{:?}",
            page.notes
        );
        assert_eq!(page.tables[0].rows.len(), 2);
    }

    #[test]
    fn a_sequential_verdict_has_its_own_interval() {
        let page = shown(&plan(true), &outcome(&FASTER));
        assert!(
            page.verdict[1].starts_with("time: fast is better than eevdf: -2"),
            "{:?}",
            page.verdict
        );
        assert!(page.remarks.iter().any(|it| it == UNADJUSTED));
        let page = shown(&plan(true), &outcome(&FASTER[..3]));
        assert_eq!(
            page.verdict[1],
            "time: fast and eevdf are undecided; the change under fast has no bounds yet."
        );
    }

    #[test]
    fn an_undecided_trial_says_how_many_blocks_it_needs() {
        let noisy = [
            [1000, 1100],
            [1000, 920],
            [1000, 1080],
            [1000, 905],
            [1000, 1000],
        ];
        let page = shown(&plan(false), &outcome(&noisy));
        let says = page
            .remarks
            .iter()
            .find(|it| it.contains("more suffice"))
            .unwrap();
        // The deviation of the differences is 8.9 %, so 1 % needs (2.8 * 8.9)^2 blocks.
        let more: usize = says
            .split(", and ")
            .last()
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        assert!((550..720).contains(&more), "{says}");
    }

    #[test]
    fn a_number_of_blocks_that_nobody_can_run_is_not_named() {
        let noisy = [[1000, 1500], [1000, 600], [1000, 1400], [1000, 700]];
        let page = shown(&plan(false), &outcome(&noisy));
        let says = page
            .remarks
            .iter()
            .find(|it| it.contains("varies too much"));
        assert!(
            says.unwrap().contains("80 % in more than 1000 blocks, "),
            "{says:?}"
        );
        assert!(!page.remarks.iter().any(|it| it.contains("suffice")));
    }

    #[test]
    fn a_trial_without_a_difference_says_how_busy_all_cpus_are() {
        let mut trial = outcome(&[[1000, 1001], [1001, 1000], [1000, 1000], [1001, 1001]]);
        let says = |trial: &Outcome| {
            let mut verdict = shown(&plan(false), trial).verdict.into_iter();
            verdict.find(|line| line.starts_with("This comparison cannot tell"))
        };
        let unknown = "This comparison cannot tell the policies apart.";
        assert_eq!(says(&trial).as_deref(), Some(unknown));
        for turn in trial.blocks.iter_mut().flatten() {
            turn.cpus = 8;
            turn.busy_ns
                .insert("all CPUs".to_owned(), 2 * turn.elapsed_ns);
        }
        let says = says(&trial).unwrap();
        assert!(
            says.contains("CPUs are busy for 25 % of the time"),
            "{says}"
        );
    }

    #[test]
    fn a_command_that_works_only_once_is_reported_before_the_verdict() {
        let mut trial = outcome(&FASTER);
        trial.removed.clear();
        for (seconds, says) in [(2, false), (4, true)] {
            trial.dropped_ns = seconds * 1_000_000_000;
            let verdict = shown(&plan(false), &trial).verdict;
            assert_eq!(verdict[0].contains("the same work"), says, "{verdict:?}");
        }
    }

    #[test]
    fn after_one_block_the_page_names_the_option_of_a_trial() {
        let page = shown(&plan(false), &outcome(&FASTER[..1]));
        assert_eq!((page.verdict.len(), &*page.verdict[1]), (2, ONE_BLOCK));
    }

    #[test]
    fn what_was_not_recorded_is_not_shown_as_zero() {
        let has_counts = |trial: &Outcome| {
            let all = Shown {
                all: true,
                ..Shown::default()
            };
            let page = page(
                &About::default(),
                &plan(false),
                trial,
                &Measured::new(trial),
                all,
            );
            page.tables.iter().any(|it| it.title == "A run, on average")
        };
        let mut trial = outcome(&FASTER);
        assert!(!has_counts(&trial));
        for turn in trial.blocks.iter_mut().flatten() {
            turn.recorded = Some(crate::Recorded::default());
        }
        assert!(has_counts(&trial));
    }

    #[test]
    fn without_a_block_there_is_no_verdict() {
        let page = shown(&plan(false), &outcome(&[]));
        assert_eq!(page.verdict[1], "No verdict: no block is complete.");
        assert!(page.tables.is_empty());
    }
}
