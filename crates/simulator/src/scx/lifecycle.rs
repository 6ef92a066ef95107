//! The life of a scheduler, from `ops.init()` to `ops.exit()`, and of each of its tasks, from `ops.init_task()` to
//! `ops.exit_task()`.

use crate::Error;
use crate::abi::layout::{self as abi, Cgroup};
use crate::events::What;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, TaskPtr};
use crate::scx::call::{call_op, kf};
use crate::scx::exit::{Exit, reason};
use crate::scx::tracepoints;
use crate::scx::watchdog::{self, MAX_TIMEOUT_MS};
use native::Object;
use std::ffi::CString;
use std::fmt::Display;
use std::ptr::{null, null_mut};

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// At the end of a run, a task that has run before counts as stalled only if it has waited for this time, in ns.
const LEAST_STALL_NS: u64 = 100_000_000;
/// A CPU counts as hardly busy if it is busy for at most 1 / `HARDLY_BUSY` of the time.
const HARDLY_BUSY: u64 = 10;

/// `MAX_ERRNO` and `EPROTO`.
const MAX_ERRNO: i32 = 4095;
const EPROTO: i32 = 71;

impl Kernel<'_> {
    /// `scx_ops_exit_kind()`: ends the run, after which the scheduler is disabled. Only the first reason counts.
    pub fn scheduler_exit(&mut self, kind: u32, code: i64, message: String) {
        if self.failure.is_some() {
            return;
        }
        let explained = match code {
            0 => message.clone(),
            code => format!("{message} (exit code {code})"),
        };
        self.failure = Some(Error::SchedulerExit {
            at_ns: self.now(),
            reason: reason(kind).to_string_lossy().into_owned(),
            message: explained,
        });
        self.scx.exit = Some(Exit {
            kind,
            code,
            message,
            cpu: self.this_cpu() as i32,
        });
    }

    /// `scx_ops_error()`.
    #[cold]
    #[inline(never)]
    pub fn scheduler_error(&mut self, message: impl Display) {
        self.scheduler_exit(abi::EXIT_ERROR, 0, message.to_string());
    }

    /// Stops the scheduler, because the current op does something for which Linux's verifier would have refused it.
    #[cold]
    #[inline(never)]
    pub fn verifier_error(&mut self, what: &str) {
        let op = self.calls.call().map_or("code", |call| call.op);
        self.refuse(format!(
            "its {op}() {what}, which the kernel's verifier refuses"
        ));
    }

    fn refuse(&mut self, message: String) {
        if self.refused.is_none() {
            self.refused = Some(Error::SchedulerExit {
                at_ns: self.now(),
                reason: reason(abi::EXIT_ERROR).to_string_lossy().into_owned(),
                message: message.clone(),
            });
        }
        self.scheduler_error(message);
    }

    /// Checks that the scheduler, which is disabled, has not written to its constants.
    pub fn check_constants(&mut self) {
        if let Some(name) = self.bpf.instance.written() {
            let message = format!(
                "it wrote to `{name}`, which is constant after loading: the kernel's verifier refuses that"
            );
            self.refuse(message);
        }
    }

    /// `ops_cpu_valid()`: a number that is not that of a CPU is an error of the scheduler.
    #[inline]
    pub fn cpu_valid(&mut self, cpu: i32, place: &'static str) -> bool {
        // As `u32`, a negative number is very large.
        let valid = (cpu as u32 as usize) < self.cpus.len();
        if !valid {
            self.invalid_cpu(cpu, place);
        }
        valid
    }

    #[cold]
    fn invalid_cpu(&mut self, cpu: i32, place: &'static str) {
        self.scheduler_error(format_args!("invalid CPU {cpu} {place}"));
    }

    /// The CPU for a number from the scheduler, which is a cid in cid form and otherwise a CPU. Other numbers are
    /// errors of the scheduler.
    #[inline]
    pub fn cpu_from_c(&mut self, number: i32, place: &'static str) -> Option<usize> {
        if self.scx.cids.form {
            return self.cpu_of_cid(number);
        }
        self.cpu_valid(number, place).then_some(number as usize)
    }

    /// `scx_cid_to_cpu()`
    pub fn cpu_of_cid(&mut self, cid: i32) -> Option<usize> {
        let cpu = self.scx.cids.cpu(cid);
        if cpu.is_none() {
            self.scheduler_error(format_args!("invalid cid {cid}"));
        }
        cpu
    }

    /// The number of `cpu` for the scheduler: its cid in cid form.
    #[inline]
    pub fn cpu_for_c(&self, cpu: usize) -> i32 {
        match self.scx.cids.form {
            true => self.scx.cids.of_cpu(cpu),
            false => cpu as i32,
        }
    }

    /// `scx_watchdog_workfn()`.
    pub fn watchdog(&mut self) {
        let now = self.now();
        let cpus = self.cpus.iter().take(self.machine.cpus.len());
        let idle = cpus.map(|cpu| cpu.curr.is_none().then_some(cpu.busy_ns));
        self.scx.watchdog.look(now, idle);
        let is_due = self.scx.watchdog.is_due(now);
        let watchdog = &self.scx.watchdog;
        let stall = is_due
            .then(|| watchdog.stall(now, self.waiting()))
            .flatten()
            .or_else(|| {
                watchdog.idle_stall(now, self.waiting().filter(|task| self.may_run(*task)))
            });
        match stall {
            Some(message) => self.scheduler_exit(abi::EXIT_ERROR_STALL, 0, message),
            None => self
                .events
                .push(self.scx.watchdog.next_ns(now), What::Watchdog),
        }
    }

    /// May the task run? If its group has a limit, the task may have to wait although CPUs idle.
    fn may_run(&self, task: TaskPtr) -> bool {
        !self.bpf.groups.is_limited(task.abi.cgroups.get())
    }

    /// The scheduler's tasks that are runnable but not running.
    fn waiting(&self) -> impl Iterator<Item = TaskPtr> {
        self.tasks.iter().copied().filter(|task| {
            task.on_rq.get()
                && task.class.get() == Class::Ext
                && self.cpus[task.cpu()].curr != Some(*task)
                && !task.exited.get()
        })
    }

    /// Stops a scheduler that has stalled when the workload's time is over, even if that time is too short for the
    /// watchdog. The scheduler has stalled if at the end a task in no limited group has waited for at least half of the
    /// time, and none of the CPUs that the task may use did more than little work. If one of these CPUs did other work,
    /// the run has results, which include the waiting task.
    pub fn check_dispatched(&mut self) {
        let ran = |task: &TaskPtr| task.abi.se.sum_exec_runtime.get() > 0;
        let now = self.now();
        let is_idle = |cpu: usize| {
            let cpu = &self.cpus[cpu];
            cpu.curr.is_none() && cpu.busy_ns <= now / HARDLY_BUSY
        };
        let stalled = self.waiting().filter(|task| {
            let waited = now - task.runnable_at.get();
            let mut cpus = 0..self.machine.cpus.len();
            2 * waited >= now
                && (!ran(task) || waited >= LEAST_STALL_NS)
                && cpus.all(|cpu| !task.abi.is_allowed(cpu) || is_idle(cpu))
                && self.may_run(*task)
        });
        if let Some(message) = watchdog::not_dispatched(now, stalled) {
            self.scheduler_exit(abi::EXIT_ERROR_STALL, 0, message);
        }
    }

    /// The checks before any op is called: `bpf_scx_init_member()`, `validate_ops()`.
    fn validate_ops(&self) -> Result<(), String> {
        let ops = &self.scx.ops;
        if ops.name[0] == 0 {
            return Err("ops.name is empty".into());
        }
        if ops.timeout_ms > MAX_TIMEOUT_MS {
            return Err(format!(
                "ops.timeout_ms is {}; expected at most {MAX_TIMEOUT_MS}",
                ops.timeout_ms
            ));
        }
        if ops.dispatch_max_batch > i32::MAX as u32 {
            return Err(format!(
                "ops.dispatch_max_batch is {}; expected at most {}",
                ops.dispatch_max_batch,
                i32::MAX
            ));
        }
        if ops.flags & !self.scx.release.ops_flags() != 0 {
            return Err(format!("ops.flags has unknown flags: {:#x}", ops.flags));
        }
        if ops.flags & abi::OPS_ENQ_LAST != 0 && ops.enqueue.is_none() {
            return Err("SCX_OPS_ENQ_LAST requires ops.enqueue() to be implemented".into());
        }
        let tracks = ops.update_idle.is_none() || ops.flags & abi::OPS_KEEP_BUILTIN_IDLE != 0;
        if ops.flags & abi::OPS_BUILTIN_IDLE_PER_NODE != 0 && !tracks {
            return Err("SCX_OPS_BUILTIN_IDLE_PER_NODE requires CPU idle selection enabled".into());
        }
        if !self.scx.cids.form && (ops.sub_attach.is_some() || ops.sub_detach.is_some()) {
            return Err("sub_attach/sub_detach requires cid-form struct_ops".into());
        }
        Ok(())
    }

    /// `scx_ops_sanitize_err()`: an op's `result` that is neither 0 nor an errno is an error of the scheduler.
    fn sanitized(&mut self, op: &str, result: i32) -> i32 {
        let is_errno = (-MAX_ERRNO..0).contains(&result);
        if result == 0 || is_errno {
            return result;
        }
        self.scheduler_error(format_args!(
            "ops.{op}() returned an invalid errno {result}"
        ));
        -EPROTO
    }

    /// Calls the function that does the loader's part of the scheduler, if the object has one.
    fn load_scheduler(&mut self, scheduler: &Object) {
        let Some(loader) = self.bpf.instance.loader else {
            return;
        };
        let result = call_op!(self, kf::UNLOCKED, loader);
        if result != 0 {
            return self.scheduler_error(format_args!("its loader's part failed ({result})"));
        }
        self.bpf.instance.loader_done(scheduler);
        self.scx
            .set_ops(self.hotplug.machine(), self.bpf.instance.ops);
    }

    /// `scx_ops_enable()` for `scheduler`, without its tasks.
    pub fn enable_scheduler(&mut self, scheduler: &Object) {
        self.load_scheduler(scheduler);
        if self.failure.is_some() {
            return;
        }
        if let Err(message) = self.validate_ops() {
            return self.scheduler_error(message);
        }
        if let Some(init_cids) = self.scx.ops.init_cids.filter(|_| self.scx.cids.form) {
            let result = call_op!(self, kf::INIT_CIDS, init_cids);
            let result = self.sanitized("init_cids", result);
            if result != 0 {
                return self.scheduler_error(format_args!("ops.init_cids() failed ({result})"));
            }
        }
        if let Some(init) = self.scx.ops.init {
            let result = call_op!(self, kf::UNLOCKED, init);
            let result = self.sanitized("init", result);
            if result != 0 {
                return self.scheduler_error(format_args!("ops.init() failed ({result})"));
            }
        }
        if let Some(cgroup_init) = self.scx.ops.cgroup_init {
            for index in 0..self.bpf.groups.len() {
                let (group, mut args) = self.bpf.groups.init(index);
                let result = call_op!(self, kf::UNLOCKED, cgroup_init, group, &raw mut args);
                let result = self.sanitized("cgroup_init", result);
                if result != 0 {
                    let message = format!("ops.cgroup_init() failed ({result})");
                    return self.scheduler_error(message);
                }
            }
        }
    }

    /// `scx_cgroup_can_attach()`: returns 0, or an errno if the scheduler refuses.
    pub fn prep_move(&mut self, task: TaskPtr, from: *mut Cgroup, to: *mut Cgroup) -> i32 {
        match self.scx.ops.cgroup_prep_move {
            Some(cgroup_prep_move) => {
                let result = call_op!(self, kf::UNLOCKED, cgroup_prep_move, task.abi(), from, to);
                self.sanitized("cgroup_prep_move", result)
            }
            None => 0,
        }
    }

    /// `scx_cgroup_move_task()`: notifies the scheduler that `task`, which is on no runqueue, has changed its control
    /// group.
    pub fn moved(&mut self, task: TaskPtr, from: *mut Cgroup, to: *mut Cgroup) {
        if let Some(cgroup_move) = self.scx.ops.cgroup_move {
            call_op!(self, kf::REST, cgroup_move, task.abi(), from, to);
        }
        tracepoints::cgroup_attach_task(self, task, to);
    }

    /// `scx_ops_disable()`: dumps the scheduler's state if there was an error, then calls the exit ops of each control
    /// group, of each task and of the scheduler. If the run ends for a reason other than the scheduler's exit, the exit
    /// reason is that the scheduler was unregistered.
    pub fn disable_scheduler(&mut self) {
        let exit = self.scx.exit.take().unwrap_or(Exit {
            kind: abi::EXIT_UNREG,
            code: 0,
            message: String::new(),
            cpu: -1,
        });
        if exit.kind >= abi::EXIT_ERROR {
            self.dump_scheduler(&exit);
        }
        if let Some(cgroup_exit) = self.scx.ops.cgroup_exit {
            // Children exit before their parents, so go through the groups, which were created from the root downwards,
            // in reverse order.
            for index in (0..self.bpf.groups.len()).rev() {
                let group = self.bpf.groups.group(index);
                call_op!(self, kf::UNLOCKED, cgroup_exit, group);
            }
        }
        for index in 0..self.tasks.len() {
            let task = self.tasks[index];
            if !task.exited.get() {
                self.exit_task(task);
            }
        }
        let (message, dump) = (c_string(&exit.message), c_string(&self.scx.dump));
        let mut info = abi::ExitInfo {
            kind: exit.kind,
            exit_code: exit.code,
            reason: reason(exit.kind).as_ptr(),
            bt: null(),
            bt_len: 0,
            msg: message.as_ptr(),
            dump: dump.as_ptr(),
            exit_cpu: exit.cpu,
            flags: abi::EFLAG_INITIALIZED,
        };
        if let Some(exit) = self.scx.ops.exit {
            call_op!(self, kf::UNLOCKED, exit, &raw mut info);
        }
    }

    fn dump_scheduler(&mut self, exit: &Exit) {
        let mut context = abi::DumpCtx {
            kind: exit.kind,
            exit_code: exit.code,
            reason: reason(exit.kind).as_ptr(),
            at_ns: self.now(),
            at_jiffies: self.now() / self.tick_ns,
        };
        if let Some(dump) = self.scx.ops.dump {
            call_op!(self, kf::UNLOCKED, dump, &raw mut context);
        }
        if let Some(dump_cpu) = self.scx.ops.dump_cpu {
            for cpu in 0..self.cpus.len() {
                let idle = self.cpus[cpu].curr.is_none();
                let cpu = self.cpu_for_c(cpu);
                call_op!(self, kf::DUMP, dump_cpu, &raw mut context, cpu, idle);
            }
        }
        if let Some(dump_task) = self.scx.ops.dump_task {
            for index in 0..self.tasks.len() {
                let task = self.tasks[index];
                if task.on_rq.get() {
                    call_op!(self, kf::DUMP, dump_task, &raw mut context, task.abi());
                }
            }
        }
    }

    /// `scx_ops_init_task()`.
    pub fn init_task(&mut self, task: TaskPtr, fork: bool) {
        task.abi.scx.disallow.set(false);
        // Pids are never reused in a simulation.
        task.abi.scx.tid.set(task.pid() as u64);
        if let Some(init_task) = self.scx.ops.init_task {
            let mut args = abi::InitTaskArgs {
                fork,
                cgroup: self.bpf.groups.of(task.abi.cgroups.get()),
            };
            let result = call_op!(self, kf::UNLOCKED, init_task, task.abi(), &raw mut args);
            let result = self.sanitized("init_task", result);
            if result != 0 {
                self.scheduler_error(format_args!(
                    "ops.init_task() failed ({result}) for {}",
                    task.label()
                ));
            }
        }
        // For a task that exists already, and in Linux 6.12 for all, `disallow` rejects only the policy SCHED_EXT, which no
        // simulated task has.
        let rejects = fork && self.scx.release > native::Kernel::V6_12;
        if rejects && task.abi.scx.disallow.get() {
            self.scheduler_error(format_args!(
                "ops.init_task() set task->scx.disallow for {} during fork",
                task.label()
            ));
        }
    }

    /// `scx_ops_enable_task()`.
    pub fn enable_task(&mut self, task: TaskPtr) {
        task.enabled.set(true);
        if let Some(enable) = self.scx.ops.enable {
            let mut args = abi::EnableArgs {
                cmask_arena_addr: self.cids_of(task).expose_provenance() as u64,
            };
            call_op!(self, kf::REST, enable, task.abi(), &raw mut args);
        }
        if self.scx.cids.form {
            self.affinity_changed(task);
        }
        self.weight_changed(task);
    }

    /// `switching_to_scx()`: puts a task of another class under the scheduler.
    pub fn switching_to_ext(&mut self, task: TaskPtr) {
        self.enable_task(task);
        if !self.scx.cids.form {
            self.affinity_changed(task);
        }
    }

    /// The CPUs that `task` may run on as a `scx_cmask`; null unless the scheduler is in cid form.
    fn cids_of(&mut self, task: TaskPtr) -> *mut u64 {
        match self.scx.cids.form {
            true => {
                let allowed = task.abi.cpus_mask.get();
                self.scx.cids.mask(&allowed)
            }
            false => null_mut(),
        }
    }

    /// `scx_ops_disable_task()`.
    pub fn disable_task(&mut self, task: TaskPtr) {
        if task.enabled.take()
            && let Some(disable) = self.scx.ops.disable
        {
            call_op!(self, kf::REST, disable, task.abi());
        }
    }

    /// `scx_ops_exit_task()`.
    pub fn exit_task(&mut self, task: TaskPtr) {
        self.disable_task(task);
        if let Some(exit_task) = self.scx.ops.exit_task {
            let mut args = abi::ExitTaskArgs { cancelled: false };
            call_op!(self, kf::REST, exit_task, task.abi(), &raw mut args);
        }
    }

    /// `__scx_update_idle()`: `cpu` switches from the idle task to another task, or back.
    pub fn update_idle(&mut self, cpu: usize, idle: bool) {
        if let Some(update_idle) = self.scx.ops.update_idle {
            let number = self.cpu_for_c(cpu);
            call_op!(self, kf::REST, update_idle, number, idle);
        }
        self.set_idle_mask(cpu, idle);
    }

    /// `reweight_task_scx()`.
    pub fn weight_changed(&mut self, task: TaskPtr) {
        if let Some(set_weight) = self.scx.ops.set_weight {
            call_op!(
                self,
                kf::REST,
                set_weight,
                task.abi(),
                task.abi.scx.weight.get()
            );
        }
    }

    /// `set_cpus_allowed_scx()`.
    pub fn affinity_changed(&mut self, task: TaskPtr) {
        if let Some(set_cpumask) = self.scx.ops.set_cpumask.filter(|_| task.enabled.get()) {
            let mask = match self.scx.cids.form {
                true => self.cids_of(task).cast_const().cast(),
                false => task.abi.cpus_ptr.get().cast(),
            };
            call_op!(self, kf::REST, set_cpumask, task.abi(), mask);
        }
    }
}
