//! Chooses a response for each thread, and then one of these responses.

use super::Response;
use std::collections::BTreeMap;

pub struct Pick {
    near: Option<u64>,
    best: BTreeMap<String, Response>,
}

impl Pick {
    /// Chooses by the time `near`; see [`super::Responses::picking`].
    pub fn new(near: Option<u64>) -> Pick {
        Pick {
            near,
            best: BTreeMap::new(),
        }
    }

    /// The rank of a response, where smaller is better: the distance from the time `near`, or, without such a time, the
    /// time that was not lost.
    fn rank(&self, response: &Response) -> (u64, u64) {
        match self.near {
            Some(at) => {
                let outside = response.from.saturating_sub(at) + at.saturating_sub(response.to);
                (outside, response.from.abs_diff(at))
            }
            None => (u64::MAX - response.lost_ns(), response.from),
        }
    }

    /// Is `response` better than the best response of its thread so far?
    pub fn wants(&self, response: &Response) -> bool {
        let best = self.best.get(&response.name);
        best.is_none_or(|best| self.rank(response) < self.rank(best))
    }

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
