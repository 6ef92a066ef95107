//! The reason why a thread waited.

use super::{Cause, Facts, Kind, Reason, cpus, part, placed_by, refusal, refused, threads};
use crate::explain::beside::Share;
use crate::explain::chain::{Chain, Idled, Made, What};
use crate::explain::tasks::Priority;
use crate::explain::wait::{After, Wait};
use crate::explain::words::{seconds, shown};
use machine::{Machine, counted};
use policy::{About, DecisionRow};
use std::collections::BTreeMap;

/// The cause of `chain`'s wait; `reports` says whether the scheduler reports its decisions.
pub fn waited(machine: &Machine, chain: &Chain, reports: bool) -> Cause {
    let facts = Facts::new(machine, chain, reports);
    let loss = format!(
        "{} waited {} at {}{}",
        chain.wait.name,
        shown(chain.wait.ns()),
        seconds(chain.wait.from),
        match chain.wait.open {
            true => " and did not run until the end of the run",
            false => "",
        }
    );
    reason(&facts).of(&loss)
}

/// Applies the rules in their order, and returns the reason of the first one that fits.
fn reason(facts: &Facts<'_>) -> Reason {
    let cpu = awaited(facts);
    let ahead = cpu.map_or(&[][..], |cpu| facts.ran(cpu));
    let half = facts.chain.wait.ns().div_ceil(2);
    let others = facts.idled(half, |idle| {
        Some(idle) != cpu && facts.allowed.contains(idle)
    });
    // A CPU of the waiting thread's own node comes first, then the CPU that idled longest.
    let near = |idled: &&&Idled| cpu.is_none_or(|cpu| facts.same_node(cpu, idled.cpu));
    let better = others.iter().find(near).or(others.first()).copied();
    restarted(facts, cpu, ahead)
        .or_else(|| throttled(facts))
        .or_else(|| never_dispatched(facts))
        .or_else(|| idle_cpu(facts, cpu?, better))
        .or_else(|| real_time(facts, cpu?, ahead, better))
        .or_else(|| starved(facts, cpu?, ahead))
        .or_else(|| affinity(facts, cpu?, ahead, better))
        .or_else(|| better.map(|better| idle_elsewhere(facts, cpu, ahead, better, &others)))
        .or_else(|| weight(facts, cpu?, ahead))
        .unwrap_or_else(|| busy(facts, cpu, ahead))
}

/// The CPU for which the thread waited longest or, if no wait is known, the CPU that it lost or that a decision named
/// first.
fn awaited(facts: &Facts<'_>) -> Option<usize> {
    let mut waited: BTreeMap<usize, u64> = BTreeMap::new();
    for step in &facts.chain.steps {
        if let What::Other { ns, .. } = step.what {
            *waited.entry(step.cpu).or_default() += ns;
        }
    }
    let longest = waited.into_iter().max_by_key(|&(_, ns)| ns);
    longest
        .map(|(cpu, _)| cpu)
        .or(match facts.chain.wait.after {
            After::Running { cpu } => Some(cpu),
            After::Wakeup => facts.decisions().find_map(|made| made.cpu),
        })
}

/// The reason if for at least half of the wait no scheduler was loaded.
fn restarted(facts: &Facts<'_>, cpu: Option<usize>, ahead: &[Share]) -> Option<Reason> {
    let ns = facts.chain.wait.ns();
    if facts.chain.unloaded_ns < ns.div_ceil(2) {
        return None;
    }
    let text = format!(
        "a CPU went offline or came online, and the scheduler was being loaded again for {}",
        part(facts.chain.unloaded_ns, ns)
    );
    let order = "Until the scheduler is loaded, threads run in turn from one queue";
    let behind = cpu.filter(|_| !ahead.is_empty());
    let behind = behind.map(|cpu| format!("{} ran on CPU {cpu} meanwhile", threads(ahead)));
    let reason = Reason::new(Kind::Restart, cpu, text).detail(Some(order.to_owned()));
    Some(reason.detail(behind))
}

/// The reason if the thread's control group was throttled.
fn throttled(facts: &Facts<'_>) -> Option<Reason> {
    let held = facts
        .decisions()
        .find(|made| made.decision.row == DecisionRow::held_back)?;
    let reason = Reason::new(Kind::Throttled, held.cpu, held.why.clone());
    Some(reason.decided(Some(held)))
}

/// The reason if the scheduler has lost the thread: it waited until the end of the run, although a CPU was idle.
fn never_dispatched(facts: &Facts<'_>) -> Option<Reason> {
    let Wait { open: true, to, .. } = facts.chain.wait else {
        return None;
    };
    let ns = facts.chain.wait.ns();
    let idled = facts.idled(1, |cpu| facts.allowed.contains(cpu));
    let all: u64 = idled.iter().map(|idled| idled.ns).sum();
    // Together, the CPUs must have idled for at least a tenth of the wait.
    if all < ns / 10 {
        return None;
    }
    let first = idled.first()?;
    let text = format!(
        "the scheduler did not dispatch it while CPU {}, which it may use, idled for {}",
        first.cpu,
        part(first.ns, ns)
    );
    let more = (idled.len() > 1).then(|| {
        format!(
            "The {} CPUs that it may use idled for {} in all until the run ended at {}",
            facts.allowed.count(),
            shown(all),
            seconds(to)
        )
    });
    let reason = Reason::new(Kind::NotRun, None, text).decided(refusal(first));
    Some(reason.detail(refused(first)).detail(more).better(first.cpu))
}

/// The reason if the CPU for which the thread waited was idle for at least half of the wait.
fn idle_cpu(facts: &Facts<'_>, cpu: usize, better: Option<&Idled>) -> Option<Reason> {
    let ns = facts.chain.wait.ns();
    let idled = facts.chain.idled.iter().find(|idled| idled.cpu == cpu)?;
    if idled.ns < ns.div_ceil(2) {
        return None;
    }
    let core = &facts.machine.core_types[facts.machine.cpus[cpu].core_type];
    let exit = core.idle_states.iter().map(|state| state.exit_latency_ns);
    let costs = &core.costs;
    // The usual delay consists of the IPI, the exit from the deepest idle state and the switch,
    // with a margin for a core below its highest frequency.
    let usual = exit.max().unwrap_or(0)
        + 4 * (costs.ipi_far_ns + costs.wakeup_ns + costs.context_switch_ns + costs.timer_irq_ns);
    if ns <= usual {
        let text = format!("CPU {cpu} had to leave its idle state and switch to it");
        return Some(Reason::new(Kind::IdleExit, Some(cpu), text));
    }
    let idle = part(idled.ns, ns);
    let text = match facts.reports {
        true => format!("CPU {cpu}, for which it waited, idled for {idle} and did not run it"),
        false => format!(
            "the scheduler did not dispatch it while CPU {cpu}, which it may use, idled for {idle}"
        ),
    };
    let also = better.map(|other| format!("CPU {} idled for {}", other.cpu, part(other.ns, ns)));
    let reason = Reason::new(Kind::NotRun, Some(cpu), text).decided(refusal(idled));
    Some(reason.detail(refused(idled)).detail(also).better(cpu))
}

/// The reason if real-time or deadline threads had the CPU for at least half of the wait, and the thread's own priority
/// was not higher.
fn real_time(
    facts: &Facts<'_>,
    cpu: usize,
    ahead: &[Share],
    better: Option<&Idled>,
) -> Option<Reason> {
    let above = |share: &&Share| match (facts.priority(share), facts.chain.priority) {
        (Priority::RealTime(other), Priority::RealTime(own)) => other >= own,
        (Priority::Deadline, Priority::RealTime(_)) => true,
        (other, own) => other.is_real_time() && !own.is_real_time(),
    };
    let above: Vec<Share> = ahead.iter().filter(above).cloned().collect();
    let first = above.first()?;
    if above.iter().map(|share| share.ns).sum::<u64>() < facts.chain.wait.ns().div_ceil(2) {
        return None;
    }
    let class = match facts.priority(first) {
        Priority::RealTime(priority) => format!("a real-time thread of priority {priority}"),
        _ => "a SCHED_DEADLINE thread".to_owned(),
    };
    let ns = facts.chain.wait.ns();
    let idle = better.map_or(String::new(), |idled| {
        format!(" while CPU {} idled for {}", idled.cpu, part(idled.ns, ns))
    });
    let text = format!(
        "{}, {class}, held CPU {cpu} for {}{idle}",
        first.name,
        part(first.ns, ns)
    );
    let mut reason = Reason::new(Kind::RealTime, Some(cpu), text);
    if let Some(idled) = better {
        reason = reason
            .decided(refusal(idled))
            .detail(refused(idled))
            .better(idled.cpu);
    }
    Some(reason)
}

/// The reason if only CPUs that the thread may not use idled for at least half of the wait.
fn affinity(
    facts: &Facts<'_>,
    cpu: usize,
    ahead: &[Share],
    better: Option<&Idled>,
) -> Option<Reason> {
    let all = facts.all;
    if better.is_some() || facts.allowed == all {
        return None;
    }
    let half = facts.chain.wait.ns().div_ceil(2);
    let excluded = facts.idled(half, |idle| {
        all.contains(idle) && !facts.allowed.contains(idle)
    });
    if excluded.is_empty() {
        return None;
    }
    let mut idle: Vec<usize> = excluded.iter().map(|idled| idled.cpu).collect();
    idle.sort_unstable();
    let allowed: Vec<usize> = facts.allowed.iter().collect();
    let text = format!(
        "its affinity allows only {}, where {} ran{}, while {} idled",
        cpus(&allowed),
        threads(ahead),
        crowd(facts).map_or(String::new(), |crowd| format!(" and {crowd}")),
        cpus(&idle)
    );
    let first = excluded[0].cpu;
    Some(Reason::new(Kind::Affinity, Some(cpu), text).better(first))
}

/// The waker, if it ran for at least half of the wait on the CPU that the thread waited for.
fn waker_ran<'a>(facts: &Facts<'a>, ahead: &'a [Share]) -> Option<&'a Share> {
    let by = facts.chain.steps.iter().find_map(|step| match &step.what {
        What::Woken { by, .. } => by.as_deref(),
        _ => None,
    })?;
    let half = facts.chain.wait.ns().div_ceil(2);
    ahead
        .iter()
        .find(|share| share.name == by && share.ns >= half)
}

/// The number of other threads that also waited, in words.
fn crowd(facts: &Facts<'_>) -> Option<String> {
    let others = facts.chain.beside.waited.len();
    (others > 0).then(|| counted(others, "other thread waited", "other threads waited"))
}

/// The reason if a CPU that the thread may use, other than the CPU for which it waited, idled for at least half of the
/// wait.
fn idle_elsewhere(
    facts: &Facts<'_>,
    cpu: Option<usize>,
    ahead: &[Share],
    better: &Idled,
    others: &[&Idled],
) -> Reason {
    let ns = facts.chain.wait.ns();
    let idle = format!("idled for {}", part(better.ns, ns));
    let idle_cpu = better.cpu;
    let woken = facts.chain.wait.after == After::Wakeup;
    let placed = cpu
        .filter(|_| woken && better.at_start)
        .and_then(|cpu| facts.placed(cpu));
    let far = cpu.is_some_and(|cpu| !facts.same_node(cpu, idle_cpu));
    let refused_by = refusal(better);
    let reason = match (cpu, placed, refused_by) {
        (Some(cpu), ..) if far => {
            let kind = Kind::RemoteNode;
            let text = format!(
                "only CPUs of another NUMA node than that of CPU {cpu} were idle: CPU {idle_cpu} {idle}"
            );
            Reason::new(kind, Some(cpu), text)
                .detail(placed_by(placed))
                .detail(refused(better))
                .decided(placed.or(refused_by))
        }
        (Some(cpu), placed, _) if waker_ran(facts, ahead).is_some() => {
            let waker = waker_ran(facts, ahead).map_or("", |waker| waker.name.as_str());
            let text = format!(
                "it was placed on CPU {cpu}, where {waker} woke it up and continued to run, while CPU {idle_cpu} {idle}"
            );
            Reason::new(Kind::WithWaker, Some(cpu), text)
                .detail(placed_by(placed))
                .detail(refused(better))
                .decided(placed.or(refused_by))
        }
        // The placement overlooked the idle CPU, and no later decision corrected that.
        (Some(cpu), Some(made), _) => {
            let text = format!(
                "it was placed on the busy CPU {cpu} while CPU {idle_cpu} {idle}: {}",
                made.why
            );
            Reason::new(Kind::Placement, Some(cpu), text)
                .detail(refused(better))
                .decided(Some(made))
        }
        (_, None, Some(made)) | (None, _, Some(made)) => {
            let text = format!("the idle CPU {idle_cpu} did not take it: {}", made.why);
            Reason::new(Kind::NotPulled, cpu, text)
                .detail(Some(format!("CPU {idle_cpu} {idle}")))
                .decided(Some(made))
        }
        (Some(cpu), None, None) => {
            let left = match facts.reports {
                true => "nothing moved it away from",
                false => "the scheduler left it waiting for",
            };
            let text = format!("{left} CPU {cpu} while CPU {idle_cpu} {idle}");
            Reason::new(Kind::NotPulled, Some(cpu), text)
        }
        (None, _, None) => {
            let text = format!("the scheduler did not dispatch it while CPU {idle_cpu} {idle}");
            Reason::new(Kind::NotRun, None, text)
        }
    };
    let more = match others.len() {
        0 | 1 => None,
        2 => Some("1 more CPU that it may use idled".to_owned()),
        more => Some(format!("{} more CPUs that it may use idled", more - 1)),
    };
    let behind = cpu.filter(|_| !ahead.is_empty());
    let behind = behind.map(|cpu| format!("{} ran on CPU {cpu} meanwhile", threads(ahead)));
    reason.detail(behind).detail(more).better(idle_cpu)
}

/// The first decision about preempting the running thread, or about the end of its turn.
fn verdict<'a>(facts: &Facts<'a>) -> Option<&'a Made> {
    let is_verdict = |made: &&Made| {
        matches!(
            made.decision.about,
            About::Waits | About::Yields | About::Preempts | About::Keeps
        )
    };
    facts.decisions().find(is_verdict)
}

/// The reason, if no CPU idled for long, and threads with more weight ran on `cpu` for at least half of the wait.
fn weight(facts: &Facts<'_>, cpu: usize, ahead: &[Share]) -> Option<Reason> {
    let heavier: Vec<Share> = ahead
        .iter()
        .filter(|share| facts.outweighs(share))
        .cloned()
        .collect();
    let first = heavier.first()?;
    if heavier.iter().map(|share| share.ns).sum::<u64>() < facts.chain.wait.ns().div_ceil(2) {
        return None;
    }
    let ran = format!("which ran for {}", part(first.ns, facts.chain.wait.ns()));
    let (own, other) = (facts.group(facts.chain.wait.pid), facts.group(first.pid));
    let (kind, text) = match (own.1 < other.1, facts.chain.priority) {
        (true, _) => (
            Kind::Group,
            format!(
                "its control group {} gives it less of CPU {cpu} than {} gives {}, {ran}",
                own.0, other.0, first.name
            ),
        ),
        (false, Priority::Idle) => (
            Kind::Nice,
            format!(
                "its policy SCHED_IDLE gives it less of CPU {cpu} than {}, {ran}",
                first.name
            ),
        ),
        (false, Priority::Nice(own)) => {
            let Priority::Nice(other) = facts.priority(first) else {
                return None;
            };
            let text = format!(
                "its nice value of {own} gives it less of CPU {cpu} than {} (nice {other}), {ran}",
                first.name
            );
            (Kind::Nice, text)
        }
        (false, Priority::Deadline | Priority::RealTime(_)) => return None,
    };
    let said = verdict(facts);
    let reason = Reason::new(kind, Some(cpu), text).decided(said);
    let meanwhile = format!("Meanwhile {}", no_idle(facts));
    Some(reason.detail(by(said)).detail(Some(meanwhile)))
}

/// The reason if the thread has stopped running, although the threads that ran on `cpu`, for at least half of the wait,
/// have no more weight.
fn starved(facts: &Facts<'_>, cpu: usize, ahead: &[Share]) -> Option<Reason> {
    if !facts.chain.wait.is_stall() {
        return None;
    }
    let ns: u64 = ahead.iter().map(|share| share.ns).sum();
    let is_higher = |share: &Share| facts.outweighs(share) || facts.priority(share).is_real_time();
    if ahead.iter().any(is_higher) || ns < facts.chain.wait.ns().div_ceil(2) {
        return None;
    }
    let text = format!(
        "the scheduler ran {} on CPU {cpu} instead, although {} no higher",
        threads(ahead),
        match ahead.len() {
            1 => "its weight is",
            _ => "their weights are",
        }
    );
    let said = verdict(facts);
    let reason = Reason::new(Kind::Starved, Some(cpu), text).decided(said);
    Some(
        reason
            .detail(by(said))
            .detail(crowd(facts).map(|crowd| format!("{crowd}, here or elsewhere"))),
    )
}

/// The decision `said` as a sentence.
fn by(said: Option<&Made>) -> Option<String> {
    said.map(|made| format!("{}: {}", made.what, made.why))
}

/// Says in words that the CPUs that the thread may use were busy or idled for too short a time, or that there is only
/// one.
fn no_idle(facts: &Facts<'_>) -> String {
    let allowed = facts.idled(1, |cpu| facts.allowed.contains(cpu));
    let idle: u64 = allowed.iter().map(|idled| idled.ns).sum();
    let limited = facts.allowed != facts.all;
    let may = if limited { " that it may use" } else { "" };
    match facts.allowed.count() {
        1 => format!("{} may use no other CPU", facts.chain.wait.name),
        // Idle time below 1 % does not count.
        all if idle.saturating_mul(100) < facts.chain.wait.ns() => {
            format!("all {all} CPUs{may} were busy")
        }
        all => format!("none of the {all} CPUs{may} idled for half of it"),
    }
}

fn busy(facts: &Facts<'_>, cpu: Option<usize>, ahead: &[Share]) -> Reason {
    let place = match cpu.filter(|_| !ahead.is_empty()) {
        Some(cpu) => format!(": {} ran on CPU {cpu}, for which it waited", threads(ahead)),
        None => String::new(),
    };
    let said = verdict(facts);
    let text = format!("{}{place}", no_idle(facts));
    let reason = Reason::new(Kind::Busy, cpu, text).decided(said);
    reason
        .detail(by(said))
        .detail(crowd(facts).map(|crowd| format!("{crowd}, here or elsewhere")))
}
