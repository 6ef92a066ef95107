//! The C side: a loaded scheduler, the kernel data that it sees, and the functions that it may call.

pub mod args;
pub mod cgroup;
pub mod hash;
pub mod instance;
pub mod kfuncs;
pub mod layout;
pub mod maps;
pub mod objects;
pub mod shared;
pub mod structs;
pub mod timers;
pub mod tracepoints;

use crate::Config;
use crate::hw::memory::Memory;
use crate::per_cpu;
use instance::Instance;
use kfuncs::{KFUNCS, Kfuncs};
use layout::{Held, Rq, TaskStruct};
use machine::MAX_CPUS;
use native::{Global, Object};
use shared::Shared;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use timers::Timers;
use workload::ControlGroup;

/// The kernel as C reads and calls it.
type Table = layout::Table<Kfuncs>;

/// The loaded scheduler, and the kernel data that it sees.
pub struct Bpf {
    /// The data that C reads, and the functions that it calls.
    table: Shared<Table>,
    /// C's view of the runqueues and the idle tasks; `table` points to them.
    rqs: Shared<[Rq; MAX_CPUS]>,
    _idle_tasks: Shared<[TaskStruct]>,
    /// For each CPU, the capacity lost to a limit of its frequency, in 1/1024 of the largest CPU's capacity.
    pub cpufreq_pressure: Shared<[u64]>,
    pub groups: cgroup::Groups,
    pub timers: Timers,
    /// The other fields hold addresses in this one, so it comes last, which drops it last.
    pub instance: Instance,
}

impl Bpf {
    /// Loads the scheduler of `config`. Ticks are `tick_ns` apart; `memory` has the costs of shared
    /// memory for the code of each CPU.
    pub fn load(
        config: &Config<'_>,
        tick_ns: u64,
        memory: Option<&Memory>,
        groups: Vec<ControlGroup>,
    ) -> Result<Bpf, native::Error> {
        let machine = config.machine;
        let nr_cpus = machine.cpus.len();
        let idle_tasks: Shared<[TaskStruct]> = (0..nr_cpus)
            .map(|cpu| TaskStruct::idle(cpu, machine))
            .collect();
        let first_idle: *mut TaskStruct = idle_tasks.as_ptr().cast();
        let rqs = per_cpu::boxed(nr_cpus, |cpu| Rq::new(cpu, first_idle.wrapping_add(cpu)));
        let rqs = Shared::from(rqs);
        let cpufreq_pressure: Shared<[u64]> = (0..nr_cpus).map(|_| 0).collect();
        let table = Shared::from(Box::new(Table {
            now: 0,
            cpu: 0,
            nr_cpu_ids: nr_cpus as u32,
            tick_ns,
            current: null_mut(),
            kernel: null_mut(),
            rqs: rqs.as_ptr().cast(),
            spent: 0,
            memory: memory.map_or(null_mut(), |memory| memory.table()),
            held: Held::default(),
            version_code: config.scheduler.kernel().version_code(),
            nr_node_ids: machine.nodes().len().max(1) as u32,
            preempt_count: 0,
            cid_form: config.scheduler.is_cid_form().into(),
            cpu_to_cid: null(),
            cid_to_cpu: null(),
            cpufreq_pressure: cpufreq_pressure.as_ptr().cast(),
            kfuncs: KFUNCS,
        }));
        let (scheduler, globals) = (config.scheduler, config.globals);
        Ok(Bpf {
            instance: Instance::load(scheduler, globals, table.as_ptr(), nr_cpus)?,
            table,
            rqs,
            _idle_tasks: idle_tasks,
            cpufreq_pressure,
            groups: cgroup::Groups::new(groups),
            timers: Timers::default(),
        })
    }

    /// Loads `scheduler` again, with other globals, in place of the previous copy, which has exited.
    pub fn reload(&mut self, scheduler: &Object, globals: &[Global]) -> Result<(), native::Error> {
        let nr_cpus = self.table.nr_cpu_ids as usize;
        self.instance = Instance::load(scheduler, globals, self.table.as_ptr(), nr_cpus)?;
        Ok(())
    }

    /// Forgets the state of a scheduler that has exited. Its programs no longer run.
    pub fn forget_scheduler(&mut self) {
        self.timers.forget();
        self.groups.release_storage();
    }

    #[inline]
    pub fn table(&self) -> &Table {
        &self.table
    }

    #[inline]
    pub fn table_mut(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Sets the tables from CPU to cid and back, which must live for as long as the scheduler may run.
    pub fn set_cids(&mut self, (cpu_to_cid, cid_to_cpu): (*const i32, *const i32)) {
        let table = self.table_mut();
        table.cpu_to_cid = cpu_to_cid;
        table.cid_to_cpu = cid_to_cpu;
    }

    /// Makes `cpu` the CPU whose code is running.
    #[inline]
    pub fn set_cpu(&mut self, cpu: usize) {
        let current = self.rqs[cpu].curr;
        let table = self.table_mut();
        table.cpu = cpu as i32;
        table.current = current;
    }

    /// Sets the interrupt context of the code that runs on the current CPU; 0 outside of interrupts.
    #[inline]
    pub fn set_preempt_count(&mut self, count: u32) {
        self.table_mut().preempt_count = count;
    }

    /// C's view of `cpu`'s runqueue.
    #[inline]
    pub fn rq(&mut self, cpu: usize) -> &mut Rq {
        &mut self.rqs[cpu]
    }

    /// C's view of `cpu`'s runqueue, to read it.
    #[inline]
    pub fn rq_ref(&self, cpu: usize) -> &Rq {
        &self.rqs[cpu]
    }

    /// Sets aside the references and locks of the code that calls an op, and returns them.
    #[inline]
    pub fn held(&mut self) -> Held {
        std::mem::take(&mut self.table_mut().held)
    }

    /// Restores `outer`, the references and locks of the code to which an op returned. Returns whether the op still
    /// holds any of its own.
    #[inline]
    pub fn give_back(&mut self, outer: Held) -> bool {
        std::mem::replace(&mut self.table_mut().held, outer) != Held::default()
    }

    /// Sets the pointer through which the scheduler calls the kernel.
    #[inline]
    pub fn lend(&mut self, kernel: *mut c_void) {
        self.table_mut().kernel = kernel;
    }
}
