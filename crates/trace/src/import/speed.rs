//! The speeds of CPUs, and the work that their threads do at these speeds.

use super::builder::{Builder, costs};
use machine::work_in;

const NS_PER_S: u64 = 1_000_000_000;

impl Builder<'_> {
    pub fn account(&mut self, cpu: usize, now: u64) {
        let ns = now.saturating_sub(self.cpus[cpu].since);
        self.cpus[cpu].since = now;
        let Some(thread) = self.cpus[cpu].runs else {
            return;
        };
        let kernel = ns.min(self.cpus[cpu].owed);
        self.cpus[cpu].owed -= kernel;
        let ticks = self.machine.map_or(0, |machine| {
            let tick_ns = self.kernel_ns(cpu, costs(machine, cpu).tick_ns);
            (ns - kernel) * (u64::from(machine.hz) * tick_ns).min(NS_PER_S) / NS_PER_S
        });
        let work = work_in(ns - kernel - ticks, self.speed(cpu));
        let waker_s = ns.min(self.cpus[cpu].waker_s);
        self.cpus[cpu].waker_s -= waker_s;
        let thread = &mut self.threads[thread as usize];
        thread.ran(ns - waker_s);
        thread.work += work;
    }

    /// The current speed of `cpu`, in 1/2^20 of the fastest core, which depends on its siblings and its frequency.
    pub fn speed(&self, cpu: usize) -> u32 {
        let Some(machine) = self.machine else {
            return 1 << 20;
        };
        let siblings = machine.siblings(cpu);
        let busy = siblings
            .iter()
            .filter(|&it| self.cpus[it].runs.is_some())
            .count();
        let full = u64::from(machine.thread_speed(cpu, busy.max(1)));
        let highest = machine.core_types[machine.cpus[cpu].core_type].opps.last();
        let now = match (self.cpus[cpu].khz, highest) {
            (Some(khz), Some(highest)) => {
                full * u64::from(khz.min(highest.khz)) / u64::from(highest.khz)
            }
            _ => full,
        };
        let (host, busy) = self.shares();
        (now * host / busy) as u32
    }

    /// The number of the host's CPUs that execute the busy CPUs of a virtual machine, and the number of these busy
    /// CPUs. The numbers are equal if each busy CPU has a CPU of the host.
    fn shares(&self) -> (u64, u64) {
        let Some(host) = self.machine.and_then(|machine| machine.host_cpus) else {
            return (1, 1);
        };
        let busy = self.cpus.iter().filter(|it| it.runs.is_some()).count() as u64;
        (u64::from(host).min(busy.max(1)), busy.max(1))
    }

    /// The current duration on `cpu` of kernel code that takes `ns` at the CPU's highest frequency.
    pub fn kernel_ns(&self, cpu: usize, ns: u64) -> u64 {
        let (host, busy) = self.shares();
        let ns = ns * busy / host;
        let highest = self.machine.and_then(|machine| {
            let core = &machine.core_types[machine.cpus[cpu].core_type];
            core.opps.last().map(|opp| opp.khz)
        });
        match (self.cpus[cpu].khz, highest) {
            (Some(khz), Some(highest)) if khz > 0 => {
                ns * u64::from(highest) / u64::from(khz.min(highest))
            }
            _ => ns,
        }
    }

    /// Leaves out the time of a probe when `thread`, which runs on `cpu`, has ended a probed call. If the thread slept
    /// in the call, part of the probe's time may be in its next work.
    pub fn leave_out_probe(&mut self, cpu: usize, thread: u32) {
        let ns = self.kernel_ns(cpu, self.probe_ns);
        let probe = work_in(ns, self.speed(cpu));
        if probe == 0 {
            return;
        }
        let known = &mut self.threads[thread as usize];
        let part = known.work.min(probe);
        known.work -= part;
        self.cpus[cpu].owed += ns * (probe - part) / probe;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{A, B, IDLE, switch};
    use super::super::{Imported, import, unprobed};
    use machine::Machine;
    use workload::recording::Step::{self, Run};

    fn runs(imported: &Imported) -> Vec<u64> {
        let of = |step: &Step| match *step {
            Run(work) => work,
            _ => 0,
        };
        let threads = imported.recording.threads.iter();
        threads.map(|it| it.steps.iter().map(of).sum()).collect()
    }

    #[test]
    fn virtual_cpus_that_share_a_cpu_do_half_of_the_work() {
        let mut machine = Machine::find("smp-2").unwrap();
        machine.core_types[0].costs.tick_ns = 0;
        machine.core_types[0].costs.context_switch_ns = 0;
        let text = [
            switch(0, 100, IDLE, "R", A),
            switch(1, 100, IDLE, "R", B),
            switch(1, 1_100, B, "X", IDLE),
            switch(0, 1_600, A, "X", IDLE),
        ]
        .concat();
        let of = |machine: &Machine| {
            let imported = import("t.txt", text.as_bytes(), Some(machine));
            runs(&imported.unwrap_or_else(|error| panic!("{}", error.message())))
        };
        assert_eq!(of(&machine), [1_500_000, 1_000_000]);
        machine.host_cpus = Some(1);
        assert_eq!(of(&machine), [1_000_000, 500_000]);
        machine.host_cpus = Some(2);
        assert_eq!(of(&machine), [1_500_000, 1_000_000]);
    }

    /// A call that ends 20 us after the previous call has the other 10 us of its probe in the next work.
    #[test]
    fn probes_are_no_work_of_the_load() {
        let read = |us: u64| {
            format!(
                "a-10 [000] ..... 0.{us:06}: pipe_read: (pipe_read+0x0/0x1 <- vfs_read) object=0x10 bytes=4\n"
            )
        };
        let text = [
            "equipoise-9 [001] ..... 0.000050: tracing_mark_write: equipoise record: probe 30000\n"
                .to_owned(),
            switch(0, 100, IDLE, "R", A),
            read(200),
            read(220),
            switch(0, 320, A, "X", IDLE),
        ]
        .concat();
        let with = import("t.txt", text.as_bytes(), None).unwrap();
        let without = unprobed("t.txt", text.as_bytes(), None).unwrap();
        assert_eq!(runs(&with), [220_000]);
        assert_eq!(runs(&without), [160_000]);
    }
}
