//! Booting: a kernel with the scheduler loaded and the shell about to start the workload.

use crate::abi::Bpf;
use crate::check::Checker;
use crate::class::{dl::Dl, rt::Rt};
use crate::events::{Events, What};
use crate::host::calls::{CallRecord, Code};
use crate::hw::Hardware;
use crate::kernel::Kernel;
use crate::kernel::cpu::Cpu;
use crate::kernel::hotplug::Hotplug;
use crate::kernel::softirq::Softirqs;
use crate::kernel::task::Tasks;
use crate::kernel::uclamp::Uclamp;
use crate::program::Programs;
use crate::program::mutex::Mutexes;
use crate::program::polling::Pollers;
use crate::program::stream::Streams;
use crate::program::sync::{Barriers, Condvars};
use crate::scx::Scx;
use crate::scx::callbacks::Costs;
use crate::scx::restart::Loader;
use crate::waste::Waste;
use crate::{Config, Counters, Error};
use workload::{Env, Op, Rng, Start, TaskSpec};

/// Boots a kernel for `config`. If the scheduler cannot be enabled, the kernel has already failed
/// ([`Kernel::failure`]).
pub fn boot<'a>(config: Config<'a>, check: Option<Box<Checker>>) -> Result<Kernel<'a>, Error> {
    let machine = config.machine;
    let nr_cpus = machine.cpus.len();
    let tick_ns = 1_000_000_000 / u64::from(machine.hz);
    let mut rng = Rng::new(config.seed ^ 0x6b65_726e_656c);
    let Start {
        tasks,
        mutexes,
        mutex_names,
        condvars,
        barriers,
        streams,
        connections,
        shared,
        groups,
        timeline,
        duration_ns,
        is_endless,
    } = config.workload.start(machine);
    let hw = Hardware::new(machine, connections);
    let bpf = Bpf::load(&config, tick_ns, hw.memory.as_ref(), groups)?;
    let ops = bpf.instance.ops;
    let code = Code::new(config.scheduler, bpf.instance.base());
    let mut env = Env::new(shared, config.seed, config.workload.metrics());
    env.periods = config.trace.is_some().then(Vec::new);
    let mut kernel = Kernel {
        machine,
        hotplug: Hotplug::new(machine),
        loader: Loader {
            object: config.scheduler,
            globals: config.globals,
            restart: config.restart,
        },
        cpus: Cpu::all(machine),
        tasks: Tasks::default(),
        alive: 0,
        daemons: 0,
        has_end: duration_ns.is_some() && !is_endless,
        deadlock: None,
        groups_have_limits: bpf.groups.have_limits(),
        runnable: 0,
        sleeping: 0,
        events: Events::new(nr_cpus),
        dl: Dl::default(),
        rt: Rt::default(),
        uclamp: Uclamp::new(machine.cpus.len()),
        hw,
        softirqs: Softirqs::default(),
        programs: Programs {
            mutexes: Mutexes::new(mutexes),
            mutex_names,
            condvars: Condvars::new(condvars),
            barriers: Barriers::new(&barriers),
            streams: Streams::new(&streams),
            pollers: Pollers::default(),
            env,
        },
        tick_ns,
        tick_phase: rng.below(tick_ns),
        rng,
        waste: Waste::new(machine),
        counters: Counters::default(),
        trace: config.trace,
        failure: None,
        refused: None,
        check,
        calls: CallRecord::start(ops.name(), code),
        scx: Scx::new(
            machine,
            ops,
            config.scheduler.kernel(),
            config.scheduler.is_cid_form(),
            config.scheduler.is_fair_class(),
        ),
        callbacks: config
            .callbacks
            .map(|callbacks| Box::new(Costs::new(machine, callbacks))),
        bpf,
    };
    kernel.bpf.set_cids(kernel.scx.cids.tables());
    if kernel.hw.ramp.is_some() {
        for cpu in 0..machine.cpus.len() {
            kernel.opp_changed(cpu);
        }
    }
    kernel.trace_power_from_boot();
    kernel.set_cpu(0);
    kernel.enable_scheduler(config.scheduler);
    if kernel.failure.is_some() {
        return Ok(kernel);
    }
    if let Some(duration) = duration_ns {
        kernel.events.push(duration, What::End);
    }
    let watchdog_ns = kernel.scx.watchdog.next_ns(0);
    kernel.events.push(watchdog_ns, What::Watchdog);
    start_shell(&mut kernel, tasks);
    kernel.start_connections();
    kernel.schedule_changes(timeline);
    Ok(kernel)
}

/// Starts the shell, which runs on a random CPU and forks the workload's first tasks.
fn start_shell(kernel: &mut Kernel<'_>, tasks: Vec<TaskSpec>) {
    let mut tasks = tasks.into_iter();
    let mut left = false;
    let shell = TaskSpec::new("sh", move |_: &mut Env| match tasks.next() {
        Some(task) => Op::Fork {
            child: Box::new(task),
            work: 0,
        },
        None if left => Op::Exit,
        None => {
            left = true;
            Op::Join
        }
    });
    let online = kernel.machine.all_cpus();
    let nth = kernel.rng.below(online.count() as u64) as usize;
    let cpu = online.iter().nth(nth).unwrap_or(0);
    kernel.set_cpu(cpu);
    let shell = kernel.new_task(shell, None, cpu, false);
    kernel.activate(shell, 0);
    kernel.cpus[cpu].need_resched = true;
    kernel.leave(cpu);
}
