//! `equipoise machine detect`.

use crate::cli::{Detect, Output};
use crate::error::Error;
use crate::output;
use detect::Found;
use machine::Machine;
use machine::input::{self, BadInput};
use std::path::Path;

/// Writes a machine file, and says on standard error what a person should know about it.
pub fn run(args: Detect, output: &Output) -> Result<(), Error> {
    let found = find(&args)?;
    let file = found.machine_file(&args.name);
    // What the reader does not take is no machine file: a name that does not fit, or what no machine has.
    let machine = Machine::parse(&format!("{}.toml", args.name), &file.text)?;
    for warning in file.warnings.iter().chain(&machine.warnings) {
        eprintln!("warning: {warning}");
    }
    output::write_text(output, &format!("{}.toml", args.name), &file.text)
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

/// The machine that this is.
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
