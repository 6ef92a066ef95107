//! The event loop: lets time pass until the workload is done, and tells what came out.

use crate::events::What;
use crate::kernel::Kernel;
use crate::{Error, Outcome};

/// How many events may happen at one time before the scheduler is taken to cause them for ever: many
/// for each task of the largest workload.
const MAX_INSTANT_EVENTS: u32 = 2_000_000;

impl Kernel<'_> {
    /// Lets time pass until the workload is done.
    pub fn run(&mut self, limit_ns: u64) -> Result<(), Error> {
        let mut instant_events = 0;
        while self.failure.is_none() {
            if self.alive == self.daemons {
                return Ok(());
            }
            if self.runnable == 0 && self.sleeping == 0 && !self.network_is_active() {
                return Err(self.deadlock());
            }
            let Some((time, what)) = self.events.pop() else {
                return Err(self.deadlock());
            };
            if time >= limit_ns {
                return Err(Error::TimeLimit { limit_ns });
            }
            instant_events = if time > self.now() {
                0
            } else {
                instant_events + 1
            };
            if instant_events > MAX_INSTANT_EVENTS {
                self.scheduler_error(format!(
                    "{MAX_INSTANT_EVENTS} events without time passing; expected timers and kicks that end"
                ));
                continue;
            }
            self.set_now(time);
            match what {
                What::Done { cpu } => self.done(cpu as usize),
                What::Tick { cpu } => self.tick(cpu as usize),
                What::Idle { cpu } => self.search_done(cpu as usize),
                What::Resched { cpu } => self.resched_interrupt(cpu as usize),
                What::Expiry { task } => self.sleep_expired(task),
                What::Wake { task } => self.sleep_ended(task),
                What::BpfTimer { timer, generation } => {
                    self.bpf_timer_expired(timer as usize, generation)
                }
                What::Power { cpu } => self.trace_power(cpu as usize),
                What::Turbo { package } => self.turbo_interval(package as usize),
                What::DlTimer { task, generation } => self.dl_timer_expired(task, generation),
                What::DlReplenish { task, generation } => self.dl_replenish(task, generation),
                What::DlInactive { task, generation } => self.dl_inactive(task, generation),
                What::Packet { connection } => self.packet_passed(connection as usize),
                What::NetworkInterrupt { connection } => {
                    self.network_interrupt_done(connection as usize)
                }
                What::Softirq { cpu } => self.softirq_part_done(cpu as usize),
                What::Frequency { policy } => self.frequency_changed(policy as usize),
                What::Watchdog => self.watchdog(),
                What::End => return Ok(()),
            }
            if self.check.is_some() {
                self.check_state();
            }
        }
        Err(self.failure.take().expect("the loop ended on it"))
    }

    /// What came out, after [`Kernel::run`].
    pub fn outcome(mut self, scheduler: &native::Object, read: &[&str]) -> Result<Outcome, Error> {
        self.disable_scheduler();
        // It is out already: an error that it makes on its way means nothing.
        self.failure = None;
        for cpu in 0..self.cpus.len() {
            self.pause(cpu);
            if self.cpus[cpu].curr.is_some() {
                self.counters.busy_ns[cpu] += self.now() - self.cpus[cpu].busy_since;
            }
        }
        self.check_sums();
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let now = self.now();
        Ok(Outcome {
            energy: self.hw.meters.as_mut().map(|meters| meters.read(now)),
            simulated_ns: self.now(),
            read: read
                .iter()
                .map(|symbol| self.bpf.instance.read(scheduler, symbol))
                .collect(),
            recorder: std::mem::take(&mut self.programs.recorder),
            counters: std::mem::take(&mut self.counters),
        })
    }

    fn deadlock(&self) -> Error {
        let mut waiting: Vec<String> = self
            .tasks
            .iter()
            .filter(|task| !task.exited.get())
            .map(|task| format!("{} waits for {}", task.label(), task.waits_for.get()))
            .collect();
        if waiting.len() > 8 {
            let more = waiting.len() - 8;
            waiting.truncate(8);
            waiting.push(format!("and {more} more"));
        }
        Error::Deadlock {
            at_ns: self.now(),
            waiting: waiting.join(", "),
        }
    }
}
