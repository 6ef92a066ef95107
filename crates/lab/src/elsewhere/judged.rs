//! Messages as a run's process could send them, and their judgement, for fuzzing.

use super::check::Expected;
use super::wire::{Reply, decode, encode, safe};
use machine::Machine;
use simulator::{Counters, Event, Outcome, TaskTotals, Trace};
use workload::{Recorder, Workload};

/// A machine and a load whose runs could send the messages.
pub struct Judge {
    machine: Machine,
    workload: Box<dyn Workload>,
}

impl Judge {
    /// Judges messages for a small machine with a load that has metrics of several kinds.
    pub fn new() -> Judge {
        let known = "the machine and the load are built in";
        Judge {
            machine: Machine::find("tc2").expect(known),
            workload: models::load("busy:duration=10ms").expect(known),
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

    /// A message with events in an order that no kernel makes. Every eight bytes of `choices` make one event.
    pub fn forged(&self, choices: &[u8]) -> Vec<u8> {
        let (mut now, mut events) = (0, Vec::new());
        for choice in choices.as_chunks::<8>().0 {
            // The step is at most some seconds.
            now += u64::from(choice[1]) * 10_u64.pow(u32::from(choice[2] % 8));
            let choice = Choice(choice, self.machine.cpus.len());
            let event = match choice.number(0) % 17 {
                kind @ 0..8 => choice.of_tasks(kind),
                kind => choice.other(kind, now),
            };
            events.extend(encode(&(now, choice.cpu(3) as u32, event)));
        }
        encode(&Reply::Events(&events))
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Judges `message`; accepted events go to `trace`.
    pub fn judge(&self, message: &[u8], trace: &mut dyn Trace) -> Result<(), &'static str> {
        let mut expected = Expected::new(&self.machine, &*self.workload, Some(trace));
        match decode::<Reply<'_>>(message).ok_or("no message")? {
            Reply::Events(events) => expected.events(events),
            Reply::Done(outcome) => expected.outcome(&outcome),
            Reply::Failed(failed) => match cage::text::is_plain(&safe(failed).to_string()) {
                true => Ok(()),
                false => panic!("a message with control characters"),
            },
        }
    }
}

/// Bytes that choose an event on a machine with this number of CPUs.
struct Choice<'a>(&'a [u8; 8], usize);

impl Choice<'_> {
    fn number(&self, at: usize) -> usize {
        self.0[at].into()
    }

    fn cpu(&self, at: usize) -> usize {
        self.number(at) % self.1
    }

    fn task(&self, at: usize) -> (&'static str, i32) {
        const NAMES: [&str; 4] = ["a", "a-1", "b", "swapper"];
        (NAMES[self.number(at) % 4], (self.number(at) % 8) as i32)
    }

    fn prio(&self, at: usize) -> i32 {
        [120, 100, 139, 50, -1, 0, 99, 130][self.number(at) % 8]
    }

    fn flag(&self, at: usize) -> bool {
        self.number(at) & 8 > 0
    }

    fn of_tasks(&self, kind: usize) -> Event<'static> {
        let (task, prio) = (self.task(4), self.prio(5));
        match kind {
            0..3 => Event::Switch {
                prev: task,
                prev_prio: prio,
                prev_runnable: self.flag(5),
                next: self.task(6),
                next_prio: self.prio(7),
            },
            3..5 => Event::Wakeup {
                task,
                prio,
                target_cpu: self.cpu(6),
                new: self.flag(7),
            },
            5 => Event::Migrate {
                task,
                prio,
                from: self.cpu(6),
                to: self.cpu(7),
            },
            6 => Event::Fork {
                parent: task,
                child: self.task(5),
            },
            _ => Event::Exit { task, prio },
        }
    }

    fn other(&self, kind: usize, now: u64) -> Event<'static> {
        let task = self.task(4);
        let [.., a, b, c] = *self.0;
        let long = u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0]);
        match kind {
            8 => Event::CpuFrequency { khz: long as u32 },
            9 => Event::Turbo { khz: long as u32 },
            10 => Event::Waker {
                task,
                by: self.flag(5).then(|| self.task(6)),
            },
            11 => Event::Polls {
                task,
                since: now.saturating_sub(long),
            },
            12 => Event::Period {
                task,
                released: now.saturating_sub(long),
                due: now + long,
                done: now,
                missed: self.flag(3),
            },
            13 => Event::FrequencyLimit { khz: long as u32 },
            14 => Event::Online(self.flag(3)),
            15 => Event::Loaded(self.flag(3)),
            _ => Event::Weight {
                task,
                prio: self.prio(5),
                idle: self.flag(3),
                group: "/g",
                group_weight: long as u32,
                product: long << 20,
            },
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
        // Each kind of event.
        let kinds = (0..17).flat_map(|kind| [kind, 1, 0, 3, 7, 1, 0, 0]);
        let forged = judge.forged(&kinds.collect::<Vec<u8>>());
        assert_eq!(judge.judge(&forged, &mut Nothing), Ok(()));
    }
}
