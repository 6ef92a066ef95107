//! Statistics over scx_stats: the scheduler's activity between two requests, and the scheduler's costs.

use crate::NAME;
use crate::cost::{Cost, Measuring};
use crate::server::{self, Access, Answer, Service, Socket};
use anyhow::{Result, bail};
use crossbeam::channel::{Receiver, Sender, unbounded};
use policy::Counters;
use rustix::io::Errno;
use scx_stats::prelude::*;
use scx_stats_derive::{Stats, stat_doc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The path where clients of scx_stats look for the loaded scheduler.
const SOCKET: &str = "/run/scx/root/stats";

#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// The scheduler's own counters.
    pub counters: Counters,
    /// The costs of the callbacks, as counted by the kernel.
    pub callbacks: BTreeMap<String, Cost>,
    /// The energy that the machine has measured, by RAPL domain.
    pub energy: BTreeMap<String, detect::EnergyCounter>,
}

/// The activity of one callback in an interval.
#[stat_doc]
#[derive(Clone, Debug, Default, Serialize, Deserialize, Stats)]
pub struct Callback {
    #[stat(desc = "Calls of the callback")]
    pub calls: u64,
    #[stat(desc = "Average time in the callback, ns per call")]
    pub ns_per_call: f64,
}

macro_rules! metrics {
    ($(COUNTER($name:ident, $label:tt, $what:tt))*) => {
        /// The activity in an interval.
        #[stat_doc]
        #[derive(Clone, Debug, Default, Serialize, Deserialize, Stats)]
        #[stat(top)]
        pub struct Metrics {
            $(#[stat(desc = $what)] pub $name: u64,)*
            #[stat(desc = "Energy by RAPL domain, uJ; empty if the machine does not measure it")]
            pub energy_uj: BTreeMap<String, u64>,
            #[stat(desc = "Average of the requested frequencies; 1024 is the highest of the largest CPU")]
            pub frequency_request: f64,
            #[stat(desc = "The cost of the BPF programs, by callback")]
            pub callbacks: BTreeMap<String, Callback>,
        }

        impl Metrics {
            /// The counts from `a` to `b`; other fields are empty.
            fn counted(a: &Counters, b: &Counters) -> Metrics {
                Metrics {
                    $($name: b.$name - a.$name,)*
                    ..Metrics::default()
                }
            }

            fn format_counted(&self, out: &mut impl Write) -> std::io::Result<()> {
                $(if self.$name > 0 {
                    write!(out, " {}={}", $label, self.$name)?;
                })*
                Ok(())
            }
        }
    };
}
policy::with_counters!(metrics);

impl Metrics {
    /// The activity from `before` to `after`.
    fn between(before: &Totals, after: &Totals) -> Metrics {
        let counted = Metrics::counted(&before.counters, &after.counters);
        Metrics {
            energy_uj: after
                .energy
                .iter()
                .filter_map(|(name, &now)| {
                    let then = *before.energy.get(name)?;
                    Some((name.clone(), now.since(then)))
                })
                .collect(),
            frequency_request: counted.frequency_requested as f64
                / counted.frequency_requests.max(1) as f64,
            callbacks: after
                .callbacks
                .iter()
                .map(|(name, now)| {
                    let then = before.callbacks.get(name).copied().unwrap_or_default();
                    let Cost { calls, ns } = now.since(then);
                    let ns_per_call = ns as f64 / calls.max(1) as f64;
                    (name.clone(), Callback { calls, ns_per_call })
                })
                .collect(),
            ..counted
        }
    }

    fn format(&self, out: &mut impl Write) -> Result<()> {
        write!(out, "[{NAME}]")?;
        self.format_counted(out)?;
        if self.frequency_requests > 0 {
            write!(out, " freq_request={:.0}", self.frequency_request)?;
        }
        writeln!(out)?;
        if !self.energy_uj.is_empty() {
            write!(out, "[{NAME}] energy:")?;
            for (name, &uj) in &self.energy_uj {
                write!(out, " {name}={:.3} J", uj as f64 / 1e6)?;
            }
            writeln!(out)?;
        }
        write!(out, "[{NAME}] ns/call (calls):")?;
        for (name, callback) in self.callbacks.iter().filter(|(_, c)| c.calls > 0) {
            write!(
                out,
                " {name}={:.0} ({})",
                callback.ns_per_call, callback.calls
            )?;
        }
        writeln!(out)?;
        out.flush()?;
        Ok(())
    }
}

pub fn describe(out: &mut impl Write) -> Result<()> {
    StatsServerData::<(), ()>::new()
        .add_meta(Callback::meta())
        .add_meta(Metrics::meta())
        .describe_meta(out, None)
}

pub struct Server {
    _socket: Socket,
    requests: Receiver<()>,
    answers: Sender<Totals>,
}

impl Server {
    /// Serves clients of scx_stats. `access` restricts them, because a client makes the kernel
    /// measure all BPF programs, which has a cost.
    pub fn start(access: Access) -> Result<Server> {
        Server::start_at(Path::new(SOCKET), access)
    }

    pub fn start_at(path: &Path, access: Access) -> Result<Server> {
        let (asking, requests) = unbounded();
        let (answers, answered) = unbounded();
        let statistics = Statistics {
            requests: asking,
            answers: answered,
            measuring: Weak::new(),
        };
        Ok(Server {
            _socket: server::serve(path, access, statistics)?,
            requests,
            answers,
        })
    }

    /// The channels for totals and for requests of totals. Each request gets one message with totals.
    pub fn channels(&self) -> (Sender<Totals>, Receiver<()>) {
        (self.answers.clone(), self.requests.clone())
    }
}

struct Statistics {
    requests: Sender<()>,
    answers: Receiver<Totals>,
    /// The measurement that all clients that have requested statistics share.
    measuring: Weak<Measuring>,
}

/// The last answer to a client.
struct Session {
    totals: Totals,
    measuring: Arc<Measuring>,
}

impl Service for Statistics {
    type Memory = Option<Session>;

    fn reply(&mut self, session: &mut Option<Session>, _: bool, line: &[u8]) -> Result<Answer> {
        let (errno, resp) = match self.resp(session, line) {
            Ok(resp) => (0, resp),
            Err(error) => (Errno::INVAL.raw_os_error(), format!("{error:#}").into()),
        };
        let args = [("resp".to_owned(), resp)].into();
        Ok(Answer::Now(server::line(&StatsResponse { errno, args })?))
    }
}

impl Statistics {
    fn resp(&mut self, session: &mut Option<Session>, line: &[u8]) -> Result<Value> {
        let request: StatsRequest = serde_json::from_slice(line)?;
        let target = request.args.get("target").map_or("top", |target| target);
        match (&*request.req, target) {
            ("stats", "top") => self.interval(session)?.to_json(),
            ("stats", target) => bail!("unknown target {target:?}: expected \"top\""),
            ("stats_meta", _) => {
                let all = [Callback::meta(), Metrics::meta()];
                let by_name = all.into_iter().map(|meta| (meta.name.clone(), meta));
                Ok(serde_json::to_value(by_name.collect::<BTreeMap<_, _>>())?)
            }
            (other, _) => {
                bail!("unknown request {other:?}: expected \"stats\" or \"stats_meta\"")
            }
        }
    }

    /// The activity since the client's last request. The kernel measures callbacks only while there
    /// is a client.
    fn interval(&mut self, session: &mut Option<Session>) -> Result<Metrics> {
        let before = match session.take() {
            Some(before) => before,
            None => Session {
                measuring: self.measure()?,
                totals: self.totals()?,
            },
        };
        let totals = self.totals()?;
        let metrics = Metrics::between(&before.totals, &totals);
        *session = Some(Session {
            totals,
            measuring: before.measuring,
        });
        Ok(metrics)
    }

    fn measure(&mut self) -> Result<Arc<Measuring>> {
        if let Some(measuring) = self.measuring.upgrade() {
            return Ok(measuring);
        }
        let measuring = Arc::new(Measuring::start()?);
        self.measuring = Arc::downgrade(&measuring);
        Ok(measuring)
    }

    fn totals(&self) -> Result<Totals> {
        self.requests.send(())?;
        Ok(self.answers.recv()?)
    }
}

/// Returns an error if no scheduler serves statistics to this user.
pub fn find_server() -> Result<()> {
    server::connect(Path::new(SOCKET))
        .map(drop)
        .map_err(|error| {
            let is_denied =
                error.downcast_ref().map(io::Error::kind) == Some(ErrorKind::PermissionDenied);
            if is_denied {
                error.context(
                    "statistics require root or membership in the group that --stats-group names",
                )
            } else {
                error
            }
        })
}

/// Prints statistics, as a client, every `interval` until `is_over` returns true.
pub fn monitor(interval: Duration, is_over: impl Fn() -> bool) -> Result<()> {
    scx_utils::monitor_stats::<Metrics>(&[], interval, is_over, |metrics| {
        metrics.format(&mut std::io::stdout().lock())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(pulled: u64, calls: u64, ns: u64) -> Totals {
        let energy = detect::EnergyCounter {
            uj: 1_000_000 * calls,
            range_uj: u64::MAX,
        };
        Totals {
            counters: Counters {
                pulled,
                ..Counters::default()
            },
            callbacks: [("enqueue".to_owned(), Cost { calls, ns })].into(),
            energy: [("package-0".to_owned(), energy)].into(),
        }
    }

    #[test]
    fn an_interval_is_the_difference_of_totals() {
        let metrics = Metrics::between(&totals(3, 10, 5_000), &totals(7, 30, 15_000));
        assert_eq!(metrics.pulled, 4);
        assert_eq!(metrics.callbacks["enqueue"].calls, 20);
        assert_eq!(metrics.callbacks["enqueue"].ns_per_call, 500.0);
        assert_eq!(metrics.energy_uj["package-0"], 20_000_000);
        let mut text = Vec::new();
        metrics.format(&mut text).unwrap();
        assert!(
            String::from_utf8(text)
                .unwrap()
                .contains(" package-0=20.000 J\n")
        );
    }

    #[test]
    fn callbacks_without_calls_are_not_shown() {
        let mut text = Vec::new();
        let metrics = Metrics::between(&totals(0, 10, 5_000), &totals(0, 10, 5_000));
        metrics.format(&mut text).unwrap();
        assert!(!String::from_utf8(text).unwrap().contains("enqueue"));
    }

    #[test]
    fn a_client_of_scx_stats_is_answered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root/stats");
        let server = Server::start_at(&path, Access::Root).unwrap();
        let mut client = StatsClient::new().set_path(&path).connect(None).unwrap();
        let meta: BTreeMap<String, StatsMeta> = client.request("stats_meta", vec![]).unwrap();
        assert!(meta["Metrics"].fields.contains_key("misfit_moves"));
        for (request, target) in [("stats", "bottom"), ("stop", "top")] {
            let target = vec![("target".to_owned(), target.to_owned())];
            let error = client.request::<Value>(request, target).unwrap_err();
            assert!(format!("{error:#}").contains("expected"), "{error:#}");
        }
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn a_client_gets_what_happened_since_it_last_asked() {
        let (asking, requests) = unbounded();
        let (answers, answered) = unbounded();
        let measuring = Arc::new(Measuring::nothing());
        let mut statistics = Statistics {
            requests: asking,
            answers: answered,
            measuring: Arc::downgrade(&measuring),
        };
        for pulled in [5, 7, 10] {
            answers.send(totals(pulled, 0, 0)).unwrap();
        }
        let mut session = None;
        for expected in [2, 3] {
            let metrics = statistics.interval(&mut session).unwrap();
            assert_eq!(metrics.pulled, expected);
        }
        assert_eq!(requests.len(), 3);
    }

    #[test]
    fn every_statistic_is_described() {
        let mut text = Vec::new();
        describe(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("misfit_moves") && text.contains("ns_per_call"),
            "{text}"
        );
    }
}
