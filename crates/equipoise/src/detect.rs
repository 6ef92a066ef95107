//! `equipoise machine detect` and `calibrate`.

use crate::cli::{Calibrate, Detect, Output};
use crate::error::Error;
use crate::output;
use crate::say;
use detect::Found;
use machine::Machine;
use machine::input::{self, BadInput};
use recorder::busy::Watch;
use recorder::{Events, Instance};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// The time for which other load is observed before the measurement.
const IDLE: Duration = Duration::from_millis(500);
/// The number of CPUs kept busy by other processes above which costs are not measured. Costs are medians, which
/// tolerate the interruptions of an idle desktop but not a busy CPU.
const MOST_OTHERS_CPUS: f64 = 0.2;
const MOST_STOLEN_PCT: f64 = 5.0;
/// The size, in KiB, of each CPU's buffer for a trace that has no reader.
const TRACED_KB: u32 = 1024;

pub fn run(args: Detect, output: &Output) -> Result<(), Error> {
    write(find(&args)?, &args.name, output)
}

pub fn calibrate(args: &Calibrate, output: &Output) -> Result<(), Error> {
    write(measured(args.traced, args.force)?, &args.name, output)
}

/// Detects this computer and measures its costs, `traced` while events are recorded. It is an error if other processes
/// keep the computer busy, unless `force` is set.
pub fn measured(traced: bool, force: bool) -> Result<Found, Error> {
    let mut found = this()?;
    let watch = Watch::begin().filter(|_| !force);
    if let Some(watch) = &watch {
        sleep(IDLE);
        refuse_others(watch)?;
    }
    let instance = traced
        .then(|| Instance::new(TRACED_KB, Events::All, false, false))
        .transpose();
    let instance = instance.map_err(|error| Error::Write(format!("cannot trace: {error}")))?;
    let cannot = |error| Error::Write(format!("cannot calibrate: {error}"));
    if let Some(instance) = &instance {
        instance.switch(true).map_err(cannot)?;
    }
    detect::calibrate(&mut found).map_err(cannot)?;
    drop(instance);
    if let Some(watch) = &watch {
        refuse_others(watch)?;
    }
    Ok(found)
}

fn refuse_others(watch: &Watch) -> Result<(), Error> {
    let Some(others) = watch.others(None) else {
        return Ok(());
    };
    match others.cpus > MOST_OTHERS_CPUS || others.stolen_pct > MOST_STOLEN_PCT {
        false => Ok(()),
        true => Err(Error::Input(Box::new(BadInput::whole(
            format!("this computer is busy: {}", others.words()),
            "expected an idle computer, because other load makes the costs too large; --force measures anyway",
        )))),
    }
}

/// Writes a machine file, and prints warnings on standard error.
fn write(found: Found, name: &str, output: &Output) -> Result<(), Error> {
    let source = format!("the machine file from {}", found.source);
    let file = found.machine_file(name);
    // Refuse a text that the parser would refuse: a name may be invalid, or a value impossible.
    let machine = Machine::parse(&source, &file.text)?;
    for warning in file.warnings.iter().chain(&machine.warnings) {
        say!("warning: {warning}");
    }
    output::write_text(output, &format!("{name}.toml"), &file.text)
}

fn find(args: &Detect) -> Result<Found, Error> {
    if let Some(file) = &args.hwloc {
        let text = input::read(file, "hwloc XML file")?;
        return Ok(detect::hwloc(&input::shown(file), &text)?);
    }
    if let Some(file) = &args.dtb {
        let blob = input::read_bytes(file, "device tree blob")?;
        return Ok(detect::device_tree(&input::shown(file), &blob)?);
    }
    match &args.sysfs {
        Some(folder) => sysfs(folder),
        None => this(),
    }
}

pub fn this() -> Result<Found, Error> {
    let mut found = sysfs(Path::new("/sys"))?;
    found.add_running_kernel();
    Ok(found)
}

fn sysfs(folder: &Path) -> Result<Found, Error> {
    detect::sysfs(folder).map_err(|message| {
        let message = format!("{}: no machine: {message}", folder.display());
        Error::Input(Box::new(BadInput::whole(
            message,
            "expected /sys, a copy of it, an archive of a copy, or a /proc/cpuinfo",
        )))
    })
}
