use super::*;
use crate::explain::wait::After;
use crate::explain::window::Subject;
use simulator::{Event, Trace};

fn number(name: &str) -> u32 {
    Decision::ALL
        .iter()
        .position(|decision| decision.name == name)
        .unwrap() as u32
}

fn decides(
    name: &str,
    task: Option<(&'static str, i32)>,
    cpu: usize,
    numbers: &'static [i64; 4],
) -> Event<'static> {
    Event::Decision {
        decision: number(name),
        task,
        waited_for: "bytes in a stream",
        cpu: Some(cpu),
        numbers,
    }
}

fn switch(prev: (&'static str, i32), next: (&'static str, i32)) -> Event<'static> {
    Event::Switch {
        prev,
        prev_prio: 120,
        prev_runnable: true,
        next,
        next_prio: 120,
    }
}

const IDLE: (&str, i32) = ("swapper", 0);
const UI: (&str, i32) = ("ui", 7);
const ONE: (&str, i32) = ("loop", 8);
const OTHER: (&str, i32) = ("loop", 9);

/// ui is woken on CPU 1 at 100, waits for CPU 0, where two loops run, and moves to CPU 2, which
/// has been idle for 20, at 160.
fn told(trace: &mut dyn Trace) {
    trace.event(10, 0, switch(IDLE, ONE));
    trace.event(20, 1, switch(IDLE, ("writer", 6)));
    trace.event(20, 2, switch(IDLE, ("other", 5)));
    trace.event(100, 1, decides("none_near_idle", Some(UI), 0, &[0; 4]));
    trace.event(
        100,
        1,
        decides("near_vruntime", Some(UI), 0, &[8, 300_000, 500_000, 0]),
    );
    let wakeup = Event::Wakeup {
        task: UI,
        prio: 120,
        target_cpu: 0,
        new: false,
    };
    trace.event(100, 1, wakeup);
    trace.event(110, 0, decides("share_over", Some(ONE), 0, &[30, 20, 1, 0]));
    trace.event(110, 0, switch(ONE, OTHER));
    trace.event(140, 2, decides("found_none", None, 2, &[0; 4]));
    trace.event(140, 2, switch(("other", 5), IDLE));
    let migrate = Event::Migrate {
        task: UI,
        prio: 120,
        from: 0,
        to: 2,
    };
    trace.event(160, 2, migrate);
    trace.event(160, 2, decides("takes_waiting", None, 2, &[0; 4]));
    trace.event(160, 2, switch(IDLE, UI));
}

#[test]
fn a_chain_tells_a_wait_from_its_wakeup_to_its_end() {
    let wait = Wait {
        name: "ui".to_owned(),
        pid: 7,
        after: After::Wakeup,
        from: 100,
        to: 160,
        open: false,
    };
    let mut chains = Chains::new(vec![(wait, Subject::Wait)], ["ui".to_owned()], 3);
    told(&mut chains);
    let (chains, counted) = chains.finish();
    let said: Vec<String> = chains[0]
        .steps
        .iter()
        .map(|step| match &step.what {
            What::Woken { waited_for, by } => format!("woken {waited_for:?} {by:?}"),
            What::Decided(made) => format!("{} {}", made.decision.name, made.what),
            What::Moved { from, to } => format!("moved {from} {to}"),
            What::Other { task, ns } => format!("other {task:?} {ns}"),
            What::Said(line) => line.clone(),
            What::Runs => format!("runs {}", step.at),
        })
        .collect();
    assert_eq!(
        said,
        [
            "woken Some(\"bytes in a stream\") Some(\"writer\")",
            "none_near_idle ui goes to CPU 0",
            "near_vruntime ui does not preempt on CPU 0",
            "other Some(\"loop (8)\") 10",
            "share_over loop (8) yields CPU 0",
            "other Some(\"loop (9)\") 50",
            "moved 0 2",
            "takes_waiting CPU 2 pulls ui",
            "runs 160",
        ]
    );
    assert_eq!(chains[0].idled.len(), 1);
    assert_eq!((chains[0].idled[0].cpu, chains[0].idled[0].ns), (2, 20));
    assert_eq!(
        chains[0].idled[0].decisions[0].0.decision.name,
        "found_none"
    );
    let counted: Vec<_> = counted
        .iter()
        .map(|of| (of.made.decision.name, of.times))
        .collect();
    assert_eq!(
        counted,
        [
            ("near_vruntime", 1),
            ("none_near_idle", 1),
            ("takes_waiting", 1)
        ]
    );
}

#[test]
fn an_earlier_preemption_is_the_cause_of_a_wait() {
    let wait = Wait {
        name: "loop".to_owned(),
        pid: 8,
        after: After::Running { cpu: 0 },
        from: 110,
        to: 200,
        open: false,
    };
    let mut chains = Chains::new(vec![(wait, Subject::Wait)], [], 3);
    told(&mut chains);
    let (chains, _) = chains.finish();
    let names: Vec<&str> = chains[0]
        .steps
        .iter()
        .filter_map(|step| match &step.what {
            What::Decided(made) => Some(made.decision.name),
            _ => None,
        })
        .collect();
    // The decision that `ui` did not preempt is also about this task.
    assert_eq!(names, ["near_vruntime", "share_over"]);
}
