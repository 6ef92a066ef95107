//! A workload bound to some of the machine's CPUs, as by `numactl --cpunodebind`: its first tasks are bound, and their
//! children inherit the affinity. A thread that later asks for all CPUs gets those to which it was bound, because
//! programs take the affinity with which they begin for all CPUs. The rest of the machine exists but stays idle.

use crate::{CpuBound, Env, Metric, Op, Program, Start, TaskSpec, Workload};
use machine::input::BadInput;
use machine::{CpuMask, Machine};

/// The CPUs of the sets to which `workload` binds threads of `machine` and which are `wrong`, if there are such sets.
pub(crate) fn wrongly_bound(
    workload: &dyn Workload,
    machine: &Machine,
    wrong: impl Fn(&CpuMask) -> bool,
) -> Option<CpuMask> {
    let sets = workload.bindings().into_iter();
    let sets = sets.map(|set| set.and(&machine.all_cpus()));
    let wrong = sets.filter(|set| !set.is_empty() && wrong(set));
    wrong.reduce(|all, set| all.or(&set))
}

struct Bound {
    workload: Box<dyn Workload>,
    nodes: String,
}

/// Binds `workload` to the CPUs of `nodes` (a list such as `0-3`), unless its tasks choose CPUs themselves.
pub fn bind(workload: Box<dyn Workload>, nodes: &str) -> Box<dyn Workload> {
    let nodes = nodes.to_owned();
    Box::new(Bound { workload, nodes })
}

impl Bound {
    fn cpus(&self, machine: &Machine) -> Result<CpuMask, Box<BadInput>> {
        machine.cpus_of_nodes(&self.nodes).map_err(|expected| {
            let are = match self.nodes.contains([',', '-']) {
                true => "are not nodes",
                false => "is not a node",
            };
            let message = format!("`{}` {are} of {}", self.nodes, machine.name);
            Box::new(BadInput::whole(message, expected))
        })
    }
}

impl Workload for Bound {
    fn name(&self) -> &str {
        self.workload.name()
    }

    fn description(&self) -> &str {
        self.workload.description()
    }

    fn metrics(&self) -> &[Metric] {
        self.workload.metrics()
    }

    fn inner(&self) -> Option<&dyn Workload> {
        Some(&*self.workload)
    }

    /// The nodes have less than the machine has.
    fn cpu_bound(&self) -> Option<CpuBound> {
        None
    }

    fn check(&self, machine: &Machine) -> Result<(), Box<BadInput>> {
        self.cpus(machine)?;
        self.workload.check(machine)
    }

    fn notes_on(&self, machine: &Machine) -> Vec<String> {
        let mut notes = self.workload.notes_on(machine);
        let Ok(cpus) = self.cpus(machine) else {
            return notes;
        };
        // A thread that asks for all CPUs gets those of the nodes.
        let is_wrong = |set: &CpuMask| !set.is_subset(&cpus) && *set != machine.all_cpus();
        let elsewhere = wrongly_bound(&*self.workload, machine, is_wrong);
        notes.extend(elsewhere.map(|elsewhere| {
            format!(
                "In `{}`, threads are bound to CPUs {elsewhere}. They run there, also outside node {}.",
                self.name(),
                self.nodes
            )
        }));
        notes
    }

    fn of_run(&self, run: u32, count: u32) -> Option<Box<dyn Workload>> {
        Some(bind(self.workload.of_run(run, count)?, &self.nodes))
    }

    fn start(&self, machine: &Machine) -> Start {
        let mut start = self.workload.start(machine);
        let nodes = Nodes {
            all: machine.all_cpus(),
            cpus: self.cpus(machine).expect("check() found the nodes"),
        };
        let tasks = start.tasks.into_iter().map(|mut task| {
            task.affinity.get_or_insert(nodes.cpus);
            nodes.task(task)
        });
        start.tasks = tasks.collect();
        start
    }
}

/// The online CPUs of the machine, and those of the nodes.
#[derive(Clone, Copy)]
struct Nodes {
    all: CpuMask,
    cpus: CpuMask,
}

impl Nodes {
    fn task(self, mut task: TaskSpec) -> TaskSpec {
        task.program = Box::new(OnNodes {
            program: task.program,
            nodes: self,
        });
        task
    }
}

struct OnNodes {
    program: Box<dyn Program>,
    nodes: Nodes,
}

impl Program for OnNodes {
    fn next(&mut self, env: &mut Env) -> Op {
        match self.program.next(env) {
            Op::SetAffinity(cpus) if self.nodes.all.is_subset(&cpus) => {
                Op::SetAffinity(Box::new(self.nodes.cpus))
            }
            Op::Fork { child, work } => Op::Fork {
                child: Box::new(self.nodes.task(*child)),
                work,
            },
            other => other,
        }
    }

    fn end(&mut self, env: &mut Env) {
        self.program.end(env);
    }
}
