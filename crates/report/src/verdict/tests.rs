//! Properties of the verdict on any table.

use super::*;
use lab::{Measure, Pooled, Run};
use simulator::Deadlock;
use workload::{Better, Metric, Rng, Role, Unit};

/// The number of random tables; 100,000 in a long check.
fn tables() -> u64 {
    let asked = std::env::var("EQUIPOISE_TABLES").ok();
    asked.map_or(500, |asked| {
        asked.parse().expect("EQUIPOISE_TABLES is a number")
    })
}

fn measures() -> Vec<Measure> {
    let rows = [
        ("ui/response", Unit::Us, Better::Lower, Goal::Latency),
        ("ui/missed", Unit::Percent, Better::Lower, Goal::Latency),
        ("loop/period", Unit::Us, Better::Lower, Goal::Throughput),
        ("other/period", Unit::Us, Better::Lower, Goal::Throughput),
        ("energy", Unit::Other("J"), Better::Lower, Goal::Energy),
        ("loop/spread", Unit::Percent, Better::Lower, Goal::Fairness),
    ];
    rows.iter()
        .enumerate()
        .map(|(nr, &(name, unit, better, goal))| {
            let metric = Metric::new(name, unit, better, Role::Decides(goal));
            Measure::new(metric, vec![nr], false)
        })
        .collect()
}

/// For each policy and run, a value and its number of samples, or nothing.
type Row = Vec<Vec<Option<(f64, u64)>>>;
/// A row for each measure.
type Table = Vec<Row>;

struct Random(Rng);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0.below(1 << 30) as f64 / f64::from(1 << 30)
    }

    fn chance(&mut self, of: u64) -> bool {
        self.0.below(of) == 0
    }

    /// A table in which policies differ by much, by little, or not at all, and runs vary likewise.
    fn table(&mut self, measures: &[Measure]) -> Table {
        let (policies, runs) = (2 + self.0.below(3) as usize, 2 + self.0.below(7) as usize);
        measures
            .iter()
            .map(|measure| self.row(measure, policies, runs))
            .collect()
    }

    fn row(&mut self, measure: &Measure, policies: usize, runs: usize) -> Row {
        let seeds: Vec<f64> = (0..runs).map(|_| self.unit() - 0.5).collect();
        (0..policies)
            .map(|_| {
                let sizes = [0.0, 0.02, 0.2, 2.0];
                let [own, noise] = [0, 1].map(|_| sizes[self.0.below(4) as usize]);
                let factor = (own * (self.unit() - 0.5)).exp();
                let n = [1, 300, 300, 300, 7][self.0.below(5) as usize];
                let lacks = self.chance(20);
                let value = |random: &mut Random, seed: &f64| {
                    let log = 0.1 * seed + noise * (random.unit() - 0.5);
                    let value = match measure.metric.unit {
                        Unit::Percent => (5.0 * factor * log.exp() - 4.0).clamp(0.0, 100.0),
                        _ => 1000.0 * factor * log.exp(),
                    };
                    (!lacks || random.chance(2)).then_some((value, n))
                };
                seeds.iter().map(|seed| value(self, seed)).collect()
            })
            .collect()
    }
}

fn pooled(value: f64, n: u64) -> Pooled {
    Pooled {
        n,
        open: 0,
        mean: value,
        min: value,
        max: value,
        p50: value,
        p95: value,
        p99: value,
        p999: value,
    }
}

fn findings<'a>(measures: &'a [Measure], table: &Table) -> Vec<Finding<'a>> {
    let row = |(measure, policies): (&'a Measure, &Row)| {
        let run = |run: &Option<(f64, u64)>| run.map(|(value, n)| pooled(value, n));
        let runs = |runs: &Vec<Option<(f64, u64)>>| ("", runs.iter().map(run).collect());
        Finding::new(measure, policies.iter().map(runs))
    };
    measures.iter().zip(table).map(row).collect()
}

/// The runs of each policy, of which the policies in `stalled` have stalled threads.
fn runs(table: &Table, stalled: &[usize]) -> Vec<Vec<Run>> {
    let run = |policy: usize| Run {
        simulated_ns: 1_000_000_000,
        stalled: match stalled.contains(&policy) {
            true => vec![lab::Stalled {
                thread: "a".to_owned(),
                since_ns: 0,
            }],
            false => Vec::new(),
        },
        ..Run::default()
    };
    let of = |policy: usize| table[0][policy].iter().map(|_| run(policy)).collect();
    (0..table[0].len()).map(of).collect()
}

struct Judged {
    verdict: Verdict,
    lines: Vec<String>,
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn judge(measures: &[Measure], table: &Table, stalled: &[usize], names: &[&str]) -> Judged {
    let rows = findings(measures, table);
    let runs = runs(table, stalled);
    let verdict = Verdict::new(&rows, &runs.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let policies = table[0].len();
    let words = Words {
        names: names[..policies].to_vec(),
        verdict: &verdict,
        rows: &rows,
        same_as: vec![None; policies],
    };
    let lines = words.goals(None);
    Judged { verdict, lines }
}

/// The policies of which the line of `lines` about `goal` says `what` (`is best`, `are worst`).
fn called<'l>(lines: &'l [String], goal: Goal, what: &str) -> Vec<&'l str> {
    let start = format!("{}: ", title(goal));
    let Some(line) = lines.iter().find_map(|line| line.strip_prefix(&start)) else {
        return Vec::new();
    };
    for verb in [" is ", " are "] {
        if let Some((names, _)) = line.split_once(&format!("{verb}{what}: ")) {
            let names = names
                .rsplit_once(", and ")
                .filter(|_| what == "worst")
                .map_or(names, |it| it.1);
            return names.split(" and ").flat_map(|it| it.split(", ")).collect();
        }
    }
    Vec::new()
}

fn is_figure(reason: &Reason, higher_is_better: bool) -> bool {
    match reason {
        Reason::Stalled | Reason::Lacks { .. } => true,
        Reason::Share { own, other, .. } => own < other,
        Reason::Cost { change, .. } => {
            change.is_significant() && (change.mean_pct > 0.0) == higher_is_better
        }
    }
}

/// No two statements contradict each other, in the lab's terms and in words.
fn check_consistency(judged: &Judged) {
    let lines = &judged.lines;
    let index = |name: &str| {
        let found = NAMES.iter().position(|it| *it == name);
        found.unwrap_or_else(|| panic!("no policy is called {name}: {lines:?}"))
    };
    for goal in &judged.verdict.goals {
        let all = 0..goal.standings.len();
        for (one, other) in all
            .clone()
            .flat_map(|one| all.clone().map(move |other| (one, other)))
        {
            if let Some(reason) = goal.reason(one, other) {
                assert!(!goal.is_better(other, one));
                assert!(is_figure(&reason, goal.higher_is_better), "{reason:?}");
            }
        }
        let beaten = |one: usize| all.clone().any(|other| goal.is_better(other, one));
        for name in called(lines, goal.goal, "best") {
            assert!(!beaten(index(name)), "{name} is beaten: {lines:?}");
            assert!(
                goal.is_better(index(name), 0),
                "{name} is not better: {lines:?}"
            );
        }
        for name in called(lines, goal.goal, "worst") {
            let one = index(name);
            assert!(goal.is_better(0, one), "{name} is not worse: {lines:?}");
            assert!(
                !all.clone().any(|other| goal.is_better(one, other)),
                "{name} beats one: {lines:?}"
            );
        }
    }
    for line in lines
        .iter()
        .filter(|line| line.contains(" best: ") || line.contains(" worst: "))
    {
        let words = ["stall", "never reached"]
            .iter()
            .any(|word| line.contains(word));
        let figure = line.contains(|c: char| c.is_ascii_digit());
        assert!(words || figure, "{line}");
    }
    let overall = lines
        .iter()
        .find_map(|line| line.strip_prefix("Best for ")?.split_once(": "));
    for name in overall
        .into_iter()
        .flat_map(|(_, names)| names.trim_end_matches('.').split(" and "))
    {
        for name in name.split(", ") {
            for goal in judged
                .verdict
                .goals
                .iter()
                .filter(|goal| goal.tells_apart())
            {
                let best = called(lines, goal.goal, "best");
                assert!(best.is_empty() || best.contains(&name), "{lines:?}");
                assert!(
                    !called(lines, goal.goal, "worst").contains(&name),
                    "{lines:?}"
                );
                assert!(goal.best.contains(&index(name)), "{lines:?}");
            }
        }
    }
    let compromise = lines
        .iter()
        .find_map(|line| line.split_once(" is a compromise: "));
    if let Some((before, differences)) = compromise {
        let name = before.rsplit(' ').next().unwrap();
        let mut goals = judged.verdict.goals.iter();
        assert!(
            goals
                .clone()
                .all(|goal| !called(lines, goal.goal, "best").contains(&name)),
            "{lines:?}"
        );
        assert!(
            goals.any(|goal| goal.is_better(index(name), 0)),
            "{lines:?}"
        );
        assert!(
            differences.contains(|c: char| c.is_ascii_digit()),
            "{lines:?}"
        );
    }
    if lines
        .iter()
        .any(|line| line.starts_with("No policy is best for every goal"))
    {
        for name in &NAMES[..judged.verdict.goals[0].standings.len()] {
            let mut goals = judged
                .verdict
                .goals
                .iter()
                .filter(|goal| goal.tells_apart());
            assert!(
                !goals.all(|goal| called(lines, goal.goal, "best").contains(name)),
                "{lines:?}"
            );
        }
    }
}

/// `table` with its times, joules and numbers of samples changed.
fn changed(
    table: &Table,
    measures: &[Measure],
    of: impl Fn(Unit, usize, f64, u64) -> (f64, u64),
) -> Table {
    let rows = table.iter().zip(measures);
    rows.map(|(row, measure)| {
        let policies = row.iter().enumerate();
        policies
            .map(|(policy, runs)| {
                let run = |run: &Option<(f64, u64)>| {
                    run.map(|(value, n)| of(measure.metric.unit, policy, value, n))
                };
                runs.iter().map(run).collect()
            })
            .collect()
    })
    .collect()
}

#[test]
fn no_verdict_contradicts_itself() {
    let measures = measures();
    for seed in 0..tables() {
        let mut random = Random(Rng::new(seed));
        let table = random.table(&measures);
        let policies = table[0].len();
        let stalled: Vec<usize> = (0..policies).filter(|_| random.chance(8)).collect();
        let judged = judge(&measures, &table, &stalled, &NAMES);
        check_consistency(&judged);

        // Another unit of time and energy.
        let factor = 10f64.powf(4.0 * random.unit() - 1.0);
        let scaled = changed(&table, &measures, |unit, _, value, n| match unit {
            Unit::Percent => (value, n),
            _ => (value * factor, n),
        });
        let again = judge(&measures, &scaled, &stalled, &NAMES);
        let sets = |judged: &Judged| -> Vec<(Vec<usize>, Vec<usize>)> {
            judged
                .verdict
                .goals
                .iter()
                .map(|goal| (goal.best.clone(), goal.worst.clone()))
                .collect()
        };
        assert_eq!(sets(&judged), sets(&again), "seed {seed}, factor {factor}");

        // Other names, and another order of all but the baseline.
        let renamed = ["v", "w", "x", "y", "z"];
        let others = judge(&measures, &table, &stalled, &renamed);
        let back = |line: &String| -> String {
            let name = |word: &str| {
                let core = word.trim_end_matches([',', ':', '.', ')', ';']);
                let found = renamed
                    .iter()
                    .position(|it| *it == core.trim_start_matches('('));
                found.map_or(word.to_owned(), |it| word.replace(renamed[it], NAMES[it]))
            };
            line.split(' ').map(name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            judged.lines,
            others.lines.iter().map(back).collect::<Vec<_>>(),
            "seed {seed}"
        );
        let turned: Table = table
            .iter()
            .map(|row| {
                [
                    &row[..1],
                    &row[1..].iter().rev().cloned().collect::<Vec<_>>(),
                ]
                .concat()
            })
            .collect();
        let turn = |it: usize| if it == 0 { 0 } else { policies - it };
        let stalled_then: Vec<usize> = stalled.iter().map(|&it| turn(it)).collect();
        let then = judge(&measures, &turned, &stalled_then, &NAMES);
        let sorted = |sets: Vec<(Vec<usize>, Vec<usize>)>, of: &dyn Fn(usize) -> usize| -> Vec<_> {
            let set = |set: Vec<usize>| {
                let mut set: Vec<usize> = set.into_iter().map(of).collect();
                set.sort_unstable();
                set
            };
            sets.into_iter()
                .map(|(best, worst)| (set(best), set(worst)))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            sorted(sets(&judged), &|it| it),
            sorted(sets(&then), &turn),
            "seed {seed}"
        );
    }
}

#[test]
fn less_of_everything_is_never_best() {
    let measures = measures();
    for seed in 0..tables() {
        let mut random = Random(Rng::new(seed));
        let mut table = random.table(&measures);
        let last = table[0].len();
        for row in &mut table {
            let first = row[0].clone();
            row.push(first);
        }
        let table = changed(&table, &measures, |unit, policy, value, n| {
            match (policy == last, unit) {
                (true, Unit::Percent) => (value + 2.0, (n / 2).max(1)),
                (true, _) => (value * 1.1, (n / 2).max(1)),
                (false, _) => (value, n),
            }
        });
        let judged = judge(&measures, &table, &[], &NAMES);
        check_consistency(&judged);
        for goal in &judged.verdict.goals {
            assert!(
                !called(&judged.lines, goal.goal, "best").contains(&NAMES[last]),
                "seed {seed}"
            );
            let lacks = goal.standings[last].lacks.is_some();
            assert!(
                lacks || !goal.best.contains(&last),
                "seed {seed}: {:?}",
                judged.lines
            );
        }
        assert!(
            !judged.verdict.best_for_all().contains(&last),
            "seed {seed}: {:?}",
            judged.lines
        );
    }
}

/// A table with a row for each of `values`, with equal runs under each policy.
fn constant(values: &[[f64; 2]]) -> Table {
    let runs = |&value: &f64| vec![value.is_finite().then_some((value, 100)); 3];
    values
        .iter()
        .map(|row| row.iter().map(runs).collect())
        .collect()
}

#[test]
fn policies_that_are_equally_bad_are_called_bad() {
    let measures = measures();
    let said = |missed: [f64; 2]| {
        let table = constant(&[[9.0, 9.0], missed, [5.0; 2], [5.0; 2], [7.0; 2], [0.0; 2]]);
        judge(&measures, &table, &[], &NAMES).lines[0].clone()
    };
    let same = "Latency: no significant difference of 1 % or more";
    assert_eq!(said([0.0, 0.0]), format!("{same}."));
    let all = said([100.0, 100.0]);
    assert_eq!(
        all,
        format!("{same}; 100.0 % of periods missed under every policy.")
    );
    let many = said([80.0, 80.06]);
    assert_eq!(
        many,
        format!("{same}; 80.0 to 80.1 % of periods missed under every policy.")
    );
}

#[test]
fn work_that_is_never_done_is_said_once() {
    let measures = measures();
    let loops = [5.0, f64::NAN];
    let table = constant(&[[9.0, 4.0], [0.0; 2], loops, [5.0; 2], [7.0, 4.0], [0.0; 2]]);
    let lines = judge(&measures, &table, &[], &NAMES).lines;
    let never = "some runs never reached loop/period";
    let of = |goal: &str| lines.iter().find(|line| line.starts_with(goal)).unwrap();
    assert_eq!(of("Latency").matches(never).count(), 1, "{lines:?}");
    assert!(
        of("Energy").contains(&format!("worst: {never}")),
        "{lines:?}"
    );
}

/// A goal that is not shown may differ, as throughput differs by 2.4 % between two slices of loops that share equally.
#[test]
fn busy_cpus_are_no_sign_of_equal_work() {
    let says = |busy_pct| cannot_tell(None, Some(busy_pct));
    let start = "This comparison cannot tell the policies apart: CPUs are busy for";
    assert_eq!(says(99.8), format!("{start} 100 % of the time."));
    assert!(says(50.0).starts_with(&format!("{start} 50 % of the time. A load that")));
}

#[test]
fn threads_of_any_run_are_listed() {
    let thread = |name: &str, cpu_ns, longest_wait_ns| lab::Threads {
        name: name.to_owned(),
        cpu_ns,
        longest_wait_ns,
    };
    let table = vec![vec![vec![Some((1.0, 1)); 2]]];
    let mut runs = runs(&table, &[]).remove(0);
    runs[0].threads = vec![thread("a", 10, 3)];
    runs[1].threads = vec![thread("b", 8, 1), thread("a", 20, 7)];
    let threads = Measured { runs }.threads();
    assert_eq!(threads, [thread("a", 15, 7), thread("b", 4, 1)]);
}

#[test]
fn early_misses_are_said_with_their_time() {
    let said = shares(
        Goal::Latency,
        (0.0, None),
        (0.25, Some(258_000_000)),
        "eevdf",
        None,
    );
    assert_eq!(
        said,
        "0 % of periods missed (eevdf: 0.25 %, all in the first 0.3 s)"
    );
    let said = shares(Goal::Latency, (0.25, Some(0)), (3.0, None), "eevdf", None);
    assert_eq!(
        said,
        "0.25 % of periods missed, all in the first 0.1 s (eevdf: 3.0 %)"
    );
}

#[test]
fn a_deadlock_is_said_with_what_threads_wait_for() {
    let deadlocked = Run {
        deadlock: Some(Deadlock {
            at_ns: 3_148_415,
            waiting: "a[1001] waits for mutex `y`".to_owned(),
        }),
        ..Run::default()
    };
    let runs = vec![Run::default(), deadlocked];
    assert_eq!(
        deadlock("eevdf", &Measured { runs }).unwrap(),
        "Under eevdf in 1 of 2 runs, no thread can run from 0.003 s on: a[1001] waits for mutex `y`."
    );
}

#[test]
fn runs_with_a_stalled_thread_are_counted_once() {
    let table = vec![vec![vec![Some((1.0, 1)); 2]]];
    let mut runs = runs(&table, &[]).remove(0);
    runs[1].stalled = [("b", 700_000_000), ("b", 500_000_000)]
        .map(|(thread, since_ns)| lab::Stalled {
            thread: thread.to_owned(),
            since_ns,
        })
        .to_vec();
    let measured = Measured { runs };
    assert_eq!(measured.stalled(), [("b".to_owned(), 1, 500_000_000)]);
    assert_eq!(
        stalled("eevdf", &measured).unwrap(),
        "Under eevdf, b was runnable and did not run from 0.50 s on in 1 of 2 runs."
    );
}
