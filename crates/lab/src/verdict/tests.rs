use super::*;
use crate::{Judged, Measure, Pooled, Samples};
use std::borrow::Cow;
use workload::{Metric, Role, Unit};

fn measure(name: &'static str, unit: Unit, better: Better, role: Role) -> Measure {
    Measure::new(Metric::new(name, unit, better, role), vec![0], false)
}

/// The row of `measure`, with the values of each scheduler's runs.
fn finding<'a>(measure: &'a Measure, values: &[&[f64]]) -> Finding<'a> {
    let run = |value: &f64| {
        let measured: Vec<f64> = [*value].into_iter().filter(|v| v.is_finite()).collect();
        Pooled::new([&Samples::new(&measured)])
    };
    let runs = |runs: &&[f64]| ("s", runs.iter().map(run).collect());
    Finding::new(measure, values.iter().map(runs))
}

fn best(measure: &Measure, values: &[&[f64]]) -> Vec<usize> {
    best_of(&finding(measure, values).entries)
}

const NONE: [usize; 0] = [];
const TIME: Role = Role::Decides(Goal::Throughput);

#[test]
fn the_best_policy_is_significantly_and_noticeably_better() {
    let time = measure("time", Unit::S, Better::Lower, TIME);
    assert_eq!(
        best(&time, &[&[10.0, 10.1], &[9.0, 9.1], &[12.0, 12.1]]),
        [1]
    );
    // The difference is 0.5 %, which does not matter even if it is significant.
    assert_eq!(best(&time, &[&[10.0, 10.0], &[9.95, 9.95]]), NONE);
    // The difference is 10 %, but one of the two runs has the opposite direction.
    assert_eq!(best(&time, &[&[10.0, 10.0], &[7.0, 11.0]]), NONE);
    // The first two schedulers do not differ significantly; the last is worse.
    assert_eq!(
        best(&time, &[&[10.0, 10.1], &[10.02, 10.09], &[12.0, 12.1]]),
        [0, 1]
    );
    // A single run does not show the noise.
    assert_eq!(best(&time, &[&[10.0], &[1.0]]), NONE);
    let rate = measure("rate", Unit::Other("1/s"), Better::Higher, TIME);
    assert_eq!(best(&rate, &[&[10.0, 10.1], &[9.0, 9.1]]), [0]);
    let period = measure("period", Unit::Us, Better::Neither, Role::Detail);
    assert_eq!(best(&period, &[&[10.0, 10.1], &[9.0, 9.1]]), NONE);
}

/// The third scheduler varies so much that it does not differ significantly from any other.
#[test]
fn a_winner_is_better_than_what_one_has() {
    let time = measure("time", Unit::S, Better::Lower, TIME);
    let runs: [&[f64]; 3] = [&[10.0, 10.1, 10.0], &[9.0, 9.1, 9.0], &[6.0, 15.0, 9.5]];
    let verdict = Verdict::new(&[finding(&time, &runs)], &[]);
    let throughput = &verdict.goals[0];
    assert_eq!(throughput.best, [1, 2]);
    let Statement::Best(best, Reason::Cost { change, .. }) = throughput.statement() else {
        panic!("{throughput:?}");
    };
    assert_eq!(best, [1]);
    assert!(
        (change.mean_pct + 9.97).abs() < 0.1 && change.is_significant(),
        "{change:?}"
    );
    assert!(throughput.tells_apart());
    let alike: [&[f64]; 2] = [&[10.0, 10.1, 10.0], &[10.1, 10.0, 10.0]];
    assert!(!Verdict::new(&[finding(&time, &alike)], &[]).goals[0].tells_apart());
}

/// A counter that did not advance in a run has no ratio to others.
#[test]
fn a_value_of_0_is_a_lack_and_no_ratio() {
    let energy = Role::Decides(Goal::Energy);
    let energy = measure("energy", Unit::Other("J"), Better::Lower, energy);
    let rows = [finding(&energy, &[&[5.0, 6.0], &[0.0, 5.0]])];
    let verdict = Verdict::new(&rows, &[]);
    let goal = &verdict.goals[0];
    let lacks = Reason::Lacks {
        measure: "energy".to_owned(),
        both: false,
    };
    assert_eq!((goal.reason(0, 1), goal.change(0, 1)), (Some(lacks), None));
    assert_eq!(rows[0].entries[1].difference(&rows[0].entries[0]), None);
    let rows = [finding(&energy, &[&[0.0, 0.0], &[0.0, 5.0]])];
    let verdict = Verdict::new(&rows, &[]);
    let goal = &verdict.goals[0];
    assert_eq!((goal.change(0, 1), goal.unknown()), (None, Some("energy")));
    // A time of 0 counts as 1 ns.
    let waste = measure("wasted", Unit::Ms, Better::Lower, Role::Detail);
    assert_eq!(best(&waste, &[&[0.0, 0.0], &[2.0, 3.0]]), [0]);
}

#[test]
fn missed_periods_go_before_response_times() {
    let role = Role::Decides(Goal::Latency);
    let response = measure("a/response", Unit::Us, Better::Lower, role);
    let missed = measure("a/missed", Unit::Percent, Better::Lower, role);
    assert_eq!(
        (response.judged, missed.judged),
        (Judged::P99, Judged::Mean)
    );
    let all = [
        finding(
            &response,
            &[&[900.0, 910.0], &[1000.0, 1001.0], &[1200.0, 1201.0]],
        ),
        finding(&missed, &[&[5.0, 5.1], &[0.0, 0.0], &[0.01, 0.0]]),
    ];
    let verdict = Verdict::new(&all, &[]);
    let [latency] = &verdict.goals[..] else {
        panic!("{verdict:?}");
    };
    assert_eq!(latency.best, [1]);
    assert_eq!(latency.worst, [0]);
    assert_eq!(latency.standings[1].share_pct, Some(0.0));
    assert!(latency.is_better(2, 0) && latency.is_better(1, 2) && !latency.is_better(0, 1));
    let change = latency.change(1, 2).unwrap();
    assert!((change.mean_pct - 20.0).abs() < 0.1, "{change:?}");
    assert!(change.is_significant());
}

#[test]
fn a_geometric_mean_weighs_all_alike() {
    let one = measure("a/period", Unit::Us, Better::Lower, TIME);
    let two = measure("b/period", Unit::Us, Better::Lower, TIME);
    let all = [
        finding(&one, &[&[1e6, 1e6], &[2e6, 2e6]]),
        finding(&two, &[&[8.0, 8.0], &[2.0, 2.0]]),
    ];
    let verdict = Verdict::new(&all, &[]);
    assert_eq!(verdict.goals[0].best, [1]);
    let change = verdict.goals[0].change(0, 1).unwrap();
    assert!((change.mean_pct - (-29.29)).abs() < 0.01, "{change:?}");
}

#[test]
fn a_policy_that_never_finishes_is_worst() {
    let time = measure("time", Unit::S, Better::Lower, TIME);
    let all = [finding(
        &time,
        &[&[10.0, 10.1], &[9.0, f64::NAN], &[10.0, 10.1]],
    )];
    let verdict = Verdict::new(&all, &[]);
    let throughput = &verdict.goals[0];
    assert_eq!(throughput.best, [0, 2]);
    assert_eq!(throughput.worst, [1]);
    assert_eq!(throughput.standings[1].lacks.as_deref(), Some("time"));
}

/// Two schedulers that both lack a measure are compared by the number of runs that lack it, and then by the measures
/// that both have.
#[test]
fn what_no_policy_always_has_is_not_overlooked() {
    const NO: f64 = f64::NAN;
    let time = measure("time", Unit::S, Better::Lower, TIME);
    let other = measure("other/period", Unit::Us, Better::Lower, TIME);
    let verdict = |times: [&[f64]; 2], others: [&[f64]; 2]| {
        let all = [finding(&time, &times), finding(&other, &others)];
        Verdict::new(&all, &[])
    };
    let alike: [&[f64]; 2] = [&[1.0; 5], &[1.0; 5]];
    let rarely = verdict([&[9.0, 9.0, 9.0, 9.0, NO], &[NO; 5]], alike);
    let reason = rarely.goals[0].reason(0, 1).unwrap();
    let Reason::Lacks { measure, both } = reason else {
        panic!("{reason:?}");
    };
    assert_eq!((&*measure, both), ("time", true));
    assert_eq!(
        (&*rarely.goals[0].best, &*rarely.goals[0].worst),
        (&[0][..], &[1][..])
    );
    // By chance, one more run lacks the measure.
    let once: [&[f64]; 2] = [&[9.0, 9.0, 9.0, 9.0, NO], &[9.0, 9.0, 9.0, NO, NO]];
    assert!(!verdict(once, alike).goals[0].tells_apart());
    let faster: [&[f64]; 2] = [&[1.0, 1.1, 1.0, 1.0, 1.0], &[0.5; 5]];
    let [throughput] = &verdict(once, faster).goals[..] else {
        panic!("one goal");
    };
    assert_eq!((&*throughput.best, throughput.unknown()), (&[1][..], None));
    let all = [finding(&time, &once)];
    let alone = Verdict::new(&all, &[]);
    assert_eq!(alone.goals[0].statement(), Statement::Same);
    assert_eq!(alone.goals[0].unknown(), Some("time"));
}

/// The row of `measure` as in [`finding`], with the number of samples of each run.
fn counted<'a>(measure: &'a Measure, values: &[(f64, u64)]) -> Finding<'a> {
    let runs: Vec<[f64; 3]> = values
        .iter()
        .map(|&(value, _)| [value, 1.001 * value, value])
        .collect();
    let runs: Vec<&[f64]> = runs.iter().map(<[f64; 3]>::as_slice).collect();
    let mut found = finding(measure, &runs);
    for (entry, (_, n)) in found.entries.iter_mut().zip(values) {
        entry.runs.iter_mut().flatten().for_each(|run| run.n = *n);
    }
    found
}

/// A chain whose wakeup was lost has short but very few responses.
#[test]
fn few_short_responses_are_not_better_than_many() {
    let role = Role::Decides(Goal::Latency);
    let response = measure("chain/response", Unit::Us, Better::Lower, role);
    let missed = measure("chain/missed", Unit::Percent, Better::Lower, role);
    let all = [counted(&response, &[(900.0, 1700), (500.0, 7)])];
    let verdict = Verdict::new(&all, &[]);
    assert_eq!(
        (&*verdict.goals[0].best, &*verdict.goals[0].worst),
        (&[0][..], &[1][..])
    );
    let all = [
        counted(&response, &[(900.0, 1700), (500.0, 7)]),
        counted(&missed, &[(0.5, 1700), (0.0, 7)]),
    ];
    let verdict = Verdict::new(&all, &[]);
    let reason = verdict.goals[0].reason(0, 1).unwrap();
    let Reason::Share {
        own,
        other,
        counts_absent: true,
    } = reason
    else {
        panic!("{reason:?}");
    };
    assert!(own < 1.0 && other > 99.0, "{own} {other}");
    // A response more or less is no difference in work.
    let all = [counted(&response, &[(900.0, 1700), (500.0, 1650)])];
    assert_eq!(Verdict::new(&all, &[]).goals[0].best, [1]);
}

fn energy() -> Measure {
    let role = Role::Decides(Goal::Energy);
    measure("energy", Unit::Other("J"), Better::Lower, role)
}

#[test]
fn energy_is_for_the_same_work() {
    let energy = energy();
    let period = measure("loop/period", Unit::Us, Better::Lower, TIME);
    let all = [
        counted(&period, &[(1000.0, 1000), (2000.0, 500)]),
        counted(&energy, &[(10.0, 1), (6.0, 1)]),
    ];
    let verdict = Verdict::new(&all, &[]);
    let of_energy = verdict.of(Goal::Energy).unwrap();
    assert_eq!((&*of_energy.best, &*of_energy.worst), (&[0][..], &[1][..]));
    assert!((of_energy.change(0, 1).unwrap().mean_pct - 20.0).abs() < 0.1);
    assert!((of_energy.work_pct(1, 0).unwrap() + 50.0).abs() < 0.1);
}

#[test]
fn energy_is_not_less_if_work_is_never_done() {
    let energy = energy();
    let period = measure("loop/period", Unit::Us, Better::Lower, TIME);
    let joules = counted(&energy, &[(10.0, 1), (6.0, 1)]);
    let all = [
        finding(&period, &[&[900.0, 901.0, 900.0], &[f64::NAN; 3]]),
        joules.clone(),
    ];
    let verdict = Verdict::new(&all, &[]);
    let of_energy = verdict.of(Goal::Energy).unwrap();
    assert_eq!((&*of_energy.best, &*of_energy.worst), (&[0][..], &[1][..]));
    assert_eq!(of_energy.change(0, 1), None);
    // Without a measure of the work, the energy is all that is known.
    let verdict = Verdict::new(&[joules], &[]);
    assert_eq!(verdict.goals[0].best, [1]);
}

#[test]
fn a_compromise_has_the_least_price() {
    let response = measure(
        "ui/response",
        Unit::Us,
        Better::Lower,
        Role::Decides(Goal::Latency),
    );
    let energy = energy();
    let found = |latencies: [f64; 3], joules: [f64; 3]| {
        let latencies = latencies.map(|it| [it, 1.001 * it]);
        let joules = joules.map(|it| [it, 1.001 * it]);
        let all = [
            finding(&response, &latencies.each_ref().map(|it| &it[..])),
            finding(&energy, &joules.each_ref().map(|it| &it[..])),
        ];
        Verdict::new(&all, &[]).compromise()
    };
    // The baseline costs 3.3 times the latency, the fast one twice the energy, the third one 1.7 times the latency.
    assert_eq!(found([10e3, 3e3, 5e3], [1.0, 2.0, 1.1]), Some(2));
    assert_eq!(
        found([10e3, 3e3, 9e3], [1.0, 2.0, 1.1]),
        None,
        "the fast one has the least price"
    );
    assert_eq!(
        found([4e3, 3e3, 3.5e3], [1.0, 2.0, 1.5]),
        None,
        "the baseline has the least price"
    );
    assert_eq!(
        found([10e3, 3e3, 3e3], [1.0, 2.0, 1.1]),
        None,
        "two are best for latency"
    );
}

#[test]
fn parts_and_details_decide_nothing() {
    let metric = Metric {
        name: Cow::Borrowed("a-0/period"),
        ..Metric::new("", Unit::Us, Better::Lower, TIME)
    };
    let part = Measure::new(metric, vec![0], true);
    let detail = measure("a/run", Unit::Us, Better::Lower, Role::Detail);
    let all = [
        finding(&part, &[&[1.0, 1.0], &[2.0, 2.0]]),
        finding(&detail, &[&[1.0, 1.0], &[2.0, 2.0]]),
    ];
    assert!(Verdict::new(&all, &[]).goals.is_empty());
    let none = finding(&detail, &[&[], &[]]);
    assert_eq!(best_of(&none.entries), NONE);
}
