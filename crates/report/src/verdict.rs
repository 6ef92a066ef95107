//! The verdict in words: for each goal the best schedulers, the differences, and the price.

use crate::number::number;
use lab::{Change, Entry, Finding, Findings, GoalVerdict, Judged, Verdict};
use workload::{Better, Goal};

/// The maximum number of schedulers that a line names if several are equal.
const MOST_NAMES: usize = 3;
/// The maximum number of measures that a line names in which the best is worse.
const MOST_PRICES: usize = 2;

/// The line for a comparison without any significant difference.
const SAME: &str = "This comparison cannot tell the policies apart; a load that keeps more CPUs busy, or switches more often, may.";

/// A line for each goal, or only for `goal`, and a line that names the scheduler that is best for
/// every goal, or says that the comparison tells none apart.
pub(crate) fn verdict(findings: &Findings<'_>, goal: Option<Goal>) -> Vec<String> {
    let comparison = findings.comparison;
    let words = Words {
        names: comparison
            .schedulers
            .iter()
            .map(|scheduler| scheduler.name())
            .collect(),
        verdict: &findings.verdict,
        rows: &findings.rows,
    };
    if words.names.len() < 2 {
        return Vec::new();
    }
    if comparison.runs.count < 2 {
        let say = "No verdict: one run cannot show which differences are significant. Use --runs 5 or more.";
        return vec![say.to_owned()];
    }
    let wanted = |verdict: &&GoalVerdict| goal.is_none_or(|goal| verdict.goal == goal);
    let goals: Vec<&GoalVerdict> = words.verdict.goals.iter().filter(wanted).collect();
    let mut lines: Vec<String> = goals.iter().map(|verdict| words.line(verdict)).collect();
    if !goals.is_empty() && !goals.iter().any(|verdict| verdict.tells_apart()) {
        lines.push(SAME.to_owned());
    }
    match goal {
        Some(goal) if lines.is_empty() => {
            lines.push(format!(
                "{}: this workload has no measure for this goal.",
                title(goal)
            ));
        }
        Some(_) => {}
        None => lines.extend(words.altogether()),
    }
    lines
}

/// `goal` as a headline.
pub(crate) fn title(goal: Goal) -> &'static str {
    match goal {
        Goal::Latency => "Latency",
        Goal::Throughput => "Throughput",
        Goal::Energy => "Energy",
        Goal::Fairness => "Fairness",
    }
}

struct Words<'a> {
    names: Vec<&'a str>,
    verdict: &'a Verdict,
    rows: &'a [Finding<'a>],
}

impl Words<'_> {
    fn line(&self, verdict: &GoalVerdict) -> String {
        let title = title(verdict.goal);
        let winners = verdict.winners(0);
        let Some(&winner) = winners.first() else {
            return format!("{title}: no significant difference of 1 % or more.");
        };
        // The first scheduler is the baseline. Where nothing beats it, the line says how far the worst is behind it.
        let is_kept = winners.contains(&0);
        let (winner, against) = if is_kept {
            (0, verdict.worst)
        } else {
            (winner, Some(0))
        };
        let mut line = match (is_kept, against) {
            (false, _) => {
                let are = if winners.len() == 1 { "is" } else { "are" };
                format!("{title}: {} {are} best", self.list(&winners))
            }
            (true, None) => format!("{title}: no policy is better than {}", self.names[0]),
            (true, Some(worst)) => format!(
                "{title}: no policy is better than {}, and {} is worst",
                self.names[0], self.names[worst]
            ),
        };
        let (one, other) = if is_kept {
            (against, Some(0))
        } else {
            (Some(winner), against)
        };
        if let (Some(one), Some(other)) = (one, other)
            && let Some(how) = self.difference(verdict, one, other)
        {
            line += &format!(": {how}");
        }
        let prices = self.prices(verdict, winner, against.unwrap_or(0));
        if !prices.is_empty() {
            line += &format!(
                ". {} has a price: {}",
                self.names[winner],
                prices.join(", ")
            );
        }
        line + "."
    }

    /// `a`, `a and b`, `a, b, c and 4 others`.
    fn list(&self, schedulers: &[usize]) -> String {
        let named = match schedulers.len() {
            // Naming one more takes no more room than counting it.
            few if few <= MOST_NAMES + 1 => few,
            _ => MOST_NAMES,
        };
        let mut names: Vec<String> = schedulers
            .iter()
            .take(named)
            .map(|&index| self.names[index].to_owned())
            .collect();
        let more = schedulers.len() - names.len();
        if more > 0 {
            names.push(format!("{more} others"));
        }
        let last = names.pop().unwrap_or_default();
        match names.is_empty() {
            true => last,
            false => format!("{} and {last}", names.join(", ")),
        }
    }

    /// How `one` differs from `other` in the measures of `verdict`'s goal; `None` if not significantly.
    fn difference(&self, verdict: &GoalVerdict, one: usize, other: usize) -> Option<String> {
        let [own, others] = [one, other].map(|index| &verdict.standings[index]);
        let name = self.names[other];
        if let Some(lacks) = &others.lacks {
            return Some(format!("some runs under {name} never reached {lacks}"));
        }
        if let Some(lacks) = &own.lacks {
            return Some(format!(
                "some runs never reached {lacks}, as all under {name} did"
            ));
        }
        if let (Some(own), Some(others)) = (own.share_pct, others.share_pct)
            && verdict.shares_differ(one, other)
        {
            let [own, others] = [own, others].map(share);
            return Some(match verdict.goal {
                Goal::Fairness => format!("equal threads {own} apart ({name}: {others})"),
                _ => format!("{own} of periods missed ({name}: {others})"),
            });
        }
        let change = verdict.change(other, one)?;
        change
            .is_significant()
            .then(|| format!("{} than under {name}", amount(verdict, &change)))
    }

    /// The price of the best scheduler for one goal, in other goals and in parts of this one.
    fn prices(&self, verdict: &GoalVerdict, winner: usize, against: usize) -> Vec<String> {
        let mut prices = Vec::new();
        for other in &self.verdict.goals {
            if let Some(&best) = other.best.first()
                && other.goal != verdict.goal
                && other.is_better(best, winner)
                && let Some(how) = self.difference(other, winner, best)
            {
                prices.push(how);
            }
        }
        let mut parts: Vec<(f64, String)> = self
            .rows
            .iter()
            .filter(|row| {
                row.measure.metric.role.goal() == Some(verdict.goal)
                    && !row.measure.is_part
                    && row.entries[against].is_better(&row.entries[winner])
            })
            .filter_map(|row| {
                let [own, other] = [winner, against].map(|index| &row.entries[index]);
                part(own, other, self.names[against])
            })
            .collect();
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        prices.extend(parts.into_iter().take(MOST_PRICES).map(|(_, say)| say));
        prices
    }

    /// The scheduler that is best for every goal, if more than one goal has a best.
    fn altogether(&self) -> Option<String> {
        let goals: Vec<Vec<usize>> = self
            .verdict
            .goals
            .iter()
            .map(|verdict| verdict.winners(0))
            .filter(|winners| !winners.is_empty())
            .collect();
        if goals.len() < 2 {
            return None;
        }
        let all: Vec<usize> = goals[0]
            .iter()
            .copied()
            .filter(|index| goals.iter().all(|winners| winners.contains(index)))
            .collect();
        Some(match all.is_empty() {
            true => "No policy is best for every goal; --goal judges by a single goal.".to_owned(),
            false => format!("Best for every goal: {}.", self.list(&all)),
        })
    }
}

/// The logarithm of the factor by which `own` is worse than `other` (with the name `name`) in one measure
/// of a goal, and its description in words. `None` if both print the same number.
fn part(own: &Entry<'_>, other: &Entry<'_>, name: &str) -> Option<(f64, String)> {
    let judged = own.measure.judged;
    let of = |entry: &Entry<'_>| entry.pooled.as_ref().map(|pooled| judged.value(pooled));
    let (own_value, other_value) = (of(own)?, of(other)?);
    let metric = &own.measure.metric;
    let more = (own_value / other_value).ln();
    let worse = match metric.better {
        Better::Higher => -more,
        _ => more,
    };
    if worse <= 0.0 || number(own_value) == number(other_value) {
        return None;
    }
    let which = match judged {
        Judged::Mean => "",
        Judged::P99 => " (p99)",
    };
    let say = format!(
        "{}{which} {} {} ({name}: {})",
        metric.name,
        number(own_value),
        metric.unit,
        number(other_value)
    );
    Some((worse, say.replace("  ", " ")))
}

/// A change in words: `12 ± 3 % less time`.
fn amount(verdict: &GoalVerdict, change: &Change) -> String {
    let more = change.mean_pct > 0.0;
    let what = match (verdict.goal, more) {
        (Goal::Latency, true) => "higher latency",
        (Goal::Latency, false) => "lower latency",
        (Goal::Throughput, true) if verdict.higher_is_better => "higher throughput",
        (Goal::Throughput, false) if verdict.higher_is_better => "lower throughput",
        (Goal::Throughput, true) => "more time",
        (Goal::Throughput, false) => "less time",
        (Goal::Energy, true) => "more energy",
        (Goal::Energy, false) => "less energy",
        (Goal::Fairness, true) => "less even progress",
        (Goal::Fairness, false) => "more even progress",
    };
    let margin = match change.margin_pct {
        Some(margin) if margin >= 0.05 => format!(" ± {margin:.1}"),
        _ => String::new(),
    };
    format!("{:.1}{margin} % {what}", change.mean_pct.abs())
}

/// A share with as many digits as matter.
fn share(per_cent: f64) -> String {
    match per_cent {
        0.0 => "0 %".to_owned(),
        small if small < 1.0 => format!("{small:.2} %"),
        large => format!("{large:.1} %"),
    }
}
