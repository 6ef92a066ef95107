//! The deadline server of a CPU's tasks below the real-time class: if higher classes leave these tasks no time, they
//! get 50 ms of each second as if they were a deadline task. The server is Linux 7.3's `rq->ext_server`; for a
//! scheduler that represents the fair class it is `rq->fair_server`, which has the same rules and is in Linux 6.12,
//! too. `kernel/sched/deadline.c` has a picture of its states.
//!
//! The server is deferred: while the tasks get their time without the server, and while the CPU idles, its budget is
//! consumed and its period restarts. The server runs only when the rest of the period is as long as the budget. The
//! bandwidth of the server is not part of frequency requests.
//!
//! In Linux 6.12 a CPU that idles does not begin a new period: the budget ends at 0, and a timer finds
//! that the server has no task.

use crate::class::server::DlEntity;
use crate::events::What;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, TaskPtr};

/// `sched_init_dl_servers()`: budget and period, in ns.
const RUNTIME_NS: u64 = 50_000_000;
const PERIOD_NS: u64 = 1_000_000_000;
/// `dl_server_min_res`: a timer that is early by more than this time (in ns) is restarted.
const MIN_RES_NS: u64 = 1_000_000;

/// A CPU's server: its fields of `struct sched_dl_entity`.
#[derive(Clone, Copy)]
pub struct DlServer {
    entity: DlEntity,
    /// `dl_server_active`: the server has a task, or had one a short time ago.
    active: bool,
    /// `dl_defer_armed`: the timer is set for the time when the server has to run.
    armed: bool,
    /// `dl_defer_running`: the server has had to run, and has not been deferred since.
    running: bool,
    /// `dl_defer_idle`: an idle CPU consumed the budget.
    idle: bool,
    /// The server is on the runqueue: its tasks are picked as a deadline task is.
    queued: bool,
    /// The time until which idle time has been accounted, in ns.
    idle_from: u64,
}

impl Default for DlServer {
    fn default() -> DlServer {
        // The period that began at boot is over before a load begins, so the load's first task begins a new period.
        DlServer {
            entity: DlEntity {
                dl_runtime: RUNTIME_NS,
                dl_deadline: PERIOD_NS,
                dl_period: PERIOD_NS,
                runtime: RUNTIME_NS as i64,
                ..DlEntity::default()
            },
            active: false,
            armed: false,
            running: false,
            idle: false,
            queued: false,
            idle_from: 0,
        }
    }
}

impl DlServer {
    /// `replenish_dl_new_period()`: begins a new period, and defers the server unless it is running.
    fn new_period(&mut self, now: u64) {
        self.entity.new_period(now);
        if !self.running {
            self.armed = true;
            self.entity.throttled = true;
        }
    }

    /// `update_dl_entity()`, when the server's first task arrives.
    fn wake(&mut self, now: u64) {
        let over = self.entity.deadline < now;
        if over || self.entity.overflows(now) {
            if self.running && !over {
                return self.entity.revise(now);
            }
            self.running = false;
            self.new_period(now);
        } else if !self.running {
            self.armed = true;
            self.entity.throttled = true;
        }
    }

    /// `replenish_dl_entity()`, when the server's timer has expired. Returns false if the server is deferred again.
    fn replenish(&mut self, now: u64) -> bool {
        if self.armed && self.entity.overflows(now) {
            self.entity.new_period(now);
        }
        self.entity.replenish(now);
        if std::mem::take(&mut self.armed) {
            return true;
        }
        if !self.running && now < self.zero_laxity() {
            self.armed = true;
            self.entity.throttled = true;
            return false;
        }
        true
    }

    /// `dl_server_update_idle_time()` of Linux 6.12: the server's CPU idled for `delta` ns.
    fn consume_idle(&mut self, delta: u64) {
        if self.entity.runtime < 0 {
            return;
        }
        self.entity.runtime -= delta as i64;
        if self.entity.runtime < 0 {
            self.running = false;
            self.entity.runtime = 0;
        }
    }

    /// The latest time, in ns, at which the server can start and still get its budget by the deadline.
    fn zero_laxity(&self) -> u64 {
        self.entity
            .deadline
            .saturating_add_signed(-self.entity.runtime)
    }

    /// The server's deadline, in ns, if the server takes part in picking the next task.
    pub fn deadline(&self) -> Option<u64> {
        self.queued.then_some(self.entity.deadline)
    }
}

impl Kernel<'_> {
    /// `dl_server_start()`: the first task becomes runnable on `cpu`.
    pub fn server_start(&mut self, cpu: usize) {
        if !self.scx.is_served {
            return;
        }
        if !self.scx.is_7_3() && self.rq(cpu).nr_running == 1 && self.cpus[cpu].curr.is_none() {
            self.server_idled(cpu);
        }
        let now = self.now();
        let server = &mut self.cpus[cpu].server;
        server.idle = false;
        if server.active {
            return;
        }
        server.active = true;
        server.wake(now);
        if server.entity.throttled && self.start_server_timer(cpu) {
            return;
        }
        self.queue_server(cpu);
    }

    /// Queues the server, and reschedules `cpu` unless a deadline task with an earlier or equal deadline runs there.
    fn queue_server(&mut self, cpu: usize) {
        let server = &mut self.cpus[cpu].server;
        server.entity.throttled = false;
        server.armed = false;
        server.queued = true;
        let deadline = server.entity.deadline;
        let runs_dl = self.cpus[cpu].curr.is_some_and(|curr| {
            curr.class.get() == Class::Dl && curr.dl.get().deadline <= deadline
        });
        if !runs_dl {
            self.resched(cpu);
        }
    }

    /// `dl_server_stop()`: the server of `cpu` has no task to run.
    pub fn server_stop(&mut self, cpu: usize) {
        let server = &mut self.cpus[cpu].server;
        server.active = false;
        server.armed = false;
        server.idle = false;
        server.queued = false;
        server.entity.throttled = false;
        server.entity.generation += 1;
    }

    /// `dl_server_update()`: a task of `cpu` ran for `delta` ns.
    #[inline]
    pub fn server_update(&mut self, cpu: usize, delta: u64) {
        let server = &mut self.cpus[cpu].server;
        if !server.active || delta == 0 {
            return;
        }
        server.entity.runtime -= delta as i64;
        server.idle = false;
        if server.entity.runtime <= 0 {
            self.server_exceeded(cpu, false);
        }
    }

    /// Notes that `cpu` begins to idle now.
    pub fn server_idles(&mut self, cpu: usize) {
        let now = self.now();
        self.cpus[cpu].server.idle_from = now;
    }

    /// `dl_server_update_idle()`: consumes budget for the time for which `cpu` has idled until now, because its tasks
    /// could have used that time.
    pub fn server_idled(&mut self, cpu: usize) {
        let (now, is_7_3) = (self.now(), self.scx.is_7_3());
        let server = &mut self.cpus[cpu].server;
        let delta = now.saturating_sub(std::mem::replace(&mut server.idle_from, now));
        if !is_7_3 {
            return server.consume_idle(delta);
        }
        if !server.active || delta == 0 {
            return;
        }
        server.entity.runtime -= delta as i64;
        if server.entity.runtime <= 0 {
            self.server_exceeded(cpu, true);
        }
    }

    /// `update_curr_dl_se()`: the budget is consumed. Defers or throttles the server, or replenishes the budget.
    #[cold]
    fn server_exceeded(&mut self, cpu: usize, idle: bool) {
        let now = self.now();
        let server = &mut self.cpus[cpu].server;
        if server.entity.throttled {
            // The server is deferred: it is not needed in this period.
            if server.idle && idle {
                server.entity.runtime = 0;
                return;
            }
            server.running = false;
            server.new_period(now);
            server.idle |= idle;
            self.start_server_timer(cpu);
            return;
        }
        server.entity.throttled = true;
        server.queued = false;
        if !self.start_server_timer(cpu) {
            if !self.scx.is_7_3() {
                self.cpus[cpu].server.replenish(now);
                return self.queue_server(cpu);
            }
            self.cpus[cpu].server.new_period(now);
            self.start_server_timer(cpu);
        }
        self.cpus[cpu].need_resched = true;
    }

    /// `start_dl_timer()`. Returns false if the time has passed.
    fn start_server_timer(&mut self, cpu: usize) -> bool {
        let now = self.now();
        let server = &mut self.cpus[cpu].server;
        server.entity.generation += 1;
        let at = match server.armed {
            true => server.zero_laxity(),
            false => server.entity.next_period(),
        };
        if at < now {
            return false;
        }
        let (cpu, generation) = (cpu as u32, server.entity.generation);
        let handled = false;
        self.events.push(
            at,
            What::DlServer {
                cpu,
                generation,
                handled,
            },
        );
        true
    }

    /// Handles the expiry of the server's timer, or the end of the timer interrupt (`handled`).
    pub fn server_timer(&mut self, cpu: usize, generation: u32, handled: bool) {
        if self.cpus[cpu].server.entity.generation != generation {
            return;
        }
        if !handled {
            let at = self.timer_interrupt(cpu);
            let what = What::DlServer {
                cpu: cpu as u32,
                generation,
                handled: true,
            };
            self.events.push(at, what);
            return self.timer_interrupt_done(cpu);
        }
        self.enter(cpu);
        self.server_timer_expired(cpu);
        self.leave(cpu);
    }

    /// `dl_server_timer()`
    fn server_timer_expired(&mut self, cpu: usize) {
        if self.scx.is_7_3() && !self.server_is_wanted(cpu) {
            return;
        }
        let now = self.now();
        let server = &mut self.cpus[cpu].server;
        if server.armed {
            if now + MIN_RES_NS < server.zero_laxity() {
                self.start_server_timer(cpu);
                return;
            }
            server.running = true;
        }
        if !self.cpus[cpu].server.replenish(now) && self.start_server_timer(cpu) {
            return;
        }
        self.queue_server(cpu);
    }

    /// Is the server still needed once the time until now is accounted? Linux 6.12 accounts no time when the timer
    /// expires.
    fn server_is_wanted(&mut self, cpu: usize) -> bool {
        let generation = self.cpus[cpu].server.entity.generation;
        match self.cpus[cpu].curr {
            Some(curr) if curr.class.get() == Class::Ext => self.update_curr_ext(cpu, curr),
            Some(_) => {}
            None => self.server_idled(cpu),
        }
        if self.cpus[cpu].server.idle {
            self.server_stop(cpu);
            return false;
        }
        self.cpus[cpu].server.entity.generation == generation
    }

    /// Picks a task for the server of `cpu` (`pick_task_dl()`). If there is no task, the server stops.
    pub fn pick_server(&mut self, cpu: usize, prev: Option<TaskPtr>) -> Option<TaskPtr> {
        self.balance_ext(cpu, prev);
        let task = self.pick_ext(cpu, prev);
        if task.is_none() {
            self.server_stop(cpu);
        }
        task
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_deferred() {
        let mut server = DlServer::default();
        server.wake(10);
        assert!(server.armed && server.entity.throttled);
        assert_eq!(server.zero_laxity(), 10 + PERIOD_NS - RUNTIME_NS);
    }

    #[test]
    fn idle_time_consumes_the_budget() {
        let mut server = DlServer {
            running: true,
            ..DlServer::default()
        };
        server.consume_idle(RUNTIME_NS / 2);
        assert_eq!(server.entity.runtime, RUNTIME_NS as i64 / 2);
        assert!(server.running);
        server.consume_idle(PERIOD_NS);
        assert_eq!(server.entity.runtime, 0);
        assert!(!server.running);
    }

    /// The server's tasks had no time, so it runs, in a new period, because the rest of the old one
    /// is too short for its budget at its bandwidth (`dl_entity_overflow()`).
    #[test]
    fn at_its_zero_laxity_it_runs() {
        let mut server = DlServer::default();
        server.wake(10);
        let at = server.zero_laxity();
        server.running = true;
        assert!(server.replenish(at));
        assert!(!server.entity.throttled && !server.armed);
        assert_eq!(
            (server.entity.runtime, server.entity.deadline),
            (RUNTIME_NS as i64, at + PERIOD_NS)
        );
    }

    #[test]
    fn after_its_budget_it_waits_for_the_next_period() {
        let mut server = DlServer::default();
        server.wake(10);
        server.running = true;
        let began = server.zero_laxity();
        server.replenish(began);
        server.entity.runtime = -5;
        server.entity.throttled = true;
        let next = server.entity.next_period();
        assert_eq!(next, began + PERIOD_NS);
        assert!(server.replenish(next));
        assert_eq!(server.entity.runtime, RUNTIME_NS as i64 - 5);
        assert_eq!(server.entity.deadline, began + 2 * PERIOD_NS);
    }
}
