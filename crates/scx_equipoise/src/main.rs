//! `scx_equipoise`: loads Equipoise's scheduler into Linux through sched_ext, and keeps it there
//! until a signal ends the program or the kernel unloads the scheduler.
//!
//! `preflight.rs` checks the kernel, `scheduler.rs` opens, sets and attaches the BPF object, and `host.rs` describes
//! this computer as a machine. `server.rs` serves the requests of `control.rs` and those for the statistics of
//! `stats.rs`, each through a socket. `callbacks.rs` and `cost.rs` measure the scheduler's costs.
//!
//! ```text
//! scx_equipoise --policy equipoise
//! scx_equipoise set slice_ns=2000000
//! ```

mod callbacks;
mod cli;
mod control;
mod cost;
mod error;
mod explain;
mod globals;
mod governor;
mod group;
mod host;
mod libbpf_log;
mod limits;
mod manual;
mod preflight;
mod profile;
mod schedulers;
mod server;
mod stats;

use anyhow::Context;
use clap::Parser;
use cli::{Command, Opts, Prefer};
use control::{Control, Request};
use error::Error;
use policy::Policy;
use profile::Profile;
use schedulers::Next;
use scx_utils::build_id;
use std::io::IsTerminal;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

const NAME: &str = "scx_equipoise";
const SCHED_EXT: &str = "/sys/kernel/sched_ext";

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
        stats::describe(&mut std::io::stdout())?;
        return Ok(());
    }
    if let Some(command) = &opts.command {
        let request = match command {
            Command::Get { names } => Request::Get(names.clone()),
            Command::Set { changes } => Request::Set(changes.clone()),
            Command::Completions { shell } => return Ok(manual::completions(*shell)?),
            Command::Man => return Ok(manual::page()?),
        };
        print!("{}", control::ask(&request)?);
        return Ok(());
    }
    // The loader sets the modes of its folders and sockets explicitly.
    rustix::process::umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
    start_logging(opts.verbose)?;
    if let Some(seconds) = opts.monitor {
        stats::find_server()?;
        // The monitor has nothing to clean up and need not wait for the end of its interval.
        on_signal(|| std::process::exit(0))?;
        stats::monitor(Duration::from_secs_f64(seconds), || false)?;
        return Ok(());
    }

    if let Some(seconds) = opts.costs {
        let (tell, stop) = mpsc::channel();
        on_signal(move || {
            let _ = tell.send(());
        })?;
        let time = Duration::from_secs_f64(seconds);
        print!(
            "{}",
            callbacks::measure(Path::new(SCHED_EXT), &host::kernel_release(), time, &stop)?
        );
        return Ok(());
    }

    let follows = opts.prefer == Some(Prefer::Auto);
    let mut profile = follows.then(Profile::open).transpose()?;
    let control = Arc::new(Control::new(policy(opts, profile.as_mut())?));
    let asked = control.clone();
    on_signal(move || asked.shut_down())?;
    let described = opts.machine.as_deref().map(host::describe).transpose()?;
    let kernel = preflight::Kernel {
        release: &host::kernel_release(),
        sched_ext: Path::new(SCHED_EXT),
        btf: Path::new("/sys/kernel/btf/vmlinux"),
    };
    preflight::check(&kernel, rustix::process::geteuid())?;
    let _socket = control.serve()?;
    if let Some(profile) = profile {
        profile.follow(control.clone());
    }
    if let Some(seconds) = opts.stats {
        let control = control.clone();
        thread::spawn(move || {
            let interval = Duration::from_secs_f64(seconds);
            if let Err(error) = stats::monitor(interval, || control.is_shut_down()) {
                log::warn!("the statistics ended with an error: {error:#}");
            }
        });
    }

    let mut object = MaybeUninit::uninit();
    loop {
        let policy = control.next_policy();
        let (machine, online) = host::machine(described.as_ref())?;
        let run = schedulers::run(&policy);
        match run(opts, &policy, &machine, online, &mut object, &control) {
            Ok(Next::Stop) => return Ok(()),
            Ok(Next::Restart) if control.is_shut_down() => return Ok(()),
            Ok(Next::Restart) => {
                log::info!("the CPUs or the policy have changed: loading the scheduler again")
            }
            Err(error) if control.failed(&error) => log::warn!("{}: {error:#}", policy.name),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The initial policy.
fn policy(opts: &Opts, profile: Option<&mut Profile>) -> Result<Policy, Error> {
    let policy = Policy::find(&opts.policy)?;
    let preferred = match profile {
        Some(profile) => Some(profile.preference()?),
        None => opts.prefer.and_then(Prefer::word),
    };
    match preferred.map(|word| format!("prefer={word}")) {
        Some(change) => Ok(policy.with([&*change].into_iter())?),
        None => Ok(policy),
    }
}

fn on_signal(act: impl FnMut() + Send + 'static) -> Result<(), Error> {
    Ok(ctrlc::set_handler(act).context("cannot listen for signals")?)
}

/// Logs to standard error, so that statistics can be piped.
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
        // Without this filter, scx_utils lists features of newer kernels at every start.
        .add_filter_ignore_str("scx_utils::compat")
        .build();
    let colors = if std::io::stderr().is_terminal() {
        ColorChoice::Auto
    } else {
        ColorChoice::Never
    };
    TermLogger::init(level, config, TerminalMode::Stderr, colors).context("cannot log")?;
    libbpf_log::keep(verbose);
    Ok(())
}
