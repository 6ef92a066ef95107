//! The table of a goal: its measures under each scheduler.

use super::LEAST_WORK_PCT;
use super::chart;
use super::energy::{differs_by_work, factors_for_work, for_work};
use crate::number::{number, signed};
use crate::verdict::title;
use crate::{Cell, Chart, Table, Tone};
use lab::{Change, Entry, Finding, GoalVerdict, Measure, Results, mean_interval};
use workload::Goal;

/// The largest number of columns of measures. A recorded load may have hundreds of threads.
const MOST_MEASURES: usize = 12;

/// The difference between a change of the geometric mean and one of the arithmetic mean that is explained, in points.
const FAR_PCT: f64 = 5.0;

/// The measures that decide one goal.
pub(super) struct Deciding<'a> {
    verdict: &'a GoalVerdict,
    /// The measures that are shown. If there are too many, only the measures in which the schedulers differ most are
    /// shown.
    pub(super) rows: Vec<&'a Finding<'a>>,
    all: usize,
}

impl<'a> Deciding<'a> {
    pub(super) fn new(verdict: &'a GoalVerdict, rows: &[&'a Finding<'a>]) -> Deciding<'a> {
        let decide = |row: &&&Finding<'_>| row.measure.decides() == Some(verdict.goal);
        let all: Vec<&Finding<'_>> = rows.iter().filter(decide).copied().collect();
        Deciding {
            verdict,
            all: all.len(),
            rows: most_apart(all),
        }
    }

    /// Does a change of the geometric mean differ from that of the only column, which has arithmetic means?
    pub(super) fn is_far_from_means(&self) -> bool {
        let [row] = self.rows[..] else { return false };
        let change = |index: usize| {
            let change = row.entries[index].change?.mean_pct;
            Some(change - self.verdict.change(0, index)?.mean_pct)
        };
        let mut apart = (1..row.entries.len()).filter_map(change);
        !differs_by_work(self.verdict) && apart.any(|points| points.abs() >= FAR_PCT)
    }

    /// A chart of each measure.
    pub(super) fn charts(&self) -> impl Iterator<Item = Chart> {
        let for_work = factors_for_work(self.verdict);
        let rows = self.rows.iter();
        rows.map(move |row| chart(row, for_work.as_deref()))
    }
}

/// The [`MOST_MEASURES`] of `rows` in which the schedulers differ most, in the order of `rows`.
fn most_apart<'a>(rows: Vec<&'a Finding<'a>>) -> Vec<&'a Finding<'a>> {
    if rows.len() <= MOST_MEASURES {
        return rows;
    }
    let mut order: Vec<_> = rows.iter().map(|row| row.apart()).enumerate().collect();
    order.sort_by(|(_, (differ, by)), (_, (others_differ, others_by))| {
        others_differ.cmp(differ).then(others_by.total_cmp(by))
    });
    let mut first: Vec<usize> = order.into_iter().map(|(index, _)| index).collect();
    first.truncate(MOST_MEASURES);
    first.sort_unstable();
    first.into_iter().map(|index| rows[index]).collect()
}

/// The table of a goal: a row for each scheduler, a column for each measure that decides.
pub(super) fn of_goal(findings: &Results<'_>, deciding: &Deciding<'_>) -> Table {
    let Deciding { verdict, rows, all } = deciding;
    let count = findings.schedulers.len();
    let has_change = (1..count).any(|index| verdict.change(0, index).is_some());
    let mut header = vec!["policy".to_owned()];
    let columns = |row: &Finding<'_>| {
        let done = differs_in_work(row).then(|| done_column(row.measure));
        std::iter::once(column(row.measure))
            .chain(done)
            .collect::<Vec<_>>()
    };
    header.extend(rows.iter().flat_map(|row| columns(row)));
    let by_work = differs_by_work(verdict);
    if by_work {
        header.push("work\ndone\n%".to_owned());
    }
    let for_work = match verdict.goal {
        Goal::Energy => for_work(findings, verdict, by_work),
        _ => None,
    };
    header.extend(for_work.iter().map(|(name, _)| name.clone()));
    if has_change {
        header.push("change".to_owned());
    }
    let limited = rows.iter().find(|row| row.limit.is_some());
    if limited.is_some() {
        header.push("limit".to_owned());
    }
    let line = |index: usize| {
        let mut line: Vec<Cell> = vec![findings.schedulers[index].into()];
        for row in rows {
            line.push(judged(row, index));
            line.extend(differs_in_work(row).then(|| done(row, index)));
        }
        if by_work {
            let pct = verdict.work_pct(index, 0);
            line.push(pct.map_or("-".into(), |pct| Cell::from(format!("{:.1}", 100.0 + pct))));
        }
        if let Some((_, values)) = &for_work {
            line.push(values[index].map_or("-".into(), |value| Cell::from(number(value))));
        }
        if has_change {
            line.push(match index {
                0 => Cell::default(),
                _ => change(
                    verdict.change(0, index),
                    verdict.is_better(index, 0),
                    verdict.is_better(0, index),
                ),
            });
        }
        line.extend(limited.map(|row| limit(row, index)));
        line
    };
    let (shown, folded) = by_goal(distinct(findings).collect(), verdict);
    Table {
        title: match *all > rows.len() {
            true => format!(
                "{}: the {} of {all} measures that differ most",
                title(verdict.goal),
                rows.len()
            ),
            false => title(verdict.goal).to_owned(),
        },
        header,
        text_columns: 1,
        folded: folded.len(),
        rows: shown.into_iter().chain(folded).map(line).collect(),
        ..Table::default()
    }
}

/// The largest number of rows of a table that has no folded rows.
const MOST_SHOWN: usize = 4;

/// The schedulers in the order of rows. At most [`MOST_SHOWN`] schedulers, and schedulers of which none beats another,
/// stay in the given order. Otherwise the first list has the baseline and then the best schedulers for the goal; the
/// second list has the other schedulers that another scheduler beats.
pub(super) fn by_goal(schedulers: Vec<usize>, verdict: &GoalVerdict) -> (Vec<usize>, Vec<usize>) {
    if schedulers.len() <= MOST_SHOWN || !verdict.tells_apart() {
        return (schedulers, Vec::new());
    }
    let beaten =
        |&one: &usize| (0..verdict.standings.len()).any(|other| verdict.is_better(other, one));
    let (mut folded, mut shown): (Vec<usize>, Vec<usize>) = schedulers
        .into_iter()
        .partition(|one| *one != 0 && beaten(one));
    for list in [&mut shown, &mut folded] {
        list.sort_by(|&a, &b| (a != 0).cmp(&(b != 0)).then(verdict.order(a, b)));
    }
    (shown, folded)
}

/// The schedulers that have rows in tables, which are all schedulers except those under which every run was the same as
/// under an earlier scheduler.
pub(super) fn distinct(findings: &Results<'_>) -> impl Iterator<Item = usize> + use<> {
    let same_as = findings.same_as();
    (0..same_as.len()).filter(move |&index| same_as[index].is_none())
}

/// Did threads complete clearly more units of a measure's work (by [`LEAST_WORK_PCT`]) under one scheduler than under
/// another?
pub(super) fn differs_in_work(row: &Finding<'_>) -> bool {
    if !row.measure.counts_work() {
        return false;
    }
    let completed = || row.entries.iter().filter_map(Entry::completed);
    let (least, most) = completed().fold((f64::MAX, 0.0), |(least, most), it| {
        (f64::min(least, it), f64::max(most, it))
    });
    100.0 * (most - least) > LEAST_WORK_PCT * most
}

/// The number of units of work that were completed in a run, on average.
pub(super) fn done(row: &Finding<'_>, index: usize) -> Cell {
    let completed = row.entries[index].completed();
    completed.map_or("-".into(), |it| Cell::from(format!("{it:.0}")))
}

fn done_column(measure: &Measure) -> String {
    let task = measure
        .metric
        .name
        .rsplit_once('/')
        .map_or("", |(task, _)| task);
    let what = match measure.metric.role.goal() {
        Some(Goal::Latency) => "responses",
        _ => "loops",
    };
    format!("{}\n{what}\ndone", task.replace('/', "\n"))
        .trim_start()
        .to_owned()
}

/// A column's name: the load's part, the measure, the statistic and the unit.
pub(super) fn column(measure: &Measure) -> String {
    let of = match (measure.metric.unit.name(), measure.judged.name()) {
        ("%", "mean") => "%".to_owned(),
        (unit, judged) => format!("{judged} {unit}").trim_end().to_owned(),
    };
    format!("{}\n{of}", measure.metric.name.replace('/', "\n"))
}

/// The judged value of the scheduler number `index`: the mean of the runs, as in the charts, or if some run has no value,
/// the value of all samples. It is emphasized if it is the best value, or if it differs
/// significantly from the first scheduler's value.
pub(super) fn judged(row: &Finding<'_>, index: usize) -> Cell {
    let (entry, first) = (&row.entries[index], &row.entries[0]);
    let Some(pooled) = &entry.pooled else {
        return Cell::new("-", Tone::Dim);
    };
    let tone = match (entry.is_best, first.is_better(entry)) {
        (true, _) => Tone::Best,
        (false, true) => Tone::Worse,
        (false, false) if entry.is_better(first) => Tone::Better,
        (false, false) => Tone::Plain,
    };
    let mean = entry.judged().and_then(|runs| mean_interval(&runs));
    let value = mean.map_or(entry.measure.judged.value(pooled), |(mean, _)| mean);
    Cell::new(number(value), tone)
}

pub(super) fn limit(row: &Finding<'_>, index: usize) -> Cell {
    match (row.limit, &row.entries[index].pooled) {
        (Some(limit), Some(pooled)) => Cell::new(
            format!("{} ({:.3} x)", number(limit), pooled.mean / limit),
            Tone::Dim,
        ),
        _ => Cell::default(),
    }
}

/// A change against the first scheduler, with its margin, as a cell.
pub fn change(change: Option<Change>, is_better: bool, is_worse: bool) -> Cell {
    let Some(change) = change else {
        return Cell::default();
    };
    let tone = match (is_better, is_worse) {
        (true, _) => Tone::Better,
        (_, true) => Tone::Worse,
        (false, false) => Tone::Dim,
    };
    Cell::new(signed(&change), tone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::{Pooled, Samples};
    use workload::{Better, Metric, Role, Unit};

    /// The 99th percentile of all samples is not the mean of the runs' percentiles.
    #[test]
    fn a_table_has_the_values_of_its_chart() {
        let role = Role::Decides(Goal::Latency);
        let metric = Metric::new("ui/response", Unit::Us, Better::Lower, role);
        let measure = Measure::new(metric, vec![0], false);
        let pooled = |value: f64| Pooled::new([&Samples::new(&[value])]);
        let mut row = Finding::new(&measure, [("a", vec![pooled(10.0), pooled(20.0)])]);
        row.entries[0].pooled = pooled(20.0);
        assert_eq!(judged(&row, 0).text, "15.00");
        assert_eq!(chart(&row, None).bars[0].value, 15.0);
        let for_work = chart(&row, Some(&[2.0]));
        assert_eq!(for_work.bars[0].value, 30.0);
        assert!(for_work.title.starts_with("ui/response for the same work"));
    }
}
