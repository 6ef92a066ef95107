//! The initial values of tasks and runqueues as C sees them.

use crate::abi::layout::{self, Rq, SchedExtEntity, TaskStruct};
use crate::abi::objects::release;
use machine::Machine;
use std::cell::Cell;
use std::ptr::null_mut;

/// The comm of the idle tasks. In Linux, the number of the CPU follows (`swapper/0`).
pub const SWAPPER: &str = "swapper";
pub const DEFAULT_PRIO: i32 = 120;

impl TaskStruct {
    pub fn idle(cpu: usize, machine: &Machine) -> TaskStruct {
        let task = TaskStruct::new();
        task.thread_info.cpu.set(cpu as u32);
        task.flags.set(layout::PF_IDLE);
        task.cpus_mask.set(machine.all_cpus());
        task.set_comm(SWAPPER);
        task
    }

    #[inline]
    pub fn is_allowed(&self, cpu: usize) -> bool {
        // SAFETY: no code sets the cell while one of its words is read. A copy of the cell would read all of the mask's
        // words.
        unsafe { &*self.cpus_mask.as_ptr() }.contains(cpu)
    }

    /// Sets the comm to the first 15 bytes of `name`, at most.
    pub fn set_comm(&self, name: &str) {
        let length = name.len().min(15);
        let mut comm = [0; 16];
        comm[..length].copy_from_slice(&name.as_bytes()[..length]);
        self.comm.set(comm);
    }

    /// Frees the scheduler's storage of the task.
    pub fn release_storage(&self) {
        for slot in self.storage.replace([null_mut(); layout::MAX_STORAGES]) {
            release(slot);
        }
    }

    /// A task that has no CPU, name or pid yet.
    pub fn new() -> TaskStruct {
        TaskStruct {
            prio: Cell::new(DEFAULT_PRIO),
            static_prio: Cell::new(DEFAULT_PRIO),
            normal_prio: Cell::new(DEFAULT_PRIO),
            scx: SchedExtEntity {
                slice: Cell::new(layout::SLICE_DFL),
                sticky_cpu: Cell::new(-1),
                holding_cpu: Cell::new(-1),
                ddsp_dsq_id: layout::DSQ_INVALID,
                ..SchedExtEntity::default()
            },
            nr_cpus_allowed: Cell::new(1),
            real_cred: &layout::ROOT,
            ..TaskStruct::default()
        }
    }
}

impl Rq {
    /// The runqueue of `cpu`, running its `idle` task.
    pub fn new(cpu: usize, idle: *mut TaskStruct) -> Rq {
        Rq {
            nr_running: 0,
            cpu: cpu as i32,
            curr: idle,
            idle,
            stop: null_mut(),
            clock: 0,
            clock_task: 0,
            rt: layout::RtRq { rt_nr_running: 0 },
            dl: layout::DlRq {
                dl_nr_running: 0,
                running_bw: 0,
            },
            scx: layout::ScxRq {
                local_dsq: layout::DispatchQ {
                    nr: 0,
                    id: layout::DSQ_LOCAL,
                },
                nr_running: 0,
                cpu_released: false,
            },
        }
    }
}
