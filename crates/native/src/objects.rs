//! The objects of Equipoise's own schedulers: their origin, and the folder in which a developer can replace them.

use crate::cache::Cache;
use crate::own::Own;
use crate::{Error, Kernel, Object};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The objects that the program contains, in the order of [`Own::all`]. A program that is not optimized contains none.
const EMBEDDED: &[&[u8]] = include!(concat!(env!("OUT_DIR"), "/images.rs"));

/// The environment variable with the folder whose objects replace those that the program contains.
const FOLDER: &str = "EQUIPOISE_OBJECTS";

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scheduler");

impl Object {
    /// Equipoise's own scheduler `name` ([`crate::SCHEDULERS`]) for the newest kernel.
    pub fn own(name: &str) -> Result<&'static Object, Error> {
        Object::own_in(name, Kernel::default())
    }

    /// Equipoise's own scheduler `name` for `kernel`.
    pub fn own_in(name: &str, kernel: Kernel) -> Result<&'static Object, Error> {
        find(name, kernel, false)
    }

    /// The scheduler of [`Object::own_in`], compiled to record the reasons for its decisions
    /// (`scheduler/explain.bpf.h`). The decisions are the same. Recording costs real time, but no simulated time.
    pub fn explaining_in(name: &str, kernel: Kernel) -> Result<&'static Object, Error> {
        find(name, kernel, true)
    }
}

/// Compiles the objects of Equipoise's own schedulers from the folder `sources` (default: this checkout's) into
/// `folder`, which `EQUIPOISE_OBJECTS` can then name. `scheduler` in that folder is a link to the sources. If a
/// scheduler does not compile, nothing is written.
pub fn write_own(sources: Option<&Path>, folder: &Path) -> Result<(), Error> {
    let sources = sources.unwrap_or(Path::new(SOURCES));
    let objects: Vec<(Own, Vec<u8>)> = std::thread::scope(|scope| {
        let running: Vec<_> = Own::all()
            .map(|own| (own, scope.spawn(move || compile(own, sources))))
            .collect();
        let compiled = running.into_iter().map(|(own, thread)| {
            let object = thread.join().expect("a compilation does not panic")?;
            Ok((own, object))
        });
        compiled.collect::<Result<_, Error>>()
    })?;
    let failed = |path: &Path, error: io::Error| Error(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    // Each file is replaced atomically, because a program may be about to read it.
    let place = |name: &str, make: &dyn Fn(&Path) -> io::Result<()>| {
        let (path, new) = (folder.join(name), folder.join(format!("{name}.new")));
        let _ = std::fs::remove_file(&new);
        make(&new)
            .and_then(|()| std::fs::rename(&new, &path))
            .map_err(|error| failed(&path, error))
    };
    for (own, object) in &objects {
        place(&own.file(), &|new| std::fs::write(new, object))?;
    }
    let sources = sources
        .canonicalize()
        .map_err(|error| failed(sources, error))?;
    place("scheduler", &|new| {
        std::os::unix::fs::symlink(&sources, new)
    })
}

/// The object of the scheduler `name` for `kernel`, which is read only once.
fn find(name: &str, kernel: Kernel, explains: bool) -> Result<&'static Object, Error> {
    static OBJECTS: Mutex<BTreeMap<(Own, Kernel), &'static Object>> = Mutex::new(BTreeMap::new());
    let (index, own) = Own::all()
        .enumerate()
        .find(|(_, own)| own.name == name && own.explains == explains)
        .ok_or_else(|| Error(format!("no scheduler has the name `{name}`")))?;
    let mut objects = OBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(object) = objects.get(&(own, kernel)) {
        return Ok(object);
    }
    let object = load(index, own)?
        .in_kernel(kernel)
        .in_fair_class(own.folder.starts_with("linux/"));
    let object: &'static Object = Box::leak(Box::new(object));
    objects.insert((own, kernel), object);
    Ok(object)
}

/// Reads object number `index`, from [`FOLDER`] if that is set, otherwise from this program. If the program contains no
/// objects, compiles the object.
fn load(index: usize, own: Own) -> Result<Object, Error> {
    let source = format!("scheduler/{}/main.bpf.c", own.folder);
    if let Some(folder) = std::env::var_os(FOLDER) {
        let path = PathBuf::from(folder).join(own.file());
        let of_folder = |error: &dyn std::fmt::Display| {
            Error(format!(
                "{FOLDER}: {}: {error}; `make objects` compiles the schedulers' objects",
                path.display()
            ))
        };
        let image = std::fs::read(&path).map_err(|error| of_folder(&error))?;
        return Object::parse(&source, image).map_err(|error| of_folder(&error));
    }
    // The compiler drops the other branch, so that no folder's name gets into an optimized program.
    match EMBEDDED.is_empty() {
        true => Object::parse(&source, compile(own, Path::new(SOURCES))?),
        false => Object::parse(&source, EMBEDDED[index].to_vec()),
    }
}

/// The object, compiled from the folder `sources` or taken from the user's cache.
fn compile(own: Own, sources: &Path) -> Result<Vec<u8>, Error> {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let work =
        cage::Folder::new().map_err(|error| Error(format!("no temporary folder: {error}")))?;
    own.compile(sources, &include, |call| {
        Cache::of_user().compile(call, work.path())
    })
    .map_err(Error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SCHEDULERS;

    /// Writes sources of schedulers that do nothing and contain `line`.
    fn write_sources(folder: &Path, line: &str) {
        for (name, of_name) in SCHEDULERS {
            let folder = folder.join(of_name);
            std::fs::create_dir_all(&folder).unwrap();
            let text = format!(
                "#include <scx/common.bpf.h>\n{line}\nSCX_OPS_DEFINE(ops, .name = \"{name}\");\n"
            );
            std::fs::write(folder.join("main.bpf.c"), text).unwrap();
        }
    }

    #[test]
    fn a_folder_has_both_objects_of_each_scheduler_or_what_it_had() {
        let work = tempfile::tempdir().unwrap();
        let (sources, folder) = (work.path().join("sources"), work.path().join("objects"));
        let objects = || -> Vec<Vec<u8>> {
            let read = |own: Own| std::fs::read(folder.join(own.file())).unwrap();
            Own::all().map(read).collect()
        };
        write_sources(&sources, "#ifdef EQUIPOISE_EXPLAINS\nu64 reasons;\n#endif");
        write_own(Some(&sources), &folder).unwrap();
        let written = objects();
        for (own, image) in Own::all().zip(&written) {
            let object = Object::parse(own.name, image.clone()).unwrap();
            assert_eq!(object.variable("reasons").is_some(), own.explains);
        }
        assert!(folder.join("scheduler/equipoise/main.bpf.c").exists());

        write_sources(&sources, "int f( {}");
        let error = write_own(Some(&sources), &folder).unwrap_err().0;
        let first = "the scheduler cfs does not compile:\n";
        assert!(
            error.starts_with(first) && error.contains("main.bpf.c:2:"),
            "{error}"
        );
        assert_eq!(objects(), written);
    }
}
