//! The CPU time of a set of threads, or of a control group (`usage_usec` of `cpu.stat`), as a metric that decides a
//! comparison. The user says which direction is better, because that depends on the purpose of the work: a service
//! should get more, but a background task may get less.

use crate::{Better, Env, Goal, GroupId, Metric, MetricId, Op, Program, Role, TaskSpec, Unit};
use std::sync::Arc;

/// The direction that `text` names: `more` or `less`.
pub(crate) fn direction(text: &str) -> Option<Better> {
    match text {
        "more" => Some(Better::Higher),
        "less" => Some(Better::Lower),
        _ => None,
    }
}

pub(crate) const EXPECTED: &str = "`more` or `less`, whichever is better";

/// The metric of the CPU time of `whose` threads, in s, of which a run has one sample.
pub(crate) fn metric(whose: Option<&str>, better: Better) -> Metric {
    Metric {
        name: match whose {
            Some(whose) => format!("{whose}/cpu_time").into(),
            None => "cpu_time".into(),
        },
        ..Metric::new("", Unit::S, better, Role::Decides(Goal::Throughput))
    }
}

/// The metrics to which the CPU time of a thread counts.
#[derive(Clone, Default)]
pub(crate) struct Account {
    /// The metric of the set of threads to which this thread belongs.
    pub own: Option<MetricId>,
    /// For each control group, the metrics of the group and of the groups above it.
    pub groups: Arc<[Vec<MetricId>]>,
    /// The thread's group.
    pub group: Option<GroupId>,
}

impl Account {
    /// Returns `task` with its CPU time counted in these metrics.
    pub fn measure(self, mut task: TaskSpec) -> TaskSpec {
        if self.own.is_some() || !self.groups.is_empty() {
            task.program = Box::new(Measured {
                program: task.program,
                account: self,
                counted_ns: 0,
            });
        }
        task
    }
}

struct Measured {
    program: Box<dyn Program>,
    account: Account,
    /// The CPU time that has been counted.
    counted_ns: u64,
}

impl Measured {
    fn count(&mut self, env: &mut Env) {
        let ns = env.cpu_time - std::mem::replace(&mut self.counted_ns, env.cpu_time);
        let Account { own, groups, group } = &self.account;
        let of_group = group.and_then(|group| groups.get(group as usize));
        for &metric in own.iter().chain(of_group.into_iter().flatten()) {
            env.recorder.add(metric, ns as f64 / 1e9);
        }
    }
}

impl Program for Measured {
    fn next(&mut self, env: &mut Env) -> Op {
        let op = self.program.next(env);
        match op {
            Op::EnterGroup(group) => {
                self.count(env);
                self.account.group = group;
            }
            Op::Exit => self.count(env),
            _ => {}
        }
        op
    }

    fn end(&mut self, env: &mut Env) {
        self.count(env);
        self.program.end(env);
    }
}
