//! Checks a worker's reports: their CPUs exist, their times do not go back, their samples are of
//! existing metrics, and their names are safe for a terminal. Reports that pass are accepted.

use crate::runs::{Case, TIME_LIMIT_NS};
use machine::CpuMask;
use simulator::{Event, Outcome, Part, Trace};
use workload::MAX_SAMPLES;

/// The longest text of an event, bytes: `bpf_trace_printk()`'s.
const LONGEST_TEXT: usize = 1 << 16;

/// The expectations for a run of a case, and the receiver of its events.
pub struct Expected<'c, 't> {
    case: &'c Case<'c>,
    trace: Option<&'t mut dyn Trace>,
    now: u64,
}

type Checked = Result<(), &'static str>;

fn expect(truth: bool, what: &'static str) -> Checked {
    if truth { Ok(()) } else { Err(what) }
}

impl<'c, 't> Expected<'c, 't> {
    pub fn new(case: &'c Case<'c>, trace: Option<&'t mut dyn Trace>) -> Self {
        Expected {
            case,
            trace,
            now: 0,
        }
    }

    /// The maximum length of a message, bytes: all kept samples, some numbers for each CPU, and
    /// texts.
    pub fn longest(&self) -> usize {
        const SAMPLE: usize = size_of::<f64>();
        const OF_A_CPU: usize = 256;
        // With the totals of tasks.
        const OTHER: usize = 16 << 20;
        // As many samples, and as many that are still open.
        let samples = 2 * self.case.workload.metrics().len() * MAX_SAMPLES * SAMPLE;
        samples + self.case.machine.cpus.len() * OF_A_CPU + OTHER
    }

    /// The receiver to which events are passed on.
    pub fn events(&mut self, mut events: &[u8]) -> Checked {
        while !events.is_empty() {
            let ((now, cpu, event), rest): ((u64, u32, Event<'_>), _) =
                postcard::take_from_bytes(events).map_err(|_| "no event")?;
            events = rest;
            expect((self.now..=TIME_LIMIT_NS).contains(&now), "a time")?;
            self.now = now;
            self.cpu(cpu as usize)?;
            self.event(&event)?;
            match &mut self.trace {
                Some(trace) => trace.event(now, cpu as usize, event),
                None => return Err("an unrequested event"),
            }
        }
        Ok(())
    }

    fn cpu(&self, cpu: usize) -> Checked {
        expect(cpu < self.case.machine.cpus.len(), "a CPU")
    }

    fn event(&self, event: &Event<'_>) -> Checked {
        match *event {
            Event::Switch { prev, next, .. } => task(prev).and(task(next)),
            Event::Wakeup {
                task: woken,
                target_cpu,
                ..
            } => task(woken).and(self.cpu(target_cpu)),
            Event::Migrate {
                task: moved,
                from,
                to,
                ..
            } => task(moved).and(self.cpu(from)).and(self.cpu(to)),
            Event::Fork { parent, child } => task(parent).and(task(child)),
            Event::Exit { task: exited, .. } => task(exited),
            Event::Power { part, .. } => self.part(part),
            Event::CpuFrequency { .. } | Event::Turbo { .. } => Ok(()),
            Event::Waker { task: woken, by } => task(woken).and(by.map_or(Ok(()), task)),
            Event::Affinity { task: of, cpus } => {
                task(of).and(expect(CpuMask::from_bytes(cpus).is_some(), "CPUs"))
            }
            Event::Period { task: of, .. } => task(of),
            Event::Weight {
                task: of, group, ..
            } => task(of).and(text(group)),
            Event::Polls { task: of, since } => task(of).and(expect(since <= self.now, "a time")),
            Event::Printk(line) => text(line),
            Event::Decision { .. } => Err("a decision"),
        }
    }

    fn part(&self, part: Part) -> Checked {
        let machine = self.case.machine;
        let number = match part {
            Part::Cpu(number) | Part::Core(number) => return self.cpu(number),
            Part::Cluster(number) => expect(number < machine.clusters().len(), "a cluster"),
            // A package has at least one cluster.
            Part::Package(number) => expect(number < machine.clusters().len(), "a package"),
            Part::Rest => Ok(()),
        };
        expect(machine.power.is_some(), "power").and(number)
    }

    /// Checks its outcome.
    pub fn outcome(&self, outcome: &Outcome) -> Checked {
        let cpus = self.case.machine.cpus.len();
        let metrics = self.case.workload.metrics();
        let counters = &outcome.counters;
        expect(outcome.simulated_ns <= TIME_LIMIT_NS, "a time")?;
        expect(outcome.recorder.is_of(metrics), "samples")?;
        for of_cpus in [&counters.irq_ns, &counters.busy_ns, &counters.overhead_ns] {
            // No CPU does two things at a time. Sums of these times are shown.
            let bounded = of_cpus.iter().all(|&ns| ns <= TIME_LIMIT_NS);
            expect(of_cpus.len() == cpus && bounded, "times of CPUs")?;
        }
        for totals in &outcome.tasks {
            text(&totals.name)?;
            let mut times = [totals.cpu_ns, totals.longest_wait_ns].into_iter();
            let since = totals.waits_since_ns.unwrap_or(0);
            let bounded = times.all(|ns| ns <= TIME_LIMIT_NS) && since <= outcome.simulated_ns;
            expect(bounded, "times of tasks")?;
        }
        expect(
            outcome.energy.is_some() == self.case.machine.power.is_some(),
            "energy",
        )?;
        for (part, pj) in outcome.energy.iter().flat_map(|energy| &energy.parts) {
            self.part(*part)?;
            expect(*pj < 1 << 100, "energy")?;
        }
        expect(outcome.read.is_empty(), "variables")
    }
}

fn task((name, pid): (&str, i32)) -> Checked {
    expect(pid >= 0, "a pid").and(text(name))
}

fn text(text: &str) -> Checked {
    let plain = text.len() <= LONGEST_TEXT && !text.chars().any(char::is_control);
    expect(plain, "a text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scheduler;
    use crate::elsewhere::wire::{Reply, decode, encode};
    use machine::Machine;
    use proptest::prelude::*;

    /// Counts events.
    struct Count(usize);

    impl Trace for Count {
        fn event(&mut self, _: u64, _: usize, _: Event<'_>) {
            self.0 += 1;
        }
    }

    fn events(events: &[(u64, u32, Event<'_>)]) -> Result<usize, &'static str> {
        let bytes: Vec<u8> = events.iter().flat_map(encode).collect();
        checked(&bytes)
    }

    /// The number of events passed on from `bytes`, reported for a machine of two CPUs.
    fn checked(bytes: &[u8]) -> Result<usize, &'static str> {
        let machine = Machine::find("smp-2").unwrap();
        let workload = workload::load("busy:duration=1ms").unwrap();
        let scheduler = Scheduler::policy("cfs").unwrap();
        let case = Case {
            machine: &machine,
            workload: &*workload,
            scheduler: &scheduler,
        };
        let mut count = Count(0);
        Expected::new(&case, Some(&mut count)).events(bytes)?;
        Ok(count.0)
    }

    #[test]
    fn each_event_comes_as_it_went_and_none_that_cannot_be() {
        let task = ("a", 1);
        let exit = Event::Exit { task, prio: 120 };
        let migrate = |to| Event::Migrate {
            task,
            prio: 120,
            from: 0,
            to,
        };
        let switch = Event::Switch {
            prev: task,
            prev_prio: 120,
            prev_runnable: true,
            next: ("b", 2),
            next_prio: 100,
        };
        let good = [
            (1, 0, switch),
            (1, 1, migrate(1)),
            (2, 0, Event::CpuFrequency { khz: 1 }),
            (2, 0, Event::Turbo { khz: 1 }),
            (3, 1, Event::Printk("text")),
            (3, 1, exit),
        ];
        assert_eq!(events(&good), Ok(6));
        for (what, bad) in [
            ("a CPU", (1, 2, exit)),
            ("a CPU", (1, 0, migrate(2))),
            ("a time", (TIME_LIMIT_NS + 1, 0, exit)),
            ("a text", (1, 0, Event::Printk("\u{1b}[2J"))),
            (
                "a pid",
                (
                    1,
                    0,
                    Event::Exit {
                        task: ("a", -1),
                        prio: 0,
                    },
                ),
            ),
        ] {
            assert_eq!(events(&[bad]), Err(what));
        }
        assert_eq!(events(&[(2, 0, exit), (1, 0, exit)]), Err("a time"));
    }

    proptest! {
        #[test]
        fn whatever_bytes_are_said_are_checked(bytes: Vec<u8>) {
            let _ = checked(&bytes);
            let _ = decode::<Reply<'_>>(&bytes);
        }
    }
}
