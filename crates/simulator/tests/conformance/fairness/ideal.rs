//! The exact fair share of each thread, by weighted max-min fairness.

use super::load::{Does, Load, Thread};
use std::collections::HashMap;
use std::ops::Range;

/// The claim of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The part of a CPU of the fastest kind that the thread asks for, up to 1.
    pub demand: f64,
    pub weight: f64,
    /// The CPUs that it may use, one bit for each.
    pub cpus: u64,
}

/// A level at which every thread gets its demand.
fn enough(claims: &[Claim]) -> f64 {
    let least = claims
        .iter()
        .map(|claim| claim.weight)
        .fold(f64::MAX, f64::min);
    1.0 / least
}

/// The CPU time, in CPUs, that threads get if each has `level` CPUs per unit of weight. Only threads that may use no
/// CPUs outside `set` are counted.
fn confined(claims: &[Claim], due: &[Option<f64>], set: u64, level: f64) -> f64 {
    let part = |claim: &Claim| claim.demand.min(level * claim.weight);
    claims
        .iter()
        .zip(due)
        .filter(|(claim, _)| claim.cpus & !set == 0)
        .map(|(claim, due)| due.unwrap_or_else(|| part(claim)))
        .sum()
}

/// The fair share of each thread, in CPUs, on `cpus` equal CPUs (at most 16). No thread gets more than it asks for. No
/// thread could get more time without taking it from a thread that has no more in proportion to its weight.
///
/// The shares rise together, in proportion to weight, until some CPUs are full with threads that may use no others.
/// These threads keep their shares, and the shares of the others rise further. By Hall's theorem, CPUs fill up only
/// through such threads.
pub fn due(claims: &[Claim], cpus: usize) -> Vec<f64> {
    let all = (1 << cpus) - 1;
    let claims: Vec<_> = claims
        .iter()
        .map(|claim| Claim {
            cpus: claim.cpus & all,
            ..*claim
        })
        .collect();
    let most = enough(&claims);
    let mut due = vec![None; claims.len()];
    while due.contains(&None) {
        let full = |set: u64, level| {
            confined(&claims, &due, set, level) > f64::from(set.count_ones()) + 1e-9
        };
        let open =
            |set: u64| (0..claims.len()).any(|i| due[i].is_none() && claims[i].cpus & !set == 0);
        let filled_at = |set: u64| {
            let (mut free, mut filled) = (0.0, most);
            for _ in 0..60 {
                let level = (free + filled) / 2.0;
                *if full(set, level) {
                    &mut filled
                } else {
                    &mut free
                } = level;
            }
            filled
        };
        let first = (1..=all)
            .filter(|&set| open(set) && full(set, most))
            .map(|set| (filled_at(set), set))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let (level, set) = first.unwrap_or((most, all));
        for (claim, due) in claims.iter().zip(&mut due) {
            if due.is_none() && claim.cpus & !set == 0 {
                *due = Some(claim.demand.min(level * claim.weight));
            }
        }
    }
    due.into_iter().flatten().collect()
}

/// The fair share of each thread, in CPUs of the fastest kind, on CPUs of these `speeds` that all threads may use: as
/// [`due`], and a thread uses one CPU at a time. So k threads get no more than the k fastest CPUs have. That is the
/// only bound, because threads can change places (E. Horvath, S. Lam, R. Sethi, "A level algorithm for preemptive
/// scheduling", Journal of the ACM 24, 1977).
pub fn due_by_speed(claims: &[Claim], speeds: &[f64]) -> Vec<f64> {
    let mut fastest = speeds.to_vec();
    fastest.sort_by(|a, b| b.total_cmp(a));
    let first = |k: usize| -> f64 { fastest.iter().take(k).sum() };
    let most = enough(claims);
    let mut due: Vec<Option<f64>> = vec![None; claims.len()];
    while due.contains(&None) {
        let shares = |level: f64| -> Vec<f64> {
            let share = |claim: &Claim| claim.demand.min(level * claim.weight);
            let each = claims.iter().zip(&due);
            each.map(|(claim, due)| due.unwrap_or_else(|| share(claim)))
                .collect()
        };
        // The least share among the fewest threads, largest shares first, that have more than their CPUs.
        let over = |shares: &[f64]| {
            let mut sorted = shares.to_vec();
            sorted.sort_by(|a, b| b.total_cmp(a));
            (1..=sorted.len())
                .find(|&k| sorted[..k].iter().sum::<f64>() > first(k) + 1e-9)
                .map(|k| sorted[k - 1])
        };
        let (mut fits, mut exceeds) = (0.0, most);
        if over(&shares(most)).is_none() {
            fits = most;
        } else {
            for _ in 0..60 {
                let level = (fits + exceeds) / 2.0;
                *if over(&shares(level)).is_some() {
                    &mut exceeds
                } else {
                    &mut fits
                } = level;
            }
        }
        // These threads keep their shares. If there are no such threads, all threads get their demands.
        let least = if fits == most {
            0.0
        } else {
            over(&shares(exceeds)).unwrap_or(0.0)
        };
        let now = shares(fits);
        for (due, share) in due.iter_mut().zip(now) {
            if share + 1e-6 >= least {
                due.get_or_insert(share);
            }
        }
    }
    due.into_iter().flatten().collect()
}

/// A thread's state in the fluid ideal: the work that is left until it sleeps, or the time at which it wakes up.
#[derive(Clone, Copy)]
enum State {
    Runs { left: f64 },
    Sleeps { until: f64 },
}

impl State {
    /// The state at the time `now`, in ns, of a thread that `does` this and that begins or has just done its work.
    fn next(does: Does, now: f64) -> State {
        match does {
            Does::Spin => State::Runs { left: f64::MAX },
            Does::Sleep => State::Sleeps { until: f64::MAX },
            Does::Nap { sleep, .. } => State::Sleeps {
                until: now + sleep as f64,
            },
            Does::Period { period, .. } => State::Sleeps {
                until: ((now / period as f64).floor() + 1.0) * period as f64,
            },
        }
    }

    fn begin(does: Does) -> State {
        match does {
            Does::Nap { run, .. } | Does::Period { run, .. } => State::Runs { left: run as f64 },
            other => State::next(other, 0.0),
        }
    }
}

/// The work that each thread does in the `window`, in CPUs of the fastest kind, if at each time all runnable threads
/// have their fair shares, which `shares` gives for a set of threads: generalized processor sharing (A. Parekh, R.
/// Gallager, IEEE/ACM Transactions on Networking 1, 1993).
pub fn fluid(
    all: &[Does],
    window: Range<u64>,
    mut shares: impl FnMut(&[bool]) -> Vec<f64>,
) -> Vec<f64> {
    let mut states: Vec<State> = all.iter().map(|&does| State::begin(does)).collect();
    let mut known: HashMap<Vec<bool>, Vec<f64>> = HashMap::new();
    let (mut now, end) = (0.0f64, window.end as f64);
    let mut work = vec![0.0; all.len()];
    while now < end {
        let runs: Vec<bool> = states
            .iter()
            .map(|state| matches!(state, State::Runs { .. }))
            .collect();
        let rates = known.entry(runs).or_insert_with_key(|runs| shares(runs));
        let until = |(state, &rate): (&State, &f64)| match *state {
            State::Runs { left } if rate > 0.0 => now + left / rate,
            State::Runs { .. } => f64::MAX,
            State::Sleeps { until } => until,
        };
        let next = states.iter().zip(&*rates).map(until).fold(end, f64::min);
        let counted = next.max(window.start as f64) - now.max(window.start as f64);
        for (i, state) in states.iter_mut().enumerate() {
            work[i] += rates[i] * counted / (end - window.start as f64);
            *state = match *state {
                State::Runs { left } if left - rates[i] * (next - now) < 1.0 => {
                    State::next(all[i], next)
                }
                State::Runs { left } if left < f64::MAX => State::Runs {
                    left: left - rates[i] * (next - now),
                },
                State::Sleeps { until } if until <= next => State::begin(all[i]),
                same => same,
            };
        }
        now = next;
    }
    work
}

/// `sched_prio_to_weight` (kernel/sched/core.c).
const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

pub fn weight_of(nice: i8) -> u32 {
    WEIGHTS[(nice + 20) as usize]
}

/// The claims of the threads of `load`.
pub fn claims(load: &Load) -> Vec<Claim> {
    let claim = |thread: &Thread| Claim {
        demand: thread.does.demand(),
        weight: match thread.group {
            Some(group) => f64::from(load.groups[group as usize].weight),
            None => f64::from(weight_of(thread.nice)),
        },
        cpus: thread
            .cpus
            .map_or(!0, |mask| mask.iter().map(|cpu| 1u64 << cpu).sum()),
    };
    load.threads.iter().map(claim).collect()
}

/// The fair shares of `claims`, in CPUs of the fastest kind, on CPUs of these `speeds`, which must be equal unless all
/// claims have the same set of CPUs.
pub fn shares(claims: &[Claim], speeds: &[f64]) -> Vec<f64> {
    let set = claims.first().map_or(!0, |claim| claim.cpus);
    if claims.iter().any(|claim| claim.cpus != set) {
        return due(claims, speeds.len());
    }
    let of_set = (0..speeds.len()).filter(|&cpu| set == !0 || set >> cpu & 1 == 1);
    let speeds: Vec<f64> = of_set.map(|cpu| speeds[cpu]).collect();
    due_by_speed(claims, &speeds)
}

/// The fair share of each thread of `load` in the `window`, in CPUs of the fastest kind. Each group of `load` must have
/// only one thread.
///
/// A thread that naps has two shares. By the first, a thread has its share of each instant only while it is runnable,
/// so it runs for longer and naps less often. By the second, over the whole time, it may make up for the share that it
/// did not use while it slept. The result has the smaller of the two, and the other threads' shares follow from it.
pub fn ideal(load: &Load, speeds: &[f64], window: Range<u64>) -> Vec<f64> {
    let claims = claims(load);
    let over_all = shares(&claims, speeds);
    let does: Vec<Does> = load.threads.iter().map(|thread| thread.does).collect();
    let at_each_instant = fluid(&does, window, |runs| {
        let running = claims.iter().zip(runs).filter(|(_, runs)| **runs);
        let running: Vec<Claim> = running
            .map(|(claim, _)| Claim {
                demand: 1.0,
                ..*claim
            })
            .collect();
        let mut shares = shares(&running, speeds).into_iter();
        runs.iter()
            .map(|&runs| if runs { shares.next().unwrap() } else { 0.0 })
            .collect()
    });
    over_all
        .iter()
        .zip(at_each_instant)
        .map(|(a, b)| a.min(b))
        .collect()
}
