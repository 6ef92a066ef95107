//! The scheduler's coming and going, and each task's: `ops.init()` to `ops.exit()`, `ops.init_task()`
//! to `ops.exit_task()`.

use crate::Error;
use crate::abi;
use crate::ext::{call_op, kf};
use crate::kernel::Kernel;
use crate::task::TaskPtr;
use std::ffi::CString;
use std::ptr::null;

impl Kernel<'_> {
    /// `scx_ops_enable()`, before there are tasks.
    pub fn enable_scheduler(&mut self) {
        self.set_cpu(0);
        if let Some(init) = self.ops.init {
            let result = call_op!(self, kf::UNLOCKED, init);
            if result != 0 {
                self.scheduler_error(format!("ops.init() failed ({result})"));
            }
        }
        if let Some(cgroup_init) = self.ops.cgroup_init {
            let mut args = abi::CgroupInitArgs { weight: 100 };
            let root = self.root_cgroup.cgroup();
            let result = call_op!(self, kf::UNLOCKED, cgroup_init, root, &raw mut args);
            if result != 0 {
                self.scheduler_error(format!("ops.cgroup_init() failed ({result})"));
            }
        }
    }

    /// `scx_ops_disable()`: dumps if there was an error, then ends each task's and the scheduler's
    /// stay.
    pub fn disable_scheduler(&mut self, error: Option<&Error>) {
        if error.is_some() {
            self.dump_scheduler();
        }
        for task in self.tasks.clone() {
            if !task.exited {
                self.exit_task(task);
            }
        }
        if let Some(cgroup_exit) = self.ops.cgroup_exit {
            let root = self.root_cgroup.cgroup();
            call_op!(self, kf::UNLOCKED, cgroup_exit, root);
        }
        if let Some(exit) = self.ops.exit {
            let message = error.map_or(String::new(), ToString::to_string);
            let message = CString::new(message.replace('\0', "")).unwrap_or_default();
            let dump = CString::new(self.dump.replace('\0', "")).unwrap_or_default();
            let (kind, reason) = match error {
                Some(_) => (abi::EXIT_ERROR, c"runtime error"),
                None => (abi::EXIT_UNREG, c"unregistered from user space"),
            };
            let mut info = abi::ExitInfo {
                kind,
                exit_code: 0,
                reason: reason.as_ptr(),
                bt: null(),
                bt_len: 0,
                msg: message.as_ptr(),
                dump: dump.as_ptr(),
            };
            call_op!(self, kf::UNLOCKED, exit, &raw mut info);
        }
    }

    fn dump_scheduler(&mut self) {
        let mut context = abi::DumpCtx {
            kind: abi::EXIT_ERROR,
            exit_code: 0,
            reason: c"runtime error".as_ptr(),
            at_ns: self.now(),
            at_jiffies: self.now() / self.tick_ns,
        };
        if let Some(dump) = self.ops.dump {
            call_op!(self, kf::UNLOCKED, dump, &raw mut context);
        }
        if let Some(dump_cpu) = self.ops.dump_cpu {
            for cpu in 0..self.cpus.len() {
                let idle = self.cpus[cpu].curr.is_none();
                call_op!(
                    self,
                    kf::UNLOCKED,
                    dump_cpu,
                    &raw mut context,
                    cpu as i32,
                    idle
                );
            }
        }
        if let Some(dump_task) = self.ops.dump_task {
            for task in self.tasks.clone() {
                if task.on_rq {
                    call_op!(self, kf::UNLOCKED, dump_task, &raw mut context, task.abi());
                }
            }
        }
    }

    /// `scx_ops_init_task()`.
    pub fn init_task(&mut self, mut task: TaskPtr, fork: bool) {
        task.abi.scx.disallow = false;
        if let Some(init_task) = self.ops.init_task {
            let mut args = abi::InitTaskArgs {
                fork,
                cgroup: self.root_cgroup.cgroup(),
            };
            let result = call_op!(self, kf::UNLOCKED, init_task, task.abi(), &raw mut args);
            if result != 0 {
                self.scheduler_error(format!(
                    "ops.init_task() failed ({result}) for {}",
                    task.label()
                ));
            }
        }
    }

    /// `scx_ops_enable_task()`.
    pub fn enable_task(&mut self, mut task: TaskPtr) {
        task.enabled = true;
        if let Some(enable) = self.ops.enable {
            call_op!(self, kf::REST, enable, task.abi());
        }
        self.weight_changed(task);
    }

    /// `scx_ops_disable_task()`.
    pub fn disable_task(&mut self, mut task: TaskPtr) {
        if std::mem::take(&mut task.enabled) {
            if let Some(disable) = self.ops.disable {
                call_op!(self, kf::REST, disable, task.abi());
            }
        }
    }

    /// `scx_ops_exit_task()`.
    pub fn exit_task(&mut self, task: TaskPtr) {
        self.disable_task(task);
        if let Some(exit_task) = self.ops.exit_task {
            let mut args = abi::ExitTaskArgs { cancelled: false };
            call_op!(self, kf::REST, exit_task, task.abi(), &raw mut args);
        }
    }

    /// `reweight_task_scx()`.
    pub fn weight_changed(&mut self, task: TaskPtr) {
        if let Some(set_weight) = self.ops.set_weight {
            call_op!(self, kf::REST, set_weight, task.abi(), task.abi.scx.weight);
        }
    }

    /// `set_cpus_allowed_scx()`.
    pub fn affinity_changed(&mut self, task: TaskPtr) {
        if let Some(set_cpumask) = self.ops.set_cpumask.filter(|_| task.enabled) {
            call_op!(self, kf::REST, set_cpumask, task.abi(), task.abi.cpus_ptr);
        }
    }
}
