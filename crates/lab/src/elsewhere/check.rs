//! Checks a worker's reports: CPUs exist, times do not go back, samples belong to existing metrics and are in the range
//! that a run can measure, names are safe for a terminal, and a trace does not exceed its limits on events and ticks.

use super::wire::TIME_LIMIT_NS;
use machine::{CpuMask, Machine};
use simulator::{Counters, Event, Outcome, Part, Trace};
use workload::{MAX_SAMPLES, Metric, Recorder, Workload};

/// The longest text of an event in bytes, which is far longer than a line of `bpf_printk()`.
const LONGEST_TEXT: usize = 1 << 16;

/// The largest number of events of a trace, which is some GB of text.
const MOST_EVENTS: u64 = 20_000_000;

/// The number of CPUs' ticks that a trace may have in addition to those that its events allow. The trace's writer adds
/// the ticks between two events, so a few events far apart could make a long trace.
const FREE_TICKS: u64 = 2_000_000;

/// The number of CPUs' ticks that each event allows.
const TICKS_OF_AN_EVENT: u64 = 10;

/// The highest pid, `PID_MAX_LIMIT` of include/linux/threads.h.
const MAX_PID: i32 = 1 << 22;

/// The highest power in mW of a part of a machine; [`MOST_KHZ`] is the highest frequency in kHz.
const MOST_POWER_MW: u32 = 100_000_000;
const MOST_KHZ: u32 = 100_000_000;

/// The time after a run's end for which work that has begun may continue, in ns.
const BEYOND_NS: u64 = 1_000_000_000;

/// The highest speed of a CPU, relative to the reference.
const FASTEST: f64 = 16.0;

/// The expectations for a run, and the receiver of its events.
pub struct Expected<'c, 't> {
    machine: &'c Machine,
    workload: &'c dyn Workload,
    trace: Option<&'t mut dyn Trace>,
    now: u64,
    count: u64,
}

type Checked = Result<(), &'static str>;

fn expect(truth: bool, what: &'static str) -> Checked {
    if truth { Ok(()) } else { Err(what) }
}

impl<'c, 't> Expected<'c, 't> {
    pub fn new(
        machine: &'c Machine,
        workload: &'c dyn Workload,
        trace: Option<&'t mut dyn Trace>,
    ) -> Self {
        Expected {
            machine,
            workload,
            trace,
            now: 0,
            count: 0,
        }
    }

    /// The maximum length of a message, in bytes: all kept samples, some numbers for each CPU, and texts.
    pub fn longest(&self) -> usize {
        const SAMPLE: usize = size_of::<f64>();
        const OF_A_CPU: usize = 256;
        // The size of all other data, which includes the totals of tasks.
        const OTHER: usize = 16 << 20;
        // The kept samples, and as many of loops and responses that are still open.
        let samples = 2 * self.workload.metrics().len() * MAX_SAMPLES * SAMPLE;
        samples + self.machine.cpus.len() * OF_A_CPU + OTHER
    }

    /// Checks `events`, and passes them on to the trace.
    pub fn events(&mut self, mut events: &[u8]) -> Checked {
        while !events.is_empty() {
            let ((now, cpu, event), rest): ((u64, u32, Event<'_>), _) =
                postcard::take_from_bytes(events).map_err(|_| "no event")?;
            events = rest;
            expect((self.now..=TIME_LIMIT_NS).contains(&now), "a time")?;
            self.now = now;
            self.count += 1;
            expect(
                self.count <= MOST_EVENTS,
                "more events than a trace may have",
            )?;
            let paid = FREE_TICKS + self.count * TICKS_OF_AN_EVENT;
            expect(self.ticks() <= paid, "more ticks than a trace may have")?;
            self.cpu(cpu as usize)?;
            self.event(&event)?;
            match &mut self.trace {
                Some(trace) => trace.event(now, cpu as usize, event),
                None => return Err("an unrequested event"),
            }
        }
        Ok(())
    }

    /// The ticks of all CPUs until now.
    fn ticks(&self) -> u64 {
        let machine = self.machine;
        let of_a_cpu = self.now / (1_000_000_000 / u64::from(machine.hz.max(1))).max(1);
        of_a_cpu.saturating_mul(machine.cpus.len() as u64)
    }

    fn cpu(&self, cpu: usize) -> Checked {
        expect(cpu < self.machine.cpus.len(), "a CPU")
    }

    fn event(&self, event: &Event<'_>) -> Checked {
        match *event {
            Event::Switch {
                prev,
                prev_prio,
                next,
                next_prio,
                ..
            } => task(prev)
                .and(task(next))
                .and(prio(prev_prio))
                .and(prio(next_prio)),
            Event::Wakeup {
                task: woken,
                prio: of,
                target_cpu,
                ..
            } => task(woken).and(prio(of)).and(self.cpu(target_cpu)),
            Event::Migrate {
                task: moved,
                prio: of,
                from,
                to,
            } => task(moved)
                .and(prio(of))
                .and(self.cpu(from))
                .and(self.cpu(to)),
            Event::Fork { parent, child } => task(parent).and(task(child)),
            Event::Exit {
                task: exited,
                prio: of,
            } => task(exited).and(prio(of)),
            Event::Power { part, mw, pj } => self
                .part(part)
                .and(expect(mw <= MOST_POWER_MW && pj <= 1 << 50, "power")),
            Event::CpuFrequency { khz } | Event::Turbo { khz } | Event::FrequencyLimit { khz } => {
                expect(khz <= MOST_KHZ, "a frequency")
            }
            Event::Online(_) | Event::Loaded(_) => Ok(()),
            Event::Waker { task: woken, by } => task(woken).and(by.map_or(Ok(()), task)),
            Event::Affinity { task: of, cpus } => {
                task(of).and(expect(CpuMask::from_bytes(cpus).is_some(), "CPUs"))
            }
            Event::Period {
                task: of,
                released,
                due,
                done,
                ..
            } => {
                let known = released <= done && done <= self.now && due <= TIME_LIMIT_NS;
                task(of).and(expect(known, "a period"))
            }
            Event::Weight {
                task: of,
                prio: new,
                group,
                ..
            } => task(of).and(prio(new)).and(text(group)),
            Event::Polls { task: of, since } => task(of).and(expect(since <= self.now, "a time")),
            Event::Printk(line) => text(line),
            Event::Decision { .. } => Err("a decision"),
        }
    }

    fn part(&self, part: Part) -> Checked {
        let machine = self.machine;
        let number = match part {
            Part::Cpu(number) | Part::Core(number) => return self.cpu(number),
            Part::Cluster(number) => expect(number < machine.clusters().len(), "a cluster"),
            // A package has at least one cluster.
            Part::Package(number) => expect(number < machine.clusters().len(), "a package"),
            Part::Rest => Ok(()),
        };
        expect(machine.power.is_some(), "power").and(number)
    }

    pub fn outcome(&self, outcome: &Outcome) -> Checked {
        let cpus = self.machine.cpus.len();
        let metrics = self.workload.metrics();
        let counters = &outcome.counters;
        expect(outcome.simulated_ns <= TIME_LIMIT_NS, "a time")?;
        expect(outcome.recorder.is_of(metrics), "samples")?;
        let longest = outcome.simulated_ns + BEYOND_NS;
        let of_all = longest.saturating_mul(cpus as u64);
        for (number, metric) in metrics.iter().enumerate() {
            samples(metric, &outcome.recorder, number, of_all)?;
        }
        counts(counters, longest, of_all)?;
        for of_cpus in [&counters.irq_ns, &counters.busy_ns, &counters.overhead_ns] {
            // None of a CPU's times can exceed the duration of the run. Check this, because sums of these times are
            // shown.
            let bounded = of_cpus.iter().all(|&ns| ns <= longest);
            expect(of_cpus.len() == cpus && bounded, "times of CPUs")?;
        }
        if let Some(deadlock) = &outcome.deadlock {
            text(&deadlock.waiting)?;
            expect(deadlock.at_ns <= outcome.simulated_ns, "a time")?;
        }
        for totals in &outcome.tasks {
            text(&totals.name)?;
            let mut times = [totals.cpu_ns, totals.longest_wait_ns].into_iter();
            let since = totals.waits_since_ns.unwrap_or(0);
            let bounded = times.all(|ns| ns <= longest) && since <= outcome.simulated_ns;
            expect(bounded, "times of tasks")?;
        }
        expect(
            outcome.energy.is_some() == self.machine.power.is_some(),
            "energy",
        )?;
        // 1 mW for 1 ns is 1 pJ.
        let most = u128::from(MOST_POWER_MW) * u128::from(longest);
        for (part, pj) in outcome.energy.iter().flat_map(|energy| &energy.parts) {
            self.part(*part)?;
            expect(*pj <= most, "energy")?;
        }
        expect(outcome.read.is_empty(), "variables")
    }
}

/// Checks that the numbers of events and the times of all CPUs are possible in `longest` ns, which are `of_all` ns of
/// all CPUs together.
fn counts(counters: &Counters, longest: u64, of_all: u64) -> Checked {
    let known = counters.totals().all(|count| count <= of_all);
    expect(known && counters.longest_waste_ns <= longest, "counters")
}

/// Checks that the samples of metric `number`, in the unit of `metric`, can have been measured in `of_all` ns of all
/// CPUs together. `recorder` is consistent.
fn samples(metric: &Metric, recorder: &Recorder, number: usize, of_all: u64) -> Checked {
    let recorded = recorder.recorded(number);
    // A sample takes at least a nanosecond.
    expect(recorded <= of_all, "a number of samples")?;
    // Work is counted as the time of a CPU at the reference speed.
    let longest = of_all as f64 * FASTEST;
    // Amounts and rates, which have no unit of time, have a fixed limit.
    let most = metric.unit.ns().map_or(1e15, |ns| longest / ns);
    // rt-app's slack is negative after a deadline, and may be a sum.
    let range = match metric.name.rsplit('/').next() {
        Some("slack") => -most * recorded as f64..=most * recorded as f64,
        _ => 0.0..=most,
    };
    let (kept, open) = (recorder.samples(number), recorder.open(number));
    let mut all = kept.iter().chain(open);
    let since = recorder.last_missed_ns(number).unwrap_or(0);
    let known = all.all(|sample| range.contains(sample))
        && since <= of_all
        && (0.0..=longest).contains(&recorder.waited(number));
    expect(known, "a sample that cannot have been measured")
}

fn task((name, pid): (&str, i32)) -> Checked {
    expect((0..=MAX_PID).contains(&pid), "a pid").and(text(name))
}

/// Checks a kernel priority. The priority of a deadline task is -1 (include/linux/sched/prio.h).
fn prio(prio: i32) -> Checked {
    expect((-1..140).contains(&prio), "a priority")
}

fn text(text: &str) -> Checked {
    let plain = text.len() <= LONGEST_TEXT && cage::text::is_plain(text);
    expect(plain, "a text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elsewhere::wire::{Reply, decode, encode};
    use proptest::prelude::*;

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
        let workload = models::load("busy:duration=1ms").unwrap();
        let mut count = Count(0);
        Expected::new(&machine, &*workload, Some(&mut count)).events(bytes)?;
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
                "a priority",
                (
                    1,
                    0,
                    Event::Exit {
                        task,
                        prio: i32::MIN,
                    },
                ),
            ),
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

    #[test]
    fn a_few_events_far_apart_make_no_long_trace() {
        let exit = Event::Exit {
            task: ("a", 1),
            prio: 120,
        };
        // A day of ticks on two CPUs.
        let far = [(1, 0, exit), (TIME_LIMIT_NS, 0, exit)];
        assert_eq!(events(&far), Err("more ticks than a trace may have"));
        let near = [(1, 0, exit), (600 * 1_000_000_000, 0, exit)];
        assert_eq!(events(&near), Ok(2));
    }

    fn recorded(metrics: &[Metric], metric: usize, value: f64) -> Recorder {
        let mut recorder = Recorder::new(metrics);
        recorder.record(metric, value);
        recorder
    }

    #[test]
    fn samples_and_counters_are_what_a_run_can_have_made() {
        let machine = Machine::find("smp-2").unwrap();
        let workload = models::load("busy:duration=1s").unwrap();
        let metrics = workload.metrics();
        let expected = Expected::new(&machine, &*workload, None);
        let outcome = |recorder, counters| Outcome {
            simulated_ns: 1_000_000_000,
            recorder,
            counters: Counters {
                irq_ns: vec![0; 2],
                busy_ns: vec![0; 2],
                overhead_ns: vec![0; 2],
                ..counters
            },
            ignored: Vec::new(),
            has_groups: false,
            deadlock: None,
            tasks: Vec::new(),
            read: Vec::new(),
            energy: None,
        };
        let of_value = |value| {
            let recorder = recorded(metrics, 0, value);
            expected.outcome(&outcome(recorder, Counters::default()))
        };
        assert_eq!(of_value(1.0), Ok(()));
        for value in [f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e308, 1e16] {
            let refused = "a sample that cannot have been measured";
            assert_eq!(of_value(value), Err(refused), "{value}");
        }
        assert_eq!(of_value(f64::NAN), Err("samples"));
        let wasted = Counters {
            wasted_ns: u64::MAX,
            ..Counters::default()
        };
        let recorder = recorded(metrics, 0, 1.0);
        assert_eq!(
            expected.outcome(&outcome(recorder, wasted)),
            Err("counters")
        );
    }

    proptest! {
        #[test]
        fn whatever_bytes_are_said_are_checked(bytes: Vec<u8>) {
            let _ = checked(&bytes);
            let _ = decode::<Reply<'_>>(&bytes);
        }
    }
}
