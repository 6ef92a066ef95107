//! The verdict in words: for each goal the best schedulers, the differences, and the price.

mod stopped;

use crate::number::{digits, margin};
use lab::{
    Change, Comparison, Entry, Finding, GoalVerdict, Judged, Measured, Reason, Results, Statement,
    Verdict,
};
pub(crate) use stopped::deadlocked;
use stopped::{deadlock, stalled};
use workload::Goal;

/// The number of equal schedulers that a line names if it leaves out two or more.
const MOST_NAMES: usize = 3;
/// The maximum number of prices of a line.
const MOST_PRICES: usize = 2;
/// The factor from which a change is printed as a factor, instead of in %.
const AS_FACTOR: f64 = 2.0;
/// The largest variation of a policy's runs, in % or points, that does not hide differences between policies.
const NOISE_PCT: f64 = 5.0;
/// The share of missed periods, in %, from which the verdict says that every policy misses many.
const MANY_MISSED_PCT: f64 = 10.0;
/// The part of the time, in %, above which busy CPUs leave no room for a difference.
const BUSY_PCT: f64 = 90.0;

/// The verdict: a line for each scheduler under which threads stalled or were in a deadlock; a line for each goal, or
/// only for `goal`; and a line about all goals, or that says that the comparison cannot tell the schedulers apart.
/// Without several runs, a line says that there is no verdict.
pub(crate) fn verdict(findings: &Results<'_>, goal: Option<Goal>) -> Vec<String> {
    let names = findings.schedulers.clone();
    let mut lines: Vec<String> = names
        .iter()
        .zip(findings.measured)
        .flat_map(|(name, measured)| {
            stalled(name, measured)
                .into_iter()
                .chain(deadlock(name, measured))
        })
        .collect();
    if names.len() < 2 {
        return lines;
    }
    if findings.runs() < 2 {
        let say = "No verdict: one run cannot show which differences are significant. Use --runs 5 or more.";
        lines.push(say.to_owned());
        return lines;
    }
    let words = Words {
        names,
        verdict: &findings.verdict,
        rows: &findings.rows,
        same_as: findings.same_as(),
    };
    lines.extend(words.goals(goal));
    let mut goals = words.verdict.goals.iter();
    let is_judged = |verdict: &GoalVerdict| goal.is_none_or(|goal| verdict.goal == goal);
    if goals.clone().any(is_judged)
        && !goals.any(|verdict| is_judged(verdict) && verdict.tells_apart())
    {
        let noise = words.noise(goal);
        lines.push(cannot_tell(noise, busy_pct(findings.measured)));
    }
    lines
}

/// The part of the CPUs' time for which they were busy, over all runs, in per cent; `None` if it is not known.
fn busy_pct(measured: &[Measured]) -> Option<f64> {
    let runs = || measured.iter().flat_map(|measured| &measured.runs);
    let busy: u64 = runs().flat_map(|run| &run.counters.busy_ns).sum();
    let all: f64 = runs()
        .map(|run| run.simulated_ns as f64 * run.counters.busy_ns.len() as f64)
        .sum();
    (all > 0.0).then(|| 100.0 * busy as f64 / all)
}

/// The line for a comparison without any significant difference; `noise` is the margin that hides differences, if one
/// does.
fn cannot_tell(noise: Option<String>, busy_pct: Option<f64>) -> String {
    let why = match (noise, busy_pct) {
        (Some(noise), _) => format!(
            ": the runs of a policy differ by more than the policies do ({noise}). More runs may tell \
             them apart."
        ),
        (None, None) => ".".to_owned(),
        (None, Some(busy_pct)) => {
            let busy = format!(": CPUs are busy for {busy_pct:.0} % of the time.");
            let advice = " A load that keeps them busier, or switches more often, may tell the policies apart.";
            match busy_pct < BUSY_PCT {
                true => busy + advice,
                false => busy,
            }
        }
    };
    format!("This comparison cannot tell the policies apart{why}")
}

pub(crate) fn title(goal: Goal) -> &'static str {
    match goal {
        Goal::Latency => "Latency",
        Goal::Throughput => "Throughput",
        Goal::Energy => "Energy",
        Goal::Fairness => "Fairness",
    }
}

/// Names in words: `a`, `a and b`, `a, b and c`.
fn and(mut names: Vec<String>) -> String {
    let last = names.pop().unwrap_or_default();
    match names.is_empty() {
        true => last,
        false => format!("{} and {last}", names.join(", ")),
    }
}

struct Words<'a> {
    names: Vec<&'a str>,
    verdict: &'a Verdict,
    rows: &'a [Finding<'a>],
    /// For each scheduler, the earlier scheduler under which every run was the same, if any.
    same_as: Vec<Option<usize>>,
}

impl Words<'_> {
    /// A line for each goal, and a line for all goals; or only a line for `goal`.
    fn goals(&self, goal: Option<Goal>) -> Vec<String> {
        let wanted = |verdict: &&GoalVerdict| goal.is_none_or(|goal| verdict.goal == goal);
        let goals = self.verdict.goals.iter().filter(wanted);
        let mut lines: Vec<String> = goals.map(|verdict| self.line(verdict)).collect();
        match goal {
            // Every load has an energy.
            Some(Goal::Energy) if lines.is_empty() => {
                lines.push("Energy: the power of this machine is not known.".to_owned());
            }
            Some(goal) if lines.is_empty() => lines.push(format!(
                "{}: this workload has no measure for this goal.",
                title(goal)
            )),
            Some(_) => {}
            None => lines.extend(self.altogether()),
        }
        lines
    }

    fn line(&self, verdict: &GoalVerdict) -> String {
        let title = title(verdict.goal);
        let base = self.names[0];
        let (line, winner) = match verdict.statement() {
            Statement::Same => return format!("{title}: {}.", same(verdict)),
            Statement::Best(best, reason) => {
                let named = self.named(&best);
                let are = if named.len() == 1 { "is" } else { "are" };
                let how = self.reason(verdict, best[0], 0, &reason);
                (
                    format!("{title}: {} {are} best: {how}", self.list(&named)),
                    best[0],
                )
            }
            Statement::Better(one, reason) => {
                let how = self.reason(verdict, one, 0, &reason);
                let name = self.names[one];
                return format!(
                    "{title}: {name} is better than {base}: {how}. No policy is best, because each is worse than another policy."
                );
            }
            Statement::Baseline(None) => (
                format!("{title}: no policy is better than {base}, and none is worse"),
                0,
            ),
            Statement::Baseline(Some((worst, reason))) => {
                let named = self.named(&worst);
                let are = if named.len() == 1 { "is" } else { "are" };
                let how = self.inverse(verdict, worst[0], 0, &reason);
                let line = format!(
                    "{title}: no policy is better than {base}, and {} {are} worst: {how}",
                    self.list(&named)
                );
                (line, 0)
            }
        };
        let prices = self.prices(verdict, winner);
        match prices.is_empty() {
            true => line + ".",
            false => format!(
                "{line}. {} has a price: {}.",
                self.names[winner],
                prices.join(", ")
            ),
        }
    }

    /// The `schedulers` except those whose runs are equal to those of another scheduler among them.
    fn named(&self, schedulers: &[usize]) -> Vec<usize> {
        let is_first = |&it: &usize| self.same_as[it].is_none_or(|it| !schedulers.contains(&it));
        schedulers.iter().copied().filter(is_first).collect()
    }

    /// Schedulers in words: `a`, `a and b`, `a, b, c and 4 others`.
    fn list(&self, schedulers: &[usize]) -> String {
        let named = match schedulers.len() {
            // The name of one more scheduler takes no more room than `and 1 other`.
            few if few <= MOST_NAMES + 1 => few,
            _ => MOST_NAMES,
        };
        let name = |&index: &usize| self.names[index].to_owned();
        let mut names: Vec<String> = schedulers.iter().take(named).map(name).collect();
        let more = schedulers.len() - names.len();
        if more > 0 {
            names.push(format!("{more} others"));
        }
        and(names)
    }

    /// The reason why `one` is better than `other`, as figures of `one`.
    fn reason(&self, verdict: &GoalVerdict, one: usize, other: usize, reason: &Reason) -> String {
        let name = self.names[other];
        match reason {
            Reason::Stalled => format!("fewer threads stall than under {name}"),
            Reason::Lacks { measure, both } => {
                let some = if *both { "more" } else { "some" };
                format!("{some} runs under {name} never reached {measure}")
            }
            Reason::Share {
                own,
                other: others,
                counts_absent,
            } => {
                let [one, other] = [one, other].map(|it| &verdict.standings[it]);
                let counts = one.responses.zip(other.responses);
                let counts = counts.filter(|_| *counts_absent);
                let own = (*own, one.missed_until_ns);
                shares(
                    verdict.goal,
                    own,
                    (*others, other.missed_until_ns),
                    name,
                    counts,
                )
            }
            Reason::Cost { change, work_pct } => {
                let work = for_work(verdict.goal, *work_pct);
                amount(verdict, change, name) + &work
            }
        }
    }

    /// The `reason` why `other` is better than `one`, as figures of `one`.
    fn inverse(&self, verdict: &GoalVerdict, one: usize, other: usize, reason: &Reason) -> String {
        let name = self.names[other];
        match reason {
            Reason::Stalled => {
                let change = verdict.change(other, one);
                let is_worse =
                    |change: &Change| (change.mean_pct < 0.0) == verdict.higher_is_better;
                let figure = change.filter(|change| change.is_significant() && is_worse(change));
                let figure = figure.map_or(String::new(), |change| {
                    format!("{}; ", amount(verdict, &change, name))
                });
                format!("{figure}more threads stall than under {name}")
            }
            Reason::Lacks {
                measure,
                both: false,
            } => format!("some runs never reached {measure}; all runs under {name} did"),
            Reason::Lacks {
                measure,
                both: true,
            } => format!("more runs never reached {measure} than under {name}"),
            &Reason::Share {
                own,
                other: others,
                counts_absent,
            } => self.reason(
                verdict,
                one,
                other,
                &Reason::Share {
                    own: others,
                    other: own,
                    counts_absent,
                },
            ),
            Reason::Cost { work_pct, .. } => match verdict.change(other, one) {
                Some(change) => self.reason(
                    verdict,
                    one,
                    other,
                    &Reason::Cost {
                        change,
                        work_pct: work_pct.and_then(|_| verdict.work_pct(one, other)),
                    },
                ),
                None => String::new(),
            },
        }
    }

    /// The largest two prices of the best scheduler for a goal, in other goals and in parts of this goal.
    fn prices(&self, verdict: &GoalVerdict, winner: usize) -> Vec<String> {
        let mut prices: Vec<(f64, String)> = Vec::new();
        for other in self
            .verdict
            .goals
            .iter()
            .filter(|other| other.goal != verdict.goal)
        {
            if let Some(&best) = other.best.first()
                && let Some(reason) = other.reason(best, winner)
            {
                let size = match &reason {
                    Reason::Stalled | Reason::Lacks { .. } => f64::INFINITY,
                    Reason::Share { own, other, .. } => (other - own).abs(),
                    Reason::Cost { change, .. } => change.mean_pct.abs(),
                };
                prices.push((size, self.inverse(other, winner, best, &reason)));
            }
        }
        let against = match (winner, verdict.worst.first()) {
            (0, Some(&worst)) => worst,
            _ => 0,
        };
        if verdict.reason(winner, against) == Some(Reason::Stalled) {
            // If a policy gained speed at the expense of threads that do not run, that gain is not a price of another
            // policy.
            return Vec::new();
        }
        let parts = self.rows.iter().filter(|row| {
            row.measure.metric.role.goal() == Some(verdict.goal)
                && !row.measure.is_part
                && row.entries[against].is_better(&row.entries[winner])
        });
        prices.extend(parts.filter_map(|row| {
            let [own, other] = [winner, against].map(|index| &row.entries[index]);
            part(own, other, self.names[against])
        }));
        prices.sort_by(|a, b| b.0.total_cmp(&a.0));
        // Work that was never done is a price for several goals.
        prices.dedup_by(|a, b| a.1 == b.1);
        prices
            .into_iter()
            .take(MOST_PRICES)
            .map(|(_, say)| say)
            .collect()
    }

    /// A line that names the schedulers that are best for all goals that tell schedulers apart, and these goals; or says
    /// that there are none, and names a compromise if there is one. `None` unless there are several such goals.
    fn altogether(&self) -> Option<String> {
        if !self.verdict.is_of_several_goals() {
            return None;
        }
        let all = self.named(&self.verdict.best_for_all());
        Some(match all.is_empty() {
            true => {
                let compromise = self.verdict.compromise().map(|one| self.compromise(one));
                "No policy is best for every goal; --goal judges by a single goal.".to_owned()
                    + &compromise.unwrap_or_default()
            }
            false => {
                let goals = self.verdict.goals.iter().filter(|goal| goal.tells_apart());
                let goals = goals.map(|goal| title(goal.goal).to_lowercase()).collect();
                format!("Best for {}: {}.", and(goals), self.list(&all))
            }
        })
    }

    /// A sentence about `one` as a compromise: its differences from the baseline.
    fn compromise(&self, one: usize) -> String {
        let differences = self.verdict.goals.iter().filter_map(|goal| {
            let better = goal
                .reason(one, 0)
                .map(|reason| self.reason(goal, one, 0, &reason));
            better.or_else(|| Some(self.inverse(goal, one, 0, &goal.reason(0, one)?)))
        });
        format!(
            " {} is a compromise: {}.",
            self.names[one],
            and(differences.collect())
        )
    }

    /// The largest margin of a change of the goal against the first scheduler or, if all these margins are small, of a
    /// difference between shares; `None` if these are small, too.
    fn noise(&self, goal: Option<Goal>) -> Option<String> {
        let wanted = |verdict: &&GoalVerdict| goal.is_none_or(|goal| verdict.goal == goal);
        let goals = || self.verdict.goals.iter().filter(wanted);
        let others = 1..self.names.len();
        let changes = goals().flat_map(|goal| others.clone().filter_map(|it| goal.change(0, it)));
        let wide = changes.filter(|change| change.margin_pct > Some(NOISE_PCT));
        let widest = wide.max_by(|a, b| {
            let margin = |change: &Change| change.margin_pct.unwrap_or(0.0);
            margin(a).total_cmp(&margin(b))
        });
        let shares =
            goals().flat_map(|goal| others.clone().filter_map(|it| goal.share_margin(0, it)));
        let points = shares.fold(0.0, f64::max);
        match widest {
            Some(change) => Some(format!("{} %", margin(&change).trim_start())),
            None if points > NOISE_PCT => Some(format!("± {points:.1} points")),
            None => None,
        }
    }
}

/// Says that no scheduler is better than another for a goal, and whether all are bad, or that the goal is not judged.
fn same(verdict: &GoalVerdict) -> String {
    if let Some(measure) = verdict.unknown() {
        return format!("not judged, because some runs under every policy never reached {measure}");
    }
    let say = "no significant difference of 1 % or more";
    let missed = verdict.standings.iter();
    let missed = missed.map(|it| it.share_pct.unwrap_or(0.0));
    let (least, most) = missed.fold((f64::INFINITY, 0.0), |(least, most), it| {
        (f64::min(least, it), f64::max(most, it))
    });
    if verdict.goal != Goal::Latency || least < MANY_MISSED_PCT {
        return say.to_owned();
    }
    let range = match (share(least), share(most)) {
        (least, most) if least == most => least,
        (_, most) => format!("{least:.1} to {most}"),
    };
    format!("{say}; {range} of periods missed under every policy")
}

/// Two shares in words, each with the time until which periods were missed, if that is early; `counts` are the numbers
/// of responses, where responses that never came count.
fn shares(
    goal: Goal,
    own: (f64, Option<u64>),
    other: (f64, Option<u64>),
    name: &str,
    counts: Option<(f64, f64)>,
) -> String {
    let until = |(_, until): (f64, Option<u64>)| {
        // Rounded up, so that the time includes the last period.
        let until = until.map(|ns| (ns as f64 / 1e8).ceil().max(1.0) / 10.0);
        until.map_or(String::new(), |s| format!(", all in the first {s:.1} s"))
    };
    let [early, others_early] = [own, other].map(until);
    let [own, other] = [own.0, other.0].map(share);
    match (goal, counts) {
        (Goal::Fairness, _) => format!("equal threads {own} apart ({name}: {other})"),
        (_, None) => format!("{own} of periods missed{early} ({name}: {other}{others_early})"),
        (_, Some((one, others))) => format!(
            "{own} of periods missed or absent ({name}: {other}), with {one:.0} responses ({name}: {others:.0})"
        ),
    }
}

/// The work to which a change refers, if the work differs by 1 % or more.
fn for_work(goal: Goal, work_pct: Option<f64>) -> String {
    let of = match goal {
        Goal::Energy => "for the same work",
        _ => "per response",
    };
    match work_pct {
        Some(pct) if pct <= -1.0 => format!(" {of} ({} less was done)", per_cent(-pct)),
        Some(pct) if pct >= 1.0 => format!(" {of} ({} more was done)", per_cent(pct)),
        _ => String::new(),
    }
}

fn per_cent(value: f64) -> String {
    format!("{value:.1} %")
}

/// The size of the difference by which `own` is worse than `other` (with the name `name`) in one measure of
/// a goal, in per cent or points, and its description in words.
fn part(own: &Entry<'_>, other: &Entry<'_>, name: &str) -> Option<(f64, String)> {
    let change = own.difference(other)?;
    let metric = &own.measure.metric;
    let which = match own.measure.judged {
        Judged::Mean => "",
        Judged::P99 => " (p99)",
    };
    let more = match change.mean_pct > 0.0 {
        true => "higher",
        false => "lower",
    };
    let much = match (own.is_share(), as_factor(&change, "as high as", name)) {
        (true, _) => format!(
            "{} {more} than under {name}",
            with_margin(&change, "points")
        ),
        (false, Some(times)) => times,
        (false, None) => format!("{} {more} than under {name}", with_margin(&change, "%")),
    };
    let say = format!("{}{which} {much}", metric.name);
    Some((change.mean_pct.abs(), say))
}

/// The size of a change with its margin: `12.0 ± 3.1 %`.
fn with_margin(change: &Change, unit: &str) -> String {
    let digits = digits(change);
    format!(
        "{:.digits$}{} {unit}",
        change.mean_pct.abs(),
        margin(change)
    )
}

/// A change of a goal against the scheduler `name` in words: `12.0 ± 3.1 % less time than under eevdf`.
fn amount(verdict: &GoalVerdict, change: &Change, name: &str) -> String {
    of_goal(verdict.goal, verdict.higher_is_better, change, name)
}

/// A sentence about the runs that test whether frequencies are the reason for a difference in energy.
pub(crate) fn at_full_speed(comparison: &Comparison) -> Option<String> {
    let test = comparison.at_full_speed.as_ref()?;
    let name = |index: usize| comparison.schedulers[index].name();
    let (own, base) = match test.is_first {
        true => (name(test.other), &*test.changed),
        false => (&*test.changed, name(0)),
    };
    let much = match test.differs {
        true => of_goal(Goal::Energy, false, &test.change, base),
        false => format!("no more and no less energy than under {base}"),
    };
    let so = match test.explains {
        true => "So frequencies explain most of the difference.",
        false => "So frequencies explain less than half of the difference.",
    };
    Some(format!(
        "energy: {own} takes {much}, for the same work. {so}"
    ))
}

fn of_goal(goal: Goal, higher_is_better: bool, change: &Change, name: &str) -> String {
    let of = match goal {
        Goal::Latency => "the latency",
        Goal::Throughput if higher_is_better => "the throughput",
        Goal::Throughput => "the time",
        Goal::Energy => "the energy",
        Goal::Fairness => "the spread",
    };
    if let Some(times) = as_factor(change, of, name) {
        return times;
    }
    let more = change.mean_pct > 0.0;
    let what = match (goal, more) {
        (Goal::Latency, true) => "higher latency",
        (Goal::Latency, false) => "lower latency",
        (Goal::Throughput, true) if higher_is_better => "higher throughput",
        (Goal::Throughput, false) if higher_is_better => "lower throughput",
        (Goal::Throughput, true) => "more time",
        (Goal::Throughput, false) => "less time",
        (Goal::Energy, true) => "more energy",
        (Goal::Energy, false) => "less energy",
        (Goal::Fairness, true) => "less even progress",
        (Goal::Fairness, false) => "more even progress",
    };
    format!("{} {what} than under {name}", with_margin(change, "%"))
}

/// A large change as a factor: `4.1 times the time under eevdf (at least 3.2)`; `None` for a smaller change.
fn as_factor(change: &Change, of: &str, name: &str) -> Option<String> {
    let factor = 1.0 + change.mean_pct / 100.0;
    let least = factor - change.margin_pct.unwrap_or(0.0) / 100.0;
    let digits = |factor: f64| match factor < 10.0 {
        true => format!("{factor:.1}"),
        false => format!("{factor:.0}"),
    };
    let bound = match factor - least >= 0.05 {
        true => format!(" (at least {})", digits(least)),
        false => String::new(),
    };
    (factor >= AS_FACTOR).then(|| format!("{} times {of} under {name}{bound}", digits(factor)))
}

/// A share with as many digits as matter.
fn share(per_cent: f64) -> String {
    match per_cent {
        0.0 => "0 %".to_owned(),
        small if small < 1.0 => format!("{small:.2} %"),
        large => format!("{large:.1} %"),
    }
}

#[cfg(test)]
mod tests;
