//! The C side: a loaded scheduler, what it sees of the kernel and what it may call in it.

pub mod cgroup;
pub mod instance;
pub mod kfuncs;
pub mod layout;
pub mod maps;
pub mod structs;
pub mod timers;
pub mod tracepoints;

use crate::Config;
use crate::hw::memory::Memory;
use instance::Instance;
use layout::{Rq, Table, TaskStruct};
use std::ffi::c_void;
use std::ptr::NonNull;

/// The loaded scheduler, and what it sees of the kernel.
pub struct Bpf {
    /// What C reads of the kernel, and calls. From a box, which this owns: C has a pointer to it, too.
    table: NonNull<Table>,
    /// What C sees of the runqueues and the idle tasks; pointed to by `table`.
    rqs: Box<[Rq]>,
    _idle_tasks: Box<[TaskStruct]>,
    pub root_cgroup: Box<cgroup::Root>,
    pub timers: Vec<timers::Timer>,
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
    ) -> Result<Bpf, native::Error> {
        let machine = config.machine;
        let nr_cpus = machine.cpus.len();
        let mut idle_tasks: Box<[TaskStruct]> = (0..nr_cpus)
            .map(|cpu| TaskStruct::idle(cpu, machine))
            .collect();
        let mut rqs: Box<[Rq]> = idle_tasks
            .iter_mut()
            .enumerate()
            .map(|(cpu, idle)| Rq::new(cpu, idle))
            .collect();
        let mut table = kfuncs::table(nr_cpus, tick_ns, rqs.as_mut_ptr());
        if let Some(memory) = memory {
            table.memory = memory.table();
        }
        let table = NonNull::from(Box::leak(Box::new(table)));
        let loaded = Instance::load(config.scheduler, config.globals, table.as_ptr(), nr_cpus);
        match loaded {
            Ok(instance) => Ok(Bpf {
                table,
                rqs,
                _idle_tasks: idle_tasks,
                root_cgroup: cgroup::Root::new(),
                timers: Vec::new(),
                instance,
            }),
            Err(error) => {
                // SAFETY: made above; nobody else has it.
                drop(unsafe { Box::from_raw(table.as_ptr()) });
                Err(error)
            }
        }
    }

    /// What C reads of the kernel.
    #[inline]
    pub fn table(&self) -> &Table {
        // SAFETY: it lives as long as this. C, which may write to it, runs only while the kernel is lent
        // (`Kernel::lend()`), when there is no reference to this.
        unsafe { self.table.as_ref() }
    }

    /// The same, to change it.
    #[inline]
    pub fn table_mut(&mut self) -> &mut Table {
        // SAFETY: as above.
        unsafe { self.table.as_mut() }
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
    pub fn rq_ref(&self, cpu: usize) -> &Rq {
        &self.rqs[cpu]
    }

    /// What calls of the scheduler come back to.
    #[inline]
    pub fn lend(&mut self, kernel: *mut c_void) {
        self.table_mut().kernel = kernel;
    }
}

impl Drop for Bpf {
    fn drop(&mut self) {
        // SAFETY: made in load(); the scheduler, which has a pointer to it, runs no more.
        drop(unsafe { Box::from_raw(self.table.as_ptr()) });
    }
}
