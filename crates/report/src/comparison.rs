//! Schedulers side by side.

mod energy;

use crate::number::{number, percent};
use crate::verdict::{at_full_speed, title, verdict};
use crate::{Bar, Cell, Chart, Colour, Page, Table, Tone};
use energy::{for_work, frequencies};
use lab::{
    Change, Comparison, Entry, Finding, Findings, GoalVerdict, Judged, Measure, Measured, Results,
    Runs, mean_interval,
};
use workload::{Better, Goal};

/// The smallest difference of the work done that is shown, in per cent.
const LEAST_WORK_PCT: f64 = 1.0;

/// The selection of a comparison's results.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    /// Shows only this goal.
    pub goal: Option<Goal>,
    /// Shows every measure, not only those that decide.
    pub all: bool,
}

/// The page of a comparison.
pub fn comparison(findings: &Findings<'_>, shown: Shown) -> Page {
    let comparison = findings.comparison;
    let runs = &comparison.runs;
    let told = Told {
        pairs: "runs paired by seed",
        time: "simulated s",
        remarks: remarks(comparison),
    };
    let page = results(findings, shown, told);
    let number = number_of_runs(runs, comparison.asked);
    let number = match runs.noise {
        true => number,
        false => format!("{number}, without noise"),
    };
    Page {
        title: format!(
            "{} on {}",
            comparison.workload.name(),
            comparison.machine.name
        ),
        notes: std::iter::once(number)
            .chain(comparison.workload.notes())
            .chain(cut_short(findings))
            .chain(same_runs(findings))
            .chain(folded(findings))
            .chain(ignored_groups(findings))
            .chain(page.notes)
            .collect(),
        ..page
    }
}

/// The words of a page on its runs, besides their results.
pub struct Told<'a> {
    /// The pairs that an interval is over, such as `runs paired by seed`.
    pub pairs: &'a str,
    /// The name of the column with the time of a run, such as `simulated s`.
    pub time: &'a str,
    /// Remarks of its own.
    pub remarks: Vec<String>,
}

/// The verdict, the tables and the charts of any results, without a title.
pub fn results(findings: &Results<'_>, shown: Shown, told: Told<'_>) -> Page {
    // A measure without a sample in any run does not interest a reader.
    let rows: Vec<&Finding<'_>> = findings
        .rows
        .iter()
        .filter(|row| row.entries.iter().any(|entry| entry.pooled.is_some()))
        .collect();
    let goals: Vec<&GoalVerdict> = findings
        .verdict
        .goals
        .iter()
        .filter(|verdict| shown.goal.is_none_or(|goal| verdict.goal == goal))
        .collect();
    let deciding = |row: &&&Finding<'_>| {
        let goal = row.measure.decides();
        goals.iter().any(|verdict| goal == Some(verdict.goal))
    };
    let mut tables: Vec<Table> = goals
        .iter()
        .map(|verdict| of_goal(findings, verdict, &rows))
        .collect();
    tables.extend(wasted(findings, &rows));
    if shown.all || tables.is_empty() {
        tables.push(distributions(&rows));
        tables.push(threads(findings));
        tables.push(counters(findings, told.time));
    }
    let hidden = rows.len() - rows.iter().filter(deciding).count();
    let against = match findings.schedulers.as_slice() {
        [first, _, ..] => Some(format!(
            "change: against {first}, with the 95 % confidence interval over {}; the geometric mean \
             of the goal's columns, except those in %.",
            told.pairs
        )),
        _ => None,
    };
    let more = (hidden > 0 && !shown.all).then(|| format!("--all shows {hidden} more measures."));
    Page {
        notes: two_modes(findings, &rows, &goals),
        verdict: verdict(findings, shown.goal),
        tables,
        remarks: against
            .into_iter()
            .chain(told.remarks)
            .chain(more)
            .collect(),
        charts: rows
            .iter()
            .filter(deciding)
            .map(|row| chart(row))
            .filter(says_something)
            .collect(),
        ..Page::default()
    }
}

/// Is any bar longer than 0? A measure that is 0 under every scheduler is only in the table.
fn says_something(chart: &Chart) -> bool {
    chart.bars.iter().any(|bar| bar.value != 0.0)
}

/// The number of runs, and their seed.
pub(crate) fn number_of_runs(runs: &Runs, asked: u32) -> String {
    match runs.count == asked {
        true => format!(
            "{asked} run{}, seed {}",
            if asked == 1 { "" } else { "s" },
            runs.seed
        ),
        false => format!(
            "stopped after {} of {asked} runs, seed {}",
            runs.count, runs.seed
        ),
    }
}

/// Margins below this are printed as 0, per cent.
const LEAST_MARGIN_PCT: f64 = 0.05;

/// A note if the runs of every scheduler hardly differ, so that intervals over seeds show no noise: of exact
/// runs, if no margin is as large as one that is printed; of runs with noise, only if all are the same.
fn same_runs(findings: &Findings<'_>) -> Option<String> {
    let comparison = findings.comparison;
    let first = comparison.measured.first()?.runs.first()?;
    let mut runs = comparison.measured.first()?.runs.iter();
    let goals = findings.verdict.goals.iter();
    let changes = goals.flat_map(|goal| {
        (1..comparison.schedulers.len()).filter_map(|index| goal.change(0, index)?.margin_pct)
    });
    let margins: Vec<f64> = changes.collect();
    let are_same = match margins.is_empty() || comparison.runs.noise {
        true => runs.all(|run| run.is_same(first)),
        false => margins.iter().all(|&margin| margin < LEAST_MARGIN_PCT),
    };
    (comparison.runs.count > 1 && are_same).then(|| {
        "Hardly anything in this load depends on the seed, so that all runs are of one sequence of events: a little noise \
         beside it may change its results by more than the policies differ"
            .to_owned()
    })
}

/// The schedulers under which every run was the same as under an earlier one.
fn folded(findings: &Results<'_>) -> Vec<String> {
    let schedulers = &findings.schedulers;
    let same_as = findings.same_as().into_iter().enumerate();
    same_as
        .filter_map(|(index, first)| {
            let [own, first] = [index, first?].map(|index| schedulers[index]);
            Some(format!("{own}: as {first}, in every run"))
        })
        .collect()
}

/// The schedulers that ignore the workload's control groups.
fn ignored_groups(findings: &Results<'_>) -> Option<String> {
    let ignores = |measured: &Measured| measured.runs.iter().any(|run| run.ignores_groups);
    let schedulers = findings.schedulers.iter().zip(findings.measured);
    let names: Vec<&str> = schedulers
        .filter(|(_, measured)| ignores(measured))
        .map(|(name, _)| *name)
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "Control groups are ignored under {}, which treats all threads as members of one group",
            names.join(", ")
        )
    })
}

/// The measures that decide and that have two modes under a scheduler.
fn two_modes(findings: &Results<'_>, rows: &[&Finding<'_>], goals: &[&GoalVerdict]) -> Vec<String> {
    let decides = |row: &&&Finding<'_>| {
        let goal = row.measure.decides();
        goals.iter().any(|verdict| goal == Some(verdict.goal))
    };
    let shown: Vec<usize> = distinct(findings).collect();
    let rows = rows.iter().filter(decides);
    rows.flat_map(|row| shown.iter().map(|&index| &row.entries[index]))
        .filter_map(|entry| {
            // A share of few periods has few values.
            let judged = entry.judged().filter(|_| !entry.is_share())?;
            let [(low, few), (high, many)] = lab::modes(&judged)?;
            let metric = &entry.measure.metric;
            Some(format!(
                "{} under {} has two modes, and its mean is neither: {} {} in {few} runs, {} in {many}",
                metric.name,
                entry.scheduler,
                number(low),
                metric.unit,
                number(high)
            ))
        })
        .collect()
}

/// Loads that would end by themselves but have no time, because the duration of another load ended
/// the run first.
fn cut_short(findings: &Findings<'_>) -> Vec<String> {
    let comparison = findings.comparison;
    let Some(duration_ns) = comparison.workload.start(&comparison.machine).duration_ns else {
        return Vec::new();
    };
    let metrics = comparison.workload.metrics();
    let cut = comparison.workload.cut_short(&comparison.machine);
    let has_end = |row: &&Finding<'_>| {
        let metric = &row.measure.metric;
        let has_time = metric.unit == "s" && metric.better == Better::Lower;
        has_time && cut.iter().any(|&it| metrics[it].name == metric.name)
    };
    let rows = findings.rows.iter().filter(has_end);
    rows.filter(|row| !row.measure.is_part)
        .filter_map(|row| {
            let missing = |entry: &Entry<'_>| entry.runs.iter().filter(|run| run.is_none()).count();
            let left: usize = row.entries.iter().map(missing).sum();
            let all: usize = row.entries.iter().map(|entry| entry.runs.len()).sum();
            (left > 0).then(|| {
                format!(
                    "{}: missing in {left} of {all} runs, which the duration of {} s cut short",
                    row.measure.metric.name,
                    number(duration_ns as f64 / 1e9)
                )
            })
        })
        .collect()
}

/// The measures that decide one goal: a row for each scheduler, a column for each measure.
fn of_goal(findings: &Results<'_>, verdict: &GoalVerdict, rows: &[&Finding<'_>]) -> Table {
    let count = findings.schedulers.len();
    let rows: Vec<&&Finding<'_>> = rows
        .iter()
        .filter(|row| row.measure.decides() == Some(verdict.goal))
        .collect();
    let has_change = (1..count).any(|index| verdict.change(0, index).is_some());
    let mut header = vec!["policy".to_owned()];
    let columns = |row: &&Finding<'_>| {
        let done = differs_in_work(row).then(|| done_column(row.measure));
        std::iter::once(column(row.measure))
            .chain(done)
            .collect::<Vec<_>>()
    };
    header.extend(rows.iter().flat_map(|row| columns(row)));
    let by_work = (1..count)
        .filter_map(|index| verdict.work_pct(index, 0))
        .any(|pct| verdict.goal == Goal::Energy && pct.abs() >= LEAST_WORK_PCT);
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
        for row in &rows {
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
        title: title(verdict.goal).to_owned(),
        header,
        text_columns: 1,
        folded: folded.len(),
        rows: shown.into_iter().chain(folded).map(line).collect(),
        ..Table::default()
    }
}

/// The most rows of a table in which none is folded.
const MOST_SHOWN: usize = 4;

/// The schedulers in the order of rows: as they were given if there are few; of many, the baseline first, then
/// the best ones of the goal, and apart from these the ones that another one beats.
fn by_goal(schedulers: Vec<usize>, verdict: &GoalVerdict) -> (Vec<usize>, Vec<usize>) {
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

/// The schedulers of which tables have rows: all but those under which every run was the same as under an
/// earlier one.
fn distinct(findings: &Results<'_>) -> impl Iterator<Item = usize> + use<> {
    let same_as = findings.same_as();
    (0..same_as.len()).filter(move |&index| same_as[index].is_none())
}

/// Under some scheduler, did threads complete more of what a measure times than under another?
fn differs_in_work(row: &Finding<'_>) -> bool {
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
fn done(row: &Finding<'_>, index: usize) -> Cell {
    let completed = row.entries[index].completed();
    completed.map_or("-".into(), |it| Cell::from(format!("{it:.0}")))
}

/// The name of the column of [`done`].
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

/// The time that the CPUs wasted, for every goal: a row for each scheduler.
fn wasted(findings: &Results<'_>, rows: &[&Finding<'_>]) -> Option<Table> {
    let columns: Vec<&&Finding<'_>> = rows
        .iter()
        .filter(|row| lab::WASTE.contains(&&*row.measure.metric.name))
        .collect();
    let first = columns.first()?;
    let line = |index: usize| {
        let name = Cell::from(first.entries[index].scheduler);
        let cells = columns.iter().map(|row| judged(row, index));
        std::iter::once(name).chain(cells).collect()
    };
    Some(Table {
        title: "Wasted time".to_owned(),
        header: std::iter::once("policy".to_owned())
            .chain(columns.iter().map(|row| column(row.measure)))
            .collect(),
        text_columns: 1,
        rows: distinct(findings).map(line).collect(),
        ..Table::default()
    })
}

/// A column's name: the load's part, the measure, the statistic and the unit.
fn column(measure: &Measure) -> String {
    let of = match (measure.metric.unit, measure.judged.name()) {
        ("%", "mean") => "%".to_owned(),
        (unit, judged) => format!("{judged} {unit}").trim_end().to_owned(),
    };
    format!("{}\n{of}", measure.metric.name.replace('/', "\n"))
}

/// The judged value of the scheduler number `index`, emphasized if it is the best, or if it differs
/// from the first scheduler's.
fn judged(row: &Finding<'_>, index: usize) -> Cell {
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
    Cell::new(number(entry.measure.judged.value(pooled)), tone)
}

/// Every measure, with its distribution: a row for each measure and scheduler.
fn distributions(rows: &[&Finding<'_>]) -> Table {
    let has_limit = rows.iter().any(|row| row.limit.is_some());
    let mut header = [
        "metric", "unit", "policy", "mean", "min", "p50", "p95", "p99", "max", "change",
    ]
    .map(str::to_owned)
    .to_vec();
    if has_limit {
        header.push("limit".to_owned());
    }
    let mut lines = Vec::new();
    for row in rows {
        for (index, entry) in row.entries.iter().enumerate() {
            let first = |text: &str| {
                if index == 0 {
                    text.to_owned()
                } else {
                    String::new()
                }
            };
            let metric = &row.measure.metric;
            let mut line: Vec<Cell> = vec![
                first(&metric.name).into(),
                first(metric.unit).into(),
                entry.scheduler.into(),
            ];
            line.extend(distribution(entry));
            line.push(change(
                entry.change,
                entry.is_better(&row.entries[0]),
                row.entries[0].is_better(entry),
            ));
            if has_limit {
                line.push(limit(row, index));
            }
            lines.push(line);
        }
    }
    Table {
        title: "All measures".to_owned(),
        header,
        text_columns: 3,
        rows: lines,
        ..Table::default()
    }
}

/// Mean, minimum, percentiles and maximum.
fn distribution(entry: &Entry<'_>) -> Vec<Cell> {
    let Some(pooled) = &entry.pooled else {
        return vec![Cell::new("-", Tone::Dim); 6];
    };
    let values = [
        ("mean", pooled.mean),
        ("min", pooled.min),
        ("p50", pooled.p50),
        ("p95", pooled.p95),
        ("p99", pooled.p99),
        ("max", pooled.max),
    ];
    let tone = |name| match entry.is_best && name == entry.measure.judged.name() {
        true => Tone::Best,
        false => Tone::Plain,
    };
    values
        .map(|(name, value)| Cell::new(number(value), tone(name)))
        .to_vec()
}

fn change(change: Option<Change>, is_better: bool, is_worse: bool) -> Cell {
    let Some(change) = change else {
        return Cell::default();
    };
    // Where all runs are the same, an interval of zero would look like certainty.
    let margin = change
        .margin_pct
        .filter(|&margin| margin >= LEAST_MARGIN_PCT);
    let margin = margin.map_or(String::new(), |margin| format!(" ± {margin:.1}"));
    let tone = match (is_better, is_worse) {
        (true, _) => Tone::Better,
        (_, true) => Tone::Worse,
        (false, false) => Tone::Dim,
    };
    Cell::new(
        percent(change.mean_pct).replace(" %", &format!("{margin} %")),
        tone,
    )
}

fn limit(row: &Finding<'_>, index: usize) -> Cell {
    match (row.limit, &row.entries[index].pooled) {
        (Some(limit), Some(pooled)) => Cell::new(
            format!("{} ({:.3} x)", number(limit), pooled.mean / limit),
            Tone::Dim,
        ),
        _ => Cell::default(),
    }
}

/// The threads' CPU times, and the times for which they were runnable and did not run.
fn threads(findings: &Results<'_>) -> Table {
    let names = findings
        .measured
        .iter()
        .flat_map(|measured| measured.threads());
    let mut threads: Vec<String> = Vec::new();
    for thread in names {
        if !threads.contains(&thread.name) {
            threads.push(thread.name);
        }
    }
    let policies = || findings.schedulers.iter().zip(findings.measured);
    let lines = threads.iter().flat_map(|name| {
        policies()
            .enumerate()
            .map(move |(index, (&scheduler, measured))| {
                let found = measured
                    .threads()
                    .into_iter()
                    .find(|thread| thread.name == *name);
                let stalled = measured
                    .stalled()
                    .into_iter()
                    .find(|(thread, ..)| thread == name);
                let of = |value: fn(&lab::Threads) -> f64| {
                    found
                        .as_ref()
                        .map_or("-".into(), |it| Cell::from(number(value(it))))
                };
                let first = if index == 0 { name.as_str() } else { "" };
                vec![
                    first.into(),
                    scheduler.into(),
                    of(|thread| thread.cpu_ns as f64 / 1e6),
                    of(|thread| thread.longest_wait_ns as f64 / 1e6),
                    stalled.map_or("".into(), |(_, _, since)| {
                        Cell::from(number(since as f64 / 1e6))
                    }),
                ]
            })
    });
    Table {
        title: "Threads".to_owned(),
        header: [
            "thread",
            "policy",
            "CPU time ms",
            "longest wait ms",
            "did not run from ms on",
        ]
        .map(str::to_owned)
        .to_vec(),
        text_columns: 2,
        rows: lines.collect(),
        ..Table::default()
    }
}

/// The kernel's and scheduler's counters of a run, on average.
fn counters(findings: &Results<'_>, time: &str) -> Table {
    let header = [
        "policy",
        "switches",
        "migrations",
        "wakeups",
        "balance calls",
        "pulled",
        "active",
        "new-idle",
        "skipped",
        "limited",
        "new-idle time",
        time,
    ];
    let row = |name: &str, measured: &Measured| -> Vec<Cell> {
        let whole = |value: f64| Cell::from(format!("{value:.0}"));
        let balancing = |value: Option<f64>| value.map_or("-".into(), whole);
        vec![
            name.into(),
            whole(measured.mean_of(|run| run.counters.context_switches as f64)),
            whole(measured.mean_of(|run| run.counters.migrations as f64)),
            whole(measured.mean_of(|run| run.counters.wakeups as f64)),
            balancing(measured.mean_of_balancing(|counters| counters.balance_calls)),
            balancing(measured.mean_of_balancing(|counters| counters.pulled)),
            balancing(measured.mean_of_balancing(|counters| counters.active_balances)),
            balancing(measured.mean_of_balancing(|counters| counters.newidle_calls)),
            balancing(measured.mean_of_balancing(|counters| counters.newidle_skipped)),
            balancing(measured.mean_of_balancing(|counters| counters.newidle_limited)),
            measured
                .newidle_time_pct()
                .map_or("-".into(), |share| format!("{share:.2} %").into()),
            number(measured.mean_of(|run| run.simulated_ns as f64 / 1e9)).into(),
        ]
    };
    let measured = findings.schedulers.iter().zip(findings.measured);
    Table {
        title: "A run, on average".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        text_columns: 1,
        rows: measured
            .map(|(name, measured)| row(name, measured))
            .collect(),
        ..Table::default()
    }
}

fn remarks(comparison: &Comparison) -> Vec<String> {
    let mut remarks = Vec::new();
    remarks.push(
        "wasted: the CPU time for which CPUs had no task while tasks that they may run waited on others."
            .to_owned(),
    );
    if comparison.workload.cpu_bound().is_some() {
        remarks.push(
            "limit: the best time that the machine's CPUs allow under any scheduler, and the mean as \
             a multiple of it."
                .to_owned(),
        );
    }
    remarks.extend(frequencies(comparison));
    remarks.extend(at_full_speed(comparison));
    remarks.extend(callbacks(comparison));
    let gaps = comparison.machine.power_gaps();
    if !gaps.is_empty() {
        remarks.push(format!("energy: {}.", gaps.join("; ")));
    }
    remarks
}

/// On a machine with costs of callbacks: says which schedulers' callbacks take time, and which take
/// none.
fn callbacks(comparison: &Comparison) -> Option<String> {
    let costs = &comparison.machine.callbacks;
    if costs.is_empty() {
        return None;
    }
    let names = comparison.schedulers.iter().map(lab::Scheduler::name);
    let (paid, free): (Vec<&str>, Vec<&str>) = names.partition(|name| costs.contains_key(*name));
    if paid.is_empty() {
        let said =
            "callbacks: the machine file has no costs for the callbacks of these schedulers.";
        return Some(said.to_owned());
    }
    let none = match free.is_empty() {
        true => String::new(),
        false => format!(", and those of {} none", free.join(", ")),
    };
    let paid = paid.join(", ");
    Some(format!(
        "callbacks: those of {paid} take the time that the machine file gives{none}."
    ))
}

/// The judged values of a measure, the mean of the runs, with their intervals.
fn chart(row: &Finding<'_>) -> Chart {
    let measure = row.measure;
    let bar = |(index, entry): (usize, &Entry<'_>)| {
        let runs = entry.judged()?;
        let (value, margin) = mean_interval(&runs)?;
        // The interval of a quantity that cannot be negative does not extend below 0.
        let least = if runs.iter().all(|&run| run >= 0.0) {
            0.0
        } else {
            f64::MIN
        };
        Some(Bar {
            label: entry.scheduler.to_owned(),
            value,
            range: margin.map(|margin| ((value - margin).max(least), value + margin)),
            colour: Colour::Policy(index),
            best: entry.is_best,
        })
    };
    let bars: Vec<Bar> = row.entries.iter().enumerate().filter_map(bar).collect();
    let judged = match measure.judged {
        Judged::Mean => "",
        Judged::P99 => ", mean of the runs' p99",
    };
    let interval = match bars.iter().any(|bar| bar.range.is_some()) {
        true => "; line: 95 % interval",
        false => "",
    };
    let best = match bars.iter().any(|bar| bar.best) {
        true => "; *: best",
        false => "",
    };
    Chart {
        title: format!("{}{judged}, {}", measure.metric.name, measure.metric.unit),
        note: format!(
            "{} is better{interval}{best}",
            match measure.metric.better {
                Better::Lower => "less",
                Better::Higher => "more",
                Better::Neither => "neither",
            },
        ),
        bars,
    }
}
