//! Missed periods: the thread's activity between the end of its previous period and the end of its
//! work, and why that took longer than the time available.

use super::cause::{self, Cause, Kind};
use super::chain::Chain;
use super::item::windows;
use super::period::{self, Period};
use super::response::Missed;
use super::slow;
use super::steps::chain;
use super::wait::Wait;
use super::window::Subject;
use super::words::{seconds, shown};
use crate::Table;
use machine::Machine;

impl Missed {
    /// A sentence that says where the time between release and end went.
    pub fn went(&self) -> String {
        let mut parts: Vec<(u64, &str)> =
            self.response.parts().map(|(name, ns)| (ns, name)).to_vec();
        let before = match self.response.continues {
            true => "work for earlier periods",
            false => "until it woke up",
        };
        parts.insert(0, (self.behind_ns(), before));
        let parts = parts.iter().filter(|(ns, _)| *ns > 0);
        let parts: Vec<String> = parts
            .map(|(ns, name)| format!("{} {name}", shown(*ns)))
            .collect();
        format!(
            "From its release at {} until it was done: {}.",
            seconds(self.period.released.min(self.response.from)),
            parts.join(", ")
        )
    }

    /// The cause of the miss, given the cause of the largest loss in the period, if there is one.
    pub fn cause(&self, of_loss: Option<Cause>) -> Cause {
        // The loss is the cause only if the deadline would have been met without the loss and without the delay before
        // the response, and if the loss is the larger of the two, or made the period late by itself.
        let (lost, behind) = (self.lost_ns(), self.behind_ns());
        let is_behind = lost < behind && lost < self.late_ns();
        let of_loss = of_loss.filter(|_| lost + behind >= self.late_ns() && !is_behind);
        let name = &self.response.name;
        let missed = format!(
            "{name} missed its deadline at {} by {}: ",
            seconds(self.period.due),
            shown(self.late_ns())
        );
        let details = vec![self.went()];
        let Some(cause) = of_loss else {
            let by = match self.response.continues {
                true => None,
                false => self.response.woken_by.as_deref(),
            };
            let (kind, text) = match (is_behind && lost + behind >= self.late_ns(), by) {
                (true, Some(by)) => (
                    Kind::LateWaker,
                    format!(
                        "it slept until {by} woke it up, {} after its release.",
                        shown(behind)
                    ),
                ),
                (true, None) => (
                    Kind::Work,
                    format!(
                        "it was busy with earlier periods for {} after its release.",
                        shown(behind)
                    ),
                ),
                (false, _) => (
                    Kind::Work,
                    "its work takes longer than its period, even on the fastest CPU.".to_owned(),
                ),
            };
            return Cause {
                kind,
                sentence: missed + &text,
                details,
                decision: None,
                cpu: None,
                better: None,
            };
        };
        let sentence = match cause.sentence.strip_prefix(&format!("{name} ")) {
            Some(rest) => format!("{missed}it {rest}"),
            None => missed + &cause.sentence,
        };
        Cause {
            sentence,
            details: details.into_iter().chain(cause.details).collect(),
            ..cause
        }
    }
}

/// A missed period with the events of its time.
pub struct MissedPeriod {
    /// The period.
    pub missed: Missed,
    /// The events of the period.
    pub period: Period,
}

/// For each of `missed`, the windows that [`super::Chains`] has to observe.
pub fn observed(missed: &[Missed]) -> Vec<Vec<(Wait, Subject)>> {
    let of = |one: &Missed| {
        let (waits, chosen) = period::parts(&one.response);
        windows(&waits, &chosen)
    };
    missed.iter().map(of).collect()
}

impl MissedPeriod {
    /// Combines `missed` with the `chains` of its windows; `None` if the chains belong to another period.
    pub fn new(
        machine: &Machine,
        scheduler: (&str, bool),
        missed: Missed,
        chains: Vec<Chain>,
    ) -> Option<MissedPeriod> {
        let period = Period::new(machine, scheduler, missed.response.clone(), chains)?;
        Some(MissedPeriod { missed, period })
    }

    /// The cause of the miss.
    pub fn cause(&self, machine: &Machine) -> Cause {
        let period = &self.period;
        let response = &self.missed.response;
        // Threads that delayed this thread for a part of the period are not a cause if its work could have been done on
        // another CPU.
        let busy = |cause: &Cause| {
            matches!(
                cause.kind,
                Kind::Nice | Kind::Group | Kind::Busy | Kind::FastCpusBusy
            )
        };
        let better = match period.cause.as_ref().is_some_and(busy) {
            true => cause::left(machine, response, &period.whole, period.decisions),
            false => None,
        };
        self.missed.cause(better.or_else(|| period.cause.clone()))
    }

    /// The table of the events of the largest loss in the period.
    pub fn table(&self, machine: &Machine) -> Table {
        let response = &self.missed.response;
        let late = response.late.as_ref().filter(|_| response.is_late());
        match (&self.period.waited, late) {
            (_, Some(late)) => slow::table(&late.root, machine),
            (Some(waited), None) => chain(waited, self.period.decisions),
            (None, None) => slow::table(response, machine),
        }
    }

    /// The table of [`MissedPeriod::table`], and a table of all events of the period.
    pub fn tables(&self, machine: &Machine) -> Vec<Table> {
        let whole = chain(&self.period.whole, self.period.decisions);
        let whole = Table {
            title: "All of the period".to_owned(),
            ..whole
        };
        vec![self.table(machine), whole]
    }
}
