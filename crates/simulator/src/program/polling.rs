//! Tasks that poll: busy loops in user space that end when another task writes a word or releases a
//! mutex. The loop is computing like any other; what ends it is noticed one cache line transfer later,
//! or when the task next runs.

use crate::abi::layout as abi;
use crate::kernel::Kernel;
use crate::kernel::task::{Continuation, TaskPtr};

/// What ends a task's polling.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Spin {
    /// The shared word is no longer `value`.
    Word { word: usize, value: u64 },
    /// The mutex is free.
    Mutex(u32),
    /// The lock of the kernel's is free, and nobody has polled for longer.
    Kernel(u32),
}

/// A task that polls.
pub struct Spinner {
    task: TaskPtr,
    until: Spin,
}

impl Kernel<'_> {
    /// `task` starts to poll.
    pub fn spin(&mut self, task: TaskPtr, until: Spin) {
        self.programs.spinners.push(Spinner { task, until });
    }

    /// `task` polls on, before all others.
    pub fn spin_on(&mut self, task: TaskPtr, until: Spin) {
        self.programs.spinners.insert(0, Spinner { task, until });
    }

    /// `task` polls no more. Did it?
    pub fn stop_spinning(&mut self, task: TaskPtr) -> bool {
        let spinners = self.programs.spinners.len();
        self.programs
            .spinners
            .retain(|spinner| spinner.task != task);
        self.programs.spinners.len() < spinners
    }

    /// The task on `cpu` may have written shared words.
    pub fn notice_words(&mut self, cpu: usize) {
        let shared = std::mem::take(&mut self.programs.shared);
        self.notice(
            cpu,
            |until| matches!(until, Spin::Word { word, value } if shared[word] != value),
        );
        self.programs.shared = shared;
    }

    /// The task on `cpu` has released `mutex`.
    pub fn notice_mutex(&mut self, cpu: usize, mutex: u32) {
        self.notice(cpu, |until| until == Spin::Mutex(mutex));
    }

    /// The task on `cpu` has released a lock of the kernel's: who has polled for it the longest is next.
    pub fn pass_on(&mut self, cpu: usize, mutex: u32) {
        let mut spinners = self.programs.spinners.iter();
        if let Some(first) = spinners.position(|spinner| spinner.until == Spin::Kernel(mutex)) {
            let Spinner { task, .. } = self.programs.spinners.remove(first);
            self.end_spin(cpu, task);
        }
    }

    /// The task on `cpu` is to be preempted: if it polls for a lock of the kernel's it sleeps for it instead. Not
    /// if its turn has come, as nobody might wake it then: it takes the lock when it runs next.
    pub fn sleep_instead(&mut self, task: TaskPtr) {
        let Continuation::LockPoll(section) = *task.continuation.borrow() else {
            return;
        };
        if !self.stop_spinning(task) {
            return;
        }
        task.left.set(0);
        if let Some(check) = &mut self.check {
            check.begins(task, 0, false);
        }
        self.queue_for(task, section.mutex);
        task.continuation.replace(Continuation::LockSleep(section));
        task.abi.state.set(abi::TASK_INTERRUPTIBLE);
        task.waits_for.set("a lock of the kernel's");
    }

    /// Ends the polling of those whose wait is `over` by what `cpu` did.
    fn notice(&mut self, cpu: usize, over: impl Fn(Spin) -> bool) {
        let mut index = 0;
        while index < self.programs.spinners.len() {
            if over(self.programs.spinners[index].until) {
                let Spinner { task, .. } = self.programs.spinners.remove(index);
                self.end_spin(cpu, task);
            } else {
                index += 1;
            }
        }
    }

    fn end_spin(&mut self, by: usize, task: TaskPtr) {
        let cpu = task.cpu();
        let polls = self.cpus[cpu].curr == Some(task) && self.cpus[cpu].armed;
        if polls {
            self.pause(cpu);
        }
        task.left.set(0);
        if let Some(check) = &mut self.check {
            check.begins(task, 0, false);
        }
        if polls {
            self.charge(cpu, self.transfer_ns(by, cpu));
            let done = self.resume(cpu, task);
            self.events.set_done(cpu, done);
        }
    }
}
