//! Periods in the wakeups of threads, from which deadlines follow: the period of a timer, and the
//! periods of threads that a periodic thread wakes, like the stages of a frame.

use super::known::{Entry, Known};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use workload::recording::Period;

/// The smallest number of periods; fewer may be equal by chance.
const FEWEST: usize = 8;
/// The smallest confidence with which a period is accepted. Uniformly random sleeps whose lengths
/// differ by a factor of 1.3 have about half of this confidence.
const BELIEVED: f64 = 0.7;
/// The number of standard deviations by which wakeups must be more regular than by chance, because
/// among many intervals of a random thread, some are frequent.
const SIGNIFICANT: f64 = 5.0;
/// The tolerances to try: a wakeup may differ from its expected time by the period divided by this number. Timers are
/// precise; stages of a frame are not.
const TOLERANCES: [u64; 3] = [100, 33, WIDEST];
const WIDEST: u64 = 10;
/// The largest number of wakeups across which an interval is a candidate, because a wakeup within a
/// job, such as the one after a lock, does not begin a period.
const OVER: usize = 4;
/// The number of candidates; [`CLASS`] is the ratio of two neighbouring classes of intervals.
const CANDIDATES: usize = 8;
const CLASS: f64 = 1.04;
/// The confidence by which a longer period must be better than a shorter one, because each multiple
/// of a period is also a period.
const BETTER: f64 = 0.05;
/// A thread whose sleep is at most the period divided by this number counts as still at work at the period's end.
const LATE_SLEEP: u64 = 8;
/// The standard error above which a slope of 0 cannot be distinguished from a slope of 1.
const SLOPE_ERROR: f64 = 0.15;
/// Intervals count as a timer's if their standard deviation is below their mean divided by this number.
const REGULAR: f64 = 500.0;
/// The number of standard errors by which a correlation of successive intervals must differ from a
/// timer's.
const LAG_ERRORS: f64 = 3.0;
/// The resolution of times, because ftrace's text has times in us.
const RESOLUTION_NS: f64 = 1_000.0;
/// If the user has set a period, a wakeup may differ from its expected time by the period divided by this number.
const SET_TOLERANCE: u64 = 4;

#[derive(Clone, Copy, Debug)]
struct Wakeup {
    /// The index of the wakeup in the thread's steps.
    entry: u32,
    /// The time at which the thread fell asleep, in ns; `at` is the time at which it was woken.
    since: u64,
    at: u64,
    /// The waker; `None` for a timer, an interrupt or a thread outside the load.
    by: Option<u32>,
}

pub struct Periodic {
    /// The period.
    pub period: Period,
    /// The indices, in the thread's steps, of the wakeups that release it, in ascending order.
    pub releases: Vec<u32>,
}

/// The user's statement about the threads of a name: the name, and their period in ns or, if they have none, `None`.
pub type Set = (String, Option<u64>);

/// Finds the period of each thread of the load; the user's periods in `set` have precedence.
pub fn find(threads: &[Known], keeps: &[bool], set: &[Set]) -> Vec<Option<Periodic>> {
    let wakeups: Vec<Vec<Wakeup>> = threads
        .iter()
        .map(|thread| wakeups(&thread.steps, keeps))
        .collect();
    let set: HashMap<&str, Option<u64>> = set.iter().map(|(name, ns)| (&**name, *ns)).collect();
    let mut found: Vec<Option<Periodic>> = Vec::new();
    // The threads whose periods follow from those of their wakers, or are unknown.
    let mut open = BTreeMap::new();
    for (thread, wakeups) in wakeups.iter().enumerate() {
        let word = set.get(&*threads[thread].name);
        found.push(match (keeps[thread], word) {
            (false, _) | (true, Some(None)) => None,
            (true, Some(Some(ns))) => Some(given(wakeups, *ns)),
            (true, None) => match Open::of(wakeups) {
                Open {
                    grid: Some(grid),
                    paced,
                    ..
                } if 2 * paced > grid.releases.len() => Some(grid),
                unknown => {
                    open.insert(thread, unknown);
                    None
                }
            },
        });
    }
    follow(&wakeups, &mut open, &mut found);
    found
}

/// A thread whose period is not known yet.
struct Open {
    /// The period of the thread's wakeups, if they are regular.
    grid: Option<Periodic>,
    /// The number of releases of `grid` by timers or by periodic wakers, which must be the majority. Threads that
    /// answer each other without a timer are as regular as their work, and have no deadline.
    paced: usize,
    /// The number of releases of `grid` by each other waker.
    by_waker: HashMap<u32, usize>,
    /// The waker of most of the thread's wakeups.
    usual: Option<u32>,
}

impl Open {
    fn of(wakeups: &[Wakeup]) -> Open {
        let grid = on_grid(wakeups);
        let (mut paced, mut by_waker) = (0, HashMap::new());
        for wakeup in wakeups {
            if let Some(waker) = wakeup.by {
                by_waker.entry(waker).or_insert(0);
            }
        }
        for entry in grid.iter().flat_map(|grid| &grid.releases) {
            let wakeup = wakeups.binary_search_by_key(entry, |it| it.entry);
            match wakeup.map(|it| wakeups[it].by) {
                Ok(Some(waker)) => *by_waker.entry(waker).or_insert(0) += 1,
                Ok(None) => paced += 1,
                Err(_) => {}
            }
        }
        let mut all: HashMap<u32, usize> = HashMap::new();
        for waker in wakeups.iter().filter_map(|it| it.by) {
            *all.entry(waker).or_insert(0) += 1;
        }
        let mut usual = all
            .into_iter()
            .filter(|&(_, count)| 2 * count > wakeups.len());
        Open {
            grid,
            paced,
            by_waker,
            usual: usual.next().map(|(waker, _)| waker),
        }
    }
}

/// Finds the periods of `open` threads that periodic threads wake, and of the threads that these threads wake in turn.
/// A thread is examined again only when one of its wakers turns out to be periodic.
fn follow(
    wakeups: &[Vec<Wakeup>],
    open: &mut BTreeMap<usize, Open>,
    found: &mut [Option<Periodic>],
) {
    let mut woken_by: Vec<Vec<usize>> = vec![Vec::new(); found.len()];
    for (&thread, it) in open.iter() {
        for &waker in it.by_waker.keys() {
            woken_by[waker as usize].push(thread);
        }
    }
    let mut due: BTreeSet<usize> = open.keys().copied().collect();
    let mut news: Vec<usize> = (0..found.len()).filter(|&it| found[it].is_some()).collect();
    loop {
        for waker in news.drain(..) {
            for thread in &woken_by[waker] {
                if let Some(it) = open.get_mut(thread) {
                    it.paced += it.by_waker.remove(&(waker as u32)).unwrap_or(0);
                    due.insert(*thread);
                }
            }
        }
        let Some(thread) = due.pop_first() else {
            return;
        };
        let Some(it) = open.get_mut(&thread) else {
            continue;
        };
        // Ask only once, because the answer does not change.
        let waker = it.usual.filter(|&waker| found[waker as usize].is_some());
        let chained = waker.and_then(|waker| {
            it.usual = None;
            chained(waker, &wakeups[thread], &wakeups[waker as usize], found)
        });
        let is_paced = |grid: &mut Periodic| 2 * it.paced > grid.releases.len();
        if let Some(periodic) = chained.or_else(|| it.grid.take_if(is_paced)) {
            found[thread] = Some(periodic);
            open.remove(&thread);
            news.push(thread);
        }
    }
}

fn wakeups(steps: &[Entry], keeps: &[bool]) -> Vec<Wakeup> {
    let wakeup = |(entry, step): (usize, &Entry)| {
        let (gap, by) = match *step {
            Entry::Slept(gap) => (gap, None),
            Entry::Woken { by, gap } => (gap, Some(by).filter(|&by| keeps[by as usize])),
            _ => return None,
        };
        Some(Wakeup {
            entry: entry as u32,
            since: gap.until.saturating_sub(gap.ns),
            at: gap.until,
            by,
        })
    };
    steps.iter().enumerate().filter_map(wakeup).collect()
}

fn on_grid(wakeups: &[Wakeup]) -> Option<Periodic> {
    let mut best: Option<Fit> = None;
    for period in candidates(wakeups) {
        // The middle of a class of intervals is only an estimate of the period.
        let period = fit(wakeups, period, &WIDEST).ns;
        let fits = TOLERANCES.iter().map(|part| fit(wakeups, period, part));
        let order = |fit: &Fit| (100.0 * fit.confidence).round();
        let fit = fits.max_by(|a, b| {
            let by_chance = a.deviations.total_cmp(&b.deviations);
            order(a).total_cmp(&order(b)).then(by_chance)
        })?;
        let least = best.as_ref().map_or(0.0, |best| best.confidence + BETTER);
        let is_significant = fit.hits.len() >= FEWEST && fit.deviations >= SIGNIFICANT;
        if is_significant && fit.confidence >= BELIEVED.max(least) {
            best = Some(fit);
        }
    }
    best.filter(|fit| !is_self_paced(wakeups, &fit.hits))
        .map(|fit| fit.periodic(wakeups))
}

/// The most frequent intervals in ns, in ascending order.
fn candidates(wakeups: &[Wakeup]) -> Vec<u64> {
    let intervals = (1..=OVER).flat_map(|over| {
        let pairs = wakeups.iter().zip(wakeups.iter().skip(over));
        pairs.map(|(a, b)| b.at - a.at)
    });
    let mut intervals: Vec<u64> = intervals.filter(|&ns| ns > 0).collect();
    intervals.sort_unstable();
    let class = |ns: u64| ((ns as f64).ln() / CLASS.ln()) as i64;
    let mut classes: Vec<&[u64]> = intervals
        .chunk_by(|&a, &b| class(a) == class(b))
        .filter(|class| class.len() * OVER >= FEWEST)
        .collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.len()));
    classes.truncate(CANDIDATES);
    let mut middles: Vec<u64> = classes.iter().map(|class| class[class.len() / 2]).collect();
    middles.sort_unstable();
    middles
}

struct Fit {
    /// The mean of the observed periods.
    ns: u64,
    /// The share of the periods at whose end a wakeup came, corrected so that 0 is chance and 1 is all periods.
    confidence: f64,
    /// The distance of the share from chance, in standard deviations.
    deviations: f64,
    /// Pairs of indices of wakeups, the second of which came a period after the first.
    hits: Vec<(usize, usize)>,
    releases: Vec<usize>,
}

/// Fits wakeups to a period: goes from each wakeup to the wakeup that is a period later. If there is none, the period
/// is a miss, unless the thread was late, because its next wakeup then shows nothing.
fn fit(wakeups: &[Wakeup], period: u64, part: &u64) -> Fit {
    let tolerance = period / part;
    let (mut hits, mut misses, mut releases) = (Vec::new(), 0, Vec::new());
    let mut now = 0;
    while now < wakeups.len() {
        releases.push(now);
        let due = wakeups[now].at + period;
        let later = |at: u64| now + 1 + wakeups[now + 1..].partition_point(|it| it.at < at);
        let (first, end) = (later(due - tolerance), later(due + tolerance + 1));
        let nearest = (first..end).min_by_key(|&it| wakeups[it].at.abs_diff(due));
        now = match nearest {
            Some(next) => {
                hits.push((now, next));
                next
            }
            None => {
                let begin = wakeups[now].at;
                let between = wakeups[now + 1..].iter().take_while(|it| it.since < due);
                let slept = between.map(|it| it.at.min(due) - it.since.max(begin));
                let was_late = slept.sum::<u64>() * LATE_SLEEP <= period;
                misses += usize::from(!was_late && end < wakeups.len());
                end
            }
        };
    }
    let slept = |most: u64| {
        let gaps = wakeups.iter().map(|it| (it.at - it.since).min(most));
        gaps.sum::<u64>() as f64
    };
    let chance = slept(2 * tolerance) / slept(u64::MAX).max(1.0);
    let all = (hits.len() + misses).max(1) as f64;
    let share = hits.len() as f64 / all;
    let deviation = (chance * (1.0 - chance) / all).sqrt();
    let sum: u64 = hits
        .iter()
        .map(|&(a, b)| wakeups[b].at - wakeups[a].at)
        .sum();
    Fit {
        ns: sum.checked_div(hits.len() as u64).unwrap_or(period),
        confidence: match chance < 1.0 {
            true => ((share - chance) / (1.0 - chance)).max(0.0),
            false => 0.0,
        },
        deviations: (share - chance) / deviation.max(f64::MIN_POSITIVE),
        hits,
        releases,
    }
}

impl Fit {
    fn periodic(self, wakeups: &[Wakeup]) -> Periodic {
        Periodic {
            period: Period {
                ns: self.ns,
                confidence: Some(percent(self.confidence)),
                woken_by: None,
            },
            releases: self
                .releases
                .iter()
                .map(|&release| wakeups[release].entry)
                .collect(),
        }
    }
}

fn percent(share: f64) -> u8 {
    (100.0 * share).round() as u8
}

/// Does the thread sleep for a duration after its work, instead of until a time? If so, an interval
/// grows with the work: the slope of intervals over work is 1; for a timer it is 0. If the work
/// varies too little to decide, late wakeups decide. After a late wakeup, a timer's next interval
/// is shorter by the same amount, so the correlation of successive intervals is -1/2; for a pause
/// it is 0.
fn is_self_paced(wakeups: &[Wakeup], hits: &[(usize, usize)]) -> bool {
    let interval = |&(a, b): &(usize, usize)| (wakeups[b].at - wakeups[a].at) as f64;
    let work = |&(a, b): &(usize, usize)| wakeups[b].since.saturating_sub(wakeups[a].at) as f64;
    let both = Pairs::of(hits.iter().map(|hit| (work(hit), interval(hit))));
    if both.slope_error() <= SLOPE_ERROR {
        return both.slope() > 0.5;
    }
    let successive = hits.windows(2).filter(|pair| pair[0].1 == pair[1].0);
    let lag = Pairs::of(successive.map(|pair| (interval(&pair[0]), interval(&pair[1]))));
    let surely_above = -0.5 + LAG_ERRORS / lag.count.sqrt();
    let period = hits.iter().map(interval).sum::<f64>() / hits.len() as f64;
    lag.variance.0.sqrt() > period / REGULAR && lag.slope() > surely_above
}

struct Pairs {
    count: f64,
    variance: (f64, f64),
    covariance: f64,
}

impl Pairs {
    fn of(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Pairs {
        let count = pairs.clone().count().max(1) as f64;
        let mean = |each: fn((f64, f64)) -> f64| pairs.clone().map(each).sum::<f64>() / count;
        let (x, y) = (mean(|it| it.0), mean(|it| it.1));
        let moment = |of: &dyn Fn(f64, f64) -> f64| {
            let all = pairs.clone().map(|it| of(it.0 - x, it.1 - y));
            all.sum::<f64>() / count
        };
        Pairs {
            count,
            variance: (moment(&|x, _| x * x), moment(&|_, y| y * y)),
            covariance: moment(&|x, y| x * y),
        }
    }

    /// The slope of the second variable over the first.
    fn slope(&self) -> f64 {
        self.covariance / self.variance.0.max(f64::MIN_POSITIVE)
    }

    /// The standard error of the slope; infinite if the first variable is constant.
    fn slope_error(&self) -> f64 {
        if self.variance.0.sqrt() <= RESOLUTION_NS {
            return f64::INFINITY;
        }
        let rest = (self.variance.1 - self.slope() * self.covariance).max(0.0);
        (rest / (self.variance.0 * self.count)).sqrt()
    }
}

/// The period of `waker`, if it makes most wakeups of a thread, and wakes this thread once in most of its periods. The
/// waker has the wakeups `theirs`, and the thread has the wakeups `mine`.
fn chained(
    waker: u32,
    mine: &[Wakeup],
    theirs: &[Wakeup],
    found: &[Option<Periodic>],
) -> Option<Periodic> {
    let periodic = found[waker as usize].as_ref()?;
    let begins = periodic.releases.iter().filter_map(|entry| {
        let index = theirs.binary_search_by_key(entry, |it| it.entry).ok()?;
        Some(theirs[index].at)
    });
    let begins: Vec<u64> = begins.collect();
    if begins.is_empty() {
        return None;
    }
    let ns = periodic.period.ns;
    // Take the first wakeup in each of the waker's periods.
    let (mut last, mut first) = (None, Vec::new());
    for it in mine.iter().filter(|it| it.by == Some(waker)) {
        let period = begins.partition_point(|&begin| begin <= it.at);
        let begin = begins[period.saturating_sub(1)];
        // A waker that was late may do the jobs of several periods as one job.
        let is_next = last.is_none_or(|(last_period, at)| {
            last_period != period || (it.at >= begin + ns && it.at >= at + ns / 2)
        });
        if is_next {
            first.push(it.entry);
            last = Some((period, it.at));
        }
    }
    let share = first.len() as f64 / begins.len() as f64;
    (first.len() >= FEWEST && share >= BELIEVED).then(|| Periodic {
        period: Period {
            ns,
            confidence: Some(
                percent(share.min(1.0)).min(periodic.period.confidence.unwrap_or(100)),
            ),
            woken_by: Some(waker as usize),
        },
        releases: first,
    })
}

/// The releases for a period that the user has set.
fn given(wakeups: &[Wakeup], ns: u64) -> Periodic {
    let fit = fit(wakeups, ns.max(SET_TOLERANCE), &SET_TOLERANCE);
    let mut set = fit.periodic(wakeups);
    (set.period.ns, set.period.confidence) = (ns, None);
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    const MS: f64 = 1e6;

    struct Random(Xoshiro256PlusPlus);

    impl Random {
        fn new(seed: u64) -> Random {
            Random(Xoshiro256PlusPlus::seed_from_u64(seed))
        }

        fn next(&mut self) -> f64 {
            self.0.next_u64() as f64 / u64::MAX as f64
        }
    }

    /// The wakeups of a thread that works for `work` after each of the wakeups `at`, in ns. A wakeup that arrives while
    /// the thread is busy only adds work.
    fn of(at: impl Iterator<Item = f64>, mut work: impl FnMut() -> f64) -> Vec<Wakeup> {
        let mut wakeups = Vec::new();
        let mut busy_until = 0.0;
        for at in at {
            if at > busy_until {
                wakeups.push(Wakeup {
                    entry: wakeups.len() as u32,
                    since: busy_until as u64,
                    at: at as u64,
                    by: None,
                });
                busy_until = at;
            }
            busy_until += work();
        }
        wakeups
    }

    #[test]
    fn constant_work_is_a_timer() {
        let at = (1..40).map(|it| f64::from(it) * MS / 2.0);
        let wakeups = of(at, || 0.4146 * MS);
        assert_eq!(period_of(&wakeups), Some(0.5 * MS));
    }

    fn period_of(wakeups: &[Wakeup]) -> Option<f64> {
        on_grid(wakeups).map(|it| it.period.ns as f64)
    }

    proptest! {
        // Some random wakeups look like a timer's, and some wakeups by a timer look random, so each run of the test has
        // the same cases.
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(2026), ..ProptestConfig::with_cases(400) })]

        #[test]
        fn a_timer_is_found(
            ms in 0.5..120.0_f64, phase in 0.0..1.0_f64, load in 0.01..0.9_f64, spread in 0.0..0.9_f64,
            jitter in 0.0..0.03_f64, periods in 40..400_u32, seed in any::<u64>(),
        ) {
            let mut random = Random::new(seed);
            let mut other = Random::new(!seed);
            let period = ms * MS;
            let at = (1..periods).map(|it| (phase + f64::from(it) + jitter * random.next()) * period);
            let wakeups = of(at, || period * load * (1.0 + spread * (other.next() - 0.5)));
            let found = period_of(&wakeups);
            prop_assert!(
                found.is_some_and(|found| (found / period - 1.0).abs() <= 0.02), "{found:?}, not {period}"
            );
        }

        /// Neither Poisson wakeups nor sleeps between 0.5 and 1.5 times their mean have a period.
        #[test]
        fn random_wakeups_have_no_period(
            ms in 0.5..120.0_f64, load in 0.01..0.9_f64, poisson in any::<bool>(), count in 40..800_u32,
            seed in any::<u64>(),
        ) {
            let mut random = Random::new(seed);
            let mean = ms * MS;
            let (mut at, mut wakeups) = (0.0, Vec::new());
            for entry in 0..count {
                let since = at + mean * load;
                at = since + mean * match poisson {
                    true => -random.next().max(1e-9).ln(),
                    false => 0.5 + random.next(),
                };
                wakeups.push(Wakeup { entry, since: since as u64, at: at as u64, by: None });
            }
            let found = period_of(&wakeups);
            prop_assert!(found.is_none(), "{found:?}, of a mean of {mean}");
        }

        #[test]
        fn a_pause_is_no_timer(
            ms in 0.5..120.0_f64, load in 0.05..2.0_f64, spread in 0.05..1.0_f64, count in 40..400_u32,
            seed in any::<u64>(),
        ) {
            let mut random = Random::new(seed);
            let pause = ms * MS;
            let (mut at, mut wakeups) = (0.0, Vec::new());
            for entry in 0..count {
                let since = at + pause * load * (1.0 + spread * (random.next() - 0.5));
                at = since + pause * (1.0 + 1e-4 * random.next());
                wakeups.push(Wakeup { entry, since: since as u64, at: at as u64, by: None });
            }
            let found = period_of(&wakeups);
            prop_assert!(found.is_none(), "{found:?}, of a pause of {pause}");
        }
    }

    /// Locks and answers within a job do not begin a period, and periods that a busy thread skips
    /// do not hide the period.
    #[test]
    fn wakeups_within_a_job_are_none() {
        let mut random = Random::new(1);
        let mut wakeups = Vec::new();
        let mut wake = |since: f64, at: f64| {
            wakeups.push(Wakeup {
                entry: wakeups.len() as u32,
                since: since as u64,
                at: at as u64,
                by: None,
            });
        };
        let mut done = 0.0;
        for frame in 1..300 {
            let at = f64::from(frame) * 16.667 * MS;
            if at < done {
                continue;
            }
            wake(done, at);
            wake(at + MS, at + (1.2 + random.next()) * MS);
            let long = if frame % 7 == 0 { 18.0 } else { 6.0 };
            done = at + (long + random.next()) * MS;
        }
        let found = on_grid(&wakeups).unwrap();
        assert!(
            (found.period.ns as f64 / MS - 16.667).abs() < 0.05,
            "{:?}",
            found.period
        );
        assert!(found.releases.iter().all(|entry| entry % 2 == 0));
        assert!(found.period.confidence >= Some(95), "{:?}", found.period);
    }
}
