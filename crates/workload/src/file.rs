//! Workloads in files: an rt-app file or a recording.

use crate::params::Args;
use crate::recording::{self, Recording, Replay};
use crate::rtapp::{self, RtApp};
use crate::{Placement, Workload};
use machine::input::BadInput;

/// Parses the workload `name` from `text`, the content of `file`: an rt-app file, with parameters, or a recorded load.
/// Both also take the parameters of a [`Placement`].
pub fn parse(
    name: &str,
    file: &str,
    text: &str,
    params: Option<&str>,
) -> Result<Box<dyn Workload>, Box<BadInput>> {
    if let (Some(placement), rest) = Placement::read(file, params)? {
        let load = parse(name, file, text, rest.as_deref())?;
        let name = format!("{name}:{}", params.unwrap_or_default());
        return Ok(placement.around(&name, load));
    }
    if recording::is_recording(text) {
        Args::read(file, &[], params)?;
        return Ok(Box::new(Replay::new(name, Recording::parse(file, text)?)));
    }
    let duration = Args::read(file, rtapp::PARAMS, params)?.given("duration");
    Ok(Box::new(RtApp::parse(name, file, text, duration)?))
}
