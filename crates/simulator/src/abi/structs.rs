//! What C sees of a task and of a runqueue before anything happens to it.

use crate::abi::layout::{self, Rq, SchedEntity, SchedExtEntity, TaskStruct, ThreadInfo};
use machine::{CpuMask, Machine};
use std::ptr::{null, null_mut};

/// The comm of the idle task.
pub const SWAPPER: &str = "swapper";
pub const DEFAULT_PRIO: i32 = 120;

impl TaskStruct {
    /// The idle task of `cpu`.
    pub fn idle(cpu: usize, machine: &Machine) -> TaskStruct {
        let mut task = TaskStruct::new();
        task.thread_info.cpu = cpu as u32;
        task.flags = layout::PF_IDLE;
        task.cpus_mask = machine.all_cpus();
        task.comm[..SWAPPER.len()].copy_from_slice(SWAPPER.as_bytes());
        task
    }

    /// A task of no CPU, name or pid yet.
    pub fn new() -> TaskStruct {
        TaskStruct {
            thread_info: ThreadInfo { flags: 0, cpu: 0 },
            state: layout::TASK_RUNNING,
            flags: 0,
            on_cpu: 0,
            wake_cpu: 0,
            recent_used_cpu: 0,
            on_rq: 0,
            prio: DEFAULT_PRIO,
            static_prio: DEFAULT_PRIO,
            normal_prio: DEFAULT_PRIO,
            rt_priority: 0,
            sched_class: null(),
            se: SchedEntity::default(),
            scx: SchedExtEntity {
                slice: layout::SLICE_DFL,
                dsq_vtime: 0,
                weight: 0,
                flags: 0,
                sticky_cpu: -1,
                holding_cpu: -1,
                core_sched_at: 0,
                disallow: false,
            },
            policy: 0,
            nr_cpus_allowed: 1,
            cpus_ptr: null(),
            cpus_mask: CpuMask::EMPTY,
            migration_disabled: 0,
            mm: null_mut(),
            exit_state: 0,
            pid: 0,
            tgid: 0,
            real_parent: null_mut(),
            parent: null_mut(),
            group_leader: null_mut(),
            nvcsw: 0,
            nivcsw: 0,
            start_time: 0,
            comm: [0; 16],
            cgroups: null_mut(),
            storage: [null_mut(); layout::MAX_STORAGES],
        }
    }
}

impl Rq {
    /// The runqueue of `cpu`, running its `idle` task.
    pub fn new(cpu: usize, idle: &mut TaskStruct) -> Rq {
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
