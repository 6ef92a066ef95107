//! `objects FOLDER [SOURCES]`: compiles Equipoise's own schedulers into FOLDER, for
//! `EQUIPOISE_OBJECTS=FOLDER`, from this checkout's folder `scheduler` or the folder SOURCES.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let (folder, sources) = match &args[..] {
        [folder] => (folder, None),
        [folder, sources] => (folder, Some(Path::new(sources))),
        _ => {
            eprintln!(
                "objects: expected a folder for the objects, and at most one with the sources"
            );
            return ExitCode::from(2);
        }
    };
    match native::write_own(sources, Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("objects: {error}");
            ExitCode::FAILURE
        }
    }
}
