//! Judges a replay: the measured and the simulated value of each figure, and its bound.

use super::Pair;
use std::collections::HashMap;
use trace::import::{Did, MOST_OTHERS_PCT, Summary};

const NS_PER_MS: f64 = 1e6;
const NS_PER_US: f64 = 1e3;

/// The bounds, for one recording on an otherwise idle machine.
const MAKESPAN_PCT: f64 = 10.0;
const SWITCHES_PCT: f64 = 15.0;
const RUN_TIME_PCT: f64 = 2.0;
const LATENCY_FACTOR: f64 = 1.5;
/// A difference of latencies that may be caused by rounding, because ftrace's text has times in us.
const RESOLUTION_US: f64 = 1.0;
/// The smallest number of latencies beyond a percentile for which it is judged. With fewer latencies, the percentile is
/// a matter of chance.
const BEYOND: usize = 10;
/// The part of the load's running time, in %, below which a thread runs too briefly for a bound in percent.
const SMALL_PCT: u64 = 1;

/// The bound on the distance of a simulated value from the measured value.
#[derive(Clone, Copy)]
pub enum Bound {
    /// The simulated value may differ by this part of the measured value, in %.
    Percent(f64),
    /// The simulated value may differ by this factor, or by [`RESOLUTION_US`].
    Factor(f64),
    /// The largest measured value that is allowed. The figure has no simulated value.
    AtMost(f64),
    /// There is no bound, for this reason.
    None(&'static str),
}

/// A figure and its judgement.
pub struct Judged {
    pub name: String,
    pub measured: f64,
    /// The simulated value; `None` if a simulation has none.
    pub simulated: Option<f64>,
    pub bound: Bound,
}

impl Judged {
    /// Is the bound met? `None` if there is no bound.
    pub fn passes(&self) -> Option<bool> {
        let measured = self.measured;
        let simulated = self.simulated.unwrap_or(measured);
        match self.bound {
            Bound::Percent(most) => {
                Some((simulated - measured).abs() <= measured.abs() * most / 100.0)
            }
            Bound::Factor(most) => {
                let (low, high) = (measured.min(simulated), measured.max(simulated));
                Some(high <= low * most || high - low <= RESOLUTION_US)
            }
            Bound::AtMost(most) => Some(measured <= most),
            Bound::None(_) => None,
        }
    }

    /// The bound in words; empty if there is no bound.
    pub fn bound(&self) -> String {
        match self.bound {
            Bound::Percent(most) => format!("{most:.0} %"),
            Bound::Factor(most) => format!("factor {most}"),
            Bound::AtMost(most) => format!("at most {most:.0}"),
            Bound::None(_) => String::new(),
        }
    }

    /// The verdict: `PASS`, `FAIL`, or the reason why there is no bound.
    pub fn verdict(&self) -> &'static str {
        match (self.bound, self.passes()) {
            (Bound::None(why), _) => why,
            (_, Some(false)) => "FAIL",
            _ => "PASS",
        }
    }

    /// The excess of the simulated value over the measured value, in %.
    pub fn off(&self) -> Option<f64> {
        let simulated = self.simulated?;
        (self.measured > 0.0).then(|| 100.0 * (simulated / self.measured - 1.0))
    }
}

/// The figures of `pair`, most important first.
pub fn judge(pair: &Pair) -> Vec<Judged> {
    let of = |name: &str, bound: Bound, of: &dyn Fn(&Summary) -> f64| Judged {
        name: name.to_owned(),
        measured: of(&pair.measured),
        simulated: Some(of(&pair.simulated)),
        bound,
    };
    let mut figures = vec![of(
        "makespan, ms",
        Bound::Percent(MAKESPAN_PCT),
        &makespan_ms,
    )];
    let wakeups = |summary: &Summary| {
        let threads = summary.threads.iter();
        threads
            .map(|thread| thread.latencies_ns.len())
            .sum::<usize>()
    };
    let fewer = wakeups(&pair.measured).min(wakeups(&pair.simulated));
    for percent in [50, 95, 99] {
        let bound = match fewer * (100 - percent) / 100 >= BEYOND {
            true => Bound::Factor(LATENCY_FACTOR),
            false => Bound::None("too few wakeups"),
        };
        figures.push(of(
            &format!("wakeup latency p{percent}, us"),
            bound,
            &|summary| latency_us(summary, percent),
        ));
    }
    figures.push(of("run time, ms", Bound::Percent(RUN_TIME_PCT), &ran_ms));
    figures.extend(worst_thread(pair));
    figures.push(of(
        "switches to its threads",
        Bound::Percent(SWITCHES_PCT),
        &turns,
    ));
    // If there are few migrations, a single additional migration may be a large part of them.
    figures.push(of(
        "migrations of its threads",
        Bound::None("not judged"),
        &migrations,
    ));
    figures.push(of("threads", Bound::Percent(0.0), &|summary| {
        summary.threads.len() as f64
    }));
    figures.push(Judged {
        name: "other threads, % of all CPUs".to_owned(),
        measured: pair.measured.others_pct(),
        simulated: None,
        bound: Bound::AtMost(MOST_OTHERS_PCT),
    });
    figures
}

pub fn makespan_ms(summary: &Summary) -> f64 {
    summary.makespan_ns as f64 / NS_PER_MS
}

fn ran_ms(summary: &Summary) -> f64 {
    let ran = summary.threads.iter().map(|thread| thread.ran_ns);
    ran.sum::<u64>() as f64 / NS_PER_MS
}

fn turns(summary: &Summary) -> f64 {
    let turns = summary.threads.iter().map(|thread| thread.turns);
    turns.sum::<u64>() as f64
}

fn migrations(summary: &Summary) -> f64 {
    let migrations = summary.threads.iter().map(|thread| thread.migrations);
    migrations.sum::<u64>() as f64
}

/// The percentile of all threads' latencies in us; 0 without wakeups.
pub fn latency_us(summary: &Summary, percent: usize) -> f64 {
    let threads = summary.threads.iter();
    let mut all: Vec<u64> = threads
        .flat_map(|it| it.latencies_ns.iter().copied())
        .collect();
    if all.is_empty() {
        return 0.0;
    }
    let rank = (all.len() * percent).div_ceil(100).max(1) - 1;
    let (_, ns, _) = all.select_nth_unstable(rank);
    *ns as f64 / NS_PER_US
}

/// The threads that both traces have, longest running first.
pub fn threads(pair: &Pair) -> Vec<(&Did, &Did)> {
    let simulated: HashMap<&[u32], &Did> = pair
        .simulated
        .threads
        .iter()
        .map(|thread| (&thread.path[..], thread))
        .collect();
    let measured = pair.measured.threads.iter();
    let mut pairs: Vec<(&Did, &Did)> = measured
        .filter_map(|thread| Some((thread, *simulated.get(&thread.path[..])?)))
        .collect();
    pairs.sort_by_key(|(measured, _)| std::cmp::Reverse(measured.ran_ns));
    pairs
}

/// The running times of a thread, with a bound if the thread ran long enough.
pub fn ran(pair: &Pair, measured: &Did, simulated: &Did) -> Judged {
    let all: u64 = pair.measured.threads.iter().map(|did| did.ran_ns).sum();
    Judged {
        name: measured.name.clone(),
        measured: measured.ran_ns as f64 / NS_PER_MS,
        simulated: Some(simulated.ran_ns as f64 / NS_PER_MS),
        bound: match measured.ran_ns * 100 >= all * SMALL_PCT {
            true => Bound::Percent(RUN_TIME_PCT),
            false => Bound::None("short"),
        },
    }
}

/// The thread with a bound whose running time is furthest off.
fn worst_thread(pair: &Pair) -> Option<Judged> {
    let threads = threads(pair).into_iter();
    let judged = threads.map(|(measured, simulated)| ran(pair, measured, simulated));
    let bound = judged.filter(|judged| judged.passes().is_some());
    let far = |judged: &Judged| judged.off().unwrap_or(0.0).abs();
    let worst = bound.max_by(|a, b| far(a).total_cmp(&far(b)))?;
    Some(Judged {
        name: "worst run time of a thread, ms".to_owned(),
        ..worst
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(measured: f64, simulated: f64, bound: Bound) -> &'static str {
        let judged = Judged {
            name: String::new(),
            measured,
            simulated: Some(simulated),
            bound,
        };
        judged.verdict()
    }

    #[test]
    fn a_bound_holds_on_both_sides() {
        for (simulated, verdict) in [
            (89.0, "FAIL"),
            (90.0, "PASS"),
            (110.0, "PASS"),
            (111.0, "FAIL"),
        ] {
            assert_eq!(of(100.0, simulated, Bound::Percent(10.0)), verdict);
        }
        for (simulated, verdict) in [(6.0, "FAIL"), (7.0, "PASS"), (15.0, "PASS"), (16.0, "FAIL")] {
            assert_eq!(of(10.0, simulated, Bound::Factor(1.5)), verdict);
        }
        assert_eq!(of(0.0, 0.0, Bound::Percent(10.0)), "PASS");
        assert_eq!(of(0.0, 1.0, Bound::Percent(10.0)), "FAIL");
    }

    /// A trace's text has times in whole us.
    #[test]
    fn latencies_differ_if_a_text_can_tell() {
        assert_eq!(of(1.0, 2.0, Bound::Factor(1.5)), "PASS");
        assert_eq!(of(0.0, 1.0, Bound::Factor(1.5)), "PASS");
        assert_eq!(of(0.0, 2.0, Bound::Factor(1.5)), "FAIL");
    }
}
