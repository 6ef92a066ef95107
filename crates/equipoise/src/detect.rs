//! `equipoise machine detect`.

use crate::cli::{Calibrate, Detect, Output};
use crate::error::Error;
use crate::output;
use crate::tracefs::Instance;
use detect::Found;
use machine::Machine;
use machine::input::{self, BadInput};
use std::path::Path;

/// The buffer of a trace that has no reader, KiB for each CPU.
const TRACED_KB: u32 = 1024;

/// Detects a machine.
pub fn run(args: Detect, output: &Output) -> Result<(), Error> {
    write(find(&args)?, &args.name, output)
}

/// Detects this computer, and measures costs.
pub fn calibrate(args: &Calibrate, output: &Output) -> Result<(), Error> {
    let mut found = this()?;
    let instance = args
        .traced
        .then(|| Instance::new(TRACED_KB, false))
        .transpose();
    let instance = instance.map_err(|error| Error::Write(format!("cannot trace: {error}")))?;
    let cannot = |error| Error::Write(format!("cannot calibrate: {error}"));
    if let Some(instance) = &instance {
        instance.switch(true).map_err(cannot)?;
    }
    detect::calibrate(&mut found).map_err(cannot)?;
    drop(instance);
    write(found, &args.name, output)
}

/// Writes a machine file, and prints warnings on standard error.
fn write(found: Found, name: &str, output: &Output) -> Result<(), Error> {
    let file = found.machine_file(name);
    // A text that the parser refuses is not a machine file: a name may be invalid, or a value
    // impossible.
    let machine = Machine::parse(&format!("{name}.toml"), &file.text)?;
    for warning in file.warnings.iter().chain(&machine.warnings) {
        eprintln!("warning: {warning}");
    }
    output::write_text(output, &format!("{name}.toml"), &file.text)
}

fn find(args: &Detect) -> Result<Found, Error> {
    if let Some(file) = &args.hwloc {
        let text = input::read(file, "hwloc XML file")?;
        return Ok(detect::hwloc(&file.to_string_lossy(), &text)?);
    }
    if let Some(file) = &args.dtb {
        let blob = input::read_bytes(file, "device tree blob")?;
        return Ok(detect::device_tree(&file.to_string_lossy(), &blob)?);
    }
    match &args.sysfs {
        Some(folder) => sysfs(folder),
        None => this(),
    }
}

/// This computer.
pub fn this() -> Result<Found, Error> {
    let mut found = sysfs(Path::new("/sys"))?;
    found.hz = Some(detect::tick_hz());
    Ok(found)
}

fn sysfs(folder: &Path) -> Result<Found, Error> {
    detect::sysfs(folder).map_err(|message| {
        let message = format!("{}: no machine: {message}", folder.display());
        Error::Input(Box::new(BadInput::whole(
            message,
            "expected /sys or a copy of it",
        )))
    })
}
