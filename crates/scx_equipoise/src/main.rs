//! `scx_equipoise`: loads Equipoise's scheduler into Linux through sched_ext, and keeps it there until
//! it is told to stop.

mod cli;
mod cost;
mod error;
mod globals;
mod host;
mod preflight;
mod rapl;
mod schedulers;
mod stats;

use anyhow::Context;
use clap::Parser;
use cli::Opts;
use error::Error;
use libbpf_rs::PrintLevel;
use policy::Policy;
use schedulers::Next;
use scx_utils::build_id;
use std::io::IsTerminal;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const NAME: &str = "scx_equipoise";

fn main() -> ExitCode {
    match run(&Opts::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}

fn run(opts: &Opts) -> Result<(), Error> {
    if opts.version {
        let version = build_id::full_version(env!("CARGO_PKG_VERSION"));
        println!("{NAME} {version}");
        return Ok(());
    }
    if opts.help_stats {
        stats::server_data().describe_meta(&mut std::io::stdout(), None)?;
        return Ok(());
    }
    start_logging(opts.verbose)?;

    let shutdown = Arc::new(AtomicBool::new(false));
    if let Some(seconds) = opts.monitor {
        // It has nothing to clean up, and need not wait for its interval to end.
        on_signal(|| std::process::exit(0))?;
        stats::monitor(Duration::from_secs_f64(seconds), &shutdown)?;
        return Ok(());
    }
    let asked = shutdown.clone();
    on_signal(move || asked.store(true, Ordering::Relaxed))?;

    let policy = Policy::find(&opts.policy)?;
    let described = opts.machine.as_deref().map(host::describe).transpose()?;
    preflight::check(
        Path::new("/sys/kernel/sched_ext"),
        rustix::process::geteuid(),
    )?;
    if let Some(seconds) = opts.stats {
        let shutdown = shutdown.clone();
        thread::spawn(move || {
            if let Err(error) = stats::monitor(Duration::from_secs_f64(seconds), &shutdown) {
                log::warn!("no more statistics: {error:#}");
            }
        });
    }

    let mut object = MaybeUninit::uninit();
    loop {
        let online = host::online()?;
        let machine = host::machine(described.as_ref(), &online)?;
        let run = schedulers::run(&policy);
        let next = run(opts, &policy, &machine, online, &mut object, &shutdown)?;
        if next == Next::Stop || shutdown.load(Ordering::Relaxed) {
            return Ok(());
        }
        log::info!("the CPUs have changed: starting again");
    }
}

/// What to do on SIGINT and SIGTERM.
fn on_signal(act: impl FnMut() + Send + 'static) -> Result<(), Error> {
    Ok(ctrlc::set_handler(act).context("cannot listen for signals")?)
}

/// To standard error, so that statistics can be piped.
fn start_logging(verbose: bool) -> Result<(), Error> {
    use simplelog::{ColorChoice, ConfigBuilder, LevelFilter, TermLogger, TerminalMode};

    let level = if verbose {
        LevelFilter::Debug
    } else {
        LevelFilter::Info
    };
    let config = ConfigBuilder::new()
        .set_time_level(LevelFilter::Off)
        .set_location_level(LevelFilter::Off)
        .set_target_level(LevelFilter::Off)
        .set_thread_level(LevelFilter::Off)
        .build();
    let colors = if std::io::stderr().is_terminal() {
        ColorChoice::Auto
    } else {
        ColorChoice::Never
    };
    TermLogger::init(level, config, TerminalMode::Stderr, colors).context("cannot log")?;
    // libbpf's warnings hold the verifier's log, when that is what is wrong.
    scx_utils::init_libbpf_logging((!verbose).then_some(PrintLevel::Warn));
    Ok(())
}
