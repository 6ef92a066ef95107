//! One response of a thread in a run: a period, which is compared with the same one of another run.

use super::cause::{self, Cause};
use super::chain::Chain;
use super::response::{Chosen, Response};
use super::wait::Wait;
use machine::Machine;
use std::collections::BTreeMap;

/// Chooses a response for each thread, and then one of them.
pub struct Pick {
    near: Option<u64>,
    best: BTreeMap<String, Response>,
}

impl Pick {
    /// See [`super::Responses::picking`].
    pub fn new(near: Option<u64>) -> Pick {
        Pick {
            near,
            best: BTreeMap::new(),
        }
    }

    /// Smaller is better: the distance from the time, or the time that was not lost.
    fn rank(&self, response: &Response) -> (u64, u64) {
        match self.near {
            Some(at) => {
                let outside = response.from.saturating_sub(at) + at.saturating_sub(response.to);
                (outside, response.from.abs_diff(at))
            }
            None => (u64::MAX - response.lost_ns(), response.from),
        }
    }

    /// Is it better than the best so far?
    pub fn wants(&self, response: &Response) -> bool {
        let best = self.best.get(&response.name);
        best.is_none_or(|best| self.rank(response) < self.rank(best))
    }

    /// Keeps this response as the best so far.
    pub fn keep(&mut self, response: Response) {
        self.best.insert(response.name.clone(), response);
    }

    /// The best response among the `wanted` threads.
    pub fn best(self, wanted: impl Fn(&Response) -> bool) -> Option<Response> {
        let Pick { near, mut best } = self;
        best.retain(|_, response| wanted(response));
        let rank = Pick::new(near);
        best.into_values().min_by_key(|one| rank.rank(one))
    }
}

/// A period under a scheduler, with its decisions and the cause of what it lost.
pub struct Period {
    /// The scheduler's name.
    pub policy: String,
    /// Does the scheduler record its decisions?
    pub decisions: bool,
    /// The response, from the wakeup until the thread slept.
    pub response: Response,
    /// The events of all that time.
    pub whole: Chain,
    /// The events of the longest wait, unless it ran slowly for longer than it waited.
    pub waited: Option<Chain>,
    /// The cause of what it lost; `None` if it lost nothing.
    pub cause: Option<Cause>,
}

/// The waits and responses that [`super::windows`] has to observe for [`Period::new`].
pub fn parts(response: &Response) -> (Vec<Wait>, Chosen) {
    let waited = response.longest.iter().filter(|_| !response.is_slow());
    let late = response.is_late() && response.late.is_some();
    let chosen = Chosen {
        slow: vec![response.clone()],
        late: late.then(|| response.clone()).into_iter().collect(),
        ..Chosen::default()
    };
    (waited.cloned().collect(), chosen)
}

impl Period {
    /// Combines `response` with the `chains` of its [`parts`]; `None` if they belong to another
    /// response.
    pub fn new(
        machine: &Machine,
        (policy, decisions): (&str, bool),
        response: Response,
        chains: Vec<Chain>,
    ) -> Option<Period> {
        let mut chains = chains.into_iter();
        let has_waited = response.longest.is_some() && !response.is_slow();
        let waited = has_waited.then(|| chains.next()).flatten();
        let whole = chains.next()?;
        let cause = match (&response.late, chains.next(), &waited) {
            (Some(late), Some(chain), _) => {
                let of_root = match late.root.is_slow() {
                    true => cause::slow(machine, &late.root, &chain, decisions),
                    false => cause::waited(machine, &chain, decisions),
                };
                Some(cause::late(&response, &of_root))
            }
            (_, _, Some(chain)) => Some(cause::waited(machine, chain, decisions)),
            _ if response.is_slow() => Some(cause::slow(machine, &response, &whole, decisions)),
            _ => None,
        };
        Some(Period {
            policy: policy.to_owned(),
            decisions,
            response,
            whole,
            waited,
            cause,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(name: &str, from: u64, to: u64) -> Response {
        let mut response = Response::default();
        response.name.push_str(name);
        (response.from, response.to) = (from, to);
        response
    }

    fn picked(near: Option<u64>, of: &[(&str, u64, u64)], wanted: &str) -> (u64, u64) {
        let mut pick = Pick::new(near);
        for &(name, from, to) in of {
            let response = response(name, from, to);
            if pick.wants(&response) {
                pick.keep(response);
            }
        }
        let best = pick.best(|response| response.name == wanted).unwrap();
        (best.from, best.to)
    }

    #[test]
    fn the_period_around_a_time_is_picked_or_the_nearest_or_the_worst() {
        let of = [
            ("ui", 10, 14),
            ("ui", 20, 29),
            ("ui", 40, 45),
            ("batch", 0, 90),
        ];
        assert_eq!(picked(None, &of, "ui"), (20, 29));
        assert_eq!(picked(Some(43), &of, "ui"), (40, 45));
        assert_eq!(picked(Some(16), &of, "ui"), (10, 14));
        assert_eq!(picked(Some(16), &of, "batch"), (0, 90));
    }
}
