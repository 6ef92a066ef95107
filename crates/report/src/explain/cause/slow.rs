//! The reason why a thread ran slowly.

use super::{
    Cause, Facts, Kind, MOST_NAMED, Reason, cpus, part, placed_by, refusal, refused, speed, threads,
};
use crate::explain::beside::Share;
use crate::explain::chain::{Chain, Idled};
use crate::explain::response::{Lost, Ran, Response};
use crate::explain::words::{seconds, shown};
use machine::Machine;

/// The factor, as a fraction, by which the description of a CPU must overstate its speed relative
/// to another CPU to be reported as wrong.
const WRONG: (u64, u64) = (3, 2);

/// The cause of the time that `response` lost by running slowly. `chain` has the events of that time; `reports` says
/// whether the scheduler reports its decisions.
pub fn slow(machine: &Machine, response: &Response, chain: &Chain, reports: bool) -> Cause {
    let facts = Facts::of_response(machine, response, chain, reports);
    let loss = format!(
        "{} lost {} of the {} that it ran at {}",
        chain.wait.name,
        shown(response.slow_ns()),
        shown(response.ran_ns()),
        seconds(response.from)
    );
    reason(&facts, response).of(&loss)
}

fn reason(facts: &Facts<'_>, response: &Response) -> Reason {
    let total = response.lost();
    let largest = total.kind_ns.max(total.shared_ns).max(total.frequency_ns);
    let lost: fn(Lost) -> u64 = match largest {
        ns if ns == total.kind_ns => |lost| lost.kind_ns,
        ns if ns == total.frequency_ns => |lost| lost.frequency_ns,
        _ => |lost| lost.shared_ns,
    };
    let most = response.ran.iter().max_by_key(|(_, ran)| lost(ran.lost()));
    let Some((&cpu, ran)) = most else {
        return Reason::new(Kind::SlowCpu, None, "its CPU was slow".to_owned());
    };
    match largest {
        ns if ns == total.kind_ns => kind(facts, cpu, ran),
        ns if ns == total.frequency_ns => frequency(facts, cpu, ran),
        _ => shared(facts, cpu, ran),
    }
}

/// A CPU and its speed in words, such as `CPU 3 (speed 512 of 1024)`.
fn with_speed(facts: &Facts<'_>, cpu: usize) -> String {
    let limited = match facts.limit(cpu) {
        Some(_) => " at its limited frequency",
        None => "",
    };
    format!("CPU {cpu} (speed {} of 1024{limited})", facts.speed(cpu))
}

/// The reason if the thread's CPU is of a slow kind.
fn kind(facts: &Facts<'_>, cpu: usize, ran: &Ran) -> Reason {
    let is_faster = |other: &usize| facts.speed(*other) > facts.speed(cpu);
    let faster: Vec<usize> = facts.all.iter().filter(is_faster).collect();
    if faster.is_empty() {
        let text = format!(
            "it ran on {}, and faster CPUs were offline or limited in their frequency",
            with_speed(facts, cpu)
        );
        return Reason::new(Kind::NoFasterCpu, Some(cpu), text)
            .detail(limit(facts, facts.all.iter()));
    }
    let allowed: Vec<usize> = facts.allowed.iter().collect();
    let may: Vec<usize> = faster
        .iter()
        .copied()
        .filter(|&other| facts.allowed.contains(other))
        .collect();
    let on = format!("it ran on {}", with_speed(facts, cpu));
    let ns = facts.chain.wait.ns();
    if may.is_empty() {
        let fastest = allowed.iter().map(|&other| facts.speed(other)).max();
        let text = format!(
            "its affinity allows only {}, with a speed of {} of 1024, and {} {} faster",
            cpus(&allowed),
            fastest.unwrap_or_default(),
            cpus(&faster),
            if faster.len() == 1 { "is" } else { "are" }
        );
        // Affinity is the cause only if a faster CPU was idle.
        let free = facts.idled(ran.ns.min(ns) / 10, |other| faster.contains(&other));
        return match free.first() {
            Some(free) => {
                let idle = format!("{text}: CPU {} idled for {}", free.cpu, part(free.ns, ns));
                Reason::new(Kind::Affinity, Some(cpu), idle).better(free.cpu)
            }
            None => fast_busy(facts, cpu, &faster).detail(Some(format!("Besides, {text}"))),
        };
    }
    let placed = facts.placed(cpu);
    let overrated = may.iter().filter(|&&other| is_overrated(facts, cpu, other));
    if let Some(&other) = overrated.max_by_key(|&&other| facts.speed(other)) {
        let capacity = |cpu: usize| facts.machine.cpus[cpu].capacity;
        let text = format!(
            "the machine's description rates CPU {cpu} too high: its capacity is {} and that of CPU {other} is \
             {}, but their speeds are {} and {} of 1024",
            capacity(cpu),
            capacity(other),
            facts.speed(cpu),
            facts.speed(other)
        );
        return Reason::new(Kind::WrongCapacity, Some(cpu), text)
            .detail(placed_by(placed))
            .decided(placed)
            .better(other);
    }
    // A CPU counts if it idled for at least a tenth of the time that the thread ran.
    let idled = facts.idled(ran.ns.min(ns) / 10, |other| may.contains(&other));
    let gain = |idled: &&&Idled| {
        (
            u128::from(idled.ns.min(ran.ns)) * u128::from(facts.speed(idled.cpu)),
            u64::MAX - idled.cpu as u64,
        )
    };
    let Some(better) = idled.iter().max_by_key(gain).copied() else {
        return fast_busy(facts, cpu, &may).detail(placed_by(placed));
    };
    let idle = format!(
        "{} idled for {}",
        with_speed(facts, better.cpu),
        part(better.ns, ns)
    );
    let refused_by = refusal(better);
    let (text, decided) = match (placed.filter(|_| better.at_start), refused_by) {
        (Some(made), _) => (
            format!(
                "it was placed on {} while {idle}: {}",
                with_speed(facts, cpu),
                made.why
            ),
            Some(made),
        ),
        (None, Some(made)) => (
            format!("{on} while {idle} and did not take it: {}", made.why),
            Some(made),
        ),
        (None, None) => (format!("{on} while {idle}"), placed),
    };
    let reason = Reason::new(Kind::SlowCpu, Some(cpu), text);
    let reason = match better.at_start {
        true => reason.detail(refused(better)),
        false => reason.detail(placed_by(placed)),
    };
    reason.decided(decided).better(better.cpu)
}

/// The cause of the loss of `response`, if an idle CPU would have saved at least half of it. The thread may use this
/// CPU, which is no slower than the CPUs on which the thread ran, and which idled for long enough to do all of the
/// thread's work. While the thread ran on a CPU that is as fast, the idle CPU was of no use. `chain` has the events of
/// that time.
pub fn left(machine: &Machine, response: &Response, chain: &Chain, reports: bool) -> Option<Cause> {
    let facts = Facts::of_response(machine, response, chain, reports);
    let fastest = response.ran.keys().map(|&cpu| facts.speed(cpu)).max()?;
    let ran_as_fast = |than: usize| -> u64 {
        let as_fast = |&(&cpu, _): &(&usize, &Ran)| facts.speed(cpu) >= facts.speed(than);
        response
            .ran
            .iter()
            .filter(as_fast)
            .map(|(_, ran)| ran.ns)
            .sum()
    };
    let does = |idled: &Idled| {
        let of_use = idled.ns.saturating_sub(ran_as_fast(idled.cpu));
        of_use * u64::from(facts.speed(idled.cpu)) / 1024
    };
    let may = |cpu: usize| facts.allowed.contains(cpu) && facts.speed(cpu) >= fastest;
    // On a CPU of the same kind the thread would have run just as slowly; a low frequency does not depend on the choice
    // of the CPU.
    let saves = |idled: &Idled| {
        let there = response.fastest_ns() * 1024 / u64::from(facts.speed(idled.cpu).max(1));
        let slow = there.saturating_sub(response.fastest_ns());
        response.waited_ns() + response.lost().kind_ns.saturating_sub(slow)
    };
    let idled = facts.idled(1, may);
    let enough = idled.iter().filter(|idled| {
        does(idled) >= response.fastest_ns() && 2 * saves(idled) >= response.lost_ns()
    });
    let better = enough.max_by_key(|idled| (does(idled), u64::MAX - idled.cpu as u64))?;
    let loss = format!(
        "{} waited {} and lost {} by running slowly at {}",
        response.name,
        shown(response.waited_ns()),
        shown(response.slow_ns()),
        seconds(response.from)
    );
    let idle = format!(
        "{} idled for {}",
        with_speed(&facts, better.cpu),
        part(better.ns, response.ns())
    );
    let text = match refusal(better) {
        Some(made) => format!("{idle} and did not take it: {}", made.why),
        None => format!("{idle}, and nothing moved it there"),
    };
    let work = format!(
        "Its work takes {} on the fastest CPU",
        shown(response.fastest_ns())
    );
    let reason = Reason::new(Kind::NotPulled, response.ran.keys().next().copied(), text)
        .detail(Some(work))
        .decided(refusal(better));
    Some(reason.better(better.cpu).of(&loss))
}

/// The reason if the thread ran on a slow CPU while all of `may`, which are faster, were busy.
fn fast_busy(facts: &Facts<'_>, cpu: usize, may: &[usize]) -> Reason {
    let mut others: Vec<Share> = Vec::new();
    for share in may.iter().flat_map(|&other| facts.ran(other)) {
        match others.iter_mut().find(|other| other.pid == share.pid) {
            Some(other) => {
                other.ns += share.ns;
                other.polled_ns += share.polled_ns;
            }
            None => others.push(share.clone()),
        }
    }
    others.retain(|share| share.pid != facts.chain.wait.pid);
    others.sort_by_key(|share| u64::MAX - share.ns);
    let text = format!(
        "it ran on {} while the faster {} {} busy with {}",
        with_speed(facts, cpu),
        cpus(may),
        if may.len() == 1 { "was" } else { "were" },
        threads(&others)
    );
    Reason::new(Kind::FastCpusBusy, Some(cpu), text).decided(facts.placed(cpu))
}

/// Does the machine's description overrate `cpu` by at least [`WRONG`], compared with `other`?
fn is_overrated(facts: &Facts<'_>, cpu: usize, other: usize) -> bool {
    let declared = |cpu: usize| u64::from(facts.machine.cpus[cpu].capacity);
    // The description is about the highest frequency.
    let actual = |cpu: usize| u64::from(speed(facts.machine, cpu));
    declared(cpu) * actual(other) * WRONG.1 >= declared(other) * actual(cpu) * WRONG.0
}

/// The reason if the thread's CPU had a low frequency.
fn frequency(facts: &Facts<'_>, cpu: usize, ran: &Ran) -> Reason {
    let request = facts.chain.requests.get(&cpu);
    let text = format!(
        "CPU {cpu} had only {:.0} % of its highest frequency on average while it ran there for {}",
        100.0 * ran.frequency(),
        shown(ran.ns)
    );
    let asked = request.map(|(at, made)| format!("At {} CPU {cpu} {}", seconds(*at), made.why));
    Reason::new(Kind::Frequency, Some(cpu), text)
        .detail(limit(facts, std::iter::once(cpu)))
        .detail(asked)
        .decided(request.map(|(_, made)| made))
}

/// The limits of the frequencies of `cpus` in words, if they have limits.
fn limit(facts: &Facts<'_>, cpus: impl Iterator<Item = usize>) -> Option<String> {
    let limits = cpus.filter_map(|cpu| Some((cpu, facts.limit(cpu)?)));
    let mut said: Vec<String> = limits
        .map(|(cpu, limit)| format!("CPU {cpu} to {:.0} %", 100.0 * limit))
        .collect();
    if said.len() > MOST_NAMED {
        let more = said.split_off(MOST_NAMED).len();
        said.push(format!("{more} more"));
    }
    let all = said.join(", ");
    (!said.is_empty()).then(|| format!("scaling_max_freq limits {all} of the highest frequency"))
}

/// The reason if another thread used the same core.
fn shared(facts: &Facts<'_>, cpu: usize, ran: &Ran) -> Reason {
    let siblings = facts.machine.siblings(cpu);
    let neighbours = siblings.iter().filter(|&other| other != cpu);
    let mut others: Vec<Share> = neighbours
        .flat_map(|other| facts.ran(other).iter().cloned())
        .collect();
    // The thread itself may have used the sibling before or after.
    others.retain(|share| share.pid != facts.chain.wait.pid);
    others.sort_by_key(|share| u64::MAX - share.ns);
    let placed = facts.placed(cpu);
    // A core was idle for at most the shortest idle time of its hardware threads.
    let idle_ns = |cpu: usize| {
        let threads = facts.machine.siblings(cpu);
        let idle = threads.iter().map(|it| {
            let idled = facts.chain.idled.iter().find(|idled| idled.cpu == it);
            idled.map_or(0, |idled| idled.ns)
        });
        idle.min().unwrap_or(0)
    };
    let cores = facts.allowed.iter().filter(|it| !siblings.contains(*it));
    let better = cores.max_by_key(|&cpu| (idle_ns(cpu), u64::MAX - cpu as u64));
    let better = better.filter(|&cpu| idle_ns(cpu) > 0 && idle_ns(cpu) * 4 >= ran.shared_ns);
    let ns = facts.chain.wait.ns();
    let free = better.map_or(String::new(), |better| {
        let core: Vec<usize> = facts.machine.siblings(better).iter().collect();
        format!(
            " while the core of {} idled for {}",
            cpus(&core),
            part(idle_ns(better), ns)
        )
    });
    let text = format!(
        "it shared the core of CPU {cpu} with {} for {}{free}",
        threads(&others),
        part(ran.shared_ns, ran.ns)
    );
    let mut reason = Reason::new(Kind::SharedCore, Some(cpu), text)
        .detail(placed_by(placed))
        .decided(placed);
    match better {
        Some(better) => {
            let idled = facts.chain.idled.iter().find(|idled| idled.cpu == better);
            reason = reason.detail(idled.and_then(refused)).better(better);
        }
        None => reason = reason.detail(Some("No core that it may use was idle".to_owned())),
    }
    reason
}
