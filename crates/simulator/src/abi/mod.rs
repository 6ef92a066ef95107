//! The C side: a loaded scheduler, what it sees of the kernel and what it may call in it.

pub mod args;
pub mod cgroup;
pub mod instance;
pub mod iterations;
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
use iterations::Iterations;
use kfuncs::{KFUNCS, Kfuncs};
use layout::{Held, Rq, TaskStruct};
use machine::MAX_CPUS;
use shared::Shared;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use timers::Timers;
use workload::ControlGroup;

/// What C reads of the kernel, and calls in it.
type Table = layout::Table<Kfuncs>;

/// The loaded scheduler, and what it sees of the kernel.
pub struct Bpf {
    /// What C reads of the kernel, and calls.
    table: Shared<Table>,
    /// What C sees of the runqueues and the idle tasks; pointed to by `table`.
    rqs: Shared<[Rq; MAX_CPUS]>,
    _idle_tasks: Shared<[TaskStruct]>,
    pub groups: cgroup::Groups,
    pub timers: Timers,
    pub iterations: Iterations,
    /// Last: the others hold addresses in it.
    pub instance: Instance,
}

impl Bpf {
    /// Loads the scheduler of `config`. Its ticks are `tick_ns` apart; `memory` is what sharing memory costs
    /// the code of each CPU.
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
            cid_form: config.scheduler.is_cid_form().into(),
            cpu_to_cid: null(),
            cid_to_cpu: null(),
            kfuncs: KFUNCS,
        }));
        let (scheduler, globals) = (config.scheduler, config.globals);
        Ok(Bpf {
            instance: Instance::load(scheduler, globals, table.as_ptr(), nr_cpus)?,
            table,
            rqs,
            _idle_tasks: idle_tasks,
            groups: cgroup::Groups::new(groups),
            timers: Timers::default(),
            iterations: Iterations::default(),
        })
    }

    /// What C reads of the kernel.
    #[inline]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The same, to change it.
    #[inline]
    pub fn table_mut(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Sets the tables from CPU to cid and back, which must live as long as this.
    pub fn set_cids(&mut self, (cpu_to_cid, cid_to_cpu): (*const i32, *const i32)) {
        let table = self.table_mut();
        table.cpu_to_cid = cpu_to_cid;
        table.cid_to_cpu = cid_to_cpu;
    }

    /// Code runs on `cpu` from here on.
    #[inline]
    pub fn set_cpu(&mut self, cpu: usize) {
        let current = self.rqs[cpu].curr;
        let table = self.table_mut();
        table.cpu = cpu as i32;
        table.current = current;
    }

    /// What C sees of `cpu`'s runqueue.
    #[inline]
    pub fn rq(&mut self, cpu: usize) -> &mut Rq {
        &mut self.rqs[cpu]
    }

    /// As [`Bpf::rq`], to look at.
    #[inline]
    pub fn rq_ref(&self, cpu: usize) -> &Rq {
        &self.rqs[cpu]
    }

    /// An op is called: the references and locks that the code which calls it holds rest meanwhile.
    #[inline]
    pub fn held(&mut self) -> Held {
        std::mem::take(&mut self.table_mut().held)
    }

    /// It returned, to code that holds `outer`. True if it has not as many references and locks as before.
    #[inline]
    pub fn give_back(&mut self, outer: Held) -> bool {
        std::mem::replace(&mut self.table_mut().held, outer) != Held::default()
    }

    /// What calls of the scheduler come back to.
    #[inline]
    pub fn lend(&mut self, kernel: *mut c_void) {
        self.table_mut().kernel = kernel;
    }
}
