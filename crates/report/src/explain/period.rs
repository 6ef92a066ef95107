//! One response of a thread, as a period that can be compared with the same period of another run.

use super::cause::{self, Cause};
use super::chain::Chain;
use super::response::{Chosen, Response};
use super::wait::Wait;
use machine::Machine;

/// A period under a scheduler, with its decisions and the cause of the time lost.
pub struct Period {
    /// The scheduler's name.
    pub policy: String,
    /// Does the scheduler record its decisions?
    pub decisions: bool,
    /// The response, from the wakeup until the thread slept, or its part that is a period.
    pub response: Response,
    /// The events of the whole response.
    pub whole: Chain,
    /// The events of the longest wait, unless the thread lost more time by running slowly than by waiting.
    pub waited: Option<Chain>,
    /// The cause of the loss; `None` if the response lost nothing.
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
    /// Combines `response` with the `chains` of its [`parts`]; `None` if the chains belong to another response.
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
