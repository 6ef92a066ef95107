//! Statistics over scx_stats: what the scheduler did between two requests, and what it cost.

use crate::NAME;
use crate::cost::{Cost, Measuring};
use crate::rapl;
use anyhow::{Context, Result, bail};
use policy::Counters;
use scx_stats::prelude::*;
use scx_stats_derive::{Stats, stat_doc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Where clients of scx_stats look for the scheduler that is loaded.
const SOCKET: &str = "/var/run/scx/root/stats";

/// All since the scheduler was loaded; where it is known.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// What it counts itself.
    pub counters: Counters,
    /// What the kernel counts, by callback.
    pub callbacks: BTreeMap<String, Cost>,
    /// What the machine measures, by RAPL domain.
    pub energy: BTreeMap<String, rapl::Counter>,
}

/// What one callback did in an interval.
#[stat_doc]
#[derive(Clone, Debug, Default, Serialize, Deserialize, Stats)]
pub struct Callback {
    #[stat(desc = "Calls of the callback")]
    pub calls: u64,
    #[stat(desc = "Average time in the callback, ns a call")]
    pub ns_per_call: f64,
}

macro_rules! metrics {
    ($(COUNTER($name:ident, $label:tt, $what:tt))*) => {
        /// What happened in an interval.
        #[stat_doc]
        #[derive(Clone, Debug, Default, Serialize, Deserialize, Stats)]
        #[stat(top)]
        pub struct Metrics {
            $(#[stat(desc = $what)] pub $name: u64,)*
            #[stat(desc = "Energy by RAPL domain, uJ; none where the machine does not measure it")]
            pub energy_uj: BTreeMap<String, u64>,
            #[stat(desc = "What frequencies asked for were on average, of 1024 for the highest of the largest CPU")]
            pub frequency_request: f64,
            #[stat(desc = "The BPF side's cost, by callback")]
            pub callbacks: BTreeMap<String, Callback>,
        }

        impl Metrics {
            /// What was counted from `a` to `b`; nothing else is filled in.
            fn counted(a: &Counters, b: &Counters) -> Metrics {
                Metrics {
                    $($name: b.$name - a.$name,)*
                    ..Metrics::default()
                }
            }

            /// `LABEL=COUNT` for each that this scheduler counts, as far as is known: what has not happened is not told.
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
    /// What happened from `before` to `after`.
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
                    let calls = now.calls - then.calls;
                    let ns_per_call = (now.ns - then.ns) as f64 / calls.max(1) as f64;
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

/// The server's side: a client gets what happened since it last asked. The kernel measures callbacks
/// only while there is a client.
pub fn server_data() -> StatsServerData<(), Totals> {
    let open: Box<dyn StatsOpener<(), Totals>> = Box::new(move |(requests, answers)| {
        let measuring = Measuring::start()?;
        requests.send(())?;
        let mut before = answers.recv()?;
        let read: Box<dyn StatsReader<(), Totals>> = Box::new(move |_, (requests, answers)| {
            let _ = &measuring;
            requests.send(())?;
            let after = answers.recv()?;
            let metrics = Metrics::between(&before, &after);
            before = after;
            metrics.to_json()
        });
        Ok(read)
    });
    StatsServerData::new()
        .add_meta(Callback::meta())
        .add_meta(Metrics::meta())
        .add_ops("top", StatsOps { open, close: None })
}

/// Serves them to anybody, as the control socket does: a client changes nothing. The server's own socket is its user's
/// alone.
pub fn serve() -> Result<StatsServer<(), Totals>> {
    let server = StatsServer::new(server_data())
        .set_path(SOCKET)
        .launch()
        .context("cannot serve statistics")?;
    fs::set_permissions(SOCKET, Permissions::from_mode(0o666))
        .with_context(|| format!("cannot let everybody read {SOCKET}"))?;
    Ok(server)
}

/// An error if no scheduler serves statistics.
pub fn find_server() -> Result<()> {
    match UnixStream::connect(SOCKET) {
        Ok(_) => Ok(()),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            bail!("no scheduler serves statistics at {SOCKET}: start scx_equipoise first")
        }
        Err(error) => Err(error).with_context(|| format!("cannot reach {SOCKET}")),
    }
}

/// The client's side: prints statistics every `interval` until it `is_over`.
pub fn monitor(interval: Duration, is_over: impl Fn() -> bool) -> Result<()> {
    scx_utils::monitor_stats::<Metrics>(&[], interval, is_over, |metrics| {
        metrics.format(&mut std::io::stdout().lock())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(pulled: u64, calls: u64, ns: u64) -> Totals {
        let energy = rapl::Counter {
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
    fn what_was_not_called_is_not_shown() {
        let mut text = Vec::new();
        let metrics = Metrics::between(&totals(0, 10, 5_000), &totals(0, 10, 5_000));
        metrics.format(&mut text).unwrap();
        assert!(!String::from_utf8(text).unwrap().contains("enqueue"));
    }

    #[test]
    fn every_statistic_is_described() {
        let mut text = Vec::new();
        server_data().describe_meta(&mut text, None).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("misfit_moves") && text.contains("ns_per_call"),
            "{text}"
        );
    }
}
