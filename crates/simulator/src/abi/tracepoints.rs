//! Tracepoints at which a scheduler's programs may run (`SEC("tp_btf/...")`), with their arguments as in the kernel
//! (`include/trace/events/`). A program at an unknown tracepoint is an error that names the tracepoint.

use crate::abi::layout::{Cgroup, TaskStruct};
use native::{Error, Object};
use std::ffi::{c_char, c_void};

type Switch = unsafe extern "C" fn(bool, *mut TaskStruct, *mut TaskStruct, u32) -> i32;
type PrepareExec = unsafe extern "C" fn(*mut TaskStruct, *mut c_void) -> i32;
type AttachTask = unsafe extern "C" fn(*mut Cgroup, *const c_char, *mut TaskStruct, bool) -> i32;

#[derive(Clone, Default)]
pub struct Tracepoints {
    pub sched_switch: Vec<Switch>,
    pub sched_prepare_exec: Vec<PrepareExec>,
    pub cgroup_attach_task: Vec<AttachTask>,
}

impl Tracepoints {
    pub fn of(object: &Object, base: *const u8) -> Result<Tracepoints, Error> {
        let mut tracepoints = Tracepoints::default();
        for program in object.tracepoints() {
            let address = base.wrapping_add(program.address as usize);
            // SAFETY: a function of the loaded object; BPF_PROG declares it with the tracepoint's arguments, perhaps
            // without the last ones.
            unsafe {
                match program.name.as_str() {
                    "sched_switch" => tracepoints
                        .sched_switch
                        .push(std::mem::transmute::<*const u8, Switch>(address)),
                    "sched_prepare_exec" => tracepoints
                        .sched_prepare_exec
                        .push(std::mem::transmute::<*const u8, PrepareExec>(address)),
                    "cgroup_attach_task" => tracepoints
                        .cgroup_attach_task
                        .push(std::mem::transmute::<*const u8, AttachTask>(address)),
                    // Tasks keep their names, so this tracepoint never fires.
                    "task_rename" => {}
                    unknown => {
                        return Err(Error(format!(
                            "{}(): the simulated kernel has no tracepoint `{unknown}`; expected \
                             sched_switch, sched_prepare_exec, cgroup_attach_task or task_rename",
                            program.function
                        )));
                    }
                }
            }
        }
        Ok(tracepoints)
    }
}
