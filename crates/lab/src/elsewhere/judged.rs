//! Traffic across the wall, for fuzzing: messages as a run's process could send them, and their judgement.

use super::check::Expected;
use super::wire::{Reply, decode, encode};
use crate::runs::Case;
use crate::scheduler::Scheduler;
use machine::Machine;
use simulator::{Counters, Event, Outcome, TaskTotals, Trace};
use workload::{Recorder, Workload};

/// A machine, a load and a scheduler whose runs could send the messages.
pub struct Judge {
    machine: Machine,
    workload: Box<dyn Workload>,
    scheduler: Scheduler,
}

impl Judge {
    /// For a small machine with a load that has metrics of several kinds.
    pub fn new() -> Judge {
        let known = "the machine, the load and the policy are built in";
        Judge {
            machine: Machine::find("tc2").expect(known),
            workload: workload::load("busy:duration=10ms").expect(known),
            scheduler: Scheduler::policy("cfs").expect(known),
        }
    }

    fn case(&self) -> Case<'_> {
        Case {
            machine: &self.machine,
            workload: &*self.workload,
            scheduler: &self.scheduler,
        }
    }

    /// Messages that are accepted: events, and the end of a run.
    pub fn messages(&self) -> Vec<Vec<u8>> {
        let (idle, task, other) = (("swapper", 0), ("a", 10), ("b", 11));
        let switch = |prev, next| Event::Switch {
            prev,
            prev_prio: 120,
            prev_runnable: false,
            next,
            next_prio: 120,
        };
        let wakeup = Event::Wakeup {
            task: other,
            prio: 120,
            target_cpu: 1,
            new: true,
        };
        let events = [
            (1_000, 0, switch(idle, task)),
            (
                2_000,
                0,
                Event::Fork {
                    parent: task,
                    child: other,
                },
            ),
            (2_000, 0, wakeup),
            (3_000, 1, switch(idle, other)),
            (9_000, 1, Event::Printk("hello")),
            (
                9_500,
                1,
                Event::Exit {
                    task: other,
                    prio: 120,
                },
            ),
        ];
        let events: Vec<u8> = events
            .iter()
            .flat_map(encode::<(u64, u32, Event<'_>)>)
            .collect();
        let metrics = self.workload.metrics();
        let mut recorder = Recorder::new(metrics);
        (0..metrics.len()).for_each(|metric| recorder.record(metric, 0.001));
        let cpus = vec![0; self.machine.cpus.len()];
        let outcome = Outcome {
            simulated_ns: 10_000_000,
            recorder,
            counters: Counters {
                irq_ns: cpus.clone(),
                busy_ns: cpus.clone(),
                overhead_ns: cpus,
                ..Counters::default()
            },
            tasks: vec![TaskTotals {
                name: "a".to_owned(),
                cpu_ns: 1_000,
                ..TaskTotals::default()
            }],
            energy: self
                .machine
                .power
                .is_some()
                .then(simulator::Energy::default),
            ..Outcome::default()
        };
        vec![
            encode(&Reply::Events(&events)),
            encode(&Reply::Done(Box::new(outcome))),
        ]
    }

    /// Judges `message`; accepted events go to `trace`.
    pub fn judge(&self, message: &[u8], trace: &mut dyn Trace) -> Result<(), &'static str> {
        let case = self.case();
        let mut expected = Expected::new(&case, Some(trace));
        match decode::<Reply<'_>>(message).ok_or("no message")? {
            Reply::Events(events) => expected.events(events),
            Reply::Done(outcome) => expected.outcome(&outcome),
            Reply::Failed(failed) => {
                let error: simulator::Error = failed.into();
                match cage::text::is_plain(&error.to_string()) {
                    true => Ok(()),
                    false => panic!("a message with control characters"),
                }
            }
        }
    }
}

impl Default for Judge {
    fn default() -> Judge {
        Judge::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Trace for Nothing {
        fn event(&mut self, _: u64, _: usize, _: Event<'_>) {}
    }

    #[test]
    fn what_a_run_sends_is_accepted() {
        let judge = Judge::new();
        for message in judge.messages() {
            assert_eq!(judge.judge(&message, &mut Nothing), Ok(()));
        }
    }
}
